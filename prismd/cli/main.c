/* main.c - the `prism` command: a table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "common/log.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} commands[] = {
    { "run", cli_run, "capture, calibrate and emulate a program, without Slurm" },
    { "plan", cli_plan, "nodes, GPUs and minutes of a request, before it is submitted" },
    { "report", cli_report, "print the report of the last emulation" },
    { "info", cli_info, "what a trace holds" },
    { "verify", cli_verify, "check a trace: checksums, payloads, who waits for whom" },
    { "predict", cli_predict, "iteration times from the trace alone, in virtual time" },
    { "export", cli_export, "the timeline as CSV or for Perfetto, execution traces for Chakra" },
    { "synth", cli_synth, "make the trace of a job from a description of it" },
    { "plot", cli_plot, "pictures of the predicted timeline: SVG, PNG" },
    { "acct", cli_acct, "emulated jobs in Slurm's accounting" },
    { "doctor", cli_doctor, "check this machine, measure its network profile" },
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out)
{
    fprintf(out, "Run chosen ranks of a large NCCL job for real, the rest replayed around them.\n\n"
                 "  prism COMMAND [options] …     (prism COMMAND --help for its options)\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\nExit codes: the program's own; Prism's own errors are 64 usage, 65 trace, 66 no NCCL call,\n"
                 "67 a rank ended early, 68 daemon, 69 unsupported, 70 diverged, 71 operating system, 73 the program hangs.\n");
}

int main(int argc, char **argv)
{
    prism_log_init("prism");
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? PRISM_EXIT_USAGE : 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("prism " PRISM_VERSION);
        return 0;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "prism: no command '%s'; prism --help lists them\n", argv[1]);
    return PRISM_EXIT_USAGE;
}
