/*
 * guess_words.c: the notebook's layer learns a sentence on a microcontroller. The file
 * self_attention.c, which build/examples/learners writes, has the training.
 */
#include "mcu/board.h"
#include "self_attention.c"

enum { PLACES = 8, WORDS_OF_SENTENCE = 6, STEPS = 400 };

/* Life is short, eat dessert first: the words 0 to 5. Behind the sentence's end are no targets. */
static const int64_t words[PLACES] = { 0, 1, 2, 3, 4, 5, 0, 0 };
static const int64_t targets[PLACES] = { 0, 1, 2, 3, 4, 5, -100, -100 };

static char memory[SELF_ATTENTION_BYTES] __attribute__((aligned(64)));
static bool hidden[PLACES * PLACES];

int main(void) {
    /* No word attends to itself, and none to what is behind the end. */
    for (int i = 0; i < PLACES; i++)
        for (int k = 0; k < PLACES; k++)
            hidden[i * PLACES + k] = k == i || k >= WORDS_OF_SENTENCE;
    self_attention_begin(memory);
    for (uint32_t step = 1; step <= STEPS; step++)
        print_step(step, *self_attention_step(memory, words, hidden, targets));
    print_memory(SELF_ATTENTION_BYTES);
    return 0;
}
