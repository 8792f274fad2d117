#include "policy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

/* --- prism.conf --- */

enum key_kind { KEY_NUMBER, KEY_LIST, KEY_NAME, KEY_LICENCES, KEY_REFUSE };

static const struct key {
    const char *name;
    enum key_kind kind;
    size_t offset;
} keys[] = {
    {"max-ranks", KEY_NUMBER, offsetof(struct policy, max_ranks)},
    {"max-gpus", KEY_NUMBER, offsetof(struct policy, max_gpus)},
    {"partitions", KEY_LIST, offsetof(struct policy, partitions)},
    {"users", KEY_LIST, offsetof(struct policy, users)},
    {"accounts", KEY_LIST, offsetof(struct policy, accounts)},
    {"default-partition", KEY_NAME, offsetof(struct policy, default_partition)},
    {"default-qos", KEY_NAME, offsetof(struct policy, default_qos)},
    {"default-reservation", KEY_NAME, offsetof(struct policy, default_reservation)},
    {"licenses", KEY_LICENCES, offsetof(struct policy, licences)},
    {"plain-jobs", KEY_REFUSE, offsetof(struct policy, refuse_plain_jobs)},
};
#define KEYS (sizeof keys / sizeof *keys)

/* A piece of text that is not NUL-terminated. */
struct piece {
    const char *at;
    size_t len;
};

static struct piece trim(struct piece p)
{
    while (p.len && isspace((unsigned char)*p.at))
        p.at++, p.len--;
    while (p.len && isspace((unsigned char)p.at[p.len - 1]))
        p.len--;
    return p;
}

static bool piece_is(struct piece p, const char *text) { return p.len == strlen(text) && !memcmp(p.at, text, p.len); }

/* Names of users, accounts, partitions ...: no white space, nothing that Slurm's own lists give a meaning. */
static bool is_name_char(char c) { return isalnum((unsigned char)c) || (c && strchr("_-.@+:$", c)); }

/* "a, b,c" as "a,b,c". */
static int copy_names(struct piece value, bool list, char *out, struct prism_error *why)
{
    size_t n = 0;
    bool name = false;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (list && (c == ' ' || c == '\t') && (!name || (i + 1 < value.len && strchr(", \t", value.at[i + 1]))))
            continue;
        if (!is_name_char(c) && !(list && c == ',' && name))
            return prism_error_set(why, PRISM_EXIT_USAGE, "%s of letters, digits and _ - . @ + : $ is allowed",
                                   list ? "a comma-separated list of names" : "one name");
        name = c != ',';
        out[n++] = c;
    }
    out[n] = 0;
    return name ? 0 : prism_error_set(why, PRISM_EXIT_USAGE, "a name is missing");
}

static int set_value(const struct key *key, struct piece value, struct policy *p, struct prism_error *why)
{
    static const char *const licences[] = {"auto", "all", "none", NULL}, *const refuse[] = {"allow", "refuse", NULL};
    char *to = (char *)p + key->offset, text[POLICY_VALUE_MAX];
    size_t choice;
    if (value.len >= sizeof text)
        return prism_error_set(why, PRISM_EXIT_USAGE, "longer than %zu characters", sizeof text - 1);
    if (memchr(value.at, 0, value.len))
        return prism_error_set(why, PRISM_EXIT_USAGE, "a NUL byte is in it");
    memcpy(text, value.at, value.len);
    text[value.len] = 0;
    switch (key->kind) {
    case KEY_NUMBER: return parse_number(text, 1, PARSE_WORLD_MAX, (uint64_t *)(void *)to, why);
    case KEY_LIST: return copy_names(value, true, to, why);
    case KEY_NAME: return copy_names(value, false, to, why);
    case KEY_LICENCES:
        if (parse_choice(text, licences, &choice, why))
            return -1;
        p->licences = (enum policy_licences)choice;
        return 0;
    case KEY_REFUSE:
        if (parse_choice(text, refuse, &choice, why))
            return -1;
        *(bool *)to = choice == 1;
        return 0;
    }
    return -1;
}

static int read_line(struct piece line, struct policy *p, unsigned *seen, struct prism_error *why)
{
    const char *equals = memchr(line.at, '=', line.len);
    if (!equals)
        return prism_error_set(why, PRISM_EXIT_USAGE, "'name = value' is expected");
    struct piece name = trim((struct piece){line.at, (size_t)(equals - line.at)});
    struct piece value = trim((struct piece){equals + 1, line.len - (size_t)(equals + 1 - line.at)});
    if (value.len >= 2 && *value.at == '"' && value.at[value.len - 1] == '"')
        value.at++, value.len -= 2;
    for (size_t i = 0; i < KEYS; i++) {
        struct prism_error inner = {0};
        if (!piece_is(name, keys[i].name))
            continue;
        if (*seen & 1u << i)
            return prism_error_set(why, PRISM_EXIT_USAGE, "%s stands twice", keys[i].name);
        *seen |= 1u << i;
        if (!set_value(&keys[i], value, p, &inner))
            return 0;
        return prism_error_set(why, PRISM_EXIT_USAGE, "%s: %s", keys[i].name, inner.text);
    }
    return prism_error_set(why, PRISM_EXIT_USAGE, "there is no such setting in [policy]");
}

int policy_parse(const char *text, size_t len, struct policy *policy, struct prism_error *err)
{
    struct policy p = {0};
    bool ours = false;
    unsigned seen = 0, number = 0;
    if (len > POLICY_FILE_MAX)
        return prism_error_set(err, PRISM_EXIT_USAGE, "longer than %d bytes", POLICY_FILE_MAX);
    for (size_t at = 0; at < len; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        struct piece line = {text + at, (end ? (size_t)(end - text) : len) - at};
        at += line.len + 1;
        const char *comment = memchr(line.at, '#', line.len);
        if (comment)
            line.len = (size_t)(comment - line.at);
        line = trim(line);
        struct prism_error why = {0};
        if (line.len && *line.at == '[')
            ours = piece_is(line, "[policy]");
        else if (line.len && ours && read_line(line, &p, &seen, &why))
            return prism_error_set(err, PRISM_EXIT_USAGE, "line %u: %s", number + 1, why.text);
    }
    *policy = p;
    return 0;
}

/* --- the request --- */

/* Replaces every `from` by `to`. */
static void exchange(char *text, char from, char to)
{
    for (; *text; text++)
        if (*text == from)
            *text = to;
}

static int shape_number(const char *text, uint64_t least, uint32_t *to, struct prism_error *err)
{
    uint64_t n;
    if (parse_number(text, least, PARSE_WORLD_MAX, &n, err))
        return -1;
    *to = (uint32_t)n;
    return 0;
}

static int shape_sandbox(char *text, struct policy_shape *s, struct prism_error *err)
{
    struct parse_ranks ranks;
    exchange(text, '+', ',');
    if (strlen(text) >= sizeof s->sandbox)
        return prism_error_set(err, PRISM_EXIT_USAGE, "the list of sandbox ranks is too long");
    if (parse_ranks(text, &ranks, err))
        return -1;
    parse_ranks_clear(&ranks);
    strcpy(s->sandbox, text);
    return 0;
}

enum { WORLD, NODES, GPUS_PER_NODE, DEVICES, SANDBOX_RANKS, ASSISTANTS, PHASE, SANDBOX, PARTS };
static const char *const part_names[PARTS + 1] = {"world", "nodes", "gpus_per_node", "devices", "sandbox_ranks",
                                                  "assistants", "phase", "sandbox", NULL};

static int shape_part(size_t part, char *value, struct policy_shape *s, struct prism_error *err)
{
    static const char *const phases[] = {"auto", "capture", "calibrate", "emulate", NULL};
    uint32_t n;
    size_t choice;
    switch (part) {
    case WORLD: return shape_number(value, 1, &s->world, err);
    case NODES: return shape_number(value, 1, &s->nodes, err);
    case GPUS_PER_NODE: return shape_number(value, 1, &s->gpus_per_node, err);
    case DEVICES: return shape_number(value, 0, &s->devices, err);
    case SANDBOX_RANKS: return shape_number(value, 1, &s->sandbox_ranks, err);
    case ASSISTANTS:
        if (shape_number(value, 0, &n, err))
            return -1;
        s->assistants = (int)n;
        return 0;
    case PHASE:
        if (parse_choice(value, phases, &choice, err))
            return -1;
        snprintf(s->phase, sizeof s->phase, "%s", phases[choice]);
        return 0;
    default: return shape_sandbox(value, s, err);
    }
}

int policy_shape_parse(const char *text, struct policy_shape *shape, struct prism_error *err)
{
    struct policy_shape s = {.assistants = -1, .phase = "auto"};
    char copy[POLICY_SHAPE_MAX], *save = NULL;
    unsigned seen = 0;
    if (strlen(text) >= sizeof copy)
        return prism_error_set(err, PRISM_EXIT_USAGE, "the job's shape is malformed: longer than %zu characters",
                               sizeof copy - 1);
    strcpy(copy, text);
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        char *value = strchr(item, '=');
        struct prism_error why = {0};
        size_t part;
        if (!value)
            return prism_error_set(err, PRISM_EXIT_USAGE, "the job's shape is malformed");
        *value++ = 0;
        if (parse_choice(item, part_names, &part, &why) || shape_part(part, value, &s, &why))
            return prism_error_set(err, PRISM_EXIT_USAGE, "the job's shape is malformed: %s", why.text);
        if (seen & 1u << part)
            return prism_error_set(err, PRISM_EXIT_USAGE, "the job's shape is malformed: %s twice", part_names[part]);
        seen |= 1u << part;
    }
    if (!s.world || !s.nodes || !s.gpus_per_node)
        return prism_error_set(err, PRISM_EXIT_USAGE, "the job's shape is malformed: world, nodes or gpus_per_node is missing");
    *shape = s;
    return 0;
}

int policy_shape_print(const struct policy_shape *s, char *out, size_t size)
{
    char sandbox[POLICY_SANDBOX_MAX + 16] = "", assistants[32] = "";
    if (*s->sandbox)
        snprintf(sandbox, sizeof sandbox, ",sandbox=%s", s->sandbox);
    if (*sandbox)
        exchange(sandbox + 1, ',', '+');
    if (s->assistants >= 0)
        snprintf(assistants, sizeof assistants, ",assistants=%d", s->assistants);
    int n = snprintf(out, size, "world=%u,nodes=%u,gpus_per_node=%u,devices=%u,sandbox_ranks=%u%s%s,phase=%s", s->world,
                     s->nodes, s->gpus_per_node, s->devices, s->sandbox_ranks, sandbox, assistants, s->phase);
    return n > 0 && (size_t)n < size ? 0 : -1;
}

/* The value of NAME in an entry NAME=VALUE, or NULL. */
static const char *value_of(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return entry && !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

int policy_read_request(char *const *env, uint32_t n, enum policy_asked *asked, struct policy_shape *shape,
                        struct prism_error *err)
{
    const char *option = NULL, *text = NULL, *v;
    *shape = (struct policy_shape){.assistants = -1};
    *asked = POLICY_PLAIN;
    for (uint32_t i = 0; env && i < n; i++) {
        if ((v = value_of(env[i], POLICY_OPTION_VARIABLE)))
            option = v;
        if ((v = value_of(env[i], POLICY_SHAPE_VARIABLE)))
            text = v;
    }
    if (text) {
        *asked = POLICY_SHAPED;
        return policy_shape_parse(text, shape, err);
    }
    if (!option || !strcmp(option, "0"))
        return 0;
    uint64_t world = 0;
    struct prism_error why = {0};
    if (*option && strcmp(option, "(null)") && parse_number(option, 0, PARSE_WORLD_MAX, &world, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "--prism-emulate: %s", why.text);
    *asked = POLICY_UNSHAPED;
    shape->world = (uint32_t)world;
    return 0;
}

/* --- decisions --- */

static bool list_has(const char *list, const char *name, size_t len)
{
    for (const char *p = list; *p;) {
        size_t item = strcspn(p, ",");
        if (item == len && !memcmp(p, name, len))
            return true;
        p += item + (p[item] == ',');
    }
    return false;
}

static int check_person(const struct policy *p, const struct policy_job *job, struct prism_error *err)
{
    bool listed = p->users[0] || p->accounts[0];
    if (!listed || (job->user && list_has(p->users, job->user, strlen(job->user))) ||
        (job->account && list_has(p->accounts, job->account, strlen(job->account))))
        return 0;
    if (!p->accounts[0])
        return prism_error_set(err, PRISM_EXIT_USAGE, "emulation is not allowed for user %.60s on this cluster: ask its "
                               "administrators", job->user ? job->user : "(unknown)");
    return prism_error_set(err, PRISM_EXIT_USAGE, "emulation is not allowed for user %.60s with %s%.60s: it is for the accounts "
                           "%.300s (choose one with --account)", job->user ? job->user : "(unknown)",
                           job->account ? "account " : "no account named", job->account ? job->account : "", p->accounts);
}

/* A request may name several partitions: the job may land in any of them. */
static int check_partitions(const struct policy *p, const char *named, struct prism_error *err)
{
    if (!p->partitions[0])
        return 0;
    for (const char *at = named; at && *at;) {
        size_t len = strcspn(at, ",");
        if (len && !list_has(p->partitions, at, len))
            return prism_error_set(err, PRISM_EXIT_USAGE, "emulation is not allowed in partition %.*s: use --partition=%.300s",
                                   (int)(len < 60 ? len : 60), at, p->partitions);
        at += len + (at[len] == ',');
    }
    return 0;
}

static int check_most(uint64_t wanted, uint64_t most, const char *what, const char *why, struct prism_error *err)
{
    if (!most || wanted <= most)
        return 0;
    return prism_error_set(err, PRISM_EXIT_USAGE, "%llu %s are asked for, %llu %s", (unsigned long long)wanted, what,
                           (unsigned long long)most, why);
}

bool policy_limits_steps(const struct policy *p)
{
    return p->max_ranks || p->max_gpus || p->partitions[0] || p->users[0] || p->accounts[0] || p->refuse_plain_jobs;
}

int policy_check(const struct policy *p, const struct policy_job *job, struct prism_error *err)
{
    if (check_person(p, job, err) || check_partitions(p, job->partition, err))
        return -1;
    if (job->is_step && job->is_plain && p->refuse_plain_jobs)
        return prism_error_set(err, PRISM_EXIT_USAGE, "this site emulates only in jobs that were asked for with --prism-emulate (sbatch, "
                               "salloc), and this one was not");
    if ((p->max_ranks && !job->ranks) || (p->max_gpus && !job->gpus))
        return prism_error_set(err, PRISM_EXIT_USAGE,
                               "this site limits emulated jobs, and the request does not tell its %s: submit it from a host whose "
                               "slurm.conf has CliFilterPlugins=prism", p->max_ranks && !job->ranks ? "ranks" : "GPUs");
    return check_most(job->ranks, p->max_ranks, "ranks", "are the most that this site allows to emulate", err) ||
                   check_most(job->gpus, p->max_gpus, "GPUs",
                              "are the most that this site allows an emulated job: name fewer sandbox ranks or assistants", err) ||
                   check_most(job->ranks, job->rank_licences, "ranks", "prism_rank licences are all that this site has", err) ||
                   check_most(job->ranks, job->gpu_licences, "emulated GPUs", "prism_gpu licences are all that this site has", err)
               ? -1
               : 0;
}

/* --- strings for Slurm --- */

#define RANK_LICENCE "prism_rank"
#define GPU_LICENCE  "prism_gpu"

/* Appends; false once it does not fit. */
static bool append(char *out, size_t size, const char *text, size_t len)
{
    size_t n = strlen(out);
    if (n + len >= size)
        return false;
    memcpy(out + n, text, len);
    out[n + len] = 0;
    return true;
}

static bool is_ours(const char *item, size_t len)
{
    size_t name = 0;
    while (name < len && !strchr(":=@*", item[name]))
        name++;
    return (name == strlen(RANK_LICENCE) && !memcmp(item, RANK_LICENCE, name)) ||
           (name == strlen(GPU_LICENCE) && !memcmp(item, GPU_LICENCE, name));
}

static bool append_licence(char *out, size_t size, const char *name, uint32_t count)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s%s:%u", *out ? "," : "", name, count);
    return append(out, size, text, (size_t)n);
}

int policy_licences(const char *own, uint32_t world, bool rank, bool gpu, char *out, size_t size)
{
    bool fits = size > 0;
    if (fits)
        *out = 0;
    if (own && strchr(own, '|'))
        return -1;
    for (const char *p = own; fits && p && *p;) {
        size_t len = strcspn(p, ",;");
        if (len && !is_ours(p, len))
            fits = (!*out || append(out, size, ",", 1)) && append(out, size, p, len);
        p += len + (p[len] != 0);
    }
    fits = fits && (!rank || append_licence(out, size, RANK_LICENCE, world)) &&
           (!gpu || append_licence(out, size, GPU_LICENCE, world));
    if (!fits && size)
        *out = 0;
    return fits ? 0 : -1;
}

int policy_admin_comment(const char *own, const struct policy_shape *shape, char *out, size_t size)
{
    int n = snprintf(out, size, "%s%sprism:", own ? own : "", own && *own ? "; " : "");
    if (n < 0 || (size_t)n >= size)
        return -1;
    return policy_shape_print(shape, out + n, size - (size_t)n);
}

uint64_t policy_declared(const char *licenses, const char *name)
{
    for (const char *p = licenses; p && *p;) {
        size_t len = strcspn(p, ","), own = strcspn(p, ":*=,");
        char count[24] = "";
        uint64_t n = 1;
        if (own == strlen(name) && !memcmp(p, name, own)) {
            if (own < len)
                snprintf(count, sizeof count, "%.*s", (int)(len - own - 1 < 20 ? len - own - 1 : 20), p + own + 1);
            return *count && parse_number(count, 0, UINT32_MAX, &n, NULL) ? 0 : n;
        }
        p += len + (p[len] == ',');
    }
    return 0;
}
