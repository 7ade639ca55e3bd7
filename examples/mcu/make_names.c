/*
 * make_names.c: a small GPT learns names on a microcontroller, and makes up new ones. The file
 * microgpt.c has the training, and microgpt_use.c computes which letter may come next; both are
 * written by build/examples/learners. With -DTRAINING_ALONE, it makes up no names.
 */
#include "mcu/board.h"
#include "few_names.h"
#include "microgpt.c"
#include "microgpt_use.c"
#include <string.h>

/* The tokens: a letter is 0 .. 25, and MARK begins and ends a name. */
enum { MARK = 26, TOKENS = 27, BLOCK = 16, STEPS = 300, MADE_UP = 10 };

/* The memory of the training, and then that of the use, which needs the learned parameters. */
static union {
    char training[MICROGPT_BYTES], use[MICROGPT_USE_BYTES];
} memory __attribute__((aligned(64)));

/* Makes a step of training with a name, and returns the loss. */
static float learn(const char *name) {
    int64_t tokens[BLOCK], targets[BLOCK];
    const int n = (int)strlen(name);
    for (int k = 0; k < BLOCK; k++) {
        tokens[k] = k > 0 && k <= n ? name[k - 1] - 'a' : MARK;
        targets[k] = k > n ? -100 : MARK;
        if (k < n)
            targets[k] = name[k] - 'a';
    }
    return *microgpt_step(memory.training, tokens, targets);
}

#ifndef TRAINING_ALONE
/* Returns a random number in [0, 1). */
static float draw(void) {
    static uint32_t state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (float)(state >> 8) / 16777216;
}

/* Prints a name, which it makes up letter by letter. */
static void make_up(void) {
    static const float temperature = 0.5f;
    int64_t tokens[BLOCK];
    for (int k = 0; k < BLOCK; k++)
        tokens[k] = MARK;
    for (int k = 0; k + 1 < BLOCK; k++) {
        const float *chances = microgpt_use_step(memory.use, tokens, &temperature) + k * TOKENS;
        float left = draw();
        int next = 0;
        while (next < MARK && left >= chances[next])
            left -= chances[next++];
        if (next == MARK)
            break;
        const char letter[2] = { (char)('a' + next), 0 };
        print(letter);
        tokens[k + 1] = next;
    }
    print("\n");
}
#endif

int main(void) {
    microgpt_begin(memory.training);
    for (uint32_t step = 1; step <= STEPS; step++)
        print_step(step, learn(few_names[(step - 1) % FEW_NAMES]));
    print_memory(MICROGPT_BYTES);
#ifndef TRAINING_ALONE
    /* The parameters come first in the memory of both steps, in one order. */
    static char parameters[MICROGPT_PARAMETERS];
    memcpy(parameters, memory.training, sizeof parameters);
    microgpt_use_begin(memory.use);
    memcpy(memory.use, parameters, sizeof parameters);
    for (int i = 0; i < MADE_UP; i++)
        make_up();
#endif
    return 0;
}
