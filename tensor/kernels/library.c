/*
 * library.c: the product library, oneDNN, where there is one. It is looked for when
 * a product is first large enough, so that nothing needs it to build or to start.
 * Each call is one thread's; REGARD_PRODUCTS=own does without.
 */
#include "kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>

typedef int library_sgemm(char turn_a, char turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row,
                          const float *b, int64_t b_row, float beta, float *y, int64_t y_row);
static library_sgemm *library_found;

static void library_find(void) {
    static const char *const names[] = { "libdnnl.so", "libdnnl.so.3", "libdnnl.so.2" };
    const char *asked = getenv("REGARD_PRODUCTS");
    if (rg_pool_bypassed() || (asked && strcmp(asked, "own") == 0)) return;
    for (int i = 0; i < RG_COUNT(names) && !library_found; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) library_found = (library_sgemm *)dlsym(library, "dnnl_sgemm");
    }
}

bool k_library(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_find);
    return library_found != NULL;
}

/* The library would take as many threads as OpenMP has for whoever calls it. */
bool k_library_product(const k_library_call *c, int64_t m, int64_t n, const float *a, const float *b, float *y) {
    int threads = omp_get_max_threads();
    if (threads != 1) omp_set_num_threads(1);
    int status = library_found(c->turn_a, c->turn_b, m, n, c->k, c->alpha, a, c->a_row, b, c->b_row, c->beta, y, c->y_row);
    if (threads != 1) omp_set_num_threads(threads);
    return status == 0;
}
#else
bool k_library(void) { return false; }
bool k_library_product(const k_library_call *c, int64_t m, int64_t n, const float *a, const float *b, float *y) {
    return c && m && n && a && b && y && false;
}
#endif

const char *rg_product_library(void) { return k_library() ? "oneDNN" : "regard"; }
