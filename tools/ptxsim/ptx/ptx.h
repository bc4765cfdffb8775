/* A PTX module, decoded once: every operand is a resolved slot, every instruction has its handler.
 * Source: the PTX ISA manual, versions 7.0 to 8.x. */
#pragma once
#include "tools/ptxsim/ptx/counters.h"
#include "tools/ptxsim/ptx/arena.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WARP = 32, MAX_VECTOR = 4, MOST_REGISTERS = 255 /* of a thread */ };

typedef enum PtxType {
    T_NONE,
#define TYPE(name, text, bytes, class) T_##name,
#include "tools/ptxsim/ptx/ptx_types.def"
#undef TYPE
    T_COUNT
} PtxType;
int type_bytes(PtxType);
const char *type_text(PtxType);
bool type_is_float(PtxType);
bool type_is_signed(PtxType);

typedef enum Space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM,
                     SPACE_CLUSTER /* shared::cluster: of any block of the cluster; SPACE_SHARED is the own block's */
} Space;

/* State spaces between which fence.proxy.async distinguishes. */
typedef enum ProxySpace { PROXY_SHARED, PROXY_GLOBAL, PROXY_SPACES } ProxySpace;
enum { PROXY_EVERYWHERE = (1 << PROXY_SPACES) - 1 };

/* Windows of the generic address space.  Global and constant memory lie elsewhere (memory.h). */
#define SHARED_WINDOW UINT64_C(0x100000000000)
#define LOCAL_WINDOW UINT64_C(0x110000000000)
#define PARAM_WINDOW UINT64_C(0x120000000000)
#define WINDOW_BYTES UINT64_C(0x10000000000)

typedef enum Special {
    SR_NONE,
#define SREG(text, name, type) SR_##name,
#include "tools/ptxsim/ptx/ptx_sregs.def"
#undef SREG
    SR_LOCAL_ADDRESS, /* hidden: the frame's offset in local memory plus `offset` */
    SR_COUNT
} Special;

/* Where 32 lanes of a value lie: bytes from the start of the frame's registers or of the constant pool.
 * A predicate is one uint32_t there. */
typedef struct Operand {
    uint32_t offset;
    uint8_t base;   /* BASE_* */
    uint8_t bytes;  /* of one lane; 0 for a predicate */
    bool negated;   /* predicate operand `!p` */
} Operand;
enum { BASE_NONE, BASE_REGS, BASE_POOL, BASE_MEET /* meet.c */, BASE_COUNT };

typedef enum Flow { FLOW_NEXT, FLOW_BRANCH, FLOW_SWITCH, FLOW_RET, FLOW_EXIT, FLOW_TRAP, FLOW_BARRIER, FLOW_CALL,
               FLOW_WAIT, /* the handler may suspend the warp */
               FLOW_MEET  /* *.sync among the lanes that operand e names */ } Flow;

typedef struct Warp Warp; /* exec.h */
typedef struct Inst Inst;
/* Executes one instruction for the lanes in `mask`. */
typedef void (*ExecFn)(Warp *, const Inst *, uint32_t mask);

typedef struct CallSite CallSite;
typedef struct MatrixForm MatrixForm; /* matrix.h */
typedef struct RegisterWatch RegisterWatch; /* wgmma_watch.c */

/* Three lines of 64 bytes: what every instruction reads, what some read, what few read. */
struct Inst {
    _Alignas(64) ExecFn run;
    Operand guard;  /* BASE_NONE: always */
    Operand d, a, b, c;
    uint8_t flow;   /* Flow */
    uint8_t op;     /* family-specific operation: compare, atomic, ... */
    uint8_t op2;
    uint8_t type, type2; /* PtxType */
    uint8_t space;  /* Space */
    uint8_t count;  /* vector elements; switch targets are in `offset` */
    uint8_t round;  /* ROUND_* */
    uint8_t kind;   /* CLASS_*: counters */
    bool hidden;    /* part of the next instruction, not counted */
    bool has_d2, saturate, flush, uniform, no_result;
    bool ordered; /* an access: not weak; a branch: back over one */

    uint8_t mix, flops;   /* profile.h: MIX_*, operations of a thread */
    uint8_t order, scope; /* ORDER_*, SCOPE_* of memory instructions and fences; 0: weak, and no scope */

    ExecFn inner;   /* what a wrapper handler calls (rounding modes) */
    Operand d2, e;  /* second result, fourth source */
    int64_t offset; /* of an address; or an immediate of the instruction */
    int32_t target; /* FLOW_BRANCH: instruction index */
    int32_t reconverge; /* index of the immediate post-dominator; code length stands for the exit */
    int32_t straight; /* instructions from here, this one included, up to the next that is not FLOW_NEXT */
    int32_t before;   /* instructions that count (not hidden) before this one */
    int32_t before_kind[CLASS_COUNT]; /* those by CLASS_* */
    const int32_t *targets; /* FLOW_SWITCH */
    CallSite *call;
    const void *more; /* operands beyond these, of a type that the handler knows */
    const MatrixForm *matrix; /* shape, types and the long operand lists of matrix instructions */

    Operand vec[MAX_VECTOR]; /* elements of a vector operand */
    int32_t line;
    bool store; /* `vec` goes to memory as it is: race_report.c */
};

typedef struct Variable {
    const char *name;
    Space space;
    uint64_t bytes;
    uint32_t align;
    uint64_t address;    /* global, const: device address; param: offset */
    bool dynamic;        /* extern shared [] */
    int64_t common;      /* shared, used by a device function: its fixed offset, else -1 */
    struct Variable *next;
} Variable;

typedef struct Function Function;
struct CallSite {
    Function *callee;
    int count, result_count, column;
    struct { uint32_t from, to, bytes; } *arg, *result; /* local frame offsets: caller -> callee, callee -> caller */
};

/* A function that every device has, declared .extern without a body: sizes of its result and arguments, 0: none. */
enum { BUILTIN_ARGUMENTS = 5 };
typedef struct Builtin {
    const char *name;
    uint8_t result, argument[BUILTIN_ARGUMENTS];
    void (*run)(Warp *, const CallSite *, uint32_t mask);
} Builtin;

typedef struct SpecialSlot {
    Special id;
    uint32_t slot;   /* register offset */
    uint8_t bytes;
    uint32_t offset; /* SR_LOCAL_ADDRESS */
} SpecialSlot;

struct Function {
    const char *name;
    bool entry, declared, defined;
    const Builtin *builtin; /* of a function that is not defined; NULL: none is known */
    Inst *code;             /* and one more, behind the last: its `before` counts all */
    const RegisterWatch *watch; /* by instruction; NULL: no wgmma here */
    int32_t count;
    int32_t number;         /* of code[0] among all instructions of the module */
    uint8_t *pool;          /* constants, each broadcast over 32 lanes */
    size_t pool_bytes;
    uint32_t register_bytes, register_count;
    SpecialSlot *special;
    int special_count;
    Variable **param;       /* formal parameters (entry: param space; func: local frame) */
    int param_count;
    Variable **result;
    int result_count;
    uint32_t param_bytes;   /* entry only */
    uint32_t shared_bytes;  /* static */
    bool reserved_shared;   /* asks where the shared memory is that the system has for itself */
    uint32_t local_bytes;   /* per thread, one frame */
    uint32_t max_threads[3], required_threads[3];
    bool has_max_threads, has_required_threads;
    uint32_t max_registers, min_blocks; /* .maxnreg, .minnctapersm; 0: not said */
    bool max_registers_ignored; /* .maxnreg said more than MOST_REGISTERS, which ptxas ignores with a warning */
    uint32_t required_cluster[3];       /* .reqnctapercluster; [0] is 0: not said */
    uint32_t max_cluster_rank;          /* .maxclusterrank; 0: not said */
    bool explicit_cluster;              /* .explicitcluster: a launch must give cluster dimensions */
    bool calls, global_atomics, barriers; /* of the code and everything it calls */
    bool waits;             /* has griddepcontrol.wait */
    int line, column;       /* of its name */
    Function *next;
};

/* Allocates and fills module variables; the parser's only view of device memory. */
typedef struct ModuleMemory {
    void *self;
    uint64_t (*allocate)(void *self, const char *name, uint64_t bytes, uint32_t align, bool constant);
    void (*initialise)(void *self, uint64_t address, uint64_t offset, const void *data, uint64_t bytes);
} ModuleMemory;

typedef struct Module {
    SimArena arena;
    Function *functions;
    Variable *variables;
    int version;  /* 80 for 8.0 */
    int target;   /* 80 for sm_80 */
    bool specific; /* sm_90a */
    int address_bits;
    int32_t instructions; /* of all functions, and one more for each */
    uint32_t common_shared; /* bytes of shared variables that device functions use */
} Module;

typedef struct ParseError {
    int line, column;
    char text[256];
} ParseError;

/* Parses and decodes; NULL and `error` filled on any construct that is unknown or wrong.  `device` is the compute
 * capability times 10 (80, 90): a newer .target is refused. */
Module *module_parse(const char *text, size_t length, int device, const ModuleMemory *, ParseError *error);
void module_free(Module *);
Function *module_function(const Module *, const char *name);
Variable *module_variable(const Module *, const char *name);
