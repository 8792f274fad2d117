/* profile.c - the numbers of the device profile. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libconfig.h>

#include "softgpu/core/internal.h"

enum option_type { OPTION_NUMBER, OPTION_BYTES };

/* One table behind file, environment and docs/softgpu-profile.md. */
struct option {
    const char *name;        /* path in the file */
    const char *environment; /* overrides the file; NULL: none */
    double value;            /* built in */
    enum option_type type;
};

enum option_index {
    TIME_SCALE, SEED, FLOPS, BANDWIDTH, LAUNCH, PCIE_BANDWIDTH, PCIE_LATENCY, PEER_BANDWIDTH, OVERLAP, JITTER, MEMORY,
    CONTEXT_BYTES, CONTEXT_SECONDS, TIME_SLICING, GATE_POLL, MULTIPROCESSORS, MAJOR, MINOR, STACK, UNTIMED, QUEUE_ENTRIES, LAZY_LOADING,
    PTX_COMPILER,
    OPTIONS
};

static struct option options[OPTIONS] = {
    [TIME_SCALE] = {"time_scale", "SOFTGPU_TIME_SCALE", 1.0, OPTION_NUMBER},
    [SEED] = {"seed", "SOFTGPU_SEED", 1, OPTION_NUMBER},
    [FLOPS] = {"device.flops", NULL, 50e6, OPTION_NUMBER},
    [BANDWIDTH] = {"device.bandwidth", NULL, 25e6, OPTION_NUMBER},
    [LAUNCH] = {"device.launch_overhead", NULL, 20e-6, OPTION_NUMBER},
    [PCIE_BANDWIDTH] = {"device.pcie_bandwidth", NULL, 4e9, OPTION_NUMBER},
    [PCIE_LATENCY] = {"device.pcie_latency", NULL, 10e-6, OPTION_NUMBER},
    [PEER_BANDWIDTH] = {"device.peer_bandwidth", NULL, 8e9, OPTION_NUMBER},
    [OVERLAP] = {"device.overlap_slowdown", NULL, 0.03, OPTION_NUMBER},
    [JITTER] = {"device.jitter", NULL, 0.003, OPTION_NUMBER},
    [MEMORY] = {"device.memory", "SOFTGPU_MEMORY", 80.0 * (1ull << 30), OPTION_BYTES},
    [CONTEXT_BYTES] = {"device.context_bytes", NULL, 0, OPTION_BYTES},
    [CONTEXT_SECONDS] = {"device.context_seconds", "SOFTGPU_CONTEXT_SECONDS", 0, OPTION_NUMBER},
    [TIME_SLICING] = {"device.time_slicing", NULL, 0, OPTION_NUMBER},
    [GATE_POLL] = {"device.gate_poll_max", NULL, 20e-3, OPTION_NUMBER},
    [MULTIPROCESSORS] = {"device.multiprocessors", NULL, 132, OPTION_NUMBER},
    [MAJOR] = {"device.major", NULL, 9, OPTION_NUMBER},
    [MINOR] = {"device.minor", NULL, 0, OPTION_NUMBER},
    [STACK] = {"device.stack_bytes", NULL, 256 << 10, OPTION_BYTES},
    [UNTIMED] = {"untimed", "SOFTGPU_UNTIMED", 0, OPTION_NUMBER},
    [QUEUE_ENTRIES] = {"device.queue_entries", "SOFTGPU_QUEUE_ENTRIES", 0, OPTION_NUMBER},
    [LAZY_LOADING] = {"device.lazy_loading", "SOFTGPU_LAZY_LOADING", 0, OPTION_NUMBER},
    [PTX_COMPILER] = {"device.ptx_compiler", "SOFTGPU_PTX_COMPILER", 1, OPTION_NUMBER},
};

static struct sg_profile profile;
static config_t file;
static bool have_file;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* "80G", "512M", "1.5e9": a number and at most one of K, M, G, T (powers of 1024). */
static bool parse_number(const char *text, enum option_type type, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || errno || !isfinite(*value) || *value < 0)
        return false;
    if (type == OPTION_BYTES && *end) {
        const char *units = "KMGT", *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit)
            return false;
        *value = ldexp(*value, 10 * (int)(unit - units + 1));
        end++;
    }
    return *end == '\0';
}

static bool setting_number(const config_setting_t *setting, enum option_type type, double *value)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT: *value = config_setting_get_int(setting); return true;
    case CONFIG_TYPE_INT64: *value = (double)config_setting_get_int64(setting); return true;
    case CONFIG_TYPE_FLOAT: *value = config_setting_get_float(setting); return true;
    case CONFIG_TYPE_BOOL: *value = config_setting_get_bool(setting); return true;
    case CONFIG_TYPE_STRING: return parse_number(config_setting_get_string(setting), type, value);
    default: return false;
    }
}

static void load_file(const char *path)
{
    config_init(&file);
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        *slash = '\0';
        config_set_include_dir(&file, folder);
    }
    have_file = config_read_file(&file, path) == CONFIG_TRUE;
    if (!have_file)
        fprintf(stderr, "softgpu: SOFTGPU_PROFILE=%s: %s%s%s (line %d); built-in values are used\n", path,
                config_error_file(&file) ? config_error_file(&file) : "", config_error_file(&file) ? ": " : "",
                config_error_text(&file), config_error_line(&file));
    free(folder);
}

static void load_option(struct option *option)
{
    double value;
    const config_setting_t *setting = have_file ? config_lookup(&file, option->name) : NULL;
    if (setting) {
        if (setting_number(setting, option->type, &value))
            option->value = value;
        else
            fprintf(stderr, "softgpu: %s in SOFTGPU_PROFILE is not a number that makes sense; %g is used\n",
                    option->name, option->value);
    }
    const char *text = option->environment ? getenv(option->environment) : NULL;
    if (!text || !*text)
        return;
    if (parse_number(text, option->type, &value))
        option->value = value;
    else
        fprintf(stderr, "softgpu: %s=%s is not a number%s; %g is used\n", option->environment, text,
                option->type == OPTION_BYTES ? " of bytes (K, M, G allowed)" : "", option->value);
}

static int connections_from_environment(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int value = text ? atoi(text) : 8;
    return value < 1 ? 8 : value > 32 ? 32 : value;
}

static double positive(enum option_index index, double least)
{
    return options[index].value > least ? options[index].value : least;
}

static void load(void)
{
    const char *path = getenv("SOFTGPU_PROFILE");
    if (path && *path)
        load_file(path);
    for (int i = 0; i < OPTIONS; i++)
        load_option(&options[i]);
    const char *name = "Prism software GPU";
    if (have_file)
        config_lookup_string(&file, "device.name", &name);
    snprintf(profile.name, sizeof(profile.name), "%s", name);
    profile.untimed = options[UNTIMED].value != 0;
    profile.time_scale = profile.untimed ? 0 : positive(TIME_SCALE, 1e-9);
    profile.seed = (uint64_t)options[SEED].value;
    profile.flops = positive(FLOPS, 1);
    profile.bandwidth = positive(BANDWIDTH, 1);
    profile.launch_overhead = options[LAUNCH].value;
    profile.pcie_bandwidth = positive(PCIE_BANDWIDTH, 1);
    profile.pcie_latency = options[PCIE_LATENCY].value;
    profile.peer_bandwidth = positive(PEER_BANDWIDTH, 1);
    profile.overlap_slowdown = options[OVERLAP].value;
    profile.jitter = options[JITTER].value;
    profile.memory = (uint64_t)options[MEMORY].value;
    profile.context_bytes = (uint64_t)options[CONTEXT_BYTES].value;
    profile.context_seconds = options[CONTEXT_SECONDS].value;
    profile.time_slicing = options[TIME_SLICING].value != 0;
    profile.gate_poll_max = positive(GATE_POLL, 1e-3);
    profile.multiprocessors = (int)options[MULTIPROCESSORS].value;
    profile.major = (int)options[MAJOR].value;
    profile.minor = (int)options[MINOR].value;
    profile.stack_bytes = (size_t)positive(STACK, 64 << 10);
    profile.queue_entries = (uint64_t)options[QUEUE_ENTRIES].value;
    profile.lazy_loading = options[LAZY_LOADING].value != 0;
    profile.ptx_compiler = options[PTX_COMPILER].value != 0;
    profile.connections = connections_from_environment();
}

const struct sg_profile *sg_profile(void)
{
    pthread_once(&once, load);
    return &profile;
}

int64_t sg_scaled_ns(double seconds)
{
    return (int64_t)(seconds * sg_profile()->time_scale * 1e9);
}

double sg_profile_number(const char *name, double fallback)
{
    sg_profile();
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].name, name))
            return options[i].value;
    double value;
    const config_setting_t *setting = have_file ? config_lookup(&file, name) : NULL;
    return setting && setting_number(setting, OPTION_BYTES, &value) ? value : fallback;
}

/* SplitMix64 (Steele, Lea, Flood 2014): a good 64-bit mixing function. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

double sg_jitter(uint64_t a, uint64_t b)
{
    const struct sg_profile *p = sg_profile();
    if (p->jitter <= 0)
        return 1;
    uint64_t h = mix(mix(mix(p->seed) ^ a) ^ b), g = mix(h);
    double u = ((double)(h >> 11) + 1) * 0x1p-53, v = (double)(g >> 11) * 0x1p-53;
    double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v); /* Box-Muller */
    double factor = 1 + p->jitter * fmin(fmax(normal, -4), 4);
    return factor > 0.1 ? factor : 0.1;
}
