/*
 * to_c.c: writes a lowered step (autograd/replay/lower.h) as a C file: the text of each loop that
 * the step calls, the values with which the memory begins, and a function that makes the calls.
 */
#include "to_c.h"
#include "c_calls.h"
#include "c_loops.h"
#include "c_memory.h"
#include "tensor/files/crc32.h"
#include "tensor/files/file.h"
#include "tensor/handle.h"
#include "tensor/messages/callback.h"
#include "tensor/observer.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/text/ascii.h"
#include "tensor/text/text.h"

/* The name of the function in error messages. */
static const char function[] = "replay_to_c";

/* The file that is being written. */
typedef struct {
    const rg_lowered *l;
    const rg_replay_to_c_options *o;
    rg_text text;
    char capitals[64];
    /* The path of the binary file with the parameters, and its name in its folder. */
    const char *weights_path, *weights_name;
    c_memory memory;
    char *parameters; /* The parameters as they are in the step's memory, with zeros in the gaps. */
} c_file;

static int c_region_of(const c_file *f, const rg_tensor *t) {
    return rgi_lowered_region(f->l, t->storage);
}

/* ---- the file ----------------------------------------------------------------------------- */

/* Adds the values that a region has before the first step, as 32-bit words. Returns the number of
 * words. `before` is the number of words that were added before, for the line breaks. */
static size_t add_words(c_file *f, size_t region, size_t before) {
    const k_region *r = &f->l->trace.regions[region];
    const size_t words = (r->bytes + 3) / 4;
    for (size_t i = 0; i < words; i++) {
        uint32_t word = 0;
        memcpy(&word, r->begin + 4 * i, RG_MIN(4, r->bytes - 4 * i));
        rgi_text_add(&f->text, "%s0x%08x,", (before + i) % 8 ? " " : "\n    ", word);
    }
    return words;
}

/* Returns whether NAME_begin gives a region the values that the C file has for it. */
static bool has_values(const c_file *f, size_t region) {
    const int64_t least = f->o->weights == RG_IN_FILE ? 0 : f->memory.parameters;
    return f->memory.offset[region] >= least && !f->l->known[region].computed
           && f->l->trace.regions[region].bytes;
}

/* Returns whether all bytes of a region are zero, as those of an optimizer's moments are before its
 * first step. */
static bool is_zero(const k_region *r) {
    for (size_t i = 0; i < r->bytes; i++)
        if (r->begin[i])
            return false;
    return true;
}

static void add_begin(c_file *f) {
    const char *name = f->o->name;
    const k_region *regions = f->l->trace.regions;
    size_t words = 0;
    rgi_text_add(&f->text, "static const uint32_t %s_values[] = {", name);
    for (size_t i = 0; i < f->l->n; i++)
        if (has_values(f, i) && !is_zero(&regions[i]))
            words += add_words(f, i, words);
    const bool beside = f->o->weights == RG_BESIDE;
    rgi_text_add(&f->text, "%s\n};\n\nvoid %s_begin(void *memory%s) {\n", words ? "" : " 0", name,
                 beside ? ", const void *weights" : "");
    rgi_text_add(&f->text, "    char *m = memory;\n    (void)m;\n");
    if (beside)
        rgi_text_add(&f->text, "    memcpy(m, weights, %lld);\n", (long long)f->memory.parameters);
    words = 0;
    for (size_t i = 0; i < f->l->n; i++) {
        if (!has_values(f, i))
            continue;
        const long long offset = (long long)f->memory.offset[i];
        const size_t bytes = regions[i].bytes;
        if (is_zero(&regions[i])) {
            rgi_text_add(&f->text, "    memset(m + %lld, 0, %zu);\n", offset, bytes);
            continue;
        }
        rgi_text_add(&f->text, "    memcpy(m + %lld, %s_values + %zu, %zu);\n", offset, name, words,
                     bytes);
        words += (bytes + 3) / 4;
    }
    rgi_text_add(&f->text, "}\n\n");
}

static int64_t offset_of(const c_file *f, const rg_tensor *t) {
    const int region = c_region_of(f, t);
    return f->memory.offset[region] + (t->data - f->l->trace.regions[region].begin);
}

static void add_step(c_file *f) {
    const rg_list in = f->o->inputs;
    const rg_tensor *y = f->o->output;
    if (y == RG_NONE)
        rgi_text_add(&f->text, "void %s_step(void *memory", f->o->name);
    else
        rgi_text_add(&f->text, "const %s *%s_step(void *memory", rgi_c_type((rg_dtype)y->dtype),
                     f->o->name);
    for (int i = 0; i < in.n; i++)
        rgi_text_add(&f->text, ", const %s *input%d", rgi_c_type((rg_dtype)in.v[i]->dtype), i);
    rgi_text_add(&f->text, ") {\n    char *m = memory;\n");
    for (int i = 0; i < in.n; i++)
        rgi_text_add(&f->text, "    memmove(m + %lld, input%d, %zu);\n",
                     (long long)offset_of(f, in.v[i]), i, rgi_bytes_of(in.v[i]));
    const c_calls calls = { &f->text, &f->l->trace, f->memory.offset, NULL, NULL };
    rgi_c_calls_add(&calls, 0, f->l->trace.n_calls);
    if (y != RG_NONE)
        rgi_text_add(&f->text, "    return (const %s *)(void *)(m + %lld);\n",
                     rgi_c_type((rg_dtype)y->dtype), (long long)offset_of(f, y));
    rgi_text_add(&f->text, "}\n");
}

/* Adds the functions NAME_output1, NAME_output2 .. */
static void add_more_outputs(c_file *f) {
    for (int i = 0; i < f->o->more_outputs.n; i++) {
        const rg_tensor *y = f->o->more_outputs.v[i];
        const char *type = rgi_c_type((rg_dtype)y->dtype);
        rgi_text_add(&f->text,
                     "\nconst %s *%s_output%d(const void *memory) {\n"
                     "    return (const %s *)(const void *)((const char *)memory + %lld);\n}\n",
                     type, f->o->name, i + 1, type, (long long)offset_of(f, y));
    }
}

/* Adds a line for each tensor of a list, with its name and a number, of which `first` is the first.
 */
static void add_tensors(c_file *f, rg_list list, const char *name, int first) {
    for (int i = 0; i < list.n; i++)
        rgi_text_add(&f->text, " *     %s%d: %s %s at byte %lld\n", name, first + i,
                     rgi_c_type((rg_dtype)list.v[i]->dtype), RG_SHAPE_TEXT(list.v[i]),
                     (long long)offset_of(f, list.v[i]));
}

/* Adds the shapes of all tensors that the caller knows, and a checksum of the parameters. */
static void add_shapes(c_file *f) {
    const rg_replay_to_c_options *o = f->o;
    rg_tensor *y = o->output;
    if (o->parameters.n || o->inputs.n || y != RG_NONE || o->more_outputs.n)
        rgi_text_add(&f->text, " *\n * These tensors are in the memory:\n");
    add_tensors(f, o->parameters, "parameter", 0);
    add_tensors(f, o->inputs, "input", 0);
    add_tensors(f, (rg_list){ y != RG_NONE, &y }, "output", 0);
    add_tensors(f, o->more_outputs, "output", 1);
    if (f->memory.parameters)
        rgi_text_add(&f->text, " *\n * The parameters had the CRC-32 0x%08x.\n",
                     rgi_crc32(0, f->parameters, (size_t)f->memory.parameters));
}

static void add_head(c_file *f) {
    const k_trace *t = &f->l->trace;
    rgi_text_add(&f->text,
                 "/*\n * %s_step: a recorded step, written by rg_replay_to_c of regard " RG_VERSION
                 ". It makes %zu calls\n * of loops on %lld bytes of memory, of which at most %lld "
                 "are in use at one time. Compile it\n * without -ffast-math, and for a "
                 "processor with fused multiply-adds with -ffp-contract=off.\n",
                 f->o->name, t->n_calls, (long long)f->memory.bytes, (long long)f->memory.most);
    if (f->o->weights == RG_BESIDE)
        rgi_text_add(&f->text,
                     " *\n * The file %s beside this one has the bytes of the parameters, which "
                     "%s_begin\n * takes.\n",
                     f->weights_name, f->o->name);
    if (f->o->weights == RG_FROM_CALLER)
        rgi_text_add(&f->text,
                     " *\n * The caller copies the parameters to the first %s_PARAMETERS bytes of "
                     "the\n * memory, before the first step.\n",
                     f->capitals);
    add_shapes(f);
    rgi_text_add(&f->text, " */\n");
}

/* Adds the beginning of the self-test's memory. Parameters that aren't in the file are read from
 * the standard input. */
static void add_begin_of_test(c_file *f) {
    const char *name = f->o->name;
    const bool beside = f->o->weights == RG_BESIDE;
    if (beside)
        rgi_text_add(&f->text, "    static char weights[%s_PARAMETERS];\n", f->capitals);
    if (f->o->weights != RG_IN_FILE)
        rgi_text_add(&f->text,
                     "    if (fread(%s, 1, %s_PARAMETERS, stdin) != %s_PARAMETERS)\n"
                     "        return 1;\n",
                     beside ? "weights" : "m", f->capitals, f->capitals);
    rgi_text_add(&f->text, "    %s_begin(m%s);\n", name, beside ? ", weights" : "");
}

/* Adds the program that -DNAME_SELF_TEST makes of the file. */
static void add_self_test(c_file *f) {
    const rg_list in = f->o->inputs;
    const rg_tensor *y = f->o->output;
    const char *name = f->o->name;
    rgi_text_add(&f->text,
                 "\n#ifdef %s_SELF_TEST\n#include <stdio.h>\n\n"
                 "#ifndef %s_STEPS\n#define %s_STEPS 3\n#endif\n\nint main(void) {\n"
                 "    static uint64_t memory[%s_BYTES / 8 + 8];\n"
                 "    char *m = (char *)memory + (64 - (uintptr_t)memory %% 64) %% 64;\n",
                 f->capitals, f->capitals, f->capitals, f->capitals);
    add_begin_of_test(f);
    rgi_text_add(&f->text, "    for (int i = 0; i < %s_STEPS; i++) {\n        ", f->capitals);
    if (y != RG_NONE)
        rgi_text_add(&f->text, "const %s *y = ", rgi_c_type((rg_dtype)y->dtype));
    rgi_text_add(&f->text, "%s_step(m", name);
    for (int i = 0; i < in.n; i++)
        rgi_text_add(&f->text, ", (const void *)(m + %lld)", (long long)offset_of(f, in.v[i]));
    rgi_text_add(&f->text, ");\n");
    if (y != RG_NONE)
        rgi_text_add(&f->text,
                     "        for (int k = 0; k < %lld; k++)\n"
                     "            printf(\"%%a\\n\", (double)y[k]);\n",
                     (long long)y->numel);
    rgi_text_add(&f->text, "    }\n    return 0;\n}\n#endif\n");
}

/* Sets f->parameters. Returns false if memory ran out. */
static bool copy_parameters(c_file *f) {
    f->parameters = rgi_scope_alloc((size_t)f->memory.parameters + 1);
    if (!f->parameters)
        return false;
    memset(f->parameters, 0, (size_t)f->memory.parameters);
    for (int i = 0; i < f->o->parameters.n; i++) {
        const int region = c_region_of(f, f->o->parameters.v[i]);
        const k_region *r = &f->l->trace.regions[region];
        memcpy(f->parameters + f->memory.offset[region], r->begin, r->bytes);
    }
    return true;
}

static bool make_c_text(c_file *f) {
    if (!rgi_c_memory_plan(&f->memory, f->l, f->o) || !copy_parameters(f))
        return false;
    add_head(f);
    if (!rgi_c_loops_add(&f->text, function, &f->l->trace))
        return false;
    rgi_text_add(&f->text, "\nenum { %s_BYTES = %lld, %s_PARAMETERS = %lld };\n\n", f->capitals,
                 (long long)f->memory.bytes, f->capitals, (long long)f->memory.parameters);
    add_begin(f);
    add_step(f);
    add_more_outputs(f);
    add_self_test(f);
    return !f->text.failed;
}

/* Returns whether s can begin a name in C, and fits in the field `capitals` of c_file. */
static bool is_name(const char *s) {
    if (!s || !(rgi_is_letter(*s) || *s == '_'))
        return false;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return !s[n] && n < sizeof((c_file *)0)->capitals;
}

/* Checks a tensor of the options. */
static bool is_contiguous_given(rg_tensor *t, const char *what) {
    if (!rg_check_tensor(t, function))
        return false;
    RG_FAIL_VALUE_IF(!(t->flags & RG_CONTIGUOUS), function, "%s isn't contiguous", what);
    return true;
}

/* Checks that no parameter is a part of a larger tensor's memory: NAME_PARAMETERS would have the
 * bytes of the whole memory. */
static bool fill_their_memory(rg_list parameters) {
    for (int i = 0; i < parameters.n; i++) {
        const rg_tensor *t = parameters.v[i];
        RG_FAIL_VALUE_IF(rgi_bytes_of(t) != t->storage->bytes, function,
                         "parameters[%d] is a part of a larger tensor's memory; before recording, "
                         "give it memory of its own: rg_set_data(p, rg_clone(p))",
                         i);
    }
    return true;
}

/* Fails if two inputs, two parameters, or an input and a parameter share memory. */
static bool are_apart(const rg_replay_to_c_options *o) {
    for (int i = 0; i < o->inputs.n; i++) {
        for (int k = 0; k < i; k++)
            RG_FAIL_VALUE_IF(rgi_lowered_overlap(o->inputs.v[i], o->inputs.v[k]), function,
                             "inputs[%d] shares memory with inputs[%d]", i, k);
        for (int k = 0; k < o->parameters.n; k++)
            RG_FAIL_VALUE_IF(rgi_lowered_overlap(o->inputs.v[i], o->parameters.v[k]), function,
                             "inputs[%d] shares memory with parameters[%d]", i, k);
    }
    for (int i = 0; i < o->parameters.n; i++)
        for (int k = 0; k < i; k++)
            RG_FAIL_VALUE_IF(o->parameters.v[i]->storage == o->parameters.v[k]->storage, function,
                             "parameters[%d] shares memory with parameters[%d]", i, k);
    return true;
}

/* Checks the tensors of a list of the options. */
static bool are_contiguous_given(rg_list list, const char *what) {
    if (!rgi_given_list(list.n, list.v, function))
        return false;
    for (int i = 0; i < list.n; i++)
        if (!is_contiguous_given(list.v[i], what))
            return false;
    return true;
}

static bool are_given(const rg_replay_to_c_options *o) {
    return are_contiguous_given(o->inputs, "an input")
           && are_contiguous_given(o->parameters, "a parameter")
           && (o->output == RG_NONE || is_contiguous_given(o->output, "the output"))
           && are_contiguous_given(o->more_outputs, "an output") && are_apart(o)
           && fill_their_memory(o->parameters);
}

/* Checks where the parameters' values are to be. */
static bool have_place(const rg_replay_to_c_options *o) {
    RG_FAIL_VALUE_IF(o->weights > RG_FROM_CALLER, function, "there is no place %d for weights",
                     (int)o->weights);
    RG_FAIL_VALUE_IF(o->weights != RG_IN_FILE && !o->parameters.n, function,
                     "%s needs the parameters whose values it is about",
                     o->weights == RG_BESIDE ? "RG_BESIDE" : "RG_FROM_CALLER");
    return true;
}

/* Fails if the step has no region for a tensor of the list. `without` is the sentence that says so
 * of the tensor with a given index. */
static bool have_regions(const rg_lowered *l, rg_list list, const char *without) {
    for (int i = 0; i < list.n; i++)
        RG_FAIL_VALUE_IF(rgi_lowered_region(l, list.v[i]->storage) < 0, function, without, i);
    return true;
}

/* Checks that the step works on the tensors of the options. */
static bool are_in_step(const rg_lowered *l, const rg_replay_to_c_options *o) {
    if (!have_regions(l, o->inputs, "the step doesn't use inputs[%d]")
        || !have_regions(l, o->parameters,
                         "the step neither reads parameters[%d] nor computes a gradient of it"))
        return false;
    RG_FAIL_VALUE_IF(o->output != RG_NONE && rgi_lowered_region(l, o->output->storage) < 0,
                     function, "the step doesn't compute the output");
    return have_regions(l, o->more_outputs, "the step doesn't compute more_outputs[%d]");
}

/* Sets the path of the binary file with the parameters: that of the C file, with .weights in place
 * of .c. Returns false if memory ran out. */
static bool name_weights(c_file *f, const char *path) {
    static const char ending[] = ".weights";
    size_t n = strlen(path);
    if (n > 2 && strcmp(path + n - 2, ".c") == 0)
        n -= 2;
    char *to = rgi_scope_alloc(n + sizeof ending);
    if (!to)
        return false;
    memcpy(to, path, n);
    memcpy(to + n, ending, sizeof ending);
    const char *folder_end = strrchr(to, '/');
    f->weights_path = to;
    f->weights_name = folder_end ? folder_end + 1 : to;
    return true;
}

static bool write_beside(const c_file *f) {
    rg_writer w;
    if (!rgi_writer_begin(&w, function, f->weights_path))
        return false;
    rgi_write(&w, f->parameters, (size_t)f->memory.parameters);
    return rgi_writer_end(&w);
}

/* Writes the files. The C file gets its name last, so that it has the parameters beside it. */
static bool write_files(const c_file *f, const char *path) {
    rg_writer w;
    if (!rgi_writer_begin(&w, function, path))
        return false;
    rgi_write(&w, f->text.v, f->text.n);
    if (f->o->weights == RG_BESIDE && !(rgi_writer_settle(&w) && write_beside(f))) {
        rgi_writer_cancel(&w);
        return false;
    }
    return rgi_writer_end(&w);
}

/* Writes the lowered step to the file at `path`. */
static bool write_step(const rg_lowered *l, const char *path, const rg_replay_to_c_options *o) {
    RG_SCOPE();
    c_file f = { .l = l, .o = o };
    for (size_t i = 0; o->name[i]; i++)
        f.capitals[i] = rgi_to_upper(o->name[i]);
    f.memory.offset = rgi_scope_alloc((l->trace.n_regions + 1) * sizeof *f.memory.offset);
    const bool ok = f.memory.offset && name_weights(&f, path) && are_in_step(l, o)
                    && make_c_text(&f) && write_files(&f, path);
    rgi_text_free(&f.text);
    return ok;
}

bool rg_replay_to_c_with(rg_replay *r, const char *path, rg_replay_to_c_options o) {
    if (rgi_training_halted() || !rgi_may_do_once(function) || !have_place(&o)
        || !rgi_handle_given(r, function, RG_HANDLE_REPLAY) || !rgi_given_path(path, function))
        return false;
    RG_FAIL_VALUE_IF(!is_name(o.name), function, "%s can't begin a name in C",
                     o.name ? o.name : "NULL");
    rg_lowered l;
    if (!are_given(&o) || !rgi_replay_lower(r, o.inputs, &l))
        return false;
    const bool ok = write_step(&l, path, &o);
    rgi_lowered_free(&l);
    return ok;
}
