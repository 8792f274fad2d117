/* marks_private.h - what marks.c keeps and marks_find.c reads. */
#ifndef PRISM_GRAPH_MARKS_PRIVATE_H
#define PRISM_GRAPH_MARKS_PRIVATE_H

#include "graph/marks.h"

struct mark {
    uint64_t name;
    uint32_t position;
    uint32_t kind; /* PUSH or POP */
};

struct rank_marks {
    struct mark *marks; /* owned; by position, and those of one position as they came */
    uint32_t n;
    size_t cap;
    bool lost; /* there were too many */
};

struct graph_marks {
    uint32_t world;
    struct rank_marks *ranks; /* owned */
};

#endif
