/*
 * pictures.h: curves and heat-maps, as text on a terminal and as SVG files, which browsers show.
 *
 *     rg_print_curve(losses, stdout, .title = "The loss");
 *     rg_save_curve(losses, "loss.svg", .title = "The loss");
 *     rg_print_heat_map(weights, stdout, .rows = { 6, words }, .columns = { 6, words });
 *     rg_save_heat_map(weights, "attention.svg", .low = 0, .high = 1);
 *
 * Functions return false on failure. rg_print_curve and rg_print_heat_map write UTF-8 to a stream
 * and flush it. rg_save_curve and rg_save_heat_map write a new file, which replaces the file at the
 * path when it is complete. In titles and labels, which are UTF-8, a control character or a byte
 * that isn't UTF-8 is shown as a question mark. Pictures of many steps are in report.h.
 */
#pragma once

#include "../../tensor/files/files.h"

#include <stdio.h>
#pragma GCC system_header

RG_PUBLIC_BEGIN

typedef struct RG_OPTIONS rg_curve_options {
    RG_BY_NAME;
    const char *title RG_DEFAULT(NULL); /* The title, or NULL for none. */
} rg_curve_options;
/* Draw the numbers of the vector y from left to right, on an axis that contains 0. If some numbers
 * are NaN or infinite, a line below the title tells how many. An SVG file has gaps in their places,
 * and shows each peak, however many numbers y has. A curve on a terminal has at most 64 columns. If
 * y has more numbers, the first and the last column show the first and the last of them, and each
 * other column the mean of several finite ones; a column without a finite number is empty. */
bool rg_print_curve_with(rg_tensor *y, FILE *to, rg_curve_options o);
#define rg_print_curve(y, to, ...) \
    rg_print_curve_with(y, to, RG_KEYWORDS(rg_curve_options, (.title = NULL), __VA_ARGS__))
bool rg_save_curve_with(rg_tensor *y, const char *path, rg_curve_options o);
#define rg_save_curve(y, path, ...) \
    rg_save_curve_with(y, path, RG_KEYWORDS(rg_curve_options, (.title = NULL), __VA_ARGS__))

typedef struct RG_OPTIONS rg_heat_map_options {
    RG_BY_NAME;
    const char *title RG_DEFAULT(NULL); /* The title, or NULL for none. */
    rg_names rows RG_DEFAULT({});       /* The labels of the rows, or an empty list. */
    rg_names columns RG_DEFAULT({});    /* The labels of the columns, or an empty list. */
    double low RG_DEFAULT(0);           /* Numbers up to `low` get the lightest colour. */
    double high RG_DEFAULT(0);          /* Numbers from `high` on get the darkest colour. If low
                                         * equals high, the picture's least and greatest number
                                         * replace them. */
} rg_heat_map_options;
/* Draw the matrix t with a coloured cell for each number, and the numbers in the cells if there are
 * at most 16 columns. As text, cells are coloured if the stream is a terminal and the environment
 * variable NO_COLOR isn't set, or is empty; otherwise they are shaded. A picture has at most 128
 * rows and 128 columns, but only 64 columns as text. If a matrix has more rows, a cell shows the
 * mean of several numbers, and the rows' labels are left out. The same holds for columns. */
bool rg_print_heat_map_with(rg_tensor *t, FILE *to, rg_heat_map_options o);
#define rg_print_heat_map(t, to, ...) \
    rg_print_heat_map_with(t, to, RG_KEYWORDS(rg_heat_map_options, (.title = NULL), __VA_ARGS__))
bool rg_save_heat_map_with(rg_tensor *t, const char *path, rg_heat_map_options o);
#define rg_save_heat_map(t, path, ...) \
    rg_save_heat_map_with(t, path, RG_KEYWORDS(rg_heat_map_options, (.title = NULL), __VA_ARGS__))

RG_PUBLIC_END
