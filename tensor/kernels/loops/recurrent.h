/*
 * loops/recurrent.h: an LSTM, a GRU or an RNN, compiled for each element type (see sets.h): all
 * time steps of some rows of the batch, forward and backward. A time step is one product with the
 * weights, which are packed in panels, and a loop over the elements of each row.
 */

#define NUMBERS(t) ((T *)(void *)(t))

K_INLINE T K_NAME(recur_sigmoid)(T x) { return 1 / (1 + K_TYPED(k_exp)(-x)); }

/* ---- packing and multiplying the weights ------------------------------------------------- */

/* Packs a matrix into panels of RECUR_PANEL columns; each panel is stored row by row. If `turned`,
 * the matrix is transposed first. The last panel is filled up with zeros. */
static void K_NAME(recur_pack)(void *to, const void *from, int64_t rows, int64_t columns,
                               bool turned) {
    const T *w = from;
    const int64_t steps = turned ? columns : rows;
    const int64_t lines = turned ? rows : columns;
    for (int64_t at = 0; at < lines; at += RECUR_PANEL) {
        T *panel = NUMBERS(to) + at * steps;
        const int64_t n = RG_MIN(lines - at, RECUR_PANEL);
        if (n < RECUR_PANEL)
            memset(panel, 0, (size_t)(steps * RECUR_PANEL) * sizeof(T));
        if (turned)
            k_direct_turn(K_DTYPE)(panel, RECUR_PANEL, w + at * columns, columns, 1, n, columns, 1);
        else
            for (int64_t i = 0; i < rows; i++)
                memcpy(panel + i * RECUR_PANEL, w + i * columns + at, (size_t)n * sizeof(T));
    }
}

/* y = a w, for m rows of k elements, where w are the packed weights. Rows of y have `wide`
 * elements, a multiple of RECUR_PANEL. */
K_INLINE void K_NAME(recur_multiply)(const recur_plan *p, T *y, int64_t wide, const T *a, int64_t m,
                                     int64_t k) {
    const T *panel = (const T *)p->weight;
    const k_product_sizes sizes = { .m = m,
                                    .n = RECUR_PANEL,
                                    .k = k,
                                    .y_row = wide,
                                    .y_col = 1,
                                    .a_row = k,
                                    .a_col = 1,
                                    .b_row = RECUR_PANEL,
                                    .b_col = 1,
                                    .c_row = wide };
    for (int64_t at = 0; at < wide; at += RECUR_PANEL)
        p->product(&sizes, y + at, a, panel + at * k, false);
}

/* ---- forward: one row of one time step ----------------------------------------------------------
 * n is the number of hidden elements. x is the part of the gates that comes from the input, and z
 * the part that comes from h. In a GRU, x includes bias_ih, and z includes bias_hh; in an LSTM or
 * an RNN, x includes both. `before` is the value that c (in an LSTM) or h (in a GRU) has before
 * this time step. */

/* i, f, o = sigmoid(x + z); g = tanh(x + z); c = f * before + i * g; y = o * tanh(c) */
K_INLINE void K_NAME(recur_lstm)(int64_t n, T *y, T *c, T *gates, const T *x, const T *z,
                                 const T *before) {
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        const T i = K_NAME(recur_sigmoid)(x[j] + z[j]);
        const T f = K_NAME(recur_sigmoid)(x[n + j] + z[n + j]);
        const T g = K_TYPED(k_tanh)(x[2 * n + j] + z[2 * n + j]);
        const T o = K_NAME(recur_sigmoid)(x[3 * n + j] + z[3 * n + j]);
        const T now = f * before[j] + i * g;
        gates[j] = i;
        gates[n + j] = f;
        gates[2 * n + j] = g;
        gates[3 * n + j] = o;
        c[j] = now;
        y[j] = o * K_TYPED(k_tanh)(now);
    }
}

/* r, u = sigmoid(x + z); t = tanh(x + r * q), where q is the part of z for t; y = (before - t) * u
 * + t */
K_INLINE void K_NAME(recur_gru)(int64_t n, T *y, T *gates, const T *x, const T *z,
                                const T *before) {
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        const T r = K_NAME(recur_sigmoid)(x[j] + z[j]);
        const T u = K_NAME(recur_sigmoid)(x[n + j] + z[n + j]);
        const T q = z[2 * n + j];
        const T t = K_TYPED(k_tanh)(x[2 * n + j] + r * q);
        gates[j] = r;
        gates[n + j] = u;
        gates[2 * n + j] = t;
        gates[3 * n + j] = q;
        y[j] = (before[j] - t) * u + t;
    }
}

/* y = tanh(x + z); if `relu`, y = max(x + z, 0) */
K_INLINE void K_NAME(recur_rnn)(int64_t n, T *y, const T *x, const T *z, bool relu) {
    if (relu) {
        K_INDEPENDENT
        for (int64_t j = 0; j < n; j++)
            y[j] = x[j] + z[j] < 0 ? 0 : x[j] + z[j];
        return;
    }
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++)
        y[j] = K_TYPED(k_tanh)(x[j] + z[j]);
}

/* Adds the bias to m rows of z, of n numbers each. Row r begins at z + r * wide. */
K_INLINE void K_NAME(recur_add_bias)(T *z, int64_t wide, const T *bias, int64_t m, int64_t n) {
    for (int64_t r = 0; r < m; r++) {
        T *row = z + r * wide;
        K_INDEPENDENT
        for (int64_t j = 0; j < n; j++)
            row[j] += bias[j];
    }
}

static void K_NAME(recur_forward)(void *plan, int64_t begin, int64_t end, int worker) {
    const recur_plan *p = plan;
    const k_recurrent *s = p->z;
    const int64_t n = s->hidden;
    const int64_t made = n * recur_gates(s->kind);
    const T *before_h = (const T *)p->h_0;
    const T *before_c = (const T *)p->c_0;
    T *z = NUMBERS(p->room + (size_t)worker * p->bytes);
    for (int64_t i = 0; i < s->steps; i++) {
        const int64_t t = recur_time(s, i);
        const int64_t from = i ? n : s->from;
        T *y = NUMBERS(p->y) + t * s->batch * n;
        T *c = p->c ? NUMBERS(p->c) + t * s->batch * n : NULL;
        T *gates = p->gates ? NUMBERS(p->gates) + t * s->batch * 4 * n : NULL;
        const T *x = (const T *)p->gates_in + t * s->batch * made;
        K_NAME(recur_multiply)(p, z, p->gates_wide, before_h + begin * from, end - begin, from);
        if (p->bias)
            K_NAME(recur_add_bias)(z, p->gates_wide, (const T *)p->bias, end - begin, made);
        for (int64_t b = begin; b < end; b++) {
            const T *zs = z + (b - begin) * p->gates_wide;
            const T *xs = x + b * made;
            if (s->kind == K_LSTM)
                K_NAME(recur_lstm)
            (n, y + b * n, c + b * n, gates + b * 4 * n, xs, zs, before_c + b * n);
            else if (s->kind == K_GRU)
                K_NAME(recur_gru)(n, y + b * n, gates + b * 4 * n, xs, zs, before_h + b * n);
            else K_NAME(recur_rnn)(n, y + b * n, xs, zs, s->kind == K_RNN_RELU);
        }
        before_h = y;
        before_c = c;
    }
}

/* ---- backward: one row of one time step ---------------------------------------------------------
 * Time steps are processed in reverse order. g is the gradient of y that comes from outside the
 * layer. g_more is the part of y's gradient that comes from the next time step, through the
 * weights. g_x is the gradient of x, which is written. */

/* Computes the gradients of one time step of an LSTM. `carry` is the part of c's gradient that
 * comes from the next time step, and g_c the part that comes from outside the layer. `carry` is
 * replaced by the gradient of c for the time step before. */
K_INLINE void K_NAME(recur_lstm_back)(int64_t n, T *g_x, T *carry, const T *g, const T *g_more,
                                      const T *g_c, const T *gates, const T *c, const T *before) {
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        const T i = gates[j], f = gates[n + j], t = gates[2 * n + j], o = gates[3 * n + j];
        const T at = K_TYPED(k_tanh)(c[j]);
        const T gh = g[j] + g_more[j];
        const T gc = gh * o * (1 - at * at) + (carry[j] + g_c[j]);
        g_x[j] = gc * t * i * (1 - i);
        g_x[n + j] = gc * before[j] * f * (1 - f);
        g_x[2 * n + j] = gc * i * (1 - t * t);
        g_x[3 * n + j] = gh * at * o * (1 - o);
        carry[j] = gc * f;
    }
}

/* Computes the gradients of one time step of a GRU. The gradient of h, the hidden state after this
 * time step, has three terms. g comes from the output. g_more comes from the next time step through
 * the weights, and `carry` comes from the next time step directly. `carry` is replaced by the
 * direct term for the time step before. */
K_INLINE void K_NAME(recur_gru_back)(int64_t n, T *g_x, T *g_z, T *carry, const T *g,
                                     const T *g_more, const T *gates, const T *before) {
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++) {
        const T r = gates[j], u = gates[n + j], t = gates[2 * n + j], q = gates[3 * n + j];
        const T gh = g[j] + (g_more[j] + carry[j]);
        const T gt = gh * (1 - u) * (1 - t * t);
        const T gr = gt * q * r * (1 - r);
        const T gu = gh * (before[j] - t) * u * (1 - u);
        g_x[j] = gr;
        g_x[n + j] = gu;
        g_x[2 * n + j] = gt;
        g_z[j] = gr;
        g_z[n + j] = gu;
        g_z[2 * n + j] = gt * r;
        carry[j] = gh * u;
    }
}

K_INLINE void K_NAME(recur_rnn_back)(int64_t n, T *g_x, const T *g, const T *g_more, const T *y,
                                     bool relu) {
    if (relu) {
        K_INDEPENDENT
        for (int64_t j = 0; j < n; j++)
            g_x[j] = y[j] <= 0 ? 0 : g[j] + g_more[j];
        return;
    }
    K_INDEPENDENT
    for (int64_t j = 0; j < n; j++)
        g_x[j] = (g[j] + g_more[j]) * (1 - y[j] * y[j]);
}

static void K_NAME(recur_backward)(void *plan, int64_t begin, int64_t end, int worker) {
    const recur_plan *p = plan;
    const k_recurrent *s = p->z;
    const int64_t n = s->hidden;
    const int64_t m = end - begin;
    const int64_t made = n * recur_gates(s->kind);
    /* `more` is the part of h's gradient that comes from the next time step, through the
     * weights. */
    T *more = NUMBERS(p->room + (size_t)worker * p->bytes);
    T *carry = more + m * p->from_wide;
    T *zeros = carry + m * n;
    memset(more, 0, p->bytes);
    for (int64_t i = s->steps - 1; i >= 0; i--) {
        const int64_t t = recur_time(s, i);
        const int64_t at = t * s->batch;
        const int64_t last = i ? recur_time(s, i - 1) * s->batch : 0;
        const T *y = (const T *)p->y + at * n;
        const T *before_h = i ? (const T *)p->y + last * n : (const T *)p->h_0;
        const T *c = p->c ? (const T *)p->c + at * n : NULL;
        const T *before_c = p->c && i ? (const T *)p->c + last * n : (const T *)p->c_0;
        const T *gates = p->gates ? (const T *)p->gates + at * 4 * n : NULL;
        const T *g = (const T *)p->g_y + at * n;
        T *g_x = NUMBERS(p->g_in) + at * made;
        T *g_z = NUMBERS(p->g_hidden) + at * made;
        for (int64_t b = begin; b < end; b++) {
            const bool last_step = i == s->steps - 1;
            const T *g_more = last_step ? zeros : more + (b - begin) * p->from_wide;
            const T *g_c = p->g_c ? (const T *)p->g_c + (at + b) * n : zeros;
            T *own = carry + (b - begin) * n;
            if (s->kind == K_LSTM)
                K_NAME(recur_lstm_back)
            (n, g_x + b * made, own, g + b * n, g_more, g_c, gates + b * 4 * n, c + b * n,
             before_c + b * n);
            else if (s->kind == K_GRU)
                K_NAME(recur_gru_back)(n, g_x + b * made, g_z + b * made, own, g + b * n, g_more,
                                       gates + b * 4 * n, before_h + b * n);
            else K_NAME(recur_rnn_back)(n, g_x + b * made, g + b * n, g_more, y + b * n,
                                        s->kind == K_RNN_RELU);
        }
        K_NAME(recur_multiply)(p, more, p->from_wide, g_z + begin * made, m, made);
    }
    for (int64_t b = begin; b < end; b++) {
        T *g_h = NUMBERS(p->g_h_0) + b * s->from;
        const T *from = more + (b - begin) * p->from_wide;
        const T *own = carry + (b - begin) * n;
        for (int64_t j = 0; j < s->from; j++)
            g_h[j] = s->kind == K_GRU ? from[j] + own[j] : from[j];
        if (p->g_c_0)
            memcpy(NUMBERS(p->g_c_0) + b * n, own, (size_t)n * sizeof(T));
    }
}

#undef NUMBERS
