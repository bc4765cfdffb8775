#include "tools/fusec/train.h"
#include <signal.h>

void interrupt_hold(void) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGINT);
    sigaddset(&s, SIGTERM);
    sigprocmask(SIG_BLOCK, &s, NULL);
}

bool interrupt_pending(void) {
    sigset_t s;
    return sigpending(&s) == 0 && (sigismember(&s, SIGINT) || sigismember(&s, SIGTERM));
}
