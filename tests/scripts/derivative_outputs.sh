#!/bin/sh
# Derivatives that are outputs are computed by the kernels that those of a loss are: attention with its three gradients is three
# streams, in whatever order they are asked for.  An output alone has the bits that it has among the others.
. "$SRC/tests/support/script.sh"

# attention PRECISION DTYPE HEADS ROWS DEPTH ORDER..: the output and its gradients in this order
attention() {
    cat <<END
model m {
    $1
    q = param [$3, $4, $5] init normal(1.0)
    k = param [$3, $4, $5] init normal(1.0)
    v = param [$3, $4, $5] init normal(1.0)
    u = param [$3, $4, $5] init normal(1.0)
    o = softmax(where(causal($4), q @ transpose(k) * rsqrt($5.0), -inf)) @ v
    output o : $2
END
    type=$2
    shift 5
    for x in "$@"; do echo "    output d$x : $type = vjp(o, $x, u)"; done
    echo "}"
}

launches() { "$FUSEC" report m.dsl --target "$1" --entry infer | sed -n 's/^entry infer: \([0-9]*\) launches.*/\1/p'; }

for order in "q k v" "v k q" "k v q"; do
    attention "" f32 12 1024 64 $order > m.dsl
    n=$(launches sm_80)
    [ "$n" = 3 ] || fail "attention, gradients $order: $n launches"
    attention "precision bf16 weights bf16" bf16 12 1024 64 $order > m.dsl
    n=$(launches sm_90a)
    [ "$n" = 3 ] || fail "attention in bf16, gradients $order: $n launches"
done

attention "" f32 3 320 32 v q k > m.dsl
all_targets
"$FUSEC" verify m.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "wrong: $(cat log)"
cat >main.c <<'END_C'
#include "any_form.h"
enum { OUTPUTS = 4, COUNT = 3 * 320 * 32 };
static float all[OUTPUTS][COUNT], some[OUTPUTS][COUNT];

static void call(unsigned mask, float to[OUTPUTS][COUNT]) {
    float *at[OUTPUTS];
    begin();
    for (int o = 0; o < OUTPUTS; o++) {
        memset(to[o], 0xee, sizeof to[o]);
        at[o] = mask >> o & 1 ? to[o] : NULL;
    }
    const m_outputs out = {.o = at[0], .dv = at[1], .dq = at[2], .dk = at[3]};
    const m_inputs in = {0};
    const fusec_status s = m_infer(&model, &in, &out);
    if (s != FUSEC_OK) fprintf(stderr, "outputs %x: %s\n", mask, fusec_status_text(s)), exit(1);
    end();
}

int main(void) {
    call(15, all);
    for (unsigned mask = 0; mask < 15; mask++) {
        call(mask, some);
        for (int o = 0; o < OUTPUTS; o++) {
            const unsigned char *bytes = (const unsigned char *)some[o];
            MUST(!(mask >> o & 1) || !memcmp(some[o], all[o], sizeof all[o]));
            for (size_t b = 0; b < sizeof some[o]; b++) MUST(mask >> o & 1 || bytes[b] == 0xee); /* what is not given is not touched */
        }
    }
    return 0;
}
END_C
in_every_form m.dsl
[ "$(launches host)" -le 3 ] || fail "the softmax is in memory"
exit $bad
