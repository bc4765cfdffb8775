/* What a status means, in words. */
#include "runtime/common/fusec.h"

FUSEC_WEAK const char *fusec_status_text(fusec_status s) {
    switch (s) {
    case FUSEC_OK: return "ok";
    case FUSEC_E_ARGUMENT: return "a pointer is missing or misaligned, or an extent is past its bound";
    case FUSEC_E_MEMORY: return "a memory region is smaller than the model needs";
    case FUSEC_E_RANGE: return "an integer input is outside its declared range";
    case FUSEC_E_VERSION: return "ABI version or model differs";
    case FUSEC_E_FILE: return "a file cannot be opened, read or written";
    case FUSEC_E_FORMAT: return "a weight file is corrupt, or its tensors are not the model's";
    case FUSEC_E_DRIVER: return "the CUDA driver is absent, or a driver call failed";
    case FUSEC_E_DEVICE: return "no device of a suitable architecture";
    case FUSEC_E_SELFTEST: return "the self-test gave other numbers than the compiler";
    case FUSEC_E_UNSUPPORTED: return "this entry was not compiled in";
    }
    return "unknown status";
}
