/* The parser's state and its services for lowering.  Errors do not return: parse_fail jumps back to module_parse,
 * and everything allocated lies in the module's arena. */
#pragma once
#include "tools/ptxsim/ptx/lex.h"
#include "tools/ptxsim/ptx/ptx.h"
#include <setjmp.h>
#include <string.h>

typedef enum RawKind {
    RAW_REG,     /* slot, type */
    RAW_INT,     /* bits */
    RAW_F32,     /* bits */
    RAW_F64,     /* bits */
    RAW_VAR,     /* var + offset */
    RAW_NAME,    /* a label or function */
    RAW_VECTOR,  /* {item, ...} */
    RAW_LIST,    /* (item, ...) */
    RAW_ADDRESS, /* [item[0] + offset] */
    RAW_SINK,    /* _ */
    RAW_SPECIAL, /* special register */
} RawKind;

typedef struct Raw {
    RawKind kind;
    Token at;
    Operand slot;
    PtxType type;
    uint64_t bits;
    int64_t offset;
    Variable *var;
    Special special;
    bool negated;
    struct Raw *item;
    int count;
    struct Raw *second; /* d|p; [map, {coordinates}] */
} Raw;

typedef enum ModCategory {
    CAT_ROUND, CAT_FTZ, CAT_SAT, CAT_RELU, CAT_SATFINITE, CAT_PRECISE, CAT_NAN, CAT_HALF, CAT_CARRY, CAT_COMPARE,
    CAT_TEST, CAT_BOOL, CAT_SPACE, CAT_TO, CAT_VECTOR, CAT_ORDER, CAT_SCOPE, CAT_CACHE, CAT_NONCOHERENT, CAT_EVICT,
    CAT_PREFETCH, CAT_HINT, CAT_MMIO, CAT_ATOMIC, CAT_NOFTZ, CAT_SHUFFLE, CAT_VOTE, CAT_SYNC, CAT_WARP, CAT_ALIGNED,
    CAT_UNIFORM, CAT_INDEXED, CAT_DIRECTION, CAT_WRAP, CAT_SHIFTAMT, CAT_PERMUTE,
    CAT_XORSIGN, CAT_ABS,
    CAT_PACKED, /* no word: the instruction takes packed types */
    CAT_SHAPE, CAT_TILES, CAT_TRANS, CAT_FRAGMENT,
    CAT_WORDS, /* takes any dotted word, types too, and keeps their order: words.h */
    CAT_COUNT
} ModCategory;

/* Values within a category; 0 is "not given". */
enum { ROUND_RN = 1, ROUND_RNA, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNI, ROUND_RZI, ROUND_RMI, ROUND_RPI };
enum { PRECISE_APPROX = 1, PRECISE_FULL };
enum { HALF_LO = 1, HALF_HI, HALF_WIDE };
enum { COMPARE_EQ = 1, COMPARE_NE, COMPARE_LT, COMPARE_LE, COMPARE_GT, COMPARE_GE, COMPARE_EQU, COMPARE_NEU,
       COMPARE_LTU, COMPARE_LEU, COMPARE_GTU, COMPARE_GEU, COMPARE_NUM, COMPARE_NANTEST,
       COMPARE_LO, COMPARE_LS, COMPARE_HI, COMPARE_HS /* lt, le, gt, ge of unsigned integers */ };
enum { TEST_FINITE = 1, TEST_INFINITE, TEST_NUMBER, TEST_NOTANUMBER, TEST_NORMAL, TEST_SUBNORMAL };
enum { BOOL_AND = 1, BOOL_OR, BOOL_XOR, BOOL_POPC };
enum { VECTOR_V2 = 1, VECTOR_V4 };
enum { ORDER_WEAK = 1, ORDER_VOLATILE, ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_ACQ_REL, ORDER_SC };
enum { SCOPE_CTA = 1, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS };
enum { CACHE_CA = 1, CACHE_CG, CACHE_CS, CACHE_LU, CACHE_CV, CACHE_WB, CACHE_WT };
enum { EVICT_NORMAL = 1, EVICT_UNCHANGED, EVICT_FIRST, EVICT_LAST, EVICT_NO_ALLOCATE };
enum { PREFETCH_64 = 1, PREFETCH_128, PREFETCH_256 };
enum { ATOMIC_ADD = 1, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_INC, ATOMIC_DEC, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR,
       ATOMIC_EXCH, ATOMIC_CAS };
enum { SHUFFLE_UP = 1, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };
enum { VOTE_ALL = 1, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
enum { SYNC_SYNC = 1, SYNC_ARRIVE, SYNC_RED };
enum { DIRECTION_LEFT = 1, DIRECTION_RIGHT };
enum { WRAP_CLAMP = 1, WRAP_WRAP };
enum { PERMUTE_F4E = 1, PERMUTE_B4E, PERMUTE_RC8, PERMUTE_ECL, PERMUTE_ECR, PERMUTE_RC16 };
enum { TILES_X1 = 1, TILES_X2, TILES_X4 };
enum { FRAGMENT_A = 1, FRAGMENT_B, FRAGMENT_C, FRAGMENT_D };
enum { LAYOUT_ROW = 1, LAYOUT_COL };

enum { MAX_OPERANDS = 8, MAX_TYPES = 4, MAX_WORDS = 16, MAX_NESTING = 64 };

typedef struct Parser Parser;
typedef struct Stmt Stmt;
typedef struct OpRow {
    const char *name;    /* "ld"; or with its first dotted word, "cp.async", which then comes before "cp" */
    void (*lower)(Parser *, const Stmt *);
    int op;              /* OP_* */
    const char *shape;   /* operands of arithmetic: see lower_arith.c */
    uint64_t mods;       /* categories taken */
    int least, most;     /* operand count */
} OpRow;

struct Stmt {
    Token at;
    const OpRow *row;
    uint8_t mod[CAT_COUNT]; /* 0: absent */
    PtxType type[MAX_TYPES];
    uint16_t shape[3];      /* .m16n8k16: 16, 8, 16; .m8n8: 8, 8, 0 */
    uint8_t layout[2];      /* .row, .col, in the order given */
    uint8_t layouts;
    int types;
    Token word[MAX_WORDS];  /* CAT_WORDS: every dotted word after the name */
    int words;
    Raw operand[MAX_OPERANDS];
    int count;
    Operand guard;
};

typedef enum SymbolKind { SYM_REG, SYM_REGS, SYM_VAR, SYM_LABEL } SymbolKind;
typedef struct Symbol {
    const char *name;
    uint32_t length;
    SymbolKind kind;
    PtxType type;
    uint32_t slot;      /* SYM_REG, and the first of SYM_REGS */
    uint32_t many;      /* SYM_REGS: name0 .. name(many-1) */
    uint64_t local;     /* SYM_VAR in local memory: frame offset */
    bool is_label_set;
    Variable *var;
    int32_t index;      /* SYM_LABEL: instruction */
    const struct LabelSet *set;
    struct Symbol *next;      /* same bucket, older */
    struct Symbol *in_scope;  /* same scope, older */
    uint32_t bucket;
} Symbol;

/* `label: .branchtargets a, b, c;` */
typedef struct LabelSet {
    Token *name;
    int count;
} LabelSet;

typedef struct Pending { /* a branch to a label not seen yet */
    Token name;
    int32_t inst;
    int depth;
    int32_t *where; /* switch: the entry to fill */
    struct Pending *next;
} Pending;

enum { BUCKETS = 4096 };
struct Parser {
    Lexer lex;
    Token tok, ahead;
    Module *module;
    const ModuleMemory *memory;
    ParseError *error;
    jmp_buf escape;
    int device;
    Symbol *bucket[BUCKETS];
    Symbol *scope[MAX_NESTING];
    int depth;
    /* the function being decoded */
    Function *fn;
    size_t code_capacity, pool_capacity, special_capacity;
    Pending *pending;
    struct SharedUse *shared;   /* variables of this function with their offsets */
    struct DynamicUse *dynamic; /* pool entries that hold the start of dynamic shared memory */
    uint32_t dynamic_align;
    int operand_depth;
    uint32_t hash_slot[1024]; /* recent pool entries by hash: offset + 1 */
    uint8_t hash_bytes[1024];
};

_Noreturn void parse_fail(Parser *, Token at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void parse_next(Parser *);
bool parse_is(const Parser *, char punct);
bool parse_accept(Parser *, char punct);
void parse_expect(Parser *, char punct);
/* Most differ in the first character. */
static inline bool token_is(const Token *t, const char *text) {
    return t->length && *t->text == *text && !strncmp(t->text, text, t->length) && !text[t->length];
}
PtxType type_of_token(const Token *);
PtxType matrix_type_of_token(const Token *); /* element types that only matrix instructions have */
PtxType packed_type_of_token(const Token *); /* pairs in a register of bits, for instructions with CAT_PACKED */
int64_t parse_integer(Parser *);

/* parse_symbols.c */
void scope_enter(Parser *);
void scope_leave(Parser *);
Symbol *symbol_add(Parser *, Token name, SymbolKind);
const Symbol *symbol_find(const Parser *, const Token *name, uint32_t *member);
bool symbol_in_scope(const Parser *, const Token *name);

/* parse_vars.c */
void parse_registers(Parser *);
void parse_variable(Parser *, Space, bool external);
Variable *parse_parameter(Parser *);
uint64_t shared_offset(Parser *, Variable *, bool *dynamic);
Operand shared_dynamic(Parser *, const Variable *, int64_t addend, int bytes);
void variables_finish(Parser *);

/* parse_body.c */
void parse_body(Parser *, Function *);
void parse_function(Parser *, bool entry);

Function *function_named(const Parser *, const Token *); /* of the module, or NULL; lower_control.c */

/* lower.c: services for the lowering functions */
Inst *emit(Parser *, const Stmt *, ExecFn run);
uint32_t register_new(Parser *, int bytes);
Operand pool_constant(Parser *, uint64_t bits, int bytes);
Operand pool_constant_fresh(Parser *, int bytes);
Operand scratch(Parser *, int bytes);
Operand source(Parser *, const Stmt *, const Raw *, PtxType);
Operand source_any_width(Parser *, const Stmt *, const Raw *, PtxType);
Operand destination(Parser *, const Stmt *, const Raw *, PtxType);
Operand destination_any_width(Parser *, const Raw *, PtxType);
Operand predicate_source(Parser *, const Stmt *, const Raw *);
const Raw *scalar_of(const Raw *); /* {x}, a vector of one element, is x to ld, st and mov */
void address(Parser *, const Stmt *, const Raw *, Inst *);
void need_types(Parser *, const Stmt *, int count);
void pending_add(Parser *, Token name, int32_t inst, int32_t *where);
const OpRow *op_find(const Token *);
bool mod_find(const Token *, uint64_t allowed, ModCategory *, int *value);
bool mod_known(const Token *);
void cfg_finish(Parser *, Function *);

/* one family each; see ptx_ops.def */
void lower_arith(Parser *, const Stmt *);
void lower_mul(Parser *, const Stmt *);
void lower_compare(Parser *, const Stmt *);
void lower_select(Parser *, const Stmt *);
void lower_convert(Parser *, const Stmt *);
void lower_dot(Parser *, const Stmt *);
void lower_move(Parser *, const Stmt *);
void lower_lop3(Parser *, const Stmt *);
void lower_load(Parser *, const Stmt *);
void lower_store(Parser *, const Stmt *);
void lower_atomic(Parser *, const Stmt *);
void lower_cvta(Parser *, const Stmt *);
void lower_isspace(Parser *, const Stmt *);
void lower_fence(Parser *, const Stmt *);
void lower_nothing(Parser *, const Stmt *);
void lower_prefetch(Parser *, const Stmt *);
void lower_policy(Parser *, const Stmt *);
void lower_line(Parser *, const Stmt *);
void lower_branch(Parser *, const Stmt *);
void lower_switch(Parser *, const Stmt *);
void lower_call(Parser *, const Stmt *);
void lower_leave(Parser *, const Stmt *);
void lower_barrier(Parser *, const Stmt *);
void lower_shuffle(Parser *, const Stmt *);
void lower_vote(Parser *, const Stmt *);
void lower_match(Parser *, const Stmt *);
void lower_redux(Parser *, const Stmt *);
void lower_activemask(Parser *, const Stmt *);
void lower_cp_async(Parser *, const Stmt *);
void lower_cp_reduce(Parser *, const Stmt *);
void lower_store_async(Parser *, const Stmt *);
void lower_mbarrier(Parser *, const Stmt *);
void lower_proxy_fence(Parser *, const Stmt *);
void lower_map_replace(Parser *, const Stmt *);
void lower_map_copy(Parser *, const Stmt *);
void lower_rank(Parser *, const Stmt *);
void lower_cluster_barrier(Parser *, const Stmt *);
void lower_elect(Parser *, const Stmt *);
void lower_set_registers(Parser *, const Stmt *);
void lower_grid_control(Parser *, const Stmt *);
void lower_ldmatrix(Parser *, const Stmt *);
void lower_movmatrix(Parser *, const Stmt *);
void lower_mma(Parser *, const Stmt *);
void lower_wgmma(Parser *, const Stmt *);
void lower_wmma_memory(Parser *, const Stmt *);
void lower_wmma_mma(Parser *, const Stmt *);
void lower_wgmma_sync(Parser *, const Stmt *);
/* After a compare-and-swap: loads before it that guess its operand become relaxed (lower_guess.c). */
void relax_guess(Parser *);
/* After a function's last instruction: its registers that wgmma.mma_async names are watched (wgmma_watch.c). */
void matrix_watch(Parser *, Function *);
/* A dotted word of a matrix instruction: shape, layout, element type.  False: it is none. */
bool matrix_modifier(Parser *, Stmt *, const Token *);

typedef enum OpId {
    OP_NONE,
#define OP(name, id, family, shape, mods, least, most) OP_##id,
#include "tools/ptxsim/ptx/ptx_ops.def"
#undef OP
    OP_COUNT
} OpId;
