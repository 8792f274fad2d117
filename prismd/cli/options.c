/* options.c - one table behind parsing and --help; errors are one line each. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void print_usage(const struct cli_usage *usage)
{
    printf("%s\n\n%s\n\n", usage->synopsis, usage->about);
    for (const struct cli_option *o = usage->options; o->name; o++) {
        char left[64];
        const char *argument = o->argument ? o->argument : "";
        if (argument[0] == '[')
            snprintf(left, sizeof(left), "--%s[=%s", o->name, argument + 1);
        else
            snprintf(left, sizeof(left), "--%s%s%s", o->name, o->argument ? "=" : "", argument);
        printf("  %-30s %s\n", left, o->doc);
    }
}

static size_t fill_getopt(const struct cli_option *options, struct option *longs)
{
    size_t n = 0;
    for (; options[n].name && n < CLI_MAX_OPTIONS; n++) {
        const char *argument = options[n].argument;
        longs[n].name = options[n].name;
        longs[n].has_arg = !argument ? no_argument : argument[0] == '[' ? optional_argument : required_argument;
        longs[n].val = (int)n + 256;
    }
    longs[n].name = "help";
    longs[n].val = 'h';
    return n;
}

/* -o is --output where a command has that. */
static int output_option(const struct cli_option *options)
{
    for (int i = 0; options[i].name; i++)
        if (strcmp(options[i].name, "output") == 0 && options[i].argument && options[i].argument[0] != '[')
            return i + 256;
    return '?';
}

int cli_parse(int argc, char **argv, const struct cli_usage *usage, const char **values, bool in_order,
              int *exit_code)
{
    struct option longs[CLI_MAX_OPTIONS + 2] = { 0 };
    size_t n = fill_getopt(usage->options, longs);
    memset(values, 0, n * sizeof(*values));
    optind = 0; /* glibc: start anew, whatever was parsed before */
    opterr = 0;
    int c;
    while ((c = getopt_long(argc, argv, in_order ? "+:ho:" : ":ho:", longs, NULL)) != -1) {
        /* "--trace -- program" lacks the value: no value starts with two dashes unless joined with "=". */
        c = c == 'o' ? output_option(usage->options) : c;
        bool apart = c >= 256 && optarg && optarg == argv[optind - 1];
        if (apart && strncmp(optarg, "--", 2) == 0) {
            *exit_code = cli_fail(argv[0], PRISM_EXIT_USAGE, "--%s needs a value; see prism %s --help",
                                  usage->options[c - 256].name, argv[0]);
            return -1;
        }
        if (c >= 256) {
            values[c - 256] = optarg ? optarg : "";
        } else if (c == 'h') {
            print_usage(usage);
            *exit_code = 0;
            return -1;
        } else {
            const char *given = argv[optind - 1];
            *exit_code = cli_fail(argv[0], PRISM_EXIT_USAGE,
                                  c == ':' ? "%s needs a value; see prism %s --help"
                                           : "%s is no option of this command, or takes no value; see prism %s --help",
                                  given, argv[0]);
            return -1;
        }
    }
    return optind;
}

int cli_fail(const char *command, int code, const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fprintf(stderr, "prism %s: %s\n", command, text);
    return code;
}

int cli_fail_error(const char *command, const struct prism_error *err)
{
    return cli_fail(command, err->code ? err->code : PRISM_EXIT_SYSTEM, "%s", err->text);
}
