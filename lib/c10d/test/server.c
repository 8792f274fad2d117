/* Client against server, on a thread: operations, hooks, watchers, many clients, bad bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "c10d/client.h"
#include "c10d/server.h"
#include "common/bytes.h"

struct fixture {
    struct c10d_server_thread *thread;
    uint16_t port;
    pthread_mutex_t lock;
    char story[4096]; /* what the hooks heard */
};

static void tell(struct fixture *f, const char *format, ...)
{
    va_list ap;
    pthread_mutex_lock(&f->lock);
    size_t used = strlen(f->story);
    va_start(ap, format);
    vsnprintf(f->story + used, sizeof f->story - used, format, ap);
    va_end(ap);
    pthread_mutex_unlock(&f->lock);
}

static void on_connect(void *ctx, struct c10d_peer *peer)
{
    assert_string_equal(peer->address, "127.0.0.1");
    assert_true(peer->port > 0);
    peer->user = (void *)(uintptr_t)peer->id;
}

static void on_mutation(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    tell(ctx, "%ju:%s:%.*s:%.*s:%lld ", (uintmax_t)(uintptr_t)peer->user, c10d_kind_name(m->kind),
         (int)m->key_len, (const char *)m->key, (int)m->value_len, m->value ? (const char *)m->value : "",
         (long long)m->delta);
}

/* Three others do the same to keys under "all/". */
static uint32_t on_add(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m)
{
    (void)ctx;
    assert_non_null(peer->user);
    return m->delta && m->key_len > 4 && !memcmp(m->key, "all/", 4) ? 3 : 0;
}

static int start(void **state)
{
    struct prism_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    struct c10d_hooks hooks = {.ctx = f, .on_connect = on_connect, .on_mutation = on_mutation, .on_add = on_add};
    pthread_mutex_init(&f->lock, NULL);
    f->thread = c10d_server_start_thread("127.0.0.1", 0, &hooks, &err);
    if (!f->thread)
        return -1;
    f->port = c10d_server_thread_port(f->thread);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    c10d_server_stop_thread(f->thread);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

static struct c10d_client *connected(struct fixture *f)
{
    struct prism_error err = {0};
    struct c10d_client *c = c10d_client_connect("127.0.0.1", f->port, 10000, &err);
    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static void assert_value(struct c10d_client *c, const char *key, const char *expected)
{
    void *value;
    size_t len;
    assert_int_equal(c10d_client_get(c, key, 10000, &value, &len, NULL), 0);
    assert_int_equal(len, strlen(expected));
    assert_string_equal(value, expected);
    free(value);
}

static void serves_every_operation(void **state)
{
    struct fixture *f = *state;
    struct c10d_client *c = connected(f);
    int64_t n;
    bool yes;
    void *value;
    size_t len;
    const char *keys[] = {"k", "n"};
    assert_int_equal(c10d_client_set(c, "k", "v", 1, NULL), 0);
    assert_value(c, "k", "v");
    assert_int_equal(c10d_client_check(c, keys, 2, &yes, NULL), 0);
    assert_false(yes);
    assert_int_equal(c10d_client_add(c, "n", -7, &n, NULL), 0);
    assert_int_equal(n, -7);
    assert_value(c, "n", "-7");
    assert_int_equal(c10d_client_check(c, keys, 2, &yes, NULL), 0);
    assert_true(yes);
    assert_int_equal(c10d_client_wait(c, keys, 2, 10000, NULL), 0);
    assert_int_equal(c10d_client_append(c, "k", "w", 1, NULL), 0);
    assert_value(c, "k", "vw");
    assert_int_equal(c10d_client_compare_set(c, "k", "no", 2, "x", 1, &value, &len, NULL), 0);
    assert_string_equal(value, "vw");
    free(value);
    assert_int_equal(c10d_client_compare_set(c, "k", "vw", 2, "x", 1, &value, &len, NULL), 0);
    assert_string_equal(value, "x");
    free(value);
    assert_int_equal(c10d_client_compare_set(c, "gone", "e", 1, "x", 1, &value, &len, NULL), 0);
    assert_string_equal(value, "e");
    free(value);
    assert_int_equal(c10d_client_num_keys(c, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(c10d_client_delete(c, "k", &yes, NULL), 0);
    assert_true(yes);
    assert_int_equal(c10d_client_delete(c, "k", &yes, NULL), 0);
    assert_false(yes);
    assert_int_equal(c10d_client_num_keys(c, &n, NULL), 0);
    assert_int_equal(n, 1);
    c10d_client_close(c);
    pthread_mutex_lock(&f->lock);
    assert_string_equal(f->story,
                        "1:set:k:v:0 1:add:n::-7 1:append:k:w:0 1:compare_set:k:x:0 1:delete:k::0 ");
    pthread_mutex_unlock(&f->lock);
}

static void times_out_and_goes_on(void **state)
{
    struct c10d_client *c = connected(*state);
    struct prism_error err = {0};
    void *value;
    size_t len;
    errno = 0;
    assert_int_equal(c10d_client_get(c, "never", 30, &value, &len, &err), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_non_null(strstr(err.text, "never"));
    assert_int_equal(c10d_client_set(c, "never", "now", 3, NULL), 0);
    assert_value(c, "never", "now");
    c10d_client_close(c);
}

static void connect_reports_who_is_missing(void **state)
{
    struct prism_error err = {0};
    assert_null(c10d_client_connect("127.0.0.1", 1, 50, &err));
    assert_int_equal(errno, ETIMEDOUT);
    assert_non_null(strstr(err.text, "127.0.0.1 port 1"));
}

static void *set_later(void *ctx)
{
    struct c10d_client *c = connected(ctx);
    poll(NULL, 0, 50);
    c10d_client_set(c, "a", "1", 1, NULL);
    poll(NULL, 0, 50);
    c10d_client_add(c, "b", 1, NULL, NULL);
    c10d_client_close(c);
    return NULL;
}

static void waits_for_all_keys(void **state)
{
    struct c10d_client *c = connected(*state);
    const char *keys[] = {"a", "b", "a"};
    pthread_t thread;
    pthread_create(&thread, NULL, set_later, *state);
    assert_int_equal(c10d_client_wait(c, keys, 3, 20000, NULL), 0);
    assert_value(c, "b", "1");
    pthread_join(thread, NULL);
    c10d_client_close(c);
}

static int raw_connect(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static void put_string(struct bytes *b, const char *s)
{
    bytes_put_u64(b, strlen(s));
    bytes_put(b, s, strlen(s));
}

static void expect(int fd, const struct bytes *b)
{
    uint8_t *got = malloc(b->len);
    assert_int_equal(recv(fd, got, b->len, MSG_WAITALL), b->len);
    assert_memory_equal(got, b->data, b->len);
    free(got);
}

/* PyTorch 1.13's own watch connection, which Python does not offer in Debian's build. */
static void legacy_client_watches_a_key(void **state)
{
    struct fixture *f = *state;
    struct bytes out = {0}, in = {0};
    int fd = raw_connect(f->port);
    bytes_put_u8(&out, 7); /* WATCH_KEY */
    put_string(&out, "w");
    assert_int_equal(send(fd, out.data, out.len, 0), out.len);
    bytes_put_u8(&in, 3);
    expect(fd, &in);
    struct c10d_client *c = connected(f);
    c10d_client_set(c, "w", "one", 3, NULL);
    c10d_client_set(c, "other", "x", 1, NULL);
    c10d_client_set(c, "w", "two", 3, NULL);
    c10d_client_delete(c, "w", NULL, NULL);
    const char *changes[][3] = {{"\1", "", "one"}, {"\0", "one", "two"}, {"\2", "two", ""}};
    bytes_clear(&in);
    for (int i = 0; i < 3; i++) {
        bytes_put(&in, changes[i][0], 1);
        put_string(&in, "w");
        put_string(&in, changes[i][1]);
        put_string(&in, changes[i][2]);
    }
    expect(fd, &in);
    close(fd);
    c10d_client_set(c, "w", "nobody", 6, NULL); /* the watcher has left */
    assert_value(c, "w", "nobody");
    c10d_client_close(c);
    bytes_free(&in);
    bytes_free(&out);
}

static void bad_bytes_close_that_connection_only(void **state)
{
    struct fixture *f = *state;
    struct c10d_client *c = connected(f);
    srand(2);
    for (int round = 0; round < 300; round++) {
        uint8_t data[200];
        int fd = raw_connect(f->port);
        size_t len = 1 + (size_t)rand() % sizeof data, at = 0;
        if (round & 1) { /* a right opening first */
            const uint8_t validate[] = {0, 0xCE, 0xF7, 0x85, 0x3C};
            send(fd, validate, sizeof validate, MSG_NOSIGNAL);
        }
        for (; at < len; at++)
            data[at] = (uint8_t)(rand() % 3 ? rand() % 20 : rand());
        send(fd, data, len, MSG_NOSIGNAL);
        close(fd);
    }
    int fd = raw_connect(f->port);
    uint8_t byte = 200;
    send(fd, &byte, 1, 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* closed, and nothing said */
    close(fd);
    c10d_client_set(c, "still", "here", 4, NULL);
    assert_value(c, "still", "here");
    c10d_client_set(c, "text", "abc", 3, NULL);
    assert_int_equal(c10d_client_add(c, "text", 1, NULL, NULL), -1); /* not a number: as PyTorch, closed */
    c10d_client_close(c);
}

static void big_values_and_slow_readers(void **state)
{
    struct fixture *f = *state;
    struct c10d_client *c = connected(f);
    size_t len = 8u << 20, got_len;
    char *big = malloc(len);
    void *got;
    memset(big, 'b', len);
    assert_int_equal(c10d_client_set(c, "big", big, len, NULL), 0);
    assert_int_equal(c10d_client_get(c, "big", 10000, &got, &got_len, NULL), 0);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, big, len);
    free(got);
    int fd = raw_connect(f->port); /* asks 20 times for 8 MiB and reads late */
    struct bytes out = {0};
    for (int i = 0; i < 20; i++) {
        bytes_put_u8(&out, 2); /* legacy GET */
        put_string(&out, "big");
    }
    assert_int_equal(send(fd, out.data, out.len, 0), out.len);
    for (size_t left = 20 * (len + 8); left;) {
        ssize_t n = recv(fd, big, left < len ? left : len, 0);
        assert_true(n > 0);
        left -= (size_t)n;
    }
    close(fd);
    free(big);
    bytes_free(&out);
    c10d_client_close(c);
}

/* A barrier of many clients as PyTorch makes it: everyone adds, everyone waits for the key the last one sets. */
static void many_clients(void **state)
{
    enum { CLIENTS = 400 };
    struct fixture *f = *state;
    struct c10d_client *clients[CLIENTS];
    int fds[CLIENTS];
    struct bytes wait = {0};
    uint8_t answer;
    bytes_put_u8(&wait, 5); /* legacy WAIT */
    bytes_put_u64(&wait, 1);
    put_string(&wait, "last");
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = raw_connect(f->port);
        assert_int_equal(send(fds[i], wait.data, wait.len, 0), wait.len);
    }
    for (int i = 0; i < CLIENTS; i++) {
        int64_t n;
        clients[i] = connected(f);
        assert_int_equal(c10d_client_add(clients[i], "count", 1, &n, NULL), 0);
        assert_int_equal(n, i + 1);
    }
    for (int i = 0; i < CLIENTS; i += 2) /* half of the waiters give up */
        close(fds[i]);
    assert_int_equal(c10d_client_set(clients[0], "last", "1", 1, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        if (i & 1) {
            assert_int_equal(recv(fds[i], &answer, 1, 0), 1);
            assert_int_equal(answer, 0);
            close(fds[i]);
        }
        c10d_client_close(clients[i]);
    }
    bytes_free(&wait);
}

static void others_add_in_front(void **state)
{
    struct fixture *f = *state;
    struct c10d_client *c = connected(f);
    int64_t n;
    assert_int_equal(c10d_client_add(c, "all/n", 2, &n, NULL), 0);
    assert_int_equal(n, 8);
    assert_int_equal(c10d_client_add(c, "all/n", 0, &n, NULL), 0);
    assert_int_equal(n, 8);
    assert_int_equal(c10d_client_add(c, "n", 1, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_string_equal(f->story, "1:add:all/n::2 1:add:all/n::0 1:add:n::1 ");
    c10d_client_close(c);
}

int main(void)
{
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(serves_every_operation, start, stop),
        cmocka_unit_test_setup_teardown(times_out_and_goes_on, start, stop),
        cmocka_unit_test(connect_reports_who_is_missing),
        cmocka_unit_test_setup_teardown(waits_for_all_keys, start, stop),
        cmocka_unit_test_setup_teardown(legacy_client_watches_a_key, start, stop),
        cmocka_unit_test_setup_teardown(bad_bytes_close_that_connection_only, start, stop),
        cmocka_unit_test_setup_teardown(big_values_and_slow_readers, start, stop),
        cmocka_unit_test_setup_teardown(many_clients, start, stop),
        cmocka_unit_test_setup_teardown(others_add_in_front, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
