/*
 * gpt_points.c: names the inner values of a GPT as TransformerLens does. A name begins with the
 * path, relative to the GPT, that the value's module has in TransformerLens. rg_nn_gpt gives its
 * modules nanoGPT's paths, so this file translates them: "transformer.h.0" becomes "blocks.0".
 */
#include "gpt_points.h"
#include "nn/given.h"
#include "tensor/base.h"

#include <stdio.h>
#include <string.h>

/* Modules that have another name in TransformerLens: `ours` is nanoGPT's name, which regard uses,
 * and `theirs` is TransformerLens's. Only the last part of a path is compared. */
static const struct {
    const char *ours, *theirs;
} last_parts[] = { { "ln_1", "ln1" }, { "ln_2", "ln2" }, { "ln_f", "ln_final" } };

static rg_module *gpt_above(const rg_module_class *gpt, rg_module *m) {
    while (m && m->cls != gpt)
        m = rgi_module_parent(m);
    return m;
}

/* Writes TransformerLens's name of the point `name` of a module to `text`. `path` is the module's
 * path in rg_nn_gpt. For example "transformer.h.0.attn" and the name "hook_q" give
 * "blocks.0.attn.hook_q". */
static void write_name(const char *path, const char *name, char *text, size_t room) {
    static const char blocks[] = "transformer.h.", rest[] = "transformer";
    const char *before = "";
    if (strncmp(path, blocks, strlen(blocks)) == 0) {
        before = "blocks.";
        path += strlen(blocks);
    } else if (strncmp(path, rest, strlen(rest)) == 0) {
        path += strlen(rest);
        path += *path == '.';
    }
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path, *other = last;
    for (size_t i = 0; i < sizeof last_parts / sizeof last_parts[0]; i++)
        if (strcmp(last, last_parts[i].ours) == 0)
            other = last_parts[i].theirs;
    snprintf(text, room, "%s%.*s%s%s%s", before, (int)(last - path), path, other, *path ? "." : "",
             name);
}

/* Finds the GPT that contains m (or is m), and writes to `text` the name of m's point `name`
 * relative to the GPT. Returns the GPT. If m isn't inside a GPT, writes only `name`, and returns
 * m. */
static rg_module *name_in_gpt(const rg_module_class *cls, rg_module *m, const char *name,
                              char text[2 * RG_PATH_ROOM]) {
    rg_module *gpt = gpt_above(cls, m);
    char path[RG_PATH_ROOM], above[RG_PATH_ROOM];
    if (!gpt) {
        snprintf(text, 2 * RG_PATH_ROOM, "%s", name);
        return m;
    }
    size_t n = rgi_module_path(gpt, above, sizeof above);
    size_t whole = rgi_module_path(m, path, sizeof path);
    size_t begin = n ? RG_MIN(n + 1, whole) : 0;
    write_name(path + begin, name, text, 2 * RG_PATH_ROOM);
    return gpt;
}

rg_tensor *rgi_gpt_point(const rg_module_class *gpt, rg_module *m, const char *name, rg_tensor *x) {
    char text[2 * RG_PATH_ROOM];
    rg_module *of = name_in_gpt(gpt, m, name, text);
    return rgi_point(of, text, x);
}

bool rgi_gpt_is_awaited(const rg_module_class *gpt, rg_module *m, const char *const names[]) {
    char text[2 * RG_PATH_ROOM];
    for (int i = 0; names[i]; i++) {
        rg_module *of = name_in_gpt(gpt, m, names[i], text);
        if (rgi_is_awaited(of, text))
            return true;
    }
    return false;
}
