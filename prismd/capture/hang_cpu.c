#include "prismd/capture/hang_cpu.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uthash.h>

#include "common/clock.h"

struct owner { /* a process id that stands for a rank */
    int id;
    uint32_t rank;
    UT_hash_handle hh;
};

struct hang_cpu {
    int64_t at_ns;
    uint64_t *ticks; /* owned; by rank */
};

static void own(struct owner **table, int id, uint32_t rank)
{
    struct owner *o;
    HASH_FIND_INT(*table, &id, o);
    if (o || id <= 0)
        return;
    o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->id = id;
    o->rank = rank;
    HASH_ADD_INT(*table, id, o);
}

static const struct owner *owner_of(struct owner *table, const int *ids, size_t n)
{
    struct owner *o = NULL;
    for (size_t i = 0; i < n && !o; i++)
        HASH_FIND_INT(table, &ids[i], o);
    return o;
}

/* The process at the other end of the rank's socket. */
static int peer_of(const struct rank *r)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return r->socket >= 0 && !getsockopt(r->socket, SOL_SOCKET, SO_PEERCRED, &who, &len) ? who.pid : 0;
}

static struct owner *owners(const struct daemon *d)
{
    struct owner *table = NULL;
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->state != RANK_ENDED) {
            own(&table, d->ranks[i]->pid, i);
            own(&table, peer_of(d->ranks[i]), i);
        }
    return table;
}

/* proc(5), /proc/PID/stat: fields 4 to 6 are parent, group, session; 14 to 17 user and system time, own and of children that
 * were waited for. The name, field 2, may hold anything. */
static bool read_process(const char *pid, int ids[4], uint64_t *ticks)
{
    char path[64], text[1024];
    unsigned long long own_user, own_system, user, system;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *after = strrchr(text, ')');
    ids[0] = atoi(pid);
    if (!after || sscanf(after + 1, " %*c %d %d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &ids[1], &ids[2], &ids[3],
                         &own_user, &own_system, &user, &system) != 7)
        return false;
    *ticks = own_user + own_system + user + system;
    return true;
}

struct hang_cpu *hang_cpu_create(const struct daemon *d)
{
    struct hang_cpu *c = calloc(1, sizeof *c);
    struct owner *table = owners(d), *o, *next;
    DIR *proc = opendir("/proc");
    if (!c || !(c->ticks = calloc(d->conf->world + 1u, sizeof *c->ticks)))
        abort();
    c->at_ns = clock_now_ns();
    for (struct dirent *e; proc && (e = readdir(proc));) {
        int ids[4];
        uint64_t ticks;
        if (!isdigit((unsigned char)e->d_name[0]) || !read_process(e->d_name, ids, &ticks))
            continue;
        const struct owner *found = owner_of(table, ids, 4);
        if (found)
            c->ticks[found->rank] += ticks;
    }
    if (proc)
        closedir(proc);
    HASH_ITER(hh, table, o, next) {
        HASH_DEL(table, o);
        free(o);
    }
    return c;
}

void hang_cpu_destroy(struct hang_cpu *c)
{
    if (!c)
        return;
    free(c->ticks);
    free(c);
}

uint32_t hang_cpu_busy_rank(const struct hang_cpu *c, const struct daemon *d)
{
    struct hang_cpu *now = hang_cpu_create(d);
    double most = (double)(now->at_ns - c->at_ns) / 1e9 * (double)sysconf(_SC_CLK_TCK) * HANG_CPU_SHARE;
    uint32_t busy = HANG_CPU_NOBODY;
    for (uint32_t i = 0; i < d->conf->world && busy == HANG_CPU_NOBODY; i++)
        if (d->ranks[i] && d->ranks[i]->state != RANK_ENDED && d->ranks[i]->host_waits == HOST_RUNS &&
            now->ticks[i] > c->ticks[i] && (double)(now->ticks[i] - c->ticks[i]) > most)
            busy = i;
    hang_cpu_destroy(now);
    return busy;
}
