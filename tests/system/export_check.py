#!/usr/bin/env python3
"""Read what `prism export` wrote as its readers do, and complain.

  export_check.py perfetto FILE CSV      rules of the Trace Event Format, and of Perfetto's reader; times equal to the CSV's; where
                                         operations take time, each of them is there once
  export_check.py chakra DIR CSV         wire format, dependencies; played with a network that takes no time, it ends when the CSV does
  export_check.py protobuf FILE          the same file through Google's protobuf; prints the nodes of each type

Field numbers are those of Chakra's et_def.proto.
"""
import csv, json, os, re, struct, sys


def fail(text):
    sys.exit(f"export_check: {text}")


def rows(path):
    with open(path) as f:
        yield from csv.DictReader(f)


def last_ends(path):
    """{rank: end of its last node, ns} of the CSV."""
    ends = {}
    for row in rows(path):
        rank = int(row["rank"])
        ends[rank] = max(ends.get(rank, 0), int(row["end_ns"]))
    return ends


def check_operations(events, csv_path):
    """Events of the category communication are the CSV's groups, each once (none: the network takes no time)."""
    groups = {(int(r["rank"]), int(r["node"])): r for r in rows(csv_path) if r["kind"] == "comm"}
    seen = set()
    for e in events:
        key = e["pid"], e["args"]["node"]
        row, end = groups.get(key), round((e["ts"] + e["dur"]) * 1000)
        if not row or key in seen:
            fail(f"event {e} is {'twice there' if row else 'of no group of the CSV'}")
        if (row["name"], row["bytes"], row["stream"]) != (e["name"], str(e["args"]["bytes"]), str(e["tid"] - 1)) or end != int(row["end_ns"]):
            fail(f"event {e} is {row} in the CSV")
        seen.add(key)
    ranks = {e["pid"] for e in events}
    missing = [k for k in groups if k not in seen and k[0] in ranks]
    if events and missing:
        fail(f"group {missing[0]} of the CSV has no event")


def check_flows(flows, lines):
    """Every flow begins once and ends once, not before, each end within an event of its line."""
    ids = {}
    for e in flows:
        at = round(e["ts"] * 1000)
        if not re.fullmatch("0x[0-9a-f]{1,16}", e["id"]) or e["ph"] in ids.setdefault(e["id"], {}):
            fail(f"number of flow {e}")
        ids[e["id"]][e["ph"]] = at
        if not any(start <= at < end for start, end in lines[e["pid"], e["tid"]]):
            fail(f"flow {e} is in no event")
    for number, ends in ids.items():
        if set(ends) != {"s", "f"} or ends["f"] < ends["s"]:
            fail(f"flow {number}: {ends}")
    return len(ids)


# --- Trace Event Format ---

def perfetto(path, csv_path):
    ends = last_ends(csv_path)
    with open(path) as f:
        top = json.load(f)
    lines, named, count, last, operations, flows = {}, set(), 0, {}, [], []
    for e in top["traceEvents"]:
        if e["ph"] not in ("X", "M", "s", "f"):
            fail(f"phase {e['ph']}")
        if type(e["pid"]) is not int or not isinstance(e.get("name"), str):
            fail(f"event {e}")
        if e["ph"] == "M":
            if e["name"] == "thread_name":
                named.add((e["pid"], e["tid"]))
            continue
        if e["ph"] in ("s", "f"):
            flows.append(e)
            continue
        if type(e["tid"]) is not int or e["tid"] < 1 or not all(isinstance(e[k], (int, float)) for k in ("ts", "dur")):
            fail(f"event {e}")
        if e["dur"] <= 0 or e["ts"] < 0:
            fail(f"times of {e}")
        start, end = round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)
        lines.setdefault((e["pid"], e["tid"]), []).append((start, end))
        last[e["pid"]] = max(last.get(e["pid"], 0), end)
        count += 1
        if e["cat"] == "communication":
            operations.append(e)
    for line, events in lines.items():
        if line not in named:
            fail(f"line {line} has no name")
        events.sort()
        for before, after in zip(events, events[1:]):
            if after[0] < before[1]:
                fail(f"line {line}: {before} and {after} overlap")
    for rank, end in last.items():
        if abs(end - ends[rank]) > 1:
            fail(f"rank {rank} ends at {end}, in the CSV at {ends[rank]}")
    check_operations(operations, csv_path)
    messages = check_flows(flows, lines)
    print(f"{count} events, {len(operations)} of communication, {messages} messages, {len(last)} ranks")


# --- Chakra ---

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
            if len(value) != n:
                fail("a field beyond its message")
        else:
            fail(f"wire type {key & 7}")
        yield key >> 3, value


def messages(path):
    with open(path, "rb") as f:
        data = f.read()
    at, out = 0, []
    while at < len(data):
        n, at = varint(data, at)
        if at + n > len(data):
            fail(f"{path}: a message beyond the file")
        out.append(data[at:at + n])
        at += n
    return out


def read_node(data):
    node = {"deps": [], "attr": {}, "id": 0, "duration_micros": 0}
    for field, value in fields(data):
        if field == 1:
            node["id"] = value
        elif field == 2:
            node["name"] = value.decode()
        elif field == 3:
            node["type"] = value
        elif field == 5:
            at = 0
            while at < len(value):
                dep, at = varint(value, at)
                node["deps"].append(dep)
        elif field == 7:
            node["duration_micros"] = value
        elif field == 10:
            parts = list(fields(value))
            if parts[0][0] != 1:
                fail("an attribute without a name")
            node["attr"][parts[0][1].decode()] = parts[1][1]
        else:
            fail(f"field {field} of a node")
    return node


COMP, SEND, RECV, COLL = 4, 5, 6, 7


def load(folder):
    ranks = {}
    for name in sorted(os.listdir(folder)):
        found = re.fullmatch(r"trace\.(\d+)\.et", name)
        if not found:
            continue
        all_of_it = messages(os.path.join(folder, name))
        if list(fields(all_of_it[0]))[0] != (1, b"0.0.4"):
            fail(f"{name}: metadata")
        nodes = [read_node(m) for m in all_of_it[1:]]
        seen = set()
        for n in nodes:
            if not seen.issuperset(n["deps"]):
                fail(f"{name}: node {n['id']} depends on one that does not come before it")
            seen.add(n["id"])
            n["rank"] = int(found[1])
        if len(seen) != len(nodes):
            fail(f"{name}: an id twice")
        # Whole microseconds must not drift from the nanoseconds.
        for host in 0, 1:
            work = [n for n in nodes if n["type"] == COMP and "duration_ns" in n["attr"] and n["attr"]["is_cpu_op"] == host]
            exact, whole = sum(n["attr"]["duration_ns"] for n in work) / 1000, sum(n["duration_micros"] for n in work)
            if abs(exact - whole) > 10:
                fail(f"{name}: {exact} us of work, {whole} in whole ones")
        ranks[int(found[1])] = nodes
    return ranks


def match(ranks, groups):
    """The nodes that end together: collectives by group and order, sends with their receives."""
    order, together = {}, {}
    for rank, nodes in ranks.items():
        for n in nodes:
            a = n["attr"]
            if n["type"] == COLL:
                if rank not in groups[a["pg_name"].decode()]:
                    fail(f"rank {rank} is not in group {a['pg_name']}")
                key = (a["pg_name"],)
            elif n["type"] in (SEND, RECV):
                if (a["comm_src"] if n["type"] == SEND else a["comm_dst"]) != rank or a["comm_src"] == a["comm_dst"]:
                    fail(f"rank {rank}: {n}")
                key = (a["comm_src"], a["comm_dst"], a["comm_tag"])
            else:
                continue
            mine = (rank, n["type"]) + key
            order[mine] = order.get(mine, 0) + 1
            together.setdefault(key + (order[mine],), []).append(n)
    for key, nodes in together.items():
        wants = len(groups[key[0].decode()]) if nodes[0]["type"] == COLL else 2
        if len(nodes) != wants or len({(n["attr"]["comm_size"], n["attr"].get("comm_type")) for n in nodes}) != 1:
            fail(f"{key}: {len(nodes)} of {wants} nodes, or of other sizes")
        for n in nodes:
            n["together"] = nodes


def play(ranks):
    """End of each rank when communication takes no time."""
    waiting = {r: list(nodes) for r, nodes in ranks.items()}
    by_id = {r: {n["id"]: n for n in nodes} for r, nodes in ranks.items()}
    moved = True
    while moved:
        moved = False
        for r, nodes in waiting.items():
            left = []
            for n in nodes:
                starts = [by_id[r][d].get("end") for d in n["deps"]]
                if None in starts:
                    left.append(n)
                    continue
                if "start" not in n:
                    n["start"] = max(starts, default=0)
                    moved = True
                if n["type"] == COMP:
                    n["end"] = n["start"] + n["attr"].get("duration_ns", 0)
                elif all("start" in m for m in n["together"]):
                    n["end"] = max(m["start"] for m in n["together"])
                else:
                    left.append(n)
            waiting[r] = left
    if any(waiting.values()):
        fail("it never ends")
    return {r: max(n["end"] for n in nodes) for r, nodes in ranks.items()}


def chakra(folder, csv_path):
    with open(os.path.join(folder, "comm_groups.json")) as f:
        groups = json.load(f)
    ranks = load(folder)
    match(ranks, groups)
    played, ends = play(ranks), last_ends(csv_path)
    for rank, end in played.items():
        if abs(end - ends[rank]) > 1000:
            fail(f"rank {rank} ends at {end} ns, in the CSV at {ends[rank]} ns")
    print(len(ranks), "ranks,", sum(map(len, ranks.values())), "nodes")


def protobuf(path):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    f = descriptor_pb2.FileDescriptorProto(name="et.proto", package="ChakraProtoMsg", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, *its):
        m = f.message_type.add(name=name)
        for field, number, kind, label, of in its:
            m.field.add(name=field, number=number, type=kind, label=label, type_name=of)

    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    message("AttributeProto", ("name", 1, kinds.TYPE_STRING, one, None), ("int32_val", 7, kinds.TYPE_INT32, one, None),
            ("int64_val", 9, kinds.TYPE_INT64, one, None), ("uint64_val", 13, kinds.TYPE_UINT64, one, None),
            ("bool_val", 27, kinds.TYPE_BOOL, one, None), ("string_val", 29, kinds.TYPE_STRING, one, None))
    message("GlobalMetadata", ("version", 1, kinds.TYPE_STRING, one, None))
    message("Node", ("id", 1, kinds.TYPE_UINT64, one, None), ("name", 2, kinds.TYPE_STRING, one, None),
            ("type", 3, kinds.TYPE_INT32, one, None), ("data_deps", 5, kinds.TYPE_UINT64, many, None),
            ("duration_micros", 7, kinds.TYPE_UINT64, one, None),
            ("attr", 10, kinds.TYPE_MESSAGE, many, ".ChakraProtoMsg.AttributeProto"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(f)
    factory = message_factory.MessageFactory(pool)
    node_type = factory.GetPrototype(pool.FindMessageTypeByName("ChakraProtoMsg.Node"))
    count = {}
    for data in messages(path)[1:]:
        theirs, ours = node_type.FromString(data), read_node(data)
        if (theirs.id, theirs.name, list(theirs.data_deps), theirs.duration_micros, len(theirs.attr)) != \
                (ours["id"], ours["name"], ours["deps"], ours["duration_micros"], len(ours["attr"])):
            fail(f"protobuf sees {theirs}")
        count[theirs.type] = count.get(theirs.type, 0) + 1
    print(json.dumps(count, sort_keys=True))


if __name__ == "__main__":
    {"perfetto": perfetto, "chakra": chakra, "protobuf": protobuf}[sys.argv[1]](*sys.argv[2:])
