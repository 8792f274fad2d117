/* link_setup.c - nodes find each other; strangers are dropped while they do. Each node is a process of its own; strangers
 * speak raw bytes as docs/formats/daemon-protocol.md has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "prismd/link/link_setup.h"

enum { MAGIC = 0, VERSION = 4, NODE = 8, NODES = 12, PORT = 16, CREDENTIAL_LEN = 20, HOST = 24, NAME = 280, STEP = 344, RELEASE = 440,
       KEY = 472, CREDENTIAL = 536, GREETING = 4632 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    setenv("PRISM_MUNGE_SOCKET", "/nonexistent", 1); /* whether munge runs here or not */
    unsetenv("SLURMD_NODENAME");
    strcpy(folder, "/tmp/prism-link.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void rendezvous_path(char *path)
{
    snprintf(path, 128, "%s/.prismd-%s", folder, "step");
}

static int remove_folder(void **state)
{
    (void)state;
    char path[128];
    rendezvous_path(path);
    unlink(path);
    return rmdir(folder);
}

struct node {
    pid_t pid;
    int told; /* its outcome comes here */
};

struct outcome {
    int rc;
    uint32_t connected;
    int64_t clock_offset_ns, clock_error_ns;
    struct prism_error err;
    char name_of_0[LINK_NAME_MAX];
};

static bool interrupt_at_once(void *ctx)
{
    (void)ctx;
    return true;
}

static struct node start(uint32_t node, uint32_t nodes, uint32_t seconds, bool (*interrupted)(void *))
{
    int fds[2];
    struct node n;
    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    n.pid = fork();
    n.told = fds[0];
    if (n.pid) {
        close(fds[1]);
        return n;
    }
    char name[16];
    snprintf(name, sizeof name, "name%u", node);
    setenv("SLURMD_NODENAME", name, 1);
    alarm(50);
    struct conf c = {.node = node, .nodes = nodes, .trace = folder, .step = (char *)"step", .link_seconds = seconds};
    struct link_peers peers;
    struct outcome o = {0};
    o.rc = link_setup(&c, interrupted, NULL, &peers, &o.err);
    if (!o.rc) {
        for (uint32_t i = 0; i < nodes; i++)
            o.connected += peers.sockets[i] >= 0;
        o.clock_offset_ns = peers.clock_offset_ns;
        o.clock_error_ns = peers.clock_error_ns;
        memcpy(o.name_of_0, peers.names[0], LINK_NAME_MAX);
    }
    link_peers_clear(&c, &peers);
    _exit(write(fds[1], &o, sizeof o) != (ssize_t)sizeof o);
}

static struct outcome outcome_of(struct node n)
{
    struct outcome o = {0};
    int status;
    assert_int_equal(read(n.told, &o, sizeof o), sizeof o);
    close(n.told);
    assert_int_equal(waitpid(n.pid, &status, 0), n.pid);
    return o;
}

static void rendezvous(uint32_t *port, char *key)
{
    char path[128], host[256];
    rendezvous_path(path);
    for (int i = 0; i < 2000; i++) {
        FILE *f = fopen(path, "r");
        int n = f ? fscanf(f, "%255s %u %64s", host, port, key) : 0;
        if (f)
            fclose(f);
        if (n == 3)
            return;
        clock_sleep_until_ns(clock_now_ns() + 10000000);
    }
    fail_msg("the first node never published its address");
}

static int dial(uint32_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void put(uint8_t *greeting, int at, uint32_t value)
{
    memcpy(greeting + at, &value, sizeof value);
}

/* What node 1 of 3 would send. */
static void fill(uint8_t *greeting, const char *key)
{
    memset(greeting, 0, GREETING);
    put(greeting, MAGIC, 0x4c6d7350u);
    put(greeting, VERSION, MSG_VERSION);
    put(greeting, NODE, 1);
    put(greeting, NODES, 3);
    strcpy((char *)greeting + HOST, "stranger");
    strcpy((char *)greeting + NAME, "stranger");
    strcpy((char *)greeting + STEP, "step");
    strcpy((char *)greeting + RELEASE, PRISM_VERSION);
    memcpy(greeting + KEY, key, 64);
}

/* Bytes of the answer until the other side closes, or `want` have come. */
static size_t answer(int fd, size_t want)
{
    uint8_t buffer[GREETING];
    size_t got = 0;
    while (got < want) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 30000) != 1)
            break;
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

static void all_connect(uint32_t nodes, struct node *started)
{
    for (uint32_t i = 0; i < nodes; i++) {
        struct outcome o = outcome_of(started[i]);
        if (o.rc)
            fail_msg("node %u: %s", i, o.err.text);
        assert_int_equal(o.connected, nodes - 1);
        assert_true(o.clock_error_ns > 0 && o.clock_error_ns < 30 * NSEC_PER_SEC);
        /* One machine, one clock. */
        assert_true(llabs(o.clock_offset_ns) <= o.clock_error_ns);
        assert_string_equal(o.name_of_0, i ? "name0" : "");
    }
    char path[128];
    rendezvous_path(path);
    assert_int_equal(access(path, F_OK), -1);
}

static void nodes_connect_in_any_order(void **state)
{
    (void)state;
    struct node n[3];
    for (uint32_t i = 3; i-- > 0;)
        n[i] = start(i, 3, 30, NULL);
    all_connect(3, n);
}

/* An address of a run that was killed lies there: nobody listens, or someone else does. */
static void a_stale_address_is_passed_over(void **state)
{
    (void)state;
    char path[128], text[256];
    rendezvous_path(path);
    int n = snprintf(text, sizeof text, "localhost 1 %064d\n", 7);
    assert_int_equal(file_write_atomic(path, text, (size_t)n, 0600, NULL), 0);
    struct node nodes[2];
    nodes[1] = start(1, 2, 30, NULL);
    clock_sleep_until_ns(clock_now_ns() + 200000000);
    nodes[0] = start(0, 2, 30, NULL);
    all_connect(2, nodes);
}

static void strangers_are_dropped_and_the_rest_connects(void **state)
{
    (void)state;
    struct node n[3];
    uint32_t port;
    char key[65];
    uint8_t greeting[GREETING];
    n[0] = start(0, 3, 30, NULL);
    rendezvous(&port, key);
    const struct {
        const char *what;
        int at;
        uint8_t flip;
    } wrong[] = {{"magic", MAGIC, 1},   {"number of nodes", NODES, 1},
                 {"node", NODE + 1, 1}, {"step", STEP + 3, 1},   {"key", KEY + 63, 1},
                 {"length", CREDENTIAL_LEN + 3, 0x80}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fill(greeting, key);
        greeting[wrong[i].at] ^= wrong[i].flip;
        int fd = dial(port);
        assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
        /* Not even an answer: it would have the key in it. */
        size_t got = answer(fd, 1);
        if (got)
            fail_msg("a wrong %s got %zu bytes", wrong[i].what, got);
        close(fd);
    }
    fill(greeting, key);
    int cut = dial(port);
    assert_int_equal(send(cut, greeting, 1000, MSG_NOSIGNAL), 1000);
    close(cut);
    int silent = dial(port); /* holds the line for a tenth of the time */
    n[1] = start(1, 3, 30, NULL);
    n[2] = start(2, 3, 30, NULL);
    all_connect(3, n);
    close(silent);
}

/* That the strangers above were dropped for what was wrong, and not for how the test speaks. */
static void the_bytes_are_as_documented(void **state)
{
    (void)state;
    uint32_t port;
    char key[65];
    uint8_t greeting[GREETING];
    struct node n = start(0, 3, 30, NULL);
    rendezvous(&port, key);
    fill(greeting, key);
    int fd = dial(port);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(answer(fd, GREETING), GREETING);
    close(fd);
    kill(n.pid, SIGKILL);
    waitpid(n.pid, NULL, 0);
    close(n.told);
}

static void the_message_names_who_is_missing(void **state)
{
    (void)state;
    struct node first = start(0, 4, 2, NULL), second = start(2, 4, 2, NULL);
    struct outcome o = outcome_of(first);
    assert_int_equal(o.rc, -1);
    assert_int_equal(o.err.code, PRISM_EXIT_DAEMON);
    assert_non_null(strstr(o.err.text, "node 1, 3 within 2 s"));
    assert_non_null(strstr(o.err.text, folder));
    assert_int_equal(outcome_of(second).rc, -1);

    struct outcome lonely = outcome_of(start(1, 4, 1, NULL));
    assert_int_equal(lonely.rc, -1);
    assert_non_null(strstr(lonely.err.text, "no contact with the first node"));
}

/* It has the key, so it is one of ours; a stranger that says so would not end the run. */
static void another_version_is_named_at_once(void **state)
{
    (void)state;
    uint32_t port;
    char key[65];
    uint8_t greeting[GREETING];
    struct node n = start(0, 3, 30, NULL);
    rendezvous(&port, key);
    int64_t began = clock_now_ns();
    fill(greeting, "0000000000000000000000000000000000000000000000000000000000000000");
    put(greeting, VERSION, MSG_VERSION + 1);
    int stranger = dial(port);
    assert_int_equal(send(stranger, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(answer(stranger, 1), 0);
    close(stranger);
    fill(greeting, key);
    put(greeting, VERSION, MSG_VERSION + 1);
    int fd = dial(port);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    struct outcome o = outcome_of(n);
    close(fd);
    assert_int_equal(o.rc, -1);
    assert_int_equal(o.err.code, PRISM_EXIT_DAEMON);
    assert_non_null(strstr(o.err.text, "node 1 runs another version of Prism"));
    assert_true(clock_now_ns() - began < 20 * NSEC_PER_SEC);
}

/* Release and protocol need not change together. It is answered, so that it need not try for a minute. */
static void another_release_is_named_at_once(void **state)
{
    (void)state;
    uint32_t port;
    char key[65];
    uint8_t greeting[GREETING];
    struct node n = start(0, 3, 30, NULL);
    rendezvous(&port, key);
    int64_t began = clock_now_ns();
    fill(greeting, key);
    strcpy((char *)greeting + RELEASE, "0.0.9");
    int fd = dial(port);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(answer(fd, GREETING), GREETING);
    /* The answer has the key in it: a stranger who comes then gets none. */
    greeting[KEY] ^= 1;
    int stranger = dial(port);
    assert_int_equal(send(stranger, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(answer(stranger, 1), 0);
    close(stranger);
    struct outcome o = outcome_of(n);
    close(fd);
    assert_int_equal(o.rc, -1);
    assert_int_equal(o.err.code, PRISM_EXIT_DAEMON);
    assert_non_null(strstr(o.err.text, "node 1 runs another version of Prism (0.0.9, node 0 " PRISM_VERSION ")"));
    assert_true(clock_now_ns() - began < 20 * NSEC_PER_SEC);
}

static void setup_can_be_interrupted(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct outcome o = outcome_of(start(i, 2, 40, interrupt_at_once));
        assert_int_equal(o.rc, -1);
        assert_int_equal(o.err.code, PRISM_EXIT_INTERRUPTED);
    }
    char path[128];
    rendezvous_path(path);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_connect_in_any_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_stale_address_is_passed_over, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(strangers_are_dropped_and_the_rest_connects, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_bytes_are_as_documented, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_message_names_who_is_missing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(another_version_is_named_at_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(another_release_is_named_at_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(setup_can_be_interrupted, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
