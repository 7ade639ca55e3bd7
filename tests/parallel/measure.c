/*
 * measure.c: measures the numbers with which docs/machines.md calculates. Run it under mpirun. For
 * a GPT with these options, it prints how long a step takes with and without the other ranks, and
 * how many bytes a step sends. It also prints how long sums of arrays of several sizes take.
 *
 *     measure [layers] [dim] [rows of a rank] [rounds]
 */
#include "holds.h"

#include <math.h>
#include <time.h>

enum { BLOCK = 128, WORDS = 512, KINDS = 3 };
static int layers = 6, dim = 256, rows = 4, rounds = 10;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sleeps until rank 0 has finished its work, and has made the file at `path`. */
static void sleep_until_rank_0(const char *path) {
    while (rg_rank() != 0) {
        FILE *f = fopen(path, "r");
        if (f) {
            fclose(f);
            break;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static void step(void *module, rg_list params, rg_optim *o, rg_tensor *x, rg_tensor *y) {
    RG_SCOPE();
    rg_optim_zero_grad(o);
    rg_backward(rg_call(module, x, y));
    rg_clip_grad_norm_(params, 1);
    rg_optim_step(o);
}

/* Compares two doubles, for qsort. */
static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints the shortest time and the median of the `rounds` times. */
static void print_times(const char *what, double *times) {
    qsort(times, (size_t)rounds, sizeof *times, by_size);
    if (rg_rank() == 0)
        printf("%-36s %9.3f ms at best, %9.3f in the middle\n", what, 1e3 * times[0],
               1e3 * times[rounds / 2]);
}

static void measure_steps(rg_gpt *model) {
    char path[64];
    const char *names[KINDS] = { "a step, rank 0 alone", "a step, each rank for itself",
                                 "a step together" };
    const rg_list params = rg_parameters(model);
    rg_optim *o = rg_optim_adamw(params);
    rg_distributed *d = rg_nn_distributed(model);
    rg_tensor *x = rg_randint(0, WORDS, rows, BLOCK);
    double times[KINDS][1000];
    int64_t sent = 0;
    step(d, params, o, x, x);
    /* Each round has a step of each kind, so that other work on the machine slows down all kinds
     * alike. */
    for (int i = 0; i < rounds; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            snprintf(path, sizeof path, "/tmp/regard-measure-%d", i);
            rg_barrier();
            if (kind == 0 && rg_rank() != 0) {
                sleep_until_rank_0(path);
                continue;
            }
            const int64_t before = d->bytes_sent;
            const double begin = now();
            step(kind < 2 ? (void *)model : d, params, o, x, x);
            times[kind][i] = now() - begin;
            sent = d->bytes_sent - before;
            if (kind == 0)
                fclose(fopen(path, "w"));
        }
        rg_barrier();
        remove(path);
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (kind || rg_rank() == 0)
            print_times(names[kind], times[kind]);
    if (rg_rank() == 0)
        printf("%lld parameters; a step sends %lld bytes\n", (long long)rg_num_parameters(model),
               (long long)sent);
    rg_optim_free(o);
    rg_module_free(d);
}

static void measure_sums(void) {
    double times[1000];
    for (int64_t n = 1; n <= 1 << 24; n *= 16) {
        RG_SCOPE();
        char what[64];
        rg_tensor *t = rg_zeros(n);
        for (int i = -1; i < rounds; i++) {
            rg_barrier();
            const double begin = now();
            HOLDS(rg_all_reduce_(t));
            if (i >= 0)
                times[i] = now() - begin;
        }
        snprintf(what, sizeof what, "a sum of %lld bytes", (long long)(4 * n));
        print_times(what, times);
    }
}

int main(int argc, char *argv[]) {
    int *const places[] = { &layers, &dim, &rows, &rounds };
    for (int i = 1; i < argc && i <= 4; i++)
        *places[i - 1] = atoi(argv[i]);
    rg_on_error(rg_abort_ranks_on_error);
    HOLDS(rg_init_process_group() && rounds <= 1000);
    rg_set_num_threads(1);
    rg_manual_seed(1);
    rg_gpt *model = rg_nn_gpt(.block_size = BLOCK, .vocab_size = WORDS, .n_layer = layers,
                              .n_head = dim / 32, .n_embd = dim, .dropout = 0);
    measure_steps(model);
    measure_sums();
    rg_destroy_process_group();
}
