// What a program should give, and whether the compiler's code gives it.
#pragma once
#include "tests/net/prog.h"

enum { MAX_RESULTS = 400 };
typedef enum { E_INFER, E_GRAD, E_STEP } Entry;
typedef struct { char name[112]; Type type; int size; int rank, n[MAX_RANK]; double *value, *error; } Result;
typedef struct { Result at[MAX_RESULTS]; int count; Eval eval; bool usable, infinite; long skipped, compared; } Expected;

// How the compiler is called, and where its files go.
typedef struct { const char *fusec, *target, *folder; } Command;

typedef enum { V_AGREES, V_DIFFERS, V_REFUSED, V_DIED, V_UNUSABLE } Verdict;
typedef struct {
    Verdict verdict;
    char tensor[112];
    int element;
    double got, want, bound;
    char message[2000];
} Judgement;

Entry entry_of(const Prog *p);
bool adds_up(const Prog *p);    // gradients of two calls
bool one_wanted(const Prog *p); // the first output only
void expect(const Prog *p, Entry entry, Expected *x);
void expected_free(Expected *x);
Judgement judge(const Prog *p, const Command *c, Expected *x);
const char *entry_name(Entry e);
void run_options(const Prog *p, const Command *c, char *text, size_t size); // of fusec run, but for the files

// Programs for PyTorch, and what it gave for them.
void export_torch(const Prog *p, const char *folder, uint64_t seed);
int check_goldens(const char *path, Kind what); // how many tensors differ; -1: no such file

// safetensors
typedef struct { char name[112]; char dtype[8]; int rank, n[8]; double *data; int size; } Stored;
bool stored_write(const char *path, const Stored *s, int count);
int stored_read(const char *path, Stored *s, int most); // -1: not a file of tensors
