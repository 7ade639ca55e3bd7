/*
 * test_files.c: reading and writing through file.h. Files are read whole, even if the system gives
 * few bytes at a time. They are written whole or not at all, whichever call fails, and whenever the
 * process is killed.
 */
#include "tests/faults.h"
#include "tests/killed.h"
#include "tests/memory_file.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/files/files.h"
#include "tensor/files/file.h"
#include "tensor/files/foreign.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/text/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 300000, SMALL = 1000 };

/* Returns byte i of the files that the tests write. */
static char byte_at(size_t i, int version) { return (char)(i * 31 + i / 1000 + (size_t)version); }

static bool write_bytes(const char *path, size_t n, size_t at_a_time, int version) {
    rg_writer w;
    if (!rgi_writer_begin(&w, "save", path))
        return false;
    char part[BIG];
    for (size_t done = 0, m; done < n; done += m) {
        m = RG_MIN(at_a_time, n - done);
        for (size_t i = 0; i < m; i++)
            part[i] = byte_at(done + i, version);
        rgi_write(&w, part, m);
    }
    return rgi_writer_end(&w);
}

static void check_bytes(const char *path, size_t n, int version) {
    RG_SCOPE();
    size_t got = 0;
    char *text = rgi_file_text("load", path, &got);
    ck_ok(text);
    ck_assert_uint_eq(got, n);
    for (size_t i = 0; i < n; i++)
        ck_each(text[i] == byte_at(i, version), "byte %zu of %zu", i, n);
    ck_assert(text[n] == 0);
}

/* ---- reading ------------------------------------------------------------------------ */

START_TEST(test_read) {
    scratch_begin();
    const char *path = scratch("f");
    ck_ok(write_bytes(path, SMALL, 10, 0));
    rg_file f;
    char part[100];
    ck_ok(rgi_file_open(&f, "load", path));
    ck_assert_uint_eq(f.bytes, SMALL);
    for (size_t at = 0; at <= SMALL - sizeof part; at += 90) {
        ck_ok(rgi_file_read(&f, at, part, sizeof part));
        for (size_t i = 0; i < sizeof part; i++)
            ck_each(part[i] == byte_at(at + i, 0), "byte %zu", at + i);
    }
    ck_ok(rgi_file_read(&f, SMALL, part, 0));
    ck_fails(rgi_file_read(&f, SMALL - 1, part, 2), RG_IO_ERROR,
             "f': it ends at byte 1000, but byte 1001 is needed");
    ck_fails(rgi_file_read(&f, UINT64_MAX, part, 2), RG_IO_ERROR, "it ends at byte 1000");
    ck_fails(rgi_file_read(&f, 1, part, SIZE_MAX), RG_IO_ERROR, "it ends at byte 1000");
    rgi_file_close(&f);
    rgi_file_close(&f);
    ck_ok(write_bytes(path, 0, 1, 0));
    check_bytes(path, 0, 0);
    scratch_end();
}
END_TEST

/* Reports a file that is larger than any memory. */
static int stat_endless(int fd, struct stat *status) {
    const int result = fstat(fd, status);
    status->st_size = -1;
    return result;
}

START_TEST(test_no_file) {
    scratch_begin();
    rg_file f;
    size_t n;
    ck_fails(rgi_file_open(&f, "load", scratch("none")), RG_IO_ERROR,
             "load: [Errno 2] No such file or directory: '");
    ck_fails(rgi_file_open(&f, "load", scratch("")), RG_IO_ERROR,
             "load: [Errno 21] Is a directory: '");
    ck_fails(rgi_file_open(&f, "load", NULL), RG_TYPE_ERROR, "load: expected a path but got NULL");
    ck_fails(rgi_file_open(&f, "load", "/dev/null"), RG_IO_ERROR,
             "load: '/dev/null': it is no regular file");
    /* A pipe to which nobody writes must be refused, and not waited for. */
    ck_assert(mkfifo(scratch("pipe"), 0600) == 0);
    ck_fails(rgi_file_text("load", scratch("pipe"), &n), RG_IO_ERROR, "it is no regular file");
    const rg_system before = rgi_system;
    rgi_system.stat = stat_endless;
    ck_fails(rgi_file_text("load", scratch_write("f", "x", 1), &n), RG_OUT_OF_MEMORY, "");
    rgi_system = before;
    scratch_end();
}
END_TEST

/* The bytes are the same if each call moves few of them and signals interrupt the calls. */
START_TEST(test_short_calls) {
    static const size_t most[] = { 1, 7, 4096, 65536 };
    scratch_begin();
    const char *path = scratch("f");
    for (int i = 0; i < RG_COUNT(most); i++) {
        const size_t n = most[i] < 100 ? SMALL : BIG;
        faults_begin();
        faults.most = most[i];
        faults.interrupts = true;
        ck_ok(write_bytes(path, n, n / 3, i));
        check_bytes(path, n, i);
        ck_assert_int_eq(faults.open, 0);
        faults_end();
        check_bytes(path, n, i);
    }
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

START_TEST(test_cut_short) {
    scratch_begin();
    const char *path = scratch("f");
    size_t n;
    ck_ok(write_bytes(path, SMALL, SMALL, 0));
    faults_begin();
    faults.ends = true;
    for (int interrupts = 0; interrupts < 2; interrupts++) {
        faults.interrupts = interrupts;
        ck_fails(rgi_file_text("load", path, &n), RG_IO_ERROR,
                 "f': it was cut short at byte 0 while it was read");
    }
    ck_assert_int_eq(faults.open, 0);
    faults_end();
    /* The file is cut short after it was opened. */
    rg_file f;
    char part[SMALL];
    ck_ok(rgi_file_open(&f, "load", path));
    ck_assert(truncate(path, 600) == 0);
    ck_ok(rgi_file_read(&f, 0, part, 600));
    /* The end of a file isn't taken for an interruption, even if errno is EINTR from before. */
    errno = EINTR;
    ck_fails(rgi_file_read(&f, 100, part, 900), RG_IO_ERROR, "it was cut short at byte 600");
    rgi_file_close(&f);
    scratch_end();
}
END_TEST

/* ---- faults ------------------------------------------------------------------------- */

/* Each call of a read fails in turn. */
START_TEST(test_read_faults) {
    scratch_begin();
    const char *path = scratch("f");
    size_t n;
    ck_ok(write_bytes(path, SMALL, SMALL, 0));
    faults_begin();
    check_bytes(path, SMALL, 0);
    const long calls = faults.calls;
    ck_assert_int_eq(calls, 4);
    for (long fail = 1; fail < calls; fail++) {
        faults.calls = 0;
        faults.fail_at = fail;
        ck_fails(rgi_file_text("load", path, &n), RG_IO_ERROR, "load: [Errno 5] ");
        ck_assert_int_eq(faults.open, 0);
    }
    /* The last call closes the file. If it fails, the file has been read nevertheless. */
    faults.calls = 0;
    faults.fail_at = calls;
    check_bytes(path, SMALL, 0);
    ck_assert_str_eq(faults.failed, "close");
    faults_end();
    scratch_end();
}
END_TEST

/* Each call of a save fails in turn. If one of the last three calls fails, which come after the
 * rename, the save succeeds. Otherwise the old file stays, and there is no other file in the
 * folder. */
static void check_write_faults(size_t n, size_t at_a_time) {
    scratch_begin();
    const char *path = scratch("f");
    faults_begin();
    ck_ok(write_bytes(path, n, at_a_time, 1));
    const long calls = faults.calls;
    for (long fail = 1; fail <= calls; fail++) {
        ck_ok(write_bytes(path, n, at_a_time, 1));
        faults.calls = 0;
        faults.fail_at = fail;
        bool saved = write_bytes(path, n, at_a_time, 2);
        faults.fail_at = 0;
        ck_assert_msg(saved == (fail > calls - 3), "call %ld, %s", fail, faults.failed);
        ck_assert_msg(saved || strncmp(rg_error(), "save: [Errno 5] ", 16) == 0, "%s", rg_error());
        ck_assert_int_eq(rg_error_code(), saved ? RG_OK : RG_IO_ERROR);
        rg_error_clear();
        ck_assert_int_eq(faults.open, 0);
        ck_assert_int_eq(scratch_files(), 1);
        check_bytes(path, n, saved ? 2 : 1);
    }
    faults_end();
    scratch_end();
}

START_TEST(test_write_faults) {
    check_write_faults(SMALL, SMALL);
    check_write_faults(BIG, SMALL);
    check_write_faults(BIG, BIG);
}
END_TEST

/* After a failure, writing more has no effect: it needs no memory, and the error stays. */
START_TEST(test_elements_after_a_failure) {
    RG_SCOPE();
    rg_writer w;
    rg_tensor *part = rg_rand(300, 300);
    part->size[1] = 200;
    rgi_update_flags(part);
    scratch_begin();
    faults_begin();
    ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
    faults.full = true;
    rgi_write_elements(&w, part);
    faults.full = false;
    rg_memory_fail_at(1);
    rgi_write_elements(&w, part);
    rg_memory_fail_at(0);
    ck_assert_msg(strstr(rg_error(), "save: [Errno 28] "), "%s", rg_error());
    rg_error_clear();
    ck_assert(!rgi_writer_end(&w) && scratch_files() == 0);
    /* If there is no memory for a copy of the elements, the save fails, and no file is left. */
    ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
    rg_memory_fail_at(1);
    rgi_write_elements(&w, part);
    rg_memory_fail_at(0);
    ck_assert_int_eq(rg_error_code(), RG_OUT_OF_MEMORY);
    rg_error_clear();
    ck_assert(!rgi_writer_end(&w) && scratch_files() == 0);
    faults_end();
    scratch_end();
}
END_TEST

START_TEST(test_full_disk) {
    scratch_begin();
    faults_begin();
    faults.full = true;
    for (int interrupts = 0; interrupts < 2; interrupts++) {
        faults.interrupts = interrupts;
        ck_fails(write_bytes(scratch("f"), BIG, SMALL, 0), RG_IO_ERROR, "save: [Errno 28] ");
    }
    faults.interrupts = false;
    faults.full = false;
    faults.calls = 0;
    faults.fail_at = 3;
    faults.number = ENOSPC;
    ck_fails(write_bytes(scratch("f"), BIG, SMALL, 0), RG_IO_ERROR, "save: [Errno 28] ");
    ck_assert_int_eq(faults.open, 0);
    faults_end();
    ck_assert_int_eq(scratch_files(), 0);
    scratch_end();
}
END_TEST

/* Closes a file, and reports another error than other failing calls do. */
static int close_over_quota(int fd) {
    close(fd);
    errno = EDQUOT;
    return -1;
}

static int close_interrupted(int fd) {
    close(fd);
    errno = EINTR;
    return -1;
}

static int syncs;

static int sync_never(int fd) {
    (void)fd;
    errno = EIO;
    return syncs++ < 10 ? -1 : 0;
}

/* A file is synced once before it is renamed. If writing has failed, it isn't synced. */
START_TEST(test_sync) {
    scratch_begin();
    faults_begin();
    rgi_system.sync = sync_never;
    ck_fails(write_bytes(scratch("f"), SMALL, SMALL, 0), RG_IO_ERROR, "save: [Errno 5] ");
    ck_assert_int_eq(syncs, 1);
    faults.full = true;
    ck_fails(write_bytes(scratch("f"), SMALL, SMALL, 0), RG_IO_ERROR, "save: [Errno 28] ");
    ck_assert_int_eq(syncs, 1);
    faults_end();
    ck_assert_int_eq(scratch_files(), 0);
    scratch_end();
}
END_TEST

/* After rgi_writer_settle the file is written and closed, but has a temporary name. rgi_writer_end
 * renames it, and rgi_writer_cancel removes it. */
START_TEST(test_settle) {
    scratch_begin();
    rg_writer w;
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        faults_begin();
        ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
        rgi_write(&w, "text", 4);
        ck_ok(rgi_writer_settle(&w));
        ck_assert_int_eq(faults.open, 0);
        ck_assert_int_eq(access(scratch("f"), F_OK), cancelled - 1);
        if (cancelled)
            rgi_writer_cancel(&w);
        else
            ck_ok(rgi_writer_end(&w));
        faults_end();
        ck_assert_int_eq(scratch_files(), 1);
    }
    size_t n;
    char *bytes = file_bytes(scratch("f"), &n);
    ck_assert(n == 4 && memcmp(bytes, "text", 4) == 0);
    free(bytes);
    scratch_end();
}
END_TEST

/* The error is about the first failure. A close that a signal interrupts is no failure. */
START_TEST(test_close_fails) {
    const rg_system before = rgi_system;
    scratch_begin();
    faults_begin();
    rgi_system.close = close_over_quota;
    ck_fails(write_bytes(scratch("f"), SMALL, SMALL, 0), RG_IO_ERROR, "save: [Errno 122] ");
    faults.full = true;
    ck_fails(write_bytes(scratch("f"), SMALL, SMALL, 0), RG_IO_ERROR, "save: [Errno 28] ");
    faults_end();
    ck_assert_int_eq(scratch_files(), 0);
    rgi_system.close = close_interrupted;
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    rgi_system = before;
    check_bytes(scratch("f"), SMALL, 0);
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

/* ---- the file that is replaced ------------------------------------------------------ */

static mode_t mode_of(const char *path) {
    struct stat status;
    ck_assert(stat(path, &status) == 0);
    return status.st_mode & 07777;
}

START_TEST(test_permissions) {
    scratch_begin();
    mode_t before = umask(026);
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_assert_int_eq(mode_of(scratch("f")), 0640);
    ck_assert(chmod(scratch("f"), 0604) == 0);
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 1));
    ck_assert_int_eq(mode_of(scratch("f")), 0604);
    umask(before);
    scratch_end();
}
END_TEST

/* A save through a link replaces the file to which the link points. A second name of the old file
 * keeps the old bytes. */
START_TEST(test_links) {
    scratch_begin();
    struct stat status;
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_assert(link(scratch("f"), scratch("other")) == 0);
    ck_assert(symlink("f", scratch("link")) == 0);
    ck_ok(write_bytes(scratch("link"), SMALL, SMALL, 1));
    ck_assert(lstat(scratch("link"), &status) == 0 && S_ISLNK(status.st_mode));
    check_bytes(scratch("f"), SMALL, 1);
    check_bytes(scratch("link"), SMALL, 1);
    check_bytes(scratch("other"), SMALL, 0);
    ck_assert_int_eq(scratch_files(), 3);
    scratch_end();
}
END_TEST

/* A save through a link to a missing file makes the file, and the link stays. Links that lead in a
 * circle, or into a missing folder, are errors. */
START_TEST(test_links_to_nothing) {
    scratch_begin();
    struct stat status;
    ck_assert(symlink("new", scratch("first")) == 0 && symlink("first", scratch("second")) == 0);
    ck_ok(write_bytes(scratch("second"), SMALL, SMALL, 1));
    ck_assert(lstat(scratch("second"), &status) == 0 && S_ISLNK(status.st_mode));
    ck_assert(lstat(scratch("first"), &status) == 0 && S_ISLNK(status.st_mode));
    check_bytes(scratch("new"), SMALL, 1);
    ck_assert(symlink("circle", scratch("circle")) == 0);
    ck_fails(write_bytes(scratch("circle"), SMALL, SMALL, 1), RG_IO_ERROR, strerror(ELOOP));
    ck_assert(symlink("nowhere/file", scratch("lost")) == 0);
    ck_fails(write_bytes(scratch("lost"), SMALL, SMALL, 1), RG_IO_ERROR, strerror(ENOENT));
    ck_assert_int_eq(scratch_files(), 5);
    scratch_end();
}
END_TEST

/* A reader that has opened the old file still reads the old file. */
START_TEST(test_reader_keeps_old_file) {
    scratch_begin();
    rg_file f;
    char part[SMALL];
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_ok(rgi_file_open(&f, "load", scratch("f")));
    ck_ok(write_bytes(scratch("f"), 10, 10, 1));
    ck_ok(rgi_file_read(&f, 0, part, SMALL));
    for (size_t i = 0; i < SMALL; i++)
        ck_each(part[i] == byte_at(i, 0), "byte %zu", i);
    rgi_file_close(&f);
    check_bytes(scratch("f"), 10, 1);
    scratch_end();
}
END_TEST

START_TEST(test_no_place) {
    scratch_begin();
    rg_writer w;
    ck_fails(rgi_writer_begin(&w, "save", NULL), RG_TYPE_ERROR, "expected a path but got NULL");
    ck_fails(rgi_writer_begin(&w, "save", scratch("no/f")), RG_IO_ERROR,
             "[Errno 2] No such file or");
    ck_fails(rgi_writer_begin(&w, "save", scratch("")), RG_IO_ERROR,
             "[Errno 21] Is a directory: '");
    ck_fails(write_bytes("", 1, 1, 0), RG_IO_ERROR,
             "save: [Errno 2] No such file or directory: ''");
    /* Saving into a device is refused, and the device stays. */
    ck_assert(mkfifo(scratch("pipe"), 0600) == 0);
    ck_fails(rgi_writer_begin(&w, "save", scratch("pipe")), RG_IO_ERROR,
             "pipe': it is no regular file");
    char name[300] = { 0 };
    memset(name, 'x', sizeof name - 1);
    ck_fails(write_bytes(scratch(name), 1, 1, 0), RG_IO_ERROR, "[Errno 36] ");
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

/* If a killed process has left a file with the temporary name of a new file, the new file gets
 * another temporary name. */
START_TEST(test_beside_is_taken) {
    scratch_begin();
    faults_begin();
    faults.exists = true;
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_assert(!faults.exists);
    faults_end();
    check_bytes(scratch("f"), SMALL, 0);
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

/* Makes the system lose new files, or refuse to make them. */
static struct {
    int made, lose; /* The number of new files, and of those that are lost. */
    bool replaced;  /* Another file takes the place of each lost one. */
    bool exists;    /* New files can't be made, since their names exist. */
    int (*open)(const char *path, int flags, mode_t mode);
} losing;

static int open_and_lose(const char *path, int flags, mode_t mode) {
    const bool makes = flags & O_CREAT;
    if (makes && losing.exists && losing.made++ < losing.lose) {
        errno = EEXIST;
        return -1;
    }
    const int fd = losing.open(path, flags, mode);
    if (!makes || losing.exists || losing.made++ >= losing.lose)
        return fd;
    ck_assert(fd >= 0 && unlink(path) == 0);
    if (losing.replaced)
        close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
    return fd;
}

static bool write_losing(int lose, bool replaced, bool exists) {
    faults_begin();
    losing.made = 0;
    losing.lose = lose;
    losing.replaced = replaced;
    losing.exists = exists;
    losing.open = rgi_system.open;
    rgi_system.open = open_and_lose;
    const bool saved = write_bytes(scratch("f"), SMALL, SMALL, 0);
    ck_assert_int_eq(faults.open, 0);
    faults_end();
    return saved;
}

/* Before a new file is locked, another process may take it for a leftover of a killed process,
 * remove it, and make its own file with the same name. The writer then tries the next name. After a
 * hundred names it fails, and the error is that the file exists. */
static void check_losing(void) {
    scratch_begin();
    ck_ok(write_losing(99, false, true));
    ck_assert_int_eq(losing.made, 100);
    ck_ok(write_losing(99, false, false));
    ck_assert_int_eq(losing.made, 100);
    check_bytes(scratch("f"), SMALL, 0);
    ck_assert_int_eq(scratch_files(), 1);
    ck_fails(write_losing(100, false, true), RG_IO_ERROR, "save: [Errno 17] ");
    ck_fails(write_losing(100, false, false), RG_IO_ERROR, "save: [Errno 17] ");
    ck_assert_int_eq(losing.made, 100);
    ck_assert_int_eq(scratch_files(), 1);
    /* A file that another process has made is neither renamed nor removed. */
    ck_ok(write_losing(3, true, false));
    ck_assert_int_eq(losing.made, 4);
    check_bytes(scratch("f"), SMALL, 0);
    ck_assert_int_eq(scratch_files(), 4);
    scratch_end();
}

START_TEST(test_beside_is_lost) { check_losing(); }
END_TEST

/* Calls f while the descriptor 0 is free, so that the next file that is opened gets it. */
static void without_file_0(void (*f)(void)) {
    const int kept = dup(0);
    close(0);
    f();
    const bool open = fcntl(0, F_GETFD) >= 0;
    if (kept >= 0) {
        dup2(kept, 0);
        close(kept);
    }
    ck_assert(!open);
}

static void write_and_cancel(void) {
    rg_writer w;
    scratch_begin();
    faults_begin();
    ck_ok(write_bytes(scratch("f"), BIG, SMALL, 0));
    ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
    ck_assert_int_eq(w.fd, 0);
    rgi_writer_cancel(&w);
    ck_assert_int_eq(faults.open, 0);
    faults_end();
    check_bytes(scratch("f"), BIG, 0);
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}

START_TEST(test_a_file_numbered_0) {
    without_file_0(write_and_cancel);
    without_file_0(check_losing);
}
END_TEST

/* Returns the number of a process that has ended. */
static long dead_process(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    ck_assert(waitpid(child, NULL, 0) == child);
    return child;
}

static char synced[64];

static int open_and_note(const char *path, int flags, mode_t mode) {
    if (flags & O_DIRECTORY)
        snprintf(synced, sizeof synced, "%s", path);
    return memory_open(path, flags, mode);
}

/* The folder in which the file was renamed is synced. */
START_TEST(test_synced_folder) {
    static const char *const paths[][2] = {
        { "f", "." },       { "/f", "/" },  { "no/f", "no" },
        { "/no/f", "/no" }, { "./f", "." }, { "no/where/f", "no/where" },
    };
    memory_file_begin();
    rgi_system.open = open_and_note;
    for (int i = 0; i < RG_COUNT(paths); i++) {
        ck_ok(write_bytes(paths[i][0], SMALL, SMALL, 0));
        ck_assert_str_eq(synced, paths[i][1]);
    }
    memory_file_end();
}
END_TEST

START_TEST(test_in_this_folder) {
    char before[4096];
    scratch_begin();
    ck_assert(getcwd(before, sizeof before) != NULL && chdir(scratch("")) == 0);
    char name[64];
    snprintf(name, sizeof name, "f.%ld-0.new", dead_process());
    scratch_write(name, "x", 1);
    ck_ok(write_bytes("f", SMALL, SMALL, 0));
    check_bytes("f", SMALL, 0);
    ck_assert(chdir(before) == 0);
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

START_TEST(test_cancel) {
    scratch_begin();
    rg_writer w;
    ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
    rgi_write(&w, "text", 4);
    rgi_write_zeros_to(&w, 64);
    ck_assert_uint_eq(w.bytes, 64);
    rgi_write_zeros_to(&w, 64);
    ck_assert_uint_eq(w.bytes, 64);
    rgi_write(&w, NULL, 0);
    ck_assert_int_eq(scratch_files(), 1);
    rgi_writer_cancel(&w);
    ck_assert_int_eq(scratch_files(), 0);
    ck_ok(rgi_writer_begin(&w, "save", scratch("f")));
    rgi_write(&w, "x", 1);
    rgi_write_zeros_to(&w, 4096);
    ck_ok(rgi_writer_end(&w));
    size_t n;
    char *bytes = file_bytes(scratch("f"), &n);
    ck_assert_uint_eq(n, 4096);
    for (size_t i = 0; i < n; i++)
        ck_each(bytes[i] == (i ? 0 : 'x'), "byte %zu", i);
    free(bytes);
    scratch_end();
}
END_TEST

/* ---- memory ------------------------------------------------------------------------- */

START_TEST(test_denied) {
    scratch_begin();
    const char *path = scratch("f");
    ck_ok(write_bytes(path, SMALL, SMALL, 1));
    faults_begin();
    size_t n;
    bool done = false;
    for (int64_t fail = 1; !done; fail++) {
        RG_SCOPE();
        const int64_t before = rg_memory_stats().now;
        rg_memory_fail_at(fail);
        done = write_bytes(path, SMALL, SMALL, 1) && rgi_file_text("load", path, &n);
        rg_memory_fail_at(0);
        ck_assert_int_eq(rg_error_code(), done ? RG_OK : RG_OUT_OF_MEMORY);
        rg_error_clear();
        ck_assert_int_eq(faults.open, 0);
        ck_assert(done || rg_memory_stats().now == before);
    }
    faults_end();
    check_bytes(path, SMALL, 1);
    ck_assert_int_eq(scratch_files(), 1);
    scratch_end();
}
END_TEST

/* ---- names in errors ---------------------------------------------------------------- */

START_TEST(test_shown) {
    char longest[200] = { 0 };
    memset(longest, 'a', sizeof longest - 1);
    ck_assert_str_eq(RG_SHOWN(""), "");
    ck_assert_str_eq(RG_SHOWN("wei\xc3\x9f.1"), "wei\xc3\x9f.1");
    ck_assert_str_eq(RG_SHOWN("a\n\x1b[31m\x7f\xc2\x9b"), "a??[31m??");
    ck_assert_str_eq(RG_SHOWN("\x1f ~\x7f\xc2\x80\xc2\x9f\u00a0\u07ff"), "? ~???\u00a0\u07ff");
    ck_assert_str_eq(RG_SHOWN("a\xff z"), "a..");
    ck_assert_str_eq(RG_SHOWN_BYTES("a\0b", 3), "a?b");
    ck_assert_str_eq(RG_SHOWN_BYTES("ab\xc3\x9f", 3), "ab..");
    ck_assert_int_eq(strlen(RG_SHOWN(longest)), 122);
    longest[119] = '\xc3';
    longest[120] = '\x9f';
    ck_assert_int_eq(strlen(RG_SHOWN(longest)), 121);
    longest[120] = 0;
    longest[119] = 'a';
    ck_assert_str_eq(RG_SHOWN(longest), longest);
}
END_TEST

/* ---- kill -9 ------------------------------------------------------------------------ */

enum { ELEMENTS = 40000 };

/* Saves tensors whose elements are all `version`. They are filled by a plain loop, which isn't
 * divided among threads. */
static bool save_version(int version) {
    RG_SCOPE();
    rg_named tensors[3];
    for (int i = 0; i < RG_COUNT(tensors); i++) {
        tensors[i] = (rg_named){ (const char *[]){ "a", "b", "c" }[i], rg_empty(ELEMENTS) };
        for (int64_t k = 0; tensors[i].tensor && k < ELEMENTS; k++)
            ((float *)tensors[i].tensor->data)[k] = (float)version;
    }
    rg_named_list all = { RG_COUNT(tensors), tensors };
    return rg_save_file(all, scratch("f"));
}

/* Asserts that all tensors of the file have one version. */
static void check_version(void) {
    RG_SCOPE();
    rg_named_list all = rg_load_file(scratch("f"));
    ck_assert_msg(all.n == 3, "%s", rg_error());
    const float version = *(const float *)all.v[0].tensor->data;
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < ELEMENTS; k++)
            ck_each(((const float *)all.v[i].tensor->data)[k] == version, "torn at %d, %d", i,
                    (int)k);
}

/* Kills a save before and after each of its calls. */
START_TEST(test_kill_at_each_call) {
    if (rg_emulated() || getenv("EMULATED"))
        return;
    scratch_begin();
    ck_ok(save_version(0));
    ck_assert_int_ge(killed_at_each_call(save_version, check_version), 8);
    scratch_end();
}
END_TEST

/* Kills each of 200 processes, which save again and again, after a short time. */
START_TEST(test_kill_at_any_time) {
    if (rg_emulated() || getenv("EMULATED"))
        return;
    scratch_begin();
    ck_ok(save_version(0));
    for (int i = 0; i < 200; i++) {
        killed_after(1 + i * 97 % 5000, save_version);
        check_version();
    }
    scratch_end();
}
END_TEST

/* Returns the number of open descriptors below 256. */
static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The next save removes files that killed saves left, and no others. */
START_TEST(test_leftovers) {
    scratch_begin();
    const long dead = dead_process();
    const struct {
        const char *format;
        long process;
        bool goes;
    } files[] = {
        { "f.%ld-0.new", dead, true },
        { "f.%ld-123456.new", dead, true },
        { "f.%ld-7.new", (long)getpid(), false },
        { "f.%ld-0.new", 1, false },
        { "g.%ld-0.new", dead, false },
        { "f.%ld-0.news", dead, false },
        { "f.%ld-x.new", dead, false },
        { "f.%ld-.new", dead, false },
        { "f.%ld.new", dead, false },
        { "f_%ld-0.new", dead, false },
        { "f0.%ld-0.new", dead, false },
        { "f.%ld-99999999999999999999.new", dead, false },
        { "f.%ldx0.new", dead, false },
        { "f.%ld_0.new", dead, false },
        { "f.%ld.0.new", dead, false },
        { "f.%ld-0-new", dead, false },
        { "f.%ld-0xnew", dead, false },
        { "f.%ld-0.", dead, false },
        { "f.%ld-0", dead, false },
        { "f.%ld-0.new", 0, false },
        { "f.%ld-1.new", INT_MAX, true },       /* No process has this number. */
        { "f.%ld-1.new", (long)(INT_MAX + INT64_C(1)), false }, /* These two are too large. */
        { "f.%ld-1.new", (long)(INT64_C(1) << 32) + dead, false },
        { "f.-%ld-0.new", dead, false },
        { "f. %ld-0.new", dead, false },
        { "f.%ld99999999999999999999-0.new", dead, false },
        { "f.f.%ld-0.new", dead, false },
        { "f.%ld-9.new", dead, false }, /* This one is locked. */
    };
    enum { FILES = sizeof files / sizeof *files };
    char name[FILES][64];
    for (int i = 0; i < FILES; i++) {
        snprintf(name[i], sizeof name[i], files[i].format, files[i].process);
        scratch_write(name[i], "x", 1);
    }
    const int locked = open(scratch(name[FILES - 1]), O_RDONLY);
    ck_assert(locked >= 0 && flock(locked, LOCK_EX) == 0);
    /* Folders, links and pipes with such names stay. */
    char folder[64], link[64], pipe[64];
    snprintf(folder, sizeof folder, "f.%ld-3.new", dead);
    snprintf(link, sizeof link, "f.%ld-4.new", dead);
    ck_assert(mkdir(scratch(folder), 0700) == 0 && symlink(name[4], scratch(link)) == 0);
    snprintf(pipe, sizeof pipe, "f.%ld-5.new", dead);
    ck_assert(mkfifo(scratch(pipe), 0600) == 0);
    const int files_open = open_files();
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_assert_int_eq(open_files(), files_open);
    ck_assert(access(scratch(pipe), F_OK) == 0);
    check_bytes(scratch("f"), SMALL, 0);
    for (int i = 0; i < FILES; i++)
        ck_assert_msg((access(scratch(name[i]), F_OK) != 0) == files[i].goes, "%s", name[i]);
    ck_assert(access(scratch(folder), F_OK) == 0 && access(scratch(link), F_OK) == 0);
    close(locked);
    ck_ok(write_bytes(scratch("f"), SMALL, SMALL, 0));
    ck_assert(access(scratch(name[FILES - 1]), F_OK) != 0);
    scratch_end();
}
END_TEST

/* A file that a living process is writing stays, whatever errno is from before. */
START_TEST(test_leftover_of_the_living) {
    char name[64];
    scratch_begin();
    snprintf(name, sizeof name, "f.%ld-7.new", (long)getpid());
    scratch_write(name, "x", 1);
    errno = ESRCH;
    rgi_remove_leftovers(scratch("f"));
    ck_assert_int_eq(scratch_files(), 1);
    const int fd = open(scratch(name), O_RDONLY);
    errno = EINTR;
    ck_assert(fd >= 0 && rgi_hold(fd, scratch(name)));
    close(fd);
    scratch_end();
}
END_TEST

/* A living process of another user isn't taken for one that has ended, so its file stays. The test
 * sees nothing if the other user can't write into the folder. */
START_TEST(test_leftover_of_another_user) {
    scratch_begin();
    scratch_write("f.1-0.new", "x", 1);
    ck_assert(chmod(scratch(""), 0777) == 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool mine = (geteuid() == 0 && setuid(65534) != 0) || access(scratch(""), W_OK) != 0;
        const bool stays = write_bytes(scratch("f"), SMALL, SMALL, 0)
                           && access(scratch("f.1-0.new"), F_OK) == 0;
        _exit(mine || stays ? 0 : 1);
    }
    int status;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
    scratch_end();
}
END_TEST

/* ---- names ----------------------------------------------------------------------------- */

/* Bytes before the begin of a name in memory don't belong to it. */
START_TEST(test_ends_of_names) {
    const char *name = "h.0.attn.bias";
    ck_assert(rgi_ends_with(name, "bias") && rgi_ends_with(name, "") && rgi_ends_with(name, name));
    ck_assert(!rgi_ends_with(name, "attn") && !rgi_ends_with(name, "xh.0.attn.bias"));
    for (size_t i = 0; i <= strlen(name); i++)
        ck_assert(rgi_ends_with(name + i, ".bias") == (i <= strlen("h.0.attn")));
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------- */

static bool to_file(rg_named_list list, const char *path) { return rg_save_file(list, path); }
static bool to_npy(rg_named_list list, const char *path) {
    return rg_save_npy(list.v[0].tensor, path);
}

/* Returns by how many bytes the peak of memory rises while a tensor is saved. */
static int64_t taken_by(bool (*save)(rg_named_list, const char *), rg_tensor *t) {
    const rg_named_list list = { 1, &(rg_named){ "t", t } };
    rg_memory_reset_peak();
    const int64_t before = rg_memory_stats().now;
    ck_ok(save(list, scratch("f")));
    return rg_memory_stats().peak - before;
}

/* Elements in contiguous order are written without a copy. Others are copied, and large tensors
 * some rows at a time. */
START_TEST(test_memory_for_saving) {
    static bool (*const save[])(rg_named_list, const char *) = { to_file, to_npy, rg_save_npz,
                                                                 rg_torch_save };
    scratch_begin();
    RG_SCOPE();
    rg_tensor *t = rg_zeros(3000, 1000), *part = rgi_own(rgi_alias(t));
    part->size[1] = 999;
    rgi_update_flags(part);
    for (int i = 0; i < RG_COUNT(save); i++)
        ck_assert_int_lt(taken_by(save[i], t), 1 << 19);
    for (int i = 0; i < 2; i++)
        ck_assert_int_lt(taken_by(save[i], part), 1 << 21);
    scratch_end();
}
END_TEST

RG_TESTS(files, test_read, test_no_file, test_short_calls, test_cut_short, test_read_faults,
         test_write_faults, test_elements_after_a_failure, test_full_disk, test_sync, test_settle,
         test_close_fails, test_permissions, test_links, test_links_to_nothing,
         test_reader_keeps_old_file, test_no_place, test_beside_is_taken, test_beside_is_lost,
         test_a_file_numbered_0, test_synced_folder, test_in_this_folder, test_cancel, test_denied,
         test_shown, test_kill_at_each_call, test_kill_at_any_time, test_leftovers,
         test_leftover_of_the_living, test_leftover_of_another_user, test_ends_of_names,
         test_memory_for_saving)
