/*
 * twin.h: compares a module with PyTorch's. The test defines TWIN_DATA, the name of the file of
 * golden data, before it includes this header.
 */
#include "tests/golden.h"
#include "tests/test.h"
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TWIN_MOST = 64 };

static double twin_limit(rg_dtype dtype) { return dtype == RG_FLOAT64 ? 1e-12 : 1e-5; }

/* Returns the distance of the concatenated tensors from the numbers of the case name + suffix,
 * relative to the largest number. */
static double twin_distance(const char *name, const char *suffix, int n, rg_tensor *const t[]) {
    golden_file f = golden_find(TWIN_DATA, "%s%s", name, suffix);
    char *numbers = golden_field(&f, ':');
    double far = 0;
    double scale = 1;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(t[i] != NULL, "%s%s: %s", name, suffix, rg_error());
        rg_tensor *row = rg_contiguous(rg_to(rg_detach(t[i]), RG_FLOAT64));
        for (int64_t k = 0; k < rg_numel(row); k++) {
            ck_assert_msg(!golden_at_end(numbers), "%s%s has more values", name, suffix);
            double want = golden_number(&numbers);
            double off = fabs(((double *)rg_data(row))[k] - want);
            far = off <= far ? far : off; /* NaN counts as the largest distance. */
            scale = fmax(scale, fabs(want));
        }
    }
    ck_assert_msg(golden_at_end(numbers), "%s%s has fewer values", name, suffix);
    golden_close(&f);
    return far / scale;
}

/* Returns the text of the case name + suffix, until the next call. */
__attribute__((unused)) static const char *twin_text(const char *name, const char *suffix) {
    static char text[8192];
    golden_file f = golden_find(TWIN_DATA, "%s%s", name, suffix);
    snprintf(text, sizeof text, "%s", golden_text(&f));
    golden_close(&f);
    return text;
}

#define twin_near(name, suffix, dtype, n, t)                                              \
    do {                                                                                  \
        double far_ = twin_distance(name, suffix, n, t);                                  \
        ck_assert_msg(far_ <= twin_limit(dtype), "%s%s in %s is off by %g", name, suffix, \
                      rg_dtype_name(dtype), far_);                                        \
    } while (0)

/* Compares the outputs, and the gradients of sum(y * random) by the leaves and then by the module's
 * parameters. */
__attribute__((unused)) static void twin_compare(const char *name, rg_dtype dtype, void *m, int n,
                                                 rg_tensor *const leaves[], int n_y,
                                                 rg_tensor *const y[]) {
    rg_tensor *wanted[TWIN_MOST], *g[TWIN_MOST], *loss = NULL;
    rg_named_list own = rg_named_parameters(m);
    twin_near(name, ".y", dtype, n_y, y);
    for (int i = 0; i < n; i++)
        wanted[i] = leaves[i];
    for (int i = 0; i < own.n; i++)
        wanted[n + i] = own.v[i].tensor;
    rg_manual_seed(4);
    for (int i = 0; i < n_y; i++) {
        rg_tensor *part = rg_sum(rg_mul(
            y[i], rg_to(rg_randn_dims(rg_shape(y[i]), RG_FLOAT64, rg_default_generator()), dtype)));
        loss = loss ? rg_add(loss, part) : part;
    }
    ck_ok(rg_grad_many(1, &loss, NULL, n + own.n, wanted, g,
                       (rg_backward_options){ .gradient = RG_NONE }));
    twin_near(name, ".g", dtype, n + own.n, g);
}

/* Returns a leaf of this dtype, drawn in float64. */
static inline rg_tensor *twin_drawn(rg_dims shape, rg_dtype dtype) {
    return rg_requires_grad_(rg_to(rg_randn_dims(shape, RG_FLOAT64, rg_default_generator()), dtype),
                             true);
}

__attribute__((unused)) static void twin_keys(const char *name, void *m) {
    RG_SCOPE();
    char keys[4096] = "";
    rg_named_list own = rg_state_dict(m);
    for (int i = 0; i < own.n; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%s", i ? " " : "",
                 own.v[i].name);
    ck_assert_str_eq(keys, twin_text(name, ".keys"));
}

/* Checks the first and second derivatives by the input and by each parameter, mixed ones included.
 */
__attribute__((unused)) static void twin_gradcheck(rg_function *f, void *m, rg_tensor *x) {
    RG_SCOPE();
    rg_named_list own = rg_named_parameters(m);
    for (int from = 0; from < own.n; from += 3) {
        rg_tensor *in[4] = { x };
        int n = 1;
        for (; n < 4 && from + n - 1 < own.n; n++)
            in[n] = own.v[from + n - 1].tensor;
        ck_ok(rg_gradcheck(f, m, n, in, .atol = 1e-7, .rtol = 1e-6));
        ck_ok(rg_gradgradcheck(f, m, n, in, .atol = 1e-6, .rtol = 1e-5));
    }
}

/* The message of the first failure since this string was last cleared. */
__attribute__((unused)) static char twin_failure[1024];
__attribute__((unused)) static void twin_notes(rg_code code, const char *sentence) {
    (void)code;
    if (!*twin_failure)
        snprintf(twin_failure, sizeof twin_failure, "%s", sentence);
}

/* Lets the first request for memory fail, then the second, and so on, until no request fails. No
 * call may crash, the error must be the first failure's, and no memory may be left. */
__attribute__((unused)) static void twin_out_of_memory(bool (*f)(void)) {
    for (int64_t fail = 1, spared = 0; spared < 3; fail++) {
        int64_t live = rg_live_tensors(), nodes = rg_memory_stats().nodes,
                other = rg_memory_stats().other;
        bool ok;
        {
            RG_SCOPE();
            rg_error_clear();
            *twin_failure = '\0';
            rg_error_handler *before = rg_on_error(twin_notes);
            rg_memory_fail_at(fail);
            ok = f();
            rg_memory_fail_at(0);
            rg_on_error(before);
        }
        ck_assert_msg(ok || rg_error_code() == RG_OUT_OF_MEMORY, "request %d failed with: %s",
                      (int)fail, rg_error());
        ck_assert_msg(ok || !strcmp(rg_error(), twin_failure), "request %d: '%s' hides '%s'",
                      (int)fail, rg_error(), twin_failure);
        ck_assert_msg(!ok || rg_error_code() == RG_OK, "request %d: a result, and an error: %s",
                      (int)fail, rg_error());
        ck_assert_msg(rg_live_tensors() == live && rg_memory_stats().nodes == nodes,
                      "request %d failed, and something is alive", (int)fail);
        ck_assert_msg(rg_memory_stats().other <= other + 65536,
                      "request %d failed, and memory is lost", (int)fail);
        spared = ok ? spared + 1 : 0;
        ck_assert(fail < 100000);
    }
    rg_error_clear();
}
