/* parse.h - strict parsers of option values: the whole text must be a value, nothing is guessed.
 *
 * Used by the Slurm plugins and by the `prism` command (static library prismopt), so they know neither. Every parser
 * returns 0 and fills its outputs, or returns -1, leaves them alone and sets err to one line that says what is wrong with
 * the value and what is allowed; the caller puts the option's name in front (options.h).
 */
#ifndef PRISM_SPANK_PARSE_H
#define PRISM_SPANK_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define PARSE_WORLD_MAX 10000000u /* logical ranks */

/* Decimal digits only, least <= value <= most. */
int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value, struct prism_error *err);

/* Ranks "0,17,4096-4099": ranges ascending inside themselves, in any order, no rank twice, each below PARSE_WORLD_MAX. */
struct parse_range {
    uint32_t first, last; /* inclusive */
};
struct parse_ranks {
    struct parse_range *ranges; /* owned, ascending and disjoint */
    size_t nranges;
    uint64_t count; /* ranks in all */
    uint32_t highest;
};
int parse_ranks(const char *text, struct parse_ranks *ranks, struct prism_error *err);
void parse_ranks_clear(struct parse_ranks *ranks);

/* One of choices (NULL-terminated); *index says which. */
int parse_choice(const char *text, const char *const *choices, size_t *index, struct prism_error *err);

/* Layout "tp:8,dp:64,pp:16", inner to outer: names of letters and digits, each once, sizes of 1 and more whose product
 * stays within PARSE_WORLD_MAX. At most PARSE_DIMENSIONS_MAX. */
#define PARSE_DIMENSIONS_MAX 8
#define PARSE_NAME_MAX       15
struct parse_layout {
    struct {
        char name[PARSE_NAME_MAX + 1];
        uint32_t size;
    } dimension[PARSE_DIMENSIONS_MAX];
    size_t ndimensions;
    uint64_t product;
};
int parse_layout(const char *text, struct parse_layout *layout, struct prism_error *err);
/* Dimensions to fold, "dp" or "dp,ep": names as in a layout, each once. layout may be NULL (not known yet), else every
 * name must be one of its dimensions. */
int parse_fold(const char *text, const struct parse_layout *layout, struct prism_error *err);

/* GPUs in Slurm's own requests, which Slurm has checked already: --gpus-per-node "8", "h200:8"; --gres "gpu:8",
 * "gpu:h200:8,nvme:1", "gres:gpu", also with "gres/" before gpu. Returns the number of GPUs (a type without a number is
 * one), 0 when the text asks for none. type (may be NULL) gets the GPU's type or "". */
uint32_t parse_slurm_gpus(const char *text, bool is_gres, char *type, size_t type_size);
/* The gres request without its GPUs, malloc'ed; NULL when nothing else is left. */
char *parse_slurm_gres_rest(const char *text);

#endif
