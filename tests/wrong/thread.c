/* Errors belong to the thread in which they occur. This thread ends without reading its error. */
#include "regard.h"

#include <pthread.h>

static void *work(void *x) {
    rg_tensor *y = rg_reshape(x, 4, 2); /* here */
    return rg_sum(y);
}

int main(void) {
    pthread_t thread;
    rg_tensor *x = rg_ones(2, 3);
    pthread_create(&thread, NULL, work, x);
    pthread_join(thread, NULL);
}
