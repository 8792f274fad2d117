/* main.c - prism-assistant SOCKET COUNTS NODES: stands for virtual ranks in real NCCL calls, on one device.
 *
 * Started by prismd only (prismd/assistants/assist_process.c), with two open descriptors by
 * number and the trace in PRISM_TRACE. Ends when prismd closes the socket.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "prismd/assistant/answer.h"
#include "prismd/assistant/communicator.h"
#include "prismd/assistant/gpu.h"
#include "prismd/assistant/shelf.h"

#define ORDER_MAX (1ull << 32)

/* False at the end of the stream. */
static int read_all(int fd, void *to, size_t n)
{
    for (char *p = to; n;) {
        ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        p += got;
        n -= (size_t)got;
    }
    return 1;
}

static struct order_header *read_order(int fd)
{
    struct order_header h, *order;
    if (!read_all(fd, &h, sizeof h))
        return NULL;
    if (h.size < sizeof h || h.size > ORDER_MAX || !(order = malloc(h.size)))
        answer_failed(PRISM_EXIT_DAEMON, "malformed order of %llu bytes", (unsigned long long)h.size);
    *order = h;
    if (!read_all(fd, order + 1, h.size - sizeof h)) {
        free(order);
        return NULL;
    }
    return order;
}

static struct order_shared *map_shared(int fd)
{
    void *p = mmap(NULL, sizeof(struct order_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        answer_failed(PRISM_EXIT_SYSTEM, "cannot map shared memory: %s", strerror(errno));
    return p;
}

int main(int argc, char **argv)
{
    struct prism_error err = {0};
    prism_log_init("prism-assistant");
    const char *trace = getenv("PRISM_TRACE");
    if (argc != 4 || !trace) {
        fprintf(stderr, "prism-assistant is started by prismd\n");
        return PRISM_EXIT_USAGE;
    }
    int fd = atoi(argv[1]);
    answer_init(fd);
    struct payload_reader *payloads = payload_reader_open(trace, (uint32_t)atoi(argv[3]), &err);
    if (!payloads)
        answer_failed(err.code, "%s", err.text);
    communicator_init(payloads, map_shared(atoi(argv[2])));
    gpu_start();
    shelf_init();
    for (struct order_header *o; (o = read_order(fd));)
        communicator_order(o);
    /* The ranks have ended: nothing is left to be taken down in order. */
    _exit(0);
}
