/*
 * graphs.c: steps of random operations, which tests/export/run compiles as C.
 *
 *     graphs write FOLDER FIRST N     writes the steps number FIRST .. FIRST + N - 1 to C files in
 *                                     the folder, the program batch.c, which makes three steps of
 *                                     each, and batch.bin, the inputs and the results that the
 *                                     replays have
 *     graphs compile FIRST N          compiles the steps in place (rg_replay_compile), and compares
 *                                     three repetitions with the operations themselves
 *
 * A step is a few calls of the functions of tests/autograd/golden.def, which fuzz_ops.c calls, too,
 * then a backward run and an optimizer's step. Most random calls are refused, and such calls aren't
 * part of a step.
 */
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 3, MOST_CALLS = 12, MOST_TENSORS = 24, MOST_KEPT = 32, LARGEST = 6000 };

/* ---- random arguments ------------------------------------------------------------------ */

static uint64_t state;
/* The tensors of the step up to now, from which arguments are drawn. */
static rg_tensor **tensors;
static int n_tensors;

/* Returns a number in [0, n). */
static uint64_t any(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* Returns a tensor, more often a late one than an early one. */
static rg_tensor *any_tensor(void) {
    const uint64_t n = (uint64_t)n_tensors, last = n < 3 ? n : 3;
    const uint64_t i = any(3) ? any(n) : n - 1 - any(last);
    return any(24) ? tensors[i] : any(2) ? RG_NONE : rg_wrap_float((double)any(9) / 4 - 1);
}

static int64_t any_integer(void) { return any(30) ? (int64_t)any(5) - 1 : (int64_t)any(40) - 20; }

static double any_number(void) {
    static const double odd[] = { 0, 1, 2, -1, INFINITY, -INFINITY, NAN, 1e30 };
    return any(8) ? (double)any(60) / 20 : odd[any(8)];
}

/* Returns a tensor's shape, the same with two dims exchanged, or a few numbers. */
static rg_dims any_dims(void) {
    rg_dims d = { .n = (int)any(4) };
    for (int i = 0; i < RG_MAX_DIMS; i++)
        d.v[i] = any_integer();
    if (any(2))
        return d;
    rg_tensor *t = tensors[any((uint64_t)n_tensors)];
    d = rg_shape(t);
    if (d.n > 1 && any(2)) {
        const int64_t first = d.v[0];
        d.v[0] = d.v[d.n - 1];
        d.v[d.n - 1] = first;
    }
    return d;
}

static rg_list any_list(void) {
    static rg_tensor *v[3];
    const int n = 1 + (int)any(3);
    for (int i = 0; i < n; i++)
        v[i] = any_tensor();
    return (rg_list){ n, v };
}

static rg_dtype any_dtype(void) {
    static const rg_dtype dtypes[] = { RG_FLOAT32, RG_FLOAT64, RG_INT64, RG_BOOL };
    return dtypes[any(2) ? any(2) : any(4)];
}

static const char *any_text(void) {
    static const char *const texts[] = { "ij,jk->ik",
                                         "ii->i",
                                         "...i,i...->...",
                                         "ij,kj->ik",
                                         "ij->ji",
                                         "i,i->",
                                         "sum",
                                         "prod",
                                         "mean",
                                         "amax",
                                         "amin",
                                         "linear",
                                         "lower",
                                         "nearest",
                                         "midpoint",
                                         "ij",
                                         "xy",
                                         "higher",
                                         "use_mm_for_euclid_dist" };
    return texts[any(sizeof texts / sizeof *texts)];
}

static int n_items;
static const rg_item_index *any_items(void) {
    static const char *const texts[] = { "1:3", "::2", "...", "-1", ":, 0", "0:2", "None", "0" };
    static rg_item_index v[3];
    for (int i = 0; i < n_items; i++) {
        switch (any(4)) {
        case 0: v[i] = rg_index_text(texts[any(8)]); break;
        case 1: v[i] = rg_index_tensor(any_tensor()); break;
        case 2: v[i] = rg_index_slice((int64_t)any(3), 1 + (int64_t)any(4), 1); break;
        default: v[i] = rg_index_number((int64_t)any(3) - 1); break;
        }
    }
    return v;
}

static rg_loss_options any_loss_options(void) {
    return (rg_loss_options){ .reduction = (rg_reduction)any(3),
                              .weight = any(4) ? RG_NONE : any_tensor(),
                              .pos_weight = any(4) ? RG_NONE : any_tensor(),
                              .ignore_index = (int64_t)any(3) - 1,
                              .label_smoothing = any(2) ? 0 : 0.1,
                              .beta = 0.5,
                              .delta = 0.75,
                              .log_target = any(2) };
}

static rg_conv_options any_conv_options(void) {
    return (rg_conv_options){ .stride = 1 + (int64_t)any(2),
                              .padding = any(5) ? (int64_t)any(3) : RG_SAME,
                              .dilation = 1 + (int64_t)any(2),
                              .groups = any(4) ? 1 : 2 };
}

static rg_max_pool_options any_max_pool_options(void) {
    return (rg_max_pool_options){ .stride = any(2) ? 1 + (int64_t)any(2) : RG_KERNEL,
                                  .padding = (int64_t)any(2),
                                  .dilation = 1 + (int64_t)any(2),
                                  .ceil_mode = any(2) };
}

static rg_avg_pool_options any_avg_pool_options(void) {
    return (rg_avg_pool_options){ .stride = any(2) ? 1 + (int64_t)any(2) : RG_KERNEL,
                                  .padding = (int64_t)any(2),
                                  .ceil_mode = any(2),
                                  .count_include_pad = any(2),
                                  .divisor_override = any(4) ? RG_WINDOW : 3 };
}

/* ---- functions, a row each: the golden test's table ------------------------------------- */

#define T(k)             any_tensor()
#define I(k)             (int)any_integer()
#define L(k)             any_integer()
#define X(k)             any_number()
#define D(k)             any_dims()
#define Y(k)             any_dtype()
#define S(k)             any_text()
#define LIST(k)          any_list()
#define ITEMS(k)         n_items, any_items()
#define LOSS_OPTIONS     any_loss_options()
#define CONV_OPTIONS     any_conv_options()
#define MAX_POOL_OPTIONS any_max_pool_options()
#define AVG_POOL_OPTIONS any_avg_pool_options()
#define MARGIN_OPTIONS(type, k) \
    (type) { .reduction = (rg_reduction)any(3), .margin = any_number() }

static rg_tensor *first_of(rg_list l) { return l.n > 0 ? l.v[any((uint64_t)l.n)] : NULL; }

#define CALL(name, ...) \
    static rg_tensor *random_##name(void) { return __VA_ARGS__; }
#define ONE(name)                 TENSOR(name, T(0))
#define TWO(name)                 TENSOR(name, T(0), T(1))
#define TENSOR(name, ...)         CALL(name, (rg_##name)(__VA_ARGS__))
#define VALUES_INDICES(name, ...) CALL(name, (rg_##name)(__VA_ARGS__).values)
#define UNIQUE(name, ...)         VALUES_INDICES(name, __VA_ARGS__)
#define TENSORS(name, ...)        CALL(name, first_of((rg_##name)(__VA_ARGS__)))
#define NUMBER(name, ...)
/* Functions of random numbers, beside those of the table. */
#define RANDOM_NUMBERS                                              \
    TENSOR(rand_like, T(0))                                         \
    TENSOR(randn_like, T(0))                                        \
    TENSOR(uniform_with_, T(0), -0.5, X(2), rg_default_generator()) \
    TENSOR(normal_with_, T(0), X(1), 0.5, rg_default_generator())   \
    TENSOR(bernoulli_with_, T(0), X(1) / 3, rg_default_generator())
RANDOM_NUMBERS
#include "tests/autograd/golden.def"
#undef CALL

static const struct {
    const char *name;
    rg_tensor *(*call)(void);
} functions[] = {
#define CALL(name, ...) { #name, random_##name },
    RANDOM_NUMBERS
#include "tests/autograd/golden.def"
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- a step ------------------------------------------------------------------------------ */

/* A call of a function. Its arguments are drawn from the stream of random numbers that begins at
 * `seed`. If `keeps` is set, the step copies the result to a tensor that outlives it. */
typedef struct {
    size_t function;
    uint64_t seed;
    bool keeps;
} random_call;

/* A step. Calls work on the parameters, the inputs, and the results of earlier calls. The step
 * copies inputs and results to kept[]. If `optimizer` is NULL, it doesn't run backward. */
typedef struct {
    rg_tensor *parameter[3], *input[3], *kept[MOST_KEPT], *loss;
    int n_parameters, n_inputs, n_kept;
    random_call calls[MOST_CALLS];
    int n_calls;
    rg_optim *optimizer;
} graph;

/* Makes the call. Returns NULL if the function refuses it, or if its result is large. */
static rg_tensor *make_call(const random_call *c) {
    state = c->seed;
    n_items = 1 + (int)any(2);
    rg_tensor *y = functions[c->function].call();
    return y && y != RG_NONE && rg_numel(y) <= LARGEST ? y : NULL;
}

/* Copies the tensor to the next of the kept tensors. */
static void keep(graph *g, int *n, rg_tensor *t) {
    RG_NO_GRAD();
    rg_copy_(g->kept[(*n)++], rg_detach(t));
}

/* Makes the calls. Sets tensors[] to what they work on and to their results. Returns the last
 * result, or NULL if a call is refused. */
static rg_tensor *make_calls(graph *g, rg_tensor *all[MOST_TENSORS]) {
    int kept = 0;
    rg_tensor *y = all[0];
    tensors = all;
    n_tensors = 0;
    for (int i = 0; i < g->n_parameters; i++)
        all[n_tensors++] = g->parameter[i];
    for (int i = 0; i < g->n_inputs; i++) {
        keep(g, &kept, g->input[i]);
        all[n_tensors++] = g->input[i];
    }
    for (int i = 0; i < g->n_calls; i++) {
        y = make_call(&g->calls[i]);
        if (!y)
            return NULL;
        all[n_tensors++] = y;
        if (g->calls[i].keeps)
            keep(g, &kept, y);
    }
    return y;
}

/* Returns a sum over all parameters and half of the results that can be differentiated, so that
 * the step trains all parameters. */
static rg_tensor *loss_of(const graph *g) {
    rg_tensor *loss = rg_scalar(0.5);
    for (int i = 0; i < n_tensors; i++) {
        rg_tensor *t = tensors[i];
        if (rg_requires_grad(t) && (i < g->n_parameters || i % 2))
            loss = rg_add(loss, rg_to(rg_sum(rg_tanh(rg_mul(t, t))), RG_FLOAT32));
    }
    return loss;
}

/* Makes the calls and the backward run. Returns the loss, or NULL on failure. */
static rg_tensor *run_graph(graph *g) {
    rg_tensor *all[MOST_TENSORS];
    const bool before = rg_set_grad_enabled(g->optimizer != NULL);
    rg_tensor *loss = make_calls(g, all) ? loss_of(g) : NULL;
    if (loss && g->optimizer) {
        rg_optim_zero_grad(g->optimizer);
        rg_backward(loss);
    }
    rg_set_grad_enabled(before);
    return loss;
}

static void make_step(void *context) {
    RG_SCOPE();
    graph *g = context;
    rg_tensor *loss = run_graph(g);
    if (loss && g->optimizer)
        rg_optim_step(g->optimizer);
    if (loss && !g->loss)
        g->loss = rg_keep(rg_detach(loss));
    else if (loss)
        rg_copy_(g->loss, rg_detach(loss));
}

/* Makes the same step without the optimizer's part. */
static void try_step(void *context) {
    RG_SCOPE();
    run_graph(context);
}

/* ---- making a step ------------------------------------------------------------------------- */

/* Returns a shape whose dims are few different numbers, so that tensors fit each other. */
static rg_dims new_shape(const int64_t sizes[3]) {
    rg_dims d = { .n = any(8) ? 1 + (int)any(3) : 0 };
    for (int i = 0; i < d.n; i++)
        d.v[i] = any(8) ? sizes[any(3)] : 1;
    return d;
}

/* Sets the elements to random numbers: whole ones are 0, 1 or 2, and are indices, too. */
static void fill(rg_tensor *t, uint64_t seed) {
    state = seed * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < rg_numel(t); i++) {
        const uint64_t x = any(3000);
        switch ((rg_dtype)rg_dtype_of(t)) {
        case RG_BOOL: ((bool *)rg_data(t))[i] = x % 2; break;
        case RG_INT64: ((int64_t *)rg_data(t))[i] = (int64_t)x % 3; break;
        case RG_FLOAT32: ((float *)rg_data(t))[i] = (float)x / 1000 - 1.5f; break;
        default: ((double *)rg_data(t))[i] = (double)x / 1000 - 1.5; break;
        }
    }
}

/* Fills parameters and inputs. Inputs lose the history that a call in place has given them. */
static void fill_tensors(graph *g, uint64_t seed) {
    const uint64_t kept = state;
    for (int i = 0; i < g->n_parameters; i++)
        fill(g->parameter[i], seed + (uint64_t)i);
    for (int i = 0; i < g->n_inputs; i++)
        fill(rg_detach_(g->input[i]), seed + 3 + (uint64_t)i);
    state = kept;
}

static void fill_inputs(graph *g, uint64_t seed) {
    for (int i = 0; i < g->n_inputs; i++)
        fill(g->input[i], seed + (uint64_t)i);
}

static rg_optim *new_optimizer(graph *g) {
    const rg_list parameters = { g->n_parameters, g->parameter };
    switch (any(8)) {
    case 0: return NULL;
    case 1: return rg_optim_adam(parameters, .lr = 0.05);
    case 2: return rg_optim_adamw(parameters, .lr = 0.05, .amsgrad = true);
    case 3: return rg_optim_sgd(parameters, .lr = 0.05, .momentum = 0.9);
    case 4: return rg_optim_rmsprop(parameters, .lr = 0.01);
    default: return rg_optim_sgd(parameters, .lr = 0.05);
    }
}

static void new_tensors(graph *g) {
    static const rg_dtype inputs[] = { RG_FLOAT32, RG_INT64, RG_BOOL, RG_FLOAT64 };
    const rg_dtype main = any(5) ? RG_FLOAT32 : RG_FLOAT64;
    const int64_t largest = any(4) ? 4 : 40;
    int64_t sizes[3];
    for (int i = 0; i < 3; i++)
        sizes[i] = any(20) ? 1 + (int64_t)any((uint64_t)largest) : 0;
    g->n_parameters = 1 + (int)any(3);
    g->n_inputs = 1 + (int)any(3);
    for (int i = 0; i < g->n_parameters; i++)
        g->parameter[i] = rg_keep(
            rg_requires_grad_(rg_zeros_dims(new_shape(sizes), any(10) ? main : RG_FLOAT64), true));
    for (int i = 0; i < g->n_inputs; i++) {
        const rg_dtype dtype = any(2) ? main : inputs[any(4)];
        g->input[i] = rg_keep(rg_zeros_dims(new_shape(sizes), dtype));
        g->kept[g->n_kept++] = rg_keep(rg_zeros_like(g->input[i]));
    }
}

/* Adds a random call, if it isn't refused, and a step with it can be recorded. */
static void try_call(graph *g, uint64_t seed) {
    RG_SCOPE();
    rg_tensor *all[MOST_TENSORS];
    random_call *c = &g->calls[g->n_calls++];
    *c = (random_call){ .function = any(FUNCTIONS), .seed = any((uint64_t)1 << 31) };
    const bool keeps = any(2);
    const uint64_t next = state;
    rg_set_grad_enabled(g->optimizer != NULL);
    fill_tensors(g, seed);
    rg_tensor *y = make_calls(g, all);
    fill_tensors(g, seed);
    rg_replay *r = y ? rg_record(try_step, g) : NULL;
    rg_replay_free(r);
    if (!r)
        g->n_calls--;
    else if (keeps) {
        g->kept[g->n_kept++] = rg_keep(rg_zeros_dims(rg_shape(y), (rg_dtype)rg_dtype_of(y)));
        c->keeps = true;
    }
    rg_set_grad_enabled(true);
    rg_error_clear();
    state = next;
}

static graph new_graph(uint64_t seed) {
    enum { TRIALS = 200 };
    RG_SCOPE();
    graph g = { .n_calls = 0 };
    state = seed * 0x9e3779b97f4a7c15u;
    any(2);
    new_tensors(&g);
    g.optimizer = new_optimizer(&g);
    const int wanted = 1 + (int)any(MOST_CALLS);
    for (int i = 0; i < TRIALS && g.n_calls < wanted; i++)
        try_call(&g, seed);
    fill_tensors(&g, seed);
    return g;
}

static void free_graph(graph *g) {
    for (int i = 0; i < g->n_parameters; i++)
        rg_drop(g->parameter[i]);
    for (int i = 0; i < g->n_inputs; i++)
        rg_drop(g->input[i]);
    for (int i = 0; i < g->n_kept; i++)
        rg_drop(g->kept[i]);
    if (g->loss)
        rg_drop(g->loss);
    rg_optim_free(g->optimizer);
    rg_error_clear();
}

/* Prints the functions that the step calls. */
static void print_calls(const graph *g, FILE *f) {
    for (int i = 0; i < g->n_calls; i++)
        fprintf(f, " %s", functions[g->calls[i].function].name);
    fprintf(f, "\n");
}

/* ---- writing steps ---------------------------------------------------------------------- */

/* The number of steps that are written, and of those that aren't, because of these errors. */
static int done, refused, not_recorded, not_valid;

static size_t bytes_of(rg_tensor *t) {
    static const size_t sizes[] = {
        [RG_BOOL] = 1, [RG_INT64] = 8, [RG_FLOAT32] = 4, [RG_FLOAT64] = 8
    };
    return (size_t)rg_numel(t) * sizes[rg_dtype_of(t)];
}

static void write_tensor(FILE *f, rg_tensor *t) {
    if (bytes_of(t))
        fwrite(rg_data(t), 1, bytes_of(t), f);
}

/* Lists what the written step computes besides the loss. */
static rg_list more_outputs(graph *g, rg_tensor *all[]) {
    int n = 0;
    for (int i = 0; i < g->n_kept; i++)
        all[n++] = g->kept[i];
    for (int i = 0; i < g->n_parameters; i++)
        all[n++] = g->parameter[i];
    return (rg_list){ n, all };
}

/* Repeats the step, and writes inputs and results. Returns false if a repetition fails, because an
 * index isn't valid. */
static bool write_numbers(graph *g, rg_replay *r, rg_list outputs, FILE *f) {
    for (int k = 0; k < REPETITIONS; k++) {
        fill_inputs(g, (uint64_t)(10 * k + 77));
        for (int i = 0; i < g->n_inputs; i++)
            write_tensor(f, g->input[i]);
        if (!rg_replay_run(r))
            return false;
        write_tensor(f, g->loss);
        for (int i = 0; i < outputs.n; i++)
            write_tensor(f, outputs.v[i]);
    }
    return true;
}

/* Adds the function run_NAME, which makes the steps, and compares their results. */
static void write_run(graph *g, const char *name, rg_list outputs, FILE *f) {
    fprintf(f, "\n#include \"%s.c\"\nstatic void run_%s(void) {\n", name, name);
    fprintf(f, "    char *m = new_memory(\"%s\", G%s_BYTES);\n    %s_begin(m);\n", name, name + 1,
            name);
    fprintf(f, "    for (int i = 0; i < %d; i++) {\n", REPETITIONS);
    for (int i = 0; i < g->n_inputs; i++)
        fprintf(f, "        void *input%d = read_input(%zu);\n", i, bytes_of(g->input[i]));
    fprintf(f, "        compare(%s_step(m", name);
    for (int i = 0; i < g->n_inputs; i++)
        fprintf(f, ", input%d", i);
    fprintf(f, "), 4, 1);\n");
    for (int i = 0; i < outputs.n; i++)
        fprintf(f, "        compare(%s_output%d(m), %d, %lld);\n", name, i + 1,
                rg_dtype_of(outputs.v[i]) == RG_FLOAT32   ? 4
                : rg_dtype_of(outputs.v[i]) == RG_FLOAT64 ? 8
                                                          : 1,
                rg_is_floating_point(outputs.v[i]) ? (long long)rg_numel(outputs.v[i])
                                                   : (long long)bytes_of(outputs.v[i]));
    for (int i = 0; i < g->n_inputs; i++)
        fprintf(f, "        free(input%d);\n", i);
    fprintf(f, "    }\n    free(m);\n}\n");
}

/* Writes the step, its function in batch.c, and its numbers in batch.bin. */
static void write_graph(graph *g, const char *folder, const char *name, FILE *batch, FILE *bin) {
    RG_SCOPE();
    char path[4096], *numbers = NULL;
    size_t n = 0;
    rg_tensor *all[MOST_KEPT + 3];
    const rg_list outputs = more_outputs(g, all);
    rg_replay *r = rg_record(make_step, g);
    snprintf(path, sizeof path, "%s/%s.c", folder, name);
    if (!r) {
        not_recorded++;
        printf("%s isn't recorded: %s;", name, rg_error());
        print_calls(g, stdout);
    } else if (!rg_replay_to_c(
                   r, path, .name = name, .output = g->loss, .inputs = { g->n_inputs, g->input },
                   .parameters = { g->n_parameters, g->parameter }, .more_outputs = outputs)) {
        refused++;
        printf("%s is refused: %s;", name, rg_error());
        print_calls(g, stdout);
    } else {
        FILE *f = open_memstream(&numbers, &n);
        const bool valid = write_numbers(g, r, outputs, f);
        fclose(f);
        done += valid;
        not_valid += !valid;
        if (valid) {
            fwrite(numbers, 1, n, bin);
            write_run(g, name, outputs, batch);
            fprintf(batch, "#define RUN_%s run_%s();\n", name, name);
        } else {
            fprintf(batch, "\n#define RUN_%s\n", name);
        }
        free(numbers);
    }
    if (!numbers)
        fprintf(batch, "\n#define RUN_%s\n", name);
    rg_replay_free(r);
    rg_error_clear();
}

static int write_graphs(const char *folder, uint64_t first, uint64_t n) {
    char path[4096], name[64];
    snprintf(path, sizeof path, "%s/batch.c", folder);
    FILE *batch = fopen(path, "w");
    snprintf(path, sizeof path, "%s/batch.bin", folder);
    FILE *bin = fopen(path, "w");
    fprintf(batch, "#include \"batch.h\"\n");
    for (uint64_t i = first; i < first + n; i++) {
        graph g = new_graph(i);
        snprintf(name, sizeof name, "g%llu", (unsigned long long)i);
        write_graph(&g, folder, name, batch, bin);
        free_graph(&g);
    }
    fprintf(batch, "\nint main(void) {\n");
    for (uint64_t i = first; i < first + n; i++)
        fprintf(batch, "    RUN_g%llu\n", (unsigned long long)i);
    fprintf(batch, "    return failed;\n}\n");
    fclose(batch);
    fclose(bin);
    printf("graphs: %d written, %d refused, %d not recorded, %d with invalid indices\n", done,
           refused, not_recorded, not_valid);
    return EXIT_SUCCESS;
}

/* ---- compiling steps in place ------------------------------------------------------------- */

/* Many steps are compiled as one, since a compiler needs most of its time to begin. */
enum { GROUP = 50 };
typedef struct {
    graph graphs[GROUP];
    int n;
} group;

static group new_group(uint64_t first, int n) {
    group all = { .n = n };
    for (int i = 0; i < n; i++)
        all.graphs[i] = new_graph(first + (uint64_t)i);
    return all;
}

static void free_group(group *all) {
    for (int i = 0; i < all->n; i++)
        free_graph(&all->graphs[i]);
}

static void make_steps(void *context) {
    group *all = context;
    for (int i = 0; i < all->n; i++)
        make_step(&all->graphs[i]);
}

static bool is_same_number(double x, double y) {
    return memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y);
}

static bool are_same(rg_tensor *x, rg_tensor *y) {
    RG_SCOPE();
    x = rg_contiguous(rg_to(rg_detach(x), RG_FLOAT64));
    y = rg_contiguous(rg_to(rg_detach(y), RG_FLOAT64));
    for (int64_t i = 0; i < rg_numel(x); i++)
        if (!is_same_number(((double *)rg_data(x))[i], ((double *)rg_data(y))[i]))
            return false;
    return true;
}

/* Returns whether the results of two copies of a step are the same. */
static bool compare_graphs(graph *x, graph *y, uint64_t seed) {
    rg_tensor *of_x[MOST_KEPT + 3], *of_y[MOST_KEPT + 3];
    const rg_list outputs = more_outputs(x, of_x);
    bool same = are_same(x->loss, y->loss);
    more_outputs(y, of_y);
    for (int i = 0; i < outputs.n; i++)
        same = same && are_same(of_x[i], of_y[i]);
    if (!same) {
        printf("g%llu, compiled, computes something else:", (unsigned long long)seed);
        print_calls(x, stdout);
    }
    return same;
}

/* Runs the operations on `plain`, and the compiled step on `compiled`. Returns the number of steps
 * that differ, or -1 if an operation fails. */
static int compare_groups(group *plain, group *compiled, rg_replay *r, uint64_t first) {
    int differ = 0;
    for (int k = 0; k < REPETITIONS; k++) {
        for (int i = 0; i < plain->n; i++) {
            for (int m = 0; m < plain->graphs[i].n_inputs; m++)
                rg_detach_(plain->graphs[i].input[m]);
            fill_inputs(&plain->graphs[i], (uint64_t)(10 * k + 77));
            fill_inputs(&compiled->graphs[i], (uint64_t)(10 * k + 77));
        }
        rg_manual_seed((uint64_t)k);
        make_steps(plain);
        rg_manual_seed((uint64_t)k);
        if (rg_error_code() != RG_OK || !rg_replay_run(r))
            return -1;
        for (int i = 0; i < plain->n; i++)
            differ += !compare_graphs(&plain->graphs[i], &compiled->graphs[i], first + (uint64_t)i);
    }
    return differ;
}

/* Compiles the steps as one. Returns the number of steps that compute something else, or -1 if an
 * operation fails, as for an index that isn't valid. */
static int compile_group(uint64_t first, int n) {
    group plain = new_group(first, n), compiled = new_group(first, n);
    rg_manual_seed(7);
    make_steps(&plain);
    rg_manual_seed(7);
    rg_replay *r = rg_error_code() == RG_OK ? rg_record(make_steps, &compiled) : NULL;
    int differ = r && rg_replay_compile(r) ? compare_groups(&plain, &compiled, r, first) : -1;
    if (n == 1 && differ < 0)
        printf("g%llu fails: %s\n", (unsigned long long)first, rg_error());
    rg_replay_free(r);
    free_group(&plain);
    free_group(&compiled);
    rg_error_clear();
    return differ;
}

static int compile_graphs(uint64_t first, uint64_t n) {
    int differ = 0, failed = 0;
    for (uint64_t i = first; i < first + n; i += GROUP) {
        const int size = first + n - i < GROUP ? (int)(first + n - i) : GROUP;
        const int together = compile_group(i, size);
        differ += together > 0 ? together : 0;
        for (int k = 0; together < 0 && k < size; k++) {
            const int alone = compile_group(i + (uint64_t)k, 1);
            differ += alone > 0 ? alone : 0;
            failed += alone < 0;
        }
    }
    printf("graphs: %llu compiled, of which %d fail; %d compute something else\n",
           (unsigned long long)n, failed, differ);
    return differ ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Shows warnings of compiling alone: the steps cause many others. */
static void say_warning(const char *message) {
    if (strstr(message, "compile"))
        printf("warning: %s\n", message);
}

int main(int argc, char **argv) {
    setenv("REGARD_ERRORS", "quiet", 0);
    rg_on_warning(say_warning);
    if (argc == 5 && strcmp(argv[1], "write") == 0)
        return write_graphs(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "compile") == 0)
        return compile_graphs(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    return EXIT_FAILURE;
}
