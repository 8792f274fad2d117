/* format.h - what writer and reader of graph.bin share (docs/formats/graph.md). Inside lib/graph only. */
#ifndef PRISM_GRAPH_FORMAT_H
#define PRISM_GRAPH_FORMAT_H

#define GRAPH_MAGIC   "PRSMGRPH"
#define GRAPH_VERSION 1u
#define GRAPH_HEADER  40u /* magic, version, world, GPUs a node, communicators, classes, reserved, raw bytes \
                           */
#define GRAPH_WINDOW_LOG 24 /* of zstd: blocks of equal ranks lie that near */
#define GRAPH_WORLD_MAX  1048576u
#define GRAPH_RANK_FIXED 29u /* bytes of a rank's block before its columns */
#define GRAPH_NODE_BYTES 23u
#define GRAPH_PART_BYTES 15u

enum { GRAPH_HAS_DEVICE_WORK = 1, GRAPH_HAS_HOST_WORK = 2 };

#endif
