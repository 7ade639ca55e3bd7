/*
 * test_bare_paths.c: every kind of file in the current folder, by a path without a slash, and every
 * kind of folder as ".".
 */
#include "regard.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char before[4096];

static void enter(void) {
    scratch_begin();
    ck_assert(getcwd(before, sizeof before) != NULL && chdir(scratch("")) == 0);
}

static void leave(void) {
    ck_assert(chdir(before) == 0);
    scratch_end();
}

/* Returns the first tensor of a list that was loaded. */
static rg_tensor *first_of(rg_named_list list) {
    ck_assert_msg(list.n > 0, "%s", rg_error());
    return list.v[0].tensor;
}

START_TEST(test_tensors) {
    enter();
    rg_tensor *x = rg_arange(6);
    const rg_named one[] = { { "x", x } };
    const rg_named_list list = { 1, (rg_named *)one };
    ck_ok(rg_save_file(list, "a.safetensors"));
    ck_assert(rg_equal(first_of(rg_load_file("a.safetensors")), x));
    static const char index[] = "{\"metadata\": {}, \"weight_map\": {\"x\": \"a.safetensors\"}}";
    scratch_write("a.index.json", index, sizeof index - 1);
    ck_assert(rg_equal(first_of(rg_load_file("a.index.json")), x));
    ck_ok(rg_save_npy(x, "a.npy"));
    ck_assert(rg_equal(rg_load_npy("a.npy"), x));
    ck_ok(rg_save_npz(list, "a.npz"));
    ck_assert(rg_equal(first_of(rg_load_npz("a.npz")), x));
    ck_ok(rg_torch_save(list, "a.pt"));
    ck_assert(rg_equal(first_of(rg_torch_load("a.pt")), x));
    scratch_write("a.csv", "1,2\n3,4\n", 8);
    ck_assert(rg_equal(rg_load_csv("a.csv"), rg_literal([ [ 1., 2. ], [ 3., 4. ] ])));
    ck_assert_int_eq(rg_load_lines("a.csv").n, 2);
    leave();
}
END_TEST

START_TEST(test_models) {
    enter();
    rg_linear_module *m = rg_nn_linear(3, 2);
    rg_optim *o = rg_optim_adam(rg_parameters(m));
    ck_ok(rg_backward(rg_sum(rg_call(m, rg_ones(1, 3)))) && rg_optim_step(o));
    ck_ok(rg_module_save(m, "m.safetensors") && rg_module_load(m, "m.safetensors"));
    const rg_training run = { .model = m, .optim = o };
    ck_ok(rg_save_checkpoint("c", run) && rg_load_checkpoint("c", run));
    ck_ok(rg_torch_save_checkpoint("c.pt", run));
    rg_optim_free(o);
    rg_module_free(m);
    rg_gpt *gpt = rg_nn_gpt(.block_size = 4, .vocab_size = 5, .n_layer = 1, .n_head = 1,
                            .n_embd = 2);
    ck_ok(rg_gpt_to_folder(gpt, "."));
    rg_gpt *again = rg_gpt_from_folder(".");
    ck_ok(again);
    rg_module_free(again);
    rg_module_free(gpt);
    leave();
}
END_TEST

START_TEST(test_pictures) {
    enter();
    rg_tensor *x = rg_requires_grad_(rg_ones(2, 3), true);
    ck_ok(rg_save_heat_map(rg_detach(x), "a.svg") && rg_save_curve(rg_arange(4), "b.svg"));
    ck_ok(rg_graph_save(rg_sum(x), "a.dot"));
    rg_report *r = rg_report_begin("a.html");
    ck_ok(rg_report_number(r, "loss", 1, 2) && rg_report_end(r));
    ck_assert_int_eq(scratch_files(), 4);
    leave();
}
END_TEST

RG_TESTS(bare_paths, test_tensors, test_models, test_pictures)
