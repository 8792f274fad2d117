# --scratch: each phase in a copy of the working directory.

load common

setup() {
    common_setup
    mkdir work
    cd work
    echo data >input
    ln -s input link
    # Leaves a file behind, and refuses to run where it is there already.
    cat >program <<E
#!/bin/sh
[ "\$(cat link)" = data ] || exit 8
[ ! -e "left\$RANK" ] || exit 9
echo here >"left\$RANK"
exec $looper fault 2
E
    chmod 755 program
}

@test "phases do not see each other's files; the working directory stays as it was" {
    run timeout 300 "$prism" run --emulate=2 --scratch --trace="$BATS_TEST_TMPDIR/work/t" -- ./program 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"capture wrote 2 files in its copy of the working directory (left"* ]]
    [[ $output == *"what was written lies in $PWD/t/scratch/emulate"* ]]
    [ "$(ls)" = "$(printf 'input\nlink\nprogram\nt')" ]
    [ "$(cat t/scratch/emulate/left0)" = here ]
    [ ! -e t/scratch/emulate/left1 ]
    [ ! -e t/scratch/emulate/t ]
    [ -L t/scratch/emulate/link ]
    [ "$(ls t/scratch)" = emulate ]
}

@test "without it the second phase finds what the first one left" {
    run timeout 300 "$prism" run --emulate=2 --trace=t -- ./program 3>&-
    [ "$status" -eq 9 ]
}

@test "a working directory that is too large is refused" {
    head -c 100000 /dev/zero >large
    PRISM_SCRATCH_BYTES=50000 run timeout 300 "$prism" run --emulate=2 --scratch --trace=t -- ./program 3>&-
    [ "$status" -eq 64 ]
    [[ $output == *"holds more than 50000 bytes (PRISM_SCRATCH_BYTES)"* ]]
}

@test "a step that is none to emulate writes into the working directory" {
    PRISM_STEP_ID=1.0 run timeout 300 "$prism" run --emulate=2 --scratch --trace=t -- sh -c 'mkdir -p results; echo $RANK >results/$RANK' 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(cat results/0 results/1)" = "$(printf '0\n1')" ]
    [ -z "$(ls t/scratch)" ]
}
