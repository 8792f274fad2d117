#include "preload/test/fake_mover.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"

#ifdef __SANITIZE_THREAD__
#define LIMIT_MS 120000
#else
#define LIMIT_MS 15000
#endif

void mover_begin(struct fake_mover *m, struct fake_rank *rank, uint64_t capacity)
{
    *m = (struct fake_mover){.rank = rank, .capacity = capacity};
}

void mover_end(struct fake_mover *m)
{
    mover_serve(m, LIMIT_MS);
    close(m->rank->mover);
}

static void say(struct fake_mover *m, uint32_t type, uint64_t range, uint64_t bytes, uint32_t flag)
{
    struct mover_message message = {.type = type, .range = range, .bytes = bytes, .flag = flag};
    if (!m->gone && mover_send(m->rank->mover, &message, -1, NULL) < 0)
        m->gone = true;
}

static void grant(struct fake_mover *m, const struct mover_message *want)
{
    if (want->flag == 2) {
        m->waiting++;
        return;
    }
    uint64_t left = m->capacity - m->granted;
    uint64_t bytes = want->flag || want->bytes <= left ? want->bytes : want->total <= left ? want->total : 0;
    if (!want->flag)
        m->granted += bytes;
    if (m->granted > m->most_granted)
        m->most_granted = m->granted;
    say(m, MOVER_GRANT, 0, bytes, want->flag);
}

/* What other memory a range has had does not matter: the last one's first. */
static void keep(struct fake_mover *m, const struct mover_message *o, int fd)
{
    if (!o->flag || ++m->outs % 2)
        return;
    struct fake_memory *kept = calloc(1, sizeof *kept);
    assert_non_null(kept);
    *kept = (struct fake_memory){o->bytes, fcntl(fd, F_DUPFD_CLOEXEC, 0), m->memories};
    m->memories = kept;
}

static int take(struct fake_mover *m, uint64_t bytes)
{
    for (struct fake_memory **at = &m->memories; *at; at = &(*at)->next)
        if ((*at)->bytes == bytes) {
            struct fake_memory *kept = *at;
            int fd = kept->fd;
            *at = kept->next;
            free(kept);
            return fd;
        }
    return -1;
}

static struct fake_copy **find(struct fake_mover *m, uint64_t range)
{
    struct fake_copy **at = &m->copies;
    while (*at && (*at)->range != range)
        at = &(*at)->next;
    return at;
}

/* What stays behind must not be read again. */
static void copy_out(struct fake_mover *m, const struct mover_message *o, int fd)
{
    void *memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct fake_copy *c = calloc(1, sizeof *c);
    assert_true(memory != MAP_FAILED && c && !*find(m, o->range));
    *c = (struct fake_copy){.range = o->range, .bytes = o->bytes, .content = malloc(o->bytes), .next = m->copies};
    memcpy(c->content, memory, o->bytes);
    memset(memory, 0xEE, o->bytes);
    munmap(memory, o->bytes);
    m->copies = c;
    m->ranges++;
    keep(m, o, fd);
}

static void copy_in(struct fake_mover *m, const struct mover_message *o, int fd)
{
    struct fake_copy **at = find(m, o->range), *c = *at;
    void *memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED && c && c->bytes == o->bytes);
    memcpy(memory, c->content, o->bytes);
    munmap(memory, o->bytes);
    *at = c->next;
    free(c->content);
    free(c);
}

/* COPIED may come before the rank has looked at what it was given. */
static void give(struct fake_mover *m, const struct mover_message *o)
{
    int fd = take(m, o->bytes);
    struct mover_message given = {.type = MOVER_GIVEN, .range = o->range, .bytes = o->bytes};
    if (!m->gone && mover_send(m->rank->mover, &given, fd, NULL) < 0)
        m->gone = true;
    if (fd < 0)
        return;
    copy_in(m, o, fd);
    close(fd);
    m->given++;
    say(m, MOVER_COPIED, o->range, 0, 0);
}

/* One message of at most ms; its type, 0 if none came. */
static uint32_t step(struct fake_mover *m, int ms, struct mover_message *o)
{
    struct pollfd p = {m->rank->mover, POLLIN, 0};
    char text[MOVER_TEXT + 1];
    int fd;
    if (m->gone || poll(&p, 1, ms) <= 0)
        return 0;
    if (mover_receive(m->rank->mover, o, &fd, text, 0) <= 0) {
        m->gone = true;
        return 0;
    }
    if (o->type == MOVER_WANT)
        grant(m, o);
    else if (o->type == MOVER_LESS)
        m->granted -= o->bytes;
    else if (o->type == MOVER_OUT)
        copy_out(m, o, fd);
    else if (o->type == MOVER_IN)
        copy_in(m, o, fd);
    else if (o->type == MOVER_TAKE)
        give(m, o);
    else if (o->type == MOVER_FAILED)
        print_message("FAILED: %s\n", text);
    if (o->type == MOVER_OUT || o->type == MOVER_IN)
        say(m, MOVER_COPIED, o->range, 0, 0);
    if (fd >= 0)
        close(fd);
    return o->type;
}

void mover_serve(struct fake_mover *m, int ms)
{
    struct mover_message o;
    for (int64_t until = clock_now_ns() + ms * INT64_C(1000000); !m->gone && clock_now_ns() < until;)
        step(m, 1, &o);
}

static void hold(struct fake_mover *m, bool held)
{
    fake_lock();
    m->rank->held = held;
    fake_unlock();
}

static bool await(struct fake_mover *m, uint32_t type, uint32_t other, int ms, struct mover_message *o)
{
    for (int64_t until = clock_now_ns() + ms * INT64_C(1000000); !m->gone && clock_now_ns() < until;) {
        uint32_t got = step(m, 1, o);
        if (got && (got == type || got == other))
            return true;
    }
    return false;
}

bool mover_evict(struct fake_mover *m, int ms)
{
    struct mover_message o;
    hold(m, true);
    say(m, MOVER_EVICT, 0, 0, 0);
    if (!await(m, MOVER_PARKED, MOVER_CANCELLED, ms, &o)) {
        say(m, MOVER_CANCEL, 0, 0, 0);
        await(m, MOVER_PARKED, MOVER_CANCELLED, LIMIT_MS, &o);
    }
    if (m->gone || o.type == MOVER_CANCELLED) {
        m->cancelled++;
        hold(m, false);
        return false;
    }
    m->parked_ns = clock_now_ns();
    if (!await(m, MOVER_OUT_END, 0, LIMIT_MS, &o))
        return false;
    m->out_bytes = o.bytes;
    m->evictions++;
    return true;
}

void mover_restore(struct fake_mover *m)
{
    struct mover_message o;
    say(m, MOVER_RESTORE, 0, 0, 0);
    await(m, MOVER_IN_END, 0, LIMIT_MS, &o);
    while (m->copies) {
        struct fake_copy *c = m->copies;
        m->copies = c->next;
        m->dropped++;
        free(c->content);
        free(c);
    }
    while (m->memories)
        close(take(m, m->memories->bytes));
    m->away_ns = clock_now_ns() - m->parked_ns;
    hold(m, false);
}
