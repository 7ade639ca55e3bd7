/*
 * test_torch_checkpoint.c: what a file of torch.save's has for a module and for an optimizer is
 * loaded into them.
 */
#include "tests/test.h"
#include "regard.h"
#include "tensor/files.h"

#include <string.h>

static const char checkpoint[] = "tests/golden/files/checkpoint.pt";

static rg_tensor *entry(rg_named_list list, const char *name) {
    for (int i = 0; i < list.n; i++)
        if (strcmp(list.v[i].name, name) == 0)
            return list.v[i].tensor;
    ck_abort_msg("there is no %s", name);
}

START_TEST(test_module) {
    RG_SCOPE();
    rg_named_list file = rg_torch_load(checkpoint);
    void *m = rg_nn_linear(3, 2);
    ck_ok(rg_load_state_dict(m, rg_named_below(rg_named_below(file, "model"), "0"), true));
    rg_named_list own = rg_state_dict(m);
    ck_assert(rg_equal(entry(own, "weight"), entry(file, "model.0.weight")));
    ck_assert(rg_equal(entry(own, "bias"), entry(file, "model.0.bias")));
    ck_fails(rg_load_state_dict(m, rg_named_below(file, "optimizer"), true), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"weight\", \"bias\"");
    rg_named none[] = { { "weight", RG_NONE }, { "bias", entry(own, "bias") }, { "x", RG_NONE } };
    const char *sentence = "While copying the parameter named \"weight\", expected torch.Tensor or "
                           "Tensor-like object from checkpoint but received RG_NONE";
    ck_fails(rg_load_state_dict(m, (rg_named_list){ 2, none }, true), RG_RUNTIME_ERROR, sentence);
    ck_fails(rg_load_state_dict(m, (rg_named_list){ 2, none }, false), RG_RUNTIME_ERROR, sentence);
    ck_ok(rg_load_state_dict(m, (rg_named_list){ 2, none + 1 }, false));
    rg_module_free(m);
}
END_TEST

static rg_optim *new_optim(rg_tensor **v) {
    v[0] = rg_zeros(2, 3);
    for (int i = 1; i < 5; i++)
        v[i] = rg_zeros(2);
    for (int i = 0; i < 5; i++)
        rg_requires_grad_(v[i], true);
    rg_optim *o = rg_optim_adamw(((rg_list){ 5, v }), .lr = 0.5);
    ck_ok(o);
    return o;
}

START_TEST(test_optimizer) {
    RG_SCOPE();
    rg_tensor *v[5];
    rg_optim *o = new_optim(v);
    rg_named_list file = rg_torch_load(checkpoint), dict = rg_named_below(file, "optimizer");
    ck_ok(rg_optim_load_state_dict(o, dict));
    ck_assert(rg_optim_group(o, 0)->lr == 0.01 && rg_optim_group(o, 0)->betas[1] == 0.999);
    rg_named_list own = rg_optim_state_dict(o);
    for (int i = 0; i < dict.n; i++)
        if (strncmp(dict.v[i].name, "state.", 6) == 0)
            ck_assert_msg(rg_equal(entry(own, dict.v[i].name), dict.v[i].tensor), "%s",
                          dict.v[i].name);
    ck_assert(rg_item(entry(own, "param_groups.0.params")) == 5);
    /* What regard says of itself is loaded, too. */
    ck_ok(rg_optim_load_state_dict(o, own));
    ck_fails(rg_optim_load_state_dict(o, rg_named_below(file, "model")), RG_VALUE_ERROR,
             "a different number of parameter groups");
    rg_optim_free(o);
    rg_optim *small = rg_optim_adamw(((rg_list){ 2, v }), .lr = 0.5);
    ck_fails(rg_optim_load_state_dict(small, dict), RG_RUNTIME_ERROR,
             "Unexpected key(s) in state_dict: \"state.2.step\"");
    rg_optim_free(small);
}
END_TEST

/* As in torch, Adam takes AdamW's way of decay over from its state, and AdamW stays AdamW; a state
 * that doesn't say is one of plain Adam's. */
START_TEST(test_decoupled) {
    RG_SCOPE();
    rg_tensor *v[5], *w[5], *u[5];
    rg_optim *adamw = new_optim(v), *other = new_optim(w);
    rg_optim_free(new_optim(u));
    rg_optim *adam = rg_optim_adam(((rg_list){ 5, u }), .lr = 0.5);
    rg_named_list dict = rg_named_below(rg_torch_load(checkpoint), "optimizer");
    ck_ok(rg_optim_load_state_dict(adamw, dict));
    ck_ok(rg_optim_load_state_dict(adam, dict));
    ck_assert(rg_optim_group(adam, 0)->decoupled_weight_decay == 1);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 5; i++) {
            ck_ok(rg_set_grad(v[i], rg_add(rg_detach(v[i]), i + 1)));
            ck_ok(rg_set_grad(u[i], rg_add(rg_detach(u[i]), i + 1)));
        }
        ck_ok(rg_optim_step(adamw) && rg_optim_step(adam));
        for (int i = 0; i < 5; i++)
            ck_assert(rg_equal(v[i], u[i]));
    }
    /* regard's own states say so, too. */
    rg_optim *plain = rg_optim_adam(((rg_list){ 5, w }), .lr = 0.5);
    ck_ok(rg_optim_load_state_dict(plain, rg_optim_state_dict(adam)));
    ck_assert(rg_optim_group(plain, 0)->decoupled_weight_decay == 1);
    rg_optim *fresh = rg_optim_adam(((rg_list){ 5, w }), .lr = 0.5);
    rg_named_list own = rg_optim_state_dict(fresh);
    ck_ok(rg_optim_load_state_dict(other, own));
    ck_assert(rg_optim_group(other, 0)->decoupled_weight_decay == 1);
    rg_named old[64];
    rg_named_list without = { 0, old };
    for (int i = 0; i < own.n; i++)
        if (!strstr(own.v[i].name, "decoupled"))
            old[without.n++] = own.v[i];
    ck_assert_int_eq(without.n, own.n - 1);
    ck_ok(rg_optim_load_state_dict(plain, without));
    ck_assert(rg_optim_group(plain, 0)->decoupled_weight_decay == 0);
    ck_ok(rg_optim_load_state_dict(other, without));
    ck_assert(rg_optim_group(other, 0)->decoupled_weight_decay == 1);
    rg_optim *all[] = { adamw, other, adam, plain, fresh };
    for (int i = 0; i < 5; i++)
        rg_optim_free(all[i]);
}
END_TEST

START_TEST(test_optimizer_without_memory) {
    RG_SCOPE();
    rg_tensor *v[5];
    rg_optim *o = new_optim(v);
    rg_named_list dict = rg_named_below(rg_torch_load(checkpoint), "optimizer");
    bool loaded = false;
    for (int64_t fail = 1; !loaded; fail++) {
        rg_error_clear();
        rg_memory_fail_at(fail);
        loaded = rg_optim_load_state_dict(o, dict);
        rg_memory_fail_at(0);
        ck_assert(rg_error_code() == (loaded ? RG_OK : RG_OUT_OF_MEMORY));
        ck_assert(fail < 10000);
    }
    rg_optim_free(o);
}
END_TEST

RG_TESTS(torch_checkpoint, test_module, test_optimizer, test_decoupled,
         test_optimizer_without_memory)
