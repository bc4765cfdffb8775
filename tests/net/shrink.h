#pragma once
#include "tests/net/judge.h"
// Makes a failing program smaller while it fails in the same way; j becomes what the smaller one shows.
void shrink(Prog *p, const Command *c, Judgement *j);
