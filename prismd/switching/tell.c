#include "prismd/switching/tell.h"

#include <stdio.h>

#define GB 1e9 /* of figures for people; copies are compared with links, whose speeds are in 10^9 bytes a second */

void tell_add_counts(struct resident_counts *to, const struct resident_counts *c)
{
    to->evictions += c->evictions;
    to->restorations += c->restorations;
    to->bytes_out += c->bytes_out;
    to->bytes_in += c->bytes_in;
    to->bytes_handed += c->bytes_handed;
    to->host_bytes += c->host_bytes;
    to->host_now += c->host_now;
    to->spilled_bytes += c->spilled_bytes;
    to->ranks_evicted += c->ranks_evicted;
    to->refused += c->refused;
    to->seconds_out += c->seconds_out;
    to->seconds_in += c->seconds_in;
    to->seconds_parking += c->seconds_parking;
    to->seconds_waiting += c->seconds_waiting;
    to->seconds_pinning += c->seconds_pinning;
}

static double speed(uint64_t bytes, double seconds)
{
    return seconds > 0 ? (double)bytes / GB / seconds : 0;
}

void tell_progress(const struct resident_state *s, const struct resident_counts *c, char *line, size_t len)
{
    int n = snprintf(line, len,
                     "%u of %u ranks on the device (%.1f of %.1f GB), %u leaving, %u coming, %u out, %u not started, %u waiting; "
                     "%llu evictions: %.1f GB out (%.1f GB/s), %.1f GB in (%.1f GB/s), %.1f s of parking",
                     s->in, s->ranks, (double)s->held / GB, (double)s->capacity / GB, s->leaving, s->coming, s->out, s->to_start,
                     s->asking, (unsigned long long)c->evictions, (double)c->bytes_out / GB, speed(c->bytes_out, c->seconds_out),
                     (double)c->bytes_in / GB, speed(c->bytes_in, c->seconds_in), c->seconds_parking);
    if (c->host_bytes && n > 0 && (size_t)n < len)
        n += snprintf(line + n, len - (size_t)n, "; %.1f GB pinned in %.1f s", (double)c->host_bytes / GB, c->seconds_pinning);
    if (c->host_now < c->host_bytes && n > 0 && (size_t)n < len)
        n += snprintf(line + n, len - (size_t)n, ", %.1f GB now", (double)c->host_now / GB);
    if (c->spilled_bytes && n > 0 && (size_t)n < len)
        snprintf(line + n, len - (size_t)n, ", %.1f GB written to disk%s", (double)c->spilled_bytes / GB,
                 c->host_now < c->host_bytes ? "" : " (a larger PRISM_HOST_POOL holds more)");
}

/* Doing, of an eviction or a restoration that is over. */
static void tell_moved(const struct mover_message *m, const char *what, char *line, size_t len)
{
    double seconds = (double)m->ns / 1e9;
    int n = snprintf(line, len, "rank %u %s: %.2f GB, %u ranges, in %.3f s (%.1f GB/s)", m->rank, what, (double)m->bytes / GB, (unsigned)m->range, seconds,
                     speed(m->bytes, seconds));
    if (m->spilled && n > 0 && (size_t)n < len)
        snprintf(line + n, len - (size_t)n, ", %.2f GB of it on disk", (double)m->spilled / GB);
}

static void tell_want(const struct mover_message *m, char *line, size_t len)
{
    if (m->flag == 2)
        snprintf(line, len, "rank %u cannot go on before it is on the device again", m->rank);
    else
        snprintf(line, len, "rank %u %s %.2f GB (%.2f GB will do)", m->rank, m->flag ? "was refused by the device" : "asks for",
                 (double)m->bytes / GB, (double)(m->total ? m->total : m->bytes) / GB);
}

bool tell_message(const struct mover_message *m, char *line, size_t len)
{
    switch (m->type) {
    case MOVER_CONTEXT:
        snprintf(line, len, "rank %u has its context on the device, made in %.1f s", m->rank, (double)m->ns / 1e9);
        return true;
    case MOVER_WANT:
        tell_want(m, line, len);
        return true;
    case MOVER_GRANT:
        snprintf(line, len, "rank %u is granted %.2f GB", m->rank, (double)m->bytes / GB);
        return true;
    case MOVER_EVICT:
        snprintf(line, len, "rank %u is to leave the device", m->rank);
        return true;
    case MOVER_CANCEL:
        snprintf(line, len, "rank %u has not come to a stop and is to stay", m->rank);
        return true;
    case MOVER_PARKED:
        snprintf(line, len, "rank %u stands still after %.3f s", m->rank, (double)m->ns / 1e9);
        return true;
    case MOVER_CANCELLED:
        snprintf(line, len, "rank %u stays on the device", m->rank);
        return true;
    case MOVER_EVICTED:
        tell_moved(m, "is out", line, len);
        return true;
    case MOVER_RESTORE:
        snprintf(line, len, "rank %u is to come back to the device", m->rank);
        return true;
    case MOVER_RESTORED:
        tell_moved(m, "is in again", line, len);
        return true;
    default:
        return false;
    }
}
