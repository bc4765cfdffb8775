#include "tools/fusec/executor.h"
#include <string.h>

const ExecutorKind *executor_find(const char *name) {
    static const ExecutorKind *const kinds[] = {&executor_host, &executor_c99, &executor_cuda, &executor_interp};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name)) return kinds[i];
    return NULL;
}
