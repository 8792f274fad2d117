#include "prismd/capture/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "prismd/folding/folding.h"
#include "prismd/link/link.h"
#include "prismd/capture/membership.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"
#include "prismd/capture/settling.h"

#define NOCOLOR (-1) /* NCCL_SPLIT_NOCOLOR */

struct member {
    bool joined;
    uint32_t rank; /* world */
    uint32_t comm; /* its number at that rank */
    int32_t color, key, parent_rank;
};

/* A communicator, or the split of one, that not all members have called yet. Coordinator only. */
struct pending {
    uint8_t id[MSG_UID_LEN]; /* unique id, or {parent, count of splits} with zeroes behind */
    uint32_t size, joined;
    bool made; /* kept in a folded capture, for those that come too late */
    struct member *members; /* owned; by rank in the new communicator, or in the parent */
    UT_hash_handle hh;
};

static struct pending *pending;

static struct pending *find_pending(const uint8_t *id, uint32_t size)
{
    struct pending *p;
    HASH_FIND(hh, pending, id, MSG_UID_LEN, p);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p || !(p->members = calloc(size, sizeof *p->members)))
        abort();
    memcpy(p->id, id, MSG_UID_LEN);
    p->size = size;
    HASH_ADD(hh, pending, id, MSG_UID_LEN, p);
    return p;
}

static void drop_pending(struct pending *p)
{
    HASH_DEL(pending, p);
    free(p->members);
    free(p);
}

static void announce_made(struct daemon *d, const struct member *members, uint32_t size)
{
    struct bytes b = {0};
    bytes_put_u32(&b, size);
    for (uint32_t i = 0; i < size; i++) {
        bytes_put_u32(&b, members[i].rank);
        bytes_put_u32(&b, members[i].comm);
    }
    link_announce(d, LINK_MADE, &b);
    bytes_free(&b);
}

static struct rank *local_rank(struct daemon *d, uint32_t number)
{
    return number < d->conf->world && d->ranks ? d->ranks[number] : NULL;
}

static void make(struct daemon *d, const int32_t *ranks, const uint32_t *comms, uint32_t size)
{
    int global = graph_add_comm(d->graph, ranks, size);
    for (uint32_t i = 0; i < size; i++) {
        struct rank *r = local_rank(d, (uint32_t)ranks[i]);
        if (!r)
            continue;
        graph_set_member(d->graph, r->number, comms[i], global, (int32_t)i);
        rank_comm_made(r, comms[i], global, (int32_t)size, (int32_t)i);
        struct msg_comm_ready ready = {.comm = comms[i], .size = (int32_t)size, .rank = (int32_t)i};
        settling_answer(r, &ready);
    }
}

static void on_made(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t size = bytes_get_u32(b);
    const size_t pair = 8;
    if (b->bad || (b->len - b->pos) / pair < size || d->phase != PHASE_CAPTURE)
        return;
    int32_t *ranks = calloc(size, sizeof *ranks);
    uint32_t *comms = calloc(size, sizeof *comms);
    if (!ranks || !comms)
        abort();
    bool sound = size;
    for (uint32_t i = 0; i < size; i++) {
        ranks[i] = (int32_t)bytes_get_u32(b);
        comms[i] = bytes_get_u32(b);
        sound = sound && (uint32_t)ranks[i] < d->conf->world && (comms[i] < GRAPH_COMMS_MAX || !local_rank(d, (uint32_t)ranks[i]));
    }
    if (sound)
        make(d, ranks, comms, size);
    else
        daemon_fail(d, PRISM_EXIT_DAEMON, "malformed message of another node (a communicator of %u)", size);
    free(ranks);
    free(comms);
}

static void on_nocolor(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    struct rank *r = local_rank(d, bytes_get_u32(b));
    uint32_t comm = bytes_get_u32(b);
    if (!r || b->bad || comm >= GRAPH_COMMS_MAX || d->phase != PHASE_CAPTURE)
        return;
    graph_set_member(d->graph, r->number, comm, -1, -1);
    rank_comm(r, comm)->used = true;
    struct msg_comm_ready ready = {.comm = comm};
    rank_send_ready(r, &ready, NULL);
    sched_running(d, r);
}

/* "0-2,5": those that have joined, or have not. */
static void list_members(const struct pending *p, bool joined, char *out, size_t len)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < p->size && used + 24 < len; i++) {
        uint32_t last = i;
        if (p->members[i].joined != joined)
            continue;
        while (last + 1 < p->size && p->members[last + 1].joined == joined)
            last++;
        used += (size_t)snprintf(out + used, len - used, last > i ? "%s%u-%u" : "%s%u", used ? "," : "", i, last);
        i = last;
    }
}

static bool is_split(const struct pending *p)
{
    return p->id[MSG_UID_LEN - 1] == 1;
}

/* Folded: members that have not called are absent ones, whose number of it nobody asks for. */
static enum fold_answer make_folded(struct daemon *d, struct pending *p, bool last)
{
    int32_t *callers = malloc(p->size * sizeof *callers), *ranks = malloc(p->size * sizeof *ranks);
    struct member *members = calloc(p->size, sizeof *members);
    if (!callers || !ranks || !members)
        abort();
    for (uint32_t i = 0; i < p->size; i++)
        callers[i] = p->members[i].joined ? (int32_t)p->members[i].rank : -1;
    enum fold_answer answer = fold_members(d->conf->fold, callers, p->size, last, ranks);
    for (uint32_t i = 0; answer == FOLD_WHOLE && i < p->size; i++)
        members[i] = p->members[i].joined ? p->members[i] : (struct member){.rank = (uint32_t)ranks[i], .comm = UINT32_MAX};
    free(callers);
    free(ranks);
    if (answer == FOLD_WHOLE) {
        p->made = true;
        announce_made(d, members, p->size);
    }
    free(members);
    return answer;
}

static void cannot_make(struct daemon *d, const struct pending *p, enum fold_answer answer)
{
    uint32_t first = 0;
    char dimensions[128], callers[256];
    while (first + 1 < p->size && !p->members[first].joined)
        first++;
    fold_describe(d->conf->fold, dimensions, sizeof dimensions);
    list_members(p, true, callers, sizeof callers);
    if (answer == FOLD_SEVERAL)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u makes a communicator of %u, which could be over more than one of the folded dimensions %s: name a sandbox rank "
                    "of another replica too, or fold one of them",
                    p->members[first].rank, p->size, dimensions);
    else
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u makes a communicator of %u, of which the members %s run and have called: the folded dimensions %s give none with "
                    "these; does it split one (then give it as two in --prism-layout, such as dp_shard:8,dp_rep:8), or is the layout "
                    "another?",
                    p->members[first].rank, p->size, callers, dimensions);
}

bool registry_settle(struct daemon *d, bool fail)
{
    struct pending *p, *next, *open = NULL;
    enum fold_answer worst = FOLD_LATER;
    bool any = false;
    HASH_ITER(hh, pending, p, next) {
        if (p->made || is_split(p))
            continue;
        enum fold_answer answer = make_folded(d, p, true);
        any |= answer == FOLD_WHOLE;
        if (answer != FOLD_WHOLE && (!open || answer == FOLD_SEVERAL)) {
            open = p;
            worst = answer;
        }
    }
    if (!any && open && fail)
        cannot_make(d, open, worst);
    return any;
}

static void malformed(struct daemon *d, uint32_t from, uint32_t rank)
{
    daemon_fail(d, PRISM_EXIT_DAEMON, "malformed message of node %u (rank %u makes a communicator)", from, rank);
}

static void on_join(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    const uint8_t *id = bytes_get(b, MSG_UID_LEN);
    uint32_t size = bytes_get_u32(b), place = bytes_get_u32(b), rank = bytes_get_u32(b), comm = bytes_get_u32(b);
    if (b->bad)
        return;
    if (rank >= d->conf->world) {
        malformed(d, from, rank);
        return;
    }
    if (!size || size > d->conf->world || place >= size) {
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u: ncclCommInitRank with rank %u of %u in a world of %u", rank, place, size,
                    d->conf->world);
        return;
    }
    struct pending *p = find_pending(id, size);
    if (p->made) {
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u: comes as member %u of a communicator of %u that was taken for one of ranks that are folded away (members of "
                    "different dimensions call in different order): name a sandbox rank of another replica too, or capture without --prism-fold",
                    rank, place, size);
        return;
    }
    if (p->size != size || p->members[place].joined) {
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u: ncclCommInitRank as rank %u of %u, but %s", rank, place, size,
                    p->size != size ? "another member gave another size" : "that rank is taken");
        return;
    }
    p->members[place] = (struct member){.joined = true, .rank = rank, .comm = comm};
    p->joined++;
    if (d->conf->fold) {
        make_folded(d, p, false);
        return;
    }
    if (p->joined < size)
        return;
    announce_made(d, p->members, size);
    drop_pending(p);
}

static int by_color_and_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->parent_rank - y->parent_rank;
}

static void announce_nocolor(struct daemon *d, const struct member *m)
{
    struct bytes b = {0};
    bytes_put_u32(&b, m->rank);
    bytes_put_u32(&b, m->comm);
    link_announce(d, LINK_NOCOLOR, &b);
    bytes_free(&b);
}

static void make_splits(struct daemon *d, struct pending *p)
{
    qsort(p->members, p->size, sizeof *p->members, by_color_and_key);
    for (uint32_t i = 0; i < p->size;) {
        uint32_t n = 1;
        while (i + n < p->size && p->members[i + n].color == p->members[i].color)
            n++;
        if (p->members[i].color != NOCOLOR)
            announce_made(d, &p->members[i], n);
        for (uint32_t k = i; p->members[i].color == NOCOLOR && k < i + n; k++)
            announce_nocolor(d, &p->members[k]);
        i += n;
    }
}

/* A group's members call with its colour: where one that differs in a folded dimension only has run, it tells whether the group is
 * over that dimension. -1: nobody has. */
static int over_dimensions(const struct fold *f, const struct graph_comm *parent, const struct pending *p, const struct member *group,
                           uint32_t n)
{
    int over = 0, covered = fold_covers(f, parent->ranks, parent->size);
    for (uint32_t k = 0; k < f->ndimensions; k++) {
        const struct fold_dimension *dim = &f->dimensions[k];
        int32_t found = -1;
        if (!(covered >> k & 1))
            continue;
        for (uint32_t i = 0; i < n && found < 0; i++)
            for (uint32_t j = 0; j < p->size && found < 0; j++) {
                const struct member *other = &p->members[j];
                uint32_t apart = other->joined ? fold_displacement(f, group[i].rank, other->rank) : 0;
                bool alone = apart && apart / dim->stride < dim->size && apart % dim->stride == 0;
                if (alone && fold_shift(f, group[i].rank, apart) == other->rank)
                    found = other->color == group[i].color;
            }
        if (found < 0)
            return -1;
        over |= found << k;
    }
    return over;
}

static int by_rank(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int make_folded_split(struct daemon *d, const struct pending *p, struct member *group, uint32_t n)
{
    const struct fold *f = d->conf->fold;
    uint32_t parent, absent = 0;
    memcpy(&parent, p->id, sizeof parent);
    int over = over_dimensions(f, &d->graph->comms[parent], p, group, n);
    char dimensions[128];
    fold_describe(f, dimensions, sizeof dimensions);
    while (absent + 1 < f->world && fold_is_live(f, absent))
        absent++;
    if (over < 0)
        return daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                           "rank %u calls ncclCommSplit, which does not say whether its group is over the folded dimensions (%s): name a sandbox "
                           "rank of another replica too, as --prism-sandbox=0,%u does",
                           group[0].rank, dimensions, absent);
    int32_t *ranks = malloc(n * sizeof *ranks), *all = malloc(f->world * sizeof *all);
    struct member *members = calloc(f->world, sizeof *members);
    if (!ranks || !all || !members)
        abort();
    bool ordered = true;
    for (uint32_t i = 0; i < n; i++) {
        ordered &= !i || group[i].rank > group[i - 1].rank;
        ranks[i] = (int32_t)group[i].rank;
    }
    uint32_t size = over ? fold_spread(f, ranks, n, (unsigned)over, all, f->world) : n;
    for (uint32_t i = 0; i < size; i++) {
        struct member key = {.rank = over ? (uint32_t)all[i] : group[i].rank}, *found = over ? bsearch(&key, group, n, sizeof *group, by_rank) : &group[i];
        members[i] = found ? *found : (struct member){.rank = key.rank, .comm = UINT32_MAX};
    }
    if (over && !ordered)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED, "rank %u calls ncclCommSplit with keys that are not in the order of ranks: where members are "
                    "folded away their keys are not known; capture without --prism-fold", group[0].rank);
    else
        announce_made(d, members, size);
    free(ranks);
    free(all);
    free(members);
    return 0;
}

static void make_folded_splits(struct daemon *d, struct pending *p)
{
    struct member *callers = malloc(p->size * sizeof *callers);
    uint32_t n = 0;
    if (!callers)
        abort();
    for (uint32_t i = 0; i < p->size; i++)
        if (p->members[i].joined)
            callers[n++] = p->members[i];
    qsort(callers, n, sizeof *callers, by_color_and_key);
    for (uint32_t i = 0, k; i < n && !d->stopping; i = k) {
        for (k = i + 1; k < n && callers[k].color == callers[i].color; k++)
            ;
        if (callers[i].color != NOCOLOR)
            make_folded_split(d, p, &callers[i], k - i);
        for (uint32_t j = i; callers[i].color == NOCOLOR && j < k; j++)
            announce_nocolor(d, &callers[j]);
    }
    free(callers);
}

static void on_split(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct member m = {.joined = true};
    uint8_t id[MSG_UID_LEN] = {0};
    uint32_t parent = bytes_get_u32(b), split = bytes_get_u32(b);
    uint32_t place = bytes_get_u32(b);
    m.rank = bytes_get_u32(b);
    m.comm = bytes_get_u32(b);
    m.color = (int32_t)bytes_get_u32(b);
    m.key = (int32_t)bytes_get_u32(b);
    m.parent_rank = (int32_t)place;
    if (b->bad || parent >= d->graph->ncomms || place >= d->graph->comms[parent].size)
        return;
    if (d->graph->comms[parent].ranks[place] != (int32_t)m.rank) {
        malformed(d, from, m.rank);
        return;
    }
    memcpy(id, &parent, sizeof parent);
    memcpy(id + sizeof parent, &split, sizeof split);
    id[MSG_UID_LEN - 1] = 1; /* tokens end in 0 */
    struct pending *p = find_pending(id, d->graph->comms[parent].size);
    if (p->members[place].joined)
        return;
    p->members[place] = m;
    const uint32_t *stand_ins;
    if (++p->joined < folding_live_members(d, (int32_t)parent, &stand_ins))
        return;
    if (stand_ins)
        make_folded_splits(d, p);
    else
        make_splits(d, p);
    drop_pending(p);
}

int registry_comm_init(struct daemon *d, struct rank *r, const struct msg_comm_init *m)
{
    struct bytes b = {0};
    rank_comm(r, m->comm)->used = true;
    bytes_put(&b, m->unique_id, MSG_UID_LEN);
    bytes_put_u32(&b, (uint32_t)m->size);
    bytes_put_u32(&b, (uint32_t)m->rank);
    bytes_put_u32(&b, r->number);
    bytes_put_u32(&b, m->comm);
    sched_blocked(d, r);
    link_send(d, 0, LINK_JOIN, &b);
    bytes_free(&b);
    return 0;
}

int registry_comm_split(struct daemon *d, struct rank *r, const struct msg_comm_split *m)
{
    struct membership *parent = m->parent < r->ncomms ? &r->comms[m->parent] : NULL;
    if (!parent || parent->global < 0)
        return daemon_fail(d, PRISM_EXIT_RANK, "rank %u: ncclCommSplit of a communicator that is not there", r->number);
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)parent->global);
    bytes_put_u32(&b, parent->splits++);
    bytes_put_u32(&b, (uint32_t)parent->rank);
    bytes_put_u32(&b, r->number);
    bytes_put_u32(&b, m->comm);
    bytes_put_u32(&b, (uint32_t)m->color);
    bytes_put_u32(&b, (uint32_t)m->key);
    rank_comm(r, m->comm)->used = true;
    sched_blocked(d, r);
    link_send(d, 0, LINK_SPLIT, &b);
    bytes_free(&b);
    return 0;
}

/* Members of a split are those of the parent, whom we know by world rank; who lacks in an init has no name but a number. */
void registry_tell_pending(const struct daemon *d, void (*tell)(void *arg, const char *text), void *arg)
{
    const struct pending *p, *next;
    HASH_ITER(hh, pending, p, next) {
        char here[256], missing[256], text[700];
        uint32_t parent, first = 0;
        bool split = is_split(p);
        if (p->made)
            continue;
        memcpy(&parent, p->id, sizeof parent);
        list_members(p, true, here, sizeof here);
        list_members(p, false, missing, sizeof missing);
        while (first + 1 < p->size && !p->members[first].joined)
            first++;
        if (split && parent < d->graph->ncomms)
            snprintf(text, sizeof text, "ncclCommSplit of communicator %u: its members %s have called, members %s (of %u) have not (world rank %u "
                     "waits)", parent, here, missing, p->size, p->members[first].rank);
        else
            snprintf(text, sizeof text, "ncclCommInitRank of %u: the ranks %s have called, %s have not (world rank %u waits)", p->size, here,
                     missing, p->members[first].rank);
        tell(arg, text);
    }
}

void registry_begin(struct daemon *d)
{
    settling_begin(d);
    link_on(LINK_JOIN, on_join);
    link_on(LINK_SPLIT, on_split);
    link_on(LINK_MADE, on_made);
    link_on(LINK_NOCOLOR, on_nocolor);
}

void registry_end(struct daemon *d)
{
    struct pending *p, *next;
    settling_end(d);
    HASH_ITER(hh, pending, p, next)
        drop_pending(p);
}
