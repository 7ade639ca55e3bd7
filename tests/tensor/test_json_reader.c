/*
 * test_json_reader.c: the values of JSON files that programs read.
 */
#include "tests/test.h"
#include "tests/in_turn.h"
#include "tests/scratch.h"
#include "tensor/base.h"
#include "tensor/files/json_reader.h"

#include <math.h>
#include <string.h>

static const char config[] =
    "{ \"hidden_size\": 64, \"rope_scaling\": { \"factor\": 8.5 },"
    "  \"eos_token_id\": [3, 5, 70000000000], \"tied\": true, \"no\": null,"
    "  \"model_type\": \"llama\", \"a/b~c\": 1, \"\": { \"\": 2 },"
    "  \"none\": [], \"zero\": \"a\\u0000\", \"minus\": -1.5e2 }";

static const rg_json_document *load(const char *text) {
    return rg_json_load(scratch_write("config.json", text, strlen(text)));
}

START_TEST(test_values) {
    scratch_begin();
    const rg_json_document *j = load(config);
    ck_ok(j);
    ck_assert_int_eq(rg_json_int(j, "/hidden_size", 1), 64);
    ck_assert_int_eq(rg_json_int(j, "/eos_token_id/2", 1), 70000000000);
    ck_assert_int_eq(rg_json_int(j, "/a~1b~0c", 9), 1);
    ck_assert_int_eq(rg_json_int(j, "//", 9), 2);
    ck_assert_double_eq(rg_json_float(j, "/rope_scaling/factor", 1), 8.5);
    ck_assert_double_eq(rg_json_float(j, "/minus", 1), -150);
    ck_assert_double_eq(rg_json_float(j, "/hidden_size", 1), 64);
    ck_assert(rg_json_bool(j, "/tied", false));
    ck_assert_str_eq(rg_json_str(j, "/model_type", "gpt2"), "llama");
    ck_assert_int_eq(rg_json_length(j, "/eos_token_id"), 3);
    ck_assert_int_eq(rg_json_length(j, ""), 11);
    ck_assert_int_eq(rg_json_length(j, "/none"), 0);
    ck_assert_int_eq(rg_json_length(j, "/model_type"), 0);
    scratch_end();
}
END_TEST

/* A value that is missing or null has the value that the program gives. */
START_TEST(test_missing) {
    static const char *const places[] = {
        "/none/0", "/hidden",         "/hidden_sizes",    "/hidden_size/x",
        "/no",     "/eos_token_id/3", "/eos_token_id/-1", "/eos_token_id/01",
        "/no/no",  "/eos_token_id/",  "/eos_token_id/1x", "/x"
    };
    scratch_begin();
    const rg_json_document *j = load(config);
    for (int i = 0; i < RG_COUNT(places); i++) {
        ck_assert_int_eq(rg_json_int(j, places[i], 7), 7);
        ck_assert_double_eq(rg_json_float(j, places[i], 7.5), 7.5);
        ck_assert(rg_json_bool(j, places[i], true));
        ck_assert_str_eq(rg_json_str(j, places[i], "a"), "a");
        ck_assert_ptr_null(rg_json_str(j, places[i], NULL));
        ck_assert_int_eq(rg_json_length(j, places[i]), 0);
    }
    ck_assert_int_eq(rg_error_code(), RG_OK);
    scratch_end();
}
END_TEST

START_TEST(test_refused) {
    scratch_begin();
    const rg_json_document *j = load(config);
    ck_fails(rg_json_int(j, "/tied", 1) != -1, RG_IO_ERROR,
             "config.json': \"/tied\" is true, and no whole number");
    ck_fails(rg_json_int(j, "/minus", 1) != -1, RG_IO_ERROR, "is -1.5e2, and no whole number");
    ck_fails(!isnan(rg_json_float(j, "/eos_token_id", 1)), RG_IO_ERROR,
             "is an array, and no number");
    ck_fails(rg_json_bool(j, "/hidden_size", true), RG_IO_ERROR, "is 64, and no true or false");
    ck_fails(rg_json_str(j, "/rope_scaling", "a"), RG_IO_ERROR, "is an object, and no string");
    ck_fails(rg_json_str(j, "/zero", "a"), RG_IO_ERROR, "is \"a?\", and no string");
    ck_fails(rg_json_int(j, "tied", 1) != -1, RG_VALUE_ERROR,
             "json_int: the place \"tied\" doesn't begin with /");
    ck_fails(rg_json_int(j, "/a/b~c", 1) != -1, RG_VALUE_ERROR, "has a ~ that isn't ~0 or ~1");
    ck_fails(rg_json_int(j, "/tied~", 1) != -1, RG_VALUE_ERROR, "has a ~ that isn't ~0 or ~1");
    ck_fails(rg_json_str(j, NULL, "a"), RG_TYPE_ERROR, "json_str: expected the place of a value");
    ck_fails(load("[1, 2"), RG_IO_ERROR, "json_load: '");
    ck_fails(rg_json_load(scratch("none")), RG_IO_ERROR, "json_load: [Errno 2]");
    scratch_end();
}
END_TEST

static bool read_config(void) {
    const rg_json_document *j = rg_json_load(scratch("config.json"));
    return j && rg_json_int(j, "/hidden_size", 1) == 64;
}

START_TEST(test_denied) {
    scratch_begin();
    load(config);
    ck_assert_int_gt(deny_in_turn(read_config, NULL), 3);
    ck_assert_int_gt(fail_in_turn(read_config, NULL), 3);
    scratch_end();
}
END_TEST

RG_TESTS(json_reader, test_values, test_missing, test_refused, test_denied)
