SYSTEM_TESTS += $(sort $(wildcard tests/system/*.bats))
