/*
 * board.h: what a program on the board needs besides the C language: lines of text, which the
 * debugger or the emulator prints (semihosting).
 */
#pragma once

#include <stdint.h>

void print(const char *text);

/* Prints a whole number of at least 0, in a column of `width` characters. */
void print_whole(uint32_t x, int width);

/* Prints a number of at least 0 and below 400,000 with four decimals, and its 32 bits. */
void print_float(float x);

/* Returns the largest number of bytes that the stack has had since the start. */
uint32_t stack_used(void);

int main(void);
