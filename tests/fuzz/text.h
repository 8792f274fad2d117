/* text.h - an input as a text, in memory of exactly its size, so that a byte too far is noticed. */
#ifndef PRISM_TESTS_FUZZ_TEXT_H
#define PRISM_TESTS_FUZZ_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* To be freed. */
static inline char *fuzz_text(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);
    if (!text)
        abort();
    memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

#endif
