/*
 * points.h: hooks on named values inside a model, which keep, read or replace values during a
 * forward, as in TransformerLens.
 *
 *     rg_cached_run run = rg_run_with_cache(model, "blocks.*.attn.hook_pattern", idx, targets);
 *     rg_print(rg_cache_get(run.cache, "blocks.0.attn.hook_pattern"));
 *
 *     static rg_tensor *without_head(rg_tensor *z, const char *name, void *head) {
 *         rg_tensor *others = rg_clone(z);
 *         rg_zero_(rg_select(others, 2, *(int *)head));
 *         return others;
 *     }
 *
 *     loss = rg_run_with_hooks(
 *         model, RG_HOOKS_AT({ "blocks.1.attn.hook_z", without_head, &head }), idx, targets);
 *
 * The output of each module inside the model is a named value. Its name is the module's path, as
 * rg_named_modules lists it ("transformer.h.0.mlp"). A forward can show further values at points.
 * The name of a point is the path of its module, a dot, and the point's own name. Layers that have
 * points:
 *
 *   MultiheadAttention  hook_q, hook_k, hook_v, hook_z (batch, position, head, size of a head),
 *                       hook_attn_scores, hook_pattern (batch, head, query, key)
 *   GPT                 hook_embed, hook_pos_embed, blocks.0.hook_resid_pre, blocks.0.ln1 and .ln2
 *                       .hook_normalized, blocks.0.attn. with MultiheadAttention's six points
 *                       and hook_result (batch, position, head, embd), blocks.0.hook_attn_out,
 *                       .hook_resid_mid, blocks.0.mlp.hook_pre and .hook_post,
 *                       blocks.0.hook_mlp_out, .hook_resid_post, ln_final.hook_normalized. The
 *                       number of any block can stand in place of 0. These are TransformerLens's
 *                       names. They are relative to the GPT, and don't contain the paths of its
 *                       modules.
 *
 * The forward of a module of your own makes a point with
 *
 *     weights = rg_hook_point(self, "hook_pattern", weights);
 *
 * Without hooks in force, a point only costs the test of a pointer, and attention is a single op.
 * While a hook is set for a point of attention, attention is computed by several ops, whose sums
 * round in another order. hook_result holds the contribution of each head to the output. It is
 * computed only if the name of a hook ends with "hook_result". Then c_proj isn't called: the sum of
 * the contributions replaces its result.
 *
 * Gradients flow through the value that a hook returns. A value in a cache is part of the graph, so
 * rg_grad(loss, value) returns its gradient.
 */
#pragma once

#include "../module.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

/* A hook. It returns a tensor that replaces the value, RG_NONE to keep the value, or NULL on
 * failure. While it runs, no hook of the same list is called, so that the hook itself can call
 * modules. A hook must not be left by longjmp (see rg_error_handler in tensor.h). */
typedef rg_tensor *rg_point_hook(rg_tensor *value, const char *name, void *context);
/* A hook, with a pattern: the hook is called for the values whose names match. A pattern is a name,
 * or several names separated by blanks. A * in a name stands for any string, but only a name that
 * ends with "hook_result" matches a point hook_result. If several hooks match, they are called in
 * the order of the list. */
typedef struct rg_hook_at {
    const char *name;
    rg_point_hook *hook;
    void *context;
} rg_hook_at;
/* A list of hooks, written RG_HOOKS_AT({ name, hook, context }, ..). It lives until the end of the
 * C block, in C++ as long as the innermost scope. */
typedef struct rg_hooks_at {
    int n;
    const rg_hook_at *v;
} rg_hooks_at;
#ifndef __cplusplus
#define RG_HOOKS_AT(...)                                                               \
    ((rg_hooks_at){ (int)(sizeof((rg_hook_at[]){ __VA_ARGS__ }) / sizeof(rg_hook_at)), \
                    (const rg_hook_at[]){ __VA_ARGS__ } })
#endif

/* Makes a point: calls the hooks that match it, and returns x, or the tensor by which a hook
 * replaced it. Returns NULL on failure. `name` is the point's own name, without the path of m. */
rg_tensor *rg_hook_point(void *m, const char *name, rg_tensor *x);

/* Calls m as rg_call does, with these hooks in force. Fails, and returns NULL, if a hook was never
 * called. */
rg_tensor *rg_run_with_hooks_list(void *m, rg_hooks_at hooks, rg_list inputs);
#define rg_run_with_hooks(m, hooks, ...) \
    rg_run_with_hooks_list(m, hooks, RG_ARGUMENTS_(__VA_ARGS__))

/* rg_run_with_cache calls m as rg_call does. It returns the output, and the values whose names
 * match the pattern `names` ("*" matches all but hook_result), in the order in which they were
 * made. If a name occurs again, the later value replaces the earlier one. The scope owns the list.
 * On failure cache.n is -1 and output is NULL. */
typedef struct rg_cached_run {
    rg_tensor *output;
    rg_named_list cache;
} rg_cached_run;
rg_cached_run rg_run_with_cache_list(void *m, const char *names, rg_list inputs);
#define rg_run_with_cache(m, names, ...) \
    rg_run_with_cache_list(m, names, RG_ARGUMENTS_(__VA_ARGS__))
/* Returns the value with this name. Fails, and returns NULL, if there is none. */
rg_tensor *rg_cache_get(rg_named_list cache, const char *name);

/* Keeps the hooks in force until the end of the C block, for all calls of m and of the modules
 * below it:
 *
 *     RG_HOOKS(model, RG_HOOKS_AT({ "blocks.0.hook_resid_post", steer, direction }));
 *     rg_tensor *more = rg_gpt_generate(model, idx, 20);
 *
 * The strings with the patterns must live until then, and no other thread may call the module or
 * free it. On failure none of these hooks is in force, and rg_error() says why.
 */
typedef struct rg_hooks_guard {
    struct rg_hook_scope *scope;
} rg_hooks_guard;
rg_hooks_guard rg_hooks_guard_open(void *m, rg_hooks_at hooks);
void rg_hooks_guard_close(rg_hooks_guard *guard);
#define RG_HOOKS(m, hooks)                          \
    rg_hooks_guard RG_PASTE(rg_hooks_, __COUNTER__) \
        __attribute__((cleanup(rg_hooks_guard_close), unused)) = rg_hooks_guard_open(m, hooks)

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_hook_point(m, name, x)      rg_hook_point(RG_A_MODULE_(m), name, x)
#define rg_run_with_hooks_list(m, ...) rg_run_with_hooks_list(RG_A_MODULE_(m), __VA_ARGS__)
#define rg_run_with_cache_list(m, names, ...) \
    rg_run_with_cache_list(RG_A_MODULE_(m), names, __VA_ARGS__)
#define rg_hooks_guard_open(m, ...) rg_hooks_guard_open(RG_A_MODULE_(m), __VA_ARGS__)

RG_PUBLIC_END

#ifdef __cplusplus
static inline rg_hooks_at rg_hooks_at_of(std::initializer_list<rg_hook_at> l) {
    return rg_list_in_scope<rg_hooks_at>(l);
}
#define RG_HOOKS_AT(...) rg_hooks_at_of({ __VA_ARGS__ })
#endif
