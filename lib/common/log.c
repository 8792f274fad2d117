#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char prefix[64] = "prism";
static enum prism_log_level threshold = PRISM_LOG_INFO;

void prism_log_init(const char *name)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    snprintf(prefix, sizeof prefix, "%s", name);
    const char *wanted = getenv("PRISM_LOG");
    for (int i = 0; wanted && i < 4; i++)
        if (!strcmp(wanted, names[i]))
            threshold = (enum prism_log_level)i;
}

/* Bytes written; 0 unless everything is logged. */
static int put_time(char *line, size_t len)
{
    struct timespec now;
    struct tm t;
    if (threshold < PRISM_LOG_DEBUG || clock_gettime(CLOCK_REALTIME, &now) || !gmtime_r(&now.tv_sec, &t))
        return 0;
    return snprintf(line, len, "%02d:%02d:%02d.%03ld ", t.tm_hour, t.tm_min, t.tm_sec, now.tv_nsec / 1000000);
}

void prism_log(enum prism_log_level level, const char *fmt, ...)
{
    if (level > threshold)
        return;
    int saved = errno;
    char line[2048];
    int n = put_time(line, sizeof line);
    n += snprintf(line + n, sizeof line - (size_t)n, "%s: ", prefix);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    n += m < 0 ? 0 : m;
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    /* One write, so that lines of many processes do not mix. */
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
    errno = saved;
}
