#include "coll/ballast.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static int take_sizes(struct coll_ballast *b, json_t *list)
{
    size_t n = json_array_size(list);
    if (!n || !(b->sizes = calloc(n, sizeof *b->sizes)))
        return -1;
    for (size_t i = 0; i < n; i++) {
        json_int_t size, bytes, collectives = 0, messages = 0;
        if (json_unpack(json_array_get(list, i), "{s:I, s:I, s?I, s?I}", "size", &size, "bytes", &bytes, "collective_bytes", &collectives,
                        "message_bytes", &messages) ||
            size < 1 || size > INT32_MAX || bytes < 0 || collectives < 0 || messages < 0 || collectives > bytes ||
            messages > bytes - collectives || (i && size <= b->sizes[i - 1].size))
            return -1;
        b->sizes[i] = (struct coll_ballast_size){(int)size, (uint64_t)bytes, (uint64_t)collectives, (uint64_t)messages};
        b->nsizes++;
    }
    return 0;
}

int coll_ballast_load(struct coll_ballast *b, const char *path, struct prism_error *err)
{
    json_error_t why;
    json_t *list, *root = json_load_file(path, 0, &why);
    json_int_t process, collectives = 0, messages = 0;
    const char *format;
    int version;
    *b = (struct coll_ballast){0};
    if (!root)
        return prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_BALLAST: %s: %s", path, why.text);
    int rc = json_unpack(root, "{s:s, s:i, s:i, s:I, s?I, s?I, s:o}", "format", &format, "version", &version, "nccl", &b->nccl,
                         "process_bytes", &process, "process_collective_bytes", &collectives, "process_message_bytes", &messages, "sizes",
                         &list);
    rc = rc || strcmp(format, "prism-ballast") != 0 || version != 1 || collectives < 0 || messages < 0 || process < collectives ||
         process - collectives < messages || take_sizes(b, list);
    json_decref(root);
    if (!rc) {
        b->process_bytes = (uint64_t)process;
        b->process_collectives = (uint64_t)collectives;
        b->process_messages = (uint64_t)messages;
        return 0;
    }
    coll_ballast_clear(b);
    return prism_error_set(err, PRISM_EXIT_USAGE,
                           "PRISM_BALLAST: %s is no ballast table of version 1 (ascending sizes from 1, bytes not negative, parts of them not more); measure "
                           "one with tests/gpu/ballast.py", path);
}

void coll_ballast_clear(struct coll_ballast *b)
{
    free(b->sizes);
    *b = (struct coll_ballast){0};
}

static uint64_t without_unused(uint64_t bytes, uint64_t collectives, uint64_t messages, int uses)
{
    return bytes - (uses & COLL_BALLAST_COLLECTIVES ? 0 : collectives) - (uses & COLL_BALLAST_MESSAGES ? 0 : messages);
}

static uint64_t used_bytes(const struct coll_ballast_size *s, int uses)
{
    return without_unused(s->bytes, s->collectives, s->messages, uses);
}

uint64_t coll_ballast_bytes(const struct coll_ballast *b, int size, int uses)
{
    bool alone = b->nsizes && b->sizes[0].size == 1; /* a rank alone has neighbours of no kind: no help with the other sizes */
    if (size < 2)
        return size == 1 && alone ? used_bytes(&b->sizes[0], uses) : 0;
    size_t first = alone ? 1 : 0, i = first;
    if (first == b->nsizes)
        return 0;
    while (i < b->nsizes && b->sizes[i].size < size)
        i++;
    if (i == b->nsizes)
        return used_bytes(&b->sizes[i - 1], uses);
    if (i == first || b->sizes[i].size == size)
        return used_bytes(&b->sizes[i], uses);
    const struct coll_ballast_size *low = &b->sizes[i - 1], *high = &b->sizes[i];
    double share = (double)(size - low->size) / (high->size - low->size);
    double below = (double)used_bytes(low, uses), above = (double)used_bytes(high, uses);
    return (uint64_t)(below + share * (above - below) + 0.5);
}

uint64_t coll_ballast_missing(const struct coll_ballast *b, int size, int real_size, int uses, int process)
{
    if (size < 1)
        return 0;
    uint64_t full = coll_ballast_bytes(b, size, uses), real = coll_ballast_bytes(b, real_size, uses);
    uint64_t once = process < 0 || real_size ? 0 : without_unused(b->process_bytes, b->process_collectives, b->process_messages, process);
    return (full > real ? full - real : 0) + once;
}
