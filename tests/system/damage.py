"""damage.py seal TRACE: writes trace.json's checksums anew, made of docs/formats/trace.md alone.
damage.py plant TRACE: the files that only other programs and machines make as well.
damage.py sweep PRISM TRACE: every file of the trace cut, changed and away, one after the other. `prism verify` never says good; what
info, predict and export print is an error's or what they print of the whole trace; nothing ends by a signal. How many runs that took."""
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

NAMED = ("store.log", "pmix.log", "folding.json", "switching.json", "network.json", "durations.json")
SMALL = 1200  # bytes: of these files every byte is changed
SAMPLE = 250  # changes in a larger one
READERS = (("info",), ("info", "--json"), ("predict", "--json"), ("export",))


def xxh64(data):
    f = ctypes.CDLL("libxxhash.so.0").XXH64
    f.restype, f.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return "%016x" % f(bytes(data), len(data), 0)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def seal(trace):
    path = trace + "/trace.json"
    manifest = json.loads(read(path))
    there = [name for name in NAMED if os.path.exists(f"{trace}/{name}")]
    manifest["files"] = {name: {"bytes": os.path.getsize(f"{trace}/{name}"), "xxh64": xxh64(read(f"{trace}/{name}"))} for name in there}
    manifest["checksum"] = "0" * 16
    text = json.dumps(manifest, indent=2)
    write(path, text.replace('"checksum": "' + "0" * 16, '"checksum": "' + xxh64(text.encode())).encode())


def plant(trace):
    log = b"PRSMPMIX" + struct.pack("<II16sQ", 1, 4, b"4.2", 1) + struct.pack("<III", 2, 1, 5) + b"value"
    write(f"{trace}/pmix.log", log + bytes.fromhex(xxh64(log))[::-1])
    write(f"{trace}/folding.json", b"[]\n")
    write(f"{trace}/switching.json", b'{"evictions": 1, "seconds_out": 0.5}\n')
    entry = {"communicator": 0, "operations": 1, "signature": "0123456789abcdef", "first": "AllReduce", "bytes": 4096, "seconds": 0.0001,
             "samples": [0.0001, 0.0002]}
    write(f"{trace}/durations.json", json.dumps({"format": "prism-durations", "version": 1, "durations": [entry]}).encode())


class Sweep:
    """One thread's: a copy of the trace, under the same name as seen from its folder, so that what is printed can be compared."""

    def __init__(self, prism, trace, number):
        self.prism, self.folder, self.runs, self.faults, self.good = prism, f"sweep-{number}", 0, [], {}
        shutil.copytree(trace, self.folder + "/trace")
        self.good = {command: self.run(command) for command in (("verify",),) + READERS}
        assert all(code == 0 and out for code, out in self.good.values()) and not self.faults, self.faults

    def run(self, command):
        self.runs += 1
        done = subprocess.run([self.prism, command[0], "trace", *command[1:]], cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        if len(self.good) < 5 and done.returncode or done.returncode not in (0, 65) or (done.returncode and done.stderr.count(b"\n") != 1):
            self.faults.append((command, done.returncode, done.stderr[-300:]))
        return done.returncode, done.stdout

    def look(self, what, readers):
        code, out = self.run(("verify",))
        # A frame of zstd has bits that say nothing; each payload's contents have a checksum, so "good" is right of those.
        nothing = what.startswith("payload-0.dat: bit") and code == 0 and out == self.good[("verify",)][1]
        if (code != 65 or b"good" in out) and not nothing:
            self.faults.append((what, "verify", code, out))
        for command in READERS if readers else ():
            code, out = self.run(command)
            if code == 0 and out != self.good[command][1]:
                self.faults.append((what, command, "prints something else with exit code 0"))

    def file(self, name):
        path = f"{self.folder}/trace/{name}"
        whole = read(path)
        n = len(whole)
        step = 1 if n <= SMALL else n // SAMPLE
        for i, at in enumerate(range(0, n, step)):
            changed = bytearray(whole)
            changed[at] ^= 1 << i * 5 % 8
            write(path, changed)
            self.look(f"{name}: bit {i * 5 % 8} of byte {at}", i % 16 == 0)
        for size in sorted({s for s in (0, 1, 7, n // 3, n // 2, n - 9, n - 1) if 0 <= s < n}):
            write(path, whole[:size])
            self.look(f"{name}: cut to {size}", True)
        os.unlink(path)
        self.look(f"{name}: away", True)
        os.mkdir(path)
        self.look(f"{name}: a folder", True)
        os.rmdir(path)
        write(path, whole)


def sweep(prism, trace):
    names = sorted((n for n in os.listdir(trace) if n not in ("logs", "report.json")), key=lambda n: -os.path.getsize(f"{trace}/{n}"))
    groups = [names[0::2], names[1::2]]

    def go(number):
        s = Sweep(prism, trace, number)
        for name in groups[number]:
            s.file(name)
        return s

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(go, (0, 1)))
    for s in done:
        assert not s.faults, (len(s.faults), s.faults[:5])
        assert s.run(("verify",)) == s.good[("verify",)]
    print(f"{len(names)} files: {' '.join(sorted(names))}; {sum(s.runs for s in done)} runs")


if __name__ == "__main__":
    {"seal": seal, "plant": plant, "sweep": sweep}[sys.argv[1]](*sys.argv[2:])
