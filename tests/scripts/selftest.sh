#!/bin/sh
# --selftest: the C99 form, the host form and the CUDA form on the software GPU pass their own test, leave the parameters as
# init made them, and fail it with FUSEC_E_SELFTEST once the code computes something else.  Without the option there is no
# trace of the test.
. "$SRC/tests/support/script.sh"
mkdir c99 host gpu infer || exit 1

cat >m.dsl <<'END'
dim B <= 12
model m {
    input image : f32[B, 10]
    input label : i32[B] in 0..4
    x = layernorm(linear(image, 24) as hidden) as norm
    logits = linear(dropout(gelu(x), 0.25), 4) as head
    loss = mean(cross_entropy(logits, label))
    output loss
    output best = argmax(logits)
    train loss with adam(lr = hyper 0.01)
}
END
cat >main.c <<'END'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static m model;
static void *block(size_t n) { return aligned_alloc(256, (n / 256 + 1) * 256); }
static char before[M_PARAM_BYTES], after[M_PARAM_BYTES];
#ifdef M_DEVICE_BYTES
static void get(void *to) { fusec_cuda_read(&model.cuda, FUSEC_R_PARAM, 0, to, M_PARAM_BYTES); }
static fusec_status start(void) {
    const m_options options = {.seed = 3};
    return m_init(&model, NULL, &options);
}
#else
static void *params;
static void get(void *to) { memcpy(to, params, M_PARAM_BYTES); }
static fusec_status start(void) {
    const m_options options = {.seed = 3};
    const m_memory memory = {.params = params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES,
        .states = block(M_STATE_BYTES), .state_bytes = M_STATE_BYTES, .grads = block(M_GRAD_BYTES),
        .grad_bytes = M_GRAD_BYTES, .arena = block(M_ARENA_BYTES), .arena_bytes = M_ARENA_BYTES};
    memset(params, 0, M_PARAM_BYTES);
    return m_init(&model, &memory, &options);
}
#endif
int main(void) {
    fusec_status s = start();
    char *scratch = block(M_SELFTEST_BYTES + 1);
    if (s) printf("init: %s\n", fusec_status_text(s));
    if (s) return 1;
    get(before);
    scratch[M_SELFTEST_BYTES] = 77;
    s = m_selftest(&model, scratch);
    get(after);
    if (scratch[M_SELFTEST_BYTES] != 77 || memcmp(before, after, M_PARAM_BYTES)) return 2;
    if (m_selftest(&model, scratch + 4) != FUSEC_E_ARGUMENT || m_selftest(NULL, scratch) != FUSEC_E_ARGUMENT) return 3;
    if (m_selftest(&model, scratch) != s) return 4;
    printf("%s\n", fusec_status_text(s));
    return 0;
}
END
flags='-std=c11 -Wall -Wextra -Werror -O1'
right=ok wrong='the self-test gave other numbers than the compiler'
expect() { # WHAT TEXT COMMAND...
    what=$1 text=$2
    shift 2
    got=$("$@") || die "$what: exit $? $got"
    [ "$got" = "$text" ] || die "$what: $got"
}

"$FUSEC" m.dsl -o c99/m.c --selftest || exit 1
${CC:-cc} $flags -Ic99 main.c c99/m.c -lm -o c99/run || exit 1
expect c99 "$right" ./c99/run
# One operator of one kernel at a time: in each matrix product of entry grad, the sum becomes a difference.
mkdir bad && cp c99/m.h bad/ || exit 1
kernels=$(sed -n 's/^FUSEC_KERNEL \(grad_contract_[0-9]*\)(.*/\1/p' c99/m.c)
[ "$(echo "$kernels" | wc -l)" -ge 3 ] || die "too few kernels: $kernels"
for kernel in $kernels; do
    awk -v start="^FUSEC_KERNEL $kernel\\(" '$0 ~ start { k = 1 } k && sub(/ \+= /, " -= ") { k = 0 } 1' c99/m.c >bad/m.c
    cmp -s bad/m.c c99/m.c && die "nothing changed in $kernel"
    ${CC:-cc} $flags -Ibad main.c bad/m.c -lm -o bad/run || exit 1
    expect "$kernel" "$wrong" ./bad/run
done

"$FUSEC" m.dsl -o host/m.o --selftest || exit 1
if [ -e "$BUILD/runtime/libfusec_host.a" ]; then
    ${CC:-cc} $flags $sanitize -Ihost main.c host/m.o "$BUILD/runtime/libfusec_host.a" -lm -lpthread -o host/run || exit 1
    ASAN_OPTIONS=detect_leaks=0 expect host "$right" ./host/run
fi

if has_software_gpu; then
    "$FUSEC" m.dsl -o gpu/m.ptx --arch sm_80 --selftest || exit 1
    ${CC:-cc} $flags $sanitize -Igpu main.c gpu/m.c -ldl -o gpu/run || exit 1
    cd gpu || exit 1
    expect cuda "$right" ./run
    awk '/entry grad_row/ { k = 1 } k && sub(/sub\.rn\.f32/, "add.rn.f32") { k = 0 } 1' m.ptx >changed
    cmp -s changed m.ptx && die "no subtraction in the PTX"
    mv changed m.ptx
    expect "changed PTX" "$wrong" ./run
    cd ..
fi

"$FUSEC" m.dsl -o infer/m.c && grep -qi selftest infer/m.c && grep -q 'fusec_sum m_' infer/m.c && die "a trace without --selftest"
"$FUSEC" m.dsl -o infer/m.c --entry step --selftest 2>message && die "there is nothing to test in entry step"
grep -q 'neither entry grad nor entry infer' message || die "$(cat message)"
"$FUSEC" m.dsl -o infer/m.c --entry infer --selftest || die "infer"
exit 0
