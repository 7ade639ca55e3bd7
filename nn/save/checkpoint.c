/*
 * checkpoint.c: converts the parts of a training run to one list of named tensors, and back.
 * safetensors.c writes and reads the list.
 */
#include "checkpoint.h"

#include "nn/data/data.h"
#include "checkpoint_given.h"
#include "nn/data/load_loader.h"
#include "nn/optim/optim_state.h"
#include "nn/state.h"
#include "tensor/files/safetensors.h"
#include "tensor/handle.h"
#include "tensor/load.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"

#include <string.h>

/* The parts of a run, and the prefixes that their names have in the file. For the generator's state
 * the prefix is the whole name. */
typedef enum { MODEL, OPTIM, TENSORS, NUMBERS, LOADER, RANDOM, PARTS } part;
static const char *const part_names[PARTS] = { "model.",   "optim.",  "tensors.",
                                               "numbers.", "loader.", "random" };

/* Keys in the file's metadata. The value for kind_key is the string `kind`. The values for the
 * other two keys name the classes of the optimizer and of its schedules. */
static const char *const kind_key = "regard", *const kind = "checkpoint";
static const char *const optim_key = "optim", *const schedules_key = "schedules";

/* ---- checks of the parts of a run ----------------------------------------------------- */

static rg_generator *generator_of(const rg_training *run) {
    return run->generator ? run->generator : rg_default_generator();
}

bool rgi_checkpoint_given(const rg_training *run, const char *op) {
    if (!rgi_handle_given(generator_of(run), op, RG_HANDLE_GENERATOR)
        || !rgi_given_list(run->tensors.n, run->tensors.v, op)
        || !rgi_given_list(run->numbers.n, run->numbers.v, op)
        || (run->model && !rgi_module_given(run->model, op))
        || (run->optim && !rgi_handle_given(run->optim, op, RG_HANDLE_OPTIM))
        || (run->loader && !rgi_handle_given(run->loader, op, RG_HANDLE_DATA_LOADER)))
        return false;
    for (int i = 0; i < run->tensors.n; i++)
        if (!rgi_given(run->tensors.v[i].name, op, "a name")
            || !rg_check_tensor(run->tensors.v[i].tensor, op))
            return false;
    for (int i = 0; i < run->numbers.n; i++)
        if (!rgi_given(run->numbers.v[i].name, op, "a name")
            || !rgi_given(run->numbers.v[i].value, op, "a number's place"))
            return false;
    return true;
}

/* Returns the values of run->numbers as tensors without dims, with the numbers' names. The scope
 * owns the list. On failure .n is -1. */
static rg_named_list number_tensors(const rg_training *run) {
    const rg_named_list failed = { .n = -1 };
    rg_named *v = rgi_scope_alloc((size_t)run->numbers.n * sizeof *v);
    if (!v)
        return failed;
    for (int i = 0; i < run->numbers.n; i++) {
        const rg_number *number = &run->numbers.v[i];
        v[i] = (rg_named){ number->name, rg_scalar_dtype(*number->value, RG_FLOAT64) };
        if (!v[i].tensor)
            return failed;
    }
    return (rg_named_list){ run->numbers.n, v };
}

/* ---- saving a checkpoint -------------------------------------------------------------- */

/* The n tensors of a checkpoint. `v` has room for all of them. */
typedef struct {
    rg_named *v;
    int n;
} parts_list;

/* Appends a tensor, with the prefix of its part before its name. If memory runs out for the name,
 * or the tensor is NULL, writing the file will fail. */
static void add_part(parts_list *all, part which, const char *name, rg_tensor *t) {
    rg_text text = { 0 };
    rgi_text_add(&text, "%s%s", part_names[which], name);
    const char *whole = rgi_text_own(&text);
    all->v[all->n++] = (rg_named){ whole, t };
}

static void add_list(parts_list *all, part which, rg_named_list list) {
    for (int i = 0; i < list.n; i++)
        add_part(all, which, list.v[i].name, list.v[i].tensor);
}

/* Appends the tensors of the model. A tensor that the state_dict has under several names is
 * appended once, under the first name. */
static bool add_model(parts_list *all, rg_named_list state) {
    rg_map known = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < state.n; i++) {
        if (rgi_map_address(&known, state.v[i].tensor) >= 0)
            continue;
        ok = rgi_map_put_address(&known, state.v[i].tensor, i);
        add_part(all, MODEL, state.v[i].name, state.v[i].tensor);
    }
    rgi_map_free(&known);
    return ok;
}

rg_named_list rgi_checkpoint_tensors(const rg_training *run) {
    const rg_named_list failed = { .n = -1 };
    rg_named_list model = { 0 }, optim = { 0 }, loader = { 0 };
    if (run->model)
        model = rg_state_dict(run->model);
    if (run->optim)
        optim = rg_optim_state_dict(run->optim);
    if (run->loader)
        loader = rg_data_loader_state_dict(run->loader);
    const rg_named_list numbers = number_tensors(run);
    rg_tensor *random = rg_generator_state(generator_of(run));
    if (model.n < 0 || optim.n < 0 || loader.n < 0 || numbers.n < 0)
        return failed;
    const int most = model.n + optim.n + run->tensors.n + numbers.n + loader.n + 1;
    parts_list all = { .v = rgi_scope_alloc((size_t)most * sizeof *all.v) };
    if (!all.v || !add_model(&all, model))
        return failed;
    add_list(&all, OPTIM, optim);
    add_list(&all, TENSORS, run->tensors);
    add_list(&all, NUMBERS, numbers);
    add_list(&all, LOADER, loader);
    add_part(&all, RANDOM, "", random);
    return (rg_named_list){ all.n, all.v };
}

bool rg_save_checkpoint(const char *path, rg_training run) {
    const char *op = "save_checkpoint";
    RG_AS(op);
    RG_SCOPE();
    if (!rgi_checkpoint_given(&run, op) || (run.optim && !rgi_optim_can_be_saved(run.optim, op)))
        return false;
    const rg_named_list all = rgi_checkpoint_tensors(&run);
    rg_metadata_pair pairs[] = {
        { "format", "pt" }, { kind_key, kind }, { NULL, NULL }, { NULL, NULL }
    };
    rg_metadata metadata = { 2, pairs };
    if (run.optim) {
        pairs[metadata.n++] = (rg_metadata_pair){ optim_key, rgi_optim_kind(run.optim) };
        pairs[metadata.n++] = (rg_metadata_pair){ schedules_key,
                                                  rgi_optim_schedule_kinds(run.optim) };
    }
    return all.n >= 0 && rgi_safetensors_write(op, all, metadata, path);
}

/* ---- loading a checkpoint ------------------------------------------------------------- */

/* A checkpoint that is being loaded. part[p] has the file's tensors of part p, such as MODEL, under
 * their names without the prefix of the part. `model`, `optim` and `loader` are what the first step
 * of loading these parts has prepared for the second one. */
typedef struct {
    const char *op, *path;
    rg_dictionary part[PARTS];
    rg_module_load model;
    rg_optim_load *optim;
    rg_loader_load loader;
} checkpoint_parts;

static bool refuse(const checkpoint_parts *c, const char *what, part which, const char *name) {
    return rgi_fail(RG_RUNTIME_ERROR, c->op, "%s \"%s%s\"", what, part_names[which],
                    RG_SHOWN(name));
}

/* Returns whether the metadata have the value `mine` under this key. Fails if they have another
 * value. Files of older versions lack the key; for them, returns true. Returns false if `mine` is
 * NULL, because memory ran out. */
static bool kind_fits(const rg_safetensors *file, const char *key, const char *what,
                      const char *mine) {
    const char *is = rgi_safetensors_text(file, key);
    if (!mine || !is || !strcmp(is, mine))
        return mine;
    return rgi_fail(RG_RUNTIME_ERROR, file->file.op, "'%s': it is of %s %s, and not of %s",
                    file->file.path, what, RG_SHOWN(is), mine);
}

static bool kinds_fit(const rg_safetensors *file, const rg_optim *o) {
    return !o
           || (kind_fits(file, optim_key, "optimizer", rgi_optim_kind(o))
               && kind_fits(file, schedules_key, "schedules", rgi_optim_schedule_kinds(o)));
}

/* Reads all tensors of a checkpoint. Fails if the file is no checkpoint, or if its optimizer or
 * schedules are of other classes than the run's. On failure .n is -1. */
static rg_named_list read_checkpoint(const checkpoint_parts *c, const rg_training *run) {
    rg_named_list all = { .n = -1 };
    rg_safetensors file;
    if (!rgi_safetensors_open(&file, c->op, c->path))
        return all;
    const char *is = rgi_safetensors_text(&file, kind_key);
    if (!is || strcmp(is, kind))
        rgi_file_refuse(&file.file, "it is no checkpoint: rg_load_file and rg_module_load read it");
    else if (kinds_fit(&file, run->optim))
        all = rgi_safetensors_read_all(&file);
    rgi_safetensors_close(&file);
    return all;
}

/* Returns the part to which a name in the file belongs. Returns PARTS if it belongs to none. */
static part part_of(const char *name) {
    for (part p = 0; p < RANDOM; p++)
        if (!strncmp(name, part_names[p], strlen(part_names[p])))
            return p;
    return strcmp(name, part_names[RANDOM]) ? PARTS : RANDOM;
}

/* Distributes the file's tensors over the parts. Fails if a name belongs to no part. Returns false
 * on failure. */
static bool sort_parts(checkpoint_parts *c, rg_named_list all) {
    for (part p = 0; p < PARTS; p++) {
        c->part[p].list.v = rgi_scope_alloc((size_t)all.n * sizeof *all.v);
        if (!c->part[p].list.v)
            return false;
    }
    for (int i = 0; i < all.n; i++) {
        const part p = part_of(all.v[i].name);
        RG_FAIL_IF(p == PARTS, c->op, "Unexpected key: \"%s\"", RG_SHOWN(all.v[i].name));
        rg_dictionary *d = &c->part[p];
        const char *name = all.v[i].name + strlen(part_names[p]);
        ((rg_named *)d->list.v)[d->list.n] = (rg_named){ name, all.v[i].tensor };
        if (!rgi_map_put_name(&d->places, name, d->list.n++))
            return false;
    }
    return true;
}

static void free_parts(checkpoint_parts *c) {
    for (part p = 0; p < PARTS; p++)
        rgi_map_free(&c->part[p].places);
}

/* Returns the tensor with this name in a part. Returns NULL, without an error, if there is none. */
static rg_tensor *part_named(const checkpoint_parts *c, part p, const char *name) {
    const int64_t at = rgi_map_name(&c->part[p].places, name);
    return at < 0 ? NULL : c->part[p].list.v[at].tensor;
}

/* Returns the file's tensors of the model. A tied tensor, which the file has under one name only,
 * is listed again under each of its other names, because the module expects it there. Fails if the
 * file has several tensors for a tied one, since only one of them could be loaded. `own` is the
 * module's state_dict. The scope owns the list. On failure .n is -1. */
static rg_named_list tied_again(const checkpoint_parts *c, rg_named_list own) {
    const rg_named_list found = c->part[MODEL].list, failed = { .n = -1 };
    rg_named *v = rgi_scope_alloc((size_t)(found.n + own.n) * sizeof *v);
    rg_map first = { 0 };
    if (!v)
        return failed;
    int n = found.n;
    if (n > 0)
        memcpy(v, found.v, (size_t)n * sizeof *v);
    for (int i = 0; i < own.n; i++) {
        const int64_t tied = rgi_map_address(&first, own.v[i].tensor);
        rg_tensor *t = tied < 0 ? NULL : part_named(c, MODEL, own.v[tied].name);
        if (t && part_named(c, MODEL, own.v[i].name)) {
            refuse(c, "Unexpected key, because the run's model ties this tensor to another:", MODEL,
                   own.v[i].name);
            n = -1;
        } else if (t)
            v[n++] = (rg_named){ own.v[i].name, t };
        else if (tied < 0 && !rgi_map_put_address(&first, own.v[i].tensor, i))
            n = -1;
        if (n < 0)
            break;
    }
    rgi_map_free(&first);
    return (rg_named_list){ n, v };
}

/* Fails and returns false unless the file's tensors in this part are those of the program's list
 * `own`, with the same names, shapes and dtypes. Also fails if `own` has a name twice, or if a
 * tensor of the program mustn't be overwritten. */
static bool own_part_fits(const checkpoint_parts *c, part p, rg_named_list own) {
    rg_map names = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < own.n; i++) {
        const rg_named *mine = &own.v[i];
        rg_tensor *t = part_named(c, p, mine->name);
        if (!t)
            ok = refuse(c, "Missing key:", p, mine->name);
        else if (rgi_map_name(&names, mine->name) >= 0)
            ok = refuse(c, "The program's list has this name twice:", p, mine->name);
        else if (!rgi_have_same_shape(t, mine->tensor)
                 || rg_dtype_of(t) != rg_dtype_of(mine->tensor))
            ok = refuse(c, "The shape or dtype isn't the program's:", p, mine->name);
        else
            ok = rgi_may_overwrite(mine->tensor, c->op) && rgi_map_put_name(&names, mine->name, i);
    }
    const rg_named_list found = c->part[p].list;
    for (int i = 0; ok && i < found.n; i++)
        if (rgi_map_name(&names, found.v[i].name) < 0)
            ok = refuse(c, "Unexpected key:", p, found.v[i].name);
    rgi_map_free(&names);
    return ok;
}

/* Returns whether the file has a valid state of the generator. Fails if not. */
static bool random_fits(const checkpoint_parts *c) {
    rg_tensor *state = part_named(c, RANDOM, "");
    return state ? rgi_random_state_fits(state) : refuse(c, "Missing key:", RANDOM, "");
}

/* Loads the parts, which have all been checked. The loader comes first, because loading it can
 * still fail: the program may have freed the loader's generator. The optimizer comes after all
 * parts that can fail, because loading it can't fail. If the run has no model, c->model is empty,
 * and nothing is copied for it. */
static bool put_parts(checkpoint_parts *c, const rg_training *run) {
    bool ok = !run->loader || rgi_loader_load_end(&c->loader);
    if (ok)
        rg_generator_set_state(generator_of(run), part_named(c, RANDOM, ""));
    for (int i = 0; ok && i < run->tensors.n; i++)
        ok = rg_copy_(run->tensors.v[i].tensor, part_named(c, TENSORS, run->tensors.v[i].name));
    ok = rgi_module_load_end(&c->model, ok);
    if (run->optim)
        rgi_optim_load_end(c->optim, ok);
    if (run->optim && ok)
        rgi_optim_has_all_states(run->optim);
    for (int i = 0; ok && i < run->numbers.n; i++)
        *run->numbers.v[i].value = rg_item(part_named(c, NUMBERS, run->numbers.v[i].name));
    return ok;
}

/* Fails, and returns false, if the file has entries for a part that the run doesn't have. */
static bool lacked_parts_fit(const checkpoint_parts *c, const rg_training *run) {
    const void *const has[] = {
        [MODEL] = run->model, [OPTIM] = run->optim, [LOADER] = run->loader
    };
    static const part lacked[] = { MODEL, OPTIM, LOADER };
    for (int i = 0; i < RG_COUNT(lacked); i++) {
        const rg_named_list found = c->part[lacked[i]].list;
        if (!has[lacked[i]] && found.n)
            return refuse(c, "Unexpected key:", lacked[i], found.v[0].name);
    }
    return true;
}

/* Makes the first step of loading the model (see nn/state.h): checks that the file's tensors can be
 * loaded into it. Returns false on failure. */
static bool begin_model(checkpoint_parts *c, void *model) {
    const rg_named_list own = rg_state_dict(model);
    const rg_named_list dict = own.n < 0 ? own : tied_again(c, own);
    return rgi_module_load_begin(&c->model, model, dict, true);
}

/* Checks all parts, and only then loads them. Returns false on failure. */
static bool load_parts(checkpoint_parts *c, const rg_training *run) {
    const rg_named_list numbers = number_tensors(run);
    if (numbers.n < 0 || !own_part_fits(c, TENSORS, run->tensors)
        || !own_part_fits(c, NUMBERS, numbers) || !random_fits(c) || !lacked_parts_fit(c, run)
        || (run->loader && !rgi_loader_load_begin(&c->loader, run->loader, c->part[LOADER].list))
        || (run->model && !begin_model(c, run->model)))
        return false;
    if (run->optim)
        c->optim = rgi_optim_load_begin(run->optim, c->part[OPTIM].list, false);
    if (run->optim && !c->optim) {
        rgi_module_load_end(&c->model, false);
        return false;
    }
    return put_parts(c, run);
}

/* Distributes the file's tensors over the parts, and loads them. Error messages name the file.
 * Returns false on failure. */
static bool load_all(checkpoint_parts *c, const rg_training *run, rg_named_list all) {
    rg_text text = { 0 };
    rgi_text_add(&text, "%s: '%s'", c->op, c->path);
    const char *const named = rgi_text_own(&text), *const before = rgi_named_as;
    if (!named)
        return false;
    rgi_named_as = named;
    const bool ok = sort_parts(c, all) && load_parts(c, run);
    rgi_named_as = before;
    return ok;
}

bool rg_load_checkpoint(const char *path, rg_training run) {
    checkpoint_parts c = { .op = "load_checkpoint", .path = path };
    RG_LOADING(c.op, path);
    RG_AS(c.op);
    RG_SCOPE();
    RG_NO_GRAD();
    if (!rgi_checkpoint_given(&run, c.op))
        return false;
    const rg_named_list all = read_checkpoint(&c, &run);
    const bool ok = all.n >= 0 && load_all(&c, &run, all);
    free_parts(&c);
    return ok;
}
