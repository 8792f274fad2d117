#include "prismd/mover/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"

pthread_mutex_t mover_lock = PTHREAD_MUTEX_INITIALIZER;
struct guest *guests;
struct outlet to_prismd = {.socket = -1};
int wake_fd = -1;

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void mover_begin(int prismd_socket)
{
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    to_prismd.socket = prismd_socket;
    set_nonblocking(prismd_socket);
}

/* --- sockets --- */

static void parcel_end(const struct parcel *p)
{
    if (p->fd >= 0)
        close(p->fd);
}

static void outlet_close(struct outlet *o)
{
    if (o->socket >= 0)
        close(o->socket);
    while (o->n)
        parcel_end(&o->queue[--o->n]);
    free(o->queue);
    *o = (struct outlet){.socket = -1};
}

void outlet_flush(struct outlet *o)
{
    size_t sent = 0;
    while (sent < o->n && o->socket >= 0) {
        if (!mover_send(o->socket, &o->queue[sent].message, o->queue[sent].fd, NULL))
            sent++;
        else if (errno == EAGAIN)
            break;
        else
            sent = o->n; /* the other end is closed */
    }
    for (size_t i = 0; i < sent; i++)
        parcel_end(&o->queue[i]);
    o->n -= sent;
    if (sent)
        memmove(o->queue, o->queue + sent, o->n * sizeof *o->queue);
}

void outlet_send(struct outlet *o, const struct mover_message *m)
{
    outlet_send_with(o, m, -1);
}

void outlet_send_with(struct outlet *o, const struct mover_message *m, int fd)
{
    if (o->socket < 0 || (!o->n && (!mover_send(o->socket, m, fd, NULL) || errno != EAGAIN)))
        return;
    if (o->n == o->cap) {
        o->cap = o->cap ? 2 * o->cap : 16;
        o->queue = realloc(o->queue, o->cap * sizeof *o->queue);
        if (!o->queue)
            abort();
    }
    int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept < 0 && fd >= 0)
        mover_failed("cannot duplicate a descriptor of device memory: %s", strerror(errno));
    o->queue[o->n++] = (struct parcel){*m, kept};
    if (write(wake_fd, &(uint64_t){1}, 8) < 0 && errno != EAGAIN)
        abort();
}

/* --- ranks --- */

struct guest *guest_add(uint32_t rank, int socket)
{
    struct guest *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->rank = rank;
    g->outlet.socket = socket;
    set_nonblocking(socket);
    HASH_ADD(hh, guests, rank, sizeof g->rank, g);
    return g;
}

struct guest *guest_find(uint32_t rank)
{
    struct guest *g;
    HASH_FIND(hh, guests, &rank, sizeof rank, g);
    return g;
}

static void guest_free(struct guest *g)
{
    struct range *r, *next;
    HASH_ITER(hh, g->ranges, r, next)
        guest_drop_range(r);
    free(g);
}

void guest_drop(struct guest *g)
{
    HASH_DEL(guests, g);
    outlet_close(&g->outlet);
    g->gone = true;
    if (!g->jobs)
        guest_free(g);
}

void guest_job_ended(struct guest *g)
{
    if (!--g->jobs && g->gone)
        guest_free(g);
}

struct range *guest_range(struct guest *g, uint64_t number)
{
    struct range *r;
    HASH_FIND(hh, g->ranges, &number, sizeof number, r);
    return r;
}

struct range *guest_add_range(struct guest *g, uint64_t number, uint64_t bytes)
{
    struct range *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->number = number;
    r->bytes = bytes;
    r->guest = g;
    HASH_ADD(hh, g->ranges, number, sizeof r->number, r);
    return r;
}

void guest_drop_range(struct range *r)
{
    store_await_writing(r);
    HASH_DEL(r->guest->ranges, r);
    store_give(r);
    spill_give(&r->disk);
    free(r);
}

uint64_t guest_spilled(const struct guest *g)
{
    uint64_t bytes = 0;
    for (const struct range *r = g->ranges; r; r = r->hh.next)
        bytes += r->disk.n ? r->bytes : 0;
    return bytes;
}
