/*
 * lbfgs.c: makes LBFGS's steps. A step calls the program's closure several times. The line search
 * computes in double. Numbers that are 0-d tensors in torch are rounded to the dtype of the
 * gradients, to get torch's results. A step works on a copy of the state, so that a failed step
 * changes nothing.
 */
#include "optimizer_structs.h"
#include "tensor/dtype.h"
#include "tensor/kernels/copy.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/storage.h"

#include <math.h>
#include <string.h>

static const char *const lbfgs_name = "LBFGS";

/* ---- copying and freeing the state ----------------------------------------------------- */

bool rgi_lbfgs_copy(rg_lbfgs *to, const rg_lbfgs *from) {
    *to = *from;
    to->pairs = NULL;
    to->room = 0;
    if (!rgi_grow((void **)&to->pairs, &to->room, from->n, sizeof *to->pairs))
        return false;
    for (size_t i = 0; i < to->n; i++) {
        to->pairs[i] = (rg_lbfgs_pair){ .ro = from->pairs[i].ro, .al = from->pairs[i].al };
        rgi_set_reference(&to->pairs[i].dir, from->pairs[i].dir);
        rgi_set_reference(&to->pairs[i].stp, from->pairs[i].stp);
    }
    to->d = to->prev_flat_grad = NULL;
    rgi_set_reference(&to->d, from->d);
    rgi_set_reference(&to->prev_flat_grad, from->prev_flat_grad);
    return true;
}

void rgi_lbfgs_end(rg_lbfgs *s) {
    for (size_t i = 0; i < s->n; i++) {
        rgi_set_reference(&s->pairs[i].dir, NULL);
        rgi_set_reference(&s->pairs[i].stp, NULL);
    }
    rgi_set_reference(&s->d, NULL);
    rgi_set_reference(&s->prev_flat_grad, NULL);
    rgi_free(s->pairs, s->room * sizeof *s->pairs, RG_MEM_OTHER);
    *s = (rg_lbfgs){ 0 };
}

/* ---- a step in progress: the closure, the gradients and the parameters ----------------- */

/* A step of LBFGS that is in progress. It works on `s`, a copy of the optimizer's state. flat_grad
 * is the gradients of all parameters, joined to one vector. The step holds references to flat_grad
 * and to the tensors in s. */
typedef struct {
    rg_optim *o;
    rg_closure *closure;
    void *context;
    rg_lbfgs s;
    rg_tensor *flat_grad;
    double loss;
    double evals;   /* The number of calls of the closure in this step. */
    rg_dtype dtype; /* The dtype of the flat gradient. */
} lbfgs_run;

static double rounded(const lbfgs_run *r, double x) { return rgi_rounded(x, r->dtype); }

/* Makes *place hold a reference to t, instead of the tensor that it held. Returns false if t is
 * NULL. */
static bool hold(rg_tensor **place, rg_tensor *t) {
    if (t)
        rgi_set_reference(place, t);
    return t;
}

/* Sets *product to the dot product of a and b. Returns false on failure. */
static bool dot_of(rg_tensor *a, rg_tensor *b, double *product) {
    RG_SCOPE();
    rg_tensor *t = rg_dot(a, b);
    *product = rg_item(t);
    return t;
}

/* Sets *most to the largest absolute value of a's elements. Returns false on failure. */
static bool greatest_of(rg_tensor *a, double *most) {
    RG_SCOPE();
    rg_tensor *t = rg_amax(rg_abs(a));
    *most = rg_item(t);
    return t;
}

/* Returns the gradients of all parameters as one vector, with zeros for a parameter without a
 * gradient. Warns if the gradients still contain those of an earlier call of the closure. Returns
 * NULL on failure. */
static rg_tensor *flat_gradient(const rg_optim *o) {
    RG_SCOPE();
    rg_tensor **v = rgi_scope_alloc(o->n_slots * sizeof *v);
    bool again = false;
    if (!v)
        return NULL;
    for (size_t i = 0; i < o->n_slots; i++) {
        rg_tensor *p = o->slots[i].param, *grad = rg_grad_of(p);
        const rg_dims flat = { 1, { rg_numel(p) } };
        v[i] = grad == RG_NONE ? rg_zeros_dims(flat, rg_dtype_of(p)) : rg_reshape_dims(grad, flat);
        again |= grad && grad != RG_NONE && rgi_use_gradient(grad);
    }
    if (again)
        rgi_warn_of_gradients();
    return rg_escape(rg_cat((rg_list){ (int)o->n_slots, v }, 0));
}

/* Calls the closure, and stores the value of the loss and the flat gradient in r. If `loss` isn't
 * NULL, *loss receives the tensor that the closure returned. Returns false on failure. */
static bool evaluate(lbfgs_run *r, rg_tensor **loss) {
    RG_SCOPE();
    rg_tensor *y;
    const int64_t before = rgi_failures();
    {
        RG_ENABLE_GRAD();
        y = r->closure(r->context);
    }
    RG_FAIL_AS_IF(RG_RELEASED, r->o->handle.released, lbfgs_name,
                  "the closure has freed the optimizer");
    if (!rgi_returned(y, before, lbfgs_name) || rgi_training_halted())
        return false;
    RG_FAIL_IF(rg_numel(y) != 1, lbfgs_name,
               "a Tensor with %lld elements cannot be converted to Scalar", (long long)rg_numel(y));
    r->loss = rg_item(y);
    r->evals++;
    r->s.func_evals++;
    if (loss)
        *loss = rg_escape(y);
    return hold(&r->flat_grad, flat_gradient(r->o));
}

/* Adds t * d to the parameters. The vector d has an element for each element of the parameters.
 * Returns false on failure. */
static bool move_along(const lbfgs_run *r, double t, rg_tensor *d) {
    RG_SCOPE();
    int64_t at = 0;
    for (RG_EACH_SLOT(slot, r->o)) {
        rg_tensor *p = slot->param;
        rg_tensor *part = rg_reshape_dims(rg_slice(d, 0, at, at + rg_numel(p), 1), rg_shape(p));
        if (!rg_add_alpha_(p, part, t))
            return false;
        at += rg_numel(p);
    }
    return true;
}

/* Returns copies of all parameters. The scope owns them. Returns NULL on failure. */
static rg_tensor **copies_of_params(const rg_optim *o) {
    rg_tensor **v = rgi_scope_alloc(o->n_slots * sizeof *v);
    for (size_t i = 0; v && i < o->n_slots; i++) {
        v[i] = rg_clone(o->slots[i].param);
        if (!v[i])
            return NULL;
    }
    return v;
}

/* Copies the copies back into the parameters. Allocates nothing, so it can't fail. */
static void put_params(const rg_optim *o, rg_tensor *const copies[]) {
    for (size_t i = 0; i < o->n_slots; i++) {
        rgi_copy_elements(o->slots[i].param, copies[i]);
        rgi_count_write(o->slots[i].param, "step");
    }
}

/* ---- the line search, which torch calls strong_wolfe ------------------------------------ */

/* A point on the line that is searched: the position t, the loss there, the gradient, and the dot
 * product of the gradient and the direction. */
typedef struct {
    double t, loss, slope;
    rg_tensor *gradient;
} line_point;

/* The search for a good step on the line x + t d: x are the parameters at the beginning of the
 * search, d is the direction, and t is searched. `from` is the point with t = 0. `tries` counts the
 * points that were tried after the first one; the search ends when it reaches `most`. */
typedef struct {
    lbfgs_run *r;
    rg_tensor **x, *d;
    line_point from;
    double width; /* The largest absolute value of d's elements. */
    int64_t tries, most;
} line_search;

/* The constants c1 and c2 of the Wolfe conditions in torch, and the smallest width of a bracket.
 * The width is a constant in torch as well; it isn't tolerance_change. */
static const double loss_falls_by = 1e-4, slope_falls_to = 0.9, least_width = 1e-9;

/* Returns the position of the minimum of the cubic that has the losses and slopes of the points p
 * and q, limited to the range from `low` to `high`. If the cubic has no minimum, returns the middle
 * of the range. */
static double cubic_least(const line_point *p, const line_point *q, double low, double high) {
    const double d1 = p->slope + q->slope - 3 * (p->loss - q->loss) / (p->t - q->t);
    const double square = d1 * d1 - p->slope * q->slope;
    if (!(square >= 0))
        return (low + high) / 2;
    const double d2 = sqrt(square);
    const line_point *left = p->t <= q->t ? p : q, *right = left == p ? q : p;
    const double share = (right->slope + d2 - d1) / (right->slope - left->slope + 2 * d2);
    const double least = right->t - (right->t - left->t) * share;
    const double above = low > least ? low : least;
    return high < above ? high : above;
}

/* Sets *p to the point at position t: moves the parameters there, calls the closure, and moves the
 * parameters back. The scope owns the point's gradient. Returns false on failure; then the
 * parameters may be left at t. */
static bool evaluate_at(line_search *l, double t, line_point *p) {
    if (!move_along(l->r, t, l->d) || !evaluate(l->r, NULL))
        return false;
    put_params(l->r->o, l->x);
    *p = (line_point){ .t = t, .loss = l->r->loss, .gradient = rgi_lend(l->r->flat_grad) };
    return dot_of(p->gradient, l->d, &p->slope);
}

/* Returns whether p violates Armijo's condition: whether the loss has fallen too little from the
 * loss at the beginning of the line. */
static bool falls_little(const line_search *l, const line_point *p) {
    return p->loss > l->from.loss + loss_falls_by * p->t * l->from.slope;
}

static bool is_flat(const line_search *l, const line_point *p) {
    return fabs(p->slope) <= -slope_falls_to * l->from.slope;
}

/* Tries larger and larger positions, beginning with t, until a point that satisfies the Wolfe
 * conditions must lie between the last two points. Stores these two points in ends[]. If ends[1]
 * itself satisfies the conditions, sets *done to true. If no more tries are left, stores the
 * beginning of the line and the last point that was tried. Returns false on failure. */
static bool bracket_line(line_search *l, double t, line_point ends[2], bool *done) {
    line_point last = l->from, p;
    if (!evaluate_at(l, t, &p))
        return false;
    for (; l->tries < l->most; l->tries++) {
        ends[0] = last;
        ends[1] = p;
        if (falls_little(l, &p) || (l->tries > 1 && p.loss >= last.loss))
            return true;
        *done = is_flat(l, &p);
        if (*done || p.slope >= 0)
            return true;
        t = rounded(l->r, cubic_least(&last, &p, p.t + 0.01 * (p.t - last.t), p.t * 10));
        last = p;
        if (!evaluate_at(l, t, &p))
            return false;
    }
    ends[0] = l->from;
    ends[1] = p;
    return true;
}

/* Returns the position between the two ends at which the search continues: the minimum of a cubic.
 * A minimum is called near an end if less than a tenth of the range lies between them. A minimum
 * near an end is moved to a tenth of the range from that end in two cases. In the first, the
 * minimum is at the end itself. In the second, the position that the previous call returned was
 * near an end (*was_near). Sets *was_near for the next call. */
static double place_between(const line_point ends[2], bool *was_near) {
    const double low = fmin(ends[0].t, ends[1].t), high = fmax(ends[0].t, ends[1].t);
    const double near = 0.1 * (high - low);
    const double t = cubic_least(&ends[0], &ends[1], low, high);
    const bool is_near = fmin(high - t, t - low) < near;
    const bool moves = is_near && (*was_near || t >= high || t <= low);
    *was_near = is_near && !moves;
    if (!moves)
        return t;
    return fabs(t - high) < fabs(t - low) ? high - near : low + near;
}

/* Searches the line for a point that satisfies the Wolfe conditions. The first position that it
 * tries is t. Sets *found to the point that satisfies the conditions or, if none was found, to that
 * end of the last bracket whose loss is lower. Returns false on failure. */
static bool search_line(line_search *l, double t, line_point *found) {
    line_point ends[2];
    bool done = false, was_near = false;
    if (!bracket_line(l, t, ends, &done))
        return false;
    int low = done || !(ends[0].loss <= ends[1].loss);
    while (!done && l->tries < l->most) {
        if (fabs(ends[1].t - ends[0].t) * l->width < least_width)
            break;
        line_point p;
        if (!evaluate_at(l, rounded(l->r, place_between(ends, &was_near)), &p))
            return false;
        l->tries++;
        if (falls_little(l, &p) || p.loss >= ends[low].loss) {
            ends[!low] = p;
            low = !(ends[0].loss <= ends[1].loss);
            continue;
        }
        done = is_flat(l, &p);
        if (p.slope * (ends[!low].t - ends[low].t) >= 0)
            ends[!low] = ends[low];
        ends[low] = p;
    }
    *found = ends[low];
    return true;
}

/* ---- the direction of a step ------------------------------------------------------------- */

/* Appends a pair to the remembered pairs: y is the change of the gradient, s the change of the
 * parameters, and `ro` is 1 / (y . s). If there are history_size pairs or more, first drops the
 * oldest one. Returns false if memory runs out. */
static bool add_pair(lbfgs_run *r, rg_tensor *y, rg_tensor *s, double ro) {
    rg_lbfgs *m = &r->s;
    if (m->n && (double)m->n >= r->o->groups->options.history_size) {
        rgi_set_reference(&m->pairs[0].dir, NULL);
        rgi_set_reference(&m->pairs[0].stp, NULL);
        m->n--;
        memmove(m->pairs, m->pairs + 1, m->n * sizeof *m->pairs);
    }
    if (!rgi_grow((void **)&m->pairs, &m->room, m->n + 1, sizeof *m->pairs))
        return false;
    rg_lbfgs_pair *pair = &m->pairs[m->n++];
    *pair = (rg_lbfgs_pair){ .ro = ro };
    rgi_set_reference(&pair->dir, y);
    rgi_set_reference(&pair->stp, s);
    return true;
}

/* Appends the pair of the last iteration and sets h_diag, but only if the dot product of the
 * gradient's change and the parameters' change is larger than 1e-10. Returns false on failure. */
static bool remember_step(lbfgs_run *r) {
    rg_lbfgs *m = &r->s;
    rg_tensor *y = rg_sub(r->flat_grad, m->prev_flat_grad), *s = rg_mul(m->d, m->t);
    double ys, yy;
    if (!dot_of(y, s, &ys))
        return false;
    if (!(ys > 1e-10))
        return true;
    if (!dot_of(y, y, &yy) || !add_pair(r, y, s, rounded(r, 1 / ys)))
        return false;
    m->h_diag = rounded(r, ys / yy);
    return true;
}

/* Returns the direction of the iteration: minus the inverse Hessian times the gradient. The inverse
 * Hessian is approximated by the remembered pairs (the two-loop recursion). Returns NULL on
 * failure. */
static rg_tensor *direction(lbfgs_run *r) {
    rg_lbfgs *m = &r->s;
    rg_tensor *q = rg_neg(r->flat_grad);
    double product;
    for (size_t i = m->n; i-- > 0;) {
        rg_lbfgs_pair *pair = &m->pairs[i];
        if (!dot_of(pair->stp, q, &product))
            return NULL;
        pair->al = rounded(r, product * pair->ro);
        q = rg_add_alpha_(q, pair->dir, -pair->al);
    }
    m->n_al = m->n;
    q = rg_mul(q, m->h_diag);
    for (size_t i = 0; i < m->n; i++) {
        const rg_lbfgs_pair *pair = &m->pairs[i];
        if (!dot_of(pair->dir, q, &product))
            return NULL;
        const double be = rounded(r, product * pair->ro);
        q = rg_add_alpha_(q, pair->stp, rounded(r, pair->al - be));
    }
    return q;
}

/* Sets the direction d and the step size t of this iteration. Returns false on failure. */
static bool choose_direction(lbfgs_run *r) {
    RG_SCOPE();
    rg_lbfgs *m = &r->s;
    const double lr = r->o->groups->options.lr;
    const bool first = m->n_iter == 1;
    if (first)
        m->h_diag = 1;
    if (!first && !remember_step(r))
        return false;
    if (!hold(&m->d, first ? rg_neg(r->flat_grad) : direction(r)))
        return false;
    hold(&m->prev_flat_grad, r->flat_grad);
    m->prev_loss = r->loss;
    m->t = lr;
    if (!first)
        return true;
    rg_tensor *sum = rg_sum(rg_abs(r->flat_grad));
    if (!sum)
        return false;
    const double by_size = rounded(r, 1 / rg_item(sum));
    m->t = by_size < 1 ? rounded(r, by_size * lr) : lr;
    return true;
}

/* ---- the whole step ------------------------------------------------------------------------ */

/* Searches along the direction d, and moves the parameters to the point that was found. Returns
 * false on failure. */
static bool step_by_search(lbfgs_run *r, double slope) {
    RG_SCOPE();
    rg_lbfgs *m = &r->s;
    line_search l = {
        .r = r,
        .x = copies_of_params(r->o),
        .d = m->d,
        .from = { .loss = r->loss, .slope = slope, .gradient = rgi_lend(r->flat_grad) },
        .most = (int64_t)(r->o->groups->options.max_eval - r->evals),
    };
    line_point found;
    if (!l.x || !l.from.gradient || !greatest_of(m->d, &l.width) || !search_line(&l, m->t, &found))
        return false;
    m->t = found.t;
    r->loss = found.loss;
    hold(&r->flat_grad, found.gradient);
    return move_along(r, m->t, m->d);
}

/* Makes the i-th iteration of the step. Sets *last to true if no further iteration is needed.
 * Returns false on failure. */
static bool iterate(lbfgs_run *r, double i, bool *last) {
    const rg_param_group *g = &r->o->groups->options;
    rg_lbfgs *m = &r->s;
    double slope, steepest = INFINITY, moved = 0;
    m->n_iter++;
    if (!choose_direction(r) || !dot_of(r->flat_grad, m->d, &slope))
        return false;
    *last = slope > -g->tolerance_change;
    if (*last)
        return true;
    if (g->strong_wolfe != 0) {
        if (!step_by_search(r, slope) || !greatest_of(r->flat_grad, &steepest))
            return false;
    } else {
        if (!move_along(r, m->t, m->d))
            return false;
        if (i != g->max_iter && (!evaluate(r, NULL) || !greatest_of(r->flat_grad, &steepest)))
            return false;
    }
    const bool known = greatest_of(m->d, &moved);
    *last = r->evals >= g->max_eval || steepest <= g->tolerance_grad
            || fabs(moved * m->t) <= g->tolerance_change
            || fabs(r->loss - m->prev_loss) < g->tolerance_change;
    return known;
}

static bool minimise(lbfgs_run *r, rg_tensor **loss) {
    const rg_param_group *g = &r->o->groups->options;
    double steepest;
    if (!evaluate(r, loss) || !greatest_of(r->flat_grad, &steepest))
        return false;
    r->dtype = rg_dtype_of(r->flat_grad);
    bool last = steepest <= g->tolerance_grad;
    for (double i = 1; !last && i <= g->max_iter; i++)
        if (!iterate(r, i, &last))
            return false;
    return true;
}

rg_tensor *rgi_lbfgs_step(rg_optim *o, rg_closure *closure, void *context) {
    lbfgs_run r = { .o = o, .closure = closure, .context = context };
    RG_SCOPE();
    RG_NO_GRAD();
    if (!rgi_may_do_once(lbfgs_name))
        return NULL;
    rg_tensor **before = copies_of_params(o), *loss = NULL;
    if (!before || !rgi_lbfgs_copy(&r.s, &o->lbfgs))
        return NULL;
    o->holders++;
    const bool ok = minimise(&r, &loss);
    if (ok) {
        const rg_lbfgs old = o->lbfgs;
        o->lbfgs = r.s;
        r.s = old;
    } else {
        put_params(o, before);
    }
    rgi_lbfgs_end(&r.s);
    rgi_set_reference(&r.flat_grad, NULL);
    rgi_optim_let_go(o);
    return ok ? rg_escape(loss) : NULL;
}
