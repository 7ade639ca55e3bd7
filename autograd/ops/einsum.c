/*
 * einsum.c: sums of products that are described by labels, such as "bij,bjk->bik". A label that
 * occurs twice in one operand selects a diagonal. A label that occurs in only one operand, and not
 * in the output, is summed over early. Then the operands are multiplied pair by pair: each pair by
 * one batched matrix product, or elementwise if no label of the pair is summed over.
 */
#include "autograd/op.h"

#include <stdio.h>

/* A label is a number. The letters A to Z have the first numbers, and a to z the next. If an
 * equation has no arrow, the output's labels are in the order of these numbers, as in torch. The
 * dims that an ellipsis stands for have the numbers after the letters. */
enum { EINSUM_LETTERS = 52, EINSUM_LABELS = EINSUM_LETTERS + RG_MAX_DIMS, EINSUM_ELLIPSIS = 127 };

/* A list of n dims, each with its label. */
typedef struct {
    int n, label[RG_MAX_DIMS];
} einsum_dims;

/* An operand. `t` is its tensor, and `dims` has the labels of the tensor's dims. `given` has the n
 * labels as they are written in the equation, where EINSUM_ELLIPSIS stands for an ellipsis. */
typedef struct {
    rg_tensor *t;
    einsum_dims dims;
    int n, given[64];
    bool ellipsis;
} einsum_operand;

/* Returns the label of the letter c, or -1 if c isn't a letter. */
static int einsum_label(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static int einsum_letter(int label) { return label < 26 ? 'A' + label : 'a' + label - 26; }

#define EINSUM_FAIL_IF(condition, ...) RG_FAIL_IF(condition, "einsum", "einsum(): " __VA_ARGS__)

/* Returns whether a list of labels ends at c. The labels of an operand end at a comma, at an arrow
 * or at the end of the equation. The labels of the output end only at the end of the equation. */
static bool einsum_ends(const char *c, bool output) {
    if (*c == '\0')
        return true;
    return !output && (c[0] == ',' || (c[0] == '-' && c[1] == '>'));
}

/* Reads the labels from position *at to the next comma, arrow or end, and moves *at there.
 * `operand` is the operand's index, or -1 for the output. If there are more labels than o->given
 * has room for, the others are only counted. */
static bool einsum_read(const char *equation, int *at, int operand, einsum_operand *o) {
    char where[32];
    snprintf(where, sizeof where, operand < 0 ? "output" : "operand %d", operand);
    for (;; ++*at) {
        const char *c = equation + *at;
        if (einsum_ends(c, operand < 0))
            return true;
        if (*c == ' ')
            continue;
        int found = einsum_label(*c);
        if (*c == '.') {
            EINSUM_FAIL_IF(o->ellipsis && operand >= 0,
                           "found '.' for %s for which an ellipsis was already found", where);
            EINSUM_FAIL_IF(o->ellipsis,
                           "found '.' for output but an ellipsis (...) was already found");
            EINSUM_FAIL_IF(c[1] != '.' || c[2] != '.',
                           "found '.' for %s that is not part of any ellipsis%s", where,
                           operand < 0 ? " (...)" : "");
            o->ellipsis = true;
            *at += 2;
            found = EINSUM_ELLIPSIS;
        }
        EINSUM_FAIL_IF(found < 0,
                       "invalid subscript given at index %d in the equation string, subscripts "
                       "must be in [a-zA-Z]",
                       *at);
        if (o->n < RG_COUNT(o->given))
            o->given[o->n] = found;
        o->n++;
    }
}

/* Fills in o->dims from o->given. An ellipsis becomes `covered` dims. `all` is the number of labels
 * that the equation needs for ellipses. The ellipsis gets the last `covered` of these labels, since
 * the dims of ellipses broadcast from the last to the first. */
static bool einsum_spread(einsum_operand *o, int covered, int all) {
    for (int i = 0; i < RG_MIN(o->n, RG_COUNT(o->given)); i++) {
        int l = o->given[i];
        int times = l == EINSUM_ELLIPSIS ? covered : 1;
        if (!rgi_check_dims("einsum", o->dims.n + times))
            return false;
        for (int k = 0; k < times; k++)
            o->dims.label[o->dims.n++] = l == EINSUM_ELLIPSIS ? EINSUM_LETTERS + all - covered + k
                                                              : l;
    }
    return true;
}

/* Reads the labels of all operands. Counts in `count` how often each letter occurs, sets *covered
 * to the largest number of dims that an ellipsis stands for, and moves *at past the labels. */
static bool einsum_parse_operands(const char *equation, int *at, einsum_operand *o, int n,
                                  int count[EINSUM_LABELS], int *covered) {
    for (int i = 0; i < n; i++) {
        if (!einsum_read(equation, at, i, &o[i]))
            return false;
        for (int k = 0; k < RG_MIN(o[i].n, RG_COUNT(o->given)); k++)
            if (o[i].given[k] != EINSUM_ELLIPSIS)
                count[o[i].given[k]]++;
        if (o[i].ellipsis)
            *covered = RG_MAX(*covered, o[i].t->ndim - (o[i].n - 1));
        EINSUM_FAIL_IF(equation[*at] == ',' && i + 1 == n,
                       "fewer operands were provided than specified in the equation");
        EINSUM_FAIL_IF(equation[*at] != ',' && i + 1 < n,
                       "more operands were provided than specified in the equation");
        if (i + 1 < n)
            ++*at;
    }
    return true;
}

/* Fails unless operand i has as many dims as labels. If its labels have an ellipsis, it may have
 * more dims. */
static bool einsum_check_labels(const einsum_operand *o, int i) {
    int labels = o->n - o->ellipsis;
    int ndim = o->t->ndim;
    EINSUM_FAIL_IF(o->ellipsis && labels > ndim,
                   "the number of subscripts in the equation (%d) is more than the number of "
                   "dimensions (%d) for operand %d",
                   labels, ndim, i);
    EINSUM_FAIL_IF(!o->ellipsis && labels != ndim,
                   "the number of subscripts in the equation (%d) does not match the number of "
                   "dimensions (%d) for operand %d and no ellipsis was given",
                   labels, ndim, i);
    return true;
}

/* Fails if the output has a label twice, or has a label that no operand has. */
static bool einsum_check_output(const einsum_operand *out, const int count[EINSUM_LABELS]) {
    for (int k = 0; k < RG_MIN(out->n, RG_COUNT(out->given)); k++) {
        int l = out->given[k];
        if (l == EINSUM_ELLIPSIS)
            continue;
        for (int j = 0; j < k; j++)
            EINSUM_FAIL_IF(out->given[j] == l,
                           "output subscript %c appears more than once in the output",
                           einsum_letter(l));
        EINSUM_FAIL_IF(!count[l],
                       "output subscript %c does not appear in the equation for any input operand",
                       einsum_letter(l));
    }
    return true;
}

/* Sets the output's labels for an equation without an arrow: first the dims of an ellipsis, then
 * each letter that occurs only once, in the order of the letters' numbers. */
static void einsum_default_output(einsum_operand *out, const int count[EINSUM_LABELS]) {
    out->given[out->n++] = EINSUM_ELLIPSIS;
    for (int l = 0; l < EINSUM_LETTERS; l++)
        if (count[l] == 1)
            out->given[out->n++] = l;
}

/* Reads the whole equation: the labels of the n operands into o[0] to o[n - 1], and the labels of
 * the output into o[n]. */
static bool einsum_parse(const char *equation, einsum_operand *o, int n) {
    int at = 0;
    int covered = 0;
    int count[EINSUM_LABELS] = { 0 };
    einsum_operand *out = o + n;
    if (!einsum_parse_operands(equation, &at, o, n, count, &covered))
        return false;
    for (int i = 0; i < n; i++)
        if (!einsum_check_labels(&o[i], i))
            return false;
    if (equation[at] == '-') {
        at += 2;
        if (!einsum_read(equation, &at, -1, out) || !einsum_check_output(out, count))
            return false;
    } else {
        einsum_default_output(out, count);
    }
    /* The calls for the operands can't fail, since each operand has as many labels as dims. */
    for (int i = 0; i < n; i++)
        einsum_spread(&o[i], o[i].t->ndim - (o[i].n - 1), covered);
    return einsum_spread(out, covered, covered);
}

/* Returns the index of the first dim with this label, or -1 if there is none. */
static int einsum_find(const einsum_dims *d, int label) {
    for (int i = 0; i < d->n; i++)
        if (d->label[i] == label)
            return i;
    return -1;
}

static void einsum_remove(einsum_dims *d, int at) {
    d->n--;
    for (int i = at; i < d->n; i++)
        d->label[i] = d->label[i + 1];
}

/* Fails unless the operand's sizes fit those of the earlier operands. seen[label] is the size that
 * the label has in the earlier operands. The size is 1 if each earlier operand has size 1 or lacks
 * the label. The label may then still be broadcast. Updates seen[]. */
static bool einsum_check_sizes(const einsum_operand *o, int operand, int64_t seen[]) {
    for (int d = 0; d < o->dims.n; d++) {
        int label = o->dims.label[d];
        int first = einsum_find(&o->dims, label);
        int64_t size = o->t->size[d];
        EINSUM_FAIL_IF(first < d && o->t->size[first] != size,
                       "subscript %c is repeated for operand %d but the sizes don't match, %lld "
                       "!= %lld",
                       einsum_letter(label), operand, (long long)size,
                       (long long)o->t->size[first]);
        bool differs = seen[label] != 1 && size != 1 && seen[label] != size;
        EINSUM_FAIL_IF(differs && label >= EINSUM_LETTERS,
                       "dimension %d covered by ellipsis in operand %dhas size %lld which does "
                       "not broadcast with previously seen ellipsis with size %lld for the "
                       "respective dimension",
                       d, operand, (long long)size, (long long)seen[label]);
        EINSUM_FAIL_IF(differs,
                       "subscript %c has size %lld for operand %d which does not broadcast with "
                       "previously seen size %lld",
                       einsum_letter(label), (long long)size, operand, (long long)seen[label]);
        if (size != 1)
            seen[label] = size;
    }
    return true;
}

/* While two dims of the operand have the same label, replaces them by their diagonal. */
static bool einsum_diagonals(einsum_operand *o) {
    int d = 0;
    while (d < o->dims.n) {
        int label = o->dims.label[d];
        int first = einsum_find(&o->dims, label);
        if (first == d) {
            d++;
            continue;
        }
        o->t = rg_diagonal(o->t, 0, first, d);
        if (!o->t)
            return false;
        einsum_remove(&o->dims, d);
        einsum_remove(&o->dims, first);
        o->dims.label[o->dims.n++] = label;
        d = 0;
    }
    return true;
}

/* Sums o's tensor over each label that isn't wanted, unless the label's size is 1: einsum_arrange
 * drops the dims of such labels. As in torch, the dims are permuted to the order of the labels
 * before the sum, which decides the order of the result's dims in memory. */
static bool einsum_sum(einsum_operand *o, const bool wanted[]) {
    rg_dims over = { 0 }, order = { 0 };
    einsum_dims kept = { 0 };
    for (int l = 0; l < EINSUM_LABELS; l++) {
        const int d = einsum_find(&o->dims, l);
        if (d < 0)
            continue;
        if (wanted[l] || o->t->size[d] == 1)
            kept.label[kept.n++] = l;
        else
            over.v[over.n++] = order.n;
        order.v[order.n++] = d;
    }
    if (!over.n)
        return true;
    o->dims = kept;
    o->t = rg_sum_dims(rg_permute_dims(o->t, order), over, false);
    return o->t != NULL;
}

static int64_t einsum_size(const einsum_operand *o, int label) {
    int d = einsum_find(&o->dims, label);
    return d < 0 ? 1 : o->t->size[d];
}

/* Returns o's tensor with its dims in the order of the labels in the n lists. A label that o lacks
 * becomes a dim of size 1. The dims of o that are in no list must have size 1, and are dropped. If
 * `joined` is set, the dims of each list are joined to one. */
static rg_tensor *einsum_arrange(const einsum_operand *o, int n, const einsum_dims *const part[],
                                 bool joined) {
    rg_dims order = { 0 };
    rg_dims shape = { .n = joined ? n : 0, .v = { 1, 1, 1 } };
    einsum_dims left = o->dims;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < part[k]->n; i++) {
            int label = part[k]->label[i];
            int d = einsum_find(&left, label);
            if (joined)
                shape.v[k] *= einsum_size(o, label);
            else
                shape.v[shape.n++] = einsum_size(o, label);
            if (d >= 0) {
                order.v[order.n++] = d;
                left.label[d] = -1;
            }
        }
    for (int d = 0; d < left.n; d++)
        if (left.label[d] >= 0)
            order.v[order.n++] = d;
    return rg_reshape_dims(rg_permute_dims(o->t, order), shape);
}

/* The roles of labels in the product of operands a and b. A label is wanted if the output or a
 * later operand has it. A label that both operands have is in `batch` if it is wanted, and in
 * `both` if it is summed over. A wanted label that only a has is in `left`, and one that only b has
 * is in `right`. `result` has the labels of `batch`, `left` and `right`. The labels of each list
 * are in the order of their numbers. keep_a and keep_b mark the labels that each operand keeps
 * before the product; the operand is summed over its other labels first. */
typedef struct {
    einsum_dims batch, left, right, both, result;
    bool keep_a[EINSUM_LABELS], keep_b[EINSUM_LABELS];
} einsum_roles;

/* Returns the list to which a label belongs, or NULL if the label is summed over before the
 * product. in_a and in_b tell which of the operands a and b have the label. */
static einsum_dims *einsum_role(einsum_roles *r, bool in_a, bool in_b, bool wanted) {
    if (in_a && in_b)
        return wanted ? &r->batch : &r->both;
    if (!wanted)
        return NULL;
    return in_a ? &r->left : &r->right;
}

/* Puts the labels into the lists of *r. A dim of size 1 counts as if the operand lacked it. Fails
 * if the product would have more than RG_MAX_DIMS dims. */
static bool einsum_sort_labels(const einsum_operand *a, const einsum_operand *b,
                               const bool wanted[], einsum_roles *r) {
    *r = (einsum_roles){ .batch.n = 0 };
    for (int l = 0; l < EINSUM_LABELS; l++) {
        bool in_a = einsum_size(a, l) != 1;
        bool in_b = einsum_size(b, l) != 1;
        r->keep_a[l] = wanted[l] || in_b;
        r->keep_b[l] = wanted[l] || in_a;
        if (einsum_find(&a->dims, l) < 0 && einsum_find(&b->dims, l) < 0)
            continue;
        einsum_dims *role = einsum_role(r, in_a, in_b, wanted[l]);
        if (!role)
            continue;
        if (role != &r->both) {
            if (!rgi_check_dims("einsum", r->result.n + 1))
                return false;
            r->result.label[r->result.n++] = l;
        }
        role->label[role->n++] = l;
    }
    return true;
}

/* Returns the matrix product of operands a and b. Its dims have the labels of the batch, of a and
 * of b, in this order, which are written to *labels. */
static rg_tensor *einsum_product(const einsum_operand *a, const einsum_operand *b,
                                 const einsum_roles *r, einsum_dims *labels) {
    const einsum_dims *const parts[] = { &r->batch, &r->left, &r->right };
    const einsum_dims *const of_a[] = { &r->batch, &r->left, &r->both };
    const einsum_dims *const of_b[] = { &r->batch, &r->both, &r->right };
    rg_dims shape = { 0 };
    *labels = (einsum_dims){ 0 };
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < parts[k]->n; i++) {
            const int label = parts[k]->label[i];
            const int64_t size = einsum_size(a, label);
            labels->label[labels->n++] = label;
            shape.v[shape.n++] = size != 1 ? size : einsum_size(b, label);
        }
    rg_tensor *left = einsum_arrange(a, 3, of_a, true);
    rg_tensor *right = einsum_arrange(b, 3, of_b, true);
    return rg_reshape_dims(rg_bmm(left, right), shape);
}

/* Returns the elementwise product of operands a and b, whose dims have these labels. */
static rg_tensor *einsum_elementwise(const einsum_operand *a, const einsum_operand *b,
                                     const einsum_dims *labels) {
    const einsum_dims *const one[] = { labels };
    rg_tensor *left = einsum_arrange(a, 1, one, false);
    return rg_mul(left, einsum_arrange(b, 1, one, false));
}

/* Replaces operand a by the product of operands a and b, summed over the labels that are not
 * wanted. As in torch, this is a matrix product if both operands have such a label. The operands
 * change places in it if all dims that only a has come behind those that only b has. */
static bool einsum_pair(einsum_operand *a, einsum_operand *b, const bool wanted[]) {
    einsum_roles r;
    if (!einsum_sort_labels(a, b, wanted, &r) || !einsum_sum(a, r.keep_a)
        || !einsum_sum(b, r.keep_b))
        return false;
    if (!r.both.n) {
        a->t = einsum_elementwise(a, b, &r.result);
        a->dims = r.result;
        return a->t != NULL;
    }
    if (r.left.n && r.right.n && r.left.label[0] > r.right.label[r.right.n - 1]) {
        RG_SWAP(*a, *b);
        RG_SWAP(r.left, r.right);
    }
    einsum_dims labels;
    a->t = einsum_product(a, b, &r, &labels);
    a->dims = labels;
    return a->t != NULL;
}

static void einsum_want(bool wanted[], const einsum_dims *dims) {
    for (int d = 0; d < dims->n; d++)
        wanted[dims->label[d]] = true;
}

/* Returns the tensor of o, the operand that is left at the end. The tensor is permuted to the
 * output's order of dims, and summed over the labels that the output lacks. `single` is set if the
 * equation has only one operand. After products, a view with the same shape is taken if the tensor
 * was permuted, or if `sums` is set, since torch's graph has that node. */
static rg_tensor *einsum_finish(const einsum_operand *o, const einsum_dims *out, bool single,
                                bool sums) {
    const einsum_dims *dims = &o->dims;
    bool kept[EINSUM_LABELS] = { false };
    bool moved = single;
    rg_dims order = { 0 };
    rg_dims over = { 0 };
    einsum_want(kept, out);
    for (int d = 0; d < out->n; d++)
        order.v[order.n++] = einsum_find(dims, out->label[d]);
    for (int d = 0; d < dims->n; d++) {
        if (kept[dims->label[d]])
            continue;
        over.v[over.n++] = order.n;
        order.v[order.n++] = d;
    }
    for (int d = 0; d < order.n; d++)
        moved = moved || order.v[d] != d;
    rg_tensor *y = moved ? rg_permute_dims(o->t, order) : o->t;
    if (y && (moved || sums) && !single)
        y = rg_view_dims(y, rg_shape(y));
    return y && over.n ? rg_sum_dims(y, over, false) : y;
}

/* Gives the labels new numbers: those of the output, o[n], get the first ones, in the output's
 * order. Returns whether an operand has a label that the output lacks. */
static bool einsum_renumber(einsum_operand *o, int n) {
    int number[EINSUM_LABELS];
    int next = o[n].dims.n;
    bool sums = false;
    for (int l = 0; l < EINSUM_LABELS; l++) {
        const int at = einsum_find(&o[n].dims, l);
        number[l] = at < 0 ? next++ : at;
    }
    for (int i = 0; i <= n; i++)
        for (int d = 0; d < o[i].dims.n; d++) {
            o[i].dims.label[d] = number[o[i].dims.label[d]];
            sums = sums || o[i].dims.label[d] >= o[n].dims.n;
        }
    return sums;
}

/* Returns the sum of products of the n operands o[0] to o[n - 1]. o[n] has the labels of the
 * output. */
static rg_tensor *einsum_run(einsum_operand *o, int n) {
    const einsum_dims *out = &o[n].dims;
    int64_t seen[EINSUM_LABELS];
    for (int l = 0; l < EINSUM_LABELS; l++)
        seen[l] = 1;
    for (int i = 0; i < n; i++)
        if (!einsum_check_sizes(&o[i], i, seen) || !einsum_diagonals(&o[i]))
            return NULL;
    const bool sums = einsum_renumber(o, n);
    for (int i = 1; i < n; i++) {
        bool wanted[EINSUM_LABELS] = { false };
        for (int k = i + 1; k <= n; k++)
            einsum_want(wanted, &o[k].dims);
        if (!einsum_pair(&o[0], &o[i], wanted))
            return NULL;
    }
    return einsum_finish(&o[0], out, n == 1, sums);
}

rg_tensor *rg_einsum_list(const char *equation, rg_list operands) {
    int n = operands.n;
    RG_FAIL_VALUE_IF(n < 1 || !operands.v, "einsum",
                     "einsum(): must specify the equation string and at least one operand, or at "
                     "least one operand and its subscripts list");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !equation, "einsum", "the equation must be a string");
    for (int i = 0; i < n; i++)
        if (!rgi_check(operands.v[i], "einsum"))
            return NULL;
    RG_AS("einsum");
    RG_SCOPE();
    size_t bytes = ((size_t)n + 1) * sizeof(einsum_operand);
    einsum_operand *o = rgi_scope_alloc(bytes);
    if (!o)
        return NULL;
    memset(o, 0, bytes);
    for (int i = 0; i < n; i++)
        o[i].t = operands.v[i];
    return einsum_parse(equation, o, n) ? rg_escape(einsum_run(o, n)) : NULL;
}
