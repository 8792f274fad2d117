/* error.h - how Prism's libraries report failure.
 *
 * A function that can fail takes a `struct prism_error *err` last (may be NULL), fills it once, where the error is
 * decided, and returns -1 or NULL; callers forward it. Libraries never print. The text says what happened, where (file,
 * rank, option) and what to do about it.
 */
#ifndef PRISM_COMMON_ERROR_H
#define PRISM_COMMON_ERROR_H

/* Exit codes of Prism's own errors; the program's own exit code passes through unchanged. README lists them. */
enum prism_exit {
    PRISM_EXIT_USAGE = 64,      /* an option or its value is wrong */
    PRISM_EXIT_TRACE = 65,      /* the trace is missing, damaged, unwritable, incomplete, or of another program or world */
    PRISM_EXIT_NO_NCCL = 66,    /* the program never called NCCL (or is statically linked: the preload library was not loaded) */
    PRISM_EXIT_RANK = 67,       /* a rank was ended by a signal, or left before the others */
    PRISM_EXIT_DAEMON = 68,     /* prismd itself failed, or a node's prismd was lost */
    PRISM_EXIT_UNSUPPORTED = 69, /* the program uses what Prism cannot serve (named in the message) */
    PRISM_EXIT_DIVERGED = 70,   /* the program did something else than in capture */
    PRISM_EXIT_SYSTEM = 71,     /* the operating system refused (memory, processes, files) */
    PRISM_EXIT_HANG = 73,       /* the program's ranks wait for each other for ever (found in capture) */
    PRISM_EXIT_INTERRUPTED = 72 /* unused by prismd itself: a signal ends with 128 + its number */
};

struct prism_error {
    int code; /* enum prism_exit, 0 = none */
    char text[1024];
};

/* Fill err (if not NULL and still empty). Always returns -1. */
int prism_error_set(struct prism_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
