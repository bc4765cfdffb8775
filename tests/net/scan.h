// A scan among the values of a program.  Its header reads sequences and what carries begin with; each `scan name` is one of them as its
// body sees it; its end reads what the carries become and what is emitted; each `scan` is a name that it leaves behind.  The values
// between, but for inputs and parameters, are its body.
// A `repeat` and a layer of the program's own are such blocks too: all operands of the header of a `repeat` are carries, and those
// of a layer's are its arguments, whose names are the formals; what a layer emits it returns.  A call that shares the parameters
// of a layer is one value more, with the end of the first call and the arguments as operands, and results of its own.
#pragma once
#include "tests/net/prog.h"

typedef enum { B_SCAN, B_REPEAT, B_LAYER } BlockKind; // `code` of the header
// Attributes of a header after those of its operands: how often a scan is done; then what a block of the other kinds needs.
enum { A_TIMES, A_LOW, A_ROUNDS, A_FOLLOWS, A_NAMED = A_LOW };

bool has_scan(const Prog *p);
bool is_scan(const Value *header);
bool is_repeat(const Value *v);
bool is_layer(const Value *v);
bool is_sharing(const Value *v);   // the call
bool in_rounds(const Prog *p, int scope); // of a scan, through layers as well
int layer_of(const Prog *p, int scope);   // the header of the layer whose text it is; -1: the model
Shape shape_in_call(const Prog *p, const Value *call, int id); // of a value in the body of a layer
int text_of(const Prog *p, int id);       // the layer in whose text a value stands: the end of one is a call in another
int index_now(const Eval *e, int header); // of a `repeat`
int least_index(const Value *header);
int most_index(const Prog *p, const Value *header);
static inline int block_attr(const Value *header, int a) { return header->attr[header->nargs + a]; }
bool is_header(const Value *v);
bool is_scan_part(const Value *v); // anything but the body
bool is_scan_name(const Value *v);
bool is_end(const Value *v);
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
int emissions(const Prog *p, int end); // of a call that shares: those of the first
bool visible(const Prog *p, int scope, int id); // from a body, or from none
bool in_scope(const Prog *p, int id, int scope); // within that body, or one inside it
bool becomes(const Value *header, const Value *next, const Value *first); // of a carry
void forget_body(Eval *e, int header);
// Drawing, for all blocks.
bool draw_names(Gen *g, int header);
void draw_body(Gen *g, int header);
int draw_end(Gen *g, int header, int count); // count: of what is emitted; -1: none of the program
bool draw_results(Gen *g, int end, Value *v);
int depth_of(const Gen *g);
void read_results(Gen *g, int from); // what sequences of loops are read for
