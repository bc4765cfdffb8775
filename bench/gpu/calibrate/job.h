/* fusec_gpu_calibrate: asks a GPU what it makes of each instruction, and compares.
 *
 * A job is a kernel around one instruction, with its inputs; all of it is made here, the same on every machine.
 *     instructions.c job_instructions.c    what works on registers
 *     job_matrix.c job_wgmma.c             ldmatrix, stmatrix, mma.sync, wgmma
 *     job_copies.c                         tensor copies, bulk reductions, atomics
 *     device.c                             runs jobs through whatever libcuda.so.1 there is
 *     vectors.c compare.c                  results as lines of text, and their differences */
#ifndef FUSEC_CALIBRATE_JOB_H
#define FUSEC_CALIBRATE_JOB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- text that grows ------------------------------------------------------------------------------------- */
typedef struct Text {
    char *data; /* owned; with a NUL */
    size_t length, room;
} Text;
/* Ends the program if memory is short. */
void text_add(Text *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *);

/* ---- numbers --------------------------------------------------------------------------------------------- */
typedef enum Element { U16, U32, U64, S32, F16, BF16, TF32, F32, F64, E4M3, E5M2, S8, U8, S4, U4, ELEMENTS } Element;
const char *element_name(Element);
Element element_named(const char *name); /* ELEMENTS: none */
int element_bits(Element);
bool element_is_float(Element);
bool element_is_nan(Element, uint64_t bits);
double element_value(Element, uint64_t bits);           /* of a floating type */
uint64_t element_ulps(Element, uint64_t a, uint64_t b); /* representable numbers between; neither is a NaN */
uint64_t element_significant(Element, uint64_t bits);   /* without bits that the ISA leaves undefined */
uint64_t hash_word(uint64_t hash, uint64_t word);
uint64_t random_word(uint64_t *state);

/* How inputs of a matrix operation are drawn. */
typedef enum Draw {
    DRAW_WHOLE,  /* small whole numbers: every sum is exact, in any order */
    DRAW_UNIT,   /* between -2 and 2 */
    DRAW_WIDE,   /* many exponents: sums lose digits, and cancel */
    DRAW_SPECIAL /* any bits: infinities, NaNs, subnormals */
} Draw;
uint64_t element_draw(Element, Draw, uint64_t *state);
extern const char *const draw_names[];

/* ---- jobs ------------------------------------------------------------------------------------------------ */
typedef enum Judgement {
    EXACT,  /* the same bits; NaNs count as equal, and are told apart by another hash */
    APPROX, /* an approximation: distance in ULP, against the error that the ISA allows */
    SUM     /* a sum in unspecified order and width: distance, against the largest result */
} Judgement;
extern const char *const judgement_names[];

enum { JOB_NAME = 112, JOB_MEMORY = 65536, JOB_TENSORS = 5 };

/* A tensor at the input's beginning, as cuTensorMapEncodeTiled takes it. */
typedef struct Tensor {
    int type, rank, swizzle, fill;
    uint64_t size[JOB_TENSORS], stride[JOB_TENSORS]; /* bytes, of dimensions 1 and up */
    uint32_t box[JOB_TENSORS], step[JOB_TENSORS];
    int32_t at[JOB_TENSORS];
} Tensor;

typedef struct Job Job;
struct Job {
    char name[JOB_NAME]; /* no blanks; unique */
    Judgement judgement;
    /* The output: records of `record` bytes, with `each` results of type `element` at `offset`; the rest must be the
     * same bits anywhere. */
    Element element;
    uint32_t record, offset, each;
    uint32_t in_bytes, out_bytes; /* at most JOB_MEMORY */
    uint32_t blocks, threads, shared;
    bool has_tensor;
    Tensor tensor;
    /* The body of .entry NAME(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128]); `label` is for names. */
    void (*body)(const Job *, Text *, int label);
    void (*fill)(const Job *, uint8_t *in, uint8_t *out); /* memory before the launch; zero when called */
    const char *text;                                     /* for body; lives as long as the list */
    int form[16];
};

typedef struct Jobs {
    Job *job; /* owned */
    int count, room;
    char (*texts)[160]; /* owned; what Job.text points into */
} Jobs;
Job *jobs_add(Jobs *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void jobs_make(Jobs *);
/* PTX with an entry kNUMBER for each of `count` jobs. */
void jobs_module(const Jobs *, int first, int count, const char *version, const char *target, Text *);
void jobs_free(Jobs *);
void jobs_of_instructions(Jobs *);
void jobs_of_matrices(Jobs *);
void jobs_of_warpgroups(Jobs *);
void jobs_of_copies(Jobs *);

#endif
