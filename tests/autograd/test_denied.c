/*
 * test_denied.c: functions that are made of several ops, long lists, hooks and writes in place have
 * each request for memory denied in turn, on their way there and back. Ops alone are denied theirs
 * in test_ops.c.
 */
#include "regard.h"
#include "tests/in_turn.h"
#include "tests/test.h"

/* Returns a leaf with numbers from 0.1 on, which lie in memory with gaps. */
static rg_tensor *leaf_of(rg_dims shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.n; d++)
        n *= shape.v[d];
    rg_tensor *twice = rg_arange(2 * n);
    rg_tensor *x = rg_div(rg_add(rg_to(twice, RG_FLOAT32), 1), (double)(10 * n));
    rg_tensor *pairs = rg_reshape(x, n, 2);
    rg_tensor *part = rg_reshape_dims(rg_clone(rg_select(pairs, 1, 0)), shape);
    rg_tensor *leaf = part ? rg_requires_grad_(part, true) : NULL;
    return leaf && shape.n > 1 ? rg_transpose(leaf, 0, 1) : leaf;
}

static rg_tensor *whole_of(rg_dims shape) { return rg_zeros_dims(shape, RG_INT64); }

#define X(...) leaf_of(RG_DIMS(__VA_ARGS__))
#define I(...) whole_of(RG_DIMS(__VA_ARGS__))

static bool and_back(rg_tensor *y) {
    if (!y || !rg_requires_grad(y))
        return y && rg_error_code() == RG_OK;
    return rg_backward(rg_sum(y), .retain_graph = true)
           && rg_backward(rg_sum(rg_mul(y, y)), .create_graph = true);
}

static rg_tensor *halved(rg_tensor *g, void *context) {
    (void)context;
    return rg_mul(g, 0.5);
}

static rg_tensor *with_hook(rg_tensor *x) {
    return x && rg_register_hook(x, halved, NULL) >= 0 ? rg_mul(x, 2) : NULL;
}

/* Returns a list of n views of x. */
static rg_list many(rg_tensor *x, int n) {
    static rg_tensor *v[400];
    for (int i = 0; i < n; i++) {
        v[i] = x ? rg_select(x, 0, i % 2) : NULL;
        if (!v[i])
            return (rg_list){ -1, NULL };
    }
    return (rg_list){ n, v };
}

#define CALL(name, call) \
    static bool call_##name(void) { return and_back(call); }
#include "tests/autograd/denied.def"
#undef CALL

START_TEST(test_denied_in_turn) {
    static const struct {
        const char *name;
        bool (*call)(void);
    } calls[] = {
#define CALL(name, call) { #name, call_##name },
#include "tests/autograd/denied.def"
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool ok;
        rg_error_clear();
        {
            RG_SCOPE();
            ok = calls[i].call();
        }
        ck_assert_msg(ok, "%s: %s", calls[i].name, rg_error());
        deny_in_turn(calls[i].call, NULL);
    }
}
END_TEST

RG_TESTS(denied, test_denied_in_turn)
