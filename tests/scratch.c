/*
 * scratch.c: a folder for the files of a test.
 */
#include "scratch.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[256];

void scratch_begin(void) {
    const char *in = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/regard-XXXXXX", in && *in ? in : "/tmp");
    ck_assert_msg(mkdtemp(folder) != NULL, "no folder %s", folder);
}

const char *scratch(const char *name) {
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], *name ? "%s/%s" : "%s%s", folder, name);
    return path;
}

int scratch_files(void) {
    DIR *files = opendir(folder);
    int n = 0;
    ck_assert(files != NULL);
    for (struct dirent *file; (file = readdir(files));)
        n += strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0;
    closedir(files);
    return n;
}

/* Removes a file, or a folder with all that is in it. */
static void remove_all(const char *path) {
    DIR *files = opendir(path);
    for (struct dirent *file; files && (file = readdir(files));) {
        char below[1200];
        snprintf(below, sizeof below, "%s/%s", path, file->d_name);
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0)
            remove_all(below);
    }
    if (files)
        closedir(files);
    ck_assert_msg((files ? rmdir(path) : remove(path)) == 0, "cannot remove %s", path);
}

void scratch_end(void) { remove_all(folder); }

const char *scratch_write(const char *name, const void *bytes, size_t n) {
    const char *path = scratch(name);
    remove(path); /* Truncating an existing file would write it to the disk at once. */
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "no file %s", path);
    ck_assert(fwrite(bytes, 1, n, file) == n);
    ck_assert(fclose(file) == 0);
    return path;
}

char *file_bytes(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 12;
    char *bytes = malloc(room);
    ck_assert_msg(file != NULL, "cannot read %s: run the tests from the top folder", path);
    *n = 0;
    for (size_t got; (got = fread(bytes + *n, 1, room - *n, file)) > 0;) {
        *n += got;
        if (*n == room)
            bytes = realloc(bytes, room *= 2);
    }
    fclose(file);
    return bytes;
}

bool same_files(const char *a, const char *b) {
    size_t n, m;
    char *x = file_bytes(a, &n), *y = file_bytes(b, &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}
