/*
 * test_special.c: special numbers (NaN, infinities, zeros, the largest and the smallest numbers) at
 * one place of the operands of the golden cases, and gradients in other layouts. No other library
 * gives these results bit for bit. special.txt has, for each function, a hash of all results, first
 * gradients, by fused derivatives and by rules, and second gradients. All compilers and instruction
 * sets give the same bits, so a hash that differs is a function that computes otherwise than it
 * did. (With another C library, functions that call it aren't compared: see tests/libm.h.)
 *
 *     build/tests/autograd/test_special                  all functions
 *     build/tests/autograd/test_special says             prints the lines of special.txt
 *     build/tests/autograd/test_special says softmax     prints what the hash of softmax is made of
 */
#include "op_calls.h"

#include "tests/golden.h"
#include "tests/hash.h"
#include "tests/libm.h"
#include "tests/test.h"

/* The first EACH cases of a function are computed with every special number, the others with one.
 * Tensors of more than LARGEST elements are left out. */
enum { EACH = 24, LARGEST = 512 };

static const double special[] = {
    1, NAN, INFINITY, -INFINITY, 0, -0.0, 1e38, -1e38, 1e-40, 0.5, -1
};
enum { SPECIAL = sizeof special / sizeof *special };

static uint64_t hash;

/* ---- gradients --------------------------------------------------------------------------- */

/* Returns the k-th cotangent: a contiguous tensor, one with turned dims, or an expanded number. */
static rg_tensor *cotangent_of(rg_tensor *y, unsigned k) {
    if (k % 3 == 0)
        return op_cotangent(k, y);
    if (k % 3 == 1)
        return rg_expand_dims(op_cotangent(k, rg_scalar_dtype(0, (rg_dtype)rg_dtype_of(y))),
                              rg_shape(y));
    rg_dims turned = rg_shape(y);
    rg_dims order = { .n = turned.n };
    for (int d = 0; d < order.n; d++) {
        order.v[d] = order.n - 1 - d;
        turned.v[d] = rg_size(y, order.n - 1 - d);
    }
    return rg_permute_dims(op_cotangent(k, rg_zeros_dims(turned, (rg_dtype)rg_dtype_of(y))), order);
}

/* Adds gradients of the n tensors y, or the error. Returns whether there are gradients. */
static bool add_gradients(int n, rg_tensor *const y[], const op_case *c, unsigned k, bool by_rule,
                          rg_tensor *x[]) {
    rg_tensor *cotangent[OP_LIST];
    for (int i = 0; i < n; i++)
        cotangent[i] = cotangent_of(y[i], k + (unsigned)i);
    const rg_backward_options o = { .retain_graph = true,
                                    .allow_unused = true,
                                    .create_graph = by_rule };
    const bool ok = rg_grad_many(n, y, cotangent, c->n_leaves, c->leaf, x, o);
    for (int i = 0; ok && i < c->n_leaves; i++)
        hash_tensor(x[i], LARGEST, &hash);
    hash_number(rg_error_code(), &hash);
    rg_error_clear();
    return ok;
}

static void add_all_gradients(const op_result *r, const op_case *c, unsigned k) {
    rg_tensor *y[OP_OUTPUTS], *first[OP_LIST], *grows[OP_LIST], *second[OP_LIST];
    int n = 0, m = 0;
    for (int i = 0; i < r->n && i < OP_OUTPUTS; i++)
        if (rg_requires_grad(r->t[i]) && rg_numel(r->t[i]) <= LARGEST)
            y[n++] = r->t[i];
    if (!n || !add_gradients(n, y, c, k, false, first) || !add_gradients(n, y, c, k, true, first))
        return;
    for (int i = 0; i < c->n_leaves; i++)
        if (first[i] != RG_NONE && rg_requires_grad(first[i]))
            grows[m++] = first[i];
    if (m)
        add_gradients(m, grows, c, k + 1, false, second);
}

/* ---- a case ------------------------------------------------------------------------------ */

/* Writes the number to one element of each tensor of floats, by the case's number. Numbers of two
 * operands are at the same or at different places. */
static void put(rg_tensor *t, double number, unsigned k) {
    if (!t || t == RG_NONE || !rg_is_floating_point(t) || !rg_numel(t) || !rg_ndim(t))
        return;
    RG_NO_GRAD();
    rg_tensor *at = rg_detach(t);
    while (rg_ndim(at))
        at = rg_select(at, 0, (int64_t)(k % 3) * (rg_size(at, 0) - 1) / 2);
    rg_fill_(at, number);
}

static void put_all(op_case *c, double number, unsigned k) {
    for (int i = 0; i < c->n_args; i++) {
        if (c->arg[i].kind == 't' && (k + (unsigned)i) % 4)
            put(c->arg[i].t, number, k + (unsigned)i * (k % 2));
        for (int j = 0; j < c->arg[i].list.n; j++)
            put(c->arg[i].item[j], number, k + (unsigned)j);
    }
}

static bool is_small(const op_case *c) {
    bool small = true;
    for (int i = 0; i < c->n_args; i++) {
        rg_tensor *t = c->arg[i].t;
        small = small && (!t || t == RG_NONE || rg_numel(t) <= LARGEST);
        for (int k = 0; k < c->arg[i].list.n; k++)
            small = small && rg_numel(c->arg[i].item[k]) <= LARGEST;
    }
    return small;
}

static void add_case(op_case *c, const op_call *f, unsigned k) {
    put_all(c, special[k % SPECIAL], k);
    if (f->name[strlen(f->name) - 1] == '_' && !c->direct)
        c->arg[0].t = rg_clone(c->arg[0].t);
    rg_manual_seed(42);
    rg_error_clear();
    const op_result r = op_called(f, c);
    for (int i = 0; i < r.n && i < OP_OUTPUTS; i++)
        hash_tensor(r.t[i], LARGEST, &hash);
    hash_number(rg_error_code(), &hash);
    rg_error_clear();
    if (r.n > 0)
        add_all_gradients(&r, c, k);
}

/* ---- a function -------------------------------------------------------------------------- */

/* Adds the cases of a file that are computed in this turn. */
static void add_turn(golden_file file, const op_call *f, unsigned turn, bool sentences) {
    static op_case c;
    bool more = true;
    for (unsigned k = 0; more; k++) {
        RG_SCOPE();
        more = op_case_next(&file, &c);
        const bool unset = strncmp(f->name, "empty", 5) == 0;
        if (!more || c.error.kind || unset || !is_small(&c) || (k >= EACH && turn))
            continue;
        add_case(&c, f, k + turn * (1 + k / SPECIAL));
        if (sentences)
            printf("line %d, turn %u: %016llx\n", c.line, turn, (unsigned long long)hash);
    }
}

/* Returns a hash of all cases of a function. A file is cut up when it is read, so that each turn
 * reads it anew. */
static uint64_t hash_of(const op_call *f, bool sentences) {
    static const char *const folders[] = { "ops", "layouts", "half", "bytes", "autocast" };
    char path[512];
    golden_file file;
    hash = 1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", golden_folder(), folders[i]);
        for (unsigned turn = 0; turn < SPECIAL && golden_open_in(&file, path, f->name); turn++) {
            char *text = file.text;
            add_turn(file, f, turn, sentences);
            free(text);
        }
    }
    return hash;
}

START_TEST(every_function_computes_as_it_did) {
    char name[64], first[64] = "";
    unsigned long long said;
    int n = 0, differ = 0;
    const bool known = libm_is_known();
    FILE *file = fopen("tests/autograd/special.txt", "r");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%63s %llx", name, &said) == 2) {
        ck_assert_int_lt(n, RG_COUNT(op_calls));
        ck_assert_str_eq(name, op_calls[n].name);
        const bool compared = known || !calls_libm(name);
        if (compared && hash_of(&op_calls[n], false) != said && !differ++)
            strcpy(first, name);
        n++;
    }
    fclose(file);
    ck_assert_int_eq(n, RG_COUNT(op_calls));
    ck_assert_msg(differ == 0,
                  "%d functions compute otherwise, the first is %s: see the head of "
                  "test_special.c",
                  differ, first);
}
END_TEST

/* Prints special.txt or, if functions are named, what their hashes are made of. */
START_TEST(say) {
    for (int i = 0; i < RG_COUNT(op_calls); i++)
        if (op_is_asked(&op_calls[i])) {
            const uint64_t found = hash_of(&op_calls[i], op_n_named);
            printf("%s %016llx\n", op_calls[i].name, (unsigned long long)found);
        }
}
END_TEST

/* Losses warn of targets that broadcast, which isn't of interest here. */
static void say_nothing(const char *message) { (void)message; }

int main(int argc, char **argv) {
    TCase *tcase = rg_tcase("special");
    const bool says = argc > 1 && strcmp(argv[1], "says") == 0;
    rg_on_warning(say_nothing);
    op_note_named(argc - says, argv + says);
    /* valgrind's multiply-add gives -0 for 0. */
    if (says)
        tcase_add_test(tcase, say);
    else if (!rg_emulated())
        tcase_add_test(tcase, every_function_computes_as_it_did);
    return rg_run("special", tcase) ? EXIT_FAILURE : EXIT_SUCCESS;
}
