/*
 * embedding.c: functions that return a row for each index: a row of a table (embedding), or a row
 * of zeros with a 1 at the index (one_hot).
 */
#include "reduce.h"
#include "autograd/checks.h"
#include "tensor/observer.h"

/* ---- one_hot: y[..][c] = index[..] == c ---------------------------------------- */

rg_tensor *(rg_one_hot)(rg_tensor *index, int64_t classes) {
    int64_t bad;
    if (!rgi_check(index, "one_hot"))
        return NULL;
    RG_FAIL_IF(!rgi_is_index(index->dtype), "one_hot",
               "one_hot is only applicable to index tensor of type LongTensor.");
    if (!rgi_check_dims("one_hot", index->ndim + 1))
        return NULL;
    RG_FAIL_IF(index->numel == 0 && classes <= 0, "one_hot",
               "Can not infer total number of classes from empty tensor.");
    RG_FAIL_IF(!k_index_within(index, 0, INT64_MAX, &bad), "one_hot",
               "Class values must be non-negative.");
    RG_AS("one_hot");
    RG_SCOPE();
    if (classes == -1) {
        rg_tensor *largest = rg_max(index);
        if (!largest || !rgi_may_do_once_or("one_hot", "; give it the number of classes"))
            return NULL;
        classes = rgi_load_i64(largest->data, RG_INT64) + 1;
    } else if (!k_index_within(index, 0, classes, &bad)) {
        return rgi_fail(RG_RUNTIME_ERROR, "one_hot",
                        "Class values must be smaller than num_classes.");
    }
    rg_dims shape = rg_shape(index);
    shape.v[shape.n++] = classes;
    return rg_escape(rg_scatter_(rg_zeros_dims(shape, RG_INT64), -1, rg_unsqueeze(index, -1), 1));
}

/* ---- embedding: the rows of a table -----------------------------------------------
 * For the table's gradient, the rows of g are added in the order of the indices. The row at
 * padding_idx gets no gradient. If by_frequency is set, the gradient of a row that occurs n times
 * in index is divided by n. */

/* The attributes of embedding. A negative padding_idx means that no row is the padding row.
 * by_frequency is torch's scale_grad_by_freq. */
struct embedding_attr {
    int64_t padding_idx;
    bool by_frequency;
};

static bool embedding_shape(rg_call *c) {
    const rg_tensor *index = c->in[0];
    const rg_tensor *weight = c->in[1];
    rg_tensor *y = c->out[0];
    if (!rgi_want_indices(RG_INDEX_ERROR, NULL, index, 0, weight->size[0], 0))
        return false;
    y->dtype = weight->dtype;
    rgi_copy_shape(y, index);
    y->size[y->ndim++] = weight->size[1];
    return true;
}

static bool embedding_forward(rg_call *c) {
    return k_index_slices(K_GET, c->out[0], c->in[1], 0, c->in[0]);
}

/* Returns g with each row divided by the number of times that its index occurs. When torch
 * differentiates the result once more, it leaves the division out. To do the same while a graph is
 * recorded, this function divides a detached copy of g, and then adds g minus the detached copy.
 * This difference is 0, but its derivative with respect to g is 1. */
static rg_tensor *embedding_shared(const rg_step *s, rg_tensor *g, rg_tensor *index) {
    if (!RG_ATTR(s, embedding)->by_frequency)
        return g;
    rg_tensor *none = rg_zeros_dims(RG_DIMS(rgi_input_dims(s, 1).v[0]), (rg_dtype)g->dtype);
    rg_tensor *flat = rg_reshape(index, index->numel);
    rg_tensor *one = rg_ones_dims(RG_DIMS(index->numel), (rg_dtype)g->dtype);
    rg_tensor *often = rg_index_select(rg_index_add(none, 0, flat, one, 1), 0, flat);
    rg_tensor *share = rg_unsqueeze(rg_view_as(rg_reciprocal(often), index), -1);
    if (!s->create_graph)
        return rg_mul(g, share);
    rg_tensor *value = rg_detach(g);
    return rg_add(rg_mul(value, share), rg_sub(g, value));
}

static rg_tensor *embedding_rule(const rg_step *s, rg_tensor *g) {
    rg_dims table = rgi_input_dims(s, 1);
    rg_tensor *index = rgi_saved(s, 0);
    if (!index)
        return NULL;
    g = embedding_shared(s, g, index);
    g = rg_index_add(rgi_input_zeros(s), 0, rg_reshape(index, index->numel),
                     rg_reshape(g, index->numel, table.v[1]), 1);
    int64_t padding = RG_ATTR(s, embedding)->padding_idx;
    return padding < 0 ? g : rg_scatter(g, 0, rg_full(RG_DIMS(1, table.v[1]), padding), 0);
}

/* Adds the gradient to the buffer, except to the row at padding_idx. This row is saved before the
 * addition, and restored afterwards. It can't just be set to 0, because other steps may have added
 * gradients to it. The indices are checked again, since the program may have changed them through
 * rg_data. */
static bool embedding_into(const rg_step *s, rg_tensor *g, rg_tensor *buffer) {
    rg_tensor *index = rgi_saved(s, 0);
    int64_t padding = RG_ATTR(s, embedding)->padding_idx;
    if (!index || !rgi_want_indices(RG_INDEX_ERROR, "embedding", index, 0, buffer->size[0], 0))
        return false;
    g = embedding_shared(s, g, index);
    if (!g)
        return false;
    if (padding < 0)
        return k_index_slices(K_ADD, g, buffer, 0, index);
    RG_PART_HEADER(row, buffer, (&(rg_part){ RG_PART_INDEX(0, padding) }));
    rg_tensor *kept = rgi_own(rgi_new_like(&row, row.dtype));
    if (!kept)
        return false;
    rgi_copy_elements(kept, &row);
    bool added = k_index_slices(K_ADD, g, buffer, 0, index);
    rgi_copy_elements(&row, kept);
    return added;
}

RG_OP(embedding, RG_WITH(embedding), .moves = true, .doc = "the rows of a table at the indices",
      .node = "EmbeddingBackward0", .n_in = 2, RG_MADE(embedding), .refuses_values = true,
      .grad = { RG_NO_RULE, RG_RULE_INTO(RG_IN(0), embedding_rule, embedding_into) },
      RG_SAMPLES({ "i5(2,3) (5,4)", RG_A(embedding, -1, false) },
                 { "i5(2,7) (8,2)", RG_A(embedding, 6, false) },
                 { "i3() (3,2)", RG_A(embedding, -1, false) },
                 { "i1(0,2) (3,2)", RG_A(embedding, -1, false) },
                 { "i3(4) (3,0)", RG_A(embedding, -1, false) }));

static bool embedding_check(const rg_tensor *index, const rg_tensor *weight) {
    return rgi_want_dims("embedding", "weight", weight, 2, 2)
           && rgi_want_integers("embedding", "indices", index)
           && rgi_check_dims("embedding", index->ndim + 1);
}

/* ---- max_norm: rows in use whose norm is too large are scaled down in the table ---- */

static bool embedding_renorm_check(const rg_tensor *index, const rg_tensor *weight) {
    if (!embedding_check(index, weight))
        return false;
    RG_FAIL_IF(!rgi_is_float(weight->dtype), "embedding",
               "norm(): input dtype should be either floating point or complex. Got %s instead.",
               rgi_scalar_name(weight->dtype));
    return rgi_want_indices(RG_INDEX_ERROR, "embedding", index, 0, weight->size[0], 0);
}

/* Scales down the rows of the table that `index` names. A row whose norm is above max_norm is
 * multiplied by max_norm / (norm + 1e-7). As in torch, this factor is computed in double precision.
 * If an index occurs twice, the same scaled row is written twice. */
static bool embedding_renorm(rg_tensor *index, rg_tensor *weight, const rg_embedding_options *o) {
    if (!embedding_renorm_check(index, weight))
        return false;
    RG_AS("embedding");
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *flat = rg_reshape(index, index->numel);
    rg_tensor *rows = rg_index_select(weight, 0, flat);
    rg_tensor *norm = rg_double(rgi_row_norms(rows, o->norm_type));
    rg_tensor *factor = rg_div(o->max_norm, rg_add(norm, 1e-7));
    factor = rg_to(rg_where(rg_gt(norm, o->max_norm), factor, 1), (rg_dtype)weight->dtype);
    return rg_set_item_(rg_detach(weight), rg_mul(rows, factor), flat) != NULL;
}

rg_tensor *rg_embedding_with(rg_tensor *index, rg_tensor *weight, rg_embedding_options o) {
    if (!rgi_check(index, "embedding") || !rgi_check(weight, "embedding"))
        return NULL;
    struct embedding_attr a = { -1, o.scale_grad_by_freq };
    if (o.padding_idx != INT64_MIN && weight->ndim) {
        int64_t rows = weight->size[0];
        RG_FAIL_VALUE_IF(o.padding_idx >= rows || o.padding_idx < -rows, "embedding",
                         "Padding_idx must be within num_embeddings");
        a.padding_idx = o.padding_idx < 0 ? o.padding_idx + rows : o.padding_idx;
    }
    if (o.max_norm != 0 && !embedding_renorm(index, weight, &o))
        return NULL;
    return embedding_check(index, weight) ? RG_APPLY(embedding, &a, index, weight) : NULL;
}
