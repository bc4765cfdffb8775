/* The part of the CUDA Driver API that a model needs, declared here so that building and shipping need no toolkit.
 *
 * Source: the public Driver API (docs.nvidia.com/cuda/cuda-driver-api).  Handles (CUcontext, CUmodule, CUfunction,
 * CUstream, CUevent, CUgraph, CUgraphNode, CUgraphExec) are pointers, CUdevice and CUresult are int, CUdeviceptr is
 * 64 bits.  Symbols carry the suffix of the ABI meant here; those without one mean the ABI of CUDA 10.0 to 11.4, which
 * every later driver keeps exporting beside newer forms. */
#ifndef FUSEC_CUDA_DRIVER_H
#define FUSEC_CUDA_DRIVER_H
#include <stddef.h>
#include <stdint.h>

/* CUDA_KERNEL_NODE_PARAMS_v1: what cuGraphAddKernelNode and cuGraphExecKernelNodeSetParams take. */
typedef struct fusec_cu_node {
    void *function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **params; /* one pointer per parameter; values are copied by the call */
    void **extra;  /* NULL */
} fusec_cu_node;

/* CUlaunchAttribute with CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION; CUlaunchAttributeValue is 64 bytes. */
typedef struct fusec_cu_cluster {
    int id, padding;
    union fusec_cu_cluster_value {
        char bytes[64];
        unsigned dim[3];
    } value;
} fusec_cu_cluster;

/* CUgraphEdgeData */
typedef struct fusec_cu_edge {
    unsigned char from_port, to_port, type, reserved[5];
} fusec_cu_edge;

/* CUlaunchConfig */
typedef struct fusec_cu_launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void *stream;
    fusec_cu_cluster *attributes;
    unsigned n_attributes;
} fusec_cu_launch;

enum { /* CUresult; others are only named by the driver */
       FUSEC_CU_OUT_OF_MEMORY = 2,
       FUSEC_CU_NO_DEVICE = 100,
       FUSEC_CU_NO_BINARY_FOR_GPU = 209,
       FUSEC_CU_NOT_READY = 600
};
enum { /* CUdevice_attribute, CUjit_option, CUstream_flags, CUevent_flags, CUfunction_attribute */
       FUSEC_CU_MULTIPROCESSORS = 16,
       FUSEC_CU_CAPABILITY_MAJOR = 75,
       FUSEC_CU_CAPABILITY_MINOR = 76,
       FUSEC_CU_JIT_INFO_LOG = 3,
       FUSEC_CU_JIT_INFO_LOG_BYTES = 4,
       FUSEC_CU_JIT_ERROR_LOG = 5,
       FUSEC_CU_JIT_ERROR_LOG_BYTES = 6,
       FUSEC_CU_STREAM_NON_BLOCKING = 1,
       FUSEC_CU_EVENT_DEFAULT = 0,
       FUSEC_CU_EVENT_DISABLE_TIMING = 2,
       FUSEC_CU_MAX_DYNAMIC_SHARED = 8,
       FUSEC_CU_CLUSTER_DIMENSION = 4, /* CUlaunchAttributeID */
       FUSEC_CU_PORT_PROGRAMMATIC = 1, /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC */
       FUSEC_CU_EDGE_PROGRAMMATIC = 1, /* CUgraphDependencyType */
       FUSEC_CU_L2_PROMOTION_256B = 3  /* CUtensorMapL2promotion */
};

/* X(symbol, parameters): every function returns a CUresult. */
#define FUSEC_CU_FUNCTIONS(X)                                                                                       \
    X(cuInit, (unsigned flags))                                                                                     \
    X(cuGetErrorName, (int result, const char **name))                                                              \
    X(cuGetErrorString, (int result, const char **text))                                                            \
    X(cuDeviceGetCount, (int *count))                                                                               \
    X(cuDeviceGet, (int *device, int ordinal))                                                                      \
    X(cuDeviceGetName, (char *name, int bytes, int device))                                                         \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                       \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                   \
    X(cuCtxPushCurrent_v2, (void *context))                                                                         \
    X(cuCtxPopCurrent_v2, (void **context))                                                                         \
    X(cuModuleLoadDataEx, (void **module, const void *image, unsigned n, int *options, void **values))              \
    X(cuModuleUnload, (void *module))                                                                               \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))                                       \
    X(cuFuncSetAttribute, (void *function, int attribute, int value))                                               \
    X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                                            \
    X(cuMemFree_v2, (uint64_t address))                                                                             \
    X(cuMemAllocHost_v2, (void **memory, size_t bytes))                                                             \
    X(cuMemFreeHost, (void *memory))                                                                                \
    X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream))                            \
    X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))                                  \
    X(cuStreamCreate, (void **stream, unsigned flags))                                                              \
    X(cuStreamDestroy_v2, (void *stream))                                                                           \
    X(cuStreamSynchronize, (void *stream))                                                                          \
    X(cuEventCreate, (void **event, unsigned flags))                                                                \
    X(cuEventDestroy_v2, (void *event))                                                                             \
    X(cuEventRecord, (void *event, void *stream))                                                                   \
    X(cuEventQuery, (void *event))                                                                                  \
    X(cuEventSynchronize, (void *event))                                                                            \
    X(cuEventElapsedTime, (float *milliseconds, void *start, void *end))                                            \
    X(cuLaunchKernel,                                                                                               \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
       unsigned block_z, unsigned shared_bytes, void *stream, void **params, void **extra))                         \
    X(cuGraphCreate, (void **graph, unsigned flags))                                                                \
    X(cuGraphDestroy, (void *graph))                                                                                \
    X(cuGraphAddKernelNode, (void **node, void *graph, void *const *after, size_t n_after, const fusec_cu_node *p)) \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))                            \
    X(cuGraphExecDestroy, (void *exec))                                                                             \
    X(cuGraphExecKernelNodeSetParams, (void *exec, void *node, const fusec_cu_node *p))                             \
    X(cuGraphLaunch, (void *exec, void *stream))

/* Needed by kernels for sm_90a alone, or for speed (cuGraphAddDependencies_v2, CUDA 12.3); NULL where the driver is older (CUDA 12.0). */
#define FUSEC_CU_OPTIONAL(X)                                                                                        \
    X(cuTensorMapEncodeTiled,                                                                                       \
      (void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,            \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int l2_promotion, int fill))        \
    X(cuTensorMapEncodeIm2col,                                                                                      \
      (void *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,            \
       const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps,               \
       int interleave, int swizzle, int l2_promotion, int fill))                                                    \
    X(cuGraphKernelNodeSetAttribute, (void *node, int attribute, const union fusec_cu_cluster_value *value))        \
    X(cuGraphAddDependencies_v2,                                                                                    \
      (void *graph, void *const *from, void *const *to, const fusec_cu_edge *edges, size_t n))                      \
    X(cuLaunchKernelEx, (const fusec_cu_launch *config, void *function, void **params, void **extra))

typedef struct fusec_cu_driver {
    void *library; /* from dlopen */
#define FUSEC_CU_FIELD(symbol, parameters) int(*symbol) parameters;
    FUSEC_CU_FUNCTIONS(FUSEC_CU_FIELD)
    FUSEC_CU_OPTIONAL(FUSEC_CU_FIELD)
#undef FUSEC_CU_FIELD
} fusec_cu_driver;

#endif
