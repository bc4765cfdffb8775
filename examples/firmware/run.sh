#!/bin/sh
# Compiles digits.dsl to C, trains it on this computer and on an emulated Cortex-M4, and compares the losses' bits.
#     FUSEC=path/to/fusec examples/firmware/run.sh [folder for what is built]
# Exit 77: the cross compiler or the emulator is missing.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/build}
fusec=${FUSEC:-fusec}
mkdir -p "$out"
command -v arm-none-eabi-gcc >/dev/null || { echo "firmware: arm-none-eabi-gcc is missing (gcc-arm-none-eabi)"; exit 77; }
command -v qemu-system-arm >/dev/null || { echo "firmware: qemu-system-arm is missing (qemu-system-arm)"; exit 77; }

"$fusec" "$here/digits.dsl" --target c99 -o "$out/model.c"
flags="-std=c99 -Wall -Wextra -Werror -ffreestanding -ffp-contract=off -O2 -I$out -I$here"
${CC:-cc} $flags "$here/main.c" "$here/host.c" "$out/model.c" -o "$out/host"
arm-none-eabi-gcc $flags -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffunction-sections \
    -fdata-sections -Wl,--gc-sections -nostartfiles -T "$here/mps2.ld" \
    "$here/main.c" "$here/startup.c" "$out/model.c" -o "$out/firmware.elf"
arm-none-eabi-size "$out/firmware.elf"

"$out/host" > "$out/host.txt"
qemu-system-arm -M mps2-an386 -display none -monitor none -serial none -chardev stdio,id=out \
    -semihosting-config enable=on,target=native,chardev=out -kernel "$out/firmware.elf" < /dev/null > "$out/firmware.txt"
cat "$out/firmware.txt"
test -s "$out/firmware.txt"
cmp "$out/host.txt" "$out/firmware.txt"
first=$(head -n 1 "$out/firmware.txt" | cut -c8-) last=$(tail -n 1 "$out/firmware.txt" | cut -c8-)
[ "$last" != "$first" ] && [ "$(printf '%s\n%s\n' "$last" "$first" | sort | head -n 1)" = "$last" ] ||
    { echo "firmware: the loss does not fall"; exit 1; }
echo "the same bits on this computer and on the Cortex-M4"
