/*
 * random.c: torch's random numbers on the CPU: mt19937, and what its words
 * become. The order of the draws is as much a part of the stream as the words
 * are: elements are visited in memory order, normals come in pairs or in blocks
 * of sixteen, and a double takes two words, the high one first.
 */
#include "kernels/kernels.h"

#include <float.h>
#include <pthread.h>
#include <tgmath.h>

enum { MT_WORDS = 624, MT_SHIFT = 397 };

struct rg_generator {
    pthread_mutex_t lock;
    uint64_t seed;
    /* as torch counts: 1 when the block is used up; 0: not seeded yet */
    int left;
    int next; /* the next word of the block */
    bool has_normal;
    double normal; /* the second of a pair, for the next call */
    uint32_t word[MT_WORDS];
};

/* Seeded at its first use. */
static rg_generator default_generator = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                          .seed = 67280421310721 };

/* ---- hot loops ------------------------------------------------------------------- */

static inline uint32_t mt_twist(uint32_t a, uint32_t b) {
    return ((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1 ^ (-(b & 1u) & 0x9908b0dfu);
}

RG_WIDE(mt_next_block, (uint32_t * s), (s)) {
    int i = 0;
    for (; i < MT_WORDS - MT_SHIFT; i++)
        s[i] = s[i + MT_SHIFT] ^ mt_twist(s[i], s[i + 1]);
    for (; i < MT_WORDS - 1; i++)
        s[i] = s[i + MT_SHIFT - MT_WORDS] ^ mt_twist(s[i], s[i + 1]);
    s[i] = s[i + MT_SHIFT - MT_WORDS] ^ mt_twist(s[i], s[0]);
}

RG_WIDE(mt_temper, (const uint32_t *from, uint32_t *to, int n), (from, to, n)) {
    for (int i = 0; i < n; i++) {
        uint32_t y = from[i];
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c5680u;
        y ^= y << 15 & 0xefc60000u;
        to[i] = y ^ y >> 18;
    }
}

RG_WIDE(mt_unit_floats, (const uint32_t *from, float *to, int n), (from, to, n)) {
    for (int i = 0; i < n; i++)
        to[i] = (float)(int32_t)(from[i] & 0xffffff) * 0x1p-24f;
}

/* Box and Muller, sixteen by sixteen: eight u and eight v in [0, 1) become sqrt(-2 log(1 - u))
 * times the cosines and the sines of 2 pi v. The polynomials are minimax fits, good to 1e-8. */
RG_WIDE(mt_normals_f32, (float *y, int n), (y, n)) {
    for (int block = 0; block < n; block += 16)
        for (int i = block; i < block + 8; i++) {
            union {
                float f;
                int32_t i;
            } m = { .f = 1 - y[i] };
            /* 1 - u = m 2^e, sqrt(1/2) <= m < sqrt(2) */
            int32_t e = (m.i - 0x3f3504f3) >> 23;
            m.i -= e * (1 << 23);
            float f = m.f - 1,
                  p = -0.12384348f + f * (0.11872976f + f * (-0.11789808f + f * 0.06915368f));
            p = -0.24999987f + f * (0.20002227f + f * (-0.16669251f + f * (0.14218658f + f * p)));
            float log_u = f
                          + (f * f * ((0.3333331f + f * p) * f - 0.5f) + (float)e * 0x1.7f7d1cp-20f)
                          + (float)e * 0x1.62e4p-1f;
            float radius = sqrtf(-2 * log_u), theta = 0x1.921fb6p+2f * y[i + 8];
            int32_t quadrant = (int32_t)(theta * 0x1.45f306p-1f + 0.5f);
            float r = theta - (float)quadrant * 0x1.921fap+0f - (float)quadrant * 0x1.54442ep-20f,
                  r2 = r * r;
            float s = r + r * r2 * (-0x1.555546p-3f + r2 * (0x1.11076p-7f - r2 * 0x1.994e86p-13f));
            float c = 1 - 0.5f * r2
                      + r2 * r2 * (0x1.55554ap-5f + r2 * (-0x1.6c0c8cp-10f + r2 * 0x1.9a023p-16f));
            union {
                float f;
                uint32_t i;
            } cosine = { .f = quadrant & 1 ? s : c }, sine = { .f = quadrant & 1 ? c : s };
            cosine.i ^= (uint32_t)(quadrant + 1) << 30 & 0x80000000u;
            sine.i ^= (uint32_t)quadrant << 30 & 0x80000000u;
            y[i] = radius * cosine.f;
            y[i + 8] = radius * sine.f;
        }
}

static void mt_normals_f64(double *y, int n) {
    for (int block = 0; block < n; block += 16)
        for (int i = block; i < block + 8; i++) {
            double radius = sqrt(-2 * log(1 - y[i])), theta = 2 * M_PI * y[i + 8];
            y[i] = radius * cos(theta);
            y[i + 8] = radius * sin(theta);
        }
}

/* ---- words ----------------------------------------------------------------------- */

static void mt_seed(rg_generator *g, uint64_t seed) {
    g->seed = seed;
    g->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_WORDS; i++)
        g->word[i] = 1812433253u * (g->word[i - 1] ^ g->word[i - 1] >> 30) + i;
    g->left = 1;
    g->next = 0;
    g->has_normal = false;
}

static void mt_words(rg_generator *g, uint32_t *to, int n) {
    while (n > 0) {
        if (g->left == 1)
            mt_next_block(g->word), g->left = MT_WORDS + 1, g->next = 0;
        int m = RG_MIN(n, g->left - 1);
        mt_temper(g->word + g->next, to, m);
        g->left -= m;
        g->next += m;
        to += m;
        n -= m;
    }
}

enum { RANDOM_CHUNK = 512 }; /* elements at a time: they stay in the first cache */

static void draw_u64(rg_generator *g, uint64_t *to, int n) {
    uint32_t w[2 * RANDOM_CHUNK];
    mt_words(g, w, 2 * n);
    for (int i = 0; i < n; i++)
        to[i] = (uint64_t)w[2 * i] << 32 | w[2 * i + 1];
}

/* Uniform in [0, 1): the low 24 bits of a word, the low 53 of two. */
static void draw_f32(rg_generator *g, float *to, int n) {
    uint32_t w[RANDOM_CHUNK];
    mt_words(g, w, n);
    mt_unit_floats(w, to, n);
}

static void draw_f64(rg_generator *g, double *to, int n) {
    uint64_t w[RANDOM_CHUNK];
    draw_u64(g, w, n);
    for (int i = 0; i < n; i++)
        to[i] = (double)(int64_t)(w[i] & 0x1fffffffffffff) * 0x1p-53;
}

/* ---- generators ------------------------------------------------------------------ */

static bool generator_lock(rg_generator *g, const char *op) {
    if (!rgi_given(g, op, "a generator"))
        return false;
    pthread_mutex_lock(&g->lock);
    if (!g->left)
        mt_seed(g, g->seed);
    return true;
}

static void generator_unlock(rg_generator *g) { pthread_mutex_unlock(&g->lock); }

rg_generator *rg_default_generator(void) { return &default_generator; }

void rg_manual_seed(uint64_t seed) { rg_generator_seed(&default_generator, seed); }

uint64_t rg_initial_seed(void) {
    generator_lock(&default_generator, "initial_seed");
    uint64_t seed = default_generator.seed;
    generator_unlock(&default_generator);
    return seed;
}

rg_generator *rg_generator_new(uint64_t seed) {
    rg_generator *g = rgi_alloc(sizeof *g, RG_MEM_OTHER);
    if (!g)
        return NULL;
    pthread_mutex_init(&g->lock, NULL);
    mt_seed(g, seed);
    return g;
}

void rg_generator_free(rg_generator *g) {
    if (!g || g == &default_generator)
        return;
    pthread_mutex_destroy(&g->lock);
    rgi_free(g, sizeof *g, RG_MEM_OTHER);
}

bool rg_generator_seed(rg_generator *g, uint64_t seed) {
    if (!rgi_not_again("generator_seed") || !generator_lock(g, "generator_seed"))
        return false;
    mt_seed(g, seed);
    generator_unlock(g);
    return true;
}

/* torch.get_rng_state().view(torch.int64), so that a state may travel to torch and back. */
typedef struct generator_image {
    uint64_t seed;
    int32_t left, seeded;
    uint64_t next, word[MT_WORDS];
    double normal_x, normal, normal_rho; /* x and rho: always 0 */
    /* torch's CPU has no use for the latter: 0 */
    int64_t has_normal, float_normal;
} generator_image;

rg_tensor *rg_generator_state(rg_generator *g) {
    if (!generator_lock(g, "generator_state"))
        return NULL;
    generator_image image = { .seed = g->seed,
                              .left = g->left,
                              .seeded = 1,
                              .next = (uint64_t)g->next,
                              .normal = g->has_normal ? g->normal : 0,
                              .has_normal = g->has_normal };
    for (int i = 0; i < MT_WORDS; i++)
        image.word[i] = g->word[i];
    generator_unlock(g);
    return rg_from_dims(&image, RG_INT64, RG_DIMS(sizeof image / 8));
}

bool rg_generator_set_state(rg_generator *g, rg_tensor *state) {
    generator_image image;
    if (!rgi_check(state, "generator_set_state"))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, state->dtype != RG_INT64, "generator_set_state",
                  "RNG state must be a torch.int64 tensor");
    RG_FAIL_IF(state->ndim != 1 || state->numel != sizeof image / 8, "generator_set_state",
               "Expected a generator state of "
               "%zu numbers but found the input RNG state size to be %lld",
               sizeof image / 8, (long long)state->numel);
    rg_copy_out(state, &image, sizeof image);
    RG_FAIL_IF(!image.seeded || image.left < 1 || image.left > MT_WORDS
                   || image.next > (uint64_t)(MT_WORDS - image.left + 1),
               "generator_set_state", "Invalid mt19937 state");
    if (!rgi_not_again("generator_set_state") || !generator_lock(g, "generator_set_state"))
        return false;
    g->seed = image.seed;
    g->left = image.left;
    g->next = (int)image.next;
    g->has_normal = image.has_normal & 1;
    g->normal = image.normal;
    for (int i = 0; i < MT_WORDS; i++)
        g->word[i] = (uint32_t)image.word[i];
    generator_unlock(g);
    return true;
}

/* ---- what the words become: n numbers, at most a chunk; p: the distribution's parameters --- */

typedef void random_draw(rg_generator *g, void *to, int n, const double *p);

/* uniform: u (p1 - p0) + p0, rounded once; p1 itself becomes p0. blocks: normals of mean p0 and std
 * p1. */
#define DRAW_FLOATS(bits, T)                                                              \
    RG_WIDE(mt_scale_f##bits, (T * y, int n, T scale, T shift), (y, n, scale, shift)) {   \
        for (int i = 0; i < n; i++)                                                       \
            y[i] = fma(y[i], scale, shift);                                               \
    }                                                                                     \
    static void draw_uniform_f##bits(rg_generator *g, void *to, int n, const double *p) { \
        T *y = to, low = (T)p[0], high = (T)p[1];                                         \
        draw_f##bits(g, y, n);                                                            \
        if (low == 0 && high == 1)                                                        \
            return;                                                                       \
        mt_scale_f##bits(y, n, high - low, low);                                          \
        for (int i = 0; i < n; i++)                                                       \
            y[i] = y[i] == high ? low : y[i];                                             \
    }                                                                                     \
    static void draw_blocks_f##bits(rg_generator *g, void *to, int n, const double *p) {  \
        draw_f##bits(g, to, n);                                                           \
        mt_normals_f##bits(to, n);                                                        \
        if (p[0] != 0 || p[1] != 1)                                                       \
            mt_scale_f##bits(to, n, (T)p[1], (T)p[0]);                                    \
    }
DRAW_FLOATS(32, float)
DRAW_FLOATS(64, double)

/* Float64, whatever the tensor's dtype; the second of each pair waits in the generator. */
static void draw_normal(rg_generator *g, void *to, int n, const double *p) {
    for (int i = 0; i < n; i++, g->has_normal = !g->has_normal) {
        double u[2], z = g->normal;
        if (!g->has_normal) {
            draw_f64(g, u, 2);
            double radius = sqrt(-2 * log1p(-u[1])), theta = 2 * M_PI * u[0];
            z = radius * cos(theta);
            g->normal = radius * sin(theta);
        }
        ((double *)to)[i] = fma(z, p[1], p[0]);
    }
}

static void draw_exponential(rg_generator *g, void *to, int n, const double *p) {
    double *y = to, scale = -1 / p[0];
    draw_f64(g, y, n);
    for (int i = 0; i < n; i++)
        y[i] = scale * log1p(-y[i]);
}

static void draw_bernoulli(rg_generator *g, void *to, int n, const double *p) {
    double u[RANDOM_CHUNK];
    draw_f64(g, u, n);
    for (int i = 0; i < n; i++)
        ((bool *)to)[i] = u[i] < p[0];
}

typedef struct random_range {
    uint64_t range;
    int64_t base;
} random_range;

/* base + a word (from 2^28 on: two of them) modulo range. */
static void draw_integer(rg_generator *g, void *to, int n, const double *p) {
    const random_range *r = (const void *)p;
    int64_t *y = to;
    if (r->range >= 1u << 28) {
        uint64_t w[RANDOM_CHUNK];
        draw_u64(g, w, n);
        for (int i = 0; i < n; i++)
            y[i] = (int64_t)(w[i] % r->range + (uint64_t)r->base);
    } else {
        uint32_t w[RANDOM_CHUNK], range = (uint32_t)r->range;
        mt_words(g, w, n);
        for (int i = 0; i < n; i++)
            y[i] = w[i] % range + r->base;
    }
}

/* ---- filling a tensor ------------------------------------------------------------ */

typedef struct random_source {
    rg_generator *g;
    random_draw *draw;
    const double *p;
    rg_dtype drawn, dtype; /* what draw gives, what the tensor holds; */
    rg_loop *store;        /* from the one to the other */
    bool blocks;           /* of sixteen: only where all is one row */
} random_source;

static void random_inner(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const random_source *s = context;
    int64_t drawn = (int64_t)rgi_sizeof(s->drawn), rest = s->blocks ? n % 16 : 0;
    bool direct = s->drawn == s->dtype && step[0] == drawn;
    double chunk[RANDOM_CHUNK];
    char *to = p[0];
    n -= rest;
    for (int m; n > 0; n -= m, to += m * step[0]) {
        m = (int)RG_MIN(n, RANDOM_CHUNK);
        s->draw(s->g, direct ? to : (char *)chunk, m, s->p);
        if (!direct)
            s->store((char *[]){ to, (char *)chunk }, (int64_t[]){ step[0], drawn }, m, NULL);
    }
    /* is drawn for nothing, and then the last sixteen are drawn again */
    if (rest) {
        mt_words(s->g, (uint32_t[32]){ 0 }, (int)(rest * drawn / 4));
        s->draw(s->g, to + (rest - 16) * drawn, 16, s->p);
    }
}

/* The same elements as they lie in memory, which is the order in which torch visits them: of a
 * transposed tensor column by column. True if that is their own order. */
static bool random_order(const rg_tensor *t, rg_tensor *sorted) {
    int order[RG_MAX_DIMS];
    bool same = rgi_memory_order(t, order);
    *sorted = (rg_tensor){ .state = RG_ALIVE, .dtype = t->dtype, .ndim = t->ndim, .data = t->data };
    for (int d = 0; d < t->ndim; d++)
        sorted->size[d] = t->size[order[d]], sorted->stride[d] = t->stride[order[d]];
    rgi_update_flags(sorted);
    return same;
}

static bool fill_with(rg_tensor *t, rg_generator *g, const char *op, random_draw *draw,
                      rg_dtype drawn, const double *p) {
    rg_tensor sorted;
    if (!generator_lock(g, op))
        return false;
    random_source source = { g,
                             draw,
                             p,
                             drawn,
                             t->dtype,
                             rgi_copy_loop(t->dtype, drawn),
                             draw == draw_blocks_f32 || draw == draw_blocks_f64 };
    if (!(t->flags & RG_CONTIGUOUS))
        random_order(t, &sorted), t = &sorted;
    rgi_each(1, &t, random_inner, &source);
    generator_unlock(g);
    return true;
}

/* ---- distributions: torch's conditions on the parameters, then the fill ---------- */

typedef bool random_fill(rg_tensor *t, const double p[], rg_generator *g, const char *op);

static bool fill_uniform(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_DTYPE_IF(!rgi_is_float(t->dtype), op, "check_uniform_bounds", t->dtype);
    bool single = t->dtype == RG_FLOAT32;
    double low = p[0], high = p[1], max = single ? FLT_MAX : DBL_MAX;
    RG_FAIL_IF(!(fabs(low) <= max && fabs(high) <= max), op, "%s is out of bounds for %s",
               fabs(low) <= max ? "to" : "from", single ? "float" : "double");
    RG_FAIL_IF(low > high, op,
               "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", low,
               high);
    RG_FAIL_IF(high - low > max, op,
               "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g "
               "and from=%g which result in to-from to exceed the limit",
               rgi_scalar_name(t->dtype), high, low);
    return fill_with(t, g, op, single ? draw_uniform_f32 : draw_uniform_f64, t->dtype, p);
}

/* In blocks where a tensor of sixteen or more elements is contiguous, else one by one. */
static bool fill_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[1] >= 0), op, "normal expects std >= 0.0, but found std %g", p[1]);
    RG_FAIL_DTYPE_IF(t->numel && !rgi_is_float(t->dtype), op, "normal_kernel_cpu", t->dtype);
    if (t->numel < 16 || !(t->flags & RG_CONTIGUOUS))
        return fill_with(t, g, op, draw_normal, RG_FLOAT64, p);
    return fill_with(t, g, op, t->dtype == RG_FLOAT32 ? draw_blocks_f32 : draw_blocks_f64, t->dtype,
                     p);
}

static bool fill_exponential(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[0] > 0), op, "exponential_ expects lambda > 0.0, but found lambda=%g", p[0]);
    RG_FAIL_IF(t->numel && !rgi_is_float(t->dtype), op,
               "Exponential distribution is a continuous probability "
               "distribution. dtype must be a floating point but you specified %s",
               rgi_scalar_name(t->dtype));
    return fill_with(t, g, op, draw_exponential, RG_FLOAT64, p);
}

static bool fill_bernoulli(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    RG_FAIL_IF(!(p[0] >= 0 && p[0] <= 1), op, "bernoulli_ expects p to be in [0, 1], but got p=%g",
               p[0]);
    return fill_with(t, g, op, draw_bernoulli, RG_BOOL, p);
}

/* ---- truncated normals: draw all, keep what is accepted, draw all again ---------- */

enum { TRUNC_ROUNDS = 1 << 20 }; /* torch would go on for ever */

typedef struct trunc_rule {
    bool normal;
    double mean, std, low, high, log_peak;
} trunc_rule;

/* A normal is accepted if it is inside, a uniform candidate with the density at it as the
 * probability. Rounds as torch does: step by step, in the tensor's dtype. True: some are pending.
 */
#define TRUNC_ACCEPT(T)                                                             \
    static bool trunc_accept_##T(const trunc_rule *r, rg_tensor *const t[]) {       \
        T *x = (T *)t[0]->data, *candidate = (T *)t[1]->data, *u = (T *)t[2]->data; \
        T mean = (T)r->mean, std = (T)r->std, low = (T)r->low, high = (T)r->high;   \
        bool *pending = (bool *)t[3]->data, any = false;                            \
        for (int64_t i = 0; i < t[0]->numel; i++) {                                 \
            if (!pending[i])                                                        \
                continue;                                                           \
            T v = x[i] = candidate[i], z = (v - mean) / std;                        \
            pending[i] = r->normal ? v < low || v > high                            \
                                   : log(u[i]) > z * z * (T)-0.5 - (T)r->log_peak;  \
            any |= pending[i];                                                      \
        }                                                                           \
        return any;                                                                 \
    }
TRUNC_ACCEPT(float)
TRUNC_ACCEPT(double)

static double trunc_cdf(double x) { return (1 + erf(x / sqrt(2))) / 2; }

/* p: mean, std, low, high */
static bool fill_trunc_normal(rg_tensor *t, const double p[], rg_generator *g, const char *op) {
    trunc_rule r = { .mean = p[0], .std = p[1], .low = p[2], .high = p[3] };
    RG_FAIL_IF(r.std == 0, op, "division by zero");
    double mode = r.high < r.mean ? r.high : r.mean;
    mode = ((mode > r.low ? mode : r.low) - r.mean) / r.std;
    r.log_peak = -0.5 * (mode * mode);
    r.normal = trunc_cdf((r.high - r.mean) / r.std) - trunc_cdf((r.low - r.mean) / r.std) > 0.3;

    /* Flat and in memory order, as t is filled; what torch draws again is as t without its gaps. */
    RG_SCOPE();
    /* the result, candidates, uniforms, what is pending */
    rg_tensor sorted, *flat[4];
    bool again = random_order(t, &sorted), any = true;
    for (int i = 0; i < 4; i++)
        if (!(flat[i] = rgi_own(rgi_new_like(&sorted, i < 3 ? t->dtype : RG_BOOL))))
            return false;
    memset(flat[3]->data, true, (size_t)t->numel);
    for (int round = 0; any; round++) {
        RG_FAIL_IF(round == TRUNC_ROUNDS, op,
                   "%d rounds were not enough: almost nothing in [%g, %g] is "
                   "likely",
                   round, r.low, r.high);
        /* without the flag normals come one by one */
        flat[1]->flags = (round ? again : t->flags & RG_CONTIGUOUS) ? RG_CONTIGUOUS : 0;
        bool ok = r.normal ? fill_normal(flat[1], p, g, op)
                           : fill_uniform(flat[1], p + 2, g, op)
                                 && fill_uniform(flat[2], (double[]){ 0, 1 }, g, op);
        if (!ok)
            return false;
        any = (t->dtype == RG_FLOAT32 ? trunc_accept_float : trunc_accept_double)(&r, flat);
    }
    rgi_copy_elements(&sorted, flat[0]);
    return true;
}

/* ---- in place -------------------------------------------------------------------- */

typedef struct {
    rg_tensor *t;
    random_fill *fill;
    double p[4];
    rg_generator *g;
    const char *op;
} noted_fill;

static bool fill_again(void *context) {
    noted_fill *c = context;
    return c->fill(c->t, c->p, c->g, c->op);
}

/* A run draws anew. */
static void note_fill(rg_tensor *t, random_fill *fill, const double p[4], rg_generator *g,
                      const char *op) {
    noted_fill *c = rgi_note(fill_again, NULL, sizeof *c);
    if (c && rgi_made_again(t, op))
        *c = (noted_fill){ t, fill, { p[0], p[1], p[2], p[3] }, g, op };
    rgi_hold(t);
}

#define RANDOM_FILL_(name, parameters, ...)                                      \
    rg_tensor *rg_##name##_with_ parameters {                                    \
        if (!rgi_may_write(t, #name "_", false))                                 \
            return NULL;                                                         \
        if (!fill_##name(t, (double[]){ __VA_ARGS__ }, g, #name "_"))            \
            return NULL;                                                         \
        if (rgi_noting())                                                        \
            note_fill(t, fill_##name, (double[4]){ __VA_ARGS__ }, g, #name "_"); \
        rgi_count_write(t, #name "_");                                           \
        return t;                                                                \
    }
RANDOM_FILL_(uniform, (rg_tensor * t, double low, double high, rg_generator *g), low, high)
RANDOM_FILL_(normal, (rg_tensor * t, double mean, double std, rg_generator *g), mean, std)
RANDOM_FILL_(trunc_normal,
             (rg_tensor * t, double mean, double std, double low, double high, rg_generator *g),
             mean, std, low, high)
RANDOM_FILL_(exponential, (rg_tensor * t, double rate, rg_generator *g), rate)
RANDOM_FILL_(bernoulli, (rg_tensor * t, double p, rg_generator *g), p)

/* ---- new tensors ----------------------------------------------------------------- */

/* The standard one of a distribution: from 0 to 1, or of mean 0 and std 1. */
static rg_tensor *random_made(rg_tensor *t, random_fill *fill, rg_generator *g, const char *op) {
    if (t && rgi_noting())
        note_fill(t, fill, (double[4]){ 0, 1 }, g, op);
    if (t && fill(t, (double[]){ 0, 1 }, g, op))
        return rgi_own(t);
    rgi_release(t);
    return NULL;
}

#define RANDOM_NEW(name, fill)                                                        \
    rg_tensor *rg_##name##_dims(rg_dims shape, rg_dtype dtype, rg_generator *g) {     \
        return random_made(rgi_new_dims(#name, &shape, (int)dtype), fill, g, #name);  \
    }                                                                                 \
    rg_tensor *rg_##name##_like(rg_tensor *x) {                                       \
        if (!rgi_check(x, #name "_like"))                                             \
            return NULL;                                                              \
        return random_made(rgi_new_dense_like(x, x->dtype), fill, &default_generator, \
                           #name "_like");                                            \
    }
RANDOM_NEW(rand, fill_uniform)
RANDOM_NEW(randn, fill_normal)

/* Where the dtype's rounding carries v, which is inside, to the wrong side of limit: the next
 * number that it has, going up (sign 1) or down; else limit itself. */
static int64_t random_integer_bound(rg_dtype dtype, int64_t v, int64_t limit, int sign) {
    double room;
    rgi_store_i64(&room, dtype, v);
    int64_t rounded = rgi_load_i64(&room, dtype);
    if (sign > 0 ? rounded >= limit : rounded < limit)
        return limit;
    uint64_t magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;
    uint64_t step = 1ull << (64 - (dtype == RG_FLOAT32 ? FLT_MANT_DIG : DBL_MANT_DIG)
                             - __builtin_clzll(magnitude));
    return (int64_t)((uint64_t)rounded + (sign > 0 ? step : -step));
}

static bool fill_integers(rg_tensor *t, const double range[], rg_generator *g, const char *op) {
    return fill_with(t, g, op, draw_integer, RG_INT64, range);
}

rg_tensor *rg_randint_dims(int64_t low, int64_t high, rg_dims shape, rg_dtype dtype,
                           rg_generator *g) {
    const char *op = "randint", *casted = "";
    RG_SCOPE();
    rg_tensor *t = rgi_own(rgi_new_dims(op, &shape, (int)dtype));
    if (!t)
        return NULL;
    if (low < high && rgi_is_float(dtype)) {
        low = random_integer_bound(dtype, low + 1, low, 1);
        high = random_integer_bound(dtype, high - 1, high, -1);
        casted = " casted to dtype";
    }
    RG_FAIL_IF(low >= high, op,
               "random_ expects 'from'%s to be less than 'to'%s, but got from=%lld >= to=%lld",
               casted, casted, (long long)low, (long long)high);
    RG_FAIL_IF(dtype == RG_BOOL && (low < 0 || high > 2), op, "%s is out of bounds for bool",
               low < 0 || low > 1 ? "from" : "to - 1");
    random_range range = { (uint64_t)high - (uint64_t)low, low };
    double p[4] = { 0 };
    memcpy(p, &range, sizeof range);
    if (rgi_noting())
        note_fill(t, fill_integers, p, g, op);
    return fill_integers(t, p, g, op) ? rg_escape(t) : NULL;
}

/* Fisher and Yates. From 2^32 / 20 on torch builds the permutation from within, with two words a
 * step. */
static void random_permute(rg_generator *g, int64_t *y, int64_t n) {
    uint32_t w[RANDOM_CHUNK];
    uint64_t w2[RANDOM_CHUNK];
    bool within = n >= UINT32_MAX / 20;
    int64_t steps = within ? n : n - 1;
    for (int64_t i = 0; i < n; i++)
        y[i] = i;
    for (int64_t i = 0; i < steps;) {
        int m = (int)RG_MIN(steps - i, RANDOM_CHUNK);
        if (within)
            draw_u64(g, w2, m);
        else
            mt_words(g, w, m);
        for (int k = 0; k < m; k++, i++) {
            int64_t z = within ? (int64_t)(w2[k] % (uint64_t)(i + 1))
                               : i + w[k] % (uint32_t)(n - i);
            RG_SWAP(y[i], y[z]);
        }
    }
}

rg_tensor *rg_randperm_with(int64_t n, rg_generator *g) {
    RG_SCOPE();
    rg_tensor *t = rgi_not_again("randperm")
                       ? rgi_own(rgi_new_dims("randperm", &RG_DIMS(n), RG_INT64))
                       : NULL;
    if (!t || !generator_lock(g, "randperm"))
        return NULL;
    random_permute(g, (int64_t *)t->data, n);
    generator_unlock(g);
    return rg_escape(t);
}

/* ---- drawing with given probabilities -------------------------------------------- */

/* A float32 probability meets a float32 uniform. */
rg_tensor *rg_bernoulli_with(rg_tensor *p, rg_generator *g) {
    const char *op = "bernoulli";
    if (!rgi_not_again(op) || !rgi_check(p, op))
        return NULL;
    RG_FAIL_DTYPE_IF(p->numel && !rgi_is_float(p->dtype), op, "bernoulli_tensor_cpu_p_", p->dtype);
    RG_SCOPE();
    rg_tensor *t = rgi_own(rgi_new_like(p, p->dtype)), *below = rgi_own(rgi_new_like(p, RG_BOOL));
    const rg_tensor *chance = rgi_own(rgi_contiguous_copy(p, RG_FLOAT64));
    if (!t || !below || !chance)
        return NULL;
    for (int64_t i = 0; i < p->numel; i++) {
        double c = ((const double *)chance->data)[i];
        RG_FAIL_IF(!(c >= 0 && c <= 1), op,
                   "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    }
    random_draw *draw = p->dtype == RG_FLOAT32 ? draw_uniform_f32 : draw_uniform_f64;
    if (!fill_with(t, g, op, draw, p->dtype, (double[]){ 0, 1 }))
        return NULL;
    k_run(k_lt, below, t, p);
    rgi_copy_elements(t, below);
    return rg_escape(t);
}

/* torch computes in the weights' dtype: here in float64, rounded after every step. */
static double draw_rounded(double v, rg_dtype dtype) {
    return dtype == RG_FLOAT32 ? (double)(float)v : v;
}

static bool draw_check(const rg_tensor *w, int64_t n, bool again, const char *op) {
    const char *wrong = NULL;
    bool zero = false;
    double sum = 0;
    for (int64_t i = 0; i < w->numel && !wrong && !(again && zero); i++) {
        double v = ((double *)w->data)[i];
        sum = i % n ? sum + v : v;
        zero |= i % n == n - 1 && sum == 0;
        if (!(v >= 0))
            wrong = "encountering probability entry < 0";
        else if (isinf(v))
            wrong = "encountering probability entry = infinity or NaN";
    }
    RG_FAIL_IF(wrong && !again, op,
               "probability tensor contains either `inf`, `nan` or element < 0");
    if (!wrong && zero)
        wrong = "sum of probabilities <= 0";
    return !wrong || rgi_fail(RG_RUNTIME_ERROR, op, "invalid multinomial distribution (%s)", wrong);
}

/* In each row the categories with the largest weight / exponential, in that order. */
static bool draw_distinct(rg_tensor *t, rg_tensor *of, const double *w, int64_t n, rg_generator *g,
                          const char *op) {
    int64_t draws = t->size[t->ndim - 1], rows = t->numel / draws, *y = (int64_t *)t->data;
    RG_SCOPE();
    rg_tensor *exponentials = rgi_own(rgi_new_dense_like(of, of->dtype)), *e;
    k_ranked *rank = (k_ranked *)(void *)rgi_own_string((size_t)n * sizeof *rank);
    if (!rank || !exponentials || !fill_exponential(exponentials, (double[]){ 1 }, g, op)
        || !(e = rgi_own(rgi_contiguous_copy(exponentials, RG_FLOAT64))))
        return false;
    for (int64_t r = 0; r < rows; r++, w += n, y += draws) {
        int64_t best = 0;
        for (int64_t i = 0; i < n; i++) {
            double q = draw_rounded(w[i] / ((double *)e->data)[r * n + i], of->dtype);
            rank[i] = (k_ranked){ k_rank(q, true), i };
            if (rank[i].key < rank[best].key)
                best = i;
        }
        if (draws > 1)
            k_top(rank, n, draws, true);
        /* argmax: the first */
        for (int64_t i = 0; i < draws; i++)
            y[i] = draws > 1 ? rank[i].index : best;
    }
    return true;
}

/* In each row the first category whose cumulative share is not below a uniform float64. */
static bool draw_again(rg_tensor *t, rg_tensor *of, const double *w, int64_t n, rg_generator *g,
                       const char *op) {
    RG_SCOPE();
    rg_tensor *shares = rgi_own(rgi_new_like(of, RG_FLOAT64)),
              *u = rgi_own(rgi_new_like(t, RG_FLOAT64));
    if (!shares || !u || !fill_with(u, g, op, draw_uniform_f64, RG_FLOAT64, (double[]){ 0, 1 }))
        return false;
    for (int64_t first = 0; first < of->numel; first += n, w += n) {
        double *share = (double *)shares->data + first, sum = 0;
        for (int64_t i = 0; i < n; i++)
            share[i] = sum = draw_rounded(sum + w[i], of->dtype);
        for (int64_t i = 0; i < n; i++)
            share[i] = draw_rounded(share[i] / sum, of->dtype);
        share[n - 1] = 1;
    }
    k_searchsorted(t, shares, u, false);
    return true;
}

rg_tensor *rg_multinomial_with(rg_tensor *weights, int64_t draws, bool replacement,
                               rg_generator *g) {
    const char *op = "multinomial";
    if (!rgi_not_again(op) || !rgi_check(weights, op))
        return NULL;
    RG_FAIL_IF(weights->ndim < 1 || weights->ndim > 2, op, "prob_dist must be 1 or 2 dim");
    RG_FAIL_IF(!rgi_is_float(weights->dtype), op,
               "multinomial only supports floating-point dtypes for input, got: "
               "%s",
               rgi_scalar_name(weights->dtype));
    int64_t n = weights->size[weights->ndim - 1], rows = weights->ndim == 2 ? weights->size[0] : 1;
    const char *wrong =
        draws <= 0 ? "cannot sample n_sample <= 0 samples"
        : !replacement && draws > n
            ? "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        : n > 1 << 24        ? "number of categories cannot exceed 2^24"
        : n == 0 && rows > 0 ? "invalid multinomial distribution (sum of probabilities <= 0)"
                             : NULL;
    RG_FAIL_IF(wrong, op, "%s", wrong);
    RG_SCOPE();
    const rg_dims shape = { weights->ndim, { weights->ndim == 2 ? rows : draws, draws } };
    rg_tensor *t = rgi_own(rgi_new_dims(op, &shape, RG_INT64));
    const rg_tensor *w = rgi_own(rgi_contiguous_copy(weights, RG_FLOAT64));
    bool again = replacement && draws > 1;
    if (!t || !w)
        return NULL;
    if (t->numel == 0)
        return rg_escape(t);
    bool ok = draw_check(w, n, again, op)
              && (again ? draw_again : draw_distinct)(t, weights, (const double *)w->data, n, g,
                                                      op);
    return ok ? rg_escape(t) : NULL;
}
