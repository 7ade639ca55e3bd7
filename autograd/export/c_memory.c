/*
 * c_memory.c: plans the memory of a step that is written as C. Regions that have values between the
 * steps, such as parameters, have places of their own. The others are in use from the first call
 * that works on them to the last one, and are placed as the results of a recorded step are
 * (autograd/replay/plan.h): two regions share bytes if no call lies in the lives of both.
 */
#include "c_memory.h"
#include "autograd/replay/plan.h"
#include "tensor/memory.h"

/* The alignment in bytes: LINE for regions of LINE bytes and more, ELEMENT for smaller ones. */
enum { LINE = 64, ELEMENT = 8 };

/* Places region i behind all memory that is placed already, unless the region has a place. */
static void place_region(c_memory *m, const rg_lowered *l, int i, int64_t alignment) {
    if (m->offset[i] >= 0)
        return;
    m->offset[i] = RG_ROUND_UP(m->bytes, alignment);
    m->bytes = m->offset[i] + (int64_t)l->trace.regions[i].bytes;
}

/* Returns whether the region needs no values at the beginning of the step. */
static bool begins_empty(const rg_lowered *l, int i) {
    return (size_t)i >= l->n || l->known[i].computed;
}

/* Places the regions whose values last from one step to the next, and the inputs. The parameters
 * come first, without gaps between neighbours of one dtype. */
static void place_lasting(c_memory *m, const rg_lowered *l, const rg_replay_to_c_options *o) {
    for (int i = 0; i < o->parameters.n; i++) {
        const rg_tensor *t = o->parameters.v[i];
        place_region(m, l, rgi_lowered_region(l, t->storage),
                     (int64_t)rgi_sizeof((rg_dtype)t->dtype));
    }
    m->parameters = m->bytes;
    for (int i = 0; i < (int)l->n; i++)
        if (!begins_empty(l, i))
            place_region(m, l, i, l->trace.regions[i].bytes < LINE ? ELEMENT : LINE);
    for (int i = 0; i < o->inputs.n; i++)
        place_region(m, l, rgi_lowered_region(l, o->inputs.v[i]->storage), LINE);
}

/* The lives of the other regions. life[i] is one more than the index of the life of region i, or 0
 * if it has none. */
typedef struct {
    rg_plan_life *lives;
    size_t *life, n;
} region_lives;

/* Notes that the call with this number works on region i. */
static void use_region(region_lives *r, const c_memory *m, const rg_lowered *l, int i,
                       size_t call) {
    if (m->offset[i] >= 0)
        return;
    if (!r->life[i]) {
        const int64_t bytes = RG_ROUND_UP((int64_t)l->trace.regions[i].bytes, LINE);
        r->lives[r->n++] = (rg_plan_life){ .first = call, .last = call, .bytes = (size_t)bytes };
        r->life[i] = r->n;
    }
    r->lives[r->life[i] - 1].last = call;
}

/* Notes all uses. What the caller reads after the step is in use up to its end. */
static void find_lives(region_lives *r, const c_memory *m, const rg_lowered *l,
                       const rg_replay_to_c_options *o) {
    const k_trace *t = &l->trace;
    for (size_t c = 0; c < t->n_calls; c++)
        for (size_t v = t->calls[c].first; v < t->calls[c].first + t->calls[c].count; v++)
            if (t->values[v].kind == K_PLACE)
                use_region(r, m, l, t->values[v].region, c);
    if (o->output != RG_NONE)
        use_region(r, m, l, rgi_lowered_region(l, o->output->storage), t->n_calls);
    for (int i = 0; i < o->more_outputs.n; i++)
        use_region(r, m, l, rgi_lowered_region(l, o->more_outputs.v[i]->storage), t->n_calls);
}

/* Places the regions that have lives. Their memory begins where that of the other regions ends. */
static bool place_lives(c_memory *m, const region_lives *r, size_t n_regions) {
    rg_plan plan = { .lives = r->lives, .n_lives = r->n };
    const size_t most = rgi_plan_most(r->lives, r->n);
    const size_t bytes = most == SIZE_MAX ? SIZE_MAX : rgi_plan_place(&plan);
    if (bytes == SIZE_MAX)
        return false;
    const int64_t begin = RG_ROUND_UP(m->bytes, LINE);
    for (size_t i = 0; i < n_regions; i++)
        if (r->life[i])
            m->offset[i] = begin + (int64_t)r->lives[r->life[i] - 1].offset;
    m->most = m->bytes + (int64_t)most;
    if (bytes)
        m->bytes = begin + (int64_t)bytes;
    return true;
}

bool rgi_c_memory_plan(c_memory *m, const rg_lowered *l, const rg_replay_to_c_options *o) {
    const size_t n = l->trace.n_regions;
    for (size_t i = 0; i < n; i++)
        m->offset[i] = -1;
    m->bytes = 0;
    place_lasting(m, l, o);
    const size_t room = (n + 1) * (sizeof(rg_plan_life) + sizeof(size_t));
    region_lives r = { .lives = rgi_alloc(room, RG_MEM_OTHER) };
    if (!r.lives)
        return false;
    memset(r.lives, 0, room);
    r.life = (size_t *)(void *)(r.lives + n + 1);
    find_lives(&r, m, l, o);
    const bool done = place_lives(m, &r, n);
    rgi_free(r.lives, room, RG_MEM_OTHER);
    return done;
}
