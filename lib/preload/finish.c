#include "preload/finish.h"

#include <stdlib.h>

#include "preload/memory/memory.h"
#include "preload/preload.h"
#include "preload/socket.h"
#include "preload/memory/switch.h"
#include "preload/nodes/times.h"

/* Registered after CUDA came up, so it runs before CUDA's own exit handlers and can still resolve events. */
static void flush(void)
{
    if (session_is_off() || !session.region)
        return;
    frame.depth++;
    switch_stop();
    times_drain();
    memory_report();
    frame.depth--;
}

void finish_arm(void)
{
    atexit(flush);
}

/* The program's exit handlers may have used NCCL after flush; BYE is really last. */
__attribute__((destructor)) static void say_bye(void)
{
    if (session_is_off() || !socket_is_open())
        return;
    memory_report();
    struct msg_header bye = {MSG_BYE, sizeof bye};
    socket_send(&bye, sizeof bye);
}
