/* plan_private.h - building plans (plan.c: the operations; plan_messages.c: groups; plan_build.c: the parts). */
#ifndef PRISM_COLL_PLAN_PRIVATE_H
#define PRISM_COLL_PLAN_PRIVATE_H

#include "coll/plan.h"

/* Consecutive virtual ranks of one assistant. */
struct run {
    int assistant; /* 0 .. nassistants-1 */
    int first, n;  /* ranks of the full communicator */
};

struct layout {
    struct coll_plan *plan;
    int *participant; /* by rank of the full communicator: its own place, or its assistant's */
    struct run *runs; /* ascending */
    size_t nruns;
};

/* Check sandbox and assistants, deal out the virtual ranks. name is for messages. */
int layout_init(struct layout *layout, const char *name, int size, const int *sandbox, int nsandbox,
                int assistants, struct prism_error *err);
void layout_clear(struct layout *layout); /* all but the plan */

bool layout_is_sandbox(const struct layout *layout, int rank);
int layout_assistant(const struct layout *layout, int k); /* participant number of assistant k */

struct coll_place place_at(enum coll_buffer buffer, uint32_t part, uint64_t offset);
extern const struct coll_place place_none;

void side_call(struct coll_side *side, struct coll_call call);
/* Adds a piece at the end of the payload; returns where it lies. */
uint64_t side_piece(struct coll_side *side, struct coll_piece piece);
/* Scratch for count elements at offset 0: what is written there is never read, so all of a plan may share it. */
struct coll_place side_scratch(struct coll_side *side, uint64_t count);

#endif
