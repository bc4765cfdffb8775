#!/bin/sh
# `train` lines that are steps by themselves: each alone is, bit by bit, the step of the model that has that line only; turns and the
# count that an optimizer sees are those of a recurrence written out in awk; and in every form a call takes the lines and outputs it names.
. "$SRC/tests/support/script.sh"
cc=${CC:-cc}
quick_c
all_targets

cat >gan.dsl <<'END_DSL'
layer mlp(x, n) {
    h = linear(x, 24) as up
    state mean_of = zeros [24]
    if training { mean_of <- 0.9 * mean_of + 0.1 * mean(stop_gradient(h), axis = 0) }
    return linear(relu(h), n) as down
}
model m {
    input real : f32[12, 8]
    input noise : f32[12, 4]
    fake = mlp(noise, 8) as generator
    on_real = mlp(real, 1) as judge
    on_fake = mlp(fake, 1) sharing judge
    loss_judge = mean(softplus(-on_real) + softplus(on_fake))
    loss_generator = mean(softplus(-on_fake))
    output loss_judge
    output loss_generator
    output fake
    train loss_judge as judge with adam(lr = hyper 0.01 as lr_judge) only "judge.*" clip_norm 0.5
    train loss_generator as generator with adam(lr = hyper 0.02 as lr_generator) only "generator.*"
}
END_DSL
"$FUSEC" verify gan.dsl --target $targets --rounds 1 --quiet >log 2>&1 || fail "the lines of gan.dsl: $(cat log)"

# one line of several, and the model without the others
cat >in.c <<'END_C'
#include <stdio.h>
#include <string.h>
int main(void) {
    char head[160] = "{\"real\":{\"dtype\":\"F32\",\"shape\":[12,8],\"data_offsets\":[0,384]},"
                     "\"noise\":{\"dtype\":\"F32\",\"shape\":[12,4],\"data_offsets\":[384,576]}}";
    unsigned char n[8] = {(unsigned char)strlen(head)};
    fwrite(n, 1, 8, stdout), fputs(head, stdout);
    for (int i = 0; i < 144; i++) { float x = (float)(i * 37 % 29) / 15 - 1; fwrite(&x, 4, 1, stdout); }
}
END_C
"$cc" in.c -o in && ./in >in.safetensors || die "no inputs"
for target in $(echo $targets | tr , ' '); do
    for line in judge generator; do
        sed -e "/^    train/{/ as $line /!d}" -e "s/ as $line with/ with/" gan.dsl >one.dsl
        [ "$(grep -c '^    train' one.dsl)" = 1 ] || die "one.dsl has not one line"
        "$FUSEC" run gan.dsl --target $target --entry step --line $line --steps 3 --inputs in.safetensors --outputs got.out --quiet >log 2>&1 &&
            "$FUSEC" run one.dsl --target $target --entry step --steps 3 --inputs in.safetensors --outputs want.out --quiet >log 2>&1 &&
            "$BUILD/compare_safetensors" extract got.out param/ got.params && "$BUILD/compare_safetensors" extract want.out param/ want.params ||
            { fail "$line on $target: $(cat log)"; continue; }
        cmp -s got.params want.params || fail "$line on $target: other parameters than of the model with that line only"
    done
done

# turns: what `step` is in an optimizer's call and body is the line's own count, in the model the calls'; a line without a name has none
cat >turns.dsl <<'END_DSL'
optimizer slower(p, g, lr) { p <- p - lr * g / step }
model m {
    p = param [1] init ones
    q = param [1] init zeros
    r = param [1] init zeros
    a = sum((p - 2 * q - 1.5)^2) + 0.125 * step * sum(p)
    b = sum((q + p + r)^2)
    c = sum((r - p)^2)
    output a
    output b
    train a as first with slower(lr = 0.1 / (1 + step)) only "p"
    train b as second with slower(lr = 0.05) only "q"
    train c with slower(lr = 0.025 * step) only "r"
}
END_DSL
turns() { # LINE..: p, q and r after 7 steps
    awk -v lines="$*" 'BEGIN {
        n = split(lines, turn, " "); p = 1
        for (s = 1; s <= 7; s++) {
            t = n ? turn[(s - 1) % n + 1] : "all"
            gp = 2 * (p - 2 * q - 1.5) + 0.125 * s; gq = 2 * (q + p + r); gr = 2 * (r - p)
            if (t == "all" || t == "first") { k++; p -= 0.1 / (1 + k) * gp / k }
            if (t == "all" || t == "second") { l++; q -= 0.05 * gq / l }
            if (t == "all") r -= 0.025 * s * gr / s
        }
        printf "%.5f %.5f %.5f", p, q, r
    }'
}
values() { # FILE NAME..: the first value of each
    file=$1
    shift
    n=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
    for name; do
        at=$(dd if="$file" bs=1 skip=8 count="$n" 2>/dev/null | sed -n 's|.*"'"$name"'":{[^}]*"data_offsets":\[\([0-9]*\),.*|\1|p')
        od -An -v -t f4 -j $((8 + n + at)) -N 4 "$file"
    done | awk '{ printf "%s%.5f", (NR > 1 ? " " : ""), $1 }'
}
for target in $(echo $targets | tr , ' '); do
    for lines in '' 'first' 'second' 'first second' 'first first second'; do
        options=
        for line in $lines; do options="$options --line $line"; done
        # shellcheck disable=SC2086
        "$FUSEC" run turns.dsl --target $target --entry step $options --steps 7 --outputs got.out --quiet >log 2>&1 || fail "turns on $target: $(cat log)"
        # shellcheck disable=SC2086
        got=$(values got.out param/p param/q param/r) want=$(turns $lines)
        [ "$got" = "$want" ] || fail "turns '$lines' on $target: $got, not $want"
    done
done

# in every form: lines by function and by flag, outputs left out, and the inputs that only they need
cat >main.c <<'END_C'
#include "any_form.h"
static float real[96], noise[48], fake[96], loss[2];
typedef unsigned char Params[M_PARAM_BYTES];
/* Two calls with the flag's lines, or by the function of the line. */
static void steps(int lines, int by_name, unsigned outputs, int with_real, Params to) {
    const m_inputs in = {.real = with_real ? real : NULL, .noise = noise};
    const m_outputs out = {.loss_judge = outputs & 1 ? loss : NULL, .loss_generator = outputs & 2 ? loss + 1 : NULL, .fake = outputs & 4 ? fake : NULL};
    const void *input[2] = {in.real, in.noise};
    void *output[3] = {out.loss_judge, out.loss_generator, out.fake};
    begin();
    for (int s = 1; s <= 2; s++) {
        fusec_status status;
        if (by_name) status = lines == 1 ? m_step_judge(&model, &in, &out, NULL) : lines == 2 ? m_step_generator(&model, &in, &out, NULL) : m_step(&model, &in, &out, NULL);
        else status = m_run(M_CALLED, FUSEC_STEP | lines << 16, input, output, NULL, s, 0, NULL);
        if (status != FUSEC_OK) fprintf(stderr, "lines %d, outputs %u: %s\n", lines, outputs, fusec_status_text(status)), exit(1);
    }
    read_memory(FUSEC_R_PARAM, to, sizeof(Params));
    end();
}
static void changed(const Params a, const Params b, int *judge, int *generator) {
    *judge = *generator = 0;
    for (uint32_t i = 0; i < m_manifest.n_params; i++) {
        const fusec_tensor *t = &m_manifest.params[i];
        *(strncmp(t->name, "judge.", 6) ? generator : judge) |= memcmp(a + t->offset, b + t->offset, t->bytes) != 0;
    }
}
int main(void) {
    static Params first, want, got;
    int judge, generator;
    for (int i = 0; i < 96; i++) real[i] = (float)(i * 37 % 29) / 15 - 1;
    for (int i = 0; i < 48; i++) noise[i] = (float)(i * 11 % 31) / 16 - 1;
    MUST(m_manifest.n_lines == 2);
    begin(), read_memory(FUSEC_R_PARAM, first, sizeof first), end();
    for (int lines = 0; lines < 4; lines++) {
        steps(lines, 0, 7, 1, want);
        changed(first, want, &judge, &generator);
        MUST(judge == (lines != 2) && generator == (lines != 1));
        for (unsigned outputs = 0; outputs < 8; outputs++) {
            steps(lines, 0, outputs, 1, got);
            MUST(!memcmp(got, want, sizeof got));
            steps(lines, 1, outputs, 1, got);
            MUST(!memcmp(got, want, sizeof got));
        }
        if (lines != 2) continue;
        steps(lines, 1, 6, 0, got); /* what the generator and its loss read has no `real` in it */
        MUST(!memcmp(got, want, sizeof got));
    }
    const m_inputs in = {.noise = noise};
    const m_outputs out = {.loss_judge = loss}, none = {0};
    begin();
    MUST(m_step_generator(&model, &in, &out, NULL) == FUSEC_E_ARGUMENT);
    MUST(m_step_judge(&model, &in, &none, NULL) == FUSEC_E_ARGUMENT);
    MUST(m_step(&model, &in, &none, NULL) == FUSEC_E_ARGUMENT);
    const void *input[2] = {real, noise};
    void *output[3] = {loss, loss + 1, fake};
    const int wrong[] = {FUSEC_STEP | FUSEC_LINE(2), FUSEC_GRAD | FUSEC_LINE(0), FUSEC_INFER | FUSEC_LINE(1), FUSEC_STEP | 0x200, -1, FUSEC_ENTRIES};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        MUST(m_run(M_CALLED, wrong[i], input, output, NULL, 1, 0, NULL) == FUSEC_E_ARGUMENT);
    end();
    return 0;
}
END_C
sed -i '/mean_of/d' gan.dsl # which needs `real` in every call
CC=$cc
in_every_form gan.dsl
quick_c

# f16 and --check-finite; bf16 weights; states of two lines that are one value; more outputs than there are bits
cat >shared.dsl <<'END_DSL'
optimizer keep(p, g, lr) {
    state last = zeros like p
    last <- g
    p <- p - lr * g
}
model m {
    input x : f32[7, 5]
    p = param [5] init normal(1.0)
    q = param [5] init normal(1.0)
    loss = sum(tanh(x * (p + q))^2)
    output loss
    train loss as first with keep(lr = 0.1) only "p"
    train loss as second with keep(lr = 0.2) only "q"
}
END_DSL
sed 's/^model m {/&\n    precision f16/' gan.dsl >f16.dsl
sed 's/^model m {/&\n    precision bf16 weights bf16/' gan.dsl >bf16.dsl
{ sed '/^    train/,$d' gan.dsl
  i=0
  while [ $i -lt 60 ]; do echo "    output o$i = mean(fake) + $i * loss_judge"; i=$((i + 1)); done
  sed -n '/^    train/,$p' gan.dsl; } >many.dsl
for form in f16 bf16 many 'gan --check-finite' turns shared; do
    # shellcheck disable=SC2086
    "$FUSEC" verify ${form%% *}.dsl $(echo "$form" | sed 's/^[a-z0-9]*//') --target $targets --rounds 1 --quiet >log 2>&1 || fail "$form: $(cat log)"
done
# an output without a bit is given in every step
cat >main.c <<'END_C'
#include "any_form.h"
enum { OUTPUTS = 63 };
int main(void) {
    static float real[96], noise[48], value[OUTPUTS][96];
    const void *input[2] = {real, noise};
    void *output[OUTPUTS];
    MUST(m_manifest.n_outputs == OUTPUTS);
    begin();
    for (int o = 0; o < OUTPUTS; o++) output[o] = value[o];
    for (int left_out = 0; left_out < OUTPUTS; left_out++) {
        output[left_out] = NULL;
        const fusec_status s = m_run(M_CALLED, FUSEC_STEP | FUSEC_LINE(0), input, output, NULL, 1, 0, NULL);
        MUST(s == (left_out < FUSEC_FIRST_LINE ? FUSEC_OK : FUSEC_E_ARGUMENT));
        output[left_out] = value[left_out];
    }
    end();
    return 0;
}
END_C
CC=$cc
in_every_form many.dsl

# errors
bad_model() { # WHAT SED-SCRIPT
    sed "$2" gan.dsl >bad.dsl
    "$FUSEC" check bad.dsl >log 2>&1 && fail "$1 is taken"
    grep -q "$1" log || fail "not '$1': $(cat log)"
}
bad_model "two \`train\` lines are named 'judge'" 's/as generator with/as judge with/'
{ echo 'model m {'
  i=0
  while [ $i -lt 16 ]; do printf '    p%d = param [1] init ones\n    l%d = sum(p%d)\n    train l%d as s%d with sgd(lr = 0.1) only "p%d"\n' $i $i $i $i $i $i; i=$((i + 1)); done
  echo '    output l0'; echo '}'; } >sixteen.dsl
"$FUSEC" check sixteen.dsl >log 2>&1 && fail "16 lines are taken"
grep -q 'at most 15' log || fail "16 lines: $(cat log)"
"$FUSEC" run gan.dsl --entry step --line jugde --inputs in.safetensors >log 2>&1 && fail "an unknown line is taken"
grep -q 'did you mean judge?); there are: judge, generator$' log || fail "unknown line: $(cat log)"
sed -i 's/ as generator with/ with/' gan.dsl
"$FUSEC" run gan.dsl --entry step --line x --inputs in.safetensors >log 2>&1 && fail "an unknown line is taken"
grep -q 'named x; there are: judge$' log || fail "unknown line of one: $(cat log)"
"$FUSEC" run gan.dsl --line judge >log 2>&1 && fail "--line is taken by infer"
exit $bad
