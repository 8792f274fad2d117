#include "prismd/switching/switching.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "prismd/switching/movers.h"
#include "prismd/switching/tell.h"

static struct resident_counts sum;

void switching_begin(void)
{
    sum = (struct resident_counts){0};
}

void switching_put(struct bytes *out)
{
    struct resident_counts c = movers_count();
    bytes_put(out, &c, sizeof c); /* both ends are one build */
}

void switching_take(struct bytes_reader *b)
{
    struct resident_counts c = {0};
    const void *data = bytes_get(b, sizeof c);
    if (!data)
        return;
    memcpy(&c, data, sizeof c);
    tell_add_counts(&sum, &c);
}

static void path_of(const char *trace, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/switching.json", trace);
}

int switching_save(const char *trace, struct prism_error *err)
{
    char path[PATH_MAX];
    path_of(trace, path);
    if (!sum.evictions && !sum.refused) {
        unlink(path);
        return 0;
    }
    json_t *j = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"evictions", sum.evictions}, {"restorations", sum.restorations}, {"ranks_evicted", sum.ranks_evicted},
                  {"bytes_out", sum.bytes_out}, {"bytes_in", sum.bytes_in},         {"bytes_handed", sum.bytes_handed}, {"host_bytes", sum.host_bytes},
                  {"spilled_bytes", sum.spilled_bytes}, {"refused", sum.refused}};
    const struct {
        const char *name;
        double value;
    } times[] = {{"seconds_out", sum.seconds_out}, {"seconds_in", sum.seconds_in}, {"seconds_parking", sum.seconds_parking},
                 {"seconds_waiting", sum.seconds_waiting}, {"seconds_pinning", sum.seconds_pinning}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(j, counts[i].name, json_integer((json_int_t)counts[i].value));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_object_set_new(j, times[i].name, json_real(times[i].value));
    char *text = json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(j);
    if (!text)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot write %s: out of memory", path);
    int rc = file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

json_t *switching_load(const char *trace)
{
    char path[PATH_MAX];
    path_of(trace, path);
    return json_load_file(path, 0, NULL);
}
