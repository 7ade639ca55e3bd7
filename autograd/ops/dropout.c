/*
 * dropout.c: dropout, which sets random elements to 0.
 */
#include "autograd/checks.h"
#include "tensor/text/digits.h"

/* ---- dropout: x times a random mask of 0 and 1 / (1 - p). The mask has x's order of dims in
 *      memory, and its elements are drawn in that order ------------------------- */

rg_tensor *(rg_dropout_with)(rg_tensor *x, double p, bool training, rg_generator *g) {
    if (!rgi_check(x, "dropout"))
        return NULL;
    rg_code code = p == p ? RG_VALUE_ERROR : RG_RUNTIME_ERROR;
    RG_FAIL_AS_IF(code, !(p >= 0 && p <= 1), "dropout",
                  "dropout probability has to be between 0 and 1, but got %s",
                  rgi_python_float(p));
    if (p == 0 || !training || x->numel == 0)
        return rgi_lend(x);
    if (p == 1)
        return RG_COMPOSITE("dropout", rg_mul(x, rg_zeros_like(x)));
    if (!rgi_want_cast("dropout", rgi_is_float(x->dtype), RG_FLOAT32, x->dtype))
        return NULL;
    RG_AS("dropout");
    RG_SCOPE();
    rg_tensor *kept = rg_bernoulli_with_(rgi_own(rgi_new_dense_like(x, x->dtype)), 1 - p, g);
    return rg_escape(rg_mul(x, rg_div_(kept, 1 - p)));
}
