/* assist_place.h - where assistants live, whether there are devices for them, and what their part in a communicator is
 * worth. Pure functions of configuration, graph and manifest.
 */
#ifndef PRISM_PRISMD_ASSIST_PLACE_H
#define PRISM_PRISMD_ASSIST_PLACE_H

#include "prismd/daemon.h"
#include "prismd/assistants/shrink.h"

/* The node of assistant a. */
uint32_t assist_node(const struct conf *c, uint32_t a);
/* Assistants of this node; live ranks of this node of nlive in all. */
uint32_t assist_count_here(const struct conf *c);
uint32_t assist_count_live_here(const struct conf *c, uint32_t nlive);
/* PRISM_EXIT_USAGE: this node has too few devices for both. */
int assist_check_devices(const struct conf *c, uint32_t nlive, struct prism_error *err);

/* Does what the shrunk communicator does last as long as the full operation? */
bool assist_stands_for_full(const struct daemon *d, const struct shrink *s);
/* As its first sandbox member recorded it. */
bool assist_has_collectives_only(const struct graph *g, const struct shrink *s);

#endif
