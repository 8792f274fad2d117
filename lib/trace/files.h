/* files.h - what files.c, manifest.c and program_id.c share. Inside lib/trace only. */
#ifndef PRISM_TRACE_FILES_H
#define PRISM_TRACE_FILES_H

#include <xxhash.h>

#include "trace/trace.h"

/* Adds what is left to read of the file; returns its bytes, -1 with errno set when it cannot be read. */
int64_t trace_hash_file(XXH64_state_t *hash, int fd);
/* The files that a manifest of this state names, as they lie in dir now; *list is malloc'ed. */
int trace_files_find(const char *dir, bool complete, bool calibrated, struct trace_file **list, uint32_t *n,
                     struct prism_error *err);
/* A name that a manifest may have: a file of the folder itself, none that is hidden. */
bool trace_file_name_is_good(const char *name);

#endif
