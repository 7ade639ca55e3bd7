/*
 * op.h: the row that describes an op, and the functions that an op's paragraph may use. One op is
 * one paragraph in autograd/ops/: its public function, shape, forward, derivative, and the row that
 * ties them together; everything else (recording, the engine, derived tests, drawing, profiling)
 * reads the row. The graph's nodes are declared in node.h, and the run over them in engine.h.
 *
 * An application is a call: (row, attributes, inputs, outputs).
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

/* ---- an application --------------------------------------------------------------- */

/* `attr` points to the op's own struct. An element of `in` is RG_NONE if an optional input is
 * absent. The dtype of each output is preset to in[0]'s. If inputs were converted, `given` has the
 * original ones; else it is NULL. */
typedef struct rg_call {
    const rg_op *op;
    const void *attr;
    int n_in, n_out;
    rg_tensor *const *in;
    rg_tensor *out[RG_MAX_OUTPUTS];
    rg_tensor *const *given;
} rg_call;

/* One step of a backward run: it computes the gradients of a node's inputs from those of its
 * outputs. A rule computes the gradient of the input with index `input`. g[k] is the gradient of
 * output k, or NULL if none reached it. `wanted` is the RG_IN mask of the inputs whose gradients
 * are wanted, among the first RG_INPUTS. */
typedef struct rg_step {
    rg_node *node;
    const rg_op *op;
    const void *attr;
    int n_in, input;
    rg_tensor *const *g;
    bool create_graph;
    uint32_t wanted;
} rg_step;

/* Masks of values: a gradient names the values that it needs, and only these are saved for
 * backward. RG_IN(i) is the value of input i, for i below RG_INPUTS, and RG_OUT(i) the value of
 * output i. */
#define RG_IN(i)  (1u << (i))
#define RG_INPUTS 24
#define RG_OUT(i) (1u << (RG_INPUTS + (i)))
#define RG_OUTPUT RG_OUT(0)

/* A rule returns the gradient of an input, given g, the gradient of the first output. It is written
 * in the library's own differentiable functions, so that derivatives of derivatives come free. The
 * engine sums the gradient down to the input's shape if the input was broadcast, and casts it to
 * the input's dtype. RG_NONE stands for zero. */
typedef rg_tensor *rg_rule(const rg_step *s, rg_tensor *g);

typedef struct rg_gradient {
    uint32_t needs;
    rg_rule *rule;
    /* Adds the gradient to a buffer in which all gradients of the input are summed, such as those
     * of its slices. The engine calls it instead of the rule, unless a graph of the gradient is
     * wanted. */
    bool (*into)(const rg_step *s, rg_tensor *g, rg_tensor *buffer);
} rg_gradient;

/* ---- the row ---------------------------------------------------------------------- */

/* The conversion of the inputs (or only those in the row's `typed` mask) before a call: none, or to
 * one dtype. That is torch's result type, or the default dtype if the result type is an integer or
 * bool and the op is RG_FLOATED. */
typedef enum rg_typing { RG_AS_GIVEN, RG_PROMOTED, RG_FLOATED } rg_typing;

/* A sample describes inputs with which an op is tested. Each is a shape; a letter before the shape
 * gives the kind of its values:
 *     (2,3)    float, normal             p(2,3)  positive        u(3)  in (0.05, 0.95)
 *     s(3)     in (-0.95, 0.95)          d(4)    distinct, at least 0.1 apart
 *     z(3)     away from 0 and from every half-integer
 *     i5(2,3)  int64 in [0, 5)           b(3)    bool            -     RG_NONE */
typedef struct rg_sample {
    const char *inputs;
    const void *attr;
} rg_sample;

/* For the profiler: the work of an op that computes products. The op computes `times` products; 0
 * means that it computes none. An element of a product is a sum of terms. Their number is the size
 * of in[input] along the dim that is number `from_last` from the end, where 1 is the last. A step
 * computes one product for each gradient in the RG_IN mask `gradients`, and `extra` further
 * products. `share` returns a factor of the number of terms, for an op that computes only a part of
 * them, or more. */
typedef struct rg_terms {
    uint8_t times, input, from_last;
    uint8_t gradients, extra;
    double (*share)(const void *attr, int64_t rows, int64_t terms);
} rg_terms;

struct rg_op {
    const char *name, *doc;
    /* `node` is torch's name in grad_fn=<...>. If the name depends on the attributes, node_of
     * returns it; NULL stands for `node`. */
    const char *node;
    const char *(*node_of)(const void *attr);
    /* The number of inputs and outputs. An n_in of 0 allows any number, an n_out of 0 means one. */
    uint8_t n_in, n_out;
    uint8_t typing;
    uint32_t attr_size;
    /* RG_IN masks of the inputs that are converted (0 means all), and of those that may be
     * RG_NONE. */
    uint32_t typed, optional;
    /* Sets ndim, size (and dtype) of the outputs. */
    bool (*shape)(rg_call *c);
    /* Makes out[0] a view, in place of shape and forward. See rgi_view_begin. */
    bool (*view)(rg_call *c);
    /* The output's shape depends on the inputs' values, so a recorded step can't contain the op. */
    bool by_value;
    /* The shape function also checks values, such as indices out of range. A recorded step calls it
     * again in each run, since the values may have changed. */
    bool refuses_values;
    /* The op makes a view, and fails for strides with which the view is impossible. */
    bool some_strides;
    /* Computes the outputs. Returns false if it failed. */
    bool (*forward)(rg_call *c);
    /* The loops that compute out[0] if there is no forward. */
    const rg_kernel *kernel;
    /* One gradient for each input. If an op takes any number of inputs, the first gradient serves
     * all. */
    rg_gradient grad[RG_MAX_RULES];
    /* Makes the gradients of all wanted inputs (rgi_wants) at once, without recording, and stores a
     * new reference to the gradient of input i (rgi_new) in gin[i]. All of gin[] is NULL on entry.
     * If gin[i] stays NULL, the rule makes that gradient. The rules also define the right
     * result. */
    bool (*fused)(const rg_step *s, rg_tensor *gin[]);
    /* Makes all gradients in place of rules, recorded if the step creates a graph. Only users' ops
     * have it: their n_in is 0, and they take up to RG_INPUTS inputs. */
    bool (*together)(const rg_step *s, rg_tensor *gin[]);
    /* The reason why the op has no derivative, or NULL if it has one. */
    const char *no_grad;
    rg_terms terms;
    /* The op is elementwise, so its forward may write over in[0]. */
    bool inplace;
    /* out[0] gets the inputs' strides (rgi_lay_out_between). Otherwise the shape function sets the
     * strides, or the output is contiguous. */
    bool laid_between;
    /* The kernel that makes an elementwise op's gradient in one pass, for the functions in
     * ops/elementwise.h. */
    const rg_kernel *slope;
    /* The samples. The inputs of the last one are NULL. */
    const rg_sample *samples;
};

static inline const rg_gradient *rgi_gradient_of(const rg_op *op, int input) {
    return &op->grad[op->n_in ? input : 0];
}

/* All ops, in the order of ops.def. */
extern const rg_op *const rgi_ops[];
extern const int rgi_n_ops;
#define OP(name) extern const rg_op rg_op_##name;
#include "ops.def"
#undef OP

#define RG_OP(ident, ...) const rg_op rg_op_##ident = { .name = #ident, __VA_ARGS__ }
#define RG_RULE(needs_, rule_) \
    { .needs = (needs_), .rule = (rule_) }
#define RG_RULE_INTO(needs_, rule_, into_) \
    { .needs = (needs_), .rule = (rule_), .into = (into_) }
/* The gradient of an input that has none, such as an index. */
#define RG_NO_RULE \
    { .needs = 0 }
#define RG_SAMPLES(...)              \
    .samples = (const rg_sample[]) { \
        __VA_ARGS__, { NULL, NULL }  \
    }
/* RG_A writes an op's attributes, and RG_D dims among them. */
#define RG_A(ident, ...) \
    &(const struct ident##_attr) { __VA_ARGS__ }
#define RG_D(...)                                                                    \
    {                                                                                \
        (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } \
    }
#define RG_ATTR(s, ident) ((const struct ident##_attr *)(s)->attr)
/* RG_ELEMENTWISE is for an op whose output element i depends only on the inputs' elements i. */
#define RG_ELEMENTWISE .inplace = true, .laid_between = true
/* Parts of a row: RG_MADE sets shape and forward by the op's name, and RG_WITH the size of its
 * attributes. RG_NAMED is for attributes that begin with torch's name of the node, or NULL. */
#define RG_MADE(ident)  .shape = ident##_shape, .forward = ident##_forward
#define RG_WITH(ident)  .attr_size = sizeof(struct ident##_attr)
#define RG_NAMED(ident) RG_WITH(ident), .node_of = rgi_named
static inline const char *rgi_named(const void *attr) { return *(const char *const *)attr; }
struct rg_no_attr {
    char none[0];
};
#define RG_NO_ATTR ((const struct rg_no_attr *)NULL)
/* Returns whether the op is rg_op_ident or a copy of that row, as tests make one: it compares the
 * names. */
#define RG_IS(op, ident) ((op)->name == rg_op_##ident.name)

/* ---- applying (apply.c, inplace.c) ------------------------------------------------
 * RG_APPLY(softmax, RG_A(softmax, .dim = dim), x) checks the inputs, runs the
 * op, records it, and gives the result to the scope. */
rg_tensor *rgi_apply(const rg_op *op, const void *attr, size_t attr_size, int n,
                     rg_tensor *const in[]);
bool rgi_apply_outputs(const rg_op *op, const void *attr, size_t attr_size, int n,
                       rg_tensor *const in[], rg_tensor *out[]);
/* Applies an op that returns values and indices. If `ok` is false, since a check has failed, it
 * returns NULLs. */
static inline rg_values_indices rgi_apply_two(bool ok, const rg_op *op, const void *attr,
                                              size_t attr_size, rg_tensor *x) {
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (ok)
        rgi_apply_outputs(op, attr, attr_size, 1, &x, out);
    return (rg_values_indices){ out[0], out[1] };
}
/* Applies an op, writes the result over in[0], and returns in[0]. The name is the function's, such
 * as "add_". */
rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]);
#define RG_APPLY(ident, attr, ...)                                                                \
    rgi_apply(&rg_op_##ident, (attr), sizeof *(attr), RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), \
              (rg_tensor *[]){ __VA_ARGS__ })
#define RG_APPLY_(ident, attr, ...)                                       \
    rgi_apply_inplace(#ident "_", &rg_op_##ident, (attr), sizeof *(attr), \
                      RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), (rg_tensor *[]){ __VA_ARGS__ })

/* Runs the op's kernel in one loop over all elements. Requires that each tensor is contiguous, has
 * in[0]'s dtype, and has in[0]'s shape or one element. Returns false if the kernel has no loop for
 * the dtype. */
static inline bool rgi_run_alike(const rg_call *c) {
    rg_tensor *y = c->out[0];
    char *p[RG_MAX_OPERANDS] = { y->data };
    int64_t size = (int64_t)rgi_sizeof(y->dtype), steps[RG_MAX_OPERANDS] = { size };
    for (int i = 0; i < c->n_in; i++) {
        p[i + 1] = c->in[i]->data;
        steps[i + 1] = c->in[i]->ndim ? size : 0;
    }
    rg_loop *loop = c->op->kernel->by_dtype[y->dtype][k_set];
    if (RG_UNLIKELY(!loop || y->numel >= RG_LARGE))
        return k_run_with(c->op->kernel, y, c->in, NULL);
    loop(p, steps, y->numel, NULL);
    return true;
}

/* A function that is composed of other functions. It opens a scope for the intermediate results,
 * and errors inside it carry its name. */
#define RG_COMPOSITE(name, expression) \
    __extension__({                    \
        RG_AS(name);                   \
        RG_SCOPE();                    \
        rg_escape(expression);         \
    })

/* ---- shapes and views that many ops share (op.c) ---------------------------------- */
/* Gives each output the shape of in[0]. */
bool rgi_shape_same(rg_call *c);
/* Gives each output in[0]'s shape, and out[0] also in[0]'s strides (rgi_lay_out_as). */
bool rgi_shape_kept(rg_call *c);
/* Give out[0] the shape that the inputs broadcast to. The second also makes its dtype bool. */
bool rgi_shape_broadcast(rg_call *c);
bool rgi_shape_broadcast_bool(rg_call *c);
/* Gives out[0] the storage, shape and strides of in[0]. The view function then changes size, stride
 * and data, and calls rgi_view_end, which counts the elements and sets the flags. */
void rgi_view_begin(rg_call *c);
bool rgi_view_end(rg_call *c);
/* Returns whether x can be expanded to the shape. A size of -1 leaves a dim as it is. */
bool rgi_may_expand(const char *op, const rg_tensor *x, rg_dims shape);

/* A part of a tensor: an index or a range of one dim, a diagonal of two dims, or all of the tensor
 * with a new dim of size 1. `start` is also the index, or the diagonal's offset. `node` is torch's
 * name of the node, or NULL for the op's own. `number` is the index of the part in a list of
 * parts. */
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
/* Narrows a header to the part. Requires that the part lies within it. */
void rgi_take_part(rg_tensor *t, const rg_part *p);
#define RG_PART_HEADER(name, t, part) \
    rg_tensor name = (t);             \
    rgi_take_part(&name, part)
/* Returns the part as a view: select, slice, diagonal, or unsqueeze. */
rg_tensor *rgi_part_of(rg_tensor *x, const rg_part *p);
/* Returns the number of elements in Python's start:end:step of a dim, for a positive step. Sets
 * *start to the first of them. */
int64_t rgi_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step);

/* ---- in a rule (step.c) ------------------------------------------------------------ */
/* rgi_saved returns an input's saved value, or RG_NONE if the input was absent. The others return
 * an output's saved value. */
rg_tensor *rgi_saved(const rg_step *s, int input);
rg_tensor *rgi_saved_output(const rg_step *s);
rg_tensor *rgi_saved_output_at(const rg_step *s, int output);
/* Returns the gradient of an output, or zeros if none reached it. */
rg_tensor *rgi_step_g(const rg_step *s, int output);
/* Return facts about an input. They need no saved value, only that the input requires grad. The
 * last one returns zeros like the input whose gradient the rule makes. */
rg_dims rgi_input_dims(const rg_step *s, int input);
const int64_t *rgi_input_size(const rg_step *s, int input);
int rgi_input_ndim(const rg_step *s, int input);
rg_dtype rgi_input_dtype(const rg_step *s, int input);
rg_tensor *rgi_input_zeros(const rg_step *s);
/* Returns whether a fused derivative has to make the gradient of this input. */
static inline bool rgi_wants(const rg_step *s, int input) { return s->wanted >> input & 1; }
/* A rule that returns g: the engine sums over broadcast dims, and converts the dtype. */
rg_rule rgi_rule_same;

/* ---- the thread's grad mode -------------------------------------------------------- */
/* True if nothing is recorded: grad mode is off, or inference mode is on. */
extern __thread bool rgi_grad_off __attribute__((tls_model("initial-exec")));

/* ---- functions for several paragraphs ---------------------------------------------- */
static inline bool rgi_check_optional(rg_tensor *t, const char *op) {
    return rgi_is_none(t) || rgi_check(t, op);
}
/* Returns a copy of x that is contiguous. */
rg_tensor *rgi_contiguous_clone(rg_tensor *x);
/* rgi_to_as is rg_to with another name for the node. rgi_copied returns a copy, contiguous or with
 * the given strides; its node has torch's name for a copy into .grad. */
rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype);
rg_tensor *rgi_copied(rg_tensor *x, const int64_t *stride);
/* Returns x in another shape with the same number of elements. Requires that x has no other owner.
 * `node` is the node's name. */
rg_tensor *rgi_reshape_own(const char *node, rg_tensor *x, rg_dims shape);
/* Writes a value over x, converted to x's dtype. The values that x had get no gradient. */
rg_tensor *rgi_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value);
/* Makes contiguous copies of n tensors, NULL for RG_NONE. The caller releases all copies, also if
 * it returns false because one couldn't be made. */
bool rgi_contiguous_copies(int n, rg_tensor *copy[], rg_tensor *const t[]);
void rgi_release_all(int n, rg_tensor *t[]);
/* Returns softmax(x), with zeros for rows in which all elements are -inf. */
rg_tensor *rgi_safe_softmax(rg_tensor *x, int dim);
