/* test_observer.c: functions that an observer (tensor/observer.h) leaves NULL aren't called. What
 * an observer refuses isn't done. */
#include "tests/test.h"
#include "tensor/observer.h"
#include "tensor/random/random.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <math.h>

/* Makes tensors in several ways, writes to them, reads them and releases them. */
static void use_all(void) {
    RG_SCOPE();
    rg_tensor *t = rg_ones(3);
    rg_tensor *output = rgi_own(rgi_new_output(RG_FLOAT32, 1, (int64_t[]){ 3 }));
    ck_ok(t);
    ck_ok(output);
    ck_ok(rg_uniform_(output, 0, 1));
    ck_ok(rg_randint(0, 9, 4));
    ck_assert(rg_equal(t, rg_ones(3)) && rg_at(t, 2) == 1);
    ck_assert(rgi_observe_copy(output, t, "copy"));
    ck_assert(!rgi_observe_operation(output, "operation", &(rg_operation){ .redo = NULL }));
    rg_drop(rg_keep(rg_zeros(2)));
}

START_TEST(test_who_asks_for_nothing) {
    rg_observer nobody = { 0 };
    rgi_thread_start();
    ck_assert_ptr_null(rgi_set_observer(&nobody));
    use_all();
    ck_assert_ptr_eq(rgi_set_observer(NULL), &nobody);
}
END_TEST

static int times_released;
static void counts(rg_observer *o) {
    (void)o;
    times_released++;
}

/* The observer is called whenever tensors may have been released. */
START_TEST(test_who_hears_of_releases) {
    rgi_thread_start();
    rg_observer listener = { .released = counts };
    rg_tensor *kept = rg_keep(rg_ones(2)), *owned = rg_ones(2);
    rgi_set_observer(&listener);
    rg_drop(kept);
    ck_assert_int_eq(times_released, 1);
    rg_drop(owned);
    ck_assert_int_eq(times_released, 2);
    rg_scope_end(rg_scope_begin());
    ck_assert_int_eq(times_released, 3);
    rgi_set_observer(NULL);
    times_released = 0;
}
END_TEST

static bool refuses(rg_observer *o, const char *op, const char *instead) {
    (void)o;
    (void)instead;
    return rgi_fail(RG_NOT_IMPLEMENTED, op, "is refused");
}

START_TEST(test_who_refuses) {
    RG_SCOPE();
    rg_observer strict = { .may_do_once = refuses };
    rg_generator *g = rg_default_generator();
    rg_tensor *t = rg_full(RG_DIMS(1), 0.5), *state = rg_generator_state(g), *other;
    float copy = 7;
    rgi_set_observer(&strict);
    ck_fails(!isnan(rg_item(t)), RG_NOT_IMPLEMENTED, "item: is refused");
    ck_fails(rg_item_int(t) != -1, RG_NOT_IMPLEMENTED, "item: is refused");
    ck_fails(!isnan(rg_at(t, 0)), RG_NOT_IMPLEMENTED, "at: is refused");
    ck_fails(rg_data(t), RG_NOT_IMPLEMENTED, "data: is refused");
    ck_fails(rg_copy_out(t, &copy, sizeof copy), RG_NOT_IMPLEMENTED, "copy_out: is refused");
    ck_fails(rg_equal(t, t), RG_NOT_IMPLEMENTED, "equal: is refused");
    ck_fails(rg_allclose(t, t, 0, 0), RG_NOT_IMPLEMENTED, "allclose: is refused");
    ck_fails(rg_generator_seed(g, 1), RG_NOT_IMPLEMENTED, "generator_seed: is refused");
    ck_fails(rg_generator_set_state(g, state), RG_NOT_IMPLEMENTED,
             "generator_set_state: is refused");
    ck_fails(rg_randperm(3), RG_NOT_IMPLEMENTED, "randperm: is refused");
    ck_fails(rgi_draw_bernoulli(t, g), RG_NOT_IMPLEMENTED, "bernoulli: is refused");
    ck_fails(rg_multinomial(t, 1, true), RG_NOT_IMPLEMENTED, "multinomial: is refused");
    rgi_set_observer(NULL);
    other = rg_generator_state(g);
    ck_assert_msg(rg_equal(state, other), "a call that was refused drew numbers");
    ck_assert(copy == 7);
}
END_TEST

RG_TESTS(observer, test_who_asks_for_nothing, test_who_hears_of_releases, test_who_refuses)
