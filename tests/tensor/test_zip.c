/*
 * test_zip.c: archives are read and written, and bad ones are refused, each with its own sentence.
 */
#include "archive.h"
#include "tests/faults.h"
#include "tests/scratch.h"
#include "tests/test.h"
#include "tensor/base.h"
#include "tensor/files/crc32.h"
#include "tensor/files/inflate.h"
#include "tensor/files/zip.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char abc[] = "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc";
static const char abc_deflated[] = "4b4c4a4e24170100";

static void make_good(archive *a, int wide) {
    static char packed[64];
    const size_t n = bytes_of_hex(packed, abc_deflated);
    const archive_member hello = { "a.txt", "hello", 5, 5, rgi_crc32(0, "hello", 5) };
    const archive_member deflated = { "b.txt", packed, n, 60, rgi_crc32(0, abc, 60) };
    make_archive(a, &hello, &deflated, wide);
}

/* Opens the file and reads all members. */
static bool read_all(const char *path) {
    RG_SCOPE();
    rg_zip z;
    bool ok = rgi_zip_open(&z, "load", path);
    for (size_t i = 0; ok && i < z.n; i++) {
        char *to = malloc((size_t)z.v[i].bytes + 1);
        ok = rgi_zip_read(&z, &z.v[i], to);
        free(to);
        if (!ok || i + 1 == z.n)
            rgi_zip_close(&z);
    }
    return ok;
}

static bool read_archive(const archive *a) { return read_all(scratch_write("f.zip", a->v, a->n)); }

/* ---- checksums and inflating ----------------------------------------------------------- */

START_TEST(test_crc) {
    char many[1000];
    ck_assert_uint_eq(rgi_crc32(0, "", 0), 0);
    ck_assert_uint_eq(rgi_crc32(0, "123456789", 9), 0xCBF43926);
    for (int i = 0; i < 1000; i++)
        many[i] = (char)(i * i);
    /* The CRC is the same if the bytes are given in two parts, and at any alignment. */
    const uint32_t whole = rgi_crc32(0, many + 1, 999);
    for (size_t cut = 0; cut <= 999; cut += 7)
        ck_assert_uint_eq(rgi_crc32(rgi_crc32(0, many + 1, cut), many + 1 + cut, 999 - cut), whole);
    uint32_t slow = 0xFFFFFFFF;
    for (int i = 1; i < 1000; i++) {
        slow ^= (unsigned char)many[i];
        for (int bit = 0; bit < 8; bit++)
            slow = slow >> 1 ^ (slow & 1 ? 0xEDB88320 : 0);
    }
    ck_assert_uint_eq(~slow, whole);
}
END_TEST

/* Inflates deflated bytes to n bytes, `part` bytes at a time. */
static bool inflate_bytes(const char *bytes, size_t packed, char *to, size_t n, size_t part) {
    static rg_inflate i;
    const char *path = scratch_write("f", bytes, packed);
    rg_file f;
    if (!rgi_file_open(&f, "load", path))
        return false;
    rgi_inflate_begin(&i, &f, 0, packed, "it");
    bool ok = true;
    for (size_t done = 0, m; ok && done < n; done += m) {
        m = RG_MIN(part, n - done);
        ok = rgi_inflate_read(&i, to + done, m);
    }
    ok = ok && rgi_inflate_end(&i);
    rgi_file_close(&f);
    return ok;
}

/* Inflates the bytes that the hexadecimal digits give. */
static bool inflate_hex(const char *hex, char *to, size_t n, size_t part) {
    char bytes[512];
    return inflate_bytes(bytes, bytes_of_hex(bytes, hex), to, n, part);
}

START_TEST(test_inflate) {
    /* zlib has deflated these bytes: with the fixed code, stored, stored after an empty stored
     * block, with a code of their own, and with codes too long for the first lookup table. The last
     * one has as many codes as a block may have. */
    static const struct {
        const char *hex;
        size_t n;
        uint32_t crc;
    } sound[] = {
        { "0300", 0, 0 },
        { abc_deflated, 60, 0 },
        { "010300fcff616263", 3, 0x352441C2 },
        { "000000ffff010300fcff616263", 3, 0x352441C2 },
        { "2d8f810d443108425779ab5545dd7f82c39f338db5140595941c537af2618be7d0e8adb4ec8aa76a"
          "0a0d4821e30d6950b82550f7be3191e3ba35c448f73261bb93c87c7a2c75adddf491a57a778da79f"
          "a09ba3ad2a57dce00932e1138a51c751c70a75c809f4fc07386f46da8b6d5e14365a84d2fbf93f37"
          "0f75195ed1f6c396bbd4ebf479af21debb25916575a62c3ecc92e40f",
          300, 0x0F0C0B20 },
        { "edc1310100000c02a0acda3f84df4a0c480000000000000000000000000000000000000000000000"
          "000000000000000000000000000000000000000000000000000080ef7a06",
          51610, 0xE95726E2 },
        { "0de00109000000c320645bff52d318", 4, 0x9B0D08F1 },
        { "05e00109000000c320f46f2d00", 0, 0 },
        { "05e00190244992244902000000000000000000000000000000000000000000000000000000000000"
          "0000128b9a4756cfde03000000000000000000000000000000000000000000000000000000000000"
          "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
          "00000000000000000000000000000000003cf8fffe7fdffffb9fffeffff7fdbffff9fffe7fdffffb"
          "9fffeffff7fdbffff9fffe7fdffffbdfff1f",
          30, 0x522181C4 },
        { "edfd010100000080106cf5ff4447728405", 259, 0x34C2FA56 },
    };
    char to[70000];
    scratch_begin();
    for (int k = 0; k < RG_COUNT(sound); k++)
        for (size_t part = 1; part < 70000; part *= 41) {
            ck_assert_msg(inflate_hex(sound[k].hex, to, sound[k].n, part), "%d: %s", k, rg_error());
            const uint32_t crc = k == 1 ? rgi_crc32(0, abc, 60) : sound[k].crc;
            ck_assert_uint_eq(rgi_crc32(0, to, sound[k].n), crc);
        }
    /* Deflated bytes that are cut off at any byte are refused. */
    for (int k = 0; k < RG_COUNT(sound); k++) {
        char bytes[512];
        const size_t packed = bytes_of_hex(bytes, sound[k].hex);
        for (size_t cut = 0; cut < packed; cut++)
            ck_fails(inflate_bytes(bytes, cut, to, sound[k].n, 70000), RG_IO_ERROR,
                     "they end too early");
    }
    scratch_end();
}
END_TEST

START_TEST(test_damaged) {
    static const struct {
        const char *hex, *sentence;
        size_t n;
    } damaged[] = {
        { "", "they end too early", 1 },
        { "4b", "they end too early", 1 },
        { "07", "a block is of an unknown kind", 1 },
        { "010300fdff616263", "a block's length and its complement don't agree", 3 },
        { "010300fcff6162", "they end too early", 3 },
        { "010300fcff616263", "it inflates to 3 bytes, and more are needed", 4 },
        { "010300fcff616263", "it inflates to more than the 2 bytes that it has", 2 },
        { "010300fcff61626300", "1 bytes follow those that are deflated", 3 },
        { "4b4c4a4e2417010000", "1 bytes follow those that are deflated", 60 },
        { "fdffff", "a block has too many codes", 1 },
        { "05e00104000000401000", "the code of a block's lengths is no code", 1 },
        { "05e00104000000000000", "the code of a block's lengths is no code", 1 },
        { "05e00304000000000004", "a length is repeated before there is one", 1 },
        { "05e081040000000000fcffff03", "a block has too many lengths of codes", 1 },
        { "05e081040000000000fc6f03", "a block has no code for its end", 1 },
        { "05e00109000000c32064d3fea104", "a block's code of literals is no code", 1 },
        { "05e00109000000c320645bff5203", "a block's code of literals is no code", 1 },
        { "05e081b46ddbb66ddbc6944b6d7dccb5cf7dfeba3ffcff000000",
          "a block's code of literals is no code", 1 },
        { "05e0010900000080206cf5ff890000000000", "a block's code of literals is no code", 1 },
        { "05e1010100000080106cf5ff040100000000", "a block's code of distances is no code", 1 },
        { "f5e001000000000000", "a block has too many codes", 1 },
        { "05fe01000000000000", "a block has too many codes", 1 },
        { "05e20109000000c32064b37f2955", "a block's code of distances is no code", 1 },
        { "05e00109000000c32064b37f2907", "a block's code of distances is no code", 1 },
        { "0de00109000000c320645bff5293000000", "there is a code without a meaning", 9 },
        { "05e00109000000c320f46f2dffff00", "there is a code without a meaning", 9 },
        { "05e00109000000c320f46f2d010000000000", "there is a code without a meaning", 9 },
        { "0de0010100000082206cc5ff230af000", "they end too early", 300 },
        { "0de0010100000082206cc5ff230ae00100", "there is a code without a meaning", 300 },
        { "1b03", "there is a length that has no meaning", 300 },
        { "73043e", "there is a distance that has no meaning", 9 },
        { "730442", "bytes are copied from before the first one", 9 },
        { "7304deff0f", "bytes are copied from before the first one", 9 },
    };
    char to[4096];
    scratch_begin();
    for (int k = 0; k < RG_COUNT(damaged); k++) {
        rg_error_clear();
        ck_assert_msg(!inflate_hex(damaged[k].hex, to, damaged[k].n, 4096), "%s",
                      damaged[k].sentence);
        ck_assert_msg(rg_error_code() == RG_IO_ERROR && strstr(rg_error(), damaged[k].sentence),
                      "expected %s, got %s", damaged[k].sentence, rg_error());
    }
    scratch_end();
}
END_TEST

/* The first half of the ring is inflated in one call. The bytes after it are read when more is
 * requested. */
START_TEST(test_half_a_ring) {
    enum { HALF = RG_INFLATE_RING / 2 };
    static const struct {
        const char *follows, *sentence;
    } rows[] = {
        { "0300", NULL },
        { "010000ffff", NULL },
        { "000000ffff010000ffff", NULL },
        { "", "they end too early" },
        { "00", "they end too early" },
        { "07", "a block is of an unknown kind" },
        { "01000000ff", "a block's length and its complement don't agree" },
        { "01010000feff61", "a block's length and its complement don't agree" },
        { "010100feff61", "it inflates to more than the 32768 bytes that it has" },
        { "030000", "1 bytes follow those that are deflated" },
    };
    static char bytes[HALF + 64] = "\0\0\x80\xff\x7f", to[HALF];
    scratch_begin();
    for (int i = 0; i < HALF; i++)
        bytes[5 + i] = (char)(i % 251);
    for (int k = 0; k < RG_COUNT(rows); k++) {
        const size_t n = 5 + HALF + bytes_of_hex(bytes + 5 + HALF, rows[k].follows);
        if (rows[k].sentence)
            ck_fails(inflate_bytes(bytes, n, to, HALF, HALF), RG_IO_ERROR, rows[k].sentence);
        else
            ck_ok(inflate_bytes(bytes, n, to, HALF, HALF));
        ck_assert(memcmp(to, bytes + 5, HALF) == 0);
    }
    /* The bytes are read in several parts, and each read may fail. */
    faults_begin();
    for (long part = 0; part < 4; part++) {
        faults.calls = 0;
        faults.fail_at = 3 + part;
        ck_fails(inflate_bytes(bytes, 5 + HALF, to, HALF, HALF), RG_IO_ERROR, "[Errno 5] ");
        ck_assert_str_eq(faults.failed, "pread");
        /* After the failure the file is closed, without another read. */
        ck_assert_int_eq(faults.calls, faults.fail_at + 1);
    }
    faults_end();
    scratch_end();
}
END_TEST

/* All bytes before the damage can be read, in parts of any size. */
START_TEST(test_damage_in_sight) {
    enum { HALF = RG_INFLATE_RING / 2 };
    static char bytes[HALF + 64] = "\0\0\x80\xff\x7f", to[HALF];
    static rg_inflate i;
    scratch_begin();
    for (int k = 0; k < HALF; k++)
        bytes[5 + k] = (char)(k % 251);
    bytes[5 + HALF] = 7;
    const char *path = scratch_write("f", bytes, 5 + HALF + 1);
    for (size_t part = 1; part < HALF; part *= 8) {
        rg_file f;
        ck_ok(rgi_file_open(&f, "load", path));
        rgi_inflate_begin(&i, &f, 0, 5 + HALF + 1, "it");
        for (size_t done = 0; done < HALF; done += part)
            ck_each(rgi_inflate_read(&i, to + done, part), "%zu at a time, at %zu: %s", part, done,
                    rg_error());
        ck_assert(memcmp(to, bytes + 5, HALF) == 0);
        ck_fails(rgi_inflate_read(&i, to, 1), RG_IO_ERROR, "a block is of an unknown kind");
        rgi_file_close(&f);
    }
    scratch_end();
}
END_TEST

/* Appends bits to bytes that are 0. The first bit is the lowest of its byte. */
static void put_bits(char *to, size_t *at, const char *bits) {
    for (; *bits; bits++, ++*at)
        to[*at / 8] = (char)(to[*at / 8] | (*bits - '0') << (*at % 8));
}

/* The copies in this data go around the ring many times. At one copy or another, each byte of a
 * copy lies at the ring's end. */
START_TEST(test_many_rings) {
    enum { COPIES = 2000, N = 7 + COPIES * 258 };
    static const size_t parts[] = { N, 1, 1000, RG_INFLATE_RING / 2 - 1, RG_INFLATE_RING / 2 + 1 };
    static char bytes[COPIES * 2 + 64] = "\0\7\0\xf8\xff"
                                         "abcdefg",
                                   to[N];
    size_t at = 12 * 8;
    /* The last block has the fixed code: a copy of 258 bytes from a distance of 7, many times, and
     * the end. */
    put_bits(bytes, &at, "110");
    for (int i = 0; i < COPIES; i++)
        put_bits(bytes, &at,
                 "11000101"
                 "00101"
                 "0");
    put_bits(bytes, &at, "0000000");
    scratch_begin();
    for (int k = 0; k < RG_COUNT(parts); k++) {
        memset(to, 0, N);
        ck_ok(inflate_bytes(bytes, (at + 7) / 8, to, N, parts[k]));
        for (int i = 0; i < N; i++)
            ck_each(to[i] == "abcdefg"[i % 7], "%zu at a time: byte %d", parts[k], i);
    }
    scratch_end();
}
END_TEST

/* ---- archives that are read ------------------------------------------------------------ */

START_TEST(test_read) {
    scratch_begin();
    for (int wide = 0; wide < 2; wide++) {
        archive a;
        rg_zip z;
        char to[64] = "";
        make_good(&a, wide);
        ck_ok(rgi_zip_open(&z, "load", scratch_write("f.zip", a.v, a.n)));
        ck_assert_uint_eq(z.n, 2);
        ck_assert_str_eq(z.v[0].name, "a.txt");
        ck_assert(rgi_zip_find(&z, "b.txt") == &z.v[1] && !rgi_zip_find(&z, "c.txt"));
        ck_ok(rgi_zip_read(&z, &z.v[0], to));
        ck_assert_str_eq(to, "hello");
        ck_ok(rgi_zip_read(&z, &z.v[1], to));
        ck_assert(memcmp(to, abc, 60) == 0);
        /* A member can be read in parts, but not beyond its end. */
        rg_zip_stream *s = rgi_zip_stream(&z, &z.v[1]);
        ck_ok(rgi_zip_stream_read(s, to, 7));
        ck_ok(rgi_zip_stream_read(s, to + 7, 13));
        ck_assert(memcmp(to, abc, 20) == 0);
        ck_fails(rgi_zip_stream_read(s, to, 41), RG_IO_ERROR,
                 "member \"b.txt\": it has 60 bytes, and more are needed");
        ck_fails(rgi_zip_stream_end(s, true), RG_IO_ERROR, "40 bytes follow the 20 that belong");
        ck_ok(rgi_zip_stream_end(rgi_zip_stream(&z, &z.v[0]), false));
        rgi_zip_close(&z);
    }
    scratch_end();
}
END_TEST

/* These changes are harmless: other readers accept the archives, too. */
START_TEST(test_harmless) {
    scratch_begin();
    archive a;
    for (int wide = 0; wide < 2; wide++) {
        make_good(&a, wide);
        archive_set(&a, a.place[ARCHIVE_END] + 20, 7, 2);
        archive_insert(&a, a.n, "comment", 7);
        ck_ok(read_archive(&a));
    }
    /* If sizes and CRC are in a descriptor, they are 0 in the local header. */
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_LOCAL] + 6, 8, 2);
    archive_set(&a, a.place[ARCHIVE_ENTRY] + 8, 8, 2);
    archive_set(&a, a.place[ARCHIVE_LOCAL] + 14, 0, 8);
    archive_set(&a, a.place[ARCHIVE_LOCAL] + 22, 0, 4);
    ck_ok(read_archive(&a));
    /* A local header may give one of its two sizes in the extra field alone. */
    for (int wide = 0; wide < 2; wide++) {
        make_good(&a, 1);
        archive_set(&a, a.place[ARCHIVE_LOCAL] + (wide ? 18 : 22), 5, 4);
        ck_ok(read_archive(&a));
    }
    /* The extra fields of a local header aren't read if nothing in it refers to them. */
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_LOCAL2] + 28, 4, 2);
    archive_set(&a, a.place[ARCHIVE_END] + 16, a.place[ARCHIVE_ENTRY] + 4, 4);
    archive_insert(&a, a.place[ARCHIVE_PACKED], "\2\0\x63\0", 4);
    ck_ok(read_archive(&a));
    /* Bytes that are too few for another extra field may follow the last one. */
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_ENTRY2] + 30, 3, 2);
    archive_insert(&a, a.place[ARCHIVE_END], "\0\0\0", 3);
    archive_set(&a, a.n - 10, a.n - 22 - a.place[ARCHIVE_ENTRY], 4);
    ck_ok(read_archive(&a));
    /* An entry may have a comment of its own. */
    for (int second = 0; second < 2; second++) {
        make_good(&a, 0);
        archive_set(&a, a.place[second ? ARCHIVE_ENTRY2 : ARCHIVE_ENTRY] + 32, 7, 2);
        archive_insert(&a, a.place[second ? ARCHIVE_END : ARCHIVE_ENTRY2], "comment", 7);
        archive_set(&a, a.n - 10, a.n - 22 - a.place[ARCHIVE_ENTRY], 4);
        ck_ok(read_archive(&a));
    }
    scratch_end();
}
END_TEST

/* The directory may list the members in another order than that of the file. */
START_TEST(test_directory_order) {
    scratch_begin();
    archive a;
    make_good(&a, 0);
    char entry[51];
    ck_assert_uint_eq(a.place[ARCHIVE_ENTRY2] - a.place[ARCHIVE_ENTRY], sizeof entry);
    memcpy(entry, a.v + a.place[ARCHIVE_ENTRY], sizeof entry);
    archive_remove(&a, a.place[ARCHIVE_ENTRY], sizeof entry);
    archive_insert(&a, a.place[ARCHIVE_ENTRY2], entry, sizeof entry);
    ck_ok(read_archive(&a));
    rg_zip z;
    ck_ok(rgi_zip_open(&z, "load", scratch("f.zip")));
    ck_assert(strcmp(z.v[0].name, "b.txt") == 0 && strcmp(z.v[1].name, "a.txt") == 0);
    rgi_zip_close(&z);
    /* In that order, too, no member may reach into another. */
    archive_set(&a, a.place[ARCHIVE_LOCAL] + 28, 1, 2);
    ck_fails(read_archive(&a), RG_IO_ERROR, "member \"b.txt\": it begins at byte 40, in another");
    scratch_end();
}
END_TEST

/* The last member may be empty. It then ends with its header, just before the directory. */
START_TEST(test_empty_member) {
    scratch_begin();
    const archive_member hello = { "a.txt", "hello", 5, 5, rgi_crc32(0, "hello", 5) };
    const archive_member empty = { "b.txt", "", 0, 0, 0 };
    archive a;
    make_archive(&a, &hello, &empty, 0);
    archive_set(&a, a.place[ARCHIVE_LOCAL2] + 8, 0, 2);
    archive_set(&a, a.place[ARCHIVE_ENTRY2] + 10, 0, 2);
    ck_ok(read_archive(&a));
    scratch_end();
}
END_TEST

/* ---- archives that are refused --------------------------------------------------------- */

typedef struct {
    bool wide;
    archive_record record;
    size_t at, bytes; /* The number `v` is written to this number of bytes at `at`. */
    uint64_t v;
    const char *sentence;
} bad_archive;

static const bad_archive bad[] = {
    /* The end records. */
    { false, ARCHIVE_END, 0, 1, 'Q', "it is no zip archive: it has no end record" },
    { false, ARCHIVE_END, 20, 2, 1, "it is no zip archive: it has no end record" },
    { false, ARCHIVE_END, 4, 2, 1, "it is a part of an archive on several disks" },
    { false, ARCHIVE_END, 6, 2, 1, "it is a part of an archive on several disks" },
    { false, ARCHIVE_END, 8, 2, 1, "it is a part of an archive on several disks" },
    { false, ARCHIVE_END, 8, 4, 0x00030003, "its directory has 102 bytes, too few for 3 members" },
    { false, ARCHIVE_END, 8, 4, 0x00010001, "its directory has 51 bytes more than its 1 members" },
    { false, ARCHIVE_END, 8, 4, 0x00000000, "its directory has 102 bytes more than its 0 members" },
    { false, ARCHIVE_END, 8, 4, 0x00FF00FF,
      "its directory has 102 bytes, too few for 255 members" },
    { false, ARCHIVE_END, 12, 4, 1, "its directory should end at byte 185, but has 1 bytes from" },
    { false, ARCHIVE_END, 16, 4, 0,
      "its directory should end at byte 185, but has 102 bytes from" },
    { false, ARCHIVE_END, 16, 4, 84, "but has 102 bytes from byte 84 on" },
    { false, ARCHIVE_END, 16, 4, 0xFFFFFFFF, "102 bytes from byte 4294967295 on" },
    { true, ARCHIVE_LOCATOR, 4, 4, 1, "it is a part of an archive on several disks" },
    { true, ARCHIVE_LOCATOR, 8, 8, UINT64_MAX, "its 64-bit end record can't lie at byte 18446744" },
    { true, ARCHIVE_LOCATOR, 8, 8, 400, "its 64-bit end record can't lie at byte 400" },
    { true, ARCHIVE_LOCATOR, 8, 8, 282, "its 64-bit end record can't lie at byte 282" },
    { true, ARCHIVE_LOCATOR, 8, 8, 280, "it has no 64-bit end record at byte 280" },
    { true, ARCHIVE_LOCATOR, 8, 8, 0, "it has no 64-bit end record at byte 0" },
    { true, ARCHIVE_LOCATOR, 16, 4, 2, "it is a part of an archive on several disks" },
    { true, ARCHIVE_LOCATOR, 0, 1, 'Q', "its directory should end at byte" },
    { true, ARCHIVE_END64, 0, 1, 'Q', "it has no 64-bit end record at byte" },
    { true, ARCHIVE_END64, 4, 8, 45, "it has no 64-bit end record at byte" },
    { true, ARCHIVE_END64, 4, 8, UINT64_MAX, "it has no 64-bit end record at byte" },
    { true, ARCHIVE_END64, 16, 4, 1, "it is a part of an archive on several disks" },
    { true, ARCHIVE_END64, 20, 4, 1, "it is a part of an archive on several disks" },
    { true, ARCHIVE_END64, 24, 8, 1, "it is a part of an archive on several disks" },
    { true, ARCHIVE_END, 8, 2, 3,
      "the 64-bit one don't agree in how many members are on this disk" },
    { true, ARCHIVE_END, 10, 2, 3, "the 64-bit one don't agree in how many members there are" },
    { true, ARCHIVE_END, 12, 4, 3, "the 64-bit one don't agree in the directory's bytes" },
    { true, ARCHIVE_END, 16, 4, 3, "the 64-bit one don't agree in the directory's place" },
    { true, ARCHIVE_END, 4, 2, 3, "the 64-bit one don't agree in the disk's number" },
    { true, ARCHIVE_END, 6, 2, 3, "don't agree in the number of the directory's disk" },
    { true, ARCHIVE_END64, 40, 8, UINT64_MAX, "but has 18446744073709551615 bytes" },
    { true, ARCHIVE_END64, 48, 8, UINT64_MAX, "bytes from byte 18446744073709551615 on" },
    /* The directory. */
    { false, ARCHIVE_ENTRY, 0, 1, 'Q', "its directory has no entry for member 0" },
    { false, ARCHIVE_ENTRY2, 0, 1, 'Q', "its directory has no entry for member 1" },
    { false, ARCHIVE_ENTRY2, 28, 2, 6, "its directory is too short for member 1" },
    { false, ARCHIVE_ENTRY2, 30, 2, 1, "its directory is too short for member 1" },
    { false, ARCHIVE_ENTRY2, 32, 2, 0xFFFF, "its directory is too short for member 1" },
    { false, ARCHIVE_ENTRY2, 28, 2, 4, "its directory has 1 bytes more than its 2 members take" },
    { false, ARCHIVE_ENTRY, 46, 1, 0, "the name of member 0 has a 0 in it" },
    { false, ARCHIVE_ENTRY2, 46, 1, 0xFF, "the name of member 1 is no UTF-8" },
    { false, ARCHIVE_ENTRY2, 46, 2, 0x80C0, "the name of member 1 is no UTF-8" },
    { false, ARCHIVE_ENTRY2, 50, 1, 0xC3, "the name of member 1 is no UTF-8" },
    { false, ARCHIVE_ENTRY2, 46, 1, 'a', "member \"a.txt\": it comes twice" },
    { false, ARCHIVE_ENTRY2, 8, 2, 1, "member \"b.txt\": it is encrypted" },
    { false, ARCHIVE_ENTRY, 10, 2, 12, "member \"a.txt\": it is compressed by method 12; 0 and 8" },
    { false, ARCHIVE_ENTRY, 10, 2, 0xFFFF, "it is compressed by method 65535" },
    { false, ARCHIVE_ENTRY, 34, 2, 1, "member \"a.txt\": it lies on another disk" },
    { false, ARCHIVE_ENTRY, 20, 4, 4, "member \"a.txt\": it is stored, but takes 4 bytes for 5" },
    { false, ARCHIVE_ENTRY, 24, 4, 6, "member \"a.txt\": it is stored, but takes 5 bytes for 6" },
    { false, ARCHIVE_ENTRY2, 24, 4, 9 * 1032, "8 bytes can't be inflated to 9288" },
    { false, ARCHIVE_ENTRY2, 24, 4, 9 * 1032 - 1, "says 8 bytes for 60, not 8 for 9287" },
    { false, ARCHIVE_ENTRY2, 24, 4, 0xFFFFFFFE, "8 bytes can't be inflated to 4294967294" },
    { false, ARCHIVE_ENTRY2, 24, 4, 0xFFFFFFFF, "member \"b.txt\": it has no 64-bit extra field" },
    { false, ARCHIVE_ENTRY, 42, 4, 0xFFFFFFFF, "member \"a.txt\": it has no 64-bit extra field" },
    { true, ARCHIVE_ENTRY, 51, 2, 2, "member \"a.txt\": it has no 64-bit extra field" },
    { true, ARCHIVE_ENTRY, 53, 2, 23, "member \"a.txt\": its 64-bit extra field is too short" },
    { true, ARCHIVE_ENTRY, 53, 2, 7, "member \"a.txt\": its 64-bit extra field is too short" },
    { true, ARCHIVE_ENTRY, 53, 2, 0, "member \"a.txt\": its 64-bit extra field is too short" },
    { true, ARCHIVE_ENTRY, 53, 2, 25, "member \"a.txt\": its extra fields are longer than said" },
    { true, ARCHIVE_ENTRY2, 55, 8, UINT64_MAX, "can't be inflated to 18446744073709551615" },
    /* Local headers. */
    { false, ARCHIVE_ENTRY, 42, 4, 1, "member \"a.txt\": it has no local header at byte 1" },
    { false, ARCHIVE_ENTRY, 42, 4, 60, "member \"a.txt\": it can't begin at byte 60" },
    { false, ARCHIVE_ENTRY, 42, 4, 0xFFFFFFFE, "it can't begin at byte 4294967294" },
    { true, ARCHIVE_ENTRY, 71, 8, UINT64_MAX, "it can't begin at byte 18446744073709551615" },
    { false, ARCHIVE_LOCAL2, 0, 1, 'Q', "member \"b.txt\": it has no local header at byte 40" },
    { false, ARCHIVE_LOCAL2, 30, 1, 'c', "member \"b.txt\": its local header has another name" },
    { false, ARCHIVE_LOCAL2, 26, 2, 4, "member \"b.txt\": its local header has another name" },
    { false, ARCHIVE_LOCAL2, 8, 2, 0, "member \"b.txt\": its local header has another method" },
    { false, ARCHIVE_LOCAL2, 6, 2, 1, "member \"b.txt\": its local header has other flags" },
    { false, ARCHIVE_LOCAL2, 6, 2, 8, "member \"b.txt\": its local header has other flags" },
    { false, ARCHIVE_LOCAL2, 28, 2, 1,
      "its 8 bytes from byte 76 on don't end before the directory" },
    { false, ARCHIVE_LOCAL2, 28, 2, 0xFFFF, "its 8 bytes from byte 65610 on don't end before" },
    { false, ARCHIVE_LOCAL, 28, 2, 1, "member \"b.txt\": it begins at byte 40, in another member" },
    { false, ARCHIVE_LOCAL2, 14, 4, 1, "its local header has the CRC 00000001, not" },
    { false, ARCHIVE_LOCAL2, 18, 4, 7, "its local header says 7 bytes for 60, not 8 for 60" },
    { false, ARCHIVE_LOCAL2, 22, 4, 61, "its local header says 8 bytes for 61, not 8 for 60" },
    { false, ARCHIVE_LOCAL2, 22, 4, 0xFFFFFFFF, "in its local header, it has no 64-bit extra" },
    { true, ARCHIVE_LOCAL, 35, 2, 9, "in its local header, it has no 64-bit extra field" },
    { true, ARCHIVE_LOCAL, 37, 2, 99,
      "in its local header, its extra fields are longer than said" },
    { true, ARCHIVE_LOCAL, 37, 2, 8, "in its local header, its 64-bit extra field is too short" },
    { true, ARCHIVE_LOCAL, 39, 8, 9, "its local header says 5 bytes for 9, not 5 for 5" },
    /* The bytes of members. */
    { false, ARCHIVE_DATA, 0, 1, 'j', "member \"a.txt\": its bytes have the CRC" },
    { false, ARCHIVE_PACKED, 0, 1, 0x4F, "member \"b.txt\": its deflated bytes are damaged" },
    { false, ARCHIVE_PACKED, 0, 1, 0x53, "member \"b.txt\": its bytes have the CRC" },
    { true, ARCHIVE_PACKED, 7, 1, 0xFF, "member \"b.txt\"" },
};

START_TEST(test_refused) {
    scratch_begin();
    for (int k = 0; k < RG_COUNT(bad); k++) {
        archive a;
        make_good(&a, bad[k].wide);
        archive_set(&a, a.place[bad[k].record] + bad[k].at, bad[k].v, bad[k].bytes);
        rg_error_clear();
        ck_assert_msg(!read_archive(&a), "row %d: %s", k, bad[k].sentence);
        ck_assert_msg(rg_error_code() == RG_IO_ERROR && strstr(rg_error(), bad[k].sentence)
                          && strstr(rg_error(), "f.zip': "),
                      "row %d: expected %s, got %s", k, bad[k].sentence, rg_error());
    }
    scratch_end();
}
END_TEST

/* A change that is made together with others. */
typedef struct {
    archive_record record;
    size_t at, bytes;
    uint64_t v;
} archive_change;

/* The sizes and the CRC of the second member are given behind its bytes. */
#define DESCRIBED \
    { ARCHIVE_LOCAL2, 6, 2, 8 }, { ARCHIVE_ENTRY2, 8, 2, 8 }
#define LOCAL_CRC(v) \
    { ARCHIVE_LOCAL2, 14, 4, v }
#define LOCAL_PACKED(v) \
    { ARCHIVE_LOCAL2, 18, 4, v }
#define LOCAL_BYTES(v) \
    { ARCHIVE_LOCAL2, 22, 4, v }
#define LOCAL_PACKED64(v) \
    { ARCHIVE_LOCAL2, 47, 8, v }
#define LOCAL_BYTES64(v) \
    { ARCHIVE_LOCAL2, 39, 8, v }
/* Sets the length of the first entry's 64-bit field, in which some numbers may be unnecessary. */
#define ENTRY_FIELD(bytes) \
    { ARCHIVE_ENTRY, 53, 2, bytes }
#define NARROW_PACKED \
    { ARCHIVE_ENTRY, 20, 4, 5 }
#define NARROW_PLACE \
    { ARCHIVE_ENTRY, 42, 4, 0 }

static const struct {
    bool wide;
    archive_change changes[6];
    const char *sentence; /* NULL for a sound archive. */
} changed[] = {
    { false, { DESCRIBED }, NULL },
    { false, { DESCRIBED, LOCAL_CRC(0) }, NULL },
    { false, { DESCRIBED, LOCAL_CRC(0), LOCAL_PACKED(0), LOCAL_BYTES(0) }, NULL },
    { false, { DESCRIBED, LOCAL_CRC(1) }, "its local header has the CRC 00000001" },
    { false, { LOCAL_CRC(0) }, "its local header has the CRC 00000000" },
    { false, { DESCRIBED, LOCAL_CRC(0), LOCAL_PACKED(0) }, "says 0 bytes for 60, not 8 for 60" },
    { false, { DESCRIBED, LOCAL_CRC(0), LOCAL_BYTES(0) }, "says 8 bytes for 0, not 8 for 60" },
    { false, { DESCRIBED, LOCAL_PACKED(0), LOCAL_BYTES(0) }, "says 0 bytes for 0, not 8 for 60" },
    { false, { LOCAL_CRC(0), LOCAL_PACKED(0), LOCAL_BYTES(0) }, "says 0 bytes for 0, not 8" },
    { true, { DESCRIBED, LOCAL_CRC(0) }, NULL },
    { true, { DESCRIBED, LOCAL_CRC(0), LOCAL_PACKED64(0), LOCAL_BYTES64(0) }, NULL },
    { true, { DESCRIBED, LOCAL_CRC(0), LOCAL_PACKED64(0) }, "says 0 bytes for 60, not 8 for 60" },
    { true, { DESCRIBED, LOCAL_CRC(0), LOCAL_BYTES64(0) }, "says 8 bytes for 0, not 8 for 60" },
    { true, { DESCRIBED, LOCAL_PACKED64(0), LOCAL_BYTES64(0) }, "says 0 bytes for 0, not 8 for" },
    { true, { LOCAL_CRC(0), LOCAL_PACKED64(0), LOCAL_BYTES64(0) }, "says 0 bytes for 0, not 8" },
    /* Another field may follow the 64-bit one, and may consist of its length alone. */
    { true, { NARROW_PLACE, ENTRY_FIELD(16), { ARCHIVE_ENTRY, 71, 4, 0x00040002 } }, NULL },
    { true, { NARROW_PLACE, ENTRY_FIELD(20), { ARCHIVE_ENTRY, 75, 4, 0x00000002 } }, NULL },
    { true,
      { NARROW_PLACE, ENTRY_FIELD(20), { ARCHIVE_ENTRY, 75, 4, 0x00010002 } },
      "its extra fields are longer than said" },
    { true,
      { NARROW_PLACE, ENTRY_FIELD(20), { ARCHIVE_ENTRY, 75, 4, 0x00000001 } },
      "it has two 64-bit extra fields" },
    { true,
      { NARROW_PLACE, NARROW_PACKED, ENTRY_FIELD(8), { ARCHIVE_ENTRY, 63, 4, 0x000C0001 } },
      "it has two 64-bit extra fields" },
    { true, { ENTRY_FIELD(20) }, "its 64-bit extra field is too short" },
    /* The sum of the directory's offset and size wraps around in 64 bits to the right number. */
    { true,
      { { ARCHIVE_END64, 40, 8, UINT64_MAX }, { ARCHIVE_END64, 48, 8, 282 } },
      "its directory should end at byte 281" },
    /* A name with bytes beyond ASCII must be marked as UTF-8. */
    { false,
      { { ARCHIVE_ENTRY2, 8, 2, 0 }, { ARCHIVE_ENTRY2, 46, 1, 0xFF } },
      "the name of member 1 is neither ASCII nor said to be UTF-8" },
    /* The first entry's comment reaches into the second entry, and leaves 20 bytes that begin like
     * an entry. */
    { false,
      { { ARCHIVE_ENTRY, 32, 2, 31 }, { ARCHIVE_ENTRY2, 31, 4, 0x02014B50 } },
      "its directory has no entry for member 1" },
};

START_TEST(test_changed) {
    scratch_begin();
    for (int k = 0; k < RG_COUNT(changed); k++) {
        archive a;
        make_good(&a, changed[k].wide);
        for (int i = 0; i < 6 && changed[k].changes[i].bytes; i++) {
            const archive_change *c = &changed[k].changes[i];
            archive_set(&a, a.place[c->record] + c->at, c->v, c->bytes);
        }
        rg_error_clear();
        const bool sound = read_archive(&a);
        const char *sentence = changed[k].sentence;
        ck_assert_msg(sound ? !sentence : sentence && strstr(rg_error(), sentence),
                      "row %d: expected %s, got %s", k, sentence, rg_error());
    }
    rg_error_clear();
    scratch_end();
}
END_TEST

/* A deflated member must inflate to just the size that the archive gives, and use all of its
 * bytes. */
START_TEST(test_deflated_members) {
    scratch_begin();
    char packed[64];
    const size_t n = bytes_of_hex(packed, abc_deflated);
    const archive_member hello = { "a.txt", "hello", 5, 5, rgi_crc32(0, "hello", 5) };
    archive_member deflated = { "b.txt", packed, n + 1, 60, rgi_crc32(0, abc, 60) };
    archive a;
    packed[n] = 0;
    make_archive(&a, &hello, &deflated, 0);
    ck_fails(read_archive(&a), RG_IO_ERROR,
             "member \"b.txt\": 1 bytes follow those that are deflated");
    deflated = (archive_member){ "b.txt", packed, n, 59, rgi_crc32(0, abc, 59) };
    make_archive(&a, &hello, &deflated, 0);
    ck_fails(read_archive(&a), RG_IO_ERROR,
             "member \"b.txt\": it inflates to more than the 59 bytes that it has");
    deflated = (archive_member){ "b.txt", packed, n, 61, rgi_crc32(0, abc, 61) };
    make_archive(&a, &hello, &deflated, 0);
    ck_fails(read_archive(&a), RG_IO_ERROR,
             "member \"b.txt\": it inflates to 60 bytes, and more are needed");
    scratch_end();
}
END_TEST

/* Two end records, which both reach to the end of the file, name two directories. */
START_TEST(test_two_ends) {
    scratch_begin();
    archive a;
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_END] + 20, 22, 2);
    archive_insert(&a, a.n, a.v + a.place[ARCHIVE_END], 22);
    archive_set(&a, a.n - 2, 0, 2);
    ck_fails(read_archive(&a), RG_IO_ERROR, "it has two end records");
    /* A name that isn't marked as UTF-8 must be ASCII. */
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_ENTRY] + 8, 0, 2);
    archive_set(&a, a.place[ARCHIVE_ENTRY] + 46, 0xA9C3, 2);
    ck_fails(read_archive(&a), RG_IO_ERROR, "the name of member 0 is neither ASCII nor said to be");
    ck_fails(read_all(scratch_write("f.zip", "", 0)), RG_IO_ERROR, "it has 0 bytes");
    ck_fails(read_all(scratch("none")), RG_IO_ERROR, "[Errno 2] No such file");
    /* The file begins with the locator of the 64-bit end record. */
    make_good(&a, 1);
    archive_remove(&a, 0, a.place[ARCHIVE_LOCATOR]);
    archive_set(&a, 8, 0, 8);
    ck_fails(read_archive(&a), RG_IO_ERROR, "its 64-bit end record can't lie at byte 0");
    /* The two members share their bytes. */
    make_good(&a, 0);
    archive_set(&a, a.place[ARCHIVE_ENTRY2] + 42, 0, 4);
    ck_fails(read_archive(&a), RG_IO_ERROR, "its local header has another name");
    scratch_end();
}
END_TEST

/* An archive with a byte missing, a byte more, or its end missing is refused. */
START_TEST(test_cuts) {
    scratch_begin();
    for (int wide = 0; wide < 2; wide++) {
        archive whole;
        make_good(&whole, wide);
        for (size_t n = 0; n < whole.n; n++) {
            archive a = whole;
            archive_remove(&a, n, 1);
            ck_assert_msg(!read_archive(&a), "without byte %zu", n);
            a = whole;
            archive_insert(&a, n, "P", 1);
            ck_assert_msg(!read_archive(&a), "with one more before %zu", n);
            a.n = n;
            memcpy(a.v, whole.v, n);
            ck_assert_msg(!read_archive(&a), "to byte %zu", n);
            ck_assert_int_eq(rg_error_code(), RG_IO_ERROR);
        }
    }
    scratch_end();
}
END_TEST

/* ---- writing --------------------------------------------------------------------------- */

/* Asserts that between a member's name and its bytes there are only extra fields, each of the
 * length that it gives. */
static void check_extra_fields(const rg_zip *z, const rg_zip_member *m) {
    uint64_t at = m->at + 30 + strlen(m->name);
    while (at < m->data) {
        unsigned char field[4];
        ck_ok(rgi_file_read(&z->file, at, field, sizeof field));
        at += sizeof field + (size_t)(field[2] | field[3] << 8);
    }
    ck_each(at == m->data, "%s: its extra fields end at %d, not %d", m->name, (int)at,
            (int)m->data);
}

/* Asserts that a member's header and its entry have the same flags, method and date. The date must
 * be the earliest that an archive can have. Returns the entry. */
static const char *check_entry(const rg_zip *z, const rg_zip_member *m) {
    static const char first_moment[] = "\0\0\x21\0";
    /* The name follows the entry. Its first byte has replaced the entry's last one. */
    const char *entry = m->name + 1 - 46;
    char header[30];
    ck_ok(rgi_file_read(&z->file, m->at, header, sizeof header));
    ck_each(memcmp(header + 4, entry + 6, 10) == 0, "%s: two headers", m->name);
    ck_each(memcmp(entry + 12, first_moment, 4) == 0, "%s: another date", m->name);
    return entry;
}

/* Writes members n0, n1, .. Member i has 5 (i % 300) bytes, which are all i. */
static bool write_members(const char *path, int members, size_t alignment) {
    rg_zip_writer z;
    char name[16], bytes[5 * 300];
    if (!rgi_zip_begin(&z, "save", path))
        return false;
    for (int i = 0; i < members; i++) {
        const size_t n = (size_t)(i % 300) * 5;
        snprintf(name, sizeof name, "n%d\xC3\xA9", i);
        memset(bytes, i, sizeof bytes);
        rgi_zip_member_begin(&z, name, n, alignment);
        rgi_zip_put(&z, bytes, n / 2);
        rgi_zip_put(&z, bytes, n - n / 2);
    }
    return rgi_zip_end(&z);
}

static void check_members(const char *path, size_t members, size_t alignment) {
    rg_zip z;
    ck_ok(rgi_zip_open(&z, "load", path));
    ck_assert_uint_eq(z.n, members);
    for (size_t i = 0; i < z.n; i++) {
        char bytes[5 * 300], name[32];
        const rg_zip_member *m = &z.v[i];
        snprintf(name, sizeof name, "n%zu\xC3\xA9", i);
        ck_each(strcmp(m->name, name) == 0 && m->bytes == i % 300 * 5 && m->data % alignment == 0,
                "%s, %s", m->name, name);
        const char *entry = check_entry(&z, m);
        check_extra_fields(&z, m);
        ck_each(entry[8] == 8 && entry[9] == 8 && entry[6] == 20, "%s is UTF-8", name);
        ck_each(alignment > 1 || m->data == m->at + 30 + strlen(name), "%s has blanks", name);
        ck_each(rgi_zip_read(&z, m, bytes), "%s", rg_error());
        for (size_t k = 0; k < m->bytes; k++)
            ck_each(bytes[k] == (char)i, "member %zu, byte %zu", i, k);
    }
    rgi_zip_close(&z);
}

START_TEST(test_write) {
    static const size_t alignments[] = { 1, 2, 3, 4, 8, 64, 4096 };
    scratch_begin();
    for (int k = 0; k < RG_COUNT(alignments); k++) {
        const char *path = scratch("f.zip");
        ck_ok(write_members(path, 301, alignments[k]));
        check_members(path, 301, alignments[k]);
    }
    ck_ok(write_members(scratch("f.zip"), 0, 1));
    check_members(scratch("f.zip"), 0, 1);
    scratch_end();
}
END_TEST

/* From 65535 members on, 64-bit records give the number of members, since 65535 in the 16-bit field
 * means that the number is in those records. */
START_TEST(test_write_many) {
    scratch_begin();
    for (int n = 65534; n < 65537 && !rg_slow(); n++) {
        ck_ok(write_members(scratch("f.zip"), n, 1));
        check_members(scratch("f.zip"), (size_t)n, 1);
        /* The last of the 64-bit records is the locator, just before the end record. */
        size_t bytes;
        char *all = file_bytes(scratch("f.zip"), &bytes);
        const bool wide = memcmp(all + bytes - 22 - 20, "PK\6\7", 4) == 0;
        ck_assert_int_eq(wide, n >= 65535);
        free(all);
    }
    scratch_end();
}
END_TEST

/* The memory of a directory of any length is released in full. */
START_TEST(test_lengths_of_directories) {
    scratch_begin();
    int64_t before = 0;
    for (int n = 1; n < 130; n++) {
        char name[130] = "";
        rg_zip_writer w;
        rg_zip z;
        memset(name, 'n', (size_t)n);
        ck_ok(rgi_zip_begin(&w, "save", scratch("f.zip")));
        rgi_zip_member_begin(&w, name, 0, 1);
        ck_ok(rgi_zip_end(&w));
        ck_ok(rgi_zip_open(&z, "load", scratch("f.zip")));
        ck_assert_str_eq(z.v[0].name, name);
        rgi_zip_close(&z);
        if (n == 1)
            before = rg_memory_stats().other;
        ck_assert_int_eq(rg_memory_stats().other, before);
    }
    scratch_end();
}
END_TEST

/* Writes a member of zeros. Zeros after the first 128 KB aren't written, but are a hole of the
 * file. */
static void put_hole(rg_zip_writer *z, const char *name, uint64_t bytes) {
    static const char zeros[1 << 17];
    rgi_zip_member_begin(z, name, bytes, 64);
    rgi_zip_put(z, zeros, sizeof zeros);
    const uint64_t hole = bytes - sizeof zeros;
    ck_assert(lseek(z->file.fd, (off_t)hole, SEEK_CUR) >= 0);
    z->file.bytes += hole;
    z->put += hole;
}

/* Checks a member of this number of bytes. Its bytes begin at a multiple of 64. If `wide`, its
 * header asks for a reader of zip64. Its entry has only the 64-bit numbers that it needs. The next
 * member begins `behind` bytes after this one's end. */
static void check_large(const rg_zip *z, size_t i, uint64_t bytes, bool wide, uint64_t behind) {
    const rg_zip_member *m = &z->v[i];
    char header[30];
    ck_assert(m->bytes == bytes && m->packed == bytes && m->data % 64 == 0);
    ck_ok(rgi_file_read(&z->file, m->at, header, sizeof header));
    ck_assert_int_eq(header[4], wide ? 45 : 20);
    const uint32_t said = wide ? UINT32_MAX : 0;
    ck_assert(memcmp(header + 18, &said, 4) == 0 && memcmp(header + 22, &said, 4) == 0);
    ck_assert(header[6] == 8 && header[7] == 0);
    check_extra_fields(z, m);
    const char *entry = m->name + 1 - 46;
    const bool far = m->at >= UINT32_MAX;
    ck_assert_int_eq(entry[6], wide || far ? 45 : 20);
    ck_assert_int_eq(entry[30], wide || far ? 4 + (wide ? 16 : 0) + (far ? 8 : 0) : 0);
    if (i + 1 < z->n)
        ck_assert_uint_eq(z->v[i + 1].at, m->data + bytes + behind);
}

/* From 4 GB on, sizes and offsets take 64 bits. The members are holes of the file, and only the
 * last one's CRC is checked. */
START_TEST(test_write_large) {
    static const uint64_t most = UINT32_MAX - 1;
    /* Only in the first two rows does the last member begin below 4 GB. */
    static const uint64_t sizes[][3] = {
        { 1 << 17, 1 << 18, 5 },   { 1 << 17, UINT32_MAX - (1 << 20), 5 },
        { most, 1 << 17, 5 },      { most + 1, 1 << 17, 5 },
        { most + 1, most + 2, 5 }, { 1 << 17, (uint64_t)5 << 32, 5 },
    };
    scratch_begin();
    for (int k = 0; k < RG_COUNT(sizes); k++) {
        const uint64_t *bytes = sizes[k];
        rg_zip_writer w;
        rg_zip z;
        char to[8] = "";
        ck_ok(rgi_zip_begin(&w, "save", scratch("f.zip")));
        put_hole(&w, "a", bytes[0]);
        put_hole(&w, "b", bytes[1]);
        rgi_zip_member_begin(&w, "c", 5, 64);
        rgi_zip_put(&w, "hello", 5);
        ck_ok(rgi_zip_end(&w));
        ck_ok(rgi_zip_open(&z, "load", scratch("f.zip")));
        ck_assert_uint_eq(z.n, 3);
        for (size_t i = 0; i < 3; i++)
            check_large(&z, i, bytes[i], bytes[i] > most, bytes[i] > most ? 24 : 16);
        ck_ok(rgi_zip_read(&z, &z.v[2], to));
        ck_assert_str_eq(to, "hello");
        rgi_zip_close(&z);
    }
    scratch_end();
}
END_TEST

static bool write_named(const char *path, const char *a, const char *b, size_t said) {
    rg_zip_writer z;
    ck_ok(rgi_zip_begin(&z, "save", path));
    rgi_zip_member_begin(&z, a, said, 64);
    rgi_zip_put(&z, "abc", 3);
    rgi_zip_member_begin(&z, b, 3, 64);
    rgi_zip_put(&z, "abc", 3);
    return rgi_zip_end(&z);
}

START_TEST(test_write_refused) {
    static char name[70000];
    scratch_begin();
    const char *path = scratch("f.zip");
    ck_fails(write_named(path, "a", "a", 3), RG_VALUE_ERROR, "two members have one name: \"a\"");
    ck_fails(write_named(path, "a", "\xFF", 3), RG_VALUE_ERROR, "a member's name isn't UTF-8");
    ck_fails(write_named(path, "a", "b", 4), RG_RUNTIME_ERROR,
             "3 bytes were put into a member of 4");
    memset(name, 'x', 65536);
    ck_fails(write_named(path, name, "a", 3), RG_VALUE_ERROR, "name is longer than an archive can");
    /* The first failure is reported. */
    ck_fails(write_named(path, "a", "a", 4), RG_RUNTIME_ERROR, "were put into a member of 4");
    ck_fails(write_named(path, name, "\xFF", 3), RG_VALUE_ERROR, "is longer than an archive can");
    /* After a failure, putting more needs no memory, and the error stays. */
    RG_SCOPE();
    rg_tensor *sparse = rg_rand(3, 4);
    sparse->size[1] = 2;
    rgi_update_flags(sparse);
    rg_zip_writer failed;
    ck_ok(rgi_zip_begin(&failed, "save", path));
    rgi_zip_member_begin(&failed, "\xFF", 24, 64);
    rg_memory_fail_at(1);
    rgi_zip_put_elements(&failed, sparse);
    rg_memory_fail_at(0);
    ck_assert(strstr(rg_error(), "a member's name isn't UTF-8") && !rgi_zip_end(&failed));
    rg_error_clear();
    name[65535] = 0;
    ck_ok(write_named(path, name, "", 3));
    ck_ok(read_all(path));
    rg_zip_writer z;
    ck_ok(rgi_zip_begin(&z, "save", path));
    rgi_zip_member_begin(&z, "a", 3, 64);
    rgi_zip_cancel(&z);
    ck_assert_int_eq(scratch_files(), 1);
    ck_ok(read_all(path));
    scratch_end();
}
END_TEST

/* ---- denied memory, and failing calls of the file system ------------------------------- */

START_TEST(test_faults) {
    scratch_begin();
    archive a;
    make_good(&a, 1);
    scratch_write("f.zip", a.v, a.n);
    faults_begin();
    ck_ok(read_all(scratch("f.zip")));
    const long reads = faults.calls;
    for (long fail = 1; fail < reads; fail++) {
        faults.calls = 0;
        faults.fail_at = fail;
        ck_fails(read_all(scratch("f.zip")), RG_IO_ERROR, "load: [Errno 5]");
        ck_assert_int_eq(faults.open, 0);
    }
    faults.fail_at = 0;
    faults.most = 3;
    faults.interrupts = true;
    ck_ok(read_all(scratch("f.zip")));
    ck_ok(write_members(scratch("f.zip"), 9, 64));
    check_members(scratch("f.zip"), 9, 64);
    faults.most = 0;
    faults.interrupts = false;
    faults.calls = 0;
    ck_ok(write_members(scratch("f.zip"), 9, 64));
    const long writes = faults.calls;
    for (long fail = 1; fail <= writes; fail++) {
        faults.calls = 0;
        faults.fail_at = fail;
        const bool saved = write_members(scratch("f.zip"), 8, 64);
        faults.fail_at = 0;
        ck_assert(saved == (fail > writes - 3));
        ck_assert(saved || strstr(rg_error(), "save: [Errno 5]"));
        rg_error_clear();
        check_members(scratch("f.zip"), saved ? 8 : 9, 64);
        ck_ok(write_members(scratch("f.zip"), 9, 64));
        ck_assert_int_eq(scratch_files(), 1);
    }
    faults_end();
    scratch_end();
}
END_TEST

/* Denies each request for memory in turn. Nothing may be left behind. */
START_TEST(test_denied) {
    scratch_begin();
    archive a;
    make_good(&a, 1);
    scratch_write("f.zip", a.v, a.n);
    ck_ok(read_all(scratch("f.zip")));
    ck_ok(write_members(scratch("g.zip"), 9, 64));
    const int64_t before = rg_memory_stats().now;
    for (int what = 0; what < 2; what++)
        for (int n = 1; n < 1000; n++) {
            rg_error_clear();
            rg_memory_fail_at(n);
            const bool ok = what ? write_members(scratch("g.zip"), 9, 64)
                                 : read_all(scratch("f.zip"));
            rg_memory_fail_at(0);
            ck_assert_int_eq(rg_memory_stats().now, before);
            ck_assert(ok || rg_error_code() == RG_OUT_OF_MEMORY);
            if (ok)
                break;
            ck_assert(n < 999);
        }
    ck_assert_int_eq(scratch_files(), 2);
    scratch_end();
}
END_TEST

RG_TESTS(zip, test_crc, test_inflate, test_damaged, test_half_a_ring, test_damage_in_sight,
         test_many_rings, test_read, test_harmless, test_directory_order, test_empty_member,
         test_refused, test_changed, test_deflated_members, test_two_ends, test_cuts, test_write,
         test_write_many, test_lengths_of_directories, test_write_large, test_write_refused,
         test_faults, test_denied)
