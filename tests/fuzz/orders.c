/* orders.c - what prismd tells prism-assistant: an order that is taken (order_fault) is done below as the assistant does it, on
 * memory of just the size that it names. The input: orders as they come through the socket (order.h). */
#include <stdlib.h>
#include <string.h>

#include "coll/plan.h"
#include "common/bytes.h"
#include "prismd/assistant/order.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 200000;

#define COMMUNICATORS 4u
#define BYTES_MAX     (1u << 20) /* larger orders are sound or not, but not done */

static volatile uint8_t read_bytes;

static struct {
    bool made;
    struct order_create as;
} communicators[COMMUNICATORS];

static void use(uint8_t *memory, uint64_t from, uint64_t bytes, bool writes)
{
    if (writes)
        memset(memory + from, 1, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        read_bytes ^= memory[from + i];
}

static void call(const struct order_run *o, const struct order_call *c, const struct order_create *as, uint8_t *payload, uint8_t *scratch)
{
    uint64_t bytes = c->count * coll_datatype_size(c->datatype);
    if (c->kind < COLL_CALL_ALLREDUCE || c->kind > COLL_CALL_RECV || (c->kind != COLL_CALL_ALLREDUCE && (c->peer < 0 || c->peer >= as->size)))
        abort();
    if (c->from_buffer)
        use(c->from_buffer == COLL_BUFFER_PAYLOAD && o->payload_bytes ? payload : scratch, c->from, bytes, false);
    if (c->to_buffer)
        use(c->to_buffer == COLL_BUFFER_PAYLOAD && o->payload_bytes ? payload : scratch, c->to, bytes, true);
}

/* What no stretch covers is cleared first, unless they cover as many bytes as there are. */
static void run(const struct order_run *o, const struct order_create *as)
{
    if (o->payload_bytes > BYTES_MAX || o->scratch_bytes > BYTES_MAX)
        return;
    uint8_t *payload = malloc(o->payload_bytes + 1), *scratch = malloc(o->scratch_bytes ? o->scratch_bytes : 1);
    uint64_t covered = 0, clear = 0;
    if (!payload || !scratch)
        abort();
    memset(payload, 0, o->payload_bytes);
    for (uint32_t i = 0; i < o->nsegments; i++) {
        const struct order_segment *s = &order_segments(o)[i];
        memset(payload + s->to, 1, s->bytes);
        covered += s->bytes;
    }
    for (uint64_t i = 0; i < o->payload_bytes; i++)
        clear += !payload[i];
    if (covered + clear != o->payload_bytes)
        abort();
    for (uint32_t i = 0; i < o->ncalls; i++)
        call(o, &order_calls(o)[i], as, payload, scratch);
    if (o->generation && as->gate >= ORDER_GATES)
        abort();
    free(payload);
    free(scratch);
}

static void take(const struct order_header *o)
{
    uint32_t number = o->communicator % COMMUNICATORS;
    if (order_fault(o, communicators[number].made ? &communicators[number].as : NULL))
        return;
    if (o->type == ORDER_CREATE) {
        communicators[number].made = true;
        memcpy(&communicators[number].as, o, sizeof communicators[number].as);
        read_bytes ^= (uint8_t)strlen((const char *)(o + 1) + sizeof(struct order_create) - sizeof *o);
    } else if (o->type == ORDER_DESTROY) {
        communicators[number].made = false;
    } else {
        run((const struct order_run *)(const void *)o, &communicators[number].as);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct order_header h, *o;
    memset(communicators, 0, sizeof communicators);
    for (size_t at = 0; len - at >= sizeof h; at += h.size) {
        memcpy(&h, data + at, sizeof h);
        if (h.size < sizeof h || h.size > len - at)
            break;
        if (!(o = malloc(h.size))) /* lies where 8 divides the address, as the assistant has it */
            abort();
        memcpy(o, data + at, h.size);
        take(o);
        free(o);
    }
    return 0;
}
