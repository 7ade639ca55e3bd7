/*
 * optimizer.c: optimizers. One is a row: its options with their defaults, the tensors
 * that it keeps for each parameter, the numbers of a step, and an update that passes
 * once over parameter, gradient and state. float32 rounds where torch does.
 */
#include "internal.h"

#include <stdio.h>
#include <tgmath.h>

enum { OPTIM_STATES = 3 };

typedef struct optim_numbers {
    double sign, decay, rate, keep, fresh, weight, eps, root, shrink;  /* decay: of weights, into the gradient; rate: signed */
    bool   first, nesterov;
} optim_numbers;

typedef void optim_loop(char *const v[], int64_t n, const optim_numbers *z);

typedef struct optim_kind {
    const char *name;
    int         n_options;
    struct { int option; double value; } options[9];    /* in the order in which torch complains of them */
    struct { const char *name; int variant; } states[OPTIM_STATES];
    bool        counts;                 /* steps, in its state_dict */
    int         variants[2];            /* options that need the states of variant 1, and 2 */
    void      (*numbers)(const rg_param_group *g, double step, optim_numbers *z);
    optim_loop *loops[2][4];            /* of float32 and float64; by variant */
} optim_kind;

typedef struct optim_slot {
    rg_tensor *p, *state[OPTIM_STATES];
    rg_tensor *grad;                    /* of the step that is being made */
    double     step;
    int        group;
} optim_slot;

typedef struct optim_group { rg_param_group o; double n; } optim_group;

struct rg_optim {
    const optim_kind *kind;
    rg_param_group    defaults;
    optim_group      *groups;
    optim_slot       *slots;
    size_t            n_groups, groups_room, n_slots, slots_room;
    rg_schedule      *schedules;
};

static const char *const optim_options[OPTIM_OPTIONS] = {
    "lr", "betas.0", "betas.1", "momentum", "dampening", "alpha", "lr_decay", "initial_accumulator_value", "eps", "weight_decay",
    "nesterov", "amsgrad", "centered", "maximize", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum",
};
static const char *const optim_invalid[OPTIM_OPTIONS] = {
    [LR] = "learning rate", [BETA1] = "beta parameter at index 0", [BETA2] = "beta parameter at index 1",
    [MOMENTUM] = "momentum value", [ALPHA] = "alpha value", [LR_DECAY] = "lr_decay value", [EPS] = "epsilon value",
    [INITIAL_SUM] = "initial_accumulator_value value", [WEIGHT_DECAY] = "weight_decay value",
};

/* ---- updates: d, the gradient with weights decaying into it, moves p ---------------------------------- */

#define OPTIM_LOOP(name, T, has_, ...)                                                                     \
    RG_WIDE(name##_##T##_##has_, (char *const v[], int64_t n, const optim_numbers *z), (v, n, z)) {      \
        typedef T real;                                                                                     \
        enum { has = has_ };                                                                                \
        real *restrict p = (real *)v[0], *restrict a = (real *)v[2], *restrict b = (real *)v[3];            \
        real *restrict c = (real *)v[4];                                                                    \
        const real *restrict g = (real *)v[1];                                                              \
        const real sign = (real)z->sign, decay = (real)z->decay, rate = (real)z->rate, keep = (real)z->keep, \
            fresh = (real)z->fresh, weight = (real)z->weight, eps = (real)z->eps, root = (real)z->root,     \
            shrink = (real)z->shrink;                                                                       \
        (void)a, (void)b, (void)c, (void)keep, (void)fresh, (void)weight, (void)eps, (void)root, (void)shrink; \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            real d = sign * g[i];                                                                           \
            __VA_ARGS__                                                                                     \
        }                                                                                                   \
    }
#define OPTIM_UPDATE(name, has, ...) OPTIM_LOOP(name, float, has, __VA_ARGS__) OPTIM_LOOP(name, double, has, __VA_ARGS__)
#define OPTIM_LERP(m, d, w) (fabs(w) < (real)0.5 ? fma(w, d - m, m) : fma(w - 1, d - m, d))    /* torch's */
#define DECAYED d = decay != 0 ? fma(decay, p[i], d) : d

/* ---- SGD: a = keep a + fresh d ------------------------------------------------------------------------ */
OPTIM_UPDATE(sgd, 0, DECAYED; p[i] = fma(rate, d, p[i]);)
OPTIM_UPDATE(sgd, 1, {
    DECAYED;
    a[i] = z->first ? d : fma(fresh, d, a[i] * keep);
    p[i] = fma(rate, z->nesterov ? fma(keep, a[i], d) : a[i], p[i]);
})

static void sgd_numbers(const rg_param_group *g, double step, optim_numbers *z) {
    z->first = step == 1;
    z->keep = g->momentum;
    z->fresh = 1 - g->dampening;
}

/* ---- Adam, AdamW: a = mean of d, b = mean of d^2, c = the greatest b; p -= a / sqrt(b) ---------------------- */
#define ADAM(has) OPTIM_UPDATE(adam, has, {                                     \
    DECAYED;                                                                    \
    a[i] = OPTIM_LERP(a[i], d, weight);                                         \
    b[i] = fma(fresh * d, d, b[i] * keep);                                      \
    if (has) c[i] = b[i] > c[i] || b[i] != b[i] ? b[i] : c[i];                  \
    p[i] = p[i] * shrink + rate * a[i] / (sqrt(has ? c[i] : b[i]) / root + eps); \
})
ADAM(0)
ADAM(1)

static void adam_numbers(const rg_param_group *g, double step, optim_numbers *z) {
    z->weight = 1 - g->betas[0];
    z->keep = g->betas[1];
    z->fresh = 1 - g->betas[1];
    z->root = pow(1 - pow(g->betas[1], step), 0.5);
    z->rate /= 1 - pow(g->betas[0], step);
}

static void adamw_numbers(const rg_param_group *g, double step, optim_numbers *z) {
    adam_numbers(g, step, z);
    z->shrink = 1 - g->lr * g->weight_decay;
    z->decay = 0;
}

/* ---- RMSprop: a = mean of d^2; with momentum b = momentum b + d / sqrt(a); centered: the last is the mean of d ---- */
#define RMSPROP(has) OPTIM_UPDATE(rmsprop, has, {                                       \
    real *restrict mean = has & 1 ? c : b, square;                                      \
    DECAYED;                                                                            \
    square = a[i] = fma(fresh * d, d, a[i] * keep);                                     \
    if (has & 2) mean[i] = OPTIM_LERP(mean[i], d, fresh), square = fma(-mean[i], mean[i], square); \
    if (has & 1) b[i] = b[i] * weight + d / (sqrt(square) + eps), p[i] = fma(rate, b[i], p[i]);    \
    else p[i] += rate * d / (sqrt(square) + eps);                                       \
})
RMSPROP(0) RMSPROP(1) RMSPROP(2) RMSPROP(3)

static void rmsprop_numbers(const rg_param_group *g, double step, optim_numbers *z) {
    (void)step;
    z->weight = g->momentum;
    z->keep = g->alpha;
    z->fresh = 1 - g->alpha;
}

/* ---- Adagrad: a = sum of d^2; p -= d / sqrt(a) ------------------------------------------------------------------- */
OPTIM_UPDATE(adagrad, 0, {
    DECAYED;
    a[i] = fma(d, d, a[i]);
    p[i] += rate * d / (sqrt(a[i]) + eps);
})

static void adagrad_numbers(const rg_param_group *g, double step, optim_numbers *z) { z->rate /= 1 + (step - 1) * g->lr_decay; }

/* ---- Lion: a = mean of d; p -= sign of a nearer d, and decay p ------------------------------------------------------- */
OPTIM_UPDATE(lion, 0, {
    real u = weight * a[i] + (1 - weight) * d;
    a[i] = keep * a[i] + fresh * d;
    p[i] += rate * ((u > 0 ? 1 : u < 0 ? -1 : u) + decay * p[i]);
})

static void lion_numbers(const rg_param_group *g, double step, optim_numbers *z) {
    (void)step;
    z->weight = g->betas[0];
    z->keep = g->betas[1];
    z->fresh = 1 - g->betas[1];
}

/* ---- the rows ------------------------------------------------------------------------------------------- */
#define OPTIM_LOOPS(f, has) [0][has] = f##_float_##has, [1][has] = f##_double_##has
#define OPTIM_OPTION_LIST(...) \
    .n_options = RG_COUNT(((const double[][2]){ __VA_ARGS__ })), .options = { __VA_ARGS__ }
#define OPTIM_ADAM(decay) \
    OPTIM_OPTION_LIST({ LR, 1e-3 }, { EPS, 1e-8 }, { BETA1, 0.9 }, { BETA2, 0.999 }, { WEIGHT_DECAY, decay }, { AMSGRAD, 0 }, { MAXIMIZE, 0 }), \
    .states = { { "exp_avg", 0 }, { "exp_avg_sq", 0 }, { "max_exp_avg_sq", 1 } }, .counts = true, .variants = { AMSGRAD },  \
    .loops = { OPTIM_LOOPS(adam, 0), OPTIM_LOOPS(adam, 1) }

static const optim_kind
    optim_sgd = { .name = "SGD", .states = { { "momentum_buffer", 1 } }, .variants = { MOMENTUM }, .numbers = sgd_numbers,
        OPTIM_OPTION_LIST({ LR, 1e-3 }, { MOMENTUM, 0 }, { DAMPENING, 0 }, { WEIGHT_DECAY, 0 }, { NESTEROV, 0 }, { MAXIMIZE, 0 }),
        .loops = { OPTIM_LOOPS(sgd, 0), OPTIM_LOOPS(sgd, 1) } },
    optim_adam = { .name = "Adam", .numbers = adam_numbers, OPTIM_ADAM(0) },
    optim_adamw = { .name = "AdamW", .numbers = adamw_numbers, OPTIM_ADAM(0.01) },
    optim_rmsprop = { .name = "RMSprop", .numbers = rmsprop_numbers, .counts = true, .variants = { MOMENTUM, CENTERED },
        OPTIM_OPTION_LIST({ LR, 0.01 }, { EPS, 1e-8 }, { MOMENTUM, 0 }, { WEIGHT_DECAY, 0 }, { ALPHA, 0.99 }, { CENTERED, 0 }, { MAXIMIZE, 0 }),
        .states = { { "square_avg", 0 }, { "momentum_buffer", 1 }, { "grad_avg", 2 } },
        .loops = { OPTIM_LOOPS(rmsprop, 0), OPTIM_LOOPS(rmsprop, 1), OPTIM_LOOPS(rmsprop, 2), OPTIM_LOOPS(rmsprop, 3) } },
    optim_adagrad = { .name = "Adagrad", .numbers = adagrad_numbers, .counts = true, .states = { { "sum", 0 } },
        OPTIM_OPTION_LIST({ LR, 0.01 }, { LR_DECAY, 0 }, { WEIGHT_DECAY, 0 }, { INITIAL_SUM, 0 }, { EPS, 1e-10 }, { MAXIMIZE, 0 }),
        .loops = { OPTIM_LOOPS(adagrad, 0) } },
    optim_lion = { .name = "Lion", .numbers = lion_numbers, .states = { { "exp_avg", 0 } }, .loops = { OPTIM_LOOPS(lion, 0) },
        OPTIM_OPTION_LIST({ LR, 1e-4 }, { BETA1, 0.9 }, { BETA2, 0.99 }, { WEIGHT_DECAY, 0 }, { MAXIMIZE, 0 }) };

/* ---- making ------------------------------------------------------------------------------------------------- */

static bool optim_add(rg_optim *o, rg_params list, rg_param_group options) {
    double *v = (double *)&options;
    const char *name = o->kind->name;
    for (int i = 0; i < LR + INITIAL_LR; i++) {
        double inherited = ((double *)&o->defaults)[i];
        if (rg_is_set(v[i]) && !rg_is_set(inherited))
            return rg_fail(RG_TYPE_ERROR, name, "got an unexpected keyword argument '%s'", optim_options[i]);
        if (!rg_is_set(v[i])) v[i] = inherited;
    }
    if (list.n < 0) return rg_check(NULL, name);
    size_t n = o->n_slots + (size_t)list.n;
    if (!rg_grow((void **)&o->groups, &o->groups_room, o->n_groups + 1, sizeof *o->groups)
        || !rg_grow((void **)&o->slots, &o->slots_room, n, sizeof *o->slots)) return false;
    for (size_t i = o->n_slots; i < n; i++) {
        rg_tensor *p = list.first[(i - o->n_slots) * list.stride];
        if (!rg_check(p, name)) return false;
        if (!rg_is_leaf(p) && !(p->flags & RG_RETAINS_GRAD)) return rg_fail(RG_VALUE_ERROR, name, "can't optimize a non-leaf Tensor");
        o->slots[i] = (optim_slot){ .p = p, .group = (int)o->n_groups };
        for (size_t j = 0; j < i; j++)
            if (o->slots[j].p == p)
                return rg_fail(RG_VALUE_ERROR, name, j < o->n_slots ? "some parameters appear in more than one parameter group"
                               : "optimizer contains a parameter group with duplicate parameters");
    }
    for (size_t i = o->n_slots; i < n; i++) rg_retain(o->slots[i].p);
    o->groups[o->n_groups++] = (optim_group){ options, list.n };
    o->n_slots = n;
    return true;
}

static rg_optim *optim_new(const optim_kind *kind, rg_params list, rg_param_group options) {
    rg_optim *o = rg_alloc(sizeof *o, RG_MEM_OTHER);
    if (!o) return NULL;
    *o = (rg_optim){ .kind = kind, .defaults = RG_PARAM_GROUP_() };
    double *v = (double *)&options, *defaults = (double *)&o->defaults;
    for (int i = 0; i < kind->n_options; i++) defaults[kind->options[i].option] = kind->options[i].value;
    bool ok = (list.n || rg_fail(RG_VALUE_ERROR, kind->name, "optimizer got an empty parameter list")) && optim_add(o, list, options);
    for (int i = 0; i < kind->n_options && ok; i++) {
        int k = kind->options[i].option;
        double x = v[k] = ((double *)&o->groups->o)[k];
        bool bad = kind == &optim_sgd ? x < 0 : !(x >= 0) || ((k == BETA1 || k == BETA2) && x >= 1);
        if (k == NESTEROV && x && (options.momentum <= 0 || options.dampening != 0))
            ok = rg_fail(RG_VALUE_ERROR, kind->name, "Nesterov momentum requires a momentum and zero dampening");
        if (bad && optim_invalid[k]) {
            RG_SCOPE();
            const char *text = rg_str(rg_scalar_dtype(x, RG_FLOAT64));
            ok = text && rg_fail(RG_VALUE_ERROR, kind->name, "Invalid %s: %s", optim_invalid[k], text);
        }
    }
    if (ok) {
        o->defaults = options;
        return o;
    }
    rg_optim_free(o);
    return NULL;
}

void rg_optim_free(rg_optim *o) {
    if (!o) return;
    for (size_t i = 0; i < o->n_slots; i++) {
        rg_release(o->slots[i].p);
        for (int k = 0; k < OPTIM_STATES; k++) rg_release(o->slots[i].state[k]);
    }
    rg_free(o->slots, o->slots_room * sizeof *o->slots, RG_MEM_OTHER);
    rg_free(o->groups, o->groups_room * sizeof *o->groups, RG_MEM_OTHER);
    rg_free(o, sizeof *o, RG_MEM_OTHER);
}

bool rg_optim_add_group_with(rg_optim *o, rg_params p, rg_param_group options) { return o && optim_add(o, p, options); }
int rg_optim_n_groups(rg_optim *o) { return o ? (int)o->n_groups : -1; }
rg_param_group *rg_optim_group(rg_optim *o, int i) { return o && i >= 0 && (size_t)i < o->n_groups ? &o->groups[i].o : NULL; }
#define OPTIM(name) rg_optim *rg_optim_##name##_with(rg_params p, rg_param_group o) { return optim_new(&optim_##name, p, o); }
OPTIM(sgd) OPTIM(adam) OPTIM(adamw) OPTIM(rmsprop) OPTIM(adagrad) OPTIM(lion)

/* ---- a step: what can fail comes first ------------------------------------------------------------------------- */

typedef struct optim_part { optim_loop *loop; int n; int64_t bytes; optim_numbers z; } optim_part;

static void optim_run(char *const p[], const int64_t step[], int64_t n, const void *context) {
    const optim_part *u = context;
    bool dense = true;
    for (int k = 0; k < u->n; k++) dense &= step[k] == u->bytes;
    if (RG_LIKELY(dense)) {
        u->loop(p, n, &u->z);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *at[RG_MAX_OPERANDS];
        for (int k = 0; k < u->n; k++) at[k] = p[k] + i * step[k];
        u->loop(at, 1, &u->z);
    }
}

static int optim_variant(const rg_optim *o, const optim_slot *s) {
    const double *v = (double *)&o->groups[s->group];
    const int *options = o->kind->variants;
    return (options[0] && v[options[0]] != 0) + 2 * (options[1] && v[options[1]] != 0);
}

static bool optim_fits(const rg_tensor *t, const rg_tensor *p) { return t->dtype == p->dtype && rg_same_shape(t, p); }

/* Does the state stand ready? */
static bool optim_prepare(rg_optim *o, optim_slot *s) {
    const double initial = o->groups[s->group].o.initial_accumulator_value;
    int variant = optim_variant(o, s);
    bool fits = optim_fits(s->grad, s->p);
    if (!(s->p->flags & RG_CONTIGUOUS) && rg_overlaps_itself(s->p))
        return rg_fail(RG_RUNTIME_ERROR, o->kind->name, "unsupported operation: more than one element of the written-to tensor "
                       "refers to a single memory location. Please clone() the tensor before performing the operation.");
    for (int k = 0; k < OPTIM_STATES && o->kind->states[k].name; k++) {
        if (o->kind->states[k].variant & ~variant) continue;
        if (!s->state[k]) {
            if (!(s->state[k] = rg_new_like(s->p, s->p->dtype))) return false;
            rg_fill_number(s->state[k], rg_is_set(initial) ? initial : 0, 0);
        }
        fits &= optim_fits(s->state[k], s->p);
    }
    return fits || rg_fail(RG_RUNTIME_ERROR, o->kind->name, "a parameter has changed its shape or dtype since its gradient or state was made");
}

bool rg_optim_step(rg_optim *o) {
    optim_part u = { .n = 0 };
    const optim_slot *last = NULL;
    if (!o) return false;
    RG_SCOPE();
    for (optim_slot *s = o->slots; s < o->slots + o->n_slots; s++)
        if (!(s->grad = rg_grad_of(s->p)) || (s->grad != RG_NONE && !optim_prepare(o, s))) return false;
    for (optim_slot *s = o->slots; s < o->slots + o->n_slots; s++) {
        const rg_param_group *g = &o->groups[s->group].o;
        rg_tensor *t[RG_MAX_OPERANDS] = { s->p, s->grad };
        if (s->grad == RG_NONE) continue;
        int variant = optim_variant(o, s);
        if (o->kind->counts || variant) s->step++;
        if (!last || last->group != s->group || last->step != s->step) {
            u.z = (optim_numbers){ .sign = g->maximize ? -1 : 1, .decay = g->weight_decay, .rate = -g->lr, .eps = g->eps, .shrink = 1,
                                   .nesterov = g->nesterov != 0 };
            o->kind->numbers(g, s->step, &u.z);
        }
        u.loop = o->kind->loops[s->p->dtype == RG_FLOAT64][variant];
        u.bytes = (int64_t)rg_sizeof(s->p->dtype);
        u.n = 2;
        for (int k = 0; k < OPTIM_STATES && o->kind->states[k].name; k++)
            if (!(o->kind->states[k].variant & ~variant)) t[u.n++] = s->state[k];
        rg_each(u.n, t, optim_run, &u);
        rg_wrote(s->p, "step");
        last = s;
    }
    return true;
}

bool rg_optim_zero_grad(rg_optim *o) {
    for (size_t i = 0; o && i < o->n_slots; i++)
        if (!rg_set_grad(o->slots[i].p, RG_NONE)) return false;
    return o;
}

/* ---- clipping ----------------------------------------------------------------------------------------------------- */

/* The gradient of the list's i-th parameter; RG_NONE; NULL: failed. */
static rg_tensor *clip_grad(rg_params p, int i) { return rg_grad_of(p.first[(size_t)i * p.stride]); }

rg_tensor *rg_clip_grad_norm_with_(rg_params p, double max_norm, rg_clip_options o) {
    RG_SCOPE();
    RG_NO_GRAD();
    if (p.n < 0) return NULL;
    rg_tensor *norms = rg_zeros_dims(RG_DIMS(p.n), RG_FLOAT64), *total, *scale, *g;
    rg_dtype dtype = RG_FLOAT32;
    int n = 0;
    for (int i = 0; i < p.n; i++) {
        RG_SCOPE();
        if (!(g = clip_grad(p, i)) || !norms) return NULL;
        if (g == RG_NONE) continue;
        dtype = RG_MAX(dtype, g->dtype);
        ((double *)norms->data)[n++] = rg_item(rg_norm_p(g, o.norm_type));
    }
    total = n ? rg_norm_p(rg_to(rg_narrow(norms, 0, 0, n), dtype), o.norm_type) : rg_zeros_dims(RG_DIMS(), rg_default_dtype());
    if (!total) return NULL;
    if (o.error_if_nonfinite && !isfinite(rg_item(total)))
        return rg_fail(RG_RUNTIME_ERROR, "clip_grad_norm_", "The total norm of order %s for gradients from `parameters` is non-finite, "
                       "so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                       "`error_if_nonfinite=False`", rg_str(rg_scalar_dtype(o.norm_type, RG_FLOAT64)));
    scale = rg_clamp_max(rg_div(max_norm, rg_add(total, 1e-6)), 1.0);
    for (int i = 0; i < p.n; i++) {
        RG_SCOPE();
        if (!(g = clip_grad(p, i)) || (g != RG_NONE && !rg_mul_(g, scale))) return NULL;
    }
    return rg_escape(total);
}

bool rg_clip_grads_(rg_params p, double clip_value) {
    RG_NO_GRAD();
    for (int i = 0; i < p.n; i++) {
        RG_SCOPE();
        rg_tensor *g = clip_grad(p, i);
        if (!g || (g != RG_NONE && !rg_clamp_(g, -clip_value, clip_value))) return false;
    }
    return p.n >= 0;
}
