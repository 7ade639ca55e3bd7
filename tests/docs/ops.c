/* ops.c: the reference of ops, from their rows, as Markdown on standard output. */
#include "autograd/op.h"

#include <stdio.h>

int main(void) {
    printf(
        "# Ops\n\nEvery op of the graph, from its row. The functions that users call are in autograd/ops.h.\n\n"
        "| op | formula | inputs | in place | derivative |\n| --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < rgi_n_ops; i++) {
        const rg_op *op = rgi_ops[i];
        bool any = false;
        for (int r = 0; r < RG_MAX_RULES; r++)
            any |= op->grad[r].rule != NULL;
        printf("| %s | `%s` | ", op->name, op->doc);
        if (op->n_in)
            printf("%d", op->n_in);
        else
            printf("any");
        printf(" | %s | %s%s |\n", op->inplace ? "yes" : "",
               op->no_grad ? op->no_grad
               : any       ? "yes"
                           : "of integers or bools: none",
               op->fused ? ", fused" : "");
    }
    return 0;
}
