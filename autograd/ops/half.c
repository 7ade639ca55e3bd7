/*
 * half.c: calls of ops with elements that are widened: bfloat16 and float16 to float32, in which
 * the op computes, and each result is rounded once; uint8 to int64, of which each result keeps the
 * last 8 bits.
 */
#include "autograd/op.h"

/* apply.c finds out whether a call has such elements by a bit that only these dtypes have. */
_Static_assert(RG_WIDENED_BIT != 0
                   && !((RG_BOOL | RG_INT64 | RG_FLOAT32 | RG_FLOAT64) & RG_WIDENED_BIT),
               "one bit tells the dtypes that are widened from others");

/* Returns whether the op multiplies or divides, and rounds nothing but the result. */
static bool multiplies(const rg_op *op) {
    return RG_IS(op, mul) || RG_IS(op, div) || RG_IS(op, over);
}

/* As in torch, a factor or a divisor that is one number, or a tensor with one element, keeps its
 * value in float32: 65536 is no float16, and a loss is scaled by it. Other operands are rounded to
 * `dtype` first, the dtype of the elements, which one of the two inputs has. For a tensor in the
 * first place, see runs_first_rounded. */
rg_dtype rgi_dtype_beside_half(const rg_op *op, int i, rg_tensor *const in[], rg_dtype dtype) {
    const bool kept = rgi_is_half(dtype) && (multiplies(op) || (i && op->exact_divisor));
    return kept && in[i]->numel == 1 && in[!i]->dtype == dtype ? RG_FLOAT32 : dtype;
}

/* Returns whether the call multiplies or divides a number that stays in float32. */
static bool number_is_first(const rg_call *c) {
    return multiplies(c->op) && !rgi_is_widened(c->in[0]->dtype);
}

rg_dtype rgi_dtype_made_widened(const rg_call *c) { return c->in[number_is_first(c)]->dtype; }

/* Replaces t, if it has elements that are widened, by a copy in the dtype that they are computed
 * in, with the same order of dims in memory, which the caller releases. Returns false if memory ran
 * out. */
static bool widen_input(rg_tensor **t) {
    if (!*t || *t == RG_NONE || !rgi_is_widened((*t)->dtype))
        return true;
    const rg_tensor *from = *t;
    *t = rgi_new_dense_like(from, rgi_widened(from->dtype));
    if (*t)
        rgi_copy_elements(*t, from);
    return *t;
}

/* Replaces y, if it has elements that are widened, by a tensor of its shape and strides in the
 * dtype that they are computed in, which the caller releases. Returns false if memory ran out. */
static bool widen_output(rg_tensor **y) {
    if (!rgi_is_widened((*y)->dtype))
        return true;
    const rg_tensor *like = *y;
    *y = rgi_new_dense_like(like, rgi_widened(like->dtype));
    return *y;
}

/* Calls the `view` function of an op that allocates its outputs, and replaces those that have
 * elements of the input's dtype by narrow copies: the floating ones or, if the input has bytes, the
 * values that unique finds. Requires that the outputs' dtypes are those of a call with widened
 * inputs. */
static bool make_and_round(rg_call *wide, rg_dtype dtype) {
    bool ok = wide->op->view(wide);
    for (int k = 0; k < wide->n_out && ok && rgi_is_widened(dtype); k++) {
        rg_tensor *y = wide->out[k];
        if (rgi_is_half(dtype) ? !rgi_is_float(y->dtype) : k || !wide->op->finds_values)
            continue;
        rg_tensor *rounded = rgi_new_like(y, dtype);
        if (rounded)
            rgi_copy_elements(rounded, y);
        rgi_release(y);
        wide->out[k] = rounded;
        ok = rounded;
    }
    return ok;
}

static bool run_made(rg_call *c, rg_call *wide) {
    for (int k = 0; k < c->n_out; k++)
        c->out[k]->dtype = rgi_widened(c->out[k]->dtype);
    const bool ok = make_and_round(wide, c->in[0]->dtype);
    memcpy(c->out, wide->out, sizeof c->out);
    return ok;
}

/* Calls the forward function, which writes to wide tensors in the place of narrow outputs. */
static bool run_wide_forward(const rg_call *c, rg_call *wide) {
    bool ok = true;
    for (int k = 0; k < c->n_out && ok; k++)
        ok = widen_output(&wide->out[k]);
    ok = ok && c->op->forward(wide);
    for (int k = 0; k < c->n_out && ok; k++)
        if (wide->out[k] != c->out[k])
            rgi_copy_elements(c->out[k], wide->out[k]);
    for (int k = 0; k < c->n_out; k++)
        if (wide->out[k] != c->out[k])
            rgi_release(wide->out[k]);
    return ok;
}

/* Runs the kernel of mul or div with a first input of float32 beside elements of 16 bits. As in
 * torch, a tensor there is rounded to the elements' dtype, though gradients read its own value, and
 * a number is not: torch's operators `number * x` and `number / x` keep it. */
static bool runs_first_rounded(const rg_call *c) {
    float number = *(const float *)c->in[0]->data;
    if (!(c->given[0]->flags & RG_WEAK))
        number = (float)rgi_rounded((double)number, c->out[0]->dtype);
    rg_tensor first = RG_NUMBER(RG_FLOAT32, &number);
    return k_run_widened(c->op->kernel, c->out[0], (rg_tensor *[]){ &first, c->in[1] }, NULL);
}

bool rgi_run_widened(rg_call *c) {
    if (number_is_first(c))
        return runs_first_rounded(c);
    if (!c->op->forward && !c->op->view)
        return k_run_widened(c->op->kernel, c->out[0], c->in, NULL);
    rg_tensor *in[RG_INPUTS];
    if (!rgi_want_dtype(c->op->name, c->n_in <= RG_INPUTS, c->in[0]->dtype))
        return false;
    rg_call wide = *c;
    memcpy(in, c->in, (size_t)c->n_in * sizeof *in);
    wide.in = in;
    wide.given = NULL;
    bool ok = true;
    for (int i = 0; i < c->n_in && ok; i++)
        ok = widen_input(&in[i]);
    ok = ok && (c->op->view ? run_made(c, &wide) : run_wide_forward(c, &wide));
    for (int i = 0; i < c->n_in; i++)
        if (in[i] != c->in[i])
            rgi_release(in[i]);
    return ok;
}
