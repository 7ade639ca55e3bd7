/*
 * test_dictionaries.c: a list of tensors by name is a dictionary, so no two entries may have the
 * same name. Each function that takes such a list refuses a name that comes twice, and changes
 * nothing.
 */
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 300 };

/* Returns the list with its last name once more, with another value. */
static rg_named_list last_twice(rg_named_list list) {
    static rg_named v[MOST];
    ck_assert(list.n > 0 && list.n < MOST);
    memcpy(v, list.v, (size_t)list.n * sizeof *v);
    v[list.n] = v[list.n - 1];
    v[list.n].tensor = rg_add(v[list.n].tensor, 1);
    return (rg_named_list){ list.n + 1, v };
}

/* Returns "the name "..." comes twice", with the list's last name. */
static const char *sentence(rg_named_list list) {
    static char text[128];
    snprintf(text, sizeof text, "load_state_dict: the name \"%s\" comes twice",
             list.v[list.n - 1].name);
    return text;
}

START_TEST(test_modules) {
    rg_linear_module *m = rg_nn_linear(2, 3);
    const rg_named_list own = rg_state_dict(m), twice = last_twice(own);
    rg_tensor *before = rg_clone(own.v[1].tensor);
    for (int strict = 0; strict < 2; strict++) {
        ck_fails(rg_load_state_dict(m, twice, strict), RG_VALUE_ERROR,
                 "load_state_dict: the name \"bias\" comes twice");
        ck_fails(rg_load_state_dict_keys(m, twice, strict).missing_keys.n >= 0, RG_VALUE_ERROR,
                 "load_state_dict: the name \"bias\" comes twice");
    }
    /* A name that the module doesn't have mustn't come twice, either. */
    rg_tensor *x = rg_zeros(1);
    const rg_named_list others = RG_NAMED_LIST({ "a", x }, { "a", x });
    ck_fails(rg_load_state_dict(m, others, false), RG_VALUE_ERROR, "the name \"a\" comes twice");
    ck_assert(rg_equal(before, own.v[1].tensor));
    ck_ok(rg_load_state_dict(m, own, true));
    rg_module_free(m);
}
END_TEST

static rg_tensor *closure_of(void *x) {
    rg_tensor *loss = rg_sum(rg_square(x));
    return rg_backward(loss) ? loss : NULL;
}

/* Makes two steps. Asserts that the optimizer refuses its own state with the last entry twice. */
static void check_optim(rg_optim *o, rg_tensor *x) {
    for (int i = 0; i < 2; i++) {
        rg_optim_zero_grad(o);
        ck_ok(rg_optim_step_closure(o, closure_of, x));
    }
    const rg_named_list state = rg_optim_state_dict(o);
    ck_assert_int_gt(state.n, 0);
    ck_fails(rg_optim_load_state_dict(o, last_twice(state)), RG_VALUE_ERROR, sentence(state));
    /* The first entry mustn't come twice, either. It may be a tensor or a number. */
    rg_named v[MOST];
    ck_assert_int_lt(state.n, MOST);
    memcpy(v, state.v, (size_t)state.n * sizeof *v);
    v[state.n] = v[0];
    ck_fails(rg_optim_load_state_dict(o, rg_named_list_of(state.n + 1, v)), RG_VALUE_ERROR,
             "comes twice");
    ck_ok(rg_optim_load_state_dict(o, state));
}

START_TEST(test_optimizers) {
    rg_tensor *x = rg_requires_grad_(rg_ones(3), true);
    rg_optim *adam = rg_optim_adam(RG_LIST(x));
    check_optim(adam, x);
    rg_schedule *schedule = rg_optim_step_lr(adam, .step_size = 2);
    const rg_named_list state = rg_schedule_state_dict(schedule);
    ck_fails(rg_schedule_load_state_dict(schedule, last_twice(state)), RG_VALUE_ERROR,
             "comes twice");
    ck_ok(rg_schedule_load_state_dict(schedule, state));
    rg_optim_free(adam);
    rg_optim *lbfgs = rg_optim_lbfgs(RG_LIST(x));
    check_optim(lbfgs, x);
    rg_optim_free(lbfgs);
}
END_TEST

START_TEST(test_loaders) {
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_arange(6)), .shuffle = true);
    ck_assert_int_eq(rg_data_loader_next(l).n, 1);
    const rg_named_list state = rg_data_loader_state_dict(l);
    ck_fails(rg_data_loader_load_state_dict(l, last_twice(state)), RG_VALUE_ERROR,
             "data_loader_load_state_dict: the name \"order\" comes twice");
    ck_ok(rg_data_loader_load_state_dict(l, state));
    rg_data_loader_free(l);
}
END_TEST

START_TEST(test_files) {
    rg_tensor *a = rg_zeros(2), *b = rg_ones(2);
    const rg_named_list twice = RG_NAMED_LIST({ "w", a }, { "w", b });
    scratch_begin();
    ck_fails(rg_save_file(twice, scratch("a")), RG_VALUE_ERROR, "\"w\" comes twice");
    ck_fails(rg_save_npz(twice, scratch("a")), RG_VALUE_ERROR, "two members have one name");
    ck_fails(rg_torch_save(twice, scratch("a")), RG_VALUE_ERROR, "\"w\" comes twice");
    static const rg_metadata_pair pairs[] = { { "k", "1" }, { "k", "2" } };
    ck_fails(rg_save_file(RG_NAMED_LIST({ "w", a }), scratch("a"), .metadata = { 2, pairs }),
             RG_VALUE_ERROR, "metadata \"k\" comes twice");
    ck_assert_int_eq(scratch_files(), 0);
    scratch_end();
}
END_TEST

START_TEST(test_checkpoints) {
    rg_tensor *a = rg_zeros(2), *b = rg_ones(2);
    double x = 1, y = 2;
    const rg_training once = { .tensors = RG_NAMED_LIST({ "w", a }),
                               .numbers = RG_NUMBERS({ "n", &x }) };
    const rg_training twice[] = {
        { .tensors = RG_NAMED_LIST({ "w", a }, { "w", b }), .numbers = once.numbers },
        { .tensors = once.tensors, .numbers = RG_NUMBERS({ "n", &x }, { "n", &y }) },
    };
    scratch_begin();
    ck_ok(rg_save_checkpoint(scratch("once"), once));
    for (int i = 0; i < 2; i++) {
        ck_fails(rg_save_checkpoint(scratch("a"), twice[i]), RG_VALUE_ERROR, "comes twice");
        ck_fails(rg_torch_save_checkpoint(scratch("a"), twice[i]), RG_VALUE_ERROR, "comes twice");
        ck_fails(rg_load_checkpoint(scratch("once"), twice[i]), RG_RUNTIME_ERROR,
                 i ? "The program's list has this name twice: \"numbers.n\""
                   : "The program's list has this name twice: \"tensors.w\"");
        ck_assert(y == 2 && rg_item(rg_sum(b)) == 2);
    }
    ck_ok(rg_load_checkpoint(scratch("once"), once));
    scratch_end();
}
END_TEST

RG_TESTS(dictionaries, test_modules, test_optimizers, test_loaders, test_files, test_checkpoints)
