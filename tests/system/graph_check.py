#!/usr/bin/env python3
"""Decode graph.bin by what docs/formats/prismtrace.md and graph.md say, and by nothing else; complain where a file is not so.

  graph_check.py same FILE FILE...   these files, of any version, hold the same graph
  graph_check.py csv FILE CSV        what `prism export --format=csv` says of its nodes is what is in the file
"""
import csv, ctypes, struct, sys
from collections import Counter

zstd, xxhash = ctypes.CDLL("libzstd.so.1"), ctypes.CDLL("libxxhash.so.0")
zstd.ZSTD_decompress.restype = zstd.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
zstd.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
xxhash.XXH64.restype = ctypes.c_uint64
xxhash.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash.XXH3_128bits.restype = Hash128
xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

BLOCK, PROGRAM, COUNTS, WORKS, COMMS, RANKS, TIMES, INDEX = range(1, 9)
COMM, SEND, RECV = 1, 9, 10  # kind of node, operations (lib/graph/graph.h, lib/coll/types.h)
NONE, NUMBERED = bytes(16), 1 << 30


def need(so, what):
    if not so:
        sys.exit(f"graph_check: {what}")


def xxh64(data):
    return xxhash.XXH64(data, len(data), 0)


def key_of(data):
    h = xxhash.XXH3_128bits(data, len(data))
    return struct.pack(">QQ", h.high, h.low)


def unpack(frame, raw):
    need(zstd.ZSTD_findFrameCompressedSize(frame, len(frame)) == len(frame), "not one zstd frame")
    out = ctypes.create_string_buffer(raw + 1)
    need(zstd.ZSTD_decompress(out, raw + 1, frame, len(frame)) == raw, "a frame of another length")
    return out.raw[:raw]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        need(self.at + n <= len(self.data), "too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def column(self, form, n):
        return list(struct.unpack(f"<{n}{form}", self.take(n * struct.calcsize("<" + form))))

    def one(self, form):
        return self.column(form, 1)[0]

    def end(self):
        need(self.at == len(self.data), f"{len(self.data) - self.at} bytes too many")


class Rank:
    """nodes: (kind, host, stream, dep, communicator, ordinal, parts); parts: [operation, datatype, reduction, peer, count]."""
    nodes, device, host, iterations = (), None, None, ()

    def content(self):
        return (self.nodes, self.device, self.host, self.iterations, self.klass, self.comms, self.streams, self.hosts)


# --- version 2 ---

def chunks_of(data):
    """[(type, contents, key, (offset, stored))], with every checksum looked at and no byte left over."""
    need(len(data) >= 64, "too short")
    done, index_at, length, total = struct.unpack("<8sQQQ", data[-32:])
    need(done == b"PRSMDONE" and length == len(data) and total == xxh64(data[-32:-8]), "trailer")
    out, at = [], 32
    while at < len(data) - 32:
        head = Reader(data[at:at + 48])
        magic, kind, stored, raw = head.column("I", 4)
        key, total, own = head.take(16), head.one("Q"), head.one("Q")
        frame = data[at + 48:at + 48 + stored]
        need(magic == 0x4B435350 and data[at:at + 4] == b"PSCK" and own == xxh64(data[at:at + 40]), f"head of the chunk at {at}")
        need(raw <= 1 << 30 and total == xxh64(frame), f"chunk at {at}")
        contents = unpack(frame, raw)
        need(key == key_of(contents), f"key of the chunk at {at}")
        out.append((kind, contents, key, (at, stored)))
        at += 48 + stored
    need(at == len(data) - 32 and out[-1][0] == INDEX and out[-1][3][0] == index_at, "the index is not the last chunk")
    return out


def read_index(chunks):
    r = Reader(chunks.pop()[1])
    ncomms, classes, n, zero = r.column("I", 4)
    need(n == len(chunks) and zero == 0, "index: number of chunks")
    for kind, contents, key, (at, stored) in chunks:
        entry = r.column("I", 6)
        first, count = struct.unpack("<II", contents[:8]) if kind in (COMMS, RANKS) else (0, len(contents) // 36 if kind == TIMES else 0)
        need(entry == [kind, first, count, stored, len(contents), 0], f"index: entry of the chunk at {at}: {entry}")
        need(r.one("Q") == at and r.take(16) == key, f"index: place of the chunk at {at}")
    r.end()
    return ncomms, classes


def read_comms(contents, comms):
    r = Reader(contents)
    first, n = r.column("I", 2)
    for i, size in enumerate(r.column("I", n)):
        need(first + i not in comms, "a communicator twice")
        comms[first + i] = r.column("i", size)
    r.end()


def read_block(contents):
    r = Reader(contents)
    n, p = r.column("I", 2)
    columns = [r.column(form, n) for form in "BHIIIII"]
    parts = list(zip(r.column("B", p), r.column("B", p), r.column("B", p), r.column("i", p)))
    r.end()
    nodes, at = [], 0
    for *fields, nparts in zip(*columns):
        nodes.append((fields, parts[at:at + nparts]))
        at += nparts
    need(at == p, "parts of a block")
    return nodes


def absolute(op, peer, place, size):
    if op not in (SEND, RECV):
        return peer
    if peer >= NUMBERED:
        return peer - NUMBERED
    return (peer + place) % size if 0 <= peer < size else peer


def nodes_of(rank, program, counts, blocks, comms):
    r = Reader(program)
    nnodes, nparts, nblocks = r.column("I", 3)
    list_of = [blocks[r.take(16)] for _ in range(nblocks)]
    r.end()
    r = Reader(counts)
    amounts = iter(r.column({2: "H", 4: "I", 8: "Q"}[r.one("B")], nparts))
    r.end()
    seen, nodes = Counter(), []
    for (kind, host, stream, dep, comm, ordinal), parts in (node for block in list_of for node in block):
        if kind == COMM:
            ordinal += seen[comm]
            seen[comm] += 1
        place, size = (rank.comms[comm][1], len(comms[rank.comms[comm][0]])) if parts else (0, 0)
        nodes.append((kind, host, stream, dep, comm, ordinal,
                      [[op, datatype, reduction, absolute(op, peer, place, size), next(amounts)] for op, datatype, reduction, peer in parts]))
    need(len(nodes) == nnodes and next(amounts, None) is None, "nodes and counts of a program")
    return nodes


def read_ranks(contents, by_key, comms, ranks):
    r = Reader(contents)
    first, n = r.column("I", 2)
    columns = [r.column("I", n) for _ in range(5)]
    keys = [(r.take(16), r.take(16)) for _ in range(n)]
    globals_, places = ([r.column("i", c) for c in columns[1]] for _ in range(2))
    iterations = [tuple(r.column("I", k + 1)) if k else () for k in columns[2]]
    r.end()
    for i in range(n):
        x = Rank()
        need(first + i not in ranks, "a rank twice")
        x.klass, x.streams, x.hosts = columns[0][i], columns[3][i], columns[4][i]
        x.comms, x.iterations = list(zip(globals_[i], places[i])), iterations[i]
        program, counts = keys[i]
        x.nodes = [] if program == NONE else nodes_of(x, by_key[PROGRAM][program], by_key[COUNTS][counts], by_key[BLOCK], comms)
        ranks[first + i] = x


def read_works(contents, nnodes):
    r = Reader(contents)
    n = r.one("I")
    works = r.column("f", n)
    r.end()
    need(n == nnodes, "works of another number of nodes")
    return works


def read_v2(data):
    chunks, comms, ranks, by_key = chunks_of(data), {}, {}, {t: {} for t in range(1, 5)}
    ncomms, classes = read_index(chunks)
    for kind, contents, key, _ in chunks:
        need(kind < INDEX, "another index")
        if kind <= WORKS:
            need(key not in by_key[kind], "contents twice")
            by_key[kind][key] = read_block(contents) if kind == BLOCK else contents
        elif kind == COMMS:
            read_comms(contents, comms)
    for kind, contents, _, _ in chunks:
        if kind == RANKS:
            read_ranks(contents, by_key, comms, ranks)
    for kind, contents, _, _ in chunks:
        r = Reader(contents if kind == TIMES else b"")
        while r.at < len(r.data):
            x, device, host = ranks[r.one("I")], r.take(16), r.take(16)
            x.device = read_works(by_key[WORKS][device], len(x.nodes)) if device != NONE else None
            x.host = read_works(by_key[WORKS][host], len(x.nodes)) if host != NONE else None
    return [comms[i] for i in range(ncomms)], classes, ranks


# --- version 1 ---

def read_v1(data):
    world, gpus, ncomms, classes, zero, raw = struct.unpack("<IIIIIQ", data[12:40])
    need(xxh64(data[:-8]) == struct.unpack("<Q", data[-8:])[0] and zero == 0, "checksum")
    body, ranks = Reader(unpack(data[40:-8], raw)), {}
    block = Reader(body.take(body.one("Q")))
    comms = [block.column("i", block.one("I")) for _ in range(ncomms)]
    block.end()
    for number in range(world):
        r, x = Reader(body.take(body.one("Q"))), Rank()
        n, p, c, x.streams, x.hosts, x.klass, k = r.column("I", 7)
        works = r.one("B")
        x.comms = [tuple(r.column("i", 2)) for _ in range(c)]
        columns = [r.column(form, n) for form in "BHIIIII"]
        parts = [list(part) for part in zip(*[r.column(form, p) for form in "BBBiQ"])]
        x.iterations = tuple(r.column("I", k + 1)) if k else ()
        x.device = r.column("f", n) if works & 1 else None
        x.host = r.column("f", n) if works & 2 else None
        r.end()
        seen, at, x.nodes = Counter(), 0, []
        for kind, host, stream, dep, comm, ordinal, nparts in zip(*columns):
            if kind == COMM:
                ordinal += seen[comm]
                seen[comm] += 1
            x.nodes.append((kind, host, stream, dep, comm, ordinal, parts[at:at + nparts]))
            at += nparts
        ranks[number] = x
    body.end()
    return comms, classes, ranks


def read(path):
    data = open(path, "rb").read()
    magic, version, world, gpus, zero = struct.unpack("<8sIIII", data[:24])
    need(magic == b"PRSMGRPH" and version in (1, 2), "not a graph")
    if version == 2:
        need(zero == 0 and struct.unpack("<Q", data[24:32])[0] == xxh64(data[:24]), "header")
    comms, classes, ranks = read_v2(data) if version == 2 else read_v1(data)
    need(sorted(ranks) == list(range(world)), "ranks are missing")
    for number, x in ranks.items():
        for comm, place in x.comms:
            need(comm == -1 or comms[comm][place] == number, f"rank {number} is not where its communicator has it")
    return (world, gpus, comms, classes), ranks


# --- what is asked ---

def same(paths):
    facts, ranks = read(paths[0])
    for path in paths[1:]:
        its_facts, its_ranks = read(path)
        need(facts == its_facts, f"{path}: another world, or other communicators")
        for number, x in ranks.items():
            need(x.content() == its_ranks[number].content(), f"{path}: rank {number} differs")
    print(f"{len(paths)} files, {sum(len(x.nodes) for x in ranks.values())} nodes")


OPS = "? AllReduce Reduce Broadcast AllGather ReduceScatter AlltoAll Gather Scatter Send Recv".split()
KINDS = "? comm record wait sync join".split()
SIZES = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]  # of ncclDataType_t


def compare_csv(path, csv_path):
    facts, ranks = read(path)
    lines = 0
    for row in csv.DictReader(open(csv_path)):
        kind, host, stream, _, comm, ordinal, parts = ranks[int(row["rank"])].nodes[int(row["node"])]
        name = OPS[parts[0][0]] + (f" x{len(parts)}" if len(parts) > 1 else "") if parts else KINDS[kind]
        amount = sum(SIZES[p[1]] * p[4] for p in parts)
        mine = [KINDS[kind], name, host, stream, comm, ordinal, amount]
        its = [row[f] for f in ("kind", "name", "host", "stream", "communicator", "group", "bytes")]
        need([str(v) for v in mine] == its, f"rank {row['rank']}, node {row['node']}: {mine} in the file, {its} exported")
        lines += 1
    need(lines == sum(len(x.nodes) for x in ranks.values()), f"{lines} lines")
    print(f"{lines} nodes")


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "same":
        same(sys.argv[2:])
    elif len(sys.argv) == 4 and sys.argv[1] == "csv":
        compare_csv(*sys.argv[2:])
    else:
        sys.exit(__doc__)
