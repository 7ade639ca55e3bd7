/*
 * board.h: what a program on the board needs besides the C language: lines of text, which the
 * debugger or the emulator prints (semihosting).
 */
#pragma once

#include <stdint.h>

void print(const char *text);

/* Prints a line with a step's number and its loss: four decimals, and the 32 bits. The loss is at
 * least 0 and below 400,000. */
void print_step(uint32_t step, float loss);

/* Prints a line with the sizes of a step's memory, and of the stack up to now. */
void print_memory(uint32_t bytes_of_step);

int main(void);
