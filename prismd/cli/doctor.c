/* doctor.c - `prism doctor`: does this machine have what Prism needs; with --measure: how fast are its links. */
#include <stdio.h>
#include <string.h>

#include "checks.h"
#include "cli.h"
#include "doctor_slurm.h"
#include "measure.h"

enum { JSON, MEASURE, OUTPUT, MAX_SECONDS, MAX_BYTES };

static const struct cli_option options[] = {
    [JSON] = { "json", NULL, "print as JSON" },
    [MEASURE] = { "measure", NULL, "measure the network profile (start one process a device, by any launcher)" },
    [OUTPUT] = { "output", "FILE", "where rank 0 writes the profile (default network.json)" },
    [MAX_SECONDS] = { "max-seconds", "S", "largest time of one operation: bigger messages are left out (default 0.25)" },
    [MAX_BYTES] = { "max-bytes", "B", "largest buffer of one device (default 67108864)" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism doctor [options]",
    .about = "Check what Prism needs on this machine - a login node, a compute node, or in a job - and say how to mend what is\n"
             "missing. With --measure, time NCCL's\n"
             "operations over groups of devices and write the network profile that --network and PRISM_NETWORK take:\n"
             "  srun -N2 --ntasks-per-node=8 --gpus-per-node=8 prism doctor --measure --output=network.json\n"
             "Without a launcher it starts one process a device of this machine itself.",
    .options = options,
};

static const char *const level[] = { [CHECK_GOOD] = "good", [CHECK_WARN] = "warn", [CHECK_BAD] = "BAD" };

static const char *const place_names[] = { [PLACE_ALONE] = "machine", [PLACE_LOGIN] = "login node",
                                           [PLACE_COMPUTE] = "compute node", [PLACE_JOB] = "job" };

static json_t *checks_json(const struct check *checks, size_t n, enum doctor_place place)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", checks[i].name, "result",
                                              level[checks[i].result], "found", checks[i].found, "mend",
                                              checks[i].mend));
    return json_pack("{s:s, s:o}", "place", place_names[place], "checks", list);
}

/* GPUs are the compute nodes' affair. */
static void excuse_login_node(struct check *checks, size_t n)
{
    static const char *const of_gpus[] = { "CUDA driver", "CUDA runtime", "NCCL", "stream memory operations" };
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof(of_gpus) / sizeof(of_gpus[0]); k++)
            if (checks[i].result != CHECK_GOOD && strcmp(checks[i].name, of_gpus[k]) == 0) {
                checks[i].result = CHECK_WARN;
                snprintf(checks[i].mend, sizeof(checks[i].mend), "a login node needs none: srun --gpus-per-node=1 prism doctor");
            }
}

static int run_checks(bool json)
{
    static struct check checks[CHECKS_MAX];
    enum doctor_place place;
    size_t n = checks_run(checks);
    size_t slurm = doctor_slurm(checks + n, CHECKS_MAX - n, &place);
    if (place == PLACE_LOGIN)
        excuse_login_node(checks, n);
    n += slurm;
    int bad = 0;
    if (!json)
        printf("This is a %s.\n", place_names[place]);
    for (size_t i = 0; i < n; i++) {
        bad |= checks[i].result == CHECK_BAD;
        if (json)
            continue;
        printf("%-5s %-26s %s\n", level[checks[i].result], checks[i].name, checks[i].found);
        if (checks[i].mend[0])
            printf("      %-26s -> %s\n", "", checks[i].mend);
    }
    if (json && print_json(checks_json(checks, n, place)) != 0)
        return PRISM_EXIT_SYSTEM;
    return bad ? PRISM_EXIT_SYSTEM : 0;
}

/* NULL leaves *out alone. */
static bool read_positive(const char *text, double least, double most, double *out)
{
    char end;
    double value;
    if (!text)
        return true;
    if (sscanf(text, "%lf%c", &value, &end) != 1 || !(value >= least && value <= most))
        return false;
    *out = value;
    return true;
}

int cli_doctor(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (first < argc)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "takes no arguments, got '%s'", argv[first]);
    if (!values[MEASURE] && (values[OUTPUT] || values[MAX_SECONDS] || values[MAX_BYTES]))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--output, --max-seconds and --max-bytes go with --measure");
    if (!values[MEASURE])
        return run_checks(values[JSON] != NULL);
    double seconds = 0.25, bytes = 67108864;
    if (!read_positive(values[MAX_SECONDS], 1e-6, 3600, &seconds))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--max-seconds: '%s' is no time in seconds", values[MAX_SECONDS]);
    if (!read_positive(values[MAX_BYTES], 4096, 1e12, &bytes))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--max-bytes: '%s' is no size from 4096 on", values[MAX_BYTES]);
    struct measure_options measure = { .output = values[OUTPUT] ? values[OUTPUT] : "network.json",
                                       .max_seconds = seconds, .max_bytes = (size_t)bytes };
    struct prism_error err = { 0 };
    if (measure_run(&measure, &err) != 0)
        return cli_fail_error(argv[0], &err);
    return 0;
}
