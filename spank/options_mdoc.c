/* options_mdoc.c - fills a manual page's template: its line ".\" @OPTIONS STYLE@" becomes the table of options (options.h).
 *
 *   options_mdoc TEMPLATE      STYLE: run (--sandbox), slurm (--prism-sandbox, with the variable), conf (sandbox =)
 *
 * Also "@VERSION@". Writes to standard output. Run by the Makefile.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define PREFIX_LEN 6 /* "prism-" */

/* A sentence, in lines of no more than LINE_ROOM; in mdoc the parts of a list of clauses begin on lines of their own. */
#define LINE_ROOM 76
static void put_doc(const struct option_row *row)
{
    size_t at = 0;
    for (const char *p = row->doc; *p;) {
        size_t word = strcspn(p, " ");
        if (at && at + 1 + word > LINE_ROOM) {
            putchar('\n');
            at = 0;
        }
        if (at)
            putchar(' ');
        putchar(p == row->doc ? toupper((unsigned char)*p) : *p);
        printf("%.*s", (int)word - 1, p + 1);
        at = p[word - 1] == ';' ? LINE_ROOM : at + 1 + word;
        p += word + strspn(p + word, " ");
    }
    printf(".\n");
}

static void put_name(const struct option_row *row, const char *style)
{
    const char *name = row->name + (strcmp(style, "slurm") ? PREFIX_LEN : 0), *argument = row->argument;
    if (!strcmp(style, "conf")) {
        printf(".It Ic %s No = Ar %s\n", name, argument ? argument : "0|1");
    } else if (!argument) {
        printf(".It Fl \\-%s\n", name);
    } else if (row->takes == OPTION_OPTIONAL) {
        printf(".It Fl \\-%s Ns Op = Ns Ar %.*s\n", name, (int)strcspn(argument + 1, "]"), argument + 1);
    } else {
        printf(".It Fl \\-%s Ns = Ns Ar %s\n", name, argument);
    }
}

static void put_options(const char *style)
{
    bool conf = !strcmp(style, "conf");
    printf(".Bl -tag -width Ds\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (conf && i == OPTION_EMULATE)
            continue; /* a job asks for it */
        put_name(&option_table[i], style);
        put_doc(&option_table[i]);
        if (!conf)
            printf("Variable\n.Ev %s .\n", option_table[i].variable);
    }
    printf(".El\n");
}

static void put_line(char *line)
{
    char style[16];
    if (sscanf(line, ".\\\" @OPTIONS %15[a-z]@", style) == 1) {
        put_options(style);
        return;
    }
    char *version = strstr(line, "@VERSION@");
    if (version)
        printf("%.*s%s%s", (int)(version - line), line, PRISM_VERSION, version + strlen("@VERSION@"));
    else
        fputs(line, stdout);
}

int main(int argc, char **argv)
{
    char line[4096];
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!f) {
        fprintf(stderr, "usage: options_mdoc TEMPLATE\n");
        return 64;
    }
    while (fgets(line, sizeof line, f))
        put_line(line);
    fclose(f);
    return ferror(stdout) ? 71 : 0;
}
