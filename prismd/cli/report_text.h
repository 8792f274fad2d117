/* report_text.h - a run's report.json (docs/report.md) as text, and losses read from a program's output. */
#ifndef PRISM_CLI_REPORT_TEXT_H
#define PRISM_CLI_REPORT_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "common/error.h"

/* Every key may be missing: its line is then left out. */
void report_print(FILE *out, const json_t *report);

/* Lines "[anything] rank R iteration I loss L [grad_norm G] …" of a program's output go into report["losses"] and
 * report["grad_norms"]: {"R": [value of iteration 0, …]}; iterations not printed are null. Returns the number of
 * lines used, -1 when the file cannot be read. Existing entries are replaced. */
int report_add_losses(json_t *report, const char *path, struct prism_error *err);

#endif
