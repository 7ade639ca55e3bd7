/* An error in a thread is an error of that thread alone, which ends without a word to the
 * others. */
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
