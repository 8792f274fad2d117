"""What the programs print, as numbers."""

import re

ITERATION = re.compile(r"rank (\d+) iteration (\d+) loss (\S+) grad_norm (\S+) seconds (\S+) loss_bits (\S+)")
VALUE = re.compile(r"rank (\d+) ([a-z_]+) ([0-9][0-9.e+-]*)$")
VERSIONS = re.compile(r"rank (\d+) versions (.+)$")


class Incomplete(Exception):
    pass


def read(text):
    """{rank: {"seconds": [...], "loss": [...], "bits": [...], "values": {name: number}, "versions": text}}"""
    ranks = {}

    def of(number):
        return ranks.setdefault(int(number), {"seconds": [], "loss": [], "norm": [], "bits": [], "values": {}, "versions": ""})

    for line in text.splitlines():
        if found := ITERATION.search(line):
            rank = of(found[1])
            if int(found[2]) != len(rank["seconds"]):
                raise Incomplete(f"iteration {found[2]} of rank {found[1]} came out of order")
            rank["loss"].append(float(found[3]))
            rank["norm"].append(float(found[4]))
            rank["seconds"].append(float(found[5]))
            rank["bits"].append(found[6])
        elif found := VALUE.search(line):
            number = float(found[3])
            of(found[1])["values"][found[2]] = int(number) if number.is_integer() else number
        elif found := VERSIONS.search(line):
            of(found[1])["versions"] = found[2]
    return ranks


def complete(ranks, wanted, iterations):
    """The wanted ranks; raises when one did not print all of its iterations."""
    for rank in wanted:
        have = len(ranks[rank]["seconds"]) if rank in ranks else 0
        if have != iterations:
            raise Incomplete(f"rank {rank} printed {have} of {iterations} iterations")
    return {rank: ranks[rank] for rank in wanted}


def last_lines(text, count=12):
    """The end of a log without blank lines, for a report."""
    return [line[:400] for line in text.splitlines() if line.strip()][-count:]
