/*
 * anomaly.c: finding the op that made the first NaN or infinity.
 */
#include "op.h"

void rg_trace_free(void *trace) { (void)trace; }
void rg_watch_forward(const rg_call *c, rg_node *n) { (void)c; (void)n; }
bool rg_watch_backward(const rg_step *s, rg_tensor *g, int input) { (void)s; (void)g; (void)input; return true; }
