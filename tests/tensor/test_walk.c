/* test_walk.c: a walk visits the same elements as a naive loop over the indices, in the same order.
 * Elements are converted as in torch. */
#include "tests/golden.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tests/test.h"
#include "tensor/kernels/kernels.h"

#include <math.h>
#include <stdio.h>

/* Returns a view of a buffer of 4096 elements, with any sizes and strides. */
static rg_tensor *strided(rg_tensor *base, rg_dims size, rg_dims stride, int64_t offset) {
    rg_tensor *t = rgi_alias(base);
    t->ndim = (uint8_t)size.n;
    for (int d = 0; d < size.n; d++) {
        t->size[d] = size.v[d];
        t->stride[d] = stride.v[d];
    }
    t->data += offset * (int64_t)rgi_sizeof(t->dtype);
    rgi_update_flags(t);
    return rgi_own(t);
}

static rg_tensor *numbered(rg_dtype dtype) {
    rg_tensor *t = rg_empty_dims(RG_DIMS(4096), dtype);
    for (int64_t i = 0; i < 4096; i++)
        rgi_store_i64(t->data + i * (int64_t)rgi_sizeof(dtype), dtype, i);
    return t;
}

/* The record of a walk over the n tensors of t. In visit i, operand k was at[i][k] bytes from the
 * begin of its storage. */
struct visits {
    int n, count;
    int64_t at[4096][RG_MAX_OPERANDS];
    rg_tensor *const *t;
};

static void record(char *const p[], const int64_t step[], int64_t n, const void *context) {
    struct visits *v = (struct visits *)context;
    ck_each(n > 0, "a loop over nothing is called");
    for (int64_t i = 0; i < n; i++, v->count++)
        for (int k = 0; k < v->n; k++)
            v->at[v->count][k] = p[k] + i * step[k] - (char *)v->t[k]->storage->data;
}

/* Returns the offset in t, in bytes from its storage, of element i of to's shape, counted row by
 * row. */
static int64_t place(const rg_tensor *t, const rg_tensor *to, int64_t i) {
    int64_t offset = t->data - (char *)t->storage->data;
    for (int d = to->ndim - 1; d >= 0; i /= to->size[d--]) {
        int dt = d - (to->ndim - t->ndim);
        if (dt >= 0 && t->size[dt] != 1)
            offset += i % to->size[d] * t->stride[dt] * (int64_t)rgi_sizeof(t->dtype);
    }
    return offset;
}

static void check_visits(int n, rg_tensor *const t[]) {
    static struct visits v;
    for (int way = 0; way < 2; way++) {
        v.n = n;
        v.t = t;
        v.count = 0;
        if (way) {
            rgi_each(n, t, record, &v);
        } else {
            rg_walk w;
            rgi_walk_make(&w, n, t, false);
            ck_assert_int_ge(w.ndim, 1);
            rgi_walk_run(&w, record, &v);
        }
        ck_assert_int_eq(v.count, t[0]->numel);
        for (int i = 0; i < v.count; i++)
            for (int k = 0; k < n; k++)
                ck_assert_int_eq(v.at[i][k], place(t[k], t[0], i));
    }
}

START_TEST(test_walks) {
    RG_SCOPE();
    rg_tensor *f = numbered(RG_FLOAT32), *d = numbered(RG_FLOAT64), *b = numbered(RG_BOOL);
    rg_tensor *row = strided(f, RG_DIMS(4), RG_DIMS(1), 3),
              *column = strided(d, RG_DIMS(3, 1), RG_DIMS(1, 1), 0);
    rg_tensor *matrix = strided(f, RG_DIMS(3, 4), RG_DIMS(4, 1), 0),
              *T = strided(d, RG_DIMS(3, 4), RG_DIMS(1, 3), 5);
    rg_tensor *every2 = strided(b, RG_DIMS(3, 4), RG_DIMS(8, 2), 1),
              *zero = strided(b, RG_DIMS(), RG_DIMS(), 7);
    rg_tensor *expanded = strided(f, RG_DIMS(3, 4), RG_DIMS(0, 0), 9);
    check_visits(1, (rg_tensor *[]){ matrix });
    check_visits(1, (rg_tensor *[]){ T });
    check_visits(5, (rg_tensor *[]){ matrix, row, column, T, every2 });
    check_visits(5, (rg_tensor *[]){ T, zero, expanded, matrix, row });
    check_visits(2, (rg_tensor *[]){ matrix, matrix });
    check_visits(2, (rg_tensor *[]){ zero, zero });
    check_visits(2, (rg_tensor *[]){ expanded, T });
    rg_tensor *five = strided(d, RG_DIMS(2, 3, 1, 4, 5), RG_DIMS(60, 20, 77, 5, 1), 0);
    rg_tensor *mixed = strided(f, RG_DIMS(3, 6, 4, 5), RG_DIMS(5, 300, 60, 1), 0);
    check_visits(3, (rg_tensor *[]){ five, strided(f, RG_DIMS(4, 5), RG_DIMS(5, 1), 2), zero });
    check_visits(3, (rg_tensor *[]){ mixed, strided(f, RG_DIMS(6, 1, 5), RG_DIMS(5, 5, 1), 2),
                                     strided(b, RG_DIMS(1), RG_DIMS(9), 8) });
    rg_tensor *eight = strided(d, RG_DIMS(2, 2, 2, 2, 2, 2, 2, 2),
                               RG_DIMS(1, 4, 16, 64, 256, 2, 8, 32), 0);
    check_visits(2, (rg_tensor *[]){ eight, strided(f, RG_DIMS(2, 1, 2, 1, 2, 1, 2),
                                                    RG_DIMS(64, 1, 2, 1, 8, 1, 1), 0) });
    rg_tensor *empty = strided(f, RG_DIMS(3, 0, 4), RG_DIMS(4, 4, 1), 0);
    check_visits(2, (rg_tensor *[]){ empty, strided(b, RG_DIMS(1, 4), RG_DIMS(4, 1), 0) });
    check_visits(2, (rg_tensor *[]){ empty, empty });
    const int64_t big = INT64_MAX / 4;
    rg_tensor *vast = strided(f, RG_DIMS(big, 0, big), RG_DIMS(big, big, big), 0);
    check_visits(2, (rg_tensor *[]){ vast, vast });
}
END_TEST

START_TEST(test_neighbouring_dims_merge) {
    RG_SCOPE();
    rg_tensor *f = numbered(RG_FLOAT32), *cube = strided(f, RG_DIMS(2, 3, 4), RG_DIMS(12, 4, 1), 0);
    rg_tensor *every2 = strided(f, RG_DIMS(2, 3, 4), RG_DIMS(24, 8, 2), 0),
              *row = strided(f, RG_DIMS(4), RG_DIMS(1), 0);
    rg_walk w;
    rgi_walk_make(&w, 2, (rg_tensor *[]){ cube, every2 }, false);
    ck_assert_int_eq(w.ndim, 1);
    ck_assert_int_eq(w.size[0], 24);
    rgi_walk_make(&w, 2, (rg_tensor *[]){ cube, row }, false);
    ck_assert_int_eq(w.ndim, 2);
    ck_assert_int_eq(w.size[0], 6);
    rgi_walk_make(&w, 2, (rg_tensor *[]){ cube, strided(f, RG_DIMS(3, 1), RG_DIMS(1, 1), 0) },
                  false);
    ck_assert_int_eq(w.ndim, 3);
    /* A dim of one element is left out, whatever its stride is. */
    rg_tensor *wide = strided(f, RG_DIMS(2, 1, 12), RG_DIMS(12, 99, 1), 0);
    rgi_walk_make(&w, 2, (rg_tensor *[]){ wide, wide }, false);
    ck_assert(w.ndim == 1 && w.size[0] == 24);
    /* If the dims are ordered by stride, a dense tensor is one row, whatever the order of its dims
     * is. */
    rg_tensor *turned = strided(f, RG_DIMS(3, 4, 2), RG_DIMS(4, 1, 12), 0);
    for (int by_stride = 0; by_stride < 2; by_stride++) {
        rgi_walk_make(&w, 2, (rg_tensor *[]){ cube, cube }, by_stride);
        ck_assert_int_eq(w.ndim, 1);
        rgi_walk_make(&w, 2, (rg_tensor *[]){ turned, turned }, by_stride);
        ck_assert_int_eq(w.ndim, by_stride ? 1 : 2);
    }
}
END_TEST

/* Stores a number of the golden data, given as the bits of a float64 or an int64, as element i. */
static void put(rg_tensor *t, int64_t i, uint64_t bits) {
    double d;
    int64_t integer;
    memcpy(&d, &bits, 8);
    memcpy(&integer, &bits, 8);
    char *p = t->data + i * t->stride[0] * (int64_t)rgi_sizeof(t->dtype);
    if (rgi_is_float(t->dtype))
        rgi_store_f64(p, t->dtype, d);
    else
        rgi_store_i64(p, t->dtype, integer);
}

static void check_element(const char *p, rg_dtype dtype, uint64_t want, int from, int i) {
    uint64_t got;
    double d = rgi_load_f64(p, dtype);
    int64_t integer = rgi_is_float(dtype) ? 0 : rgi_load_i64(p, dtype);
    memcpy(&got, rgi_is_float(dtype) ? (void *)&d : (void *)&integer, 8);
    double w;
    memcpy(&w, &want, 8);
    ck_assert_msg(got == want || (rgi_is_float(dtype) && isnan(d) && isnan(w)),
                  "element %d, %s to %s: %llx, not %llx", i, rg_dtype_name((rg_dtype)from),
                  rg_dtype_name(dtype), (unsigned long long)got, (unsigned long long)want);
}

enum { CONVERTED = 40 };

/* Reads the elements of a case of core.txt. */
static void read_elements(golden_file f, uint64_t bits[CONVERTED]) {
    char *line = golden_field(&f, ':');
    for (int i = 0; i < CONVERTED; i++)
        bits[i] = golden_bits(&line);
    golden_close(&f);
}

/* Converts elements that lie `step` apart, all in one call and one at a time. */
static void check_conversion(rg_dtype from, rg_dtype to, int step, const uint64_t given[CONVERTED],
                             const uint64_t want[CONVERTED]) {
    RG_SCOPE();
    int out = step == 2 ? 2 : 1;
    rg_tensor *x = strided(numbered(from), RG_DIMS(CONVERTED), RG_DIMS(step), 0);
    rg_tensor *y = strided(numbered(to), RG_DIMS(CONVERTED), RG_DIMS(out), 0);
    for (int i = 0; i < CONVERTED; i++)
        put(x, i, given[i]);
    rgi_copy_elements(y, x);
    for (int i = 0; i < CONVERTED; i++) {
        const char *p = x->data + (size_t)(i * step) * rgi_sizeof(from);
        check_element(y->data + (size_t)(i * out) * rgi_sizeof(to), to, want[i], (int)from, i);
        char one[8];
        if (rgi_is_float(from))
            rgi_store_f64(one, to, rgi_load_f64(p, from));
        else
            rgi_store_i64(one, to, rgi_load_i64(p, from));
        check_element(one, to, want[i], (int)from, i);
    }
}

START_TEST(test_conversions) {
    const rg_dtype dtypes[] = { RG_BOOL, RG_INT64, RG_FLOAT32, RG_FLOAT64 };
    for (int k = 0; k < 16; k++) {
        rg_dtype from = dtypes[k / 4], to = dtypes[k % 4];
        const char *from_name = golden_dtype_name(from), *to_name = golden_dtype_name(to);
        uint64_t given[CONVERTED], want[CONVERTED];
        read_elements(golden_find("core", "source.%s", from_name), given);
        read_elements(golden_find("core", "converted.%s.%s", from_name, to_name), want);
        for (int step = 1; step <= 3; step++)
            check_conversion(from, to, step, given, want);
    }
}
END_TEST

START_TEST(test_copy_broadcasts) {
    RG_SCOPE();
    rg_tensor *to = rg_zeros(2, 3), *T = strided(to, RG_DIMS(3, 2), RG_DIMS(1, 3), 0);
    rgi_copy_elements(T, rg_from(((int[]){ 7, 8, 9 }), 3, 1));
    for (int i = 0; i < 6; i++)
        ck_assert(rg_at(to, i / 3, i % 3) == 7 + i % 3);
    rgi_fill_number(T, 2.5, 0);
    for (int i = 0; i < 6; i++)
        ck_assert(rg_at(to, i / 3, i % 3) == 2.5);
    rg_tensor *part = strided(to, RG_DIMS(2, 2), RG_DIMS(3, 1), 1);
    rgi_fill_zero(part);
    for (int i = 0; i < 6; i++)
        ck_assert(rg_at(to, i / 3, i % 3) == (i % 3 ? 0 : 2.5));
}
END_TEST

START_TEST(test_contiguous_copy) {
    RG_SCOPE();
    rg_tensor *m = rg_from(((int[]){ 1, 2, 3, 4, 5, 6 }), 2, 3),
              *T = strided(m, RG_DIMS(3, 2), RG_DIMS(1, 3), 0);
    rg_tensor *same = rgi_own(rgi_contiguous_copy(m, RG_INT64)),
              *copy = rgi_own(rgi_contiguous_copy(T, RG_FLOAT32));
    ck_assert_ptr_eq(same, m);
    ck_assert(rg_is_contiguous(copy) && !rg_is_contiguous(T));
    ck_assert(rg_equal(copy, rg_from(((float[]){ 1, 4, 2, 5, 3, 6 }), 3, 2)));
}
END_TEST

START_TEST(test_overlap) {
    RG_SCOPE();
    rg_tensor *f = numbered(RG_FLOAT32);
    ck_assert(!rgi_overlaps_itself(f));
    ck_assert(!rgi_overlaps_itself(strided(f, RG_DIMS(3, 2), RG_DIMS(1, 3), 0)));
    ck_assert(!rgi_overlaps_itself(strided(f, RG_DIMS(3, 2), RG_DIMS(2, 1), 0)));
    ck_assert(!rgi_overlaps_itself(strided(f, RG_DIMS(1, 2), RG_DIMS(0, 1), 0)));
    ck_assert(!rgi_overlaps_itself(strided(f, RG_DIMS(0, 2), RG_DIMS(0, 0), 0)));
    ck_assert(rgi_overlaps_itself(strided(f, RG_DIMS(3, 2), RG_DIMS(0, 1), 0)));
    ck_assert(rgi_overlaps_itself(strided(f, RG_DIMS(3, 2), RG_DIMS(1, 1), 0)));
    ck_assert(rgi_overlaps_itself(strided(f, RG_DIMS(3, 3), RG_DIMS(1, 2), 0)));
}
END_TEST

/* Returns whether two elements of t share memory. */
static bool two_in_one_place(const rg_tensor *t) {
    bool taken[100] = { false };
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t at = place(t, t, i) / (int64_t)rgi_sizeof(t->dtype);
        if (taken[at])
            return true;
        taken[at] = true;
    }
    return false;
}

/* Each overlap is noticed, and the order of the dims doesn't matter. */
START_TEST(test_overlaps_of_three_dims) {
    rg_tensor *f = numbered(RG_BOOL);
    for (int k = 0; k < 27 * 512; k++) {
        RG_SCOPE();
        const int64_t n[] = { k % 3 + 1, k / 3 % 3 + 1, k / 9 % 3 + 1 };
        const int64_t step[] = { k / 27 % 8, k / 216 % 8, k / 1728 };
        rg_tensor *t = strided(f, RG_DIMS(n[0], n[1], n[2]), RG_DIMS(step[0], step[1], step[2]), 0);
        const bool overlaps = rgi_overlaps_itself(t);
        ck_each(overlaps || !two_in_one_place(t), "case %d overlaps", k);
        rg_tensor *u = strided(f, RG_DIMS(n[2], n[0], n[1]), RG_DIMS(step[2], step[0], step[1]), 0);
        ck_each(rgi_overlaps_itself(u) == overlaps, "case %d: the order of dims matters", k);
    }
}
END_TEST

/* These are torch's rules for broadcasting: sizes are compared from the last dim on, and dims of
 * size 1 are repeated. */
START_TEST(test_expandable) {
    static const struct {
        rg_dims from, to;
        bool fits;
    } cases[] = {
        { { 0 }, { 0 }, true },
        { { 0 }, { 2, { 2, 3 } }, true },
        { { 1, { 3 } }, { 2, { 2, 3 } }, true },
        { { 1, { 1 } }, { 2, { 2, 3 } }, true },
        { { 2, { 2, 1 } }, { 2, { 2, 3 } }, true },
        { { 2, { 1, 3 } }, { 2, { 2, 3 } }, true },
        { { 2, { 1, 1 } }, { 2, { 0, 3 } }, true },
        { { 1, { 2 } }, { 2, { 2, 3 } }, false },
        { { 2, { 2, 3 } }, { 2, { 2, 1 } }, false },
        { { 2, { 1, 3 } }, { 1, { 3 } }, false },
        { { 2, { 3, 1 } }, { 2, { 2, 3 } }, false },
    };
    RG_SCOPE();
    for (int i = 0; i < RG_COUNT(cases); i++) {
        rg_tensor *from = rg_zeros_dims(cases[i].from, RG_BOOL);
        rg_tensor *to = rg_zeros_dims(cases[i].to, RG_BOOL);
        ck_assert_msg(rgi_expandable(from, to) == cases[i].fits, "%s to %s", RG_SHAPE_TEXT(from),
                      RG_SHAPE_TEXT(to));
    }
}
END_TEST

/* The text of any shape fits into its buffer, and ends with a bracket. */
START_TEST(test_long_shapes) {
    const int64_t least = INT64_MIN, most = INT64_MAX;
    const int64_t sizes[] = { least, least, least, most, most, most, most, most, most, most };
    for (int n = 0; n <= RG_COUNT(sizes); n++) {
        char text[193], whole[400] = "[";
        memset(text, '#', sizeof text);
        ck_assert_ptr_eq(rgi_shape_text(n, sizes, text), text);
        ck_assert_int_eq(text[192], '#');
        for (int i = 0; i < RG_MIN(n, RG_MAX_DIMS); i++)
            sprintf(whole + strlen(whole), "%s%lld", i ? ", " : "", (long long)sizes[i]);
        strcat(whole, "]");
        ck_assert_str_eq(text, whole);
    }
    /* If a program gives more dims than there is room for, the sizes beyond must not be read. */
    ck_assert_str_eq(RG_DIMS_TEXT(&(rg_dims){ .n = 99 }), "[0, 0, 0, 0, 0, 0, 0, 0]");
}
END_TEST

START_TEST(test_sizes_saturate) {
    RG_SCOPE();
    int64_t before = rg_live_tensors(), big = (int64_t)1 << 40;
    ck_assert_ptr_null(rgi_new(RG_FLOAT32, 2, (int64_t[]){ big, big }));
    ck_assert_str_eq(
        rg_error(),
        "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776]");
    ck_assert_int_eq(rg_live_tensors(), before);
    rg_error_clear();
    rg_tensor *empty = rgi_own(rgi_new(RG_FLOAT32, 3, (int64_t[]){ big, 0, big }));
    ck_assert_int_eq(rg_numel(empty), 0);
    rg_tensor *wide = strided(rg_zeros(1), RG_DIMS(big, big), RG_DIMS(0, 0), 0);
    ck_assert(rg_numel(wide) == INT64_MAX && !rg_is_contiguous(wide));
    ck_assert_ptr_null(rgi_contiguous_copy(wide, RG_FLOAT32));
    /* For the largest number of elements that a tensor may have, memory is requested. One more
     * element is refused before any request. */
    for (int more = 0; more < 2; more++) {
        rg_code code = more ? RG_RUNTIME_ERROR : RG_OUT_OF_MEMORY;
        ck_fails(rg_zeros_dims(RG_DIMS(INT64_MAX / 16 + more), RG_BOOL), code,
                 more ? "zeros: Storage size calculation overflowed" : "out of memory");
    }
}
END_TEST

/* Of dims with equal strides, a larger dim becomes the outer one. A dim with a stride of 0 isn't
 * moved, and dims of size 1 may be anywhere. torch.empty_like gives these orders. */
START_TEST(test_orders_of_equal_strides) {
    static const struct {
        rg_dims size, stride;
        int order[3];
        bool in_order;
    } cases[] = {
        { { 2, { 2, 1 } }, { 2, { 1, 1 } }, { 0, 1 }, true },
        { { 2, { 1, 2 } }, { 2, { 1, 1 } }, { 1, 0 }, true },
        { { 2, { 2, 2 } }, { 2, { 1, 1 } }, { 0, 1 }, true },
        { { 2, { 3, 2 } }, { 2, { 1, 1 } }, { 0, 1 }, true },
        { { 2, { 2, 3 } }, { 2, { 1, 1 } }, { 1, 0 }, false },
        { { 2, { 2, 3 } }, { 2, { 0, 1 } }, { 0, 1 }, true },
        { { 2, { 2, 3 } }, { 2, { 0, 0 } }, { 0, 1 }, true },
        { { 3, { 2, 1, 3 } }, { 3, { 1, 9, 2 } }, { 1, 2, 0 }, false },
        { { 3, { 2, 1, 3 } }, { 3, { 3, 1, 1 } }, { 0, 2, 1 }, true },
        { { 3, { 1, 2, 3 } }, { 3, { 1, 3, 1 } }, { 1, 2, 0 }, true },
        { { 3, { 2, 3, 4 } }, { 3, { 1, 0, 2 } }, { 2, 1, 0 }, false },
        { { 3, { 2, 3, 4 } }, { 3, { 2, 0, 1 } }, { 0, 1, 2 }, true },
        { { 3, { 2, 3, 4 } }, { 3, { 0, 1, 6 } }, { 0, 2, 1 }, false },
    };
    rg_tensor *base = numbered(RG_FLOAT32);
    for (int i = 0; i < RG_COUNT(cases); i++) {
        RG_SCOPE();
        int order[RG_MAX_DIMS];
        rg_tensor *t = strided(base, cases[i].size, cases[i].stride, 0);
        order[t->ndim] = 77;
        ck_assert_msg(rgi_memory_order(t, order) == cases[i].in_order, "case %d", i);
        ck_assert_int_eq(order[t->ndim], 77);
        for (int d = 0; d < t->ndim; d++)
            ck_assert_msg(order[d] == cases[i].order[d], "case %d, dim %d", i, d);
    }
}
END_TEST

/* ---- large operands in any layout ------------------------------------------------
 * The walk's order and tiles must visit each element once. */
static uint32_t drawn = 1;
static int draw(int n) {
    drawn = drawn * 1664525 + 1013904223;
    return (int)(drawn >> 8) % n;
}

/* Returns a tensor of like's shape whose dims are in a random order in memory. Its elements may
 * have a distance of two. Unless it is an output, some dims may have size 1, for broadcasting. */
static rg_tensor *laid_out(const rg_tensor *like, rg_dtype dtype, bool output) {
    int order[4] = { 0, 1, 2, 3 }, n = like->ndim;
    for (int i = n - 1; i > 0; i--) {
        int j = draw(i + 1), o = order[i];
        order[i] = order[j];
        order[j] = o;
    }
    int64_t stride[4], size[4], reach = draw(4) ? 1 : 2;
    for (int i = 0; i < n; i++) {
        int d = order[i];
        size[d] = !output && draw(6) == 0 ? 1 : like->size[d];
        stride[d] = reach;
        reach *= size[d];
    }
    rg_tensor *base = rgi_own(rgi_new(dtype, 1, &reach)), *t = rgi_own(rgi_alias(base));
    for (int64_t i = 0; i < reach; i++)
        rgi_store_i64(base->data + i * (int64_t)rgi_sizeof(dtype), dtype, draw(1000));
    t->ndim = like->ndim;
    memcpy(t->size, size, sizeof size);
    memcpy(t->stride, stride, sizeof stride);
    rgi_update_flags(t);
    return t;
}

static double at(const rg_tensor *t, const rg_tensor *to, int64_t i) {
    return rgi_load_f64((char *)t->storage->data + place(t, to, i), t->dtype);
}

START_TEST(test_large_layouts) {
    for (int round = 0; round < 120; round++) {
        RG_SCOPE();
        int n = 2 + draw(3);
        int64_t most[] = { 0, 0, draw(8) ? 150 : 300, 30, 13 }, size[4];
        for (int d = 0; d < n; d++)
            size[d] = draw(5) ? most[n] - draw((int)most[n] / 2) : 1 + draw(70);
        rg_tensor *like = rgi_own(rgi_new(RG_BOOL, n, size));
        rg_dtype dtype = (rg_dtype)draw(4);
        rg_tensor *y = laid_out(like, dtype, true), *x = laid_out(like, (rg_dtype)draw(4), false);
        rgi_copy_elements(y, x);
        /* Asserting each element would take most of the test's time. */
        int wrong = 0;
        for (int64_t i = 0; i < y->numel; i++)
            wrong += at(y, y, i) != (dtype == RG_BOOL ? at(x, y, i) != 0 : at(x, y, i));
        ck_assert_int_eq(wrong, 0);
        rg_tensor *sum = laid_out(like, RG_FLOAT32, true), *a = laid_out(like, RG_FLOAT32, false),
                  *b = laid_out(like, RG_FLOAT32, false);
        k_run(k_add, sum, a, b);
        for (int64_t i = 0; i < sum->numel; i++)
            wrong += at(sum, sum, i) != at(a, sum, i) + at(b, sum, i);
        ck_assert_int_eq(wrong, 0);
    }
}
END_TEST

/* Sets p to the next permutation. Returns false after the last. */
static bool next_permutation(int n, int p[]) {
    int i = n - 2, k = n - 1;
    while (i >= 0 && p[i] > p[i + 1])
        i--;
    if (i < 0)
        return false;
    while (p[k] < p[i])
        k--;
    RG_SWAP(p[i], p[k]);
    for (int a = i + 1, b = n - 1; a < b; a++, b--)
        RG_SWAP(p[a], p[b]);
    return true;
}

/* For a dense tensor, rgi_memory_order gives the order of the strides, whatever the order of the
 * dims is. */
START_TEST(test_orders_of_dims) {
    static const int64_t sizes[][5] = { { 3, 2, 2, 3, 2 }, { 2, 2, 2, 2, 2 }, { 2, 3, 4, 5, 2 } };
    rg_tensor *base = numbered(RG_FLOAT32);
    for (int k = 0; k < RG_COUNT(sizes); k++) {
        int p[] = { 0, 1, 2, 3, 4 };
        do {
            RG_SCOPE();
            rg_dims size = { .n = 5 }, stride = { .n = 5 };
            int order[RG_MAX_DIMS];
            int64_t step = 1;
            memcpy(size.v, sizes[k], sizeof sizes[k]);
            for (int i = 4; i >= 0; i--) {
                stride.v[p[i]] = step;
                step *= size.v[p[i]];
            }
            rg_tensor *t = strided(base, size, stride, 0);
            bool in_order = true;
            for (int i = 0; i < 5; i++)
                in_order = in_order && p[i] == i;
            ck_assert(rgi_memory_order(t, order) == in_order);
            for (int i = 0; i < 5; i++)
                ck_assert_int_eq(order[i], p[i]);
        } while (next_permutation(5, p));
    }
}
END_TEST

RG_TESTS(walk, test_orders_of_dims, test_orders_of_equal_strides, test_walks, test_large_layouts,
         test_neighbouring_dims_merge, test_conversions, test_copy_broadcasts, test_contiguous_copy,
         test_overlap, test_overlaps_of_three_dims, test_expandable, test_long_shapes,
         test_sizes_saturate)
