"""Two runs of one program: numbers, memory, times."""

from statistics import median


def relative(a, b):
    if a == b:
        return 0.0
    if a != a or b != b or 0.0 in (a, b):
        return float("inf")
    return abs(a - b) / abs(a)


def numbers(wanted, got, tolerance=None):
    """Losses of the ranks that both runs have.

    bits_equal: float by float. digits_equal: as printed with six decimals. within: no relative difference above
    tolerance (None: not asked). first_difference: (rank, iteration) of the first loss whose bits differ.
    """
    ranks = sorted(set(wanted) & set(got))
    result = {"ranks": len(ranks), "bits_equal": bool(ranks), "digits_equal": bool(ranks), "largest_difference": 0.0,
              "first_difference": None}
    for rank in ranks:
        a, b = wanted[rank], got[rank]
        if len(a["loss"]) != len(b["loss"]):
            result.update(bits_equal=False, digits_equal=False, largest_difference=float("inf"))
            result["first_difference"] = result["first_difference"] or [rank, min(len(a["loss"]), len(b["loss"]))]
        for i, (x, y) in enumerate(zip(a["loss"], b["loss"])):
            if a["bits"][i] != b["bits"][i]:
                result["bits_equal"] = False
                result["first_difference"] = result["first_difference"] or [rank, i]
            if f"{x:.6f}" != f"{y:.6f}":
                result["digits_equal"] = False
            result["largest_difference"] = max(result["largest_difference"], relative(x, y))
    result["within"] = None if tolerance is None else bool(ranks) and result["largest_difference"] <= tolerance
    return result


def memory(wanted, got, name="max_memory_allocated"):
    """{rank: [wanted, got]} and whether all are equal to the byte; None where a run does not tell. The example trainer
    calls it peak_memory_bytes."""
    if name == "max_memory_allocated" and any("peak_memory_bytes" in r["values"] for r in wanted.values()):
        name = "peak_memory_bytes"
    both = {r: [wanted[r]["values"].get(name), got[r]["values"].get(name)] for r in sorted(set(wanted) & set(got))}
    if not both or any(v is None for pair in both.values() for v in pair):
        return {"equal": None, "bytes": both}
    return {"equal": all(a == b for a, b in both.values()), "bytes": both}


def steady(seconds, skip=1):
    """Median without the first iterations, which carry what programs do once."""
    return median(seconds[skip:] if len(seconds) > skip else seconds)


def spread(seconds, skip=1):
    """What is reported of a series of iterations."""
    kept = sorted(seconds[skip:] if len(seconds) > skip else seconds)
    at = lambda share: kept[min(len(kept) - 1, int(share * len(kept)))]  # noqa: E731
    return {"count": len(kept), "median": median(kept), "min": kept[0], "p5": at(0.05), "p95": at(0.95), "max": kept[-1],
            "mean": sum(kept) / len(kept)}


def times(runs, emulated, skip=1):
    """Iteration times of full runs (one list each) and of an emulation: relative error of the medians."""
    medians = [steady(r, skip) for r in runs]
    base = sum(medians) / len(medians)
    mine = steady(emulated, skip)
    return {"full_median": base, "emulated_median": mine, "error": abs(mine - base) / base,
            "natural_spread": (max(medians) - min(medians)) / base if len(medians) > 1 else None}


def kernels(wanted, got):
    """Kernel name → durations of each run: medians, and whether got's lies within the other's 5th to 95th percentile."""
    rows = []
    for name in sorted(set(wanted) & set(got), key=lambda n: -sum(wanted[n])):
        a, b = spread(wanted[name], 0), spread(got[name], 0)
        rows.append({"kernel": name[:160], "count": [a["count"], b["count"]], "median_us": [a["median"], b["median"]],
                     "p5_p95_us": [a["p5"], a["p95"]], "total_us": sum(wanted[name]),
                     "within": a["p5"] <= b["median"] <= a["p95"]})
    total = sum(r["total_us"] for r in rows) or 1.0
    return {"kernels": rows, "share_within": sum(r["total_us"] for r in rows if r["within"]) / total,
            "only_in_one": sorted(n[:160] for n in set(wanted) ^ set(got))}


def profile(data):
    """What is kept of a profile: kernel name → [count, p5, median, p95] of durations; and of each kernel's start, by its
    number in the iteration, [least, median, largest] over the iterations that have as many of it as the first."""
    starts = {}
    for name, iterations in data.get("starts", {}).items():
        same = [i for i in iterations if len(i) == len(iterations[0])]
        columns = [sorted(c) for c in zip(*same)]
        starts[name] = [[c[0], c[len(c) // 2], c[-1]] for c in columns]
    durations = {}
    for name, values in data["kernels"].items():
        s = spread(values, 0)
        durations[name] = [s["count"], s["p5"], s["median"], s["p95"]]
    return {"durations": durations, "starts": starts}


def of_gates(name):
    """Kernels whose duration is a wait for other ranks, or that only Prism has."""
    return "nccl" in name.lower() or "prism_gate" in name or "prism_fill" in name


def profiles(full, mine):
    """Kernels of an emulated rank against its full runs: how many durations and starts have their median within what the
    full runs had, p5 to p95 and least to largest; and how many of the last full run's lie within the others' (natural).

    → {"durations": {"own": [within, all], "communication": …, "natural": …}, "starts": the same, "only_in_one": names}
    """
    def within(of, value, low, high):
        return min(f[low] for f in of) <= value <= max(f[high] for f in of)

    def count(runs, one, what):
        inside = {True: [0, 0], False: [0, 0]}
        for name, values in one[what].items():
            others = [r[what][name] for r in runs if name in r[what]]
            if len(others) < len(runs):
                continue
            pairs = [(values, others)] if what == "durations" else \
                [(v, [o[n] for o in others]) for n, v in enumerate(values) if all(n < len(o) for o in others)]
            for value, of in pairs:
                kind = inside[of_gates(name)]
                kind[0] += within(of, value[2], 1, 3) if what == "durations" else within(of, value[1], 0, 2)
                kind[1] += 1
        return inside

    result = {}
    for what in ("durations", "starts"):
        counted = count(full, mine, what)
        result[what] = {"own": counted[False], "communication": counted[True]}
        if len(full) > 1:
            result[what]["natural"] = count(full[:-1], full[-1], what)[False]
    result["only_in_one"] = sorted(n[:120] for n in set(mine["durations"]) ^ set(full[0]["durations"]) if not of_gates(n))
    return result


def first_that_fails(fits, start, guess):
    """(largest batch known to fit, smallest known not to), neighbours; fits(batch) → bool. `start` fits; `guess`: about where."""
    low, high, stride, at = start, None, 2, max(start + 1, guess)
    while high is None or high - low > 1:
        if fits(at):
            low = at
            at = at + stride if high is None else (low + high) // 2
        else:
            high = at
            # The guess is near: look a little below it first.
            at = max(low + 1, high - stride, (low + high) // 2)
        stride *= 2
    return low, high
