SYSTEM_TESTS += $(sort $(wildcard tests/slurm/*.bats))
