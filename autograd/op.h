/*
 * op.h: what an op is made of. One op is one paragraph in autograd/ops/: its
 * public function, shape, forward, derivative, and the row that ties them
 * together; everything else (recording, the engine, derived tests, drawing,
 * profiling) reads the row.
 *
 * An application is a call: (row, attributes, inputs, outputs).
 */
#pragma once

#include "autograd.h"
#include "ops.h"
#include "tensor/internal.h"
#include "tensor/kernels/kernels.h"

#define RG_MAX_OUTPUTS 3
#define RG_MAX_RULES   6
#define RG_MAX_INPUTS  1024 /* of cat and its kind */

typedef struct rg_op rg_op;
typedef struct rg_node rg_node;

typedef struct rg_call {
    const rg_op *op;
    const void *attr; /* the op's own struct */
    int n_in, n_out;
    rg_tensor *const *in;           /* RG_NONE where an optional one is absent */
    rg_tensor *out[RG_MAX_OUTPUTS]; /* dtype preset to in[0]'s */
} rg_call;

/* One step of a backward run: an application, seen from its node. */
typedef struct rg_step {
    rg_node *node;
    const rg_op *op;
    const void *attr;
    int n_in, input;     /* input: whose gradient the rule is asked for */
    rg_tensor *const *g; /* one gradient for each output, NULL: none reached it */
    bool create_graph;
    /* RG_IN mask of the (first 24) inputs whose gradient is wanted */
    uint32_t wanted;
} rg_step;

/* What a gradient needs of the application's values; only that is kept alive. */
#define RG_IN(i)  (1u << (i))               /* the value of input i */
#define RG_INPUTS 24                        /* that masks have a place for */
#define RG_OUT(i) (1u << (RG_INPUTS + (i))) /* the value of output i */
#define RG_OUTPUT RG_OUT(0)

/* The gradient of an input, given g, that of the first output. Written in the
 * library's own differentiable functions, so that derivatives of derivatives
 * come free. The engine sums it down to the input's shape if the input was
 * broadcast, and casts it to the input's dtype. RG_NONE: zero. */
typedef rg_tensor *rg_rule(const rg_step *s, rg_tensor *g);

typedef struct rg_gradient {
    uint32_t needs;
    rg_rule *rule;
    /* Adds the gradient to the input's one buffer instead, where nobody wants
     * the graph of the gradient: what a slice does. */
    bool (*into)(const rg_step *s, rg_tensor *g, rg_tensor *buffer);
} rg_gradient;

/* Before an application, its tensors (those in the row's `typed` mask, if it has
 * one) are converted to one dtype. */
typedef enum rg_typing {
    RG_AS_GIVEN,
    RG_PROMOTED, /* torch's result type */
    RG_FLOATED,  /* the same, integers and bool to the default dtype */
} rg_typing;

/* Inputs to test an op with: shapes, each after a letter for its values:
 *     (2,3)    float, normal             p(2,3)  positive        u(3)  in (0.05, 0.95)
 *     s(3)     in (-0.95, 0.95)          d(4)    distinct, at least 0.1 apart
 *     z(3)     away from 0 and from every half-integer
 *     i5(2,3)  int64 in [0, 5)           b(3)    bool            -     RG_NONE */
typedef struct rg_sample {
    const char *inputs;
    const void *attr;
} rg_sample;

struct rg_op {
    const char *name, *doc;
    const char *node; /* torch's name in grad_fn=<...> */
    /* where that depends on the attributes; NULL: the above */
    const char *(*node_of)(const void *attr);
    uint8_t n_in;  /* 0: any number of them */
    uint8_t n_out; /* 0: one */
    uint8_t typing;
    uint32_t attr_size;          /* sizeof its struct, if it has attributes */
    uint32_t typed;              /* RG_IN masks; 0: all inputs */
    uint32_t optional;           /* RG_IN mask of inputs that may be RG_NONE */
    bool (*shape)(rg_call *c);   /* sets ndim, size (and dtype) of the outputs */
    bool (*view)(rg_call *c);    /* or: makes out[0] a view, after rgi_view_begin */
    bool by_value;               /* the shape depends on values: it can't be recorded */
    bool some_strides;           /* a view that not every input's strides allow */
    bool (*forward)(rg_call *c); /* false: failed, the error stands */
    const rg_kernel *kernel;     /* or: the loops, for what has no attributes */
    /* by input; of any number of inputs, the first one serves all */
    rg_gradient grad[RG_MAX_RULES];
    /* The gradients of every input that is wanted (rgi_wants), into gin[], NULL on entry, at
     * once and without recording; those it leaves at NULL go to their rule. A
     * new reference each (rgi_new). The rules are its specification. */
    bool (*fused)(const rg_step *s, rg_tensor *gin[]);
    const char *no_grad; /* why there is no derivative, if there is none */
    struct {             /* of a product, for the profiler */
        /* an element is the sum of `times` the size of that dim of in[input] */
        uint8_t times, input, from_last;
        /* RG_IN mask: each one's is as much; how many are made again for them */
        uint8_t gradients, again;
        /* of these that counts; NULL: all */
        double (*share)(const void *attr, int64_t rows, int64_t terms);
    } terms;
    bool inplace;             /* element by element: forward may write over in[0] */
    const rg_sample *samples; /* up to one with .inputs == NULL */
};

static inline const rg_gradient *rgi_gradient_of(const rg_op *op, int input) {
    return &op->grad[op->n_in ? input : 0];
}

extern const rg_op *const rgi_ops[]; /* every op, in the order of ops.def */
extern const int rgi_n_ops;
#define OP(name) extern const rg_op rg_op_##name;
#include "ops.def"
#undef OP

#define RG_OP(ident, ...) const rg_op rg_op_##ident = { .name = #ident, __VA_ARGS__ }
#define RG_RULE(needs_, rule_) \
    { .needs = (needs_), .rule = (rule_) }
#define RG_RULE_INTO(needs_, rule_, into_) \
    { .needs = (needs_), .rule = (rule_), .into = (into_) }
#define RG_NO_RULE \
    { .needs = 0 } /* an input without a gradient (indices) */
#define RG_SAMPLES(...)              \
    .samples = (const rg_sample[]) { \
        __VA_ARGS__, { NULL, NULL }  \
    }
#define RG_A(ident, ...) \
    &(const struct ident##_attr) { __VA_ARGS__ }
#define RG_D(...)                                                                    \
    {                                                                                \
        (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } \
    } /* dims in RG_A */
#define RG_ATTR(s, ident) ((const struct ident##_attr *)(s)->attr)
/* In a row: shape and forward by the op's name; attributes; those that begin with torch's name of
 * the node, or NULL. */
#define RG_MADE(ident)  .shape = ident##_shape, .forward = ident##_forward
#define RG_WITH(ident)  .attr_size = sizeof(struct ident##_attr)
#define RG_NAMED(ident) RG_WITH(ident), .node_of = rgi_named
static inline const char *rgi_named(const void *attr) { return *(const char *const *)attr; }
struct rg_no_attr {
    char none[0];
};
#define RG_IS(op, ident) \
    ((op)->name == rg_op_##ident.name) /* of a copy of the row, too, as tests make */
#define RG_NO_ATTR ((const struct rg_no_attr *)NULL)

/* ---- applying (record.c) --------------------------------------------------------
 * RG_APPLY(softmax, RG_A(softmax, .dim = dim), x) checks the inputs, runs the
 * op, records it, and gives the result to the scope. */
rg_tensor *rgi_apply(const rg_op *op, const void *attr, size_t attr_size, int n,
                     rg_tensor *const in[]);
bool rgi_apply_outputs(const rg_op *op, const void *attr, size_t attr_size, int n,
                       rg_tensor *const in[], rg_tensor *out[]);
/* Of one tensor that gives values and indices, unless something was wrong already. */
static inline rg_values_indices rgi_apply_two(bool ok, const rg_op *op, const void *attr,
                                              size_t attr_size, rg_tensor *x) {
    rg_tensor *out[RG_MAX_OUTPUTS] = { NULL };
    if (ok)
        rgi_apply_outputs(op, attr, attr_size, 1, &x, out);
    return (rg_values_indices){ out[0], out[1] };
}
/* The same with the result written over in[0], which is returned. name: "add_". */
rg_tensor *rgi_apply_inplace(const char *name, const rg_op *op, const void *attr, size_t attr_size,
                             int n, rg_tensor *const in[]);
#define RG_APPLY(ident, attr, ...)                                                                \
    rgi_apply(&rg_op_##ident, (attr), sizeof *(attr), RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), \
              (rg_tensor *[]){ __VA_ARGS__ })
#define RG_APPLY_(ident, attr, ...)                                       \
    rgi_apply_inplace(#ident "_", &rg_op_##ident, (attr), sizeof *(attr), \
                      RG_COUNT(((rg_tensor *[]){ __VA_ARGS__ })), (rg_tensor *[]){ __VA_ARGS__ })

/* A kernel on tensors that are all contiguous, of in[0]'s dtype and its shape, or one number: that
 * needs no walk. */
static inline void rgi_run_alike(const rg_call *c) {
    rg_tensor *y = c->out[0];
    char *p[RG_MAX_OPERANDS] = { y->data };
    int64_t size = (int64_t)rgi_sizeof(y->dtype), steps[RG_MAX_OPERANDS] = { size };
    for (int i = 0; i < c->n_in; i++) {
        p[i + 1] = c->in[i]->data;
        steps[i + 1] = c->in[i]->ndim ? size : 0;
    }
    if (RG_LIKELY(y->numel < RG_LARGE))
        c->op->kernel->by_dtype[y->dtype][k_set](p, steps, y->numel, NULL);
    else
        k_run_with(c->op->kernel, y, c->in, NULL);
}

/* ---- shapes that many ops share -------------------------------------------------- */
bool rgi_shape_same(rg_call *c);      /* each output like in[0] */
bool rgi_shape_broadcast(rg_call *c); /* out[0] as all inputs broadcast */
bool rgi_shape_broadcast_bool(rg_call *c);
bool rgi_view_begin(rg_call *c); /* out[0]: in[0] again; change size, stride, data, then */
bool rgi_view_end(rg_call *c);   /* count and flag it */
/* -1: that dim as it is */
bool rgi_may_expand(const char *op, const rg_tensor *x, rg_dims shape);
/* A part of a tensor. */
typedef struct rg_part {
    const char *node; /* torch's name, if it isn't the op's */
    /* the last: x with a dim of size 1 more */
    enum { RG_AT_INDEX, RG_AT_RANGE, RG_AT_DIAGONAL, RG_AT_NEW } kind;
    int dim, dim2;
    int64_t start, length, step; /* start: the index; the diagonal's offset */
} rg_part;
#define RG_PART_NEW(dim_)       .kind = RG_AT_NEW, .dim = dim_
#define RG_PART_INDEX(dim_, at) .kind = RG_AT_INDEX, .dim = dim_, .start = at
#define RG_PART_RANGE(dim_, from, n, by) \
    .kind = RG_AT_RANGE, .dim = dim_, .start = from, .length = n, .step = by
#define RG_PART_DIAGONAL(dim_, dim2_, at, n) \
    .kind = RG_AT_DIAGONAL, .dim = dim_, .dim2 = dim2_, .start = at, .length = n
void rgi_take_part(rg_tensor *t,
                   const rg_part *p); /* narrows the header down to it; it must be within */
#define RG_PART_HEADER(name, t, part) \
    rg_tensor name = (t);             \
    rgi_take_part(&name, part)
rg_tensor *rgi_part_of(rg_tensor *x, const rg_part *p); /* select, slice, diagonal, or unsqueeze */
/* Python's start:end:step over a dim, of positive step: how many there are; *start becomes the
 * first. */
int64_t rgi_slice_length(int64_t size, int64_t *start, int64_t end, int64_t step);

/* ---- in a rule ------------------------------------------------------------------- */
/* g itself: the engine sums over what was expanded, and casts back */
rg_rule rgi_rule_same;
/* the value of an input; RG_NONE if absent */
rg_tensor *rgi_saved(const rg_step *s, int input);
rg_tensor *rgi_saved_output(const rg_step *s);
rg_tensor *rgi_saved_output_at(const rg_step *s, int output);
/* zeros where no gradient reached it */
rg_tensor *rgi_step_g(const rg_step *s, int output);
/* for fused */
static inline bool rgi_wants(const rg_step *s, int input) { return s->wanted >> input & 1; }

/* A rule that is an expression in g and what it is of: g alone, or values that it names as well: of
 * one tensor x and y, of more a, b, c. RULED puts it in a row. OF_...: what it needs, and where the
 * names come from. */
#define OF_g                            0, (void)s;
#define OF_x                            RG_IN(0), rg_tensor *x = rgi_saved(s, 0);
#define OF_y                            RG_OUTPUT, rg_tensor *y = rgi_saved_output(s);
#define OF_xy                           RG_IN(0) | RG_OUTPUT, rg_tensor *x = rgi_saved(s, 0), *y = rgi_saved_output(s);
#define OF_a                            RG_IN(0), rg_tensor *a = rgi_saved(s, 0);
#define OF_b                            RG_IN(1), rg_tensor *b = rgi_saved(s, 1);
#define OF_c                            RG_IN(2), rg_tensor *c = rgi_saved(s, 2);
#define OF_ab                           RG_IN(0) | RG_IN(1), rg_tensor *a = rgi_saved(s, 0), *b = rgi_saved(s, 1);
#define OF_bc                           RG_IN(1) | RG_IN(2), rg_tensor *b = rgi_saved(s, 1), *c = rgi_saved(s, 2);
#define RULE(name, of, gradient)        RULE_NAMED(name, gradient, OF_##of)
#define RULE_NAMED(name, gradient, ...) RULE_OF(name, gradient, __VA_ARGS__)
#define RULE_OF(name, gradient, needs, ...) \
    enum { name##_needs = needs };          \
    static rg_tensor *name(const rg_step *s, rg_tensor *g) { __VA_ARGS__ return gradient; }
#define RULED(name) RG_RULE(name##_needs, name)

static inline bool rgi_check_optional(rg_tensor *t, const char *op) {
    return rgi_is_none(t) || rgi_check(t, op);
}

/* Writes a value over x, whatever the dtypes; what x was has no gradient. */
rg_tensor *rgi_replace_(const char *name, const char *node, rg_tensor *x, rg_tensor *value);

/* softmax.c */
rg_tensor *rgi_safe_softmax(rg_tensor *x, int dim); /* 0 for rows of -inf throughout */

/* Composite functions: a scope around the intermediates; failures are the function's. */
#define RG_COMPOSITE(name, expression) \
    __extension__({                    \
        RG_AS(name);                   \
        RG_SCOPE();                    \
        rg_escape(expression);         \
    })

/* ---- nodes (record.c, engine.c) ---------------------------------------------------- */
/* node NULL: no gradient wanted */
typedef struct rg_edge {
    rg_node *node;
    uint32_t output;
} rg_edge;
typedef struct rg_meta {
    uint8_t ndim, dtype;
    int64_t size[RG_MAX_DIMS];
} rg_meta;

typedef struct rg_hook {
    struct rg_hook *next;
    int id, output;
    /* NULL: keeps the gradient of a tensor that isn't a leaf */
    rg_hook_function *function;
    void *context;
    rg_tensor *grad;
} rg_hook;

struct rg_node {
    rg_history base;
    _Atomic int64_t refs;          /* in the high half: those of tensor headers */
    const rg_op *op;               /* NULL: a leaf */
    uint64_t order;                /* greater than that of every node it leads to */
    uint16_t n_in, n_out, n_saved; /* saved: n_in + n_out, or none */
    /* its saved values are gone; the run holds it, which begins here */
    bool freed, held;
    /* RG_IN mask of the (first RG_INPUTS) inputs that have a node */
    uint32_t attr_size, wanted;
    size_t bytes;
    rg_edge *edge;     /* n_in */
    rg_tensor **saved; /* n_in inputs, then n_out outputs; NULL where not needed. They end with the
                          node, so no gradient may be one of them; a rule, which may return what it
                          is given, gets an alias (rgi_saved) */
    uint32_t *version; /* of each when it was saved */
    rg_meta *meta;     /* n_out */
    void *attr;
    rg_tensor *grad; /* a leaf's */
    /* in this recording it was taken away; the complement: made */
    uint64_t cleared;
    rg_hook *hooks;
    void *trace; /* anomaly mode: where the forward call was made */
    /* the run that holds it, and its place there */
    _Atomic uintptr_t run;
    size_t slot;
    rg_node *pending; /* the list of those to release */
};

static inline const rg_meta *rgi_input_meta(const rg_step *s, int input) {
    const rg_edge *e = &s->node->edge[input];
    return &e->node->meta[e->output];
}
rg_dims rgi_meta_dims(const rg_meta *m);
/* Of an input that requires grad. */
static inline rg_dims rgi_input_dims(const rg_step *s, int input) {
    return rgi_meta_dims(rgi_input_meta(s, input));
}
static inline int rgi_input_ndim(const rg_step *s, int input) {
    return rgi_input_meta(s, input)->ndim;
}
static inline rg_dtype rgi_input_dtype(const rg_step *s, int input) {
    return rgi_input_meta(s, input)->dtype;
}
static inline rg_tensor *rgi_input_zeros(const rg_step *s) {
    return rg_zeros_dims(rgi_input_dims(s, s->input), rgi_input_dtype(s, s->input));
}

rg_node *rgi_node_of(const rg_tensor *t); /* NULL: does not require grad */
void rgi_node_retain(rg_node *n);
void rgi_node_release(rg_node *n);
/* gives t, which has none, its history */
void rgi_node_attach(rg_tensor *t, rg_node *n, uint32_t output);
bool rgi_node_has_headers(const rg_node *n);
const char *rgi_node_name(const rg_node *n); /* "MulBackward0" */
void rgi_node_free_saved(rg_node *n);
/* rg_to under another op's name */
rg_tensor *rgi_to_as(const char *node, rg_tensor *x, rg_dtype dtype);
/* rg_clone as torch copies into .grad */
rg_tensor *rgi_copied(rg_tensor *x);
/* an alias with that history, owned by the scope */
rg_tensor *rgi_join(rg_tensor *value, rg_node *n, uint32_t output);
/* The nodes that y depends on, newest first, each one's slot its place in the list. */
typedef struct rg_node_list {
    rg_node **v;
    size_t n;
} rg_node_list;
bool rgi_nodes_of(const rg_tensor *y, rg_node_list *list);
void rgi_node_list_free(rg_node_list *list);
rg_tensor *rgi_sum_to(rg_tensor *g, const rg_meta *meta); /* un-broadcasts and casts */

/* replay.c, while rgi_this.recording */
bool rgi_note_call(const rg_call *c, size_t attr_size, bool alike);
/* does it, too */
bool rgi_note_step(const rg_step *s, rg_tensor *gin[], const rg_gradient *rule, rg_tensor *buffer);
/* what is to be its gradient now; g NULL: nothing */
rg_tensor *rgi_note_leaf(rg_node *leaf, rg_tensor *g);

/* anomaly.c and profile.c look on while this is set. */
enum { RG_WATCH_VALUES = 1, RG_WATCH_COST = 2 };
extern atomic_int rgi_watching;
/* what a rule applies is looked at as its result */
extern __thread bool rgi_in_rule __attribute__((tls_model("initial-exec")));
void rgi_trace_free(void *trace);
bool rgi_watch_forward(const rg_call *c, rg_node *n); /* false: an error stands */
bool rgi_watch_backward(const rg_step *s, rg_tensor *g, int input);
typedef struct rg_timing {
    double began, outer;
} rg_timing;
void rgi_timing_begin(rg_timing *t);
void rgi_timing_end(const rg_timing *t, const char *name, bool backward, double bytes,
                    double flops);
void rgi_timing_of_call(const rg_timing *t, const rg_call *c);
/* RG_IN mask: which gradients it made itself */
void rgi_timing_of_step(const rg_timing *t, const rg_step *s, uint32_t made);
