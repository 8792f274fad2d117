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
    absent '@OPTIONS' "$man"/*
}

@test "mandoc has nothing to say about them" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    # Other programs' pages need not be installed, nor ours.
    run mandoc -T lint "$man"/*.[1-9]
    output=$(grep -vE 'STYLE: referenced manual not found|outdated mandoc.db lacks' <<<"$output" || true)
    echo "$output"
    [ -z "$output" ]
}

@test "the variables that the README names are in prismd(8)" {
    local name names
    names=$(sed -n 's/^Further variables: //p' "$PRISM_SOURCE/README.md" | grep -oE 'PRISM_[A-Z_]+' | sort -u)
    [ "$(wc -l <<<"$names")" -ge 17 ]
    for name in $names; do
        grep -qE "^\.It Ev (.* )?$name( |\$)" "$man/prismd.8" || { echo "prismd(8) lacks $name"; false; }
    done
}

@test "the commands that prism has are in prism(1)" {
    local command
    for command in $("$PRISM_BUILD/bin/prism" --help | sed -nE 's/^  ([a-z]+)  +[a-z].*/\1/p'); do
        grep -qE "^\.It Cm $command\$" "$man/prism.1" || { echo "prism(1) lacks $command"; false; }
    done
}
