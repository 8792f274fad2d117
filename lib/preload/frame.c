/* frame.c - what surrounds every interposed call: nesting, host thread numbers, host times. */
#include "common/clock.h"
#include "preload/preload.h"
#include "preload/real.h"

PRISM_THREAD struct frame frame;
static int hosts;
static PRISM_THREAD bool entered; /* this thread has had a frame */

bool frame_enter_from(const void *caller)
{
    if (frame.depth || session_is_off() || real_is_excluded(caller))
        return false;
    int64_t now = clock_now_ns();
    frame.depth = 1;
    if (!session_use()) {
        frame.depth = 0;
        return false;
    }
    if (!entered)
        session_enter_context();
    entered = true;
    frame.enter_ns = now;
    frame.noded = false;
    frame.real_ns = 0;
    return true;
}

void frame_leave(void)
{
    frame.depth = 0;
    if (frame.noded)
        frame.left_ns = clock_now_ns() - frame.real_ns;
}

uint32_t frame_host(void)
{
    if (!frame.host)
        frame.host = ++hosts;
    return (uint32_t)frame.host - 1;
}
