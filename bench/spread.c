/* A thread woken by one that goes on computing may be queued on its waker's processor and share it for milliseconds.
 * fusec's pool sees to that and other libraries do not: without this, short runs of theirs take twice their time. */
#include "bench/model.h"
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

void bench_spread_threads(int threads) {
    cpu_set_t others;
    const int own = sched_getcpu();
    if (threads == 1 || own < 0 || sched_getaffinity(0, sizeof others, &others)) return;
    CPU_CLR(own, &others);
    DIR *tasks = CPU_COUNT(&others) ? opendir("/proc/self/task") : NULL;
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        const pid_t id = (pid_t)atoi(e->d_name);
        if (id > 0 && id != gettid()) sched_setaffinity(id, sizeof others, &others);
    }
    if (tasks) closedir(tasks);
}
