#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>

int prism_error_set(struct prism_error *err, int code, const char *fmt, ...)
{
    if (!err || err->code)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    err->code = code;
    return -1;
}
