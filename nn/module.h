/*
 * module.h: modules, as torch.nn.Module: structs whose parameters, buffers and children are
 * registered under their fields' names. The layers that regard has are in layers.h.
 *
 *     typedef struct {
 *         rg_module  base;
 *         rg_tensor *weight;
 *     } Scale;
 *
 *     static rg_tensor *scale_forward(rg_module *m, rg_tensor *x) {
 *         return rg_mul(x, ((Scale *)m)->weight);
 *     }
 *
 *     static const rg_module_class scale_class = { .name = "Scale", .forward = scale_forward };
 *
 *     Scale *scale(int n) {
 *         Scale *self = RG_MODULE(Scale, &scale_class);
 *         RG_PARAMETER(self, weight, rg_ones(n));
 *         return RG_READY(self);
 *     }
 *
 * A registration under the same name and in the same field replaces the previous value, which is
 * freed, as in torch:
 *
 *     RG_CHILD(model, head, rg_nn_linear(3, 5));
 *
 * If that fails, the module stays as it was. A field that was assigned to in another way isn't
 * registered: the next walk over the tree fails, and says so.
 *
 * A field that isn't registered gets its value from RG_MODULE(Scale, &scale_class, .n = n).
 * A constructor that fails frees what it made and returns NULL; NULL as a child or a
 * value makes it fail. A module belongs to whoever made it, until rg_module_free or until
 * it becomes a child; it frees its parameters and children. After rg_module_free neither
 * the module nor what was below it may be used: such a use is noticed (RG_RELEASED) only
 * while the memory isn't in use for something else.
 */
#pragma once

#include "../autograd/autograd.h"
#include "../autograd/ops/ops.h"
#include "../tensor/files/files.h"

RG_PUBLIC_BEGIN

typedef struct rg_module rg_module;

/* None of its functions may be left by longjmp (see rg_error_handler in tensor.h). */
typedef struct rg_module_class {
    const char *name RG_EMPTY;
    /* rg_call(m, x) runs forward, rg_call(m, x, y) forward2, rg_call(m, x, y, z) forward3. */
    rg_tensor *(*forward)(rg_module *m, rg_tensor *x)RG_EMPTY;
    rg_tensor *(*forward2)(rg_module *m, rg_tensor *x, rg_tensor *y)RG_EMPTY;
    rg_tensor *(*forward3)(rg_module *m, rg_tensor *x, rg_tensor *y, rg_tensor *z)RG_EMPTY;
    /* forward_with runs for any other number of inputs, and for every call with keywords.
     * `keywords` is the struct given to rg_call_keywords, or NULL; keywords_bytes is the struct's
     * size. */
    rg_tensor *(*forward_with)(rg_module *m, rg_list inputs, void *keywords)RG_EMPTY;
    size_t keywords_bytes RG_EMPTY;
    /* Writes the text between the parentheses: "in_features=3, out_features=4". */
    void (*extra_repr)(rg_module *m, char *text, size_t room) RG_EMPTY;
    /* Frees all that the module owns except its parameters, buffers and children. */
    void (*destroy)(rg_module *m) RG_EMPTY;
    /* rg_deepcopy calls this after it has copied the bytes of `from` to m and stored copies of the
     * parameters, buffers and children in m's struct. `copy` duplicates all that destroy frees, and
     * calls rg_move_places for registered places outside of the struct. If it returns false, m must
     * own nothing that destroy would free. */
    bool (*copy)(rg_module *m, const rg_module *from) RG_EMPTY;
} rg_module_class;

struct rg_module {
    rg_handle handle;
    const rg_module_class *cls;
    bool training;
    bool failed;                  /* A registration in the constructor failed. */
    struct rg_registry *registry; /* Private to the library. */
};

/* ---- making -------------------------------------------------------------------- */

/* Allocates a module of `bytes` bytes, and copies the fields into it. Returns NULL on failure. */
void *rg_module_new(size_t bytes, const rg_module_class *cls, const void *fields);
/* Returns m or, if a registration failed, frees it and returns NULL. */
void *rg_module_ready(void *m);
/* Frees the whole tree. Does nothing if m is NULL or the child of another module. */
void rg_module_free(void *m);
/* Stores the parameter in the field `place` and registers it. RG_NONE stands for an absent
 * parameter. */
bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value);
typedef struct RG_OPTIONS rg_buffer_options {
    RG_BY_NAME;
    bool persistent RG_DEFAULT(true); /* state_dict includes it. */
} rg_buffer_options;
/* Stores a tensor that isn't trained in the field `place` and registers it. */
bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o);
/* Registers the child, which m then owns; on failure the child is freed. A Sequential or another
 * container appends it, or replaces the child of that name. */
bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Stores another field's parameter in a registered field, so that both share it. */
bool rg_tie(rg_tensor **place, rg_tensor *parameter);
/* Tells that the block of memory `from`, of `bytes` bytes, in which m's registered places lie, has
 * become the block `to`, as after realloc. */
bool rg_move_places(rg_module *m, const void *from, void *to, size_t bytes);

/* RG_A_MODULE_(m) is m as an rg_module *, whatever module it is. A tensor or a text is none. */
#define RG_NO_MODULE_ "a module belongs here: a pointer to a struct that begins with an rg_module"
#ifdef __cplusplus
#define RG_A_MODULE_(m) rg_as_module(m)
#else
#define RG_A_MODULE_(m) \
    ((void)RG_REQUIRE_OF_(RG_MAY_BE_MODULE_(m), RG_NO_MODULE_), (rg_module *)(m))
#define RG_MAY_BE_MODULE_(m) \
    RG_BY_TYPE_(m, 0, 1, 0, 0, 0, 0, _Generic((m), char * : 0, const char * : 0, default : 1))
#endif

/* If self is NULL or has failed, RG_PARAMETER and RG_BUFFER don't evaluate the value. RG_CHILD
 * evaluates the child unless self is NULL, and frees it if self has failed. */
#define RG_UNFAILED_(self) ((self) && !(self)->base.failed)
#define RG_PARAMETER(self, field, value) \
    ((void)(RG_UNFAILED_(self)           \
            && rg_register_parameter(&(self)->base, #field, &(self)->field, value)))
#define RG_BUFFER(self, field, value, ...)                    \
    ((void)(RG_UNFAILED_(self)                                \
            && rg_register_buffer(                            \
                &(self)->base, #field, &(self)->field, value, \
                RG_KEYWORDS(rg_buffer_options, (.persistent = true), __VA_ARGS__))))
#define RG_CHILD(self, field, child)                                                          \
    ((void)((self)                                                                            \
            && rg_register_child(&(self)->base, #field, (rg_module **)(void *)&(self)->field, \
                                 RG_A_MODULE_(child))))
#define RG_READY(self) ((__typeof__(self))rg_module_ready(self))
#ifndef __cplusplus
#define RG_MODULE(type, cls, ...) \
    ((type *)rg_module_new(sizeof(type), cls, &(type){ .base = { .training = true }, __VA_ARGS__ }))
#endif

/* Returns a copy of the whole tree, as copy.deepcopy does; NULL on failure. Other fields of the
 * struct are copied byte by byte, so that pointers point to the original's memory: a class that
 * owns more needs the function `copy`, and a class with destroy and without `copy` can't be copied.
 * Values shared or tied in the tree are shared or tied in the copy. Parameters are copied without
 * their gradients, buffers with them, and hooks with the same contexts. */
void *rg_deepcopy(void *m);

/* ---- calling ------------------------------------------------------------------- */

/* Runs forward and the hooks in a scope of their own, and returns the output. All calls of modules
 * do this, also the calls inside a layer. */
rg_tensor *rg_call_list(rg_module *m, rg_list inputs);
#define rg_call(m, ...) rg_call_list(RG_A_MODULE_(m), RG_ARGUMENTS_(__VA_ARGS__))
/* Runs forward with keywords: a pointer to the struct that the module's class expects. If forward
 * has more than one result, the struct has fields for the others, which forward hands over to the
 * outer scope:
 *
 *     typedef struct { bool normalise; rg_tensor *scores; } rank_keywords;
 *
 *     static rg_tensor *rank_forward(rg_module *m, rg_list in, void *keywords) {
 *         rank_keywords *k = keywords;
 *         ...
 *         k->scores = rg_escape(scores);
 *         return ranks;
 *     }
 *
 *     rank_keywords k = { .normalise = true };
 *     rg_tensor *ranks = rg_call_keywords(model, &k, x, y);
 *
 * A layer with such a forward has a function that returns all results in a struct, as
 * rg_multihead_attention_forward does.
 */
rg_tensor *rg_call_with(rg_module *m, rg_list inputs, void *keywords, size_t keywords_bytes);
#define rg_call_keywords(m, keywords, ...) \
    rg_call_with(RG_A_MODULE_(m), RG_ARGUMENTS_(__VA_ARGS__), keywords, sizeof *(keywords))

/* A hook returns y's replacement, or RG_NONE to keep y. A pre-hook runs before forward, with
 * RG_NONE as y: its result replaces the first input. A hook may free the module, which then lives
 * until its call ends. A hook must not be left by longjmp (see rg_error_handler in tensor.h). */
typedef rg_tensor *rg_forward_hook(rg_module *m, rg_list inputs, rg_tensor *y, void *context);
/* Return the hook's id, or -1 on failure. */
int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context);
int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context);
/* Returns the keywords of m's running call, where a hook finds the other results, and a pre-hook
 * the options. Returns NULL if the call has none, and fails if m isn't called now. */
void *rg_keywords_of_call(rg_module *m);
/* torch's full backward hooks. A pre-hook gets the gradient of the result, and returns its
 * replacement, or RG_NONE to keep it. The other kind runs once the gradients of the n inputs exist;
 * it gets these and the result's, and may replace the inputs'. RG_NONE stands for the gradient of
 * an input that is absent or requires no grad. If no input requires grad, the hook gets the
 * result's gradient alone, after a warning, and must not replace anything. It returns false on
 * failure. Both see the positional inputs, up to 8, and forward's result; therefore forward gets
 * views of its inputs, and the caller a view of the result, which can't be written to in place. A
 * call uses the hooks that the module has at that time. The module must live until the backward
 * run. */
typedef rg_tensor *rg_full_backward_pre_hook(rg_module *m, rg_tensor *grad_output, void *context);
typedef bool rg_full_backward_hook(rg_module *m, int n, rg_tensor *grad_input[],
                                   rg_tensor *grad_output, void *context);
int rg_register_full_backward_hook(rg_module *m, rg_full_backward_hook *hook, void *context);
int rg_register_full_backward_pre_hook(rg_module *m, rg_full_backward_pre_hook *hook,
                                       void *context);
/* Removes a hook of any kind. */
bool rg_remove_forward_hook(rg_module *m, int id);

/* ---- the whole tree ------------------------------------------------------------ */

/* Sets the mode of m and of all modules below it: training if `on`, else evaluation. */
void rg_train(void *m, bool on);
#define rg_eval(m) rg_train(m, false)
bool rg_module_requires_grad_(void *m, bool on);
void rg_zero_grad(void *m);
/* Converts floating point parameters and buffers, and their gradients. Views become tensors that
 * share no memory. On failure, nothing was converted. */
bool rg_module_to(void *m, rg_dtype dtype);
/* Returns the number of elements of all parameters, shared ones once, or -1 on failure. */
int64_t rg_num_parameters(void *m);
/* Calls f for each module, children before their parents. f must not be left by longjmp. */
void rg_apply_to_modules(void *m, void (*f)(rg_module *m, void *context), void *context);

/* The scope owns the lists' arrays and names. A list with .n == -1 means failure. */
typedef struct rg_named_module {
    const char *name;
    rg_module *module;
} rg_named_module;
typedef struct rg_named_modules_list {
    int n;
    const rg_named_module *v;
} rg_named_modules_list;
/* Lists each shared tensor once. */
rg_list rg_parameters(void *m);
rg_named_list rg_named_parameters(void *m);
rg_named_list rg_named_buffers(void *m);
/* Lists m itself first, with the name "". */
rg_named_modules_list rg_named_modules(void *m);
/* Returns the module, parameter or buffer of this path, such as "layers.0.linear1"; fails as torch
 * does if there is none. The path "" is m itself. */
void *rg_get_submodule(void *m, const char *path);
rg_tensor *rg_get_parameter(void *m, const char *path);
rg_tensor *rg_get_buffer(void *m, const char *path);
/* Lists parameters and persistent buffers, shared ones under each of their names. */
rg_named_list rg_state_dict(void *m);
/* Copies the values to the module's tensors of the same names. If a shape differs or, with
 * `strict`, a name is missing or unknown, copies nothing, and fails with torch's list of errors. It
 * also fails if a name comes twice in the list, as every function does that loads a list. */
bool rg_load_state_dict(void *m, rg_named_list dict, bool strict);
/* The result of torch's load_state_dict: the missing names and the unexpected ones, in torch's
 * order. The scope owns them; lists with .n == -1 mean failure. */
typedef struct rg_incompatible_keys {
    rg_names missing_keys, unexpected_keys;
} rg_incompatible_keys;
/* Does rg_load_state_dict, and returns the names that weren't loaded. */
rg_incompatible_keys rg_load_state_dict_keys(void *m, rg_named_list dict, bool strict);
/* Returns the module's text as torch prints it. The scope owns it. */
const char *rg_module_repr(void *m);

/* ---- whole numbers: RG_WHOLE, in tensor/keywords.h, refuses a fraction --------------- */

#define rg_module_new(bytes, ...)          rg_module_new(RG_WHOLE(bytes), __VA_ARGS__)
#define rg_move_places(m, from, to, bytes) rg_move_places(m, from, to, RG_WHOLE(bytes))
#define rg_call_with(m, inputs, keywords, keywords_bytes) \
    rg_call_with(m, inputs, keywords, RG_WHOLE(keywords_bytes))
#define rg_remove_forward_hook(m, id) rg_remove_forward_hook(m, RG_WHOLE(id))

RG_PUBLIC_END

#ifdef __cplusplus
template <typename T> static inline rg_module *rg_as_module(T *m) {
    static_assert(!std::is_same<T, rg_tensor>::value && !std::is_arithmetic<T>::value
                      && !std::is_same<T, const char>::value,
                  RG_NO_MODULE_);
    return (rg_module *)m;
}
static inline rg_module *rg_as_module(decltype(nullptr)) { return nullptr; }
template <typename T> static inline T *rg_module_of(const rg_module_class *cls, T fields, int) {
    return (T *)rg_module_new(sizeof(T), cls, &fields);
}
/* Silences warnings about missing initializers. */
#define RG_MODULE(type, cls, ...)                                                  \
    ((void)__extension__({                                                         \
         _Pragma("GCC diagnostic push")                                            \
             _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") 0; \
     }),                                                                           \
     rg_module_of<type>(cls, type{ __VA_ARGS__ },                                  \
                        __extension__({ _Pragma("GCC diagnostic pop") 0; })))
template <typename T> static inline T *rg_deepcopy(T *m) { return (T *)rg_deepcopy((void *)m); }
#endif
