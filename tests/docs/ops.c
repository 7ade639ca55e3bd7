/*
 * ops.c: prints what the rows of ops say and what their samples show, for site.py. A line is a key,
 * a tab, and a value, in which a backslash and an n stand for the end of a line. The keys are:
 *
 *     op, formula, inputs, derivative, node     from the row; op comes first
 *     in place, fused                           where the row has it, without a value
 *     shapes                                    a sample's shapes: of its inputs and its outputs
 *     dtypes                                    a dtype of float inputs, and that of the output
 *     input, output                             a tensor of the first sample
 */
#include "tests/autograd/derive.h"

#include <stdio.h>

static const char *derivative_of(const rg_op *op) {
    if (op->no_grad)
        return op->no_grad;
    for (int r = 0; r < RG_MAX_RULES; r++)
        if (op->grad[r].rule)
            return "yes";
    return op->together || op->fused ? "yes" : "none, since the result is of integers or bools";
}

static void print_line(const char *key, const char *value) {
    printf("%s\t", key);
    for (const char *p = value; *p; p++)
        if (*p == '\n')
            printf("\\n");
        else
            putchar(*p);
    putchar('\n');
}

static void print_shape(rg_tensor *t) {
    rg_dims shape = rg_shape(t);
    printf("(");
    for (int i = 0; i < shape.n; i++)
        printf("%s%lld", i ? ", " : "", (long long)shape.v[i]);
    printf(")");
}

static void print_shapes(int n, rg_tensor *const t[]) {
    for (int i = 0; i < n; i++) {
        printf("%s", i ? ", " : "");
        if (t[i] == RG_NONE)
            printf("none");
        else
            print_shape(t[i]);
    }
}

/* Converts the sample's floating-point inputs to `dtype`, and applies the op to all inputs. Returns
 * the number of inputs, or -1 if the op refuses them. */
static int apply(const rg_op *op, const rg_sample *s, rg_dtype dtype, rg_tensor *in[],
                 rg_tensor *out[]) {
    RG_NO_GRAD();
    int n = derive_inputs(s->inputs, RG_FLOAT32, in);
    for (int i = 0; i < n; i++)
        if (in[i] != RG_NONE && rg_is_floating_point(in[i]) && dtype != RG_FLOAT32)
            in[i] = rg_to(in[i], dtype);
    if (n >= 0 && rgi_apply_outputs(op, s->attr, op->attr_size, n, in, out))
        return n;
    rg_error_clear();
    return -1;
}

static int outputs_of(const rg_op *op) { return op->n_out ? op->n_out : 1; }

static void print_samples(const rg_op *op) {
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    for (const rg_sample *s = op->samples; s && s->inputs; s++) {
        RG_SCOPE();
        int n = apply(op, s, RG_FLOAT32, in, out);
        if (n < 0)
            continue;
        printf("shapes\t");
        print_shapes(n, in);
        printf(" → ");
        print_shapes(outputs_of(op), out);
        printf("\n");
    }
    const rg_sample *first = op->samples;
    for (int d = RG_BOOL; first && first->inputs && d <= RG_FLOAT64; d++) {
        RG_SCOPE();
        if (apply(op, first, (rg_dtype)d, in, out) >= 0)
            printf("dtypes\t%s → %s\n", rg_dtype_name((rg_dtype)d),
                   rg_dtype_name((rg_dtype)rg_dtype_of(out[0])));
    }
}

static void print_example(const rg_op *op) {
    rg_tensor *in[RG_MAX_INPUTS], *out[RG_MAX_OUTPUTS];
    const rg_sample *first = op->samples;
    RG_SCOPE();
    int n = first && first->inputs ? apply(op, first, RG_FLOAT32, in, out) : -1;
    for (int i = 0; i < n; i++)
        if (in[i] != RG_NONE)
            print_line("input", rg_repr(rg_detach(in[i])));
    for (int i = 0; n >= 0 && i < outputs_of(op); i++)
        if (out[i])
            print_line("output", rg_repr(out[i]));
}

int main(void) {
    for (int i = 0; i < rgi_n_ops; i++) {
        const rg_op *op = rgi_ops[i];
        print_line("op", op->name);
        print_line("formula", op->doc);
        printf("inputs\t%d\n", op->n_in);
        print_line("derivative", derivative_of(op));
        if (op->node)
            print_line("node", op->node);
        if (op->inplace)
            print_line("in place", "");
        if (op->fused)
            print_line("fused", "");
        print_samples(op);
        print_example(op);
    }
    return 0;
}
