/*
 * optim_state.c: writes an optimizer's state under regard's own names or as torch.save does, and
 * loads it. The state consists of the state tensors of the parameters and of the numbers of groups
 * and schedules. Both are described by rows of the type rg_saved (see saved.h).
 */
#include "optim_state.h"
#include "optimizer_structs.h"
#include "autograd/tools/normal_mode.h"
#include "nn/state.h"
#include "tensor/dtype.h"
#include "tensor/map.h"
#include "tensor/memory.h"
#include "tensor/observer.h"
#include "tensor/opaque.h"
#include "tensor/text/text.h"

#include <stdio.h>
#include <string.h>

/* ---- the saved fields of a slot and of a schedule ------------------------------ */

enum { MOST_SLOT_ROWS = RG_OPTIM_STATES + 3 };

/* Sets rows[] to the fields of a slot (a parameter and its state) that this optimizer saves, in
 * torch's order. Returns the number of these fields. */
static int slot_rows(const rg_optim *o, rg_saved rows[MOST_SLOT_ROWS]) {
    int n = 0;
    if (o->row->saves_step)
        rows[n++] = (rg_saved){ "step", RG_SAVED_SCALAR, offsetof(rg_optim_slot, count.step),
                                NULL };
    if (o->row->has_product)
        rows[n++] = (rg_saved){ "mu_product", RG_SAVED_SCALAR,
                                offsetof(rg_optim_slot, count.product), NULL };
    for (int k = 0; k < RG_OPTIM_STATES && o->row->states[k].name; k++)
        rows[n++] = (rg_saved){ o->row->states[k].name, RG_SAVED_TENSOR,
                                offsetof(rg_optim_slot, state) + (size_t)k * sizeof(rg_tensor *),
                                NULL };
    rows[n++] = (rg_saved){ "master", RG_SAVED_TENSOR, offsetof(rg_optim_slot, master), NULL };
    return n;
}

/* The numbers of a schedule that regard's own files save. Only CosineAnnealingWarmRestarts has the
 * last two. */
#define NUMBER(name, at) \
    { name, RG_SAVED_FLOAT, offsetof(rg_schedule, state) + (at) * sizeof(double), NULL }
static const rg_saved schedule_rows[] = {
    NUMBER("last_epoch", RG_LAST_EPOCH),
    NUMBER("best", RG_BEST),
    NUMBER("num_bad_epochs", RG_NUM_BAD_EPOCHS),
    NUMBER("cooldown_counter", RG_COOLDOWN_COUNTER),
    NUMBER("T_cur", RG_T_CUR),
    NUMBER("T_i", RG_T_I),
};

static int count_schedule_rows(const rg_schedule *s) {
    const int all = RG_COUNT(schedule_rows);
    return s->kind == RG_COSINE_ANNEALING_WARM_RESTARTS ? all : all - 2;
}

/* ---- writing a state ----------------------------------------------------------- */

static void add_slot(rg_py *p, const rg_optim *o, size_t i) {
    rg_saved rows[MOST_SLOT_ROWS];
    const int n = slot_rows(o, rows);
    rgi_py_int_key(p, (int64_t)i);
    rgi_py_begin(p, RG_PY_DICT);
    for (int r = 0; r < n; r++)
        if (rgi_saved_is_there(&rows[r], &o->slots[i]))
            rgi_saved_add(p, &rows[r], &o->slots[i], true, o->slots[i].count_dtype);
    rgi_py_end(p);
}

/* Writes "params" of a group. In regard's own files that is the number of parameters; in torch's,
 * the list of their indices, which begin at `first`. */
static void add_params(rg_py *p, const rg_group *g, size_t first, bool own) {
    if (own) {
        rgi_py_float(p, "params", g->n_params);
        return;
    }
    rgi_py_begin_at(p, "params", RG_PY_LIST);
    for (size_t i = 0; i < (size_t)g->n_params; i++)
        rgi_py_int(p, NULL, (int64_t)(first + i));
    rgi_py_end(p);
}

/* Writes a group: its parameters and its options. In regard's own files (`own`) each option is a
 * float, and an array of options is several floats, such as "betas.0" and "betas.1". In torch's
 * files, options have torch's types, and betas is one tuple. master_weights, which torch doesn't
 * have, is left out if it is false. */
static void add_group(rg_py *p, const rg_group *g, size_t first, bool own) {
    rgi_py_begin(p, RG_PY_DICT);
    if (own)
        add_params(p, g, first, own);
    for (int k = 0; k < RG_OPTION_COUNT; k++) {
        rg_saved row = rgi_options[k];
        if (own)
            row = (rg_saved){ row.name, RG_SAVED_FLOAT, row.offset, NULL };
        const bool left_out = k == RG_OPTION_master_weights && g->option[k] == 0;
        if (rgi_option_set(g->option[k]) && !left_out)
            rgi_saved_add(p, &row, &g->options, true, RG_FLOAT64);
    }
    if (!own)
        add_params(p, g, first, own);
    rgi_py_end(p);
}

static void add_own_schedules(rg_py *p, const rg_optim *o) {
    rgi_py_begin_at(p, "schedules", RG_PY_LIST);
    for (const rg_schedule *s = o->schedules; s; s = s->next) {
        rgi_py_begin(p, RG_PY_DICT);
        for (int r = 0; r < count_schedule_rows(s); r++)
            rgi_saved_add(p, &schedule_rows[r], s, true, RG_FLOAT64);
        rgi_py_end(p);
    }
    rgi_py_end(p);
}

bool rgi_optim_can_be_saved(const rg_optim *o, const char *op) {
    RG_FAIL_IF(o->share == RG_STATE_OF_OWNED, op,
               "this rank has the optimizer's state only of parameters that it owns: call "
               "rg_sharded_optim_gather, then rg_distributed_save_checkpoint");
    return true;
}

void rgi_optim_has_all_states(rg_optim *o) { o->share = RG_STATE_OF_ALL; }

void rgi_optim_add(rg_py *p, const char *key, rg_optim *o, bool own) {
    size_t first = 0;
    p->failed |= !rgi_optim_complete_states(o);
    rgi_py_begin_at(p, key, RG_PY_DICT);
    rgi_py_begin_at(p, "state", RG_PY_DICT);
    for (size_t i = 0; i < o->n_slots; i++)
        if (o->slots[i].state[0] || o->slots[i].master)
            add_slot(p, o, i);
    rgi_lbfgs_add(p, o, own);
    rgi_py_end(p);
    rgi_py_begin_at(p, "param_groups", RG_PY_LIST);
    for (size_t i = 0; i < o->n_groups; i++) {
        add_group(p, &o->groups[i], first, own);
        first += (size_t)o->groups[i].n_params;
    }
    rgi_py_end(p);
    if (own)
        add_own_schedules(p, o);
    rgi_py_end(p);
}

rg_named_list rg_optim_state_dict(rg_optim *o) {
    if (!rgi_may_do_once("state_dict") || !rgi_handle_given(o, "state_dict", RG_HANDLE_OPTIM))
        return (rg_named_list){ .n = -1 };
    rg_py p = { 0 };
    rgi_optim_add(&p, NULL, o, true);
    const rg_named_list list = rgi_py_flat(&p);
    rgi_py_free(&p);
    return list;
}

/* Returns whether another schedule of the optimizer steps this one. */
static bool is_stepped_by_another(const rg_schedule *s) {
    for (const rg_schedule *other = s->optim->schedules; other; other = other->next)
        for (int i = 0; i < rgi_schedules_below(other); i++)
            if (other->o.schedules[i] == s)
                return true;
    return false;
}

void rgi_optim_add_schedules(rg_py *p, const rg_optim *o) {
    int n = 0;
    for (const rg_schedule *s = o->schedules; s; s = s->next)
        n += !is_stepped_by_another(s);
    if (n > 1)
        rgi_py_begin_at(p, "schedulers", RG_PY_LIST);
    for (rg_schedule *s = o->schedules; s; s = s->next)
        if (!is_stepped_by_another(s))
            rgi_schedule_value(p, n > 1 ? NULL : "scheduler", s);
    if (n > 1)
        rgi_py_end(p);
}

/* ---- names of classes, for the metadata of a file ------------------------------ */

const char *rgi_optim_kind(const rg_optim *o) { return o->row->name; }

const char *rgi_optim_schedule_kinds(const rg_optim *o) {
    rg_text text = { 0 };
    for (const rg_schedule *s = o->schedules; s; s = s->next)
        rgi_text_add(&text, "%s%s", text.n ? ", " : "", rgi_schedule_rows[s->kind].name);
    if (!text.n)
        rgi_text_add(&text, "none");
    return rgi_text_own(&text);
}

/* ---- loading: a dictionary is read into copies before anything changes ----------- */

static const char *const load_op = "load_state_dict";

/* A value that a dictionary of the optimizer's state can have, under the key `name`. The value is
 * read into the field that `row` describes, in the struct at `base`. This struct is one of the
 * copies in rg_optim_load. */
typedef struct {
    char name[56];
    rg_saved row;
    void *base;
    rg_optim_slot *slot; /* The slot at `base`, or NULL if `base` is another struct. */
    /* The option (RG_OPTION_..) on which a state tensor such as momentum_buffer depends: if the
     * option is 0, the parameter has no such tensor. RG_ALWAYS if the tensor exists whatever the
     * options are. */
    int needs;
    bool optional; /* The dictionary needn't have the value. */
    bool ignored;  /* The value in the dictionary isn't used. */
    bool found;
} optim_entry;

/* A state that is being loaded. The scope that is open when the loading begins owns the arrays. */
struct rg_optim_load {
    rg_optim *optim;
    rg_optim_slot *slots; /* Copies of the optimizer's structs. Values are read into these first. */
    rg_group *groups;
    rg_schedule *schedules;
    rg_lbfgs lbfgs; /* The new state of LBFGS. */
    optim_entry *v;
    int n;
    rg_map places; /* Maps names to indices in v. */
    /* loaded[i] tells whether the dictionary has a value of slot i. own[i] tells whether one of
     * these values is a tensor of the optimizer's present state, not a copy. */
    bool *loaded, *own;
    bool torchs;   /* The dictionary was saved by torch. */
};

/* Appends the entry `e` to l->v. Its name consists of `list`, i and the name of its row, such as
 * "state.0.exp_avg". Returns false if memory runs out. */
static bool add_entry(rg_optim_load *l, const char *list, size_t i, optim_entry e) {
    snprintf(e.name, sizeof e.name, "%s.%zu.%s", list, i, e.row.name);
    l->v[l->n] = e;
    return rgi_map_put_name(&l->places, e.name, l->n++);
}

/* Appends the entries of slot i, the state of a parameter. Also empties the copy of the slot. So if
 * the dictionary has no state of this parameter, as before the parameter's first step, the slot has
 * none after the loading. Returns false if memory runs out. */
static bool add_slot_entries(rg_optim_load *l, size_t i) {
    rg_optim_slot *slot = &l->slots[i];
    rg_saved rows[MOST_SLOT_ROWS];
    const int n = slot_rows(l->optim, rows);
    bool ok = true;
    slot->count = (k_optimizer_count){ 0, 0 };
    for (int k = 0; k < RG_OPTIM_STATES; k++)
        slot->state[k] = NULL;
    slot->master = NULL;
    for (int r = 0, k = 0; ok && r < n; r++) {
        optim_entry e = { .row = rows[r], .base = slot, .slot = slot, .needs = RG_ALWAYS };
        if (r == n - 1)
            e.optional = true;
        else if (e.row.kind == RG_SAVED_TENSOR)
            e.needs = l->optim->row->states[k++].needs;
        ok = add_entry(l, "state", i, e);
    }
    return ok;
}

/* Appends the entries of group i: the number of its parameters, and its options. The options that
 * schedules set are always included, because the dictionary may be loaded before the schedules are
 * made. A dictionary of torch may lack these options and those that are strings in torch. As in
 * torch, Adam reads decoupled_weight_decay, AdamW ignores it, and both accept a dictionary without
 * it, because older versions of torch didn't save it. */
static bool add_group_entries(rg_optim_load *l, size_t i) {
    const rg_saved params = { "params", RG_SAVED_FLOAT, offsetof(rg_group, n_params), NULL };
    rg_group *g = &l->groups[i];
    bool ok = add_entry(l, "param_groups", i, (optim_entry){ .row = params, .base = g });
    for (int k = 0; ok && k < RG_OPTION_COUNT; k++) {
        const bool schedules = k >= RG_OPTION_FIRST_OF_SCHEDULES;
        if (!schedules && !rgi_option_set(g->option[k]))
            continue;
        const bool text = rgi_options[k].kind == RG_SAVED_TEXT;
        optim_entry e = { .row = rgi_options[k],
                          .base = &g->options,
                          .optional = ((schedules || text) && l->torchs)
                                      || k == RG_OPTION_master_weights };
        if (k == RG_OPTION_decoupled_weight_decay) {
            g->option[k] = l->optim->row->defaults.decoupled_weight_decay;
            e.optional = true;
            e.ignored = l->optim->row->kind == RG_ADAMW;
        }
        ok = add_entry(l, "param_groups", i, e);
    }
    return ok;
}

/* Appends the entries of schedule i. torch's dictionaries don't have schedules; if such a
 * dictionary is loaded, schedules keep their state. */
static bool add_schedule_entries(rg_optim_load *l, size_t i) {
    rg_schedule *s = &l->schedules[i];
    bool ok = true;
    for (int r = 0; ok && r < count_schedule_rows(s); r++)
        ok = add_entry(l, "schedules", i,
                       (optim_entry){ .row = schedule_rows[r], .base = s, .optional = l->torchs });
    return ok;
}

/* Copies the optimizer's structs, and lists all entries that the dictionary can have. Returns false
 * if memory runs out. */
static bool list_entries(rg_optim_load *l) {
    const rg_optim *o = l->optim;
    size_t schedules = 0;
    for (const rg_schedule *s = o->schedules; s; s = s->next)
        schedules++;
    const size_t most = o->n_slots * MOST_SLOT_ROWS + o->n_groups * (RG_OPTION_COUNT + 1)
                        + schedules * RG_COUNT(schedule_rows);
    l->slots = rg_scope_copy(o->slots, o->n_slots * sizeof *o->slots);
    l->groups = rg_scope_copy(o->groups, o->n_groups * sizeof *o->groups);
    l->schedules = rgi_scope_alloc(schedules * sizeof *l->schedules);
    l->v = rgi_scope_alloc(most * sizeof *l->v);
    l->loaded = rgi_scope_alloc(2 * o->n_slots * sizeof *l->loaded);
    bool ok = l->slots && l->groups && l->schedules && l->v && l->loaded;
    if (ok) {
        memset(l->loaded, 0, 2 * o->n_slots * sizeof *l->loaded);
        l->own = l->loaded + o->n_slots;
    }
    for (size_t i = 0; ok && i < o->n_slots; i++)
        ok = add_slot_entries(l, i);
    for (size_t i = 0; ok && i < o->n_groups; i++)
        ok = add_group_entries(l, i);
    size_t n = 0;
    for (const rg_schedule *s = o->schedules; ok && s; s = s->next) {
        l->schedules[n] = *s;
        ok = add_schedule_entries(l, n++);
    }
    return ok;
}

static bool check_groups(const rg_optim *o, rg_named_list dict) {
    size_t groups = 0;
    for (int i = 0; i < dict.n; i++)
        groups += strstr(dict.v[i].name, ".params") != NULL;
    RG_FAIL_VALUE_IF(groups != o->n_groups, load_op,
                     "loaded state dict has a different number of parameter groups");
    return true;
}

/* Returns the dtype of the slot's states, and of its master if it has one. Requires that the
 * options have been read. */
static rg_dtype dtype_of_states(const rg_optim_load *l, const rg_optim_slot *slot) {
    const double masters = l->groups[slot->group].options.master_weights;
    const rg_dtype dtype = (rg_dtype)rg_dtype_of(slot->param);
    return rgi_option_set(masters) && masters != 0 ? rgi_computed_in(dtype) : dtype;
}

/* Returns whether t shares its memory with one of the slot's present state tensors. */
static bool is_own_state(const rg_optim_slot *slot, rg_tensor *t) {
    bool own = false;
    for (int k = 0; k < RG_OPTIM_STATES && rg_numel(t) > 0; k++)
        own = own || (slot->state[k] && rg_data(slot->state[k]) == rg_data(t));
    return own;
}

/* Reads one value of the dictionary into the field that its entry in l->v describes. A state tensor
 * of a parameter is copied. Fails and returns false if there is no such entry, or the size is
 * wrong. */
static bool load_value(rg_optim_load *l, rg_named loaded) {
    if (!rg_check_tensor(loaded.tensor, load_op))
        return false;
    const int64_t at = rgi_map_name(&l->places, loaded.name);
    RG_FAIL_IF(at < 0, load_op,
               "Error(s) in loading state_dict for %s: Unexpected key(s) in state_dict: \"%s\".",
               l->optim->row->name, loaded.name);
    optim_entry *e = &l->v[at];
    const bool is_tensor = e->row.kind == RG_SAVED_TENSOR;
    const bool fits = is_tensor ? rgi_have_same_shape(loaded.tensor, e->slot->param)
                                : rg_numel(loaded.tensor) == 1;
    RG_FAIL_IF(!fits, load_op, "size mismatch for %s: its shape is %s", loaded.name,
               RG_SIZES_TEXT(loaded.tensor));
    if (is_tensor && is_own_state(&l->optim->slots[e->slot - l->slots], loaded.tensor))
        l->own[e->slot - l->slots] = true;
    if (is_tensor)
        loaded.tensor = rgi_saved_copy(loaded.tensor, dtype_of_states(l, e->slot));
    e->found = true;
    if (e->slot)
        l->loaded[e->slot - l->slots] = true;
    if (e->slot && !is_tensor && rg_is_floating_point(loaded.tensor))
        e->slot->count_dtype = rgi_computed_in(rg_dtype_of(loaded.tensor));
    return loaded.tensor && (e->ignored || rgi_saved_read(&e->row, e->base, &loaded, load_op));
}

/* Returns whether the dictionary must have the entry. If the dictionary has any value of a
 * parameter's state, it must have all values that the loaded options of the group require. An
 * option of a group, or a number of a schedule, is needed if the optimizer has a value for it now
 * and the entry isn't optional. */
static bool entry_is_needed(const rg_optim_load *l, const optim_entry *e) {
    if (!e->slot)
        return !e->optional && rgi_saved_is_there(&e->row, e->base);
    return !e->optional && l->loaded[e->slot - l->slots]
           && (e->needs == RG_ALWAYS || l->groups[e->slot->group].option[e->needs] != 0);
}

static bool check_found(const rg_optim_load *l) {
    for (size_t i = 0; i < l->optim->n_groups; i++)
        RG_FAIL_VALUE_IF(l->groups[i].n_params != l->optim->groups[i].n_params, load_op,
                         "loaded state dict contains a parameter group that doesn't match the size "
                         "of optimizer's group");
    for (const optim_entry *e = l->v; e < l->v + l->n; e++)
        RG_FAIL_IF(!e->found && entry_is_needed(l, e), load_op,
                   "Error(s) in loading state_dict for %s: Missing key(s) in state_dict: \"%s\".",
                   l->optim->row->name, e->name);
    return true;
}

/* Fails if the dictionary has an earlier count of steps, but the optimizer's own state tensors,
 * which have changed since then. */
static bool check_time(const rg_optim_load *l) {
    const rg_optim *o = l->optim;
    for (size_t i = 0; o->row->saves_step && i < o->n_slots; i++)
        RG_FAIL_IF(l->own[i] && l->slots[i].count.step != o->slots[i].count.step, load_op,
                   "the list has the optimizer's own tensors of state.%zu, which have changed "
                   "since it was made: keep clones of them (rg_clone), or save them to a file",
                   i);
    return true;
}

/* Reads the values of the dictionary, the options before the states, and checks that none is
 * missing. The state of LBFGS is read by lbfgs_state.c. Returns false on failure. */
static bool load_values(rg_optim_load *l, rg_named_list dict) {
    const bool lbfgs = l->optim->row->kind == RG_LBFGS;
    for (int of_state = 0; of_state < 2; of_state++)
        for (int i = 0; i < dict.n; i++) {
            const bool is_state = strncmp(dict.v[i].name, "state.", 6) == 0;
            if (is_state == of_state && !(lbfgs && is_state) && !load_value(l, dict.v[i]))
                return false;
        }
    return check_found(l) && check_time(l)
           && (!lbfgs || rgi_lbfgs_read(&l->lbfgs, l->optim, dict));
}

/* In inference mode, too, the loaded tensors are normal ones, which later steps can write to. */
rg_optim_load *rgi_optim_load_begin(rg_optim *o, rg_named_list dict, bool torchs) {
    RG_NORMAL_MODE();
    RG_NO_GRAD();
    rg_optim_load *l = rgi_scope_alloc(sizeof *l);
    if (!l)
        return NULL;
    *l = (rg_optim_load){ .optim = o, .torchs = torchs };
    if (check_groups(o, dict) && list_entries(l) && load_values(l, dict))
        return l;
    rgi_map_free(&l->places);
    return NULL;
}

/* Replaces the state of a slot by the loaded one. If the dictionary has no state tensors for the
 * parameter, the slot has none afterwards. */
static void put_loaded_slot(const rg_optim *o, rg_optim_slot *slot, const rg_optim_slot *loaded) {
    for (int k = 0; k < RG_OPTIM_STATES; k++)
        rgi_set_reference(&slot->state[k], loaded->state[k]);
    rgi_set_reference(&slot->master, loaded->master);
    slot->rounded_in = NULL;
    slot->count.product = loaded->count.product;
    slot->count_dtype = loaded->count_dtype;
    /* The states of SGD, Lion and Muon don't contain the number of steps. For these optimizers it
     * only matters whether the next step is the parameter's first one, and it isn't if a state
     * tensor was loaded. */
    slot->count.step = o->row->saves_step ? loaded->count.step : loaded->state[0] != NULL;
}

static void put_loaded(const rg_optim_load *l) {
    rg_optim *o = l->optim;
    for (size_t i = 0; i < o->n_slots; i++)
        put_loaded_slot(o, &o->slots[i], &l->slots[i]);
    memcpy(o->groups, l->groups, o->n_groups * sizeof *o->groups);
    const rg_schedule *loaded = l->schedules;
    for (rg_schedule *s = o->schedules; s; s = s->next)
        memcpy(s->state, loaded++->state, sizeof s->state);
}

void rgi_optim_load_end(rg_optim_load *l, bool go) {
    rgi_map_free(&l->places);
    if (go) {
        RG_SWAP(l->optim->lbfgs, l->lbfgs);
        put_loaded(l);
    }
    rgi_lbfgs_end(&l->lbfgs);
}

bool rg_optim_load_state_dict(rg_optim *o, rg_named_list dict) {
    RG_SCOPE();
    if (!rgi_handle_given(o, load_op, RG_HANDLE_OPTIM) || !rgi_state_given(dict, load_op))
        return false;
    bool torchs;
    dict = rgi_optim_own_words(o, dict, &torchs);
    rg_optim_load *l = dict.n < 0 ? NULL : rgi_optim_load_begin(o, dict, torchs);
    if (l)
        rgi_optim_load_end(l, true);
    return l;
}
