/* answer.h - from the assistant to prismd. Thread safe. */
#ifndef PRISM_PRISMD_ASSISTANT_ANSWER_H
#define PRISM_PRISMD_ASSISTANT_ANSWER_H

#include <stdint.h>

#include "prismd/assistant/order.h"

void answer_init(int socket);
void answer_id(uint32_t communicator, const uint8_t id[ORDER_ID_LEN]);
void answer_done(uint32_t communicator);
void answer_time(uint32_t communicator, uint32_t tag, int64_t ns);
/* Tell why, then end the process. code: enum prism_exit. */
_Noreturn void answer_failed(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
