/*
 * packed.c: packing and padding sequences of different lengths, as torch.nn.utils.rnn does.
 */
#include "packed.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/observer.h"
#include "tensor/scope.h"
#include "tensor/structs.h"

#include <string.h>

/* ---- dividing a packed sequence into runs (see packed.h) ------------------------- */

rg_step_runs rgi_step_runs(const char *op, rg_tensor *batch_sizes, int64_t rows, bool single) {
    rg_step_runs runs = { .n = -1 };
    if (!rgi_check(batch_sizes, op) || !rgi_may_do_once(op))
        return runs;
    const bool listed = rgi_is_index(batch_sizes->dtype) && batch_sizes->ndim == 1;
    const int64_t steps = listed ? batch_sizes->size[0] : 0;
    batch_sizes = rg_contiguous(batch_sizes);
    runs.v = rgi_scope_alloc((size_t)RG_MAX(1, steps) * sizeof *runs.v);
    if (!batch_sizes || !runs.v)
        return runs;
    const int64_t *sizes = (const int64_t *)batch_sizes->data;
    bool falls = steps > 0;
    int n = 0;
    for (int64_t t = 0; t < steps && falls; t++) {
        falls = sizes[t] > 0 && (t == 0 || sizes[t] <= sizes[t - 1])
                && sizes[t] <= rows - runs.rows;
        if (t && !single && sizes[t] == sizes[t - 1])
            runs.v[n - 1].steps++;
        else
            runs.v[n++] = (rg_step_run){ .at = runs.rows, .steps = 1, .batch = sizes[t] };
        runs.rows += falls ? sizes[t] : 0;
    }
    if (!falls || runs.rows != rows)
        rgi_fail(RG_RUNTIME_ERROR, op,
                 "expected batch_sizes of int64 that don't rise, with a sum of %lld",
                 (long long)rows);
    else
        runs.n = n;
    return runs;
}

/* ---- packing sequences ----------------------------------------------------------- */

static const rg_packed_sequence no_packed;

/* Returns, for each step, the number of sequences that have that step. `lengths` must be sorted,
 * the longest first. Returns NULL if memory runs out. */
static rg_tensor *packed_sizes(const rg_tensor *lengths) {
    const int64_t *n = (const int64_t *)lengths->data;
    int64_t batch = lengths->size[0];
    rg_tensor *sizes = rg_empty_dims(RG_DIMS(n[0]), RG_INT64);
    for (int64_t t = 0; sizes && t < n[0]; t++) {
        while (n[batch - 1] <= t)
            batch--;
        ((int64_t *)sizes->data)[t] = batch;
    }
    return sizes;
}

/* Fails and returns false if x, (steps, batch, ..), is empty. Also fails unless `lengths` has one
 * length for each sequence, sorted with the longest first, each from 1 to the number of steps.
 * Requires that `lengths` is contiguous and int64, which isn't checked. */
static bool pack_allows(const char *op, const rg_tensor *x, const rg_tensor *lengths) {
    RG_FAIL_IF(x->numel == 0, op, "Cannot pack empty tensors.");
    RG_FAIL_IF(lengths->size[0] != x->size[1], op,
               "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
               (long long)lengths->size[0], (long long)x->size[1]);
    const int64_t *n = (const int64_t *)lengths->data;
    const int64_t batch = x->size[1];
    RG_FAIL_IF(n[batch - 1] <= 0, op,
               "Length of all samples has to be greater than 0, but found an element in 'lengths' "
               "that is <= 0");
    for (int64_t i = 1; i < batch; i++)
        RG_FAIL_IF(n[i] > n[i - 1], op,
                   "`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                   "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                   "pack_sequence to sidestep this requirement if you do not need ONNX "
                   "exportability.");
    RG_FAIL_IF(n[0] > x->size[0], op, "a length of %lld is more than the %lld steps",
               (long long)n[0], (long long)x->size[0]);
    return true;
}

/* Returns the data of a packed sequence: the rows of x, without the padding, step by step. x is
 * (steps, batch, ..), with its sequences sorted, the longest first. `sizes` has the batch size of
 * each step, and `rows` is their sum. Returns NULL on failure. */
static rg_tensor *pack_rows(const char *op, rg_tensor *x, rg_tensor *sizes, int64_t rows) {
    const rg_step_runs runs = rgi_step_runs(op, sizes, rows, false);
    if (runs.n < 0)
        return NULL;
    rg_tensor **part = rgi_scope_alloc((size_t)runs.n * sizeof *part);
    int64_t step = 0;
    for (int i = 0; i < runs.n && part; i++) {
        const rg_step_run *r = &runs.v[i];
        rg_tensor *steps = rg_narrow(rg_narrow(x, 0, step, r->steps), 1, 0, r->batch);
        part[i] = rg_flatten(steps, 0, 1);
        step += r->steps;
    }
    return rg_cat(rg_list_of(runs.n, part), 0);
}

/* Returns the inverse of a permutation. The inverse of RG_NONE is RG_NONE. */
static rg_tensor *inverted(rg_tensor *permutation) {
    return permutation == RG_NONE ? RG_NONE : rg_argsort(permutation, 0, false);
}

/* Packs x, (steps, batch, ..). The lengths must be int64. If `sorted` is false, the sequences are
 * first sorted by length; if it is true, this fails unless they are sorted already. On failure the
 * result's `data` is NULL. */
static rg_packed_sequence pack(const char *op, rg_tensor *x, rg_tensor *lengths, bool sorted) {
    rg_packed_sequence p = { .sorted_indices = RG_NONE };
    if (!sorted) {
        const rg_values_indices order = rg_sort(lengths, 0, true);
        lengths = order.values;
        p.sorted_indices = order.indices;
        x = rg_index_select(x, 1, p.sorted_indices);
    }
    lengths = rg_contiguous(lengths);
    if (!x || !lengths || !pack_allows(op, x, lengths))
        return no_packed;
    int64_t rows = 0;
    for (int64_t i = 0; i < lengths->size[0]; i++)
        rows += ((const int64_t *)lengths->data)[i];
    p.batch_sizes = packed_sizes(lengths);
    p.data = pack_rows(op, x, p.batch_sizes, rows);
    p.unsorted_indices = inverted(p.sorted_indices);
    return p.unsorted_indices ? p : no_packed;
}

static rg_packed_sequence escape_packed(rg_packed_sequence p) {
    if (!p.data)
        return no_packed;
    rg_escape(p.data);
    rg_escape(p.batch_sizes);
    rg_escape(p.sorted_indices);
    rg_escape(p.unsorted_indices);
    return p;
}

rg_packed_sequence rg_pack_padded_sequence_with(rg_tensor *x, rg_tensor *lengths,
                                                rg_pack_options o) {
    const char *op = "pack_padded_sequence";
    if (!rgi_check(x, op))
        return no_packed;
    RG_AS(op);
    RG_SCOPE();
    lengths = rg_to(lengths, RG_INT64);
    if (!lengths || !rgi_may_do_once(op))
        return no_packed;
    if (lengths->ndim != 1) {
        rgi_fail(RG_RUNTIME_ERROR, op,
                 "'lengths' argument should be a 1D CPU int64 tensor, but got %dD cpu Long tensor",
                 lengths->ndim);
        return no_packed;
    }
    /* rg_transpose is called even if batch_first is false and `turned` isn't used. It fails, as
     * torch does, if x has no second dim. */
    rg_tensor *turned = rg_transpose(x, 0, 1);
    if (!turned)
        return no_packed;
    return escape_packed(pack(op, o.batch_first ? turned : x, lengths, o.enforce_sorted));
}

rg_packed_sequence rg_pack_sequence_with(rg_list sequences, rg_pack_options o) {
    const char *op = "pack_sequence";
    RG_AS(op);
    RG_SCOPE();
    rg_tensor *x = rg_pad_sequence(sequences);
    rg_tensor *lengths = x ? rg_empty_dims(RG_DIMS(sequences.n), RG_INT64) : NULL;
    if (!lengths || !rgi_may_do_once(op))
        return no_packed;
    for (int i = 0; i < sequences.n; i++)
        ((int64_t *)lengths->data)[i] = sequences.v[i]->size[0];
    return escape_packed(pack(op, x, lengths, o.enforce_sorted));
}

/* ---- padding sequences ----------------------------------------------------------- */

/* Lengthens x along dim by `more` indices, filled with `value`: at the end or, if `before` is true,
 * at the beginning. Returns x itself if `more` is 0. */
static rg_tensor *padded(rg_tensor *x, int dim, int64_t more, double value, bool before) {
    if (!x || !more)
        return x;
    rg_dims shape = rg_shape(x);
    shape.v[dim] = more;
    rg_tensor *fill = rg_full_dims(shape, value, (rg_dtype)x->dtype);
    return rg_cat(before ? RG_LIST(fill, x) : RG_LIST(x, fill), dim);
}

/* Returns the lengths of the packed sequences as an int64 tensor, the longest first. Returns NULL
 * if memory runs out. */
static rg_tensor *lengths_of(const rg_step_runs *runs) {
    rg_tensor *lengths = rg_zeros_dims(RG_DIMS(runs->v[0].batch), RG_INT64);
    for (int i = 0; lengths && i < runs->n; i++)
        for (int64_t b = 0; b < runs->v[i].batch; b++)
            ((int64_t *)lengths->data)[b] += runs->v[i].steps;
    return lengths;
}

static rg_padded_sequence pad_packed(const char *op, rg_packed_sequence p,
                                     const rg_pad_options *o) {
    const rg_padded_sequence failed = { NULL, NULL };
    const rg_step_runs runs = rgi_step_runs(op, p.batch_sizes, p.data->size[0], false);
    if (runs.n < 0)
        return failed;
    const int64_t batch = runs.v[0].batch;
    int64_t steps = 0;
    rg_tensor **part = rgi_scope_alloc((size_t)runs.n * sizeof *part);
    for (int i = 0; i < runs.n && part; i++) {
        const rg_step_run *r = &runs.v[i];
        rg_tensor *rows = rg_narrow(p.data, 0, r->at, r->steps * r->batch);
        rows = rg_unflatten(rows, 0, RG_DIMS(r->steps, r->batch));
        part[i] = padded(rows, 1, batch - r->batch, o->padding_value, false);
        steps += r->steps;
    }
    if (o->total_length && o->total_length < steps) {
        rgi_fail(RG_VALUE_ERROR, op,
                 "Expected total_length to be at least the length of the longest sequence in "
                 "input, but got total_length=%lld and max sequence length being %lld",
                 (long long)o->total_length, (long long)steps);
        return failed;
    }
    rg_tensor *y = rg_cat(rg_list_of(runs.n, part), 0);
    if (o->total_length)
        y = padded(y, 0, o->total_length - steps, o->padding_value, false);
    rg_tensor *lengths = lengths_of(&runs);
    if (o->batch_first)
        y = rg_transpose(y, 0, 1);
    if (p.unsorted_indices != RG_NONE) {
        y = rg_index_select(y, o->batch_first ? 0 : 1, p.unsorted_indices);
        lengths = rg_index_select(lengths, 0, p.unsorted_indices);
    }
    return y && lengths ? (rg_padded_sequence){ y, lengths } : failed;
}

rg_padded_sequence rg_pad_packed_sequence_with(rg_packed_sequence packed, rg_pad_options o) {
    const char *op = "pad_packed_sequence";
    const rg_padded_sequence failed = { NULL, NULL };
    rg_tensor *indices = packed.unsorted_indices;
    if (!rgi_check(packed.data, op) || (indices != RG_NONE && !rgi_check(indices, op)))
        return failed;
    if (packed.data->ndim == 0) {
        rgi_fail(RG_INDEX_ERROR, op, "packed data must have a dim of steps");
        return failed;
    }
    RG_AS(op);
    RG_SCOPE();
    const rg_padded_sequence y = pad_packed(op, packed, &o);
    return (rg_padded_sequence){ rg_escape(y.output), rg_escape(y.lengths) };
}

/* Fails and returns false unless all sequences have the shape of the first one, except that dim 0,
 * the number of steps, can differ. */
static bool pad_allows(const char *op, rg_list sequences) {
    const rg_tensor *first = sequences.v[0];
    for (int i = 0; i < sequences.n; i++) {
        const rg_tensor *t = sequences.v[i];
        RG_FAIL_IF(t->ndim == 0 || t->ndim != first->ndim, op,
                   "expected sequences of as many dims, at least 1, but got %d and %d", first->ndim,
                   t->ndim);
        for (int d = 1; d < t->ndim; d++)
            RG_FAIL_IF(t->size[d] != first->size[d], op,
                       "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                       "non-singleton dimension %d",
                       (long long)first->size[d], (long long)t->size[d], d);
    }
    return true;
}

rg_tensor *rg_pad_sequence_with(rg_list sequences, rg_pad_options o) {
    const char *op = "pad_sequence";
    if (!rgi_given_list(sequences.n, sequences.v, op))
        return NULL;
    RG_FAIL_IF(sequences.n == 0, op, "received an empty list of sequences");
    const char *side = o.padding_side ? o.padding_side : "right";
    const bool left = !strcmp(side, "left");
    RG_FAIL_IF(!left && strcmp(side, "right"), op,
               "Expected padding_side to be one of left or right, but got %s.", side);
    for (int i = 0; i < sequences.n; i++)
        if (!rgi_check(sequences.v[i], op))
            return NULL;
    if (!pad_allows(op, sequences))
        return NULL;
    RG_AS(op);
    RG_SCOPE();
    int64_t steps = 0;
    for (int i = 0; i < sequences.n; i++)
        steps = RG_MAX(steps, sequences.v[i]->size[0]);
    rg_tensor **part = rgi_scope_alloc((size_t)sequences.n * sizeof *part);
    for (int i = 0; i < sequences.n && part; i++) {
        rg_tensor *t = rg_to(sequences.v[i], (rg_dtype)sequences.v[0]->dtype);
        part[i] = padded(t, 0, steps - sequences.v[i]->size[0], o.padding_value, left);
    }
    return rg_escape(rg_stack(rg_list_of(sequences.n, part), o.batch_first ? 0 : 1));
}
