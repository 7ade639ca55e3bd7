/*
 * generator.c: mt19937, torch's random generator for the CPU. Draws words and uniform numbers from
 * generators, and gets and sets their seeds and states. distributions.c makes numbers of other
 * distributions from the words and the uniform numbers.
 */
#include "random.h"
#include "rewind.h"
#include "tensor/error.h"
#include "tensor/handle.h"
#include "tensor/memory.h"
#include "tensor/observer.h"

/* The default generator, with torch's default seed. It is initialised from the seed when it is
 * first used. */
static rg_generator default_generator = { .handle = RG_NEW_HANDLE(GENERATOR),
                                          .stream.seed = 67280421310721 };

__attribute__((constructor(103))) static void begin_default_generator(void) {
    rgi_own_lock_begin(&default_generator.lock);
}

/* ---- drawing random words -------------------------------------------------------- */

static void mt_seed(rg_generator *g, uint64_t seed) {
    k_random_stream *s = &g->stream;
    s->seed = seed;
    s->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < K_RANDOM_WORDS; i++)
        s->word[i] = 1812433253u * (s->word[i - 1] ^ s->word[i - 1] >> 30) + i;
    s->left = 1;
    s->next = 0;
    s->has_normal = false;
}

void rgi_draw_words(rg_generator *g, uint32_t *to, int n) { k_random_words(&g->stream, to, n); }

/* Draws n pairs of words, each as one 64-bit number. The first word becomes the high half. */
void rgi_draw_pairs(rg_generator *g, uint64_t *to, int n) {
    uint32_t words[2 * RANDOM_CHUNK];
    rgi_draw_words(g, words, 2 * n);
    for (int i = 0; i < n; i++)
        to[i] = (uint64_t)words[2 * i] << 32 | words[2 * i + 1];
}

void rgi_draw_double(rg_generator *g, double *to, int n) { k_random_doubles(&g->stream, to, n); }

/* ---- generators ------------------------------------------------------------------ */

static void lock_stream(rg_generator *g) {
    pthread_mutex_lock(&g->lock.mutex);
    if (!g->stream.left)
        mt_seed(g, g->stream.seed);
}

bool rgi_generator_lock(rg_generator *g, const char *op) {
    if (!rgi_handle_given(g, op, RG_HANDLE_GENERATOR))
        return false;
    lock_stream(g);
    if (RG_LIKELY(!rgi_this.rewind) || rgi_rewind_note(g))
        return true;
    rgi_generator_unlock(g);
    return false;
}

void rgi_generator_unlock(rg_generator *g) { pthread_mutex_unlock(&g->lock.mutex); }

rg_generator *rg_default_generator(void) { return &default_generator; }

void(rg_manual_seed)(uint64_t seed) { rg_generator_seed(&default_generator, seed); }

uint64_t rg_initial_seed(void) {
    lock_stream(&default_generator);
    uint64_t seed = default_generator.stream.seed;
    rgi_generator_unlock(&default_generator);
    return seed;
}

rg_generator *(rg_generator_new)(uint64_t seed) {
    rg_generator *g = rgi_may_do_once("generator_new") ? rgi_alloc(sizeof *g, RG_MEM_OTHER) : NULL;
    if (!g)
        return NULL;
    rgi_own_lock_begin(&g->lock);
    g->handle = (rg_handle)RG_NEW_HANDLE(GENERATOR);
    mt_seed(g, seed);
    return g;
}

void rg_generator_free(rg_generator *g) {
    if (!g || g == &default_generator
        || !rgi_handle_given(g, "generator_free", RG_HANDLE_GENERATOR))
        return;
    rgi_rewind_forget(g);
    rgi_own_lock_end(&g->lock);
    rgi_free_handle(&g->handle, sizeof *g);
}

bool(rg_generator_seed)(rg_generator *g, uint64_t seed) {
    if (!rgi_may_do_once("generator_seed") || !rgi_generator_lock(g, "generator_seed"))
        return false;
    mt_seed(g, seed);
    rgi_generator_unlock(g);
    return true;
}

/* ---- a generator's state ----------------------------------------------------------- */

/* A generator's state, in the layout of torch.get_rng_state().view(torch.int64), so that a state
 * can be exchanged with torch. */
typedef struct generator_image {
    uint64_t seed;
    int32_t left;
    int32_t seeded;
    uint64_t next;
    uint64_t word[K_RANDOM_WORDS];
    /* `normal` is the second normal number of a pair, if has_normal is set. normal_x and normal_rho
     * are always 0, as in torch. */
    double normal_x;
    double normal;
    double normal_rho;
    int64_t has_normal;
    /* A normal number in float32. torch's generator for the CPU never keeps one, so this is always
     * 0. */
    int64_t float_normal;
} generator_image;

enum { GENERATOR_IMAGE_NUMBERS = sizeof(generator_image) / sizeof(int64_t) };

rg_tensor *rg_generator_state(rg_generator *g) {
    if (!rgi_may_do_once("generator_state")
        || !rgi_handle_given(g, "generator_state", RG_HANDLE_GENERATOR))
        return NULL;
    lock_stream(g);
    const k_random_stream s = g->stream;
    rgi_generator_unlock(g);
    generator_image image = { .seed = s.seed,
                              .left = s.left,
                              .seeded = 1,
                              .next = (uint64_t)s.next,
                              .normal = s.has_normal ? s.normal : 0,
                              .has_normal = s.has_normal };
    for (int i = 0; i < K_RANDOM_WORDS; i++)
        image.word[i] = s.word[i];
    return rg_from_dims(&image, RG_INT64, RG_DIMS(GENERATOR_IMAGE_NUMBERS));
}

/* Reads a generator's state from the tensor `state` into *image. If the tensor doesn't hold a valid
 * state, fails with a message like torch's and returns false. */
static bool generator_read_image(rg_tensor *state, generator_image *image, const char *op) {
    /* In torch the state is a tensor of bytes, whose number is a multiple of 8. This library has no
     * dtype for bytes, so its state is an int64 tensor with the same bytes. */
    RG_FAIL_AS_IF(RG_TYPE_ERROR, state->dtype != RG_INT64, op,
                  "RNG state must be a torch.int64 tensor");
    RG_FAIL_IF(state->ndim != 1, op, "RNG state must have 1 dim, but has %d", state->ndim);
    RG_FAIL_IF(state->numel != GENERATOR_IMAGE_NUMBERS, op,
               "Expected a generator state of %zu numbers but found the input RNG state size to "
               "be %lld",
               (size_t)GENERATOR_IMAGE_NUMBERS, (long long)state->numel);
    rg_copy_out(state, image, sizeof *image);
    bool valid = image->seeded && image->left >= 1 && image->left <= K_RANDOM_WORDS
                 && image->next <= (uint64_t)(K_RANDOM_WORDS - image->left + 1);
    RG_FAIL_IF(!valid, op, "Invalid mt19937 state");
    return true;
}

bool rg_generator_set_state(rg_generator *g, rg_tensor *state) {
    static const char op[] = "generator_set_state";
    generator_image image;
    if (!rgi_may_do_once(op) || !rgi_check(state, op) || !generator_read_image(state, &image, op)
        || !rgi_generator_lock(g, op))
        return false;
    k_random_stream *s = &g->stream;
    s->seed = image.seed;
    s->left = image.left;
    s->next = (int)image.next;
    s->has_normal = image.has_normal & 1;
    s->normal = image.normal;
    for (int i = 0; i < K_RANDOM_WORDS; i++)
        s->word[i] = (uint32_t)image.word[i];
    rgi_generator_unlock(g);
    return true;
}
