/*
 * induction.c: trains a small GPT on sequences of letters that are repeated, and finds its
 * induction head: the head that attends to the letter after an earlier occurrence of the current
 * letter. Then it removes that head to measure how much the loss grows, and draws the head's
 * attention.
 *
 * Each sequence repeats some letters in random order. The number of these letters differs between
 * sequences, so that no head can find the right position from positions alone.
 */
#include "show.h"

enum { LAYERS = 2, SHORTEST = 12, LONGEST = 28, LENGTH = 56 };
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz01234567";
enum { LETTERS = sizeof letters - 1 };

static int64_t steps = 600, seed = 1, dim = 64, heads = 2, batch = 32;
static double lr = 3e-3;
static const char *out = "build/induction";
static const option options[] = {
    { "steps", WHOLE, &steps, 1, 1e8, "how many to train" },
    { "lr", NUMBER, &lr, 0, 1e6, "learning rate of AdamW" },
    { "seed", WHOLE, &seed, 0, 1e15, "of the random numbers" },
    { "dim", WHOLE, &dim, 1, 4096, "numbers that a letter is embedded as" },
    { "heads", WHOLE, &heads, 1, 64, "of each layer" },
    { "batch", WHOLE, &batch, 1, 4096, "sequences of a step" },
    { "out", TEXT, &out, 0, 0, "folder for the pictures and the page of the run" },
};

/* ---- sequences of repeated letters ----------------------------------------------- */

/* Sequences and their targets. A target is -1 where the next letter can't be known, which is before
 * the first repetition. */
typedef struct {
    rg_tensor *idx, *targets; /* (n, length) */
    rg_tensor *period;        /* (n, 1) */
} lesson;

/* Returns sequences that repeat their first `period` letters. These letters are all different. */
static lesson repeat(rg_tensor *period, int64_t length) {
    rg_tensor *order = rg_argsort(rg_rand(rg_size(period, 0), LETTERS), -1, false);
    rg_tensor *all = rg_gather(order, 1, rg_remainder(rg_arange(length + 1), period));
    rg_tensor *unknown = rg_lt(rg_arange(length), period);
    return (lesson){ rg_narrow(all, 1, 0, length),
                     rg_masked_fill(rg_narrow(all, 1, 1, length), unknown, -1), period };
}

static lesson random_lesson(int64_t n) {
    return repeat(rg_randint(SHORTEST, LONGEST + 1, n, 1), LENGTH);
}

/* ---- training ----------------------------------------------------------------------- */

/* GPT's usual initial weights are made for much wider models. With such weights, attention would
 * stay uniform for a long time. Therefore larger weights are used here. */
static rg_gpt *new_model(void) {
    rg_gpt *model = rg_nn_gpt(.block_size = LENGTH, .vocab_size = LETTERS, .n_layer = LAYERS,
                              .n_head = heads, .n_embd = dim, .n_inner = 16);
    rg_list all = rg_parameters(model);
    for (int i = 0; i < all.n; i++)
        if (rg_ndim(all.v[i]) == 2)
            rg_nn_init_normal_(all.v[i], 0, 0.12);
    return model;
}

/* ---- what a head looks at ------------------------------------------------------------ */

static rg_tensor *pattern_of(rg_named_list cache, int64_t layer) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.attn.hook_pattern", (int)layer);
    return rg_cache_get(cache, name);
}

/* Adds to the page what each head looks at in the repeated letters ABCDEF. In training, each
 * sequence repeats at least SHORTEST letters, which is more than these six. */
static void report_heads(rg_report *report, rg_gpt *model, int64_t step) {
    static const char *const shown[] = { "A", "B", "C", "D", "E", "F", "A",
                                         "B", "C", "D", "E", "F", "A" };
    enum { SHOWN = sizeof shown / sizeof *shown };
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *idx = rg_unsqueeze(rg_remainder(rg_arange(SHOWN), 6), 0);
    rg_cached_run run = rg_run_with_cache(model, "*.hook_pattern", idx);
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name, "attention/layer %d", (int)layer);
        rg_report_picture(report, name, step, rg_select(pattern_of(run.cache, layer), 0, 0),
                          .rows = { SHOWN, shown }, .columns = { SHOWN, shown });
    }
    rg_report_parameters(report, step, model);
}

/* ---- learning ------------------------------------------------------------------------ */

static void learn(rg_gpt *model, rg_tensor *all_losses, rg_report *report) {
    double *losses = rg_data_as(double, all_losses);
    rg_optim *optimizer = rg_optim_adamw(rg_parameters(model), .lr = lr);
    rg_progress progress = rg_progress_begin(stdout, steps);
    RG_FOR (int64_t step = 0; step < steps; step++) {
        lesson l = random_lesson(batch);
        rg_tensor *loss = rg_call(model, l.idx, l.targets);
        rg_optim_zero_grad(optimizer);
        rg_backward(loss);
        rg_optim_step(optimizer);
        losses[step] = rg_item(loss);
        rg_report_number(report, "loss", step + 1, losses[step]);
        if (step % (steps / 20 + 1) == 0 || step + 1 == steps)
            report_heads(report, model, step + 1);
        rg_progress_show(&progress, step + 1, "loss %.4f", losses[step]);
    }
    rg_optim_free(optimizer);
}

/* ---- looking inside ------------------------------------------------------------------ */

/* Returns a tensor (n, length, length). For each letter it is 1 at the positions after earlier
 * occurrences of the letter, and 0 elsewhere. */
static rg_tensor *behind_the_same(rg_tensor *idx) {
    rg_tensor *same = rg_eq(rg_unsqueeze(idx, 2), rg_unsqueeze(idx, 1));
    rg_tensor *behind = rg_narrow(rg_pad(rg_float(same), 1, 0), 2, 0, rg_size(idx, 1));
    return rg_tril(behind, -1);
}

/* Returns a score for each head: its attention to the positions where `there` is 1, averaged over
 * the positions from the first repetition on. The pattern is (n, heads, length, length). */
static rg_tensor *score(rg_tensor *pattern, const lesson *l, rg_tensor *there) {
    rg_tensor *looked = rg_sum_dim(rg_mul(pattern, rg_unsqueeze(there, 1)), 3, false);
    rg_tensor *counts = rg_float(rg_ge(rg_arange(rg_size(there, 1)), l->period));
    looked = rg_sum_dims(rg_mul(looked, rg_unsqueeze(counts, 1)), RG_DIMS(0, 2), false);
    return rg_div(looked, rg_sum(counts));
}

/* A hook that removes a head, by setting its output to 0. */
static rg_tensor *without_head(rg_tensor *z, const char *name, void *head) {
    (void)name;
    rg_tensor *others = rg_clone(z);
    rg_zero_(rg_select(others, 2, *(int64_t *)head));
    return others;
}

static double loss_without(rg_gpt *model, const lesson *l, int64_t layer, int64_t head) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.attn.hook_z", (int)layer);
    return rg_item(
        rg_run_with_hooks(model, RG_HOOKS_AT({ name, without_head, &head }), l->idx, l->targets));
}

typedef struct {
    int64_t layer, head;
    double score, loss, loss_without;
} found_head;

/* Prints each head's scores, and returns the head with the highest induction score. */
static found_head look_inside(rg_gpt *model) {
    RG_SCOPE();
    RG_NO_GRAD();
    lesson l = random_lesson(100);
    rg_cached_run run = rg_run_with_cache(model, "*.hook_pattern", l.idx, l.targets);
    found_head best = { .score = -1, .loss = rg_item(run.output) };
    printf("\nLoss: %.4f. How much each head looks at the letter before, and at letters behind "
           "earlier\nones like this (induction); and the loss without the head:\n\n"
           "  head   before   induction   loss without\n",
           best.loss);
    for (int64_t layer = 0; layer < LAYERS; layer++) {
        rg_tensor *pattern = pattern_of(run.cache, layer);
        rg_tensor *before = score(pattern, &l, rg_diag_embed(rg_ones(1, LENGTH - 1), -1, 1, 2));
        rg_tensor *induction = score(pattern, &l, behind_the_same(l.idx));
        for (int64_t head = 0; head < heads; head++) {
            found_head h = { layer, head, rg_at(induction, head), best.loss,
                             loss_without(model, &l, layer, head) };
            printf("  %lld.%lld    %6.2f   %9.2f   %12.4f\n", (long long)layer, (long long)head,
                   rg_at(before, head), h.score, h.loss_without);
            if (h.score > best.score)
                best = h;
        }
    }
    return best;
}

/* Draws the head's attention pattern for a sequence that repeats six letters. In training, each
 * sequence repeats at least SHORTEST letters. */
static void draw(rg_gpt *model, found_head h) {
    RG_SCOPE();
    RG_NO_GRAD();
    enum { SHOWN = 13 };
    lesson l = repeat(rg_literal([[6]]), SHOWN);
    rg_cached_run run = rg_run_with_cache(model, "*.hook_pattern", l.idx);
    rg_tensor *pattern = rg_select(rg_select(pattern_of(run.cache, h.layer), 0, 0), 0, h.head);
    char text[SHOWN][2];
    const char *labels[SHOWN];
    for (int i = 0; i < SHOWN; i++) {
        text[i][0] = letters[(int)rg_at(l.idx, 0, i)];
        text[i][1] = 0;
        labels[i] = text[i];
    }
    const rg_names names = { SHOWN, labels };
    rg_print_heat_map(pattern, stdout, .rows = names, .columns = names, .high = 1,
                      .title = "At the letter at the left, the head looks at:");
    char path[4096];
    snprintf(path, sizeof path, "%s/induction.svg", out);
    rg_save_heat_map(pattern, path, .rows = names, .columns = names, .high = 1,
                     .title = "What the induction head looks at");
    printf("wrote %s\n", path);
}

int main(int argc, char *argv[]) {
    if (READ_OPTIONS(argc, argv, "", options) < argc)
        refuse("takes no '%s'", argv[argc - 1]);
    if (dim % heads)
        refuse("--dim %lld is not a multiple of --heads %lld", (long long)dim, (long long)heads);
    rg_on_error(stop_on_error);
    make_folder(out);
    rg_manual_seed((uint64_t)seed);
    rg_gpt *model = new_model();
    rg_tensor *losses = rg_zeros_dims(RG_DIMS(steps), RG_FLOAT64);
    rg_report *report = BEGIN_PAGE(out, false, options);
    rg_report_text(report, "model", rg_module_repr(model));
    learn(model, losses, report);
    printf("\n");
    rg_print_curve(losses, stdout, .title = "The loss (cross-entropy), step by step:");
    found_head h = look_inside(model);
    printf("\nHead %lld.%lld does most of it: its induction score is %.2f. Without it the loss is "
           "%.4f, with it %.4f.\n\n",
           (long long)h.layer, (long long)h.head, h.score, h.loss_without, h.loss);
    draw(model, h);
    save_losses(out, losses, "Loss, step by step");
    end_page(report, out);
    rg_module_free(model);
}
