/* c10d_server.c - a store on 127.0.0.1 for tests of real clients. Prints "port N", then a line a mutation if asked
 * (-v: kind, peer's port, key); ends at the end of standard input. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "c10d/server.h"

static void on_mutation(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    printf("mutation %s %u %.*s\n", c10d_kind_name(m->kind), peer->port, (int)m->key_len,
           (const char *)m->key);
    fflush(stdout);
}

static void on_warning(void *ctx, const char *text)
{
    fprintf(stderr, "%s\n", text);
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    char buffer[256];
    if (read(fd, buffer, sizeof buffer) <= 0)
        event_base_loopbreak(ctx);
}

int main(int argc, char **argv)
{
    struct prism_error err = {0};
    struct c10d_hooks hooks = {.on_warning = on_warning};
    struct rlimit files;
    if (argc > 1 && !strcmp(argv[1], "-v"))
        hooks.on_mutation = on_mutation;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct event_base *base = event_base_new();
    struct c10d_server *server = c10d_server_create(base, "127.0.0.1", 0, &hooks, &err);
    if (!server) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("port %u\n", c10d_server_port(server));
    fflush(stdout);
    struct event *input = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, base);
    event_add(input, NULL);
    event_base_dispatch(base);
    event_free(input);
    c10d_server_destroy(server);
    event_base_free(base);
    return 0;
}
