/*
 * torch_read.c: opens the archives that torch.save writes, and reads their version, their byte
 * order and their pickle (data.pkl). The formats of torch before 1.6 can't be read.
 */
#include "torch_file.h"

#include "tensor/load.h"
#include "tensor/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- an archive's small members --------------------------------------------------------- */

/* Returns the member with this name in the archive's folder, or NULL if there is none. If memory
 * runs out, sets *failed and returns NULL. */
static const rg_zip_member *member_below(const rg_torch_reader *r, const char *name, bool *failed) {
    rg_text path = { 0 };
    rgi_text_add(&path, "%.*s%s", (int)r->prefix_n, r->prefix, name);
    const rg_zip_member *m = path.failed ? NULL : rgi_zip_find(r->zip, path.v);
    *failed |= path.failed;
    rgi_text_free(&path);
    return m;
}

/* Reads a member of fewer than 32 bytes into `to`, and appends a byte 0. If the archive doesn't
 * have the member, `to` becomes "". Fails and returns false if the member has more bytes, or if it
 * can't be read. */
static bool small_member(const rg_torch_reader *r, const char *name, char to[32]) {
    bool failed = false;
    const rg_zip_member *m = member_below(r, name, &failed);
    memset(to, 0, 32);
    if (!m)
        return !failed;
    if (m->bytes >= 32)
        return rgi_file_refuse(r->file, "its member '%s' has %llu bytes", name,
                               (unsigned long long)m->bytes);
    return rgi_zip_read(r->zip, m, to);
}

static bool check_version(const rg_torch_reader *r) {
    char text[32], *end;
    if (!small_member(r, "version", text) || (!*text && !small_member(r, ".data/version", text)))
        return false;
    long version = strtol(text, &end, 10);
    if ((*end && *end != '\n') || version < 1 || version > 10)
        return rgi_file_refuse(r->file, "its version is '%s', and 1 to 10 are known",
                               RG_SHOWN(text));
    return true;
}

/* Reads the byte order of the elements, and sets r->swapped. An archive that names no order is
 * little-endian. Returns false on failure. */
static bool check_order(rg_torch_reader *r) {
    char order[32];
    if (!small_member(r, "byteorder", order))
        return false;
    const bool little = !*order || strcmp(order, "little") == 0;
    if (!little && strcmp(order, "big") != 0)
        return rgi_file_refuse(r->file, "Unknown endianness type: %s", RG_SHOWN(order));
    r->swapped = little != rgi_little_endian();
    return true;
}

/* ---- archives --------------------------------------------------------------------------- */

/* Sets r->prefix and r->prefix_n to the folder of the first member. torch.save puts all members
 * into one folder, which has the name of the file, or "archive". Fails if there is no member, or if
 * the first member is in no folder. */
static bool find_folder(rg_torch_reader *r) {
    const char *first = r->zip->n > 0 ? r->zip->v[0].name : "";
    const char *slash = strchr(first, '/');
    if (!slash)
        return rgi_file_refuse(r->file, "it is an archive, but not one of torch.save's: file not "
                                        "in a subdirectory");
    r->prefix = first;
    r->prefix_n = (size_t)(slash - first) + 1;
    return true;
}

/* Returns the bytes of the archive's pickle, in memory of *room bytes that the caller frees.
 * Returns NULL on failure. */
static char *archived_pickle(rg_torch_reader *r, size_t *room) {
    bool failed = false;
    const rg_zip_member *script = member_below(r, "constants.pkl", &failed);
    const rg_zip_member *m = member_below(r, "data.pkl", &failed);
    if (failed)
        return NULL;
    if (script) {
        rgi_file_refuse(r->file, "it is a TorchScript archive, whose code isn't run: save "
                                 "torch.jit.load(f).state_dict() instead");
        return NULL;
    }
    if (!m) {
        rgi_file_refuse(r->file, "failed locating file data.pkl: it is an archive, but not one of "
                                 "torch.save's");
        return NULL;
    }
    *room = (size_t)RG_MIN(m->bytes, (uint64_t)SIZE_MAX - 1) + 1;
    char *text = rgi_alloc(*room, RG_MEM_OTHER);
    if (!text || rgi_zip_read(r->zip, m, text))
        return text;
    rgi_free(text, *room, RG_MEM_OTHER);
    return NULL;
}

static rg_named_list read_archive(rg_torch_reader *r) {
    rg_named_list list = { .n = -1 };
    size_t room = 0;
    if (!find_folder(r) || !check_version(r) || !check_order(r))
        return list;
    char *text = archived_pickle(r, &room);
    if (!text)
        return list;
    r->pickle = (rg_pickle){ .file = r->file, .what = "data.pkl", .bytes = text, .n = room - 1 };
    if (rgi_pickle_read(&r->pickle))
        list = rgi_torch_entries(r);
    rgi_free(text, room, RG_MEM_OTHER);
    return list;
}

/* ---- reading the file ------------------------------------------------------------------- */

static const char *const torch_load_op = "torch_load";

/* Fails if the file isn't a zip archive. Files of torch before 1.6 are recognised, so that the
 * message can say what they are. They begin with the bytes in `old`, of which only the second, the
 * number of the pickle protocol, may differ. Torch before 0.1.9 wrote tar files. */
static bool check_archive(const rg_file *f) {
    static const char old[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    char head[512] = { 0 };
    if (!rgi_file_read(f, 0, head, (size_t)RG_MIN(f->bytes, (uint64_t)sizeof head)))
        return false;
    if (memcmp(head, "PK\3\4", 4) == 0)
        return true;
    const bool is_old = head[0] == old[0] && memcmp(head + 2, old + 2, sizeof old - 3) == 0;
    if (!is_old && memcmp(head + 257, "ustar", 5) != 0)
        return rgi_file_refuse(f, "it isn't what torch.save writes: it is no archive");
    return rgi_file_refuse(f,
                           "it is in torch's old %s: save it again with a torch of 1.6 or "
                           "later, as torch.save(torch.load(f, weights_only=%s), f)",
                           is_old ? "format" : ".tar format", is_old ? "True" : "False");
}

rg_named_list rg_torch_load(const char *path) {
    RG_LOADING(torch_load_op, path);
    rg_named_list list = { .n = -1 };
    rg_file f;
    if (!rgi_file_open(&f, torch_load_op, path))
        return list;
    if (!check_archive(&f)) {
        rgi_file_close(&f);
        return list;
    }
    rg_zip zip;
    if (!rgi_zip_of(&zip, f))
        return list;
    rg_torch_reader r = { .file = &zip.file, .zip = &zip };
    list = read_archive(&r);
    rgi_torch_reader_free(&r);
    rgi_zip_close(&zip);
    return list;
}
