# Manual pages: built from the table of options, clean in mandoc -Tlint.

load common

setup() { man=$PRISM_BUILD/man; }

@test "every option is in the pages" {
    local name
    for name in emulate sandbox assistants phase trace gpus-per-node layout fold slices iterations payload network scratch on-divergence; do
        grep -qF "prism-$name" "$man/prism-slurm.7"
        grep -qE "^\.It Fl .-$name( |\$)" "$man/prism.1"
        [ "$name" = emulate ] || grep -qF ".It Ic $name " "$man/prism.conf.5"
    done
    ! grep -F '@OPTIONS' "$man"/*
}

@test "mandoc has nothing to say about them" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    # Other programs' pages need not be installed, nor ours.
    run mandoc -T lint "$man"/*.[1-9]
    output=$(grep -vE 'STYLE: referenced manual not found|outdated mandoc.db lacks' <<<"$output" || true)
    echo "$output"
    [ -z "$output" ]
}

@test "the commands that prism has are in prism(1)" {
    local command
    for command in $("$PRISM_BUILD/bin/prism" --help | sed -nE 's/^  ([a-z]+)  +[a-z].*/\1/p'); do
        grep -qE "^\.It Cm $command\$" "$man/prism.1" || { echo "prism(1) lacks $command"; false; }
    done
}
