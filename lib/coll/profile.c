/* profile.c - the network profile as JSON; docs/formats/network-profile.md. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/model.h"
#include "common/bytes.h"
#include "common/file.h"

#define FORMAT     "prism-network"
#define VERSION    1
#define FILE_MAX   (16u << 20)
#define POINTS_MAX 100000

static const char *const link_names[COLL_LINKS] = {"intra_node", "inter_node"};

/* Where in the file we are, for messages. */
struct place {
    const char *name;
    struct prism_error *err;
};

static int bad(const struct place *at, const char *what, const char *key)
{
    return prism_error_set(at->err, PRISM_EXIT_USAGE,
                           "network profile %s: %s '%s'; docs/formats/network-profile.md says "
                           "what it may hold, `prism doctor --measure` makes one",
                           at->name, what, key);
}

/* Every key of object must be in keys (NULL at the end). */
static int check_keys(const struct place *at, json_t *object, const char *const *keys)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return bad(at, "not an object with", keys[0]);
    json_object_foreach(object, key, value)
    {
        int i = 0;
        while (keys[i] && strcmp(keys[i], key))
            i++;
        if (!keys[i])
            return bad(at, "unknown key", key);
    }
    return 0;
}

static int get_number(const struct place *at, json_t *object, const char *key, double low, double high,
                      double *out)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        return bad(at, "missing number", key);
    double number = json_number_value(value);
    if (!isfinite(number) || number < low || number > high)
        return bad(at, "number out of range", key);
    *out = number;
    return 0;
}

static int get_bool(const struct place *at, json_t *object, const char *key, bool *out)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value))
        return bad(at, "missing true or false", key);
    *out = json_is_true(value);
    return 0;
}

static int op_of_name(const char *name)
{
    for (int op = 1; name && op < PRISM_OP_END; op++)
        if (!strcmp(prism_op_name(op), name))
            return op;
    return 0;
}

static int parse_link(const struct place *at, json_t *links, int l, struct coll_link_profile *link)
{
    static const char *const keys[] = {"launch_seconds", "step_seconds", "bandwidth_bytes_per_second",
                                       "eager_bytes",    "measured",     NULL};
    json_t *object = json_object_get(links, link_names[l]);
    double eager;
    if (check_keys(at, object, keys) || get_number(at, object, keys[0], 0, 1e3, &link->launch_s) ||
        get_number(at, object, keys[1], 0, 1e3, &link->step_s) ||
        get_number(at, object, keys[2], 1, 1e18, &link->bandwidth_Bps) ||
        get_number(at, object, keys[3], 0, 1e15, &eager) || get_bool(at, object, keys[4], &link->measured))
        return -1;
    link->eager_bytes = (uint64_t)eager;
    return 0;
}

static int parse_point(const struct place *at, json_t *object, struct coll_point *p)
{
    static const char *const keys[] = {"op", "ranks", "nodes", "bytes", "seconds", NULL};
    double size, nodes;
    if (check_keys(at, object, keys) || get_number(at, object, keys[1], 2, 1e7, &size) ||
        get_number(at, object, keys[2], 1, size, &nodes) ||
        get_number(at, object, keys[3], 1, 1e17, &p->bytes) ||
        get_number(at, object, keys[4], 1e-12, 1e5, &p->seconds))
        return -1;
    p->op = op_of_name(json_string_value(json_object_get(object, "op")));
    p->size = (int)size;
    p->nodes = (int)nodes;
    return p->op ? 0 : bad(at, "not the name of an operation:", "op");
}

static int parse_points(const struct place *at, json_t *array, struct coll_network *net)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array) || n > POINTS_MAX)
        return bad(at, "not a list of at most 100000:", "points");
    net->points = calloc(n + 1, sizeof *net->points);
    if (!net->points)
        abort();
    for (; net->npoints < n; net->npoints++)
        if (parse_point(at, json_array_get(array, net->npoints), &net->points[net->npoints]))
            return -1;
    return 0;
}

static int parse_root(const struct place *at, json_t *root, struct coll_network *net)
{
    static const char *const keys[] = {"format",    "version", "links", "algorithms",
                                       "fit_error", "points",  NULL};
    static const char *const algorithm_keys[] = {"tree_allreduce", "tree_rooted", "lockstep", NULL};
    const char *format = json_string_value(json_object_get(root, "format"));
    double version;
    if (check_keys(at, root, keys))
        return -1;
    if (!format || strcmp(format, FORMAT))
        return bad(at, "not " FORMAT ":", "format");
    if (get_number(at, root, "version", VERSION, VERSION, &version))
        return -1;
    json_t *links = json_object_get(root, "links"), *algorithms = json_object_get(root, "algorithms");
    const char *const names[] = {link_names[0], link_names[1], NULL};
    if (check_keys(at, links, names))
        return -1;
    for (int l = 0; l < COLL_LINKS; l++)
        if (parse_link(at, links, l, &net->link[l]))
            return -1;
    if (check_keys(at, algorithms, algorithm_keys) ||
        get_bool(at, algorithms, "tree_allreduce", &net->tree_allreduce) ||
        get_bool(at, algorithms, "tree_rooted", &net->tree_rooted) ||
        get_bool(at, algorithms, "lockstep", &net->lockstep) ||
        get_number(at, root, "fit_error", 0, 1e9, &net->fit_error))
        return -1;
    return parse_points(at, json_object_get(root, "points"), net);
}

int coll_network_parse(struct coll_network *net, const char *text, size_t len, const char *name,
                       struct prism_error *err)
{
    struct place at = {name, err};
    json_error_t where;
    *net = (struct coll_network){0};
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return prism_error_set(err, PRISM_EXIT_USAGE, "network profile %s: not JSON: %s (line %d)", name,
                               where.text, where.line);
    int rc = parse_root(&at, root, net);
    json_decref(root);
    if (rc)
        coll_network_clear(net);
    else
        coll_curves_build(net);
    return rc;
}

int coll_network_load(struct coll_network *net, const char *path, struct prism_error *err)
{
    struct bytes text = {0};
    *net = (struct coll_network){0};
    int rc = file_read(path, FILE_MAX, &text, err);
    if (!rc)
        rc = coll_network_parse(net, (const char *)text.data, text.len, path, err);
    bytes_free(&text);
    return rc;
}

static json_t *link_json(const struct coll_link_profile *l)
{
    return json_pack("{s:f, s:f, s:f, s:I, s:b}", "launch_seconds", l->launch_s, "step_seconds", l->step_s,
                     "bandwidth_bytes_per_second", l->bandwidth_Bps, "eager_bytes",
                     (json_int_t)l->eager_bytes, "measured", l->measured);
}

static json_t *points_json(const struct coll_network *net)
{
    json_t *array = json_array();
    for (size_t i = 0; i < net->npoints; i++) {
        const struct coll_point *p = &net->points[i];
        json_array_append_new(array, json_pack("{s:s, s:i, s:i, s:f, s:f}", "op", prism_op_name(p->op),
                                               "ranks", p->size, "nodes", p->nodes, "bytes", p->bytes,
                                               "seconds", p->seconds));
    }
    return array;
}

int coll_network_save(const struct coll_network *net, const char *path, struct prism_error *err)
{
    json_t *root = json_pack("{s:s, s:i, s:{s:o, s:o}, s:{s:b, s:b, s:b}, s:f, s:o}", "format", FORMAT,
                             "version", VERSION, "links", link_names[0], link_json(&net->link[0]),
                             link_names[1], link_json(&net->link[1]), "algorithms", "tree_allreduce",
                             net->tree_allreduce, "tree_rooted", net->tree_rooted, "lockstep", net->lockstep,
                             "fit_error", net->fit_error, "points", points_json(net));
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) : NULL;
    int rc;
    if (text) {
        size_t len = strlen(text);
        text[len] = '\n'; /* in the place of the NUL, which nobody reads any more */
        rc = file_write_atomic(path, text, len + 1, 0644, err);
    } else {
        rc = prism_error_set(err, PRISM_EXIT_SYSTEM,
                             "network profile %s: cannot be put into JSON (a number in it is not "
                             "finite)",
                             path);
    }
    free(text);
    json_decref(root);
    return rc;
}
