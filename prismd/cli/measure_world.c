/* measure_world.c - see measure_world.h. */
#include "measure_world.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c10d/client.h"
#include "c10d/server.h"

#define CONNECT_MS 60000
#define WAIT_MS    600000 /* the longest that one group may keep the others waiting */

/* The first of the variables that is set to a number; fallback if none is. */
static long number_of(const char *const *names, long fallback)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        char *end;
        long number = value ? strtol(value, &end, 10) : 0;
        if (value && value[0] && *end == '\0')
            return number;
    }
    return fallback;
}

static const char *const rank_names[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL };
static const char *const size_names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL };
static const char *const local_names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL };
static const char *const node_names[] = { "GROUP_RANK", "NODE_RANK", "SLURM_NODEID", NULL };

bool measure_world_launched(void)
{
    return number_of(size_names, 0) > 1;
}

/* The first host of a Slurm list such as "n[003-004,7]" or "a,b". */
static void first_host(const char *list, char *out, size_t len)
{
    size_t n = 0;
    for (; *list && *list != ',' && n + 1 < len; list++) {
        if (*list != '[') {
            out[n++] = *list;
            continue;
        }
        for (list++; isdigit((unsigned char)*list) && n + 1 < len; list++)
            out[n++] = *list;
        break;
    }
    out[n] = '\0';
}

static void store_address(char *host, size_t len, uint16_t *port)
{
    const char *address = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");
    if (address && address[0])
        snprintf(host, len, "%s", address);
    else
        first_host(nodes && nodes[0] ? nodes : "127.0.0.1", host, len);
    static const char *const port_names[] = { "MASTER_PORT", NULL }, *const job_names[] = { "SLURM_JOB_ID", NULL },
                             *const step_names[] = { "SLURM_STEP_ID", NULL };
    /* Without a given port, one that all tasks of a step compute alike and other steps hardly use. */
    long derived = 20000 + (number_of(job_names, 0) * 31 + number_of(step_names, 0)) % 10000;
    *port = (uint16_t)number_of(port_names, derived);
}

static int find_nodes(struct measure_world *w, struct prism_error *err)
{
    char name[64], mine[320] = "", other[320], host[256] = "";
    gethostname(host, sizeof(host) - 1);
    /* Several logical nodes may share a machine (software GPUs), so the name alone is not enough. */
    snprintf(mine, sizeof(mine), "%s/%ld", host, number_of(node_names, w->rank - w->local_rank));
    snprintf(name, sizeof(name), "place/%d", w->rank);
    if (measure_world_put(w, name, mine, sizeof(mine), err) != 0)
        return -1;
    char (*places)[320] = calloc((size_t)w->size, sizeof(*places));
    w->node_of = calloc((size_t)w->size, sizeof(*w->node_of));
    if (!places || !w->node_of)
        abort();
    int result = 0;
    for (int r = 0; r < w->size && result == 0; r++) {
        snprintf(name, sizeof(name), "place/%d", r);
        if ((result = measure_world_get(w, name, other, sizeof(other), err)) != 0)
            break;
        memcpy(places[r], other, sizeof(other));
        w->node_of[r] = -1;
        for (int q = 0; q < r && w->node_of[r] < 0; q++)
            if (strcmp(places[q], places[r]) == 0)
                w->node_of[r] = w->node_of[q];
        if (w->node_of[r] < 0)
            w->node_of[r] = w->nodes++;
    }
    free(places);
    return result;
}

int measure_world_join(struct measure_world *w, struct prism_error *err)
{
    char host[256];
    uint16_t port;
    *w = (struct measure_world){ .rank = (int)number_of(rank_names, -1), .size = (int)number_of(size_names, 0),
                                 .local_rank = (int)number_of(local_names, 0) };
    if (w->rank < 0 || w->rank >= w->size)
        return prism_error_set(err, PRISM_EXIT_USAGE, "the launcher's RANK (%d) is not below WORLD_SIZE (%d)", w->rank,
                               w->size);
    store_address(host, sizeof(host), &port);
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (w->rank == 0 && !(agent && strcmp(agent, "True") == 0) &&
        !(w->server = c10d_server_start_thread(NULL, port, NULL, err)))
        return -1;
    if (!(w->store = c10d_client_connect(host, port, CONNECT_MS, err)))
        return -1;
    return find_nodes(w, err);
}

void measure_world_leave(struct measure_world *w)
{
    if (w->store)
        measure_world_barrier(w, NULL);
    /* The server goes last: a moment for the others' last reply. */
    if (w->server)
        usleep(200000);
    c10d_client_close(w->store);
    c10d_server_stop_thread(w->server);
    free(w->node_of);
    *w = (struct measure_world){ 0 };
}

int measure_world_barrier(struct measure_world *w, struct prism_error *err)
{
    char count[64], open[64];
    int64_t arrived;
    snprintf(count, sizeof(count), "prism-measure/barrier/%u", w->serial);
    snprintf(open, sizeof(open), "prism-measure/open/%u", w->serial++);
    if (c10d_client_add(w->store, count, 1, &arrived, err) != 0)
        return -1;
    if (arrived == w->size && c10d_client_set(w->store, open, "1", 1, err) != 0)
        return -1;
    const char *const keys[] = { open };
    return c10d_client_wait(w->store, keys, 1, WAIT_MS, err);
}

int measure_world_put(struct measure_world *w, const char *name, const void *value, size_t len,
                      struct prism_error *err)
{
    char key[128];
    snprintf(key, sizeof(key), "prism-measure/%s", name);
    return c10d_client_set(w->store, key, value, len, err);
}

int measure_world_get(struct measure_world *w, const char *name, void *value, size_t len, struct prism_error *err)
{
    char key[128];
    void *got;
    size_t got_len;
    snprintf(key, sizeof(key), "prism-measure/%s", name);
    if (c10d_client_get(w->store, key, WAIT_MS, &got, &got_len, err) != 0)
        return -1;
    int result = 0;
    if (got_len == len)
        memcpy(value, got, len);
    else
        result = prism_error_set(err, PRISM_EXIT_SYSTEM, "store key %s has %zu bytes, not %zu: do all processes run "
                                 "the same prism?", key, got_len, len);
    free(got);
    return result;
}

static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static void become(int rank, int size, int port, pid_t parent)
{
    static char *argv[64];
    char number[16], arguments[4096];
    FILE *in = fopen("/proc/self/cmdline", "r");
    size_t n = in ? fread(arguments, 1, sizeof(arguments) - 1, in) : 0, count = 0;
    arguments[n] = '\0';
    for (size_t i = 0; i < n && count < 63; i += strlen(arguments + i) + 1)
        argv[count++] = arguments + i;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    const char *const names[] = { "RANK", "LOCAL_RANK" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(number, sizeof(number), "%d", rank);
        setenv(names[i], number, 1);
    }
    snprintf(number, sizeof(number), "%d", size);
    setenv("WORLD_SIZE", number, 1);
    snprintf(number, sizeof(number), "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* Wait for all; at the first that fails (or with failed set already) end the others. Returns whether one failed. */
static bool await_children(pid_t *children, int size, bool failed)
{
    for (int left = size; left > 0; left--) {
        for (int r = 0; failed && r < size; r++)
            if (children[r] > 0)
                kill(children[r], SIGTERM);
        int status;
        pid_t pid = wait(&status);
        if (pid < 0)
            break;
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        for (int r = 0; r < size; r++)
            if (children[r] == pid)
                children[r] = 0; /* the number may belong to another process from now on */
    }
    return failed;
}

int measure_world_spawn(int size, struct prism_error *err)
{
    pid_t *children = calloc((size_t)size, sizeof(*children)), parent = getpid();
    int port = free_port();
    bool failed = port < 0;
    if (!children)
        abort();
    for (int r = 0; r < size && !failed; r++) {
        children[r] = fork();
        if (children[r] == 0)
            become(r, size, port, parent);
        failed |= children[r] < 0;
    }
    failed = await_children(children, size, failed);
    free(children);
    return failed ? prism_error_set(err, PRISM_EXIT_SYSTEM, "one of the %d processes failed, see above", size) : 0;
}
