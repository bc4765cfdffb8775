#include "codegen/llvm/failures.h"
#include "ir/memory.h"
#include <llvm-c/ErrorHandling.h>
#include <stdbool.h>
#include <unistd.h>

/* LLVM's C interface has neither of these two; a library that lacks one leaves its symbol NULL. */
typedef void (*NewHandler)(void);
NewHandler set_new_handler(NewHandler) __asm__("_ZSt15set_new_handlerPFvvE") __attribute__((weak));
typedef void (*BadAllocHandler)(void *user, const char *reason, bool crash_report);
void on_bad_alloc(BadAllocHandler handler,
                  void *user) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_") __attribute__((weak));

static void (*before_end)(void);

static void bad_alloc(void *user, const char *reason, bool crash_report) {
    (void)user, (void)reason, (void)crash_report;
    memory_exhausted();
}

static void fatal(const char *reason) {
    if (before_end) before_end();
    memory_say("fusec: error: LLVM: ");
    memory_say(reason);
    memory_say("\n");
    _exit(1);
}

void llvm_failures_end(void (*clean)(void)) {
    before_end = clean;
    if (set_new_handler) set_new_handler(memory_exhausted);
    if (on_bad_alloc) on_bad_alloc(bad_alloc, NULL);
    LLVMInstallFatalErrorHandler(fatal);
}
