/*
 * optim.c: optimizers, clipping, schedules. An optimizer is a row: its options, the tensors
 * that it keeps for each parameter, and an update that passes once over parameter, gradient
 * and state. float32 rounds where torch does.
 */
#include "optim.h"
#include "tensor/internal.h"

#include <stdio.h>
#include <tgmath.h>

/* rg_param_group, number by number. */
#define OPTIM_ENUM(name) OPTIM_##name,
#define OPTIM_NAME(name) #name,
enum { OPTIM_lr, OPTIM_beta1, OPTIM_beta2, RG_OPTIONS_(OPTIM_ENUM) OPTIM_OPTIONS };
static const char *const optim_options[] = { "lr", "betas.0", "betas.1", RG_OPTIONS_(OPTIM_NAME) };
static const char *const optim_invalid[OPTIM_OPTIONS] = {
    "learning rate",
    "beta parameter at index 0",
    "beta parameter at index 1",
    "lr_decay value",
    "alpha value",
    "momentum value",
    NULL,
    "epsilon value",
    "weight_decay value",
    "initial_accumulator_value value",
};
typedef struct {
    union {
        rg_param_group o;
        double v[OPTIM_OPTIONS];
    };
    double n; /* of its parameters */
} optim_group;
_Static_assert(sizeof(rg_param_group) == OPTIM_OPTIONS * sizeof(double),
               "one number for each option");

enum { OPTIM_STATES = 3, LAST_EPOCH = 0, BEST, BAD_EPOCHS, COOLDOWN, SCHEDULE_STATES };
typedef struct {
    double sign, decay, rate, keep, fresh, weight, rest, eps, root, shrink;
    bool first, nesterov;
    int has;
} optim_numbers;
typedef void optim_loop(char *const v[], int64_t n, const optim_numbers *z);
typedef struct optim_row {
    const char *name;
    optim_group options; /* those that it has, with their defaults */
    struct {
        const char *name;
        int variant;
    } states[OPTIM_STATES];
    int keep, drop, weight; /* the options whose numbers these are */
    bool counts;            /* its steps, in the state_dict */
    bool adam, decoupled;   /* corrects its means; weights decay by themselves */
    int variants[2];        /* options that ask for the states of variant 1, and 2 */
    optim_loop *loops[2];   /* of float32 and float64 */
} optim_row;

typedef struct optim_slot {
    rg_tensor *p, *state[OPTIM_STATES];
    double step;
    size_t group;
    /* of this step: parameter, gradient, and the states that take part; */
    rg_tensor *t[RG_MAX_OPERANDS];
    int n, variant; /* how many: 0: there is no gradient */
} optim_slot;

struct rg_optim {
    const optim_row *row;
    optim_group defaults, *groups;
    optim_slot *slots;
    size_t n_groups, groups_room, n_slots, slots_room;
    rg_schedule *schedules;
    int holders; /* who made it, and what is recorded of its steps */
};

struct rg_schedule {
    rg_schedule *next;
    rg_optim *optim;
    rg_schedule_kind kind;
    rg_schedule_options o;
    double state[SCHEDULE_STATES];
};

static bool optim_set(double v) { return memcmp(&v, &(double){ RG_UNSET }, sizeof v) != 0; }
static const char *optim_text(double v) { return rg_str(rg_scalar_dtype(v, RG_FLOAT64)); }

/* ---- updates: d, the gradient with weights decaying into it, moves p ------------- */

#define OPTIM_LOOP(name, T, ...)                                                             \
    static inline __attribute__((always_inline)) void name##_##T##_part(                     \
        char *const v[], int64_t n, const optim_numbers *z, const int has) {                 \
        typedef T real;                                                                      \
        real *restrict p = (real *)v[0], *restrict g = (real *)v[1];                         \
        __attribute__((unused)) real *restrict a = (real *)v[2], *restrict b = (real *)v[3], \
                                               *restrict c = (real *)v[4];                   \
        __attribute__((unused)) const real sign = (real)z->sign, decay = (real)z->decay,     \
                                           rate = (real)z->rate, eps = (real)z->eps,         \
                                           keep = (real)z->keep, fresh = (real)z->fresh,     \
                                           weight = (real)z->weight, rest = (real)z->rest,   \
                                           root = (real)z->root, shrink = (real)z->shrink;   \
        for (int64_t i = 0; i < n; i++) {                                                    \
            real d = sign * g[i];                                                            \
            (void)has;                                                                       \
            __VA_ARGS__                                                                      \
        }                                                                                    \
    }                                                                                        \
    RG_WIDE(name##_##T, (char *const v[], int64_t n, const optim_numbers *z), (v, n, z)) {   \
        if (z->has == 0)                                                                     \
            name##_##T##_part(v, n, z, 0);                                                   \
        else if (z->has == 1)                                                                \
            name##_##T##_part(v, n, z, 1);                                                   \
        else if (z->has == 2)                                                                \
            name##_##T##_part(v, n, z, 2);                                                   \
        else                                                                                 \
            name##_##T##_part(v, n, z, 3);                                                   \
    }
#define OPTIM_UPDATE(name, ...) \
    OPTIM_LOOP(name, float, __VA_ARGS__) OPTIM_LOOP(name, double, __VA_ARGS__)
#define OPTIM_LERP(m, w) \
    (fabs(w) < (real)0.5 ? fma(w, d - m, m) : fma(w - 1, d - m, d)) /* torch's */
#define OPTIM_DECAY d = decay != 0 ? fma(decay, p[i], d) : d

/* SGD: a is the momentum's. */
OPTIM_UPDATE(sgd, {
    OPTIM_DECAY;
    if (has)
        a[i] = z->first ? d : fma(fresh, d, a[i] * keep);
    p[i] = fma(rate, !has ? d : z->nesterov ? fma(keep, a[i], d) : a[i], p[i]);
})

/* Adam: a is the mean of d, b of d^2, and c the greatest that b has been. */
OPTIM_UPDATE(adam, {
    OPTIM_DECAY;
    a[i] = OPTIM_LERP(a[i], rest);
    b[i] = fma(fresh * d, d, b[i] * keep);
    if (has)
        c[i] = b[i] > c[i] || b[i] != b[i] ? b[i] : c[i];
    p[i] = p[i] * shrink + rate * a[i] / (sqrt(has ? c[i] : b[i]) / root + eps);
})

/* RMSprop: a is the mean of d^2, b with momentum its buffer, the last if centered the mean of d. */
OPTIM_UPDATE(rmsprop, {
    real *restrict mean = has & 1 ? c : b, square;
    OPTIM_DECAY;
    square = a[i] = fma(fresh * d, d, a[i] * keep);
    if (has & 2)
        mean[i] = OPTIM_LERP(mean[i], fresh), square = fma(-mean[i], mean[i], square);
    if (has & 1)
        b[i] = b[i] * weight + d / (sqrt(square) + eps), p[i] = fma(rate, b[i], p[i]);
    else
        p[i] += rate * d / (sqrt(square) + eps);
})

/* Adagrad: a is the sum of d^2. */
OPTIM_UPDATE(adagrad, {
    OPTIM_DECAY;
    a[i] = fma(d, d, a[i]);
    p[i] += rate * d / (sqrt(a[i]) + eps);
})

/* Lion: a is the mean of d; only the sign of u counts. */
OPTIM_UPDATE(lion, {
    real u = weight * a[i] + rest * d;
    a[i] = keep * a[i] + fresh * d;
    p[i] += rate * ((u > 0 ? 1 : u < 0 ? -1 : u) + decay * p[i]);
})

#define OPTIM_LOOPS(f) .loops = { f##_float, f##_double }
#define OPTIM_WITH(...) \
    .options.o = { RG_NO_OPTIONS_, .maximize = 0, .weight_decay = 0, __VA_ARGS__ }
#define OPTIM_ADAM_ROW(decay)                                                                      \
    .counts = true, .adam = true, .keep = OPTIM_beta2, .drop = OPTIM_beta2, .weight = OPTIM_beta1, \
    .states = { { "exp_avg", 0 }, { "exp_avg_sq", 0 }, { "max_exp_avg_sq", 1 } },                  \
    .variants = { OPTIM_amsgrad }, OPTIM_LOOPS(adam),                                              \
    OPTIM_WITH(.lr = 1e-3, .betas = { 0.9, 0.999 }, .eps = 1e-8, .weight_decay = decay,            \
               .amsgrad = 0)
RG_QUIET_
static const optim_row optim_rows[] = {
    [RG_SGD] = { "SGD", OPTIM_WITH(.lr = 1e-3, .momentum = 0, .dampening = 0, .nesterov = 0),
                 .states = { { "momentum_buffer", 1 } }, .keep = OPTIM_momentum,
                 .drop = OPTIM_dampening, .variants = { OPTIM_momentum }, OPTIM_LOOPS(sgd) },
    [RG_ADAM] = { "Adam", OPTIM_ADAM_ROW(0) },
    [RG_ADAMW] = { "AdamW", OPTIM_ADAM_ROW(0.01), .decoupled = true },
    [RG_RMSPROP] = { "RMSprop",
                     OPTIM_WITH(.lr = 0.01, .alpha = 0.99, .eps = 1e-8, .momentum = 0,
                                .centered = 0),
                     .counts = true,
                     .states = { { "square_avg", 0 }, { "momentum_buffer", 1 }, { "grad_avg", 2 } },
                     .variants = { OPTIM_momentum, OPTIM_centered }, .keep = OPTIM_alpha,
                     .drop = OPTIM_alpha, .weight = OPTIM_momentum, OPTIM_LOOPS(rmsprop) },
    [RG_ADAGRAD] = { "Adagrad",
                     OPTIM_WITH(.lr = 0.01, .lr_decay = 0, .initial_accumulator_value = 0,
                                .eps = 1e-10),
                     .counts = true, .states = { { "sum", 0 } }, OPTIM_LOOPS(adagrad) },
    [RG_LION] = { "Lion", OPTIM_WITH(.lr = 1e-4, .betas = { 0.9, 0.99 }),
                  .states = { { "exp_avg", 0 } }, .keep = OPTIM_beta2, .drop = OPTIM_beta2,
                  .weight = OPTIM_beta1, OPTIM_LOOPS(lion) },
};
RG_LOUD_

/* ---- making ---------------------------------------------------------------------- */

bool rg_optim_add_group_with(rg_optim *o, rg_list list, rg_param_group options) {
    RG_AS("add_group");
    if (!rgi_given(o, "add_group", "an optimizer"))
        return false;
    optim_group group = { { options }, list.n };
    const char *name = o->row->name;
    for (int i = 0; i < OPTIM_initial_lr; i++) {
        RG_FAIL_AS_IF(RG_TYPE_ERROR, optim_set(group.v[i]) && !optim_set(o->defaults.v[i]), name,
                      "got an unexpected keyword argument '%s'", optim_options[i]);
        if (!optim_set(group.v[i]))
            group.v[i] = o->defaults.v[i];
    }
    if (!rgi_given_list(list.n, list.v, name))
        return false;
    size_t n = o->n_slots + (size_t)list.n;
    if (!rgi_grow((void **)&o->groups, &o->groups_room, o->n_groups + 1, sizeof *o->groups)
        || !rgi_grow((void **)&o->slots, &o->slots_room, n, sizeof *o->slots))
        return false;
    for (size_t i = o->n_slots; i < n; i++) {
        rg_tensor *p = list.v[i - o->n_slots];
        if (!rgi_check(p, name))
            return false;
        RG_FAIL_VALUE_IF(!rg_is_leaf(p) && !(p->flags & RG_RETAINS_GRAD), name,
                         "can't optimize a non-leaf Tensor");
        o->slots[i] = (optim_slot){ .p = p, .group = o->n_groups };
        for (size_t j = 0; j < i; j++)
            RG_FAIL_VALUE_IF(
                o->slots[j].p == p, name,
                j < o->n_slots ? "some parameters appear in more than one parameter group"
                               : "optimizer contains a parameter group with duplicate parameters");
    }
    for (; o->n_slots < n; o->n_slots++)
        rgi_retain(o->slots[o->n_slots].p);
    o->groups[o->n_groups++] = group;
    return true;
}

static bool optim_valid(const rg_optim *o) {
    const rg_param_group *g = &o->groups->o;
    for (int k = 0; k < OPTIM_OPTIONS; k++) {
        double v = o->groups->v[k];
        bool bad = v < 0, beta = k == OPTIM_beta1 || k == OPTIM_beta2;
        if (o->row != &optim_rows[RG_SGD])
            bad = !(v >= 0) || (beta && v >= 1);
        RG_FAIL_VALUE_IF(bad && optim_set(v) && optim_invalid[k], o->row->name, "Invalid %s: %s",
                         optim_invalid[k], optim_text(v));
    }
    return !optim_set(g->nesterov) || g->nesterov == 0 || (g->momentum > 0 && g->dampening == 0)
           || rgi_fail(RG_VALUE_ERROR, o->row->name,
                       "Nesterov momentum requires a momentum and zero dampening");
}

rg_optim *rg_optim_with(rg_optim_kind kind, rg_list params, rg_param_group options) {
    RG_SCOPE();
    RG_FAIL_VALUE_IF((unsigned)kind >= RG_COUNT(optim_rows), "optim", "there is no optimizer %d",
                     kind);
    RG_AS(optim_rows[kind].name);
    if (!params.n)
        return rgi_fail(RG_VALUE_ERROR, optim_rows[kind].name,
                        "optimizer got an empty parameter list");
    rg_optim *o = rgi_alloc(sizeof *o, RG_MEM_OTHER);
    if (!o)
        return NULL;
    *o = (rg_optim){ .row = &optim_rows[kind], .holders = 1, .defaults = optim_rows[kind].options };
    if (rg_optim_add_group_with(o, params, options) && optim_valid(o)) {
        o->defaults = *o->groups;
        return o;
    }
    rg_optim_free(o);
    return NULL;
}

void rg_optim_free(rg_optim *o) {
    if (!o || --o->holders)
        return;
    for (size_t i = 0; i < o->n_slots; i++) {
        rgi_release(o->slots[i].p);
        for (int k = 0; k < OPTIM_STATES; k++)
            rgi_release(o->slots[i].state[k]);
    }
    for (rg_schedule *s; (s = o->schedules);) {
        o->schedules = s->next;
        rgi_free(s, sizeof *s, RG_MEM_OTHER);
    }
    rgi_free(o->slots, o->slots_room * sizeof *o->slots, RG_MEM_OTHER);
    rgi_free(o->groups, o->groups_room * sizeof *o->groups, RG_MEM_OTHER);
    rgi_free(o, sizeof *o, RG_MEM_OTHER);
}

int rg_optim_n_groups(rg_optim *o) {
    return rgi_given(o, "n_groups", "an optimizer") ? (int)o->n_groups : -1;
}
rg_param_group *rg_optim_group(rg_optim *o, int i) {
    if (!rgi_given(o, "group", "an optimizer"))
        return NULL;
    RG_FAIL_INDEX_IF(i < 0 || (size_t)i >= o->n_groups, "group", "there is no group %d of %zu", i,
                     o->n_groups);
    return &o->groups[i].o;
}

bool rg_optim_zero_grad(rg_optim *o) {
    if (!rgi_given(o, "zero_grad", "an optimizer"))
        return false;
    for (size_t i = 0; i < o->n_slots; i++)
        if (!rg_set_grad(o->slots[i].p, RG_NONE))
            return false;
    return true;
}

/* ---- a step: all that can fail comes first --------------------------------------- */

typedef struct optim_part {
    optim_loop *loop;
    int n;
    int64_t bytes;
    optim_numbers z;
} optim_part;

static void optim_run(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const optim_part *u = context;
    bool dense = true;
    for (int k = 0; k < u->n; k++)
        dense &= step[k] == u->bytes;
    for (int64_t i = 0, by = dense ? n : 1; i < n; i += by) {
        char *at[RG_MAX_OPERANDS];
        for (int k = 0; k < u->n; k++)
            at[k] = p[k] + i * step[k];
        u->loop(at, by, &u->z);
    }
}

/* What is small and in one piece, at once. */
static void optim_move(optim_slot *s, optim_part *u) {
    char *at[RG_MAX_OPERANDS];
    bool dense = s->p->numel < RG_LARGE;
    for (int k = 0; k < s->n; k++) {
        at[k] = s->t[k]->data;
        dense = dense && s->t[k]->flags & RG_CONTIGUOUS;
    }
    if (dense)
        u->loop(at, s->p->numel, &u->z);
    else
        rgi_each_apart(s->n, s->t, optim_run, u);
}

/* Gathers what the update works on; makes the state where it isn't yet. */
static bool optim_gather(rg_optim *o, optim_slot *s) {
    const optim_group *g = &o->groups[s->group];
    const int *options = o->row->variants;
    double initial = g->o.initial_accumulator_value;
    s->t[s->n = 0] = s->p;
    if (!(s->t[1] = rg_grad_of(s->p)))
        return false;
    if (s->t[1] == RG_NONE)
        return true;
    s->n = 2;
    s->variant = (options[0] && g->v[options[0]] != 0) + 2 * (options[1] && g->v[options[1]] != 0);
    for (int k = 0; k < OPTIM_STATES && o->row->states[k].name; k++) {
        if (o->row->states[k].variant & ~s->variant)
            continue;
        if (!s->state[k]) {
            if (!(s->state[k] = rgi_new_like(s->p, s->p->dtype)))
                return false;
            rgi_fill_number(s->state[k], optim_set(initial) ? initial : 0, 0);
        }
        s->t[s->n++] = s->state[k];
    }
    for (int k = 1; k < s->n; k++)
        RG_FAIL_IF(s->t[k]->dtype != s->p->dtype || !rgi_same_shape(s->t[k], s->p), o->row->name,
                   "a parameter's shape or dtype is not that of its gradient or state");
    return rgi_may_overwrite(s->p, o->row->name);
}

/* 1 - beta^step. From some step on that is 1: beta^step < e^(step (beta - 1)), and e^-38 is below
 * half of its last bit. */
static double optim_correction(double beta, double step) {
    return step * (1 - fabs(beta)) > 38 ? 1 : 1 - pow(beta, step);
}

static optim_numbers optim_count(const rg_optim *o, const optim_slot *s) {
    const rg_param_group *g = &o->groups[s->group].o;
    const double *v = o->groups[s->group].v, keep = v[o->row->keep], drop = v[o->row->drop],
                 weight = v[o->row->weight];
    optim_numbers z = {
        .sign = g->maximize != 0 ? -1 : 1,
        .decay = g->weight_decay,
        .rate = -g->lr,
        .keep = keep,
        .fresh = 1 - drop,
        .weight = weight,
        .rest = 1 - weight,
        .eps = g->eps,
        .shrink = 1,
        .first = s->step == 1,
        .nesterov = g->nesterov != 0,
        .has = s->variant,
    };
    if (o->row->adam) {
        z.rate /= optim_correction(g->betas[0], s->step);
        z.root = optim_correction(g->betas[1], s->step);
        if (z.root != 1)
            z.root = pow(z.root, 0.5);
    }
    if (o->row->decoupled)
        z.shrink = 1 - g->lr * z.decay, z.decay = 0;
    if (optim_set(g->lr_decay))
        z.rate /= 1 + (s->step - 1) * g->lr_decay;
    return z;
}

static bool optim_again(void *context) { return rg_optim_step(*(rg_optim **)context); }
static void optim_drop(void *context) { rg_optim_free(*(rg_optim **)context); }

bool rg_optim_step(rg_optim *o) {
    optim_part u = { .n = 0 };
    const optim_slot *last = NULL;
    if (!rgi_given(o, "step", "an optimizer"))
        return false;
    rg_optim **noted = rgi_noting() ? rgi_note(optim_again, optim_drop, sizeof o) : NULL;
    if (noted)
        *noted = o, o->holders++;
    RG_SCOPE();
    for (optim_slot *s = o->slots; s < o->slots + o->n_slots; s++)
        if (!optim_gather(o, s))
            return false;
    for (optim_slot *s = o->slots; s < o->slots + o->n_slots; s++) {
        if (!s->n)
            continue;
        if (o->row->counts || s->variant)
            s->step++;
        if (!last || last->group != s->group || last->step != s->step)
            u.z = optim_count(o, s);
        u.loop = o->row->loops[s->p->dtype == RG_FLOAT64];
        u.bytes = (int64_t)rgi_sizeof(s->p->dtype);
        u.n = s->n;
        optim_move(s, &u);
        rgi_count_write(s->p, "step");
        last = s;
    }
    return true;
}

/* ---- clipping -------------------------------------------------------------------- */

static bool clip_given(rg_list p, const char *op) {
    bool ok = rgi_given_list(p.n, p.v, op);
    for (int i = 0; i < p.n && ok; i++)
        ok = rgi_check(p.v[i], op);
    return ok;
}

rg_tensor *rg_clip_grad_norm_with_(rg_list p, double max_norm, rg_clip_options o) {
    if (!clip_given(p, "clip_grad_norm_"))
        return NULL;
    RG_AS("clip_grad_norm_");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor **norms = (rg_tensor **)(void *)rgi_own_string((size_t)p.n * sizeof *norms + 1), *g,
              *scale, *total;
    int n = 0;
    if (!norms)
        return NULL;
    for (int i = 0; i < p.n; i++) {
        if (!(g = rg_grad_of(p.v[i])))
            return NULL;
        if (g != RG_NONE && !(norms[n++] = rg_norm_p(g, o.norm_type)))
            return NULL;
    }
    total = n ? rg_norm_p(rg_stack((rg_list){ n, norms }, 0), o.norm_type)
              : rg_scalar_dtype(0, rg_default_dtype());
    RG_FAIL_IF(
        total && o.error_if_nonfinite && !isfinite(rg_item(total)), "clip_grad_norm_",
        "The total norm of "
        "order %s for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this "
        "error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`",
        optim_text(o.norm_type));
    scale = rg_clamp_max(rg_div(max_norm, rg_add(total, 1e-6)), 1.0);
    for (int i = 0; i < p.n && scale; i++)
        if (!(g = rg_grad_of(p.v[i])) || (g != RG_NONE && !rg_mul_(g, scale)))
            return NULL;
    return scale ? rg_escape(total) : NULL;
}

bool rg_clip_grad_value_(rg_list p, double clip_value) {
    if (!clip_given(p, "clip_grad_value_"))
        return false;
    RG_AS("clip_grad_value_");
    RG_SCOPE();
    RG_NO_GRAD();
    for (int i = 0; i < p.n; i++) {
        rg_tensor *g = rg_grad_of(p.v[i]);
        if (!g || (g != RG_NONE && !rg_clamp_(g, -clip_value, clip_value)))
            return false;
    }
    return true;
}

/* ---- schedules: the rate at t from the one before, as torch chains it; or from the first one ---- */

typedef double schedule_rate(const rg_schedule *s, rg_param_group *g, double t);
#define SCHEDULE_RATE(name, expression)                                     \
    static double name(const rg_schedule *s, rg_param_group *g, double t) { \
        return (void)s, (void)g, (void)t, expression;                       \
    }

static double milestones_at(const rg_schedule *s, double t, bool before) {
    double n = 0;
    for (int i = 0; i < s->o.milestones.n; i++)
        n += before ? (double)s->o.milestones.v[i] <= t : (double)s->o.milestones.v[i] == t;
    return n;
}

/* Chained, LinearLR multiplies by 1 + slope / (what it has come to). */
static double linear_next(const rg_schedule *s, rg_param_group *g, double t) {
    double slope = s->o.end_factor - s->o.start_factor, n = (double)s->o.total_iters;
    if (t == 0)
        return g->lr * s->o.start_factor;
    return t > n ? g->lr : g->lr * (1 + slope / (n * s->o.start_factor + (t - 1) * slope));
}

static double cosine_next(const rg_schedule *s, rg_param_group *g, double t) {
    double n = (double)s->o.T_max, low = s->o.eta_min;
    if (t == 0)
        return g->lr;
    if (fmod(t - 1 - n, 2 * n) == 0)
        return g->lr + (g->initial_lr - low) * (1 - cos(M_PI / n)) / 2;
    return (1 + cos(M_PI * t / n)) / (1 + cos(M_PI * (t - 1) / n)) * (g->lr - low) + low;
}

static double one_cycle(const rg_schedule *s, rg_param_group *g, double t) {
    double n = (double)s->o.total_steps, first = s->o.pct_start * n - 1;
    double end[] = { 0, first, s->o.three_phase ? 2 * s->o.pct_start * n - 2 : n - 1, n - 1 };
    double lr[] = { g->initial_lr, g->max_lr, s->o.three_phase ? g->initial_lr : g->min_lr,
                    g->min_lr };
    double momentum[] = { g->max_momentum, g->base_momentum, g->max_momentum, g->max_momentum };
    int i = 0;
    while (t > end[i + 1] && i < 1 + s->o.three_phase)
        i++;
    double part = (t - end[i]) / (end[i + 1] - end[i]), turn = cos(M_PI * part) + 1;
#define ANNEAL(v) \
    (s->o.anneal_linear ? (v[i + 1] - v[i]) * part + v[i] : v[i + 1] + (v[i] - v[i + 1]) / 2 * turn)
    if (s->o.cycle_momentum)
        *(optim_set(g->momentum) ? &g->momentum : g->betas) = ANNEAL(momentum);
    return ANNEAL(lr);
}

SCHEDULE_RATE(step_next, t > 0 && fmod(t, (double)s->o.step_size) == 0 ? g->lr * s->o.gamma : g->lr)
SCHEDULE_RATE(step_closed, g->initial_lr *pow(s->o.gamma, floor(t / (double)s->o.step_size)))
SCHEDULE_RATE(multi_step_next, g->lr *pow(s->o.gamma, milestones_at(s, t, false)))
SCHEDULE_RATE(multi_step_closed, g->initial_lr *pow(s->o.gamma, milestones_at(s, t, true)))
SCHEDULE_RATE(exponential_next, t > 0 ? g->lr * s->o.gamma : g->lr)
SCHEDULE_RATE(exponential_closed, g->initial_lr *pow(s->o.gamma, t))
SCHEDULE_RATE(linear_closed,
              g->initial_lr *(s->o.start_factor
                              + (s->o.end_factor - s->o.start_factor)
                                    * fmin((double)s->o.total_iters, t) / (double)s->o.total_iters))
SCHEDULE_RATE(cosine_closed,
              s->o.eta_min
                  + (g->initial_lr - s->o.eta_min) * (1 + cos(M_PI * t / (double)s->o.T_max)) / 2)
SCHEDULE_RATE(lambda_rate, g->initial_lr * s->o.lr_lambda((int64_t)t, s->o.context))

static const struct {
    const char *name;
    schedule_rate *next, *closed;
} schedule_rows[] = {
    [RG_STEP_LR] = { "StepLR", step_next, step_closed },
    [RG_MULTI_STEP_LR] = { "MultiStepLR", multi_step_next, multi_step_closed },
    [RG_EXPONENTIAL_LR] = { "ExponentialLR", exponential_next, exponential_closed },
    [RG_LINEAR_LR] = { "LinearLR", linear_next, linear_closed },
    [RG_LAMBDA_LR] = { "LambdaLR", lambda_rate, lambda_rate },
    [RG_COSINE_ANNEALING_LR] = { "CosineAnnealingLR", cosine_next, cosine_closed },
    [RG_ONE_CYCLE_LR] = { "OneCycleLR", one_cycle, one_cycle },
    [RG_REDUCE_LR_ON_PLATEAU] = { "ReduceLROnPlateau", NULL, NULL },
    [RG_SEQUENTIAL_LR] = { "SequentialLR", NULL, NULL },
};

static bool schedule_set(rg_schedule *s, double t, schedule_rate *rate) {
    RG_FAIL_VALUE_IF(s->kind == RG_ONE_CYCLE_LR && t > (double)s->o.total_steps, "OneCycleLR",
                     "Tried to step "
                     "%.0f times. The specified number of total steps is %lld",
                     t, (long long)s->o.total_steps);
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        rg_param_group *g = &s->optim->groups[i].o;
        if (!optim_set(g->initial_lr))
            g->initial_lr = g->lr;
        double lr = rate(s, g, t);
        RG_FAIL_VALUE_IF(isnan(lr), schedule_rows[s->kind].name, "float division by zero");
        g->lr = lr;
    }
    s->state[LAST_EPOCH] = t;
    return true;
}

static bool schedule_valid(rg_optim *o, int kind, const rg_schedule_options *q) {
    const rg_param_group *g = &o->defaults.o;
    int n = 0;
    bool fits = true;
    for (; n <= RG_MAX_DIMS && q->schedules[n]; n++)
        fits &= q->schedules[n]->optim == o && schedule_rows[q->schedules[n]->kind].next;
    const struct {
        int kind;
        bool ok;
        const char *complaint;
        double number;
    } rules[] = {
        { kind, q->milestones.n >= 0 && q->milestones.n <= RG_MAX_DIMS,
          "Expected up to 8 milestones, but got ", q->milestones.n },
        { RG_STEP_LR, q->step_size > 0, "Expected positive integer step_size, but got ",
          (double)q->step_size },
        { RG_COSINE_ANNEALING_LR, q->T_max > 0, "Expected positive integer T_max, but got ",
          (double)q->T_max },
        { RG_LAMBDA_LR, q->lr_lambda, "Expected a lr_lambda", 0 },
        { RG_REDUCE_LR_ON_PLATEAU, q->factor < 1, "Factor should be < 1.0.", 0 },
        { RG_LINEAR_LR, q->start_factor > 0 && q->start_factor <= 1,
          "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
          0 },
        { RG_LINEAR_LR, q->end_factor >= 0 && q->end_factor <= 1,
          "Ending multiplicative factor expected to be between 0 and 1.", 0 },
        { RG_ONE_CYCLE_LR, q->total_steps > 0, "Expected positive integer total_steps, but got ",
          (double)q->total_steps },
        { RG_ONE_CYCLE_LR, q->pct_start >= 0 && q->pct_start <= 1,
          "Expected float between 0 and 1 pct_start, but got ", q->pct_start },
        { RG_ONE_CYCLE_LR, !q->cycle_momentum || optim_set(g->momentum) || optim_set(*g->betas),
          "optimizer must support momentum or beta1 with `cycle_momentum` option enabled", 0 },
        { RG_SEQUENTIAL_LR, n - 1 == q->milestones.n,
          "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
          "milestone points, but got number of schedulers ",
          n },
        { kind, fits,
          "expects schedules of the same optimizer, neither ReduceLROnPlateau nor SequentialLR",
          0 },
    };
    RG_C_NUMBERS();
    for (int i = 0; i < RG_COUNT(rules); i++) {
        char number[32] = "";
        if (rules[i].kind != kind || rules[i].ok)
            continue;
        if (rules[i].complaint[strlen(rules[i].complaint) - 1] == ' ')
            snprintf(number, sizeof number, "%g", rules[i].number);
        return rgi_fail(RG_VALUE_ERROR, schedule_rows[kind].name, "%s%s", rules[i].complaint,
                        number);
    }
    return true;
}

rg_schedule *rg_optim_schedule(rg_optim *o, rg_schedule_kind kind, rg_schedule_options q) {
    RG_SCOPE();
    RG_FAIL_VALUE_IF((unsigned)kind >= RG_COUNT(schedule_rows), "schedule",
                     "there is no schedule %d", kind);
    RG_AS(schedule_rows[kind].name);
    if (!rgi_given(o, "schedule", "an optimizer") || !schedule_valid(o, kind, &q))
        return NULL;
    rg_schedule *s = rgi_alloc(sizeof *s, RG_MEM_OTHER), **end = &o->schedules;
    if (!s)
        return NULL;
    *s = (rg_schedule){
        .optim = o, .kind = kind, .o = q, .state[BEST] = q.mode_max ? -INFINITY : INFINITY
    };
    for (size_t i = 0; i < o->n_groups; i++) {
        rg_param_group *g = &o->groups[i].o;
        if (kind == RG_SEQUENTIAL_LR)
            g->lr = g->initial_lr;
        if (kind != RG_ONE_CYCLE_LR)
            continue;
        g->initial_lr = q.max_lr / q.div_factor;
        g->max_lr = q.max_lr;
        g->min_lr = g->initial_lr / q.final_div_factor;
        if (q.cycle_momentum)
            g->max_momentum = q.max_momentum, g->base_momentum = q.base_momentum;
    }
    for (int i = 0; kind == RG_SEQUENTIAL_LR && i <= q.milestones.n; i++)
        q.schedules[i]->state[LAST_EPOCH] = -1;
    rg_schedule *first = kind == RG_SEQUENTIAL_LR ? q.schedules[(int)milestones_at(s, 0, true)] : s;
    if (schedule_rows[first->kind].next
        && !schedule_set(first, 0, schedule_rows[first->kind].next)) {
        rgi_free(s, sizeof *s, RG_MEM_OTHER);
        return NULL;
    }
    while (*end)
        end = &(*end)->next;
    return *end = s;
}

rg_schedule *rg_optim_warmup_cosine_lr(rg_optim *o, int64_t warmup, int64_t total,
                                       double start_factor, double eta_min) {
    RG_AS("warmup_cosine_lr");
    RG_FAIL_VALUE_IF(warmup < 0 || warmup >= total, "warmup_cosine_lr",
                     "expected fewer steps of warmup than in "
                     "total, but got %lld of %lld",
                     (long long)warmup, (long long)total);
    rg_schedule *up = rg_optim_linear_lr(o, .start_factor = start_factor, .total_iters = warmup);
    rg_schedule *down =
        up ? rg_optim_cosine_annealing_lr(o, .T_max = total - warmup, .eta_min = eta_min) : NULL;
    return down
               ? rg_optim_sequential_lr(o, .schedules = { up, down }, .milestones = RG_DIMS(warmup))
               : NULL;
}

bool rg_schedule_step(rg_schedule *s) {
    if (!rgi_not_again("schedule_step") || !rgi_given(s, "schedule_step", "a schedule"))
        return false;
    double t = s->state[LAST_EPOCH] + 1;
    if (schedule_rows[s->kind].next)
        return schedule_set(s, t, schedule_rows[s->kind].next);
    RG_FAIL_AS_IF(RG_TYPE_ERROR, s->kind == RG_REDUCE_LR_ON_PLATEAU, "ReduceLROnPlateau",
                  "step() missing 1 required positional argument: 'metrics'");
    rg_schedule *now = s->o.schedules[(int)milestones_at(s, t, true)];
    s->state[LAST_EPOCH] = t;
    return milestones_at(s, t, false) ? schedule_set(now, 0, schedule_rows[now->kind].closed)
                                      : rg_schedule_step(now);
}

bool rg_schedule_step_to(rg_schedule *s, int64_t epoch) {
    if (!rgi_not_again("schedule_step_to") || !rgi_given(s, "schedule_step_to", "a schedule"))
        return false;
    schedule_rate *rate = schedule_rows[s->kind].closed;
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, !rate, schedule_rows[s->kind].name, "has no closed form");
    return schedule_set(s, (double)epoch, rate);
}

bool rg_schedule_step_metric(rg_schedule *s, double metric) {
    if (!rgi_not_again("schedule_step_metric")
        || !rgi_given(s, "schedule_step_metric", "a schedule"))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, s->kind != RG_REDUCE_LR_ON_PLATEAU, schedule_rows[s->kind].name,
                  "step() takes no metric");
    double sign = s->o.mode_max ? -1 : 1, best = s->state[BEST];
    double bar = s->o.threshold_abs ? best - sign * s->o.threshold
                                    : best * (1 - sign * s->o.threshold);
    bool better = s->o.mode_max ? metric > bar : metric < bar;
    s->state[LAST_EPOCH]++;
    if (better)
        s->state[BEST] = metric;
    s->state[BAD_EPOCHS] = better ? 0 : s->state[BAD_EPOCHS] + 1;
    if (s->state[COOLDOWN] > 0)
        s->state[COOLDOWN]--, s->state[BAD_EPOCHS] = 0;
    if (s->state[BAD_EPOCHS] <= (double)s->o.patience)
        return true;
    s->state[COOLDOWN] = (double)s->o.cooldown;
    s->state[BAD_EPOCHS] = 0;
    for (size_t i = 0; i < s->optim->n_groups; i++) {
        double *lr = &s->optim->groups[i].o.lr, low = fmax(*lr * s->o.factor, s->o.min_lr);
        if (*lr - low > s->o.eps)
            *lr = low;
    }
    return true;
}

/* ---- state ----------------------------------------------------------------------- */

typedef struct optim_entry {
    char name[56];
    double *number; /* or */
    rg_tensor **tensor, *found;
    optim_slot *slot; /* whose step or state it is, */
    bool optional;    /* which only some variants have */
} optim_entry;

/* All that there may be; the scope owns the list. */
static int optim_entries(rg_optim *o, optim_entry **list) {
    static const char *const names[SCHEDULE_STATES] = { "last_epoch", "best", "num_bad_epochs",
                                                        "cooldown_counter" };
    size_t most = o->n_slots * (OPTIM_STATES + 1) + o->n_groups * (OPTIM_OPTIONS + 1), at = 0;
    for (rg_schedule *s = o->schedules; s; s = s->next)
        most += SCHEDULE_STATES;
    optim_entry *e = *list = (optim_entry *)rgi_own_string(most * sizeof *e);
    if (!e)
        return -1;
#define OPTIM_ENTRY(field, place, of, maybe, ...)                            \
    (e[at] = (optim_entry){ .field = place, .slot = of, .optional = maybe }, \
     snprintf(e[at++].name, sizeof e->name, __VA_ARGS__))
    for (optim_slot *s = o->slots; s < o->slots + o->n_slots; s++) {
        if (o->row->counts)
            OPTIM_ENTRY(number, &s->step, s, false, "state.%zd.step", s - o->slots);
        for (int k = 0; k < OPTIM_STATES && o->row->states[k].name; k++)
            OPTIM_ENTRY(tensor, &s->state[k], s, o->row->states[k].variant, "state.%zd.%s",
                        s - o->slots, o->row->states[k].name);
    }
    for (size_t i = 0; i < o->n_groups; i++) {
        OPTIM_ENTRY(number, &o->groups[i].n, NULL, false, "param_groups.%zu.params", i);
        for (int k = 0; k < OPTIM_OPTIONS; k++)
            if (k >= OPTIM_initial_lr || optim_set(o->groups[i].v[k]))
                OPTIM_ENTRY(number, &o->groups[i].v[k], NULL, false, "param_groups.%zu.%s", i,
                            optim_options[k]);
    }
    int n = 0;
    for (rg_schedule *s = o->schedules; s; s = s->next, n++)
        for (int k = 0; k < SCHEDULE_STATES; k++)
            OPTIM_ENTRY(number, &s->state[k], NULL, false, "schedules.%d.%s", n, names[k]);
    return (int)at;
}

static bool optim_has(const optim_entry *e) {
    return e->tensor ? *e->tensor != NULL : optim_set(*e->number) && !(e->slot && !*e->slot->state);
}

rg_named_list rg_optim_state_dict(rg_optim *o) {
    optim_entry *e;
    int n = rgi_given(o, "state_dict", "an optimizer") ? optim_entries(o, &e) : -1, kept = 0;
    rg_named *v = n < 0 ? NULL : (rg_named *)rgi_own_string((size_t)n * sizeof *v);
    for (int i = 0; i < n && v; i++) {
        if (!optim_has(&e[i]))
            continue;
        rg_tensor *t = e[i].tensor ? rgi_lend(*e[i].tensor)
                                   : rg_scalar_dtype(*e[i].number,
                                                     e[i].slot ? rg_default_dtype() : RG_FLOAT64);
        if (!t)
            v = NULL;
        else
            v[kept++] = (rg_named){ e[i].name, t };
    }
    return (rg_named_list){ v ? kept : -1, v };
}

/* Everything is read and copied before anything changes. */
bool rg_optim_load_state_dict(rg_optim *o, rg_named_list dict) {
    RG_SCOPE();
    const char *op = "load_state_dict";
    optim_entry *list, *e;
    bool given = rgi_given(o, op, "an optimizer") && rgi_given_list(dict.n, dict.v, op);
    int n = given ? optim_entries(o, &list) : -1, groups = 0;
    if (n < 0)
        return false;
    for (int i = 0; i < dict.n; i++)
        groups += dict.v[i].name && strstr(dict.v[i].name, ".params");
    RG_FAIL_VALUE_IF(groups != (int)o->n_groups, op,
                     "loaded state dict has a different number of parameter groups");
    /* of states that are read */
    for (size_t k = 0; k < o->n_slots; k++)
        o->slots[k].n = 0;
    for (const rg_named *d = dict.v; d < dict.v + dict.n; d++) {
        if (!rgi_given(d->name, op, "a name") || !rgi_check(d->tensor, op))
            return false;
        for (e = list; e < list + n && strcmp(e->name, d->name); e++) {}
        RG_FAIL_IF(e == list + n, op, "Unexpected key(s) in state_dict: \"%s\".", d->name);
        RG_FAIL_IF(e->tensor ? !rgi_same_shape(d->tensor, e->slot->p) : d->tensor->numel != 1, op,
                   "size mismatch for %s: its shape is %s", d->name, RG_SHAPE_TEXT(d->tensor));
        RG_FAIL_VALUE_IF(
            strstr(d->name, ".params") && rg_item(d->tensor) != *e->number, op,
            "loaded state dict "
            "contains a parameter group that doesn't match the size of optimizer's group");
        if (!(e->found = e->tensor ? rgi_own(rgi_new_like(e->slot->p, e->slot->p->dtype))
                                   : d->tensor))
            return false;
        if (e->tensor)
            rgi_copy_elements(e->found, d->tensor);
        if (e->slot)
            e->slot->n++;
    }
    for (e = list; e < list + n; e++)
        RG_FAIL_IF(!e->found && (e->slot ? e->slot->n && !e->optional : optim_has(e)), op,
                   "Missing key(s) in state_dict: \"%s\".", e->name);
    for (e = list; e < list + n; e++) {
        if (e->tensor) {
            rgi_release(*e->tensor);
            if ((*e->tensor = e->found))
                rgi_retain(e->found);
            if (!o->row->counts)
                e->slot->step = e->found != NULL;
        } else if (e->found || e->slot)
            *e->number = e->found ? rg_item(e->found) : 0;
    }
    return true;
}
