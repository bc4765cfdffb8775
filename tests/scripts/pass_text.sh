# The program after every pass, as text, against goldens; UPDATE=1 rewrites them.  tests/golden/passes/NAME.dsl gives
# NAME.PASS.txt for each pass of the table, entry step, with its kernels for the host; deep.dsl with recomputation, low.dsl
# with low precision, after the passes that it matters to.
dir=$SRC/tests/golden/passes
. "$SRC/tests/support/script.sh"
cd "$dir" || exit 1
passes=$("$FUSEC" --passes | awk '{ print $1 }')
[ -n "$passes" ] || { echo "no passes"; exit 1; }
for model in net deep low; do
    mode=none
    [ $model = low ] && passes="precision autodiff fuse tile"
    [ $model = deep ] && mode=sqrt
    for pass in $passes; do
        golden=$model.$pass.txt
        "$FUSEC" $model.dsl --entry step --checkpoint=$mode --target host --print-after=$pass -o "$work/x.tile" >"$work/out" || {
            echo "$model: compiling fails"
            bad=1
        }
        # of the two entries that are compiled, the step
        awk '/^# after /{ on = /entry step$/ } on' "$work/out" >"$work/text"
        if [ -n "${UPDATE:-}" ]; then cp "$work/text" "$golden"; fi
        if [ $model.$pass != net.checkpoint ] && [ ! -s "$work/text" ]; then
            echo "$model: nothing printed after $pass"
            bad=1
        fi
        diff -u "$golden" "$work/text" || { echo "FAIL $golden"; bad=1; }
    done
done
exit $bad
