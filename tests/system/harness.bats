#!/usr/bin/env bats
# The test runner proves itself: what fails, crashes, hangs, stops short or runs nothing is counted as failed.

setup() {
    unset PRISM_TEST_AGAIN
    source=${PRISM_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
    cd "$BATS_TEST_TMPDIR"
    mkdir -p tests bin
    cp "$source/tests/run" tests/run
    # The runner asks make for its lists.
    cat >Makefile <<'MAKE'
UNIT_TESTS := $(wildcard bin/*)
SYSTEM_TESTS :=
print-%:
	@echo '$($*)'
MAKE
}

program() { # NAME, body on standard input
    { echo '#!/bin/bash'; cat; } >"bin/$1"
    chmod +x "bin/$1"
}

runs() { # EXPECTED_LAST_LINE, options…
    run tests/run --timeout 2 "${@:2}" unit
    [ "${lines[-1]}" = "$1" ] || { echo "$output"; return 1; }
}

@test "passes and skips are counted apart" {
    program a <<<'echo 1..3; echo "ok 1 - x"; echo "ok 2 # SKIP y"; echo "not ok 3 # SKIP z"'
    runs '1 passed, 0 failed, 2 skipped'
    [ "$status" -eq 0 ]
}

@test "a failed test fails, its output is shown" {
    program a <<<'echo 1..2; echo "ok 1 - x"; echo "not ok 2 - y"; echo reason; exit 1'
    runs '1 passed, 1 failed, 0 skipped'
    [ "$status" -eq 1 ]
    grep -q '| reason' <<<"$output"
}

@test "a crash, a hang, a short plan, no test and a missing program each fail" {
    program crash <<<'echo 1..1; echo "ok 1 - x"; kill -SEGV $$'
    runs '1 passed, 1 failed, 0 skipped'
    rm bin/crash
    program hang <<<'echo 1..1; echo "ok 1 - x"; exec sleep 60'
    runs '1 passed, 1 failed, 0 skipped'
    rm bin/hang
    program short <<<'echo 1..3; echo "ok 1 - x"'
    runs '1 passed, 1 failed, 0 skipped'
    rm bin/short
    program none <<<'true'
    runs '0 passed, 1 failed, 0 skipped'
    chmod -x bin/none
    runs '0 passed, 1 failed, 0 skipped'
    rm bin/none
    runs '0 passed, 1 failed, 0 skipped'
    [ "$status" -eq 1 ]
}

@test "no test has a line that begins with !, which cannot fail" {
    run grep -rnE --include='*.bats' --include='*.bash' '(^|; |do |then )[[:space:]]*! [^|]*$' "$source/tests" "$source/lib" "$source/prismd"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "--again runs what failed once more: passed then is unsteady and named, failed twice is failed" {
    program steady <<<'echo 1..1; echo "ok 1 - x"'
    program unsteady <<<'echo 1..2; echo "ok 1 - x"; [ -e second ] && echo "ok 2 - y" && exit; touch second; echo "not ok 2 - y"; exit 1'
    program broken <<<'echo 1..2; echo "ok 1 - x"; echo "not ok 2 - a (b) c"; exit 1'
    runs '4 passed, 1 failed, 0 skipped' --again
    [ "$status" -eq 1 ]
    grep -q '^UNSTEADY (failed, then passed): bin/unsteady: y$' <<<"$output"
    [ "${lines[-2]}" = 'FAILED: again: bin/broken: a (b) c' ]
    rm second bin/broken
    runs '3 passed, 0 failed, 0 skipped' --again
    [ "$status" -eq 0 ]
}
