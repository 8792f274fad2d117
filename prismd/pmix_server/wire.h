/* wire.h - messages to and from prismd (prismd/pmix/pmix_wire.h), over the socket that prism-pmix was started with. */
#ifndef PRISM_PMIX_SERVER_WIRE_H
#define PRISM_PMIX_SERVER_WIRE_H

#include "common/bytes.h"
#include "prismd/pmix/pmix_wire.h"

void wire_open(int fd);
/* From any thread; ends the process if prismd is gone. */
void wire_send(enum pmix_wire_type type, const struct bytes *body);
/* The next message into body (cleared first). Ends the process, in order, when prismd has closed the socket. */
enum pmix_wire_type wire_receive(struct bytes *body);
/* Tell prismd why this cannot go on, and end. */
void wire_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
