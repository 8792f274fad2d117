/* store.c - who wrote what into the store, and what absent ranks wrote done again. Clients speak the protocol's bytes
 * (c10d/wire.h) from ports that the test chooses, all in one thread: the loop turns while a reply is awaited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "c10d/log.h"
#include "common/clock.h"
#include "prismd/store.h"

enum { VALIDATE = 0, SET = 1, CHECK = 5, PING = 13 };

static struct conf conf = {.nodes = 1, .world = 8};
static struct daemon d = {.conf = &conf};

static int make(void **state)
{
    (void)state;
    struct prism_error err = {0};
    d.base = event_base_new();
    d.store = store_create(&d, &err);
    return d.store ? 0 : -1;
}

static int unmake(void **state)
{
    (void)state;
    store_destroy(d.store);
    d.store = NULL;
    event_base_free(d.base);
    return 0;
}

/* --- a client --- */

static void receive(int fd, void *into, size_t len)
{
    for (int i = 0; i < 30000 && len; i++) {
        event_base_loop(d.base, EVLOOP_NONBLOCK);
        ssize_t n = recv(fd, into, len, MSG_DONTWAIT);
        if (n > 0) {
            into = (uint8_t *)into + n;
            len -= (size_t)n;
        } else {
            clock_sleep_until_ns(clock_now_ns() + 1000000);
        }
    }
    assert_int_equal(len, 0);
}

static void put_string(struct bytes *b, const char *text)
{
    bytes_put_u64(b, strlen(text));
    bytes_put(b, text, strlen(text));
}

static void transmit(int fd, struct bytes *b)
{
    assert_int_equal(send(fd, b->data, b->len, MSG_NOSIGNAL), b->len);
    bytes_free(b);
}

/* Returns once the server has handled all that was sent before. */
static void ping(int fd)
{
    struct bytes b = {0};
    uint32_t reply = 0;
    bytes_put_u8(&b, PING);
    bytes_put_u32(&b, 4711);
    transmit(fd, &b);
    receive(fd, &reply, sizeof reply);
    assert_int_equal(reply, 4711);
}

/* *port: to connect from; 0 = any, then told. */
static int client(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct linger at_once = {1, 0}; /* the port can be used again */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(*port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    struct bytes b = {0};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    a.sin_port = htons(store_port(d.store));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    bytes_put_u8(&b, VALIDATE);
    bytes_put_u32(&b, 0x3C85F7CE);
    transmit(fd, &b);
    ping(fd);
    return fd;
}

static uint16_t free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void set(int fd, const char *key)
{
    struct bytes b = {0};
    bytes_put_u8(&b, SET);
    put_string(&b, key);
    put_string(&b, "value");
    transmit(fd, &b);
    ping(fd);
}

static bool has(int fd, const char *key)
{
    struct bytes b = {0};
    uint8_t missing = 2;
    bytes_put_u8(&b, CHECK);
    bytes_put_u64(&b, 1);
    put_string(&b, key);
    transmit(fd, &b);
    receive(fd, &missing, 1);
    assert_true(missing < 2);
    return !missing;
}

static void hang_up(int fd)
{
    close(fd);
    for (int i = 0; i < 20; i++) {
        event_base_loop(d.base, EVLOOP_NONBLOCK);
        clock_sleep_until_ns(clock_now_ns() + 1000000);
    }
}

/* --- capture: authors --- */

static void assert_author(const char *key, uint32_t author)
{
    struct bytes b = {0};
    struct prism_error err = {0};
    store_log_encode(d.store, &b);
    struct c10d_log *log = c10d_log_decode(b.data, b.len, &err);
    bytes_free(&b);
    assert_non_null(log);
    bool found = false;
    for (size_t k = 0; k < c10d_log_count(log); k++) {
        const struct c10d_record *r = c10d_log_at(log, k);
        if (r->mutation.key_len != strlen(key) || memcmp(r->mutation.key, key, r->mutation.key_len))
            continue;
        assert_int_equal(r->author, author);
        found = true;
    }
    assert_true(found);
    c10d_log_destroy(log);
}

static void reports_may_come_at_any_time(void **state)
{
    (void)state;
    uint16_t ports[4] = {0};
    ports[0] = free_port();
    store_rank_connected(d.store, ports[0], 3);
    int before = client(&ports[0]), between = client(&ports[1]), after = client(&ports[2]), never = client(&ports[3]);
    set(before, "before");
    store_rank_connected(d.store, ports[1], 5);
    set(between, "between");
    set(after, "after");
    store_rank_connected(d.store, ports[2], 0);
    set(never, "never");
    assert_author("before", 3);
    assert_author("between", 5);
    assert_author("after", 0);
    assert_author("never", C10D_AUTHOR_NONE);
    store_rank_connected(d.store, 70000, 1); /* no such port: ignored */
    store_rank_connected(NULL, 1, 1);
    close(before), close(between), close(after), close(never);
}

static void a_report_may_come_after_the_connection_is_gone(void **state)
{
    (void)state;
    uint16_t port = 0;
    int fd = client(&port);
    set(fd, "gone");
    hang_up(fd);
    store_rank_connected(d.store, port, 6);
    assert_author("gone", 6);
}

static void a_port_used_again_has_another_author(void **state)
{
    (void)state;
    uint16_t port = 0;
    int first = client(&port);
    store_rank_connected(d.store, port, 1);
    set(first, "first");
    hang_up(first);
    int second = client(&port);
    set(second, "second"); /* before its report: not rank 1's */
    assert_author("second", C10D_AUTHOR_NONE);
    store_rank_connected(d.store, port, 2);
    set(second, "second");
    assert_author("first", 1);
    assert_author("second", 2);
    close(second);
}

/* --- later phases: replay --- */

static void record(struct c10d_log *log, uint32_t author, const char *key)
{
    struct c10d_mutation m = {.kind = C10D_SET, .key = key, .key_len = strlen(key), .value = "recorded", .value_len = 8};
    assert_int_equal(c10d_log_append(log, author, &m, NULL), 0);
}

static void replay_around(const uint32_t *live, uint32_t nlive, struct c10d_log *log)
{
    struct bytes b = {0};
    struct prism_error err = {0};
    c10d_log_encode(log, &b);
    c10d_log_destroy(log);
    assert_int_equal(store_replay(d.store, b.data, b.len, live, nlive, &err), 0);
    bytes_free(&b);
}

static void absent_ranks_write_when_their_turn_comes(void **state)
{
    (void)state;
    struct c10d_log *log = c10d_log_create();
    record(log, 0, "address");  /* absent */
    record(log, 2, "mine");     /* live: its program does it */
    record(log, 2, "shared");   /* live, then ... */
    record(log, 1, "shared");   /* ... absent: not before */
    record(log, C10D_AUTHOR_NONE, "launcher");
    uint32_t live[] = {2};
    replay_around(live, 1, log);
    uint16_t port = 0;
    int fd = client(&port);
    assert_true(has(fd, "address"));
    assert_true(has(fd, "launcher"));
    assert_false(has(fd, "mine"));
    assert_false(has(fd, "shared"));
    close(fd);
}

static void a_live_rank_lets_the_absent_go_on_once_it_is_known(void **state)
{
    (void)state;
    struct c10d_log *log = c10d_log_create();
    record(log, 2, "shared");
    record(log, 1, "shared");
    uint32_t live[] = {2, 4};
    replay_around(live, 2, log);
    uint16_t port = 0, other = 0, reader = 0;
    int fd = client(&port), stranger = client(&other), looking = client(&reader);
    store_rank_connected(d.store, other, 4);
    set(stranger, "shared"); /* another author's does not count */
    set(fd, "shared");
    /* What the log's absent rank writes shows in the value. */
    struct bytes b = {0};
    uint64_t len = 0;
    char value[16] = "";
    for (int known = 0; known < 2; known++) {
        bytes_put_u8(&b, 3); /* get */
        put_string(&b, "shared");
        transmit(looking, &b);
        receive(looking, &len, sizeof len);
        assert_true(len < sizeof value);
        memset(value, 0, sizeof value);
        receive(looking, value, len);
        assert_string_equal(value, known ? "recorded" : "value");
        if (!known)
            store_rank_connected(d.store, port, 2);
    }
    close(fd), close(stranger), close(looking);
}

static void a_damaged_log_is_refused(void **state)
{
    (void)state;
    uint32_t live[] = {0};
    struct prism_error err = {0};
    assert_int_equal(store_replay(d.store, "no log", 6, live, 1, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
}

/* What a follower gives its ranks: the coordinator's name if it means anything here. */
static void a_name_that_does_not_resolve(void **state)
{
    char unknown[80];
    (void)state;
    memset(unknown, 'a', sizeof unknown - 1); /* longer than a label may be: no server is asked */
    unknown[sizeof unknown - 1] = 0;
    const char *const hosts[][2] = {{"localhost", "localhost"}, {unknown, "127.0.0.1"}, {"127.0.0.1", "127.0.0.1"}};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct store *s = store_remote(&d, hosts[i][0], 1234); /* without links the coordinator's address is loopback */
        assert_string_equal(store_host(s), hosts[i][1]);
        assert_int_equal(store_port(s), 1234);
        store_destroy(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_does_not_resolve),
        cmocka_unit_test_setup_teardown(reports_may_come_at_any_time, make, unmake),
        cmocka_unit_test_setup_teardown(a_report_may_come_after_the_connection_is_gone, make, unmake),
        cmocka_unit_test_setup_teardown(a_port_used_again_has_another_author, make, unmake),
        cmocka_unit_test_setup_teardown(absent_ranks_write_when_their_turn_comes, make, unmake),
        cmocka_unit_test_setup_teardown(a_live_rank_lets_the_absent_go_on_once_it_is_known, make, unmake),
        cmocka_unit_test_setup_teardown(a_damaged_log_is_refused, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
