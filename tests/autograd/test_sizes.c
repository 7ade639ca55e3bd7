/*
 * test_sizes.c: kernels compute in different ways at different sizes and layouts, and the results
 * must not depend on the way. Small golden cases of every public function are made larger along one
 * of their sizes, to each size around the constants in the kernels. Each case is computed in pairs
 * of ways, which must agree:
 *
 *     - with operands and cotangents in random layouts, and with contiguous ones
 *     - with the gradients of fused derivatives, and with those of the rules
 *     - with the gradients, and with differences of the function along a line
 *     - in float32, and in float64
 *     - as a whole, and in pieces, if the results of a small case are those of its pieces
 *
 *     build/tests/autograd/test_sizes                  all functions
 *     build/tests/autograd/test_sizes gelu add         these, with every failure
 */
#include "op_calls.h"

#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/mman.h>

/* ---- sizes ------------------------------------------------------------------------------- */

/* Sizes below and above each constant in the kernels are tried, from LEAST to LONGEST. A size above
 * MOST is tried for few cases of a function. The case is then compared only in two layouts. */
enum { LEAST = 7, MOST = 1100, LONGEST = 1 << 15, MANY = 512 };

static int64_t sizes[MANY];
static int n_sizes;

static void add_size(int64_t n) {
    int at = 0;
    while (at < n_sizes && sizes[at] < n)
        at++;
    if (n < LEAST || n > LONGEST + 1 || n_sizes == MANY || (at < n_sizes && sizes[at] == n))
        return;
    memmove(sizes + at + 1, sizes + at, (size_t)(n_sizes - at) * sizeof *sizes);
    sizes[at] = n;
    n_sizes++;
}

static void add_sizes_around(int64_t n) {
    for (int64_t by = -1; by <= 1; by++)
        add_size(n + by);
}

/* Reads the constants of a file: "NAME = 64" and "NAME = 1 << 6". */
static void read_constants(const char *path) {
    char line[512], name[64];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        for (const char *at = strchr(line, '='); at; at = strchr(at + 1, '=')) {
            long long number = 0;
            int shift = 0;
            const char *begin = at;
            while (begin > line && (isalnum((unsigned char)begin[-1]) || strchr(" _", begin[-1])))
                begin--;
            if (sscanf(begin, " %60[A-Z0-9_] = %lld << %d", name, &number, &shift) >= 2)
                add_sizes_around(number << shift);
        }
    if (file)
        fclose(file);
}

static void read_folder(const char *folder) {
    char path[512];
    DIR *files = opendir(folder);
    struct dirent *e;
    while (files && (e = readdir(files)) != NULL) {
        const size_t n = strlen(e->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (n > 2 && (!strcmp(e->d_name + n - 2, ".c") || !strcmp(e->d_name + n - 2, ".h")))
            read_constants(path);
    }
    if (files)
        closedir(files);
}

/* Sizes around powers of two are tried because of vectors, and all small sizes because blocks of
 * channels and rows have sizes that depend on the window. */
static void find_sizes(void) {
    for (int64_t n = LEAST; n < 24; n++)
        add_size(n);
    for (int64_t n = 32; n <= 1024; n *= 2)
        add_sizes_around(n);
    add_size(29);
    read_folder("tensor/kernels");
    read_folder("tensor/kernels/loops");
}

/* ---- numbers ----------------------------------------------------------------------------- */

static uint64_t drawn_state;

/* Returns a number in [0, n). */
static int64_t draw(int64_t n) {
    drawn_state = drawn_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(drawn_state >> 33) % n;
}

#define LIMIT 6.0

/* Returns x with each number moved toward 0 by up to a thousandth of itself. If `beyond`, it is
 * moved away from 0 instead. */
static rg_tensor *nearby(rg_tensor *x, bool beyond) {
    rg_tensor *y = rg_clone(x);
    for (int64_t i = 0; i < y->numel; i++) {
        const double part = 1e-3 * (double)draw(1 << 30) / (1 << 30);
        ((double *)y->data)[i] *= 1 - part;
        if (beyond)
            ((double *)y->data)[i] += 2 * part;
    }
    return y;
}

/* Returns a number between two of the n numbers, so that the function is defined there. It is a
 * float32 of magnitude at most LIMIT, moved a little toward 0, so that no two are equal. */
static double number_between(const double *v, int64_t n) {
    const double a = v[draw(n)], b = v[draw(n)];
    const double part = isfinite(a) && isfinite(b) ? (double)draw(4096) / 4096 : 0;
    const double less = 1e-4 + 1e-3 * (double)draw(1 << 20) / (1 << 20);
    const double between = fmax(-LIMIT, fmin(LIMIT, a + part * (b - a)));
    return (float)(between == 0 ? less : between - less * between);
}

/* Returns a contiguous tensor of this shape with numbers drawn from t's. It is float64 if t is of
 * floating point. */
static rg_tensor *grown(rg_tensor *t, rg_dims shape) {
    const bool real = rg_is_floating_point(t);
    rg_tensor *from = rg_contiguous(rg_to(rg_detach(t), RG_FLOAT64));
    rg_tensor *to = rg_zeros_dims(shape, RG_FLOAT64);
    const double *v = (const double *)from->data;
    for (int64_t i = 0; i < to->numel && from->numel; i++)
        ((double *)to->data)[i] = real ? number_between(v, from->numel) : v[draw(from->numel)];
    return real ? to : rg_to(to, (rg_dtype)t->dtype);
}

/* ---- layouts ----------------------------------------------------------------------------- */

typedef enum { WHOLE, BEHIND, STEPPED, TURNED, REVERSED, WIDER, ALONG, SINGLE, LAYOUTS } layout;
static const char *const layout_names[LAYOUTS] = {
    "contiguous",        "one element behind",   "every second",   "turned",
    "with dims reversed", "a part of wider rows", "expanded along", "one number expanded"
};

/* Returns the dim that an expanded layout repeats: the largest one. */
static int longest(rg_tensor *x) {
    int most = 0;
    for (int d = 1; d < x->ndim; d++)
        if (x->size[d] > x->size[most])
            most = d;
    return most;
}

/* Returns the first slice of x along its longest dim, or along all dims, expanded to x's shape. */
static rg_tensor *expanded(rg_tensor *x, layout how) {
    rg_tensor *part = x;
    for (int d = 0; d < x->ndim; d++)
        if (how == SINGLE || d == longest(x))
            part = rg_narrow(part, d, 0, RG_MIN(1, x->size[d]));
    return rg_expand_dims(part, rg_shape(x));
}

/* Returns a tensor of x's shape in memory that has this layout. */
static rg_tensor *room_of(rg_tensor *x, layout how) {
    rg_dims shape = rg_shape(x);
    const int last = shape.n - 1;
    switch (how) {
    case BEHIND:
        return rg_view_dims(rg_narrow(rg_zeros_dims(RG_DIMS(x->numel + 1), (rg_dtype)x->dtype), 0,
                                      1, x->numel),
                            shape);
    case STEPPED:
        shape.v[last] *= 2;
        return rg_slice(rg_zeros_dims(shape, (rg_dtype)x->dtype), last, 1, shape.v[last], 2);
    case WIDER:
        shape.v[last] += 3;
        return rg_narrow(rg_zeros_dims(shape, (rg_dtype)x->dtype), last, 2, shape.v[last] - 3);
    case TURNED:
        shape.v[last] = x->size[RG_MAX(last - 1, 0)];
        shape.v[RG_MAX(last - 1, 0)] = x->size[last];
        return rg_transpose(rg_zeros_dims(shape, (rg_dtype)x->dtype), last, RG_MAX(last - 1, 0));
    default: {
        rg_dims order = { .n = shape.n };
        for (int d = 0; d < shape.n; d++) {
            shape.v[d] = x->size[last - d];
            order.v[d] = last - d;
        }
        return rg_permute_dims(rg_zeros_dims(shape, (rg_dtype)x->dtype), order);
    }
    }
}

/* Returns x in this layout. If the layout expands dims, the elements along these dims must be
 * equal. */
static rg_tensor *laid_out(rg_tensor *x, layout how) {
    RG_NO_GRAD();
    if (how == WHOLE || !x->ndim || !x->numel)
        return rg_clone(x);
    if (how >= ALONG)
        return expanded(rg_clone(x), how);
    rg_tensor *room = room_of(x, how);
    rg_copy_(room, x);
    return rg_detach(room);
}

/* ---- a case that is made larger ------------------------------------------------------------ */

enum {
    SLOTS = 12,      /* The maximum number of tensors of a case. */
    PLACES = 6,      /* The maximum number of dims of one size in a case. */
    SIGNATURES = 4,  /* The maximum number of cases of a function. */
    VARIANTS = 3,    /* The maximum number of sets of dims that grow, for a size in a case. */
    SOME = 1 << 9,   /* From this number of elements on, a third of the sizes is tried. */
    LARGE = 1 << 12, /* Above this number of elements, no size up to MOST is tried. */
    GROUPS = 8       /* The number of tests among which the functions are divided. */
};

/* A tensor of a case: `at` is where the call reads it, and `given` is the case's own tensor. */
typedef struct {
    rg_tensor **at, *given;
    rg_tensor *numbers; /* The contiguous numbers of the slot at the current size. */
    bool leaf;
    layout how;
    uint32_t growing; /* Bit d is set if dim d is made larger. */
} slot;

static struct {
    const op_call *f;
    op_case *c;
    rg_dims dims[OP_ARGUMENTS];
    int n;
    slot slots[SLOTS];
    int long_sizes;     /* The number of sets of dims that are yet to be tried at long sizes. */
    int64_t size, from; /* Dims of size `from` get the size `size`. */
    bool renamed;       /* Arguments that give the size `from` also become `size`. */
    bool inplace, typed; /* inplace: writes over its first tensor. typed: takes a dtype. */
    layout g;
    rg_tensor *cotangent[OP_OUTPUTS];
} larger;

/* The outputs of a call, and after them the gradients of its leaves. */
typedef struct {
    int outputs, n;
    rg_tensor *v[OP_OUTPUTS + SLOTS];
} outcome;

static struct counts {
    int failures, functions, cases;
    long checks;
    const char *last[GROUPS]; /* The last function of each group, to find a crash. */
} * count;
static bool verbose;

__attribute__((format(printf, 2, 3))) static void complain(const char *way, const char *format,
                                                           ...) {
    static int said;
    va_list list;
    count->failures++;
    if (!verbose && said++ >= 3)
        return;
    va_start(list, format);
    printf("%s, line %d, %lld for %lld: %s: ", larger.f->name, larger.c->line,
           (long long)larger.size, (long long)larger.from, way);
    vprintf(format, list);
    va_end(list);
    for (int k = 0; k < larger.n; k++)
        printf("; %s %s %s", rg_dtype_name((rg_dtype)larger.slots[k].given->dtype),
               rg_repr_shape(larger.slots[k].numbers), layout_names[larger.slots[k].how]);
    printf("; gradient %s\n", layout_names[larger.g]);
    fflush(stdout);
}

/* Comparisons that are left out for some functions. */
enum { SLOPE = 1, SINGLES = 2, PIECES = 4, LONG = 8 };
static const struct {
    const char *name;
    int what;
    const char *why;
} exceptions[] = {
    { "scatter", SLOPE, "an element that is written twice has the slope of one of both" },
    { "index_copy", SLOPE, "an element that is written twice has the slope of one of both" },
    { "sort", SLOPE, "a step takes numbers past each other, where there are many" },
    { "embedding_with", SLOPE, "max_norm writes to the weights" },
    { "one_hot", PIECES, "a piece without the largest index has fewer columns" },
    { "quantile_with", SINGLES, "float32 rounds a place among many numbers" },
    { "scaled_dot_product_attention_with", LONG, "its work grows with the square" },
    { "joint_attention", LONG, "its work grows with the square" },
    { "conv1d_with", LONG, "its work grows with the square, where the window grows, too" },
    { "conv2d_with", LONG, "its work grows with the square, where the window grows, too" },
    { "std_dim", SINGLES, "the slope is steep where two numbers are nearly the same" },
    { "std_dims", SINGLES, "the slope is steep where two numbers are nearly the same" },
    { "bernoulli_with", SINGLES, "a draw near the probability is on the other side of it" },
    { "round_decimals", SINGLES, "float32 rounds to the other side" },
};

static bool is_excepted(int what) {
    bool found = what == SLOPE && larger.typed;
    for (int i = 0; i < RG_COUNT(exceptions); i++)
        found |= exceptions[i].what & what && strcmp(exceptions[i].name, larger.f->name) == 0;
    return found;
}

static void add_slot(rg_tensor **at) {
    if (!*at || *at == RG_NONE || larger.n == SLOTS || !rg_ndim(*at))
        return;
    larger.slots[larger.n++] = (slot){ .at = at, .given = *at, .leaf = rg_requires_grad(*at) };
}

static void find_slots(void) {
    larger.n = 0;
    larger.typed = false;
    for (int i = 0; i < larger.c->n_args; i++) {
        op_argument *a = &larger.c->arg[i];
        larger.typed |= a->kind == 'y';
        larger.dims[i] = a->dims;
        if (a->kind == 't')
            add_slot(&a->t);
        for (int k = 0; k < a->list.n; k++)
            add_slot(&a->item[k]);
    }
}

static rg_dims shape_at(const slot *s, int64_t size) {
    rg_dims shape = rg_shape(s->given);
    for (int d = 0; d < shape.n; d++)
        if (s->growing >> d & 1)
            shape.v[d] = size;
    return shape;
}

/* Draws the numbers of all slots for this size. */
static void draw_numbers(int64_t size) {
    larger.size = size;
    for (int k = 0; k < larger.n; k++)
        larger.slots[k].numbers = grown(larger.slots[k].given, shape_at(&larger.slots[k], size));
}

/* Replaces sizes among the arguments with the larger size, for functions that refuse the old
 * ones. */
static void rename_dims(bool rename) {
    larger.renamed = rename;
    for (int i = 0; i < larger.c->n_args; i++) {
        rg_dims *d = &larger.c->arg[i].dims;
        *d = larger.dims[i];
        for (int k = 0; rename && k < d->n && k < RG_MAX_DIMS; k++)
            if (d->v[k] == larger.from)
                d->v[k] = larger.size;
    }
}

/* Calls the function with tensors that are made from the slots' numbers. Returns false if it
 * refuses them. */
static bool call(rg_tensor *const given[], op_result *r) {
    for (int k = 0; k < larger.n; k++)
        *larger.slots[k].at = given[k];
    rg_manual_seed(42);
    rg_error_clear();
    *r = larger.f->call(larger.c->arg);
    for (int k = 0; k < larger.n; k++)
        *larger.slots[k].at = larger.slots[k].given;
    return r->n >= 0 && r->n <= OP_OUTPUTS;
}

/* Makes the cotangents of float64 outputs. Their numbers are equal along dims that the layout
 * expands. */
static void make_cotangents(const op_result *r) {
    for (int k = 0; k < r->n; k++) {
        if (!rg_is_floating_point(r->t[k]))
            continue;
        rg_tensor *g = op_cotangent((unsigned)k, r->t[k]);
        if (g->ndim && larger.g >= ALONG)
            g = rg_clone(expanded(g, larger.g));
        larger.cotangent[k] = g;
    }
}

/* Fills the memory that is allocated next with a number. Each call uses another number, so an
 * element that an op leaves unwritten differs from run to run. */
static void spoil_memory(void) {
    static double number = 1;
    RG_SCOPE();
    number += 3;
    for (int64_t n = 8; n <= 2048; n *= 2)
        for (int i = 0; i < 3; i++)
            rg_full_dims(RG_DIMS(n), number, RG_FLOAT64);
}

/* Computes values and gradients in floats of this dtype, laid out as the slots say, or contiguous.
 * The first run makes the cotangents. Returns false if the function failed. */
static bool compute(outcome *o, rg_dtype dtype, bool layouts, bool graph, bool first) {
    rg_tensor *in[SLOTS], *x[SLOTS], *y[OP_OUTPUTS], *g[OP_OUTPUTS];
    op_result r;
    int leaves = 0, m = 0;
    for (int k = 0; k < larger.n; k++) {
        const slot *s = &larger.slots[k];
        const bool real = rg_is_floating_point(s->given);
        in[k] = laid_out(real ? rg_to(s->numbers, dtype) : s->numbers, layouts ? s->how : WHOLE);
        if (real && s->leaf && !larger.inplace)
            x[leaves++] = rg_requires_grad_(in[k], true);
    }
    spoil_memory();
    if (!call(in, &r))
        return false;
    o->outputs = RG_MIN(r.n, OP_OUTPUTS);
    o->n = o->outputs;
    if (first)
        make_cotangents(&r);
    for (int k = 0; k < o->outputs; k++) {
        o->v[k] = r.t[k];
        if (!rg_requires_grad(r.t[k]))
            continue;
        g[m] = laid_out(rg_to(larger.cotangent[k], (rg_dtype)r.t[k]->dtype),
                        layouts ? larger.g : WHOLE);
        y[m++] = r.t[k];
    }
    if (!m)
        return true;
    o->n += leaves;
    spoil_memory();
    return rg_grad_many(m, y, g, leaves, x, o->v + o->outputs,
                        (rg_backward_options){ .create_graph = graph, .allow_unused = true });
}

/* Returns the largest difference, divided by the largest magnitude or 1. Numbers that float32 can't
 * hold aren't compared. */
static double distance(rg_tensor *a, rg_tensor *b) {
    if (a == RG_NONE || b == RG_NONE)
        return a == b ? 0 : INFINITY;
    if (!rgi_same_shape(a, b))
        return INFINITY;
    a = rg_contiguous(rg_to(rg_detach(a), RG_FLOAT64));
    b = rg_contiguous(rg_to(rg_detach(b), RG_FLOAT64));
    const double *u = (const double *)a->data, *v = (const double *)b->data;
    double most = 0, largest = 1;
    for (int64_t i = 0; i < a->numel; i++) {
        if (u[i] == v[i] || !(fabs(v[i]) < 1e30))
            continue;
        const double apart = fabs(u[i] - v[i]);
        if (!(apart <= 1e300))
            return INFINITY;
        most = fmax(most, apart);
        largest = fmax(largest, fabs(v[i]));
    }
    return most / largest;
}

static void compare(const char *way, const outcome *a, const outcome *b, double tolerance) {
    if (a->n != b->n) {
        complain(way, "%d values, not %d", a->n, b->n);
        return;
    }
    for (int k = 0; k < a->n; k++) {
        count->checks++;
        const double apart = distance(a->v[k], b->v[k]);
        if (!(apart <= tolerance * larger.c->factor))
            complain(way, "%s %d differs by %g", k < a->outputs ? "output" : "gradient",
                     k < a->outputs ? k : k - a->outputs, apart);
    }
}

/* ---- comparisons ------------------------------------------------------------------------- */

/* Returns the sum of a's numbers times b's, and adds their magnitudes to *size. */
static double product(rg_tensor *a, rg_tensor *b, double *size) {
    double sum = 0;
    a = rg_contiguous(rg_to(rg_detach(a), RG_FLOAT64));
    b = rg_contiguous(rg_to(rg_detach(b), RG_FLOAT64));
    const double *u = (const double *)a->data, *v = (const double *)b->data;
    for (int64_t i = 0; i < a->numel; i++) {
        sum += u[i] * v[i];
        *size += fabs(u[i] * v[i]);
    }
    return sum;
}

/* Returns the sum of the outputs times their cotangents, at the point that is `by` times the
 * direction `way` away. */
static double at_step(rg_tensor *const way[], double by, double *size) {
    RG_NO_GRAD();
    rg_tensor *in[SLOTS];
    op_result r;
    double sum = 0;
    for (int k = 0; k < larger.n; k++)
        in[k] = way[k] ? rg_add(larger.slots[k].numbers, rg_mul(way[k], by))
                       : rg_clone(larger.slots[k].numbers);
    if (!call(in, &r))
        return NAN;
    for (int k = 0; k < r.n; k++)
        if (rg_is_floating_point(r.t[k]))
            sum += product(r.t[k], larger.cotangent[k], size);
    return sum;
}

/* Compares the gradients times a direction with the slope of the function along that direction.
 * Returns whether they agree; if not, `said` tells how they differ. */
static bool same_slope(const outcome *o, char *said, size_t room) {
    const double step = 1e-6;
    rg_tensor *way[SLOTS] = { NULL };
    double slope = 0, slopes = 0, values = 0;
    int leaf = o->outputs;
    for (int k = 0; k < larger.n && leaf < o->n; k++) {
        if (!larger.slots[k].leaf)
            continue;
        way[k] = op_cotangent((unsigned)k + 50, larger.slots[k].numbers);
        if (o->v[leaf] != RG_NONE)
            slope += product(o->v[leaf], way[k], &slopes);
        leaf++;
    }
    if (leaf == o->outputs)
        return true;
    const double before = at_step(way, -step, &values), after = at_step(way, step, &values);
    const double rise = (after - before) / (2 * step);
    count->checks++;
    if (fabs(rise - slope) <= 1e-6 + 3e-4 * slopes + 1e-9 * values
        || !isfinite(rise + slopes + values))
        return true;
    snprintf(said, room, "%g along a line, and %g by the gradients, of %g", rise, slope, slopes);
    return false;
}

/* Compares the slope at a few points near each other. A function may have a kink or a jump at one
 * of them, where the slope differs. */
static void check_slope(const outcome *o) {
    char said[128];
    outcome near = *o;
    rg_tensor *keep[SLOTS];
    bool same = is_excepted(SLOPE) || same_slope(o, said, sizeof said);
    for (int k = 0; k < larger.n; k++)
        keep[k] = larger.slots[k].numbers;
    for (int again = 1; again < 5 && !same; again++) {
        for (int k = 0; k < larger.n; k++)
            if (larger.slots[k].leaf)
                larger.slots[k].numbers = nearby(keep[k], again % 2);
        same = !compute(&near, RG_FLOAT64, false, false, true)
               || same_slope(&near, said, sizeof said);
    }
    for (int k = 0; k < larger.n; k++)
        larger.slots[k].numbers = keep[k];
    if (!same)
        complain("slope", "%s", said);
}

/* Returns the only dim of this size, -1 if there is none, or -2 if there are several. */
static int only_dim(rg_tensor *t, int64_t size) {
    int found = -1;
    for (int d = 0; d < t->ndim; d++) {
        if (t->size[d] == size && found >= 0)
            return -2;
        if (t->size[d] == size)
            found = d;
    }
    return found;
}

/* Returns n elements of x, from index `from` on, along its only dim of the tried size. Returns all
 * of x if there is no such dim, and NULL if there are several. */
static rg_tensor *piece_of(rg_tensor *x, int64_t from, int64_t n) {
    const int d = only_dim(x, larger.size);
    if (d == -2)
        return NULL;
    return rg_detach(d < 0 ? x : rg_narrow(x, d, from, n));
}

/* Calls the function with the piece of n elements from index `from` on. Adds the gradients of
 * tensors that don't grow to `sum`. Returns the distance between the results and those of the
 * whole, or -1 if the case can't be cut into pieces. */
static double piece_apart(const outcome *o, int64_t from, int64_t n, rg_tensor *sum[]) {
    rg_tensor *in[SLOTS], *x[SLOTS], *y[OP_OUTPUTS], *g[OP_OUTPUTS], *got[SLOTS];
    op_result r;
    double most = 0;
    int leaves = 0, m = 0;
    for (int k = 0; k < larger.n; k++) {
        const slot *s = &larger.slots[k];
        rg_tensor *piece = s->growing ? piece_of(s->numbers, from, n) : s->numbers;
        if (!piece)
            return -1;
        in[k] = rg_clone(piece);
        if (s->leaf && !larger.inplace)
            x[leaves++] = rg_requires_grad_(in[k], true);
    }
    if (!call(in, &r) || r.n != o->outputs)
        return -1;
    for (int k = 0; k < r.n; k++) {
        rg_tensor *whole = only_dim(o->v[k], larger.size) < 0 ? NULL : piece_of(o->v[k], from, n);
        if (!whole)
            return -1;
        most = fmax(most, distance(rg_detach(r.t[k]), whole));
        if (!rg_requires_grad(r.t[k]))
            continue;
        g[m] = piece_of(larger.cotangent[k], from, n);
        y[m++] = r.t[k];
    }
    if (!m || most > 1)
        return most;
    if (!rg_grad_many(m, y, g, leaves, x, got, (rg_backward_options){ .allow_unused = true }))
        return -1;
    for (int k = 0, leaf = 0; k < larger.n; k++) {
        if (!larger.slots[k].leaf)
            continue;
        rg_tensor *all = o->v[o->outputs + leaf];
        if (got[leaf] == RG_NONE || all == RG_NONE)
            most = fmax(most, got[leaf] == all ? 0 : INFINITY);
        else if (larger.slots[k].growing)
            most = fmax(most, distance(got[leaf], piece_of(all, from, n)));
        else
            rg_add_(sum[leaf], got[leaf]);
        leaf++;
    }
    return most;
}

/* Cuts the case into pieces of `each` elements along the size that grows. Returns the distance
 * between the outputs and gradients of the whole and those of the pieces, or -1 if the case can't
 * be cut. */
static double pieces_apart(const outcome *o, int64_t each) {
    RG_SCOPE();
    rg_tensor *sum[SLOTS];
    double most = 0;
    for (int leaf = 0; leaf < o->n - o->outputs; leaf++) {
        rg_tensor *all = o->v[o->outputs + leaf];
        sum[leaf] = all == RG_NONE ? RG_NONE : rg_zeros_like(all);
    }
    for (int64_t from = 0; from < larger.size && most <= 1; from += each) {
        RG_SCOPE();
        const double apart = piece_apart(o, from, RG_MIN(each, larger.size - from), sum);
        if (apart < 0)
            return -1;
        most = fmax(most, apart);
    }
    for (int k = 0, leaf = 0; k < larger.n && o->outputs + leaf < o->n; k++) {
        if (!larger.slots[k].leaf)
            continue;
        if (!larger.slots[k].growing && sum[leaf] != RG_NONE)
            most = fmax(most, distance(sum[leaf], o->v[o->outputs + leaf]));
        leaf++;
    }
    return most;
}

static void check_pieces(const outcome *o, bool goes_apart) {
    if (!goes_apart || larger.renamed || is_excepted(PIECES))
        return;
    count->checks++;
    const double apart = pieces_apart(o, larger.size < 200 ? 13 : 61);
    if (apart > 1e-11 * larger.c->factor)
        complain("pieces", "an output or a gradient differs by %g", apart);
}

/* ---- trying sizes ------------------------------------------------------------------------ */

static layout drawn_layout(bool expands) {
    return draw(2) ? WHOLE : (layout)draw(expands ? LAYOUTS : ALONG);
}

/* Draws layouts. If a slot's layout expands dims, the slot's numbers become equal along these
 * dims. */
static void draw_layouts(void) {
    larger.g = drawn_layout(true);
    for (int k = 0; k < larger.n; k++) {
        slot *s = &larger.slots[k];
        /* The tensor that is written to must not be expanded. */
        s->how = drawn_layout(!(larger.inplace && k == 0));
        if (s->how >= ALONG && s->numbers->numel)
            s->numbers = rg_clone(expanded(s->numbers, s->how));
    }
}

static bool refuses_strides(void) {
    return strstr(rg_error(), "view") || strstr(rg_error(), "overlap");
}

static void try_layouts(rg_dtype dtype) {
    RG_SCOPE();
    outcome a, b;
    rg_tensor *keep[SLOTS];
    for (int k = 0; k < larger.n; k++)
        keep[k] = larger.slots[k].numbers;
    draw_layouts();
    /* A call with a dtype among its arguments may compute in float32, with sums in the order of the
     * layout. */
    const double in_float64 = larger.typed ? 1e-5 : 1e-12;
    if (compute(&a, dtype, false, false, true)) {
        if (compute(&b, dtype, true, false, false))
            compare("layouts", &b, &a, dtype == RG_FLOAT32 ? 1e-3 : in_float64);
        else if (!refuses_strides())
            complain("layouts", "%s", rg_error());
    }
    for (int k = 0; k < larger.n; k++) {
        larger.slots[k].numbers = keep[k];
        larger.slots[k].how = WHOLE;
    }
    larger.g = WHOLE;
}

static int64_t elements_of(rg_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n *= shape.v[d];
    return n;
}

static int64_t elements(void) {
    int64_t n = 0;
    for (int k = 0; k < larger.n; k++)
        n += elements_of(shape_at(&larger.slots[k], larger.size));
    return n;
}

static void try_size(int64_t size, bool goes_apart) {
    RG_SCOPE();
    outcome o, other;
    draw_numbers(size);
    rename_dims(larger.renamed);
    if (!compute(&o, RG_FLOAT64, false, false, true))
        return;
    if (compute(&other, RG_FLOAT64, false, true, false))
        compare("rules", &other, &o, larger.typed ? 1e-5 : 1e-11);
    if (!is_excepted(SINGLES) && compute(&other, RG_FLOAT32, false, false, false))
        compare("float32", &other, &o, 2e-3);
    check_slope(&o);
    check_pieces(&o, goes_apart);
    try_layouts(RG_FLOAT32);
    try_layouts(RG_FLOAT64);
    count->cases++;
}

/* Returns whether the function accepts the case at the least size. Sets *goes_apart to whether
 * pieces of the case give the same results as the whole case. */
static bool takes(bool *goes_apart) {
    RG_SCOPE();
    outcome o;
    draw_numbers(LEAST);
    rename_dims(false);
    if (!compute(&o, RG_FLOAT64, false, false, true)) {
        rename_dims(true);
        if (!compute(&o, RG_FLOAT64, false, false, true))
            return false;
    }
    const double apart = larger.renamed ? -1 : pieces_apart(&o, 2);
    *goes_apart = apart >= 0 && apart <= 1e-11;
    return true;
}

/* Returns whether the outputs grow no faster than the size. */
static bool grows_slowly(void) {
    RG_SCOPE();
    int64_t elements[2] = { 0 };
    for (int k = 0; k < 2; k++) {
        outcome o;
        draw_numbers(LEAST << k);
        rename_dims(larger.renamed);
        if (!compute(&o, RG_FLOAT32, false, false, true))
            return false;
        for (int i = 0; i < o.outputs; i++)
            elements[k] += o.v[i]->numel;
    }
    return elements[1] <= 2 * elements[0];
}

/* Tries a long size. Kernels may compute large tensors in another way, which also depends on the
 * layout. */
static void try_long(int64_t size) {
    RG_SCOPE();
    draw_numbers(size);
    rename_dims(larger.renamed);
    try_layouts(draw(2) ? RG_FLOAT32 : RG_FLOAT64);
    count->cases++;
}

static void try_variant(void) {
    bool goes_apart;
    if (!takes(&goes_apart))
        return;
    const bool renamed = larger.renamed;
    const bool is_long = larger.long_sizes-- > 0 && !rg_slow() && !is_excepted(LONG)
                         && grows_slowly();
    for (int i = 0; i < n_sizes; i += rg_slow() ? 9 : 1) {
        larger.size = sizes[i];
        larger.renamed = renamed;
        const int64_t n = elements();
        if (sizes[i] > MOST) {
            if (is_long && n <= 3 * LONGEST)
                try_long(sizes[i]);
        } else if (n <= LARGE && (n < SOME || draw(3) == 0)) {
            try_size(sizes[i], goes_apart);
        }
    }
}

/* Tries sets of the dims that have the size `from`, and makes the dims of a set larger. Stops after
 * VARIANTS sets that the function accepts. */
static void try_from(int64_t from) {
    struct {
        int slot, dim;
    } place[PLACES];
    int n = 0;
    larger.from = from;
    for (int k = 0; k < larger.n; k++)
        for (int d = 0; d < larger.slots[k].given->ndim; d++)
            if (larger.slots[k].given->size[d] == from && n < PLACES)
                place[n++] = (typeof(*place)){ k, d };
    for (int set = 1, tried = 0; set < 1 << n && tried < VARIANTS; set++) {
        bool goes_apart;
        for (int k = 0; k < larger.n; k++)
            larger.slots[k].growing = 0;
        for (int i = 0; i < n; i++)
            if (set >> i & 1)
                larger.slots[place[i].slot].growing |= 1u << place[i].dim;
        if (!takes(&goes_apart))
            continue;
        tried++;
        try_variant();
    }
}

/* Returns whether no earlier case of the function was like this one. */
static bool is_new(uint64_t seen[], int *n) {
    uint64_t hash = 1;
    for (int i = 0; i < larger.c->n_args; i++) {
        const op_argument *a = &larger.c->arg[i];
        hash = hash * 1099511628211u + (uint64_t)a->kind;
        if (a->kind == 't' && a->t != RG_NONE)
            hash = hash * 31 + (uint64_t)a->t->ndim;
        if (a->kind == 'i' || a->kind == 'L')
            hash = hash * 31 + (uint64_t)(a->kind == 'i' ? a->i : a->dims.v[0]);
    }
    for (int i = 0; i < *n; i++)
        if (seen[i] == hash)
            return false;
    seen[(*n)++] = hash;
    return true;
}

static void try_case(op_case *c) {
    bool done[64] = { false };
    larger.c = c;
    find_slots();
    for (int k = 0; k < larger.n; k++)
        for (int d = 0; d < larger.slots[k].given->ndim; d++) {
            const int64_t from = larger.slots[k].given->size[d];
            if (from < 2 || from >= 64 || done[from])
                continue;
            done[from] = true;
            try_from(from);
        }
}

static bool is_fit(const op_case *c) {
    int64_t n = 0;
    for (int i = 0; i < c->n_args; i++)
        if (c->arg[i].kind == 't' && c->arg[i].t && c->arg[i].t != RG_NONE)
            n += rg_numel(c->arg[i].t);
    return !c->error.kind && !c->backward_error.kind && n > 1 && n < 1000 && !c->direct;
}

/* Further cases in the form that op_cases.h reads, for kernels that divide their work along several
 * sizes. All sizes of a case differ, so each size can be made larger alone. */
static const struct {
    const char *function, *text;
} own_cases[] = {
    { "conv2d_with", "= conv2d_with\n"
                     "t f64 g 2,5,7,9 c r 1\n"
                     "t f64 g 4,5,3,3 c r 2\n"
                     "t f64 g 4 c r 3\n"
                     "L 2\ni 0\nL 1\nL 1\ni 1\n" },
    { "conv2d_with", "= conv2d_with\n"
                     "t f64 g 1,2,9,16 c r 1\n"
                     "t f64 g 4,2,3,3 c r 2\n"
                     "t f64 g 4 c r 3\n"
                     "L 1\ni 0\nL 1\nL 1\ni 1\n" },
    { "conv1d_with", "= conv1d_with\n"
                     "t f64 g 1,2,32 c r 1\n"
                     "t f64 g 4,2,3 c r 2\n"
                     "t f64 g 4 c r 3\n"
                     "L 1\ni 0\nL 1\nL 1\ni 1\n" },
    { "conv1d_with", "= conv1d_with\n"
                     "t f64 g 2,5,9 c r 1\n"
                     "t f64 g 4,5,3 c r 2\n"
                     "t f64 g 4 c r 3\n"
                     "L 2\ni 0\nL 1\nL 1\ni 1\n" },
};

/* Tries the first cases of the file that differ from each other. */
static void try_cases(golden_file *file, uint64_t seen[], int *n) {
    static op_case c;
    while (*n < SIGNATURES) {
        RG_SCOPE();
        if (!op_case_next(file, &c))
            return;
        larger.c = &c;
        if (is_fit(&c) && is_new(seen, n))
            try_case(&c);
    }
}

static void try_function(const op_call *f) {
    RG_SCOPE();
    golden_file file;
    uint64_t seen[SIGNATURES];
    char folder[512];
    int n = 0;
    const int before = count->cases;
    snprintf(folder, sizeof folder, "%s/ops", golden_folder());
    larger.f = f;
    larger.inplace = f->name[strlen(f->name) - 1] == '_';
    larger.long_sizes = 2;
    drawn_state = 7;
    if (golden_open_in(&file, folder, f->name)) {
        try_cases(&file, seen, &n);
        golden_close(&file);
    }
    for (int i = 0; i < RG_COUNT(own_cases); i++) {
        n = 0;
        file = (golden_file){ .text = strdup(own_cases[i].text) };
        file.at = file.text;
        if (strcmp(own_cases[i].function, f->name) == 0)
            try_cases(&file, seen, &n);
        golden_close(&file);
    }
    rg_error_clear();
    count->functions += count->cases > before;
    if (verbose && count->cases == before)
        printf("%s: nothing grows\n", f->name);
}

/* ---- running ----------------------------------------------------------------------------- */

START_TEST(test_functions) {
    const int failures = count->failures;
    for (int i = _i; i < RG_COUNT(op_calls); i += GROUPS)
        if (op_is_asked(&op_calls[i])) {
            count->last[_i] = op_calls[i].name;
            try_function(&op_calls[i]);
        }
    count->last[_i] = NULL;
    ck_assert_int_eq(count->failures, failures);
}
END_TEST

/* Losses warn of targets that broadcast, which isn't of interest here. */
static void say_nothing(const char *message) { (void)message; }

int main(int argc, char **argv) {
    TCase *tcase = rg_tcase("sizes");
    rg_on_warning(say_nothing);
    op_note_named(argc, argv);
    verbose = argc > 1;
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    find_sizes();
    tcase_add_loop_test(tcase, test_functions, 0, GROUPS);
    const int failed = rg_run("sizes", tcase);
    for (int i = 0; i < GROUPS; i++)
        if (count->last[i])
            printf("%s crashed\n", count->last[i]);
    printf("sizes: %d functions at %d sizes, %d cases, %ld checks, %d failures\n", count->functions,
           n_sizes, count->cases, count->checks, count->failures);
    return failed || count->failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
