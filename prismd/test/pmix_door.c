/* The door for PMIx clients: ranks are told by their first bytes, strangers get nowhere. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "prismd/pmix/pmix_door.h"

#define NAME "prism-0123456789abcdef"

static void test_rank_is_found(void **state)
{
    static const char hello[] = "xxnative\0" NAME "\0\0\0\1\2rest";
    size_t until = sizeof "xxnative" + sizeof NAME; /* the name with its NUL ends here */
    assert_int_equal(pmix_door_rank(hello, sizeof hello, NAME), 258);
    assert_int_equal(pmix_door_rank(hello, until + 4, NAME), 258);
    assert_int_equal(pmix_door_rank(hello, until + 3, NAME), -1); /* more to come */
    assert_int_equal(pmix_door_rank(hello, sizeof hello, "prism-0123456789abcdee"), -1);
    assert_int_equal(pmix_door_rank(hello, sizeof hello, "prism-0123456789abcde"), -1); /* only as a whole */
    assert_int_equal(pmix_door_rank(hello, 0, NAME), -1);
}

static int64_t came = -1;

static void on_rank(struct daemon *d, uint32_t rank, struct bufferevent *connection)
{
    came = rank;
    bufferevent_free(connection);
}

/* Sends, serves, and says whether the door closed the connection. */
static bool closed_after(struct daemon *d, struct pmix_door *door, const void *data, size_t len)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(pmix_door_port(door))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte;
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
    event_base_loopexit(d->base, &(struct timeval){0, 200000});
    event_base_dispatch(d->base);
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    close(fd);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void test_strangers(void **state)
{
    struct daemon d = {.base = event_base_new()};
    struct prism_error err = {0};
    struct pmix_door *door = pmix_door_create(&d, NAME, on_rank, &err);
    char *noise = calloc(1, 20000);
    assert_non_null(door);
    assert_false(closed_after(&d, door, "hello", 5)); /* until its ten seconds are over */
    assert_true(closed_after(&d, door, noise, 20000));
    assert_int_equal(came, -1);
    assert_true(closed_after(&d, door, NAME "\0\0\0\0\5", sizeof NAME + 4)); /* by on_rank */
    assert_int_equal(came, 5);
    pmix_door_destroy(door);
    event_base_free(d.base);
    free(noise);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_is_found),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
