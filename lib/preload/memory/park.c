#include "preload/memory/park.h"

#include <stdio.h>
#include <stdlib.h>

#include <uthash.h>
#include <utlist.h>

#include "preload/environment.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/gate/streams.h"
#include "preload/memory/lanes.h"
#include "preload/memory/switch.h"
#include "proto/region.h"

struct recorded {
    CUevent event;
    uint64_t lane, number;
    UT_hash_handle hh;
};

PRISM_THREAD struct park_seen park_seen_[PARK_SEEN];
uint64_t park_generation_;
static struct recorded *events;

void park_init(void)
{
    lanes_init();
    __atomic_store_n(&park_generation_, 1, __ATOMIC_RELEASE);
}

/* --- lanes --- */

static bool put_park_gate(struct lane *l)
{
    struct stop *s = lanes_append_ours(l, STOP_PARK);
    if (!s)
        return false;
    lanes_write(l->stream, s->arrive, s->value);
    lanes_wait(l->stream, s->go, s->value);
    lanes_write(l->stream, s->done, s->value);
    return true;
}

/* The lane of a stream that is in use from now on. NULL: it cannot have one. */
static struct lane *lane_of(CUstream stream)
{
    if (stream == CU_STREAM_PER_THREAD) {
        switch_tie("it uses per-thread default streams");
        return NULL;
    }
    struct lane *l = lanes_find(stream);
    if (l)
        return l;
    l = lanes_add(stream);
    if (l && lanes_parked) {
        l->fresh = true;
        if (!put_park_gate(l))
            session_fatal(PRISM_EXIT_UNSUPPORTED,
                          "rank %u: %u event waits are under way, too many to stop a new stream while the rank is moved off "
                          "its device", session.rank, LANES_WORDS);
    }
    return l;
}

void park_touch_slow(CUstream stream, struct park_seen *seen)
{
    if (streams_is_capturing(stream))
        return;
    lanes_lock();
    struct lane *l = lane_of(stream);
    if (l)
        l->foreign = true;
    *seen = (struct park_seen){stream, park_generation_};
    lanes_unlock();
}

void park_touch_gate(CUstream stream)
{
    if (!residence_is_on() || streams_is_capturing(stream))
        return;
    lanes_lock();
    lane_of(stream ? stream : CU_STREAM_LEGACY);
    lanes_unlock();
}

bool park_begin_row(CUstream stream)
{
    lanes_lock();
    struct lane *l = lanes_find(stream);
    bool begun = l && !l->blocking;
    if (begun)
        l->foreign = false;
    __atomic_add_fetch(&park_generation_, 1, __ATOMIC_RELEASE); /* whoever has touched it says so again */
    lanes_unlock();
    return begun;
}

bool park_has_only_gates(CUstream stream)
{
    lanes_lock();
    const struct lane *l = lanes_find(stream);
    bool only = l && !l->foreign;
    lanes_unlock();
    return only;
}

void park_gate(CUstream stream, uint32_t slot, uint32_t generation, bool early)
{
    if (!residence_is_on())
        return;
    lanes_lock();
    struct lane *l = lane_of(stream);
    if (l) {
        const struct region_slot *w = (const struct region_slot *)(const void *)session.region + slot;
        struct stop *s = lanes_append(l, STOP_GATE);
        s->arrive = early ? &w->ready : &w->arrive;
        s->go = &w->go;
        s->done = &w->done;
        s->value = generation;
    }
    lanes_unlock();
}

void park_destroy(CUstream stream)
{
    if (!residence_is_on())
        return;
    lanes_lock();
    struct lane *l = lanes_find(stream);
    if (l) {
        struct stop *s = lanes_append_ours(l, STOP_END);
        if (s)
            lanes_write(stream, s->done, s->value);
        lanes_end(l);
        __atomic_add_fetch(&park_generation_, 1, __ATOMIC_RELEASE);
    }
    lanes_unlock();
}

/* --- events --- */

static struct recorded *find_event(CUevent event)
{
    struct recorded *r;
    HASH_FIND(hh, events, &event, sizeof event, r);
    return r;
}

void park_record(CUevent event, CUstream stream)
{
    if (!residence_is_on())
        return;
    lanes_lock();
    struct lane *l = lane_of(stream);
    struct recorded *r = find_event(event);
    if (!r) {
        r = calloc(1, sizeof *r);
        if (!r)
            abort();
        r->event = event;
        HASH_ADD(hh, events, event, sizeof r->event, r);
    }
    r->lane = l ? l->serial : 0;
    r->number = l ? l->last : 0;
    lanes_unlock();
}

void park_forget_event(CUevent event)
{
    if (!residence_is_on())
        return;
    lanes_lock();
    struct recorded *r = find_event(event);
    if (r) {
        HASH_DEL(events, r);
        free(r);
    }
    lanes_unlock();
}

struct park_wait park_wait_begin(CUevent event, CUstream stream)
{
    struct park_wait wait = {.stream = stream};
    if (!residence_is_on() || streams_any_capture())
        return wait;
    lanes_lock();
    struct lane *l = lane_of(stream);
    const struct recorded *r = find_event(event);
    struct stop *s = NULL;
    if (l && r && r->lane && r->lane != l->serial && driver(cuEventQuery)(event) == CUDA_ERROR_NOT_READY)
        s = lanes_append_ours(l, STOP_WAIT);
    if (s) {
        s->on_lane = r->lane;
        s->on_number = r->number;
        wait.value = s->value;
        wait.done = s->done;
        lanes_write(stream, s->arrive, s->value);
    }
    lanes_unlock();
    return wait;
}

void park_wait_end(struct park_wait wait)
{
    if (wait.value)
        lanes_write(wait.stream, wait.done, wait.value);
}

/* --- standing still --- */

/* AHEAD: or will, since what is closed stays closed. */
enum when { NOW, AHEAD };

static const struct stop *stop_of(struct lane *l, enum when when);

static bool stops_at(const struct stop *s, enum when when)
{
    if (s->kind == STOP_END || (when == NOW && !region_word_reached(s->arrive, s->value)))
        return false;
    if (s->kind != STOP_WAIT)
        return !region_word_reached(s->go, s->value);
    struct lane *on = lanes_find_serial(s->on_lane);
    const struct stop *at = on ? stop_of(on, when) : NULL;
    return at && at->number <= s->on_number;
}

/* The stop at which the lane has arrived and stays; NULL: not known to stand still. Streams are in order, so one that was
 * reached and not passed is where the lane is, wherever it lies in our list. */
static const struct stop *stop_of(struct lane *l, enum when when)
{
    const struct stop *found = NULL;
    if (l->looking)
        return NULL;
    l->looking = true;
    lanes_prune(l);
    for (uint32_t i = 0; i < l->n && !found; i++)
        if (stops_at(&l->stops[i], when))
            found = &l->stops[i];
    l->looking = false;
    return found;
}

static bool is_standing(struct lane *l)
{
    return stop_of(l, NOW);
}

static bool legacy_is_behind_blocking_lanes(void)
{
    struct lane *l;
    uint32_t n = 0;
    DL_FOREACH(lanes_all, l)
    {
        if (!l->blocking || l->fresh)
            continue;
        n++;
        if (!is_standing(l))
            return false;
    }
    return n > 0;
}

static bool stands(struct lane *l)
{
    if (is_standing(l) || l->fresh)
        return true;
    return l->stream == CU_STREAM_LEGACY && legacy_is_behind_blocking_lanes();
}

static const struct lane *first_moving(void)
{
    struct lane *l;
    lanes_prune_all();
    DL_FOREACH(lanes_all, l)
    if (!stands(l))
        return l;
    return NULL;
}

bool park_still(void)
{
    lanes_lock();
    bool still = !first_moving();
    lanes_unlock();
    return still;
}

enum park_quiet park_quiet(void)
{
    struct lane *l;
    bool gates = false;
    lanes_lock();
    lanes_prune_all();
    DL_FOREACH(lanes_all, l)
    for (uint32_t i = 0; i < l->n; i++)
        gates |= l->stops[i].kind == STOP_GATE || (l->stops[i].kind == STOP_WAIT && !lanes_at_park(l));
    bool away = lanes_parked;
    lanes_unlock();
    return gates ? PARK_BEHIND_GATE : away ? PARK_AWAY : PARK_QUIET;
}

bool park_tell_moving(char *text, size_t size)
{
    static const char *const kinds[] = {"a gate", "its park gate", "a wait for an event", "its end"};
    lanes_lock();
    const struct lane *l = first_moving();
    const struct stop *s = l && l->n ? &l->stops[0] : NULL;
    if (l)
        snprintf(text, size, "stream %p (%s%s) has %u stops; the first is %s%s, with %llu operations in front of it of %llu in all",
                 (void *)l->stream, l->stream == CU_STREAM_LEGACY ? "default" : l->blocking ? "blocking" : "non-blocking",
                 l->dead ? ", destroyed" : "", l->n, s ? kinds[s->kind] : "none",
                 !s || s->kind == STOP_END ? "" : !region_word_reached(s->arrive, s->value) ? ", not reached" : ", reached",
                 (unsigned long long)(s ? s->queued : l->queued), (unsigned long long)l->queued);
    lanes_unlock();
    return l;
}

/* Behind a closed gate one would never be reached, and the queue may be full before the stream gets to that gate. */
static bool put_park_gates(bool on_legacy)
{
    struct lane *l;
    DL_FOREACH(lanes_all, l)
    if (!l->dead && (l->stream == CU_STREAM_LEGACY) == on_legacy && !stop_of(l, AHEAD) && !put_park_gate(l))
        return false;
    return true;
}

enum park_result park_begin(void)
{
    if (!session_trylock())
        return PARK_BUSY;
    if (streams_any_capture()) {
        session_unlock();
        return PARK_BUSY;
    }
    lanes_lock();
    lanes_prune_all();
    enum park_result result = lanes_count() > PARK_LANES(environment_queues()) ? PARK_TOO_MANY : PARK_OK;
    if (result == PARK_OK) {
        lanes_parked = true;
        if (!put_park_gates(false) || !put_park_gates(true))
            result = PARK_TOO_MANY;
    }
    lanes_unlock();
    session_unlock();
    return result;
}

uint32_t park_lanes(void)
{
    lanes_lock();
    uint32_t n = lanes_count();
    lanes_unlock();
    return n;
}

void park_end(void)
{
    struct lane *l;
    lanes_lock();
    lanes_parked = false;
    DL_FOREACH(lanes_all, l)
    {
        l->fresh = false;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->stops[i].kind == STOP_PARK)
                region_word_set((uint32_t *)(uintptr_t)l->stops[i].go, l->stops[i].value);
    }
    lanes_unlock();
}
