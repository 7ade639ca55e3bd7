/* Scopes: who owns a result, and what happens to one that outlives its scope. */
#include "tests/test.h"
#include "tensor/internal.h"

static rg_tensor *three(void) { return rg_own(rg_new(RG_FLOAT32, 1, (int64_t[]){ 3 })); }

static rg_tensor *escaping(void)
{
    RG_SCOPE();
    three();
    return rg_escape(three());
}

START_TEST(test_scope_ends)
{
    int64_t before = rg_live_tensors();
    {
        RG_SCOPE();
        three();
        three();
        ck_assert_int_eq(rg_live_tensors(), before + 2);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_escape)
{
    int64_t before = rg_live_tensors();
    RG_SCOPE();
    rg_tensor *t = escaping();
    ck_assert_int_eq(rg_numel(t), 3);
    ck_assert_int_eq(rg_live_tensors(), before + 1);
    rg_drop(t);
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_for_releases_each_iteration)
{
    int64_t before = rg_live_tensors();
    RG_FOR (int i = 0; i < 10; i++) {
        three();
        if (i == 3) continue;
        if (i == 5) break;
        ck_assert_int_eq(rg_live_tensors(), before + 1);
    }
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_keep_and_drop)
{
    int64_t before = rg_live_tensors();
    rg_tensor *t;
    {
        RG_SCOPE();
        t = rg_keep(three());
    }
    ck_assert_int_eq(rg_numel(t), 3);
    rg_drop(t);
    ck_assert_int_eq(rg_live_tensors(), before);
}
END_TEST

START_TEST(test_use_after_scope_is_named)
{
    rg_tensor *t;
    {
        RG_SCOPE();
        t = three();
    }
    ck_assert_int_eq(rg_numel(t), -1);
    ck_assert_int_eq(rg_error_code(), RG_RELEASED);
    ck_assert_str_eq(rg_error(), "numel: tensor released with its scope; return it with rg_escape");
}
END_TEST

RG_TESTS(scope, test_scope_ends, test_escape, test_for_releases_each_iteration, test_keep_and_drop,
         test_use_after_scope_is_named)
