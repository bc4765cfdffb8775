/* What the files of this folder share: the unit, the state of printing one kernel. */
#ifndef FUSEC_CODEGEN_C99_INTERNAL_H
#define FUSEC_CODEGEN_C99_INTERNAL_H
#include "codegen/c99/c99.h"

typedef enum {
#define HELPER(e, needs, text) C99_##e,
#include "codegen/c99/helpers.def"
#undef HELPER
    C99_HELPERS
} C99Helper;

struct C99Unit {
    Arena *arena;
    VEC(char *) kernels; /* printed text */
    uint64_t helpers;    /* bit set of C99Helper */
    bool math[OP_COUNT]; /* functions of codegen/math in use */
    C99Stack stack;
};

enum { MAX_YIELDS = 64 }; /* values one loop may carry */

/* How a value is held. */
typedef enum {
    HOLD_INLINE, /* computed where it is used, as an expression or a temporary of the innermost loop */
    HOLD_NAMED   /* a variable or local array of its own, filled where it is defined */
} Hold;

typedef struct Val {
    const Inst *def; /* NULL: carried by a loop */
    int uses;        /* operand positions, gathers included */
    int cost;        /* steps to recompute one lane, inline operands included */
    Hold hold;
    const char *storage;   /* NAMED, once declared: the variable or array */
    TileType storage_type; /* its lane axes are the array's dimensions */
    const char *temporary; /* INLINE: name while a temporary is in scope */
    int temporary_depth;
} Val;

typedef struct AxisName {
    const char *index, *base, *end; /* one element; first of the tile; past its last */
    const char *type;               /* int32_t, or int64_t for an axis past its range */
    int step;                       /* lanes after collapsing */
    bool open;                      /* `index` is in scope */
    bool descends;                  /* lanes are summed from the last to the first, in which order memory is read */
} AxisName;

typedef struct Printer {
    C99Unit *unit;
    Arena *arena;
    Kernel *k;
    FILE *f;
    int depth; /* open braces; four spaces each */
    Val *val;
    AxisName axis[MAX_AXES];
    const char **buffer;
    const char **sym;
    C99Names names;
    int64_t array_bytes;
    int n_values;
    const Inst *loop;   /* the innermost FOR or IF whose body is being printed */
    const char *failed; /* why the kernel has no C form */
} Printer;

/* ---- analyse.c: what is collapsed, what is held ------------------------------------------------------- */
void c99_analyse(Printer *p);
/* Axes of t that are more than one lane wide; their extents are the array dimensions. */
int c99_lane_axes(const Printer *p, const TileType *t, int8_t *axes);
bool c99_has_lanes(const Printer *p, int axis);
/* True for a value that can be computed lane by lane where it is used; it may be NAMED all the same. */
bool c99_is_inline(const Printer *p, const Inst *i);
/* Axes an instruction's own loop runs over, results' axes first, then the axes summed over. */
int c99_nest(const Printer *p, const Inst *i, int8_t *axes);
bool c99_is_in_place(const Printer *p, const Inst *loop, int c); /* the loop's carry c is updated by a DOT in place */
/* outer's carry c enters an inner FOR or IF, whose result it becomes, and nothing else reads it: both can be one
 * variable.  The inner instruction and its slot, or -1. */
int c99_shared_slot(const Printer *p, const Inst *outer, int c, const Inst **inner);
bool c99_mentions_carry(const Printer *p, int value, int carry); /* through inline values */

/* ---- expr.c: values as C expressions -------------------------------------------------------------------- */
/* Precedence of C's operators, tightest first. */
typedef enum {
    LEVEL_ATOM,
    LEVEL_UNARY,
    LEVEL_PRODUCT,
    LEVEL_SUM,
    LEVEL_RELATION,
    LEVEL_EQUALITY,
    LEVEL_AND,
    LEVEL_OR,
    LEVEL_CHOICE
} Level;
typedef struct Text {
    const char *s;
    Level level;
} Text;
Text c99_value(Printer *p, int value);             /* may print temporaries first */
Text c99_compute(Printer *p, const Inst *i);       /* the expression of an inline instruction */
void c99_name(Printer *p, int value);              /* prints the value as a temporary of the innermost block */
void c99_prepare(Printer *p, int value);           /* prints temporaries whose axes are all open */
char *c99_place(Printer *p, int value);            /* a NAMED value's variable or array element, as an lvalue */
char *c99_element(Printer *p, const Inst *access); /* LOAD, STORE: buffer[offset] */
Text c99_operation(Printer *p, Op op, DType operand, DType result, const Text *in); /* elementwise */
/* x as memory has it. */
Text c99_to_memory(Printer *p, DType t, Text x);
Text c99_index(Printer *p, const Index *x, bool wide);
const char *c99_operand(Printer *p, Text t, Level most); /* parenthesised if it binds less than `most` */
const char *c99_extent(Printer *p, Dim d);
void c99_line(Printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- math_text.c ------------------------------------------------------------------------------------------ */
void c99_print_math(FILE *f, Arena *a, Op op);
uint64_t c99_math_helpers(Op op); /* the helpers that the function calls */
int c99_math_values(Op op);       /* how many values it names */

/* ---- unit.c ------------------------------------------------------------------------------------------------ */
void c99_use(C99Unit *u, C99Helper h);

#endif
