/* greeting.h - the first bytes on every link between prismds, both ways (docs/formats/daemon-protocol.md). Until they are
 * checked the other end may be anybody.
 */
#ifndef PRISM_PRISMD_GREETING_H
#define PRISM_PRISMD_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "prismd/link/link_setup.h"

#define GREETING_KEY        64 /* hexadecimal */
#define GREETING_HOST       256
#define GREETING_CREDENTIAL 4096
#define GREETING_MAGIC      0x4c6d7350u

struct greeting {
    uint32_t magic, version;
    uint32_t node, nodes;
    uint32_t port; /* where the sender listens */
    uint32_t credential_len;
    char host[GREETING_HOST];
    char name[LINK_NAME_MAX]; /* for messages: Slurm's name of the node */
    char step[96];
    char release[32]; /* PRISM_VERSION: what is sent later is of one build */
    char key[GREETING_KEY];
    char credential[GREETING_CREDENTIAL];
};

enum greeting_of {
    GREETING_STRANGER,      /* of anybody */
    GREETING_ANOTHER_BUILD, /* it has the key, and another version or release: its numbers mean nothing here */
    GREETING_OURS,          /* node < nodes; the credential, if there is one, is for the caller to check */
};

/* Whose it is, for one that has itself sent `mine`. Ends its texts. The key is compared in constant time. */
enum greeting_of greeting_check(const struct greeting *mine, struct greeting *theirs);

#endif
