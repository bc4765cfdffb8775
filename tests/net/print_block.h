// What the text of scans, of `repeat` and of layers is made of.
#pragma once
#include "tests/net/scan.h"
void begin(FILE *f, const Prog *p, int id);
void print_emitted_names(FILE *f, const Prog *p, int end);
void print_header_name(FILE *f, const Prog *p, int header, int k, bool torch);
int emitted(const Prog *p, int end, int k);
void print_repeat(FILE *f, const Prog *p, int header);
void print_block_precision(FILE *f, const Prog *p, int header);
void print_call(FILE *f, const Prog *p, int id); // of a layer's header, its end, or a call that shares; the first has no text
