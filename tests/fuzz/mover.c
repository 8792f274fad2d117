/* mover.c - what prismd and the ranks on its device tell prism-mover, in any order: no copy works on memory that is gone, no
 * descriptor is lost, and what prismd is told of a move is true. Copies end when the input says so. The input: records of
 * u8 who (0 prismd, 1 a copy ends, 2 and 3 ranks 0 and 1; bit 2: a descriptor comes with it; bit 3: sockets take nothing),
 * u8 type, u8 rank, u8 flag, u8 range, u32 pages of 4 KiB. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "prismd/mover/copy.h"
#include "prismd/mover/hear.h"
#include "prismd/mover/pool.h"
#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 100000;

#define RANKS       2u
#define DESCRIPTORS 64u
#define CAPACITY    (1u << 20)

struct job {
    enum copy_direction direction;
    struct range *range;
    struct memory memory;
    struct job *next;
};

static struct {
    struct job *jobs; /* oldest first */
    bool full;        /* sockets take nothing */
    int descriptors[DESCRIPTORS];
    uint32_t ndescriptors;
    jmp_buf failed;
} sim;

/* ---- The rest of the mover ---- */

_Noreturn void mover_failed(const char *format, ...)
{
    longjmp(sim.failed, 1);
}

int mover_send(int socket, const struct mover_message *m, int fd, const char *text)
{
    if (m->type == MOVER_GIVEN && fd >= 0 && fcntl(fd, F_GETFD) < 0)
        abort();
    if (m->type == MOVER_EVICTED || m->type == MOVER_RESTORED)
        for (const struct job *j = sim.jobs; j; j = j->next)
            if (j->range->guest->rank == m->rank && !j->range->guest->gone)
                abort();
    errno = EAGAIN;
    return sim.full ? -1 : 0;
}

void copy_queue(enum copy_direction direction, struct range *r, struct memory m)
{
    struct job *j = calloc(1, sizeof *j), **at = &sim.jobs;
    if (!j || !r->bytes || r->bytes > CAPACITY)
        abort();
    *j = (struct job){direction, r, m, NULL};
    for (; *at; at = &(*at)->next)
        if ((*at)->range == r)
            abort();
    r->guest->jobs++;
    *at = j;
}

/* Of no CUDA: a handle is any number. */
void copy_release(struct memory m)
{
    close(m.fd);
}

/* As copy.c ends one: out it lies in the pool, in it is forgotten. */
static void end_copy(void)
{
    struct job *j = sim.jobs;
    if (!j)
        return;
    sim.jobs = j->next;
    struct guest *g = j->range->guest;
    struct mover_message m = {.type = MOVER_COPIED, .rank = g->rank, .range = j->range->number, .bytes = j->range->bytes};
    bool kept = j->direction == COPY_OUT && j->range->plain && !g->gone && hand_keep(j->memory, j->range->bytes);
    if (!kept)
        copy_release(j->memory);
    if (!g->gone) {
        g->moved += j->range->bytes;
        if (j->direction == COPY_IN)
            guest_drop_range(j->range);
        else
            j->range->place = RANGE_POOL;
        outlet_send(&g->outlet, &m);
    }
    guest_job_ended(g);
    free(j);
}

void store_await_writing(struct range *r)
{
    r->leaving = true;
}

void store_give(struct range *r)
{
}

void pool_prepare(uint64_t bytes)
{
}

void pool_tell(void)
{
}

void spill_give(struct extents *disk)
{
}

/* ---- One mover ---- */

static int descriptor(void)
{
    if (sim.ndescriptors == DESCRIPTORS)
        return -1;
    return sim.descriptors[sim.ndescriptors++] = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void hear(uint8_t who, struct bytes_reader *in)
{
    struct mover_message m = {.type = bytes_get_u8(in), .rank = bytes_get_u8(in) % RANKS};
    m.flag = bytes_get_u8(in);
    m.range = bytes_get_u8(in);
    m.bytes = (uint64_t)bytes_get_u32(in) << 12;
    m.total = CAPACITY;
    struct guest *g = guest_find((who & 3) - 2u);
    if (in->bad || (who & 2 && !g) || m.type < MOVER_ATTACH || m.type > MOVER_FAILED)
        return;
    if (m.flag & 128)
        m.bytes |= m.flag; /* no whole pages */
    sim.full = who & 8;
    int fd = who & 4 ? descriptor() : -1;
    if (who & 2)
        hear_rank(g, &m, fd, "its text");
    else
        hear_prismd(&m, fd);
    if (g && !sim.full)
        outlet_flush(&g->outlet);
}

/* Every descriptor is closed, or in the hands of a rank or a copy; those kept for ranks that come (hand.h) were let go. */
static uint32_t in_hands(int fd)
{
    uint32_t n = 0;
    for (const struct guest *g = guests; g; g = g->hh.next)
        n += g->outlet.socket == fd;
    for (const struct job *j = sim.jobs; j; j = j->next)
        n += j->memory.fd == fd;
    return n;
}

static void check_descriptors(void)
{
    for (uint32_t i = 0; i < sim.ndescriptors; i++) {
        bool open = fcntl(sim.descriptors[i], F_GETFD) >= 0, again = false;
        for (uint32_t k = i + 1; k < sim.ndescriptors; k++)
            again |= sim.descriptors[k] == sim.descriptors[i];
        if (!again && open != (in_hands(sim.descriptors[i]) > 0))
            abort();
    }
}

static void clear(bool failed)
{
    while (guests)
        guest_drop(guests);
    while (sim.jobs)
        end_copy();
    if (!failed)
        check_descriptors();
    for (uint32_t i = 0; failed && i < sim.ndescriptors; i++)
        close(sim.descriptors[i]);
    sim.ndescriptors = 0;
    free(to_prismd.queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct bytes_reader in;
    in = bytes_reader_init(data, len);
    if (wake_fd < 0)
        mover_begin(open("/dev/null", O_RDWR | O_CLOEXEC));
    to_prismd = (struct outlet){.socket = to_prismd.socket};
    bool failed = setjmp(sim.failed);
    while (!failed && !in.bad) {
        uint8_t who = bytes_get_u8(&in);
        if (in.bad)
            break;
        if ((who & 3) == 1)
            end_copy();
        else
            hear(who, &in);
    }
    hand_clear();
    if (!failed)
        check_descriptors();
    clear(failed);
    return 0;
}
