#include "preload/memory/grant.h"

#include "preload/preload.h"
#include "preload/memory/residence.h"
#include "preload/memory/switch.h"

#define STEP     ((uint64_t)256 << 20)
#define STEP_MAX ((uint64_t)512 << 20)
#define IDLE     ((uint64_t)1 << 30)   /* granted and not used: more is given back */
#define CONTEXT  ((uint64_t)640 << 20) /* a context's own memory; measured about 0.6 GB on an H200 */

static uint64_t device_total, limit; /* limit: what the program can have in all */
static uint64_t granted, used;
static bool asking, answered;
static uint64_t answer;

void grant_init(uint64_t total)
{
    uint64_t context = total / 32 < CONTEXT ? total / 32 : CONTEXT; /* small software devices have small contexts */
    device_total = total;
    limit = total - context;
}

void grant_answer(uint64_t bytes)
{
    answered = true;
    answer = bytes;
    residence_changed();
}

/* One question at a time. */
static uint64_t ask(uint64_t bytes, uint64_t least, uint32_t flag)
{
    while (asking)
        residence_wait();
    asking = true;
    answered = false;
    switch_send_want(bytes, least, flag);
    while (!answered)
        residence_wait();
    asking = false;
    residence_changed();
    if (!flag)
        granted += answer;
    return answer;
}

static uint64_t slack(void)
{
    uint64_t eighth = granted / 8;
    return eighth < STEP ? STEP : eighth > STEP_MAX ? STEP_MAX : eighth;
}

bool grant_take(uint64_t bytes)
{
    for (;;) {
        residence_await_present();
        if (bytes > limit || used > limit - bytes)
            return false;
        if (granted >= used + bytes)
            break;
        uint64_t need = used + bytes - granted, more = need > slack() ? need : slack();
        if (more > limit - granted)
            more = limit - granted > need ? limit - granted : need;
        if (!ask(more, need, 0))
            return false;
    }
    used += bytes;
    return true;
}

void grant_give(uint64_t bytes)
{
    used -= bytes;
    if (granted - used <= IDLE || asking)
        return;
    uint64_t less = granted - used - slack();
    granted -= less;
    switch_send_less(less);
}

bool grant_make_room(uint64_t bytes)
{
    bool made = ask(bytes, bytes, 1);
    residence_await_present();
    return made;
}

void grant_info(uint64_t *free_bytes, uint64_t *total_bytes)
{
    *free_bytes = limit - used;
    *total_bytes = device_total;
}
