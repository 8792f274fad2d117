#include "prismd/phase_message.h"

#include <stdlib.h>

void phase_message_put(const struct phase_message *m, struct bytes *out)
{
    bytes_put_u32(out, m->kind);
    bytes_put_u32(out, m->transport);
    bytes_put_string(out, m->host);
    bytes_put_u32(out, m->port);
    bytes_put_u32(out, m->reload);
    bytes_put_u32(out, (uint32_t)m->refusal);
    bytes_put_string(out, m->refused);
    bytes_put_string(out, m->trace);
    bytes_put_u32(out, m->trace_nodes);
    bytes_put_u32(out, m->trace_payload);
    bytes_put_u32(out, m->payload);
    bytes_put_u32(out, m->nlive);
    for (uint32_t i = 0; i < m->nlive; i++)
        bytes_put_u32(out, m->live[i]);
}

/* Ascending, so none twice; at least one. */
static uint32_t *get_live(struct bytes_reader *b, uint32_t n, uint32_t world)
{
    uint32_t *live = n && n <= world ? malloc(n * sizeof *live) : NULL;
    for (uint32_t i = 0; live && i < n; i++) {
        live[i] = bytes_get_u32(b);
        b->bad |= live[i] >= world || (i && live[i] <= live[i - 1]);
    }
    return live;
}

int phase_message_take(struct phase_message *m, struct bytes_reader *b, uint32_t world)
{
    uint32_t kind = bytes_get_u32(b), transport = bytes_get_u32(b);
    *m = (struct phase_message){.host = bytes_get_string(b)};
    uint32_t port = bytes_get_u32(b), reload = bytes_get_u32(b);
    m->refusal = (int)bytes_get_u32(b);
    m->refused = bytes_get_string(b);
    m->trace = bytes_get_string(b);
    m->trace_nodes = bytes_get_u32(b);
    uint32_t holds = bytes_get_u32(b), delivered = bytes_get_u32(b);
    m->nlive = bytes_get_u32(b);
    m->live = get_live(b, m->nlive, world);
    m->kind = (enum msg_phase)kind;
    m->transport = (enum msg_transport)transport;
    m->port = (uint16_t)port;
    m->reload = reload;
    m->trace_payload = (enum trace_payload)holds;
    m->payload = (enum trace_payload)delivered;
    if (!b->bad && b->pos == b->len && m->live && *m->trace && kind >= PHASE_CAPTURE && kind <= PHASE_EMULATE &&
        transport >= TRANSPORT_PACED && transport <= TRANSPORT_NCCL && port <= UINT16_MAX && reload <= 1 && m->refusal >= 0 &&
        holds >= TRACE_PAYLOAD_FULL && delivered >= holds && delivered <= TRACE_PAYLOAD_NONE &&
        (m->trace_nodes || kind != PHASE_CAPTURE) && m->trace_nodes <= world) /* no node has captured a synthetic trace */
        return 0;
    phase_message_clear(m);
    return -1;
}

void phase_message_clear(struct phase_message *m)
{
    free(m->host);
    free(m->refused);
    free(m->trace);
    free(m->live);
    *m = (struct phase_message){0};
}
