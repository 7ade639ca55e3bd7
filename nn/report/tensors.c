/*
 * tensors.c: writes the records of a report (record.h) that show a tensor: heat-maps and
 * histograms. Elements are converted to float64, one matrix or PIECE elements at a time.
 */
#include "drawing.h"
#include "record.h"

#include "nn/given.h"
#include "tensor/memory.h"
#include "tensor/opaque.h"

#include <math.h>

/* ---- records of heat-maps ------------------------------------------------------------- */

enum { PICTURES_AT_ONCE = 64 };

/* Appends the labels of the rows or columns as a list. The list is empty if there are more than
 * RG_MOST_PIXELS rows or columns, because a pixel then shows several of them and has no single
 * label. Returns false on failure. */
static bool record_names(rg_text *record, rg_names names, int64_t size, const char *what) {
    if (!rgi_labels_given("report_picture", names, size, what))
        return false;
    rgi_text_add(record, ",[");
    for (int i = 0; i < names.n && size <= RG_MOST_PIXELS; i++) {
        if (i)
            rgi_text_add(record, ",");
        rgi_record_text(record, names.v[i]);
    }
    rgi_text_add(record, "]");
    return true;
}

/* Returns the number of significant digits with which pixels are written. It is at least 4, and
 * large enough that a difference of a thousandth of the pixels' range is visible. */
static int digits_of(const rg_pixels *p) {
    const double most = fmax(fabs(p->low), fabs(p->high)) / 2;
    double range = p->high / 2 - p->low / 2;
    int digits = 4;
    for (; range > 0 && range < most && digits < 17; digits++)
        range *= 10;
    return digits;
}

/* Appends the pixels row by row, as numbers with the digits that digits_of returns. */
static void add_pixels(rg_text *record, const rg_pixels *p) {
    const int digits = digits_of(p);
    for (int64_t i = 0; i < p->rows * p->columns; i++) {
        if (i)
            rgi_text_add(record, ",");
        if (isfinite(p->v[i]))
            rgi_text_add(record, "%.*g", digits, p->v[i]);
        else
            rgi_record_double(record, p->v[i]);
    }
}

/* Appends the matrices of t, whose shape is (n, rows, columns): the number of rows, the number of
 * columns, and a list of n lists of pixels. Also appends the "]" that ends the record. Returns
 * false on failure. */
static bool add_panels(rg_text *record, rg_tensor *t) {
    const int64_t n = rg_size(t, 0), rows = rg_size(t, 1), columns = rg_size(t, 2);
    rgi_text_add(record, ",%lld,%lld,[", (long long)rows, (long long)columns);
    RG_FOR (int64_t i = 0; i < n; i++) {
        rg_pixels panel;
        if (!rgi_pixels(rg_select(t, 0, i), RG_MOST_PIXELS, RG_MOST_PIXELS, &panel))
            return false;
        rgi_text_add(record, i ? ",[" : "[");
        add_pixels(record, &panel);
        rgi_text_add(record, "]");
    }
    rgi_text_add(record, "]]");
    return true;
}

bool(rg_report_picture_with)(rg_report *r, const char *name, int64_t step, rg_tensor *t,
                             rg_report_picture_options o) {
    const char *op = "report_picture";
    if (!rgi_report_given(r, name, op) || !rg_check_tensor(t, op))
        return false;
    RG_FAIL_IF(rg_ndim(t) != 2 && rg_ndim(t) != 3, op,
               "expected a matrix or several, but got a tensor with %d dims", rg_ndim(t));
    RG_FAIL_IF(rg_numel(t) == 0, op, "a tensor of shape %s has no elements", RG_SIZES_TEXT(t));
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    rg_tensor *panels = rg_ndim(t) == 2 ? rg_unsqueeze(t, 0) : t;
    RG_FAIL_IF(panels && rg_size(panels, 0) > PICTURES_AT_ONCE, op,
               "expected at most %d matrices, but got %lld", PICTURES_AT_ONCE,
               (long long)rg_size(panels, 0));
    rg_text record = { 0 };
    rgi_record_begin(&record, "picture", name, step);
    if (panels && record_names(&record, o.rows, rg_size(panels, 1), "rows")
        && record_names(&record, o.columns, rg_size(panels, 2), "columns")
        && add_panels(&record, panels))
        return rgi_report_append(r, op, &record);
    rgi_text_free(&record);
    return false;
}

/* ---- records of histograms ------------------------------------------------------------ */

enum { BINS = 48, PIECE = 1 << 16 };

/* A histogram of BINS bins of equal width between `low` and `high`, the smallest and the greatest
 * finite element; `sum` is the sum of all finite elements. The place of an element in this range is
 * a number from 0 to 1. `counted` is the number of finite elements that are in a bin, `place` the
 * mean of their places, and `squares` the sum of the squares of their distances from it. */
typedef struct {
    int64_t finite, nans, infinities, counted;
    double low, high, sum, place, squares;
    int64_t counts[BINS];
} histogram;

static void measure_piece(histogram *h, int64_t n, const double v[]) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            h->nans += isnan(v[i]) != 0;
            h->infinities += isinf(v[i]) != 0;
            continue;
        }
        h->low = h->finite ? fmin(h->low, v[i]) : v[i];
        h->high = h->finite ? fmax(h->high, v[i]) : v[i];
        h->finite++;
        h->sum += v[i];
    }
}

/* Counts each finite element in its bin, and adds its place to the mean and the squares, by
 * Welford's method, which doesn't cancel. All numbers are halved first, because high - low could
 * overflow: the elements may be near both ends of the range of doubles. */
static void count_piece(histogram *h, int64_t n, const double v[]) {
    const double low = h->low / 2, width = h->high / 2 - low;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        const double place = width > 0 ? (v[i] / 2 - low) / width : 0.5;
        const double distance = place - h->place;
        h->counts[RG_MIN((int)(place * BINS), BINS - 1)]++;
        h->place += distance / (double)++h->counted;
        h->squares += distance * (place - h->place);
    }
}

static bool for_each_piece(rg_tensor *flat, histogram *h,
                           void (*f)(histogram *h, int64_t n, const double v[])) {
    const int64_t all = rg_numel(flat);
    RG_FOR (int64_t at = 0; at < all; at += PIECE) {
        const int64_t n = RG_MIN(all - at, (int64_t)PIECE);
        rg_tensor *piece = rg_contiguous(rg_double(rg_narrow(flat, 0, at, n)));
        if (!piece)
            return false;
        f(h, n, rg_data(piece));
    }
    return true;
}

static bool append_histogram(rg_report *r, const char *op, const char *name, int64_t step,
                             rg_tensor *t) {
    RG_AS(op);
    RG_SCOPE();
    RG_NO_GRAD();
    histogram h = { 0 };
    rg_tensor *flat = rg_reshape(t, -1);
    if (!flat || !for_each_piece(flat, &h, measure_piece) || !for_each_piece(flat, &h, count_piece))
        return false;
    const double n = (double)RG_MAX(h.finite, 1), half = h.high / 2 - h.low / 2;
    const double mean = isfinite(h.sum) ? h.sum / n : 2 * (h.low / 2 + half * h.place);
    const double numbers[] = { h.low, h.high, mean, 2 * (half * sqrt(h.squares / n)) };
    rg_text record = { 0 };
    rgi_record_begin(&record, "histogram", name, step);
    for (int i = 0; i < RG_COUNT(numbers); i++) {
        rgi_text_add(&record, ",");
        rgi_record_double(&record, numbers[i]);
    }
    rgi_text_add(&record, ",%lld,%lld,[", (long long)h.nans, (long long)h.infinities);
    for (int i = 0; i < BINS; i++)
        rgi_text_add(&record, i ? ",%lld" : "%lld", (long long)h.counts[i]);
    rgi_text_add(&record, "]]");
    return rgi_report_append(r, op, &record);
}

bool(rg_report_histogram)(rg_report *r, const char *name, int64_t step, rg_tensor *t) {
    const char *op = "report_histogram";
    return rgi_report_given(r, name, op) && rg_check_tensor(t, op)
           && append_histogram(r, op, name, step, t);
}

static bool append_below(rg_report *r, const char *folder, const char *name, int64_t step,
                         rg_tensor *t) {
    const char *op = "report_parameters";
    rg_text path = { 0 };
    rgi_text_add(&path, "%s/%s", folder, name);
    const bool ok = !path.failed && append_histogram(r, op, path.v, step, t);
    rgi_text_free(&path);
    return ok;
}

bool(rg_report_parameters)(rg_report *r, int64_t step, void *model) {
    const char *op = "report_parameters";
    if (!rgi_report_given(r, "", op) || !rgi_module_given(model, op))
        return false;
    RG_AS(op);
    RG_SCOPE();
    const rg_named_list all = rg_named_parameters(model);
    for (int i = 0; i < all.n; i++) {
        rg_tensor *gradient = rg_grad_of(all.v[i].tensor);
        if (!gradient || !append_below(r, "weights", all.v[i].name, step, all.v[i].tensor)
            || (gradient != RG_NONE
                && !append_below(r, "gradients", all.v[i].name, step, gradient)))
            return false;
    }
    return all.n >= 0;
}
