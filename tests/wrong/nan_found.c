/* Anomaly mode finds the op that made the first nan. */
#include "regard.h"

int main(void) {
    rg_set_detect_anomaly(true);
    rg_tensor *w = rg_requires_grad_(rg_full(RG_DIMS(3), -0.5), true);
    rg_tensor *logs = rg_log(w); /* here */
    rg_backward(rg_mean(logs));
}
