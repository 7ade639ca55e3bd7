/*
 * autocast.c: autocast. Functions ask by RG_AUTOCASTS (ops/autocast.h) whether their inputs are to
 * be cast, and the thread's settings and its casts of parameters are here.
 */
#include "autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/autocast.h"
#include "tensor/map.h"
#include "tensor/memory.h"

/* A cast of a parameter that is kept. `values` is an alias of the parameter as it was cast, so that
 * no other values get its storage, and `version` the storage's version then. `inference` is set if
 * the cast was made in inference mode: it can't be saved for backward. */
typedef struct {
    rg_tensor *parameter, *cast, *values;
    uint32_t version;
    bool inference;
} kept_cast;

/* The thread's settings. `in_rule` has the value that rgi_in_rule had when the innermost guard was
 * opened. `guards` is the number of open guards. The map `places` leads from a parameter to its
 * place in kept[], which has n casts. */
static __thread struct {
    rg_dtype dtype;
    bool enabled, no_cache, in_rule;
    int guards;
    rg_map places;
    kept_cast *kept;
    size_t n, room;
} casting __attribute__((tls_model("initial-exec")));

/* ---- casts of parameters that are kept -------------------------------------------- */

static bool may_be_kept(rg_tensor *t) {
    return !casting.no_cache && t->dtype == RG_FLOAT32 && !(t->flags & RG_VIEW) && rg_is_leaf(t)
           && rg_requires_grad(t);
}

/* Returns the place in kept[] for the parameter's cast, with an older cast if there is one, or NULL
 * if memory ran out. */
static kept_cast *kept_place(rg_tensor *parameter) {
    const int64_t i = rgi_map_address(&casting.places, parameter);
    if (i >= 0)
        return &casting.kept[i];
    if (!rgi_grow((void **)&casting.kept, &casting.room, casting.n + 1, sizeof *casting.kept)
        || !rgi_map_put_address(&casting.places, parameter, (int64_t)casting.n))
        return NULL;
    rgi_retain(parameter);
    casting.kept[casting.n] = (kept_cast){ .parameter = parameter };
    return &casting.kept[casting.n++];
}

static bool is_current(const kept_cast *k, const rg_tensor *t) {
    return k->cast && k->cast->dtype == casting.dtype && k->values->storage == t->storage
           && k->version == t->storage->version && k->inference == rgi_this.inference;
}

/* Returns the parameter's cast. The cast has a history even if grad mode is off, since a later call
 * may use it with grad mode on. */
static rg_tensor *cast_once(rg_tensor *t) {
    kept_cast *k = kept_place(t);
    if (!k)
        return NULL;
    if (!is_current(k, t)) {
        RG_ENABLE_GRAD();
        rg_tensor *cast = rg_to(t, casting.dtype);
        rg_tensor *values = cast ? rgi_alias(t) : NULL;
        if (!values)
            return NULL;
        rgi_retain(cast);
        rgi_release(k->cast);
        rgi_release(k->values);
        *k = (kept_cast){ t, cast, values, t->storage->version, rgi_this.inference };
    }
    return k->cast;
}

void rg_clear_autocast_cache(void) {
    for (size_t i = 0; i < casting.n; i++) {
        rgi_release(casting.kept[i].cast);
        rgi_release(casting.kept[i].values);
        rgi_release(casting.kept[i].parameter);
    }
    rgi_free(casting.kept, casting.room * sizeof *casting.kept, RG_MEM_OTHER);
    casting.kept = NULL;
    casting.n = 0;
    casting.room = 0;
    rgi_map_free(&casting.places);
}

/* ---- calls whose inputs are cast --------------------------------------------------- */

/* Returns whether t is to be cast. A NULL, or a tensor that was released, is left to the checks of
 * the function that is called. */
static bool is_cast(const rg_tensor *t) {
    return t && !rgi_is_none(t) && t->state == RG_ALIVE && !(t->flags & RG_WEAK)
           && rgi_is_float(t->dtype) && t->dtype != RG_FLOAT64;
}

/* Returns the result type of the inputs that are floating point, at least bfloat16 or float16. */
static rg_dtype widest_of(int n, rg_tensor *const in[]) {
    rg_dtype widest = casting.dtype;
    for (int i = 0; i < n; i++)
        if (is_cast(in[i]) || (in[i] && !rgi_is_none(in[i]) && in[i]->dtype == RG_FLOAT64))
            widest = (rg_dtype)rg_promote_types(widest, (rg_dtype)in[i]->dtype);
    return widest;
}

static rg_dtype dtype_for(rg_cast how, int n, rg_tensor *const in[]) {
    switch (how) {
    case RG_WIDER: return RG_FLOAT32;
    case RG_WIDEST: return widest_of(n, in);
    case RG_AS_FIRST: return widest_of(2, in);
    default: return casting.dtype;
    }
}

static rg_tensor *cast_to(rg_tensor *t, rg_dtype dtype) {
    if (!is_cast(t) || t->dtype == dtype)
        return t;
    return dtype == casting.dtype && may_be_kept(t) ? cast_once(t) : rg_to(t, dtype);
}

static bool begin(rg_cast how, int n, rg_tensor *in[], size_t *scope) {
    if (rgi_in_rule != casting.in_rule)
        return false;
    *scope = rg_scope_begin();
    const rg_dtype dtype = dtype_for(how, n, in);
    for (int i = 0; i < n; i++)
        in[i] = cast_to(in[i], dtype);
    rgi_this.autocast = NULL;
    return true;
}

static rg_tensor *end(size_t scope, rg_tensor *y);

static const rg_autocaster caster = { begin, end };

static rg_tensor *end(size_t scope, rg_tensor *y) {
    rgi_this.autocast = &caster;
    y = rg_escape(y);
    rg_scope_end(scope);
    return y;
}

/* ---- settings ---------------------------------------------------------------------- */

bool rg_is_autocast_enabled(void) { return casting.enabled; }

rg_dtype rg_get_autocast_dtype(void) { return casting.dtype ? casting.dtype : RG_BFLOAT16; }

bool rg_is_autocast_cache_enabled(void) { return !casting.no_cache; }

rg_autocast_guard(rg_autocast_guard_open_with)(rg_dtype dtype, rg_autocast_options o) {
    rg_thread *me = rgi_thread_get();
    const rg_autocast_guard before = { rg_get_autocast_dtype(), casting.enabled, !casting.no_cache,
                                       me->autocast, casting.in_rule };
    if (!rgi_is_half(dtype))
        rg_fail(RG_VALUE_ERROR, "autocast_guard_open",
                "autocast casts to bfloat16 and float16, not to %s, and is off now",
                rg_dtype_name(dtype));
    casting.enabled = o.enabled && rgi_is_half(dtype);
    if (rgi_is_half(dtype))
        casting.dtype = dtype;
    casting.no_cache = casting.no_cache || !o.cache_enabled;
    casting.in_rule = rgi_in_rule;
    casting.guards++;
    me->autocast = casting.enabled ? &caster : NULL;
    return before;
}

void rg_autocast_guard_close(rg_autocast_guard *guard) {
    casting.dtype = guard->dtype;
    casting.enabled = guard->enabled;
    casting.no_cache = !guard->cache_enabled;
    casting.in_rule = guard->in_rule;
    rgi_this.autocast = guard->casting ? &caster : NULL;
    if (--casting.guards == 0)
        rg_clear_autocast_cache();
}
