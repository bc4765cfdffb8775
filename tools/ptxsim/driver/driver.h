/* The driver's own state.  One lock serialises every call: exports.c takes it, checks what a call needs, and calls
 * sim_X for exported X.  Work runs when it is submitted, on the calling thread, unless PTXSIM_ASYNC defers it
 * (stream.c). */
#pragma once
#include "tools/ptxsim/driver/cuda_api.h"
#include "tools/ptxsim/exec/profile.h"
#include "tools/ptxsim/exec/exec.h"
#include "tools/ptxsim/ptxsim.h"
#include <time.h>

/* ---- devices: device.c -------------------------------------------------------------------------------- */
/* Limits that both devices share.  Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
 * Capability". */
enum {
    MAX_THREADS = 1024,
    MAX_BLOCK_X = 1024,
    MAX_BLOCK_Y = 1024,
    MAX_BLOCK_Z = 64,
    MAX_GRID_X = 2147483647,
    MAX_GRID_YZ = 65535,
    THREADS_SM = 2048,
    REGISTERS_SM = 65536,
    REGISTERS_BLOCK = 65536,
    MAX_REGISTERS = MOST_REGISTERS,
    REGISTER_UNIT = 256,
    RESERVED_SHARED = 1024,
    PORTABLE_CLUSTER = 8,
    MAX_CLUSTER = 16,
    PARAMETER_BYTES = 4096,
    LARGE_PARAMETER_BYTES = 32764
};

typedef struct DeviceSpec {
    const char *word, *name; /* PTXSIM_DEVICE, cuDeviceGetName */
    int capability;          /* 80, 90 */
    uint64_t memory;
    int sm_count, l2_bytes, shared_block, shared_optin, shared_sm, blocks_sm, clock_khz, memory_khz, bus_bits,
        persisting_l2;
} DeviceSpec;
const DeviceSpec *driver_device(void);
bool device_known(void); /* PTXSIM_DEVICE is unset or in the table */
void device_complain(void); /* that it is not, on standard error */
uint64_t device_memory(void);
CUresult check_device(CUdevice);

/* ---- objects: object.c -------------------------------------------------------------------------------- */
/* What a handle stands for.  Handles are numbers that are never used twice, so that a stale one is always noticed. */
typedef enum ObjectKind {
    OBJECT_CONTEXT,
    OBJECT_MODULE,
    OBJECT_FUNCTION,
    OBJECT_LIBRARY,
    OBJECT_KERNEL,
    OBJECT_STREAM,
    OBJECT_EVENT,
    OBJECT_GRAPH,
    OBJECT_NODE,
    OBJECT_EXEC,
    OBJECT_POOL,
    OBJECT_KINDS
} ObjectKind;
typedef struct Context Context;
typedef struct Object {
    ObjectKind kind;
    bool internal;    /* comes and goes with its owner: no leak, not counted */
    Context *context; /* in whose list it is; NULL: the process's */
    struct Object *next, *previous;
    uint32_t index;
} Object;
/* Zeroed memory that begins with an Object; NULL when the host has no memory. */
void *object_new(ObjectKind, Context *, size_t bytes);
void object_free(void *);
void *object_handle(const void *);
/* NULL for a handle that is not of this kind; a stale or made-up one is a finding. */
void *object_find(const void *handle, ObjectKind);
/* As object_find, without a finding. */
void *object_peek(const void *handle, ObjectKind);
Object *object_first(Context *); /* its list, newest first */
const char *object_kind_name(ObjectKind);

/* ---- calls: exports.c, faults.c ----------------------------------------------------------------------- */
typedef enum CallNeed {
    NEED_ANY,
    NEED_INIT,
    NEED_CONTEXT,
    NEED_HEALTHY
} CallNeed; /* HEALTHY: no kernel has failed in it */
/* CALL_FREE, CALL_DROP and CALL_SYNC are done even when they are made to fail: what fails is earlier work. */
typedef enum CallKind {
    CALL_QUERY,
    CALL_SET,
    CALL_MAKE,
    CALL_DROP,
    CALL_ALLOC,
    CALL_FREE,
    CALL_LOAD,
    CALL_COPY,
    CALL_LAUNCH,
    CALL_SYNC,
    CALL_OWN,
    CALL_KINDS
} CallKind; /* OWN: no call of the driver */
/* The error that this call is to return, by PTXSIM_FAIL; CUDA_SUCCESS for none.  Counts the call. */
/* Whether a function of this name, or this versioned symbol, is among the exports. */
bool export_known(const char *name);
CUresult fault_next(const char *name, const char *symbol, CallKind);

/* ---- counters: counters.c ----------------------------------------------------------------------------- */
extern ptxsim_counters counters; /* since the last mark; under the lock */
void counters_mark(const char *name);
/* Adds a launch to what ptxsim_instructions tells. */
void instructions_add(const Counters *);
void report_leak(const char *what, uint64_t address, uint64_t bytes);

/* ---- figures of kernels: stats.c ---------------------------------------------------------------------- */
/* Somebody asked for them: PTXSIM_STATS, PTXSIM_STATS_FILE, ptxsimCount. */
bool stats_wanted(void);
bool stats_add(const char *kernel, const Figures *); /* one launch; false: no memory */
void stats_at_exit(void);                            /* prints and forgets them */

/* ---- contexts: context.c ------------------------------------------------------------------------------ */
typedef struct Stream Stream;
typedef struct Pool Pool;
enum { LIMITS = 7 };
struct Context {
    Object object;
    DeviceMemory memory;
    Object *objects;
    Stream *legacy, *per_thread; /* the two default streams */
    CUresult failed;             /* sticky: the first kernel failure */
    unsigned flags;
    int primary_uses, cache_config;
    size_t limit[LIMITS];
};
void driver_lock(void);
void driver_unlock(void);
bool driver_ready(void);
/* Of the calling thread; NULL: none, or it has been destroyed. */
Context *current_context(void);
void contexts_at_exit(void);

/* ---- modules: module.c, library.c --------------------------------------------------------------------- */
typedef struct SimModule {
    Object object;
    Module *module;
    struct SimFunction *functions;
    CUdeviceptr *variables;
    size_t variable_count, variable_capacity;
} SimModule;
typedef struct SimFunction {
    Object object;
    SimModule *module;
    const Function *fn;
    int max_dynamic; /* of shared memory; -1: what the default limit leaves */
    int carveout;    /* -1: the driver's choice */
    bool non_portable_cluster;
    int cluster_policy;
    uint64_t crop_seed; /* launch.c: of its last cropped launch, plus 1; and its grid */
    uint32_t crop_grid[3];
    struct SimFunction *next;
} SimFunction;
/* Parses and loads; logs go where the JIT options say. */
CUresult module_load(Context *, SimModule **, const void *image, unsigned n, const int *options, void **values);
void module_unload(SimModule *);
CUresult module_find_function(SimModule *, const char *name, SimFunction **);
CUresult read_image(const char *path, char **text);
/* A CUfunction, or a CUkernel in its place, in the current context. */
SimFunction *function_of(CUfunction);
CUresult kernel_function(CUkernel, SimFunction **);
void library_free(void *);
CUresult function_attribute(const SimFunction *, int attribute, int *value);
CUresult function_set_attribute(SimFunction *, int attribute, int value);
/* Blocks that one multiprocessor holds at once. */
int occupancy(const SimFunction *, int threads, uint64_t dynamic_shared);

/* ---- host memory: host_memory.c ----------------------------------------------------------------------- */
typedef struct HostRange {
    uint8_t *start;
    size_t bytes;
    unsigned flags;
    bool registered; /* the program's own memory */
    Context *context;
} HostRange;
/* The pinned or registered range that holds all of these bytes; NULL: pageable. */
const HostRange *host_find(const void *, size_t bytes);
void host_release(Context *, bool report); /* all of a context's */
size_t host_count(void);
/* Device memory from outside cuMemAlloc; *address is 0 on failure. */
CUresult device_allocate(Context *, CUdeviceptr *address, size_t bytes);
CUresult device_free(Context *, CUdeviceptr);
CUresult device_range(Context *, CUdeviceptr, uint64_t bytes, Allocation **);

/* ---- work: work.c ------------------------------------------------------------------------------------- */
typedef enum WorkKind {
    WORK_EMPTY,
    WORK_KERNEL,
    WORK_COPY,
    WORK_FILL,
    WORK_HOST,
    WORK_CALLBACK,
    WORK_RECORD,
    WORK_WAIT,
    WORK_FREE
} WorkKind;
typedef struct KernelWork {
    CUfunction function; /* a handle: its module may be gone when the work runs */
    uint32_t grid[3], block[3], cluster[3], shared;
    bool cooperative, serialized;
    int priority;
    uint8_t *params;
    uint32_t param_bytes;
} KernelWork;
typedef struct Endpoint {
    uint8_t *host; /* or NULL, and then */
    CUdeviceptr device;
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
} Endpoint;
typedef struct CopyWork {
    Endpoint to, from;
    size_t width, height, depth;
    uint8_t *staged; /* the source, where it was pageable and the copy is deferred */
} CopyWork;
typedef struct Work {
    WorkKind kind;
    union {
        KernelWork kernel;
        CopyWork copy;
        CUDA_MEMSET_NODE_PARAMS fill;
        CUDA_HOST_NODE_PARAMS host;
        struct {
            CUstreamCallback function;
            CUstream stream;
            void *data;
        } callback;
        struct {
            CUevent event;
            uint64_t ticket;
        } record;
        struct {
            CUstream stream;
            uint64_t until;
        } wait;
        CUdeviceptr address;
    };
} Work;
/* Checks that every address is in an allocation; endpoints of unified memory have been resolved. */
CUresult copy_check(Context *, const CopyWork *);
CUresult fill_check(Context *, const CUDA_MEMSET_NODE_PARAMS *);
CUresult copy_from_3d(Context *, const CUDA_MEMCPY3D *, CopyWork *);
CUresult work_run(Context *, const Work *);
bool work_copy(Work *to, const Work *from);
void work_clear(Work *);
bool in_host_function(void); /* the calling thread is in a callback: it may not call the driver */

/* ---- launches: launch.c ------------------------------------------------------------------------------- */
/* Function, shape and parameters from either form of the launch arguments. */
CUresult kernel_work(KernelWork *, const CUDA_KERNEL_NODE_PARAMS *);
CUresult launch_attribute(KernelWork *, int attribute, const CUlaunchAttributeValue *);
/* The device's limits and the function's own. */
CUresult launch_check(const SimFunction *, const KernelWork *);
CUresult launch_grid(Context *, const KernelWork *);
/* blocks.c: the launch runs what ptxsimBlocks chose for the kernel, if anything; false: that is not in its grid. */
bool blocks_chosen(const char *kernel, Launch *);
void blocks_ran(const char *kernel, uint64_t n); /* as many of them have run */

/* ---- streams: stream.c -------------------------------------------------------------------------------- */
typedef struct Capture Capture;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct NodeList {
    Node **item;
    size_t count;
} NodeList;
typedef struct Item {
    Work work;
    struct Item *next;
} Item;
struct Stream {
    Object object;
    unsigned flags;
    int priority;
    uint64_t issued, done; /* items so far */
    Item *head, **tail;
    Capture *capture;
    NodeList tips; /* captured so far: what the next node follows */
};
/* NULL: unknown, or captured into a graph that ended.  0, 1 and 2 are the default streams. */
Stream *stream_of(CUstream);
Stream *stream_new(Context *, unsigned flags, int priority);
void stream_delete(Stream *);
/* Runs, queues or captures; the work's memory is taken over. */
CUresult stream_submit(Stream *, Work *, bool blocking);
CUresult stream_drain(Stream *, uint64_t until);
CUresult context_drain(Context *);
/* Work is deferred: as late as it may be, or at random. */
bool work_deferred(void);
uint64_t random_draw(uint64_t salt);

/* ---- events: event.c ---------------------------------------------------------------------------------- */
typedef struct Event {
    Object object;
    unsigned flags;
    uint64_t ticket, finished; /* records submitted, and the last one that ran */
    CUstream stream;
    uint64_t until; /* the stream's item that records it */
    struct timespec at;
    uint64_t capture; /* id of the capture that recorded it; 0: none */
    NodeList tips;
} Event;
void event_finish(CUevent, uint64_t ticket);

/* ---- captures: capture.c ------------------------------------------------------------------------------ */
CUresult capture_work(Stream *, Work *);
/* A call that may not be made while a stream captures: it fails, and spoils the capture. */
CUresult capture_forbids(Stream *);
CUresult capture_forbids_unsafe(Context *);
CUresult capture_record(Stream *, Event *);
/* True when the wait concerned a capture; *r is its result. */
bool capture_wait(Stream *, Event *, CUresult *r);
CUresult capture_graph(Stream *, const Graph *child);
void capture_forget(Stream *);
void tips_free(NodeList *);

/* ---- graphs: graph.c, graph_exec.c -------------------------------------------------------------------- */
struct Graph {
    Object object;
    Node **node;
    size_t count, capacity;
    bool embedded; /* of a child node */
    bool executable;
};
struct Node {
    Object object;
    Graph *graph;
    int type; /* CU_GRAPH_NODE_TYPE_* */
    Work work;
    Graph *child;
    NodeList after;
    NodeList programmatic; /* of `after`: those along programmatic edges, which bear on speed alone */
    CUgraphNode origin; /* what it was copied from */
    bool disabled;      /* in an executable */
    size_t index;
};
typedef struct Exec {
    Object object;
    Graph *graph; /* child graphs spread out */
    uint64_t flags, launches;
} Exec;
Graph *graph_new(Context *, bool internal);
void graph_free(Graph *);
Node *node_new(Graph *, int type, const NodeList *after);
bool list_add(NodeList *, Node *);
/* An order in which dependencies come first, drawn from the seed; false for a cycle (or no memory). */
bool graph_order(const Graph *, size_t *order, uint64_t seed);
/* Copies nodes and edges; with `flat`, a child graph's in its place. */
bool graph_copy(Graph *to, const Graph *from, bool flat);
void exec_free(Exec *);

/* ---- pools: pool.c ------------------------------------------------------------------------------------ */
struct Pool {
    Object object;
    uint64_t used, used_high, threshold;
    int reuse[3];
    bool is_default;
};
void pools_account(const Context *, CUdeviceptr freed);
void pools_forget(Context *);

#define CUDA_EXPORT(name, since, symbol, need, kind, parameters, arguments) CUresult sim_##symbol parameters;
#include "tools/ptxsim/driver/cuda_exports.def"
#undef CUDA_EXPORT
