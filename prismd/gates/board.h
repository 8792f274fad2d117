/* board.h - this node's side of proto/board.h: which ranks' gates to look at, whatever the number of ranks. */
#ifndef PRISM_PRISMD_BOARD_H
#define PRISM_PRISMD_BOARD_H

#include "prismd/daemon.h"

/* From so many ranks of a node on there is one: below, the watch thread sleeps on the arrive words themselves. */
#define BOARD_LEAST 65u

/* Give this node's ranks their seats (d->board). Nothing happens with few ranks; -1 with err: the system refused. */
int board_create(struct daemon *d, struct prism_error *err);
void board_destroy(struct daemon *d); /* its ranks are gone */

int board_fd(const struct daemon *d);             /* for WELCOME; -1: there is none */
uint32_t *board_bell(const struct daemon *d);     /* futex word; NULL: there is none */
uint32_t board_seats(const struct daemon *d);     /* number of flags */
/* Look at this rank's gates in the next round, whatever its streams say. */
void board_mark(const struct daemon *d, const struct rank *r);
/* A stream of it has told that it stands at a gate, and has not been looked at since. false: there is no board. */
bool board_is_marked(const struct daemon *d, const struct rank *r);
/* Calls look for every rank whose flag was set, and sets the flags back. Begin a round with the bell: false if it was not rung. */
bool board_take(struct daemon *d, void (*look)(void *arg, struct rank *r), void *arg);

#endif
