/*
 * test_written_bytes.c: the bytes of files that the library writes, for drawn tensors of all
 * dtypes, shapes and layouts. tests/exchange compares such files with what NumPy, safetensors and
 * torch write and read; here a hash for each format shows whether any byte has changed since.
 *
 *     build/tests/nn/test_written_bytes says      prints the hashes
 */
#include "regard.h"
#include "tests/scratch.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS = 60, MOST = 4 };

static uint64_t state;
static uint64_t any(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

/* Returns a tensor of up to four dims, some of them long and some empty, in any order in memory. */
static rg_tensor *drawn(bool numpy) {
    static const int64_t lengths[] = { 0, 1, 2, 3, 9, 10, 11, 100, 1001 };
    static const rg_dtype dtypes[] = { RG_BOOL,    RG_UINT8,   RG_INT64,   RG_FLOAT32,
                                       RG_FLOAT64, RG_FLOAT16, RG_BFLOAT16 };
    rg_dims shape = { .n = (int)any(5) };
    int64_t numel = 1;
    for (int d = 0; d < shape.n; d++) {
        shape.v[d] = lengths[any(9)];
        if (numel * shape.v[d] > 4000)
            shape.v[d] = 2;
        numel *= shape.v[d];
    }
    rg_tensor *t = rg_randint_dims(0, 200, shape, RG_INT64, rg_default_generator());
    t = rg_to(t, dtypes[any(numpy ? 6 : 7)]);
    if (shape.n > 1 && any(2))
        t = rg_transpose(t, 0, (int)any((uint64_t)shape.n));
    if (shape.n > 2 && any(4) == 0)
        t = rg_T(t);
    return t;
}

static uint64_t hash_of_file(uint64_t hash, const char *path) {
    size_t n;
    char *bytes = file_bytes(path, &n);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    free(bytes);
    return hash;
}

static bool write(int format, rg_named_list list, const char *path) {
    switch (format) {
    case 0: return rg_save_npy(list.v[0].tensor, path);
    case 1: return rg_save_npz(list, path);
    case 2: return rg_save_file(list, path);
    default: return rg_torch_save(list, path);
    }
}

/* Returns a hash of LISTS files in one format. */
static uint64_t hash_of_format(int format) {
    static const char *const names[MOST] = { "a", "layer.0.weight", "\xc3\xa9", "" };
    uint64_t hash = 1;
    state = 1;
    rg_manual_seed(1);
    for (int i = 0; i < LISTS; i++) {
        RG_SCOPE();
        rg_named list[MOST];
        const int n = 1 + (int)any(MOST - 1);
        for (int k = 0; k < n; k++)
            list[k] = (rg_named){ names[k], drawn(format < 2) };
        ck_ok(write(format, (rg_named_list){ n, list }, scratch("file")));
        hash = hash_of_file(hash, scratch("file"));
    }
    return hash;
}

static bool says;

START_TEST(test_no_byte_has_changed) {
    static const struct {
        const char *format;
        uint64_t hash;
    } known[] = {
        { "npy", 0xb9716259c1ade6f7 },
        { "npz", 0x4c985e7589d19396 },
        { "safetensors", 0x8a75189b4a4a334a },
        { "pt", 0xd47a72318c931799 },
    };
    scratch_begin();
    for (int i = 0; i < 4; i++) {
        const uint64_t found = hash_of_format(i);
        if (says)
            printf("{ \"%s\", 0x%llx },\n", known[i].format, (unsigned long long)found);
        else
            ck_assert_msg(found == known[i].hash, "files of the format %s differ from before",
                          known[i].format);
    }
    scratch_end();
}
END_TEST

int main(int argc, char **argv) {
    TCase *tcase = rg_tcase("written_bytes");
    says = argc > 1 && strcmp(argv[1], "says") == 0;
    tcase_add_test(tcase, test_no_byte_has_changed);
    return rg_run("written_bytes", tcase) ? EXIT_FAILURE : EXIT_SUCCESS;
}
