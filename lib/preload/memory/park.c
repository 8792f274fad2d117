#include "preload/environment.h"
#include "preload/memory/park.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <uthash.h>
#include <utlist.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/gate/streams.h"
#include "preload/memory/switch.h"
#include "proto/region.h"

#define WORDS 4096u

/* What a lane of ours arrives at; used over and over as the slots of the region are (proto/region.h). */
struct words {
    uint32_t arrive, go, done, unused;
};

enum stop_kind { STOP_GATE, STOP_PARK, STOP_WAIT, STOP_END };

/* A place where a lane may come to stand. */
struct stop {
    enum stop_kind kind;
    uint64_t number; /* counts the lane's stops */
    uint64_t queued, on_legacy; /* operations of the lane, and of the default stream, when it was put on the stream */
    const uint32_t *arrive, *go, *done;
    uint32_t value;
    uint64_t on_lane, on_number; /* WAIT: the event was recorded in that lane, behind that stop */
};

struct lane {
    CUstream stream; /* hash key while living */
    uint64_t serial;
    bool blocking, dead;
    bool fresh; /* first used while parked: there is nothing in front of its park gate */
    bool foreign; /* more than gates and events was put on it since park_begin_row */
    bool looking; /* in stands() */
    struct stop *stops; /* not done, in stream order */
    uint32_t n, cap;
    uint64_t last; /* number of the newest stop */
    uint64_t queued; /* operations put on it so far (room.h) */
    UT_hash_handle hh;
    struct lane *prev, *next;
};

struct recorded {
    CUevent event;
    uint64_t lane, number;
    UT_hash_handle hh;
};

PRISM_THREAD struct park_seen park_seen_[PARK_SEEN];
uint64_t park_generation_;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane *lanes; /* list of all that are not drained */
static struct lane *living; /* hash of those whose stream exists */
static struct recorded *events;
static uint64_t next_serial = 1;
static bool parked;
static uint64_t legacy_queued; /* of the default stream's lane */

static struct words *words;
static CUdeviceptr words_device;
static uint32_t values[WORDS];
static uint32_t free_words[WORDS]; /* stack */
static uint32_t nfree;

void park_init(void)
{
    words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        abort();
    CUDA_MUST(driver(cuMemHostRegister)(words, WORDS * sizeof *words,
                                        CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
    CUDA_MUST(driver(cuMemHostGetDevicePointer)(&words_device, words, 0));
    while (nfree < WORDS) {
        free_words[nfree] = WORDS - 1 - nfree;
        nfree++;
    }
    __atomic_store_n(&park_generation_, 1, __ATOMIC_RELEASE);
}

/* --- stops --- */

static CUdeviceptr on_device(const uint32_t *word)
{
    return words_device + (CUdeviceptr)((const char *)word - (const char *)words);
}

static void write_word(CUstream stream, const uint32_t *word, uint32_t value)
{
    CUDA_MUST(driver(cuStreamWriteValue32)(stream, on_device(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void prune(struct lane *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!region_word_reached(l->stops[i].done, l->stops[i].value))
            l->stops[kept++] = l->stops[i];
        else if (l->stops[i].kind != STOP_GATE)
            free_words[nfree++] = (uint32_t)((const char *)l->stops[i].done - (const char *)words) / sizeof *words;
    }
    l->n = kept;
}

static void prune_all(void)
{
    struct lane *l, *next;
    DL_FOREACH_SAFE(lanes, l, next)
    {
        prune(l);
        if (!l->dead || l->n)
            continue;
        DL_DELETE(lanes, l);
        free(l->stops);
        free(l);
    }
}

static struct stop *append(struct lane *l, enum stop_kind kind)
{
    if (l->n == l->cap) {
        prune(l);
        if (2 * l->n >= l->cap) {
            l->cap = l->cap ? 2 * l->cap : 16;
            l->stops = realloc(l->stops, l->cap * sizeof *l->stops);
            if (!l->stops)
                abort();
        }
    }
    struct stop *s = &l->stops[l->n++];
    *s = (struct stop){.kind = kind, .number = ++l->last, .queued = l->queued, .on_legacy = legacy_queued};
    return s;
}

/* NULL when no words are free: very many waits lie in front of the device. */
static struct stop *append_ours(struct lane *l, enum stop_kind kind)
{
    if (!nfree)
        prune_all();
    if (!nfree)
        return NULL;
    uint32_t word = free_words[--nfree];
    struct stop *s = append(l, kind);
    s->arrive = &words[word].arrive;
    s->go = &words[word].go;
    s->done = &words[word].done;
    s->value = ++values[word];
    return s;
}

/* --- lanes --- */

/* False: no stream at all. */
static bool get_flags(CUstream stream, unsigned *flags)
{
    *flags = CU_STREAM_NON_BLOCKING; /* the legacy default stream does not block itself */
    return stream == CU_STREAM_LEGACY || !driver(cuStreamGetFlags)(stream, flags);
}

static struct lane *find(CUstream stream)
{
    struct lane *l;
    HASH_FIND(hh, living, &stream, sizeof stream, l);
    return l;
}

static struct lane *find_serial(uint64_t serial)
{
    struct lane *l;
    DL_FOREACH(lanes, l)
    if (l->serial == serial)
        return l;
    return NULL;
}

static struct lane *add(CUstream stream)
{
    unsigned flags;
    if (!get_flags(stream, &flags))
        return NULL;
    struct lane *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->stream = stream;
    l->serial = next_serial++;
    l->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    HASH_ADD(hh, living, stream, sizeof l->stream, l);
    DL_APPEND(lanes, l);
    return l;
}

static bool put_park_gate(struct lane *l)
{
    struct stop *s = append_ours(l, STOP_PARK);
    if (!s)
        return false;
    write_word(l->stream, s->arrive, s->value);
    CUDA_MUST(driver(cuStreamWaitValue32)(l->stream, on_device(s->go), s->value, CU_STREAM_WAIT_VALUE_GEQ));
    write_word(l->stream, s->done, s->value);
    return true;
}

/* The lane of a stream that is in use from now on. NULL: it cannot have one. */
static struct lane *lane_of(CUstream stream)
{
    if (stream == CU_STREAM_PER_THREAD) {
        switch_tie("it uses per-thread default streams");
        return NULL;
    }
    struct lane *l = find(stream);
    if (l)
        return l;
    l = add(stream);
    if (l && parked) {
        l->fresh = true;
        if (!put_park_gate(l))
            session_fatal(PRISM_EXIT_UNSUPPORTED,
                          "rank %u: %u event waits are under way, too many to stop a new stream while the rank is moved off "
                          "its device", session.rank, WORDS);
    }
    return l;
}

void park_touch_slow(CUstream stream, struct park_seen *seen)
{
    if (streams_is_capturing(stream))
        return;
    pthread_mutex_lock(&lock);
    struct lane *l = lane_of(stream);
    if (l)
        l->foreign = true;
    *seen = (struct park_seen){stream, park_generation_};
    pthread_mutex_unlock(&lock);
}

void park_touch_gate(CUstream stream)
{
    if (!residence_is_on() || streams_is_capturing(stream))
        return;
    pthread_mutex_lock(&lock);
    lane_of(stream ? stream : CU_STREAM_LEGACY);
    pthread_mutex_unlock(&lock);
}

bool park_begin_row(CUstream stream)
{
    pthread_mutex_lock(&lock);
    struct lane *l = find(stream);
    bool begun = l && !l->blocking;
    if (begun)
        l->foreign = false;
    __atomic_add_fetch(&park_generation_, 1, __ATOMIC_RELEASE); /* whoever has touched it says so again */
    pthread_mutex_unlock(&lock);
    return begun;
}

bool park_has_only_gates(CUstream stream)
{
    pthread_mutex_lock(&lock);
    const struct lane *l = find(stream);
    bool only = l && !l->foreign;
    pthread_mutex_unlock(&lock);
    return only;
}

void park_gate(CUstream stream, uint32_t slot, uint32_t generation, bool early)
{
    if (!residence_is_on())
        return;
    pthread_mutex_lock(&lock);
    struct lane *l = lane_of(stream);
    if (l) {
        const struct region_slot *w = (const struct region_slot *)(const void *)session.region + slot;
        struct stop *s = append(l, STOP_GATE);
        s->arrive = early ? &w->ready : &w->arrive;
        s->go = &w->go;
        s->done = &w->done;
        s->value = generation;
    }
    pthread_mutex_unlock(&lock);
}

void park_destroy(CUstream stream)
{
    if (!residence_is_on())
        return;
    pthread_mutex_lock(&lock);
    struct lane *l = find(stream);
    if (l) {
        struct stop *s = append_ours(l, STOP_END);
        if (s)
            write_word(stream, s->done, s->value);
        HASH_DEL(living, l);
        l->dead = true;
        __atomic_add_fetch(&park_generation_, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

/* --- queues --- */

static bool is_at_park(struct lane *l)
{
    if (!l || l->looking)
        return false;
    l->looking = true;
    prune(l);
    bool at = l->n && (l->stops[0].kind == STOP_PARK || (l->stops[0].kind == STOP_WAIT && is_at_park(find_serial(l->stops[0].on_lane))));
    l->looking = false;
    return at;
}

/* If it is the longest. */
static void see_behind(struct park_behind *b, struct lane *l, uint64_t operations)
{
    if (operations < b->operations)
        return;
    b->operations = operations;
    b->stop = l->serial << 32 | (l->stops[0].number & UINT32_MAX);
    b->at_park = parked && is_at_park(l);
}

struct park_behind park_behind(CUstream stream, uint32_t n)
{
    struct park_behind b = {0};
    pthread_mutex_lock(&lock);
    struct lane *l = find(stream), *other;
    if (l) {
        l->queued += n;
        prune(l);
        if (l->n)
            see_behind(&b, l, l->queued - l->stops[0].queued);
    }
    if (l && stream == CU_STREAM_LEGACY) {
        legacy_queued = l->queued;
        DL_FOREACH(lanes, other)
        {
            if (!other->blocking)
                continue;
            prune(other);
            if (other->n)
                see_behind(&b, other, legacy_queued - other->stops[0].on_legacy);
        }
    }
    b.parked = parked;
    pthread_mutex_unlock(&lock);
    return b;
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
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
}

void park_forget_event(CUevent event)
{
    if (!residence_is_on())
        return;
    pthread_mutex_lock(&lock);
    struct recorded *r = find_event(event);
    if (r) {
        HASH_DEL(events, r);
        free(r);
    }
    pthread_mutex_unlock(&lock);
}

struct park_wait park_wait_begin(CUevent event, CUstream stream)
{
    struct park_wait wait = {.stream = stream};
    if (!residence_is_on() || streams_any_capture())
        return wait;
    pthread_mutex_lock(&lock);
    struct lane *l = lane_of(stream);
    const struct recorded *r = find_event(event);
    struct stop *s = NULL;
    if (l && r && r->lane && r->lane != l->serial && driver(cuEventQuery)(event) == CUDA_ERROR_NOT_READY)
        s = append_ours(l, STOP_WAIT);
    if (s) {
        s->on_lane = r->lane;
        s->on_number = r->number;
        wait.value = s->value;
        wait.word = (uint32_t)((const char *)s->done - (const char *)words) / sizeof *words;
        write_word(stream, s->arrive, s->value);
    }
    pthread_mutex_unlock(&lock);
    return wait;
}

void park_wait_end(struct park_wait wait)
{
    if (wait.value)
        write_word(wait.stream, &words[wait.word].done, wait.value);
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
    struct lane *on = find_serial(s->on_lane);
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
    prune(l);
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
    DL_FOREACH(lanes, l)
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
    prune_all();
    DL_FOREACH(lanes, l)
    if (!stands(l))
        return l;
    return NULL;
}

bool park_still(void)
{
    pthread_mutex_lock(&lock);
    bool still = !first_moving();
    pthread_mutex_unlock(&lock);
    return still;
}

enum park_quiet park_quiet(void)
{
    struct lane *l;
    bool gates = false;
    pthread_mutex_lock(&lock);
    prune_all();
    DL_FOREACH(lanes, l)
    for (uint32_t i = 0; i < l->n; i++)
        gates |= l->stops[i].kind == STOP_GATE || (l->stops[i].kind == STOP_WAIT && !is_at_park(l));
    bool away = parked;
    pthread_mutex_unlock(&lock);
    return gates ? PARK_BEHIND_GATE : away ? PARK_AWAY : PARK_QUIET;
}

bool park_tell_moving(char *text, size_t size)
{
    static const char *const kinds[] = {"a gate", "its park gate", "a wait for an event", "its end"};
    pthread_mutex_lock(&lock);
    const struct lane *l = first_moving();
    const struct stop *s = l && l->n ? &l->stops[0] : NULL;
    if (l)
        snprintf(text, size, "stream %p (%s%s) has %u stops; the first is %s%s, with %llu operations in front of it of %llu in all",
                 (void *)l->stream, l->stream == CU_STREAM_LEGACY ? "default" : l->blocking ? "blocking" : "non-blocking",
                 l->dead ? ", destroyed" : "", l->n, s ? kinds[s->kind] : "none",
                 !s || s->kind == STOP_END ? "" : !region_word_reached(s->arrive, s->value) ? ", not reached" : ", reached",
                 (unsigned long long)(s ? s->queued : l->queued), (unsigned long long)l->queued);
    pthread_mutex_unlock(&lock);
    return l;
}

/* Behind a closed gate one would never be reached, and the queue may be full before the stream gets to that gate. */
static bool put_park_gates(bool on_legacy)
{
    struct lane *l;
    DL_FOREACH(lanes, l)
    if (!l->dead && (l->stream == CU_STREAM_LEGACY) == on_legacy && !stop_of(l, AHEAD) && !put_park_gate(l))
        return false;
    return true;
}

static uint32_t count_lanes(void)
{
    struct lane *l;
    uint32_t n = 0;
    DL_COUNT(lanes, l, n);
    return n;
}

enum park_result park_begin(void)
{
    if (!session_trylock())
        return PARK_BUSY;
    if (streams_any_capture()) {
        session_unlock();
        return PARK_BUSY;
    }
    pthread_mutex_lock(&lock);
    prune_all();
    enum park_result result = count_lanes() > PARK_LANES(environment_queues()) ? PARK_TOO_MANY : PARK_OK;
    if (result == PARK_OK) {
        parked = true;
        if (!put_park_gates(false) || !put_park_gates(true))
            result = PARK_TOO_MANY;
    }
    pthread_mutex_unlock(&lock);
    session_unlock();
    return result;
}

uint32_t park_lanes(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = count_lanes();
    pthread_mutex_unlock(&lock);
    return n;
}

void park_end(void)
{
    struct lane *l;
    pthread_mutex_lock(&lock);
    parked = false;
    DL_FOREACH(lanes, l)
    {
        l->fresh = false;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->stops[i].kind == STOP_PARK)
                region_word_set((uint32_t *)(uintptr_t)l->stops[i].go, l->stops[i].value);
    }
    pthread_mutex_unlock(&lock);
}
