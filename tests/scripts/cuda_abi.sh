#!/bin/sh
# Where a CUDA toolkit is installed, its cuda.h says the same as our declarations: constants, the node structure, and that
# every function is there under the name we look up.
for include in ${CUDA_HOME:+"$CUDA_HOME/include"} /usr/local/cuda/include /usr/include; do
    [ -r "$include/cuda.h" ] && break
done
grep -q cuGraphInstantiateWithFlags "$include/cuda.h" 2>/dev/null || exit 77
. "$SRC/tests/support/script.sh"

cat >"$work/abi.c" <<'END'
#define __CUDA_API_VERSION_INTERNAL /* all versions of a function under their own names */
#include <cuda.h>
#include <stddef.h>
#include "runtime/cuda/cuda_driver.h"
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(FUSEC_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(FUSEC_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(FUSEC_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(FUSEC_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(FUSEC_CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(FUSEC_CU_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(FUSEC_CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_BUFFER);
SAME(FUSEC_CU_JIT_INFO_LOG_BYTES, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(FUSEC_CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(FUSEC_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(FUSEC_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(FUSEC_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(FUSEC_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(FUSEC_CU_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(sizeof(CUdeviceptr), sizeof(uint64_t));
SAME(sizeof(CUdevice), sizeof(int));
SAME(sizeof(CUresult), sizeof(int));
SAME(sizeof(fusec_cu_node), sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
#define FIELD(ours, theirs) SAME(offsetof(fusec_cu_node, ours), offsetof(CUDA_KERNEL_NODE_PARAMS_v1, theirs))
FIELD(function, func);
FIELD(grid_x, gridDimX);
FIELD(block_x, blockDimX);
FIELD(shared_bytes, sharedMemBytes);
FIELD(params, kernelParams);
FIELD(extra, extra);
#define DECLARED(symbol, parameters) void *at_##symbol(void); void *at_##symbol(void) { return (void *)&symbol; }
FUSEC_CU_FUNCTIONS(DECLARED)
END
${CC:-cc} -std=gnu11 -I"$SRC" -I"$include" -c "$work/abi.c" -o "$work/abi.o"
