/*
 * profile_file.c: the profiler's file: a list of JSON objects.
 */
#include "profile_file.h"

#include "tensor/files/json.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static FILE *profile_file;
static double profile_file_began;
static long profile_file_events;

/* Returns the path with the process's number in each %p's place. */
static rg_text path_of_process(const char *path) {
    rg_text text = { 0 };
    const char *p;
    for (; (p = strstr(path, "%p")); path = p + 2)
        rgi_text_add(&text, "%.*s%ld", (int)(p - path), path, (long)getpid());
    rgi_text_add(&text, "%s", path);
    return text;
}

void rgi_profile_file_begin(const char *path) {
    rg_text own = path_of_process(path);
    if (!own.failed)
        profile_file = fopen(own.v, "w");
    if (profile_file)
        fputs("[\n", profile_file);
    else
        fprintf(stderr, "REGARD_PROFILE: can't write to '%s'\n", own.failed ? path : own.v);
    rgi_text_free(&own);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    profile_file_began = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void rgi_profile_file_end(void) {
    if (!profile_file)
        return;
    fputs("\n]\n", profile_file);
    fclose(profile_file);
    profile_file = NULL;
}

/* Begins an event with the fields that all events have, the time in microseconds among them. */
static rg_text begin_event(const char *name, const char *kind, const char *phase, double when) {
    rg_text e = { 0 };
    rgi_text_add(&e, "%s{\"name\": ", profile_file_events ? ",\n" : "");
    rgi_json_quote(&e, name);
    rgi_text_add(&e, ", \"cat\": \"%s\", \"ph\": \"%s\", \"pid\": %ld, \"ts\": %.3f", kind, phase,
                 (long)getpid(), (when - profile_file_began) / 1e3);
    return e;
}

/* An event for which there is no memory isn't written. */
static void end_event(rg_text *e) {
    rgi_text_add(e, "}");
    if (!e->failed) {
        fputs(e->v, profile_file);
        profile_file_events++;
    }
    rgi_text_free(e);
}

void rgi_profile_file_call(const char *name, const char *kind, double began, double took) {
    if (!profile_file)
        return;
    rg_text e = begin_event(name, kind, "X", began);
    rgi_text_add(&e, ", \"tid\": %lu, \"dur\": %.3f", (unsigned long)pthread_self() >> 12,
                 took / 1e3);
    end_event(&e);
}

/* The two ends are events of one number, which is the beginning's place in the file. */
void rgi_profile_file_beside(const char *name, double began, double took, double bytes) {
    if (!profile_file)
        return;
    const long id = profile_file_events;
    rg_text begin = begin_event(name, "beside", "b", began);
    rgi_text_add(&begin, ", \"id\": %ld, \"args\": {\"bytes\": %.0f}", id, bytes);
    end_event(&begin);
    rg_text end = begin_event(name, "beside", "e", began + took);
    rgi_text_add(&end, ", \"id\": %ld", id);
    end_event(&end);
}
