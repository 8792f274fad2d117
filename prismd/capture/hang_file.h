/* hang_file.h - hang.json: what hosts did when a capture was given up (docs/formats/trace.md). */
#ifndef PRISM_PRISMD_HANG_FILE_H
#define PRISM_PRISMD_HANG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct hang_hosts {
    char **ranks;   /* owned; world of them: what the rank's host did, NULL = it was in communication, or nothing is known */
    uint32_t world;
    char **notes;   /* owned: communicators that were being made, and who was missing */
    uint32_t nnotes;
};

void hang_hosts_init(struct hang_hosts *h, uint32_t world);
void hang_hosts_clear(struct hang_hosts *h);
void hang_hosts_note(struct hang_hosts *h, const char *text); /* copied */

int hang_hosts_write(const char *dir, const struct hang_hosts *h, struct prism_error *err);
/* No such file: nothing is known. -1 with err (PRISM_EXIT_TRACE): damaged, or of another world. */
int hang_hosts_read(const char *dir, uint32_t world, struct hang_hosts *h, struct prism_error *err);
/* The same of a file's text; path: for messages. Both always leave h to be cleared. */
int hang_hosts_parse(const char *path, const void *data, size_t len, uint32_t world, struct hang_hosts *h, struct prism_error *err);

#endif
