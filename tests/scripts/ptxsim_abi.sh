#!/bin/sh
# Where a CUDA toolkit is installed, the software GPU's header says the same as its cuda.h: error numbers, constants, sizes
# of structures, places of their members; every function that the software GPU exports exists under
# that name, and came in the version that cuda_exports.def gives.
for include in ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /usr/include; do
    [ -r "$include/cuda.h" ] && break
done
version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$include/cuda.h" 2>/dev/null)
[ "${version:-0}" -ge 13000 ] || exit 77 # older ones lack some of the names
. "$SRC/tests/support/script.sh"
driver=$SRC/tools/ptxsim/driver

# the same program once with each header
{
    cat <<'END'
#include <stdio.h>
#include <stddef.h>
#define SHOW(x) printf("%s %lld\n", #x, (long long)(x));
int main(void) {
END
    sed -n 's/^CUDA_RESULT(\([A-Z_]*\), .*/SHOW(\1)/p' "$driver/cuda_errors.def"
    sed -n '/^enum/,/};/p' "$driver/cuda_api.h" | grep -o 'CU_[A-Z0-9_]*' | sed 's/.*/SHOW(&)/'
    sed -n 's/^} \(CU[A-Za-z0-9_]*\);.*/SHOW(sizeof(\1))/p' "$driver/cuda_api.h" | grep -v RESULT
    for member in CUDA_MEMCPY2D:srcHost CUDA_MEMCPY2D:srcPitch CUDA_MEMCPY2D:dstMemoryType CUDA_MEMCPY2D:dstPitch CUDA_MEMCPY2D:Height \
        CUDA_MEMCPY3D:srcHost CUDA_MEMCPY3D:srcHeight CUDA_MEMCPY3D:dstXInBytes CUDA_MEMCPY3D:dstDevice CUDA_MEMCPY3D:Depth \
        CUDA_MEMSET_NODE_PARAMS:elementSize CUDA_MEMSET_NODE_PARAMS:height CUDA_HOST_NODE_PARAMS:userData CUlaunchConfig:hStream \
        CUlaunchConfig:numAttrs CUlaunchAttribute:value CUmemPoolProps:location CUmemPoolProps:maxSize \
        CUgraphExecUpdateResultInfo:errorNode CUDA_GRAPH_INSTANTIATE_PARAMS:result_out CUDA_KERNEL_NODE_PARAMS:extra; do
        echo "SHOW(offsetof(${member%:*}, ${member#*:}))"
    done
    echo 'return 0; }'
} >"$work/body.c"
for side in theirs:cuda.h:$include ours:tools/ptxsim/driver/cuda_api.h:$SRC; do
    name=${side%%:*} rest=${side#*:}
    { echo "#include <${rest%%:*}>"; cat "$work/body.c"; } >"$work/$name.c"
    ${CC:-cc} -std=gnu11 -I"${rest#*:}" "$work/$name.c" -o "$work/$name" && "$work/$name" >"$work/$name.txt" || exit 1
done
[ "$(wc -l <"$work/ours.txt")" -gt 200 ] || { echo 'too little compared'; exit 1; }
diff "$work/ours.txt" "$work/theirs.txt" || exit 1

{
    echo '#define __CUDA_API_VERSION_INTERNAL /* all versions of a function under their own names */'
    echo '#include <cuda.h>'
    echo '#include <cudaProfiler.h>'
    sed -n 's/^CUDA_EXPORT([^,]*, [^,]*, \(cu[A-Za-z0-9_]*\),.*/void *at_\1(void); void *at_\1(void) { return (void *)\&\1; }/p' \
        "$driver/cuda_exports.def"
} >"$work/names.c"
${CC:-cc} -std=gnu11 -I"$include" -c "$work/names.c" -o "$work/names.o" || exit 1

[ -r "$include/cudaTypedefs.h" ] || exit 0
sed -n 's/^CUDA_EXPORT(\(cu[A-Za-z0-9_]*\), \([0-9]*\), .*/\1_v\2/p' "$driver/cuda_exports.def" | grep -v '^cuProfiler' | while read -r form; do
    grep -q "PFN_$form[^0-9]" "$include/cudaTypedefs.h" || { echo "no such version: $form"; exit 1; }
done
