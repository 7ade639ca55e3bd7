/* ops.c: prints the reference of ops, from their rows, as Markdown. */
#include "autograd/op.h"

#include <stdio.h>

static const char *derivative_of(const rg_op *op) {
    if (op->no_grad)
        return op->no_grad;
    for (int r = 0; r < RG_MAX_RULES; r++)
        if (op->grad[r].rule)
            return "yes";
    return "of integers or bools: none";
}

int main(void) {
    printf("# Ops\n\nEvery op of the graph, from its row. The functions that users call are in "
           "autograd/ops/ops.h.\n\n"
           "| op | formula | inputs | in place | derivative |\n| --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < rgi_n_ops; i++) {
        const rg_op *op = rgi_ops[i];
        printf("| %s | `%s` | ", op->name, op->doc);
        if (op->n_in)
            printf("%d", op->n_in);
        else
            printf("any");
        printf(" | %s | %s%s |\n", op->inplace ? "yes" : "", derivative_of(op),
               op->fused ? ", fused" : "");
    }
    return 0;
}
