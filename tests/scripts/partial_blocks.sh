# Blocks of a product that pass the rows and columns that exist multiply zeros there, not what the stack held: a denormal number
# among the operands costs a processor a hundred cycles and more, and x86 records that it met one.
. "$SRC/tests/support/script.sh"
case $(uname -m) in
x86_64) ;;
*) echo "skipped: only x86 tells of denormal operands" && exit 77 ;;
esac

cat >main.c <<'END'
#include "m.h"
#include <stdio.h>
#include <stdlib.h>
#include <xmmintrin.h>
enum { DENORMAL_OPERAND = 2, STACK = 1 << 20 };

static void *block(size_t n) { return aligned_alloc(M_ALIGN, (n / M_ALIGN + 1) * M_ALIGN); }

static __attribute__((noinline)) void leave_denormals(void) {
    volatile float below[STACK];
    for (int i = 0; i < STACK; i++) below[i] = 1e-41f;
}

int main(void) {
    static float x[1 << 20], y[1 << 20];
    for (int i = 0; i < 1 << 20; i++) x[i] = 1.0f + (float)(i % 7);
    const m_memory memory = {.params = block(M_PARAM_BYTES), .param_bytes = M_PARAM_BYTES,
                             .states = block(M_STATE_BYTES), .state_bytes = M_STATE_BYTES,
                             .grads = block(M_GRAD_BYTES), .grad_bytes = M_GRAD_BYTES,
                             .arena = block(M_ARENA_BYTES), .arena_bytes = M_ARENA_BYTES};
    m model;
    if (m_init(&model, &memory, &(m_options){.seed = 7, .threads = 1})) return 1;
    leave_denormals();
    _mm_setcsr(_mm_getcsr() & ~(unsigned)_MM_EXCEPT_MASK);
    if (m_infer(&model, &(m_inputs){.x = x}, &(m_outputs){.y = y})) return 1;
    if (!(_mm_getcsr() & DENORMAL_OPERAND)) return 0;
    puts("denormal operands");
    return 1;
}
END

n=0
while read -r shape precision of_x of_w y; do
    cat >m.dsl <<END
model m {
    input x : f32[$of_x]
    w = param [$of_w] init normal(1.0)
    precision $precision
    $y
    output y
}
END
    "$FUSEC" m.dsl --entry=infer -o m.o || die "$shape: is not compiled"
    "${CC:-cc}" -std=gnu11 -O1 -I. main.c m.o "$BUILD/runtime/libfusec_host.a" $sanitize -lm -lpthread -o main || die "$shape: no program"
    ./main || fail "$shape"
    n=$((n + 1))
done <<'END'
9_columns f32 200,64 64,9 y = x @ w
9_columns_of_many_terms f32 200,1000 1000,9 y = x @ w
33_columns_of_few_terms f32 100,20 20,33 y = x @ w
24_columns f32 200,64 64,24 y = x @ w
9_columns_stored_by_terms f32 200,64 9,64 y = x @ transpose(w)
300_columns_stored_by_terms f32 99,70 300,70 y = x @ transpose(w)
99_rows_stored_by_terms f32 70,99 70,300 y = transpose(x) @ w
13_rows f32 13,300 300,300 y = x @ w
batch f32 3,29,70 3,70,41 y = x @ w
products_of_two_axes f32 7,20,64 64,9 y[i, j, l] = sum[k] x[i, j, k] * w[k, l]
windows f32 3,11,13,5 3,3,5,9 y[b, i in 0..9, j in 0..11, f] = sum[r, s, c] x[b, i + r, j + s, c] * w[r, s, c, f]
windows_of_channels f32 3,11,13,21 3,3,21 y[b, i in 0..9, j in 0..11, c] = sum[r, s] x[b, i + r, j + s, c] * w[r, s, c]
bf16 bf16 200,64 64,9 y = x @ w
bf16_stored_by_terms bf16 99,70 300,70 y = x @ transpose(w)
END
[ "$n" = 14 ] || fail "$n shapes"
exit $bad
