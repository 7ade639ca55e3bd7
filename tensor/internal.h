/*
 * internal.h: the structs behind tensor.h, and the calls that tensor/ and
 * autograd/ make on each other below the public surface.
 */
#pragma once

#include "tensor.h"

#include <locale.h>
#include <stdatomic.h>
#include <string.h>

#define RG_LIKELY(x)   __builtin_expect(!!(x), 1)
#define RG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RG_COUNT(a)    ((int)(sizeof(a) / sizeof((a)[0])))
#define RG_MIN(a, b)   ((a) < (b) ? (a) : (b))
#define RG_MAX(a, b)   ((a) > (b) ? (a) : (b))
#define RG_SWAP(a, b)            \
    do {                         \
        __auto_type swap_ = (a); \
        (a) = (b);               \
        (b) = swap_;             \
    } while (0)

/* Which loops to run, of those for several instruction sets (see sets.h): 0 any processor's, 1
 * AVX2's and FMA's, 2 AVX-512's. All give the same bits, but for products, which add up as many
 * lanes as there are, with multiply-adds where there are. */
extern int k_set;

/* RG_WIDE(name, (parameters), (arguments)) { a loop }: compiled twice; the copy with longer vectors
 * and a multiply-add instruction is run where the processor has them. The bits are the same: fma
 * rounds once in either. */
#ifdef __x86_64__
#define RG_WIDE(name, parameters, arguments)                                           \
    static inline __attribute__((always_inline)) void name##_loop parameters;          \
    __attribute__((target("avx2,fma"), noinline)) static void name##_avx2 parameters { \
        name##_loop arguments;                                                         \
    }                                                                                  \
    static void name parameters {                                                      \
        if (k_set)                                                                     \
            name##_avx2 arguments;                                                     \
        else                                                                           \
            name##_loop arguments;                                                     \
    }                                                                                  \
    static inline __attribute__((always_inline)) void name##_loop parameters
#else
#define RG_WIDE(name, parameters, arguments) static void name parameters
#endif

/* ---- memory.c: the one door to malloc ---------------------------------------
 * Blocks are 64-byte aligned. rgi_alloc fails with RG_OUT_OF_MEMORY set. */
typedef enum rg_class { RG_MEM_HEADER, RG_MEM_STORAGE, RG_MEM_NODE, RG_MEM_OTHER } rg_class;
void *rgi_alloc(size_t bytes, rg_class cls);
void rgi_free(void *block, size_t bytes, rg_class cls);
/* Grows a block of OTHER by doubling until it holds `want` items; false: out of memory. */
bool rgi_grow(void **block, size_t *capacity, size_t want, size_t item);
bool rgi_pool_bypassed(void);
/* the same, for what is asked for all the time; */
static inline void *rgi_alloc_fast(size_t bytes, rg_class cls);
/* at the end of this file */
static inline void rgi_free_fast(void *block, size_t bytes, rg_class cls);

/* ---- error.c ------------------------------------------------------------------
 * rgi_fail records "op: sentence" and gives NULL (the compiler can see that it
 * does, hence the macro); op NULL: what is being applied, if anything is.
 * What a function made of others calls would name itself: after RG_AS("relu6"), to the end
 * of the block, the failure is the outermost such function's. */
extern __thread const char *rgi_applying __attribute__((tls_model("initial-exec")));
extern __thread const char *rgi_named_as __attribute__((tls_model("initial-exec")));
static inline const char *rgi_as(const char *name) {
    const char *before = rgi_named_as;
    if (!before)
        rgi_named_as = name;
    return before;
}
static inline void rgi_as_end(const char **before) { rgi_named_as = *before; }
#define RG_AS(name)                           \
    const char *RG_PASTE(rg_as_, __COUNTER__) \
        __attribute__((cleanup(rgi_as_end), unused)) = rgi_as(name)
extern __thread const char *rgi_inside
    __attribute__((tls_model("initial-exec"))); /* the module that is called; or NULL */
void rgi_fail_(rg_code code, const char *op, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
#define rgi_fail(...)           \
    __extension__({             \
        rgi_fail_(__VA_ARGS__); \
        (void *)0;              \
    })
/* Where the condition holds, the caller fails: with torch's RuntimeError, or another code. */
#define RG_FAIL_IF(condition, ...)       RG_FAIL_AS_IF(RG_RUNTIME_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_INDEX_IF(condition, ...) RG_FAIL_AS_IF(RG_INDEX_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_VALUE_IF(condition, ...) RG_FAIL_AS_IF(RG_VALUE_ERROR, condition, __VA_ARGS__)
#define RG_FAIL_DTYPE_IF(condition, op, kernel, dtype)                                          \
    RG_FAIL_AS_IF(RG_NOT_IMPLEMENTED, condition, op, "\"%s\" not implemented for '%s'", kernel, \
                  rgi_scalar_name(dtype))
#define RG_FAIL_AS_IF(code, condition, ...)     \
    do {                                        \
        if (RG_UNLIKELY(condition))             \
            return rgi_fail(code, __VA_ARGS__); \
    } while (0)
/* Is t an argument to work on? Not NULL (which fails silently if an error stands),
 * not RG_NONE, not released. */
bool rgi_check_slow(rg_tensor *t, const char *op) __attribute__((cold));
/* the same of what is no tensor: "a module" */
bool rgi_given(const void *it, const char *op, const char *what);
#define rgi_given_list(n, v, op) rgi_given((n) < 0 || ((n) && !(v)) ? NULL : "", op, "a list")

/* ---- tensors --------------------------------------------------------------------*/
typedef struct rg_storage {
    atomic_int refs;
    uint32_t version;     /* writes since birth */
    uint32_t rebased;     /* of those, the ones that the graph recorded */
    uint32_t constant;    /* of this recording: no run makes it anew */
    const char *mutation; /* the name of the last write */
    size_t bytes;         /* of data; and RG_LENT */
    void *data;           /* behind this header */
    rg_replay *lender;
} rg_storage;

/* What a tensor knows of its past: tensor/ only prints and releases it. */
typedef struct rg_history rg_history;
typedef struct rg_history_class {
    const char *(*name)(const rg_history *h); /* "AddBackward0"; NULL for a leaf */
    void (*release)(rg_history *h);
} rg_history_class;
/* the name that its tensor was given */
struct rg_history {
    const rg_history_class *cls;
    char *name;
};
/* a copy; NULL: none; false: out of memory */
bool rgi_rename(char **place, const char *name);

enum { RG_ALIVE = 0x52454741, RG_DEAD = 0x44454144 };
enum rg_tensor_flags {
    RG_CONTIGUOUS = 1,
    RG_WEAK = 2, /* a wrapped number: weak in promotion */
    RG_VIEW = 4, /* shares another tensor's storage, and its history */
    RG_RETAINS_GRAD = 8,
    RG_IS_PARAMETER = 16, /* a module's: prints as one */
    /* by the recording that is being made, which its references don't count */
    RG_HELD = 32,
};

struct rg_tensor {
    rg_storage *storage; /* first: a released header's free-list link may overwrite it, */
    uint32_t state;      /* but never this: RG_ALIVE or RG_DEAD */
    atomic_int refs;
    uint8_t dtype, ndim, flags;
    uint8_t output;   /* which output of its history it is */
    atomic_uint slot; /* where the scope stack last put it: a hint */
    atomic_uint kept; /* how often rg_keep took it out */
    uint32_t rebased; /* the storage's count when this header got its history */
    int64_t numel;
    char *data;          /* of the first element */
    rg_history *history; /* not NULL: requires grad */
    char *name;
    int64_t size[RG_MAX_DIMS];
    int64_t stride[RG_MAX_DIMS]; /* in elements */
};

/* Every size is copied, used or not: a few whole registers are quicker than a loop. */
static inline void rgi_copy_shape(rg_tensor *to, const rg_tensor *from) {
    to->ndim = from->ndim;
    memcpy(to->size, from->size, sizeof to->size);
}

static inline void rgi_set_size(rg_tensor *t, const rg_dims *shape) {
    t->ndim = (uint8_t)shape->n;
    for (int d = 0; d < shape->n; d++)
        t->size[d] = shape->v[d];
}

/* t, which is contiguous, as one row. */
static inline rg_tensor rgi_flat(rg_tensor t) {
    t.ndim = 1;
    t.size[0] = t.numel;
    t.stride[0] = 1;
    return t;
}

static inline bool rgi_same_shape(const rg_tensor *a, const rg_tensor *b) {
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i])
            return false;
    return true;
}

/* True if t may be worked on; else the error stands. */
static inline bool rgi_check(rg_tensor *t, const char *op) {
    return RG_LIKELY(t && t->state == RG_ALIVE && t != RG_NONE) || rgi_check_slow(t, op);
}

/* A number that stands elsewhere, as a 0-d tensor. */
#define RG_NUMBER(type, place)            \
    ((rg_tensor){ .state = RG_ALIVE,      \
                  .dtype = type,          \
                  .flags = RG_CONTIGUOUS, \
                  .numel = 1,             \
                  .data = (char *)(place) })

static inline bool rgi_is_none(const rg_tensor *t) { return t == RG_NONE; }
static inline bool rgi_is_float(rg_dtype d) { return d >= RG_FLOAT32; }
/* 1, 8, 4, 8 bytes */
static inline size_t rgi_sizeof(rg_dtype d) { return 0x8481u >> 4 * d & 15; }

/* storage.c: headers and their memory. A new header belongs to the caller, who
 * releases it or gives it to the scope; only rgi_own's result is a user's. */
/* alive, one reference, no storage, 0-d */
static inline rg_tensor *rgi_header_new(void);
/* contiguous strides and storage for its size */
bool rgi_allocate(rg_tensor *t);
rg_tensor *rgi_new(rg_dtype dtype, int ndim, const int64_t *size); /* both; not zeroed */
/* the same, of what a user asks for */
rg_tensor *rgi_new_dims(const char *op, const rg_dims *shape, int dtype);
rg_tensor *rgi_new_like(const rg_tensor *x, rg_dtype dtype); /* both, of x's shape */
/* and without gaps in its memory order */
rg_tensor *rgi_new_dense_like(const rg_tensor *x, rg_dtype dtype);
/* outermost first; true: as they are */
bool rgi_memory_order(const rg_tensor *t, int order[RG_MAX_DIMS]);
/* a new header on t's storage, without history */
rg_tensor *rgi_alias(rg_tensor *t);
void rgi_destroy(rg_tensor *t); /* what the last release does */
static inline void rgi_retain(rg_tensor *t);
static inline void rgi_release(rg_tensor *t); /* NULL and RG_NONE are nobody's */
/* contiguous ones; and numel and the flag */
void rgi_set_strides(rg_tensor *t);
/* numel and the flag from size and stride */
void rgi_update_flags(rg_tensor *t);
/* counts a write to its storage; a recording refuses it */
void rgi_wrote(rg_tensor *t, const char *op);
/* the same of one that it has noted */
void rgi_count_write(rg_tensor *t, const char *op);

/* May op write to t in place? Fails with torch's sentence. The guard is the autograd layer's: a
 * leaf that requires grad stays as it is, and a result of the graph is written to only by what is
 * recorded. */
bool rgi_may_write(rg_tensor *t, const char *op, bool recorded);
extern bool (*rgi_write_guard)(rg_tensor *t, const char *op, bool recorded);
/* whoever it is: each of its elements has a place of its own */
bool rgi_may_overwrite(const rg_tensor *t, const char *op);

/* Counts of references. A locked instruction takes as long as twenty others, and a process with one
 * thread, as the C library knows, needs none. RG_COUNT_DOWN: are these the last n? */
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define RG_ALONE RG_LIKELY(__libc_single_threaded)
#else
#define RG_ALONE false
#endif
#define RG_COUNT_UP(count, n)                                                                     \
    do {                                                                                          \
        if (RG_ALONE)                                                                             \
            atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + (n), \
                                  memory_order_relaxed);                                          \
        else                                                                                      \
            atomic_fetch_add_explicit(count, n, memory_order_relaxed);                            \
    } while (0)
#define RG_COUNT_DOWN(count, n)                                                   \
    __extension__({                                                               \
        __auto_type now_ = atomic_load_explicit(count, memory_order_acquire);     \
        if (now_ != (n)) {                                                        \
            if (RG_ALONE)                                                         \
                atomic_store_explicit(count, now_ - (n), memory_order_relaxed);   \
            else                                                                  \
                now_ = atomic_fetch_sub_explicit(count, n, memory_order_acq_rel); \
        }                                                                         \
        now_ == (n);                                                              \
    })

static inline void rgi_retain(rg_tensor *t) { RG_COUNT_UP(&t->refs, 1); }

static inline void rgi_release(rg_tensor *t) {
    if (t && t != RG_NONE && RG_COUNT_DOWN(&t->refs, 1))
        rgi_destroy(t);
}

/* scope.c */
/* gives a reference to the scope; NULL stays NULL */
static inline rg_tensor *rgi_own(rg_tensor *t);
rg_tensor *rgi_own_slowly(rg_tensor *t);
rg_tensor *rgi_lend(rg_tensor *t); /* adds a reference, and gives that */
void rgi_scope_end_root(void);     /* when the thread ends */
/* room for a string that the scope owns */
char *rgi_own_string(size_t bytes);
/* that grows; begin it with { 0 } */
typedef struct rg_text {
    char *v;
    size_t n, room;
    bool failed;
} rg_text;
void rgi_text_add(rg_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rgi_text_free(rg_text *t);
/* frees it, and gives a copy to the scope; NULL: no memory for it */
char *rgi_text_own(rg_text *t);

/* shape.c: everything fails with torch's sentence */
/* negative ones; a 0-d has dim 0 */
bool rgi_wrap_dim(const char *op, int64_t dim, int ndim, int *out);
/* Each wrapped, and their mask; again: what to say of one that comes twice. */
bool rgi_wrap_dims(const char *op, rg_dims *dims, int ndim, uint32_t *mask, const char *again);
bool rgi_broadcast_shapes(const char *op, const rg_tensor *a, const rg_tensor *b, rg_tensor *out);
/* does from broadcast to to's shape? */
bool rgi_expandable(const rg_tensor *from, const rg_tensor *to);
/* -1: negative or too large */
int64_t rgi_dims_numel(const char *op, const rg_dims *d);
const char *rgi_shape_text(int n, const int64_t *size, char buf[192]); /* [6, 3] */
#define RG_SHAPE_TEXT(t) \
    rgi_shape_text((t)->ndim, (t)->size, (char[192]){ 0 }) /* to the end of the block */
#define RG_DIMS_TEXT(d) rgi_shape_text((d)->n, (d)->v, (char[192]){ 0 })
bool rgi_check_dims(const char *op, int n); /* at most RG_MAX_DIMS */

/* dtype.c */
bool rgi_check_dtype(const char *op, int dtype);
rg_dtype rgi_promote(int n, rg_tensor *const t[]); /* torch's result_type */
const char *rgi_scalar_name(rg_dtype d);           /* Float, Double, Long, Bool */
const char *rgi_c_name(rg_dtype d);                /* float, double, long int, bool */
double rgi_load_f64(const void *p, rg_dtype d);
int64_t rgi_load_i64(const void *p, rg_dtype d);
void rgi_store_f64(void *p, rg_dtype d, double v);
void rgi_store_i64(void *p, rg_dtype d, int64_t v);

/* iterate.c: one walk over up to RG_MAX_OPERANDS tensors that broadcast to the
 * first one's shape; neighbouring dims that can be walked as one are merged. */
#define RG_MAX_OPERANDS 5
typedef struct rg_walk {
    int n, ndim;
    int64_t numel;
    int64_t size[RG_MAX_DIMS];                  /* outermost first */
    int64_t step[RG_MAX_DIMS][RG_MAX_OPERANDS]; /* bytes */
    int64_t element[RG_MAX_OPERANDS];           /* bytes of one */
    char *data[RG_MAX_OPERANDS];
} rg_walk;
/* n elements from p[k], each operand stepping by step[k] bytes */
typedef void rg_loop(char *const p[], const int64_t step[], int64_t n, const void *context);
/* by_stride: in the order in which the output lies, else in that of its dims. */
void rgi_walk_make(rg_walk *w, int n, rg_tensor *const t[], bool by_stride);
void rgi_walk_run(const rg_walk *w, rg_loop *inner, const void *context);
/* The usual case: make and run, with a short way for what is contiguous throughout. */
void rgi_each(int n, rg_tensor *const t[], rg_loop *inner, const void *context);
/* The same for a loop to whose elements no order matters: from RG_LARGE of them on they are spread
 * over the threads. */
enum { RG_LARGE = 1 << 16 };
void rgi_each_apart(int n, rg_tensor *const t[], rg_loop *inner, const void *context);

rg_loop *rgi_copy_loop(rg_dtype to, rg_dtype from);           /* p[0] from p[1] */
void rgi_copy_elements(rg_tensor *to, const rg_tensor *from); /* broadcasts and converts */
void rgi_fill_zero(rg_tensor *t);
/* integer: for int64 and bool */
void rgi_fill_number(rg_tensor *t, double value, int64_t integer);
/* a new reference: t itself if it is one already */
rg_tensor *rgi_contiguous_copy(rg_tensor *t, rg_dtype dtype);
bool rgi_overlaps_itself(const rg_tensor *t); /* two elements in one place? */

/* parallel.c: [0, n) in parts of `grain`, the last may be shorter, each of them work(context,
 * begin, end, worker) on one of `workers` threads, which are counted from 0: of rgi_workers(n,
 * grain), or 1. In place where that is 1: little, one thread, or inside other such work. A part
 * must not depend on others; room for each worker is the caller's to find before. */
typedef void rg_work(void *context, int64_t begin, int64_t end, int worker);
int rgi_workers(int64_t n, int64_t grain);
void rgi_parallel(int64_t n, int64_t grain, int workers, rg_work *work, void *context);

/* print.c: after RG_C_NUMBERS(), to the end of the block, numbers have a point, whatever the
 * program's locale */
locale_t rgi_locale_c(void); /* what it was */
static inline void rgi_locale_back(locale_t *before) { uselocale(*before); }
#define RG_C_NUMBERS()                         \
    locale_t RG_PASTE(rg_locale_, __COUNTER__) \
        __attribute__((cleanup(rgi_locale_back), unused)) = rgi_locale_c()

/* replay.c, while rgi_this.recording; false: the run fails */
typedef bool rg_again(void *context);
struct rg_replay {
    uint64_t id;
    struct rg_replay_entry *entries;
    size_t n, room;
    /* what entries work on; and what rgi_new made, in order */
    rg_tensor **held;
    size_t n_held, held_room;
    /* anew: what is lent was never lent before */
    bool failed, anew;
};
/* room for the context; NULL: the recording has failed */
void *rgi_note(rg_again *run, void (*drop)(void *context), size_t bytes);
void rgi_note_copy(rg_tensor *to, rg_tensor *from); /* NULL: zeros */
void rgi_hold(rg_tensor *t);
/* every run writes to all of t; false: but it was read before */
bool rgi_made_again(rg_tensor *t, const char *op);
/* refuses what a recording can't contain; true: there is none */
bool rgi_not_again(const char *op);
/* A recording's memory goes round: what nobody has any more is lent to what it makes later, as in
 * the step itself. No list of free blocks takes a storage of so many bytes. */
#define RG_LENT ((size_t)1 << 48)
bool rgi_lend_storage(rg_tensor *t, size_t bytes);
/* the step reads it; NULL: there is none yet */
void rgi_lend_anew(const rg_tensor *grad);

/* ---- the thread's own -------------------------------------------------------------*/
typedef struct rg_free_block {
    struct rg_free_block *next;
    /* of a released rg_tensor: is not to be written to */
    uint64_t keeps_state;
    struct rg_free_block *batch; /* the first of the next batch */
    uint32_t count;              /* of its batch */
} rg_free_block;
/* count: from the first; limit 0: not in use */
typedef struct rg_free_list {
    rg_free_block *first, *spare;
    uint32_t count, limit;
} rg_free_list;
/* see memory.c and rgi_destroy: more wouldn't stay in L1 */
enum { RG_SMALL_CLASSES = 65, RG_LARGE_CLASSES = 4 * 28, RG_RESTING = 16 };

typedef struct rg_thread {
    bool ready;
    /* replay.c: the recording, how deep in what is noted as a whole; in a run, what rgi_new gives
     * next */
    rg_replay *recording;
    rg_tensor **again, **again_end;
    int inside;
    /* rgi_new's tensors are held, to be given again */
    bool logging;
    /* scope.c: what scopes own, and where each open scope begins */
    rg_tensor **stack;
    size_t depth, room;
    size_t *marks;
    size_t scopes, marks_room;
    /* memory.c */
    rg_free_list small[RG_SMALL_CLASSES]; /* the first is of tensor headers */
    rg_tensor *resting[RG_RESTING];       /* those released last: see rgi_destroy */
    uint32_t rests;
    rg_free_block *large[RG_LARGE_CLASSES];
    int64_t cached; /* bytes in large ones */
    /* where the next small block is cut from, */
    char *fresh;
    /* what is left of it, and how much to ask for next */
    size_t fresh_bytes, chunk;
    atomic_long watermark; /* the drift above which the peak rises */
    int64_t fail_at;
    atomic_long bytes[RG_MEM_OTHER + 1];   /* written by this thread alone, */
    atomic_long drift, peak, system_calls; /* read by whoever asks for statistics */
    struct rg_thread *next, **link;
    /* error.c */
    rg_code code;
    char message[1024];
} rg_thread;
/* One pointer in the static thread-local block, of which a library that is loaded
 * late gets very little; until the thread's first call it is the nobody's, whose
 * lists are empty. */
extern __thread rg_thread *rgi_me __attribute__((tls_model("initial-exec")));
#define rgi_this (*rgi_me)
rg_thread *rgi_thread_start(void); /* idempotent; arranges for the exit */
static inline rg_thread *rgi_thread_get(void) {
    return RG_LIKELY(rgi_me->ready) ? rgi_me : rgi_thread_start();
}

/* Is what is done now to be noted? Not while nothing is recorded, nor inside what is noted as a
 * whole. */
static inline bool rgi_noting(void) {
    return RG_UNLIKELY(rgi_this.recording != NULL) && !rgi_this.inside;
}
/* Made by the step that is being recorded, and by nothing that a run does again. */
static inline bool rgi_is_constant(const rg_tensor *t) {
    return RG_UNLIKELY(rgi_this.recording != NULL)
           && t->storage->constant == (uint32_t)rgi_this.recording->id;
}

enum { RG_HEADER_BYTES = (sizeof(rg_tensor) + 63) / 64 * 64 }; /* of one, as the pool counts */

/* ---- the pool's short way -------------------------------------------------------- */
/* one writer: no locked instruction */
static inline void rgi_count_to(atomic_long *count, long n) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* the thread's count has left its bounds */
void rgi_drifted(rg_thread *me);
/* bytes that it keeps from the common one */
enum { RG_DRIFT_MAX = 256 << 10 };
/* 64 bytes each: what a list of small blocks holds on to */
enum { RG_SMALL_BATCH = 16 << 14 };
/* headers that threads hand to each other at once */
enum { RG_HEADER_BATCH = 512 };

/* Bytes of a class more, or less; others: of other classes, counted there already. */
static inline __attribute__((always_inline)) void rgi_count_bytes(rg_thread *me, rg_class cls,
                                                                  bool more, long bytes,
                                                                  long others) {
    long drift = atomic_load_explicit(&me->drift, memory_order_relaxed)
                 + (more ? bytes + others : -bytes - others);
    rgi_count_to(&me->bytes[cls], more ? bytes : -bytes);
    atomic_store_explicit(&me->drift, drift, memory_order_relaxed);
    if (RG_UNLIKELY(more ? drift > atomic_load_explicit(&me->watermark, memory_order_relaxed)
                         : drift < -RG_DRIFT_MAX))
        rgi_drifted(me);
}

/* The list for small blocks; no bytes or many: past the last. */
static inline size_t rgi_small_class(size_t bytes, rg_class cls) {
    return cls == RG_MEM_HEADER ? 0 : (bytes - 1) / 64 + 1;
}

/* The first of a list, uncounted. */
static inline void *rgi_take(rg_thread *me, size_t c) {
    rg_free_block *b = me->small[c].first;
    me->small[c].first = b->next;
    me->small[c].count--;
    return b;
}

static inline void *rgi_alloc_fast(size_t bytes, rg_class cls) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, cls);
    if (RG_UNLIKELY(c >= RG_SMALL_CLASSES || !me->small[c].first || me->fail_at))
        return rgi_alloc(bytes, cls);
    void *b = rgi_take(me, c);
    rgi_count_bytes(me, cls, true, (long)(bytes + 63) / 64 * 64, 0);
    return b;
}

enum { RG_STORAGE_HEADER = 64 }; /* the data follow at a multiple of 64 */
_Static_assert(sizeof(rg_storage) <= RG_STORAGE_HEADER, "it fits");

/* t's own new storage. */
static inline void rgi_storage_begin(rg_tensor *t, rg_storage *s, size_t bytes) {
    memset(s, 0, sizeof *s);
    atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
    s->bytes = bytes;
    s->data = (char *)s + RG_STORAGE_HEADER;
    t->storage = s;
    t->data = s->data;
}

static inline rg_tensor *rgi_header_begin(rg_tensor *t) {
    memset(t, 0, offsetof(rg_tensor, size));
    t->state = RG_ALIVE;
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

/* What rgi_alias makes. */
static inline void rgi_alias_begin(rg_tensor *a, const rg_tensor *t) {
    RG_COUNT_UP(&t->storage->refs, 1);
    a->storage = t->storage;
    a->state = RG_ALIVE;
    atomic_store_explicit(&a->refs, 1, memory_order_relaxed);
    a->dtype = t->dtype;
    a->ndim = t->ndim;
    a->flags = t->flags & (RG_CONTIGUOUS | RG_WEAK);
    a->output = 0;
    atomic_store_explicit(&a->slot, 0, memory_order_relaxed);
    atomic_store_explicit(&a->kept, 0, memory_order_relaxed);
    a->rebased = t->rebased;
    a->numel = t->numel;
    a->data = t->data;
    a->history = NULL;
    a->name = NULL;
    memcpy(a->size, t->size, sizeof a->size);
    memcpy(a->stride, t->stride, sizeof a->stride);
}

static inline rg_tensor *rgi_header_new(void) {
    rg_tensor *t = rgi_alloc_fast(sizeof *t, RG_MEM_HEADER);
    return t ? rgi_header_begin(t) : NULL;
}

/* t's size, and strides and count of what is contiguous, if each is small; else false: it may be
 * empty, or more than fits. */
static inline bool rgi_lay_out(rg_tensor *t, int ndim, const int64_t *size) {
    int64_t numel = 1;
    for (int d = ndim; d-- > 0; numel *= t->size[d]) {
        if (RG_UNLIKELY((uint64_t)size[d] - 1 >= 127))
            return false;
        t->size[d] = size[d];
        t->stride[d] = numel;
    }
    t->numel = numel;
    return true;
}

/* What rgi_new makes, both blocks at once, of what is small and at hand; else NULL, without an
 * error. */
static inline rg_tensor *rgi_new_at_hand(rg_dtype dtype, int ndim, const int64_t *size) {
    rg_thread *me = &rgi_this;
    /* of its count and all behind the list makes no use */
    rg_tensor *t = (rg_tensor *)me->small[0].first;
    if (RG_UNLIKELY(!t || me->fail_at || me->recording || me->again || !rgi_lay_out(t, ndim, size)))
        return NULL;
    size_t bytes = (size_t)t->numel * rgi_sizeof(dtype),
           c = rgi_small_class(RG_STORAGE_HEADER + bytes, RG_MEM_STORAGE);
    rg_free_block *block = c < RG_SMALL_CLASSES ? me->small[c].first : NULL;
    int64_t numel = t->numel;
    if (RG_UNLIKELY(!block))
        return NULL;
    rgi_take(me, 0);
    rgi_take(me, c);
    rgi_header_begin(t);
    t->dtype = dtype;
    t->flags = RG_CONTIGUOUS;
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    rgi_storage_begin(t, (rg_storage *)block, bytes);
    rgi_count_to(&me->bytes[RG_MEM_HEADER], RG_HEADER_BYTES);
    rgi_count_bytes(me, RG_MEM_STORAGE, true, (long)c * 64, RG_HEADER_BYTES);
    return t;
}

/* rgi_new_like(x, x->dtype), where x is contiguous. */
static inline rg_tensor *rgi_new_beside(const rg_tensor *x) {
    rg_tensor *t = rgi_new_at_hand(x->dtype, x->ndim, x->size);
    return RG_LIKELY(t) ? t : rgi_new_like(x, x->dtype);
}

static inline rg_tensor *rgi_own(rg_tensor *t) {
    rg_thread *me = &rgi_this;
    if (RG_UNLIKELY(!t || t == RG_NONE || me->depth == me->room))
        return rgi_own_slowly(t);
    atomic_store_explicit(&t->slot, (uint32_t)me->depth, memory_order_relaxed);
    me->stack[me->depth++] = t;
    return t;
}

/* Back into its list, uncounted; is there room for it? */
static inline bool rgi_has_room(const rg_thread *me, size_t c) {
    return c < RG_SMALL_CLASSES && me->small[c].count < me->small[c].limit;
}
static inline void rgi_put_back(rg_thread *me, void *block, size_t c) {
    rg_free_block *b = block;
    b->next = me->small[c].first;
    me->small[c].first = b;
    me->small[c].count++;
}

static inline void rgi_free_fast(void *block, size_t bytes, rg_class cls) {
    rg_thread *me = &rgi_this;
    size_t c = rgi_small_class(bytes, cls);
    if (RG_UNLIKELY(!rgi_has_room(me, c))) {
        rgi_free(block, bytes, cls);
        return;
    }
    rgi_put_back(me, block, c);
    rgi_count_bytes(me, cls, false, (long)((bytes + 63) / 64 * 64), 0);
}

static inline void rgi_storage_release(rg_storage *s) {
    if (RG_COUNT_DOWN(&s->refs, 1))
        rgi_free_fast(s, RG_STORAGE_HEADER + s->bytes, RG_MEM_STORAGE);
}
