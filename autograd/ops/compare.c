/*
 * compare.c: questions about elements, whose answers are bool and have no
 * gradient.
 */
#include "elementwise.h"

/* ---- of one tensor --------------------------------------------------------------- */
static bool test_shape(rg_call *c) { return c->out[0]->dtype = RG_BOOL, rgi_shape_same(c); }
#define TEST(ident, formula)                                                           \
    RG_OP(ident, .doc = formula, .n_in = 1, .shape = test_shape, .kernel = &k_##ident, \
          SAMPLES_1("", NULL));                                                        \
    FUNCTION_1(ident)

TEST(isnan, "is x NaN?")
TEST(isinf, "is x infinite?")
TEST(isfinite, "is x neither NaN nor infinite?")
TEST(logical_not, "is x 0?")

/* ---- of two ---------------------------------------------------------------------- */

/* In place, the answer is written over x as 0 or 1, and x's old value counts no more. */
#define COMPARISON(ident, Node, formula)                                                        \
    RG_OP(ident, .doc = formula, .n_in = 2, .typing = RG_PROMOTED,                              \
          .shape = rgi_shape_broadcast_bool, .kernel = &k_##ident, SAMPLES_2("", "", NULL));    \
    FUNCTION_2(ident)                                                                           \
    rg_tensor *(rg_##ident##_)(rg_tensor * x, rg_tensor * b) {                                  \
        const char *node = elementwise_number(b) ? Node "Backward0" : Node "Backward1";         \
        return RG_COMPOSITE(#ident "_", rgi_replace_(#ident "_", node, x, (rg_##ident)(x, b))); \
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

rg_tensor *rg_logical_not_(rg_tensor *x) {
    return RG_COMPOSITE("logical_not_",
                        rgi_replace_("logical_not_", "LogicalNotBackward0", x, rg_logical_not(x)));
}
