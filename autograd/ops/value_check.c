/*
 * value_check.c: checks of the values of arguments.
 */
#include "value_check.h"

#include "tensor/observer.h"

static bool values_again(void *context) {
    const rg_value_check *check = context;
    const bool flag = *(const bool *)check->flag->data;
    RG_FAIL_AS_IF(check->code, flag != check->good, check->op, "%s", check->sentence);
    return true;
}

bool rgi_check_values(const rg_value_check *check) {
    if (!check->flag || !values_again((void *)check))
        return false;
    rgi_observe_operation((rg_tensor *)check->flag, check->op,
                          &(rg_operation){ .redo = values_again,
                                           .context = check,
                                           .bytes = sizeof *check });
    return true;
}
