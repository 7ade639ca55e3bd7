/*
 * board.c: starts a program on a Cortex-M4F, and prints for it. `board.ld` says where in the memory
 * everything lies. A board of a vendor has files of its own in place of these two.
 */
#include "board.h"

#include <stddef.h>
#include <string.h>

/* ---- the start ---------------------------------------------------------------------- */

/* The addresses that the linker gives (board.ld). */
extern uint32_t board_data_in_flash[], board_data[], board_data_end[];
extern uint32_t board_bss[], board_bss_end[], board_stack[];

/* What the RAM that is free at the start is filled with. */
static const uint32_t unused = 0xfeedbeef;

/* Semihosting: the processor stops at this instruction, and the debugger does what the number in
 * register 0 says, with the argument in register 1. */
static int call_debugger(int number, const void *argument) {
    register int r0 __asm__("r0") = number;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

enum { WRITE_TEXT = 0x04, EXIT_WITH_STATUS = 0x20, APPLICATION_EXIT = 0x20026 };

static void end(int status) {
    const uint32_t why[2] = { APPLICATION_EXIT, (uint32_t)status };
    call_debugger(EXIT_WITH_STATUS, why);
    for (;;) {}
}

/* The processor begins here. */
__attribute__((noreturn)) void board_start(void) {
    *(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* Allows the instructions of the FPU. */
    __asm__ volatile("dsb\n\tisb");
    memcpy(board_data, board_data_in_flash, (size_t)((char *)board_data_end - (char *)board_data));
    memset(board_bss, 0, (size_t)((char *)board_bss_end - (char *)board_bss));
    volatile uint32_t *here = __builtin_frame_address(0);
    for (volatile uint32_t *at = board_bss_end; at < here - 16; at++)
        *at = unused;
    end(main());
    __builtin_unreachable();
}

/* A program that fails, as by reading from an address that isn't there, ends here. */
static void board_fault(void) {
    print("the processor met a fault\n");
    end(1);
}

/* The table of the processor: the first stack pointer, the start, and the handlers of faults. */
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    board_stack,
    (const void *)board_start,
    (const void *)board_fault,
    (const void *)board_fault,
    (const void *)board_fault,
    (const void *)board_fault,
    (const void *)board_fault,
};

/* ---- printing ------------------------------------------------------------------------- */

void print(const char *text) { call_debugger(WRITE_TEXT, text); }

/* Prints x to a base, with at least `least` digits, in a column of `width` characters. */
static void print_digits(uint32_t x, uint32_t base, int least, int width) {
    char text[12];
    int at = sizeof text - 1;
    text[at] = 0;
    for (; x || least > 0; least--) {
        text[--at] = "0123456789abcdef"[x % base];
        x /= base;
    }
    while (at > 0 && (int)sizeof text - 1 - at < width)
        text[--at] = ' ';
    print(text + at);
}

void print_step(uint32_t step, float loss) {
    uint32_t bits;
    memcpy(&bits, &loss, sizeof bits);
    const uint32_t parts = (uint32_t)(loss * 10000 + 0.5f);
    print("step ");
    print_digits(step, 10, 1, 4);
    print("  loss ");
    print_digits(parts / 10000, 10, 1, 0);
    print(".");
    print_digits(parts % 10000, 10, 4, 0);
    print("  0x");
    print_digits(bits, 16, 8, 0);
    print("\n");
}

/* Returns the largest number of bytes that the stack has had since the start. */
static uint32_t stack_used(void) {
    const volatile uint32_t *at = board_bss_end;
    while (*at == unused)
        at++;
    return (uint32_t)((char *)board_stack - (const char *)(uintptr_t)at);
}

void print_memory(uint32_t bytes_of_step) {
    print("memory of the step ");
    print_digits(bytes_of_step, 10, 1, 0);
    print(", of the stack ");
    print_digits(stack_used(), 10, 1, 0);
    print(" bytes\n");
}
