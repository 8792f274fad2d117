/* file.h - whole files, written so that a reader sees the old one or the complete new one. */
#ifndef PRISM_COMMON_FILE_H
#define PRISM_COMMON_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "common/bytes.h"
#include "common/error.h"

/* Write data to path.tmp.<pid>, fsync, rename. -1 on failure; nothing is left behind. */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct prism_error *err);
/* Read the whole file into out (cleared first); files over limit bytes are an error. */
int file_read(const char *path, size_t limit, struct bytes *out, struct prism_error *err);
/* mkdir -p with mode for the folders it makes. */
int file_make_dirs(const char *path, mode_t mode, struct prism_error *err);
/* Remove a folder with all below it; missing is fine. Does not follow links. */
int file_remove_tree(const char *path);

#endif
