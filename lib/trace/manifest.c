#include "trace/files.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/check.h"
#include "common/file.h"

#define MANIFEST_MAX (64u << 20)
#define LIST_MAX     (1u << 20)
#define FILES_MAX    1000u
#define SUMS_SINCE   3 /* the version from which on there are checksums */

static void strings_free(char **list)
{
    for (char **s = list; s && *s; s++)
        free(*s);
    free(list);
}

void trace_manifest_clear(struct trace_manifest *m)
{
    free(m->sandbox);
    free(m->layout);
    free(m->fold);
    strings_free(m->argv);
    strings_free(m->env);
    free(m->cwd);
    free(m->program_id);
    free(m->created);
    free(m->trace_id);
    free(m->files);
    *m = (struct trace_manifest){0};
}

/* ---- What payloads hold ---- */

static const char *const payload_names[] = {NULL, "full", "control", "none"};

const char *trace_payload_name(enum trace_payload p)
{
    return payload_names[p];
}

enum trace_payload trace_payload_of(const char *name)
{
    int p = TRACE_PAYLOAD_NONE;
    while (p && (!name || strcmp(name, payload_names[p])))
        p--;
    return (enum trace_payload)p;
}

int trace_payload_agree(const struct trace_manifest *m, const char *dir, enum trace_payload *payload, struct prism_error *err)
{
    enum trace_payload has = m->payload ? m->payload : TRACE_PAYLOAD_FULL;
    if (*payload && *payload < has)
        return prism_error_set(err, PRISM_EXIT_TRACE,
                               "the trace %s was captured with --prism-payload=%s and has no more than that, so --prism-payload=%s cannot be "
                               "delivered from it; leave the option out, or capture again into another --prism-trace",
                               dir, payload_names[has], payload_names[*payload]);
    if (!*payload)
        *payload = has;
    return 0;
}

/* ---- The checksum of the manifest itself ---- */

#define DIGITS 16
static const char sum_key[] = "\"checksum\": \"";

/* Where the digits are, NULL = not exactly once. Inside a string of JSON the key could not stand like this: quotes are escaped. */
static char *find_digits(const char *text, size_t len)
{
    size_t key = sizeof sum_key - 1;
    char *at = memmem(text, len, sum_key, key);
    if (!at || (size_t)(text + len - at) <= key + DIGITS || at[key + DIGITS] != '"')
        return NULL;
    at += key;
    return memmem(at, (size_t)(text + len - at), sum_key, key) ? NULL : at;
}

/* xxHash64 of the text with the digits as zeros, as digits. */
static void sum_text(const char *text, size_t len, const char *digits, char sum[DIGITS + 1])
{
    static const char zeros[] = "0000000000000000";
    XXH64_state_t *hash = check(XXH64_createState());
    XXH64_reset(hash, 0);
    XXH64_update(hash, text, (size_t)(digits - text));
    XXH64_update(hash, zeros, DIGITS);
    XXH64_update(hash, digits + DIGITS, (size_t)(text + len - digits) - DIGITS);
    snprintf(sum, DIGITS + 1, "%016" PRIx64, (uint64_t)XXH64_digest(hash));
    XXH64_freeState(hash);
}

bool trace_manifest_seal(char *text, size_t len)
{
    char sum[DIGITS + 1], *digits = find_digits(text, len);
    if (!digits)
        return false;
    sum_text(text, len, digits, sum);
    memcpy(digits, sum, DIGITS);
    return true;
}

static bool is_sealed(const char *text, size_t len)
{
    char sum[DIGITS + 1], *digits = find_digits(text, len);
    if (digits)
        sum_text(text, len, digits, sum);
    return digits && !memcmp(digits, sum, DIGITS);
}

/* ---- Numbers ---- */

static const struct range {
    const char *name;
    uint32_t least, most;
    size_t offset; /* in the manifest */
} ranges[] = {
#define RANGE(member, least, most) {#member, least, most, offsetof(struct trace_manifest, member)}
    RANGE(world, 1, TRACE_WORLD_MAX),
    RANGE(gpus_per_node, 1, TRACE_GPUS_PER_NODE_MAX),
    RANGE(nodes, 0, TRACE_NODES_MAX), /* 0: of prism synth */
    RANGE(iterations, 0, INT32_MAX),
};
#define RANGES (sizeof ranges / sizeof *ranges)

static uint32_t *number_of(const struct trace_manifest *m, const struct range *r)
{
    return (uint32_t *)(uintptr_t)((const char *)m + r->offset);
}

/* ---- Writing ---- */

/* JSON strings are UTF-8; a byte string that is not goes in as an array of its bytes. */
static json_t *bytes_to_json(const char *s)
{
    json_t *j = json_string(s);
    if (j)
        return j;
    j = check(json_array());
    for (; *s; s++)
        json_array_append_new(j, json_integer((unsigned char)*s));
    return j;
}

static json_t *strings_to_json(char *const *list)
{
    json_t *j = check(json_array());
    for (; list && *list; list++)
        json_array_append_new(j, bytes_to_json(*list));
    return j;
}

static json_t *numbers_to_json(const uint32_t *list, uint32_t n)
{
    json_t *j = check(json_array());
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(j, json_integer(list[i]));
    return j;
}

static json_t *files_to_json(const struct trace_file *files, uint32_t n)
{
    json_t *j = check(json_object());
    for (uint32_t i = 0; i < n; i++) {
        char sum[DIGITS + 1];
        snprintf(sum, sizeof sum, "%016" PRIx64, files[i].sum);
        json_object_set_new(j, files[i].name, json_pack("{s:I, s:s}", "bytes", (json_int_t)files[i].bytes, "xxh64", sum));
    }
    return j;
}

static json_t *manifest_to_json(const struct trace_manifest *m, const struct trace_file *files, uint32_t nfiles)
{
    json_t *j = check(json_object());
    json_object_set_new(j, "format", json_string("prism-trace"));
    json_object_set_new(j, "version", json_integer(TRACE_VERSION));
    json_object_set_new(j, "trace_id", json_string(m->trace_id ? m->trace_id : ""));
    json_object_set_new(j, "created", json_string(m->created ? m->created : ""));
    json_object_set_new(j, "complete", json_boolean(m->complete));
    json_object_set_new(j, "calibrated", json_boolean(m->calibrated));
    json_object_set_new(j, "world", json_integer(m->world));
    json_object_set_new(j, "gpus_per_node", json_integer(m->gpus_per_node));
    json_object_set_new(j, "nodes", json_integer(m->nodes));
    json_object_set_new(j, "iterations", json_integer(m->iterations));
    if (m->payload)
        json_object_set_new(j, "payload", json_string(trace_payload_name(m->payload)));
    json_object_set_new(j, "sandbox", numbers_to_json(m->sandbox, m->nsandbox));
    if (m->fold) {
        json_object_set_new(j, "layout", json_string(m->layout ? m->layout : ""));
        json_object_set_new(j, "fold", json_string(m->fold));
    }
    json_object_set_new(j, "program_id", json_string(m->program_id ? m->program_id : ""));
    json_object_set_new(j, "argv", strings_to_json(m->argv));
    json_object_set_new(j, "env", strings_to_json(m->env));
    json_object_set_new(j, "cwd", bytes_to_json(m->cwd ? m->cwd : ""));
    json_object_set_new(j, "files", files_to_json(files, nfiles));
    json_object_set_new(j, "checksum", json_string("0000000000000000"));
    return j;
}

static int manifest_path(char *path, size_t len, const char *dir, struct prism_error *err)
{
    if (snprintf(path, len, "%s/trace.json", dir) >= (int)len)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
    return 0;
}

/* What no reader would take. */
static int check_ranges(const char *dir, const struct trace_manifest *m, struct prism_error *err)
{
    for (size_t i = 0; i < RANGES; i++) {
        const struct range *r = &ranges[i];
        uint32_t n = *number_of(m, r);
        if (n < r->least || n > r->most)
            return prism_error_set(err, PRISM_EXIT_TRACE, "trace %s: \"%s\" of %u: a trace has from %u to %u", dir, r->name, n, r->least,
                                   r->most);
    }
    return 0;
}

int trace_manifest_write(const char *dir, const struct trace_manifest *m, struct prism_error *err)
{
    char path[PATH_MAX];
    struct trace_file *files;
    uint32_t nfiles;
    if (manifest_path(path, sizeof path, dir, err) || check_ranges(dir, m, err) ||
        trace_files_find(dir, m->complete, m->calibrated, &files, &nfiles, err))
        return -1;
    json_t *j = manifest_to_json(m, files, nfiles);
    char *text = check(json_dumps(j, JSON_INDENT(2)));
    struct prism_error cause = {0};
    int rc = trace_manifest_seal(text, strlen(text)) ? file_write_atomic(path, text, strlen(text), 0644, &cause)
                                                     : prism_error_set(&cause, PRISM_EXIT_TRACE, "its checksum has no place");
    if (rc)
        prism_error_set(err, PRISM_EXIT_TRACE, "trace %s: %s", dir, cause.text);
    free(text);
    free(files);
    json_decref(j);
    return rc;
}

/* ---- Reading ---- */

struct reading {
    const json_t *json;
    char fault[160]; /* what is wrong with the first member that is missing or wrong */
};

static const json_t *member(struct reading *r, const char *name, bool ok, const json_t *value)
{
    if (!ok && !*r->fault)
        snprintf(r->fault, sizeof r->fault, "\"%s\" is missing or has a wrong value", name);
    return ok ? value : NULL;
}

static void get_ranges(struct reading *r, struct trace_manifest *m)
{
    for (size_t i = 0; i < RANGES; i++) {
        const struct range *x = &ranges[i];
        const json_t *v = json_object_get(r->json, x->name);
        json_int_t n = json_integer_value(v);
        bool ok = n >= x->least && n <= x->most;
        if (json_is_integer(v) && !ok && !*r->fault)
            snprintf(r->fault, sizeof r->fault, "\"%s\" is %" JSON_INTEGER_FORMAT ", from %u to %u is allowed", x->name, n, x->least,
                     x->most);
        *number_of(m, x) = member(r, x->name, json_is_integer(v) && ok, v) ? (uint32_t)n : 0;
    }
}

static uint32_t get_number(struct reading *r, const char *name)
{
    const json_t *v = json_object_get(r->json, name);
    json_int_t n = json_integer_value(v);
    return member(r, name, json_is_integer(v) && n >= 0 && n <= UINT32_MAX, v) ? (uint32_t)n : 0;
}

static bool get_boolean(struct reading *r, const char *name)
{
    const json_t *v = json_object_get(r->json, name);
    return member(r, name, json_is_boolean(v), v) ? json_boolean_value(v) : false;
}

static char *bytes_from_json(const json_t *v)
{
    if (json_is_string(v)) /* jansson refuses \u0000, so the string has no NUL within */
        return check(strdup(json_string_value(v)));
    if (!json_is_array(v) || json_array_size(v) > LIST_MAX)
        return NULL;
    size_t n = json_array_size(v);
    char *s = check(calloc(n + 1, 1));
    for (size_t i = 0; i < n; i++) {
        json_int_t byte = json_integer_value(json_array_get(v, i));
        if (byte < 1 || byte > 255) {
            free(s);
            return NULL;
        }
        s[i] = (char)byte;
    }
    return s;
}

static char *get_string(struct reading *r, const char *name)
{
    char *s = bytes_from_json(json_object_get(r->json, name));
    member(r, name, s, NULL);
    return s;
}

static char **get_strings(struct reading *r, const char *name)
{
    const json_t *v = json_object_get(r->json, name);
    size_t n = json_array_size(v);
    if (!member(r, name, json_is_array(v) && n <= LIST_MAX, v))
        return NULL;
    char **list = check(calloc(n + 1, sizeof *list));
    for (size_t i = 0; i < n; i++) {
        list[i] = bytes_from_json(json_array_get(v, i));
        if (list[i])
            continue;
        strings_free(list);
        member(r, name, false, NULL);
        return NULL;
    }
    return list;
}

static void get_sandbox(struct reading *r, struct trace_manifest *m)
{
    const json_t *v = json_object_get(r->json, "sandbox");
    size_t n = json_array_size(v);
    if (!member(r, "sandbox", json_is_array(v) && n <= LIST_MAX, v))
        return;
    m->sandbox = check(calloc(n ? n : 1, sizeof *m->sandbox));
    m->nsandbox = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        json_int_t rank = json_integer_value(json_array_get(v, i));
        member(r, "sandbox",
               json_is_integer(json_array_get(v, i)) && rank >= 0 && rank < (json_int_t)m->world, v);
        m->sandbox[i] = (uint32_t)rank;
    }
}

static void get_payload(struct reading *r, struct trace_manifest *m)
{
    const json_t *v = json_object_get(r->json, "payload");
    m->payload = trace_payload_of(json_string_value(v));
    member(r, "payload", !v || m->payload, v);
}

static bool get_sum(const json_t *v, uint64_t *sum)
{
    const char *text = json_string_value(v);
    if (!text || strlen(text) != DIGITS || strspn(text, "0123456789abcdef") != DIGITS)
        return false;
    *sum = strtoull(text, NULL, 16);
    return true;
}

static void get_files(struct reading *r, struct trace_manifest *m)
{
    json_t *v = json_object_get(r->json, "files"), *file;
    const char *name;
    if (!member(r, "files", json_is_object(v) && json_object_size(v) <= FILES_MAX, v))
        return;
    m->files = check(calloc(json_object_size(v) + 1, sizeof *m->files));
    json_object_foreach (v, name, file) {
        struct trace_file *f = &m->files[m->nfiles];
        json_int_t bytes = json_integer_value(json_object_get(file, "bytes"));
        if (!member(r, "files", trace_file_name_is_good(name) && bytes >= 0 && json_is_integer(json_object_get(file, "bytes")) &&
                                    get_sum(json_object_get(file, "xxh64"), &f->sum), file))
            return;
        snprintf(f->name, sizeof f->name, "%s", name);
        f->bytes = (uint64_t)bytes;
        m->nfiles++;
    }
}

static void manifest_from_json(struct reading *r, struct trace_manifest *m)
{
    const json_t *json = r->json;
    m->version = get_number(r, "version");
    m->trace_id = get_string(r, "trace_id");
    m->created = get_string(r, "created");
    m->complete = get_boolean(r, "complete");
    m->calibrated = get_boolean(r, "calibrated");
    get_ranges(r, m);
    get_payload(r, m);
    get_sandbox(r, m);
    if (json_object_get(json, "fold")) {
        m->layout = get_string(r, "layout");
        m->fold = get_string(r, "fold");
    }
    m->program_id = get_string(r, "program_id");
    m->argv = get_strings(r, "argv");
    m->env = get_strings(r, "env");
    m->cwd = get_string(r, "cwd");
    if (m->version >= SUMS_SINCE)
        get_files(r, m);
}

static int damaged(const char *path, const char *what, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "%s is damaged (%s); capture again (--phase=capture; with srun --prism-phase=capture), or name another trace",
                           path, what);
}

/* A damaged version must not turn the checks off: before version 3 there was no checksum. */
static bool has_right_sum(const json_t *json, json_int_t version, const void *data, size_t len)
{
    return version >= SUMS_SINCE ? json_object_get(json, "checksum") && is_sealed(data, len) : !json_object_get(json, "checksum");
}

int trace_manifest_parse(const char *path, const void *data, size_t len, struct trace_manifest *m,
                         struct prism_error *err)
{
    json_error_t at;
    *m = (struct trace_manifest){0};
    json_t *json = json_loadb(data, len, JSON_REJECT_DUPLICATES, &at);
    if (!json)
        return damaged(path, at.text, err);
    const char *format = json_string_value(json_object_get(json, "format"));
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    int rc = 0;
    if (!format || strcmp(format, "prism-trace"))
        rc = damaged(path, "not a manifest of a Prism trace", err);
    else if (version < 1 || version > TRACE_VERSION)
        rc = prism_error_set(
            err, PRISM_EXIT_TRACE,
            "%s is of trace version %lld, this Prism reads versions 1 to %d; capture again (--phase=capture; with srun --prism-phase=capture), or use the Prism "
            "that made it",
            path, (long long)version, TRACE_VERSION);
    else if (!has_right_sum(json, version, data, len))
        rc = damaged(path, "its checksum is wrong: a fault, or it was edited", err);
    else {
        struct reading r = {.json = json};
        manifest_from_json(&r, m);
        rc = *r.fault ? damaged(path, r.fault, err) : 0;
    }
    json_decref(json);
    if (rc)
        trace_manifest_clear(m);
    return rc;
}

int trace_manifest_read(const char *dir, struct trace_manifest *m, struct prism_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    *m = (struct trace_manifest){0};
    if (manifest_path(path, sizeof path, dir, err))
        return -1;
    if (stat(dir, &st))
        return prism_error_set(err, PRISM_EXIT_TRACE,
                               "trace %s: %s; name an existing trace with --prism-trace, or capture", dir,
                               strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return prism_error_set(err, PRISM_EXIT_TRACE, "trace %s: not a folder", dir);
    if (stat(path, &st) && errno == ENOENT)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "trace %s has no trace.json: it is no Prism trace, or its capture did not end; capture "
            "again",
            dir);
    struct bytes text = {0};
    struct prism_error cause = {0};
    int rc = file_read(path, MANIFEST_MAX, &text, &cause);
    if (rc)
        prism_error_set(err, PRISM_EXIT_TRACE, "%s", cause.text);
    else
        rc = trace_manifest_parse(path, text.data, text.len, m, err);
    bytes_free(&text);
    return rc;
}

/* ---- Whose trace ---- */

int trace_manifest_match(const struct trace_manifest *m, const char *dir, const char *program_id,
                         uint32_t world, struct prism_error *err)
{
    if (!m->complete)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "trace %s is incomplete: its capture was ended early; capture again (--prism-phase=capture)",
            dir);
    if (m->world != world)
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "trace %s is of a world of %u ranks, not %u; emulate %u, or name another trace with "
            "--prism-trace",
            dir, m->world, world, m->world);
    if (strcmp(m->program_id, program_id))
        return prism_error_set(
            err, PRISM_EXIT_TRACE,
            "trace %s is of another program (%s%s): its arguments or its executable have changed; "
            "capture again, or name another trace with --prism-trace",
            dir, m->argv && m->argv[0] ? m->argv[0] : "?", m->argv && m->argv[0] && m->argv[1] ? " …" : "");
    return 0;
}
