#include "trace/rooms.h"

#include <stdint.h>
#include <stdlib.h>

#define GRAIN ((size_t)64 << 10) /* so that contents of about one size find each other's rooms */

struct room {
    struct room *next;
    size_t cap;
    bool sent;
    _Alignas(64) uint8_t bytes[];
};

static struct room *room_of(void *data)
{
    return (struct room *)(void *)((uint8_t *)data - offsetof(struct room, bytes));
}

void rooms_init(struct rooms *r, size_t bound)
{
    *r = (struct rooms){.bound = bound};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->given, NULL);
}

/* Idle rooms go, those used longest ago first, until `bytes` more are within the bound. */
static void shrink(struct rooms *r, size_t bytes)
{
    while (r->idle && r->sent + r->idle + bytes > r->bound) {
        struct room **last = &r->first;
        while ((*last)->next)
            last = &(*last)->next;
        r->idle -= (*last)->cap;
        free(*last);
        *last = NULL;
    }
}

void rooms_clear(struct rooms *r)
{
    shrink(r, r->bound);
    pthread_cond_destroy(&r->given);
    pthread_mutex_destroy(&r->lock);
}

/* An idle one that is not much too large. */
static struct room *find(struct rooms *r, size_t cap)
{
    for (struct room **at = &r->first; *at; at = &(*at)->next) {
        struct room *found = *at;
        if (found->cap < cap || found->cap / 2 > cap)
            continue;
        *at = found->next;
        r->idle -= found->cap;
        return found;
    }
    return NULL;
}

static size_t cap_of(size_t len)
{
    return len ? (len + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
}

static bool too_many(const struct rooms *r, size_t cap)
{
    return r->sent && r->sent + cap > r->bound;
}

bool rooms_would_wait(struct rooms *r, size_t len)
{
    pthread_mutex_lock(&r->lock);
    bool wait = too_many(r, cap_of(len));
    pthread_mutex_unlock(&r->lock);
    return wait;
}

void *rooms_take(struct rooms *r, size_t len)
{
    size_t cap = cap_of(len);
    pthread_mutex_lock(&r->lock);
    while (too_many(r, cap))
        pthread_cond_wait(&r->given, &r->lock);
    struct room *room = find(r, cap);
    if (!room)
        shrink(r, cap);
    pthread_mutex_unlock(&r->lock);
    if (!room) {
        room = aligned_alloc(64, sizeof *room + cap);
        if (!room)
            abort();
        room->cap = cap;
    }
    room->sent = false;
    return room->bytes;
}

void rooms_send(struct rooms *r, void *data)
{
    struct room *room = room_of(data);
    pthread_mutex_lock(&r->lock);
    room->sent = true;
    r->sent += room->cap;
    pthread_mutex_unlock(&r->lock);
}

void rooms_give(struct rooms *r, void *data)
{
    struct room *room = room_of(data);
    pthread_mutex_lock(&r->lock);
    if (room->sent)
        r->sent -= room->cap;
    room->next = r->first;
    r->first = room;
    r->idle += room->cap;
    shrink(r, 0);
    pthread_cond_broadcast(&r->given);
    pthread_mutex_unlock(&r->lock);
}
