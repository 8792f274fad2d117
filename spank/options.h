/* options.h - Prism's options: one table behind srun, sbatch, salloc, `prism run`, the PRISM_* variables, prism.conf and the
 * manual pages.
 *
 * A value comes from the command line (or an #SBATCH line), else from the variable, else from prism.conf (config.h), else it
 * is unset and prismd's default holds. Knows nothing of Slurm; part of the static library prismopt.
 */
#ifndef PRISM_SPANK_OPTIONS_H
#define PRISM_SPANK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "parse.h"

enum option_id {
    OPTION_EMULATE,
    OPTION_SANDBOX,
    OPTION_ASSISTANTS,
    OPTION_PHASE,
    OPTION_TRACE,
    OPTION_GPUS_PER_NODE,
    OPTION_LAYOUT,
    OPTION_FOLD,
    OPTION_SLICES,
    OPTION_ITERATIONS,
    OPTION_PAYLOAD,
    OPTION_NETWORK,
    OPTION_SCRATCH,
    OPTION_ON_DIVERGENCE,
    OPTION_COUNT
};

enum option_argument { OPTION_FLAG, OPTION_REQUIRED, OPTION_OPTIONAL };

/* Where a value came from; a later one replaces those below it, never those above. */
enum option_source { OPTION_UNSET, OPTION_FROM_FILE, OPTION_FROM_ENVIRONMENT, OPTION_FROM_COMMAND_LINE };

struct option_row {
    const char *name;     /* "prism-emulate" */
    const char *argument; /* as help shows it, NULL for a flag */
    const char *doc;
    const char *variable; /* "PRISM_EMULATE" */
    enum option_argument takes;
    int (*check)(const char *text, struct prism_error *err); /* the value alone; NULL = any text */
};

extern const struct option_row option_table[OPTION_COUNT];

struct options {
    char *text[OPTION_COUNT]; /* owned; NULL when unset, "" for an option given without its value, "1" for a flag */
    enum option_source source[OPTION_COUNT];
};

/* Set an option. text NULL or "(null)" (Slurm hands a bare option to inner steps like this) = given without a value.
 * -1: the value is not allowed; err names option, value and what is. A value of a weaker source is dropped silently. */
int options_set(struct options *o, enum option_id id, const char *text, enum option_source from, struct prism_error *err);
/* Take the PRISM_* variables of this process; empty ones count as unset. */
int options_read_environment(struct options *o, struct prism_error *err);
/* What the values say about each other: sandbox ranks inside the world, fold without layout, layout against the world.
 * world 0 = not known yet. */
int options_check(const struct options *o, uint32_t world, struct prism_error *err);
void options_clear(struct options *o);

/* Typed reads of checked values; `otherwise` when unset (or given without a value). */
uint32_t options_number(const struct options *o, enum option_id id, uint32_t otherwise);

/* Was emulation asked for? (--prism-emulate in any form but =0.) Other options alone do not turn it on. */
bool options_emulate(const struct options *o);

#endif
