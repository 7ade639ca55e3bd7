/* Indices of classes are whole numbers, but rg_from makes float32 of an array of floats. */
#include "regard.h"

int main(void) {
    const float wanted[] = { 0, 2 };
    rg_tensor *logits = rg_randn(2, 3);
    rg_tensor *classes = rg_from(wanted, 2);
    rg_tensor *rows = rg_index_select(logits, 0, classes); /* here */
    rg_print(rows);
}
