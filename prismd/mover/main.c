/* main.c - prism-mover SOCKET MOVERS NUMBER: moves the device memory of ranks off their device and back (proto/mover.h).
 *
 * Started by prismd only (prismd/switching/movers.c), one a device, with one open socket by number, the number of movers on
 * this node, which share its memory, and which of them it is (from 0). PRISM_HOST_POOL, PRISM_HOST_RESERVE: bytes to pin and to
 * leave (limit.h). PRISM_SPILL: folder for what does not fit,
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
#include "prismd/mover/available.h"
#include "prismd/mover/copy.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/guest.h"
#include "prismd/mover/hear.h"
#include "prismd/mover/limit.h"
#include "prismd/mover/pool.h"
#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"

/* --- the thread that reads sockets --- */

/* Everything that has come from prismd; ends the process with it. */
static void read_prismd(void)
{
    struct mover_message m;
    int fd, rc;
    while ((rc = mover_receive(to_prismd.socket, &m, &fd, NULL, MSG_DONTWAIT)) > 0)
        hear_prismd(&m, fd);
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
        hear_rank(g, &m, fd, text);
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

/* Not refused: memory of virtual machines grows as it is used. */
static void warn_if_short(uint64_t wanted)
{
    struct available now;
    available_look(&now);
    uint64_t reserve = limit_reserve(now.total);
    if (now.bytes >= reserve && wanted <= now.bytes - reserve)
        return;
    log_warn("PRISM_HOST_POOL is %.1f GB, and %.1f GB of memory are available, of which %.1f GB are kept free (PRISM_HOST_RESERVE): the "
             "pinned pool grows as far as memory does; what does not fit goes to %s",
             (double)wanted / 1e9, (double)now.bytes / 1e9, (double)reserve / 1e9, spill_folder());
}

int main(int argc, char **argv)
{
    prism_log_init("prism-mover");
    const char *folder = getenv("PRISM_SPILL");
    if (!folder || !*folder)
        folder = getenv("PRISM_TRACE");
    if (argc != 4 || !folder) {
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
    unsigned movers = (unsigned)atoi(argv[2]);
    uint64_t limit = limit_pinned(movers);
    if (limit_is_given() && !atoi(argv[3]))
        warn_if_short(limit * movers);
    store_begin(limit, movers);
    copy_begin();
    pthread_mutex_lock(&mover_lock);
    if (limit_is_given()) /* while ranks start */
        pool_prepare(limit);
    outlet_send(&to_prismd, &ready);
    pthread_mutex_unlock(&mover_lock);
    serve();
}
