/*
 * few_names.h: the names that microgpt learns on a microcontroller, and at first in the page.
 */
#pragma once

static const char *const few_names[] = {
    "emma",  "oliver", "mila",   "leon",  "anna",   "noah",  "clara", "jonas",  "marie", "felix",
    "laura", "simon",  "elena",  "david", "sophia", "jakob", "ida",   "anton",  "julia", "samuel",
    "nora",  "daniel", "helena", "oskar", "lina",   "elias", "greta", "martin", "alina", "julian",
};

enum { FEW_NAMES = sizeof few_names / sizeof *few_names };
