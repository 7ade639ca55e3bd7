/*
 * loops/norm_join.h: adds the sums of the parts begin to end - 1 of the rows to those of part 0.
 */

static void K_IN_SET(norm_join)(void *context, int64_t begin, int64_t end, int worker) {
    const norm_slopes *work = context;
    (void)worker;
    for (int64_t part = begin; part < end; part++) {
        const double *weight = norm_sums(work->gweight, work->z, part);
        const double *bias = norm_sums(work->gbias, work->z, part);
        for (int64_t i = 0; weight && i < norm_weights(work->z); i++)
            work->gweight[i] += weight[i];
        for (int64_t i = 0; bias && i < norm_weights(work->z); i++)
            work->gbias[i] += bias[i];
    }
}
