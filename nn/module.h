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
 * If that fails, the module stays as it was. An optimizer that has the old parameters goes on with
 * them: rg_optim_add_group gives it the new ones. If a registered field is assigned to in another
 * way, functions on all modules, such as rg_parameters, fail and name the field. A tensor in a
 * field that was never registered is no parameter, even if it requires grad: as in torch without
 * nn.Parameter, rg_parameters leaves it out, and no optimizer updates it.
 *
 * A field that isn't registered gets its value from RG_MODULE(Scale, &scale_class, .n = n). A
 * constructor fails if a child or a value is NULL; then it frees what it made and returns NULL. The
 * program frees a module with rg_module_free, unless the module has become a child. This also frees
 * its parameters, buffers and children. Using one of them afterwards fails with RG_RELEASED, as
 * long as its memory hasn't been reused.
 */
#pragma once

#include "../autograd/autograd.h"
#include "../autograd/ops/ops.h"
#include "../tensor/files/files.h"
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct rg_module rg_module;
typedef struct rg_optim rg_optim; /* An optimizer; RG_A_MODULE_ (below) refuses one. */

/* A module's class: its name and its functions. None of the functions may be left by longjmp (see
 * rg_error_handler in tensor.h). */
typedef struct rg_module_class {
    const char *name RG_EMPTY;
    /* rg_call(m, x) runs forward, rg_call(m, x, y) forward2, rg_call(m, x, y, z) forward3. */
    rg_tensor *(*forward)(rg_module *m, rg_tensor *x)RG_EMPTY;
    rg_tensor *(*forward2)(rg_module *m, rg_tensor *x, rg_tensor *y)RG_EMPTY;
    rg_tensor *(*forward3)(rg_module *m, rg_tensor *x, rg_tensor *y, rg_tensor *z)RG_EMPTY;
    /* Runs in a call with a number of inputs for which the class has none of the three functions
     * above. It also runs in every call with keywords. `keywords` is the pointer given to
     * rg_call_keywords, or NULL in a call without keywords; keywords_bytes is the size of the
     * struct that it points to. */
    rg_tensor *(*forward_with)(rg_module *m, rg_list inputs, void *keywords)RG_EMPTY;
    size_t keywords_bytes RG_EMPTY;
    /* Writes what the module's repr shows between the parentheses, such as "in_features=3,
     * out_features=4", to `text`, which has room for `room` bytes. */
    void (*extra_repr)(rg_module *m, char *text, size_t room) RG_EMPTY;
    /* Frees all that the module owns except its parameters, buffers and children. */
    void (*destroy)(rg_module *m) RG_EMPTY;
    /* Completes a deep copy. Before rg_deepcopy calls this, it has copied the bytes of `from` to m,
     * and has stored copies of the parameters, buffers and children in m's struct. `copy` must
     * duplicate everything that destroy frees, and call rg_move_places if registered fields lie
     * outside of the struct. If it fails, it returns false, and m must then own nothing that
     * destroy would free. */
    bool (*copy)(rg_module *m, const rg_module *from) RG_EMPTY;
} rg_module_class;

struct rg_module {
    rg_handle handle;
    const rg_module_class *cls;
    bool training;
    bool failed;                  /* A registration in the constructor failed. */
    struct rg_registry *registry; /* Private to the library. */
};

/* ---- making and freeing a module, registering its fields ----------------------- */

/* Allocates a module of `bytes` bytes, and copies `fields`, a struct of the module's type, into it.
 * Returns NULL on failure. */
void *rg_module_new(size_t bytes, const rg_module_class *cls, const void *fields);
/* Ends a constructor. Returns m; if a registration failed, frees m and returns NULL. */
void *rg_module_ready(void *m);
/* Frees m, and the modules below it that no other module contains. Does nothing if m is NULL or
 * another module's child. A module that is being called is freed when the call ends. */
void rg_module_free(void *m);
/* Stores the parameter in the field `place` and registers it under the name. RG_NONE as the value
 * registers a parameter that is absent. Returns false on failure. */
bool rg_register_parameter(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value);
typedef struct RG_OPTIONS rg_buffer_options {
    RG_BY_NAME;
    rg_flag persistent RG_DEFAULT(true); /* state_dict lists the buffer. */
} rg_buffer_options;
/* Registers a buffer, a tensor that isn't trained, and stores it in the field `place`. */
bool rg_register_buffer(rg_module *m, const char *name, rg_tensor **place, rg_tensor *value,
                        rg_buffer_options o);
/* Stores the child in the field `place` and registers it under the name. m then owns the child. On
 * failure the child is freed, unless it is m or contains m. If m is a Sequential or another
 * container, the child is appended, or it replaces the child of that name. */
bool rg_register_child(rg_module *m, const char *name, rg_module **place, rg_module *child);
/* Makes two fields share a parameter: replaces the value of the registered field `place` by
 * `parameter`, which must be registered in another field. Fails and returns false if one of them
 * isn't registered, or if their shapes or dtypes differ. */
bool rg_tie(rg_tensor **place, rg_tensor *parameter);
/* Updates the addresses of m's registered fields, if they lie in a block of memory outside of m's
 * struct and that block has moved, as after realloc. `from` is the old address of the block, `to`
 * the new address, and `bytes` its size. */
bool rg_move_places(rg_module *m, const void *from, void *to, size_t bytes);

/* RG_A_MODULE_(m) converts m, a pointer to a module's struct of any type, to an rg_module *. If m
 * is a tensor, a number, a string, a generator or an optimizer, the program doesn't compile. If m
 * is a void *, the function that gets m checks it when the program runs. Only functions that
 * register parameters, buffers and children need &m->base. */
#define RG_NO_MODULE_ "a module belongs here: a pointer to a struct that begins with an rg_module"
#ifdef __cplusplus
#define RG_A_MODULE_(m) (rg_module_at<__LINE__>::of(m))
#else
#define RG_A_MODULE_(m) \
    ((void)RG_REQUIRE_OF_(RG_MAY_BE_MODULE_(m), RG_NO_MODULE_), (rg_module *)(m))
#define RG_MAY_BE_MODULE_(m)                                                                 \
    RG_BY_TYPE_(m, 0, 1, 0, 0, 0, 0,                                                         \
                _Generic((m), char * : 0, const char * : 0, rg_generator * : 0, rg_optim * : 0, \
                         default : 1))
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

/* Returns a copy of m and all modules below it, as copy.deepcopy does; NULL on failure. The fields
 * that aren't registered are copied byte by byte, so a pointer in the copy points to the original's
 * memory. Therefore a class that owns such memory needs the function `copy`: a class that has
 * destroy but no `copy` can't be copied. If a value is shared or tied within the original, it is
 * shared or tied in the copy. Parameters are copied without their gradients, buffers with their
 * gradients, and hooks with the same contexts. */
void *rg_deepcopy(void *m);

/* ---- calling a module, and hooks ----------------------------------------------- */

/* Calls m: runs forward and the hooks in a scope of their own, and returns the output. Every call
 * of a module, also inside a layer, goes through this function or rg_call_with. */
rg_tensor *rg_call_list(rg_module *m, rg_list inputs);
#define rg_call(m, ...) rg_call_list(RG_A_MODULE_(m), RG_ARGUMENTS_(__VA_ARGS__))
/* Calls m with keywords: a pointer to the struct that the module's class expects. If forward
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

/* A forward hook. It returns a tensor that replaces the output y, RG_NONE to keep y, or NULL on
 * failure. A pre-hook runs before forward, and its y is RG_NONE; if it returns a tensor, that
 * tensor replaces the first input. A hook may free the module, which then still exists until the
 * call ends. A hook must not be left by longjmp (see rg_error_handler in tensor.h). */
typedef rg_tensor *rg_forward_hook(rg_module *m, rg_list inputs, rg_tensor *y, void *context);
/* rg_register_forward_hook registers a hook that runs after forward, rg_register_forward_pre_hook
 * one that runs before it. Both return the hook's id, or -1 on failure. */
int rg_register_forward_hook(rg_module *m, rg_forward_hook *hook, void *context);
int rg_register_forward_pre_hook(rg_module *m, rg_forward_hook *hook, void *context);
/* Returns the keywords of the innermost call of m that is running on this thread. A hook finds a
 * call's other results in them, and a pre-hook finds the options. Returns NULL if the call has no
 * keywords. Fails and returns NULL if the thread isn't calling m. */
void *rg_keywords_of_call(rg_module *m);
/* torch's full backward hooks. A pre-hook gets the gradient of the result, and returns a tensor
 * that replaces it, or RG_NONE to keep it. The other kind of hook runs when the gradients of the n
 * inputs have been computed. It gets these gradients and the result's gradient, may replace
 * elements of grad_input, and returns false on failure. An element of grad_input is RG_NONE if the
 * input is absent or requires no grad. If no input requires grad, the library warns. The hook then
 * gets only the result's gradient, and must not replace anything. Both kinds work on the positional
 * inputs, at most 8, and on forward's result. For this purpose forward is given views of the
 * inputs, and the caller a view of the result; none of these views can be written to in place. A
 * call uses the hooks that the module has when the call begins. The module must not be freed before
 * the backward run. */
typedef rg_tensor *rg_full_backward_pre_hook(rg_module *m, rg_tensor *grad_output, void *context);
typedef bool rg_full_backward_hook(rg_module *m, int n, rg_tensor *grad_input[],
                                   rg_tensor *grad_output, void *context);
int rg_register_full_backward_hook(rg_module *m, rg_full_backward_hook *hook, void *context);
int rg_register_full_backward_pre_hook(rg_module *m, rg_full_backward_pre_hook *hook,
                                       void *context);
/* Removes a forward, pre-forward or backward hook by its id. Fails if m has no such hook. */
bool rg_remove_forward_hook(rg_module *m, int id);

/* ---- functions on a module and all modules below it ---------------------------- */

/* Sets the mode of m and of all modules below it: training if `on`, else evaluation. */
void rg_train(void *m, bool on);
#define rg_eval(m) rg_train(m, false)
/* Sets requires_grad of all parameters. On failure, returns false, and undoes the changes that were
 * made. A change stays only if memory runs out while it is undone. */
bool rg_module_requires_grad_(void *m, bool on);
void rg_zero_grad(void *m);
/* Converts floating point parameters, buffers and their gradients to the dtype. Tensors that were
 * views of the same memory no longer share memory afterwards. Returns false on failure; then
 * nothing is converted. */
bool rg_module_to(void *m, rg_dtype dtype);
/* Returns the number of elements in all parameters, each counted once, or -1 on failure. */
int64_t rg_num_parameters(void *m);
/* Calls f for m and each module below it, children before parents. f must not call longjmp. */
void rg_apply_to_modules(void *m, void (*f)(rg_module *m, void *context), void *context);

/* A list of modules with their paths. The scope owns the arrays and names of all lists that the
 * functions below return. If .n is -1, listing failed. */
typedef struct rg_named_module {
    const char *name;
    rg_module *module;
} rg_named_module;
typedef struct rg_named_modules_list {
    int n;
    const rg_named_module *v;
} rg_named_modules_list;
/* Lists the parameters of m and of all modules below it. A shared parameter is listed once. */
rg_list rg_parameters(void *m);
rg_named_list rg_named_parameters(void *m);
rg_named_list rg_named_buffers(void *m);
/* Lists m and all modules below it. m itself comes first, with the name "". */
rg_named_modules_list rg_named_modules(void *m);
/* Return the module, parameter or buffer at this path, such as "layers.0.linear1". Fail as torch
 * does if there is none. For rg_get_submodule the path "" means m itself. */
void *rg_get_submodule(void *m, const char *path);
rg_tensor *rg_get_parameter(void *m, const char *path);
rg_tensor *rg_get_buffer(void *m, const char *path);
/* Lists the parameters and persistent buffers. A shared tensor is listed under each of its
 * names. */
rg_named_list rg_state_dict(void *m);
/* Copies each value of the list to the module's tensor of the same name. Fails with torch's list of
 * errors, and copies nothing, if a shape differs or, with `strict`, a name is missing or unknown.
 * Also copies nothing if one of the module's tensors can't be written to.
 * BatchNorm's num_batches_tracked, which old versions of torch didn't save, may be missing: the
 * module keeps its own.
 * Also fails if a name occurs twice in the list; every function that loads a list checks this. */
bool rg_load_state_dict(void *m, rg_named_list dict, bool strict);
/* The names that load_state_dict didn't load, as torch returns them: the module's names that the
 * list lacks, and the list's names that the module lacks, in torch's order. The scope owns them. On
 * failure, .n of both lists is -1. */
typedef struct rg_incompatible_keys {
    rg_names missing_keys, unexpected_keys;
} rg_incompatible_keys;
/* Calls rg_load_state_dict, and returns the names that weren't loaded. */
rg_incompatible_keys rg_load_state_dict_keys(void *m, rg_named_list dict, bool strict);
/* Returns the module's repr, as torch prints it. The scope owns the string. */
const char *rg_module_repr(void *m);

/* ---- checked arguments: see tensor/arguments/arguments.h ---------------------------------- */

#define rg_module_new(bytes, cls, ...) rg_module_new(RG_WHOLE(bytes), cls, __VA_ARGS__)
#define rg_module_ready(m)             rg_module_ready(RG_A_MODULE_(m))
#define rg_module_free(m)              rg_module_free(RG_A_MODULE_(m))
#define rg_move_places(m, ...) \
    rg_move_places(m, RG_CHECKED_3(RG_ANY, RG_ANY, RG_WHOLE, __VA_ARGS__))
#ifndef __cplusplus
#define rg_deepcopy(m) rg_deepcopy(RG_A_MODULE_(m))
#endif
#define rg_call_with(m, ...) rg_call_with(m, RG_CHECKED_3(RG_ANY, RG_ANY, RG_WHOLE, __VA_ARGS__))
#define rg_remove_forward_hook(m, id)   rg_remove_forward_hook(RG_A_MODULE_(m), RG_INT(id))
#define rg_train(m, on)                 rg_train(RG_A_MODULE_(m), RG_FLAG(on))
#define rg_module_requires_grad_(m, on) rg_module_requires_grad_(RG_A_MODULE_(m), RG_FLAG(on))
#define rg_zero_grad(m)                 rg_zero_grad(RG_A_MODULE_(m))
#define rg_module_to(m, dtype)          rg_module_to(RG_A_MODULE_(m), RG_A_DTYPE(dtype))
#define rg_num_parameters(m)            rg_num_parameters(RG_A_MODULE_(m))
#define rg_apply_to_modules(m, f, ...)  rg_apply_to_modules(RG_A_MODULE_(m), f, __VA_ARGS__)
#define rg_parameters(m)                rg_parameters(RG_A_MODULE_(m))
#define rg_named_parameters(m)          rg_named_parameters(RG_A_MODULE_(m))
#define rg_named_buffers(m)             rg_named_buffers(RG_A_MODULE_(m))
#define rg_named_modules(m)             rg_named_modules(RG_A_MODULE_(m))
#define rg_get_submodule(m, path)       rg_get_submodule(RG_A_MODULE_(m), path)
#define rg_get_parameter(m, path)       rg_get_parameter(RG_A_MODULE_(m), path)
#define rg_get_buffer(m, path)          rg_get_buffer(RG_A_MODULE_(m), path)
#define rg_state_dict(m)                rg_state_dict(RG_A_MODULE_(m))
#define rg_load_state_dict(m, ...) \
    rg_load_state_dict(RG_A_MODULE_(m), RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_load_state_dict_keys(m, ...) \
    rg_load_state_dict_keys(RG_A_MODULE_(m), RG_CHECKED_2(RG_ANY, RG_FLAG, __VA_ARGS__))
#define rg_module_repr(m) rg_module_repr(RG_A_MODULE_(m))

/* ---- modules: RG_A_MODULE_ accepts a pointer to the struct of any module ------------- */

#define rg_register_forward_hook(m, ...) rg_register_forward_hook(RG_A_MODULE_(m), __VA_ARGS__)
#define rg_register_forward_pre_hook(m, ...) \
    rg_register_forward_pre_hook(RG_A_MODULE_(m), __VA_ARGS__)
#define rg_register_full_backward_hook(m, ...) \
    rg_register_full_backward_hook(RG_A_MODULE_(m), __VA_ARGS__)
#define rg_register_full_backward_pre_hook(m, ...) \
    rg_register_full_backward_pre_hook(RG_A_MODULE_(m), __VA_ARGS__)
#define rg_keywords_of_call(m) rg_keywords_of_call(RG_A_MODULE_(m))

RG_PUBLIC_END

#ifdef __cplusplus
template <int line> struct rg_module_at {
    template <typename T> static inline rg_module *of(T *m) {
        static_assert(!std::is_same<T, rg_tensor>::value && !std::is_arithmetic<T>::value
                          && !std::is_same<T, rg_generator>::value
                          && !std::is_same<T, rg_optim>::value,
                      RG_NO_MODULE_);
        return (rg_module *)m;
    }
    static inline rg_module *of(decltype(nullptr)) { return nullptr; }
};
template <typename T> static inline rg_module *rg_as_module(T m) { return RG_A_MODULE_(m); }
template <typename T> static inline T *rg_module_of(const rg_module_class *cls, T fields, int) {
    return (T *)rg_module_new(sizeof(T), cls, &fields);
}
/* RG_MODULE for C++. The pragmas turn off warnings about missing initializers. */
#define RG_MODULE(type, cls, ...)                                                  \
    ((void)__extension__({                                                         \
         _Pragma("GCC diagnostic push")                                            \
             _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") 0; \
     }),                                                                           \
     rg_module_of<type>(cls, __extension__ type{ __VA_ARGS__ },                    \
                        __extension__({ _Pragma("GCC diagnostic pop") 0; })))
template <typename T> static inline T *rg_deepcopy(T *m) {
    return (T *)rg_deepcopy((void *)rg_as_module(m));
}
#endif
