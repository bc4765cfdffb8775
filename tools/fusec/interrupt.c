#include "tools/fusec/interrupt.h"
#include "tools/fusec/temporary.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
enum { N_ENDING = sizeof ending / sizeof *ending };

enum { RUNNING, DEFERRED, ENDING };
static atomic_int state = RUNNING, child;
static atomic_int noted, deferred; /* signals */
static atomic_bool held;

/* A compiler removes what it has made when it is asked to end; one that does not end is ended. */
static void end_child(int signal) {
    const pid_t group = atomic_load(&child);
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    if (group <= 0 || kill(-group, signal) != 0) return;
    for (int i = 0; i < 30; i++) {
        if (waitpid(group, NULL, WNOHANG) != 0) return;
        nanosleep(&moment, NULL);
    }
    kill(-group, SIGKILL);
    waitpid(group, NULL, 0);
}

/* By the signal, as whoever waits for this process expects. */
static void end(int signal) {
    sigset_t only;
    end_child(signal);
    temporaries_remove();
    sigemptyset(&only);
    sigaddset(&only, signal);
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    raise(signal);
    _exit(128 + signal);
}

static void caught(int signal) {
    int was = RUNNING, none = 0;
    if (atomic_load(&held) && atomic_compare_exchange_strong(&noted, &none, signal)) return;
    if (atomic_compare_exchange_strong(&state, &was, ENDING)) end(signal);
    if (was == DEFERRED) atomic_store(&deferred, signal);
}

void interrupt_handle(void) {
    struct sigaction act = {.sa_handler = caught, .sa_flags = SA_RESTART}, old;
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < N_ENDING; i++) sigaddset(&act.sa_mask, ending[i]);
    for (int i = 0; i < N_ENDING; i++)
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(ending[i], &act, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of its write */
}

void interrupt_defer(void) {
    int was = RUNNING;
    if (atomic_compare_exchange_strong(&state, &was, DEFERRED)) return;
    for (;;) pause(); /* another thread is ending the process */
}

void interrupt_resume(void) {
    int was = RUNNING;
    atomic_store(&state, RUNNING);
    const int signal = atomic_load(&deferred);
    if (signal && atomic_compare_exchange_strong(&state, &was, ENDING)) end(signal);
}

void interrupt_hold(void) { atomic_store(&held, true); }
bool interrupt_pending(void) { return atomic_load(&noted) != 0; }
void interrupt_child(pid_t group) { atomic_store(&child, group); }
