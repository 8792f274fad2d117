"""Does the harness see what is wrong? Every comparison is given a planted difference that it must find."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import external  # noqa: E402
from harness import clocks, compare, files, memory, parse, timing  # noqa: E402
from harness.autopsy import autopsy  # noqa: E402
from harness.programs import Program  # noqa: E402
from harness.tree import Tree, zombies  # noqa: E402


def line(rank, iteration, loss, seconds=0.5):
    return f"rank {rank} iteration {iteration} loss {loss:.9g} grad_norm 1.5 seconds {seconds:.9f} loss_bits {loss.hex()}"


OUTPUT = "\n".join(["warning: something", *(line(r, i, 7.0 - i / 8 + r / 64) for r in range(2) for i in range(3)),
                    "rank 0 max_memory_allocated 1000", "rank 1 max_memory_allocated 2000", "rank 0 device_used 1.5e+09",
                    "rank 0 versions torch 2.11.0 nccl 2.28.9"])


class ClocksOfDevices(unittest.TestCase):
    def test_busy_samples(self):
        lines = ["1980, 650.10, 0x0000000000000000\n", "1965, 690.00, 0x0000000000000004\n", "345, 80.00, 0x0000000000000001\n", "[N/A], x\n", "19"]
        got = clocks.summary(lines)
        self.assertEqual((got["samples"], got["sm_mhz_mean"], got["power_capped"]), (2, 1972.5, 0.5))

    def test_none_busy(self):
        self.assertIsNone(clocks.summary(["345, 80.00, 0x1\n"]))
        self.assertIsNone(clocks.summary([]))


class Parse(unittest.TestCase):
    def test_reads_iterations_values_and_versions(self):
        ranks = parse.complete(parse.read(OUTPUT), range(2), 3)
        self.assertEqual(ranks[1]["loss"], [7.015625, 6.890625, 6.765625])
        self.assertEqual(ranks[0]["values"], {"max_memory_allocated": 1000, "device_used": 1500000000})
        self.assertEqual(ranks[0]["versions"], "torch 2.11.0 nccl 2.28.9")

    def test_moetrain_prints_what_it_reads(self):
        text = "rank 3 iteration 0 loss 5.5 grad_norm 2.0 seconds 0.01 loss_bits 0x40b00000 grad_bits 0x40000000"
        self.assertEqual(parse.read(text)[3]["bits"], ["0x40b00000"])

    def test_a_missing_rank_or_iteration_is_an_error(self):
        with self.assertRaisesRegex(parse.Incomplete, "rank 2 printed 0 of 3"):
            parse.complete(parse.read(OUTPUT), range(3), 3)
        with self.assertRaisesRegex(parse.Incomplete, "rank 0 printed 3 of 4"):
            parse.complete(parse.read(OUTPUT), [0], 4)
        with self.assertRaisesRegex(parse.Incomplete, "out of order"):
            parse.read(line(0, 1, 2.0))


class Numbers(unittest.TestCase):
    def setUp(self):
        self.wanted = parse.read(OUTPUT)

    def changed(self, rank, iteration, loss):
        text = OUTPUT.replace(line(rank, iteration, self.wanted[rank]["loss"][iteration]), line(rank, iteration, loss))
        self.assertNotEqual(text, OUTPUT)
        return parse.read(text)

    def test_equal_runs_are_equal(self):
        verdict = compare.numbers(self.wanted, copy.deepcopy(self.wanted), 0.0)
        self.assertTrue(verdict["bits_equal"] and verdict["digits_equal"] and verdict["within"])
        self.assertEqual(verdict["ranks"], 2)

    def test_one_bit_is_found(self):
        loss = self.wanted[1]["loss"][2]
        verdict = compare.numbers(self.wanted, self.changed(1, 2, float.fromhex((loss + 2**-40).hex())), 1e-6)
        self.assertFalse(verdict["bits_equal"])
        self.assertTrue(verdict["digits_equal"])
        self.assertTrue(verdict["within"])
        self.assertEqual(verdict["first_difference"], [1, 2])

    def test_a_digit_is_found(self):
        verdict = compare.numbers(self.wanted, self.changed(0, 1, self.wanted[0]["loss"][1] + 1e-5), 1e-8)
        self.assertFalse(verdict["digits_equal"] or verdict["within"])
        self.assertAlmostEqual(verdict["largest_difference"], 1e-5 / 6.875, delta=1e-8)

    def test_nan_zero_and_missing_iterations_are_differences(self):
        self.assertFalse(compare.numbers(self.wanted, self.changed(0, 0, float("nan")), 1.0)["within"])
        self.assertFalse(compare.numbers(self.wanted, self.changed(0, 0, 0.0), 1.0)["within"])
        short = copy.deepcopy(self.wanted)
        short[0]["loss"].pop()
        self.assertFalse(compare.numbers(self.wanted, short, 1.0)["within"])

    def test_no_rank_in_common_is_no_success(self):
        verdict = compare.numbers(self.wanted, {}, 1.0)
        self.assertFalse(verdict["bits_equal"] or verdict["digits_equal"] or verdict["within"])


class Memory(unittest.TestCase):
    def test_a_byte_is_found(self):
        wanted = parse.read(OUTPUT)
        self.assertTrue(compare.memory(wanted, copy.deepcopy(wanted))["equal"])
        got = parse.read(OUTPUT.replace("allocated 2000", "allocated 2001"))
        self.assertIs(compare.memory(wanted, got)["equal"], False)
        self.assertEqual(compare.memory(wanted, got)["bytes"][1], [2000, 2001])

    def test_not_told_is_not_equal(self):
        got = parse.read(OUTPUT.replace("rank 1 max_memory_allocated", "rank 1 something_else"))
        self.assertIsNone(compare.memory(parse.read(OUTPUT), got)["equal"])


class Times(unittest.TestCase):
    def test_error_is_that_of_the_medians_after_the_first(self):
        verdict = compare.times([[9, 1.0, 1.0, 1.2], [9, 1.1, 1.1, 1.1]], [50, 1.26, 1.26, 1.0])
        self.assertAlmostEqual(verdict["full_median"], 1.05)
        self.assertAlmostEqual(verdict["error"], 0.2)
        self.assertAlmostEqual(verdict["natural_spread"], 0.1 / 1.05)

    def test_a_slow_kernel_is_outside(self):
        plain = {"gemm": [10.0 + i / 10 for i in range(20)], "norm": [1.0] * 20}
        good = compare.kernels(plain, {"gemm": [11.0] * 20, "norm": [1.0] * 20})
        self.assertEqual(good["share_within"], 1.0)
        bad = compare.kernels(plain, {"gemm": [12.5] * 20, "norm": [1.0] * 20, "extra": [1.0]})
        self.assertLess(bad["share_within"], 0.1)
        self.assertEqual(bad["only_in_one"], ["extra"])


class Switching(unittest.TestCase):
    FACTS = {"copies": {"gb_per_second": {"out": [49.0, 50.0], "in": [40.0, 50.0]}},
             "checkpoint_process": {"bytes": 4e9, "errors": [0, 0, 0, 0, 0], "checkpoint_seconds": 2.0, "restore_seconds": 1.0}}
    COUNTERS = {"evictions": 6, "bytes_out": 92e9, "bytes_in": 94e9, "seconds_out": 2.0, "seconds_in": 2.0}

    def rates(self, counters=None, **driver):
        facts = {**self.FACTS, "checkpoint_process": {**self.FACTS["checkpoint_process"], **driver}}
        return memory.rates(facts, {**self.COUNTERS, **(counters or {})})

    def test_against_the_best_plain_copy_and_the_driver(self):
        row = self.rates()
        self.assertAlmostEqual(row["out_share"], 0.92)
        self.assertAlmostEqual(row["in_share"], 0.94)
        self.assertAlmostEqual(row["times_faster_than_checkpoint"], 23.0)
        self.assertTrue(row["passed"])

    def test_what_is_slow_or_not_known_does_not_pass(self):
        self.assertFalse(self.rates({"seconds_in": 2.2})["passed"])
        self.assertFalse(self.rates({"bytes_in": 0})["passed"])
        self.assertFalse(self.rates(checkpoint_seconds=0.5)["passed"])
        self.assertFalse(self.rates(errors=[0, 600, 0, 0, 0])["passed"])


class Page(unittest.TestCase):
    def test_a_row_that_was_not_finished_shows(self):
        import page
        row = timing.new_row(Program("ddp", "ddp", 2, "x"))
        rows = {name: [dict(row)] for name in ("timing", "larger", "world", "kernels")}
        rows["world"][0].update(representatives=32, minutes={}, host_peak_bytes={}, device_peak_bytes={})
        rows["overfull"] = [{**row, "switching": [], "rates": [], "capture_seconds": [], "tolerance": 1e-4, "numbers": {}}]
        rows["switch"] = [{"program": "ddp", "passed": False, "switching": {}}]
        run = {"format": "prism-gpu-results", "machine": {"gpus": ["GPU"]}, "started": "now", "facts": {}, "stages": {
            name: {"passed": False, "seconds": 1.0, "errors": [], "rows": r} for name, r in rows.items()}}
        text = page.page([("results.json", run)])
        for title in ("## Iteration time", "## Larger worlds", "## Folded worlds", "## Worlds that do not fit", "## Speed of switching"):
            self.assertIn(title, text)

    def test_a_failed_row_shows(self):
        import page
        result = {"format": "prism-gpu-results", "machine": {"gpus": ["GPU"]}, "started": "now", "facts": {}, "stages": {"programs": {
            "passed": False, "seconds": 3.0, "errors": [], "rows": [
                {"program": "ddp", "about": "x", "world": 2, "sandbox": "0", "passed": False, "steps": {}, "comparisons": {},
                 "numbers": {}, "failures": ["real-captured: losses differ by 1.0e-02"]}]}}}
        text = page.page([("results.json", result)])
        self.assertIn("losses differ by 1.0e-02", text)
        self.assertIn("FAILED", text)


    def test_external_and_slurm_show(self):
        import page
        run = {"format": "prism-gpu-results", "machine": {"gpus": ["GPU"]}, "started": "now", "facts": {}, "stages": {}}
        external = {"format": "prism-external-results", "programs": [
            {"program": "nccl-tests/gather/4", "world": 4, "result": "failed", "why": "it was wrong", "seconds_prism": 12.0}]}
        slurm = {"format": "prism-slurm-results", "verdict": "failed: srun had not ended", "seconds": 280, "sacct": ["a line of sacct"]}
        text = page.page([("a.json", run), ("b.json", external), ("c.json", slurm)])
        for wanted in ("it was wrong", "0 ok, 1 failed", "srun had not ended", "a line of sacct"):
            self.assertIn(wanted, text)


def profile(gemm=10.0, start=5.0, nccl=100.0, iterations=4):
    """As torch/common.py writes it: a gemm twice an iteration, and a kernel of NCCL's."""
    jitter = [0.0, 0.1, 0.2, 0.3][:iterations]
    return compare.profile({"kernels": {"gemm": [gemm + j for j in jitter for _ in (0, 1)], "ncclDevKernel": [nccl + j for j in jitter]},
                            "starts": {"gemm": [[start + j, start + 20 + j] for j in jitter], "ncclDevKernel": [[50 + j] for j in jitter]}})


class Files(unittest.TestCase):
    def test_a_series_of_visits_is_its_jobs_in_order(self):
        first, second = {"format": "prism-gpu-results", "n": 1}, {"format": "prism-slurm-results", "n": 2}
        series = {"format": "prism-gpu-visits", "version": 1, "visits": [
            {"commit": "a", "gpus": 1, "world": first, "cut": {"stages": {}}}, {"commit": "b", "slurm": second, "samples": [1.0]}]}
        self.assertEqual(files.parts("s.json", series), [("s.json, world", first), ("s.json, slurm", second)])
        self.assertEqual(files.parts("r.json", first), [("r.json", first)])


class Profiles(unittest.TestCase):
    def test_equal_profiles_are_within(self):
        result = compare.profiles([profile(), profile()], profile())
        self.assertEqual(result["durations"], {"own": [1, 1], "communication": [1, 1], "natural": [1, 1]})
        self.assertEqual(result["starts"], {"own": [2, 2], "communication": [1, 1], "natural": [2, 2]})
        self.assertEqual(result["only_in_one"], [])

    def test_a_slower_or_later_kernel_is_outside(self):
        slow = compare.profiles([profile(), profile()], profile(gemm=10.5))
        self.assertEqual((slow["durations"]["own"], slow["durations"]["communication"]), ([0, 1], [1, 1]))
        late = compare.profiles([profile(), profile()], profile(start=5.9))
        self.assertEqual((late["starts"]["own"], late["durations"]["own"]), ([0, 2], [1, 1]))
        waiting = compare.profiles([profile()], profile(nccl=200.0))
        self.assertEqual((waiting["durations"]["own"], waiting["durations"]["communication"]), ([1, 1], [0, 1]))

    def test_a_kernel_that_only_one_has_is_named(self):
        mine = profile()
        mine["durations"]["extra"] = [1, 1.0, 1.0, 1.0]
        self.assertEqual(compare.profiles([profile()], mine)["only_in_one"], ["extra"])


class Trees(unittest.TestCase):
    def test_the_end_of_one_leaves_the_exit_code_of_another(self):
        ends = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
        other = subprocess.Popen(["sleep", "60"], start_new_session=True)
        trees = [Tree(ends.pid), Tree(other.pid)]
        while not any(pid == ends.pid for pid, _ in zombies()):
            time.sleep(0.01)
        trees[1].end(grace=2.0)
        self.assertEqual(ends.wait(5), 7)
        other.wait(5)


class Autopsy(unittest.TestCase):
    def test_what_hangs_says_where_and_goes_on(self):
        asks = ("import faulthandler, signal, time\nfaulthandler.register(signal.SIGUSR2, all_threads=True)\n"
                "def stuck_here():\n    print('there', flush=True)\n    time.sleep(60)\nstuck_here()\n")
        with tempfile.NamedTemporaryFile(suffix=".rank7") as log:
            for code, stacks in ((asks, True), ("import time\nprint('there', flush=True)\ntime.sleep(60)", False)):
                child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=log)
                try:
                    child.stdout.readline()
                    text = autopsy(child.pid, [log.name])
                    self.assertIn(f"{child.pid} python", text)
                    self.assertIsNone(child.poll())  # the signal ends none
                    self.assertEqual("in stuck_here" in text, stacks, text)
                finally:
                    child.kill()
                    child.communicate()
                log.truncate(0)


class Limits(unittest.TestCase):
    def test_the_batch_is_found_wherever_the_guess_is(self):
        for real in (9, 10, 37, 100):
            for guess in (1, 9, 36, 37, 38, 99, 200):
                low, high = compare.first_that_fails(lambda batch, r=real: batch < r, 8, guess)
                self.assertEqual((low, high), (real - 1, real), f"guess {guess}")


class Real(unittest.TestCase):
    """The table of tests/gpu/two and eight, with planted differences."""

    def setUp(self):
        from importlib.machinery import SourceFileLoader
        from importlib.util import module_from_spec, spec_from_loader
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "real_table")
        loader = SourceFileLoader("real_table", path)
        self.table = module_from_spec(spec_from_loader("real_table", loader))
        loader.exec_module(self.table)

    @staticmethod
    def run_of(seconds=1.0, memory=1000, device=2000, bits="0x1p+0", kernels=None):
        rank = {"seconds": [9.0] * 5 + [seconds] * 5, "loss": [1.0] * 10, "norm": [1.0] * 10, "bits": [bits] * 10,
                "values": {"max_memory_allocated": memory, "device_used": device}, "versions": ""}
        return {"exit_code": 0, "wall_seconds": 60.0, "ranks": {"0": rank}, "profiles": {"0": kernels} if kernels else {}, "devices": 2,
                "report": {}}

    def row(self, **mine):
        program = {"about": "x", "world": 2, "captured_iterations": 6, "profiled": False, "full": [self.run_of(kernels=profile())] * 2,
                   "capture": self.run_of(), "calibrate": self.run_of(), "nccl": self.run_of(**{"kernels": profile(), **mine})}
        row = self.table.row("ddp", program, "nccl", "0", 5)
        return row, self.table.cells(row)

    def test_equal_runs(self):
        row, cells = self.row()
        self.assertEqual(cells[6:], ["0.00 %", "0.00 %", "bits (6)", "equal", "equal", "1 of 1 / 1 of 1 (1 of 1)",
                                     "2 of 2 / 1 of 1 (2 of 2)", 2, "3.00 (1.00)"])

    def test_every_difference_shows(self):
        self.assertEqual(self.row(seconds=1.01)[1][6], "1.00 %")
        self.assertEqual(self.row(bits="0x1.1p+0")[1][8], "0.0e+00 (6)")
        self.assertEqual(self.row(memory=1001)[1][9], "+1 (0.1000 %)")
        self.assertEqual(self.row(device=1999)[1][10], "-1 (-0.0500 %)")
        self.assertIn("0 of 1", self.row(kernels=profile(gemm=11.0))[1][11])
        self.assertIn("0 of 2", self.row(kernels=profile(start=7.0))[1][12])

    def test_what_did_not_end_well_is_not_whole(self):
        whole = lambda **data: self.table.whole({"errors": [], **data}, [])  # noqa: E731
        self.assertFalse(whole())
        self.assertTrue(whole(pace=[{"exit_code": 0}]))
        for bad in ({"pace": [{"exit_code": 1}]}, {"limit": {"passed": False}}, {"shared": {"world": 8, "full": {"exit_code": 124}}},
                    {"out_of_time": True}, {"errors": [{"stage": "memory"}]}):
            self.assertFalse(whole(**{"pace": [{"exit_code": 0}], **bad}), bad)

    def test_a_failed_run_is_a_failed_row(self):
        program = {"about": "x", "world": 2, "captured_iterations": 6, "profiled": False, "full": [self.run_of()] * 2,
                   "capture": {"exit_code": 71, "wall_seconds": 1.0, "ranks": {}, "output_tail": "no memory"}}
        row = self.table.row("ddp", program, "nccl", "0", 5)
        self.assertFalse(row["ok"])
        self.assertIn("capture, exit code 71: no memory", self.table.cells(row)[4])


class ProgramsOfOthers(unittest.TestCase):
    def test_chosen_in_the_order_of_what_is_wanted(self):
        chosen = list(external.choose(external.programs(), ["nccl-tests/*/8", "torchtitan", "nccl-tests"]))
        self.assertEqual(chosen[:9], [f"nccl-tests/{n}/8" for n in external.NCCL_TESTS])
        self.assertEqual(chosen[9:11], ["torchtitan/fsdp-tp", "torchtitan/pp"])
        self.assertEqual((len(chosen), len(set(chosen))), (29, 29))
        self.assertEqual(list(external.choose(external.programs(), [])), list(external.programs()))

    def test_what_stands_in_for_datasets_divides_rows_as_it_does(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, first, last in (("b.json", 4, 11), ("a.json", 0, 4)):
                with open(os.path.join(folder, name), "w", encoding="ascii") as out:
                    out.writelines(json.dumps({"text": str(i)}) + "\n" for i in range(first, last))
            code = "import sys; from datasets import load_dataset, Dataset\n" \
                   "from datasets.distributed import split_dataset_by_node as split\n" \
                   "rows = load_dataset(sys.argv[1], split='train'); parts = [split(rows, r, 4) for r in range(4)]\n" \
                   "print([[int(x['text']) for x in p] for p in parts], [int(x['text']) for x in parts[0].skip(2)], isinstance(rows, Dataset))"
            site = os.path.join(os.path.dirname(external.__file__), "stand_in", "site")
            got = subprocess.run([sys.executable, "-c", code, folder], env={**os.environ, "PYTHONPATH": site}, capture_output=True,
                                 text=True, check=True, timeout=60)
        self.assertEqual(got.stdout, "[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]] [2] True\n")


if __name__ == "__main__":
    unittest.main()
