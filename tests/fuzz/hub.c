/* hub.c - what ranks send the software libnccl's hub: frames of four processes that say which of three ranks they are. What a
 * rank takes home must lie in its answer, so answers are filled before they are read. The input: records of u8 process (bits
 * 0-1) and kind of frame (bits 2-4), u16 length, body. A BATCH's tasks have their sizes made right if bit 7 is set, since no
 * changed input has them right. */
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "softgpu/core/engine.h"
#include "softgpu/nccl/hub_comm.c" /* its list of communicators is emptied after each input */
#include "softgpu/nccl/links.h"
#include "softgpu/nccl/types.h"
#include "tests/fuzz/fuzz.h"

#define FUZZ_HEAD 0u
#include "tests/fuzz/records.h"

const uint32_t fuzz_unit_runs = 60000;

#define PROCESSES 4u

/* A frame may claim more memory than there is; then there is none, as for the hub. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

/* ---- The rest of the library ---- */

static int served;
static volatile uint8_t read_bytes; /* so that every byte handed on is read */

void hub_served(int change)
{
    served += change;
}

struct hub_chunk *hub_chunk_create(uint32_t type, size_t bytes)
{
    size_t all = sizeof(struct hub_chunk) + sizeof(struct sgn_frame) + bytes;
    struct hub_chunk *chunk = all < 1u << 26 ? calloc(1, all) : NULL;
    if (!chunk)
        return NULL;
    chunk->bytes = sizeof(struct sgn_frame) + bytes;
    memcpy(chunk->data, &(struct sgn_frame){.type = type, .bytes = bytes}, sizeof(struct sgn_frame));
    return chunk;
}

void hub_send_chunk(struct hub_conn *conn, struct hub_chunk *chunk)
{
    if (!chunk)
        hub_drop(conn);
    for (size_t i = 0; chunk && i < chunk->bytes; i++)
        read_bytes ^= chunk->data[i];
    free(chunk);
}

void hub_send(struct hub_conn *conn, uint32_t type, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        read_bytes ^= ((const uint8_t *)data)[i];
}

void hub_drop(struct hub_conn *conn)
{
    conn->dead = true;
}

void sgn_doorbell_ring(struct sgn_doorbell *doorbell, enum sgn_bell ring)
{
    abort(); /* nobody has an arena here */
}

double sg_profile_number(const char *name, double fallback)
{
    return strcmp(name, "net_eager_bytes") ? fallback : 64; /* both ways within small inputs */
}

double sg_jitter(uint64_t seed, uint64_t number)
{
    return 1;
}

uint64_t sgn_link(struct sgn_place place, enum sgn_class class, enum sgn_direction direction)
{
    return 0;
}

void sgn_links_lock(void)
{
}

void sgn_links_unlock(void)
{
}

int sgn_links_others(uint64_t link, uint64_t owner, int64_t time_ns)
{
    return 0;
}

void sgn_links_add(uint64_t link, uint64_t owner, int64_t start_ns, int64_t end_ns)
{
    if (end_ns < start_ns)
        abort();
}

/* ---- Frames ---- */

static const uint8_t secret[SGN_SECRET];

static void hello(struct hub_conn *conn, const uint8_t *data, size_t len)
{
    struct sgn_hello h = {0};
    memcpy(&h, data, len < sizeof h ? len : sizeof h);
    if (h.ranks > 1 << 16) /* refused or not, a large world only takes time */
        return;
    hub_comm_hello(conn, &h, secret);
}

static void make_right(const struct hub_conn *conn, uint8_t *body, size_t len)
{
    struct sgn_batch head;
    struct sgn_task *tasks = (void *)(body + sizeof head);
    if (len < sizeof head)
        return;
    memcpy(&head, body, sizeof head);
    for (uint32_t i = 0; i < head.tasks && (i + 1) * sizeof *tasks <= len - sizeof head; i++)
        sgn_task_set_bytes(&tasks[i], conn->rank, conn->comm->ranks);
}

static void frame(struct hub_conn *conn, uint8_t what, const uint8_t *data, size_t len)
{
    uint8_t *body = malloc(len ? len : 1);
    if (!body)
        abort();
    memcpy(body, data, len);
    uint32_t type = conn->comm ? SGN_HELLO + (what >> 2 & 7) % 5 : SGN_HELLO;
    if (what & 0x80 && type == SGN_BATCH)
        make_right(conn, body, len);
    switch (type) {
    case SGN_HELLO: conn->comm ? hub_drop(conn) : hello(conn, body, len); break;
    case SGN_BATCH: hub_match_post(conn, body, len); return;
    case SGN_CONTROL: hub_comm_control(conn, body, len); break;
    case SGN_REVOKE: hub_comm_revoke(conn); break;
    default: hub_comm_leave(conn); break;
    }
    free(body);
}

/* As hub.c ends connections: one that goes may fail its communicator and drop others. */
static void end_dead(struct hub_conn *conns, bool all)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct hub_comm *comm = conns[i].comm;
        if (!comm || !(conns[i].dead || all))
            continue;
        hub_comm_gone(&conns[i]);
        conns[i] = (struct hub_conn){.fd = -1};
        i = UINT32_MAX;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hub_conn conns[PROCESSES] = {{.fd = -1}, {.fd = -1}, {.fd = -1}, {.fd = -1}};
    struct bytes_reader in = bytes_reader_init(data, len);
    for (;;) {
        uint8_t what = bytes_get_u8(&in);
        uint16_t n = bytes_get_u16(&in);
        const void *body = bytes_get(&in, n);
        if (!body)
            break;
        struct hub_conn *conn = &conns[what % PROCESSES];
        if (!conn->dead)
            frame(conn, what, body, n);
        end_dead(conns, false);
    }
    end_dead(conns, true);
    while (comms) { /* those that failed before all had come */
        comm_destroy(comms);
        served++;
    }
    return 0;
}
