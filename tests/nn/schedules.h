/*
 * schedules.h: functions of the tests of schedules' states: stepping any kind of schedule, and
 * comparing dictionaries.
 */
#pragma once

#include "regard.h"

#include <string.h>

/* Steps a schedule; the metric of ReduceLROnPlateau is 1. */
static inline bool step_any(rg_schedule *s, rg_schedule_kind kind) {
    return kind == RG_REDUCE_LR_ON_PLATEAU ? rg_schedule_step_metric(s, 1) : rg_schedule_step(s);
}

/* Returns whether both dictionaries have the same entries, and at least one. */
static inline bool same_lists(rg_named_list a, rg_named_list b) {
    bool same = a.n == b.n && a.n > 0;
    for (int i = 0; same && i < a.n; i++)
        same = !strcmp(a.v[i].name, b.v[i].name)
               && (a.v[i].tensor == RG_NONE ? b.v[i].tensor == RG_NONE
                                            : rg_equal(a.v[i].tensor, b.v[i].tensor));
    return same;
}
