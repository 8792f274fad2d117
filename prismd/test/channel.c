/* channel.c - messages in capture arrive as they were sent, however ranks group them and whoever comes first, although what is sent
 * stays in the sender's region until its group opens; and in an all-to-all it is copied nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/types.h"
#include "graph/fold.h"
#include "prismd/capture/channel.h"
#include "prismd/folding/folding.h"

enum { RANKS = 5, FOLDS = 4, PARTS = 4 * FOLDS, BYTES_MOST = 40, REGION = PARTS * BYTES_MOST, GROUPS_MOST = 64 };

static struct conf conf = {.world = RANKS, .gpus_per_node = RANKS, .nodes = 1};
static int32_t members[RANKS] = {0, 1, 2, 3, 4};
static struct graph_comm comm = {.size = RANKS, .ranks = members};
static struct graph graph = {.world = RANKS, .comms = &comm, .ncomms = 1};
static uint32_t running = RANKS; /* of these; the others are folded away */
static struct rank ranks[RANKS], *rank_list[2 * FOLDS];
static struct membership memberships[RANKS];
static struct daemon daemon_ = {.conf = &conf, .graph = &graph, .ranks = rank_list, .phase = PHASE_CAPTURE};

static struct group groups[RANKS][GROUPS_MOST];
static uint32_t ngroups[RANKS], next_group[RANKS]; /* of a rank: the one that arrives next, or has arrived and not opened */
static uint32_t settled; /* messages that were copied since their group was about to open */

/* What is in message number `sequence` between the two. */
static uint8_t content(int from, int to, uint32_t sequence, uint64_t at)
{
    return (uint8_t)(from * 97 + to * 31 + (int)sequence * 7 + (int)at);
}

/* Whose bytes come from there. */
static int sender(int32_t peer)
{
    return conf.fold ? peer % 2 : peer;
}

static uint64_t bytes_of(int from, int to, uint32_t sequence)
{
    return (uint64_t)(from * 3 + to * 5 + (int)sequence * 11) % BYTES_MOST; /* none, too */
}

static void served(struct daemon *d, struct group *g)
{
    if (--g->pending)
        return;
    settled += g->staying;
    channel_settle(d, g);
    for (uint32_t i = 0; i < g->nparts; i++) {
        const struct msg_part *p = &g->parts[i];
        for (uint64_t k = 0; p->op == PRISM_OP_RECV && k < p->out_bytes; k++)
            assert_int_equal(g->rank->region[p->out_offset + k], content(sender(p->peer), (int)g->rank->number, g->sequence[i], k));
    }
    memset(g->rank->region, 0x77, REGION); /* it is the rank's again */
    g->opened = true;
    next_group[g->rank->number]++;
}

/* As capture.c has it. */
static void arrive(struct group *g)
{
    g->arrived = true;
    for (uint32_t i = 0; i < g->nparts; i++)
        for (uint64_t k = 0; g->parts[i].op == PRISM_OP_SEND && k < g->parts[i].in_bytes; k++)
            g->rank->region[g->parts[i].in_offset + k] = content((int)g->rank->number, g->parts[i].peer, g->sequence[i], k);
    g->pending = g->nparts + 1;
    for (uint32_t i = 0; i < g->nparts; i++)
        if (g->parts[i].op == PRISM_OP_RECV)
            channel_recv(&daemon_, g, i);
    for (uint32_t i = 0; i < g->nparts; i++)
        if (g->parts[i].op == PRISM_OP_SEND) {
            channel_send(&daemon_, g, i);
            g->pending--;
        }
    served(&daemon_, g);
}

static struct group *new_group(uint32_t rank)
{
    struct group *g = &groups[rank][ngroups[rank]++];
    assert_true(ngroups[rank] <= GROUPS_MOST);
    *g = (struct group){.rank = &ranks[rank], .parts = calloc(PARTS, sizeof *g->parts), .sequence = calloc(PARTS, sizeof *g->sequence)};
    return g;
}

static void add_part(struct group *g, int op, uint32_t peer, uint32_t sequence)
{
    int me = (int)g->rank->number, from = op == PRISM_OP_SEND ? me : sender((int32_t)peer), to = op == PRISM_OP_SEND ? (int)peer : me;
    uint64_t place = g->nparts * BYTES_MOST, bytes = bytes_of(from, to, sequence);
    struct msg_part p = {.op = (uint8_t)op, .peer = (int32_t)peer};
    if (op == PRISM_OP_SEND) {
        p.in_offset = place;
        p.in_bytes = bytes;
    } else {
        p.out_offset = place;
        p.out_bytes = bytes;
    }
    g->sequence[g->nparts] = sequence;
    g->parts[g->nparts++] = p;
}

/* Everything that was planned, ranks in an order by chance. */
static void run(void)
{
    for (uint32_t done = 0; done < running;) {
        uint32_t r = (uint32_t)rand() % running, tried = 0;
        while (tried < running && (next_group[r] == ngroups[r] || groups[r][next_group[r]].arrived)) {
            r = (r + 1) % running;
            tried++;
        }
        assert_true(tried < running); /* else they all wait */
        arrive(&groups[r][next_group[r]]);
        for (done = 0; done < running && next_group[done] == ngroups[done];)
            done++;
    }
}

static void begin(void)
{
    channel_begin(served);
    settled = 0;
    for (uint32_t r = 0; r < running; r++) {
        ngroups[r] = next_group[r] = 0;
        memberships[r] = (struct membership){.global = 0, .rank = (int32_t)r, .size = comm.size};
        ranks[r] = (struct rank){.daemon = &daemon_, .number = r, .region = calloc(1, REGION), .comms = &memberships[r]};
        rank_list[r] = &ranks[r];
    }
}

static void end(void)
{
    channel_end();
    for (uint32_t r = 0; r < running; r++) {
        for (uint32_t i = 0; i < ngroups[r]; i++) {
            assert_int_equal(groups[r][i].staying, 0);
            free(groups[r][i].parts);
            free(groups[r][i].sequence);
        }
        free(ranks[r].region);
    }
    assert_int_equal(daemon_.failure.code, 0);
}

/* Phases in which some pairs have a message. A rank has its part of one in a group, or sends first: it never waits before it sends. */
static void messages_by_chance(void **state)
{
    uint32_t copied = 0;
    (void)state;
    for (unsigned seed = 0; seed < 300; seed++) {
        uint32_t sequence[RANKS][RANKS] = {0};
        srand(seed);
        begin();
        for (int phase = 0; phase < 8; phase++) {
            bool sent[RANKS][RANKS];
            for (uint32_t a = 0; a < RANKS; a++)
                for (uint32_t b = 0; b < RANKS; b++)
                    sent[a][b] = rand() % 2;
            for (uint32_t r = 0; r < RANKS; r++) {
                struct group *first = new_group(r), *second = rand() % 2 ? first : new_group(r);
                for (uint32_t peer = 0; peer < RANKS; peer++) {
                    if (sent[r][peer])
                        add_part(first, PRISM_OP_SEND, peer, sequence[r][peer]);
                    if (sent[peer][r])
                        add_part(second, PRISM_OP_RECV, peer, sequence[peer][r]);
                }
            }
            for (uint32_t a = 0; a < RANKS; a++)
                for (uint32_t b = 0; b < RANKS; b++)
                    sequence[a][b] += sent[a][b];
        }
        run();
        copied += settled;
        end();
    }
    assert_true(copied > 0);
}

static void all_to_all_is_not_copied(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 50; seed++) {
        srand(seed);
        begin();
        for (uint32_t round = 0; round < 8; round++)
            for (uint32_t r = 0; r < RANKS; r++) {
                struct group *g = new_group(r);
                for (uint32_t peer = 0; peer < RANKS; peer++) {
                    add_part(g, PRISM_OP_SEND, peer, round);
                    add_part(g, PRISM_OP_RECV, peer, round);
                }
            }
        run();
        assert_int_equal(settled, 0);
        end();
    }
}

/* Of a folded world of 2 x 4, ranks 0 and 1 run: what one sends goes to all for whom it stands, in letters of one content. */
static void folded(void **state)
{
    static int32_t eight[2 * FOLDS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct fold_dimension dimensions[] = {{.name = "tp", .size = 2}, {.name = "dp", .size = FOLDS, .folded = true}};
    const struct graph_comm whole = comm;
    uint32_t sandbox = 0, copied = 0;
    (void)state;
    assert_non_null(conf.fold = fold_create(dimensions, 2, &sandbox, 1));
    comm = (struct graph_comm){.size = 2 * FOLDS, .ranks = eight};
    running = 2;
    for (unsigned seed = 0; seed < 200; seed++) {
        srand(seed);
        begin();
        for (uint32_t round = 0; round < 6; round++)
            for (uint32_t r = 0; r < running; r++) {
                struct group *first = new_group(r), *second = rand() % 2 ? first : new_group(r);
                for (uint32_t peer = 0; peer < comm.size; peer++) {
                    add_part(first, PRISM_OP_SEND, peer, round);
                    add_part(second, PRISM_OP_RECV, peer, round);
                }
            }
        run();
        copied += settled;
        end();
    }
    assert_true(copied > 0);
    folding_end(&daemon_);
    fold_destroy(conf.fold);
    conf.fold = NULL;
    comm = whole;
    running = RANKS;
}

/* A rank that has ended, whose last all-to-all is seen only then. */
static void ended_ranks_meet_themselves(void **state)
{
    (void)state;
    begin();
    channel_rank_left(&daemon_, 0);
    struct group *g = new_group(0);
    add_part(g, PRISM_OP_SEND, 0, 0);
    add_part(g, PRISM_OP_RECV, 0, 0);
    run();
    end();
}

/* The run ends with messages under way: groups and regions may be gone by then. */
static void ends_while_messages_stay(void **state)
{
    (void)state;
    begin();
    struct group *g = new_group(0);
    add_part(g, PRISM_OP_SEND, 1, 0);
    add_part(g, PRISM_OP_RECV, 2, 0);
    arrive(g);
    assert_int_equal(g->staying, 1);
    g->staying = 0;
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_by_chance), cmocka_unit_test(all_to_all_is_not_copied),    cmocka_unit_test(folded),
        cmocka_unit_test(ended_ranks_meet_themselves), cmocka_unit_test(ends_while_messages_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
