/*
 * averaged_model.c: AveragedModel, which averages a model's weights. An update first does
 * everything that can fail. Then it changes the average, in one pass over each parameter.
 */
#include "averaged_model.h"
#include "nn/given.h"
#include "tensor/kernels/copy.h"
#include "tensor/kernels/optim.h"
#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/opaque.h"
#include "tensor/text/digits.h"

static const char *const averaged_op = "averaged_model_update_parameters";

/* ---- making an averaged model ---------------------------------------------------------- */

rg_multi_avg_fn(rg_get_ema_multi_avg_fn)(double decay) {
    const rg_multi_avg_fn ema = { .ema = true, .decay = decay }, failed = { .failed = true };
    if (decay >= 0 && decay <= 1)
        return ema;
    rgi_fail(RG_VALUE_ERROR, "get_ema_multi_avg_fn",
             "Invalid decay value %s provided. Please provide a value in [0,1] range.",
             rgi_number(decay));
    return failed;
}

rg_multi_avg_fn rg_get_swa_multi_avg_fn(void) { return (rg_multi_avg_fn){ .ema = false }; }

static rg_tensor *averaged_forward(rg_module *m, rg_list in, void *keywords) {
    (void)keywords;
    return rg_call_list(((rg_averaged_model *)m)->module, in);
}

static const rg_module_class averaged_class = { .name = "AveragedModel",
                                                .forward_with = averaged_forward };

rg_averaged_model *(rg_optim_averaged_model_with)(void *model, rg_averaged_model_options o) {
    RG_AS("averaged_model");
    if (!rgi_module_given(model, "averaged_model"))
        return NULL;
    if (o.multi_avg_fn.failed)
        return rgi_null_is_explained()
                   ? NULL
                   : rgi_fail(RG_VALUE_ERROR, NULL, "its multi_avg_fn has failed before");
    rg_averaged_model *self = RG_MODULE(rg_averaged_model, &averaged_class,
                                        .multi_avg_fn = o.multi_avg_fn,
                                        .use_buffers = o.use_buffers);
    RG_SCOPE();
    RG_CHILD(self, module, rg_deepcopy(model));
    RG_BUFFER(self, n_averaged, rg_zeros_dims(RG_DIMS(), RG_INT64));
    return RG_READY(self);
}

/* ---- updating the average -------------------------------------------------------------- */

/* A tensor of the average, and the model's tensor at the same place in the list of parameters or
 * buffers (`current`). `next` is the next value of a tensor that is averaged but isn't floating
 * point. It is computed before any average changes. In the first update, and for all other tensors,
 * `next` is NULL. */
typedef struct {
    rg_tensor *average, *current, *next;
    bool averaged; /* Set if the model's value is averaged. Otherwise it is copied. */
} averaged_pair;

typedef struct {
    averaged_pair *v;
    int n;
} averaged_pairs;

/* Fails with torch's error and returns false unless `a` and `b` have the same shape. */
static bool shapes_match(rg_tensor *a, rg_tensor *b) {
    RG_FAIL_IF(rg_ndim(a) != rg_ndim(b), averaged_op,
               "The shape of tensor a %s must match the shape of tensor b %s", RG_SIZES_TEXT(a),
               RG_SIZES_TEXT(b));
    for (int d = rg_ndim(a) - 1; d >= 0; d--)
        RG_FAIL_IF(rg_size(a, d) != rg_size(b, d), averaged_op,
                   "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                   "non-singleton dimension %d",
                   (long long)rg_size(a, d), (long long)rg_size(b, d), d);
    return true;
}

static bool add_averaged(averaged_pairs *p, rg_tensor *average, rg_tensor *current, bool averaged) {
    if (!shapes_match(average, current))
        return false;
    RG_FAIL_IF(rg_dtype_of(average) != rg_dtype_of(current), averaged_op,
               "expected dtype %s but got dtype %s", rg_dtype_name(rg_dtype_of(average)),
               rg_dtype_name(rg_dtype_of(current)));
    p->v[p->n++] = (averaged_pair){ average, current, NULL, averaged };
    return rgi_may_overwrite(average, averaged_op);
}

/* Pairs each parameter and buffer of the average with the model's parameter or buffer of the same
 * index. Makes all checks, so that average_pair can't fail. The scope owns the array of pairs.
 * Returns false on failure. */
static bool pair_tensors(const rg_averaged_model *m, void *model, averaged_pairs *p) {
    const rg_list mine = rg_parameters(m->module), others = rg_parameters(model);
    const rg_named_list buffers = rg_named_buffers(m->module), theirs = rg_named_buffers(model);
    if (mine.n < 0 || others.n < 0 || buffers.n < 0 || theirs.n < 0)
        return false;
    RG_FAIL_VALUE_IF(mine.n != others.n || buffers.n != theirs.n, averaged_op,
                     "the model has %d parameters and %d buffers, but its average %d and %d",
                     others.n, theirs.n, mine.n, buffers.n);
    p->n = 0;
    p->v = rgi_scope_alloc((size_t)(mine.n + buffers.n) * sizeof *p->v);
    bool ok = p->v;
    for (int i = 0; ok && i < mine.n; i++)
        ok = add_averaged(p, mine.v[i], others.v[i], true);
    for (int i = 0; ok && i < buffers.n; i++)
        ok = add_averaged(p, buffers.v[i].tensor, theirs.v[i].tensor, m->use_buffers);
    return ok;
}

/* Computes the next value of an average of integers or bools. As torch does, computes it in
 * floating point, and converts it back to the average's dtype. n is the number of updates before
 * this one. Returns false on failure. */
static bool make_next(const rg_averaged_model *m, averaged_pair *pair, int64_t n) {
    const double decay = m->multi_avg_fn.decay;
    rg_tensor *a = rg_detach(pair->average), *b = pair->current, *y;
    if (m->multi_avg_fn.ema)
        y = rg_add(rg_mul(a, decay), rg_mul(b, 1 - decay));
    else
        y = rg_add(a, rg_div(rg_sub(b, a), n + 1));
    pair->next = rg_to(y, rg_dtype_of(pair->average));
    return pair->next;
}

static void average_pair(const rg_averaged_model *m, const averaged_pair *pair, int64_t n) {
    const bool ema = m->multi_avg_fn.ema;
    const k_optimizer *which = ema ? &k_average_lerp : &k_average_mean;
    const k_optimizer_numbers z = { .averaged = { .entering = 1 - m->multi_avg_fn.decay,
                                                  .count = (double)n + 1 } };
    if (!pair->averaged || n == 0)
        rgi_copy_elements(pair->average, pair->current);
    else if (pair->next)
        rgi_copy_elements(pair->average, pair->next);
    else
        k_optimizer_step(which, 2, (rg_tensor *[]){ pair->average, pair->current }, &z);
    rgi_count_write(pair->average, averaged_op);
}

static bool update_parameters(rg_averaged_model *m, void *model) {
    averaged_pairs p;
    if (!rgi_module_given((const rg_module *)m, averaged_op)
        || !rgi_module_given(model, averaged_op) || !rgi_may_do_once(averaged_op))
        return false;
    RG_FAIL_AS_IF(RG_TYPE_ERROR, m->base.cls != &averaged_class, averaged_op,
                  "expected an AveragedModel but got %s", m->base.cls->name);
    RG_SCOPE();
    RG_NO_GRAD();
    if (!pair_tensors(m, model, &p))
        return false;
    const int64_t n = (int64_t)rg_item(m->n_averaged);
    for (int i = 0; n > 0 && i < p.n; i++)
        if (p.v[i].averaged && !rg_is_floating_point(p.v[i].average) && !make_next(m, &p.v[i], n))
            return false;
    for (int i = 0; i < p.n; i++)
        average_pair(m, &p.v[i], n);
    rgi_fill_number(m->n_averaged, 0, n + 1);
    rgi_count_write(m->n_averaged, averaged_op);
    return true;
}

bool(rg_averaged_model_update_parameters)(rg_averaged_model *m, void *model) {
    return RG_UNLESS_HALTED(update_parameters(m, model));
}
