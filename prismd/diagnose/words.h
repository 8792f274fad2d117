/* words.h - parts of messages: a bounded buffer, and lists of ranks as ranges. */
#ifndef PRISM_PRISMD_WORDS_H
#define PRISM_PRISMD_WORDS_H

#include <stdint.h>

/* A buffer of words; all return it. */
typedef char words[400];
void words_put(words out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* at its end, cut to fit */
/* "ranks 0-3,8 (5)", at most a few ranges, of ascending numbers. */
const char *words_ranks(words out, const uint32_t *ranks, uint32_t n);

#endif
