/* Cortex-M4 on QEMU's mps2-an386: vector table, data and bss, FPU; semihosting for output and exit. */
#include "board.h"
#include <stdint.h>

extern uint32_t _data_start[], _data_end[], _data_load[], _bss_start[], _bss_end[], _stack_end[];
int main(void);
void reset(void);

/* ARM semihosting (ARM IHI 0058): operation in r0, argument in r1. */
static uint32_t semihost(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_print(const char *text) { semihost(0x04, text); } /* SYS_WRITE0 */

void board_exit(int status) {
    semihost(0x18, (const void *)(uintptr_t)(status ? 0x20023 : 0x20026)); /* SYS_EXIT: run-time error, or done */
    for (;;) {}
}

void reset(void) {
    const uint32_t *from = _data_load;
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: the FPU is off at reset */
    __asm__ volatile("dsb\n\tisb");
    for (uint32_t *to = _data_start; to < _data_end;) *to++ = *from++;
    for (uint32_t *to = _bss_start; to < _bss_end;) *to++ = 0;
    board_exit(main());
}

static void fault(void) { board_exit(1); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    _stack_end, (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault};
