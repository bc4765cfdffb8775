/* Makes calls to the system fail, by number: see inject.h.  Standard error is spared, so that what a program says of
 * its failure is heard; programs that it starts are spared, by taking LD_PRELOAD out of their environment. */
#include "tests/faults/inject.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t bytes), *__libc_realloc(void *p, size_t n),
    *__libc_memalign(size_t align, size_t n);

static FaultPlan *plan;
static bool looked;

static const char *take(const char *name) {
    const size_t n = strlen(name);
    for (char **e = environ; *e; e++) {
        if (strncmp(*e, name, n) || (*e)[n] != '=') continue;
        const char *value = *e + n + 1;
        for (char **to = e; (*to = to[1]); to++) continue;
        return value;
    }
    return NULL;
}

/* Before any constructor there is no environment yet. */
static void look(void) {
    if (looked || !environ) return;
    looked = true;
    const char *path = take("FAULT_PLAN");
    take("LD_PRELOAD");
    const long fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED) plan = at;
}

static bool fails(FaultKind kind, const char *where, int why) {
    look();
    if (!plan) return false;
    const long n = atomic_fetch_add(&plan->calls[kind], 1) + 1;
    if (kind != plan->kind || !plan->first || n < plan->first || n > plan->last) return false;
    if (atomic_fetch_add(&plan->failed, 1) == 0) strncpy(plan->where, where, sizeof plan->where - 1);
    errno = why;
    return true;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
void *malloc(size_t n) { return fails(FAULT_MEMORY, "malloc", ENOMEM) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t bytes) { return fails(FAULT_MEMORY, "calloc", ENOMEM) ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *p, size_t n) { return fails(FAULT_MEMORY, "realloc", ENOMEM) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) {
    return fails(FAULT_MEMORY, "aligned_alloc", ENOMEM) ? NULL : __libc_memalign(align, n);
}
int posix_memalign(void **at, size_t align, size_t n) {
    const int was = errno;
    if (fails(FAULT_MEMORY, "posix_memalign", ENOMEM)) {
        errno = was;
        return ENOMEM;
    }
    void *p = __libc_memalign(align, n);
    if (!p) return ENOMEM;
    *at = p;
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
/* The function of the library behind this one. */
#define NEXT(name)                 \
    static __typeof__(&name) next; \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t n) {
    NEXT(write);
    return fd != STDERR_FILENO && fails(FAULT_FILES, "write", ENOSPC) ? -1 : next(fd, bytes, n);
}
ssize_t read(int fd, void *bytes, size_t n) {
    NEXT(read);
    return fails(FAULT_FILES, "read", EIO) ? -1 : next(fd, bytes, n);
}
int fsync(int fd) {
    NEXT(fsync);
    return fails(FAULT_FILES, "fsync", EIO) ? -1 : next(fd);
}
int close(int fd) {
    NEXT(close);
    if (!fails(FAULT_FILES, "close", EIO)) return next(fd);
    next(fd);
    errno = EIO;
    return -1;
}
int rename(const char *from, const char *to) {
    NEXT(rename);
    return fails(FAULT_FILES, "rename", EIO) ? -1 : next(from, to);
}
int link(const char *from, const char *to) {
    NEXT(link);
    return fails(FAULT_FILES, "link", EPERM) ? -1 : next(from, to);
}
#define OPENER(name)                                                                    \
    int name(const char *path, int flags, ...) {                                        \
        va_list ap;                                                                     \
        NEXT(name);                                                                     \
        va_start(ap, flags);                                                            \
        const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned) : 0; \
        va_end(ap);                                                                     \
        return fails(FAULT_FILES, #name, EMFILE) ? -1 : next(path, flags, mode);        \
    }
OPENER(open)
OPENER(open64)
int mkstemp(char *path) {
    NEXT(mkstemp);
    return fails(FAULT_FILES, "mkstemp", ENOSPC) ? -1 : next(path);
}
char *mkdtemp(char *path) {
    NEXT(mkdtemp);
    return fails(FAULT_FILES, "mkdtemp", ENOSPC) ? NULL : next(path);
}
FILE *tmpfile(void) {
    NEXT(tmpfile);
    return fails(FAULT_FILES, "tmpfile", ENOSPC) ? NULL : next();
}
FILE *fopen(const char *path, const char *mode) {
    NEXT(fopen);
    return fails(FAULT_FILES, "fopen", EMFILE) ? NULL : next(path, mode);
}
FILE *fdopen(int fd, const char *mode) {
    NEXT(fdopen);
    return fails(FAULT_FILES, "fdopen", EMFILE) ? NULL : next(fd, mode);
}

/* A stream whose write failed has lost what was in its buffer and remembers the error. */
static void lose(FILE *f) {
    enum { ERROR_SEEN = 0x20 }; /* of glibc */
    __fpurge(f);
    f->_flags |= ERROR_SEEN;
    errno = ENOSPC;
}

/* Streams in memory need none of these calls; their memory fails by itself. */
static bool spared(FILE *f) { return f == stderr || fileno(f) < 0; }

size_t fwrite(const void *bytes, size_t size, size_t n, FILE *f) {
    NEXT(fwrite);
    if (spared(f) || !fails(FAULT_FILES, "fwrite", ENOSPC)) return next(bytes, size, n, f);
    const size_t some = next(bytes, size, n / 2, f);
    lose(f);
    return some;
}
size_t fread(void *bytes, size_t size, size_t n, FILE *f) {
    NEXT(fread);
    if (!fails(FAULT_FILES, "fread", EIO)) return next(bytes, size, n, f);
    const size_t some = next(bytes, size, n / 2, f);
    lose(f);
    errno = EIO;
    return some;
}
int fflush(FILE *f) {
    NEXT(fflush);
    if (!f || spared(f) || !fails(FAULT_FILES, "fflush", ENOSPC)) return next(f);
    lose(f);
    return EOF;
}
int fclose(FILE *f) {
    NEXT(fclose);
    if (spared(f) || !fails(FAULT_FILES, "fclose", ENOSPC)) return next(f);
    if (__fwriting(f)) lose(f);
    next(f);
    errno = ENOSPC;
    return EOF;
}
