/* Outputs: see write_file.h.
 *
 * All of a command's files are written and synchronised beside their places first, then renamed; only the last step
 * changes what is there.  Of several files, what stood in their places is linked aside until all have arrived. */
#include "tools/fusec/write_file.h"
#include "ir/arena.h"
#include "ir/memory.h"
#include "tools/fusec/interrupt.h"
#include "tools/fusec/temporary.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Output {
    const OutputFile *file;
    const char *target; /* where the links at file->path lead; NULL: what is there is written into, as a pipe is */
    struct stat old;    /* of the file that is there; st_nlink 0: none */
    char *aside;        /* the new contents, beside it */
    const char *backup; /* the old contents, while others are renamed */
    bool kept, moved;   /* there is a backup; target was moved there, since there are no hard links */
    bool placed;
} Output;

static bool fail(const Output *o, const char *why) {
    fprintf(stderr, "%s: error: cannot write %s: %s\n", program_invocation_short_name, o->file->path, why);
    return false;
}
static bool fail_errno(const Output *o) { return fail(o, errno ? strerror(errno) : "failed"); }

/* ---- where ------------------------------------------------------------------------------------------------------- */
static const char *folder(Arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : "";
}

/* The end of a chain of symbolic links, which need not exist; NULL with errno. */
static const char *follow(Arena *a, const char *path) {
    enum { MOST_LINKS = 40 };
    for (int i = 0; i < MOST_LINKS; i++) {
        char to[PATH_MAX];
        const ssize_t n = readlink(path, to, sizeof to);
        if (n < 0) return path;
        const char *text = arena_strndup(a, to, (size_t)n);
        path = *text == '/' ? text : arena_printf(a, "%s%s", folder(a, path), text);
    }
    errno = ELOOP;
    return NULL;
}

/* The stream of this process that a path stands for; -1: none. */
static int own_stream(const char *path) {
    struct stat s, own;
    if (strncmp(path, "/dev/", 5) && strncmp(path, "/proc/", 6)) return -1;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (stat(path, &s) == 0 && fstat(fd, &own) == 0 && s.st_dev == own.st_dev && s.st_ino == own.st_ino) return fd;
    return -1;
}

/* What the command reads: the file, and the name under which it stands where it has several. */
typedef struct ReadFile {
    struct stat stat;
    char *name;
} ReadFile;
static struct {
    ReadFile *at;
    size_t n;
} read_files;

static bool same_file(const struct stat *a, const struct stat *b) { return a->st_ino == b->st_ino && a->st_dev == b->st_dev; }

void write_file_keeps(const char *path) {
    struct stat s;
    if (stat(path, &s) || !S_ISREG(s.st_mode)) return;
    read_files.at = memory_resize(read_files.at, (read_files.n + 1) * sizeof *read_files.at);
    read_files.at[read_files.n++] = (ReadFile){s, s.st_nlink > 1 ? realpath(path, NULL) : NULL};
}

/* Of several names only that one: a file under another is replaced, not written into. */
static bool is_read(const char *path, const struct stat *s) {
    char *name = s->st_nlink > 1 ? realpath(path, NULL) : NULL;
    bool found = false;
    for (size_t i = 0; i < read_files.n && !found; i++) {
        const ReadFile *f = &read_files.at[i];
        found = same_file(&f->stat, s) && (!name || !f->name || !strcmp(name, f->name));
    }
    free(name);
    return found;
}

static bool find_target(Arena *a, Output *o) {
    struct stat s;
    const char *path = o->file->path;
    if (stat(path, &s) == 0) {
        if (S_ISDIR(s.st_mode)) return fail(o, strerror(EISDIR));
        if (!S_ISREG(s.st_mode) || own_stream(path) >= 0) return true; /* a pipe, a terminal: nothing to keep */
        if (is_read(path, &s)) return fail(o, "this command reads it; name another file");
        o->old = s;
    }
    o->target = follow(a, path);
    return o->target || fail_errno(o);
}

/* Links may lead two outputs to one file. */
static bool same_target(const Output *a, const Output *b) {
    if (!a->target || !b->target) return false;
    return !strcmp(a->target, b->target) ||
           (a->old.st_nlink == 1 && b->old.st_nlink && same_file(&a->old, &b->old));
}

static bool find_targets(Arena *a, Output *o, int n) {
    for (int i = 0; i < n; i++) {
        if (!find_target(a, &o[i])) return false;
        for (int before = 0; before < i; before++)
            if (same_target(&o[before], &o[i]))
                return fail(&o[i], arena_printf(a, "it is the same file as %s", o[before].file->path));
    }
    return true;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */
static bool print(FILE *f, const OutputFile *x) {
    return x->write ? x->write(f, x->user) : fwrite(x->bytes, 1, x->n, f) == x->n;
}

/* What cannot be synchronised has no disk under it. */
static bool synchronise(int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS; }

/* Takes fd. */
static bool write_to(const Output *o, int fd, bool on_disk) {
    FILE *f = fdopen(fd, "wb");
    if (!f) {
        fail_errno(o);
        close(fd);
        return false;
    }
    errno = 0;
    bool ok = print(f, o->file) && fflush(f) == 0 && !ferror(f) && (!on_disk || synchronise(fd));
    int why = errno;
    if (fclose(f) != 0 && ok) {
        ok = false;
        why = errno;
    }
    errno = why;
    return ok || fail_errno(o);
}

/* That of the file which is replaced; of a new file, as open() gives it. */
static bool give_mode(int fd, const struct stat *old) {
    const mode_t mask = umask(077);
    umask(mask);
    return fchmod(fd, old->st_nlink ? old->st_mode & 0777 : 0666 & ~mask) == 0 || errno == EPERM ||
           errno == ENOTSUP; /* no modes there */
}

static bool write_aside(Arena *a, Output *o) {
    char *aside = arena_printf(a, "%s.fusec-XXXXXX", folder(a, o->target));
    const int fd = temporary_file(aside);
    if (fd < 0) return fail_errno(o);
    o->aside = aside;
    o->backup = arena_printf(a, "%s~", aside);
    if (give_mode(fd, &o->old)) return write_to(o, fd, true);
    fail_errno(o);
    close(fd);
    return false;
}

static bool write_stream(const Output *o) {
    const int own = own_stream(o->file->path);
    fflush(stdout);
    const int fd = own < 0 ? open(o->file->path, O_WRONLY) : dup(own);
    return fd < 0 ? fail_errno(o) : write_to(o, fd, false);
}

static bool write_contents(Arena *a, Output *o, int n) {
    if (!find_targets(a, o, n)) return false;
    for (int i = 0; i < n; i++)
        if (o[i].target && !write_aside(a, &o[i])) return false;
    for (int i = 0; i < n; i++)
        if (!o[i].target && !write_stream(&o[i])) return false;
    return true;
}

/* ---- into place: nothing here takes memory, and signals wait ----------------------------------------------------- */
static bool keep_old(Output *o) {
    struct stat s;
    if (lstat(o->target, &s) != 0) return errno == ENOENT || fail_errno(o);
    o->moved = link(o->target, o->backup) != 0;
    o->kept = !o->moved || rename(o->target, o->backup) == 0;
    return o->kept || fail_errno(o);
}

static bool place(Output *o) {
    o->placed = rename(o->aside, o->target) == 0;
    if (!o->placed) return fail_errno(o);
    temporary_drop(o->aside);
    return true;
}

/* What cannot be renamed any more may still be linked: a first link, under a name that is free now, shows it before the
 * new contents go. */
static bool link_back(const Output *o) {
    if (!o->placed) return link(o->backup, o->target) == 0;
    if (link(o->backup, o->aside) != 0) return false;
    const bool ok = unlink(o->target) == 0 && link(o->backup, o->target) == 0;
    unlink(o->aside);
    return ok;
}

static void put_back(const Output *o) {
    if (rename(o->backup, o->target) == 0) return;
    if (link_back(o))
        unlink(o->backup);
    else
        fprintf(stderr, "%s: error: the old contents of %s are in %s\n", program_invocation_short_name, o->file->path,
                o->backup);
}

static void undo(const Output *o) {
    if (o->kept && (o->placed || o->moved))
        put_back(o);
    else if (o->kept)
        unlink(o->backup);
    else if (o->placed)
        unlink(o->target);
}

/* A file by itself is replaced in one step. */
static bool place_all(Output *o, int n) {
    bool ok = true;
    for (int i = 0; i < n && ok && n > 1; i++) ok = !o[i].target || keep_old(&o[i]);
    for (int i = 0; i < n && ok; i++) ok = !o[i].target || place(&o[i]);
    for (int i = 0; i < n; i++) {
        if (!ok)
            undo(&o[i]);
        else if (o[i].kept)
            unlink(o[i].backup);
    }
    return ok;
}

/* The names reach the disk too, where the system can do that; both names hold whole files in any case. */
static void synchronise_folder(Arena *a, const char *target) {
    const char *name = folder(a, target);
    const int fd = open(*name ? name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static bool write_all(Arena *a, Output *o, int n) {
    if (!write_contents(a, o, n)) return false;
    interrupt_defer();
    const bool ok = place_all(o, n);
    interrupt_resume();
    for (int i = 0; i < n && ok; i++)
        if (o[i].target) synchronise_folder(a, o[i].target);
    return ok;
}

bool write_files(const OutputFile *files, int n) {
    Arena *a = arena_new();
    Output *o = ARENA_ARRAY(a, Output, n);
    for (int i = 0; i < n; i++) o[i].file = &files[i];
    const bool ok = write_all(a, o, n);
    for (int i = 0; i < n; i++)
        if (o[i].aside && !o[i].placed) temporary_remove(o[i].aside);
    arena_free(a);
    return ok;
}

bool write_file_possible(const char *path) {
    Arena *a = arena_new();
    Output o = {.file = &(OutputFile){.path = path}};
    bool ok = find_target(a, &o);
    if (ok && o.target) {
        char *aside = arena_printf(a, "%s.fusec-XXXXXX", folder(a, o.target));
        const int fd = temporary_file(aside);
        ok = fd >= 0 || fail_errno(&o);
        if (ok) {
            close(fd);
            temporary_remove(aside);
        }
    }
    arena_free(a);
    return ok;
}

bool write_file(const char *path, bool (*write)(FILE *f, void *user), void *user) {
    return write_files(&(OutputFile){.path = path, .write = write, .user = user}, 1);
}
