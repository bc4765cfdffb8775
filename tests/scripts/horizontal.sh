# Horizontal fusion: unlike kernels that do not wait for each other are bundled into one launch: updates and final sums of any
# shape, weights that are rounded, gradients of products.  The numbers are those of launches of their own, bit for bit; the peak of memory is no higher; what
# calls may leave out stays apart, and so does what is not known to have a fixed size.
. "$SRC/tests/support/script.sh"
has_software_gpu || exit $bad

cat >layers.in <<'END'
model layers {
    precision PRECISION
    x = param [300, 40] init normal(1.0)
    h = gelu(layernorm(linear(x, 72) as a) as n)
    h = h * sigmoid(linear(h, 72) as b)
    loss = mean((linear(h, 24) as c)^2) + 0.01 * mean(exp(-0.1 * (param [17, 3, 5] init normal(1.0) as t)))
    output loss
    train loss with adamw(lr = 0.01)
}
END
# no update of one player is in a launch with the other's: either may be asked for alone
cat >players.dsl <<'END'
layer mlp(x, h, n) { return linear(tanh(linear(x, h) as up), n) as down }
model players {
    noise = param [64, 12] init normal(1.0)
    real = param [64, 16] init normal(1.0)
    fake = mlp(noise, 40, 16) as generator
    on_real = mlp(real, 24, 1) as judge
    on_fake = mlp(fake, 24, 1) sharing judge
    loss_judge = mean(softplus(-on_real) + softplus(on_fake))
    loss_generator = mean(softplus(-on_fake))
    output loss_judge
    train loss_judge as judge with adam(lr = 0.01) only "judge.*"
    train loss_generator as generator with adam(lr = 0.02) only "generator.*"
}
END
# as many rows as a call has: programs are counted when it is launched
cat >bounded.dsl <<'END'
dim N <= 50
model bounded {
    input x : f32[N, 20]
    h = tanh(linear(x, 30) as a)
    loss = mean((linear(h, 7) as b)^2)
    output loss
    train loss with adam(lr = 0.01)
}
END

launches() { "$FUSEC" report m.dsl --entry step --target "$@" | sed -n 's/^entry step: \([0-9]*\) launches/\1/p'; }
arena() { "$FUSEC" report m.dsl --entry step --target "$@" | sed -n 's/^  arena //p'; }

# check ARCH SAVED OPTION..: so many launches fewer, at least; the same new parameters and states
check() {
    arch=$1 saved=$2
    shift 2
    together=$(launches $arch "$@") apart=$(launches $arch -fno-horizontal "$@")
    [ $((apart - together)) -ge "$saved" ] || fail "$what on $arch: $together launches, $apart without"
    [ "$(arena $arch "$@")" -le "$(arena $arch -fno-horizontal "$@")" ] || fail "$what on $arch: takes memory"
    both_ways horizontal m.dsl step cuda --arch $arch "$@" || return
    cmp -s with.safetensors without.safetensors || fail "$what on $arch: other numbers"
    both_ways horizontal m.dsl step cuda --arch $arch --steps 3 "$@" || return
    cmp -s with.safetensors without.safetensors || fail "$what on $arch: other numbers after three steps"
}

for precision in f32 bf16 tf32; do
    sed "s/PRECISION/$precision/" layers.in >m.dsl
    for arch in sm_80 sm_90a; do
        what="layers in $precision"
        check $arch 2
    done
done
what=players
cp players.dsl m.dsl
check sm_80 1
for line in judge generator; do
    what="line $line"
    both_ways horizontal m.dsl step cuda --arch sm_80 --line $line || continue
    cmp -s with.safetensors without.safetensors || fail "$what: other numbers"
done
what=bounded
cp bounded.dsl m.dsl
for N in 1 49 50; do
    "$FUSEC" verify m.dsl --target cuda --rounds 1 --quiet -D N=$N >log 2>&1 || fail "$what, N = $N: $(cat log)"
done
"$FUSEC" report players.dsl --target sm_80 --entry step | grep -q ' kernels in one launch' || fail "no launch of several kernels is reported"
exit $bad
