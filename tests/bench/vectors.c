/*
 * vectors.c: how many sentences a second examples/sentences.c turns into vectors. Its other side is
 * models.py, which runs it.
 *
 *     vectors FOLDER LINES VECTORS.npy
 *
 * Like its peers, it first does everything once. It prints the median of some further times.
 */
int sentences_main(int argc, char *argv[]);
/* The example has a main of its own, which ends without a return. */
#pragma GCC diagnostic ignored "-Wreturn-type"
#define main sentences_main
#include "examples/sentences.c"
#undef main

enum { REPEATS = 3 };

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char *argv[]) {
    program = argv[0];
    if (argc != 4)
        refuse("takes a folder, a file of lines and a file for vectors");
    rg_on_error(stop_on_error);
    read_folder(argv[1]);
    rg_tokenizer *t = rg_tokenizer_from_folder(argv[1]);
    const rg_names lines = rg_load_lines(argv[2]);
    rg_save_npy(vectors_of(t, lines), argv[3]);
    double took[REPEATS];
    RG_FOR (int i = 0; i < REPEATS; i++) {
        const double begin = seconds();
        vectors_of(t, lines);
        took[i] = seconds() - begin;
    }
    qsort(took, REPEATS, sizeof *took, by_size);
    printf("%d sentences, %.2f a second\n", lines.n, lines.n / took[REPEATS / 2]);
    rg_tokenizer_free(t);
    return 0;
}
