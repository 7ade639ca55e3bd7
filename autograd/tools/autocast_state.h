/*
 * autocast_state.h: autocast's settings, for functions of the program that backward runs call: they
 * run under the settings with which the graph was recorded.
 */
#pragma once

#include "autocast.h"

typedef struct rg_autocast_state {
    rg_dtype dtype;
    bool enabled, cache_enabled;
} rg_autocast_state;

static inline rg_autocast_state rgi_autocast_now(void) {
    return (rg_autocast_state){ rg_get_autocast_dtype(), rg_is_autocast_enabled(),
                                rg_is_autocast_cache_enabled() };
}

/* Sets the settings until the end of the C block. */
#define RG_AUTOCAST_AS(s) \
    RG_AUTOCAST((s).dtype, .enabled = (s).enabled, .cache_enabled = (s).cache_enabled)
