/* rooms.h - buffers for large contents on their way, used again, because new pages cost more than what is done in them. Inside
 * lib/trace only; thread safe.
 */
#ifndef PRISM_TRACE_ROOMS_H
#define PRISM_TRACE_ROOMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct rooms {
    size_t bound;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t given;
    size_t sent, idle;  /* bytes of rooms */
    struct room *first; /* idle ones, used last first */
};

void rooms_init(struct rooms *r, size_t bound);
void rooms_clear(struct rooms *r); /* all rooms have been given back */
/* At least len bytes, whatever is in them. Waits while rooms that were sent would make it more than bound: the caller's own,
 * not sent yet, are not waited for. Idle ones are kept within bound. Ends the process where there is no memory. */
void *rooms_take(struct rooms *r, size_t len);
bool rooms_would_wait(struct rooms *r, size_t len); /* rooms_take, as things stand */
void rooms_send(struct rooms *r, void *data); /* threads work on it, and will give it back */
void rooms_give(struct rooms *r, void *data); /* back, sent or not */

#endif
