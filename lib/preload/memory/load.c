#include "preload/memory/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uthash.h>

#include "preload/gate/streams.h"
#include "preload/memory/park.h"

#define PAUSE_NS     50000
#define PAUSE_MAX_NS 1000000

struct known {
    const void *function;
    UT_hash_handle hh;
};

PRISM_THREAD const void *load_seen_[LOAD_SEEN];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known;

static bool is_known(const void *function)
{
    struct known *k;
    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(known, &function, k);
    pthread_mutex_unlock(&lock);
    return k;
}

static void remember(const void *function)
{
    struct known *k = malloc(sizeof *k);
    if (!k)
        abort();
    k->function = function;
    pthread_mutex_lock(&lock);
    HASH_ADD_PTR(known, function, k);
    pthread_mutex_unlock(&lock);
}

static bool loads_early(void)
{
    static int early = -1;
    if (early < 0) {
        const char *text = getenv("CUDA_MODULE_LOADING");
        early = text && !strcmp(text, "EAGER");
    }
    return early;
}

/* Returns with session_lock. */
static void await_quiet(void)
{
    int64_t pause = PAUSE_NS;
    for (;;) {
        session_lock();
        enum park_quiet quiet = park_quiet();
        if (quiet == PARK_QUIET)
            return;
        session_unlock();
        if (quiet == PARK_AWAY)
            residence_tell();
        nanosleep(&(struct timespec){0, pause}, NULL);
        pause = pause * 2 < PAUSE_MAX_NS ? pause * 2 : PAUSE_MAX_NS;
    }
}

bool load_begin_code(void)
{
    if (!residence_is_on() || frame.depth || residence_held_ || streams_any_capture())
        return false; /* a call that holds the memory must not wait */
    await_quiet();
    frame.depth = 1; /* what the call does inside is not the program's */
    return true;
}

bool load_begin_slow(const void *function, const void **seen)
{
    if (frame.depth || residence_held_)
        return false;
    bool first = !loads_early() && !is_known(function) && load_begin_code();
    if (first && is_known(function)) { /* another thread was faster */
        load_end();
        first = false;
    }
    if (first)
        remember(function);
    *seen = function;
    return first;
}

void load_end(void)
{
    frame.depth = 0;
    session_unlock();
}
