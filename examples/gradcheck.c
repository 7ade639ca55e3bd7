/*
 * gradcheck.c: computes the gradients of the self-attention layer in three ways: derived by hand,
 * by the library, and by finite differences. Then it plants two mistakes, and shows that they are
 * found.
 */
#include "show.h"

enum { X, W_QUERY, W_KEY, W_VALUE, INPUTS };
static const char *const names[INPUTS] = { "x", "w_query", "w_key", "w_value" };

/* Computes y = softmax(q k^T / sqrt(d)) v. */
static rg_tensor *self_attention(rg_tensor *const in[], void *context) {
    (void)context;
    rg_tensor *q = rg_matmul(in[X], in[W_QUERY]);
    rg_tensor *k = rg_matmul(in[X], in[W_KEY]);
    rg_tensor *v = rg_matmul(in[X], in[W_VALUE]);
    double root_d = sqrt((double)rg_size(k, -1));
    return rg_matmul(rg_softmax(rg_div(rg_matmul(q, rg_T(k)), root_d), -1), v);
}

/* Computes self_attention with a mistake: rg_detach's result has no history, so the gradient
 * doesn't flow through the keys. */
static rg_tensor *without_keys(rg_tensor *const in[], void *context) {
    rg_tensor *mistaken[] = { in[X], in[W_QUERY], rg_detach(in[W_KEY]), in[W_VALUE] };
    return self_attention(mistaken, context);
}

/* Returns sum(y * g). Its derivative with respect to y is g. */
static rg_tensor *loss(rg_tensor *const in[], rg_tensor *g) {
    return rg_sum(rg_mul(self_attention(in, NULL), g));
}

/* Computes the gradients by formulas that were derived by hand, from the last line of the forward
 * to the first. If `forget` is true, the derivative of softmax is wrong, because the sum in it is
 * left out. */
static void derive(rg_tensor *const in[], rg_tensor *g, bool forget, rg_tensor *grad[]) {
    rg_tensor *x = in[X];
    rg_tensor *q = rg_matmul(x, in[W_QUERY]);
    rg_tensor *k = rg_matmul(x, in[W_KEY]);
    rg_tensor *v = rg_matmul(x, in[W_VALUE]);
    double root_d = sqrt((double)rg_size(k, -1));
    rg_tensor *a = rg_softmax(rg_div(rg_matmul(q, rg_T(k)), root_d), -1);

    /* y = a v */
    rg_tensor *gv = rg_matmul(rg_T(a), g);
    rg_tensor *ga = rg_matmul(g, rg_T(v));
    /* a = softmax(s) */
    rg_tensor *inner = rg_sum_dim(rg_mul(a, ga), -1, true);
    rg_tensor *gs = rg_mul(a, forget ? ga : rg_sub(ga, inner));
    /* s = q k^T / sqrt(d) */
    rg_tensor *gq = rg_div(rg_matmul(gs, k), root_d);
    rg_tensor *gk = rg_div(rg_matmul(rg_T(gs), q), root_d);
    /* q = x w_query, k = x w_key, v = x w_value */
    grad[W_QUERY] = rg_matmul(rg_T(x), gq);
    grad[W_KEY] = rg_matmul(rg_T(x), gk);
    grad[W_VALUE] = rg_matmul(rg_T(x), gv);
    rg_tensor *by_q = rg_matmul(gq, rg_T(in[W_QUERY])), *by_k = rg_matmul(gk, rg_T(in[W_KEY]));
    grad[X] = rg_add(rg_add(by_q, by_k), rg_matmul(gv, rg_T(in[W_VALUE])));
}

/* Computes the gradients by finite differences. For each element p of each input, the gradient is
 * (loss at p + eps - loss at p - eps) / (2 eps). */
static void measure(rg_tensor *const in[], rg_tensor *g, double eps, rg_tensor *grad[]) {
    RG_NO_GRAD();
    for (int i = 0; i < INPUTS; i++) {
        grad[i] = rg_zeros_like(in[i]);
        double *p = rg_data_as(double, in[i]), *slope = rg_data_as(double, grad[i]);
        RG_FOR (int64_t at = 0; at < rg_numel(in[i]); at++) {
            double before = p[at];
            p[at] = before + eps;
            double above = rg_item(loss(in, g));
            p[at] = before - eps;
            slope[at] = (above - rg_item(loss(in, g))) / (2 * eps);
            p[at] = before;
        }
    }
}

/* Prints, for each input, the element at which the gradients differ most. Returns whether all
 * differences are within the tolerance. */
static bool compare(const char *whose, rg_tensor *const analytic[], rg_tensor *const numeric[],
                    double tolerance) {
    bool agree = true;
    printf("\n%s\n", whose);
    printf("  input    elements   worst element         analytic          numeric   difference\n");
    for (int i = 0; i < INPUTS; i++) {
        RG_SCOPE();
        rg_tensor *difference = rg_abs(rg_sub(analytic[i], numeric[i]));
        int64_t columns = rg_size(difference, 1), worst = rg_item_int(rg_argmax(difference));
        int64_t row = worst / columns, column = worst % columns;
        double off = rg_at(difference, row, column), measured = rg_at(numeric[i], row, column);
        bool right = off <= tolerance * fmax(1, fabs(measured));
        printf("  %-8s %8lld   [%lld][%lld]         %+16.10f %+16.10f   %.2e  %s\n", names[i],
               (long long)rg_numel(difference), (long long)row, (long long)column,
               rg_at(analytic[i], row, column), measured, off, right ? "" : "<- wrong");
        agree &= right;
    }
    printf(agree ? "  accepted\n" : "  rejected\n");
    return agree;
}

/* Compares three computations of the gradients with finite differences. Returns true if the two
 * correct ones agree with the finite differences, and the one with a mistake differs from them. */
static bool compare_all(rg_tensor *const in[], rg_tensor *g, double eps, double tolerance) {
    rg_tensor *numeric[INPUTS], *by_hand[INPUTS], *by_library[INPUTS], *wrong[INPUTS];
    measure(in, g, eps, numeric);
    derive(in, g, false, by_hand);
    rg_backward(loss(in, g));
    for (int i = 0; i < INPUTS; i++)
        by_library[i] = rg_grad_of(in[i]);
    bool right = compare("Derived by hand", by_hand, numeric, tolerance);
    right &= compare("By rg_backward", by_library, numeric, tolerance);

    derive(in, g, true, wrong);
    right &= !compare("Derived by hand, but softmax's derivative without its sum", wrong, numeric,
                      tolerance);
    return right;
}

/* Checks the layer with rg_gradcheck, and then the layer with a mistake, for which the check must
 * fail. */
static bool check_by_library(rg_tensor *const in[]) {
    bool right = rg_gradcheck(self_attention, NULL, INPUTS, in)
                 && rg_gradgradcheck(self_attention, NULL, INPUTS, in);
    printf("\nrg_gradcheck and rg_gradgradcheck, which do this for every output and for second "
           "derivatives: accepted\n");
    /* The next error is expected. Without a handler it doesn't stop the program. */
    rg_on_error(NULL);
    bool noticed = !rg_gradcheck(without_keys, NULL, INPUTS, in);
    printf("rg_gradcheck of the layer with its keys detached: %s\n",
           noticed ? rg_error() : "accepted, which is wrong");
    return right && noticed;
}

int main(int argc, char *argv[]) {
    int64_t n = 6, d = 3, d_kq = 2, d_v = 4, seed = 123;
    double eps = 1e-6, tolerance = 1e-7;
    const option options[] = {
        { "words", WHOLE, &n, 2, 1024, "rows of x" },
        { "dim", WHOLE, &d, 1, 1024, "numbers in a word" },
        { "dim-kq", WHOLE, &d_kq, 1, 1024, "of a query and of a key" },
        { "dim-v", WHOLE, &d_v, 1, 1024, "of a value" },
        { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
        { "eps", NUMBER, &eps, 1e-12, 1, "how far an element is moved" },
        { "tolerance", NUMBER, &tolerance, 0, 1e6,
          "largest difference, for numbers above 1 as a share of them" },
    };
    int first = READ_OPTIONS(argc, argv, "", options);
    if (first < argc)
        refuse("takes no '%s'; --help lists its options", argv[first]);
    rg_on_error(stop_on_error);
    rg_manual_seed((uint64_t)seed);
    rg_set_default_dtype(RG_FLOAT64);
    rg_tensor *in[INPUTS];
    in[X] = rg_randn(n, d);
    in[W_QUERY] = rg_randn(d, d_kq);
    in[W_KEY] = rg_randn(d, d_kq);
    in[W_VALUE] = rg_randn(d, d_v);
    rg_tensor *g = rg_randn(n, d_v);
    for (int i = 0; i < INPUTS; i++)
        rg_requires_grad_(in[i], true);
    printf("y = softmax(q k^T / sqrt(d)) v for %lld words; each element is moved by %g to either "
           "side.\n",
           (long long)n, eps);
    bool right = compare_all(in, g, eps, tolerance);
    right &= check_by_library(in);
    return right ? 0 : 1;
}
