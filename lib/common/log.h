/* log.h - one line a message on standard error, "prism: " in front. Never standard output, which is the program's.
 * With PRISM_LOG=debug the time of day (UTC) is in front of that: "05:41:53.120 prism: ". */
#ifndef PRISM_COMMON_LOG_H
#define PRISM_COMMON_LOG_H

enum prism_log_level { PRISM_LOG_ERROR, PRISM_LOG_WARN, PRISM_LOG_INFO, PRISM_LOG_DEBUG };

/* Level from PRISM_LOG=error|warn|info|debug; default info. name replaces "prism" in the prefix (copied). */
void prism_log_init(const char *name);
void prism_log(enum prism_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) prism_log(PRISM_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  prism_log(PRISM_LOG_WARN, __VA_ARGS__)
#define log_info(...)  prism_log(PRISM_LOG_INFO, __VA_ARGS__)
#define log_debug(...) prism_log(PRISM_LOG_DEBUG, __VA_ARGS__)

#endif
