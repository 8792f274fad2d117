#include "preload/memory/lanes.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <utlist.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "proto/region.h"

/* What a lane of ours arrives at; used over and over as the slots of the region are (proto/region.h). */
struct words {
    uint32_t arrive, go, done, unused;
};

struct lane *lanes_all;
bool lanes_parked;
uint64_t lanes_legacy_queued;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane *living; /* hash of those whose stream exists */
static uint64_t next_serial = 1;

static struct words *words;
static CUdeviceptr words_device;
static uint32_t values[LANES_WORDS];
static uint32_t free_words[LANES_WORDS]; /* stack */
static uint32_t nfree;

void lanes_init(void)
{
    words = mmap(NULL, LANES_WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        abort();
    CUDA_MUST(driver(cuMemHostRegister)(words, LANES_WORDS * sizeof *words,
                                        CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
    CUDA_MUST(driver(cuMemHostGetDevicePointer)(&words_device, words, 0));
    while (nfree < LANES_WORDS) {
        free_words[nfree] = LANES_WORDS - 1 - nfree;
        nfree++;
    }
}

void lanes_lock(void)
{
    pthread_mutex_lock(&lock);
}

void lanes_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* --- lanes --- */

/* False: no stream at all. */
static bool get_flags(CUstream stream, unsigned *flags)
{
    *flags = CU_STREAM_NON_BLOCKING; /* the legacy default stream does not block itself */
    return stream == CU_STREAM_LEGACY || !driver(cuStreamGetFlags)(stream, flags);
}

struct lane *lanes_find(CUstream stream)
{
    struct lane *l;
    HASH_FIND(hh, living, &stream, sizeof stream, l);
    return l;
}

struct lane *lanes_find_serial(uint64_t serial)
{
    struct lane *l;
    DL_FOREACH(lanes_all, l)
    if (l->serial == serial)
        return l;
    return NULL;
}

struct lane *lanes_add(CUstream stream)
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
    DL_APPEND(lanes_all, l);
    return l;
}

void lanes_end(struct lane *l)
{
    HASH_DEL(living, l);
    l->dead = true;
}

uint32_t lanes_count(void)
{
    struct lane *l;
    uint32_t n = 0;
    DL_COUNT(lanes_all, l, n);
    return n;
}

/* --- stops --- */

void lanes_prune(struct lane *l)
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

void lanes_prune_all(void)
{
    struct lane *l, *next;
    DL_FOREACH_SAFE(lanes_all, l, next)
    {
        lanes_prune(l);
        if (!l->dead || l->n)
            continue;
        DL_DELETE(lanes_all, l);
        free(l->stops);
        free(l);
    }
}

struct stop *lanes_append(struct lane *l, enum stop_kind kind)
{
    if (l->n == l->cap) {
        lanes_prune(l);
        if (2 * l->n >= l->cap) {
            l->cap = l->cap ? 2 * l->cap : 16;
            l->stops = realloc(l->stops, l->cap * sizeof *l->stops);
            if (!l->stops)
                abort();
        }
    }
    struct stop *s = &l->stops[l->n++];
    *s = (struct stop){.kind = kind, .number = ++l->last, .queued = l->queued, .on_legacy = lanes_legacy_queued};
    return s;
}

struct stop *lanes_append_ours(struct lane *l, enum stop_kind kind)
{
    if (!nfree)
        lanes_prune_all();
    if (!nfree)
        return NULL;
    uint32_t word = free_words[--nfree];
    struct stop *s = lanes_append(l, kind);
    s->arrive = &words[word].arrive;
    s->go = &words[word].go;
    s->done = &words[word].done;
    s->value = ++values[word];
    return s;
}

static CUdeviceptr on_device(const uint32_t *word)
{
    return words_device + (CUdeviceptr)((const char *)word - (const char *)words);
}

void lanes_write(CUstream stream, const uint32_t *word, uint32_t value)
{
    CUDA_MUST(driver(cuStreamWriteValue32)(stream, on_device(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

void lanes_wait(CUstream stream, const uint32_t *word, uint32_t value)
{
    CUDA_MUST(driver(cuStreamWaitValue32)(stream, on_device(word), value, CU_STREAM_WAIT_VALUE_GEQ));
}

bool lanes_at_park(struct lane *l)
{
    if (!l || l->looking)
        return false;
    l->looking = true;
    lanes_prune(l);
    bool at = l->n && (l->stops[0].kind == STOP_PARK ||
                       (l->stops[0].kind == STOP_WAIT && lanes_at_park(lanes_find_serial(l->stops[0].on_lane))));
    l->looking = false;
    return at;
}
