/* config.h - defaults of the options from prism.conf, for what neither the command line nor a variable says.
 *
 *   [options]
 *   sandbox = 0            # the option's name without --prism-, its value as on the command line
 *   payload = control
 *
 * Blank lines and # comments are skipped, other sections are other programs' (policy.h). emulate is not allowed: a job asks for
 * emulation, a file does not. An unknown name, a name twice or a value that is not allowed is an error with file and line.
 * prism.conf(5) has the whole page.
 */
#ifndef PRISM_SPANK_CONFIG_H
#define PRISM_SPANK_CONFIG_H

#include "options.h"

/* text need not end with a NUL; path is for messages. */
int config_parse(struct options *o, const char *path, const char *text, size_t len, struct prism_error *err);
/* Reads $PRISM_CONFIG if it is set, else `site` if that is not NULL or "", both of which must exist; else the built-in path
 * if there is such a file. */
int config_read(struct options *o, const char *site, struct prism_error *err);
/* The built-in path. */
const char *config_default_path(void);

#endif
