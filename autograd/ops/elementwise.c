/*
 * elementwise.c: functions for the rows of elementwise ops: shape functions that also require
 * certain dtypes, forward functions that call the op's kernel, and gradients in one pass over the
 * data.
 */
#include "elementwise.h"

#include "autograd/node.h"

bool rgi_shape_of_floats(rg_call *c) {
    return rgi_want_float(c->op->name, c->in[0]) && rgi_shape_same(c);
}

bool rgi_shape_of_numbers(rg_call *c) {
    return rgi_want_no_bool(c->op->name, c->in[0]) && rgi_shape_same(c);
}

bool rgi_shape_broadcast_floats(rg_call *c) {
    return rgi_shape_broadcast(c) && rgi_want_float(c->op->name, c->in[0]);
}

bool rgi_shape_broadcast_numbers(rg_call *c) {
    return rgi_shape_broadcast(c) && rgi_want_no_bool(c->op->name, c->in[0]);
}

bool rgi_element_fits(const char *op, const rg_tensor *t, rg_dtype d) {
    if (rgi_is_float(t->dtype))
        return rgi_number_fits(op, rgi_load_f64(t->data, t->dtype), d);
    return (rgi_is_float(d) && !rgi_is_half(d))
           || rgi_whole_fits(op, rgi_load_i64(t->data, t->dtype), d);
}

bool rgi_factor_fits(const char *op, double v, rg_dtype d) {
    const bool whole = rgi_is_byte(d) && v == trunc(v) && fabs(v) < 0x1p63;
    return whole ? rgi_whole_fits(op, (int64_t)v, d) : rgi_number_fits(op, v, d);
}

rg_tensor *rgi_flat_in(const rg_step *s, rg_tensor *x, rg_tensor *gx) {
    return s->create_graph ? rg_where(rg_zeros_dims(RG_DIMS(), RG_BOOL), x, gx) : gx;
}

rg_tensor *rgi_flat_in_input(const rg_step *s, rg_tensor *gx) {
    const rg_edge *e = &s->node->edge[s->input];
    if (!s->create_graph)
        return gx;
    rg_tensor *zeros = rgi_input_zeros(s);
    return zeros ? rgi_flat_in(s, rgi_join(zeros, e->node, e->output), gx) : NULL;
}

bool rgi_elementwise_forward(rg_call *c) {
    return k_run_with(c->op->kernel, c->out[0], c->in, NUMBERS_OF(c));
}

/* Returns the saved value that the op's rule reads: the output if the rule needs it, else the
 * input. */
static rg_tensor *slope_value(const rg_step *s) {
    return s->op->grad[0].needs == RG_OUTPUT ? rgi_saved_output(s) : rgi_saved(s, 0);
}

bool rgi_elementwise_slope(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *in[] = { rgi_step_g(s, 0), slope_value(s) };
    if (!in[0] || !in[1])
        return false;
    gin[0] = rgi_new_between((rg_dtype)in[1]->dtype, 2, in);
    return gin[0] && k_run_with(s->op->slope, gin[0], in, NUMBERS_OF(s));
}

bool rgi_elementwise_slope_by_value(const rg_step *s, rg_tensor *gin[]) {
    rg_tensor *g = rgi_step_g(s, 0);
    rg_tensor *v = slope_value(s);
    if (!g || !v)
        return false;
    gin[0] = rgi_new_between((rg_dtype)v->dtype, 2, (rg_tensor *[]){ v, g });
    return gin[0] && k_run_with(s->op->slope, gin[0], (rg_tensor *[]){ g, v }, NUMBERS_OF(s));
}
