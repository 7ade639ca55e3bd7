/*
 * fuzz_pickle.c: tests rg_torch_load with archives that nobody would write. If an archive is read,
 * each element of its tensors can be read. The tensors are written and read again, and must be the
 * same. If an archive isn't read, the error is of the right kind and names the file.
 *
 *     build/tests/fuzz/fuzz_pickle [iterations] [seed]
 *
 * The first byte of an input says what follows: a whole file, or a pickle for an archive whose
 * other members are sound. The program mutates inputs of its own. Built with -DRG_LIBFUZZER
 * -fsanitize=fuzzer, it takes those of libFuzzer.
 */
#include "limited.h"
#include "tensor/files/files.h"
#include "tensor/files/zip.h"
#include "tensor/shape.h"
#include "tensor/unheld.h"

static long fuzz_read; /* The number of files that were read. */

static void fuzz_archive(const char *pickle, size_t n) {
    static const char elements[64] = { 1, 0, 2, 0, -1, 0x7F };
    static const struct {
        const char *name;
        size_t n;
    } members[] = { { "x/data/0", 24 }, { "x/data/1", 64 }, { "x/data/2", 0 } };
    rg_zip_writer z;
    fuzz_require(rgi_zip_begin(&z, "fuzz", "x"), "no archive");
    rgi_zip_member_begin(&z, "x/data.pkl", n, 64);
    rgi_zip_put(&z, pickle, n);
    for (int i = 0; i < RG_COUNT(members); i++) {
        rgi_zip_member_begin(&z, members[i].name, members[i].n, 64);
        rgi_zip_put(&z, elements, members[i].n);
    }
    rgi_zip_member_begin(&z, "x/version", 1, 64);
    rgi_zip_put(&z, "3", 1);
    fuzz_require(rgi_zip_end(&z), "no archive");
}

/* Reads every element, unless the tensor is a large one that takes little memory. */
static void fuzz_look(rg_tensor *t) {
    RG_SCOPE();
    if (t == RG_NONE || rg_numel(t) > 1 << 16)
        return;
    fuzz_require(rg_repr(t) != NULL, "doesn't print");
    double sum = 0;
    rg_dims at = { .n = t->ndim };
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t rest = i;
        for (int d = t->ndim - 1; d >= 0; d--) {
            at.v[d] = rest % t->size[d];
            rest /= t->size[d];
        }
        sum += rg_at_dims(t, at);
    }
    (void)sum;
    fuzz_require(rg_error_code() == RG_OK, "an element isn't there");
}

/* Checks an entry, and returns it for writing. An integer that int64 can't hold must fail with the
 * entry's name, and is replaced with RG_NONE. */
static rg_named fuzz_entry(rg_named entry) {
    if (!rgi_is_unheld(entry.tensor)) {
        fuzz_look(entry.tensor);
        return entry;
    }
    fuzz_require(rg_numel(entry.tensor) < 0 && rg_error_code() == RG_RUNTIME_ERROR
                     && strstr(rg_error(), "entry \""),
                 "a large integer is a tensor");
    rg_error_clear();
    return (rg_named){ entry.name, RG_NONE };
}

static void fuzz_compare(rg_named a, rg_named b) {
    fuzz_require(strcmp(a.name, b.name) == 0, "comes back under another name");
    if (a.tensor == RG_NONE || b.tensor == RG_NONE) {
        fuzz_require(a.tensor == b.tensor, "comes back without a tensor");
        return;
    }
    fuzz_require(a.tensor->dtype == b.tensor->dtype && rgi_same_shape(a.tensor, b.tensor),
                 "comes back as another");
}

static void fuzz_load(void) { rg_torch_load("x"); }

static void fuzz_file(void) {
    fuzz_limited(fuzz_load);
    RG_SCOPE();
    rg_error_clear();
    rg_named_list list = rg_torch_load("x");
    if (list.n < 0) {
        fuzz_require(rg_error_code() == RG_IO_ERROR
                         && strncmp(rg_error(), "torch_load: 'x': ", 17) == 0,
                     "no error of the kind");
        return;
    }
    fuzz_require(rg_error_code() == RG_OK, "an error in spite of a result");
    fuzz_read++;
    rg_named *v = malloc(((size_t)list.n + 1) * sizeof *v);
    for (int i = 0; i < list.n; i++)
        v[i] = fuzz_entry(list.v[i]);
    list.v = v;
    fuzz_require(rg_named_below(list, "w").n >= 0, "has nothing below");
    fuzz_require(rg_torch_save(list, "x"), "isn't written");
    rg_named_list back = rg_torch_load("x");
    fuzz_require(back.n == list.n, "comes back longer or shorter");
    for (int i = 0; i < list.n; i++)
        fuzz_compare(list.v[i], back.v[i]);
    free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    memory_file_begin();
    if (data[0] & 1)
        fuzz_archive((const char *)data + 1, size - 1);
    else
        memory_file_set(data + 1, size - 1);
    fuzz_file();
    memory_file_end();
    return 0;
}

#ifndef RG_LIBFUZZER
#define STORAGE(type, key, numel) \
    "(X\7\0\0\0storagectorch\n" type "Storage\nX\1\0\0\0" key "X\3\0\0\0cpu" numel "tQ"
#define TENSOR(storage) \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage "K\0K\2K\3\x86K\3K\1\x86\x89}tR"
#define SEED(text) \
    { text, sizeof(text) - 1 }

/* Inputs to mutate. The first byte of an input is 1 if a pickle follows. */
static const struct {
    const char *text;
    size_t n;
} fuzz_seeds[] = {
    SEED("\1\x80\2}q\0X\1\0\0\0wq\1" TENSOR(STORAGE("Float", "0", "K\6")) "q\2sh\2\x85."),
    SEED("\1](" TENSOR(STORAGE("Half", "0", "K\14")) TENSOR(STORAGE("Long", "1", "K\10")) "e."),
    SEED("\1}(X\1\0\0\0aK\1X\1\0\0\0bM\1\2X\1\0\0\0cJ\1\2\3\4X\1\0\0\0dG\1\2\3\4\5\6\7\10u."),
    SEED("\1}(K\1]K\2(K\1\x88\x89NtK\3}K\4\x8fu."),
    SEED("\1ccollections\nOrderedDict\nq\0)Rq\1(U\1aK\1U\1bh\0)Ru}X\1\0\0\0_K\1sb."),
    SEED("\1ctorch._utils\n_rebuild_parameter\n" TENSOR(
        STORAGE("Double", "0", "K\3")) "\x88}\x87R."),
    SEED("\1ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE(
        "storage.Untyped", "1", "K\100") "K\1K\5\x85K\2\x85\x89}ctorch\nuint16\n}tR."),
    SEED("\1ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
         "ctorch\nTensor\n(" STORAGE("Bool", "1", "K\100") "K\0))\x89}t}tR."),
    SEED("\1(c__builtin__\nset\n]\x85Rc_codecs\nencode\nX\1\0\0\0aX\6\0\0\0latin1\x86R"
         "ctorch\ndevice\nX\3\0\0\0cpu\x85R\x8a\2\1\2t."),
    SEED("\1]q\0(h\0h\0]h\0ae."),
    SEED("\0\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.M\xe9\3.}."
         "(X\7\0\0\0storagectorch\nByteStorage\n"
         "X\1\0\0\0"
         "0X\3\0\0\0cpuK\3NtQ.]U\1"
         "0a.\3\0\0\0\0\0\0\0abc"),
};

static const char *const fuzz_words[] = {
    "K\1",
    "K\2",
    "K\3",
    "K\6",
    "N",
    ")",
    "]",
    "}",
    "(",
    "t",
    "\x85",
    "\x86",
    "\x87",
    "R",
    "\x81",
    "b",
    "s",
    "u",
    "e",
    "a",
    "Q",
    "\x88",
    "\x89",
    ".",
    "J\xff\xff\xff\xff",
    "X\1",
    "ctorch\nfloat32\n",
    "ctorch\nSize\n",
    "collections\nCounter\n",
    "ctorch\nLongStorage\n",
    "cos\nsystem\n",
    "ctorch.nn.parameter\nParameter\n",
    "\x8a\10",
    "\xff\xff\xff\x7f",
};

/* Makes an input. One third of the pickles become a whole archive, so that all of its bytes may be
 * mutated. */
static size_t fuzz_input(char *text, size_t room) {
    int seed = (int)fuzz_below(RG_COUNT(fuzz_seeds));
    size_t n = fuzz_seeds[seed].n;
    memcpy(text, fuzz_seeds[seed].text, n);
    if (text[0] == 1 && fuzz_below(3) == 0) {
        memory_file_begin();
        fuzz_archive(text + 1, n - 1);
        n = memory_file.n + 1;
        text[0] = 0;
        memcpy(text + 1, memory_file.v, n - 1);
        memory_file_end();
    }
    /* The first byte isn't mutated, since it says whether an archive or a pickle follows. */
    return 1 + fuzz_mutate(text + 1, n - 1, room - 1, fuzz_words, RG_COUNT(fuzz_words));
}

int main(int argc, char **argv) {
    const long iterations = fuzz_begin(argc, argv, 100000);
    static char text[8192];
    for (long i = 0; i < iterations; i++) {
        size_t n = fuzz_input(text, sizeof text);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
    }
    printf("fuzz_pickle: %ld files, of which %ld were read\n", iterations, fuzz_read);
    return 0;
}
#endif
