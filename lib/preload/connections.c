#include "preload/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME "CUDA_DEVICE_MAX_CONNECTIONS"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int depth;   /* threads that are inside */
static char *value; /* the program's own, NULL = unset */

void connections_widen(void)
{
    pthread_mutex_lock(&lock);
    if (!depth++) {
        const char *own = getenv(NAME);
        value = own ? strdup(own) : NULL;
        setenv(NAME, "32", 1);
    }
    pthread_mutex_unlock(&lock);
}

void connections_restore(void)
{
    pthread_mutex_lock(&lock);
    if (!--depth) {
        if (value)
            setenv(NAME, value, 1);
        else
            unsetenv(NAME);
        free(value);
        value = NULL;
    }
    pthread_mutex_unlock(&lock);
}
