#include "prismd/folding/folding_spread.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/differ.h"
#include "coll/types.h"
#include "common/file.h"
#include "prismd/folding/folding.h"

struct spread {
    uint64_t compared, differed;
    struct coll_difference difference;
};
typedef struct spread spreads[PRISM_OP_END][COLL_DATATYPES];

static spreads here, sum; /* this node's of the capture that ended last; coordinator: all nodes' */

void folding_spread_begin(void)
{
    memset(here, 0, sizeof here);
    memset(sum, 0, sizeof sum);
}

static uint32_t classes_of(const struct fold *f)
{
    uint32_t classes = f->world;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        classes /= f->dimensions[i].folded ? f->dimensions[i].size : 1;
    return classes;
}

/* The lowest live member of the same class, itself if it is that. */
static uint32_t twin_of(const struct fold *f, const struct graph_comm *c, uint32_t i)
{
    uint32_t rank = (uint32_t)c->ranks[i];
    for (uint32_t k = 0; k < i; k++) {
        uint32_t other = (uint32_t)c->ranks[k];
        if (fold_is_live(f, other) && fold_shift(f, other, fold_displacement(f, other, rank)) == rank)
            return k;
    }
    return i;
}

void folding_spread_note(const struct daemon *d, const struct graph_comm *c, const uint32_t *stand_ins, const struct msg_part *what,
                         const void *const *inputs)
{
    const struct fold *f = d->conf->fold;
    if (!stand_ins || f->nlive == classes_of(f) || coll_op_is_rooted(what->op) || what->op >= PRISM_OP_END || what->datatype >= COLL_DATATYPES)
        return;
    uint64_t n = coll_input_count(what->op, what->count, 0, what->peer, (int)c->size);
    struct spread *s = &here[what->op][what->datatype];
    for (uint32_t i = 0; i < c->size; i++) {
        uint32_t twin = fold_is_live(f, (uint32_t)c->ranks[i]) ? twin_of(f, c, i) : i;
        struct coll_difference one = {0};
        if (twin == i)
            continue;
        coll_differ(inputs[i], inputs[twin], n < FOLDING_COMPARED ? n : FOLDING_COMPARED, what->datatype, &one);
        s->compared++;
        s->differed += one.apart > 0;
        s->difference.apart += one.apart;
        s->difference.magnitude += one.magnitude;
    }
}

void folding_spread_put(struct bytes *out)
{
    bytes_put(out, here, sizeof here); /* both ends are one build */
}

void folding_spread_take(struct bytes_reader *b)
{
    static spreads from;
    const void *data = bytes_get(b, sizeof from);
    if (!data)
        return;
    memcpy(from, data, sizeof from);
    for (int op = 0; op < PRISM_OP_END; op++)
        for (int type = 0; type < COLL_DATATYPES; type++) {
            sum[op][type].compared += from[op][type].compared;
            sum[op][type].differed += from[op][type].differed;
            sum[op][type].difference.apart += from[op][type].difference.apart;
            sum[op][type].difference.magnitude += from[op][type].difference.magnitude;
        }
}

static void path_of(const char *trace, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/folding.json", trace);
}

int folding_spread_save(const struct conf *c, struct prism_error *err)
{
    char path[PATH_MAX];
    path_of(c->trace, path);
    if (!c->fold) {
        unlink(path);
        return 0;
    }
    json_t *list = json_array();
    for (int op = 1; op < PRISM_OP_END; op++)
        for (int type = 0; type < COLL_DATATYPES; type++) {
            const struct spread *s = &sum[op][type];
            double relative = s->difference.magnitude > 0 ? s->difference.apart / s->difference.magnitude : 0;
            if (s->compared)
                json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:f}", "op", prism_op_name(op), "datatype",
                                                      coll_datatype_name(type), "compared", (json_int_t)s->compared, "differed",
                                                      (json_int_t)s->differed, "difference", relative));
        }
    char *text = json_dumps(list, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(list);
    if (!text)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot write %s: out of memory", path);
    int rc = file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

json_t *folding_report(const struct conf *c)
{
    const struct fold *f = c->fold;
    char path[PATH_MAX], dimensions[128];
    if (!f)
        return NULL;
    uint32_t classes = classes_of(f), replicas = f->nlive / classes;
    path_of(c->trace, path);
    fold_describe(f, dimensions, sizeof dimensions);
    json_t *compared = json_load_file(path, 0, NULL);
    if (!json_array_size(compared)) {
        json_decref(compared);
        compared = json_null();
    }
    uint32_t played = folding_played() ? folding_played() : c->world;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:o}", "layout", c->layout ? c->layout : "", "folded", dimensions, "ranks_run",
                     (int)f->nlive, "replicas_run", (int)replicas, "replicas", (int)(f->world / classes), "ranks_played", (int)played, "absent_inputs", "the representative's",
                     "live_replicas_compared", compared);
}
