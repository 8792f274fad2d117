/* pmix_wire.h - between prismd and the PMIx server of a logical node (prism-pmix), over a stream socket.
 *
 * Messages: u32 type, u64 length, body (common/bytes.h); both ends are one build. A token names a request; whoever asked
 * made it up. Ranks are world ranks, PMIX_WIRE_EVERYONE is the whole namespace.
 */
#ifndef PRISM_PRISMD_PMIX_WIRE_H
#define PRISM_PRISMD_PMIX_WIRE_H

#include <stdint.h>

#define PMIX_WIRE_HEADER   12
#define PMIX_WIRE_EVERYONE UINT32_MAX
#define PMIX_WIRE_MAX      (1ull << 31)

enum pmix_wire_type {
    /* from prismd */
    PMIX_WIRE_JOB = 1,  /* the first: namespace, u32 world, u32 ranks a node, node names with commas, u32 own node, u32 record,
                         * u32 n, n live ranks of the node */
    PMIX_WIRE_FENCED,   /* u64 token, u32 result, the data of all nodes one behind the other */
    PMIX_WIRE_ANSWER,   /* to GET: u64 token, u32 result, what the rank has put */
    PMIX_WIRE_ASK,      /* u64 token, u32 live rank of the node, answered by TOLD once it has committed */
    PMIX_WIRE_FINISH,   /* to FINALIZED: u64 token */
    PMIX_WIRE_LOST,     /* u32 rank, u32 whether it ended in order but without PMIx_Finalize */
    /* from the server */
    PMIX_WIRE_READY,     /* u32 TCP port on 127.0.0.1, string version of libpmix, as 4.2 */
    PMIX_WIRE_CONNECTED, /* u32 rank */
    PMIX_WIRE_FENCE,     /* u64 token, u32 n, n ranks, u32 m, m times (u32 rank, u64 length, what it has put), rest: data */
    PMIX_WIRE_GET,       /* u64 token, u32 rank that is not live on the node, string key ("" = any) */
    PMIX_WIRE_TOLD,      /* u64 token, u32 result, what the rank has put */
    PMIX_WIRE_FINALIZED, /* u64 token, u32 rank, what it has put */
    PMIX_WIRE_ABORT,     /* u32 rank, u32 status, string */
    PMIX_WIRE_FAILED,    /* string: the server cannot go on */
};

enum pmix_wire_result { PMIX_WIRE_FOUND, PMIX_WIRE_NOT_FOUND, PMIX_WIRE_GONE };

#endif
