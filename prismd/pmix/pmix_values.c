#include <stdlib.h>

#include "common/log.h"
#include "prismd/link/link.h"
#include "prismd/pmix/pmix_private.h"

/* A question to one of this node's servers. */
struct ask {
    uint64_t id;
    uint32_t from, server, rank; /* physical node and server that ask */
    uint64_t token;
    struct ask *next;
};

static struct ask *asks;
static uint64_t asked;

void pmix_record(struct daemon *d, uint32_t rank, uint32_t fence, const void *data, size_t len)
{
    struct bytes b = {0};
    if (d->phase != PHASE_CAPTURE || !len)
        return;
    pmix_say(&b, SAY_PUT);
    bytes_put_u32(&b, rank);
    bytes_put_u32(&b, fence);
    bytes_put_string(&b, px.version);
    bytes_put(&b, data, len);
    link_send(d, 0, LINK_PMIX, &b);
    bytes_free(&b);
}

void pmix_on_put(struct bytes_reader *r)
{
    uint32_t rank = bytes_get_u32(r), fence = bytes_get_u32(r);
    char *version = bytes_get_string(r);
    if (version && !r->bad && px.log) {
        pmix_log_set_version(px.log, version);
        pmix_log_add(px.log, rank, fence, r->data + r->pos, r->len - r->pos);
    }
    free(version);
}

static void answer_get(uint32_t server, uint64_t token, uint32_t result, const void *data, size_t len)
{
    struct bytes b = {0};
    if (server >= px.world.servers || !px.nodes[server])
        return;
    bytes_put_u64(&b, token);
    bytes_put_u32(&b, result);
    bytes_put(&b, data, len);
    pmix_node_send(px.nodes[server], PMIX_WIRE_ANSWER, &b);
    bytes_free(&b);
}

/* Fences that the ranks of a server have behind them. */
static uint32_t passed_on(uint32_t server)
{
    uint32_t most = 0;
    for (uint32_t r = px.world.first[server]; r < px.world.end[server]; r++)
        if (px.world.server[r] == server && px.passed[r] > most)
            most = px.passed[r];
    return most;
}

static void answer_from_trace(const struct daemon *d, uint32_t server, uint64_t token, uint32_t rank, const char *key)
{
    const struct pmix_record *r = px.log ? pmix_log_find(px.log, rank, passed_on(server), key) : NULL;
    if (r) {
        answer_get(server, token, PMIX_WIRE_FOUND, r->data, r->len);
        return;
    }
    if (!px.warned)
        log_warn("PMIx: a rank of logical node %u asks what rank %u has put (%s), and the trace has nothing of it; was the program "
                 "changed since capture?", pmix_logical_node(d, server), rank, *key ? key : "anything");
    px.warned = true;
    answer_get(server, token, PMIX_WIRE_NOT_FOUND, NULL, 0);
}

static void tell(struct daemon *d, const struct ask *a, uint32_t result, const void *data, size_t len)
{
    struct bytes b = {0};
    pmix_say(&b, SAY_TOLD);
    bytes_put_u32(&b, a->server);
    bytes_put_u64(&b, a->token);
    bytes_put_u32(&b, result);
    bytes_put(&b, data, len);
    link_send(d, a->from, LINK_PMIX, &b);
    bytes_free(&b);
}

/* A rank of this node is asked for; its server answers once it has committed. */
void pmix_on_ask(struct daemon *d, uint32_t from, struct bytes_reader *r)
{
    struct ask question = {.id = ++asked, .from = from, .server = bytes_get_u32(r), .token = bytes_get_u64(r)};
    question.rank = bytes_get_u32(r);
    if (r->bad || question.rank >= px.world.world || !pmix_server_of(question.rank))
        return;
    if (px.world.ended[question.rank] && !px.joined[question.rank]) {
        tell(d, &question, PMIX_WIRE_NOT_FOUND, NULL, 0);
        return;
    }
    struct ask *a = malloc(sizeof *a);
    if (!a)
        abort();
    *a = question;
    a->next = asks;
    asks = a;
    struct bytes b = {0};
    bytes_put_u64(&b, a->id);
    bytes_put_u32(&b, a->rank);
    pmix_node_send(pmix_server_of(a->rank), PMIX_WIRE_ASK, &b);
    bytes_free(&b);
}

void pmix_on_told(struct bytes_reader *r)
{
    uint32_t server = bytes_get_u32(r);
    uint64_t token = bytes_get_u64(r);
    uint32_t result = bytes_get_u32(r);
    if (!r->bad)
        answer_get(server, token, result, r->data + r->pos, r->len - r->pos);
}

void pmix_drop_asks_of(struct daemon *d, uint32_t rank)
{
    for (struct ask **at = &asks; *at;) {
        struct ask *a = *at;
        if (a->rank != rank) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        tell(d, a, PMIX_WIRE_NOT_FOUND, NULL, 0);
        free(a);
    }
}

void pmix_on_server_get(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    uint64_t token = bytes_get_u64(r);
    uint32_t rank = bytes_get_u32(r);
    char *key = bytes_get_string(r);
    if (rank >= px.world.world) {
        answer_get(server, token, PMIX_WIRE_NOT_FOUND, NULL, 0);
    } else if (px.world.server[rank] == PMIX_ABSENT) {
        answer_from_trace(d, server, token, rank, key ? key : "");
    } else {
        struct bytes b = {0};
        pmix_say(&b, SAY_ASK);
        bytes_put_u32(&b, server);
        bytes_put_u64(&b, token);
        bytes_put_u32(&b, rank);
        link_send(d, px.home[px.world.server[rank]], LINK_PMIX, &b);
        bytes_free(&b);
    }
    free(key);
}

void pmix_on_server_told(struct daemon *d, struct bytes_reader *r)
{
    uint64_t id = bytes_get_u64(r);
    uint32_t result = bytes_get_u32(r);
    struct ask **at = &asks, *a;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    if (!(a = *at) || r->bad)
        return;
    *at = a->next;
    pmix_record(d, a->rank, px.passed[a->rank] + 1, r->data + r->pos, r->len - r->pos);
    tell(d, a, result, r->data + r->pos, r->len - r->pos);
    free(a);
}

void pmix_values_end(void)
{
    for (struct ask *next; asks; asks = next) {
        next = asks->next;
        free(asks);
    }
    px.warned = false;
}
