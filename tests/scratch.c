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

/* Calls `see`, unless it is NULL, with the path of each file. Returns the number of files. */
static int each_file(int (*see)(const char *path)) {
    DIR *files = opendir(folder);
    int n = 0;
    ck_assert(files != NULL);
    for (struct dirent *file; (file = readdir(files));) {
        if (!strcmp(file->d_name, ".") || !strcmp(file->d_name, ".."))
            continue;
        n++;
        if (see)
            see(scratch(file->d_name));
    }
    closedir(files);
    return n;
}

int scratch_files(void) { return each_file(NULL); }

void scratch_end(void) {
    each_file(remove);
    ck_assert(rmdir(folder) == 0);
}

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
