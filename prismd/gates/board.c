#include "prismd/gates/board.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/board.h"

struct node_board {
    int fd;
    struct board *page;
    uint32_t seats;
    struct rank **ranks; /* owned; by seat */
};

int board_create(struct daemon *d, struct prism_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->conf->world; i++)
        n += d->ranks[i] != NULL;
    if (n < BOARD_LEAST)
        return 0;
    struct node_board *b = calloc(1, sizeof *b);
    if (!b || !(b->ranks = calloc(n, sizeof(struct rank *))))
        abort();
    b->fd = memfd_create("prism-board", MFD_CLOEXEC);
    b->page = MAP_FAILED;
    if (b->fd >= 0 && !ftruncate(b->fd, (off_t)board_size(n)))
        b->page = mmap(NULL, board_size(n), PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (b->page == MAP_FAILED) {
        prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make the %zu bytes that %u ranks share with prismd: %s", board_size(n), n, strerror(errno));
        if (b->fd >= 0)
            close(b->fd);
        free(b->ranks);
        free(b);
        return -1;
    }
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i]) {
            d->ranks[i]->seat = b->seats;
            b->ranks[b->seats++] = d->ranks[i];
        }
    d->board = b;
    return 0;
}

void board_destroy(struct daemon *d)
{
    struct node_board *b = d->board;
    if (!b)
        return;
    d->board = NULL;
    munmap(b->page, board_size(b->seats));
    close(b->fd);
    free(b->ranks);
    free(b);
}

int board_fd(const struct daemon *d)
{
    return d->board ? d->board->fd : -1;
}

uint32_t *board_bell(const struct daemon *d)
{
    return d->board ? &d->board->page->bell : NULL;
}

uint32_t board_seats(const struct daemon *d)
{
    return d->board ? d->board->seats : 0;
}

void board_mark(const struct daemon *d, const struct rank *r)
{
    if (!d->board)
        return;
    __atomic_store_n(&d->board->page->flags[r->seat], 1, __ATOMIC_RELEASE);
    __atomic_store_n(&d->board->page->bell, 1, __ATOMIC_RELEASE);
}

bool board_is_marked(const struct daemon *d, const struct rank *r)
{
    return d->board && __atomic_load_n(&d->board->page->flags[r->seat], __ATOMIC_ACQUIRE);
}

#define TOGETHER 16u /* flags looked at in one go; a page holds whole lots of them */

typedef uint64_t __attribute__((may_alias)) two_flags;

static bool any_marked(const uint32_t *flags)
{
    const two_flags *pairs = (const two_flags *)flags;
    uint64_t all = 0;
    for (uint32_t i = 0; i < TOGETHER / 2; i++)
        all |= __atomic_load_n(&pairs[i], __ATOMIC_RELAXED);
    return all;
}

bool board_take(struct daemon *d, void (*look)(void *arg, struct rank *r), void *arg)
{
    struct node_board *b = d->board;
    if (!b || !__atomic_exchange_n(&b->page->bell, 0, __ATOMIC_ACQ_REL))
        return false;
    for (uint32_t first = 0; first < b->seats; first += TOGETHER) {
        uint32_t end = first + TOGETHER < b->seats ? first + TOGETHER : b->seats;
        for (uint32_t i = any_marked(&b->page->flags[first]) ? first : end; i < end; i++)
            if (__atomic_load_n(&b->page->flags[i], __ATOMIC_RELAXED) && __atomic_exchange_n(&b->page->flags[i], 0, __ATOMIC_ACQ_REL))
                look(arg, b->ranks[i]);
    }
    return true;
}
