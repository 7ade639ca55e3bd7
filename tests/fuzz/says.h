/*
 * says.h: what each function of fuzz_ops.c says to a fixed series of calls: errors, and of results
 * the dtype, the shape, the strides, the history and every bit of every element; then the first
 * gradients and the gradients of these. All compilers and instruction sets give the same bits.
 */
#pragma once

#include "tests/libm.h"

/* A series has SAID calls; a new pool of tensors is made for every IN_A_POOL of them. */
enum { SAID = 800, IN_A_POOL = 20 };

/* ---- results ------------------------------------------------------------------------------- */

/* Writes a tensor's dtype, shape and grad_fn, and a hash of its strides and elements and of the
 * other results of the call. */
static void say_tensor(rg_tensor *y, char line[1000]) {
    uint64_t hash = 1;
    add_tensor(y, &hash);
    for (int i = 0; i < other_results.n; i++)
        add_tensor(other_results.v[i], &hash);
    snprintf(line, 1000, "%s %s %s %08x", rg_dtype_name(rg_dtype_of(y)), rg_repr_shape(y),
             rg_grad_fn(y), (unsigned)(hash >> 32));
}

/* Writes what a call without a result tensor returned, and a hash of what it may have changed. */
static void say_state(char line[1000]) {
    uint64_t hash = 1;
    for (int i = 0; i < POOL; i++)
        add_tensor(pool[i], &hash);
    for (int i = 0; i < MODULES; i++) {
        RG_SCOPE();
        add_named(rg_state_dict(modules[i]), &hash);
    }
    for (int i = 0; i < other_results.n; i++)
        add_tensor(other_results.v[i], &hash);
    snprintf(line, 1000, "%s %08x", answer ? answer : "done", (unsigned)(hash >> 32));
}

/* Writes the outcome of a call: the code and the sentence of an error, or what the call returned. A
 * number at the beginning of a sentence is left out: if two arguments exceed int64, the compiler
 * decides which of them the sentence names. */
static void say(rg_tensor *y, char line[1000]) {
    if (!y)
        snprintf(line, 1000, "%d %s", rg_error_code(),
                 rg_error() + strspn(rg_error(), "0123456789"));
    else if (y == RG_NONE)
        say_state(line);
    else
        say_tensor(y, line);
}

/* ---- gradients ----------------------------------------------------------------------------- */

/* Returns a gradient for y: ones, other numbers, or one number that is expanded. */
static rg_tensor *gradient_for(rg_tensor *y, uint64_t i) {
    if (i % 3 == 0)
        return rg_ones_like(y);
    rg_dims shape = { .n = rg_ndim(y) };
    for (int d = 0; d < shape.n; d++)
        shape.v[d] = rg_size(y, d);
    rg_tensor *gradient = rg_empty_dims(i % 3 == 1 ? shape : (rg_dims){ 0 }, rg_dtype_of(y));
    fill(gradient);
    return rg_expand_dims(gradient, shape);
}

/* Writes the outcome of backward from y: an error, or a hash of the gradients. */
static void say_backward(rg_tensor *y, rg_tensor *gradient, char line[1000]) {
    uint64_t hash = 1;
    if (!rg_backward(y, .gradient = gradient)) {
        snprintf(line, 1000, "%s", rg_error());
        return;
    }
    for (int i = 0; i < POOL; i++) {
        rg_tensor *g = rg_is_leaf(pool[i]) ? rg_grad_of(pool[i]) : RG_NONE;
        if (!g || g == RG_NONE)
            continue;
        hash_number(i, &hash);
        add_tensor(g, &hash);
    }
    snprintf(line, 1000, "gradients %08x", (unsigned)(hash >> 32));
}

/* Writes the outcome of a gradient's gradient: an error, or a hash of both. */
static void say_second(rg_tensor *y, rg_tensor *gradient, char line[1000]) {
    uint64_t hash = 1;
    rg_tensor *x[POOL], *first[POOL], *grows[POOL], *with[POOL], *second[POOL];
    int n = 0, m = 0;
    for (int i = 0; i < POOL; i++)
        if (rg_requires_grad(pool[i]))
            x[n++] = pool[i];
    rg_tensor *const ys[] = { y }, *const gs[] = { gradient };
    const rg_backward_options options = { .create_graph = true, .allow_unused = true };
    bool ok = rg_grad_many(1, ys, gs, n, x, first, options);
    for (int i = 0; ok && i < n; i++) {
        add_tensor(first[i], &hash);
        if (first[i] == RG_NONE || !rg_requires_grad(first[i]))
            continue;
        grows[m] = first[i];
        with[m++] = gradient_for(first[i], (uint64_t)i + 1);
    }
    ok = ok && (m == 0 || rg_grad_many(m, grows, with, n, x, second, options));
    for (int i = 0; ok && m && i < n; i++)
        add_tensor(second[i], &hash);
    snprintf(line, 1000, "second gradients %s %08x", ok ? "" : rg_error(), (unsigned)(hash >> 32));
}

/* If y is a view, the gradients are those of its base. */
static void say_gradients(rg_tensor *y, uint64_t i, char line[1000]) {
    rg_error_clear();
    rg_set_grad_enabled(true);
    if (y->flags & RG_VIEW)
        y = rgi_base_of(y);
    if (!rg_requires_grad(y)) {
        snprintf(line, 1000, "%s", rg_error());
        return;
    }
    rg_tensor *gradient = gradient_for(y, i);
    if (i % 2)
        say_second(y, gradient, line);
    else
        say_backward(y, gradient, line);
}

/* ---- series -------------------------------------------------------------------------------- */

/* Makes the i-th call of a series, which depends on nothing but its seed. */
static rg_tensor *call_fixed(size_t f, uint64_t seed, uint64_t i) {
    static const int64_t lengths[][2] = { { 2, 3 }, { 3, 4 },  { 2, 3 },  { 1, 4 },
                                          { 5, 8 }, { 16, 3 }, { 33, 7 }, { 120, 2 } };
    const uint64_t of_pool = i / IN_A_POOL;
    state = (seed + i) * 0x9e3779b97f4a7c15u;
    rg_manual_seed(seed);
    rg_generator_seed(generator, seed);
    memset(bytes, 0, sizeof bytes);
    rg_set_grad_enabled(true);
    plain = of_pool % 3 > 0;
    widened = of_pool % 5 == 4;
    memcpy(sizes, lengths[of_pool % (sizeof lengths / sizeof *lengths)], sizeof sizes);
    if (i % IN_A_POOL == 0)
        fill_pool();
    rg_set_grad_enabled(any(4) != 0);
    n_items = (int)any(5);
    rg_error_clear();
    nested = false;
    answer = NULL;
    other_results = (rg_list){ 0 };
    fixed = state | 1;
    rg_tensor *y = functions[f].call();
    fixed = 0;
    rg_set_default_dtype(RG_FLOAT32);
    return y;
}

static void add_line(const char *line, bool print, uint64_t *hash) {
    hash_text(line, hash);
    if (print)
        puts(line);
}

/* Prints a hash of all outcomes of a function's calls, or the outcomes themselves. The hash depends
 * on the C library if the function calls it. So if that isn't `known`, - is printed instead. */
static void say_function(size_t f, bool sentences, bool known) {
    char line[1000];
    uint64_t seed = 1, hash = 1;
    long done = 0;
    calling = functions[f].name;
    alarm(60);
    for (const char *c = calling; *c; c++)
        seed = seed * 31 + (unsigned char)*c;
    rg_manual_seed(seed);
    free_modules();
    make_modules();
    for (uint64_t i = 0; i < SAID; i++) {
        RG_SCOPE();
        rg_tensor *y = call_fixed(f, seed, i);
        if (nested)
            continue;
        done += y != NULL;
        say(y, line);
        add_line(line, sentences, &hash);
        if (!y || y == RG_NONE || !rg_requires_grad(y) || rg_numel(y) > LARGEST)
            continue;
        say_gradients(y, i, line);
        add_line(line, sentences, &hash);
    }
    if (!sentences && (known || !calls_libm(calling)))
        printf("%s %ld %08x\n", calling, done, (unsigned)(hash >> 32));
    else if (!sentences)
        printf("%s %ld -\n", calling, done);
}

/* Functions that call others are left out, because the calls inside depend on the order of the
 * table. */
static void say_functions(const char *which) {
    const bool known = libm_is_known();
    for (size_t f = 0; f < FUNCTIONS; f++) {
        if (which && strcmp(which, functions[f].name) == 0)
            say_function(f, true, true);
        if (!which && !calls_others(functions[f].name))
            say_function(f, false, known);
    }
}
