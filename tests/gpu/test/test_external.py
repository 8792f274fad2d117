"""Programs that no one here wrote: how their numbers are compared (external.py)."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

import external  # noqa: E402


class Judge(unittest.TestCase):
    real = [("0", "5.5808"), ("3", "5.3096")]
    near = [("0", "5.5808"), ("3", "5.3098")]

    def judge(self, tolerance=0.0, **found):
        external.Runner.judge(external.Program("x", []), found, {}, tolerance)

    def test_equal_as_printed(self):
        self.judge(real=self.real, capture=self.real, emulation=self.real)
        with self.assertRaises(external.Failed):
            self.judge(real=self.real, capture=self.near)
        with self.assertRaises(external.Failed):
            self.judge(real=self.real, capture=self.real[:1])

    def test_within_a_tolerance_of_real_nccl_only(self):
        self.judge(2e-4, real=self.real, capture=self.near, emulation=self.near)
        for capture, emulation in (([("0", "5.5808"), ("3", "5.3198")], None), (self.near, [("0", "5.5808"), ("3", "5.3097")]),
                                   ([("0", "5.5808"), ("4", "5.3096")], None), ([("0", "nan"), ("3", "5.3096")], None)):
            with self.assertRaises(external.Failed):
                self.judge(2e-4, real=self.real, capture=capture, emulation=emulation or capture)

    def test_what_real_nccl_differs_from_itself(self):
        self.assertAlmostEqual(external.spread([self.real, self.near, self.real]), 0.0002 / 5.3096)
        self.assertEqual(external.spread([self.real, self.real]), 0)
        self.assertEqual(external.spread([self.real, [("3", "nan")]]), float("inf"))
        self.assertEqual(external.apart(("3", "0.0", "1.0"), ("3", "0.0", "2.0")), 0.5)
        with self.assertRaises(external.Failed):  # nothing is allowed where it does not differ
            self.judge(external.SPREADS * external.spread([self.real, self.real]), real=self.real, capture=self.near)


if __name__ == "__main__":
    unittest.main()
