/* checks.h - what `prism doctor` looks at, each check with how to mend what it finds. */
#ifndef PRISM_CLI_CHECKS_H
#define PRISM_CLI_CHECKS_H

#include <stddef.h>

enum check_result {
    CHECK_GOOD,
    CHECK_WARN, /* works, with a limit that the text names */
    CHECK_BAD,  /* Prism will not work */
};

struct check {
    enum check_result result;
    const char *name;
    char found[512]; /* what is there */
    char mend[512];  /* what to do; empty when good */
};

/* How a check fills itself: printf's arguments; what does not fit is cut. */
void check_say(char *out, size_t len, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define FOUND(check, ...) check_say((check)->found, sizeof((check)->found), __VA_ARGS__)
#define MEND(check, level, ...)                                       \
    do {                                                              \
        (check)->result = (level);                                    \
        check_say((check)->mend, sizeof((check)->mend), __VA_ARGS__); \
    } while (0)

#define CHECKS_MAX 32
/* Fills checks, returns their number. Loads CUDA and NCCL into this process. */
size_t checks_run(struct check checks[CHECKS_MAX]);

#endif
