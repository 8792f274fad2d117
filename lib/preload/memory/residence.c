#include "preload/memory/residence.h"

#include <pthread.h>

#include "preload/real.h"
#include "preload/memory/switch.h"

bool residence_on;
PRISM_THREAD int residence_held_;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum residence state;
static int holders;
static bool told; /* prismd knows that a host thread waits for the memory */

void residence_lock(void)
{
    pthread_mutex_lock(&lock);
}

void residence_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void residence_wait(void)
{
    pthread_cond_wait(&changed, &lock);
}

void residence_changed(void)
{
    pthread_cond_broadcast(&changed);
}

static void tell_locked(void)
{
    if (state == RESIDENCE_PRESENT || state == RESIDENCE_ENTERING || told)
        return;
    told = true;
    switch_send_want(0, 0, 2);
}

void residence_tell(void)
{
    residence_lock();
    tell_locked();
    residence_unlock();
}

void residence_await_present(void)
{
    while (state != RESIDENCE_PRESENT) {
        tell_locked();
        residence_wait();
    }
}

enum residence residence_lock_present(void)
{
    residence_lock();
    residence_await_present();
    return state;
}

enum residence residence_lock_free(void)
{
    residence_lock();
    while (state != RESIDENCE_PRESENT && state != RESIDENCE_ABSENT)
        residence_wait();
    return state;
}

void residence_hold_slow(void)
{
    if (residence_held_++)
        return;
    residence_lock_present();
    holders++;
    residence_unlock();
}

void residence_let_go_slow(void)
{
    if (--residence_held_)
        return;
    residence_lock();
    holders--;
    residence_unlock();
}

/* Work that another thread puts on the stream between the wait and the hold only makes us wait again. */
void residence_hold_idle(CUstream stream)
{
    if (!residence_is_on())
        return;
    for (;;) {
        if (driver(cuStreamSynchronize)(stream))
            break; /* the call itself will tell the program */
        residence_hold_slow();
        if (residence_held_ > 1 || driver(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY)
            return;
        residence_let_go_slow();
    }
    residence_hold_slow();
}

bool residence_leave(void)
{
    residence_lock();
    bool free = !holders;
    if (free) {
        state = RESIDENCE_LEAVING;
        told = false;
    }
    residence_unlock();
    return free;
}

void residence_set(enum residence to)
{
    residence_lock();
    state = to;
    residence_changed();
    residence_unlock();
}
