#!/bin/sh
# The recipes of docs/adding.md work: a copy of the tree, changed as they say, is built, and what they promise is seen.
#
# A change is an indented block below a line that ends in "`FILE`, after `TEXT`:", "before `TEXT`:" (the first line of the file
# that has the text), "at its end:" or "new:".  Below "Seen:" stand commands, in which SRC is the copy.
. "$SRC/tests/support/script.sh"
command -v cmake >/dev/null || { echo "skipped: no cmake"; exit 77; }

# One file N.edit per block: path, how, text, then the block without its indentation; commands: one a line in `seen`.
awk '
    function flush() { if (name) close(name); name = "" }
    /^Seen:$/ { flush(); seen = 1; next }
    seen && /^    / { print substr($0, 5) > "seen"; next }
    seen && NF { seen = 0 }
    match($0, /`[^`]+`, (after|before) `.+`:$/) || match($0, /`[^`]+`, (at its end|new):$/) {
        flush()
        said = substr($0, RSTART + 1, RLENGTH - 2)
        path = said; sub(/`.*/, "", path)
        how = said; sub(/^[^`]*`, /, "", how)
        text = how; if (how ~ /`/) sub(/^[^`]*`/, "", text); else text = ""
        sub(/`$/, "", text)
        sub(/ .*/, "", how)
        name = sprintf("%02d.edit", ++n)
        printf "%s\n%s\n%s\n", path, how, text > name
        next
    }
    name && /^        / { print substr($0, 9) > name; filled[name] = 1; next }
    name && !NF { if (filled[name]) print "" > name; next }
    name { flush() }
' "$SRC/docs/adding.md"
ls ./*.edit >/dev/null 2>&1 || die "no recipe found"

mkdir tree
(cd "$SRC" && tar cf - --exclude=./build --exclude=./.git .) | tar xf - -C tree || die "no copy of the tree"
changes=0
for edit in *.edit; do
    path=$(sed -n 1p "$edit") how=$(sed -n 2p "$edit") text=$(sed -n 3p "$edit")
    sed 1,3d "$edit" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >block
    [ -s block ] || die "$path, $how $text: nothing to put there"
    [ "$how" = new ] || [ -e "tree/$path" ] || die "$path: there is no such file"
    case $how in
    new) cp block "tree/$path" ;;
    at) cat block >>"tree/$path" ;;
    *) grep -qF "$text" "tree/$path" || die "$path has no line with: $text"
        awk -v how="$how" -v text="$text" '
            BEGIN { while ((getline line < "block") > 0) block = block line "\n" }
            !done && index($0, text) { done = 1; if (how == "before") { printf "%s", block; print } else { print; printf "%s", block } next }
            { print }' "tree/$path" >changed && cp changed "tree/$path" ;;
    esac
    changes=$((changes + 1))
done
cmake -S tree -B tree/made -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O0 >log 2>&1 || die "$(tail -20 log)"
programs=$(grep -o '^test_[a-z0-9_]*' seen | sort -u)
# shellcheck disable=SC2086
make -s -j2 -C tree/made fusec $programs >log 2>&1 || die "the changed tree does not build: $(grep -m5 -A3 'error' log || tail -20 log)"
PATH=$work/tree/made:$work/tree/made/tests:$PATH
count=0
while IFS= read -r command; do
    count=$((count + 1))
    sh -c "$(printf '%s' "$command" | sed "s#\<SRC\>#$work/tree#g")" >log 2>&1 </dev/null || fail "$command: $(tail -20 log)"
done <seen
echo "$changes changes, $count commands"
exit $bad
