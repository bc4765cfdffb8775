# The PTX of a small model against a golden: the very text where LLVM is the version the golden was made with, which
# instructions occur elsewhere.  UPDATE=1 rewrites it.
dir=$SRC/tests/golden/ptx
. "$SRC/tests/support/script.sh"
version=$("$FUSEC" --version | sed 's/.*LLVM //')
opcodes() { sed -n 's/^[[:space:]]*\(@[!%a-z0-9]* *\)\{0,1\}\([a-z][a-z0-9]*\)\.[a-z0-9.]*[[:space:]].*;$/\2/p' "$1" | sort -u; }
for arch in sm_80; do
    "$FUSEC" "$SRC/tests/golden/passes/net.dsl" --entry infer --arch $arch -o "$work/net.ptx" || exit 1
    golden=$dir/net.$arch.ptx
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/net.ptx" "$golden"
        echo "$version" >"$dir/llvm-version"
    fi
    opcodes "$work/net.ptx" >"$work/have"
    opcodes "$golden" >"$work/want"
    [ -s "$work/want" ] || { echo "no instructions in $golden"; bad=1; }
    if [ "$version" = "$(cat "$dir/llvm-version")" ]; then
        cmp "$golden" "$work/net.ptx" || { diff "$golden" "$work/net.ptx" | head -40; bad=1; }
    else
        diff "$work/want" "$work/have" || { echo "net, $arch: other instructions than LLVM $(cat "$dir/llvm-version") chose"; bad=1; }
    fi
done
exit $bad
