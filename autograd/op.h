/*
 * op.h: declares the struct that describes an op (rg_op), and functions for the files of ops. An op
 * is one section of a file in autograd/ops/: its public function, shape function, forward function
 * and derivatives, and a constant of type rg_op that points to these functions. This constant is
 * called the op's row. Recording, the backward engine, the tests that are made for each op, drawing
 * and profiling read only the row. The graph's nodes are declared in node.h, and the engine in
 * engine.h.
 *
 * A call (rg_call) is one application of an op: the row, attributes, inputs and outputs.
 */
#pragma once

#include "autograd.h"
#include "ops/ops.h"
#include "tensor/base.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/kernels/kernels.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/walk.h"

#define RG_MAX_OUTPUTS 8
#define RG_MAX_RULES   6
#define RG_MAX_INPUTS  1024

typedef struct rg_op rg_op;
typedef struct rg_node rg_node;

/* ---- calls and steps -------------------------------------------------------------- */

/* A call of an op. `attr` points to a struct of the op's own type. An element of `in` is RG_NONE if
 * an optional input is absent. Before the shape function runs, the dtype of each output is set to
 * that of in[0]. If inputs may have been converted to another dtype, `given` points to the inputs
 * before the conversion; otherwise it is NULL. */
typedef struct rg_call {
    const rg_op *op;
    const void *attr;
    int n_in, n_out;
    rg_tensor *const *in;
    rg_tensor *out[RG_MAX_OUTPUTS];
    rg_tensor *const *given;
} rg_call;

/* The step of one node in a backward run: it computes the gradients of the node's inputs from the
 * gradients of its outputs. `input` is the index of the input whose gradient a rule computes. g[k]
 * is the gradient of output k, or NULL if no gradient reached that output. Bit RG_IN(i) of `wanted`
 * is set if the gradient of input i is wanted; inputs from RG_INPUTS on have no bit. The step
 * of an op with 16-bit elements computes in float32: g has float32 copies, and wide[slot] is such a
 * copy of a saved value, or itself. In other steps `wide` is NULL. */
typedef struct rg_step {
    rg_node *node;
    const rg_op *op;
    const void *attr;
    int n_in, input;
    rg_tensor *const *g;
    bool create_graph;
    uint32_t wanted;
    rg_tensor *const *wide;
} rg_step;

/* Bits of a mask that names values of a call: RG_IN(i) stands for the value of input i, for i below
 * RG_INPUTS, and RG_OUT(i) for the value of output i. Each gradient rule comes with such a mask of
 * the values that it reads, and only these values are saved for the backward run. */
#define RG_IN(i)  (1u << (i))
#define RG_INPUTS 24
#define RG_OUT(i) (1u << (RG_INPUTS + (i)))
#define RG_OUTPUT RG_OUT(0)

/* A rule returns the gradient of one input, given g, the gradient of the first output. Rules call
 * the library's own differentiable functions, so that second and higher derivatives need no further
 * code. If the input was broadcast, the engine sums the returned gradient down to the input's
 * shape. It also converts the gradient to the input's dtype. If the gradient is zero, a rule
 * returns zeros (rgi_input_zeros), or RG_NONE where torch's gradient is None. */
typedef rg_tensor *rg_rule(const rg_step *s, rg_tensor *g);

typedef struct rg_gradient {
    uint32_t needs;
    rg_rule *rule;
    /* Adds the gradient to a buffer. The buffer sums the gradients that several nodes compute for
     * the same tensor, for example from several slices of it. The engine calls `into` instead of
     * the rule, unless a graph of the gradient is to be recorded. */
    bool (*into)(const rg_step *s, rg_tensor *g, rg_tensor *buffer);
} rg_gradient;

/* ---- the row that describes an op ------------------------------------------------- */

/* Says to which dtype the inputs (or only those in the row's mask `typed`) are converted before a
 * call. RG_AS_GIVEN: they are not converted. RG_PROMOTED: to torch's result type of all inputs.
 * RG_FLOATED: to the same type or, if that is an integer or bool, to the default dtype. */
typedef enum rg_typing { RG_AS_GIVEN, RG_PROMOTED, RG_FLOATED } rg_typing;

/* A sample describes inputs with which the tests call an op. `inputs` is a list of shapes. A letter
 * before a shape says which values the input has:
 *     (2,3)    float, normal             p(2,3)  positive        u(3)  in (0.05, 0.95)
 *     s(3)     in (-0.95, 0.95)          d(4)    distinct, at least 0.1 apart
 *     z(3)     away from 0 and from every half-integer
 *     i5(2,3)  int64 in [0, 5)           b(3)    bool            -     RG_NONE */
typedef struct rg_sample {
    const char *inputs;
    const void *attr;
} rg_sample;

/* Tells the profiler how to count the floating point operations of an op that computes products of
 * matrices, such as matmul. Forward computes `times` products; if `times` is 0, the op has none.
 * Each element of a product is a sum of terms. The number of terms is the size of one dim of
 * in[input]: from_last is the dim's place from the end, where 1 is the last dim. The backward step
 * computes one product for each gradient in the mask `gradients` (of RG_IN bits), and `extra`
 * further products. If `share` isn't NULL, the number of terms is multiplied by the factor that
 * `share` returns. */
typedef struct rg_terms {
    uint8_t times, input, from_last;
    uint8_t gradients, extra;
    double (*share)(const void *attr, int64_t rows, int64_t terms);
} rg_terms;

struct rg_op {
    const char *name, *doc;
    /* `node` is torch's name of the node, as printed in grad_fn=<...>. If the name depends on the
     * attributes, node_of returns it; if node_of returns NULL, the name is `node`. */
    const char *node;
    const char *(*node_of)(const void *attr);
    /* The numbers of inputs and outputs. If n_in is 0, the op takes any number of inputs. If n_out
     * is 0, it has one output. */
    uint8_t n_in, n_out;
    uint8_t typing;
    /* True if a divisor that is one number isn't rounded to 16 bits beside such elements. */
    bool exact_divisor;
    uint32_t attr_size;
    /* Masks of RG_IN bits. `typed` names the inputs that are converted (0 means all of them), and
     * `optional` names the inputs that may be RG_NONE. */
    uint32_t typed, optional;
    /* Checks the inputs, and sets the outputs' ndim, size and, if it isn't in[0]'s, dtype. */
    bool (*shape)(rg_call *c);
    /* Makes out[0], usually a view of in[0]. An op that has `view` has neither `shape` nor
     * `forward`. See rgi_view_begin. */
    bool (*view)(rg_call *c);
    /* True if the output's shape depends on the inputs' values. A training step with such an op
     * can't be recorded for replays (replay.h). */
    bool by_value;
    /* True if the shape function also checks values, such as indices that must be in range. Each
     * replay of a recorded training step then calls it again, since the values may have changed. */
    bool refuses_values;
    /* True if the op fails for some strides of the input, with which no view is possible. */
    bool some_strides;
    /* Computes the outputs. Returns false if that failed. */
    bool (*forward)(rg_call *c);
    /* The loops that compute out[0] if `forward` is NULL. */
    const rg_kernel *kernel;
    /* True if `forward` takes elements that are widened (tensor/dtype.h), as functions do that only
     * move elements. Others, and rules, get widened copies, and their results are narrowed. */
    bool moves;
    /* True if the first output that `view` makes has elements of the input. */
    bool finds_values;
    /* The gradient rule of each input. If the op takes any number of inputs, grad[0] is used for
     * all of them. */
    rg_gradient grad[RG_MAX_RULES];
    /* Computes the gradients of all wanted inputs (see rgi_wants) at once, without recording.
     * Stores the gradient of input i as a new reference (from rgi_new, for example) in gin[i]. On
     * entry all gin[i] are NULL. If gin[i] is still NULL on return, the engine calls the rule for
     * input i. An op with `fused` has rules as well. If the results differ, those of the rules are
     * right. */
    bool (*fused)(const rg_step *s, rg_tensor *gin[]);
    /* Computes all gradients in place of rules, and records the computation if the step creates a
     * graph. Only ops that users define have this function. Their n_in is 0, and they take up to
     * RG_INPUTS inputs. */
    bool (*together)(const rg_step *s, rg_tensor *gin[]);
    /* The reason why the op has no derivative. NULL if it has one. */
    const char *no_grad;
    rg_terms terms;
    /* True if the op may write its output over in[0], as elementwise ops can. */
    bool inplace;
    /* True if out[0] gets the inputs' strides (see rgi_lay_out_between). Otherwise the shape
     * function sets the strides, or the output is contiguous. */
    bool laid_between;
    /* The kernel that computes the gradient of an elementwise op in one pass over the data. The
     * functions in ops/elementwise.h call it. */
    const rg_kernel *slope;
    /* An array of samples. It ends with a sample whose `inputs` is NULL. */
    const rg_sample *samples;
};

static inline const rg_gradient *rgi_gradient_of(const rg_op *op, int input) {
    return &op->grad[op->n_in ? input : 0];
}

/* All ops, in the order of ops/ops.def. */
extern const rg_op *const rgi_ops[];
extern const int rgi_n_ops;
#define OP(name) extern const rg_op rg_op_##name;
#include "ops/ops.def"
#undef OP

#define RG_OP(ident, ...) const rg_op rg_op_##ident = { .name = #ident, __VA_ARGS__ }
#define RG_RULE(needs_, rule_) \
    { .needs = (needs_), .rule = (rule_) }
#define RG_RULE_INTO(needs_, rule_, into_) \
    { .needs = (needs_), .rule = (rule_), .into = (into_) }
/* The entry in `grad` for an input that has no gradient, such as an index. */
#define RG_NO_RULE \
    { .needs = 0 }
#define RG_SAMPLES(...)              \
    .samples = (const rg_sample[]) { \
        __VA_ARGS__, { NULL, NULL }  \
    }
/* RG_A expands to a pointer to an op's attributes, and RG_D to an rg_dims inside attributes. */
#define RG_A(ident, ...) \
    &(const struct ident##_attr) { __VA_ARGS__ }
#define RG_D(...)                                                                    \
    {                                                                                \
        (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } \
    }
#define RG_ATTR(s, ident) ((const struct ident##_attr *)(s)->attr)
/* Sets two fields of an op whose output element i depends only on the inputs' elements i. */
#define RG_ELEMENTWISE .inplace = true, .laid_between = true
/* Initializers for fields of an rg_op. RG_MADE(ident) sets `shape` and `forward` to ident_shape and
 * ident_forward. RG_WITH sets attr_size, the size of the attributes. RG_NAMED does the same, and
 * sets node_of. The first field of the attributes must then be torch's name of the node. If this
 * field is NULL, the rg_op's field `node` is the name. */
#define RG_MADE(ident)  .shape = ident##_shape, .forward = ident##_forward
#define RG_WITH(ident)  .attr_size = sizeof(struct ident##_attr)
#define RG_NAMED(ident) RG_WITH(ident), .node_of = rgi_named
static inline const char *rgi_named(const void *attr) { return *(const char *const *)attr; }
struct rg_no_attr {
    char none[0];
};
#define RG_NO_ATTR ((const struct rg_no_attr *)NULL)
/* Returns whether the op is rg_op_ident, or a copy of that row. Some tests make such copies, and
 * therefore the names are compared, not the addresses of the rows. */
#define RG_IS(op, ident) ((op)->name == rg_op_##ident.name)

/* ---- applying (apply.c, inplace.c) ------------------------------------------------
 * RG_APPLY(softmax, RG_A(softmax, .dim = dim), x) checks the inputs, computes the outputs, records
 * the call, and gives the result to the scope. */
rg_tensor *rgi_apply(const rg_op *op, const void *attr, size_t attr_size, int n,
                     rg_tensor *const in[]);
bool rgi_apply_outputs(const rg_op *op, const void *attr, size_t attr_size, int n,
                       rg_tensor *const in[], rg_tensor *out[]);
/* Applies an op that returns values and indices. The caller passes ok = false if an earlier check
 * has failed. Then the op isn't applied. If `ok` is false or the op fails, both fields of the
 * result are NULL. */
static inline rg_values_indices rgi_apply_two(bool ok, const rg_op *op, const void *attr,
                                              size_t attr_size, rg_tensor *x) {
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (ok)
        rgi_apply_outputs(op, attr, attr_size, 1, &x, out);
    return (rg_values_indices){ out[0], out[1] };
}
/* Applies an op, writes the result over in[0], and returns in[0]. `name` is the name of the public
 * function, such as "add_". */
rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]);
#define RG_APPLY(ident, attr, ...)                                                                \
    rgi_apply(&rg_op_##ident, (attr), sizeof *(attr), RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), \
              (rg_tensor *[]){ __VA_ARGS__ })
#define RG_APPLY_(ident, attr, ...)                                       \
    rgi_apply_inplace(#ident "_", &rg_op_##ident, (attr), sizeof *(attr), \
                      RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), (rg_tensor *[]){ __VA_ARGS__ })

/* Runs the op's kernel over all elements, in one loop unless there are RG_LARGE elements or more.
 * Requires that all tensors are contiguous and have the same dtype, and that each input has the
 * output's shape or no dims. The element of an input without dims is used for every element of the
 * output. Returns false, with an error, if the kernel has no loop for the dtype. */
static inline bool rgi_run_alike(const rg_call *c) {
    rg_tensor *y = c->out[0];
    char *p[RG_MAX_OPERANDS] = { y->data };
    int64_t size = (int64_t)rgi_sizeof(y->dtype), steps[RG_MAX_OPERANDS] = { size };
    for (int i = 0; i < c->n_in; i++) {
        p[i + 1] = c->in[i]->data;
        steps[i + 1] = c->in[i]->ndim ? size : 0;
    }
    rg_loop *loop = c->op->kernel->by_dtype[y->dtype][k_set_now()];
    if (RG_UNLIKELY(!loop || y->numel >= RG_LARGE))
        return k_run_with(c->op->kernel, y, c->in, NULL);
    loop(p, steps, y->numel, NULL);
    return true;
}

/* RG_COMPOSITE is the body of a public function that only calls other functions. Its value is that
 * of `expression`, which makes these calls. A scope around the expression owns the intermediate
 * results. Errors inside the expression carry the name `name`. */
#define RG_COMPOSITE(name, expression) \
    __extension__({                    \
        RG_AS(name);                   \
        RG_SCOPE();                    \
        rg_escape(expression);         \
    })

/* ---- shapes and views that many ops share (op.c) ---------------------------------- */
/* Gives each output the shape of in[0]. */
bool rgi_shape_same(rg_call *c);
/* Gives each output in[0]'s shape, and gives out[0] in[0]'s strides as well (rgi_lay_out_as). */
bool rgi_shape_kept(rg_call *c);
/* Give out[0] the shape to which the inputs broadcast. rgi_shape_broadcast_bool also sets the
 * output's dtype to bool. */
bool rgi_shape_broadcast(rg_call *c);
bool rgi_shape_broadcast_bool(rg_call *c);
/* rgi_view_begin gives out[0] the storage, shape and strides of in[0]. The view function then
 * changes size, stride and data. Last it calls rgi_view_end, which counts the elements and sets the
 * flags. */
void rgi_view_begin(rg_call *c);
bool rgi_view_end(rg_call *c);
/* Fails and returns false unless x can be expanded to the shape, where -1 stands for x's size. */
bool rgi_may_expand(const char *op, const rg_tensor *x, rg_dims shape);

/* A part of a tensor: the slice at one index of a dim, a range of a dim, a diagonal of two dims, or
 * the whole tensor with a new dim of size 1. `start` is the index, the beginning of the range, or
 * the diagonal's offset. `node` is torch's name of the node; if it is NULL, the op's own name is
 * used. If the part is one of a list of parts, `number` is its index in that list. */
typedef enum rg_part_kind { RG_AT_INDEX, RG_AT_RANGE, RG_AT_DIAGONAL, RG_AT_NEW } rg_part_kind;
typedef struct rg_part {
    const char *node;
    rg_part_kind kind;
    int dim, dim2;
    int number;
    int64_t start, length, step;
} rg_part;
#define RG_PART_NEW(dim_)       .kind = RG_AT_NEW, .dim = dim_
#define RG_PART_INDEX(dim_, at) .kind = RG_AT_INDEX, .dim = dim_, .start = at
#define RG_PART_RANGE(dim_, from, n, by) \
    .kind = RG_AT_RANGE, .dim = dim_, .start = from, .length = n, .step = by
#define RG_PART_DIAGONAL(dim_, dim2_, at, n) \
    .kind = RG_AT_DIAGONAL, .dim = dim_, .dim2 = dim2_, .start = at, .length = n
/* Changes a tensor header so that it shows only the part. Requires that the part lies within the
 * tensor. */
void rgi_take_part(rg_tensor *t, const rg_part *p);
#define RG_PART_HEADER(name, t, part)  \
    rg_tensor name = rgi_header_of(t); \
    rgi_take_part(&name, part)
/* Returns the part as a view, by applying the op select, slice, diagonal or unsqueeze. */
rg_tensor *rgi_part_of(rg_tensor *x, const rg_part *p);
/* Returns the number of elements in Python's start:end:step of a dim with `size` elements. Sets
 * *start to the index of the first of them. Requires that step is positive. */
int64_t rgi_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step);

/* ---- functions that a rule may call (step.c) --------------------------------------- */
/* rgi_saved returns an input's saved value, or RG_NONE if the input was absent. rgi_saved_output
 * returns the saved value of the first output, and rgi_saved_output_at that of output `output`. */
rg_tensor *rgi_saved(const rg_step *s, int input);
rg_tensor *rgi_saved_output(const rg_step *s);
rg_tensor *rgi_saved_output_at(const rg_step *s, int output);
/* Returns the gradient of an output, or zeros if no gradient reached that output. */
rg_tensor *rgi_step_g(const rg_step *s, int output);
/* The functions rgi_input_.. return facts about an input. They work even if the input's value
 * wasn't saved, since the node of an input that requires grad knows the shape and the dtype.
 * rgi_input_zeros returns zeros with the shape of input s->input, the one whose gradient the rule
 * computes. */
rg_dims rgi_input_dims(const rg_step *s, int input);
const int64_t *rgi_input_size(const rg_step *s, int input);
int rgi_input_ndim(const rg_step *s, int input);
rg_dtype rgi_input_dtype(const rg_step *s, int input);
rg_tensor *rgi_input_zeros(const rg_step *s);
/* Returns whether a fused derivative has to compute the gradient of this input. */
static inline bool rgi_wants(const rg_step *s, int input) { return s->wanted >> input & 1; }
/* A rule that returns g. The engine then sums g over broadcast dims, and converts its dtype. */
rg_rule rgi_rule_same;

/* ---- the thread's grad mode -------------------------------------------------------- */
/* True if calls are not recorded: grad mode is off, or inference mode is on. */
extern __thread bool rgi_grad_off __attribute__((tls_model("initial-exec")));

/* ---- functions that several ops use ------------------------------------------------ */
/* The bit that the dtypes have whose elements are widened (tensor/dtype.h), and no others. */
enum { RG_WIDENED_BIT = RG_BFLOAT16 & RG_FLOAT16 & RG_UINT8 };
/* Computes the outputs of a call that has such inputs: the op computes with widened copies of them,
 * and the results are narrowed (ops/half.c). */
bool rgi_run_widened(rg_call *c);
/* Return the dtype to which input i of such a call is converted, and the dtype of its output. */
rg_dtype rgi_dtype_beside_half(const rg_op *op, int i, rg_tensor *const in[], rg_dtype dtype);
rg_dtype rgi_dtype_made_widened(const rg_call *c);
static inline bool rgi_check_optional(rg_tensor *t, const char *op) {
    return rgi_is_none(t) || rgi_check(t, op);
}
/* Returns a contiguous copy of x, recorded by the op clone. */
rg_tensor *rgi_contiguous_clone(rg_tensor *x);
/* rgi_to_as is rg_to, but its node is named `node`. rgi_copied returns a copy of x with the given
 * strides, or a contiguous copy if stride is NULL; its node is named "CopyBackwards", as when torch
 * copies a gradient into .grad. */
rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype);
rg_tensor *rgi_copied(rg_tensor *x, const int64_t *stride);
/* Returns x in another shape with the same number of elements. Requires that nobody else holds a
 * reference to x. `node` is the node's name. */
rg_tensor *rgi_reshape_own(const char *node, rg_tensor *x, rg_dims shape);
/* Converts value to x's dtype, writes it over x, and returns x. The earlier values of x get no
 * gradient. */
rg_tensor *rgi_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value);
/* Stores contiguous copies of n tensors in copy[]. The copy of RG_NONE is NULL. Returns false if
 * memory ran out. The caller releases all copies, also on failure. */
bool rgi_contiguous_copies(int n, rg_tensor *copy[], rg_tensor *const t[]);
void rgi_release_all(int n, rg_tensor *t[]);
/* Returns softmax(x), with zeros for rows in which all elements are -inf. */
rg_tensor *rgi_safe_softmax(rg_tensor *x, int dim);
