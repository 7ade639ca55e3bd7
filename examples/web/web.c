/*
 * web.c: the written steps as WebAssembly, which the script in page.html calls. It needs neither a
 * C library nor an operating system. Each function that returns an address gives the script a place
 * to write inputs to, or to read results from.
 */
#include "few_names.h"
#include "microgpt.c"
#include "microgpt_use.c"
#include "self_attention.c"

#define EXPORT(name) __attribute__((export_name(#name))) name

/* ---- what written files call ------------------------------------------------------------ */

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    char *restrict t = to;
    const char *restrict f = from;
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    char *t = to;
    const char *f = from;
    if (t <= f)
        for (size_t i = 0; i < n; i++)
            t[i] = f[i];
    else
        while (n-- > 0)
            t[n] = f[n];
    return to;
}

void *memset(void *to, int byte, size_t n) {
    char *t = to;
    for (size_t i = 0; i < n; i++)
        t[i] = (char)byte;
    return to;
}

/* ---- the layer that guesses words ------------------------------------------------------- */

enum { PLACES = 8 };

static char attention_memory[SELF_ATTENTION_BYTES] __attribute__((aligned(64)));
static int64_t words[PLACES], targets[PLACES];
static bool hidden[PLACES * PLACES];

int64_t *EXPORT(attention_words)(void) { return words; }
int64_t *EXPORT(attention_targets)(void) { return targets; }
bool *EXPORT(attention_hidden)(void) { return hidden; }
void EXPORT(attention_begin)(void) { self_attention_begin(attention_memory); }
float EXPORT(attention_step)(void) {
    return *self_attention_step(attention_memory, words, hidden, targets);
}
const float *EXPORT(attention_weights)(void) { return self_attention_output1(attention_memory); }
const float *EXPORT(attention_scores)(void) { return self_attention_output2(attention_memory); }

/* ---- the GPT that makes up names -------------------------------------------------------- */

enum { BLOCK = 16 };

static char training[MICROGPT_BYTES] __attribute__((aligned(64)));
static char use[MICROGPT_USE_BYTES] __attribute__((aligned(64)));
static int64_t tokens[BLOCK], next_tokens[BLOCK];

const char *EXPORT(gpt_first_name)(int i) { return i < FEW_NAMES ? few_names[i] : ""; }
int64_t *EXPORT(gpt_tokens)(void) { return tokens; }
int64_t *EXPORT(gpt_targets)(void) { return next_tokens; }
void EXPORT(gpt_begin)(void) {
    microgpt_begin(training);
    microgpt_use_begin(use);
}
float EXPORT(gpt_step)(void) { return *microgpt_step(training, tokens, next_tokens); }

/* Returns the chances of the tokens that may follow. The parameters come first in both memories, in
 * one order. */
const float *EXPORT(gpt_chances)(float temperature) {
    memcpy(use, training, MICROGPT_PARAMETERS);
    return microgpt_use_step(use, tokens, &temperature);
}
