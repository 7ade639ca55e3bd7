/*
 * run.c: writes the page of a small training run. The script tests/report/run checks the page. With
 * the argument `long`, the page has only one curve of 100,000 numbers, and the program prints how
 * many microseconds it took to report a number.
 */
#include "regard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static bool report_long(rg_report *report) {
    enum { STEPS = 100000 };
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    bool ok = true;
    for (int64_t step = 0; step < STEPS; step++)
        ok &= rg_report_number(report, "loss", step,
                               step == 70000 ? 9 : 1 / sqrt((double)step + 1));
    clock_gettime(CLOCK_MONOTONIC, &to);
    const double seconds = (double)(to.tv_sec - from.tv_sec)
                           + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    printf("%.2f\n", 1e6 * seconds / STEPS);
    return ok;
}

/* Two curves share a chart. The third curve has one number that is NaN. */
static bool report_numbers(rg_report *report, int64_t step) {
    const double x = (double)step, number = step == 3 ? NAN : 10 - x;
    return rg_report_number(report, "loss/train", step, 2 / (x + 1) + 0.1 * sin(9 * x))
           && rg_report_number(report, "loss/validation", step, 2.5 / (x + 1))
           && rg_report_number(report, "norm <b>&\"'\n\x01 \u20ac", step, number);
}

static bool report_tensors(rg_report *report, int64_t step, rg_sequential *model) {
    static const char *const words[] = { "Life", "is <short>", "& eat", "dessert \"first\"" };
    rg_tensor *x = rg_randn(5, 3);
    rg_tensor *weights = rg_softmax(rg_mul(rg_randn(4, 4), (double)step), -1);
    rg_zero_grad(model);
    return rg_backward(rg_sum(rg_square(rg_call(model, x))))
           && rg_report_parameters(report, step, model)
           && rg_report_histogram(report, "inputs", step, x)
           && rg_report_picture(report, "inputs", step, x)
           && rg_report_picture(report, "attention", step, weights, .rows = { 4, words },
                                .columns = { 4, words })
           && rg_report_picture(report, "heads/layer 0", step, rg_randn(2, 3, 300));
}

int main(int argc, char *argv[]) {
    if (argc < 2)
        return 2;
    rg_manual_seed(1234567);
    rg_report *report = rg_report_begin(argv[1], .title = "A </script> run");
    if (argc > 2 && strcmp(argv[2], "long") == 0)
        return !report_long(report) || !rg_report_end(report);
    rg_sequential *model = rg_nn_sequential(rg_nn_linear(3, 4), rg_nn_tanh(), rg_nn_linear(4, 1));
    bool ok = rg_report_setting(report, "lr", "%g", 0.125)
              && rg_report_text(report, "model", rg_module_repr(model));
    RG_FOR (int64_t step = 0; step < 8; step++)
        ok = ok && report_numbers(report, step)
             && (step % 4 || report_tensors(report, step, model));
    ok = ok && rg_report_number(report, "loss/validation", 6, 0.375);
    ok = ok && rg_report_number(report, "loss/validation", 7, 0.0625);
    ok = rg_report_end(report) && ok;
    if (!ok)
        fprintf(stderr, "%s\n", rg_error());
    rg_module_free(model);
    return !ok;
}
