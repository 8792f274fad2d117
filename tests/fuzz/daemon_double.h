/* daemon_double.h - daemon_fail for targets that have no daemon: keeps the code, reads the text. Once a program. */
#ifndef PRISM_TESTS_FUZZ_DAEMON_DOUBLE_H
#define PRISM_TESTS_FUZZ_DAEMON_DOUBLE_H

#include <stdarg.h>
#include <stdio.h>

#include "prismd/daemon.h"

int daemon_fail(struct daemon *d, int code, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!d->failure.code)
        d->failure.code = code;
    d->stopping = true;
    return -1;
}

#endif
