/*
 * profile_file.c: writes the profiler's file, a JSON array with an object for each event.
 */
#include "profile_file.h"

#include "tensor/system/system.h"
#include "tensor/text/c_locale.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static FILE *profile_file;
static char profile_file_path[4096];
static long profile_file_process;
static long profile_file_events;
static int profile_file_error; /* The errno of the first write that failed, or 0. */

/* ---- beginning and ending the file --------------------------------------------------- */

/* Copies the path to profile_file_path, with the process ID in place of each %p. Returns false if
 * the path is too long. */
static bool set_path(const char *path) {
    char *own = profile_file_path;
    const size_t room = sizeof profile_file_path;
    size_t n = 0;
    for (const char *p = path; *p; p++) {
        const bool number = p[0] == '%' && p[1] == 'p';
        if (number)
            n += (size_t)snprintf(own + n, room - n, "%ld", rgi_process());
        else
            own[n++] = *p;
        if (n >= room)
            return false;
        p += number;
    }
    own[n] = 0;
    return true;
}

/* Writes the file's buffer out before a fork. Otherwise both processes would write the buffer's
 * contents. */
static void flush_before_fork(void) {
    if (profile_file)
        fflush(profile_file);
}

void rgi_profile_file_begin(const char *path) {
    if (set_path(path))
        profile_file = fopen(profile_file_path, "w");
    if (!profile_file) {
        fprintf(stderr, "REGARD_PROFILE: can't write to '%s'\n", path);
        return;
    }
    profile_file_process = rgi_process();
    rgi_expect_fork(flush_before_fork, NULL, NULL);
    fputs("[\n", profile_file);
}

static bool has_file(void) { return profile_file && profile_file_process == rgi_process(); }

/* If a write has failed, and no cause was noted before, notes the cause. */
static void note_error(void) {
    if (!profile_file_error && ferror(profile_file))
        profile_file_error = errno;
}

void rgi_profile_file_end(void) {
    if (!has_file())
        return;
    fputs("\n]\n", profile_file);
    note_error();
    if (fclose(profile_file) && !profile_file_error)
        profile_file_error = errno;
    profile_file = NULL;
    if (profile_file_error)
        fprintf(stderr, "REGARD_PROFILE: '%s' is incomplete: %s\n", profile_file_path,
                strerror(profile_file_error));
}

/* ---- writing events ------------------------------------------------------------------ */

static void write_quoted(const char *text) {
    putc('"', profile_file);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            putc('\\', profile_file);
        if ((unsigned char)*c < 0x20)
            fprintf(profile_file, "\\u%04x", (unsigned)*c);
        else
            putc(*c, profile_file);
    }
    putc('"', profile_file);
}

/* Begins an event with the fields that all events have. `when` is in nanoseconds, and is written in
 * microseconds. */
static void begin_event(const char *name, const char *kind, const char *phase, double when) {
    fputs(profile_file_events++ ? ",\n{\"name\": " : "{\"name\": ", profile_file);
    write_quoted(name);
    fprintf(profile_file, ", \"cat\": \"%s\", \"ph\": \"%s\", \"pid\": %ld, \"ts\": %.3f", kind,
            phase, profile_file_process, when / 1e3);
}

void rgi_profile_file_call(const char *name, const char *kind, double began, double took) {
    if (!has_file())
        return;
    RG_C_NUMBERS();
    begin_event(name, kind, "X", began);
    fprintf(profile_file, ", \"tid\": %lu, \"dur\": %.3f}", (unsigned long)pthread_self() >> 12,
            took / 1e3);
    note_error();
}

/* Writes the beginning and the end of the work as two events with a common id. The id is the number
 * of events that the file had before them. */
void rgi_profile_file_beside(const char *name, double began, double took, double bytes) {
    if (!has_file())
        return;
    RG_C_NUMBERS();
    const long id = profile_file_events;
    begin_event(name, "beside", "b", began);
    fprintf(profile_file, ", \"id\": %ld, \"args\": {\"bytes\": %.0f}}", id, bytes);
    begin_event(name, "beside", "e", began + took);
    fprintf(profile_file, ", \"id\": %ld}", id);
    note_error();
}
