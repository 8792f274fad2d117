/* manifest.h - the manifest (trace/trace.h) of what prismd was asked for. */
#ifndef PRISM_PRISMD_MANIFEST_H
#define PRISM_PRISMD_MANIFEST_H

#include "prismd/conf.h"
#include "trace/trace.h"

/* Of a capture that begins now; what *m held is freed. */
void manifest_fill(const struct conf *c, struct trace_manifest *m);
/* A whole trace of another program, or of a world of another size. */
bool manifest_is_anothers(const struct conf *c, const struct trace_manifest *m);

#endif
