#include "prismd/capture/gloo.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "common/array.h"
#include "prismd/diagnose/words.h"

#define MARK     "//cpu//"

struct group {
    char name[GLOO_NAME_MAX];
    uint32_t *absent; /* world ranks that are not live; one for each key, so that some may be there twice */
    size_t nabsent, cap;
    bool has_live;
    UT_hash_handle hh;
};

static size_t digits(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && isdigit((unsigned char)at[n]))
        n++;
    return n;
}

/* The last component in front of the mark names the group; behind it are a context and a rank. */
bool gloo_names_group(const void *bytes, size_t len, char *name)
{
    const char *key = bytes, *end = key + len, *mark = memmem(key, len, MARK, strlen(MARK));
    if (!mark || mark == key)
        return false;
    const char *at = mark + strlen(MARK);
    size_t context = digits(at, end);
    if (!context || at + context >= end || at[context] != '/')
        return false;
    at += context + 1;
    if (!digits(at, end) || at + digits(at, end) != end)
        return false;
    const char *begin = mark;
    while (begin > key && begin[-1] != '/')
        begin--;
    size_t n = (size_t)(mark - begin) < GLOO_NAME_MAX ? (size_t)(mark - begin) : GLOO_NAME_MAX - 1;
    memcpy(name, begin, n);
    name[n] = '\0';
    return n > 0 && !memchr(name, '\0', n); /* the library's names are text */
}

static bool is_live(uint32_t rank, const uint32_t *live, uint32_t nlive)
{
    for (uint32_t i = 0; i < nlive; i++)
        if (live[i] == rank)
            return true;
    return false;
}

static void add_member(struct group **groups, const char *name, uint32_t rank, bool live)
{
    struct group *g;
    HASH_FIND_STR(*groups, name, g);
    if (!g) {
        g = calloc(1, sizeof *g);
        if (!g)
            abort();
        memcpy(g->name, name, strlen(name) + 1);
        HASH_ADD_STR(*groups, name, g);
    }
    if (live) {
        g->has_live = true;
        return;
    }
    g->absent = array_room(g->absent, g->nabsent, &g->cap, sizeof *g->absent);
    g->absent[g->nabsent++] = rank;
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static int refuse(struct group *g, struct prism_error *err)
{
    words ranks;
    uint32_t n = 1;
    qsort(g->absent, g->nabsent, sizeof *g->absent, by_number);
    for (size_t i = 1; i < g->nabsent; i++)
        if (g->absent[i] != g->absent[n - 1])
            g->absent[n++] = g->absent[i];
    return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                           "the program has a Gloo process group (\"%s\" in the store), which communicates on the CPU, where absent "
                           "ranks cannot be replayed: %s; only capture can run it: name the backend in "
                           "init_process_group(\"nccl\") and new_group, or leave the Gloo group out",
                           g->name, words_ranks(ranks, g->absent, n));
}

int gloo_check(const struct c10d_log *log, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    struct group *groups = NULL, *g, *next;
    char name[GLOO_NAME_MAX];
    int rc = 0;
    for (size_t i = 0; i < c10d_log_count(log); i++) {
        const struct c10d_record *r = c10d_log_at(log, i);
        if (r->author != C10D_AUTHOR_NONE && r->mutation.kind == C10D_SET &&
            gloo_names_group(r->mutation.key, r->mutation.key_len, name))
            add_member(&groups, name, r->author, is_live(r->author, live, nlive));
    }
    HASH_ITER(hh, groups, g, next)
    {
        if (!rc && g->has_live && g->nabsent)
            rc = refuse(g, err);
        HASH_DEL(groups, g);
        free(g->absent);
        free(g);
    }
    return rc;
}
