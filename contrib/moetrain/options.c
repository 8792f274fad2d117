#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_LONG, KIND_DOUBLE, KIND_FLAG, KIND_RANKS, KIND_FILE };

struct option {
    const char *name;
    enum kind kind;
    size_t offset;
    double fallback, least, most;
    const char *help;
};

#define LONG(field, name, fallback, least, most, help)                                                       \
    {                                                                                                        \
        name, KIND_LONG, offsetof(struct options, field), fallback, least, most, help                        \
    }
#define DOUBLE(field, name, fallback, least, most, help)                                                     \
    {                                                                                                        \
        name, KIND_DOUBLE, offsetof(struct options, field), fallback, least, most, help                      \
    }
#define FLAG(field, name, help)                                                                              \
    {                                                                                                        \
        name, KIND_FLAG, offsetof(struct options, field), 0, 0, 1, help                                      \
    }

static const struct option table[] = {
    LONG(tp, "tp", 1, 1, 64, "ranks of a tensor-parallel group"),
    LONG(pp, "pp", 1, 1, 1024, "pipeline stages"),
    LONG(ep, "ep", 1, 1, 1024, "ranks that share the experts, inside the data-parallel group"),
    LONG(layers, "layers", 2, 1, 4096, "transformer layers"),
    LONG(hidden, "hidden", 32, 1, 65536, "width of the model"),
    LONG(heads, "heads", 4, 1, 1024, "attention heads"),
    LONG(ffn, "ffn", 64, 1, 262144, "width of the MLP, and of each expert"),
    LONG(experts, "experts", 4, 1, 1024, "experts of a mixture-of-experts layer"),
    LONG(topk, "topk", 2, 1, 16, "experts a token is sent to"),
    LONG(vocab, "vocab", 64, 2, 1048576, "size of the vocabulary"),
    LONG(moe_every, "moe-every", 2, 0, 4096, "every N-th layer is mixture-of-experts; 0: none"),
    LONG(seq, "seq", 16, 1, 65536, "tokens in a sequence (the longest with --variable-seq)"),
    LONG(micro_batch, "micro-batch", 2, 1, 4096, "sequences in a micro-batch"),
    LONG(micro_batches, "micro-batches", 2, 1, 4096,
         "micro-batches of a data-parallel replica in an iteration"),
    LONG(iterations, "iterations", 4, 1, 1e9, "iterations to train"),
    LONG(pool_grain, "pool-grain", 512, 1, 1e9, "bytes that sizes of buffers which data decides are rounded to"),
    LONG(seed, "seed", 1, 0, 1e15, "seed of parameters and data"),
    FLAG(variable_seq, "variable-seq", "the sequence length varies between micro-batches"),
    FLAG(equal_data, "equal-data", "all data-parallel replicas get the same micro-batches and do the same"),
    DOUBLE(lr, "lr", 3e-3, 0, 10, "learning rate of Adam"),
    DOUBLE(clip, "clip", 1.0, 0, 1e9, "clip gradients to this global norm; 0: never"),
    DOUBLE(uneven_routing, "uneven-routing", 0, -100, 100, "bias of the router towards the first experts"),
    LONG(slow_rank, "slow-rank", -1, 0, INT_MAX, "rank whose kernels cost more"),
    DOUBLE(slow_factor, "slow-factor", 1, 0.01, 1e6, "how much more the slow rank's kernels cost"),
    DOUBLE(cost_scale, "cost-scale", 1, 0, 1e12, "factor on the modelled cost of every kernel"),
    FLAG(exact_sums, "exact-sums",
         "round what enters reductions to a grid: any order of summation, same bits"),
    LONG(wait_streams, "wait-streams", 0, 0, 256,
         "extra streams that wait in an all-reduce at once, each iteration"),
    LONG(crash_rank, "crash-rank", -1, 0, INT_MAX, "rank that calls abort()"),
    LONG(crash_at, "crash-at", 0, 0, INT_MAX, "... at the start of this iteration"),
    LONG(exit_rank, "exit-rank", -1, 0, INT_MAX, "rank that calls exit()"),
    LONG(exit_at, "exit-at", 0, 0, INT_MAX, "... at the start of this iteration"),
    LONG(exit_code, "exit-code", 3, 0, 255, "... with this code"),
    LONG(store_timeout, "store-timeout", 300, 1, 86400, "seconds to wait for the store and for other ranks"),
    FLAG(use_split, "use-split", "make groups with ncclCommSplit instead of an unique id each"),
    LONG(watchdog, "watchdog", 1, 0, 86400, "seconds between looks for asynchronous NCCL errors; 0: no such thread"),
    {"print-ranks", KIND_RANKS, offsetof(struct options, print_ranks), 0, 0, 0,
     "ranks that print: all, or 0,4-7"},
    {"options", KIND_FILE, 0, 0, 0, 0, "read options from a file: one a line, NAME = VALUE or NAME; # begins a comment"},
};

enum { OPTIONS = sizeof table / sizeof *table };

__attribute__((format(printf, 3, 4))) static int fail(char *error, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return -1;
}

/* Reads one "A" or "A-B" of a list; returns the text behind it, NULL if malformed. */
static const char *parse_range(const char *text, long *first, long *last)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    *first = *last = strtol(text, &end, 10);
    if (*end == '-') {
        text = end + 1;
        if (*text < '0' || *text > '9')
            return NULL;
        *last = strtol(text, &end, 10);
    }
    return *last < *first || *last > INT_MAX ? NULL : end;
}

static bool ranks_valid(const char *list)
{
    long first, last;
    if (strcmp(list, "all") == 0)
        return true;
    while ((list = parse_range(list, &first, &last)) && *list == ',')
        list++;
    return list && *list == '\0';
}

bool options_prints_rank(const struct options *options, int rank)
{
    const char *list = options->print_ranks;
    long first, last;
    if (strcmp(list, "all") == 0)
        return true;
    while (list && (list = parse_range(list, &first, &last))) {
        if (rank >= first && rank <= last)
            return true;
        list = *list == ',' ? list + 1 : NULL;
    }
    return false;
}

static int set_number(struct options *options, const struct option *option, const char *value, char *error,
                      size_t size)
{
    char *end;
    void *field = (char *)options + option->offset;
    errno = 0;
    double number = option->kind == KIND_LONG ? (double)strtol(value, &end, 10) : strtod(value, &end);
    if (end == value || *end || errno || !isfinite(number))
        return fail(error, size, "--%s: '%s' is not a number", option->name, value);
    if (number < option->least || number > option->most)
        return fail(error, size, "--%s: %s is outside %.12g to %.12g", option->name, value, option->least,
                    option->most);
    if (option->kind == KIND_LONG)
        *(long *)field = (long)number;
    else
        *(double *)field = number;
    return 0;
}

static int set_option(struct options *options, const struct option *option, char *value, char *error,
                      size_t size)
{
    if (option->kind != KIND_RANKS)
        return set_number(options, option, value, error, size);
    if (!ranks_valid(value))
        return fail(error, size, "--%s: '%s' is neither 'all' nor a list such as 0,4-7", option->name, value);
    options->print_ranks = value;
    return 0;
}

static void set_defaults(struct options *options)
{
    static char first_rank[] = "0";
    memset(options, 0, sizeof *options);
    for (int i = 0; i < OPTIONS; i++) {
        void *field = (char *)options + table[i].offset;
        if (table[i].kind == KIND_LONG)
            *(long *)field = (long)table[i].fallback;
        else if (table[i].kind == KIND_DOUBLE)
            *(double *)field = table[i].fallback;
    }
    options->print_ranks = first_rank;
}

struct rule {
    const char *what, *by;
    long dividend, divisor;
};

static int check_rules(const struct rule *rules, int count, char *error, size_t size)
{
    for (int i = 0; i < count; i++) {
        if (rules[i].dividend % rules[i].divisor == 0)
            continue;
        return fail(error, size, "%s (%ld) is not a multiple of %s (%ld)", rules[i].what, rules[i].dividend,
                    rules[i].by, rules[i].divisor);
    }
    return 0;
}

static int check_shape(const struct options *o, char *error, size_t size)
{
    const struct rule rules[] = {
        {"--hidden", "--heads", o->hidden, o->heads},
        {"--heads", "--tp", o->heads, o->tp},
        {"--ffn", "--tp", o->ffn, o->tp},
        {"--vocab", "--tp", o->vocab, o->tp},
        {"--layers", "--pp", o->layers, o->pp},
        {"--experts", "--ep", o->experts, o->ep},
    };
    if (o->topk > o->experts)
        return fail(error, size, "--topk (%ld) is more than --experts (%ld)", o->topk, o->experts);
    return check_rules(rules, sizeof rules / sizeof *rules, error, size);
}

static const struct option *find_option(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

static int parse_arguments(struct options *options, int argc, char **argv, bool in_file, char *error,
                           size_t error_size);

/* The lines of the file as arguments. What they hold is kept: values may be pointed at. */
static int parse_file(struct options *options, const char *path, char *error, size_t error_size)
{
    enum { LINES = 256, LENGTH = 512 };
    static char lines[LINES][LENGTH + 2];
    char *arguments[LINES], line[LENGTH];
    int count = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return fail(error, error_size, "--options: %s: %s", path, strerror(errno));
    while (count < LINES && fgets(line, sizeof line, file)) {
        char *out = lines[count];
        line[strcspn(line, "#\n")] = '\0';
        *out++ = '-';
        *out++ = '-';
        for (const char *in = line; *in; in++)
            if (*in != ' ' && *in != '\t')
                *out++ = *in;
        *out = '\0';
        if (lines[count][2])
            arguments[count] = lines[count], count++;
    }
    fclose(file);
    return parse_arguments(options, count, arguments, true, error, error_size);
}

static int parse_arguments(struct options *options, int argc, char **argv, bool in_file, char *error,
                           size_t error_size)
{
    for (int i = 0; i < argc; i++) {
        char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            return 1;
        if (strncmp(argument, "--", 2) != 0)
            return fail(error, error_size, "'%s' is not an option; --help lists them", argument);
        char *value = strchr(argument, '=');
        size_t length = value ? (size_t)(value - argument - 2) : strlen(argument + 2);
        const struct option *option = find_option(argument + 2, length);
        if (!option)
            return fail(error, error_size, "%s: there is no such option; --help lists them", argument);
        if (option->kind == KIND_FLAG) {
            if (value)
                return fail(error, error_size, "--%s takes no value", option->name);
            *(bool *)((char *)options + option->offset) = true;
            continue;
        }
        if (value)
            value++;
        else if (!in_file && ++i < argc)
            value = argv[i];
        else
            return fail(error, error_size, "--%s needs a value", option->name);
        if (option->kind == KIND_FILE) {
            int rc = in_file ? fail(error, error_size, "--options: a file cannot name another")
                             : parse_file(options, value, error, error_size);
            if (rc != 0)
                return rc;
            continue;
        }
        if (set_option(options, option, value, error, error_size) != 0)
            return -1;
    }
    return 0;
}

int options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size)
{
    set_defaults(options);
    int rc = parse_arguments(options, argc - 1, argv + 1, false, error, error_size);
    return rc ? rc : check_shape(options, error, error_size);
}

int options_check_world(const struct options *o, int world, char *error, size_t error_size)
{
    const struct rule rules[] = {
        {"the world", "--tp times --pp", world, o->tp * o->pp},
        {"data parallelism (world / tp / pp)", "--ep", world / (o->tp * o->pp), o->ep},
    };
    const struct {
        const char *name;
        long rank;
    } ranks[] = {{"slow-rank", o->slow_rank}, {"crash-rank", o->crash_rank}, {"exit-rank", o->exit_rank}};
    for (int i = 0; i < 3; i++) {
        if (ranks[i].rank < world)
            continue;
        return fail(error, error_size, "--%s: rank %ld is outside the world of %d", ranks[i].name,
                    ranks[i].rank, world);
    }
    if (check_rules(rules, 1, error, error_size) != 0)
        return -1;
    return check_rules(rules + 1, 1, error, error_size);
}

void options_help(void)
{
    printf(
        "usage: moetrain [options]\n"
        "A small mixture-of-experts trainer on CUDA and NCCL. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and\n"
        "MASTER_PORT (or PMIx) say who it is; contrib/moetrain/README.md has the rest.\n\n");
    for (int i = 0; i < OPTIONS; i++) {
        const struct option *o = &table[i];
        char name[40], fallback[40] = "";
        snprintf(name, sizeof name, "--%s%s", o->name,
                 o->kind == KIND_FLAG     ? ""
                 : o->kind == KIND_DOUBLE ? "=X"
                 : o->kind == KIND_RANKS  ? "=LIST"
                 : o->kind == KIND_FILE   ? "=FILE"
                                          : "=N");
        if (o->kind == KIND_RANKS)
            snprintf(fallback, sizeof fallback, " (0)");
        else if (o->kind != KIND_FLAG && o->kind != KIND_FILE && o->fallback >= o->least)
            snprintf(fallback, sizeof fallback, " (%.12g)", o->fallback);
        printf("  %-20s %s%s\n", name, o->help, fallback);
    }
}
