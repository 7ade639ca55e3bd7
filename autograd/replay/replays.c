/*
 * replays.c: keeps one recording of a step for each shape of its inputs that has occurred. replay.c
 * makes and repeats a single recording.
 */
#include "recording.h"
#include "autograd/tools/inputs.h"
#include "tensor/kernels/copy.h"
#include "tensor/map.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/scope.h"

static const char replays_run[] = "replays_run";
enum { MOST_INPUTS = 64 };

/* The recording of the step for one shape of inputs, that is, for certain dtypes and sizes.
 * inputs[] are the recording's own n inputs, followed by NULLs. Each call of rg_replays_run copies
 * the program's inputs into inputs[]. An absent input is RG_NONE. `replay`, `result` and the inputs
 * are NULL until the step is recorded. */
typedef struct {
    rg_replay *replay;
    rg_tensor *result;
    int n;
    rg_tensor *inputs[];
} shape_replay;

/* The map `shapes` leads from the name of each shape that has occurred to the index of its
 * shape_replay among the n elements of v. */
struct rg_replays {
    rg_handle handle;
    atomic_bool running; /* Set while rg_replays_run works. */
    rg_tensor *(*step)(rg_tensor *const inputs[], void *context);
    void *context;
    rg_map shapes;
    shape_replay **v;
    size_t n, room;
};

/* ---- naming a shape ---------------------------------------------------------------- */

/* The name of a shape is a string of numbers. A number takes up to 11 bytes, none of which is 0.
 * Only the last byte of a number has its highest bit set. */
enum { SHAPE_NAME_ROOM = MOST_INPUTS * (2 + RG_MAX_DIMS) * 11 + 1 };

static char *add_to_name(char *name, uint64_t number) {
    for (; number > 63; number >>= 6)
        *name++ = (char)(64 | (number & 63));
    *name++ = (char)(128 | number);
    return name;
}

/* Writes a name for the inputs' shape to `name`, which has SHAPE_NAME_ROOM bytes. Two names are
 * equal exactly if the inputs are equal in number, dtypes and sizes. */
static void name_shape(char *name, int n, rg_tensor *const inputs[]) {
    for (int i = 0; i < n; i++) {
        const rg_tensor *t = inputs[i];
        name = add_to_name(name, t == RG_NONE ? 0 : 1 + (uint64_t)t->dtype);
        if (t == RG_NONE)
            continue;
        name = add_to_name(name, t->ndim);
        for (int d = 0; d < t->ndim; d++)
            name = add_to_name(name, (uint64_t)t->size[d]);
    }
    *name = 0;
}

/* ---- the recordings for all shapes ------------------------------------------------- */

static size_t shape_replay_bytes(int n) {
    return sizeof(shape_replay) + (size_t)(n + RG_INPUTS_BEHIND) * sizeof(rg_tensor *);
}

static void forget_recording(shape_replay *s) {
    rg_replay_free(s->replay);
    s->replay = NULL;
    rgi_release(s->result);
    s->result = NULL;
    for (int i = 0; i < s->n; i++) {
        rgi_release(s->inputs[i]);
        s->inputs[i] = NULL;
    }
}

static void shape_replay_free(shape_replay *s) {
    forget_recording(s);
    rgi_free(s, shape_replay_bytes(s->n), RG_MEM_OTHER);
}

static void forget_shapes(rg_replays *r) {
    for (size_t i = 0; i < r->n; i++)
        shape_replay_free(r->v[i]);
    r->n = 0;
    rgi_map_free(&r->shapes);
}

/* Adds a shape_replay for a shape of n inputs to r->v, and the shape's name to the map r->shapes.
 * Returns NULL if memory runs out. If memory runs out while the name is added, the map loses all
 * names. Therefore all recordings are freed as well, and each shape is recorded again when it
 * occurs next. */
static shape_replay *add_shape(rg_replays *r, const char *name, int n) {
    if (!rgi_grow((void **)&r->v, &r->room, r->n + 1, sizeof *r->v))
        return NULL;
    shape_replay *s = rgi_alloc(shape_replay_bytes(n), RG_MEM_OTHER);
    if (!s)
        return NULL;
    *s = (shape_replay){ .n = n };
    for (int i = 0; i < n; i++)
        s->inputs[i] = NULL;
    rgi_inputs_end(s->inputs, n);
    r->v[r->n] = s;
    if (rgi_map_put_name(&r->shapes, name, (int64_t)r->n++))
        return s;
    forget_shapes(r);
    return NULL;
}

static shape_replay *find_shape(rg_replays *r, int n, rg_tensor *const inputs[]) {
    char name[SHAPE_NAME_ROOM];
    name_shape(name, n, inputs);
    int64_t at = rgi_map_name(&r->shapes, name);
    return at >= 0 ? r->v[at] : add_shape(r, name, n);
}

static void copy_inputs(shape_replay *s, rg_tensor *const inputs[]) {
    for (int i = 0; i < s->n; i++)
        if (inputs[i] != RG_NONE) {
            rgi_copy_elements(s->inputs[i], inputs[i]);
            rgi_count_write(s->inputs[i], replays_run);
        }
}

typedef struct {
    rg_replays *replays;
    shape_replay *shape;
} shape_recording;

/* The function that is recorded: calls the step. The step's result is kept in the shape_replay, so
 * that every repetition writes to the memory of this result. */
static void step_of_shape(void *context) {
    const shape_recording *c = context;
    const int64_t before = rgi_failures();
    rg_tensor *y = c->replays->step(c->shape->inputs, c->replays->context);
    if (!rgi_called(y, before, RG_TYPE_ERROR, replays_run, "the step returned NULL")
        || (y != RG_NONE && !rgi_check(y, replays_run)))
        return;
    if (y != RG_NONE)
        rgi_retain(y);
    c->shape->result = y;
}

/* Records the step for this shape: copies the inputs to new tensors, and calls the step with the
 * copies. Returns false on failure. */
static bool record_shape(rg_replays *r, shape_replay *s, rg_tensor *const inputs[]) {
    bool ok = true;
    for (int i = 0; ok && i < s->n; i++) {
        bool none = inputs[i] == RG_NONE;
        s->inputs[i] = none ? RG_NONE : rgi_new_like(inputs[i], inputs[i]->dtype);
        ok = s->inputs[i];
    }
    if (ok) {
        copy_inputs(s, inputs);
        s->replay = rg_record(step_of_shape, &(shape_recording){ r, s });
    }
    if (!s->replay)
        forget_recording(s);
    return s->replay;
}

/* ---- public functions ---------------------------------------------------------------- */

rg_replays *rg_replays_new(rg_tensor *(*step)(rg_tensor *const inputs[], void *context),
                           void *context) {
    RG_FAIL_IF(!step, "replays_new", "there is no step");
    rg_replays *r = rgi_alloc(sizeof *r, RG_MEM_OTHER);
    if (r)
        *r = (rg_replays){ .handle = RG_NEW_HANDLE(REPLAYS), .step = step, .context = context };
    return r;
}

/* Fails unless the inputs may be given to a step. They mustn't require grad: the step gets copies,
 * and gradients wouldn't reach the inputs. */
static bool suit_step(int n, rg_tensor *const inputs[]) {
    if (!rgi_given_list(n, inputs, replays_run))
        return false;
    RG_FAIL_IF(n > MOST_INPUTS, replays_run, "a step takes at most %d inputs, and these are %d",
               MOST_INPUTS, n);
    for (int i = 0; i < n; i++) {
        if (inputs[i] == RG_NONE)
            continue;
        if (!rgi_check(inputs[i], replays_run))
            return false;
        RG_FAIL_IF(rg_requires_grad(inputs[i]), replays_run,
                   "input %d requires grad, but a step is given copies, which have no history; "
                   "give it through the context, or detach it",
                   i);
    }
    return true;
}

/* Returns a new tensor with the shape and dtype of the step's recorded result, or RG_NONE if the
 * step returned RG_NONE. Returns NULL if memory ran out. */
static rg_tensor *new_result(const shape_replay *s) {
    return s->result == RG_NONE ? RG_NONE : rgi_new_like(s->result, s->result->dtype);
}

static rg_tensor *run(rg_replays *r, int n, rg_tensor *const inputs[]) {
    shape_replay *s = find_shape(r, n, inputs);
    if (!s)
        return NULL;
    if (s->replay && rgi_replay_is_outdated(s->replay))
        forget_recording(s);
    bool first = !s->replay;
    if (first && !record_shape(r, s, inputs))
        return NULL;
    rg_tensor *y = new_result(s);
    if (!y)
        return NULL;
    if (!first) {
        copy_inputs(s, inputs);
        if (!rg_replay_run(s->replay)) {
            rgi_release(y);
            return NULL;
        }
    }
    if (y != RG_NONE)
        rgi_copy_elements(y, s->result);
    return rgi_own(y);
}

rg_tensor *(rg_replays_run)(rg_replays *r, int n, rg_tensor *const inputs[]) {
    if (!rgi_handle_given(r, replays_run, RG_HANDLE_REPLAYS) || !suit_step(n, inputs)
        || !rgi_may_do_once(replays_run))
        return NULL;
    RG_FAIL_IF(atomic_exchange(&r->running, true), replays_run,
               "the step is running already; its tensors can't be used twice at once");
    rg_tensor *y = run(r, n, inputs);
    r->running = false;
    return y;
}

void rg_replays_free(rg_replays *r) {
    if (!r || !rgi_handle_given(r, "replays_free", RG_HANDLE_REPLAYS))
        return;
    if (r->running) {
        rgi_fail(RG_RUNTIME_ERROR, "replays_free", "the step is running; free it later");
        return;
    }
    forget_shapes(r);
    rgi_free(r->v, r->room * sizeof *r->v, RG_MEM_OTHER);
    rgi_free_handle(&r->handle, sizeof *r);
}
