/*
 * run.c: runs the loop of a kernel: in the best instruction set of the processor, on several
 * threads if there is enough work, and with writes past the caches if the output is large.
 */
#include "kernels.h"
#include "tensor/shape.h"
#include "tensor/messages/warning.h"

#include <stdio.h>
#include <stdlib.h>

#define K_LOOPS "loops/stream.h"
#define K_TYPES_NONE
#include "sets.h"

/* ---- the instruction set --------------------------------------------------------------------- */

#define SET_NAME(set, suffix, ...)    [set] = #suffix,
#define SET_IN_LINE(set, suffix, ...) " " #suffix
#define IF_PRESENT(set, suffix, ...) \
    if (k_has_##suffix())            \
        best = set;

static const char *const set_names[K_SETS] = { K_EACH_SET(SET_NAME) };

/* Returns the instruction set with this name, such as "avx2", or -1 if there is none. */
static int named_set(const char *name) {
    for (int set = 0; set < K_SETS; set++)
        if (strcmp(set_names[set], name) == 0)
            return set;
    return -1;
}

void k_choose_set(const char *asked, int best, char wrong[K_SET_TEXT]) {
    k_set = best;
    *wrong = 0;
    if (!asked || !*asked)
        return;
    const int named = named_set(asked);
    if (named < 0)
        snprintf(wrong, K_SET_TEXT, "'%.40s' is none of" K_EACH_SET(SET_IN_LINE) "; %s runs", asked,
                 set_names[best]);
    else if (named > best)
        snprintf(wrong, K_SET_TEXT, "this processor has no %s; %s runs", asked, set_names[best]);
    else
        k_set = named;
}

/* Chooses the instruction set, before main runs. It is the best set that this processor has, or a
 * lower one that the environment variable REGARD_CPU names. (The sets in K_EACH_SET are in
 * ascending order.) If REGARD_CPU names a set that doesn't exist, or that the processor lacks, a
 * warning says so. The warning goes to standard error, since the program can't have installed a
 * handler of warnings yet. */
__attribute__((constructor)) static void choose_set(void) {
    int best = 0;
    char wrong[K_SET_TEXT];
#ifdef K_X86
    __builtin_cpu_init();
#endif
    K_EACH_SET(IF_PRESENT)
    k_choose_set(getenv("REGARD_CPU"), best, wrong);
    if (*wrong)
        rgi_warn("REGARD_CPU", "%s", wrong);
}

static rg_loop *stream_loop_of_set(void) {
    static rg_loop *const loops[K_COLUMNS] = K_BY_SET(stream_loop);
    return K_LOOP_OF_SET(loops);
}

/* ---- tasks for the threads ------------------------------------------------------------------- */

/* A task has about RUN_GRAIN elements, or more if there would be more than RUN_PARTS tasks. Another
 * thread is used only if it gets the work of at least RUN_WORTH tasks. An output of fewer than
 * RUN_LONG elements is computed by one thread. If such an output is contiguous, its dims are walked
 * in their own order. Rows of at least RUN_STREAM bytes may be written past the caches. */
enum {
    RUN_GRAIN = 1 << 13,
    RUN_PARTS = 64,
    RUN_WORTH = 4,
    RUN_LONG = 1 << 14,
    RUN_STREAM = 8 << 10,
};

/* Splits the rows into tasks, and calls `work` for each task. If only one thread is used, all rows
 * are one task, because a task that writes past the caches takes a microsecond to begin and end. */
RG_HOT void k_rows(int64_t rows, int64_t n, rg_work *work, void *context) {
    const int64_t grain = RG_MAX(1, RUN_GRAIN / RG_MAX(n, 1));
    const int workers = rows * n < RG_LARGE ? 1 : rgi_workers(rows, RUN_WORTH * grain);
    const int64_t part = workers > 1 ? RG_MAX(grain, rows / RUN_PARTS) : rows;
    if (rows)
        rgi_parallel(rows, part, workers, work, context);
}

/* A walk that several threads share. A task is `rows` indices of the walk's outermost dim. If
 * `stream`, the output is written past the caches. */
typedef struct {
    const rg_walk *whole;
    rg_loop *loop;
    const void *context;
    int64_t rows;
    bool stream;
} run_spread;

static void run_part(void *context, int64_t begin, int64_t end, int worker) {
    const run_spread *s = context;
    rg_walk w = *s->whole;
    (void)worker;
    begin *= s->rows;
    end = RG_MIN(end * s->rows, w.size[0]);
    for (int k = 0; k < w.n; k++)
        w.data[k] += begin * w.step[0][k];
    w.numel = w.numel / w.size[0] * (end - begin);
    w.size[0] = end - begin;
    rgi_walk_run(&w, s->loop, s->context);
    if (s->stream)
        k_stream_end();
}

/* Returns whether the output should be written past the caches. That is so if it is too large for
 * the caches and has long rows, and if no input begins at the address of the output. */
static bool run_streams(const rg_walk *w, const rg_tensor *out) {
    if (!k_should_stream(out, 0) || !w->ndim || w->size[w->ndim - 1] * w->element[0] < RUN_STREAM)
        return false;
    for (int k = 1; k < w->n; k++)
        if (w->data[k] == w->data[0])
            return false;
    return true;
}

/* Returns whether each input of the walk is a single number: its step is 0 in every dim. */
static bool run_of_numbers(const rg_walk *w) {
    for (int d = 0; d < w->ndim; d++)
        for (int k = 1; k < w->n; k++)
            if (w->step[d][k])
                return false;
    return true;
}

/* Computes one element by `loop`, and stores it at `element`. Changes the walk w to one that copies
 * this element to the whole output, and returns the loop that copies. */
static rg_loop *run_element(rg_walk *w, rg_dtype dtype, void *element, rg_loop *loop,
                            const void *context) {
    char *p[RG_MAX_OPERANDS];
    memcpy(p, w->data, (size_t)w->n * sizeof *p);
    p[0] = element;
    loop(p, w->element, 1, context);
    w->n = 2;
    w->data[1] = element;
    w->element[1] = w->element[0];
    return rgi_copy_loop(dtype, dtype);
}

RG_HOT void k_run_apart(bool light, bool pure, int n, rg_tensor *const t[], rg_loop *loop,
                        const void *context) {
    const bool is_short = RG_LIKELY(t[0]->numel < RUN_LONG);
    if (is_short && t[0]->flags & RG_CONTIGUOUS) {
        rgi_each(n, t, loop, context);
        return;
    }
    rg_walk w;
    rgi_walk_make(&w, n, t, true);
    /* The ways below use buffers, which a thread that traces could not name; the bits are the
     * same. */
    if (is_short || RG_UNLIKELY(k_set_now() == K_TRACED)) {
        rgi_walk_run(&w, loop, context);
        return;
    }
    int64_t element;
    if (pure && run_of_numbers(&w)) {
        loop = run_element(&w, t[0]->dtype, &element, loop, context);
        light = true;
    }
    run_spread spread = { .whole = &w,
                          .loop = loop,
                          .context = context,
                          .rows = 1,
                          .stream = light && run_streams(&w, t[0]) };
    const k_stream stream = { .n = n, .loop = loop, .context = context };
    if (spread.stream) {
        spread.loop = stream_loop_of_set();
        spread.context = &stream;
    }
    k_turning turning;
    if (k_turn_operands(&turning, &w, spread.loop, spread.context)) {
        spread.loop = k_turned_loop;
        spread.context = &turning;
        spread.rows = w.ndim == 1 ? K_TURN_SIDE : 1;
    }
    const int64_t size = w.size[0];
    const int64_t parts = (size - 1) / spread.rows + 1;
    k_rows(parts, w.numel / size * RG_MIN(spread.rows, size), run_part, &spread);
}

RG_HOT void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context) {
    k_run_apart(false, false, n, t, inner, context);
}

/* ---- loops on elements that are widened ------------------------------------------------------ */

/* The context of widened_rows: a loop for float or int64_t, its context, and the operands' dtypes.
 */
typedef struct {
    rg_loop *loop;
    const void *context;
    int n;
    rg_dtype dtype[RG_MAX_OPERANDS];
} widened_run;

/* Runs the loop on n elements. An input that is a single number (s[k] is 0) is converted for the
 * first block only. */
static __attribute__((cold)) void widened_rows(char *const p[], const int64_t s[], int64_t n,
                                               const void *context) {
    enum { BLOCK = 256 };
    const widened_run *run = context;
    int64_t room[RG_MAX_OPERANDS][BLOCK];
    int64_t step[RG_MAX_OPERANDS];
    char *q[RG_MAX_OPERANDS];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = RG_MIN(n - i, BLOCK);
        for (int k = 0; k < run->n; k++) {
            const rg_dtype wide = rgi_widened(run->dtype[k]);
            const bool widened = wide != run->dtype[k];
            const bool number = k && s[k] == 0;
            q[k] = widened ? (char *)room[k] : p[k] + i * s[k];
            step[k] = widened && !number ? (int64_t)rgi_sizeof(wide) : s[k];
            if (k && widened && !(number && i))
                k_widened_copy_loop(wide, run->dtype[k])((char *[]){ q[k], p[k] + i * s[k] },
                                                         (int64_t[]){ step[k], s[k] },
                                                         number ? 1 : m, NULL);
        }
        run->loop(q, step, m, run->context);
        if (q[0] == (char *)room[0])
            k_widened_copy_loop(run->dtype[0], rgi_widened(run->dtype[0]))(
                (char *[]){ p[0] + i * s[0], q[0] }, (int64_t[]){ s[0], step[0] }, m, NULL);
    }
}

__attribute__((cold)) bool k_run_widened(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[],
                                         const double *numbers) {
    rg_tensor *t[RG_MAX_OPERANDS] = { y };
    widened_run run = { .context = numbers, .n = k->n + 1, .dtype = { y->dtype } };
    const rg_dtype narrow = in[k->n - 1]->dtype;
    const rg_dtype wide = rgi_widened(narrow);
    for (int i = 0; i < k->n; i++) {
        t[i + 1] = in[i];
        run.dtype[i + 1] = in[i]->dtype;
    }
    if (!k->by_dtype[wide][0])
        k_not_implemented(k->name, narrow);
    else
        run.loop = K_LOOP_OF(k->by_dtype, wide, k->name);
    if (!run.loop)
        return false;
    k_run_apart(false, true, k->n + 1, t, widened_rows, &run);
    return true;
}

RG_HOT bool k_run_with(const rg_kernel *k, rg_tensor *y, rg_tensor *const in[],
                       const double *numbers) {
    rg_dtype dtype = in[k->n - 1]->dtype;
    if (RG_UNLIKELY(rgi_is_widened(dtype))) {
        if (!k->by_dtype[RG_BFLOAT16][0])
            return k_run_widened(k, y, in, numbers);
        dtype = rgi_dtype_of_size(rgi_sizeof(dtype));
    }
    rg_loop *loop = K_LOOP_OF(k->by_dtype, dtype, k->name);
    if (!loop)
        return false;
    rg_tensor *t[RG_MAX_OPERANDS] = { y };
    for (int i = 0; i < k->n; i++) {
        t[i + 1] = in[i];
        RG_FEW();
    }
    k_run_apart(k->light, true, k->n + 1, t, loop, numbers);
    return true;
}

void k_lines(int n, rg_tensor *const t[], int dim, bool reverse, int64_t step[], rg_loop *loop,
             const void *context) {
    rg_tensor first[RG_MAX_OPERANDS];
    rg_tensor *all[RG_MAX_OPERANDS];
    for (int k = 0; k < n; k++) {
        first[k] = rgi_header_of(t[k]);
        all[k] = &first[k];
        if (!t[k]->ndim)
            continue;
        step[k] = t[k]->stride[dim] * (int64_t)rgi_sizeof(t[k]->dtype);
        if (reverse) {
            first[k].data += (t[k]->size[dim] - 1) * step[k];
            step[k] = -step[k];
        }
        first[k].size[dim] = RG_MIN(1, t[k]->size[dim]);
        rgi_update_flags(&first[k]);
    }
    rgi_each(n, all, loop, context);
}
