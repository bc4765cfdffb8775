/* What the benchmarks make of an error of oneDNN. */
#ifndef FUSEC_BENCH_ONEDNN_REQUIRE_H
#define FUSEC_BENCH_ONEDNN_REQUIRE_H
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>

static inline void require(dnnl_status_t s, const char *what) {
    if (s == dnnl_success) return;
    fprintf(stderr, "onednn: %s: status %d\n", what, (int)s);
    exit(1);
}

#endif
