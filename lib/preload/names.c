/* names.c - the names of logical nodes: gethostname and uname answer the own one, look-ups of any lead to the machine that
 * runs it.
 *
 * prismd says how in variables, so it works in every process of a rank, the program's helpers included, whether or not it is
 * the rank: PRISM_HOSTNAME, PRISM_NODE_BASE, PRISM_NODE_COUNT (common/names.h), PRISM_NODE_HOSTS (prismd/ranks/hosts.h). Without them,
 * and for NCCL, which tells from names who shares a machine, everything passes through.
 */
#include "preload/names.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "preload/cuda/device.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "common/names.h"

#define HERE_MAX 256

static const char *variable(const char *name)
{
    const char *value = getauxval(AT_SECURE) ? NULL : getenv(name);
    return value && *value ? value : NULL;
}

static int real_hostname(char *name, size_t size)
{
    return REAL_NAMED(REAL_LIBC, gethostname, "gethostname")(name, size);
}

/* --- the own name --- */

PRISM_EXPORT int gethostname(char *name, size_t size)
{
    const char *own = variable("PRISM_HOSTNAME");
    if (!own || device_is_native(__builtin_return_address(0)))
        return real_hostname(name, size);
    size_t len = strlen(own);
    memcpy(name, own, len < size ? len + 1 : size);
    if (len < size)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

PRISM_EXPORT int uname(struct utsname *u)
{
    int rc = REAL_NAMED(REAL_LIBC, uname, "uname")(u);
    const char *own = variable("PRISM_HOSTNAME");
    if (!rc && own && !device_is_native(__builtin_return_address(0)))
        snprintf(u->nodename, sizeof u->nodename, "%s", own);
    return rc;
}

/* --- looking up --- */

/* "0-511=here,512-1023=10.0.0.2" */
static bool find_host(const char *hosts, uint32_t node, char *host, size_t size)
{
    for (const char *at = hosts; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        unsigned first, last;
        int read = 0;
        if (sscanf(at, "%u-%u=%n", &first, &last, &read) != 2 || !read || node < first || node > last)
            continue;
        snprintf(host, size, "%.*s", (int)strcspn(at + read, ","), at + read);
        return true;
    }
    return false;
}

const char *names_real(const char *name, char *real, size_t size)
{
    const char *base = variable("PRISM_NODE_BASE"), *count = variable("PRISM_NODE_COUNT");
    uint32_t node = name && base && count ? names_find(base, (uint32_t)strtoul(count, NULL, 10), name) : UINT32_MAX;
    if (node == UINT32_MAX || !find_host(variable("PRISM_NODE_HOSTS"), node, real, size))
        return name;
    return real;
}

PRISM_EXPORT int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                             struct addrinfo **restrict found)
{
    __typeof__(&getaddrinfo) real = REAL_NAMED(REAL_LIBC, getaddrinfo, "getaddrinfo");
    char host[HERE_MAX], here[HERE_MAX];
    const char *target = names_real(node, host, sizeof host);
    int rc = real(target, service, hints, found);
    /* On one machine its own name need not resolve. */
    if (rc && target != node && !real_hostname(here, sizeof here) && !strcmp(here, target))
        rc = real("127.0.0.1", service, hints, found);
    return rc;
}

PRISM_EXPORT struct hostent *gethostbyname(const char *name)
{
    __typeof__(&gethostbyname) real = REAL_NAMED(REAL_LIBC, gethostbyname, "gethostbyname");
    char host[HERE_MAX];
    const char *target = names_real(name, host, sizeof host);
    struct hostent *found = real(target);
    return found || target == name ? found : real("127.0.0.1");
}

PRISM_EXPORT int gethostbyname_r(const char *restrict name, struct hostent *restrict entry, char *restrict buffer, size_t size,
                                 struct hostent **restrict found, int *restrict error)
{
    __typeof__(&gethostbyname_r) real = REAL_NAMED(REAL_LIBC, gethostbyname_r, "gethostbyname_r");
    char host[HERE_MAX];
    return real(names_real(name, host, sizeof host), entry, buffer, size, found, error);
}
