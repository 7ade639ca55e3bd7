/*
 * write.c: continues a text with the model that build/examples/export has written (gpt.c and
 * gpt_characters.h). It needs no library:
 *
 *     write PROMPT [NUMBER OF CHARACTERS] [TEMPERATURE]
 *
 * With a temperature of 0, the likeliest character always comes next.
 */
#include "gpt.c"
#include "gpt_characters.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char memory[GPT_BYTES] __attribute__((aligned(64)));

/* The last tokens of the text, at most BLOCK. */
static int64_t tokens[BLOCK];
static int64_t n;

static void append(int64_t token) {
    if (n == BLOCK)
        memmove(tokens, tokens + 1, sizeof tokens - sizeof *tokens);
    else
        n++;
    tokens[n - 1] = token;
}

/* Appends the first character of a text. Returns the rest, or NULL if the model hasn't learned the
 * character. */
static const char *append_first(const char *text) {
    for (int64_t i = 0; i < TOKENS; i++) {
        const size_t bytes = strlen(characters[i]);
        if (strncmp(text, characters[i], bytes) == 0) {
            append(i);
            return text + bytes;
        }
    }
    return NULL;
}

/* Returns a random number in [0, 1). */
static float draw(void) {
    static uint32_t state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (float)(state >> 8) / 16777216;
}

static int64_t next(float temperature) {
    const int64_t last = n - 1;
    const float of_step = temperature > 0 ? temperature : 1;
    const float *chances = gpt_step(memory, tokens, &last, &of_step);
    float left = draw();
    int64_t token = 0;
    if (temperature > 0)
        while (token + 1 < TOKENS && left >= chances[token])
            left -= chances[token++];
    else
        for (int64_t i = 1; i < TOKENS; i++)
            token = chances[i] > chances[token] ? i : token;
    return token;
}

int main(int argc, char *argv[]) {
    const char *prompt = argc > 1 && *argv[1] ? argv[1] : characters[0];
    const int more = argc > 2 ? atoi(argv[2]) : 200;
    const float temperature = argc > 3 ? strtof(argv[3], NULL) : 0.8f;
    gpt_begin(memory);
    for (const char *rest = prompt; rest && *rest;) {
        rest = append_first(rest);
        if (!rest) {
            fprintf(stderr, "write: the model hasn't learned all characters of '%s'\n", prompt);
            return 2;
        }
    }
    fputs(prompt, stdout);
    for (int i = 0; i < more; i++) {
        append(next(temperature));
        fputs(characters[tokens[n - 1]], stdout);
    }
    puts("");
    return 0;
}
