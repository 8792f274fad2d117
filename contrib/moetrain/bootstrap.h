/* bootstrap.h - who am I, and how do I tell the others something before there is a communicator.
 *
 * From RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT: a c10d TCPStore, which rank 0 serves in a
 * thread unless TORCHELASTIC_USE_AGENT_STORE=True. Without RANK but with PMIX_RANK: PMIx, whose library is
 * loaded when needed (if built with pmix.h). With neither, a world of one.
 */
#ifndef MOETRAIN_BOOTSTRAP_H
#define MOETRAIN_BOOTSTRAP_H

#include <stddef.h>

struct bootstrap;

/* Dies with a message on bad variables, or when the store does not answer in time. */
struct bootstrap *bootstrap_open(long timeout_seconds);

int bootstrap_rank(const struct bootstrap *bootstrap);
int bootstrap_world(const struct bootstrap *bootstrap);
/* LOCAL_RANK; -1 if nobody said. */
int bootstrap_local_rank(const struct bootstrap *bootstrap);

/* Rank's part: publish any number of values, then everyone calls exchange once, then fetch what others
 * published. */
void bootstrap_publish(struct bootstrap *bootstrap, const char *key, const void *value, size_t size);
void bootstrap_exchange(struct bootstrap *bootstrap);
/* owner: the rank that published. Waits up to the timeout; dies if the value has another size. */
void bootstrap_fetch(struct bootstrap *bootstrap, const char *key, int owner, void *value, size_t size);

/* NULL is fine. Call it after all ranks have fetched. */
void bootstrap_close(struct bootstrap *bootstrap);

#endif
