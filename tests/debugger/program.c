/*
 * program.c: the values that tests/debugger/run has gdb print, in a process and in a core file. The
 * program itself prints each of them as gdb should.
 */
#include "regard.h"

#include <stdio.h>
#include <string.h>

void stop_here(void);
__attribute__((noinline)) void stop_here(void) { __asm__ volatile(""); }

static void tell(const char *text) { printf("%s%s\n", strchr(text, '\n') ? "\n" : "", text); }

int main(void) {
    rg_tensor *x = rg_sub(rg_reshape(rg_arange(12.), 3, 4), 0.5);
    rg_tensor *turned = rg_T(x), *named = rg_set_name(rg_ones(2), "w");
    rg_tensor *whole = rg_scalar_dtype(3, RG_INT64), *empty = rg_zeros(0, 3);
    rg_tensor *bytes = rg_byte(rg_literal([1, 255]));
    rg_tensor *half = rg_to(rg_literal([0.5, -2]), RG_BFLOAT16);
    rg_tensor *failed = NULL, *absent = RG_NONE, *released;
    rg_linear_module *layer = rg_nn_linear(2, 3);
    rg_sequential *model = rg_nn_sequential(layer, rg_nn_relu());
    {
        RG_SCOPE();
        released = rg_ones(1);
    }
    tell(rg_repr(x));
    tell(rg_repr(turned));
    tell(rg_repr(named));
    tell(rg_repr(whole));
    tell(rg_repr(empty));
    tell(rg_repr(bytes));
    tell(rg_repr(half));
    tell(rg_module_repr(layer));
    tell(rg_module_repr(model));
    puts("NULL\nRG_NONE\na released tensor, or none");
    fflush(stdout);
    stop_here();
    return failed || absent != RG_NONE || !released || rg_error_code();
}
