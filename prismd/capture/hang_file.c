#include "prismd/capture/hang_file.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

#define FILE_MAX ((size_t)256 << 20)
#define FORMAT   "prism-hang"
#define VERSION  1

void hang_hosts_init(struct hang_hosts *h, uint32_t world)
{
    *h = (struct hang_hosts){.ranks = calloc(world + 1u, sizeof *h->ranks), .world = world};
    if (!h->ranks)
        abort();
}

void hang_hosts_clear(struct hang_hosts *h)
{
    for (uint32_t i = 0; h->ranks && i < h->world; i++)
        free(h->ranks[i]);
    for (uint32_t i = 0; i < h->nnotes; i++)
        free(h->notes[i]);
    free(h->ranks);
    free(h->notes);
    *h = (struct hang_hosts){0};
}

void hang_hosts_note(struct hang_hosts *h, const char *text)
{
    h->notes = realloc(h->notes, (h->nnotes + 1u) * sizeof *h->notes);
    if (!h->notes || !(h->notes[h->nnotes++] = strdup(text)))
        abort();
}

int hang_hosts_write(const char *dir, const struct hang_hosts *h, struct prism_error *err)
{
    json_t *hosts = json_object(), *notes = json_array();
    char path[PATH_MAX], number[16];
    for (uint32_t i = 0; i < h->world; i++)
        if (h->ranks[i]) {
            snprintf(number, sizeof number, "%u", i);
            json_object_set_new(hosts, number, json_string(h->ranks[i]));
        }
    for (uint32_t i = 0; i < h->nnotes; i++)
        json_array_append_new(notes, json_string(h->notes[i]));
    json_t *root = json_pack("{s:s, s:i, s:i, s:o, s:o}", "format", FORMAT, "version", VERSION, "world", (int)h->world, "hosts",
                             hosts, "communicators", notes);
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    snprintf(path, sizeof path, "%s/hang.json", dir);
    int rc = text ? file_write_atomic(path, text, strlen(text), 0644, err)
                  : prism_error_set(err, PRISM_EXIT_SYSTEM, "%s: out of memory", path);
    free(text);
    return rc;
}

/* Name of what is wrong, or NULL. */
static const char *take(json_t *root, struct hang_hosts *h)
{
    const char *key, *format = json_string_value(json_object_get(root, "format"));
    json_t *hosts = json_object_get(root, "hosts"), *notes = json_object_get(root, "communicators"), *value;
    size_t i;
    if (!format || strcmp(format, FORMAT) || json_integer_value(json_object_get(root, "version")) != VERSION)
        return "format, version";
    if (json_integer_value(json_object_get(root, "world")) != h->world)
        return "world";
    if (!json_is_object(hosts) || !json_is_array(notes))
        return "hosts, communicators";
    json_object_foreach(hosts, key, value) {
        char *end;
        unsigned long rank = strtoul(key, &end, 10);
        if (*end || end == key || rank >= h->world || !json_is_string(value) || h->ranks[rank])
            return "hosts";
        h->ranks[rank] = strdup(json_string_value(value));
    }
    json_array_foreach(notes, i, value) {
        if (!json_is_string(value))
            return "communicators";
        hang_hosts_note(h, json_string_value(value));
    }
    return NULL;
}

int hang_hosts_parse(const char *path, const void *data, size_t len, uint32_t world, struct hang_hosts *h, struct prism_error *err)
{
    hang_hosts_init(h, world);
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    const char *fault = root ? take(root, h) : "not JSON";
    json_decref(root);
    return fault ? prism_error_set(err, PRISM_EXIT_TRACE, "%s is damaged (%s); capture again", path, fault) : 0;
}

int hang_hosts_read(const char *dir, uint32_t world, struct hang_hosts *h, struct prism_error *err)
{
    char path[PATH_MAX];
    struct bytes text = {0};
    snprintf(path, sizeof path, "%s/hang.json", dir);
    if (access(path, F_OK)) {
        hang_hosts_init(h, world);
        return 0;
    }
    if (file_read(path, FILE_MAX, &text, err)) {
        hang_hosts_init(h, world);
        bytes_free(&text);
        return -1;
    }
    int rc = hang_hosts_parse(path, text.data, text.len, world, h, err);
    bytes_free(&text);
    return rc;
}
