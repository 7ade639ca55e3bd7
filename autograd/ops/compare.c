/*
 * compare.c: questions about elements, whose answers are bool and have no gradient. Each is a row
 * of a table.
 */
#include "elementwise.h"

/* ---- questions about one tensor ------------------------------------------------ */

static bool test_shape(rg_call *c) {
    c->out[0]->dtype = RG_BOOL;
    return rgi_shape_same(c);
}

/* TEST makes an op's row, with the kernel k_ident, and its function. */
#define TEST(ident, formula)                                                           \
    RG_OP(ident, .doc = formula, .n_in = 1, .laid_between = true, .shape = test_shape, \
          .kernel = &k_##ident, SAMPLES_1("", NULL));                                  \
    rg_tensor *rg_##ident(rg_tensor *x) { return RG_APPLY(ident, RG_NO_ATTR, x); }

TEST(isnan, "is x NaN?")
TEST(isinf, "is x infinite?")
TEST(isfinite, "is x neither NaN nor infinite?")
TEST(logical_not, "is x 0?")

rg_tensor *rg_logical_not_(rg_tensor *x) {
    return RG_COMPOSITE("logical_not_",
                        rgi_replace_("logical_not_", "LogicalNotBackward0", x, rg_logical_not(x)));
}

/* ---- questions about two ------------------------------------------------------- */

/* Writes the answer over x as 0 or 1. torch names the node by whether b is a number. */
static rg_tensor *compare_in_place(const char *name, const char *node_of_number,
                                   const char *node_of_tensor,
                                   rg_tensor *(*compare)(rg_tensor *, rg_tensor *), rg_tensor *x,
                                   rg_tensor *b) {
    const char *node = elementwise_is_number(b) ? node_of_number : node_of_tensor;
    RG_AS(name);
    RG_SCOPE();
    return rg_escape(rgi_replace_(name, node, x, compare(x, b)));
}

/* COMPARISON makes an op's row, with the kernel k_ident, and its functions. */
#define COMPARISON(ident, Node, formula)                                                         \
    RG_OP(ident, .doc = formula, .n_in = 2, .typing = RG_PROMOTED, .laid_between = true,         \
          .shape = rgi_shape_broadcast_bool, .kernel = &k_##ident, SAMPLES_2("", "", NULL));     \
    rg_tensor *(rg_##ident)(rg_tensor * a, rg_tensor * b) {                                      \
        return RG_APPLY(ident, RG_NO_ATTR, a, b);                                                \
    }                                                                                            \
    rg_tensor *(rg_##ident##_)(rg_tensor * x, rg_tensor * b) {                                   \
        return compare_in_place(#ident "_", Node "Backward0", Node "Backward1", (rg_##ident), x, \
                                b);                                                              \
    }

COMPARISON(eq, "Eq", "a == b")
COMPARISON(ne, "Ne", "a != b")
COMPARISON(lt, "Lt", "a < b")
COMPARISON(le, "Le", "a <= b")
COMPARISON(gt, "Gt", "a > b")
COMPARISON(ge, "Ge", "a >= b")
COMPARISON(logical_and, "LogicalAnd", "a and b")
COMPARISON(logical_or, "LogicalOr", "a or b")
COMPARISON(logical_xor, "LogicalXor", "a or b, not both")
