/* message_seeds.c - the seeds op1 to op10 of messages.c, made of today's structures: one operation of two ranks. They must be what lies
 * in the corpus, and none may be refused. PRISM_FUZZ_SEEDS=1 writes them there anew, for when a structure has changed. And what ranks
 * say in the other seeds, of links.c too, is not shorter than it is today. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/types.h"
#include "common/bytes.h"
#include "common/file.h"
#include "graph/graph.h"
#include "proto/message.h"
#include "proto/region.h"
#include "tests/fuzz/fuzz.h"

#define COUNT 4u

extern bool fuzz_messages_refused; /* messages.c: the last input */

static void put(struct bytes *out, int rank, const void *message, size_t len)
{
    bytes_put_u8(out, (uint8_t)(rank << 1));
    bytes_put_u16(out, (uint16_t)len);
    bytes_put(out, message, len);
}

/* Of a message the other rank does the other half. */
static struct msg_part part_of(int op, int rank)
{
    struct msg_part p = {.op = (uint8_t)op, .datatype = COLL_FLOAT32, .peer = coll_op_is_rooted(op) ? 0 : -1, .count = COUNT};
    uint64_t element = coll_datatype_size(COLL_FLOAT32);
    p.in_offset = REGION_HEAP_OFFSET;
    p.out_offset = REGION_HEAP_OFFSET + 64;
    if (!coll_op_is_p2p(op)) {
        p.in_bytes = element * coll_input_count(op, COUNT, rank, p.peer, 2);
        p.out_bytes = element * coll_output_count(op, COUNT, rank, p.peer, 2);
        return p;
    }
    p.peer = 1 - rank;
    if (rank)
        p.op = op == PRISM_OP_SEND ? PRISM_OP_RECV : PRISM_OP_SEND;
    *(p.op == PRISM_OP_SEND ? &p.in_bytes : &p.out_bytes) = element * COUNT;
    return p;
}

static void make_seed(int op, struct bytes *out)
{
    for (int rank = 0; rank < 2; rank++) {
        struct msg_comm_init init = {.h = {MSG_COMM_INIT, sizeof init}, .size = 2, .rank = rank};
        memset(init.unique_id, 1, sizeof init.unique_id);
        put(out, rank, &init, sizeof init);
    }
    for (int rank = 0; rank < 2; rank++) {
        struct {
            struct msg_node node;
            struct msg_part part;
        } m = {{.h = {MSG_NODE, sizeof m}, .kind = GRAPH_COMM, .generation = 1, .nparts = 1, .total_parts = 1}, part_of(op, rank)};
        put(out, rank, &m, sizeof m);
    }
}

static void test_seeds(void **state)
{
    const char *source = getenv("PRISM_SOURCE");
    char path[4096];
    (void)state;
    for (int op = PRISM_OP_ALLREDUCE; op < PRISM_OP_END; op++) {
        struct bytes seed = {0}, there = {0};
        make_seed(op, &seed);
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/messages/op%d", source ? source : ".", op);
        if (getenv("PRISM_FUZZ_SEEDS"))
            assert_int_equal(file_write_atomic(path, seed.data, seed.len, 0644, NULL), 0);
        assert_int_equal(file_read(path, seed.len, &there, NULL), 0);
        if (there.len != seed.len || memcmp(there.data, seed.data, seed.len))
            fail_msg("%s is not what messages are now; PRISM_FUZZ_SEEDS=1 writes it anew", path);
        LLVMFuzzerTestOneInput(seed.data, seed.len);
        if (fuzz_messages_refused)
            fail_msg("%s is refused", path);
        bytes_free(&seed);
        bytes_free(&there);
    }
}

static void check_sizes(const char *path, size_t head)
{
    static const size_t least[MSG_WELCOME] = {
        [MSG_COMM_INIT] = sizeof(struct msg_comm_init), [MSG_COMM_SPLIT] = sizeof(struct msg_comm_split), [MSG_NODE] = sizeof(struct msg_node)};
    struct bytes b = {0};
    assert_int_equal(file_read(path, 1 << 20, &b, NULL), 0);
    struct bytes_reader in = bytes_reader_init(b.data, b.len);
    bytes_get(&in, head);
    for (const uint8_t *data = b.data; data;) {
        uint8_t from = bytes_get_u8(&in);
        uint16_t len = bytes_get_u16(&in);
        struct msg_header h = {0};
        data = bytes_get(&in, len);
        if (!data || from & 1 || len < sizeof h)
            continue;
        memcpy(&h, data, sizeof h);
        if (h.type < MSG_WELCOME && len < least[h.type])
            fail_msg("%s: message %u has %u bytes and is one of %zu now", path, h.type, len, least[h.type]);
    }
    bytes_free(&b);
}

static void test_sizes(void **state)
{
    static const char *const targets[] = {"messages", "links"};
    const char *source = getenv("PRISM_SOURCE");
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char folder[2048], path[4096];
        snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", source ? source : ".", targets[i]);
        DIR *d = opendir(folder);
        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d));) {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            if (e->d_name[0] != '.')
                check_sizes(path, i); /* links.c: a byte in front */
        }
        closedir(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds), cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests_name("fuzz seeds of messages", tests, NULL, NULL);
}
