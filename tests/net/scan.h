// A scan among the values of a program.  Its header reads sequences and what carries begin with; each `scan name` is one of them as its
// body sees it; its end reads what the carries become and what is emitted; each `scan` is a name that it leaves behind.  The values
// between, but for inputs and parameters, are its body.
#pragma once
#include "tests/net/prog.h"

bool has_scan(const Prog *p);
bool is_header(const Value *v);
bool is_scan_part(const Value *v); // anything but the body
bool is_scan_name(const Value *v);
bool is_scan_result(const Value *v);
bool is_leaf(const Value *v);      // an input or a parameter
int end_of(const Prog *p, int header);               // -1: none yet
int header_name(const Prog *p, int header, int k);   // the value that stands for operand k of the header in the body; -1: none
int result_name(const Prog *p, int end, int k);      // the value that is result k, or -1
// Leaves among the values of a body are declared before the scan, but for parameters of the body.
bool before_scan(const Prog *p, int leaf, bool torch);
int rounds_of(const Prog *p, const Value *header);
int emission_axis(const Value *header);              // of the first sequence
int carries_of(const Value *header);
// What carry k of the header (an operand) becomes.
int next_of(const Prog *p, int end, int k);
// How often the whole scan is done, each time from where its carries were.
static inline int times_of(const Value *header) { return header->attr[header->nargs]; }
static inline bool is_carry(const Value *header, int k) { return header->attr[k] < 0; }
static inline int emissions(const Prog *p, int end) { return p->at[end].nargs - 1 - carries_of(&p->at[p->at[end].arg[0]]); }
bool visible(const Prog *p, int scope, int id); // from a body, or from none
bool in_scope(const Prog *p, int id, int scope); // within that body, or one inside it
