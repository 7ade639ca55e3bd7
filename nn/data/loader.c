/*
 * loader.c: returns batches of a list of tensors, in the order of torch's DataLoader and with the
 * same random draws. Also contains rg_random_split.
 */
#include "data.h"

#include "load_loader.h"
#include "tensor/text/python_text.h"
#include "nn/state.h"
#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/opaque.h"
#include "tensor/random/random.h"
#include "tensor/messages/warning.h"

#include <math.h>
#include <string.h>

struct rg_data_loader {
    rg_handle handle;
    rg_data_loader_options options;
    int n_tensors;
    int64_t n;        /* The number of items. */
    rg_tensor *order; /* The order of the current epoch. NULL between epochs. */
    int64_t position; /* The number of items that this epoch has returned. */
    rg_tensor *v[];
};

static size_t loader_bytes(int n) {
    return sizeof(rg_data_loader) + (size_t)n * sizeof(rg_tensor *);
}

/* ---- making and freeing a loader ------------------------------------------------------ */

/* Returns the number of items: the size of the first dim. Fails, and returns -1, if it isn't the
 * same in all tensors, if a tensor has no dims, or if there are no tensors. */
static int64_t count_items(rg_list tensors, const char *op) {
    int64_t n = -1;
    if (!rgi_given_list(tensors.n, tensors.v, op))
        return -1;
    for (int i = 0; i < tensors.n; i++) {
        rg_tensor *t = tensors.v[i];
        if (!rg_check_tensor(t, op))
            return -1;
        if (rg_ndim(t) == 0 || (n >= 0 && rg_size(t, 0) != n)) {
            rgi_fail(RG_VALUE_ERROR, op, "Size mismatch between tensors");
            return -1;
        }
        n = rg_size(t, 0);
    }
    if (n < 0)
        rgi_fail(RG_VALUE_ERROR, op, "expected a tensor at least");
    return n;
}

rg_data_loader *rg_data_loader_new_with(rg_list tensors, rg_data_loader_options o) {
    const char *op = "data_loader_new";
    const int64_t n = count_items(tensors, op);
    if (n < 0)
        return NULL;
    RG_FAIL_VALUE_IF(o.batch_size <= 0, op,
                     "batch_size should be a positive integer value, but got batch_size=%lld",
                     (long long)o.batch_size);
    RG_FAIL_VALUE_IF(o.shuffle && n == 0, op,
                     "num_samples should be a positive integer value, but got num_samples=0");
    rg_data_loader *l = rgi_alloc(loader_bytes(tensors.n), RG_MEM_OTHER);
    if (!l)
        return NULL;
    *l = (rg_data_loader){
        .handle = RG_NEW_HANDLE(DATA_LOADER), .options = o, .n_tensors = tensors.n, .n = n
    };
    for (int i = 0; i < tensors.n; i++) {
        l->v[i] = NULL;
        rgi_set_reference(&l->v[i], tensors.v[i]);
    }
    return l;
}

void rg_data_loader_free(rg_data_loader *l) {
    if (!l || !rgi_handle_given(l, "data_loader_free", RG_HANDLE_DATA_LOADER))
        return;
    for (int i = 0; i < l->n_tensors; i++)
        rgi_release_as(l->v[i], RG_LOADER_FREED);
    rgi_set_reference(&l->order, NULL);
    rgi_free_handle(&l->handle, loader_bytes(l->n_tensors));
}

int64_t rg_data_loader_len(const rg_data_loader *l) {
    if (!rgi_handle_given(l, "data_loader_len", RG_HANDLE_DATA_LOADER))
        return rgi_failed_count();
    const int64_t whole = l->n / l->options.batch_size;
    return whole + (!l->options.drop_last && l->n % l->options.batch_size);
}

/* ---- drawing the order of an epoch, and returning its batches ------------------------- */

/* Draws a seed, as torch.empty((), dtype=torch.int64).random_() does. Returns false on failure. */
static bool draw_seed(rg_generator *g, uint64_t *seed) {
    if (!rgi_generator_lock(g, "data_loader_next"))
        return false;
    rgi_draw_pairs(g, seed, 1);
    rgi_generator_unlock(g);
    *seed &= INT64_MAX;
    return true;
}

/* Returns a random order of n items for a loader without a generator of its own, or NULL on
 * failure. As in torch, the default generator only draws the seed of a second generator, which
 * draws the order. */
static rg_tensor *order_by_default(int64_t n) {
    uint64_t seed;
    if (!draw_seed(rg_default_generator(), &seed))
        return NULL;
    rg_generator *g = rg_generator_new(seed);
    rg_tensor *order = g ? rg_randperm_with(n, g) : NULL;
    rg_generator_free(g);
    return order;
}

/* Returns the order of the next epoch: 0, 1, .. or, if the loader shuffles, a random order. In both
 * cases, numbers are drawn from g. Returns NULL on failure. */
static rg_tensor *draw_order(const rg_data_loader *l, rg_generator *g) {
    uint64_t unused;
    /* Torch's iterator draws a seed for its worker processes. The draw is repeated here, so that
     * the generator is in the same state afterwards as in torch. */
    if (!draw_seed(g, &unused))
        return NULL;
    if (!l->options.shuffle)
        return rg_arange(l->n);
    return l->options.generator ? rg_randperm_with(l->n, g) : order_by_default(l->n);
}

/* Draws the order of a new epoch. On failure returns false, and restores the state of the
 * generator, so that the next call draws the same order. */
static bool begin_epoch(rg_data_loader *l) {
    RG_SCOPE();
    rg_generator *g = l->options.generator ? l->options.generator : rg_default_generator();
    rg_tensor *before = rg_generator_state(g);
    rg_tensor *order = before ? draw_order(l, g) : NULL;
    if (before && !order)
        rg_generator_set_state(g, before);
    if (!order)
        return false;
    rgi_set_reference(&l->order, order);
    l->position = 0;
    return true;
}

/* In torch, a sampler that is asked for an item after the last one draws a new order, which isn't
 * used. Makes the same draw if the loader shuffles with a generator of its own. Returns false on
 * failure. */
static bool run_out(const rg_data_loader *l) {
    RG_SCOPE();
    return !l->options.shuffle || !l->options.generator
           || rg_randperm_with(l->n, l->options.generator);
}

/* Copies the next items of each tensor into the batch, which the caller's scope owns. Returns false
 * on failure. */
static bool take_items(rg_data_loader *l, int64_t items, rg_tensor **batch) {
    RG_SCOPE();
    rg_tensor *at = rg_narrow(l->order, 0, l->position, items);
    for (int i = 0; i < l->n_tensors; i++) {
        batch[i] = rg_index_select(l->v[i], 0, at);
        if (!batch[i])
            return false;
    }
    for (int i = 0; i < l->n_tensors; i++)
        rg_escape(batch[i]);
    return true;
}

rg_list rg_data_loader_next(rg_data_loader *l) {
    RG_AS("data_loader_next");
    if (!rgi_may_do_once("data_loader_next")
        || !rgi_handle_given(l, "data_loader_next", RG_HANDLE_DATA_LOADER)
        || (!l->order && !begin_epoch(l)))
        return rgi_list_failed;
    const int64_t whole = l->options.batch_size, left = l->n - l->position;
    const int64_t items = RG_MIN(whole, left);
    const bool ends = left == 0 || (left < whole && l->options.drop_last);
    rg_tensor **batch = rgi_scope_alloc((size_t)l->n_tensors * sizeof *batch);
    if (!batch || (!ends && !take_items(l, items, batch)))
        return rgi_list_failed;
    /* In torch, the sampler is asked once in each epoch for an item although none is left. If the
     * last batch isn't full, this happens while that batch is filled, and otherwise when a further
     * batch is asked for. */
    const bool runs_out = ends ? l->options.drop_last || l->n % whole == 0 : items < whole;
    if (runs_out && !run_out(l)) {
        for (int i = 0; i < l->n_tensors && !ends; i++)
            rg_drop(batch[i]);
        return rgi_list_failed;
    }
    if (!ends) {
        l->position += items;
        return (rg_list){ l->n_tensors, batch };
    }
    rgi_set_reference(&l->order, NULL);
    l->position = 0;
    return (rg_list){ 0, batch };
}

/* ---- state_dict and load_state_dict --------------------------------------------------- */

static const char *const loader_keys[] = { "position", "order", "generator" };

rg_named_list rg_data_loader_state_dict(rg_data_loader *l) {
    RG_AS("data_loader_state_dict");
    const rg_named_list failed = { .n = -1 };
    if (!rgi_may_do_once("data_loader_state_dict")
        || !rgi_handle_given(l, "data_loader_state_dict", RG_HANDLE_DATA_LOADER))
        return failed;
    rg_named *v = rgi_scope_alloc(sizeof *v * RG_COUNT(loader_keys));
    if (!v)
        return failed;
    RG_SCOPE();
    const int64_t none = -1;
    const bool own = l->options.generator;
    /* The tensors are copies. Their shapes never change, so that values from a file can be copied
     * into them. */
    rg_tensor *value[] = {
        rg_from_int64(l->order ? &l->position : &none, RG_DIMS()),
        l->order ? rg_clone(l->order) : rg_zeros_dims(RG_DIMS(l->n), RG_INT64),
        own ? rg_generator_state(l->options.generator) : NULL,
    };
    const int n = own ? 3 : 2;
    for (int i = 0; i < n; i++) {
        v[i] = (rg_named){ loader_keys[i], value[i] };
        if (!value[i])
            return failed;
    }
    for (int i = 0; i < n; i++)
        rg_escape(value[i]);
    return (rg_named_list){ n, v };
}

/* Returns the dictionary's tensor with this key. Fails, and returns NULL, if there is none or it
 * isn't int64 with `ndim` dims. */
static rg_tensor *loader_value(rg_named_list dict, const char *key, int ndim) {
    const char *op = "data_loader_load_state_dict";
    for (int i = 0; i < dict.n; i++) {
        rg_tensor *t = dict.v[i].tensor;
        if (strcmp(dict.v[i].name, key) != 0)
            continue;
        if (!rg_check_tensor(t, op))
            return NULL;
        RG_FAIL_VALUE_IF(!rgi_is_index(rg_dtype_of(t)) || rg_ndim(t) != ndim, op,
                         "\"%s\" is no int64 tensor with %d dims", key, ndim);
        return rg_contiguous(t);
    }
    return rgi_fail(RG_VALUE_ERROR, op, "the state has no \"%s\"", key);
}

/* Returns whether `order` contains each index from 0 to n - 1 exactly once. Fails if not. */
static bool is_permutation(const int64_t *order, int64_t n) {
    RG_SCOPE();
    char *seen = rgi_scope_alloc((size_t)n);
    if (!seen)
        return false;
    memset(seen, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (order[i] < 0 || order[i] >= n || seen[order[i]]++)
            return rgi_fail(RG_VALUE_ERROR, "data_loader_load_state_dict",
                            "\"order\" must have each index from 0 to %lld once, but %lld %s",
                            (long long)n - 1, (long long)order[i],
                            order[i] < 0 || order[i] >= n ? "isn't one of them" : "comes twice");
    return true;
}

/* Fails and returns false unless this loader can be at this position in an order of `items` items.
 * Between two epochs (position -1) the order can also be empty. */
static bool place_fits(const rg_data_loader *l, int64_t position, int64_t items, const char *op) {
    const int64_t batch = l->options.batch_size;
    const bool whole = position == l->n || position % batch == 0;
    RG_FAIL_VALUE_IF(position < -1 || position > l->n || (position >= 0 && !whole)
                         || (items != l->n && (position >= 0 || items != 0)),
                     op, "position %lld in an order of %lld doesn't fit %lld items by %lld",
                     (long long)position, (long long)items, (long long)l->n, (long long)batch);
    return true;
}

bool rgi_random_state_fits(rg_tensor *state) {
    rg_generator *probe = rg_generator_new(0);
    const bool ok = probe && rg_generator_set_state(probe, state);
    rg_generator_free(probe);
    return ok;
}

bool rgi_loader_load_begin(rg_loader_load *load, rg_data_loader *l, rg_named_list dict) {
    const char *op = "data_loader_load_state_dict";
    if (!rgi_handle_given(l, op, RG_HANDLE_DATA_LOADER) || !rgi_state_given(dict, op))
        return false;
    *load = (rg_loader_load){ .loader = l };
    rg_tensor *place = loader_value(dict, loader_keys[0], 0);
    load->order = place ? loader_value(dict, loader_keys[1], 1) : NULL;
    if (load->order && l->options.generator)
        load->generator = loader_value(dict, loader_keys[2], 1);
    if (!load->order || (l->options.generator && !load->generator))
        return false;
    load->position = rg_item_int(place);
    const int64_t items = rg_size(load->order, 0);
    if (!place_fits(l, load->position, items, op)
        || (load->position >= 0 && !is_permutation(rgi_data(load->order), items))
        || (load->generator && !rgi_random_state_fits(load->generator)))
        return false;
    /* The program may write to the tensor in the dictionary later. */
    load->order = rg_clone(load->order);
    return load->order;
}

bool rgi_loader_load_end(const rg_loader_load *load) {
    rg_data_loader *l = load->loader;
    if (load->generator && !rg_generator_set_state(l->options.generator, load->generator))
        return false;
    rgi_set_reference(&l->order, load->position < 0 ? NULL : load->order);
    l->position = load->position < 0 ? 0 : load->position;
    return true;
}

bool rg_data_loader_load_state_dict(rg_data_loader *l, rg_named_list dict) {
    RG_AS("data_loader_load_state_dict");
    RG_SCOPE();
    rg_loader_load load;
    return rgi_loader_load_begin(&load, l, dict) && rgi_loader_load_end(&load);
}

/* ---- random_split --------------------------------------------------------------------- */

static const char wrong_sum[] =
    "Sum of input lengths does not equal the length of the input dataset!";

/* Sets sizes[i] to floor(n * lengths[i]). The items that are left over go to the first parts, one
 * to each. Fails if a length isn't from 0 to 1, or if the parts would have more than n items
 * together. */
static bool sizes_of_fractions(int64_t n, int parts, const double *lengths, int64_t *sizes) {
    int64_t left = n;
    for (int i = 0; i < parts; i++) {
        RG_FAIL_VALUE_IF(!(lengths[i] >= 0 && lengths[i] <= 1), "random_split",
                         "Fraction at index %d is not between 0 and 1", i);
        sizes[i] = (int64_t)floor((double)n * lengths[i]);
        left -= sizes[i];
    }
    RG_FAIL_VALUE_IF(left < 0, "random_split", "%s", wrong_sum);
    for (int64_t i = 0; i < left; i++)
        sizes[i % parts]++;
    for (int i = 0; i < parts; i++)
        if (sizes[i] == 0)
            rgi_warn("random_split",
                     "Length of split at index %d is 0. This might result in an empty dataset.", i);
    return true;
}

/* Fails unless each length is a whole number from 0 on. The sum alone doesn't show this: -1 + 4 is
 * 3, and so is 1.5 + 1.5. */
static bool are_lengths(int parts, const double *lengths) {
    for (int i = 0; i < parts; i++)
        RG_FAIL_VALUE_IF(!(lengths[i] >= 0 && floor(lengths[i]) == lengths[i]), "random_split",
                         "the length at index %d is %s, but expected whole numbers from 0 on, or "
                         "fractions whose sum is 1",
                         i, rgi_python_float(lengths[i]));
    return true;
}

static bool sizes_of_lengths(int64_t n, int parts, const double *lengths, int64_t *sizes) {
    double sum = 0;
    for (int i = 0; i < parts; i++)
        sum += lengths[i];
    RG_FAIL_VALUE_IF(sum != (double)n, "random_split", "%s", wrong_sum);
    if (!are_lengths(parts, lengths))
        return false;
    int64_t left = n;
    for (int i = 0; i < parts; i++) {
        RG_FAIL_VALUE_IF(lengths[i] > (double)left, "random_split", "%s", wrong_sum);
        sizes[i] = (int64_t)lengths[i];
        left -= sizes[i];
    }
    RG_FAIL_VALUE_IF(left != 0, "random_split", "%s", wrong_sum);
    return true;
}

rg_list(rg_random_split_with)(int64_t n, int parts, const double *lengths, rg_generator *g) {
    RG_AS("random_split");
    if (!rgi_given_list(parts, lengths, "random_split"))
        return rgi_list_failed;
    rg_tensor **v = rgi_scope_alloc((size_t)parts * sizeof *v);
    int64_t *sizes = rgi_scope_alloc((size_t)parts * sizeof *sizes);
    if (!v || !sizes)
        return rgi_list_failed;
    double sum = 0;
    for (int i = 0; i < parts; i++)
        sum += lengths[i];
    const bool fractions = fabs(sum - 1) <= 1e-9;
    if (!(fractions ? sizes_of_fractions : sizes_of_lengths)(n, parts, lengths, sizes))
        return rgi_list_failed;
    RG_SCOPE();
    rg_tensor *order = rg_randperm_with(n, g);
    if (!order)
        return rgi_list_failed;
    int64_t from = 0;
    for (int i = 0; i < parts; from += sizes[i++]) {
        v[i] = rg_clone(rg_narrow(order, 0, from, sizes[i]));
        if (!v[i])
            return rgi_list_failed;
    }
    for (int i = 0; i < parts; i++)
        rg_escape(v[i]);
    return (rg_list){ parts, v };
}
