/* Names of results; the driver's version. */
#include "tools/ptxsim/driver/driver.h"

enum { DRIVER_VERSION = 12080 };

static const struct {
    CUresult value;
    const char *name, *text;
} RESULTS[] = {
#define CUDA_RESULT(name, value, text) {name, #name, text},
#include "tools/ptxsim/driver/cuda_errors.def"
#undef CUDA_RESULT
};

CUresult sim_cuGetErrorName(CUresult error, const char **name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = NULL;
    for (size_t k = 0; k < sizeof RESULTS / sizeof *RESULTS; k++)
        if (RESULTS[k].value == error) *name = RESULTS[k].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **text) {
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t k = 0; k < sizeof RESULTS / sizeof *RESULTS; k++)
        if (RESULTS[k].value == error) *text = RESULTS[k].text;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}
