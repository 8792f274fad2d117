"""Emulated against full: times, memory, numbers."""

import math
from statistics import median

MEAN_LIMIT, WORST_LIMIT, LATENESS_LIMIT = 0.01, 0.02, 0.005


def steady(seconds):
    """Median after the first iteration, which carries what programs do once."""
    return median(seconds[1:] if len(seconds) > 1 else seconds)


def first_difference(wanted, got):
    for i, (a, b) in enumerate(zip(wanted, got)):
        if a != b:
            return i
    return None if len(wanted) == len(got) else min(len(wanted), len(got))


def pacing_lateness(report, seconds):
    """Share of the emulation by which gates opened late: their sum where the report has it, else the latest one."""
    pacing = report.get("pacing_us") or {}
    return pacing.get("sum", pacing.get("max", 0)) * 1e-6 / sum(seconds)


def compare_rank(case, rank, transport, full_runs, emulated, report):
    """One row of the table: a sandbox rank of a case under one transport."""
    samples = [run.ranks[rank].seconds for run in full_runs]
    medians = [steady(s) for s in samples]
    baseline = sum(medians) / len(medians)
    mine = emulated.ranks[rank]
    original = full_runs[0].ranks[rank]
    late = [r.lateness for r in [*full_runs, emulated] if not math.isnan(r.lateness)]
    late.append(pacing_lateness(report, mine.seconds))
    lateness = max(late) if len(late) > 1 else None
    numbers = first_difference(original.bits, mine.bits)
    return {
        "case": case.name, "about": case.about, "world": case.world, "sandbox": case.sandbox, "rank": rank,
        "transport": transport,
        "full_seconds": samples, "emulated_seconds": mine.seconds,
        "full_median": baseline, "emulated_median": steady(mine.seconds),
        "error": abs(steady(mine.seconds) - baseline) / baseline,
        "natural_spread": (max(medians) - min(medians)) / baseline,
        "peak_memory_full": original.peak, "peak_memory_emulated": mine.peak,
        "peak_memory_equal": original.peak == mine.peak,
        "losses_equal": numbers is None,
        "first_different_iteration": numbers,
        "losses_full": original.loss, "losses_emulated": mine.loss,
        "loss_differences": [abs(a - b) / abs(a) if a else abs(b) for a, b in zip(original.loss, mine.loss)],
        "routing_changes": report.get("live_size_changes"),
        "first_routing_flip_iteration": report.get("first_size_change_iteration"),
        "prediction_error": report.get("prediction_error"),
        "pacing_us": report.get("pacing_us"),
        "lateness_fraction": lateness,
        "valid": lateness is not None and lateness <= LATENESS_LIMIT,
    }


def summarise(rows, exact=True):
    """exact: numbers must be equal; without it their difference is reported only."""
    errors = [row["error"] for row in rows]
    result = {
        "mean_error": sum(errors) / len(errors) if errors else None,
        "max_error": max(errors) if errors else None,
        "peak_memory_equal": all(row["peak_memory_equal"] for row in rows),
        "losses_equal": all(row["losses_equal"] for row in rows),
        "all_valid": all(row["valid"] for row in rows),
        "rows": rows,
    }
    result["passed"] = bool(errors and result["mean_error"] <= MEAN_LIMIT and result["max_error"] <= WORST_LIMIT
                            and result["peak_memory_equal"] and (result["losses_equal"] or not exact)
                            and result["all_valid"])
    return result


def table(rows):
    """Markdown, so that it can be kept under docs/measurements."""
    lines = ["| case | rank | transport | full s | emulated s | error | natural spread | lateness | peak memory | losses |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        late = "?" if r["lateness_fraction"] is None else f"{100 * r['lateness_fraction']:.2f} %"
        memory = f"{r['peak_memory_emulated']}" if r["peak_memory_equal"] else \
            f"{r['peak_memory_emulated']} NOT {r['peak_memory_full']}"
        losses = "equal" if r["losses_equal"] else \
            f"DIFFER from iteration {r['first_different_iteration']}, by up to {max(r['loss_differences']):.1e}"
        lines.append(f"| {r['case']} | {r['rank']} | {r['transport']} | {r['full_median']:.4f} | "
                     f"{r['emulated_median']:.4f} | {100 * r['error']:.2f} % | {100 * r['natural_spread']:.2f} % | "
                     f"{late}{'' if r['valid'] else ' INVALID'} | {memory} | {losses} |")
    return "\n".join(lines)
