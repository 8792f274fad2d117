/* files.c - is the folder what its manifest says? */
#include "trace/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"

#define BUFFER (1u << 20)
#define LARGE  (1u << 20) /* bytes: above, what sums itself is not read only to see whether it is whole */

/* A file is named from the end of the phase that writes it, so that a phase which is killed leaves no folder that looks damaged.
 * graph.bin and the payloads have checksums of their own and are read by whoever opens a trace. */
static const struct known {
    const char *name;
    bool of_calibration; /* else of capture */
    bool sums_itself;    /* ends with a checksum that its readers check */
} known_files[] = {
    {"store.log", false, true},      {"pmix.log", false, true},       {"folding.json", false, false},
    {"switching.json", false, false}, {"durations.json", true, false}, {"network.json", true, false},
};
#define KNOWN (sizeof known_files / sizeof *known_files)

static const struct known *find_known(const char *name)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (!strcmp(name, known_files[i].name))
            return &known_files[i];
    return NULL;
}

static bool is_named(const struct known *k, bool complete, bool calibrated)
{
    return complete && (calibrated || !k->of_calibration);
}

bool trace_file_name_is_good(const char *name)
{
    size_t n = strlen(name);
    return n && n < sizeof((struct trace_file *)0)->name && name[0] != '.' && !strchr(name, '/');
}

int64_t trace_hash_file(XXH64_state_t *hash, int fd)
{
    char *buffer = check(malloc(BUFFER));
    int64_t bytes = 0;
    ssize_t n;
    while ((n = read(fd, buffer, BUFFER)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        XXH64_update(hash, buffer, (size_t)n);
        bytes += n;
    }
    free(buffer);
    return n < 0 ? -1 : bytes;
}

/* 0 with errno ENOENT: there is none. -1: it cannot be read. */
static int sum_file(const char *dir, struct trace_file *f, struct prism_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, f->name) >= (int)sizeof path)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
    errno = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return 0;
    XXH64_state_t *hash = check(XXH64_createState());
    XXH64_reset(hash, 0);
    int64_t bytes = fd < 0 ? -1 : trace_hash_file(hash, fd);
    int cause = errno;
    f->sum = XXH64_digest(hash);
    f->bytes = (uint64_t)bytes;
    XXH64_freeState(hash);
    if (fd >= 0)
        close(fd);
    if (bytes < 0)
        return prism_error_set(err, PRISM_EXIT_TRACE, "cannot read %s: %s", path, strerror(cause));
    errno = 0;
    return 0;
}

int trace_files_find(const char *dir, bool complete, bool calibrated, struct trace_file **list, uint32_t *n,
                     struct prism_error *err)
{
    *list = check(calloc(KNOWN, sizeof **list));
    *n = 0;
    for (size_t i = 0; i < KNOWN; i++) {
        struct trace_file *f = &(*list)[*n];
        if (!is_named(&known_files[i], complete, calibrated))
            continue;
        snprintf(f->name, sizeof f->name, "%s", known_files[i].name);
        if (sum_file(dir, f, err)) {
            free(*list);
            *list = NULL;
            return -1;
        }
        *n += errno != ENOENT;
    }
    return 0;
}

/* ---- Checking ---- */

static const char *way_out(const char *name)
{
    if (!strcmp(name, "network.json"))
        return "another network is given with --network=FILE (prismd: --prism-network=FILE), and calibrating again with one "
               "makes the trace whole";
    if (!strcmp(name, "durations.json"))
        return "calibrate again (--phase=calibrate; with srun --prism-phase=calibrate)";
    return "capture again, or name another trace";
}

static int refuse(const char *dir, const char *name, const char *what, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_TRACE, "%s/%s %s; %s", dir, name, what, way_out(name));
}

static int check_file(const char *dir, const struct trace_file *f, unsigned how, struct prism_error *err)
{
    char path[PATH_MAX], what[256];
    struct stat st;
    const struct known *k = find_known(f->name);
    if (snprintf(path, sizeof path, "%s/%s", dir, f->name) >= (int)sizeof path)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: path too long", dir);
    if (stat(path, &st))
        return refuse(dir, f->name, errno == ENOENT ? "is missing, and trace.json names it" : strerror(errno), err);
    if (!S_ISREG(st.st_mode))
        return refuse(dir, f->name, "is no file", err);
    if ((uint64_t)st.st_size != f->bytes) {
        snprintf(what, sizeof what, "has %lld bytes and had %llu when trace.json was written: it was damaged or edited",
                 (long long)st.st_size, (unsigned long long)f->bytes);
        return refuse(dir, f->name, what, err);
    }
    if (k && k->sums_itself && f->bytes > LARGE && !(how & TRACE_CHECK_ALL))
        return 0;
    struct trace_file now = *f;
    if (sum_file(dir, &now, err))
        return -1;
    if (errno == ENOENT)
        return refuse(dir, f->name, "is missing, and trace.json names it", err);
    if (now.sum == f->sum && now.bytes == f->bytes)
        return 0;
    snprintf(what, sizeof what, "has the checksum %016llx and had %016llx when trace.json was written: it was damaged or edited",
             (unsigned long long)now.sum, (unsigned long long)f->sum);
    return refuse(dir, f->name, what, err);
}

/* What the caller does not read, or is about to replace. */
static bool is_left_out(const char *dir, const char *name, unsigned how)
{
    char path[PATH_MAX];
    if (!strcmp(name, "durations.json"))
        return how & TRACE_CHECK_CALIBRATES;
    if (strcmp(name, "network.json"))
        return false;
    snprintf(path, sizeof path, "%s/network.json", dir);
    return how & TRACE_CHECK_OTHER_NETWORK || (how & TRACE_CHECK_CALIBRATES && access(path, F_OK));
}

static const struct trace_file *find_listed(const struct trace_manifest *m, const char *name)
{
    for (uint32_t i = 0; i < m->nfiles; i++)
        if (!strcmp(m->files[i].name, name))
            return &m->files[i];
    return NULL;
}

bool trace_has_stray(const char *dir, const struct trace_manifest *m, const char *name)
{
    char path[PATH_MAX];
    const struct known *k = find_known(name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return m->version >= 3 && k && is_named(k, m->complete, m->calibrated) && !find_listed(m, name) && !access(path, F_OK);
}

static int check_files(const char *dir, const struct trace_manifest *m, unsigned how, struct prism_error *err)
{
    for (uint32_t i = 0; i < m->nfiles; i++)
        if (!is_left_out(dir, m->files[i].name, how) && check_file(dir, &m->files[i], how, err))
            return -1;
    for (size_t i = 0; i < KNOWN; i++) {
        const char *name = known_files[i].name;
        if (is_left_out(dir, name, how) || (how & TRACE_CHECK_NO_DURATIONS && !strcmp(name, "durations.json")))
            continue;
        if (trace_has_stray(dir, m, name))
            return refuse(dir, name, "is not of this trace: trace.json does not name it", err);
    }
    return 0;
}

static int compare(const char *dir, const char *what, uint32_t manifest, uint32_t graph, struct prism_error *err)
{
    if (manifest == graph)
        return 0;
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "%s/trace.json says %u %s and %s/graph.bin says %u: one of them is damaged or of another capture; capture "
                           "again, or name another trace",
                           dir, manifest, what, dir, graph);
}

/* Payloads of a node that the manifest does not count: then it counts wrong. That all are there of those which it counts is found by
 * whoever reads them. */
static int check_nodes(const char *dir, uint32_t nodes, struct prism_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/payload-%u.idx", dir, nodes);
    if (access(path, F_OK))
        return 0;
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "%s/trace.json says that %u node%s captured, and there is %s: one of them is damaged or of another capture; "
                           "capture again, or name another trace",
                           dir, nodes, nodes == 1 ? "" : "s", path);
}

int trace_check(const char *dir, const struct trace_manifest *m, const struct trace_graph *g, unsigned how,
                struct prism_error *err)
{
    if (compare(dir, "ranks", m->world, g->world, err) ||
        compare(dir, "GPUs a node", m->gpus_per_node, g->gpus_per_node, err))
        return -1;
    /* Of a capture that did not end well nobody has looked for iterations. */
    if (m->complete && g->iterations != TRACE_ITERATIONS_UNKNOWN && compare(dir, "iterations", m->iterations, g->iterations, err))
        return -1;
    bool old_synth = m->version < 3 && !m->nodes; /* it left such files of a capture where they were */
    if (m->complete && !old_synth && check_nodes(dir, m->nodes, err))
        return -1;
    return m->version >= 3 ? check_files(dir, m, how, err) : 0;
}

/* ---- A new trace where another was ---- */

/* payload-NODE.idx or .dat, or one of these half written (common/file.h). */
static bool is_payload(const char *name)
{
    uint32_t node;
    int end = 0;
    if (sscanf(name, "payload-%u%n", &node, &end) != 1 || !strchr("0123456789", name[8]))
        return false;
    return !strcmp(name + end, ".idx") || !strcmp(name + end, ".dat") || !strncmp(name + end, ".idx.tmp", 8) || !strncmp(name + end, ".dat.tmp", 8);
}

static bool is_of_a_trace(const char *name)
{
    static const char *const names[] = {"graph.bin", "hang.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return is_payload(name) || (find_known(name) && strcmp(name, "network.json"));
}

void trace_forget(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_of_a_trace(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
}
