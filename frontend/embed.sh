#!/bin/sh
# embed.sh NAME FILE...: prints a C file with `const struct embedded NAME[]` = {file name, text}, ended by NULLs.
name=$1; shift
echo 'struct embedded { const char *name, *text; };'
echo "extern const struct embedded $name[];"
echo "const struct embedded $name[] = {"
for f; do
  printf '{"%s",\n' "$(basename "$f")"
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$f"
  echo '},'
done
echo '{0, 0}};'
