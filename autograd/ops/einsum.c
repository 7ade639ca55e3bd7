/*
 * einsum.c: sums over products, said in labels: "bij,bjk->bik". Repeated labels
 * become diagonals, what only one operand has is summed early, and two operands
 * at a time are contracted by one batched product.
 */
#include "autograd/op.h"

#include <stdio.h>

/* Labels are numbered as torch orders those of an output that isn't given: A to Z,
 * a to z; behind them the dims that an ellipsis covers. */
enum { EINSUM_LETTERS = 52, EINSUM_LABELS = EINSUM_LETTERS + RG_MAX_DIMS, EINSUM_ELLIPSIS = 127 };

typedef struct {
    int n, label[RG_MAX_DIMS];
} einsum_dims; /* the label of each dim */
/* given: as read */
typedef struct {
    rg_tensor *t;
    einsum_dims dims;
    int n, given[64];
    bool ellipsis;
} einsum_operand;

static int einsum_label(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}
static int einsum_letter(int label) { return label < 26 ? 'A' + label : 'a' + label - 26; }

#define EINSUM_REFUSE(condition, ...) RG_FAIL_IF(condition, "einsum", "einsum(): " __VA_ARGS__)

/* The labels from *at to the next comma, arrow or end. Operand -1 is the output. Those beyond the
 * room are only counted. */
static bool einsum_read(const char *equation, int *at, int operand, einsum_operand *o) {
    char where[32];
    snprintf(where, sizeof where, operand < 0 ? "output" : "operand %d", operand);
    for (;; ++*at) {
        const char *c = equation + *at;
        int found = einsum_label(*c);
        if (*c == '\0' || (operand >= 0 && (*c == ',' || (c[0] == '-' && c[1] == '>'))))
            return true;
        if (*c == ' ')
            continue;
        if (*c == '.') {
            EINSUM_REFUSE(o->ellipsis && operand >= 0,
                          "found '.' for %s for which an ellipsis was already found", where);
            EINSUM_REFUSE(o->ellipsis,
                          "found '.' for output but an ellipsis (...) was already found");
            EINSUM_REFUSE(c[1] != '.' || c[2] != '.',
                          "found '.' for %s that is not part of any ellipsis%s", where,
                          operand < 0 ? " (...)" : "");
            o->ellipsis = true;
            *at += 2;
            found = EINSUM_ELLIPSIS;
        }
        EINSUM_REFUSE(found < 0,
                      "invalid subscript given at index %d in the equation string, subscripts "
                      "must be in [a-zA-Z]",
                      *at);
        if (o->n < RG_COUNT(o->given))
            o->given[o->n] = found;
        o->n++;
    }
}

/* The dims of `covered` labels in place of an ellipsis: the last of `all`. */
static bool einsum_spread(einsum_operand *o, int covered, int all) {
    for (int i = 0; i < RG_MIN(o->n, RG_COUNT(o->given)); i++) {
        int l = o->given[i], times = l == EINSUM_ELLIPSIS ? covered : 1;
        if (!rgi_check_dims("einsum", o->dims.n + times))
            return false;
        for (int k = 0; k < times; k++)
            o->dims.label[o->dims.n++] = l == EINSUM_ELLIPSIS ? EINSUM_LETTERS + all - covered + k
                                                              : l;
    }
    return true;
}

/* The operands' labels, and behind the n operands the output's. */
static bool einsum_parse(const char *equation, einsum_operand *o, int n) {
    int at = 0, all = 0, count[EINSUM_LABELS] = { 0 }; /* all: dims that ellipses cover */
    einsum_operand *out = o + n;
    for (int i = 0; i < n; i++, at++) {
        if (!einsum_read(equation, &at, i, &o[i]))
            return false;
        for (int k = 0; k < RG_MIN(o[i].n, RG_COUNT(o->given)); k++)
            if (o[i].given[k] != EINSUM_ELLIPSIS)
                count[o[i].given[k]]++;
        if (o[i].ellipsis)
            all = RG_MAX(all, o[i].t->ndim - (o[i].n - 1));
        EINSUM_REFUSE(equation[at] == ',' && i + 1 == n,
                      "fewer operands were provided than specified in the equation");
        EINSUM_REFUSE(equation[at] != ',' && i + 1 < n,
                      "more operands were provided than specified in the equation");
    }
    for (int i = 0; i < n; i++) {
        int labels = o[i].n - o[i].ellipsis, ndim = o[i].t->ndim;
        EINSUM_REFUSE(o[i].ellipsis ? labels > ndim : labels != ndim,
                      "the number of subscripts in the "
                      "equation (%d%s (%d) for operand %d%s",
                      labels,
                      o[i].ellipsis ? ") is more than the number of dimensions"
                                    : ") does not match the number of dimensions",
                      ndim, i, o[i].ellipsis ? "" : " and no ellipsis was given");
    }
    if (equation[--at] == '-') {
        at += 2;
        if (!einsum_read(equation, &at, -1, out))
            return false;
        for (int k = 0; k < RG_MIN(out->n, RG_COUNT(out->given)); k++) {
            int l = out->given[k];
            if (l == EINSUM_ELLIPSIS)
                continue;
            for (int j = 0; j < k; j++)
                EINSUM_REFUSE(out->given[j] == l,
                              "output subscript %c appears more than once in the output",
                              einsum_letter(l));
            EINSUM_REFUSE(!count[l],
                          "output subscript %c does not appear in the equation for any input "
                          "operand",
                          einsum_letter(l));
        }
    } else {
        out->given[out->n++] = EINSUM_ELLIPSIS;
        for (int l = 0; l < EINSUM_LETTERS; l++)
            if (count[l] == 1)
                out->given[out->n++] = l;
    }
    for (int i = 0; i < n; i++)
        if (!einsum_spread(&o[i], o[i].t->ndim - (o[i].n - 1), all))
            return false;
    return einsum_spread(out, all, all);
}

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

/* Checks an operand's sizes against those seen so far; a repeated label becomes a diagonal. */
static bool einsum_diagonals(einsum_operand *o, int operand, int64_t seen[]) {
    for (int d = 0; d < o->dims.n; d++) {
        int label = o->dims.label[d], first = einsum_find(&o->dims, label);
        int64_t size = o->t->size[d];
        EINSUM_REFUSE(first < d && o->t->size[first] != size,
                      "subscript %c is repeated for operand %d but "
                      "the sizes don't match, %lld != %lld",
                      einsum_letter(label), operand, (long long)size, (long long)o->t->size[first]);
        EINSUM_REFUSE(
            seen[label] != 1 && size != 1 && seen[label] != size && label >= EINSUM_LETTERS,
            "dimension %d covered by ellipsis in operand %dhas size %lld which does not broadcast "
            "with previously seen ellipsis with size %lld for the respective dimension",
            d, operand, (long long)size, (long long)seen[label]);
        EINSUM_REFUSE(seen[label] != 1 && size != 1 && seen[label] != size,
                      "subscript %c has size %lld for "
                      "operand %d which does not broadcast with previously seen size %lld",
                      einsum_letter(label), (long long)size, operand, (long long)seen[label]);
        if (size != 1)
            seen[label] = size;
    }
    for (int d = 0; d < o->dims.n; d++) {
        int label = o->dims.label[d], first = einsum_find(&o->dims, label);
        if (first == d)
            continue;
        if (!(o->t = rg_diagonal(o->t, 0, first, d)))
            return false;
        einsum_remove(&o->dims, d);
        einsum_remove(&o->dims, first);
        o->dims.label[o->dims.n++] = label;
        d = -1;
    }
    return true;
}

/* o without the labels that are not wanted, whose dims are summed over. */
static bool einsum_sum(einsum_operand *o, const bool wanted[]) {
    rg_dims over = { 0 };
    for (int d = o->dims.n - 1; d >= 0; d--)
        if (!wanted[o->dims.label[d]]) {
            over.v[over.n++] = d;
            einsum_remove(&o->dims, d);
        }
    if (over.n)
        o->t = rg_sum_dims(o->t, over, false);
    return o->t != NULL;
}

static int64_t einsum_size(const einsum_operand *o, int label) {
    int d = einsum_find(&o->dims, label);
    return d < 0 ? 1 : o->t->size[d];
}

/* o's dims in the order of the labels in n parts, then of what is left, which has size 1; joined:
 * each part as one dim. */
static rg_tensor *einsum_arrange(const einsum_operand *o, int n, const einsum_dims *const part[],
                                 bool joined) {
    rg_dims order = { 0 }, shape = { .n = joined ? n : 0, .v = { 1, 1, 1 } };
    einsum_dims left = o->dims;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < part[k]->n; i++) {
            int label = part[k]->label[i], d = einsum_find(&left, label);
            if (joined)
                shape.v[k] *= einsum_size(o, label);
            else
                shape.v[shape.n++] = einsum_size(o, label);
            if (d >= 0)
                order.v[order.n++] = d, left.label[d] = -1;
        }
    for (int d = 0; d < left.n; d++)
        if (left.label[d] >= 0)
            order.v[order.n++] = d;
    return rg_reshape_dims(rg_permute_dims(o->t, order), shape);
}

/* a with b; wanted: the labels that the output or an operand to come has; last: what is to come
 * out, or NULL. */
static bool einsum_pair(einsum_operand *a, einsum_operand *b, const bool wanted[],
                        const einsum_dims *last) {
    einsum_dims batch = { 0 }, left = { 0 }, right = { 0 }, both = { 0 }, all = { 0 };
    bool keep_a[EINSUM_LABELS], keep_b[EINSUM_LABELS], contracts = false;
    int kept = 0;
    rg_dims shape = { 0 };
    for (int l = 0; l < EINSUM_LABELS; l++) {
        int64_t size_a = einsum_size(a, l), size_b = einsum_size(b, l);
        bool there = einsum_find(&a->dims, l) >= 0 || einsum_find(&b->dims, l) >= 0;
        keep_a[l] = wanted[l] || size_b != 1;
        keep_b[l] = wanted[l] || size_a != 1;
        contracts |= there && !wanted[l];
        if (!there)
            continue;
        einsum_dims *kind = size_a != 1 && size_b != 1 ? wanted[l] ? &batch : &both
                            : !wanted[l]               ? NULL
                            : size_a != 1              ? &left
                                                       : &right;
        if (kind)
            kind->label[kind->n++] = l;
        if (kind && kind != &both && kept++ == RG_MAX_DIMS)
            return rgi_check_dims("einsum", kept);
    }
    if (!einsum_sum(a, keep_a) || !einsum_sum(b, keep_b))
        return false;
    const einsum_dims *const parts[] = { &batch, &left, &right },
                             *const of_a[] = { &batch, &left, &both },
                             *const of_b[] = { &batch, &both, &right }, *const one[] = { &all };
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < parts[k]->n; i++) {
            int l = all.label[all.n++] = parts[k]->label[i];
            shape.v[shape.n++] = einsum_size(a, l) != 1 ? einsum_size(a, l) : einsum_size(b, l);
        }
    if (contracts) {
        rg_tensor *product = rg_bmm(einsum_arrange(a, 3, of_a, true),
                                    einsum_arrange(b, 3, of_b, true));
        a->t = rg_reshape_dims(product, shape);
    } else {
        if (last)
            all = *last;
        a->t = rg_mul(einsum_arrange(a, 1, one, false), einsum_arrange(b, 1, one, false));
    }
    a->dims = all;
    return a->t != NULL;
}

static void einsum_want(bool wanted[], const einsum_dims *dims) {
    for (int d = 0; d < dims->n; d++)
        wanted[dims->label[d]] = true;
}

/* The n operands' sum of products; what comes out is described behind them. */
static rg_tensor *einsum_run(einsum_operand *o, int n) {
    const einsum_dims *out = &o[n].dims, *dims = &o[0].dims;
    int64_t seen[EINSUM_LABELS];
    for (int l = 0; l < EINSUM_LABELS; l++)
        seen[l] = 1;
    for (int i = 0; i < n; i++)
        if (!einsum_diagonals(&o[i], i, seen))
            return NULL;
    for (int i = 1; i < n; i++) {
        bool wanted[EINSUM_LABELS] = { false };
        for (int k = i + 1; k <= n; k++)
            einsum_want(wanted, &o[k].dims);
        if (!einsum_pair(&o[0], &o[i], wanted, i == n - 1 ? out : NULL))
            return NULL;
    }
    bool kept[EINSUM_LABELS] = { false }, moved = n == 1;
    rg_dims order = { 0 }, over = { 0 };
    einsum_want(kept, out);
    for (int d = 0; d < out->n; d++)
        order.v[order.n++] = einsum_find(dims, out->label[d]);
    for (int d = 0; d < dims->n; d++)
        if (!kept[dims->label[d]])
            over.v[over.n++] = order.n, order.v[order.n++] = d;
    for (int d = 0; d < order.n; d++)
        moved |= order.v[d] != d;
    rg_tensor *y = moved ? rg_permute_dims(o[0].t, order) : o[0].t;
    /* which is how torch's ends */
    if (y && moved && n > 1)
        y = rg_reshape_dims(y, rg_shape(y));
    return y && over.n ? rg_sum_dims(y, over, false) : y;
}

rg_tensor *rg_einsum_list(const char *equation, rg_list operands) {
    int n = operands.n;
    RG_FAIL_VALUE_IF(n < 1 || !operands.v, "einsum",
                     "einsum(): must specify the equation string and at least "
                     "one operand, or at least one operand and its subscripts list");
    RG_FAIL_AS_IF(RG_TYPE_ERROR, !equation, "einsum", "the equation must be a string");
    for (int i = 0; i < n; i++)
        if (!rgi_check(operands.v[i], "einsum"))
            return NULL;
    RG_AS("einsum");
    RG_SCOPE();
    size_t bytes = ((size_t)n + 1) * sizeof(einsum_operand);
    einsum_operand *o = (einsum_operand *)(void *)rgi_own_string(bytes);
    if (!o)
        return NULL;
    memset(o, 0, bytes);
    for (int i = 0; i < n; i++)
        o[i].t = operands.v[i];
    return einsum_parse(equation, o, n) ? rg_escape(einsum_run(o, n)) : NULL;
}
