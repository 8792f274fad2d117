#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values are shown in messages: cut what is endless, never show control characters. */
static const char *shown(const char *text, size_t len, char out[64])
{
    size_t n = 0;
    for (; n < len && n < 40; n++)
        out[n] = isprint((unsigned char)text[n]) ? text[n] : '?';
    snprintf(out + n, 64 - n, "%s", n < len ? "..." : "");
    return out;
}

/* Digits from *at on; leaves *at behind them. Numbers beyond 18 digits come out as UINT64_MAX. */
static bool read_digits(const char **at, uint64_t *value)
{
    const char *p = *at;
    uint64_t v = 0;
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        v = v > 999999999999999999u ? UINT64_MAX : v * 10 + (uint64_t)(*p - '0');
        digits++;
    }
    *at = p;
    *value = v;
    return digits > 0;
}

int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value, struct prism_error *err)
{
    const char *p = text;
    uint64_t v;
    char show[64];
    if (!read_digits(&p, &v) || *p)
        return prism_error_set(err, PRISM_EXIT_USAGE, "'%s' is not a number: %llu to %llu is allowed",
                               shown(text, strlen(text), show), (unsigned long long)least, (unsigned long long)most);
    if (v < least || v > most)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s is out of range: %llu to %llu is allowed",
                               shown(text, strlen(text), show), (unsigned long long)least, (unsigned long long)most);
    *value = v;
    return 0;
}

/* --- ranks --- */

static int read_range(const char **at, struct parse_range *range, struct prism_error *err)
{
    const char *item = *at, *p = item;
    uint64_t first, last;
    char show[64];
    bool good = read_digits(&p, &first);
    last = first;
    if (good && *p == '-') {
        p++;
        good = read_digits(&p, &last);
    }
    if (!good || (*p && *p != ','))
        return prism_error_set(err, PRISM_EXIT_USAGE, "'%s' is neither a rank nor a range of ranks such as 0,17,4096-4099",
                               shown(item, strcspn(item, ","), show));
    if (last >= PARSE_WORLD_MAX || first >= PARSE_WORLD_MAX)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s: ranks go from 0 to %u", shown(item, strcspn(item, ","), show),
                               PARSE_WORLD_MAX - 1);
    if (last < first)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s runs backwards: write the lower rank first",
                               shown(item, strcspn(item, ","), show));
    *range = (struct parse_range){(uint32_t)first, (uint32_t)last};
    *at = p;
    return 0;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct parse_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int sum_ranges(struct parse_ranks *r, struct prism_error *err)
{
    qsort(r->ranges, r->nranges, sizeof *r->ranges, compare_ranges);
    for (size_t i = 0; i < r->nranges; i++) {
        if (i && r->ranges[i].first <= r->ranges[i - 1].last)
            return prism_error_set(err, PRISM_EXIT_USAGE, "rank %u is listed twice", r->ranges[i].first);
        r->count += r->ranges[i].last - r->ranges[i].first + 1;
    }
    r->highest = r->ranges[r->nranges - 1].last;
    return 0;
}

int parse_ranks(const char *text, struct parse_ranks *ranks, struct prism_error *err)
{
    size_t room = 1;
    for (const char *p = text; *p; p++)
        room += *p == ',';
    struct parse_ranks r = {.ranges = calloc(room, sizeof *r.ranges)};
    if (!r.ranges)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "out of memory for a list of %zu ranges", room);
    if (!*text) {
        parse_ranks_clear(&r);
        return prism_error_set(err, PRISM_EXIT_USAGE, "the list is empty: give ranks such as 0,17,4096-4099");
    }
    for (const char *p = text;; p++) {
        if (read_range(&p, &r.ranges[r.nranges], err)) {
            parse_ranks_clear(&r);
            return -1;
        }
        r.nranges++;
        if (!*p)
            break;
    }
    if (sum_ranges(&r, err)) {
        parse_ranks_clear(&r);
        return -1;
    }
    *ranks = r;
    return 0;
}

void parse_ranks_clear(struct parse_ranks *ranks)
{
    free(ranks->ranges);
    *ranks = (struct parse_ranks){0};
}

/* --- words --- */

int parse_choice(const char *text, const char *const *choices, size_t *index, struct prism_error *err)
{
    char all[256] = "", show[64];
    size_t len = 0;
    for (size_t i = 0; choices[i]; i++) {
        if (!strcmp(text, choices[i])) {
            *index = i;
            return 0;
        }
        int n = snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "", choices[i]);
        len += n > 0 && (size_t)n < sizeof all - len ? (size_t)n : 0;
    }
    return prism_error_set(err, PRISM_EXIT_USAGE, "'%s' is unknown: one of %s is allowed",
                           shown(text, strlen(text), show), all);
}

/* A name at the start of text: letters first, then letters, digits, - and _. Its length, 0 when there is none. */
static size_t name_length(const char *text)
{
    size_t n = 0;
    if (!isalpha((unsigned char)*text))
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '-' || text[n] == '_')
        n++;
    return n <= PARSE_NAME_MAX ? n : 0;
}

static bool layout_has(const struct parse_layout *l, const char *name, size_t len)
{
    for (size_t i = 0; i < l->ndimensions; i++)
        if (strlen(l->dimension[i].name) == len && !memcmp(l->dimension[i].name, name, len))
            return true;
    return false;
}

static int read_dimension(const char **at, struct parse_layout *l, struct prism_error *err)
{
    const char *item = *at, *p = item;
    char show[64];
    size_t len = name_length(p);
    uint64_t size = 0;
    p += len;
    if (len == 0 || *p++ != ':' || !read_digits(&p, &size) || (*p && *p != ','))
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "'%s' is not name:size; write the dimensions from inner to outer, such as tp:8,dp:64,pp:16",
                               shown(item, strcspn(item, ","), show));
    if (size < 1 || size > PARSE_WORLD_MAX || l->product * size > PARSE_WORLD_MAX)
        return prism_error_set(err, PRISM_EXIT_USAGE, "'%s': sizes are 1 or more, and their product at most %u",
                               shown(item, strcspn(item, ","), show), PARSE_WORLD_MAX);
    if (layout_has(l, item, len))
        return prism_error_set(err, PRISM_EXIT_USAGE, "dimension '%.*s' occurs twice", (int)len, item);
    if (l->ndimensions == PARSE_DIMENSIONS_MAX)
        return prism_error_set(err, PRISM_EXIT_USAGE, "more than %d dimensions", PARSE_DIMENSIONS_MAX);
    memcpy(l->dimension[l->ndimensions].name, item, len);
    l->dimension[l->ndimensions++].size = (uint32_t)size;
    l->product *= size;
    *at = p;
    return 0;
}

int parse_layout(const char *text, struct parse_layout *layout, struct prism_error *err)
{
    struct parse_layout l = {.product = 1};
    for (const char *p = text;; p++) {
        if (read_dimension(&p, &l, err))
            return -1;
        if (!*p)
            break;
    }
    *layout = l;
    return 0;
}

int parse_fold(const char *text, const struct parse_layout *layout, struct prism_error *err)
{
    struct parse_layout seen = {.product = 1};
    char show[64];
    for (const char *p = text;; p++) {
        size_t len = name_length(p);
        if (len == 0 || (p[len] && p[len] != ',') || seen.ndimensions == PARSE_DIMENSIONS_MAX)
            return prism_error_set(err, PRISM_EXIT_USAGE,
                                   "'%s' is not the name of a dimension; name those of --prism-layout to fold, such as dp",
                                   shown(p, strcspn(p, ","), show));
        if (layout_has(&seen, p, len))
            return prism_error_set(err, PRISM_EXIT_USAGE, "dimension '%.*s' occurs twice", (int)len, p);
        if (layout && !layout_has(layout, p, len))
            return prism_error_set(err, PRISM_EXIT_USAGE, "the layout has no dimension '%.*s'", (int)len, p);
        memcpy(seen.dimension[seen.ndimensions++].name, p, len);
        p += len;
        if (!*p)
            return 0;
    }
}

/* --- Slurm's own values --- */

/* "8", "h200:8" or "h200" */
static uint32_t gpus_of(const char *text, size_t len, char *type, size_t type_size)
{
    const char *colon = memchr(text, ':', len), *digits = colon ? colon + 1 : text;
    uint64_t n = 1;
    bool counted = len && isdigit((unsigned char)*digits) && read_digits(&digits, &n);
    if (type && type_size) {
        size_t name = colon ? (size_t)(colon - text) : counted ? 0 : len;
        snprintf(type, type_size, "%.*s", (int)name, text);
    }
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Is this item of a gres list about GPUs? *rest: what follows the name and its colon. */
static bool is_gpu_item(const char *item, size_t len, const char **rest)
{
    static const char *const prefixes[] = {"gres:", "gres/"};
    const char *p = item, *end = item + len;
    for (size_t i = 0; i < 2; i++)
        if ((size_t)(end - p) >= 5 && !memcmp(p, prefixes[i], 5))
            p += 5;
    if (end - p < 3 || memcmp(p, "gpu", 3) || (end - p > 3 && p[3] != ':' && p[3] != '='))
        return false;
    *rest = end - p > 3 ? p + 4 : end;
    return true;
}

uint32_t parse_slurm_gpus(const char *text, bool is_gres, char *type, size_t type_size)
{
    if (type && type_size)
        *type = 0;
    if (!text)
        return 0;
    uint32_t sum = 0;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ",");
        const char *rest = p;
        if (!is_gres || is_gpu_item(p, len, &rest)) {
            size_t left = len - (size_t)(rest - p);
            sum += left ? gpus_of(rest, left, type, type_size) : 1;
        }
        p += len + (p[len] == ',');
    }
    return sum;
}

char *parse_slurm_gres_rest(const char *text)
{
    char *out = calloc(1, strlen(text) + 1);
    size_t n = 0;
    for (const char *p = text; out && *p;) {
        size_t len = strcspn(p, ",");
        const char *rest;
        if (len && !is_gpu_item(p, len, &rest)) {
            if (n)
                out[n++] = ',';
            memcpy(out + n, p, len);
            n += len;
        }
        p += len + (p[len] == ',');
    }
    if (n)
        return out;
    free(out);
    return NULL;
}
