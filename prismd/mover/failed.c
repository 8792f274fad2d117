#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/error.h"
#include "prismd/mover/guest.h"

_Noreturn void mover_failed(const char *format, ...)
{
    char text[MOVER_TEXT];
    struct mover_message m = {.type = MOVER_FAILED};
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (to_prismd.socket >= 0) {
        int flags = fcntl(to_prismd.socket, F_GETFL);
        fcntl(to_prismd.socket, F_SETFL, flags & ~O_NONBLOCK);
        if (mover_send(to_prismd.socket, &m, -1, text))
            fprintf(stderr, "prism-mover: %s\n", text);
    }
    _exit(PRISM_EXIT_DAEMON);
}
