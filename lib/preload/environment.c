#include "preload/environment.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "preload/cuda/device.h"
#include "preload/preload.h"

#define VARIABLES 2

struct variable {
    const char *name;
    const char *ours; /* NULL = left alone */
    char *own;        /* the program's, NULL = unset */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int depth; /* threads that are inside */
static struct variable variables[VARIABLES] = {{.name = "CUDA_DEVICE_MAX_CONNECTIONS"}, {.name = "CUDA_VISIBLE_DEVICES"}};

static void replace(struct variable *v)
{
    const char *own = getenv(v->name);
    v->own = own ? strdup(own) : NULL;
    setenv(v->name, v->ours, 1);
}

static void put_back(struct variable *v)
{
    if (v->own)
        setenv(v->name, v->own, 1);
    else
        unsetenv(v->name);
    free(v->own);
    v->own = NULL;
}

unsigned environment_queues(void)
{
    const char *queues = getenv("PRISM_WIDEN_CONNECTIONS");
    return queues ? (unsigned)strtoul(queues, NULL, 10) : 8; /* CUDA's default */
}

void environment_enter(void)
{
    device_count(); /* reads the program's CUDA_VISIBLE_DEVICES while that is the program's */
    pthread_mutex_lock(&lock);
    if (!depth++) {
        variables[0].ours = session_is_off() ? NULL : getenv("PRISM_WIDEN_CONNECTIONS");
        variables[1].ours = device_physical();
        for (int i = 0; i < VARIABLES; i++)
            if (variables[i].ours)
                replace(&variables[i]);
    }
    pthread_mutex_unlock(&lock);
}

void environment_leave(void)
{
    pthread_mutex_lock(&lock);
    if (!--depth)
        for (int i = 0; i < VARIABLES; i++)
            if (variables[i].ours)
                put_back(&variables[i]);
    pthread_mutex_unlock(&lock);
}

bool environment_ask(void)
{
    if (frame.depth || (session_is_off() && !device_is_mapped()))
        return false;
    environment_enter();
    frame.depth++;
    return true;
}

void environment_answered(bool asked)
{
    if (!asked)
        return;
    frame.depth--;
    environment_leave();
}
