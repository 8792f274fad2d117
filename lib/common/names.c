#include "common/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "prism"

void names_base(const char *real_nodes, char base[NAMES_BASE_MAX])
{
    int len = (int)strcspn(real_nodes, ",.[");
    if (len > NAMES_BASE_MAX - 16)
        len = NAMES_BASE_MAX - 16;
    while (len && isdigit((unsigned char)real_nodes[len - 1]))
        len--;
    const char *between = len && isalnum((unsigned char)real_nodes[len - 1]) ? "-" : "";
    snprintf(base, NAMES_BASE_MAX, "%.*s%s" MARK, len, real_nodes, between);
}

static int digits(uint32_t nodes)
{
    int n = 1;
    for (uint32_t last = nodes ? nodes - 1 : 0; last >= 10; last /= 10)
        n++;
    return n;
}

/* i with leading zeros, as wide as the largest. */
static const char *number(uint32_t nodes, uint32_t i, char text[16])
{
    int width = digits(nodes);
    text[width] = 0;
    while (width--) {
        text[width] = (char)('0' + i % 10);
        i /= 10;
    }
    return text;
}

void names_node(const char *base, uint32_t nodes, uint32_t i, char name[NAMES_NODE_MAX])
{
    char text[16];
    snprintf(name, NAMES_NODE_MAX, "%.*s%s", NAMES_BASE_MAX - 1, base, number(nodes, i, text));
}

void names_list(const char *base, uint32_t nodes, uint32_t some, char list[NAMES_LIST_MAX])
{
    char first[16], last[16];
    number(nodes, 0, first);
    if (some <= 1)
        snprintf(list, NAMES_LIST_MAX, "%.*s%s", NAMES_BASE_MAX - 1, base, first);
    else
        snprintf(list, NAMES_LIST_MAX, "%.*s[%s-%s]", NAMES_BASE_MAX - 1, base, first, number(nodes, some - 1, last));
}

uint32_t names_find(const char *base, uint32_t nodes, const char *name)
{
    size_t len = strlen(base);
    if (strncmp(name, base, len) || !isdigit((unsigned char)name[len]))
        return UINT32_MAX;
    char *end;
    unsigned long i = strtoul(name + len, &end, 10);
    if ((*end && *end != '.') || end - (name + len) != digits(nodes) || i >= nodes)
        return UINT32_MAX;
    return (uint32_t)i;
}

void names_per_node(uint32_t each, uint32_t nodes, char text[32])
{
    if (nodes > 1)
        snprintf(text, 32, "%u(x%u)", each, nodes);
    else
        snprintf(text, 32, "%u", each);
}
