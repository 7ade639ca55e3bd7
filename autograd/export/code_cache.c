/*
 * code_cache.c: compiles C at run time. A compiled file is kept beside the C file of which it was
 * made, in the folder of the user's caches, under a name that is made of a hash of the C file. It
 * is used again if the C file there is equal to the one that is to be compiled. The last line of
 * the C file, its seal, tells the size and a hash of the compiled file. One that was cut short or
 * damaged isn't loaded: the program would crash.
 */
#include "code_cache.h"

#include "tensor/error.h"
#include "tensor/files/file.h"
#include "tensor/messages/warning.h"
#include "tensor/scope.h"
#include "tensor/system/system.h"
#include "tensor/text/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------- */

/* Makes the folder for compiled files, and returns its path. Warns and returns NULL if it can't. */
static const char *cache_folder(const char *op) {
    const char *caches = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    rg_text path = { 0 };
    if (caches && *caches == '/')
        rgi_text_add(&path, "%s", caches);
    else if (home && *home)
        rgi_text_add(&path, "%s/.cache", home);
    else {
        rgi_warn(op, "there is no folder for compiled files (set XDG_CACHE_HOME or HOME), so the "
                     "step runs as before");
        return NULL;
    }
    const char *parent = rgi_text_own(&path);
    rg_text below = { 0 };
    rgi_text_add(&below, "%s/regard", parent ? parent : "");
    const char *folder = rgi_text_own(&below);
    if (!parent || !folder)
        return NULL;
    if (rgi_make_folder(parent) && rgi_make_folder(folder))
        return folder;
    rgi_warn(op, "the folder '%s' can't be made, so the step runs as before", folder);
    return NULL;
}

/* The 64-bit FNV-1a hash. */
static uint64_t hash(const char *text, size_t n) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3;
    return h;
}

static const char *path_in(const char *folder, uint64_t name, const char *end) {
    rg_text path = { 0 };
    rgi_text_add(&path, "%s/%016llx%s", folder, (unsigned long long)name, end);
    return rgi_text_own(&path);
}

/* ---- compiling ------------------------------------------------------------------------ */

/* Returns the seal of the compiled file at the path, or NULL if it can't be read. */
static const char *seal_of(const char *op, const char *path) {
    size_t bytes;
    const char *code = rgi_file_text(op, path, &bytes);
    if (!code)
        return NULL;
    rg_text seal = { 0 };
    rgi_text_add(&seal, "\n/* The compiled file has %zu bytes, with the hash %016llx. */\n", bytes,
                 (unsigned long long)hash(code, bytes));
    return rgi_text_own(&seal);
}

/* Sets *same to whether the C file at the path `c` has this text, and the seal of the compiled file
 * at the path `so`. Returns false if memory ran out. */
static bool has_text(const char *op, const char *c, const char *so, const char *text, size_t n,
                     bool *same) {
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    size_t length;
    const char *there = rgi_file_text(op, c, &length);
    const bool begins = there && length > n && memcmp(there, text, n) == 0;
    const char *seal = begins ? seal_of(op, so) : NULL;
    *same = seal && strcmp(there + n, seal) == 0;
    return rgi_attempt_had_memory(&aside);
}

static bool write_c_file(const char *op, const char *path, const char *text, size_t n,
                         const char *seal) {
    rg_writer w;
    if (!rgi_writer_begin(&w, op, path))
        return false;
    rgi_write(&w, text, n);
    rgi_write(&w, seal, strlen(seal));
    return rgi_writer_end(&w);
}

/* Writes the C file once more, with the seal of the compiled file. Warns if that can't be read. */
static bool seal(const char *op, const char *c, const char *so, const char *text, size_t n) {
    rg_failure aside;
    rgi_set_failure_aside(&aside);
    const char *line = seal_of(op, so);
    if (!rgi_attempt_had_memory(&aside))
        return false;
    if (!line)
        rgi_warn(op, "the compiler cc has made no file that can be read, so the step runs as "
                     "before");
    return line && write_c_file(op, c, text, n, line);
}

static const char *what_happened(int status) {
    if (status == RG_NOT_STARTED)
        return "can't be started";
    return status == RG_KILLED ? "was killed" : "failed";
}

/* Runs the compiler. Returns false, and warns, if the compiler fails. */
static bool run_compiler(const char *op, const char *from, const char *to,
                         const char *const options[]) {
    const char *argv[RG_MOST_OPTIONS + 10] = { "cc", "-std=gnu11", "-O3", "-shared", "-fPIC",
                                               "-w", "-o",         to,    from };
    int n = 9;
    for (int i = 0; i < RG_MOST_OPTIONS && options[i]; i++)
        argv[n++] = options[i];
    const int status = rgi_run_program(argv);
    if (status)
        rgi_warn(op, "the compiler cc %s, so the step runs as before",
                 what_happened(status));
    return status == 0;
}

/* Gives a complete file its name. Warns and returns false if that fails. */
static bool rename_file(const char *op, const char *from, const char *to) {
    if (rgi_system.rename(from, to) == 0)
        return true;
    rgi_warn(op, "the file '%s' can't be renamed to '%s', so the step runs as before", from, to);
    return false;
}

/* Compiles under new names, and renames the two files when they are complete. The C file comes
 * last: another process loads the compiled file only if the C file is there and has its text. */
static void *compile_to(const char *op, const char *folder, uint64_t name, const char *text,
                        size_t n, const char *const options[]) {
    const uint64_t own = name ^ (uint64_t)rgi_process() << 32;
    const char *new_c = path_in(folder, own, ".new.c");
    const char *new_so = path_in(folder, own, ".new.so");
    const char *c = path_in(folder, name, ".c");
    const char *so = path_in(folder, name, ".so");
    if (!new_c || !new_so || !c || !so || !write_c_file(op, new_c, text, n, ""))
        return NULL;
    const bool done = run_compiler(op, new_c, new_so, options)
                      && seal(op, new_c, new_so, text, n) && rename_file(op, new_so, so)
                      && rename_file(op, new_c, c);
    if (!done) {
        rgi_system.unlink(new_c);
        rgi_system.unlink(new_so);
    }
    void *code = done ? rgi_load_code(so) : NULL;
    if (done && !code)
        rgi_warn(op, "the compiled file '%s' can't be loaded, so the step runs as before", so);
    return code;
}

void *rgi_compile(const char *op, const char *text, size_t n, const char *const options[]) {
    RG_SCOPE();
    const char *folder = cache_folder(op);
    if (!folder)
        return NULL;
    const uint64_t name = hash(text, n);
    const char *c = path_in(folder, name, ".c");
    const char *so = path_in(folder, name, ".so");
    bool same;
    if (!c || !so || !has_text(op, c, so, text, n, &same))
        return NULL;
    void *code = same ? rgi_load_code(so) : NULL;
    return code ? code : compile_to(op, folder, name, text, n, options);
}
