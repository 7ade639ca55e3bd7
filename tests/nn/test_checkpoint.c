/*
 * test_checkpoint.c: a training that is saved, ended and resumed gets the same bits as one that
 * never stopped. A load that fails changes nothing.
 */
#include "tests/in_turn.h"
#include "tests/killed.h"
#include "tests/test.h"
#include "regard.h"
#include "tensor/memory.h"

#include <dirent.h>
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
    rg_tensor *average; /* The program keeps this tensor itself. */
    double step, best;
    rg_data_loader *loader; /* NULL if there is none. */
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

#define RUN_OF(t)                                                                          \
    ((rg_training){ .model = (t)->model,                                                   \
                    .optim = (t)->o,                                                       \
                    .tensors = { 1, (rg_named[]){ { "average", (t)->average } } },         \
                    .numbers = RG_NUMBERS({ "step", &(t)->step }, { "best", &(t)->best }), \
                    .loader = (t)->loader })

static bool same_dictionaries(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n > 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name) && rg_equal(a.v[i].tensor, b.v[i].tensor);
    return same;
}

/* A copy of all that a training has. The scope owns the tensors. */
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
    rg_training run = { .generator = g };
    ck_ok(rg_save_checkpoint(file, run));
    rg_tensor *want = rg_rand_dims(RG_DIMS(4), RG_FLOAT32, g);
    ck_ok(rg_load_checkpoint(file, run));
    ck_assert(rg_equal(rg_rand_dims(RG_DIMS(4), RG_FLOAT32, g), want));
    rg_generator_free(g);
    remove_folder();
}
END_TEST

/* Saves the run `saved`. Asserts that the run `loaded`, which has other parts, refuses the file,
 * and that nothing changes. */
static void refuses(training *t, rg_training saved, rg_training loaded, const char *text) {
    RG_SCOPE();
    ck_ok(rg_save_checkpoint(file, saved));
    /* The program's random state differs from that in the file. */
    rg_rand(1);
    snapshot before = look_at(t);
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
    rg_training has = RUN_OF(&t), whole = RUN_OF(&other), lacks;

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

/* The tensor that a bad file has in the place of a right one. */
typedef enum {
    NOTHING,
    STATE,
    ZEROS,
    FEW,
    LONGER,
    SQUARE,
    BLANK,
    STEP,
    FLOAT,
    ONE_DIM
} kind_of_tensor;

static rg_tensor *tensor_of(kind_of_tensor kind) {
    rg_tensor *state = rg_generator_state(rg_default_generator());
    switch (kind) {
    case STATE: return state;
    case ZEROS: return rg_zeros(3);
    case FEW: return rg_arange(3);
    case LONGER: return rg_cat(RG_LIST(state, state), 0);
    case SQUARE: return rg_unsqueeze(state, 0);
    case BLANK: return rg_zeros_like(state);
    case STEP: return rg_scalar_dtype(7, RG_FLOAT64);
    case FLOAT: return rg_scalar_dtype(7, RG_FLOAT32);
    case ONE_DIM: return rg_zeros_dims(RG_DIMS(1), RG_FLOAT64);
    case NOTHING: break;
    }
    return NULL;
}

/* Each file has a generator's state, called "random", the number "numbers.step", and a tensor with
 * the row's name and kind. If the row's name is one of these two names, its tensor replaces that
 * entry. If the kind is NOTHING, the file lacks the entry. */
static const struct {
    const char *name;
    kind_of_tensor kind;
    const char *sentence;
} bad_checkpoints[] = {
    { "models.x", STATE, "run.safetensors': Unexpected key: \"models.x\"" },
    { "model", STATE, "Unexpected key: \"model\"" },
    { "Model.x", STATE, "Unexpected key: \"Model.x\"" },
    { ".model.x", STATE, "Unexpected key: \".model.x\"" },
    { "optim", STATE, "Unexpected key: \"optim\"" },
    { "tensor.x", STATE, "Unexpected key: \"tensor.x\"" },
    { "numbers", STATE, "Unexpected key: \"numbers\"" },
    { "random.x", STATE, "Unexpected key: \"random.x\"" },
    { "randoms", STATE, "Unexpected key: \"randoms\"" },
    { "step", STEP, "Unexpected key: \"step\"" },
    { "", STEP, "Unexpected key: \"\"" },
    { "a\x1b[m", STEP, "Unexpected key: \"a?[m\"" },
    { "model.x", STEP, "Unexpected key: \"model.x\"" },
    { "model.", STEP, "Unexpected key: \"model.\"" },
    { "optim.x", STEP, "Unexpected key: \"optim.x\"" },
    { "tensors.x", STEP, "Unexpected key: \"tensors.x\"" },
    { "tensors.", STEP, "Unexpected key: \"tensors.\"" },
    { "numbers.x", STEP, "Unexpected key: \"numbers.x\"" },
    { "numbers.steps", STEP, "Unexpected key: \"numbers.steps\"" },
    { "numbers.step", NOTHING, "Missing key: \"numbers.step\"" },
    { "numbers.step", STATE, "The shape or dtype isn't the program's: \"numbers.step\"" },
    { "numbers.step", FLOAT, "The shape or dtype isn't the program's: \"numbers.step\"" },
    { "numbers.step", ONE_DIM, "The shape or dtype isn't the program's: \"numbers.step\"" },
    { "random", NOTHING, "Missing key: \"random\"" },
    { "random", ZEROS, "RNG state must be a torch.int64 tensor" },
    { "random", STEP, "RNG state must be a torch.int64 tensor" },
    { "random", FEW,
      "Expected a generator state of 632 numbers but found the input RNG state size to be 3" },
    { "random", LONGER,
      "Expected a generator state of 632 numbers but found the input RNG state size to be 1264" },
    { "random", SQUARE, "RNG state must have 1 dim, but has 2" },
    { "random", BLANK, "Invalid mt19937 state" },
};

static const rg_metadata_pair other_kinds[] = {
    { "format", "pt" },          { "regard", "" },           { "regard", "Checkpoint" },
    { "regard", "checkpoint " }, { "Regard", "checkpoint" }, { "checkpoint", "regard" },
};

/* Saves a checkpoint's tensors and one tensor of this name and kind. That tensor replaces the
 * checkpoint's tensor of the same name. If the kind is NOTHING, the name is left out. */
static void save_wrong(const char *name, kind_of_tensor kind) {
    rg_named v[3] = { { "random", tensor_of(STATE) }, { "numbers.step", tensor_of(STEP) } };
    rg_named_list all = { 2, v };
    int at = 0;
    while (at < 2 && strcmp(v[at].name, name) != 0)
        at++;
    v[at] = (rg_named){ name, tensor_of(kind) };
    if (kind == NOTHING)
        v[at] = v[--all.n];
    else
        all.n = at == 2 ? 3 : 2;
    const rg_metadata_pair is = { "regard", "checkpoint" };
    ck_ok(rg_save_file(all, file, .metadata = { 1, &is }));
}

START_TEST(test_bad_files) {
    RG_SCOPE();
    make_folder();
    double step = 5;
    rg_training run = { .numbers = RG_NUMBERS({ "step", &step }) };
    for (size_t i = 0; i < sizeof bad_checkpoints / sizeof *bad_checkpoints; i++) {
        rg_tensor *before = rg_generator_state(rg_default_generator());
        save_wrong(bad_checkpoints[i].name, bad_checkpoints[i].kind);
        rg_error_clear();
        ck_assert(!rg_load_checkpoint(file, run));
        ck_assert_msg(strstr(rg_error(), bad_checkpoints[i].sentence), "%s", rg_error());
        rg_error_clear();
        ck_assert_double_eq(step, 5);
        ck_assert(rg_equal(rg_generator_state(rg_default_generator()), before));
    }
    for (size_t i = 0; i < sizeof other_kinds / sizeof *other_kinds; i++) {
        rg_named random = { "random", tensor_of(STATE) };
        ck_ok(rg_save_file(((rg_named_list){ 1, &random }), file,
                           .metadata = { 1, &other_kinds[i] }));
        ck_fails(rg_load_checkpoint(file, (rg_training){ 0 }), RG_IO_ERROR, "it is no checkpoint");
    }
    const rg_metadata_pair is = { "regard", "checkpoint" };
    ck_ok(rg_save_file(((rg_named_list){ 0, NULL }), file, .metadata = { 1, &is }));
    ck_fails(rg_load_checkpoint(file, (rg_training){ 0 }), RG_RUNTIME_ERROR,
             "run.safetensors': Missing key: \"random\"");
    save_wrong("numbers.step", STEP);
    ck_ok(rg_load_checkpoint(file, run));
    ck_assert_double_eq(step, 7);
    remove_folder();
}
END_TEST

/* A load fails if the file lacks one of the program's tensors or numbers, whatever else it has. */
START_TEST(test_one_of_several_is_missing) {
    RG_SCOPE();
    make_folder();
    double number[3] = { 1, 2, 3 };
    rg_tensor *t[3] = { rg_ones(2), rg_ones(2), rg_ones(2) };
    static const char *const names[] = { "a", "b", "c" };
    for (int lacks = 0; lacks < 3; lacks++) {
        rg_named tensors[3];
        rg_number numbers[3];
        for (int i = 0; i < 3; i++) {
            tensors[i] = (rg_named){ names[i], t[i] };
            numbers[i] = (rg_number){ names[i], &number[i] };
        }
        rg_training run = { .tensors = { 3, tensors }, .numbers = { 3, numbers } };
        char said[60];
        for (int of_numbers = 0; of_numbers < 2; of_numbers++) {
            tensors[lacks].name = of_numbers ? names[lacks] : "z";
            numbers[lacks].name = of_numbers ? "z" : names[lacks];
            ck_ok(rg_save_checkpoint(file, run));
            tensors[lacks].name = names[lacks];
            numbers[lacks].name = names[lacks];
            snprintf(said, sizeof said, "Missing key: \"%s.%s\"",
                     of_numbers ? "numbers" : "tensors", names[lacks]);
            ck_fails(rg_load_checkpoint(file, run), RG_RUNTIME_ERROR, said);
        }
    }
    remove_folder();
}
END_TEST

START_TEST(test_other_files) {
    RG_SCOPE();
    make_folder();
    training t = new_training(1);
    double step = 5;
    ck_fails(rg_load_checkpoint(file, RUN_OF(&t)), RG_IO_ERROR,
             "load_checkpoint: [Errno 2] No such file or directory: '");
    ck_ok(rg_save_file(rg_state_dict(t.model), file));
    ck_fails(rg_load_checkpoint(file, RUN_OF(&t)), RG_IO_ERROR, "it is no checkpoint");

    ck_fails(rg_save_checkpoint(NULL, (rg_training){ 0 }), RG_TYPE_ERROR, "a path");
    ck_fails(rg_load_checkpoint(NULL, (rg_training){ 0 }), RG_TYPE_ERROR, "a path");
    ck_fails(rg_save_checkpoint(file, (rg_training){ .numbers = RG_NUMBERS({ NULL, &step }) }),
             RG_TYPE_ERROR, "a name");
    ck_fails(rg_save_checkpoint(file, (rg_training){ .numbers = RG_NUMBERS({ "x", NULL }) }),
             RG_TYPE_ERROR, "a number's place");
    const rg_training tensors[] = { { .tensors = RG_NAMED_LIST({ NULL, t.average }) },
                                    { .tensors = RG_NAMED_LIST({ "x", NULL }) },
                                    { .tensors = RG_NAMED_LIST({ "x", RG_NONE }) } };
    static const char *const said[] = { "a name but got NULL", "a tensor but got NULL",
                                        "a tensor but got RG_NONE" };
    for (int i = 0; i < 3; i++) {
        ck_fails(rg_save_checkpoint("no/file", tensors[i]), RG_TYPE_ERROR, said[i]);
        ck_fails(rg_load_checkpoint("no/file", tensors[i]), RG_TYPE_ERROR, said[i]);
        ck_fails(rg_torch_save_checkpoint("no/file", tensors[i]), RG_TYPE_ERROR, said[i]);
    }
    const rg_training lists[] = { { .numbers = { -1, NULL } }, { .tensors = { -1, NULL } } };
    for (int i = 0; i < 2; i++) {
        ck_fails(rg_save_checkpoint(file, lists[i]), RG_TYPE_ERROR,
                 "save_checkpoint: expected a list but got one that failed: its n is -1");
        ck_fails(rg_load_checkpoint(file, lists[i]), RG_TYPE_ERROR,
                 "load_checkpoint: expected a list but got one that failed: its n is -1");
        ck_fails(rg_torch_save_checkpoint(file, lists[i]), RG_TYPE_ERROR,
                 "torch_save_checkpoint: expected a list but got one that failed: its n is -1");
    }
    end_training(&t);
    remove_folder();
}
END_TEST

/* Saves a run with one optimizer. Asserts that a run with an optimizer of another kind refuses the
 * file. */
static void of_another_kind(rg_optim *saved, rg_optim *loaded, const char *text) {
    rg_error_clear();
    ck_ok(rg_save_checkpoint(file, (rg_training){ .optim = saved }));
    ck_fails(rg_load_checkpoint(file, (rg_training){ .optim = loaded }), RG_RUNTIME_ERROR, text);
}

/* The file's optimizer and schedules must be of the same kinds as the run's. This holds even for
 * Adam and AdamW, whose states have the same keys. */
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
    ck_ok(rg_load_checkpoint(file, (rg_training){ .optim = warm }));

    /* A file that doesn't name the kinds is loaded, since older versions wrote such files. */
    const rg_metadata_pair is = { "regard", "checkpoint" };
    rg_named_list all = rg_load_file(file);
    ck_ok(rg_save_file(all, file, .metadata = { 1, &is }));
    ck_ok(rg_load_checkpoint(file, (rg_training){ .optim = warm }));
    ck_fails(rg_load_checkpoint(file, (rg_training){ .optim = step }), RG_RUNTIME_ERROR,
             "run.safetensors': ");
    /* The file must have each key that a schedule of the run needs, unlike a state_dict of
     * torch's. */
    ck_ok(rg_save_checkpoint(file, (rg_training){ .optim = step }));
    all = rg_load_file(file);
    int left = 0;
    for (int i = 0; i < all.n; i++)
        if (!strstr(all.v[i].name, "last_epoch"))
            ((rg_named *)all.v)[left++] = all.v[i];
    ck_assert_int_eq(left, all.n - 1);
    ck_ok(rg_save_file(((rg_named_list){ left, all.v }), file, .metadata = { 1, &is }));
    ck_fails(rg_load_checkpoint(file, (rg_training){ .optim = step }), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"schedules.0.last_epoch\"");
    rg_optim *all_of_them[] = { adam, adamw, step, exponential, none, warm };
    for (int i = 0; i < 6; i++)
        rg_optim_free(all_of_them[i]);
    remove_folder();
}
END_TEST

/* ---- in the middle of an epoch ----------------------------------------------------------- */

/* A linear layer learns from a loader's batches. It is saved between epochs and within them. */
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

/* At the end of an epoch, the loader gives no batch. The call that returns no batch also counts
 * as a step. */
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

/* Saves or loads a run with the state of its loader. If `part`, the loader is a part of the run;
 * otherwise its state is among the program's tensors. */
static bool with_loader(bool (*f)(const char *path, rg_training run), epochs *e, bool part) {
    rg_training run = { .model = e->model,
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
        /* Each epoch has 4 batches and an end, so that 11 steps reach the third epoch. */
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
    rg_training run = { .loader = a.loader }, none = { 0 }, other = { .loader = own.loader };
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
    ck_fails(rg_load_checkpoint(file, (rg_training){ .loader = fewer }), RG_VALUE_ERROR,
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

static void are_refused(rg_training run) {
    ck_fails(rg_save_checkpoint("no/file", run), RG_RELEASED, " released by rg_");
    ck_fails(rg_load_checkpoint("no/file", run), RG_RELEASED, " released by rg_");
    ck_fails(rg_torch_save_checkpoint("no/file", run), RG_RELEASED, " released by rg_");
}

/* Parts that were freed are refused, before anything is looked at or written. */
START_TEST(test_released_parts) {
    /* Under a sanitizer, freed memory mustn't be read. */
    if (rgi_pool_bypassed())
        return;
    RG_SCOPE();
    make_folder();
    ck_ok(rg_save_checkpoint(file, (rg_training){ 0 }));
    rg_tensor *w = rg_requires_grad_(rg_ones(2), true);
    rg_optim *o = rg_optim_sgd(RG_LIST(w));
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_ones(4)));
    rg_optim_free(o);
    rg_data_loader_free(l);
    are_refused((rg_training){ .optim = o });
    are_refused((rg_training){ .loader = l });
    remove_folder();
}
END_TEST

START_TEST(test_other_released_parts) {
    if (rgi_pool_bypassed())
        return;
    void *m = rg_nn_linear(1, 1);
    rg_generator *g = rg_generator_new(1);
    rg_module_free(m);
    rg_generator_free(g);
    are_refused((rg_training){ .model = m });
    are_refused((rg_training){ .generator = g });
}
END_TEST

/* Loads a run whose loader has a generator that was freed. Asserts that the load fails and changes
 * nothing in the run. Returns whether the default generator has kept its state. */
static bool load_without_generator(void) {
    RG_SCOPE();
    make_folder();
    double step = 1;
    epochs e = new_epochs(1, true);
    rg_tensor *own = rg_ones(3);
    rg_training run = { .model = e.model,
                        .loader = e.loader,
                        .tensors = RG_NAMED_LIST({ "own", own }),
                        .numbers = RG_NUMBERS({ "step", &step }) };
    learn(&e, 2);
    ck_ok(rg_save_checkpoint(file, run));
    rg_generator_free(e.g);
    e.g = NULL;
    step = 2;
    rg_zero_(own);
    ck_ok(rg_nn_init_zeros_(rg_get_parameter(e.model, "weight")));
    rg_rand(1);
    rg_tensor *random = rg_generator_state(rg_default_generator());
    ck_fails(rg_load_checkpoint(file, run), RG_RELEASED, "generator released by rg_generator_free");
    ck_assert(step == 2 && rg_item(rg_sum(own)) == 0);
    ck_assert(rg_item(rg_sum(rg_abs(rg_get_parameter(e.model, "weight")))) == 0);
    end_epochs(&e);
    remove_folder();
    return rg_equal(rg_generator_state(rg_default_generator()), random);
}

START_TEST(test_a_loader_without_its_generator) {
    if (!rgi_pool_bypassed())
        load_without_generator();
}
END_TEST

START_TEST(test_the_generator_waits_for_the_loader) {
    ck_assert(rgi_pool_bypassed() || load_without_generator());
}
END_TEST

/* Loads in a recorded step. */
static void loads_recorded(void *context) { rg_load_checkpoint(file, *(rg_training *)context); }

START_TEST(test_no_part_of_a_recorded_step) {
    RG_SCOPE();
    make_folder();
    double step = 1;
    rg_tensor *own = rg_ones(3);
    rg_linear_module *m = rg_nn_linear(2, 2);
    rg_training run = { .model = m,
                        .tensors = RG_NAMED_LIST({ "own", own }),
                        .numbers = RG_NUMBERS({ "step", &step }) };
    ck_ok(rg_save_checkpoint(file, run));
    step = 2;
    rg_zero_(own);
    rg_nn_init_zeros_(m->weight);
    ck_fails(rg_record(loads_recorded, &run), RG_NOT_IMPLEMENTED,
             "can't be part of a recorded step");
    ck_assert(step == 2 && rg_item(rg_sum(own)) == 0 && rg_item(rg_sum(rg_abs(m->weight))) == 0);
    ck_ok(rg_load_checkpoint(file, run));
    ck_assert(step == 1 && rg_item(rg_sum(own)) == 3 && rg_item(rg_sum(rg_abs(m->weight))) > 0);
    rg_module_free(m);
    remove_folder();
}
END_TEST

/* A file with two weights doesn't load into a model where the two are tied, since one of them would
 * be lost. rg_module_load refuses such a file as well. */
START_TEST(test_a_tied_weight_from_two) {
    RG_SCOPE();
    make_folder();
    rg_linear_module *a = rg_nn_linear(2, 2), *b = rg_nn_linear(2, 2);
    rg_sequential *apart = rg_nn_sequential(rg_nn_linear(2, 2), rg_nn_linear(2, 2)),
                  *tied = rg_nn_sequential(a, b), *bare = rg_nn_sequential(rg_nn_relu());
    ck_assert(rg_tie(&b->weight, a->weight));
    ck_ok(rg_save_checkpoint(file, (rg_training){ .model = apart }));
    rg_tensor *kept = rg_clone(rg_detach(a->weight));
    ck_fails(rg_load_checkpoint(file, (rg_training){ .model = tied }), RG_RUNTIME_ERROR,
             "Unexpected key, because the run's model ties this tensor to another: "
             "\"model.1.weight\"");
    ck_assert(rg_equal(a->weight, kept) && b->weight == a->weight);
    /* Three names share a weight, and the file has one of them. */
    rg_linear_module *c = rg_nn_linear(2, 2);
    ck_ok(rg_sequential_append(tied, c) && rg_tie(&c->weight, a->weight));
    ck_ok(rg_save_checkpoint(file, (rg_training){ .model = tied }));
    rg_tensor *before = rg_clone(rg_detach(a->weight));
    ck_ok(rg_nn_init_zeros_(a->weight));
    ck_ok(rg_load_checkpoint(file, (rg_training){ .model = tied }));
    ck_assert(rg_equal(c->weight, before) && b->weight == c->weight);
    ck_ok(rg_save_checkpoint(file, (rg_training){ .model = apart }));
    /* A model without tensors refuses a file that has some. */
    ck_fails(rg_load_checkpoint(file, (rg_training){ .model = bare }), RG_RUNTIME_ERROR,
             "Error(s) in loading state_dict for Sequential:\n\tUnexpected key(s)");
    ck_ok(rg_save_checkpoint(file, (rg_training){ .model = bare }));
    ck_ok(rg_load_checkpoint(file, (rg_training){ .model = bare }));
    ck_fails(rg_load_checkpoint(file, (rg_training){ .model = tied }), RG_RUNTIME_ERROR,
             "Missing key(s) in state_dict: \"0.weight\"");
    rg_module_free(apart);
    rg_module_free(tied);
    rg_module_free(bare);
    remove_folder();
}
END_TEST

/* ---- what fails ------------------------------------------------------------------------ */

static training run, other;
static snapshot run_was, other_was;
static double steps;

/* Each save has another step than the one before. */
static bool save_run(void) {
    run.step++;
    return rg_save_checkpoint(file, RUN_OF(&run));
}
static bool load_run(void) { return rg_load_checkpoint(file, RUN_OF(&other)); }

/* Asserts that the file has the last run that was saved. */
static void check_saved(bool done) {
    steps = done ? run.step : steps;
    ck_ok(load_run());
    ck_assert_double_eq(other.step, steps);
}

/* Asserts that the run has all values of the file if `done` is true, and that it hasn't changed if
 * `done` is false. Then gives the run its earlier values again. */
static void check_loaded(bool done) {
    RG_SCOPE();
    ck_assert(is_as(&other, done ? &run_was : &other_was));
    ck_ok(rg_load_state_dict(other.model, other_was.model, true));
    ck_ok(rg_optim_load_state_dict(other.o, other_was.optim));
    rg_copy_(other.average, other_was.average);
    ck_ok(rg_generator_set_state(rg_default_generator(), other_was.random));
    other.step = other_was.step;
    other.best = other_was.best;
}

/* Each request for memory is denied in turn, and each call of the file system fails. */
START_TEST(test_denied) {
    RG_SCOPE();
    make_folder();
    run = new_training(1);
    other = new_training(2);
    run.loader = other.loader = rg_data_loader_new(RG_LIST(rg_ones(5)), .batch_size = 2);
    ck_ok(rg_data_loader_next(run.loader).n > 0);
    train(&run, 3);
    ck_assert_int_gt(deny_in_turn(save_run, check_saved), 50);
    ck_assert_int_gt(fail_in_turn(save_run, check_saved), 5);
    run_was = look_at(&run);
    train(&other, (int)other.step + 2);
    other_was = look_at(&other);
    ck_ok(save_run());
    run_was.step++;
    run_was.random = other_was.random;
    ck_assert_int_gt(deny_in_turn(load_run, check_loaded), 50);
    ck_assert_int_gt(fail_in_turn(load_run, check_loaded), 5);
    forget(&run_was);
    forget(&other_was);
    rg_data_loader_free(run.loader);
    end_training(&run);
    end_training(&other);
    remove_folder();
}
END_TEST

/* ---- kill -9 --------------------------------------------------------------------------- */

/* A run with a layer and a tensor. All elements of both are the number of the step. The size of the
 * tensor depends on the step. */
typedef struct {
    rg_tensor *grown;
    double step;
} growing;

static void *layer;
static rg_tensor *weight;

/* Sets the elements in a plain loop, since a child of fork has no threads besides its own. */
static void fill(rg_tensor *t, int version) {
    for (int64_t i = 0; i < rg_numel(t); i++)
        ((float *)rg_data(t))[i] = (float)version;
}

static growing run_of(int version) {
    growing g = { rg_empty(1000 * (1 + version % 40)), version };
    fill(g.grown, version);
    fill(weight, version);
    return g;
}

#define CHECKPOINT_OF(g)                                                       \
    ((rg_training){ .model = layer,                                            \
                    .tensors = { 1, (rg_named[]){ { "grown", (g)->grown } } }, \
                    .numbers = RG_NUMBERS({ "step", &(g)->step }) })

static bool save_version(int version) {
    RG_SCOPE();
    growing g = run_of(version);
    return rg_save_checkpoint(file, CHECKPOINT_OF(&g));
}

/* Asserts that the step in the file is the value of every element in the file. */
static void check_version(void) {
    RG_SCOPE();
    int version = -1;
    rg_named_list all = rg_load_file(file);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.v[i].name, "numbers.step") == 0)
            version = (int)rg_item(all.v[i].tensor);
    ck_assert_msg(version >= 0, "%s", rg_error());
    growing g = run_of(version);
    g.step = -1;
    fill(g.grown, -1);
    fill(weight, -1);
    rg_error_clear();
    ck_ok(rg_load_checkpoint(file, CHECKPOINT_OF(&g)));
    ck_assert_double_eq(g.step, version);
    rg_tensor *loaded[] = { g.grown, weight };
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < rg_numel(loaded[k]); i++)
            ck_each(((float *)rg_data(loaded[k]))[i] == (float)version, "torn at %d", (int)i);
}

/* Removes the files that a killed process has left beside the checkpoint. */
static void remove_rest(void) {
    DIR *files = opendir(folder);
    for (struct dirent *f; (f = readdir(files));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        if (strstr(path, ".new"))
            remove(path);
    }
    closedir(files);
}

/* A process that saves is killed before and after each call of the file system. Then processes that
 * save without end are killed, each after a different time. Each time, the file must have all of
 * one run: the run that was being saved, or the one saved before it. */
START_TEST(test_killed) {
    if (rg_emulated() || getenv("EMULATED"))
        return;
    make_folder();
    layer = rg_nn_linear(40, 40);
    weight = rg_named_parameters(layer).v[0].tensor;
    ck_ok(save_version(0));
    ck_assert_int_ge(killed_at_each_call(save_version, check_version), 4);
    const int kills = rg_slow() ? 20 : 200;
    for (int i = 0; i < kills; i++) {
        killed_after(1 + i * 97 % 9000, save_version);
        check_version();
    }
    rg_module_free(layer);
    remove_rest();
    remove_folder();
}
END_TEST

RG_TESTS(checkpoint, test_resumed, test_file, test_refused, test_kinds, test_within_an_epoch,
         test_other_loaders, test_bad_files, test_one_of_several_is_missing, test_other_files,
         test_released_parts, test_other_released_parts, test_a_loader_without_its_generator,
         test_the_generator_waits_for_the_loader, test_no_part_of_a_recorded_step,
         test_a_tied_weight_from_two, test_denied, test_killed)
