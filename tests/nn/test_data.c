/*
 * test_data.c: tokens, tables and lines are read from files. Batches come in torch's order, even if
 * a run is stopped and resumed.
 */
#include "tests/golden.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/memory.h"
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- torch's order --------------------------------------------------------------------- */

enum { MOST = 256 };

/* Asserts that t has the numbers in the next line. */
static void check_numbers(golden_file *f, rg_tensor *t) {
    int64_t want[MOST];
    ck_ok(t);
    const int64_t n = golden_integers(f, ':', want, MOST);
    ck_assert_int_eq(rg_numel(t), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_int_eq(((int64_t *)rg_data(t))[i], want[i]);
}

static void check_loader(golden_file *f, char *at) {
    RG_SCOPE();
    const int64_t n = golden_integer(&at), batch_size = golden_integer(&at);
    const bool shuffle = golden_integer(&at), drop_last = golden_integer(&at);
    const bool own = golden_integer(&at);
    rg_manual_seed(7);
    rg_generator *g = own ? rg_generator_new(7) : NULL;
    rg_tensor *x = rg_arange(n);
    rg_data_loader *l = rg_data_loader_new(RG_LIST(x, rg_mul(rg_unsqueeze(x, 1), 2)),
                                           .batch_size = batch_size, .shuffle = shuffle,
                                           .drop_last = drop_last, .generator = g);
    ck_ok(l);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int64_t i = 0; i < rg_data_loader_len(l); i++) {
            RG_SCOPE();
            rg_list batch = rg_data_loader_next(l);
            ck_assert_int_eq(batch.n, 2);
            check_numbers(f, batch.v[0]);
            ck_assert(rg_equal(batch.v[1], rg_mul(rg_unsqueeze(batch.v[0], 1), 2)));
        }
        ck_assert_int_eq(rg_data_loader_next(l).n, 0);
        golden_field(f, 'e');
    }
    char *drawn = golden_field(f, 'd');
    rg_tensor *draw = rg_randint_dims(0, 1000000, RG_DIMS(1), RG_INT64,
                                      g ? g : rg_default_generator());
    ck_assert_int_eq(rg_item_int(draw), golden_integer(&drawn));
    rg_data_loader_free(l);
    rg_generator_free(g);
}

static void check_split(golden_file *f, char *at) {
    RG_SCOPE();
    double lengths[8];
    int parts = 0;
    const int64_t n = golden_integer(&at);
    while (!golden_at_end(at))
        lengths[parts++] = golden_number(&at);
    rg_manual_seed(7);
    rg_list split = rg_random_split(n, parts, lengths);
    ck_assert_int_eq(split.n, parts);
    for (int i = 0; i < parts; i++)
        check_numbers(f, split.v[i]);
}

static void check_batch(golden_file *f, char *at) {
    RG_SCOPE();
    const int64_t n = golden_integer(&at);
    const int64_t batch_size = golden_integer(&at), block_size = golden_integer(&at);
    uint32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (uint32_t)i * 60000;
    rg_tokens *tokens = rg_tokens_open(scratch_write("f", ids, (size_t)n * 4), .dtype = "uint32");
    ck_assert_int_eq(rg_tokens_count(tokens), n);
    rg_manual_seed(7);
    rg_pair p = rg_tokens_get_batch(tokens, batch_size, block_size);
    ck_ok(p.first);
    check_numbers(f, rg_contiguous(rg_floor_divide(rg_select(p.first, 1, 0), 60000)));
    /* A tensor of the same tokens gives the same batches as the file. */
    rg_manual_seed(7);
    rg_pair q = rg_get_batch(rg_mul(rg_arange(n), 60000), batch_size, block_size);
    ck_assert(rg_equal(p.first, q.first) && rg_equal(p.second, q.second));
    rg_tokens_close(tokens);
    free(ids);
}

/* The lengths may be a compound literal, even though rg_random_split is a macro and the literal has
 * commas. */
START_TEST(test_literal_lengths) {
    rg_list parts = rg_random_split(5, 2, (double[]){ 2, 3 });
    ck_assert(parts.n == 2 && rg_size(parts.v[0], 0) == 2 && rg_size(parts.v[1], 0) == 3);
}
END_TEST

START_TEST(test_order) {
    scratch_begin();
    rg_on_warning(NULL);
    golden_file f = golden_open("data");
    int cases = 0;
    for (char *at; (at = golden_case(&f)); cases++) {
        const char *name = golden_word(&at);
        if (!strcmp(name, "loader"))
            check_loader(&f, at);
        else if (!strcmp(name, "split"))
            check_split(&f, at);
        else
            check_batch(&f, at);
    }
    golden_close(&f);
    ck_assert_int_eq(cases, 50);
    scratch_end();
}
END_TEST

/* ---- going on -------------------------------------------------------------------------- */

static rg_data_loader *new_loader(rg_generator *g, bool drop_last) {
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_arange(10)), .batch_size = 3, .shuffle = true,
                                           .drop_last = drop_last, .generator = g);
    ck_ok(l);
    return l;
}

/* A loader loads the state that another loader has saved in a file. Then it gives the same batches
 * as that loader, however many batches that loader gave before. */
START_TEST(test_resume) {
    scratch_begin();
    for (int own = 0; own < 2; own++)
        for (int stop = 0; stop < 12; stop++) {
            RG_SCOPE();
            rg_generator *g = rg_generator_new(3), *h = rg_generator_new(4);
            rg_data_loader *l = new_loader(own ? g : NULL, stop % 2);
            rg_data_loader *to = new_loader(own ? h : NULL, stop % 2);
            rg_manual_seed(3);
            for (int i = 0; i < stop; i++)
                ck_assert_int_ge(rg_data_loader_next(l).n, 0);
            ck_ok(rg_save_file(rg_data_loader_state_dict(l), scratch("f")));
            rg_tensor *random = rg_generator_state(rg_default_generator());
            rg_list want[9];
            for (int i = 0; i < 9; i++)
                want[i] = rg_data_loader_next(l);
            ck_ok(rg_data_loader_load_state_dict(to, rg_load_file(scratch("f"))));
            ck_ok(rg_generator_set_state(rg_default_generator(), random));
            for (int i = 0; i < 9; i++) {
                rg_list got = rg_data_loader_next(to);
                ck_assert_int_eq(got.n, want[i].n);
                ck_assert(got.n == 0 || rg_equal(got.v[0], want[i].v[0]));
            }
            rg_data_loader_free(l);
            rg_data_loader_free(to);
            rg_generator_free(g);
            rg_generator_free(h);
        }
    scratch_end();
}
END_TEST

START_TEST(test_state_refused) {
    RG_SCOPE();
    rg_generator *g = rg_generator_new(3);
    rg_data_loader *l = new_loader(g, false);
    rg_tensor *three = rg_scalar_dtype(3, RG_INT64), *order = rg_arange(10);
    rg_tensor *state = rg_generator_state(g), *none = rg_empty_dims(RG_DIMS(0), RG_INT64);
    rg_named v[] = { { "position", three }, { "order", order }, { "generator", state } };
    const rg_named_list dict = { 3, v };
    ck_ok(rg_data_loader_load_state_dict(l, dict));
    /* The loader has copied the order, so that it stays valid. */
    rg_fill_(order, 0);
    ck_assert(rg_equal(rg_data_loader_state_dict(l).v[1].tensor, rg_arange(10)));
    order = rg_arange(10);
    v[1].tensor = rg_zeros_dims(RG_DIMS(10), RG_INT64);
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR,
             "data_loader_load_state_dict: \"order\" must have each index from 0 to 9 once, but 0 "
             "comes twice");
    v[1].tensor = rg_arange(9);
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR,
             "position 3 in an order of 9 doesn't fit 10 items by 3");
    v[1].tensor = none;
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR, "an order of 0 doesn't fit");
    v[1].tensor = rg_zeros(10);
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR,
             "\"order\" is no int64 tensor with 1 dims");
    v[1].tensor = order;
    v[2].tensor = none;
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_RUNTIME_ERROR, "a generator state of 632");
    v[2].tensor = state;
    int64_t positions[] = { 1, 11, -2 };
    for (int i = 0; i < 3; i++) {
        v[0].tensor = rg_from_int64(positions + i, RG_DIMS());
        ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR, "doesn't fit 10 items");
    }
    v[0].tensor = three;
    for (int i = 0; i < 3; i++) {
        const char *const name = v[i].name;
        v[i].name = "other";
        ck_fails(rg_data_loader_load_state_dict(l, dict), RG_VALUE_ERROR, "the state has no \"");
        v[i].name = NULL;
        ck_fails(rg_data_loader_load_state_dict(l, dict), RG_TYPE_ERROR,
                 "data_loader_load_state_dict: expected a name but got NULL");
        v[i].name = name;
    }
    /* If several entries are missing, the error is about the first one. */
    for (int n = 0; n < 3; n++) {
        char said[40];
        snprintf(said, sizeof said, "the state has no \"%s\"", v[n].name);
        ck_fails(rg_data_loader_load_state_dict(l, (rg_named_list){ n, v }), RG_VALUE_ERROR, said);
    }
    v[1].tensor = NULL;
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_TYPE_ERROR,
             "data_loader_load_state_dict: expected a tensor but got NULL");
    v[1].tensor = order;
    v[2].tensor = NULL;
    ck_fails(rg_data_loader_load_state_dict(l, dict), RG_TYPE_ERROR, "expected a tensor");
    v[2].tensor = state;
    /* The failed loads haven't changed the loader. */
    rg_list batch = rg_data_loader_next(l);
    ck_assert(rg_equal(batch.v[0], rg_narrow(order, 0, 3, 3)));
    ck_fails(rg_data_loader_new(RG_LIST(rg_ones(3), rg_ones(3, 2), rg_ones(2, 3))), RG_VALUE_ERROR,
             "data_loader_new: Size mismatch between tensors");
    ck_fails(rg_data_loader_new(RG_LIST(rg_scalar(3))), RG_VALUE_ERROR,
             "data_loader_new: Size mismatch between tensors");
    ck_fails(rg_data_loader_new(((rg_list){ 0, NULL })), RG_VALUE_ERROR,
             "data_loader_new: expected a tensor at least");
    ck_fails(rg_data_loader_new(RG_LIST(none), .shuffle = true), RG_VALUE_ERROR,
             "num_samples should be a positive integer value, but got num_samples=0");
    const double lengths[] = { 3, 8 }, negative[] = { -1, 11 }, halves[] = { 2.5, 7.5 };
    const double half_too_many[] = { 2.5, 8 };
    const double fractions[] = { -0.5, 1.5 };
    const char *sum = "Sum of input lengths does not equal the length of the input dataset!";
    ck_fails(rg_random_split(10, 2, lengths).n >= 0, RG_VALUE_ERROR, sum);
    ck_fails(rg_random_split(10, 2, negative).n >= 0, RG_VALUE_ERROR,
             "the length at index 0 is -1.0, but expected whole numbers from 0 on");
    ck_fails(rg_random_split(10, 2, halves).n >= 0, RG_VALUE_ERROR, "index 0 is 2.5, but expected");
    ck_fails(rg_random_split(10, 2, ((double[]){ 11, -1 })).n >= 0, RG_VALUE_ERROR,
             "index 1 is -1.0, but expected");
    ck_fails(rg_random_split(10, 2, ((double[]){ NAN, 10 })).n >= 0, RG_VALUE_ERROR, sum);
    ck_fails(rg_random_split(10, 2, half_too_many).n >= 0, RG_VALUE_ERROR, sum);
    /* The array may be longer than the number of parts. The elements beyond that number aren't
     * read. */
    const double two[] = { 0.5, 0.5, NAN }, all_of_ten[] = { 3, 7, NAN };
    ck_assert_int_eq(rg_random_split(10, 2, two).n, 2);
    ck_assert_int_eq(rg_random_split(10, 2, all_of_ten).n, 2);
    const double too_many[] = { 1, 0.9e-9 };
    ck_fails(rg_random_split(10000000000, 2, too_many).n >= 0, RG_VALUE_ERROR, sum);
    ck_fails(rg_random_split(10, 2, fractions).n >= 0, RG_VALUE_ERROR,
             "Fraction at index 0 is not between 0 and 1");
    rg_data_loader_free(l);
    rg_generator_free(g);
}
END_TEST

/* An order must have each item once. An index that comes twice, or is out of range, is refused. */
START_TEST(test_orders_refused) {
    static const int64_t wrong[] = { -1, 4, 0, INT64_MIN / 2, INT64_MAX / 2 };
    int64_t order[] = { 3, 1, 2, 0 }, at = 4;
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_arange(4)), .batch_size = 2);
    rg_named v[] = { { "position", rg_from_int64(&at, RG_DIMS()) }, { "order", NULL } };
    for (int place = 0; place < 3; place++)
        for (int i = 0; i < 5; i++) {
            RG_SCOPE();
            const int64_t right = order[place];
            order[place] = wrong[i];
            v[1].tensor = rg_from_int64(order, RG_DIMS(4));
            char text[100];
            snprintf(text, sizeof text, "each index from 0 to 3 once, but %lld %s",
                     (long long)wrong[i], i == 2 ? "comes twice" : "isn't one of them");
            ck_fails(rg_data_loader_load_state_dict(l, (rg_named_list){ 2, v }), RG_VALUE_ERROR,
                     text);
            order[place] = right;
        }
    v[1].tensor = rg_from_int64(order, RG_DIMS(4));
    ck_ok(rg_data_loader_load_state_dict(l, (rg_named_list){ 2, v }));
    ck_assert_int_eq(rg_data_loader_next(l).n, 0);
    rg_data_loader_free(l);
}
END_TEST

/* An epoch that has begun, but has given no batch yet, keeps its order when it is loaded. */
START_TEST(test_goes_on_at_the_beginning) {
    const int64_t order[] = { 2, 0, 3, 1 }, zero = 0;
    rg_data_loader *l = rg_data_loader_new(RG_LIST(rg_arange(4)), .batch_size = 4, .shuffle = true);
    rg_named v[] = { { "position", rg_from_int64(&zero, RG_DIMS()) },
                     { "order", rg_from_int64(order, RG_DIMS(4)) } };
    for (int again = 0; again < 3; again++) {
        ck_ok(rg_data_loader_load_state_dict(l, (rg_named_list){ 2, v }));
        ck_assert(rg_equal(rg_data_loader_next(l).v[0], v[1].tensor));
    }
    /* The end of an epoch leaves no new tensors behind. */
    const int64_t live = rg_live_tensors();
    ck_assert_int_eq(rg_data_loader_next(l).n, 0);
    ck_assert_int_le(rg_live_tensors(), live);
    v[1].tensor = rg_zeros_dims(RG_DIMS(4), RG_INT64);
    ck_fails(rg_data_loader_load_state_dict(l, (rg_named_list){ 2, v }), RG_VALUE_ERROR,
             "\"order\" must have each index from 0 to ");
    rg_data_loader_free(l);
}
END_TEST

/* Using a freed loader or file fails, as long as its memory hasn't been reused. Without the pool of
 * memory.c the memory may be reused at once, so the test is skipped. */
START_TEST(test_released) {
    if (rgi_pool_bypassed())
        return;
    RG_SCOPE();
    scratch_begin();
    rg_data_loader *l = new_loader(NULL, false);
    rg_named_list state = rg_data_loader_state_dict(l);
    rg_data_loader_free(l);
    static const char freed[] = "data loader released by rg_data_loader_free";
    ck_fails((rg_data_loader_free(l), rg_error_code() == RG_OK), RG_RELEASED, freed);
    ck_fails(rg_data_loader_len(l) >= 0, RG_RELEASED, freed);
    ck_fails(rg_data_loader_next(l).n >= 0, RG_RELEASED, freed);
    ck_fails(rg_data_loader_state_dict(l).n >= 0, RG_RELEASED, freed);
    ck_fails(rg_data_loader_load_state_dict(l, state), RG_RELEASED, freed);
    rg_tokens *tokens = rg_tokens_open(scratch_write("f", "123456", 6));
    ck_ok(tokens);
    rg_tokens_close(tokens);
    static const char closed[] = "tokens released by rg_tokens_close";
    ck_fails((rg_tokens_close(tokens), rg_error_code() == RG_OK), RG_RELEASED, closed);
    ck_fails(rg_tokens_count(tokens) >= 0, RG_RELEASED, closed);
    ck_fails(rg_tokens_windows(tokens, rg_literal([0]), 1).first, RG_RELEASED, closed);
    ck_fails(rg_tokens_get_batch(tokens, 1, 1).first, RG_RELEASED, closed);
    rg_data_loader_free(NULL);
    rg_tokens_close(NULL);
    ck_assert_int_eq(rg_error_code(), RG_OK);
    scratch_end();
}
END_TEST

/* ---- tokens ---------------------------------------------------------------------------- */

/* Tokens of one byte become int64, as all tokens do; so does the text of a table of bytes. */
START_TEST(test_bytes) {
    RG_SCOPE();
    scratch_begin();
    const char *path = scratch_write("f.bin", "\5\0\377\7\1\200", 6);
    rg_tokens *tokens = rg_tokens_open(path, .dtype = "uint8");
    rg_pair p = rg_tokens_windows(tokens, rg_literal([ 1, 0 ]), 4);
    ck_assert(rg_dtype_of(p.first) == RG_INT64 && rg_dtype_of(p.second) == RG_INT64);
    ck_assert(rg_equal(p.first, rg_literal([ [ 0, 255, 7, 1 ], [ 5, 0, 255, 7 ] ])));
    ck_assert(rg_equal(p.second, rg_literal([ [ 255, 7, 1, 128 ], [ 0, 255, 7, 1 ] ])));
    rg_tokens_close(tokens);
    rg_tensor *table = rg_load_csv(scratch_write("f.csv", "0,255\n7,128\n", 12), .dtype = RG_UINT8);
    ck_assert(table && rg_equal(table, rg_literal_as(RG_UINT8, [ [ 0, 255 ], [ 7, 128 ] ])));
    ck_fails(rg_load_csv(scratch_write("f.csv", "256\n", 4), .dtype = RG_UINT8), RG_IO_ERROR,
             "is too large");
    scratch_end();
}
END_TEST

START_TEST(test_tokens) {
    RG_SCOPE();
    scratch_begin();
    const uint16_t ids[] = { 5, 0, 65535, 7, 1 };
    rg_tokens *tokens = rg_tokens_open(scratch_write("f.bin", ids, sizeof ids));
    ck_assert_int_eq(rg_tokens_count(tokens), 5);
    rg_pair p = rg_tokens_windows(tokens, rg_literal([ 2, 0 ]), 2);
    ck_assert(rg_equal(p.first, rg_literal([ [ 65535, 7 ], [ 5, 0 ] ])));
    ck_assert(rg_equal(p.second, rg_literal([ [ 7, 1 ], [ 0, 65535 ] ])));
    ck_fails(rg_tokens_windows(tokens, rg_literal([3]), 2).first, RG_INDEX_ERROR,
             "a window of 2 tokens and the next one can't begin at 3 of 5");
    ck_fails(rg_tokens_windows(tokens, rg_literal([-1]), 2).first, RG_INDEX_ERROR, "at -1 of 5");
    ck_fails(rg_tokens_windows(tokens, rg_literal([0]), 5).first, RG_VALUE_ERROR,
             "block_size 5 isn't from 0 to 4");
    ck_fails(rg_tokens_windows(tokens, rg_ones(2), 2).first, RG_TYPE_ERROR,
             "expected starts of dtype torch.int64 with 1 dim but got torch.float32");
    ck_fails(rg_tokens_windows(tokens, rg_scalar(1), 2).first, RG_TYPE_ERROR,
             "expected starts of dtype torch.int64 with 1 dim but got torch.int64 with 0");
    ck_fails(rg_tokens_windows(tokens, rg_literal([[0]]), 2).first, RG_TYPE_ERROR,
             "but got torch.int64 with 2");
    ck_fails(rg_tokens_windows(tokens, rg_literal([0]), -1).first, RG_VALUE_ERROR,
             "block_size -1 isn't from 0 to 4");
    ck_fails(rg_tokens_get_batch(tokens, 1, -1).first, RG_VALUE_ERROR, "block_size -1 isn't");
    ck_fails(rg_tokens_get_batch(tokens, 1, 5).first, RG_VALUE_ERROR,
             "tokens_get_batch: block_size 5 isn't from 0 to 4");
    p = rg_tokens_windows(tokens, rg_literal([0]), 4);
    ck_assert(rg_equal(p.second, rg_literal([[ 0, 65535, 7, 1 ]])));
    p = rg_tokens_windows(tokens, rg_literal([4]), 0);
    ck_assert(p.first && rg_size(p.first, 0) == 1 && rg_numel(p.second) == 0);
    p = rg_tokens_get_batch(tokens, 3, 4);
    ck_assert(p.first && rg_equal(rg_select(p.first, 0, 2), rg_literal([ 5, 0, 65535, 7 ])));
    /* If a file is cut short while it is open, reading it fails, and no signal ends the program. */
    ck_assert(truncate(scratch("f.bin"), 3) == 0);
    ck_fails(rg_tokens_windows(tokens, rg_literal([2]), 2).first, RG_IO_ERROR, "tokens_windows: '");
    ck_fails(rg_tokens_windows(tokens, rg_literal([2]), 2).first, RG_IO_ERROR,
             "it was cut short at byte");
    rg_tokens_close(tokens);
    ck_fails(rg_tokens_open(scratch("f.bin"), .dtype = "float32"), RG_VALUE_ERROR,
             "'float32' is no type of integers");
    ck_fails(rg_tokens_open(scratch("none")), RG_IO_ERROR, "tokens_open: [Errno 2]");
    ck_ok(rg_save_npy(rg_literal([ 4, 5, 6 ]), scratch("f.npy")));
    /* The header of a .npy is never read as tokens: a dtype must be the one that it names. */
    ck_fails(rg_tokens_open(scratch("f.npy"), .dtype = "uint8"), RG_IO_ERROR,
             "its dtype is int64, not uint8");
    ck_fails(rg_tokens_open(scratch("f.npy"), .dtype = "float32"), RG_VALUE_ERROR,
             "'float32' is no type of integers");
    tokens = rg_tokens_open(scratch("f.npy"), .dtype = "int64");
    ck_assert_int_eq(rg_tokens_count(tokens), 3);
    rg_tokens_close(tokens);
    tokens = rg_tokens_open(scratch("f.npy"));
    p = rg_tokens_windows(tokens, rg_literal([0]), 2);
    ck_assert(rg_equal(p.second, rg_literal([[ 5, 6 ]])));
    rg_tokens_close(tokens);
    scratch_end();
}
END_TEST

#define NPY(version, length, dict) "\x93NUMPY" version length dict
#define NPY_OF(type, shape) \
    NPY("\1\0", "\x3a\0", "{'descr': '" type "', 'fortran_order': False, 'shape': " shape "}")

static const struct {
    const char *name, *dtype, *bytes;
    size_t n;
    const char *sentence;
} bad_tokens[] = {
#define FILE_OF(name, dtype, bytes, sentence) \
    { name, dtype, bytes, sizeof(bytes) - 1, sentence }
    FILE_OF("f.bin", NULL, "1", "its 1 bytes aren't a whole number of uint16 tokens"),
    FILE_OF("f.bin", NULL, "12345", "its 5 bytes aren't a whole number of uint16 tokens"),
    FILE_OF("f.bin", "int16", "123", "its 3 bytes aren't a whole number of int16 tokens"),
    FILE_OF("f.bin", "uint32", "12", "its 2 bytes aren't a whole number of uint32 tokens"),
    FILE_OF("f.bin", "uint32", "123456", "its 6 bytes aren't a whole number of uint32 tokens"),
    FILE_OF("f.bin", "int32", "12345", "its 5 bytes aren't a whole number of int32 tokens"),
    FILE_OF("f.bin", "int64", "1234", "its 4 bytes aren't a whole number of int64 tokens"),
    FILE_OF("f.bin", "uint64", "123456789", "its 9 bytes aren't a whole number of uint64 tokens"),
    FILE_OF("f.npy", NULL, "", "it is no .npy: it doesn't begin with \\x93NUMPY"),
    FILE_OF("f.npy", NULL, "1234567890", "it is no .npy: it doesn't begin with \\x93NUMPY"),
    FILE_OF("f.npy", NULL, NPY("\4\0", "\0\0", ""), "it is of version 4.0"),
    FILE_OF("f.npy", NULL, NPY("\1\0", "", ""), "it ends at byte 8, in its header"),
    FILE_OF("f.npy", NULL, NPY("\1\0", "\1\0", "["), "at byte 0 a dict is expected"),
    FILE_OF("f.npy", NULL, NPY("\1\0", "\2\0", "{}"), "its header lacks 'descr'"),
    FILE_OF("f.npy", NULL, NPY_OF("<f4", "(1,)   ") "1234",
            "tokens are an array of integers with one dim, not of float32 with 1"),
    FILE_OF("f.npy", NULL, NPY_OF("|b1", "(1,)   ") "1", "not of bool with 1"),
    FILE_OF("f.npy", NULL, NPY_OF("<i4", "()     ") "1234", "not of int32 with 0"),
    FILE_OF("f.npy", NULL, NPY_OF("<u2", "(1, 1) ") "12", "not of uint16 with 2"),
    FILE_OF("f.npy", NULL, NPY_OF("<c8", "(1,)   ") "12345678", "of NumPy's type '<c8'"),
    FILE_OF("f.npy", NULL, NPY_OF("<u2", "(3,)   ") "12345",
            "its shape [3] takes 6 bytes, but 5 follow the header"),
    FILE_OF("f.npy", NULL, NPY_OF("<u2", "(2,)   ") "12345",
            "its shape [2] takes 4 bytes, but 5 follow the header"),
};

START_TEST(test_bad_tokens) {
    scratch_begin();
    /* A file whose numbers have the highest byte first isn't bad. */
    static const char swapped[] = NPY_OF(">u2", "(3,)   ") "\1\2\0\3\4\0";
    rg_tokens *tokens = rg_tokens_open(scratch_write("f.npy", swapped, sizeof swapped - 1));
    rg_pair p = rg_tokens_windows(tokens, rg_literal([0]), 2);
    ck_assert(rg_equal(p.first, rg_literal([[ 258, 3 ]])));
    ck_assert(rg_equal(p.second, rg_literal([[ 3, 1024 ]])));
    rg_tokens_close(tokens);
    for (int i = 0; i < (int)(sizeof bad_tokens / sizeof *bad_tokens); i++)
        ck_fails(
            rg_tokens_open(scratch_write(bad_tokens[i].name, bad_tokens[i].bytes, bad_tokens[i].n),
                           .dtype = bad_tokens[i].dtype),
            RG_IO_ERROR, bad_tokens[i].sentence);
    scratch_end();
}
END_TEST

/* ---- text ------------------------------------------------------------------------------ */

static const char *text_file(const char *text) {
    return scratch_write("f.csv", text, strlen(text));
}

static const struct {
    const char *text, *sentence;
    bool header;
} bad_tables[] = {
    { "1,2\n3,x\n", "f.csv': line 2, column 2: \"x\" is no number", false },
    { "1,2\n3,\n", "line 2, column 2: \"\" is no number", false },
    { ",2\n", "line 1, column 1: \"\" is no number", false },
    { "1,2,\n", "line 1, column 3: \"\" is no number", false },
    { " \n", "line 1, column 1: \" \" is no number", false },
    { "1;2\n", "line 1, column 1: \"1;2\" is no number", false },
    { "1\t2\n", "line 1, column 1: \"1?2\" is no number", false },
    { "1,2\n3\n", "line 2 has 1 cells, and the first one 2", false },
    { "1\n\n3,4\n", "line 3 has 2 cells, and the first one 1", false },
    { "1\n\r\n2\n3,4\n", "line 4 has 2 cells, and the first one 1", false },
    { "\"1\"\n\"2\",\"3\"\n", "line 2 has 2 cells, and the first one 1", false },
    { "0x10\n", "\"0x10\" is no number", false },
    { "0x1p9999\n", "\"0x1p9999\" is no number", false },
    { "nan(1)\n", "\"nan(1)\" is no number", false },
    { "nan()\n", "\"nan()\" is no number", false },
    { "1 2\n", "\"1 2\" is no number", false },
    { "1.2.3\n", "\"1.2.3\" is no number", false },
    { "1_000\n", "\"1_000\" is no number", false },
    { "1e\n", "\"1e\" is no number", false },
    { "--1\n", "\"--1\" is no number", false },
    { "+\n", "\"+\" is no number", false },
    { ".\n", "\".\" is no number", false },
    { "1f\n", "\"1f\" is no number", false },
    { "true\n", "\"true\" is no number", false },
    { "None\n", "\"None\" is no number", false },
    { "#1\n", "\"#1\" is no number", false },
    { "1e999\n", "\"1e999\" is too large", false },
    { "-1e999\n", "\"-1e999\" is too large", false },
    { "1e39\n", "\"1e39\" is too large", false },
    { "infinite\n", "\"infinite\" is no number", false },
    { "\xD9\xA1\n", "\"\xD9\xA1\" is no number", false },
    { "\xFF\n", "line 1, column 1: \"..\" is no number", false },
    { "1\001,2\n", "line 1, column 1: \"1?\" is no number", false },
    { "1,\x1B[31m\n", "line 1, column 2: \"?[31m\" is no number", false },
    { "\"1\n", "line 1, column 1: \"\" has an opening quote without a closing one", false },
    { "1,\"", "line 1, column 2: \"\" has an opening quote without a closing one", false },
    { "\"1\"\"", "line 1, column 1: \"\" has an opening quote without a closing one", false },
    { "\"1\"2\n", "\"1\" has text after its closing quote", false },
    { "\"1\" ,2\n", "\"1\" has text after its closing quote", false },
    { "\"1\"\r2\n", "\"1\" is followed by a carriage return without a line feed", false },
    { "\"1\"\"\"\n", "\"1\"\" is no number", false },
    { "1\"2\"\n", "line 1, column 1: \"1\" is followed by a quote, but doesn't begin with one",
      false },
    { " \"1\"\n", "line 1, column 1: \" \" is followed by a quote, but doesn't begin with one",
      false },
    { "a,b\"\n1,2\n", "line 1, column 2: \"b\" is followed by a quote, but doesn't begin with one",
      true },
    { "1\r2\n", "line 1, column 1: \"1\" is followed by a carriage return without a line feed",
      false },
    { "a\r1\r2\r", "line 1, column 1: \"a\" is followed by a carriage return without a line feed",
      true },
    { "a,b\n1\n", "line 2 has 1 cells, and the first one 2", true },
    { "a\n\"b\"\n", "line 2, column 1: \"b\" is no number", true },
    { "\"a\n\nb\"\nx\n", "line 4, column 1: \"x\" is no number", true },
    { "\"a\n", "line 1, column 1: \"\" has an opening quote without a closing one", true },
};

START_TEST(test_bad_tables) {
    scratch_begin();
    for (int i = 0; i < (int)(sizeof bad_tables / sizeof *bad_tables); i++)
        ck_fails(rg_load_csv(text_file(bad_tables[i].text), .header = bad_tables[i].header),
                 RG_IO_ERROR, bad_tables[i].sentence);
    scratch_end();
}
END_TEST

START_TEST(test_csv) {
    RG_SCOPE();
    scratch_begin();
    rg_tensor *want = rg_literal([ [ 1, -2.5 ], [ 0.003, 4 ] ]);
    const char *texts[] = { "1,-2.5\n3e-3,4\n",
                            ("\xEF\xBB\xBF"
                             "1,-2.5\r\n3e-3,4"),
                            "\n\"1\",\"-2.5\"\r\n\r\n 3E-3 ,+4\n\n",
                            "01,-25e-1\n.003,4.\n",
                            "\r\n1,-2.5\n\r\n3e-3,\"4\"\r",
                            "1,-2.5\n3e-3,4\n\r" };
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        rg_tensor *t = rg_load_csv(text_file(texts[i]));
        ck_assert_msg(t && rg_equal(t, want), "%d: %s", i, rg_error());
    }
    rg_tensor *t = rg_load_csv(text_file("a;\"b;\n\"\"c\"\nnan;-inf\n"), .header = true,
                               .delimiter = ';', .dtype = RG_FLOAT64);
    ck_assert(rg_ndim(t) == 2 && rg_dtype_of(t) == RG_FLOAT64 && isnan(rg_at(t, 0, 0)));
    ck_assert(rg_at(t, 0, 1) == -INFINITY);
    t = rg_load_csv(text_file("nan,-inf\ninfinity,-3.4e38\n"));
    ck_assert_msg(t && rg_dtype_of(t) == RG_FLOAT32 && isnan(rg_at(t, 0, 0)), "%s", rg_error());
    ck_assert(rg_at(t, 0, 1) == -INFINITY && rg_at(t, 1, 0) == INFINITY);
    ck_assert(rg_at(t, 1, 1) == -3.4e38f);
    t = rg_load_csv(text_file("1e39,-1e308\n"), .dtype = RG_FLOAT64);
    ck_assert(rg_at(t, 0, 0) == 1e39 && rg_at(t, 0, 1) == -1e308);
    t = rg_load_csv(text_file("a,b\n"), .header = true);
    ck_assert(rg_size(t, 0) == 0 && rg_size(t, 1) == 2);
    t = rg_load_csv(text_file(""));
    ck_assert(rg_size(t, 0) == 0 && rg_size(t, 1) == 0);
    ck_fails(rg_load_csv(scratch_write("f", "1\0", 3)), RG_IO_ERROR, "it is no text: byte 1 is 0");
    for (const char *c = "\"\r\n0123456789+-.eE";; c++) {
        ck_fails(rg_load_csv(text_file("1"), .delimiter = *c), RG_VALUE_ERROR,
                 "this character can't be the delimiter");
        if (!*c)
            break;
    }
    ck_fails(rg_load_csv(text_file("1"), .dtype = RG_BOOL), RG_TYPE_ERROR, "expected dtype");
    scratch_end();
}
END_TEST

/* Integers are read to their last bit, which float64 wouldn't hold. */
START_TEST(test_csv_of_integers) {
    RG_SCOPE();
    scratch_begin();
    const int64_t want[] = { INT64_MAX, INT64_MIN, 9007199254740993, 0, 7, -3 };
    rg_tensor *t = rg_load_csv(text_file("a,b\n9223372036854775807,-9223372036854775808\n"
                                         " 9007199254740993 ,\"-0\"\r\n+7,-003\n"),
                               .header = true, .dtype = RG_INT64);
    ck_assert_msg(t && rg_equal(t, rg_from_int64(want, RG_DIMS(3, 2))), "%s", rg_error());
    /* Any number of spaces and tabs may stand before and after a number. */
    static const char *const blanks[] = { "7 \n", "7\t\n", "  7\n", "\t7\n", " \t 7\t \t\n" };
    for (int i = 0; i < (int)(sizeof blanks / sizeof *blanks); i++)
        for (int whole = 0; whole < 2; whole++) {
            t = rg_load_csv(text_file(blanks[i]), .dtype = whole ? RG_INT64 : RG_FLOAT32);
            ck_assert_msg(t && rg_item(t) == 7, "%s: %s", blanks[i], rg_error());
        }
    static const char *const refused[][2] = {
        { "1,2\n3,4.0\n", "f.csv': line 2, column 2: \"4.0\" is no integer" },
        { "1,\n", "line 1, column 2: \"\" is no integer" },
        { "1e3\n", "\"1e3\" is no integer" },
        { "nan\n", "\"nan\" is no integer" },
        { "0x10\n", "\"0x10\" is no integer" },
        { "+-1\n", "\"+-1\" is no integer" },
        { "-\n", "\"-\" is no integer" },
        { "\v1\n", "is no integer" },
        { " \n", "\" \" is no integer" },
        { "x\n", "\"x\" is no integer" },
        { "1 2\n", "\"1 2\" is no integer" },
        { "5,9223372036854775808\n", "column 2: \"9223372036854775808\" is too large" },
        { "-9223372036854775809\n", "is too large" },
    };
    for (int i = 0; i < (int)(sizeof refused / sizeof *refused); i++)
        ck_fails(rg_load_csv(text_file(refused[i][0]), .dtype = RG_INT64), RG_IO_ERROR,
                 refused[i][1]);
    scratch_end();
}
END_TEST

START_TEST(test_paths) {
    RG_SCOPE();
    scratch_begin();
    /* A path isn't the result of a call. So a NULL path is reported as such, even if the thread has
     * an older error. */
    static const char sentence[] = ": expected a path but got NULL";
#define NO_PATH(op, call)                                                                         \
    do {                                                                                          \
        ck_assert(!rg_zeros(-1) && strstr(rg_error(), "zeros"));                                  \
        ck_assert(!(call));                                                                       \
        ck_assert_msg(strstr(rg_error(), op) == rg_error() && strstr(rg_error(), sentence), "%s", \
                      rg_error());                                                                \
        rg_error_clear();                                                                         \
    } while (0)
    const rg_named_list list = { 0 };
    NO_PATH("load_csv", rg_load_csv(NULL));
    NO_PATH("load_lines", rg_load_lines(NULL).n >= 0);
    NO_PATH("tokens_open", rg_tokens_open(NULL));
    NO_PATH("load_npy", rg_load_npy(NULL));
    NO_PATH("save_npy", rg_save_npy(rg_arange(2), NULL));
    NO_PATH("load_npz", rg_load_npz(NULL).n >= 0);
    NO_PATH("save_npz", rg_save_npz(list, NULL));
    NO_PATH("load_file", rg_load_file(NULL).n >= 0);
    NO_PATH("save_file", rg_save_file(list, NULL));
    NO_PATH("safe_open", rg_safe_open(NULL));
    NO_PATH("json_load", rg_json_load(NULL));
    NO_PATH("torch_load", rg_torch_load(NULL).n >= 0);
    NO_PATH("torch_save", rg_torch_save(list, NULL));
    NO_PATH("save_checkpoint", rg_save_checkpoint(NULL, (rg_training){ 0 }));
    NO_PATH("load_checkpoint", rg_load_checkpoint(NULL, (rg_training){ 0 }));
    NO_PATH("tokenizer_from_file", rg_tokenizer_from_file(NULL));
    NO_PATH("tokenizer_from_folder", rg_tokenizer_from_folder(NULL));
    NO_PATH("gpt_from_folder", rg_gpt_from_folder(NULL));
    rg_gpt *m = rg_nn_gpt(.block_size = 2, .vocab_size = 3, .n_layer = 1, .n_head = 1, .n_embd = 2);
    NO_PATH("gpt_to_folder", rg_gpt_to_folder(m, NULL));
    rg_module_free(m);
    /* A list that failed, and a file without tokens, are reported with errors of their own. */
    ck_fails(rg_save_file(((rg_named_list){ .n = -1 }), "f"), RG_TYPE_ERROR,
             "save_file: expected a list but got one that failed: its n is -1");
    scratch_write("none", "", 0);
    rg_tokens *none = rg_tokens_open(scratch("none"));
    ck_fails(rg_tokens_get_batch(none, 2, 4).first, RG_VALUE_ERROR, "none': it has no tokens");
    rg_tokens_close(none);
    scratch_end();
}
END_TEST

START_TEST(test_lines) {
    RG_SCOPE();
    scratch_begin();
    rg_names lines = rg_load_lines(text_file("\xEF\xBB\xBFone\r\n\n  three \nend"));
    ck_assert_int_eq(lines.n, 4);
    ck_assert_str_eq(lines.v[0], "one");
    ck_assert_str_eq(lines.v[1], "");
    ck_assert_str_eq(lines.v[2], "  three ");
    ck_assert_str_eq(lines.v[3], "end");
    ck_assert_int_eq(rg_load_lines(text_file("a\n")).n, 1);
    ck_assert_int_eq(rg_load_lines(text_file("")).n, 0);
    ck_fails(rg_load_lines(scratch("none")).n >= 0, RG_IO_ERROR, "load_lines: [Errno 2]");
    ck_fails(rg_load_lines(scratch_write("f", "a\0b", 3)).n >= 0, RG_IO_ERROR, "byte 1 is 0");
    scratch_end();
}
END_TEST

/* ---- what fails ------------------------------------------------------------------------ */

static bool use_csv(void) { return rg_load_csv(scratch("t.csv")); }
static bool use_lines(void) { return rg_load_lines(scratch("t.csv")).n == 2; }

static bool use_tokens(const char *path) {
    rg_tokens *tokens = rg_tokens_open(path);
    const bool ok = tokens && rg_tokens_get_batch(tokens, 2, 2).first;
    rg_tokens_close(tokens);
    return ok;
}

static bool use_raw(void) { return use_tokens(scratch("t.bin")); }
static bool use_npy(void) { return use_tokens(scratch("t.npy")); }

/* Reads windows whose starts are strided in memory. */
static bool use_windows(void) {
    rg_tokens *tokens = rg_tokens_open(scratch("t.bin"));
    rg_tensor *starts = rg_slice(rg_arange(4), 0, 0, 4, 2);
    const bool ok = tokens && starts && rg_tokens_windows(tokens, starts, 2).first;
    rg_tokens_close(tokens);
    return ok;
}

static bool use_split(void) {
    const double lengths[] = { 0.5, 0.5 };
    return rg_random_split(4, 2, lengths).n == 2;
}

static bool use_loader(void) {
    rg_generator *g = rg_generator_new(3);
    rg_tensor *x = rg_arange(5);
    rg_data_loader *l = g && x ? rg_data_loader_new(RG_LIST(x), .batch_size = 2, .shuffle = true,
                                                    .generator = g)
                               : NULL;
    bool ok = l;
    for (int i = 0; ok && i < 5; i++)
        ok = rg_data_loader_next(l).n >= 0
             && rg_data_loader_load_state_dict(l, rg_data_loader_state_dict(l));
    rg_data_loader_free(l);
    rg_generator_free(g);
    return ok;
}

static rg_data_loader *saved_loader;
static bool use_state(void) {
    const rg_named_list dict = rg_data_loader_state_dict(saved_loader);
    for (int i = 0; i < dict.n; i++)
        ck_assert(dict.v[i].name && dict.v[i].tensor);
    return dict.n == 3;
}

static bool use_empty_loader(void) {
    rg_tensor *none = rg_zeros(0, 2);
    rg_data_loader *l = none ? rg_data_loader_new(RG_LIST(none)) : NULL;
    const bool ok = l && rg_data_loader_next(l).n == 0;
    rg_data_loader_free(l);
    return ok;
}

/* Loads a bad state of a generator. Returns whether the load fails with the error about the state.
 * If memory for the message is denied, it fails with another error. */
static bool use_bad_state(void) {
    rg_generator *g = rg_generator_new(3);
    rg_tensor *x = rg_arange(5);
    rg_data_loader *l = g && x ? rg_data_loader_new(RG_LIST(x), .generator = g) : NULL;
    rg_named v[] = { { "position", rg_scalar_dtype(1, RG_INT64) },
                     { "order", rg_arange(5) },
                     { "generator", rg_zeros_dims(RG_DIMS(7), RG_INT64) } };
    if (l && v[0].tensor && v[1].tensor && v[2].tensor)
        rg_data_loader_load_state_dict(l, (rg_named_list){ 3, v });
    const bool refused = strstr(rg_error(), "a generator state of 632");
    if (refused)
        forget_failure();
    rg_data_loader_free(l);
    rg_generator_free(g);
    return refused;
}

/* Each request for memory is denied in turn, and each call of the file system fails. */
START_TEST(test_denied) {
    static bool (*const uses[])(void) = { use_csv,    use_lines,        use_raw,
                                          use_npy,    use_windows,      use_split,
                                          use_loader, use_empty_loader, use_bad_state };
    RG_SCOPE();
    scratch_begin();
    scratch_write("t.csv", "1,2\n3,4\n", 8);
    scratch_write("t.bin", "1234567890", 10);
    ck_ok(rg_save_npy(rg_arange(9), scratch("t.npy")));
    for (int i = 0; i < (int)(sizeof uses / sizeof *uses); i++) {
        ck_assert_int_gt(deny_in_turn(uses[i], NULL), 1);
        ck_assert_int_ge(fail_in_turn(uses[i], NULL), i < 4 ? 4 : 0);
    }
    rg_generator *g = rg_generator_new(3);
    saved_loader = rg_data_loader_new(RG_LIST(rg_arange(5)), .shuffle = true, .generator = g);
    for (int begun = 0; begun < 2; begun++) {
        ck_assert_int_gt(deny_in_turn(use_state, NULL), 2);
        ck_assert_int_eq(rg_data_loader_next(saved_loader).n, 1);
    }
    rg_data_loader_free(saved_loader);
    rg_generator_free(g);
    scratch_end();
}
END_TEST

/* If there is no memory for a batch, the next call gives that batch, with the same draws. */
START_TEST(test_batch_comes_again) {
    for (int own = 0; own < 2; own++)
        for (int64_t fail = 0, denied = 1; denied || fail < 2; fail++) {
            RG_SCOPE();
            static int64_t first;
            rg_manual_seed(3);
            rg_generator *g = rg_generator_new(3);
            rg_data_loader *l = new_loader(own ? g : NULL, true);
            rg_memory_fail_at(fail);
            rg_list batch = rg_data_loader_next(l);
            rg_memory_fail_at(0);
            denied = batch.n < 0;
            if (denied)
                batch = rg_data_loader_next(l);
            rg_error_clear();
            const int64_t items = rg_item_int(rg_sum(rg_pow(batch.v[0], rg_literal([ 1, 2, 3 ]))));
            first = fail == 0 ? items : first;
            ck_assert_msg(items == first, "request %d", (int)fail);
            rg_data_loader_free(l);
            rg_generator_free(g);
        }
}
END_TEST

/* If the loader's generator was freed, functions of the loader fail. */
START_TEST(test_generator_is_gone) {
    if (rgi_pool_bypassed())
        return;
    RG_SCOPE();
    rg_generator *g = rg_generator_new(3);
    rg_data_loader *l = new_loader(g, true);
    rg_named_list state = rg_data_loader_state_dict(l);
    rg_generator_free(g);
    ck_fails(rg_data_loader_next(l).n >= 0, RG_RELEASED,
             "data_loader_next: generator released by rg_generator_free");
    ck_fails(rg_data_loader_load_state_dict(l, state), RG_RELEASED, "generator released");
    rg_data_loader_free(l);
}
END_TEST

static int warned_at;
static void note_place(const char *message) {
    const char *said = strstr(message, "Length of split at index ");
    ck_assert_msg(said && sscanf(said, "Length of split at index %d is 0.", &warned_at) == 1, "%s",
                  message);
}

/* Splitting warns only if a part has no items. */
START_TEST(test_empty_parts) {
    static const double halves[] = { 0.5, 0.5 }, all[] = { 1, 0 }, none[] = { 0, 1 };
    const double *const lengths[] = { halves, all, none };
    static const int at[] = { -1, 1, 0 };
    rg_on_warning(note_place);
    for (int i = 0; i < 3; i++) {
        warned_at = -1;
        ck_assert_int_eq(rg_random_split(4, 2, lengths[i]).n, 2);
        ck_assert_int_eq(warned_at, at[i]);
    }
    rg_on_warning(NULL);
}
END_TEST

RG_TESTS(data, test_literal_lengths, test_empty_parts, test_generator_is_gone, test_order,
         test_resume, test_state_refused, test_orders_refused, test_goes_on_at_the_beginning,
         test_released, test_bytes, test_tokens, test_bad_tokens, test_csv, test_csv_of_integers,
         test_paths, test_bad_tables, test_lines, test_denied, test_batch_comes_again)
