#!/bin/sh
# ptxsim stat against figures worked out by hand, from a program and from a compiled model; ptxsim check; the bytes that
# fusec report --measured counts are those that it predicts.
. "$SRC/tests/support/script.sh"
sim=$BUILD/ptxsim
[ -x "$sim/ptxsim" ] || { echo "skipped: no software GPU"; exit 77; }

# 2 blocks of 128 threads, 8 warps: a coalesced load, shared memory with a stride of two banks, a store with a stride of 8
# bytes, an atomic on one word, a matrix product
cat >kernel.ptx <<'END'
.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 in, .param .u64 out, .param .u64 sum)
{
    .reg .b32 %r<12>;
    .reg .f32 %f<8>;
    .reg .b64 %d<10>;
    .shared .align 4 .b8 room[1024];
    ld.param.u64 %d1, [in];
    ld.param.u64 %d2, [out];
    ld.param.u64 %d3, [sum];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 128, %r2;
    mul.wide.u32 %d4, %r3, 4;
    add.s64 %d5, %d1, %d4;
    ld.global.f32 %f1, [%d5];
    mov.u32 %r4, room;
    shl.b32 %r5, %r2, 3;
    add.s32 %r6, %r4, %r5;
    st.shared.f32 [%r6], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%r6];
    fma.rn.f32 %f3, %f2, %f2, %f1;
    mul.wide.u32 %d6, %r3, 8;
    add.s64 %d7, %d2, %d6;
    st.global.f32 [%d7], %f3;
    red.global.add.u32 [%d3], %r2;
    mov.b32 %r7, 0;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%r7, %r7, %r7, %r7}, {%r7, %r7},
        {%f3, %f3, %f3, %f3};
    ret;
}
END
cat >main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
typedef unsigned long long Address;
int cuInit(unsigned), cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *), cuModuleLoad(void **, const char *);
int cuModuleGetFunction(void **, void *, const char *), cuMemAlloc_v2(Address *, size_t), cuMemFree_v2(Address);
int cuMemsetD8_v2(Address, unsigned char, size_t), cuModuleUnload(void *), cuCtxSynchronize(void);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void must(int result, int line) {
    if (result) printf("line %d: %d\n", line, result), exit(1);
}
#define CU(call) must(call, __LINE__)
int main(int argc, char **argv) {
    void *context, *module, *function;
    Address in, out, sum;
    void *args[] = {&in, &out, &sum};
    CU(cuInit(0));
    CU(cuCtxCreate_v2(&context, 0, 0));
    CU(cuModuleLoad(&module, "kernel.ptx"));
    CU(cuModuleGetFunction(&function, module, "work"));
    CU(cuMemAlloc_v2(&in, 1024));
    CU(cuMemAlloc_v2(&out, 2048));
    CU(cuMemAlloc_v2(&sum, 4));
    CU(cuMemsetD8_v2(in, 0, 1024));
    CU(cuMemsetD8_v2(sum, 0, 4));
    for (int n = atoi(argv[argc - 1]); n > 0; n--) CU(cuLaunchKernel(function, 2, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemFree_v2(in));
    CU(cuMemFree_v2(out));
    CU(cuMemFree_v2(sum));
    CU(cuModuleUnload(module));
    CU(cuCtxDestroy_v2(context));
    return 7; /* so that the status is seen to be passed on */
}
END
${CC:-cc} -std=c11 $sanitize main.c "$sim/libcuda.so.1" -o program || exit 1

"$sim/ptxsim" stat --json -o figures.json -- ./program 3
[ $? -eq 7 ] || die "the program's exit status is not passed on"
expect() { # NAME VALUE, of one launch
    grep -q "\"$1\": $(($2 * 3))[,]*\$" figures.json || die "$1 is not 3 times $2: $(grep "\"$1\"" figures.json)"
}
grep -q '"launches": 3,' figures.json || die "not 3 launches"
expect thread_instructions $((23 * 256))
expect warp_instructions $((23 * 8))
expect load_bytes 1024
expect load_sectors 32
expect unique_load_bytes 1024
expect unique_load_sectors 32
expect store_bytes $((1024 + 1024))
expect store_sectors $((64 + 8))
expect unique_store_bytes $((1024 + 4))
expect unique_store_sectors $((64 + 1))
expect shared_accesses 16
expect shared_bytes 2048
expect shared_wavefronts 32
expect shared_conflicts 16
expect barriers 8
expect atomics 256
expect flops_f32 512
expect matrix_instructions 8
expect matrix_flops_tf32 $((8 * 2 * 16 * 8 * 8))
expect m16n8k8.tf32 8

# the same figures whatever the schedule and the number of cores
for seed in 1 2; do
    PTXSIM_SEED=$seed PTXSIM_THREADS=$seed "$sim/ptxsim" stat --json -o again.json -- ./program 3
    cmp figures.json again.json || die "figures depend on the schedule"
done
"$sim/ptxsim" stat --gpu sm_80 ./program 1 2>table
grep -q '^work  *1 ' table || die "no table: $(cat table)"
"$sim/ptxsim" stat --gpu sm_1 ./program 1 2>/dev/null
[ $? -eq 2 ] || die "an unknown GPU is taken"
"$sim/ptxsim" stat true 2>err && die "a program without kernels has figures"
"$sim/ptxsim" stat ./absent 2>/dev/null
[ $? -eq 127 ] || die "a program that is not there"

for words in --help 'stat --help' 'check --help' 'stat -h'; do
    "$sim/ptxsim" $words >out 2>err || die "ptxsim $words fails"
    grep -q '^usage: ptxsim stat' out && [ ! -s err ] || die "ptxsim $words is no help"
done
PTXSIM_DEVICE=sm_12 "$sim/ptxsim" check kernel.ptx 2>err && die "a device that is not there"
grep -q 'PTXSIM_DEVICE=sm_12: no such device; there is sm_90 (.*), sm_80 (' err || die "no reason: $(cat err)"
printf '.version 8.0\n.target sm_80\n\n .entry big() .maxntid 2048 { ret; }\n' >big.ptx
"$sim/ptxsim" check big.ptx 2>err && die "check takes a block of 2048 threads"
grep -q "line 4:9: entry function 'big' declares more threads" err || die "no place: $(cat err)"
"$sim/ptxsim" check kernel.ptx || die "check refuses good PTX"
sed 's/bar.sync 0/bar.snyc 0/' kernel.ptx >bad.ptx
"$sim/ptxsim" check kernel.ptx bad.ptx 2>err && die "check takes bad PTX"
grep -q 'bad.ptx.*line 23' err || die "no position: $(cat err)"

# a model: predicted and counted bytes
measured() { LD_LIBRARY_PATH="$sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$FUSEC" report "$@" --measured; }
for arch in sm_80 sm_90; do
    measured "$SRC/examples/digits/mlp.dsl" --target $arch >report || die "report --measured fails for $arch"
    [ "$(grep -c '^  total .* 1\.000 ' report)" -eq 3 ] || die "predicted and counted bytes differ: $(grep total report)"
done
LD_LIBRARY_PATH= "$FUSEC" report "$SRC/examples/digits/mlp.dsl" --measured --target host 2>err && die "measured on the host"
exit 0
