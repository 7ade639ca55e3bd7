/*
 * distributions.c: draws numbers of a distribution from the words of a generator, and fills tensors
 * with them. The checks of the parameters, the numbers, and the order in which they are drawn are
 * the same as in torch. The functions that programs call are in random.c.
 */
#include "random.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/text/digits.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- drawing numbers ----------------------------------------------------------------------------
 * A draw function writes n random numbers of the given dtype to `to`; n is at most RANDOM_CHUNK.
 * p[] has the parameters of the distribution. */

typedef void random_draw(rg_generator *g, rg_dtype dtype, void *to, int n, const double *p);

/* Draws -log(1 - u) / p[0] for a uniform u in [0, 1). */
static void draw_exponential(rg_generator *g, rg_dtype dtype, void *to, int n, const double *p) {
    double *y = to;
    double scale = -1 / p[0];
    (void)dtype;
    rgi_draw_double(g, y, n);
    for (int i = 0; i < n; i++)
        y[i] = scale * log1p(-y[i]);
}

/* Draws integers: base + word % range, where p[] has the bytes of a random_range with `base` and
 * `range`. If the range is less than 2^28, `word` is one of the generator's words of 32 bits;
 * otherwise `word` is made of two of them. */
static void draw_integer(rg_generator *g, rg_dtype dtype, void *to, int n, const double *p) {
    random_range r;
    int64_t *y = to;
    (void)dtype;
    memcpy(&r, p, sizeof r);
    if (r.range >= 1u << 28) {
        uint64_t pairs[RANDOM_CHUNK];
        rgi_draw_pairs(g, pairs, n);
        for (int i = 0; i < n; i++)
            y[i] = (int64_t)(pairs[i] % r.range + (uint64_t)r.base);
    } else {
        uint32_t words[RANDOM_CHUNK];
        uint32_t range = (uint32_t)r.range;
        rgi_draw_words(g, words, n);
        for (int i = 0; i < n; i++)
            y[i] = words[i] % range + r.base;
    }
}

/* ---- filling a tensor ------------------------------------------------------------ */

typedef struct random_source {
    rg_generator *g;
    random_draw *draw;
    const double *p;
    /* `draw` makes numbers of the dtype `drawn`, and `store` converts them to `held`, the tensor's
     * dtype. */
    rg_dtype drawn, held;
    rg_loop *store;
} random_source;

/* Fills n elements that are step[0] bytes apart, RANDOM_CHUNK at a time. */
static void random_line(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const random_source *s = context;
    const int64_t drawn_bytes = (int64_t)rgi_sizeof(s->drawn);
    const bool direct = s->drawn == s->held && step[0] == drawn_bytes;
    double chunk[RANDOM_CHUNK] __attribute__((aligned(64)));
    for (int64_t from = 0; from < n; from += RANDOM_CHUNK) {
        int m = (int)RG_MIN(n - from, RANDOM_CHUNK);
        char *to = p[0] + from * step[0];
        s->draw(s->g, s->drawn, direct ? to : (char *)chunk, m, s->p);
        if (!direct)
            s->store((char *[]){ to, (char *)chunk }, (int64_t[]){ step[0], drawn_bytes }, m, NULL);
    }
}

/* A loop of tensor/kernels/ that fills, with the parameters of its distribution. */
typedef struct random_loop {
    k_random_fill *fill;
    k_random_stream *stream;
    double a, b;
    k_distribution which;
    rg_dtype held;
} random_loop;

static void random_run(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const random_loop *l = context;
    l->fill(l->stream, p[0], step[0], n, l->a, l->b);
}

/* Rounds n uniform numbers to the dtype. Those that become the end of the interval, which doesn't
 * belong to it, become its beginning. */
static void keep_below(float *y, int n, const random_loop *l) {
    const double high = rgi_rounded(l->b, l->held);
    for (int i = 0; i < n; i++)
        if (rgi_rounded((double)y[i], l->held) >= high)
            y[i] = (float)l->a;
}

/* Draws m numbers in the dtype to which elements of l->held are widened, and stores them as such
 * elements at `to`, `step` bytes apart. */
static void random_chunk(const random_loop *l, char *to, int64_t step, int m) {
    const rg_dtype wide = rgi_widened(l->held);
    const int64_t bytes = (int64_t)rgi_sizeof(wide);
    union {
        float floats[RANDOM_CHUNK];
        int64_t integers[RANDOM_CHUNK];
    } chunk __attribute__((aligned(64)));
    l->fill(l->stream, (char *)&chunk, bytes, m, l->a, l->b);
    if (l->which == K_UNIFORM)
        keep_below(chunk.floats, m, l);
    rgi_copy_loop(l->held, wide)((char *[]){ to, (char *)&chunk }, (int64_t[]){ step, bytes }, m,
                                 NULL);
}

/* Fills n elements that are widened, such as those of 16 bits, which are drawn as floats. If normal
 * numbers in blocks of sixteen don't fill the line, the last sixteen elements are drawn again, as
 * in torch, which discards no words here, other than for floats. */
static void random_run_widened(char *const p[], const int64_t step[], int64_t n,
                               const void *context) {
    const random_loop *l = context;
    const int64_t rest = l->which == K_NORMAL_BLOCKS ? n % 16 : 0;
    for (int64_t from = 0; from < n - rest; from += RANDOM_CHUNK)
        random_chunk(l, p[0] + from * step[0], step[0], (int)RG_MIN(n - rest - from, RANDOM_CHUNK));
    if (rest)
        random_chunk(l, p[0] + (n - 16) * step[0], step[0], 16);
}

/* Makes `sorted` a header for t's elements, with the dims in their order in memory, because torch
 * visits elements in that order. For example, it visits the elements of a transposed matrix column
 * by column. Returns whether t's own dims are in that order. */
static bool random_order(const rg_tensor *t, rg_tensor *sorted) {
    int order[RG_MAX_DIMS];
    bool same = rgi_memory_order(t, order);
    *sorted = (rg_tensor){ .state = RG_ALIVE, .dtype = t->dtype, .ndim = t->ndim, .data = t->data };
    for (int d = 0; d < t->ndim; d++) {
        sorted->size[d] = t->size[order[d]];
        sorted->stride[d] = t->stride[order[d]];
    }
    rgi_update_flags(sorted);
    return same;
}

/* Calls `fill` for the elements of t in the order in which torch fills them. Fails and returns
 * false if g is NULL or was freed. */
static bool fill_each(rg_tensor *t, rg_generator *g, const char *op, rg_loop *fill,
                      const void *context) {
    rg_tensor sorted;
    if (!rgi_generator_lock(g, op))
        return false;
    if (!(t->flags & RG_CONTIGUOUS)) {
        random_order(t, &sorted);
        t = &sorted;
    }
    rgi_each(1, &t, fill, context);
    rgi_generator_unlock(g);
    return true;
}

/* Fills t with numbers that `draw` draws in the dtype `drawn`, converted to t's dtype. */
static bool fill_with(rg_tensor *t, rg_generator *g, const char *op, random_draw *draw,
                      rg_dtype drawn, const double *p) {
    const random_source source = { .g = g,
                                   .draw = draw,
                                   .p = p,
                                   .drawn = drawn,
                                   .held = t->dtype,
                                   .store = rgi_copy_loop(t->dtype, drawn) };
    return fill_each(t, g, op, random_line, &source);
}

/* Fills t by a loop of tensor/kernels/. An empty tensor may have any dtype. */
static bool fill_by(rg_tensor *t, rg_generator *g, const char *op, k_distribution which, double a,
                    double b) {
    const rg_dtype dtype = t->dtype;
    k_random_fill *fill = t->numel ? k_random_fill_of(which, rgi_widened(dtype)) : NULL;
    const random_loop loop = { fill, g ? &g->stream : NULL, a, b, which, dtype };
    return fill_each(t, g, op, rgi_is_widened(dtype) ? random_run_widened : random_run, &loop);
}

/* ---- distributions: check the parameters as torch does, then fill ---------------- */

bool rgi_fill_unit(rg_tensor *t, rg_generator *g, const char *op) {
    return rgi_want_dtype(op, !t->numel || rgi_is_float(t->dtype), t->dtype)
           && fill_by(t, g, op, K_UNIFORM, 0, 1);
}

bool rgi_fill_uniform(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    if (!rgi_want_dtype(op, rgi_is_float(t->dtype), t->dtype))
        return false;
    const double low = p[0];
    const double high = p[1];
    const double max = rgi_limit(t->dtype);
    RG_FAIL_IF(!(fabs(low) <= max && fabs(high) <= max), op, "%s is out of bounds for %s",
               fabs(low) <= max ? "to" : "from", rgi_c_name(t->dtype));
    RG_FAIL_IF(low > high, op,
               "uniform_ expects to return a [from, to) range, but found from=%s > to=%s",
               rgi_number(low), rgi_number(high));
    RG_FAIL_IF(high - low > max, op,
               "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%s "
               "and from=%s which result in to-from to exceed the limit",
               rgi_scalar_name(t->dtype), rgi_number(high), rgi_number(low));
    return fill_by(t, g, op, K_UNIFORM, p[0], p[1]);
}

/* Fills t with normal numbers of mean p[0] and standard deviation p[1]. A contiguous tensor of at
 * least sixteen elements is drawn in blocks of sixteen; other tensors are drawn in pairs. */
bool rgi_fill_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[1] >= 0), op, "normal expects std >= 0.0, but found std %s", rgi_number(p[1]));
    if (!rgi_want_dtype(op, !t->numel || rgi_is_float(t->dtype), t->dtype))
        return false;
    const bool in_blocks = t->numel >= 16 && t->flags & RG_CONTIGUOUS;
    return fill_by(t, g, op, in_blocks ? K_NORMAL_BLOCKS : K_NORMAL_PAIRS, p[0], p[1]);
}

bool rgi_fill_exponential(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[0] > 0), op, "exponential_ expects lambda > 0.0, but found lambda=%s",
               rgi_number(p[0]));
    RG_FAIL_IF(t->numel && !rgi_is_float(t->dtype), op,
               "Exponential distribution is a continuous probability "
               "distribution. dtype must be a floating point but you specified %s",
               rgi_scalar_name(t->dtype));
    return fill_with(t, g, op, draw_exponential, RG_FLOAT64, p);
}

bool rgi_fill_bernoulli(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[0] >= 0 && p[0] <= 1), op, "bernoulli_ expects p to be in [0, 1], but got p=%s",
               rgi_number(p[0]));
    return fill_by(t, g, op, K_BERNOULLI, p[0], 0);
}

bool rgi_fill_integers(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    return fill_with(t, g, op, draw_integer, RG_INT64, p);
}

/* ---- truncated normals: each round draws candidates for all elements ------------------------- */

/* A fill fails if some elements have no number after this many rounds. Torch has no limit. */
enum { TRUNC_ROUNDS = 1 << 20 };

static double trunc_cdf(double x) { return (1 + erf(x / sqrt(2))) / 2; }

/* Returns the rule by which candidates are drawn and accepted. If more than 0.3 of the distribution
 * is inside the interval, the candidates are normal numbers, and those inside the interval are
 * accepted. Otherwise they are uniform in the interval, and each is accepted with the probability
 * density / peak, where `density` is the normal density at the candidate and `peak` its maximum in
 * the interval. */
static k_truncation truncation_of(const double p[]) {
    k_truncation r = { .mean = p[0], .std = p[1], .low = p[2], .high = p[3] };
    double at_most_high = RG_MIN(r.high, r.mean);
    double mode = (RG_MAX(at_most_high, r.low) - r.mean) / r.std;
    double inside = trunc_cdf((r.high - r.mean) / r.std) - trunc_cdf((r.low - r.mean) / r.std);
    r.log_peak = -0.5 * (mode * mode);
    r.normal = inside > 0.3;
    return r;
}

/* Draws a candidate for each element. If the candidates are uniform numbers, also draws a second
 * uniform number for each element, which decides whether the candidate is accepted. Returns false
 * if a draw fails. */
static bool trunc_draw(const k_truncation *r, rg_tensor *candidates, rg_tensor *uniforms,
                       const double p[], rg_generator *g, const char *op) {
    if (r->normal)
        return rgi_fill_normal(candidates, p, g, op);
    return rgi_fill_uniform(candidates, p + 2, g, op)
           && rgi_fill_uniform(uniforms, (double[]){ 0, 1 }, g, op);
}

/* Does the same as k_random_truncate for elements of 16 bits. As in torch, each step is rounded to
 * the dtype; std and -0.5 are not, since they are a divisor and a factor. */
static bool trunc_accept_half(const k_truncation *r, rg_tensor *accepted,
                              const rg_tensor *candidates, const rg_tensor *uniforms,
                              rg_tensor *pending) {
    const rg_dtype dtype = accepted->dtype;
    const double mean = rgi_rounded(r->mean, dtype), peak = rgi_rounded(r->log_peak, dtype);
    const double low = rgi_rounded(r->low, dtype), high = rgi_rounded(r->high, dtype);
    bool *waits = (bool *)pending->data;
    bool any = false;
    for (int64_t i = 0; i < accepted->numel; i++) {
        if (!waits[i])
            continue;
        const double v = rgi_load_f64(candidates->data + 2 * i, dtype);
        const double u = rgi_load_f64(uniforms->data + 2 * i, dtype);
        rgi_store_f64(accepted->data + 2 * i, dtype, v);
        double z = rgi_rounded(rgi_rounded(v - mean, dtype) / (float)r->std, dtype);
        z = rgi_rounded(-0.5 * rgi_rounded(z * z, dtype), dtype);
        z = rgi_rounded(z - peak, dtype);
        waits[i] = r->normal ? v < low || v > high : rgi_rounded(log(u), dtype) > z;
        any |= waits[i];
    }
    return any;
}

/* Fills t with normal numbers of mean p[0] and standard deviation p[1] that lie between p[2] and
 * p[3]. The numbers are drawn into contiguous tensors, whose dims are t's dims, sorted into the
 * order that they have in t's memory. As in torch, normal numbers are drawn in blocks if there are
 * at least sixteen elements and the tensor into which torch would draw is contiguous. In the first
 * round torch draws into t. In later rounds it draws into a tensor that has t's layout, but no
 * gaps. */
bool rgi_fill_trunc_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(p[1] == 0, op, "division by zero");
    const k_truncation rule = truncation_of(p);
    RG_SCOPE();
    rg_tensor sorted;
    const bool in_order = random_order(t, &sorted);
    const rg_dtype dtype = t->dtype;
    rg_tensor *result = rgi_own(rgi_new_like(&sorted, dtype));
    rg_tensor *candidates = result ? rgi_own(rgi_new_like(&sorted, dtype)) : NULL;
    rg_tensor *uniforms = candidates ? rgi_own(rgi_new_like(&sorted, dtype)) : NULL;
    rg_tensor *pending = uniforms ? rgi_own(rgi_new_like(&sorted, RG_BOOL)) : NULL;
    if (!pending)
        return false;
    memset(pending->data, true, (size_t)t->numel);
    bool any = true;
    for (int round = 0; any; round++) {
        RG_FAIL_IF(round == TRUNC_ROUNDS, op,
                   "%d rounds were not enough: almost nothing in [%s, %s] is likely", round,
                   rgi_number(rule.low), rgi_number(rule.high));
        /* With the flag RG_CONTIGUOUS, rgi_fill_normal draws at least sixteen elements in blocks.
         * Without it, or with fewer elements, it draws in pairs. */
        const bool in_blocks = round ? in_order : (t->flags & RG_CONTIGUOUS) != 0;
        candidates->flags = in_blocks ? RG_CONTIGUOUS : 0;
        if (!trunc_draw(&rule, candidates, uniforms, p, g, op))
            return false;
        __auto_type accept = rgi_is_half(dtype) ? trunc_accept_half : k_random_truncate;
        any = accept(&rule, result, candidates, uniforms, pending);
    }
    rgi_copy_elements(&sorted, result);
    return true;
}
