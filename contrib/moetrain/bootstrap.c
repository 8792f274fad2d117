#include "bootstrap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap_pmix.h"
#include "c10d/client.h"
#include "c10d/server.h"
#include "check.h"

enum way { WAY_ALONE, WAY_STORE, WAY_PMIX };

struct bootstrap {
    enum way way;
    int rank, world, local_rank;
    int timeout_ms;
    struct c10d_server_thread *server;
    struct c10d_client *client;
};

/* The variable as a number of least to most; dies if it is anything else, or if it must be set and is not. */
static int read_number(const char *name, long least, long most, bool required, int fallback)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) {
        if (required)
            die("RANK is set but %s is not; the launcher must set RANK, WORLD_SIZE, MASTER_ADDR and "
                "MASTER_PORT",
                name);
        return fallback;
    }
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || number < least || number > most)
        die("%s is '%s', not a number of %ld to %ld", name, text, least, most);
    return (int)number;
}

static void open_store(struct bootstrap *b)
{
    struct prism_error error = {0};
    const char *address = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    uint16_t port = (uint16_t)read_number("MASTER_PORT", 1, 65535, true, 0);
    if (!address || !*address)
        die("RANK is set but MASTER_ADDR is not; it names the host of rank 0");
    b->way = WAY_STORE;
    if (b->rank == 0 && !(agent && strcmp(agent, "True") == 0)) {
        b->server = c10d_server_start_thread(NULL, port, NULL, &error);
        if (!b->server)
            die("cannot serve the store on port %d: %s", port, error.text);
    }
    b->client = c10d_client_connect(address, port, b->timeout_ms, &error);
    if (!b->client)
        die("no store at %s port %d: %s", address, port, error.text);
}

static void open_pmix(struct bootstrap *b, long timeout_seconds)
{
    struct pmix_identity identity = bootstrap_pmix_open(timeout_seconds);
    b->way = WAY_PMIX;
    b->rank = identity.rank;
    b->world = identity.world;
    b->local_rank = identity.local_rank;
}

struct bootstrap *bootstrap_open(long timeout_seconds)
{
    struct bootstrap *b = calloc(1, sizeof *b);
    if (!b)
        die("out of host memory");
    b->timeout_ms = (int)(timeout_seconds * 1000);
    b->world = 1;
    b->local_rank = read_number("LOCAL_RANK", 0, INT32_MAX, false, -1);
    if (getenv("RANK")) {
        b->world = read_number("WORLD_SIZE", 1, 1 << 24, true, 0);
        b->rank = read_number("RANK", 0, b->world - 1, true, 0);
        check_set_rank(b->rank);
        if (b->world > 1)
            open_store(b);
    } else if (getenv("PMIX_RANK")) {
        open_pmix(b, timeout_seconds);
    }
    check_set_rank(b->rank);
    return b;
}

int bootstrap_rank(const struct bootstrap *b)
{
    return b->rank;
}

int bootstrap_world(const struct bootstrap *b)
{
    return b->world;
}

int bootstrap_local_rank(const struct bootstrap *b)
{
    return b->local_rank;
}

void bootstrap_publish(struct bootstrap *b, const char *key, const void *value, size_t size)
{
    struct prism_error error = {0};
    if (b->way == WAY_PMIX)
        bootstrap_pmix_publish(key, value, size);
    else if (b->way == WAY_STORE && c10d_client_set(b->client, key, value, size, &error) != 0)
        die("store: cannot set %s: %s", key, error.text);
}

void bootstrap_exchange(struct bootstrap *b)
{
    if (b->way == WAY_PMIX)
        bootstrap_pmix_exchange(); /* a store needs no step between: its get waits for the key */
}

static void fetch_from_store(struct bootstrap *b, const char *key, int owner, void *value, size_t size)
{
    struct prism_error error = {0};
    void *found;
    size_t found_size;
    if (c10d_client_get(b->client, key, b->timeout_ms, &found, &found_size, &error) != 0)
        die("store: rank %d has not published %s: %s", owner, key, error.text);
    if (found_size != size)
        die("store: %s has %zu bytes, not %zu; is another program using the store?", key, found_size, size);
    memcpy(value, found, size);
    free(found);
}

void bootstrap_fetch(struct bootstrap *b, const char *key, int owner, void *value, size_t size)
{
    if (b->way == WAY_PMIX)
        bootstrap_pmix_fetch(key, owner, value, size);
    else if (b->way == WAY_STORE)
        fetch_from_store(b, key, owner, value, size);
}

void bootstrap_close(struct bootstrap *b)
{
    if (!b)
        return;
    c10d_client_close(b->client);
    c10d_server_stop_thread(b->server);
    if (b->way == WAY_PMIX)
        bootstrap_pmix_close();
    free(b);
}
