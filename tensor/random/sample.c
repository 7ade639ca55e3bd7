/*
 * sample.c: permutations, and draws by given probabilities: randperm, bernoulli and multinomial.
 * distributions.c makes the uniform and exponential numbers for them.
 */
#include "random.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <math.h>

/* ---- permutations ----------------------------------------------------------------- */

/* For this number of elements or more, torch shuffles by another method: for each i it swaps
 * element i with an element chosen at random from the elements 0 to i. Each choice takes two random
 * words. */
enum { PERMUTE_FROM_WITHIN = UINT32_MAX / 20 };

/* Writes the integers from 0 to n - 1 to order[], and shuffles them by the method of Fisher and
 * Yates: for each i, swaps order[i] with an element chosen at random from order[i] to order[n - 1].
 * If n is at least PERMUTE_FROM_WITHIN, uses the method that the comment above that constant
 * describes. */
static void random_permute(rg_generator *g, int64_t *order, int64_t n) {
    const bool within = n >= PERMUTE_FROM_WITHIN;
    const int64_t steps = within ? n : n - 1;
    uint32_t words[RANDOM_CHUNK];
    uint64_t pairs[RANDOM_CHUNK];
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t from = 0; from < steps; from += RANDOM_CHUNK) {
        int m = (int)RG_MIN(steps - from, RANDOM_CHUNK);
        if (within)
            rgi_draw_pairs(g, pairs, m);
        else
            rgi_draw_words(g, words, m);
        for (int k = 0; k < m; k++) {
            int64_t i = from + k;
            int64_t other = within ? (int64_t)(pairs[k] % (uint64_t)(i + 1))
                                   : i + words[k] % (uint32_t)(n - i);
            RG_SWAP(order[i], order[other]);
        }
    }
}

rg_tensor *(rg_randperm_with)(int64_t n, rg_generator *g) {
    static const char op[] = "randperm";
    if (!rgi_may_do_once(op))
        return NULL;
    RG_SCOPE();
    rg_tensor *t = rgi_own(rgi_new_dims(op, &RG_DIMS(n), RG_INT64));
    if (!t || !rgi_generator_lock(g, op))
        return NULL;
    random_permute(g, (int64_t *)t->data, n);
    rgi_generator_unlock(g);
    return rg_escape(t);
}

/* ---- bernoulli ------------------------------------------------------------------------------- */

/* Returns true if all elements of p are from 0 to 1. If one isn't, or is NaN, fails and returns
 * false. Also returns false if memory runs out. */
static bool bernoulli_check(rg_tensor *p, const char *op) {
    const rg_tensor *wide = rgi_own(rgi_contiguous_copy(p, RG_FLOAT64));
    if (!wide)
        return false;
    const double *chance = (const double *)wide->data;
    for (int64_t i = 0; i < p->numel; i++)
        RG_FAIL_IF(!(chance[i] >= 0 && chance[i] <= 1), op,
                   "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    return true;
}

rg_tensor *rgi_draw_bernoulli(rg_tensor *p, rg_generator *g) {
    const char *op = "bernoulli";
    if (!rgi_may_do_once(op) || !rgi_check(p, op)
        || !rgi_want_dtype(op, !p->numel || rgi_is_float(p->dtype), p->dtype))
        return NULL;
    RG_SCOPE();
    /* As in torch, probabilities of 16 bits are compared with random numbers in float32. */
    const rg_dtype dtype = rgi_computed_in(p->dtype);
    const bool half = dtype != p->dtype;
    rg_tensor *chance = half ? rgi_own(rgi_contiguous_copy(p, dtype)) : p;
    rg_tensor *t = rgi_own(rgi_new_like(p, dtype));
    rg_tensor *below = rgi_own(rgi_new_like(p, RG_BOOL));
    rg_tensor *y = half ? rgi_own(rgi_new_like(p, p->dtype)) : t;
    if (!chance || !t || !below || !y || !bernoulli_check(p, op) || !rgi_fill_unit(t, g, op))
        return NULL;
    k_run(k_lt, below, t, chance);
    rgi_copy_elements(y, below);
    return rg_escape(y);
}

/* ---- multinomial ----------------------------------------------------------------------------- */

/* The arguments of a call of multinomial, which writes the categories that it draws to `drawn`.
 * Each row of `weights` has a weight for each of the `categories` categories. `wide` points to a
 * copy of all weights in float64. */
typedef struct multinomial_draw {
    rg_tensor *drawn;
    rg_tensor *weights;
    const double *wide;
    int64_t categories;
    rg_generator *g;
    const char *op;
} multinomial_draw;

/* Returns true if the weights are finite and not negative, and the sum of each row isn't 0.
 * Otherwise fails with torch's message and returns false. With replacement, torch checks the sum of
 * each row before it reads the next row, and has different messages for a negative weight and an
 * infinite one. Without replacement, torch checks all weights before the sums, and has one message
 * for both kinds of weights. */
static bool multinomial_check(const multinomial_draw *d, bool replacement) {
    const char *wrong = NULL;
    bool empty_row = false;
    double sum = 0;
    for (int64_t i = 0; i < d->weights->numel && !wrong; i++) {
        if (replacement && empty_row)
            break;
        double weight = d->wide[i];
        bool first = i % d->categories == 0;
        bool last = i % d->categories == d->categories - 1;
        sum = first ? weight : sum + weight;
        if (last && sum == 0)
            empty_row = true;
        if (!(weight >= 0))
            wrong = "encountering probability entry < 0";
        else if (isinf(weight))
            wrong = "encountering probability entry = infinity or NaN";
    }
    RG_FAIL_IF(wrong && !replacement, d->op,
               "probability tensor contains either `inf`, `nan` or element < 0");
    if (!wrong && empty_row)
        wrong = "sum of probabilities <= 0";
    RG_FAIL_IF(wrong, d->op, "invalid multinomial distribution (%s)", wrong);
    return true;
}

/* Draws `draws` different categories from one row of weights. exponential[i] is an exponential
 * random number for category i. The categories with the largest weight[i] / exponential[i] are
 * drawn, the largest first. `rank` is scratch memory with room for all categories. */
static void draw_distinct_row(const multinomial_draw *d, const double *weight,
                              const double *exponential, k_ranked *rank, int64_t *drawn,
                              int64_t draws) {
    int64_t best = 0;
    for (int64_t i = 0; i < d->categories; i++) {
        double ratio = rgi_rounded(weight[i] / exponential[i], d->weights->dtype);
        rank[i] = (k_ranked){ k_rank(ratio, true), i };
        if (rank[i].key < rank[best].key)
            best = i;
    }
    /* For a single draw torch uses argmax, which returns the first of several equal maxima. */
    if (draws == 1) {
        drawn[0] = best;
        return;
    }
    k_top(rank, d->categories, draws, true);
    for (int64_t i = 0; i < draws; i++)
        drawn[i] = rank[i].index;
}

/* Draws categories from each row without replacement. Returns false if memory runs out or d->g
 * can't be used. */
static bool draw_distinct(const multinomial_draw *d) {
    RG_SCOPE();
    rg_tensor *exponentials = rgi_own(rgi_new_dense_like(d->weights, d->weights->dtype));
    k_ranked *rank = rgi_scope_alloc((size_t)d->categories * sizeof *rank);
    if (!rank || !exponentials || !rgi_fill_exponential(exponentials, (double[]){ 1 }, d->g, d->op))
        return false;
    rg_tensor *wide = rgi_own(rgi_contiguous_copy(exponentials, RG_FLOAT64));
    if (!wide)
        return false;
    const int64_t draws = d->drawn->size[d->drawn->ndim - 1];
    const int64_t rows = d->drawn->numel / draws;
    int64_t *drawn = (int64_t *)d->drawn->data;
    for (int64_t row = 0; row < rows; row++) {
        int64_t first = row * d->categories;
        const double *exponential = (const double *)wide->data + first;
        draw_distinct_row(d, d->wide + first, exponential, rank, drawn + row * draws, draws);
    }
    return true;
}

/* Sets share[i] to the cumulative probability of category i: the sum of the first i + 1 weights of
 * a row, divided by the sum of all n. The sums and quotients are rounded to `dtype`, and the last
 * share is set to 1. */
static void cumulate_shares(double *restrict share, const double *restrict weight, int64_t n,
                            rg_dtype dtype) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum = rgi_rounded(sum + weight[i], dtype);
        share[i] = sum;
    }
    for (int64_t i = 0; i < n; i++)
        share[i] = rgi_rounded(share[i] / sum, dtype);
    share[n - 1] = 1;
}

/* Draws categories from each row with replacement. For each draw, draws a uniform float64, and
 * takes the first category whose cumulative probability isn't below the drawn number. Returns false
 * on failure. */
static bool draw_with_replacement(const multinomial_draw *d) {
    RG_SCOPE();
    rg_tensor *shares = rgi_own(rgi_new_like(d->weights, RG_FLOAT64));
    rg_tensor *uniforms = rgi_own(rgi_new_like(d->drawn, RG_FLOAT64));
    if (!shares || !uniforms || !rgi_fill_unit(uniforms, d->g, d->op))
        return false;
    for (int64_t first = 0; first < d->weights->numel; first += d->categories)
        cumulate_shares((double *)shares->data + first, d->wide + first, d->categories,
                        rgi_computed_in(d->weights->dtype));
    return k_searchsorted(d->drawn, shares, uniforms, false);
}

/* Returns an error message if the shape of the weights or the number of draws isn't allowed.
 * Returns NULL otherwise. */
static const char *multinomial_refusal(int64_t rows, int64_t categories, int64_t draws,
                                       bool replacement) {
    if (draws <= 0)
        return "cannot sample n_sample <= 0 samples";
    if (!replacement && draws > categories)
        return "cannot sample n_sample > prob_dist.size(-1) samples without replacement";
    if (categories > 1 << 24)
        return "number of categories cannot exceed 2^24";
    if (categories == 0 && rows > 0)
        return "invalid multinomial distribution (sum of probabilities <= 0)";
    return NULL;
}

rg_tensor *(rg_multinomial_with)(rg_tensor *weights, int64_t draws, bool replacement,
                                 rg_generator *g) {
    const char *op = "multinomial";
    if (!rgi_may_do_once(op) || !rgi_check(weights, op))
        return NULL;
    RG_FAIL_IF(weights->ndim < 1 || weights->ndim > 2, op, "prob_dist must be 1 or 2 dim");
    RG_FAIL_IF(!rgi_is_float(weights->dtype), op,
               "multinomial only supports floating-point dtypes for input, got: %s",
               rgi_scalar_name(weights->dtype));
    const bool by_rows = weights->ndim == 2;
    const int64_t categories = weights->size[weights->ndim - 1];
    const int64_t rows = by_rows ? weights->size[0] : 1;
    const char *refusal = multinomial_refusal(rows, categories, draws, replacement);
    RG_FAIL_IF(refusal, op, "%s", refusal);
    RG_SCOPE();
    const rg_dims shape = { weights->ndim, { by_rows ? rows : draws, draws } };
    rg_tensor *drawn = rgi_own(rgi_new_dims(op, &shape, RG_INT64));
    const rg_tensor *wide = rgi_own(rgi_contiguous_copy(weights, RG_FLOAT64));
    if (!drawn || !wide)
        return NULL;
    /* Replacement makes no difference to a single draw, for which torch uses its method without
     * replacement. */
    const bool replace = replacement && draws > 1;
    const multinomial_draw draw = {
        .drawn = drawn,
        .weights = weights,
        .wide = (const double *)wide->data,
        .categories = categories,
        .g = g,
        .op = op,
    };
    bool ok = multinomial_check(&draw, replace)
              && (replace ? draw_with_replacement(&draw) : draw_distinct(&draw));
    return ok ? rg_escape(drawn) : NULL;
}
