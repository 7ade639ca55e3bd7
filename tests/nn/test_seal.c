/* test_seal.c: seals of training runs: a second run is compared with the file, to the bit. */
#include "nn/save/sha256.h"
#include "tests/faults.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "regard.h"
#include "tensor/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hash function ----------------------------------------------------------------- */

/* Hashes that FIPS 180-4 and NIST's examples give. */
START_TEST(test_known_hashes) {
    static const struct {
        const char *text;
        int times;
        const char *hash;
    } known[] = {
        { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "aaaaaaaaaa", 100000,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
    };
    for (int i = 0; i < RG_COUNT(known); i++) {
        rg_sha256 hash;
        char hex[RG_SHA256_ROOM];
        rgi_sha256_begin(&hash);
        for (int k = 0; k < known[i].times; k++)
            rgi_sha256_add(&hash, known[i].text, strlen(known[i].text));
        rgi_sha256_end(&hash, hex);
        ck_assert_str_eq(hex, known[i].hash);
    }
}
END_TEST

/* Blocks change the state as they do without the processor's instructions for SHA-256. */
START_TEST(test_plain_blocks) {
    uint8_t bytes[5 * 64];
    uint32_t drawn = 1;
    for (int i = 0; i < RG_COUNT(bytes); i++) {
        drawn = drawn * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(drawn >> 24);
    }
    for (size_t n = 0; n <= sizeof bytes / 64; n++) {
        rg_sha256 hash, plain;
        rgi_sha256_begin(&hash);
        rgi_sha256_begin(&plain);
        rgi_sha256_add(&hash, bytes, 64 * n);
        rgi_sha256_blocks_plain(plain.state, bytes, n);
        ck_assert(memcmp(hash.state, plain.state, sizeof hash.state) == 0);
    }
}
END_TEST

/* The hash of n bytes is the same, however they are divided among calls. */
START_TEST(test_divided_hashes) {
    uint8_t bytes[200];
    for (int i = 0; i < RG_COUNT(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        char whole[RG_SHA256_ROOM], parts[RG_SHA256_ROOM];
        rg_sha256 hash;
        rgi_sha256_begin(&hash);
        rgi_sha256_add(&hash, bytes, n);
        rgi_sha256_end(&hash, whole);
        rgi_sha256_begin(&hash);
        for (size_t at = 0, k = 1; at < n; at += k, k = k % 70 + 1) {
            k = RG_MIN(k, n - at);
            rgi_sha256_add(&hash, bytes + at, k);
        }
        rgi_sha256_end(&hash, parts);
        ck_assert_str_eq(whole, parts);
    }
}
END_TEST

/* ---- a training ------------------------------------------------------------------------ */

typedef struct {
    rg_module *model;
    rg_optim *o;
    double step;
} training;

static training new_training(void) {
    RG_SCOPE();
    rg_manual_seed(7);
    training t = { 0 };
    t.model = (rg_module *)rg_nn_sequential(rg_nn_linear(3, 4), rg_nn_dropout(0.5),
                                            rg_nn_batch_norm1d(4), rg_nn_linear(4, 2));
    t.o = rg_optim_adam(rg_parameters(t.model), .lr = 0.01);
    ck_ok(t.model && t.o);
    return t;
}

static void end_training(training *t) {
    rg_optim_free(t->o);
    rg_module_free(t->model);
}

static rg_training run_of(training *t) {
    static rg_number number;
    number = (rg_number){ "step", &t->step };
    return (rg_training){ .model = t->model, .optim = t->o, .numbers = { 1, &number } };
}

/* Makes one step. */
static void learn(training *t) {
    RG_SCOPE();
    rg_optim_zero_grad(t->o);
    ck_ok(rg_backward(rg_sum(rg_call(t->model, rg_randn(5, 3)))));
    ck_ok(rg_optim_step(t->o));
    t->step++;
}

/* Trains until this step, and seals or compares each step. If `flip` is the number of a step, flips
 * a bit of a weight after it, one that later steps don't round away. Returns the first step that
 * failed, or -1. */
static int train(training *t, rg_seal *s, int until, int flip) {
    while (t->step < until) {
        learn(t);
        if (t->step == flip)
            ((uint32_t *)rg_data(rg_get_parameter(t->model, "3.weight")))[5] ^= 1 << 10;
        if (!rg_seal_step(s, (int64_t)t->step, run_of(t)))
            return (int)t->step;
    }
    return -1;
}

/* Writes a seal of a run of 100 steps, and returns its last chain. */
static const char *seal_run(const char *path, int64_t every) {
    static char chain[RG_SHA256_ROOM];
    training t = new_training();
    rg_seal *s = rg_seal_begin(path, .every = every);
    ck_ok(s);
    ck_ok(train(&t, s, 100, -1) == -1);
    strcpy(chain, rg_seal_hash(s));
    ck_ok(rg_seal_end(s));
    end_training(&t);
    return chain;
}

/* ---- what a seal finds ------------------------------------------------------------------ */

START_TEST(test_same_run) {
    scratch_begin();
    const char *chain = seal_run(scratch("a.seal"), 10);
    training t = new_training();
    rg_seal *s = rg_seal_check(scratch("a.seal"));
    ck_ok(s);
    ck_assert(strcmp(rg_seal_hash(s), chain) != 0);
    ck_assert_int_eq(train(&t, s, 10, -1), -1);
    ck_assert(strcmp(rg_seal_hash(s), chain) != 0);
    ck_assert_int_eq(train(&t, s, 100, -1), -1);
    ck_assert_str_eq(rg_seal_hash(s), chain);
    ck_ok(rg_seal_end(s));
    end_training(&t);
    seal_run(scratch("b.seal"), 10);
    ck_assert(same_files(scratch("a.seal"), scratch("b.seal")));
    scratch_end();
}
END_TEST

/* A bit of a weight that is flipped is found at the next step that is sealed. */
START_TEST(test_flipped_bit) {
    scratch_begin();
    seal_run(scratch("a.seal"), 10);
    for (int at = 1; at < 100; at += 23) {
        const int found = (at + 9) / 10 * 10;
        training t = new_training();
        rg_seal *s = rg_seal_check(scratch("a.seal"));
        ck_assert_int_eq(train(&t, s, 100, at), found);
        char said[100], before[60] = "";
        if (found > 10)
            snprintf(before, sizeof before, "; at step %d all was the same", found - 10);
        snprintf(said, sizeof said, "seal_step: step %d: model.", found);
        ck_assert_msg(strncmp(rg_error(), said, strlen(said)) == 0 && strstr(rg_error(), before)
                          && (at % 10 || strstr(rg_error(), "model.3.weight isn't as")),
                      "%s", rg_error());
        rg_error_clear();
        ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step ");
        end_training(&t);
    }
    scratch_end();
}
END_TEST

/* A run can be checked from the step of a checkpoint on. */
START_TEST(test_from_checkpoint) {
    scratch_begin();
    training t = new_training();
    rg_seal *s = rg_seal_begin(scratch("a.seal"), .every = 10);
    train(&t, s, 45, -1);
    ck_ok(rg_save_checkpoint(scratch("run"), run_of(&t)));
    train(&t, s, 100, -1);
    ck_ok(rg_seal_end(s));
    end_training(&t);

    t = new_training();
    ck_ok(rg_load_checkpoint(scratch("run"), run_of(&t)));
    s = rg_seal_check(scratch("a.seal"));
    ck_assert_int_eq(train(&t, s, 100, -1), -1);
    ck_fails(train(&t, s, 110, -1) != 110, RG_RUNTIME_ERROR, "a.seal', whose last step is 100");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 110 has failed");
    end_training(&t);
    scratch_end();
}
END_TEST

/* The run of a program that was killed while it wrote a step goes on from a checkpoint. The file
 * then is that of a run that wasn't killed. */
START_TEST(test_resumed) {
    scratch_begin();
    seal_run(scratch("a.seal"), 10);
    size_t n;
    char *bytes = file_bytes(scratch("a.seal"), &n);
    training t = new_training();
    rg_seal *s = rg_seal_begin(scratch("c.seal"), .every = 10);
    train(&t, s, 35, -1);
    ck_ok(rg_save_checkpoint(scratch("run"), run_of(&t)));
    ck_ok(rg_seal_end(s));
    end_training(&t);
    for (size_t cut = 1; cut < n; cut += n / 20) {
        scratch_write("b.seal", bytes, cut);
        s = rg_seal_begin(scratch("b.seal"), .every = 10, .resume = true);
        if (!s) {
            ck_assert_str_eq(rg_error_code() == RG_IO_ERROR ? "refused" : rg_error(), "refused");
            rg_error_clear();
            continue;
        }
        t = new_training();
        const bool early = strstr(bytes, "step 50") > bytes + cut;
        if (!early)
            ck_ok(rg_load_checkpoint(scratch("run"), run_of(&t)));
        ck_assert_int_eq(train(&t, s, 100, -1), -1);
        ck_ok(rg_seal_end(s));
        ck_assert(same_files(scratch("a.seal"), scratch("b.seal")));
        end_training(&t);
    }
    free(bytes);
    scratch_end();
}
END_TEST

/* Any byte of a file that was changed is found, and so is an end that is missing or follows. Whole
 * steps that are missing at the end can only be known from the last chain. */
START_TEST(test_changed_file) {
    scratch_begin();
    seal_run(scratch("a.seal"), 50);
    size_t n;
    char *bytes = file_bytes(scratch("a.seal"), &n);
    const size_t step = rg_slow() ? 13 : 1;
    for (size_t at = 0; at < n; at += step) {
        bytes[at] ^= 1;
        ck_fails(rg_seal_check(scratch_write("b.seal", bytes, n)), RG_IO_ERROR, "b.seal");
        bytes[at] ^= 1;
        if (at > 0 && strncmp(bytes + at, "step ", 5) == 0)
            continue;
        ck_fails(rg_seal_check(scratch_write("b.seal", bytes, at)), RG_IO_ERROR, "b.seal");
    }
    bytes[n] = 'x';
    ck_fails(rg_seal_check(scratch_write("b.seal", bytes, n + 1)), RG_IO_ERROR,
             "the last part isn't complete; rg_seal_begin(.., .resume = true) removes it");
    free(bytes);
    scratch_end();
}
END_TEST

/* A check that has compared nothing doesn't end as one that found no difference. */
START_TEST(test_nothing_compared) {
    scratch_begin();
    const char *chain = seal_run(scratch("a.seal"), 50);
    for (int until = 49; until <= 50; until++) {
        training t = new_training();
        rg_seal *s = rg_seal_check(scratch("a.seal"));
        ck_assert_int_eq(train(&t, s, until, -1), -1);
        ck_assert(strcmp(rg_seal_hash(s), chain) != 0);
        if (until == 50)
            ck_ok(rg_seal_end(s));
        else
            ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR,
                     "the run has made none of the sealed steps: nothing was compared");
        end_training(&t);
    }
    scratch_end();
}
END_TEST

/* A run with other tensors differs by their names. */
START_TEST(test_other_tensors) {
    scratch_begin();
    seal_run(scratch("a.seal"), 1);
    const struct {
        const char *said;
        bool optim, number;
    } rows[] = {
        { "a.seal' has optim.state.0.step", false, true },
        { "a.seal' has numbers.step", true, false },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        training t = new_training();
        rg_seal *s = rg_seal_check(scratch("a.seal"));
        learn(&t);
        rg_training run = run_of(&t);
        run.optim = rows[i].optim ? run.optim : NULL;
        run.numbers.n = rows[i].number ? 1 : 0;
        ck_fails(rg_seal_step(s, 1, run), RG_RUNTIME_ERROR, rows[i].said);
        ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 1 has failed");
        end_training(&t);
    }
    scratch_end();
}
END_TEST

/* A tensor of another name differs, even if it has the same elements. */
START_TEST(test_other_name) {
    scratch_begin();
    seal_run(scratch("a.seal"), 1);
    training t = new_training();
    rg_seal *s = rg_seal_check(scratch("a.seal"));
    learn(&t);
    rg_number number = { "stop", &t.step };
    rg_training run = run_of(&t);
    run.numbers.v = &number;
    ck_assert(!rg_seal_step(s, 1, run) && strstr(rg_error(), "the run has numbers.stop where '")
              && strstr(rg_error(), "a.seal' has numbers.step"));
    rg_error_clear();
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 1 has failed");
    end_training(&t);
    scratch_end();
}
END_TEST

/* A run with more tensors than the sealed one differs, too. A control character in a name is sealed
 * as a question mark, so that it ends no line. */
START_TEST(test_further_tensor) {
    scratch_begin();
    seal_run(scratch("a.seal"), 1);
    training t = new_training();
    double more = 3;
    rg_number numbers[] = { { "step", &t.step }, { "step\nstate", &more } };
    rg_seal *s = rg_seal_check(scratch("a.seal"));
    learn(&t);
    rg_training run = run_of(&t);
    run.numbers.n = 2;
    run.numbers.v = numbers;
    ck_fails(rg_seal_step(s, 1, run), RG_RUNTIME_ERROR,
             "seal_step: step 1: the run has numbers.step?state where '");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 1 has failed");
    s = rg_seal_begin(scratch("b.seal"), .every = 1);
    ck_ok(rg_seal_step(s, 1, run) && rg_seal_end(s));
    s = rg_seal_check(scratch("b.seal"));
    ck_ok(rg_seal_step(s, 1, run) && rg_seal_end(s));
    s = rg_seal_check(scratch("b.seal"));
    run.numbers.n = 1;
    ck_fails(rg_seal_step(s, 1, run), RG_RUNTIME_ERROR, "b.seal' has numbers.step?state");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 1 has failed");
    end_training(&t);
    scratch_end();
}
END_TEST

/* A run that goes back to an earlier step is compared with that step. The file may lack it. */
START_TEST(test_going_back) {
    scratch_begin();
    training t = new_training();
    rg_seal *s = rg_seal_begin(scratch("a.seal"), .every = 10);
    train(&t, s, 5, -1);
    ck_ok(rg_save_checkpoint(scratch("run"), run_of(&t)));
    train(&t, s, 40, -1);
    ck_ok(rg_seal_end(s));
    s = rg_seal_check(scratch("a.seal"));
    for (int back = 0; back < 2; back++) {
        ck_ok(rg_load_checkpoint(scratch("run"), run_of(&t)));
        ck_assert_int_eq(train(&t, s, back ? 20 : 40, -1), -1);
    }
    learn(&t);
    ck_fails(rg_seal_step(s, 10, run_of(&t)), RG_RUNTIME_ERROR, "seal_step: step 10: ");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 10 has failed");
    ck_ok(rg_load_checkpoint(scratch("run"), run_of(&t)));
    s = rg_seal_begin(scratch("b.seal"), .every = 10);
    t.step = 12; /* So 20 is the first step that is sealed. */
    train(&t, s, 30, -1);
    ck_ok(rg_seal_end(s));
    s = rg_seal_check(scratch("b.seal"));
    ck_fails(rg_seal_step(s, 10, run_of(&t)), RG_RUNTIME_ERROR, "step 10 isn't in '");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 10 has failed");
    end_training(&t);
    scratch_end();
}
END_TEST

/* ---- misuse ----------------------------------------------------------------------------- */

START_TEST(test_refusals) {
    scratch_begin();
    ck_fails(rg_seal_begin(NULL), RG_TYPE_ERROR, "seal_begin: expected a path but got NULL");
    ck_fails(rg_seal_begin(scratch("x"), .every = 0), RG_VALUE_ERROR,
             "seal_begin: expected .every of at least 1, but got 0");
    ck_fails(rg_seal_check(scratch("x")), RG_IO_ERROR, "seal_check: [Errno 2]");
    ck_fails(rg_seal_check(scratch_write("y", "no seal", 7)), RG_IO_ERROR, "y': it is no seal");
    ck_fails(rg_seal_begin(scratch("y"), .resume = true), RG_IO_ERROR, "y': it is no seal");
    seal_run(scratch("a.seal"), 10);
    ck_fails(rg_seal_begin(scratch("a.seal"), .every = 20, .resume = true), RG_VALUE_ERROR,
             "a.seal' seals every 10 steps, and not every 20");
    training t = new_training();
    rg_seal *s = rg_seal_begin(scratch("b.seal"), .every = 10);
    ck_fails(rg_seal_step(s, -10, run_of(&t)), RG_VALUE_ERROR,
             "seal_step: expected a step that isn't negative, but got -10");
    ck_ok(rg_seal_step(s, 20, run_of(&t)));
    ck_ok(rg_seal_step(s, 5, run_of(&t)));
    ck_fails(rg_seal_step(s, 10, run_of(&t)), RG_VALUE_ERROR,
             "seal_step: step 10 comes after step 20, which is sealed");
    ck_ok(rg_seal_step(s, 30, run_of(&t)));
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step -10 has failed");
    end_training(&t);
    scratch_end();
}
END_TEST

/* A step whose run can't be read has failed, too: a later step that is sealed doesn't hide it. */
START_TEST(test_step_of_a_failed_run) {
    scratch_begin();
    training t = new_training();
    rg_named nothing = { "w", NULL }, twice[] = { { "w", rg_ones(1) }, { "w", rg_ones(1) } };
    const struct {
        rg_training run;
        rg_code kind;
        const char *said;
    } rows[] = {
        { { .tensors = { 1, &nothing } }, RG_TYPE_ERROR, "expected a tensor but got NULL" },
        { { .tensors = { .n = -1 } }, RG_TYPE_ERROR, "expected a list but got one that failed" },
        { { .numbers = { .n = -1 } }, RG_TYPE_ERROR, "expected a list but got one that failed" },
        { { .optim = (rg_optim *)(void *)t.model }, RG_TYPE_ERROR, "but got a module" },
        { { .tensors = { 2, twice } }, RG_VALUE_ERROR, "tensor \"tensors.w\" comes twice" },
    };
    for (int i = 0; i < RG_COUNT(rows); i++) {
        rg_seal *s = rg_seal_begin(scratch("a.seal"), .every = 1);
        ck_ok(rg_seal_step(s, 1, run_of(&t)));
        ck_fails(rg_seal_step(s, 2, rows[i].run), rows[i].kind, rows[i].said);
        ck_ok(rg_seal_step(s, 3, run_of(&t)));
        ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 2 has failed");
    }
    end_training(&t);
    scratch_end();
}
END_TEST

/* Writes the hash of n bytes, or of a second text behind them. */
static void hash_of(const char *p, size_t n, const char *more, char to[RG_SHA256_ROOM]) {
    rg_sha256 hash;
    rgi_sha256_begin(&hash);
    rgi_sha256_add(&hash, p, n);
    rgi_sha256_add(&hash, more, strlen(more));
    rgi_sha256_end(&hash, to);
}

/* Appends lines to a file's text, and the hashes that seal them. */
static void forge(char *to, const char *lines, char chain[RG_SHA256_ROOM]) {
    char state[RG_SHA256_ROOM];
    hash_of(lines, strlen(lines), "", state);
    hash_of(chain, strlen(chain), state, chain);
    to += strlen(to);
    sprintf(to, "%sstate %s\nchain %s\n", lines, state, chain);
}

/* A file whose hashes fit can yet be no seal: it was written by another program. */
START_TEST(test_forged_files) {
    static const char first[] = "version 1\nseed 7\nprecision of products highest\n";
    static const struct {
        const char *every, *step, *said;
    } rows[] = {
        { "every 10\n", "step 10\n", NULL },
        { "", "step 10\n", "forged.seal': it doesn't say which steps are sealed" },
        { "every ten\n", "step 10\n", "it doesn't say which steps are sealed" },
        { "every 0\n", "step 10\n", "it doesn't say which steps are sealed" },
        { "every 10\n", "stop 10\n", "forged.seal': a part isn't that of a step" },
        { "every 10\n", "step ten\n", "a part isn't that of a step" },
    };
    scratch_begin();
    seal_run(scratch("a.seal"), 50);
    size_t n;
    char *bytes = file_bytes(scratch("a.seal"), &n);
    const int title = (int)(strstr(bytes, "\nversion") + 1 - bytes);
    for (int i = 0; i < RG_COUNT(rows); i++) {
        char text[2000] = "", head[500], chain[RG_SHA256_ROOM] = "";
        snprintf(head, sizeof head, "%.*s%s%s", title, bytes, first, rows[i].every);
        forge(text, head, chain);
        forge(text, rows[i].step, chain);
        rg_seal *s = rg_seal_check(scratch_write("forged.seal", text, strlen(text)));
        ck_assert_msg(!s == !!rows[i].said, "%s%s: %s", head, rows[i].step, rg_error());
        if (!s) {
            ck_fails(rg_seal_check(scratch("forged.seal")), RG_IO_ERROR, rows[i].said);
            continue;
        }
        training t = new_training();
        ck_fails(rg_seal_step(s, 10, run_of(&t)), RG_RUNTIME_ERROR,
                 "forged.seal' has no further tensor");
        ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 10 has failed");
        end_training(&t);
    }
    free(bytes);
    scratch_end();
}
END_TEST

/* A step that was written in part ends the file, until another seal resumes it. */
START_TEST(test_torn_file) {
    scratch_begin();
    training t = new_training();
    faults_begin();
    rg_seal *s = rg_seal_begin(scratch("a.seal"), .every = 10);
    ck_ok(rg_seal_step(s, 10, run_of(&t)));
    faults.most = 100;
    faults.fail_at = faults.calls + 3;
    faults.number = ENOSPC;
    ck_fails(rg_seal_step(s, 20, run_of(&t)), RG_IO_ERROR, "seal_step: [Errno 28]");
    faults.most = 0;
    ck_fails(rg_seal_step(s, 30, run_of(&t)), RG_IO_ERROR, "an earlier step was written in part");
    ck_fails(rg_seal_end(s), RG_RUNTIME_ERROR, "seal_end: step 20 has failed");
    s = rg_seal_begin(scratch("a.seal"), .every = 10, .resume = true);
    ck_ok(rg_seal_step(s, 10, run_of(&t)) && rg_seal_step(s, 20, run_of(&t)));
    ck_ok(rg_seal_end(s));
    faults_end();
    end_training(&t);
    scratch_end();
}
END_TEST

/* Whichever call of the file system fails, the failure is told, and the seal is released. */
START_TEST(test_failing_files) {
    scratch_begin();
    training t = new_training();
    for (int resume = 0; resume < 2; resume++) {
        bool failed = true;
        for (long at = 1; failed; at++) {
            faults_begin();
            faults.fail_at = at;
            faults.number = EIO;
            rg_seal *s = rg_seal_begin(scratch("a.seal"), .every = 10, .resume = resume);
            bool ok = s && rg_seal_step(s, 10, run_of(&t));
            ok = s && rg_seal_end(s) && ok;
            failed = faults.calls >= at;
            ck_assert_int_eq(faults.open, 0);
            faults_end();
            /* A folder that can't be synced is no failure. */
            ck_assert(failed ? ok || rg_error_code() == RG_IO_ERROR : ok);
            rg_error_clear();
        }
    }
    end_training(&t);
    scratch_end();
}
END_TEST

RG_TESTS(seal, test_known_hashes, test_plain_blocks, test_divided_hashes, test_same_run,
         test_flipped_bit, test_from_checkpoint, test_resumed, test_changed_file,
         test_nothing_compared, test_other_tensors, test_other_name, test_further_tensor,
         test_going_back, test_refusals, test_step_of_a_failed_run, test_forged_files,
         test_torn_file, test_failing_files)
