/* Prune plans: for random operations, worlds and sandboxes, a sandbox rank gets what the full operation would give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/combine.h"
#include "coll/plan.h"
#include "interpret.h"

enum { WORLD = 16 };

struct world {
    struct coll_operation op;
    char *inputs[WORLD];
    struct coll_premul factors[WORLD];
    int sandbox[WORLD], nsandbox, assistants;
};

static size_t bytes_of(const struct world *w, uint64_t count)
{
    return count * coll_datatype_size(w->op.datatype);
}

static uint64_t input_count(const struct world *w, int rank)
{
    return coll_input_count(w->op.op, w->op.count, rank, w->op.root, w->op.size);
}

static uint64_t output_count(const struct world *w, int rank)
{
    return coll_output_count(w->op.op, w->op.count, rank, w->op.root, w->op.size);
}

/* Reductions: whole numbers, so small that sums and averages over a power of two are exact in every format (E5M2 counts to
 * 8). Else: any bytes. */
static void fill(const struct world *w, int rank, char *data, uint64_t count)
{
    bool zero = rank >= 8 && w->op.datatype == COLL_FLOAT8E5M2;
    size_t size = coll_datatype_size(w->op.datatype);
    for (uint64_t i = 0; i < count; i++) {
        struct coll_premul v = coll_premul_from_double(w->op.redop == COLL_REDOP_PROD ? 1 + (rand() % 8 == 0)
                                                       : zero                         ? 0
                                                                                      : rand() % 2,
                                                       w->op.datatype);
        if (!coll_op_is_reduction(w->op.op))
            v.bits = (uint64_t)rand() << 32 ^ (uint64_t)rand();
        memcpy(data + i * size, &v.bits, size);
    }
}

static int choose_op(void)
{
    return PRISM_OP_ALLREDUCE + rand() % (PRISM_OP_SCATTER - PRISM_OP_ALLREDUCE + 1);
}

static void world_random(struct world *w)
{
    *w = (struct world){.assistants = 1 + rand() % 2};
    w->op = (struct coll_operation){.op = choose_op(),
                                    .size = 1 + rand() % WORLD,
                                    .datatype = rand() % COLL_DATATYPES,
                                    .redop = rand() % COLL_REDOPS,
                                    .count = (uint64_t)(rand() % 40),
                                    .premul = w->factors};
    if (w->op.redop == COLL_REDOP_AVG) {
        w->op.size = 1 << rand() % 5;
        w->op.datatype = COLL_FLOAT16 + rand() % 6;
    }
    w->op.root = rand() % w->op.size;
    for (int r = 0; r < w->op.size; r++) {
        uint64_t n = input_count(w, r);
        w->inputs[r] = malloc(bytes_of(w, n) + 1);
        fill(w, r, w->inputs[r], n);
        w->factors[r] = coll_premul_from_double(rand() % 2, w->op.datatype);
        if (rand() % 3 == 0)
            w->sandbox[w->nsandbox++] = r;
    }
    if (!w->nsandbox)
        w->sandbox[w->nsandbox++] = rand() % w->op.size;
}

static void world_free(struct world *w)
{
    for (int r = 0; r < w->op.size; r++)
        free(w->inputs[r]);
}

static void piece_sum(const struct world *w, const struct coll_plan *plan, int participant,
                      const struct coll_piece *p, char *to)
{
    const void *inputs[WORLD];
    struct coll_premul factors[WORLD];
    int n = 0;
    for (int r = 0; r < w->op.size; r++)
        if (coll_plan_participant(plan, r) == participant) {
            factors[n] = w->factors[r];
            inputs[n++] = w->inputs[r] + bytes_of(w, p->input_offset);
        }
    int redop = w->op.redop == COLL_REDOP_AVG ? COLL_REDOP_SUM : w->op.redop;
    assert_int_equal(coll_reduce(to, inputs, n, p->count, p->datatype, redop, factors, NULL), 0);
}

/* What a piece says of where else its bytes lie must be true. */
static void check_source(const struct world *w, const struct coll_piece *p, const char *bytes)
{
    char *out = malloc(bytes_of(w, output_count(w, p->receiver)) + 1);
    assert_int_equal(coll_combine(&w->op, (const void *const *)w->inputs, p->receiver, out, NULL), 0);
    assert_memory_equal(out + bytes_of(w, p->output_offset), bytes, bytes_of(w, p->count));
    free(out);
}

static void make_payload(const struct world *w, const struct coll_plan *plan, int participant, char *payload)
{
    const struct coll_side *side = &plan->sides[participant];
    for (size_t i = 0; i < side->npieces; i++) {
        const struct coll_piece *p = &side->pieces[i];
        char *to = payload + bytes_of(w, p->target);
        assert_true(p->target + p->count <= side->payload_count);
        if (p->kind == COLL_PIECE_SUM) {
            piece_sum(w, plan, participant, p, to);
        } else {
            assert_int_equal(coll_plan_participant(plan, p->rank), participant);
            memcpy(to, w->inputs[p->rank] + bytes_of(w, p->input_offset), bytes_of(w, p->count));
            check_source(w, p, to);
        }
    }
}

static struct coll_premul factor_of(const struct world *w, const struct coll_plan *plan, int participant)
{
    if (plan->average_of)
        return coll_premul_from_double(1.0 / plan->average_of, w->op.datatype);
    return participant < plan->nsandbox ? w->factors[plan->sides[participant].rank]
                                        : coll_premul_from_double(1, w->op.datatype);
}

static void run_plan(const struct world *w, const struct coll_plan *plan, char **out)
{
    struct interpret_side sides[WORLD + COLL_ASSISTANTS_MAX] = {0};
    char *sends[WORLD];
    const char *why = "?";
    for (int i = 0; i < plan->nsandbox + plan->nassistants; i++) {
        const struct coll_side *side = &plan->sides[i];
        sides[i].factor = factor_of(w, plan, i);
        if (i < plan->nsandbox) {
            sends[i] = w->inputs[side->rank];
            sides[i].send = &sends[i];
            sides[i].recv = &out[i];
            continue;
        }
        sides[i].payload = malloc(bytes_of(w, side->payload_count) + 1);
        sides[i].scratch = calloc(bytes_of(w, side->scratch_count) + 1, 1);
        make_payload(w, plan, i, sides[i].payload);
    }
    if (interpret(plan, sides, &why))
        fail_msg("%s: %s", prism_op_name(w->op.op), why);
    for (int i = plan->nsandbox; i < plan->nsandbox + plan->nassistants; i++) {
        free(sides[i].payload);
        free(sides[i].scratch);
    }
}

static void compare_with_full(const struct world *w, const struct coll_plan *plan, char **out)
{
    for (int i = 0; i < plan->nsandbox; i++) {
        int rank = plan->sides[i].rank;
        size_t bytes = bytes_of(w, output_count(w, rank));
        char *full = malloc(bytes + 1);
        assert_int_equal(coll_combine(&w->op, (const void *const *)w->inputs, rank, full, NULL), 0);
        if (bytes && memcmp(full, out[i], bytes))
            fail_msg("%s of %d (root %d, count %ju) %s %s: rank %d differs", prism_op_name(w->op.op),
                     w->op.size, w->op.root, (uintmax_t)w->op.count, coll_datatype_name(w->op.datatype),
                     coll_redop_name(w->op.redop), rank);
        free(full);
    }
}

static void one_world(unsigned seed)
{
    struct world w;
    char *out[WORLD];
    struct prism_error err = {0};
    srand(seed);
    world_random(&w);
    struct coll_request rq = {.op = w.op.op,
                              .size = w.op.size,
                              .root = w.op.root,
                              .datatype = w.op.datatype,
                              .redop = w.op.redop,
                              .count = w.op.count,
                              .sandbox = w.sandbox,
                              .nsandbox = w.nsandbox,
                              .assistants = w.assistants};
    struct coll_plan *plan = coll_plan_create(&rq, &err);
    if (!plan)
        fail_msg("%s", err.text);
    assert_true(plan->nassistants <= w.assistants && plan->nassistants <= w.op.size - w.nsandbox);
    for (int i = 0; i < w.nsandbox; i++)
        out[i] = calloc(bytes_of(&w, output_count(&w, w.sandbox[i])) + 1, 1);
    run_plan(&w, plan, out);
    compare_with_full(&w, plan, out);
    for (int i = 0; i < w.nsandbox; i++)
        free(out[i]);
    coll_plan_destroy(plan);
    world_free(&w);
}

static void sandbox_ranks_get_the_full_result(void **state)
{
    for (unsigned seed = 1; seed <= 6000; seed++)
        one_world(seed);
}

/* --- groups of sends and receives --- */

enum { PAIR_MAX = 3 };

struct mail {
    int world;
    struct {
        int n;
        uint64_t count[PAIR_MAX];
        int datatype[PAIR_MAX];
    } pairs[WORLD][WORLD];
    struct coll_message lists[WORLD][2 * WORLD * PAIR_MAX];
    char *buffers[WORLD][2 * WORLD * PAIR_MAX];
    size_t counts[WORLD];
};

static char letter(int from, int to, int n, size_t byte)
{
    return (char)(from * 31 + to * 7 + n * 3 + (int)byte);
}

static size_t message_bytes(const struct coll_message *m)
{
    return m->count * coll_datatype_size(m->datatype);
}

/* Rank's own list in random order; messages of one pair and direction keep theirs. */
static void write_list(struct mail *m, int rank)
{
    int next[2][WORLD] = {{0}}, left = 0;
    for (int peer = 0; peer < m->world; peer++)
        left += m->pairs[rank][peer].n + m->pairs[peer][rank].n;
    while (left) {
        int peer = rand() % m->world, receives = rand() % 2, n = next[receives][peer];
        int from = receives ? peer : rank, to = receives ? rank : peer;
        if (n == m->pairs[from][to].n)
            continue;
        struct coll_message *msg = &m->lists[rank][m->counts[rank]];
        *msg = (struct coll_message){receives ? PRISM_OP_RECV : PRISM_OP_SEND, peer,
                                     m->pairs[from][to].count[n], m->pairs[from][to].datatype[n]};
        char *buffer = calloc(message_bytes(msg) + 1, 1);
        for (size_t i = 0; !receives && i < message_bytes(msg); i++)
            buffer[i] = letter(from, to, n, i);
        m->buffers[rank][m->counts[rank]++] = buffer;
        next[receives][peer]++;
        left--;
    }
}

static void mail_random(struct mail *m)
{
    memset(m, 0, sizeof *m);
    m->world = 1 + rand() % 9;
    for (int a = 0; a < m->world; a++)
        for (int b = 0; b < m->world; b++)
            for (m->pairs[a][b].n = 0; m->pairs[a][b].n < PAIR_MAX && rand() % 2; m->pairs[a][b].n++) {
                m->pairs[a][b].count[m->pairs[a][b].n] = (uint64_t)(rand() % 30);
                m->pairs[a][b].datatype[m->pairs[a][b].n] = rand() % COLL_DATATYPES;
            }
    for (int r = 0; r < m->world; r++)
        write_list(m, r);
}

/* Number of a receive among those from the same peer. */
static int order_of(const struct mail *m, int rank, size_t part)
{
    int n = 0;
    for (size_t k = 0; k < part; k++)
        n += m->lists[rank][k].op == m->lists[rank][part].op &&
             m->lists[rank][k].peer == m->lists[rank][part].peer;
    return n;
}

static void fill_mail_payload(const struct mail *m, const struct coll_side *side, char *payload)
{
    for (size_t i = 0; i < side->npieces; i++) {
        const struct coll_piece *p = &side->pieces[i];
        size_t size = coll_datatype_size(p->datatype);
        assert_int_equal(m->lists[p->receiver][p->part].peer, p->rank);
        assert_int_equal(p->target % size, 0);
        assert_true(p->target + p->count * size <= side->payload_count);
        for (size_t b = 0; b < p->count * size; b++)
            payload[p->target + b] = letter(p->rank, p->receiver, order_of(m, p->receiver, p->part), b);
    }
}

static void check_mail(const struct mail *m, int rank)
{
    for (size_t k = 0; k < m->counts[rank]; k++) {
        const struct coll_message *msg = &m->lists[rank][k];
        for (size_t b = 0; msg->op == PRISM_OP_RECV && b < message_bytes(msg); b++)
            assert_int_equal(m->buffers[rank][k][b], letter(msg->peer, rank, order_of(m, rank, k), b));
    }
}

static void one_mail(unsigned seed)
{
    static struct mail m;
    struct prism_error err = {0};
    struct interpret_side sides[WORLD + COLL_ASSISTANTS_MAX] = {0};
    const struct coll_message *lists[WORLD];
    size_t counts[WORLD];
    int sandbox[WORLD], n = 0;
    const char *why = "?";
    srand(seed);
    mail_random(&m);
    for (int r = 0; r < m.world; r++)
        if (rand() % 2 || (r == m.world - 1 && !n)) {
            lists[n] = m.lists[r];
            counts[n] = m.counts[r];
            sandbox[n++] = r;
        }
    struct coll_plan *plan = coll_plan_messages(m.world, sandbox, n, 1 + rand() % 2, lists, counts, &err);
    if (!plan)
        fail_msg("%s", err.text);
    for (int i = 0; i < n; i++)
        sides[i].send = sides[i].recv = m.buffers[sandbox[i]];
    for (int i = n; i < n + plan->nassistants; i++) {
        sides[i].payload = calloc(plan->sides[i].payload_count + 1, 1);
        sides[i].scratch = calloc(plan->sides[i].scratch_count + 1, 1);
        fill_mail_payload(&m, &plan->sides[i], sides[i].payload);
    }
    if (interpret(plan, sides, &why))
        fail_msg("%s", why);
    for (int i = 0; i < n; i++)
        check_mail(&m, sandbox[i]);
    for (int i = n; i < n + plan->nassistants; i++) {
        free(sides[i].payload);
        free(sides[i].scratch);
    }
    coll_plan_destroy(plan);
    for (int r = 0; r < m.world; r++)
        for (size_t k = 0; k < m.counts[r]; k++)
            free(m.buffers[r][k]);
}

static void groups_deliver_every_message(void **state)
{
    for (unsigned seed = 1; seed <= 1000; seed++)
        one_mail(seed);
}

/* --- the rest --- */

static void scales_with_count(void **state)
{
    const int sandbox[] = {1, 5};
    for (int op = PRISM_OP_ALLREDUCE; op <= PRISM_OP_SCATTER; op++) {
        struct coll_request rq = {.op = op,
                                  .size = 8,
                                  .root = 2,
                                  .datatype = COLL_FLOAT32,
                                  .count = 1,
                                  .sandbox = sandbox,
                                  .nsandbox = 2,
                                  .assistants = 2};
        struct coll_plan *one = coll_plan_create(&rq, NULL);
        rq.count = 7;
        struct coll_plan *seven = coll_plan_create(&rq, NULL);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(one->sides[i].ncalls, seven->sides[i].ncalls);
            assert_int_equal(7 * one->sides[i].payload_count, seven->sides[i].payload_count);
            assert_int_equal(7 * one->sides[i].scratch_count, seven->sides[i].scratch_count);
            for (size_t k = 0; k < one->sides[i].ncalls; k++) {
                assert_int_equal(7 * one->sides[i].calls[k].count, seven->sides[i].calls[k].count);
                assert_int_equal(7 * one->sides[i].calls[k].from.offset,
                                 seven->sides[i].calls[k].from.offset);
                assert_int_equal(7 * one->sides[i].calls[k].to.offset, seven->sides[i].calls[k].to.offset);
            }
        }
        coll_plan_destroy(one);
        coll_plan_destroy(seven);
    }
}

static void virtual_runs_are_merged(void **state)
{
    const int sandbox[] = {0, 513};
    struct coll_request rq = {.op = PRISM_OP_ALLTOALL,
                              .size = 1024,
                              .datatype = COLL_BFLOAT16,
                              .count = 3,
                              .sandbox = sandbox,
                              .nsandbox = 2,
                              .assistants = 1};
    struct coll_plan *plan = coll_plan_create(&rq, NULL);
    /* own copy, one send and receive with the other, and with each of the runs 1-512 and 514-1023 */
    assert_int_equal(plan->sides[0].ncalls, 1 + 2 + 2 * 2);
    struct coll_volume v = coll_plan_volume(plan, 0),
                       full = coll_full_volume(PRISM_OP_ALLTOALL, 3, COLL_BFLOAT16, 1024, 0, 0);
    assert_int_equal(v.sent, full.sent);
    assert_int_equal(v.received, full.received);
    assert_int_equal(plan->sides[2].rank, 1);
    coll_plan_destroy(plan);
}

static void volumes(void **state)
{
    struct coll_volume v = coll_full_volume(PRISM_OP_ALLREDUCE, 1000, COLL_FLOAT32, 8, 0, 3);
    assert_int_equal(v.sent, 7000);
    assert_int_equal(v.received, 7000);
    v = coll_full_volume(PRISM_OP_BROADCAST, 10, COLL_INT8, 4, 2, 2);
    assert_int_equal(v.sent, 10);
    assert_int_equal(v.received, 0);
    v = coll_full_volume(PRISM_OP_BROADCAST, 10, COLL_INT8, 4, 2, 1);
    assert_int_equal(v.sent, 0);
    assert_int_equal(v.received, 10);
    v = coll_full_volume(PRISM_OP_GATHER, 10, COLL_INT8, 4, 2, 2);
    assert_int_equal(v.received, 30);
}

static void expect_refusal(struct coll_request rq, const char *text)
{
    struct prism_error err = {0};
    assert_null(coll_plan_create(&rq, &err));
    assert_int_equal(err.code, PRISM_EXIT_UNSUPPORTED);
    assert_non_null(strstr(err.text, text));
}

static void refusals_name_the_operation(void **state)
{
    const int sandbox[] = {1, 0}, far[] = {9};
    struct coll_request ok = {.op = PRISM_OP_ALLREDUCE,
                              .size = 8,
                              .datatype = COLL_INT32,
                              .sandbox = sandbox,
                              .nsandbox = 1,
                              .assistants = 1},
                        rq;
    rq = ok, rq.redop = COLL_REDOP_AVG, expect_refusal(rq, "AllReduce: the average of int32");
    rq = ok, rq.nsandbox = 2, expect_refusal(rq, "AllReduce");
    rq = ok, rq.sandbox = far, expect_refusal(rq, "sandbox rank 9");
    rq = ok, rq.assistants = 3, expect_refusal(rq, "3 assistants");
    rq = ok, rq.op = PRISM_OP_SEND, expect_refusal(rq, "Send");
    rq = ok, rq.op = 77, expect_refusal(rq, "?");
    rq = ok, rq.op = PRISM_OP_SCATTER, rq.root = 8, expect_refusal(rq, "Scatter: root 8");
    rq = ok, rq.datatype = 99, expect_refusal(rq, "datatype 99");
    struct coll_message bad = {PRISM_OP_SEND, 8, 1, COLL_INT8};
    const struct coll_message *lists[] = {&bad};
    size_t one = 1;
    struct prism_error err = {0};
    assert_null(coll_plan_messages(8, sandbox, 1, 1, lists, &one, &err));
    assert_non_null(strstr(err.text, "Send"));
}

/* What a rank sends to itself is not copied beyond the end of either buffer. */
static void sizes_of_a_message_to_oneself_may_differ(void **state)
{
    (void)state;
    for (uint64_t sent = 3; sent <= 7; sent += 4) {
        const struct coll_message pair[] = {{PRISM_OP_SEND, 0, sent, COLL_FLOAT32}, {PRISM_OP_RECV, 0, 5, COLL_FLOAT32}};
        const struct coll_message *lists[] = {pair};
        const int sandbox[] = {0};
        size_t two = 2;
        struct prism_error err = {0};
        struct coll_plan *plan = coll_plan_messages(8, sandbox, 1, 1, lists, &two, &err);
        assert_non_null(plan);
        assert_int_equal(plan->sides[0].ncalls, 1);
        assert_int_equal(plan->sides[0].calls[0].kind, COLL_CALL_COPY);
        assert_int_equal(plan->sides[0].calls[0].count, sent < 5 ? sent : 5);
        coll_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sandbox_ranks_get_the_full_result),
        cmocka_unit_test(groups_deliver_every_message),
        cmocka_unit_test(sizes_of_a_message_to_oneself_may_differ),
        cmocka_unit_test(scales_with_count),
        cmocka_unit_test(virtual_runs_are_merged),
        cmocka_unit_test(volumes),
        cmocka_unit_test(refusals_name_the_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
