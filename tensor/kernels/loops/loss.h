/*
 * loops/loss.h: elementwise losses of a prediction x and a target t, and the derivatives of the
 * losses by x, multiplied by the incoming gradient.
 */
#define ELEMENT K_NAME(loss_element)
#define LOSS    K_NAME(loss_value)

typedef struct {
    T x, t;
    T d, a; /* d = x - t, a = |d| */
    T by;   /* The pos_weight of a loss, which only BCE with logits uses. For a derivative: the
             * incoming gradient, times k_loss's argument `scale`. */
    T c;    /* beta of smooth L1, delta of Huber, or the least denominator of BCE's derivative. */
} ELEMENT;

typedef T LOSS(const ELEMENT *e);

K_INLINE T K_NAME(loss_at_least)(T v, T least) { return v < least ? least : v; }

K_INLINE T K_NAME(loss_at_most)(T v, T most) { return v > most ? most : v; }

/* Returns v, clamped to [-most, most]. NaN stays NaN. Requires most >= 0. */
K_INLINE T K_NAME(loss_within)(T v, T most) {
    return K_NAME(loss_at_least)(K_NAME(loss_at_most)(v, most), -most);
}

/* ---- the losses and their slopes ------------------------------------------------------------- */

K_INLINE T K_NAME(loss_mse)(const ELEMENT *e) { return e->d * e->d; }

K_INLINE T K_NAME(slope_mse)(const ELEMENT *e) { return e->by * (2 * e->d); }

K_INLINE T K_NAME(loss_smooth_l1)(const ELEMENT *e) {
    return e->a < e->c ? e->d * e->d / e->c / 2 : e->a - e->c / 2;
}

K_INLINE T K_NAME(slope_smooth_l1)(const ELEMENT *e) {
    return e->by * (K_NAME(loss_within)(e->d, e->c) / e->c);
}

K_INLINE T K_NAME(loss_huber)(const ELEMENT *e) {
    return e->a <= e->c ? e->d * e->d / 2 : e->c * (e->a - e->c / 2);
}

K_INLINE T K_NAME(slope_huber)(const ELEMENT *e) { return e->by * K_NAME(loss_within)(e->d, e->c); }

/* Returns -(t * ln x + (1 - t) * ln(1 - x)), where a logarithm below -100 is replaced by -100, as
 * in torch. */
K_INLINE T K_NAME(loss_bce)(const ELEMENT *e) {
    return (e->t - 1) * K_NAME(loss_at_least)(K_TYPED(k_log1p)(-e->x), -100)
           - e->t * K_NAME(loss_at_least)(K_TYPED(k_log)(e->x), -100);
}

K_INLINE T K_NAME(slope_bce)(const ELEMENT *e) {
    return e->by * (e->d / K_NAME(loss_at_least)((1 - e->x) * e->x, e->c));
}

/* Returns the BCE loss of sigmoid(x): (1 - t) * x + ((by - 1) * t + 1) * ln(1 + e^-x), where `by`
 * is the pos_weight. */
K_INLINE T K_NAME(loss_bce_logits)(const ELEMENT *e) {
    const T softplus = K_TYPED(k_log1p)(K_TYPED(k_exp)(-fabs(e->x)))
                       + K_NAME(loss_at_least)(-e->x, 0);
    return (1 - e->t) * e->x + ((e->by - 1) * e->t + 1) * softplus;
}

K_INLINE T K_NAME(slope_bce_logits)(const ELEMENT *e) {
    return e->by * (1 / (1 + K_TYPED(k_exp)(-e->x)) - e->t);
}

/* ---- loops: y[i] = value(x[i], target[i], by[i] * scale) * weight[i] ------------------------- */

K_INLINE void K_NAME(loss_steps)(char *const p[], const int64_t s[], int64_t n,
                                 const k_loss_context *k, LOSS *value) {
    const T c = (T)k->c;
    const T scale = (T)k->scale;
    K_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T x = *(const T *)(p[LOSS_X] + i * s[LOSS_X]);
        const T t = *(const T *)(p[LOSS_TARGET] + i * s[LOSS_TARGET]);
        const T weight = *(const T *)(p[LOSS_WEIGHT] + i * s[LOSS_WEIGHT]);
        const T by = *(const T *)(p[LOSS_BY] + i * s[LOSS_BY]) * scale;
        const T d = x - t;
        const ELEMENT e = { .x = x, .t = t, .d = d, .a = d < 0 ? -d : d, .by = by, .c = c };
        *(T *)(p[LOSS_Y] + i * s[LOSS_Y]) = value(&e) * weight;
    }
}

/* Runs loss_steps with strides that are constants, so that its loop vectorises. Requires that the
 * elements of y, x and the target are contiguous. The weight and `by` must either both be
 * contiguous or both be single numbers. */
K_INLINE void K_NAME(loss_each)(char *const p[], const int64_t s[], int64_t n,
                                const k_loss_context *k, LOSS *value) {
    const int64_t size = sizeof(T);
    const int64_t numbers[LOSS_OPERANDS] = {
        [LOSS_Y] = size,
        [LOSS_X] = size,
        [LOSS_TARGET] = size,
    };
    const int64_t beside[LOSS_OPERANDS] = { size, size, size, size, size };
    if (s[LOSS_WEIGHT] == 0 && s[LOSS_BY] == 0)
        K_NAME(loss_steps)(p, numbers, n, k, value);
    else
        K_NAME(loss_steps)(p, beside, n, k, value);
}

/* Returns whether the operands with these strides are as loss_each requires. */
K_INLINE bool K_NAME(loss_lies_well)(const int64_t s[]) {
    const int64_t size = sizeof(T);
    const bool numbers = s[LOSS_WEIGHT] == 0 && s[LOSS_BY] == 0;
    const bool beside = s[LOSS_WEIGHT] == size && s[LOSS_BY] == size;
    return s[LOSS_Y] == size && s[LOSS_X] == size && s[LOSS_TARGET] == size && (numbers || beside);
}

static void K_NAME(loss)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const int bytes[LOSS_OPERANDS] = { sizeof(T), sizeof(T), sizeof(T), sizeof(T), sizeof(T) };
    const k_loss_context *k = context;
    if (!K_NAME(loss_lies_well)(s)) {
        k_run_beside(K_NAME(loss), LOSS_OPERANDS, bytes, p, s, n, context);
        return;
    }
    switch (k->kind) {
    case K_MSE: K_NAME(loss_each)(p, s, n, k, K_NAME(loss_mse)); break;
    case K_SMOOTH_L1: K_NAME(loss_each)(p, s, n, k, K_NAME(loss_smooth_l1)); break;
    case K_HUBER: K_NAME(loss_each)(p, s, n, k, K_NAME(loss_huber)); break;
    case K_BCE: K_NAME(loss_each)(p, s, n, k, K_NAME(loss_bce)); break;
    case K_BCE_LOGITS: K_NAME(loss_each)(p, s, n, k, K_NAME(loss_bce_logits)); break;
    }
}

static void K_NAME(loss_slope)(char *const p[], const int64_t s[], int64_t n, const void *context) {
    const int bytes[LOSS_OPERANDS] = { sizeof(T), sizeof(T), sizeof(T), sizeof(T), sizeof(T) };
    const k_loss_context *k = context;
    if (!K_NAME(loss_lies_well)(s)) {
        k_run_beside(K_NAME(loss_slope), LOSS_OPERANDS, bytes, p, s, n, context);
        return;
    }
    switch (k->kind) {
    case K_MSE: K_NAME(loss_each)(p, s, n, k, K_NAME(slope_mse)); break;
    case K_SMOOTH_L1: K_NAME(loss_each)(p, s, n, k, K_NAME(slope_smooth_l1)); break;
    case K_HUBER: K_NAME(loss_each)(p, s, n, k, K_NAME(slope_huber)); break;
    case K_BCE: K_NAME(loss_each)(p, s, n, k, K_NAME(slope_bce)); break;
    case K_BCE_LOGITS: K_NAME(loss_each)(p, s, n, k, K_NAME(slope_bce_logits)); break;
    }
}

#undef ELEMENT
#undef LOSS
