/*
 * seal.c: seals of training runs. A seal that is written appends each step to its file by one
 * write. A file that is read stays in memory, as text, and a step is compared with its lines.
 */
#include "seal.h"

#include "autograd/autograd.h"
#include "autograd/ops/ops.h"
#include "checkpoint_given.h"
#include "nn/optim/optim_state.h"
#include "sha256.h"
#include "tensor/dtype.h"
#include "tensor/files/file.h"
#include "tensor/handle.h"
#include "tensor/map.h"
#include "tensor/observer.h"
#include "tensor/text/print.h"
#include "tensor/text/text.h"

#include <errno.h>
#include <string.h>

static const char first_line[] = "regard seal 1\n";

struct rg_seal {
    rg_handle handle;
    int fd; /* The file, which is open for appending. If steps are only compared, it is -1. */
    int64_t every;
    rg_text sealed; /* The file as it was read. Nothing if the file is new. */
    size_t found;   /* The offset in `sealed` of the step that was compared last. */
    int64_t last;   /* The last step that the file has. */
    int64_t same;   /* The last step that was compared and is the same, or -1. */
    bool failed;    /* A step has failed; `failed_step` is the first of them. */
    int64_t failed_step;
    bool torn;      /* A step was written in part, because the system refused the rest. */
    /* The chain of the file's last part, and that of the step that was sealed or compared last. */
    char end[RG_SHA256_ROOM], chain[RG_SHA256_ROOM];
    char path[];
};

/* ---- the parts of a file ---------------------------------------------------------------- */

/* The lines at the end of a part are "state HASH" and "chain HASH". */
enum { END_BYTES = 2 * (sizeof "state " - 1 + RG_SHA256_ROOM) };

/* Writes to `to` the last two lines of a part whose other lines are the n bytes at `lines`.
 * Replaces `chain`, the previous part's, by the part's own. The first part has "" before it. */
static void end_of_part(const char *lines, size_t n, char chain[RG_SHA256_ROOM],
                        char to[END_BYTES + 1]) {
    rg_sha256 hash;
    char state[RG_SHA256_ROOM];
    rgi_sha256_begin(&hash);
    rgi_sha256_add(&hash, lines, n);
    rgi_sha256_end(&hash, state);
    rgi_sha256_begin(&hash);
    rgi_sha256_add(&hash, chain, strlen(chain));
    rgi_sha256_add(&hash, state, strlen(state));
    rgi_sha256_end(&hash, chain);
    snprintf(to, END_BYTES + 1, "state %s\nchain %s\n", state, chain);
}

/* Appends the last two lines of a part, which begins at offset `from` of the text. */
static void end_part(rg_text *text, size_t from, char chain[RG_SHA256_ROOM]) {
    char end[END_BYTES + 1];
    if (text->failed)
        return;
    end_of_part(text->v + from, text->n - from, chain, end);
    rgi_text_add(text, "%s", end);
}

/* Appends the line of a tensor, but for the line's end. Control characters in the name, which could
 * end the line, become question marks. */
static void add_line(rg_text *text, const char *hash, const char *dtype, const char *shape,
                     const char *name) {
    const size_t from = text->n;
    rgi_text_add(text, "%s %s %s %s", hash, dtype, shape, name);
    for (size_t i = from; !text->failed && i < text->n; i++)
        if ((unsigned char)text->v[i] < ' ')
            text->v[i] = '?';
}

/* Appends the line of a tensor. Returns false on failure. */
static bool add_tensor(rg_text *text, rg_named named) {
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *t = named.tensor ? rg_contiguous(rg_detach(named.tensor)) : NULL;
    const char *shape = t ? rg_repr_shape(t) : NULL;
    if (!shape || !named.name)
        return false;
    const rg_dtype dtype = rg_dtype_of(t);
    rg_sha256 hash;
    char hex[RG_SHA256_ROOM];
    rgi_sha256_begin(&hash);
    rgi_sha256_add(&hash, rg_data(t), (size_t)rg_numel(t) * rgi_sizeof(dtype));
    rgi_sha256_end(&hash, hex);
    add_line(text, hex, rg_dtype_name(dtype), shape, named.name);
    rgi_text_add(text, "\n");
    return true;
}

/* Fails and returns false if two tensors have the same name, as in no checkpoint. */
static bool sealed_names_differ(rg_named_list all, const char *op) {
    rg_map known = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < all.n; i++) {
        const char *name = all.v[i].name;
        if (name && rgi_map_name(&known, name) >= 0)
            ok = rgi_fail(RG_VALUE_ERROR, op, "tensor \"%s\" comes twice", RG_SHOWN(name));
        ok = ok && name && rgi_map_put_name(&known, name, i);
    }
    rgi_map_free(&known);
    return ok;
}

/* Appends the lines of a step, without those at its end. Returns false on failure. */
static bool add_step_of_run(rg_text *text, const char *op, int64_t step, const rg_training *run) {
    RG_SCOPE();
    const rg_named_list all = rgi_checkpoint_tensors(run);
    if (!sealed_names_differ(all, op))
        return false;
    rgi_text_add(text, "step %lld\n", (long long)step);
    for (int i = 0; i < all.n; i++)
        if (!add_tensor(text, all.v[i]))
            return false;
    return all.n >= 0 && !text->failed;
}

/* Appends the first part of a file. */
static void add_first_part(rg_text *text, int64_t every, char chain[RG_SHA256_ROOM]) {
    rgi_text_add(text, "%sversion %s\nseed %llu\nprecision of products %s\nevery %lld\n",
                 first_line, RG_VERSION, (unsigned long long)rg_initial_seed(),
                 rg_get_float32_matmul_precision(), (long long)every);
    end_part(text, 0, chain);
}

/* ---- reading a file --------------------------------------------------------------------- */

static bool refuse_seal(const rg_seal *s, const char *op, const char *why) {
    return rgi_fail(RG_IO_ERROR, op, "'%s': %s", s->path, why);
}

/* Returns the number of bytes of the part that begins at `part`, or 0 if its end is missing. Sets
 * *lines to the number of bytes before its last two lines. */
static size_t bytes_of_part(const char *part, size_t *lines) {
    const char *state = strstr(part, "\nstate ");
    if (!state)
        return 0;
    *lines = (size_t)(state + 1 - part);
    return strlen(state + 1) < END_BYTES ? 0 : *lines + END_BYTES;
}

/* Checks the hashes of all parts that were read. What a killed program has left of a last part is
 * removed if the run is resumed, and is an error otherwise. Returns false on failure. */
static bool hashes_fit(rg_seal *s, const char *op, bool resume) {
    size_t at = 0, lines, n;
    char end[END_BYTES + 1];
    while (s->sealed.v[at] && (n = bytes_of_part(s->sealed.v + at, &lines))) {
        const char *part = s->sealed.v + at;
        end_of_part(part, lines, s->end, end);
        if (memcmp(part + lines, end, END_BYTES) != 0)
            return refuse_seal(s, op, "lines were changed after they had been sealed");
        if (at == 0)
            strcpy(s->chain, s->end);
        else if (sscanf(part, "step %lld", (long long *)&s->last) != 1)
            return refuse_seal(s, op, "a part isn't that of a step");
        at += n;
    }
    if (at == 0)
        return refuse_seal(s, op, "the first part isn't complete");
    if (s->sealed.v[at] && !resume)
        return refuse_seal(s, op,
                           "the last part isn't complete; rg_seal_begin(.., .resume = true) "
                           "removes it and goes on");
    rgi_text_cut(&s->sealed, at);
    return true;
}

/* Reads the file. Returns false on failure. */
static bool read_seal(rg_seal *s, const char *op, bool resume) {
    RG_SCOPE();
    size_t n;
    const char *text = rgi_file_text(op, s->path, &n);
    if (!text)
        return false;
    if (strncmp(text, first_line, strlen(first_line)) != 0 || strlen(text) != n)
        return refuse_seal(s, op, "it is no seal");
    rgi_text_add(&s->sealed, "%s", text);
    if (s->sealed.failed || !hashes_fit(s, op, resume))
        return false;
    const char *every = strstr(s->sealed.v, "\nevery ");
    if (!every || sscanf(every, "\nevery %lld", (long long *)&s->every) != 1 || s->every < 1)
        return refuse_seal(s, op, "it doesn't say which steps are sealed");
    return true;
}

/* ---- beginning a seal ------------------------------------------------------------------- */

/* Returns a seal whose file isn't read or written yet. Returns NULL on failure. */
static rg_seal *new_seal(const char *op, const char *path) {
    if (!rgi_may_do_once(op) || !rgi_given_path(path, op))
        return NULL;
    rg_seal *s = rgi_alloc(sizeof *s + strlen(path) + 1, RG_MEM_OTHER);
    if (!s)
        return NULL;
    *s = (rg_seal){ .handle = RG_NEW_HANDLE(SEAL), .fd = -1, .last = -1, .same = -1 };
    strcpy(s->path, path);
    return s;
}

/* Closes the file and releases the seal. Returns false if closing failed. */
static bool close_seal(rg_seal *s, const char *op) {
    const bool ok = rgi_file_append_end(s->fd, op, s->path);
    rgi_text_free(&s->sealed);
    rgi_free_handle(&s->handle, sizeof *s + strlen(s->path) + 1);
    return ok;
}

/* Replaces the file by one with the text, and opens it for appending. Returns false on failure. */
static bool open_file(rg_seal *s, const char *op, const rg_text *text) {
    rg_writer w;
    if (text->failed || !rgi_writer_begin(&w, op, s->path))
        return false;
    rgi_write(&w, text->v, text->n);
    if (!rgi_writer_end(&w))
        return false;
    s->fd = rgi_system.open(s->path, O_WRONLY | O_APPEND | O_CLOEXEC, 0666);
    if (s->fd < 0)
        rgi_fail_errno(op, errno, s->path);
    return s->fd >= 0;
}

/* Begins a new file. Returns false on failure. */
static bool begin_file(rg_seal *s, const char *op, int64_t every) {
    rg_text head = { 0 };
    s->every = every;
    add_first_part(&head, every, s->end);
    strcpy(s->chain, s->end);
    const bool ok = open_file(s, op, &head);
    rgi_text_free(&head);
    return ok;
}

/* Continues the file that is at the path. Returns false on failure. */
static bool resume_file(rg_seal *s, const char *op, int64_t every) {
    if (!read_seal(s, op, true))
        return false;
    RG_FAIL_VALUE_IF(s->every != every, op, "'%s' seals every %lld steps, and not every %lld",
                     s->path, (long long)s->every, (long long)every);
    return open_file(s, op, &s->sealed);
}

rg_seal *rg_seal_begin_with(const char *path, rg_seal_options o) {
    const char *op = "seal_begin";
    RG_FAIL_VALUE_IF(o.every < 1, op, "expected .every of at least 1, but got %lld",
                     (long long)o.every);
    rg_seal *s = new_seal(op, path);
    if (!s)
        return NULL;
    const bool resumes = o.resume && (rgi_is_writable(path) || errno != ENOENT);
    if (resumes ? resume_file(s, op, o.every) : begin_file(s, op, o.every))
        return s;
    close_seal(s, op);
    return NULL;
}

rg_seal *rg_seal_check(const char *path) {
    const char *op = "seal_check";
    rg_seal *s = new_seal(op, path);
    if (!s)
        return NULL;
    if (read_seal(s, op, false))
        return s;
    close_seal(s, op);
    return NULL;
}

/* ---- sealing and comparing -------------------------------------------------------------- */

/* Returns the lines of a step that were read from the file, or NULL. Steps mostly ascend, so the
 * search begins at the step that was found last. */
static const char *sealed_lines(rg_seal *s, int64_t step) {
    char line[40];
    snprintf(line, sizeof line, "\nstep %lld\n", (long long)step);
    if (!s->sealed.v || step > s->last)
        return NULL;
    const char *at = strstr(s->sealed.v + s->found, line);
    if (!at)
        at = strstr(s->sealed.v, line);
    if (!at)
        return NULL;
    s->found = (size_t)(at - s->sealed.v);
    return at + 1;
}

/* Returns the name at the end of a tensor's line, and sets *n to its number of bytes. If the line
 * isn't that of a tensor, because all tensors of the step were compared, returns a text that says
 * so. */
static const char *name_in(const char *line, size_t *n) {
    static const char nothing[] = "no further tensor";
    const size_t whole = strcspn(line, "\n");
    const char *bracket = memchr(line, ']', whole);
    const char *name = bracket ? bracket + strlen("]) ") : nothing;
    *n = bracket ? whole - (size_t)(name - line) : strlen(nothing);
    return name;
}

/* Fails with a sentence about two lines that differ. */
static bool tell_difference(const rg_seal *s, const char *op, int64_t step, const char *sealed,
                            const char *now) {
    size_t n, m;
    const char *a = name_in(sealed, &n), *b = name_in(now, &m);
    char before[80] = "";
    if (s->same >= 0)
        snprintf(before, sizeof before, "; at step %lld all was the same", (long long)s->same);
    if (n == m && memcmp(a, b, n) == 0)
        return rgi_fail(RG_RUNTIME_ERROR, op, "step %lld: %s isn't as it is sealed in '%s'%s",
                        (long long)step, RG_SHOWN_BYTES(b, m), s->path, before);
    return rgi_fail(RG_RUNTIME_ERROR, op, "step %lld: the run has %s where '%s' has %s%s",
                    (long long)step, RG_SHOWN_BYTES(b, m), s->path, RG_SHOWN_BYTES(a, n), before);
}

/* Returns whether the lines of a step are those that were sealed. Fails if not. */
static bool is_same(rg_seal *s, const char *op, int64_t step, const char *sealed, const char *now) {
    while (strncmp(sealed, "state ", 6) != 0) {
        const size_t n = strcspn(sealed, "\n") + 1;
        if (strncmp(sealed, now, n) != 0)
            return tell_difference(s, op, step, sealed, now);
        sealed += n;
        now += n;
    }
    if (*now)
        return tell_difference(s, op, step, sealed, now);
    s->same = step;
    memcpy(s->chain, sealed + END_BYTES - RG_SHA256_ROOM, RG_SHA256_ROOM - 1);
    return true;
}

/* Appends a step to the file. Returns false on failure. */
static bool append_step(rg_seal *s, const char *op, int64_t step, rg_text *text) {
    RG_FAIL_VALUE_IF(step <= s->last, op, "step %lld comes after step %lld, which is sealed",
                     (long long)step, (long long)s->last);
    RG_FAIL_AS_IF(RG_IO_ERROR, s->torn, op,
                  "'%s': an earlier step was written in part; rg_seal_begin(.., .resume = true) "
                  "removes it",
                  s->path);
    char chain[RG_SHA256_ROOM];
    strcpy(chain, s->end);
    end_part(text, 0, chain);
    if (text->failed)
        return false;
    s->torn = !rgi_file_append(s->fd, op, s->path, text->v, text->n);
    if (s->torn)
        return false;
    s->last = step;
    strcpy(s->end, chain);
    strcpy(s->chain, chain);
    return true;
}

/* Seals or compares a step, if it is a multiple of s->every. Returns false on failure. */
static bool seal_or_compare(rg_seal *s, const char *op, int64_t step, const rg_training *run) {
    RG_AS(op);
    RG_FAIL_VALUE_IF(step < 0, op, "expected a step that isn't negative, but got %lld",
                     (long long)step);
    if (step % s->every != 0)
        return true;
    if (!rgi_checkpoint_given(run, op))
        return false;
    const char *sealed = sealed_lines(s, step);
    RG_FAIL_IF(!sealed && s->fd < 0, op, "step %lld isn't in '%s', whose last step is %lld",
               (long long)step, s->path, (long long)s->last);
    rg_text text = { 0 };
    bool ok = add_step_of_run(&text, op, step, run);
    if (ok)
        ok = sealed ? is_same(s, op, step, sealed, text.v) : append_step(s, op, step, &text);
    rgi_text_free(&text);
    return ok;
}

bool(rg_seal_step)(rg_seal *s, int64_t step, rg_training run) {
    const char *op = "seal_step";
    if (!rgi_may_do_once(op) || !rgi_handle_given(s, op, RG_HANDLE_SEAL))
        return false;
    const bool ok = seal_or_compare(s, op, step, &run);
    if (!ok && !s->failed) {
        s->failed = true;
        s->failed_step = step;
    }
    return ok;
}

const char *rg_seal_hash(rg_seal *s) {
    return rgi_handle_given(s, "seal_hash", RG_HANDLE_SEAL) ? s->chain : NULL;
}

bool rg_seal_end(rg_seal *s) {
    const char *op = "seal_end";
    if (!rgi_may_do_once(op) || !rgi_handle_given(s, op, RG_HANDLE_SEAL))
        return false;
    const bool failed = s->failed;
    const int64_t step = s->failed_step;
    const bool idle = s->fd < 0 && s->same < 0;
    const bool closed = close_seal(s, op);
    RG_FAIL_IF(closed && failed, op, "step %lld has failed", (long long)step);
    RG_FAIL_IF(closed && idle, op,
               "the run has made none of the sealed steps: nothing was compared");
    return closed;
}
