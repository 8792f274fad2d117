#include "preload/memory/residence.h"

#include <pthread.h>
#include <stdio.h>

#include <utlist.h>

#include "preload/memory/queue.h"
#include "preload/memory/switch.h"
#include "preload/real.h"

/* A thread's outermost call that holds the memory. */
struct holder {
    int64_t since_ns;
    CUstream issuing; /* NULL: it may do more than put work on a stream */
    struct holder *prev, *next;
};

bool residence_on;
PRISM_THREAD int residence_held_;
static PRISM_THREAD struct holder own;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum residence state;
static struct holder *holders;
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

void residence_hold_slow(CUstream issuing)
{
    if (residence_held_++)
        return;
    residence_lock_present();
    own = (struct holder){.since_ns = clock_now_ns(), .issuing = issuing};
    DL_APPEND(holders, &own);
    residence_unlock();
}

void residence_let_go_slow(void)
{
    if (--residence_held_)
        return;
    residence_lock();
    DL_DELETE(holders, &own);
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
        residence_hold_slow(NULL);
        if (residence_held_ > 1 || driver(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY)
            return;
        residence_let_go_slow();
    }
    residence_hold_slow(NULL);
}

static bool sits_in_full_queue(const struct holder *h, int64_t now)
{
    return h->issuing && now - h->since_ns > RESIDENCE_PATIENCE_NS && queue_behind(h->issuing, 0).operations >= RESIDENCE_QUEUED;
}

static const struct holder *first_to_wait_for(void)
{
    const struct holder *h;
    int64_t now = clock_now_ns();
    DL_FOREACH(holders, h)
    if (!sits_in_full_queue(h, now))
        return h;
    return NULL;
}

bool residence_tell_holder(char *text, size_t size)
{
    residence_lock();
    const struct holder *h = first_to_wait_for();
    if (h)
        snprintf(text, size, "a call that names device memory has not returned for %.1f s (stream %p, %llu operations behind its stop)",
                 (double)(clock_now_ns() - h->since_ns) / 1e9, (void *)h->issuing,
                 (unsigned long long)(h->issuing ? queue_behind(h->issuing, 0).operations : 0));
    residence_unlock();
    return h;
}

bool residence_leave(void)
{
    residence_lock();
    bool free = !first_to_wait_for();
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
