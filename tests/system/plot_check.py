#!/usr/bin/env python3
"""plot_check.py FILE.png COLOUR COLOUR: width and height, then the shares that rows of pixels have of the first of the two
colours (RRGGBB), among those pixels that are of one of them; rows with less than a twentieth of the second, or less than half of both, are left out."""
import struct, sys, zlib


def pixels(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, body = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
        elif kind == b"IDAT":
            body += chunk
        at += 12 + size
    assert depth == 8 and colour == 2, "not 8 bits of RGB"
    raw, stride, rows, before = zlib.decompress(body), 3 * width, [], bytearray(3 * width)
    for y in range(height):
        how, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = line[i - 3] if i >= 3 else 0, before[i], before[i - 3] if i >= 3 else 0
            if how == 1:
                line[i] = line[i] + a & 255
            elif how == 2:
                line[i] = line[i] + b & 255
            elif how == 3:
                line[i] = line[i] + (a + b) // 2 & 255
            elif how == 4:
                p = a + b - c
                near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))
                line[i] = line[i] + near[2] & 255
        rows.append(line)
        before = line
    return width, height, rows


width, height, rows = pixels(sys.argv[1])
first, second = (bytes.fromhex(c) for c in sys.argv[2:4])
print(width, height)
for row in rows:
    seen = [bytes(row[3 * i:3 * i + 3]) for i in range(width)]
    one, other = seen.count(first), seen.count(second)
    if 20 * other > width and 2 * (one + other) > width:
        print(f"{one / (one + other):.4f}")
