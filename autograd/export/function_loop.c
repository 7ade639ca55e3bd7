/*
 * function_loop.c: runs the loops of users' ops whose text is known, so that a step with such an op
 * can be written as C.
 */
#include "c_calls.h"
#include "autograd/tools/function.h"
#include "tensor/error.h"
#include "tensor/handle.h"
#include "tensor/observer.h"
#include "tensor/shape.h"

enum { MOST_TENSORS = 16, MOST_NUMBERS = 16 };

static const char run_name[] = "run_function_loop";

/* Returns the dtype of the elements whose C type is the first name in the list, or RG_NO_DTYPE.
 * Sets *list to what comes behind that name. */
static rg_dtype next_type(const char **list) {
    const char *name = *list + strspn(*list, "(, ");
    const size_t n = strcspn(name, "), ");
    *list = name + n;
    for (int dtype = 0; dtype < RG_DTYPE_COUNT; dtype++) {
        const char *type = rgi_c_type((rg_dtype)dtype);
        if (strlen(type) == n && strncmp(name, type, n) == 0)
            return (rg_dtype)dtype;
    }
    return RG_NO_DTYPE;
}

/* Sets addresses[] to the addresses of the tensors' elements. */
static bool find_addresses(const rg_function_loop *loop, rg_list tensors,
                           char *addresses[MOST_TENSORS]) {
    const char *types = loop->types;
    for (int i = 0; i < tensors.n; i++) {
        rg_tensor *t = tensors.v[i];
        if (!rgi_check(t, run_name))
            return false;
        const rg_dtype wanted = next_type(&types);
        RG_FAIL_VALUE_IF(wanted != t->dtype, run_name,
                         "loop %s takes tensors of the types %s, but tensor %d has the dtype %s",
                         loop->name, loop->types, i, rgi_scalar_name((rg_dtype)t->dtype));
        RG_FAIL_VALUE_IF(!rg_is_contiguous(t), run_name,
                         "tensor %d isn't contiguous; rg_contiguous returns a copy that is", i);
        addresses[i] = t->data;
    }
    RG_FAIL_VALUE_IF(next_type(&types) != RG_NO_DTYPE, run_name,
                     "loop %s takes tensors of the types %s, but got %d tensors", loop->name,
                     loop->types, tensors.n);
    return true;
}

bool (rg_run_function_loop)(const rg_function_loop *loop, rg_list tensors, rg_dims n, int64_t count,
                          const double x[]) {
    char *addresses[MOST_TENSORS] = { NULL };
    const double none = 0;
    if (!rgi_given(loop, run_name, "a loop") || !rgi_given_list(tensors.n, tensors.v, run_name))
        return false;
    RG_FAIL_VALUE_IF(n.n < 0 || n.n > RG_MAX_DIMS, run_name, "got a list of %d whole numbers", n.n);
    RG_FAIL_VALUE_IF(tensors.n > MOST_TENSORS || count < 0 || count > MOST_NUMBERS, run_name,
                     "takes up to %d tensors and up to %d numbers, but got %d and %lld",
                     MOST_TENSORS, MOST_NUMBERS, tensors.n, (long long)count);
    if ((count && !rgi_given(x, run_name, "numbers")) || !find_addresses(loop, tensors, addresses))
        return false;
    if (!rgi_may_do_once(run_name))
        return false;
    const k_own_call call = { loop->run, loop->name, loop->text, tensors.n, n.n, (int)count };
    k_run_own(&call, addresses, n.v, count ? x : &none);
    return true;
}
