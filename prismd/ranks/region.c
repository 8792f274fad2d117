#include "prismd/ranks/region.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/sanitized.h"

#define REGION_MOST (1ull << 38)
#if SANITIZED_THREAD /* which leaves a program 1.5 TiB */
#define SPACE_MOST (1ull << 39)
#else
#define SPACE_MOST (1ull << 45)
#endif
#define PAGE        4096u
#define STAGING_LEAST (256ull << 20)
#define STAGING_MOST  (4ull << 30)
#define STAGING_SHARE 8 /* of the available memory */

uint64_t rank_region_bytes(uint32_t ranks, uint64_t staging, uint64_t space, uint64_t file)
{
    uint64_t bytes = REGION_MOST, all = space / 4 < SPACE_MOST ? space / 4 : SPACE_MOST;
    while (bytes > all / (ranks ? ranks : 1))
        bytes /= 2;
    if (bytes < REGION_HEAP_OFFSET + staging)
        bytes = REGION_HEAP_OFFSET + staging;
    if (bytes > file)
        bytes = file;
    return bytes / PAGE * PAGE;
}

uint64_t rank_staging(uint64_t wanted, uint32_t ranks, uint64_t available)
{
    uint64_t share = available / STAGING_SHARE / (ranks ? ranks : 1);
    share = share < STAGING_LEAST ? STAGING_LEAST : share > STAGING_MOST ? STAGING_MOST : share;
    return wanted ? wanted : share;
}

static uint64_t limit_of(int resource)
{
    struct rlimit r;
    return getrlimit(resource, &r) || r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
}

int rank_region_make(struct rank *r)
{
    r->region_size = rank_region_bytes(r->daemon->here, r->daemon->conf->staging, limit_of(RLIMIT_AS), limit_of(RLIMIT_FSIZE));
    if (r->region_size <= REGION_HEAP_OFFSET) {
        errno = EFBIG;
        return -1;
    }
    r->region_fd = memfd_create("prism-region", MFD_CLOEXEC);
    if (r->region_fd < 0 || ftruncate(r->region_fd, (off_t)r->region_size))
        return -1;
    r->region = region_map(r->region_fd, PROT_READ | PROT_WRITE, &r->region_size);
    if (!r->region)
        return -1;
    madvise(r->region, r->region_size, MADV_DONTFORK); /* what ranks' processes are forked from stays small */
    return 0;
}
