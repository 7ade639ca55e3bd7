/*
 * test_checkpoint.c: a training that is saved, ended and resumed goes on to the same bits as one
 * that never stopped; a load that fails leaves everything as it was.
 */
#include "tests/test.h"
#include "regard.h"
#include "tensor/files/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a training ------------------------------------------------------------------------ */

/* A small GPT, whose weights are tied, learns with dropout, AdamW in two groups and a schedule. */
typedef struct {
    rg_gpt *model;
    rg_optim *o;
    rg_schedule *schedule;
    rg_tensor *average; /* The program keeps a tensor of its own. */
    double step, best;
} training;

static training new_training(uint64_t seed) {
    RG_SCOPE();
    rg_manual_seed(seed);
    training t = { .best = INFINITY };
    t.model = rg_nn_gpt(.block_size = 6, .vocab_size = 11, .n_layer = 1, .n_head = 2, .n_embd = 8,
                        .dropout = 0.2);
    rg_list all = rg_parameters(t.model);
    t.o = rg_optim_adamw(rg_list_of(all.n - 2, all.v), .lr = 0.01, .amsgrad = true);
    ck_ok(rg_optim_add_group(t.o, rg_list_of(2, all.v + all.n - 2), .weight_decay = 0));
    t.schedule = rg_optim_warmup_cosine_lr(t.o, 10, 100, 0.1, 0);
    t.average = rg_keep(rg_zeros(8));
    ck_ok(t.schedule);
    return t;
}

static void end_training(training *t) {
    rg_optim_free(t->o);
    rg_module_free(t->model);
    rg_drop(t->average);
}

static void train(training *t, int until) {
    RG_FOR (; t->step < until; t->step++) {
        rg_tensor *text = rg_randint(0, 11, 2, 7);
        rg_tensor *x = rg_slice(text, 1, 0, 6, 1), *y = rg_slice(text, 1, 1, 7, 1);
        rg_logits_loss out = rg_gpt_forward(t->model, x, rg_contiguous(y));
        ck_ok(rg_optim_zero_grad(t->o));
        ck_ok(rg_backward(out.loss));
        ck_ok(rg_optim_step(t->o));
        ck_ok(rg_schedule_step(t->schedule));
        ck_ok(rg_lerp_(t->average, rg_detach(rg_select(t->model->lm_head->weight, 0, 0)), 0.1));
        t->best = fmin(t->best, rg_item(out.loss));
    }
}

#define RUN_OF(t)                                                                    \
    ((rg_checkpoint){ .model = (t)->model,                                           \
                      .optim = (t)->o,                                               \
                      .tensors = { 1, (rg_named[]){ { "average", (t)->average } } }, \
                      .numbers = RG_NUMBERS({ "step", &(t)->step }, { "best", &(t)->best }) })

static bool same_dictionaries(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n > 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name) && rg_equal(a.v[i].tensor, b.v[i].tensor);
    return same;
}

/* The scope owns it. */
typedef struct {
    rg_named_list model, optim;
    rg_tensor *average, *random;
    double step, best;
} snapshot;

static rg_named_list copies(rg_named_list list) {
    rg_named *v = malloc((size_t)list.n * sizeof *v);
    for (int i = 0; i < list.n; i++)
        v[i] = (rg_named){ list.v[i].name, rg_clone(rg_detach(list.v[i].tensor)) };
    return (rg_named_list){ list.n, v };
}

static snapshot look_at(const training *t) {
    return (snapshot){ .model = copies(rg_state_dict(t->model)),
                       .optim = copies(rg_optim_state_dict(t->o)),
                       .average = rg_clone(t->average),
                       .random = rg_generator_state(rg_default_generator()),
                       .step = t->step,
                       .best = t->best };
}

static void forget(snapshot *s) {
    free((void *)s->model.v);
    free((void *)s->optim.v);
}

static bool is_as(const training *t, const snapshot *s) {
    RG_SCOPE();
    return same_dictionaries(rg_state_dict(t->model), s->model)
           && same_dictionaries(rg_optim_state_dict(t->o), s->optim)
           && rg_equal(t->average, s->average)
           && rg_equal(rg_generator_state(rg_default_generator()), s->random) && t->step == s->step
           && t->best == s->best;
}

/* A test's files are in a folder of its own. */
static char folder[] = "/tmp/regard-checkpoint-XXXXXX", file[64];

static void make_folder(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/run.safetensors", folder);
}

static void remove_folder(void) {
    unlink(file);
    ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
    memcpy(strrchr(folder, '-') + 1, "XXXXXX", 7);
}

/* ---- the tests ------------------------------------------------------------------------- */

START_TEST(test_resumed) {
    RG_SCOPE();
    make_folder();
    training whole = new_training(1);
    train(&whole, 100);
    snapshot want = look_at(&whole);
    const int stops[] = { 0, 1, 37, 99 };
    for (int i = 0; i < 4; i++) {
        training first = new_training(1);
        train(&first, stops[i]);
        ck_ok(rg_save_checkpoint(file, RUN_OF(&first)));
        end_training(&first);
        training second = new_training(2);
        train(&second, 3);
        ck_ok(rg_load_checkpoint(file, RUN_OF(&second)));
        ck_assert_double_eq(second.step, stops[i]);
        train(&second, 100);
        ck_assert_msg(is_as(&second, &want), "stopped after step %d", stops[i]);
        end_training(&second);
    }
    end_training(&whole);
    forget(&want);
    remove_folder();
}
END_TEST

/* A tied weight lies in the file once, and the file is one that safetensors opens. */
START_TEST(test_file) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1);
    train(&t, 2);
    ck_ok(rg_save_checkpoint(file, RUN_OF(&t)));
    int wte = 0, head = 0, numbers = 0, state = 0;
    rg_named_list all = rg_load_file(file);
    for (int i = 0; i < all.n; i++) {
        wte += !strcmp(all.v[i].name, "model.transformer.wte.weight");
        head += !strcmp(all.v[i].name, "model.lm_head.weight");
        numbers += !strncmp(all.v[i].name, "numbers.", 8);
        state += !strncmp(all.v[i].name, "optim.state.", 12);
    }
    ck_assert_int_eq(wte + head, 1);
    ck_assert_int_eq(numbers, 2);
    ck_assert_int_gt(state, 0);
    end_training(&t);

    /* A run of nothing but the generator's state can be saved, too. */
    rg_generator *g = rg_generator_new(3);
    rg_checkpoint run = { .generator = g };
    ck_ok(rg_save_checkpoint(file, run));
    rg_tensor *want = rg_rand_dims(RG_DIMS(4), RG_FLOAT32, g);
    ck_ok(rg_load_checkpoint(file, run));
    ck_assert(rg_equal(rg_rand_dims(RG_DIMS(4), RG_FLOAT32, g), want));
    rg_generator_free(g);
    remove_folder();
}
END_TEST

/* Saves the run, and wants another one that lacks it, or has more, to refuse it and to change
 * nothing. */
static void refuses(training *t, rg_checkpoint saved, rg_checkpoint loaded, const char *text) {
    RG_SCOPE();
    snapshot before = look_at(t);
    ck_ok(rg_save_checkpoint(file, saved));
    ck_assert(!rg_load_checkpoint(file, loaded));
    ck_assert_msg(strstr(rg_error(), text), "%s", rg_error());
    rg_error_clear();
    ck_assert_msg(is_as(t, &before), "%s: something changed", text);
    forget(&before);
}

START_TEST(test_refused) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1), other = new_training(2);
    train(&t, 3);
    train(&other, 2);
    double step = 0, further = 0;
    rg_checkpoint has = RUN_OF(&t), whole = RUN_OF(&other), lacks;

    lacks = has;
    lacks.model = NULL;
    refuses(&other, has, lacks, "load_checkpoint: '/tmp/");
    refuses(&t, has, lacks, "Unexpected key: \"model.");
    refuses(&other, lacks, whole, "Error(s) in loading state_dict for GPT:\n\tMissing key(s)");
    lacks = has;
    lacks.optim = NULL;
    refuses(&t, has, lacks, "Unexpected key: \"optim.");
    refuses(&other, lacks, whole, "a different number of parameter groups");
    lacks = has;
    lacks.tensors.n = 0;
    refuses(&t, has, lacks, "Unexpected key: \"tensors.average\"");
    refuses(&other, lacks, whole, "Missing key: \"tensors.average\"");
    lacks = has;
    lacks.numbers = (rg_number_list)RG_NUMBERS({ "step", &step });
    refuses(&t, has, lacks, "Unexpected key: \"numbers.best\"");
    refuses(&other, lacks, whole, "Missing key: \"numbers.best\"");
    lacks.numbers = (rg_number_list)RG_NUMBERS({ "step", &step }, { "worst", &further });
    refuses(&t, has, lacks, "Missing key: \"numbers.worst\"");
    lacks = has;
    lacks.tensors.v = (rg_named[]){ { "average", rg_zeros(7) } };
    refuses(&t, has, lacks, "The shape or dtype isn't the program's: \"tensors.average\"");
    lacks.tensors.v = (rg_named[]){ { "average", rg_zeros_dims(RG_DIMS(8), RG_FLOAT64) } };
    refuses(&t, has, lacks, "The shape or dtype isn't the program's: \"tensors.average\"");
    lacks.tensors.v = (rg_named[]){ { "average", rg_expand(rg_zeros(1), 8) } };
    refuses(&t, has, lacks, "run.safetensors': unsupported operation: more than one element");
    lacks = has;
    lacks.model = rg_nn_linear(2, 2);
    refuses(&t, has, lacks, "Error(s) in loading state_dict for Linear");
    rg_module_free(lacks.model);
    end_training(&t);
    end_training(&other);
    remove_folder();
}
END_TEST

START_TEST(test_other_files) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1);
    ck_fails(rg_load_checkpoint(file, RUN_OF(&t)), RG_IO_ERROR,
             "load_checkpoint: [Errno 2] No such file or directory: '");
    ck_ok(rg_save_file(rg_state_dict(t.model), file));
    ck_fails(rg_load_checkpoint(file, RUN_OF(&t)), RG_IO_ERROR, "it is no checkpoint");

    /* These say that they are checkpoints. */
    const rg_metadata_pair is = { "regard", "checkpoint" };
    rg_tensor *random = rg_generator_state(rg_default_generator());
    const struct {
        rg_named tensor;
        const char *text;
    } wrong[] = {
        { { "models.x", random }, "Unexpected key(s): \"models.x\"" },
        { { "random.x", random }, "Unexpected key(s): \"random.x\"" },
        { { "numbers.step", random }, "isn't the program's: \"numbers.step\"" },
        { { "random", rg_zeros(3) }, "RNG state must be a torch.int64 tensor" },
        { { "random", rg_arange(3) }, "Expected a generator state of" },
        { { "random", rg_zeros_like(random) }, "Invalid mt19937 state" },
    };
    double step = 5;
    for (int i = 0; i < 6; i++) {
        bool number = !strcmp(wrong[i].tensor.name, "numbers.step");
        rg_checkpoint run = { .numbers = RG_NUMBERS({ "step", &step }) };
        run.numbers.n = number;
        rg_error_clear();
        ck_ok(rg_save_file(((rg_named_list){ 1, &wrong[i].tensor }), file, .metadata = { 1, &is }));
        ck_assert(!rg_load_checkpoint(file, run));
        ck_assert_msg(strstr(rg_error(), wrong[i].text), "%s", rg_error());
        ck_assert_double_eq(step, 5);
    }
    rg_error_clear();
    ck_ok(rg_save_file(((rg_named_list){ 0 }), file, .metadata = { 1, &is }));
    ck_fails(rg_load_checkpoint(file, (rg_checkpoint){ 0 }), RG_RUNTIME_ERROR,
             "Missing key: \"random\"");

    ck_fails(rg_save_checkpoint(NULL, (rg_checkpoint){ 0 }), RG_TYPE_ERROR, "a path");
    ck_fails(rg_load_checkpoint(NULL, (rg_checkpoint){ 0 }), RG_TYPE_ERROR, "a path");
    ck_fails(rg_save_checkpoint(file, (rg_checkpoint){ .numbers = RG_NUMBERS({ NULL, &step }) }),
             RG_TYPE_ERROR, "a name");
    ck_fails(rg_save_checkpoint(file, (rg_checkpoint){ .numbers = RG_NUMBERS({ "x", NULL }) }),
             RG_TYPE_ERROR, "a number's place");
    end_training(&t);
    remove_folder();
}
END_TEST

/* Saves a run with one optimizer, and wants another one's to refuse it. */
static void of_another_kind(rg_optim *saved, rg_optim *loaded, const char *text) {
    rg_error_clear();
    ck_ok(rg_save_checkpoint(file, (rg_checkpoint){ .optim = saved }));
    ck_fails(rg_load_checkpoint(file, (rg_checkpoint){ .optim = loaded }), RG_RUNTIME_ERROR, text);
}

/* The file's optimizer and schedules must be of the run's kinds, also where their states are alike:
 * Adam's and AdamW's have the same keys. */
START_TEST(test_kinds) {
    RG_SCOPE();
    make_folder();
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    rg_optim *adam = rg_optim_adam(RG_LIST(w)), *adamw = rg_optim_adamw(RG_LIST(w));
    of_another_kind(adam, adamw, "run.safetensors': it is of optimizer Adam, and not of AdamW");
    of_another_kind(adamw, adam, "run.safetensors': it is of optimizer AdamW, and not of Adam");
    rg_optim *step = rg_optim_sgd(RG_LIST(w)), *exponential = rg_optim_sgd(RG_LIST(w));
    rg_optim *none = rg_optim_sgd(RG_LIST(w)), *warm = rg_optim_sgd(RG_LIST(w));
    ck_ok(rg_optim_step_lr(step, .step_size = 2));
    ck_ok(rg_optim_exponential_lr(exponential, .gamma = 0.5));
    ck_ok(rg_optim_warmup_cosine_lr(warm, 2, 9, 0.5, 0));
    of_another_kind(step, exponential,
                    "run.safetensors': it is of schedules StepLR, and not of ExponentialLR");
    of_another_kind(none, step, "it is of schedules none, and not of StepLR");
    of_another_kind(
        warm, none,
        "it is of schedules LinearLR, CosineAnnealingLR, SequentialLR, and not of none");
    ck_ok(rg_load_checkpoint(file, (rg_checkpoint){ .optim = warm }));

    /* A file without the names, as they were once, is loaded. */
    const rg_metadata_pair is = { "regard", "checkpoint" };
    rg_named_list all = rg_load_file(file);
    ck_ok(rg_save_file(all, file, .metadata = { 1, &is }));
    ck_ok(rg_load_checkpoint(file, (rg_checkpoint){ .optim = warm }));
    ck_fails(rg_load_checkpoint(file, (rg_checkpoint){ .optim = step }), RG_RUNTIME_ERROR,
             "run.safetensors': ");
    rg_optim *all_of_them[] = { adam, adamw, step, exponential, none, warm };
    for (int i = 0; i < 6; i++)
        rg_optim_free(all_of_them[i]);
    remove_folder();
}
END_TEST

/* ---- in the middle of an epoch ----------------------------------------------------------- */

/* A linear layer learns from a loader's batches, between and within its epochs. */
typedef struct {
    void *model;
    rg_optim *o;
    rg_data_loader *loader;
    rg_generator *g;
    double step;
} epochs;

static epochs new_epochs(uint64_t seed, bool own) {
    RG_SCOPE();
    rg_manual_seed(5);
    rg_tensor *x = rg_randn(10, 3), *y = rg_randn(10, 2);
    rg_manual_seed(seed);
    epochs e = { .model = rg_nn_linear(3, 2), .g = own ? rg_generator_new(seed) : NULL };
    e.o = rg_optim_adam(rg_parameters(e.model), .lr = 0.1);
    e.loader = rg_data_loader_new(RG_LIST(x, y), .batch_size = 3, .shuffle = true,
                                  .generator = e.g);
    return e;
}

static void end_epochs(epochs *e) {
    rg_optim_free(e->o);
    rg_module_free(e->model);
    rg_data_loader_free(e->loader);
    rg_generator_free(e->g);
}

/* An epoch's end, where the loader gives no batch, counts as a step, too. */
static void learn(epochs *e, int until) {
    RG_FOR (; e->step < until; e->step++) {
        rg_list batch = rg_data_loader_next(e->loader);
        if (batch.n == 0)
            continue;
        rg_tensor *loss = rg_mse_loss(rg_call(e->model, batch.v[0]), batch.v[1]);
        ck_ok(rg_optim_zero_grad(e->o));
        ck_ok(rg_backward(loss));
        ck_ok(rg_optim_step(e->o));
    }
}

/* Saves the loader's state as a part of its own, or among the program's tensors. */
static bool with_loader(bool (*f)(const char *path, rg_checkpoint run), epochs *e, bool part) {
    rg_checkpoint run = { .model = e->model,
                          .optim = e->o,
                          .numbers = RG_NUMBERS({ "step", &e->step }) };
    if (part)
        run.loader = e->loader;
    else
        run.tensors = rg_data_loader_state_dict(e->loader);
    const bool ok = f(file, run);
    if (part || !ok || f == rg_save_checkpoint)
        return ok;
    return rg_data_loader_load_state_dict(e->loader, run.tensors);
}

START_TEST(test_within_an_epoch) {
    enum { END = 23 };
    make_folder();
    for (int way = 0; way < 4; way++) {
        RG_SCOPE();
        const bool own = way & 1, part = way & 2;
        epochs whole = new_epochs(1, own);
        learn(&whole, END);
        /* An epoch has 4 batches, and an end. */
        for (int stop = 0; stop <= 11; stop++) {
            epochs first = new_epochs(1, own);
            learn(&first, stop);
            ck_ok(with_loader(rg_save_checkpoint, &first, part));
            epochs second = new_epochs(2, own);
            learn(&second, stop * 3 % 7);
            ck_ok(with_loader(rg_load_checkpoint, &second, part));
            learn(&second, END);
            ck_assert_msg(
                same_dictionaries(rg_state_dict(second.model), rg_state_dict(whole.model)),
                "way %d, stopped after %d", way, stop);
            ck_assert(
                same_dictionaries(rg_optim_state_dict(second.o), rg_optim_state_dict(whole.o)));
            end_epochs(&first);
            end_epochs(&second);
        }
        end_epochs(&whole);
    }
    remove_folder();
}
END_TEST

START_TEST(test_other_loaders) {
    RG_SCOPE();
    make_folder();
    epochs a = new_epochs(1, false), own = new_epochs(1, true);
    learn(&a, 3);
    learn(&own, 2);
    rg_checkpoint run = { .loader = a.loader }, none = { 0 }, other = { .loader = own.loader };
    ck_ok(rg_save_checkpoint(file, run));
    ck_fails(rg_load_checkpoint(file, none), RG_RUNTIME_ERROR,
             "run.safetensors': Unexpected key: \"loader.");
    ck_fails(rg_load_checkpoint(file, other), RG_VALUE_ERROR,
             "run.safetensors': the state has no \"generator\"");
    ck_ok(rg_save_checkpoint(file, none));
    ck_fails(rg_load_checkpoint(file, run), RG_VALUE_ERROR, "the state has no \"position\"");
    rg_data_loader *fewer = rg_data_loader_new(RG_LIST(rg_ones(7)), .batch_size = 3);
    ck_ok(rg_save_checkpoint(file, run));
    rg_tensor *random = rg_generator_state(rg_default_generator());
    rg_rand(2);
    rg_tensor *now = rg_generator_state(rg_default_generator());
    ck_fails(rg_load_checkpoint(file, (rg_checkpoint){ .loader = fewer }), RG_VALUE_ERROR,
             "run.safetensors': position 9 in an order of 10 doesn't fit 7 items by 3");
    ck_assert(rg_equal(rg_generator_state(rg_default_generator()), now));
    ck_ok(rg_load_checkpoint(file, run));
    ck_assert(rg_equal(rg_generator_state(rg_default_generator()), random));
    rg_data_loader_free(fewer);
    end_epochs(&a);
    end_epochs(&own);
    remove_folder();
}
END_TEST

/* Each request for memory is denied in turn: the old file stays, and so does the run. */
START_TEST(test_memory_fails) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1), other = new_training(2);
    train(&t, 3);
    train(&other, 1);
    rg_data_loader *loader = rg_data_loader_new(RG_LIST(rg_ones(5)), .batch_size = 2);
    ck_ok(rg_data_loader_next(loader).n > 0);
    rg_checkpoint mine = RUN_OF(&t), others = RUN_OF(&other);
    mine.loader = others.loader = loader;
    ck_ok(rg_save_checkpoint(file, mine));
    snapshot saved = look_at(&t), before = look_at(&other);
    const int64_t live = rg_live_tensors();
    bool denied = true;
    for (int64_t fail = 1; denied; fail++) {
        rg_memory_fail_at(fail);
        bool ok = rg_load_checkpoint(file, others);
        rg_memory_fail_at(0);
        denied = !ok;
        ck_assert_msg(ok || rg_error_code() == RG_OUT_OF_MEMORY, "%s", rg_error());
        rg_error_clear();
        saved.random = before.random; /* Nothing was drawn in between. */
        ck_assert_msg(is_as(&other, ok ? &saved : &before), "request %d", (int)fail);
        ck_assert(ok || rg_live_tensors() == live);
    }
    denied = true;
    for (int64_t fail = 1; denied; fail++) {
        t.step = (double)fail;
        rg_memory_fail_at(fail);
        bool ok = rg_save_checkpoint(file, mine);
        rg_memory_fail_at(0);
        denied = !ok;
        ck_assert_msg(ok || rg_error_code() == RG_OUT_OF_MEMORY, "%s", rg_error());
        rg_error_clear();
        ck_ok(rg_load_checkpoint(file, others));
        ck_assert_double_eq(other.step, ok ? t.step : 3);
    }
    rg_data_loader_free(loader);
    forget(&saved);
    forget(&before);
    end_training(&t);
    end_training(&other);
    remove_folder();
}
END_TEST

static int no_rename(const char *from, const char *to) {
    (void)from;
    (void)to;
    errno = EIO;
    return -1;
}

START_TEST(test_disk_fails) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1);
    ck_ok(rg_save_checkpoint(file, RUN_OF(&t)));
    train(&t, 2);
    rg_system whole = rgi_system;
    rgi_system.rename = no_rename;
    ck_fails(rg_save_checkpoint(file, RUN_OF(&t)), RG_IO_ERROR, "save_checkpoint: [Errno 5] ");
    rgi_system = whole;
    ck_ok(rg_load_checkpoint(file, RUN_OF(&t)));
    ck_assert_double_eq(t.step, 0);
    end_training(&t);
    remove_folder();
}
END_TEST

RG_TESTS(checkpoint, test_resumed, test_file, test_refused, test_kinds, test_within_an_epoch,
         test_other_loaders, test_other_files, test_memory_fails, test_disk_fails)
