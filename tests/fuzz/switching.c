/* switching.c - the policy of context switching against any messages of the mover and its ranks: whatever they say, no more
 * is granted or let in than the device has. The input: u8 seed, then records of u8 event (bits 0-2) and rank (bits 3-4), u8
 * flag, u64 bytes, u64 total; bit 6 of the former makes an operation that is come to of a gate that is ready. The whole input is a datagram to mover_receive too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bytes.h"
#include "prismd/switching/resident.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 100000;

#define RANKS    4u
#define CAPACITY 1000u
#define CONTEXT  10u

struct sim {
    struct resident *policy;
    struct player {
        bool started, in, leaving, coming;
        uint64_t granted;
    } ranks[RANKS];
    uint32_t looks;
};

/* As resident.h has it: what leaves is not promised any more. */
static void check_promised(const struct sim *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct player *p = &s->ranks[i];
        sum += p->started ? CONTEXT : 0;
        sum += (p->in && !p->leaving) || p->coming ? p->granted : 0;
    }
    if (s->policy && sum > resident_capacity(s->policy))
        abort();
}

static void on_send(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag)
{
    struct sim *s = arg;
    struct player *p = &s->ranks[rank];
    if (type == MOVER_EVICT) {
        if (!p->in || p->leaving)
            abort();
        p->leaving = true;
    } else if (type == MOVER_RESTORE) {
        if (p->in || p->coming)
            abort();
        p->coming = true;
        check_promised(s);
    } else if (type == MOVER_GRANT && !flag && bytes) {
        p->granted += bytes;
        if (bytes > CAPACITY || p->granted > CAPACITY)
            abort();
        check_promised(s);
    }
}

static void on_start(void *arg, uint32_t rank)
{
    struct player *p = &((struct sim *)arg)->ranks[rank];
    if (p->started)
        abort();
    p->started = p->in = true;
    check_promised(arg);
}

static void on_hopeless(void *arg, uint32_t rank, uint64_t bytes)
{
}

static struct resident_look on_look(void *arg, uint32_t rank)
{
    struct sim *s = arg;
    return (struct resident_look){.standing = s->looks & 1, .blocked = s->looks & 2};
}

/* What the messages mean where they are in order; where they are not they mean nothing. */
static void note(struct sim *s, const struct mover_message *m)
{
    struct player *p = m->rank < RANKS ? &s->ranks[m->rank] : NULL;
    if (!p)
        return;
    if (m->type == MOVER_EVICTED && p->leaving)
        p->leaving = p->in = false;
    else if (m->type == MOVER_CANCELLED && p->leaving)
        p->leaving = false;
    else if (m->type == MOVER_RESTORED && p->coming) {
        p->coming = false;
        p->in = true;
    } else if (m->type == MOVER_LESS)
        p->granted -= m->bytes < p->granted ? m->bytes : p->granted;
}

/* To an operation of some ranks, one of which the device does not have. */
static void join(struct sim *s, const struct mover_message *m, int64_t now)
{
    int32_t members[RANKS + 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= RANKS; i++)
        if (m->total >> i & 1)
            members[n++] = (int32_t)i;
    resident_joined(s->policy, m->rank, (struct resident_operation){.comm = (int32_t)(m->bytes & 3), .sequence = m->bytes >> 2 & 3}, members, n, now);
}

static void event(struct sim *s, struct bytes_reader *in, int64_t now)
{
    static const uint32_t types[] = {MOVER_WANT, MOVER_LESS, MOVER_PARKED, MOVER_CANCELLED, MOVER_EVICTED, MOVER_RESTORED};
    uint8_t what = bytes_get_u8(in), flag = bytes_get_u8(in);
    struct mover_message m = {.rank = what >> 3 & 3, .flag = flag % 3, .ns = 1000};
    m.bytes = bytes_get_u64(in);
    m.total = bytes_get_u64(in);
    s->looks = flag >> 4;
    if ((what & 7) == 6 && what & 64) {
        join(s, &m, now);
    } else if ((what & 7) == 6) {
        resident_gate_ready(s->policy, m.rank, now);
    } else if ((what & 7) == 7) {
        if (flag & 128) {
            s->ranks[m.rank] = (struct player){0};
            resident_ended(s->policy, m.rank, now);
        }
        resident_gate_opened(s->policy, m.rank, now);
        resident_tick(s->policy, now);
    } else {
        m.type = types[what & 7];
        if (what & 32)
            m.rank += RANKS; /* of another device */
        note(s, &m);
        resident_message(s->policy, &m, now);
    }
}

static void datagram(const uint8_t *data, size_t len)
{
    static int pair[2] = {-1, -1};
    char text[MOVER_TEXT + 1];
    struct mover_message m;
    int fd;
    if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        abort();
    if (!len || len > 4096 || send(pair[0], data, len, 0) < 0)
        return;
    int rc = mover_receive(pair[1], &m, &fd, text, MSG_DONTWAIT);
    bool fits = len >= sizeof m && len <= sizeof m + MOVER_TEXT;
    if (fd >= 0 || (rc == 1 && (!fits || m.type < MOVER_ATTACH || m.type > MOVER_FAILED)) || (rc != 1 && errno != EPROTO))
        abort();
    if (rc == 1 && strlen(text) > len - sizeof m)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct resident_calls calls = {.send = on_send, .start = on_start, .hopeless = on_hopeless, .look = on_look};
    struct sim s = {0};
    struct bytes_reader in = bytes_reader_init(data, len);
    struct resident_setting set = {.capacity = CAPACITY, .context = CONTEXT, .ranks = RANKS, .seed = bytes_get_u8(&in)};
    int64_t now = 1000000000;
    datagram(data, len);
    s.policy = resident_create(&set, &calls, &s);
    for (uint32_t i = 0; i < RANKS; i++)
        resident_want_start(s.policy, i, now);
    while (!in.bad) {
        now += RESIDENT_QUIET_NS;
        event(&s, &in, now);
    }
    resident_destroy(s.policy);
    return 0;
}
