/*
 * test_golden.c: compares every public function of autograd/ops/ops.h with PyTorch: values, dtypes,
 * shapes, strides, grad_fn, first and second gradients, and errors. The cases lie in
 * tests/golden/data/ops/, those that are about strides in tests/golden/data/layouts/, those in
 * bfloat16 and float16 in tests/golden/data/half/, those with bytes (uint8) in
 * tests/golden/data/bytes/, and those under autocast in tests/golden/data/autocast/. The tests also
 * deny each request for memory in turn.
 *
 *     build/tests/autograd/test_golden                            all functions
 *     build/tests/autograd/test_golden softmax add                these, with every failure
 *     REGARD_GOLDEN=FOLDER build/tests/autograd/test_golden       other data
 */
#include "op_calls.h"
#include "tensor/dtype.h"
#include "tensor/structs.h"

#include "tensor/memory.h"
#include "tests/test.h"

#include <stdarg.h>
#include <sys/mman.h>

/* ---- checks ---------------------------------------------------------------------- */

/* The counts are shared with the processes of the tests. */
static struct op_counts {
    int declared, unseen, functions, cases, checks, failures, denied;
} * count;
static bool verbose, silent;
static const char *file_path;
static const op_case *current;

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...) {
    va_list list;
    count->failures++;
    static int said;
    if (!silent && (verbose || said++ < 3)) {
        va_start(list, format);
        printf("%s:%d: %s: ", file_path, current->line, current->function);
        vprintf(format, list);
        printf("\n");
        fflush(stdout);
        va_end(list);
    }
    return false;
}

static const char *shape_of(rg_dims d) {
    static char text[4][128];
    static int turn;
    char *p = text[turn++ % 4];
    char *at = p + sprintf(p, "(");
    for (int i = 0; i < d.n; i++)
        at += sprintf(at, i ? ", %lld" : "%lld", (long long)d.v[i]);
    strcpy(at, ")");
    return p;
}

static double value_at(const char *data, int dtype, int64_t i) {
    return rgi_load_f64(data + i * (int64_t)rgi_sizeof((rg_dtype)dtype), (rg_dtype)dtype);
}

/* Returns whether a tensor of the case has elements of 16 bits. */
static bool has_half(void) {
    bool has = false;
    for (int k = 0; k < current->n_outs; k++)
        has |= rgi_is_half(golden_dtype(current->out[k].dtype));
    for (int i = 0; i < current->n_args; i++)
        has |= current->arg[i].t && current->arg[i].t != RG_NONE
               && rgi_is_half((rg_dtype)rg_dtype_of(current->arg[i].t));
    return has;
}

/* Returns the tolerance for values of this dtype. That of bfloat16 is the one with which PyTorch
 * compares; that of float16 is twice as large, since each op of a composed function rounds. */
static double tolerance_of(int dtype) {
    switch (current->autocast && has_half() ? (int)current->autocast : dtype) {
    case RG_BFLOAT16: return 1.6e-2;
    case RG_FLOAT16: return 2e-3;
    default: return dtype == RG_FLOAT32 || current->single ? 1e-5 : 1e-12;
    }
}

/* valgrind's multiply-add gives -0 for 0, so it hides the sign of a zero. */
static bool same_number(double u, double v, bool with_sign, double tolerance) {
    if (with_sign && u == 0 && v == 0 && !rg_emulated())
        return signbit(u) == signbit(v);
    if (isnan(v) || isnan(u))
        return isnan(v) && isnan(u);
    return isinf(v) || isinf(u) ? u == v : fabs(u - v) <= tolerance;
}

/* Compares values with a tolerance relative to the largest value involved. Integers must be equal,
 * and in outputs so must the signs of zeros. */
static bool same_values(const char *what, int k, rg_tensor *t, const op_expected_tensor *e) {
    int dtype = rg_dtype_of(t);
    int64_t n = rg_numel(t);
    bool whole = !rgi_is_float((rg_dtype)dtype);
    bool ok = true;
    char *data = calloc((size_t)n + 1, 8);
    char *p = e->values;
    rg_copy_out(t, data, 8 * ((size_t)n + 1));
    double scale = fmax(current->largest, e->largest);
    for (int64_t i = 0; i < n && !whole; i += (int64_t)e->step) {
        double v = strtod(p, &p);
        if (isfinite(v))
            scale = fmax(scale, fabs(v));
    }
    double tolerance = current->factor * tolerance_of(dtype);
    p = e->values;
    for (int64_t i = 0; i < n && ok; i += (int64_t)e->step) {
        count->checks++;
        if (whole) {
            long long v = strtoll(p, &p, 10);
            const char *at = data + i * (int64_t)rgi_sizeof((rg_dtype)dtype);
            long long u = rgi_load_i64(at, (rg_dtype)dtype);
            if (u != v)
                ok = complain("%s %d: element %lld of %s is %lld, torch's %lld", what, k,
                              (long long)i, shape_of(e->shape), u, v);
            continue;
        }
        double v = strtod(p, &p);
        double u = value_at(data, dtype, i);
        if (dtype != RG_FLOAT64)
            v = rgi_rounded(v, (rg_dtype)dtype);
        if (!same_number(u, v, strcmp(what, "output") == 0, tolerance * scale))
            ok = complain("%s %d: element %lld of %s is %.17g, torch's %.17g (scale %g)", what, k,
                          (long long)i, shape_of(e->shape), u, v, scale);
    }
    free(data);
    return ok;
}

static bool same_shape(rg_dims a, rg_dims b) {
    return a.n == b.n && memcmp(a.v, b.v, (size_t)a.n * sizeof a.v[0]) == 0;
}

/* Returns whether t begins among the elements of x, as a view of x does. */
static bool lies_in(rg_tensor *t, rg_tensor *x) {
    int64_t last = 0;
    for (int d = 0; d < rg_ndim(x); d++)
        last += (rg_size(x, d) - 1) * rg_stride(x, d);
    uintptr_t from = (uintptr_t)rg_data(x);
    uintptr_t at = (uintptr_t)rg_data(t);
    return at >= from && at <= from + (size_t)last * rgi_sizeof((rg_dtype)rg_dtype_of(x));
}

static void check_strides(const char *what, int k, rg_tensor *t, const op_expected_tensor *e) {
    rg_dims stride = { .n = rg_ndim(t) };
    if (e->none || e->stride.n < 0)
        return;
    memcpy(stride.v, t->stride, sizeof stride.v);
    count->checks++;
    if (!same_shape(stride, e->stride))
        complain("%s %d of shape %s has strides %s, torch's %s", what, k, shape_of(e->shape),
                 shape_of(stride), shape_of(e->stride));
}

static void check_output(int k, rg_tensor *t, const op_expected_tensor *e) {
    const char *node = "-";
    if (rg_requires_grad(t))
        node = rg_is_leaf(t) ? "leaf" : rg_grad_fn(t);
    count->checks += 3;
    if (rg_dtype_of(t) != (int)golden_dtype(e->dtype))
        complain("output %d is %s, torch's %s", k, rg_dtype_name((rg_dtype)rg_dtype_of(t)),
                 rg_dtype_name(golden_dtype(e->dtype)));
    else if (!same_shape(rg_shape(t), e->shape))
        complain("output %d has shape %s, torch's %s", k, shape_of(rg_shape(t)),
                 shape_of(e->shape));
    else if (strcmp(node, e->node) != 0)
        complain("output %d has grad_fn %s, torch's %s", k, node, e->node);
    else if (current->arg[0].kind == 't' && rg_numel(t) && e->view != lies_in(t, current->arg[0].t))
        complain("output %d is %s, torch's %s", k, e->view ? "a copy" : "a view",
                 e->view ? "a view" : "a copy");
    else if (same_values("output", k, t, e))
        check_strides("output", k, t, e);
}

/* Returns whether the gradient may be zeros where torch's is None. Second gradients may, since some
 * formulas for empty tensors have a history here and none in torch. A gradient of zeros in torch is
 * never None here: after it, weight decay and momentum change a parameter, and after None they
 * don't. */
static bool may_be_zeros(const char *what) { return strncmp(what, "second", 6) == 0; }

static void check_gradient(const char *what, int k, rg_tensor *t, const op_expected_tensor *e) {
    op_expected_tensor zeros = { .shape = rg_shape(current->leaf[k]), .step = 1 };
    char nothing[1] = "";
    zeros.values = nothing;
    count->checks++;
    if (t == RG_NONE && !e->none)
        complain("%s %d is none, torch's isn't", what, k);
    if (t != RG_NONE && e->none && !may_be_zeros(what))
        complain("%s %d isn't none, torch's is", what, k);
    if (t == RG_NONE) {
        if (e->none)
            return;
        t = rg_zeros_dims(e->shape, (rg_dtype)rg_dtype_of(current->leaf[k]));
    }
    if (!same_shape(rg_shape(t), zeros.shape) || rg_dtype_of(t) != rg_dtype_of(current->leaf[k]))
        complain("%s %d has shape %s, its input %s", what, k, shape_of(rg_shape(t)),
                 shape_of(zeros.shape));
    else if (same_values(what, k, t, e->none ? &zeros : e) && strcmp(what, "gradient") == 0)
        check_strides(what, k, t, e);
}

/* Copies a text. Blanks and line feeds that follow each other become one blank. */
static void squeeze(char *to, size_t room, const char *from) {
    size_t n = 0;
    for (; *from && n + 1 < room; from++)
        if (!isspace((unsigned char)*from))
            to[n++] = *from;
        else if (n && to[n - 1] != ' ')
            to[n++] = ' ';
    to[n] = '\0';
}

/* Returns whether the line names its function twice, as in "einsum: einsum(): ..". */
static bool named_twice(const char *line) {
    size_t n = strcspn(line, ":");
    const char *again = line[n] ? line + n + 2 : "";
    again += strspn(again, "_");
    while (n && line[n - 1] == '_')
        n--;
    if (!n || strncmp(again, line, n) != 0)
        return false;
    return again[n + strspn(again + n, "_()")] == ':';
}

/* Returns whether our error says the same as torch's. A row has a clause of torch, and the
 * library's clause for it. If a call has several mistakes, torch and the library may name different
 * ones, so a clause of torch may have several rows. */
static bool says_the_same(const char *ours, const char *theirs) {
    static const char *const rows[][2] = {
#define SAID(theirs, ours) { theirs, ours },
#include "sentences.def"
#undef SAID
    };
    bool same = strstr(ours, theirs);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !same; i++)
        same = strstr(theirs, rows[i][0]) && strstr(ours, rows[i][1]);
    return same;
}

static void check_error(const char *when, const op_error *e) {
    static const struct {
        const char *kind;
        rg_code code;
    } codes[] = {
        { "RuntimeError", RG_RUNTIME_ERROR },
        { "IndexError", RG_INDEX_ERROR },
        { "ValueError", RG_VALUE_ERROR },
        { "TypeError", RG_TYPE_ERROR },
        { "NotImplementedError", RG_NOT_IMPLEMENTED },
    };
    char ours[1024];
    squeeze(ours, sizeof ours, rg_error());
    count->checks += 2;
    bool code = strcmp(e->kind, "Error") == 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        code |= strcmp(codes[i].kind, e->kind) == 0 && codes[i].code == rg_error_code();
    if (named_twice(ours))
        complain("%s error names its function twice: '%s'", when, ours);
    else if (!says_the_same(ours, e->text))
        complain("%s error is '%s', torch's '%s'", when, ours, e->text);
    else if (!code)
        complain("%s error has code %d, torch's is a %s: %s", when, rg_error_code(), e->kind, ours);
}

/* ---- a case ---------------------------------------------------------------------- */

/* Puts the outputs that require grad into y, and their cotangents beside them. Returns how many
 * there are. */
static int outputs_to_differentiate(op_result r, rg_tensor *y[], rg_tensor *cotangent[]) {
    int n = 0;
    for (int k = 0; k < r.n; k++) {
        if (!rg_requires_grad(r.t[k]))
            continue;
        cotangent[n] = op_cotangent((unsigned)k, r.t[k]);
        y[n++] = r.t[k];
    }
    return n;
}

/* Compares the second gradients: the gradients of those first gradients that have a history. */
static void check_second_backward(rg_tensor *const first[]) {
    const op_case *c = current;
    rg_tensor *y[OP_LIST], *cotangent[OP_LIST], *second[OP_LIST];
    int n = 0;
    for (int k = 0; k < c->n_leaves; k++) {
        second[k] = RG_NONE;
        if (first[k] == RG_NONE || !rg_requires_grad(first[k]))
            continue;
        cotangent[n] = op_cotangent(100 + (unsigned)k, first[k]);
        y[n++] = first[k];
    }
    if (n
        && !rg_grad_many(n, y, cotangent, c->n_leaves, c->leaf, second,
                         (rg_backward_options){ .gradient = RG_NONE, .allow_unused = true })) {
        complain("second backward failed: %s", rg_error());
        return;
    }
    for (int k = 0; k < c->n_second; k++)
        check_gradient("second gradient", k, second[k], &c->second[k]);
}

static void check_backward(op_result r) {
    const op_case *c = current;
    rg_tensor *y[OP_OUTPUTS], *cotangent[OP_OUTPUTS], *first[OP_LIST];
    rg_backward_options o = { .gradient = RG_NONE, .retain_graph = true, .allow_unused = true };
    int n = outputs_to_differentiate(r, y, cotangent);
    if (!n || (!c->n_first && !c->backward_error.kind))
        return;
    bool ok = rg_grad_many(n, y, cotangent, c->n_leaves, c->leaf, first, o);
    if (c->backward_error.kind) {
        if (ok)
            complain("backward did not fail, torch's: %s", c->backward_error.text);
        else
            check_error("backward", &c->backward_error);
        return;
    }
    if (!ok) {
        complain("backward failed: %s", rg_error());
        return;
    }
    for (int k = 0; k < c->n_first; k++)
        check_gradient("gradient", k, first[k], &c->first[k]);
    o.create_graph = true;
    if (!rg_grad_many(n, y, cotangent, c->n_leaves, c->leaf, first, o)) {
        complain("backward with create_graph failed: %s", rg_error());
        return;
    }
    for (int k = 0; k < c->n_first; k++)
        check_gradient("gradient by rule", k, first[k], &c->first[k]);
    if (c->n_second)
        check_second_backward(first);
}

/* Returns how many of the results are views whose base no other tensor holds, as in torch. Such a
 * base belongs to its view, not to the scope. */
static int64_t bases_of(const op_result *r) {
    int64_t n = 0;
    for (int k = 0; k < r->n && k < OP_OUTPUTS; k++)
        n += r->t[k] && r->t[k]->flags & RG_VIEW && rgi_base_of(r->t[k])->refs == 1;
    return n;
}

/* A call leaves its results, and the memory of a list, to the caller's scope. All other tensors
 * that it makes are released. */
static void check_leavings(op_case *c, const op_call *f) {
    RG_SCOPE();
    RG_NO_GRAD();
    int64_t before = rg_live_tensors();
    op_result r = op_called(f, c);
    int64_t left = rg_live_tensors() - before - r.n - bases_of(&r);
    if (r.n >= 0 && left > r.list)
        complain("%lld tensors besides the results are left to the scope", (long long)left);
}

static struct {
    op_case *of;
    const op_call *call;
    op_result result;
} recorded;

static void record_call(void *unused) {
    (void)unused;
    recorded.result = op_called(recorded.call, recorded.of);
    for (int k = 0; k < recorded.result.n; k++)
        if (recorded.result.t[k])
            rg_keep(recorded.result.t[k]);
}

/* Multiplies a tensor of floats by a number. If the number is positive, reverses other tensors. */
static void change_input(rg_tensor *t, double by) {
    if (!t || t == RG_NONE)
        return;
    if (rg_is_floating_point(t))
        rg_mul_(t, by);
    else if (rg_ndim(t) && by > 0)
        rg_copy_(t, rg_flip(t, 0));
}

/* Changes the tensors among the arguments. The other arguments stay, since a recording contains
 * their values. */
static void change_inputs(op_case *c, double by) {
    for (int i = 0; i < c->n_args; i++) {
        const op_argument *a = &c->arg[i];
        if (a->kind == 't')
            change_input(a->t, by);
        for (int k = 0; k < a->list.n; k++)
            change_input(a->list.v[k], by);
    }
}

/* Runs the recording, and compares the results with those of a direct call. If the direct call
 * fails, the run must fail as well. Results are detached before they are printed and compared,
 * since their grad_fn may differ. A view in the recording was made before a write to its base, and
 * prints as grad_fn=<Invalid>, as in torch. The view of the direct call is new. */
static void check_run(rg_replay *r, op_case *c, const op_call *f) {
    rg_error_clear();
    rg_manual_seed(42);
    op_result direct = op_called(f, c);
    rg_error_clear();
    rg_manual_seed(42);
    const bool ran = rg_replay_run(r);
    count->checks++;
    if (ran != (direct.n >= 0))
        complain("%s: %s", ran ? "can be replayed, but a call fails" : "can't be replayed",
                 rg_error());
    for (int k = 0; ran && k < direct.n && k < recorded.result.n; k++) {
        rg_tensor *a = rg_detach(direct.t[k]);
        rg_tensor *b = rg_detach(recorded.result.t[k]);
        if (!a || !b || !same_shape(rg_shape(a), rg_shape(b)))
            complain("replayed output %d has another shape", k);
        else if (strcmp(rg_str(a), rg_str(b)))
            complain("replayed output %d is %s, not %s", k, rg_str(b), rg_str(a));
    }
    rg_error_clear();
}

/* A call either can't be recorded, or a run of its recording does the same on other inputs as a
 * direct call. The inputs are changed twice. The second time they change their signs, so that many
 * are no longer valid. */
static void check_replay(op_case *c, const op_call *f) {
    RG_SCOPE();
    RG_NO_GRAD();
    recorded.of = c;
    recorded.call = f;
    rg_manual_seed(42);
    rg_replay *r = rg_record(record_call, NULL);
    if (!r) {
        if (rg_error_code() != RG_NOT_IMPLEMENTED)
            complain("can't be recorded: %s", rg_error());
        rg_error_clear();
        return;
    }
    change_inputs(c, 0.5);
    check_run(r, c, f);
    change_inputs(c, -0.25);
    check_run(r, c, f);
    rg_replay_free(r);
    for (int k = 0; k < recorded.result.n; k++)
        if (recorded.result.t[k])
            rg_drop(recorded.result.t[k]);
    change_inputs(c, -4);
    change_inputs(c, 2);
}

static void check_case(op_case *c, const op_call *f) {
    size_t length = strlen(c->function);
    if (c->function[length - 1] == '_' && !c->direct)
        c->arg[0].t = rg_clone(c->arg[0].t);
    for (int i = 0; i < c->n_args; i++)
        if (strchr("tn-", c->arg[i].kind) && !c->arg[i].t) {
            complain("argument %d could not be made: %s", i, rg_error());
            return;
        }
    rg_manual_seed(42);
    rg_error_clear();
    op_result r = op_called(f, c);
    if (c->error.kind) {
        if (r.n >= 0)
            complain("did not fail, torch's %s: %s", c->error.kind, c->error.text);
        else
            check_error("the", &c->error);
        return;
    }
    count->checks++;
    if (r.n < 0)
        complain("failed: %s", rg_error());
    else if (r.n != c->n_outs)
        complain("%d outputs, torch's %d", r.n, c->n_outs);
    else if (rg_error_code() != RG_OK)
        complain("an error stands after success: %s", rg_error());
    else {
        for (int k = 0; k < r.n; k++)
            check_output(k, r.t[k], &c->out[k]);
        check_backward(r);
        if (c->function[length - 1] != '_') {
            check_leavings(c, f);
            check_replay(c, f);
        }
    }
}

static char directory[512]; /* The folder of the cases. */
static char layouts[512];   /* The folder of the cases that are about strides. */
static char halves[512];    /* The folder of the cases in bfloat16 and float16. */
static char bytes[512];     /* The folder of the cases with bytes. */
static char autocasts[512]; /* The folder of the cases under autocast. */

static void check_function(const op_call *f, const char *folder) {
    golden_file file;
    static op_case c;
    file_path = file.path;
    current = &c;
    if (!golden_open_in(&file, folder, f->name))
        return;
    count->functions++;
    for (bool more = true; more;) {
        int64_t before = rg_live_tensors();
        {
            RG_SCOPE();
            more = op_case_next(&file, &c);
            if (more)
                check_case(&c, f);
            count->cases += more;
        }
        rg_error_clear();
        if (rg_live_tensors() != before)
            complain("%lld tensors are alive after it", (long long)(rg_live_tensors() - before));
        if (rgi_memory_spoilt)
            complain("%ld blocks were written to behind their ends", (long)rgi_memory_spoilt);
    }
    golden_close(&file);
}

static void check_named(const char *name) {
    golden_file file;
    bool called = false;
    for (size_t i = 0; i < sizeof op_calls / sizeof op_calls[0]; i++)
        called |= strcmp(op_calls[i].name, name) == 0;
    bool cases = golden_open_in(&file, directory, name);
    if (cases)
        golden_close(&file);
    count->declared++;
    if (called && cases)
        return;
    count->unseen++;
    printf("rg_%s isn't compared with PyTorch, as it has %s: see tests/golden/make/ops.py\n", name,
           called ? "no cases" : "no line in tests/autograd/golden.def");
}

/* Every function of ops.h must have cases. */
static void check_declared(void) {
    static const char *const kinds[] = { "rg_tensor *rg_", "rg_list    rg_",
                                         "rg_values_indices rg_", "rg_unique_result rg_" };
    char line[512], name[64];
    FILE *file = fopen("autograd/ops/ops.h", "r");
    ck_assert_msg(file != NULL, "autograd/ops/ops.h is not here");
    while (fgets(line, sizeof line, file)) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (strncmp(line, kinds[i], strlen(kinds[i])) == 0
                && sscanf(line + strlen(kinds[i]), "%60[A-Za-z0-9_]", name) == 1)
                check_named(name);
    }
    fclose(file);
}

/* ---- names ------------------------------------------------------------------------ */

/* Returns the length of the name without the suffixes that only C needs, and without the _ of a
 * function in place. */
static size_t length_of_name(const char *name) {
    static const char *const whole[] = { "expand_as", "view_as", "reshape_as", "take_along_dim",
                                         "unique_dim" };
    static const char *const behind[] = { "_",    "_p",    "_full",  "_with",  "_as",   "_dims",
                                          "_dim", "_list", "_alpha", "_sizes", "_step", "_items" };
    size_t n = strlen(name);
    bool more = true;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        more = more && strcmp(name, whole[i]) != 0;
    while (more) {
        more = false;
        for (size_t i = 0; i < sizeof behind / sizeof *behind && !more; i++) {
            const size_t end = strlen(behind[i]);
            more = n > end && strncmp(name + n - end, behind[i], end) == 0;
            n -= more ? end : 0;
        }
    }
    return n;
}

/* Returns whether the sentence begins with the function's name, as PyTorch writes it. */
static bool is_named_for(const char *said, const char *function) {
    if (strcmp(function, "set_items_") == 0)
        function = "set_item_";
    const size_t n = length_of_name(function);
    if (strncmp(said, "torch.", 6) == 0)
        said += 6;
    if (strncmp(said, function, n))
        return false;
    said += n;
    said += *said == '_';
    return *said == ':' || strncmp(said, "():", 3) == 0;
}

/* ---- out of memory --------------------------------------------------------------- */

/* Returns a hash of what a failed call must leave unchanged: elements, version, node in the
 * graph. */
static uint64_t print_of(rg_tensor *t) {
    char data[1024] = { 0 };
    uint64_t print = 14695981039346656037u;
    if (!t || t == RG_NONE || rg_numel(t) > (int64_t)sizeof data / 8
        || !rg_copy_out(t, data, sizeof data))
        return 0;
    for (size_t i = 0; i < sizeof data; i++)
        print = (print ^ (unsigned char)data[i]) * 1099511628211u;
    return print + (uint64_t)rg_version(t) * 31 + (uintptr_t)rg_grad_fn(t) + rg_requires_grad(t);
}

static uint64_t print_of_arguments(const op_case *c) {
    uint64_t print = 0;
    for (int i = 0; i < c->n_args; i++) {
        print = print * 31 + print_of(c->arg[i].t);
        for (int k = 0; k < c->arg[i].list.n; k++)
            print = print * 31 + print_of(c->arg[i].item[k]);
    }
    return print;
}

/* Calls the function and its backward with request number `fail` for memory denied. Returns true if
 * both succeeded. */
static bool try_without_memory(op_case *c, const op_call *f, int64_t fail, bool graph) {
    RG_SCOPE();
    rg_tensor *first[OP_LIST], *y[OP_OUTPUTS], *cotangent[OP_OUTPUTS], *over = c->arg[0].t;
    bool inplace = f->name[strlen(f->name) - 1] == '_';
    if (inplace && !c->direct)
        c->arg[0].t = rg_clone(over);
    uint64_t before = print_of_arguments(c);
    rg_manual_seed(42);
    rg_error_clear();
    rg_memory_fail_at(fail);
    op_result r = op_called(f, c);
    rg_memory_fail_at(0);
    /* In training batch_norm changes its running mean and variance. */
    bool moves = !strcmp(f->name, "batch_norm_with");
    if (r.n < 0 || (!inplace && !moves)) {
        count->checks++;
        if (print_of_arguments(c) != before)
            complain("request %lld failed, and an argument changed", (long long)fail);
    }
    c->arg[0].t = over;
    bool ok = r.n >= 0;
    if (!ok && !strstr(rg_error(), "out of memory") && !is_named_for(rg_error(), f->name))
        complain("request %lld failed under another name: %s", (long long)fail, rg_error());
    if (ok && rg_error_code())
        complain("request %lld failed; the call did not: %s", (long long)fail, rg_error());
    int n = ok ? outputs_to_differentiate(r, y, cotangent) : 0;
    if (n && c->n_first) {
        rg_memory_fail_at(fail);
        ok = rg_grad_many(n, y, cotangent, c->n_leaves, c->leaf, first,
                          (rg_backward_options){
                              .gradient = RG_NONE, .create_graph = graph, .allow_unused = true });
        rg_memory_fail_at(0);
    }
    count->checks++;
    count->denied += !ok;
    if (!ok && rg_error_code() != RG_OUT_OF_MEMORY)
        complain("request %lld failed with: %s", (long long)fail, rg_error());
    return ok && rg_error_code() == RG_OK;
}

/* Denies the first request for memory, then the second, and so on, until none is left. */
static void check_out_of_memory(op_case *c, const op_call *f, bool graph) {
    enum { MOST = 2000 };
    rg_error_clear();
    /* A call may succeed in another way although its request for memory fails, so the loop ends
     * only after three successes in a row. */
    for (int64_t fail = 1, spared = 0; spared < 3; fail++) {
        int64_t live = rg_live_tensors(), nodes = rg_memory_stats().nodes,
                storages = rg_memory_stats().storages;
        spared = try_without_memory(c, f, fail, graph) ? spared + 1 : 0;
        rg_error_clear();
        if (rg_live_tensors() != live || rg_memory_stats().nodes != nodes
            || rg_memory_stats().storages != storages)
            complain("request %lld failed, and %lld tensors are left", (long long)fail,
                     (long long)(rg_live_tensors() - live));
        if (fail == MOST) {
            complain("more than %d requests", MOST);
            return;
        }
    }
}

/* Calls `check` with the first small cases of a function, and with the number of each. */
static void check_small_cases(const op_call *f, int most,
                              void (*check)(op_case *c, const op_call *f, int number)) {
    enum { ELEMENTS = 64 };
    golden_file file;
    static op_case c;
    file_path = file.path;
    current = &c;
    if (!golden_open_in(&file, directory, f->name))
        return;
    for (int tried = 0; tried < most;) {
        RG_SCOPE();
        if (!op_case_next(&file, &c))
            break;
        bool fits = !c.error.kind && !c.backward_error.kind;
        for (int i = 0; i < c.n_args && fits; i++)
            fits = !c.arg[i].t || c.arg[i].t == RG_NONE || rg_numel(c.arg[i].t) <= ELEMENTS;
        if (fits)
            check(&c, f, tried++);
    }
    golden_close(&file);
}

static void check_memory_of(op_case *c, const op_call *f, int number) {
    check_out_of_memory(c, f, number & 1);
}
static void check_memory(const op_call *f) { check_small_cases(f, 5, check_memory_of); }

/* ---- refused arguments ------------------------------------------------------------- */

enum { SPOILT = 7 };

/* Returns x with another dtype or shape, which an op may refuse, or NULL if x has no dims to
 * change. */
static rg_tensor *spoilt(rg_tensor *x, int how) {
    switch (how) {
    case 0: return rg_to(x, RG_BOOL);
    case 1: return rg_to(x, RG_INT64);
    case 2: return rg_to(x, rg_dtype_of(x) == RG_FLOAT64 ? RG_FLOAT32 : RG_FLOAT64);
    case 3: return rg_unsqueeze(x, 0);
    case 4: return rg_zeros_dims((rg_dims){ 0 }, (rg_dtype)rg_dtype_of(x));
    case 5: return rg_ndim(x) ? rg_cat(RG_LIST(x, x), 0) : NULL;
    default: return rg_ndim(x) ? rg_cat(RG_LIST(x, x), rg_ndim(x) - 1) : NULL;
    }
}

/* A call that refuses an argument fails under its own name, even if it is made of other
 * functions. */
static void check_names_of(op_case *c, const op_call *f, int number) {
    (void)number;
    RG_NO_GRAD();
    for (int i = 0; i < c->n_args; i++) {
        rg_tensor *right = c->arg[i].t;
        for (int how = 0; how < SPOILT && right && right != RG_NONE; how++) {
            RG_SCOPE();
            c->arg[i].t = spoilt(right, how);
            rg_error_clear();
            op_result r = c->arg[i].t ? op_called(f, c) : (op_result){ .n = 0 };
            count->checks++;
            if (r.n < 0 && rg_error_code() != RG_OUT_OF_MEMORY
                && !is_named_for(rg_error(), f->name))
                complain("argument %d spoilt in way %d: %s", i, how, rg_error());
            rg_error_clear();
        }
        c->arg[i].t = right;
    }
}

static void check_names(const op_call *f) { check_small_cases(f, 12, check_names_of); }

/* ---- running --------------------------------------------------------------------- */

/* Checks function number i, and fails the test if a check of the function fails. */
static void run_check(int i, void (*check)(const op_call *f)) {
    const op_call *f = &op_calls[i];
    if (!op_is_asked(f))
        return;
    const int failures = count->failures;
    check(f);
    ck_assert_msg(count->failures == failures, "%s: %d checks failed", f->name,
                  count->failures - failures);
}

static void check_cases(const op_call *f) {
    check_function(f, directory);
    check_function(f, layouts);
    check_function(f, halves);
    check_function(f, bytes);
    check_function(f, autocasts);
}

START_TEST(test_function) { run_check(_i, check_cases); }
END_TEST

START_TEST(test_without_memory) { run_check(_i, check_memory); }
END_TEST

START_TEST(test_names) { run_check(_i, check_names); }
END_TEST

/* Each of these changes to the data is noticed. */
START_TEST(test_rejects) {
    static const char right[] =
        "= mul # planted\n"
        "t f64 g 2 c : 2 3\n"
        "t f64 g 2 c : 5 7\n"
        "> f64 MulBackward0 2 : 10 21\n"
        "~ 1\n"
        "g 2 : -4.7998046875 -6.7744140625\n"
        "g 2 : -1.919921875 -2.9033203125\n"
        "h 2 : -0.94589900970459 -0.2145357131958\n"
        "h 2 : -0.81277942657471 0.33172702789307\n"
        "= mul # planted\n"
        "t f32 - 2 c : 2 3\n"
        "t f32 - 3 c : 5 7 1\n"
        "! RuntimeError The size of tensor a (2) must match the size of tensor b (3) at "
        "non-singleton dimension 0\n";
    static const struct {
        const char *from, *to;
    } changes[] = {
        { "", "" },
        { "10 21", "10 21.0000000001" },
        { "10 21", "10 nan" },
        { "> f64", "> f32" },
        { "MulBackward0", "MulBackward1" },
        { "MulBackward0", "-" },
        { "2 : 10", "2,1 : 10" },
        { "> f64", "v f64" },
        { "~ 1", "~ 2" },
        { "-4.7998046875", "4.7998046875" },
        { "-2.9033203125", "-2.9062236328125" },
        { "-0.2145357131958", "-0.2145357141958" },
        { "0.33172702789307", "0" },
        { "h 2 : -0.94589900970459 -0.2145357131958", "h -" },
        { "RuntimeError", "IndexError" },
        { "tensor b (3)", "tensor b (4)" },
        { "! RuntimeError The",
          "> f32 - 2 : 1 2\n= mul # planted\nt f32 - . c : 1\nt f32 - . c : 1\n"
          "! RuntimeError The" },
    };
    char place[] = "/tmp/goldenXXXXXX", path[64], text[2048];
    ck_assert(mkdtemp(place) != NULL);
    snprintf(path, sizeof path, "%s/mul.txt", place);
    struct op_counts before = *count;
    const op_call *mul = op_calls;
    while (strcmp(mul->name, "mul") != 0)
        mul++;
    silent = true;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const char *at = strstr(right, changes[i].from);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - right), right, changes[i].to,
                 at + strlen(changes[i].from));
        FILE *file = fopen(path, "w");
        fputs(text, file);
        fclose(file);
        int failures = count->failures;
        check_function(mul, place);
        ck_assert_msg((count->failures > failures) == (i > 0), "'%s' for '%s' is %s", changes[i].to,
                      changes[i].from, i ? "not noticed" : "rejected");
    }
    silent = false;
    *count = before;
    remove(path);
    remove(place);
}
END_TEST

START_TEST(test_declared) {
    if (!op_n_named)
        check_declared();
}
END_TEST

int main(int argc, char **argv) {
    op_note_named(argc, argv);
    verbose = argc > 1;
    rgi_memory_guarded = true;
    snprintf(directory, sizeof directory, "%s/ops", golden_folder());
    snprintf(layouts, sizeof layouts, "%s/layouts", golden_folder());
    snprintf(halves, sizeof halves, "%s/half", golden_folder());
    snprintf(bytes, sizeof bytes, "%s/bytes", golden_folder());
    snprintf(autocasts, sizeof autocasts, "%s/autocast", golden_folder());
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TCase *tcase = rg_tcase("golden");
    tcase_add_loop_test(tcase, test_function, 0, (int)(sizeof op_calls / sizeof op_calls[0]));
    tcase_add_loop_test(tcase, test_without_memory, 0, (int)(sizeof op_calls / sizeof op_calls[0]));
    tcase_add_loop_test(tcase, test_names, 0, (int)(sizeof op_calls / sizeof op_calls[0]));
    tcase_add_test(tcase, test_rejects);
    tcase_add_test(tcase, test_declared);
    int crashed = rg_run("golden", tcase);
    printf("golden: %d functions declared, %d of them without cases, %d checked, %d cases, "
           "%d checks, %d denied requests, %d failures\n",
           count->declared, count->unseen, count->functions, count->cases, count->checks,
           count->denied, count->failures);
    return crashed || count->failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
