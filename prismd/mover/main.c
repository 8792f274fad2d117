/* main.c - prism-mover SOCKET MOVERS: moves the device memory of ranks off their device and back (proto/mover.h).
 *
 * Started by prismd only (prismd/switching/movers.c), one a device, with one open socket by number, and the number of movers on
 * this node, which share its memory. PRISM_HOST_POOL: bytes to pin (limit.h). PRISM_SPILL: folder for what does not fit,
 * else the trace's (PRISM_TRACE). Ends when prismd closes the socket.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "prismd/mover/copy.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/guest.h"
#include "prismd/mover/limit.h"
#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"

static uint64_t departures; /* evictions so far: numbers them */
static uint64_t capacity;   /* what prismd divides among the ranks */

/* Pinned memory is prepared when two more ranks like the largest would overfill the device: for what is beyond it, and for three
 * ranks more, since whole ranks are moved, one comes in while another goes out, and contexts take space too. */
static void foresee(void)
{
    uint64_t sum = 0, largest = 0;
    for (const struct guest *g = guests; g; g = g->hh.next) {
        sum += g->granted;
        largest = g->granted > largest ? g->granted : largest;
    }
    if (sum + 2 * largest > capacity)
        store_prepare(sum + 3 * largest - capacity);
}

static void begin_move(struct guest *g)
{
    g->moved = 0;
    g->first_ns = g->last_ns = 0;
}

/* --- from prismd --- */

/* Messages that are the rank's; what they say is noted. */
static void hand_on(const struct mover_message *m)
{
    struct guest *g = guest_find(m->rank);
    if (!g)
        return;
    if (m->type == MOVER_GRANT && !m->flag) {
        g->granted += m->bytes;
        foresee();
    } else if (m->type == MOVER_EVICT) {
        g->left = ++departures;
        begin_move(g);
    } else if (m->type == MOVER_RESTORE) {
        begin_move(g);
    }
    outlet_send(&g->outlet, m);
}

static void take_from_prismd(const struct mover_message *m, int fd)
{
    switch (m->type) {
    case MOVER_ATTACH:
        if (fd < 0 || guest_find(m->rank))
            mover_failed("malformed message: rank %u attached twice, or without a socket", m->rank);
        capacity = m->total;
        guest_add(m->rank, fd);
        return;
    case MOVER_DETACH:
        if (guest_find(m->rank))
            guest_drop(guest_find(m->rank));
        break;
    case MOVER_GRANT:
    case MOVER_EVICT:
    case MOVER_CANCEL:
    case MOVER_RESTORE:
        hand_on(m);
        break;
    default:
        mover_failed("malformed message of type %u", m->type);
    }
    if (fd >= 0)
        close(fd);
}

/* --- from ranks --- */

static void tell_moved(const struct guest *g, uint32_t type)
{
    struct mover_message m = {.type = type, .rank = g->rank, .bytes = g->moved, .ns = g->last_ns - g->first_ns};
    m.spilled = guest_spilled(g);
    store_tell();
    outlet_send(&to_prismd, &m);
}

static void drop_ranges(struct guest *g)
{
    struct range *r, *next;
    HASH_ITER(hh, g->ranges, r, next)
        guest_drop_range(r);
}

static void take_out(struct guest *g, const struct mover_message *m, int fd)
{
    if (fd < 0 || !m->bytes || guest_range(g, m->range))
        mover_failed("rank %u: malformed message (range %llu out)", g->rank, (unsigned long long)m->range);
    copy_queue(COPY_OUT, guest_add_range(g, m->range, m->bytes), fd);
}

static void take_in(struct guest *g, const struct mover_message *m, int fd)
{
    struct range *r = guest_range(g, m->range);
    if (fd < 0 || !r || r->bytes != m->bytes)
        mover_failed("rank %u: malformed message (range %llu in)", g->rank, (unsigned long long)m->range);
    r->leaving = true;
    copy_queue(COPY_IN, r, fd);
}

static void take_from_rank(struct guest *g, struct mover_message *m, int fd, const char *text)
{
    m->rank = g->rank;
    switch (m->type) {
    case MOVER_OUT:
        take_out(g, m, fd);
        return;
    case MOVER_IN:
        take_in(g, m, fd);
        return;
    case MOVER_OUT_END:
        tell_moved(g, MOVER_EVICTED);
        break;
    case MOVER_IN_END:
        tell_moved(g, MOVER_RESTORED);
        drop_ranges(g);
        break;
    case MOVER_LESS:
        g->granted -= m->bytes < g->granted ? m->bytes : g->granted;
        outlet_send(&to_prismd, m);
        break;
    case MOVER_CONTEXT:
    case MOVER_WANT:
    case MOVER_PARKED:
    case MOVER_CANCELLED:
        outlet_send(&to_prismd, m);
        break;
    case MOVER_FAILED:
        mover_failed("rank %u: %s", g->rank, text);
    default:
        mover_failed("rank %u: malformed message of type %u", g->rank, m->type);
    }
    if (fd >= 0)
        close(fd);
}

/* --- the thread that reads sockets --- */

/* Everything that has come from prismd; ends the process with it. */
static void read_prismd(void)
{
    struct mover_message m;
    int fd, rc;
    while ((rc = mover_receive(to_prismd.socket, &m, &fd, NULL, MSG_DONTWAIT)) > 0)
        take_from_prismd(&m, fd);
    if (rc == 0 || errno == ECONNRESET)
        _exit(0);
    if (errno != EAGAIN)
        mover_failed("cannot read from prismd: %s", strerror(errno));
}

/* A rank's socket that ends is not read any more; that the rank has ended is for prismd to say. */
static void read_guest(struct guest *g)
{
    struct mover_message m;
    char text[MOVER_TEXT + 1];
    int fd, rc;
    while ((rc = mover_receive(g->outlet.socket, &m, &fd, text, MSG_DONTWAIT)) > 0)
        take_from_rank(g, &m, fd, text);
    if (rc < 0 && errno == EAGAIN)
        return;
    close(g->outlet.socket);
    g->outlet.socket = -1;
}

/* The sockets to poll; their ranks in the same order, from the third. */
static size_t list_sockets(struct pollfd **list, uint32_t **ranks)
{
    size_t n = 0, count = HASH_COUNT(guests) + 2;
    *list = realloc(*list, count * sizeof **list);
    *ranks = realloc(*ranks, count * sizeof **ranks);
    if (!*list || !*ranks)
        abort();
    (*list)[n++] = (struct pollfd){.fd = to_prismd.socket, .events = (short)(POLLIN | (to_prismd.n ? POLLOUT : 0))};
    (*list)[n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    for (const struct guest *g = guests; g; g = g->hh.next) {
        (*list)[n] = (struct pollfd){.fd = g->outlet.socket, .events = (short)(POLLIN | (g->outlet.n ? POLLOUT : 0))};
        (*ranks)[n++] = g->rank;
    }
    return n;
}

static void serve(void)
{
    struct pollfd *list = NULL;
    uint32_t *ranks = NULL;
    uint64_t woken;
    pthread_mutex_lock(&mover_lock);
    for (;;) {
        size_t n = list_sockets(&list, &ranks);
        pthread_mutex_unlock(&mover_lock);
        poll(list, n, -1);
        pthread_mutex_lock(&mover_lock);
        if (list[1].revents && read(wake_fd, &woken, sizeof woken) < 0 && errno != EAGAIN)
            abort();
        outlet_flush(&to_prismd);
        for (size_t i = 2; i < n; i++) {
            struct guest *g = list[i].revents ? guest_find(ranks[i]) : NULL;
            if (!g)
                continue;
            outlet_flush(&g->outlet);
            if (g->outlet.socket >= 0)
                read_guest(g);
        }
        if (list[0].revents)
            read_prismd();
    }
}

int main(int argc, char **argv)
{
    prism_log_init("prism-mover");
    const char *folder = getenv("PRISM_SPILL");
    if (!folder || !*folder)
        folder = getenv("PRISM_TRACE");
    if (argc != 3 || !folder) {
        fprintf(stderr, "prism-mover is started by prismd\n");
        return PRISM_EXIT_USAGE;
    }
    mover_begin(atoi(argv[1]));
    gpu_start();
    struct mover_message ready = {.type = MOVER_READY, .flag = gpu_is_software()};
    size_t free_bytes, total;
    GPU_MUST(gpu_cu(cuMemGetInfo)(&free_bytes, &total));
    ready.bytes = free_bytes;
    ready.total = total;
    spill_begin(folder);
    uint64_t limit = limit_pinned((unsigned)atoi(argv[2]));
    store_begin(limit);
    copy_begin();
    pthread_mutex_lock(&mover_lock);
    if (limit_is_given()) /* while ranks start */
        store_prepare(limit);
    outlet_send(&to_prismd, &ready);
    pthread_mutex_unlock(&mover_lock);
    serve();
}
