/*
 * test_default_dtype.c: every public function of autograd/ops/ops.h, on float32 tensors under
 * another default dtype. As in torch, the results and the gradients must have the dtype and the
 * bits that they have under float32. The arguments are those of the golden cases.
 *
 *     build/tests/autograd/test_default_dtype              all functions
 *     build/tests/autograd/test_default_dtype softmax      these
 */
#include "op_calls.h"
#include "tensor/dtype.h"
#include "tensor/kernels/copy.h"
#include "tensor/structs.h"

#include "tests/test.h"

/* The tensors of a call that require grad, in the order of its arguments. */
typedef struct {
    int n;
    rg_tensor *v[OP_LIST];
} leaves;

/* The results of a call, followed by the gradients of its leaves. */
typedef struct {
    int n;
    rg_tensor *t[OP_OUTPUTS + OP_LIST];
} outcome;

static bool is_tensor(const rg_tensor *t) { return t && t != RG_NONE && !(t->flags & RG_WEAK); }

/* Returns a copy of t with t's strides, and adds it to the leaves if t requires grad. */
static rg_tensor *copied(rg_tensor *t, leaves *l) {
    if (!is_tensor(t))
        return t;
    RG_NO_GRAD();
    rg_dims stride = { .n = rg_ndim(t) };
    memcpy(stride.v, t->stride, sizeof stride.v);
    rg_tensor *y = op_strided(rg_shape(t), stride, t->dtype);
    rgi_copy_elements(y, t);
    if (rg_requires_grad(t))
        l->v[l->n++] = rg_requires_grad_(y, true);
    return y;
}

/* Copies the arguments, so that the call may write to them. */
static void copy_arguments(op_case *c, leaves *l) {
    l->n = 0;
    for (int i = 0; i < c->n_args; i++) {
        op_argument *a = &c->arg[i];
        if (strchr("tn", a->kind))
            a->t = copied(a->t, l);
        for (int k = 0; k < a->list.n; k++)
            a->item[k] = copied(a->item[k], l);
        a->list.v = a->item;
    }
    const size_t length = strlen(c->function);
    if (c->function[length - 1] == '_' && !c->direct)
        c->arg[0].t = rg_clone(c->arg[0].t);
}

/* Returns whether all floating tensors among the arguments are float32, and there is one. */
static bool takes_floats(const op_case *c) {
    int floats = 0, others = 0;
    for (int i = 0; i < c->n_args; i++) {
        const op_argument *a = &c->arg[i];
        for (int k = -1; k < a->list.n; k++) {
            rg_tensor *t = k < 0 ? a->t : a->item[k];
            if ((k < 0 && !strchr("tn", a->kind)) || !is_tensor(t) || !rg_is_floating_point(t))
                continue;
            floats += t->dtype == RG_FLOAT32;
            others += t->dtype != RG_FLOAT32;
        }
    }
    return floats && !others;
}

/* Calls the function and its derivative under the default dtype. */
static outcome outcome_of(const op_case *given, const op_call *f, rg_dtype dtype) {
    op_case c = *given;
    leaves l;
    outcome o = { 0 };
    copy_arguments(&c, &l);
    rg_error_clear();
    rg_manual_seed(42);
    rg_set_default_dtype(dtype);
    op_result r = f->call(c.arg);
    rg_tensor *y[OP_OUTPUTS], *cotangent[OP_OUTPUTS], *g[OP_LIST];
    int n = 0;
    for (int k = 0; k < r.n; k++) {
        o.t[o.n++] = r.t[k];
        if (!rg_requires_grad(r.t[k]))
            continue;
        y[n] = r.t[k];
        cotangent[n++] = op_cotangent((unsigned)k, r.t[k]);
    }
    const rg_backward_options how = { .gradient = RG_NONE, .allow_unused = true };
    if (n && l.n && rg_grad_many(n, y, cotangent, l.n, l.v, g, how))
        for (int i = 0; i < l.n; i++)
            o.t[o.n++] = g[i];
    rg_set_default_dtype(RG_FLOAT32);
    rg_error_clear();
    return o;
}

static bool same_bits(rg_tensor *a, rg_tensor *b) {
    if (a == RG_NONE || b == RG_NONE)
        return a == b;
    if (rg_dtype_of(a) != rg_dtype_of(b) || !rgi_same_shape(a, b))
        return false;
    rg_tensor *x = rg_contiguous(rg_detach(a)), *y = rg_contiguous(rg_detach(b));
    const size_t bytes = (size_t)rg_numel(a) * rgi_sizeof((rg_dtype)rg_dtype_of(a));
    return !bytes || memcmp(rg_data(x), rg_data(y), bytes) == 0;
}

static void check_case(const op_case *c, const op_call *f) {
    static const rg_dtype dtypes[] = { RG_FLOAT64, RG_BFLOAT16, RG_FLOAT16 };
    if (!takes_floats(c))
        return;
    outcome wanted = outcome_of(c, f, RG_FLOAT32);
    for (int d = 0; d < RG_COUNT(dtypes); d++) {
        outcome is = outcome_of(c, f, dtypes[d]);
        ck_each(is.n == wanted.n, "%s, line %d, under %s: other results", f->name, c->line,
                rg_dtype_name(dtypes[d]));
        for (int k = 0; k < is.n; k++)
            ck_each(same_bits(is.t[k], wanted.t[k]),
                    "%s, line %d, under %s: result %d is %s, not %s", f->name, c->line,
                    rg_dtype_name(dtypes[d]), k, rg_repr(is.t[k]), rg_repr(wanted.t[k]));
    }
}

START_TEST(test_function) {
    const op_call *f = &op_calls[_i];
    golden_file file;
    static op_case c;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/ops", golden_folder());
    if (!op_is_asked(f) || !golden_open_in(&file, folder, f->name))
        return;
    for (bool more = true; more;) {
        RG_SCOPE();
        more = op_case_next(&file, &c);
        if (more && !c.error.kind)
            check_case(&c, f);
        rg_error_clear();
    }
    golden_close(&file);
}
END_TEST

static void say_nothing(const char *message) { (void)message; }

int main(int argc, char **argv) {
    rg_on_warning(say_nothing);
    op_note_named(argc, argv);
    TCase *tcase = rg_tcase("default_dtype");
    tcase_add_loop_test(tcase, test_function, 0, (int)(sizeof op_calls / sizeof op_calls[0]));
    return rg_run("default_dtype", tcase) ? EXIT_FAILURE : EXIT_SUCCESS;
}
