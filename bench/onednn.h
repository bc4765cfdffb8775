/* Convolutions by oneDNN, the peer of bench/conv.c. */
#ifndef FUSEC_BENCH_ONEDNN_H
#define FUSEC_BENCH_ONEDNN_H
#include <stdbool.h>

/* Images [batch, size, size, in], kernel [span, span, in, out] or, depthwise, [span, span, in] (out = in), results
 * [batch, results, results, out]; `pad` elements before and behind. */
typedef struct ConvShape {
    long batch, size, in, out, span, stride, pad, results;
    bool depthwise;
} ConvShape;

typedef enum { PASS_FORWARD, PASS_INPUT, PASS_KERNEL, CONV_PASSES } ConvPass;
typedef enum { LAYOUT_OWN, LAYOUT_NHWC, PEER_LAYOUTS } PeerLayout; /* what oneDNN likes best; images as NHWC */

/* What a run reads: the image, the kernel, the gradient of the result, in the layouts above. */
typedef struct ConvSet {
    const float *in[3];
} ConvSet;

enum { MOST_SETS = 64 };

typedef struct Peer Peer;

/* Prepares one pass for sets of arrays, 1 to MOST_SETS, which are reordered to what the implementation wants here,
 * outside what is timed.  NULL: oneDNN has no implementation. */
Peer *peer_open(const ConvShape *s, ConvPass pass, PeerLayout layout, int sets, const ConvSet *set);
void peer_run(Peer *p, int set);
void peer_run_arrays(Peer *p, int set); /* from the caller's arrays to one like them: with the time to reorder them */
const char *peer_implementation(const Peer *p);
/* The result of a set's last run in the layout above, in memory of the caller. */
void peer_result(Peer *p, int set, float *out);
void peer_close(Peer *p);

#endif
