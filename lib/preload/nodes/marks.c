#include "preload/nodes/marks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "preload/preload.h"
#include "preload/socket.h"

#define NO_RANGE (-2) /* NVTX_NO_PUSH_POP_TRACKING */

struct mark {
    uint64_t name;
    uint32_t kind, position, comms;
};

/* Of a host thread, from its first range on; not in its own memory, of which a library that is opened late gets little. */
struct thread {
    int depth;
    uint32_t nkept;
    bool silent;                /* had more to keep than there is room for: what is told must be all */
    uint64_t open[MARKS_DEPTH]; /* names of the ranges that it is in; 0 = not told */
    struct mark kept[MARKS_KEPT];
};

static PRISM_THREAD struct thread *own; /* owned: freed with the thread */
static pthread_key_t at_end;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;

/* session_lock held */
static struct known {
    uint64_t name;
    uint32_t pushes, comms; /* so far; groups of operations at the latest */
    bool dropped;
} names[MARKS_NAMES];

static struct known *find_name(uint64_t name)
{
    for (uint32_t i = 0; i < MARKS_NAMES; i++) {
        struct known *n = &names[(name + i) % MARKS_NAMES];
        if (!n->name)
            n->name = name;
        if (n->name == name)
            return n;
    }
    return NULL;
}

/* session_lock held */
static void tell(const struct mark *m)
{
    struct known *n = find_name(m->name);
    if (!n || n->dropped)
        return;
    struct msg_mark message = {.h = {MSG_MARK, sizeof message}, .name = m->name, .kind = m->kind, .position = m->position};
    n->dropped = m->kind == MARK_DROP;
    if (m->kind == MARK_PUSH) {
        n->dropped = n->pushes == MARKS_EACH || (n->pushes && n->comms == m->comms);
        n->pushes++;
        n->comms = m->comms;
        if (n->dropped)
            message.kind = MARK_DROP;
    }
    socket_queue(&message, sizeof message);
}

static void tell_kept(void)
{
    for (uint32_t i = 0; i < own->nkept && session.phase == PHASE_CAPTURE; i++)
        tell(&own->kept[i]);
    own->nkept = 0;
}

void marks_send_kept(void)
{
    if (own && own->nkept)
        tell_kept();
}

/* The kept ones without those of a name. */
static void forget(uint64_t name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < own->nkept; i++)
        if (own->kept[i].name != name)
            own->kept[n++] = own->kept[i];
    own->nkept = n;
}

/* True: it will be told. */
static bool keep(struct mark m)
{
    for (uint32_t i = 0; i < own->nkept; i++) {
        const struct mark *k = &own->kept[i];
        if (k->name != m.name)
            continue;
        if (k->kind == MARK_DROP)
            return false;
        if (k->kind == MARK_PUSH && m.kind == MARK_PUSH && k->comms == m.comms) {
            m.kind = MARK_DROP;
            forget(m.name);
        }
    }
    own->silent = own->nkept == MARKS_KEPT;
    if (own->silent)
        own->nkept = 0;
    else
        own->kept[own->nkept++] = m;
    return !own->silent && m.kind != MARK_DROP;
}

/* True: it is told, now or later. */
static bool note(uint32_t kind, uint64_t name)
{
    if (own->silent || !name || frame.depth || session_is_off())
        return false;
    struct mark m = {.name = name, .kind = kind, .position = node_position(&m.comms)};
    if (!frame.host || !session_trylock())
        return keep(m);
    tell_kept();
    if (session.phase == PHASE_CAPTURE)
        tell(&m);
    session_unlock();
    return true;
}

static void thread_ends(void *thread)
{
    own = NULL;
    free(thread);
}

static void make_key(void)
{
    pthread_key_create(&at_end, thread_ends);
}

static bool thread_begins(void)
{
    pthread_once(&key_made, make_key);
    own = calloc(1, sizeof *own);
    if (own)
        pthread_setspecific(at_end, own);
    return own;
}

int marks_push(uint64_t name)
{
    if (!own && !thread_begins())
        return NO_RANGE;
    int level = own->depth++;
    if (level < MARKS_DEPTH)
        own->open[level] = note(MARK_PUSH, name) ? name : 0;
    return level;
}

int marks_pop(void)
{
    if (!own || !own->depth)
        return NO_RANGE;
    int level = --own->depth;
    if (level < MARKS_DEPTH)
        note(MARK_POP, own->open[level]);
    return level;
}
