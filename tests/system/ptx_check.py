#!/usr/bin/env python3
"""prism_fill's PTX (lib/preload/gate/fill.c), run by the few instructions that it has: what a GPU does with it, where there is none.

  ptx_check.py FILE [--print]     --print: the PTX of any FILE, for ptxas

Every thread of some launches writes; each byte of the buffer must be written once, hold pattern[address mod 2048], and none beside it.
"""

import re
import sys

BLOCK = 256


def text_of(path):
    """Lines of the array ptx[]."""
    with open(path, encoding="utf-8") as source:
        return "".join(line + "\n" for line in re.findall(r'^    "(.*)\\n"', source.read(), re.M))


def parse(text):
    """→ [(guard or None, opcode, operands)], {label: number}."""
    body, code, labels = text[text.index("{") + 1:text.rindex("}")], [], {}
    for line in body.split("\n"):
        line = line.strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif line and not line.startswith(".reg"):
            m = re.fullmatch(r"(?:@(%p\d+) )?(\S+?)(?: (.*))?;", line)
            code.append((m[1], m[2], re.findall(r"\{.*?\}|\[.*?\]|[^\s,\[\]{}]+", m[3] or "")))
    return code, labels


def run_thread(code, labels, registers, parameters, store):
    def value(x):
        return registers[x] if x in registers else int(x) % 2**64

    where = {"to": 0, "bytes": 8, "pattern": 16}
    compare = {"ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "gt": lambda a, b: a > b}
    binary = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "mul": lambda a, b: a * b, "max": max, "min": min}
    pc = steps = 0
    while True:
        steps += 1
        assert steps < 10000, "a thread that does not end"
        guard, opcode, o = code[pc]
        pc += 1
        if guard and not registers[guard]:
            continue
        name, _, kind = opcode.partition(".")
        bits = int(re.search(r"(\d+)$", opcode)[1]) if re.search(r"(\d+)$", opcode) else 64
        if name == "ret":
            return
        if name == "bra":
            pc = labels[o[0]]
        elif name == "mov":
            registers[o[0]] = where[o[1]] if o[1] in where else value(o[1])
        elif name == "ld":
            at = o[1][1:-1]
            at = where[at] if at in where else value(at)
            for i, to in enumerate(re.findall(r"%\w+", o[0])):
                size = bits // 8
                assert at % size == 0 and at + (i + 1) * size <= len(parameters)
                registers[to] = int.from_bytes(parameters[at + i * size:at + (i + 1) * size], "little")
        elif name == "st":
            data = b"".join(value(r).to_bytes(bits // 8, "little") for r in re.findall(r"%\w+", o[1]))
            store(value(o[0][1:-1]), data)
        elif name == "setp":
            tests = kind.split(".")
            result = compare[tests[0]](value(o[1]), value(o[2]))
            registers[o[0]] = result or registers[o[3]] if tests[1] == "or" else result
        elif name == "mad":
            registers[o[0]] = (value(o[1]) * value(o[2]) + value(o[3])) % 2**32
        else:
            registers[o[0]] = binary[name](value(o[1]), value(o[2])) % 2**(64 if ".wide" in opcode else bits)


def launch(code, labels, blocks, to, size):
    pattern = bytes((i * 7 + i // 256) % 256 for i in range(2048))
    parameters, written = to.to_bytes(8, "little") + size.to_bytes(8, "little") + pattern, {}

    def store(address, data):
        assert address % len(data) == 0, f"{len(data)} bytes at {address:#x}"
        for i, byte in enumerate(data):
            assert to <= address + i < to + size, f"a byte at {address + i - to} of {size}"
            assert address + i not in written, f"a byte at {address + i - to}, again"
            written[address + i] = byte

    for block in range(blocks):
        for thread in range(BLOCK):
            run_thread(code, labels, {"%ctaid.x": block, "%ntid.x": BLOCK, "%tid.x": thread, "%nctaid.x": blocks}, parameters, store)
    assert len(written) == size, f"{len(written)} of {size} bytes"
    for address, byte in written.items():
        assert byte == pattern[address % 2048], f"the byte at {address - to} of {size}"


def main():
    text = text_of(sys.argv[1])
    if sys.argv[2:] == ["--print"]:
        print(text, end="")
        return
    code, labels = parse(text)
    base = 0x7F1234000000
    for blocks, offset, size in ((1, 0, 0), (1, 3, 1), (1, 13, 7), (1, 0, 16), (2, 8, 8192), (1, 0, 4096), (1, 2040, 12345), (3, 6, 30001),
                                 (2, 4094, 20000)):
        launch(code, labels, blocks, base + offset, size)


main()
