/* golden.c: the reader behind golden.h. */
#include "golden.h"
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- files --------------------------------------------------------------------------- */

const char *golden_folder(void) {
    const char *folder = getenv("REGARD_GOLDEN");
    return folder ? folder : "tests/golden/data";
}

bool golden_open_in(golden_file *f, const char *folder, const char *name) {
    *f = (golden_file){ .line = 0 };
    snprintf(f->path, sizeof f->path, "%s/%s.txt", folder, name);
    FILE *file = fopen(f->path, "r");
    if (!file)
        return false;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    f->text = malloc(size + 1);
    ck_assert_ptr_nonnull(f->text);
    f->text[fread(f->text, 1, size, file)] = '\0';
    f->at = f->text;
    fclose(file);
    return true;
}

golden_file golden_open(const char *name) {
    golden_file f;
    bool opened = golden_open_in(&f, golden_folder(), name);
    ck_assert_msg(opened, "cannot read %s: run the tests from the top folder", f.path);
    return f;
}

golden_file golden_find(const char *file, const char *format, ...) {
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    golden_file f = golden_open(file);
    for (char *words = golden_case(&f); words; words = golden_case(&f))
        if (strcmp(golden_word(&words), name) == 0)
            return f;
    ck_abort_msg("%s has no case %s", f.path, name);
}

void golden_close(golden_file *f) {
    free(f->text);
    *f = (golden_file){ .line = 0 };
}

/* ---- lines --------------------------------------------------------------------------- */

static char *cut_line(golden_file *f) {
    char *line = f->at;
    if (!*line)
        return NULL;
    f->at += strcspn(line, "\n");
    if (*f->at)
        *f->at++ = '\0';
    f->line++;
    return line;
}

char golden_peek(golden_file *f) {
    while (*f->at == '#')
        cut_line(f);
    return *f->at;
}

char *golden_line(golden_file *f) {
    golden_peek(f);
    return cut_line(f);
}

static char *after_kind(char *line) { return line + 1 + (line[1] == ' '); }

char *golden_case(golden_file *f) {
    char *line = golden_line(f);
    while (line && *line != '=')
        line = golden_line(f);
    return line ? after_kind(line) : NULL;
}

char *golden_field(golden_file *f, char kind) {
    char *line = golden_line(f);
    ck_assert_msg(line && *line == kind, "%s, line %d: expected '%c'", f->path, f->line, kind);
    return after_kind(line);
}

/* The joined text is shorter than its lines, so it is written over them. */
char *golden_text(golden_file *f) {
    char *text = f->at;
    size_t n = 0;
    while (*f->at == '>') {
        char *line = after_kind(cut_line(f));
        size_t length = strlen(line);
        if (n)
            text[n - 1] = '\n';
        memmove(text + n, line, length + 1);
        n += length + 1;
    }
    return n ? text : "";
}

/* ---- words --------------------------------------------------------------------------- */

char *golden_word(char **at) {
    char *word = *at + strspn(*at, " ");
    *at = word + strcspn(word, " ");
    if (**at)
        *(*at)++ = '\0';
    return word;
}

double golden_number(char **at) {
    char *end;
    double v = strtod(*at, &end);
    ck_assert_msg(end != *at, "expected a number, not '%.20s'", *at);
    *at = end;
    return v;
}

int64_t golden_integer(char **at) {
    char *end;
    int64_t v = strtoll(*at, &end, 10);
    ck_assert_msg(end != *at, "expected an integer, not '%.20s'", *at);
    *at = end;
    return v;
}

uint64_t golden_bits(char **at) {
    char *end;
    uint64_t v = strtoull(*at, &end, 16);
    ck_assert_msg(end != *at, "expected bits, not '%.20s'", *at);
    *at = end;
    return v;
}

int64_t golden_integers(golden_file *f, char kind, int64_t *v, int64_t most) {
    char *line = golden_field(f, kind);
    int64_t n = 0;
    while (!golden_at_end(line)) {
        ck_assert_msg(n < most, "%s, line %d: more than %d numbers", f->path, f->line, (int)most);
        v[n++] = golden_integer(&line);
    }
    return n;
}

static char byte_of(char **p) {
    if (**p != '\\')
        return *(*p)++;
    int v = 0;
    for (int digit = 1; digit <= 3; digit++)
        v = v * 8 + (*p)[digit] - '0';
    *p += 4;
    return (char)v;
}

char *golden_quoted(char **at) {
    char *text = *at + strspn(*at, " ");
    ck_assert_msg(*text == '"', "expected a quoted text, not '%.20s'", text);
    char *from = text + 1;
    char *to = text;
    while (*from && *from != '"')
        *to++ = byte_of(&from);
    *at = from + (*from == '"');
    *to = '\0';
    return text;
}

bool golden_at_end(const char *at) { return at[strspn(at, " ")] == '\0'; }

rg_dims golden_dims(const char *word) {
    rg_dims d = { 0 };
    if (*word == '.' || (*word == '-' && !word[1]))
        return d;
    for (char *p = (char *)word; *p && d.n < RG_MAX_DIMS; p += *p == ',')
        d.v[d.n++] = strtoll(p, &p, 10);
    return d;
}

static const struct {
    const char *name;
    rg_dtype dtype;
} dtype_names[] = {
    { "f32", RG_FLOAT32 }, { "f64", RG_FLOAT64 },   { "i64", RG_INT64 },   { "b", RG_BOOL },
    { "bool", RG_BOOL },   { "bf16", RG_BFLOAT16 }, { "f16", RG_FLOAT16 }, { "u8", RG_UINT8 },
};
enum { DTYPE_NAMES = sizeof dtype_names / sizeof *dtype_names };

rg_dtype golden_dtype(const char *word) {
    for (int i = 0; i < DTYPE_NAMES; i++)
        if (strcmp(dtype_names[i].name, word) == 0)
            return dtype_names[i].dtype;
    ck_abort_msg("no such dtype: %s", word);
}

const char *golden_dtype_name(rg_dtype dtype) {
    for (int i = 0; i < DTYPE_NAMES; i++)
        if (dtype_names[i].dtype == dtype)
            return dtype_names[i].name;
    ck_abort_msg("no such dtype: %d", (int)dtype);
}
