/* Names, strings and the runtime's source text. */
#include "codegen/artifact/artifact.h"
#include "codegen/c99/c99.h"
#include <ctype.h>
#include <string.h>

struct embedded {
    const char *name, *text;
};
extern const struct embedded runtime_sources[];

/* What headers of C99 and POSIX may declare, where the model's type has its name; and fusec, whose fusec_memory and so on
 * are taken. */
static const char declared[] =
    " fusec "
    "FILE abort abs accept access acos acosh alarm alloca asctime asin asinh assert atan atan2 atanh atexit atof atoi atol "
    "atoll bcmp bcopy bind brk bsearch btowc bzero caddr_t calloc cbrt ceil chdir chmod chown clearerr clock clock_t close "
    "connect copysign cos cosh creat crypt ctermid ctime daylight dev_t difftime div div_t dlclose dlerror dlopen dlsym "
    "double_t dprintf drand48 dup dup2 environ erf erfc errno execl execv execve exit exp exp2 expm1 fabs fclose fcntl "
    "fd_set fdim fdopen feclearexcept fegetround fenv_t feof feraiseexcept ferror fesetround fetestexcept fexcept_t fflush "
    "ffs fgetc fgetpos fgets fileno float_t floor fma fmax fmin fmod fopen fork fpclassify fpos_t fprintf fputc fputs "
    "fread free freopen frexp fscanf fseek fsetpos fstat fsync ftell fwide fwrite gamma getc getchar getcwd getdelim "
    "getegid getenv geteuid getgid getline getlogin getopt getpid getppid gets getuid gid_t gmtime hypot id_t ilogb "
    "imaxabs imaxdiv imaxdiv_t index ino_t intmax_t intptr_t isalnum isalpha isatty isblank iscntrl isdigit isfinite "
    "isgraph isinf islower isnan isnormal isprint ispunct isspace isupper isxdigit j0 j1 jmp_buf jn key_t kill labs lconv "
    "ldexp ldiv ldiv_t lgamma link listen llabs lldiv lldiv_t llrint llround localeconv localtime loff_t log log10 log1p "
    "log2 logb longjmp lrint lround lseek lstat major malloc max_align_t mblen mbstate_t mbstowcs mbtowc memchr minor "
    "mkdir mkdtemp mkfifo mkstemp mktemp mktime mmap mode_t modf mprotect munmap nan nanosleep nearbyint nextafter "
    "nexttoward nice off_t offsetof open optarg optind pause pclose perror pid_t pipe poll popen pow pread printf "
    "pthread_t ptrdiff_t putc putchar putenv puts pwrite qsort quad raise rand random read readlink realloc realpath recv "
    "remainder remove remquo rename rewind rindex rint rmdir round sbrk scalbln scalbn scanf select send setbuf setenv "
    "setgid setjmp setlocale setuid setvbuf shutdown sig_atomic_t sigaction signal signbit signgam sigset_t sin sinh sleep "
    "snprintf socket sprintf sqrt srand srandom sscanf ssize_t stat std stderr stdin stdout stpcpy strcat strchr strcmp "
    "strcoll strcpy strcspn strdup strerror strftime string strlen strncat strncmp strncpy strndup strnlen strpbrk strrchr "
    "strsep strspn strstr strtod strtof strtoimax strtok strtol strtold strtoll strtoul strtoull strtoumax strxfrm swab "
    "sync system tan tanh tgamma time time_t timespec timeval timezone tm tmpfile tmpnam tolower toupper trunc truncate "
    "ttyname tzname u_char u_int u_long uid_t uint uintmax_t uintptr_t ulong umask ungetc unlink unsetenv ushort usleep "
    "va_arg va_copy va_end va_list va_start vfork vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wait waitpid "
    "wchar_t wcstombs wctomb wctype_t wint_t write y0 y1 yn ";

char *artifact_prefix(Arena *a, const Module *m) {
    char *s = c99_identifier(a, m->name);
    return strstr(declared, arena_printf(a, " %s ", s)) ? arena_printf(a, "model_%s", s) : s;
}

char *artifact_macro_prefix(Arena *a, const Module *m) {
    char *s = artifact_prefix(a, m);
    for (char *c = s; *c; c++) *c = (char)toupper((unsigned char)*c);
    return s;
}

char *artifact_string(Arena *a, const char *text) {
    char *s = arena_alloc(a, 4 * strlen(text) + 3), *to = s;
    *to++ = '"';
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\' || *c == '?') *to++ = '\\'; /* ?: no trigraphs */
        if (isprint((unsigned char)*c) && (unsigned char)*c < 128) {
            *to++ = *c;
            continue;
        }
        *to++ = '\\'; /* three octal digits: no following digit can join them */
        for (int shift = 6; shift >= 0; shift -= 3) *to++ = (char)('0' + ((unsigned char)*c >> shift & 7));
    }
    *to++ = '"';
    return s;
}

char *artifact_runtime(Arena *a, const char *file) {
    for (const struct embedded *e = runtime_sources; e->name; e++) {
        if (strcmp(e->name, file) != 0) continue;
        char *s = arena_alloc(a, strlen(e->text) + 1), *to = s;
        for (const char *line = e->text; *line;) {
            const char *end = strchr(line, '\n');
            const size_t n = end ? (size_t)(end - line) + 1 : strlen(line);
            if (strncmp(line, "#include \"", 10) != 0) {
                memcpy(to, line, n);
                to += n;
            }
            line += n;
        }
        return s;
    }
    return NULL;
}
