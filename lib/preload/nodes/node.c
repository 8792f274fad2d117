/* node.c - nodes of the rank's timelines, numbered and sent in issue order (session_lock held throughout). */
#include <string.h>

#include "graph/graph.h"
#include "preload/nodes/blocked.h"
#include "preload/nodes/marks.h"
#include "preload/preload.h"
#include "preload/socket.h"

#define PARTS_MAX ((MSG_MAX - sizeof(struct msg_node)) / sizeof(struct msg_part))

static uint32_t next_index, comms; /* written with session_lock held, read without */

uint32_t node_position(uint32_t *ncomms)
{
    *ncomms = __atomic_load_n(&comms, __ATOMIC_RELAXED);
    return __atomic_load_n(&next_index, __ATOMIC_RELAXED);
}

static void fill(struct msg_node *m, int kind)
{
    m->h.type = MSG_NODE;
    m->h.size = sizeof *m;
    m->index = next_index;
    m->kind = (uint8_t)kind;
    m->host = (uint16_t)frame_host();
    marks_send_kept();
    __atomic_store_n(&next_index, next_index + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&comms, comms + (kind == GRAPH_COMM), __ATOMIC_RELAXED);
    frame.noded = true;
}

uint32_t node_send_at(int kind, uint32_t stream, uint32_t dep, int64_t enter_ns, int64_t leave_ns)
{
    struct msg_node m = {.stream = stream, .dep = dep, .enter_ns = enter_ns, .leave_ns = leave_ns};
    fill(&m, kind);
    /* The helper of times.c flushes; among many ranks in capture the next gate or host wait does, and half the messages are saved. */
    if (session.record_times || session.board)
        socket_queue(&m, sizeof m);
    else
        socket_send(&m, sizeof m);
    return m.index;
}

/* A host thread's first node has no call before it: no host work. */
static int64_t left_ns(void)
{
    int64_t left = (frame.left_ns ? frame.left_ns : frame.enter_ns) + blocked_take();
    return left < frame.enter_ns ? left : frame.enter_ns;
}

/* Later nodes of one call follow the first without host work of the program in between. */
uint32_t node_send(int kind, uint32_t stream, uint32_t dep)
{
    return node_send_at(kind, stream, dep, frame.enter_ns, frame.noded ? frame.enter_ns : left_ns());
}

uint32_t node_send_comm(struct msg_node *m, const struct msg_part *parts, uint32_t nparts)
{
    m->enter_ns = frame.enter_ns;
    m->leave_ns = frame.noded ? frame.enter_ns : left_ns();
    fill(m, GRAPH_COMM);
    m->total_parts = nparts;
    for (uint32_t first = 0; first < nparts; first += m->nparts) {
        m->first_part = first;
        m->nparts = nparts - first < PARTS_MAX ? nparts - first : (uint32_t)PARTS_MAX;
        size_t more = m->nparts * sizeof *parts;
        m->h.size = (uint32_t)(sizeof *m + more);
        socket_send_parts(m, sizeof *m, parts + first, more);
    }
    return m->index;
}
