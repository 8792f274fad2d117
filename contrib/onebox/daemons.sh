# daemons.sh - starting and ending the daemons of a onebox cluster. Sourced by onebox.
#
# Every daemon is found by its pid file, and believed only when its environment holds ONEBOX_DIR=<this folder>: a pid
# may have been given to another process since.

daemon_pid_file() {
    case $1 in
        munged) echo "$dir/munge/munged.pid" ;;
        *) echo "$dir/run/$1.pid" ;;
    esac
}

daemon_names() {
    local file
    echo munged mariadbd slurmdbd slurmctld
    for file in $(grep -o '^NodeName=[^ ]*' "$dir/etc/slurm.conf" 2>/dev/null); do echo "slurmd.${file#NodeName=}"; done
}

# A zombie (its parent has not waited yet) is not alive.
pid_alive() { [ -d "/proc/$1" ] && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }
pid_is_ours() { tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | grep -qxF "ONEBOX_DIR=$dir"; }

# Prints the pid of a running daemon of this cluster.
daemon_pid() {
    local pid
    pid=$(tr -d '[:space:]' 2>/dev/null <"$(daemon_pid_file "$1")") && is_number "$pid" && pid_alive "$pid" &&
        pid_is_ours "$pid" && echo "$pid"
} 2>/dev/null

# running, stopped or partly
state() {
    local name up=0 down=0
    for name in $(daemon_names); do
        if daemon_pid "$name" >/dev/null; then up=$((up + 1)); else down=$((down + 1)); fi
    done
    if [ $up -eq 0 ]; then echo stopped; elif [ $down -eq 0 ] && [ $up -gt 4 ]; then echo running; else echo partly; fi
}

# wait_for SECONDS COMMAND...: until it succeeds, or until the process $watched (if set) has gone
wait_for() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        [ -z "${watched:-}" ] || pid_alive "$watched" || return 1
        sleep 0.05
    done
}

port_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

ports_free() { # first port
    local i
    port_free "$1" && port_free $(($1 + 1)) || return 1
    for ((i = 0; i < nodes; i++)); do port_free $(($1 + 10 + i)) || return 1; done
}

# Sets base. Below 32768, where the kernel takes ports for outgoing connections.
choose_ports() {
    local try
    if [ -n "$port" ]; then
        base=$port
        ports_free "$base" || give_up '' "a port from --port $base on is in use: give another, or none"
        return
    fi
    for ((try = 0; try < 50; try++)); do
        base=$((20000 + (RANDOM * 32768 + RANDOM) % 125 * 100))
        ports_free "$base" && return
    done
    give_up '' "no free range of ports between 20000 and 32500 was found: give one with --port"
}

start_munged() {
    # --force: the folder may lie below one that others can write to, such as /tmp.
    setsid munged --key-file="$dir/secret/munge.key" --socket="$dir/munge/sock" --pid-file="$dir/munge/munged.pid" \
        --log-file="$dir/log/munged.log" --seed-file="$dir/secret/seed" --num-threads=2 --force \
        >"$dir/log/munged.out" 2>&1 8<&- 9>&- || { cat "$dir/log/munged.out" >>"$dir/log/munged.log"
        give_up "$dir/log/munged.log" "munged did not start"; }
}

start_mariadbd() {
    local user
    user=$(id -un)
    if [ ! -e "$dir/db/installed" ]; then
        rm -rf "$dir/db" && mkdir -m 700 "$dir/db"
        mariadb-install-db --no-defaults ${prefix:+--basedir="$prefix/usr"} --datadir="$dir/db" --skip-test-db \
            --auth-root-authentication-method=socket --auth-root-socket-user="$user" --user="$user" --skip-name-resolve \
            --force >"$dir/log/mariadb-install.log" 2>&1 8<&- 9>&- ||
            give_up "$dir/log/mariadb-install.log" "MariaDB's tables could not be made"
        touch "$dir/db/installed"
    fi
    # Losing the last second of accounting in a crash is no loss here.
    setsid mariadbd --no-defaults ${prefix:+--basedir="$prefix/usr"} --datadir="$dir/db" \
        --socket="$dir/run/db.sock" --pid-file="$dir/run/mariadbd.pid" \
        --skip-networking --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
        --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --performance-schema=OFF \
        --log-error="$dir/log/mariadbd.log" --user="$user" </dev/null >/dev/null 2>&1 8<&- 9>&- &
    database_pid=$!
    watched=$database_pid
    wait_for 120 database_answers || give_up "$dir/log/mariadbd.log" "MariaDB did not start"
    watched=
    database_client -e "CREATE DATABASE IF NOT EXISTS slurm_acct;
        CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'onebox';
        GRANT ALL ON slurm_acct.* TO 'slurm'@'localhost';" >"$dir/log/mariadb-client.log" 2>&1 ||
        give_up "$dir/log/mariadb-client.log" "MariaDB refused to make Slurm's database"
}

database_client() { mariadb --no-defaults -S "$dir/run/db.sock" -u "$(id -un)" "$@"; }
database_answers() { [ -S "$dir/run/db.sock" ] && database_client -e 'SELECT 1'; }

start_slurmdbd() {
    # It reads slurmdbd.conf beside $SLURM_CONF.
    MYSQL_UNIX_PORT=$dir/run/db.sock setsid slurmdbd >"$dir/log/slurmdbd.out" 2>&1 8<&- 9>&- ||
        give_up "$dir/log/slurmdbd.out" "slurmdbd did not start"
    wait_for 120 accounting_answers || give_up "$dir/log/slurmdbd.log" "slurmdbd did not answer"
    [ -e "$dir/state/accounts" ] && return
    local user
    user=$(id -un)
    {
        sacctmgr -i add cluster onebox
        sacctmgr -i add account prism Cluster=onebox
        sacctmgr -i add user "$user" Account=prism DefaultAccount=prism
    } >"$dir/log/sacctmgr.log" 2>&1
    sacctmgr -n -P show assoc user="$user" account=prism format=Account | grep -qx prism ||
        give_up "$dir/log/sacctmgr.log" "the account could not be made"
    touch "$dir/state/accounts"
}
accounting_answers() { port_free $((base + 1)) && return 1; timeout 30 sacctmgr -n list cluster; }

start_slurmctld() {
    setsid slurmctld >"$dir/log/slurmctld.out" 2>&1 8<&- 9>&- || {
        [ -s "$dir/log/slurmctld.log" ] || cp "$dir/log/slurmctld.out" "$dir/log/slurmctld.log"
        give_up "$dir/log/slurmctld.log" "slurmctld did not start"; }
}

start_slurmds() {
    local i
    for ((i = 0; i < nodes; i++)); do
        # Two nodes' PMIx servers in one temporary folder collide.
        mkdir -p "$dir/spool/node$i" "$dir/tmp/node$i"
        setsid slurmd ${prefix:+-d "$prefix/usr/sbin/slurmstepd"} -N "node$i" >"$dir/log/slurmd.node$i.out" 2>&1 8<&- 9>&- ||
            give_up "$dir/log/slurmd.node$i.log" "slurmd of node$i did not start"
    done
}

all_idle() { [ "$(timeout 30 sinfo -h -t idle -o %D)" = "$nodes" ]; }

start_all() {
    # Until the daemons have bound their ports nobody sees that these are taken: starts of one machine, whoever's they are, go one
    # after the other. A lock on a file that all can read; who does not get it in time starts all the same.
    exec 8<"$(command -v slurmctld)" && { flock -w 200 8 || :; }
    choose_ports
    config_write
    export_environment
    start_munged
    start_mariadbd
    start_slurmdbd
    # slurmds wait for their controller by themselves; starting both at once saves a second.
    start_slurmctld
    start_slurmds
    wait_for 180 all_idle || give_up "$dir/log/slurmctld.log" "not all nodes became idle: $(timeout 10 sinfo -h -N -o '%N=%t' | tr '\n' ' ')"
    [ "$(state)" = running ] || give_up "$dir/log/slurmctld.log" "a daemon ended while starting"
    exec 8<&-
}

# end_pid PID SECONDS: ask, wait, insist
end_pid() {
    local tries=$(($2 * 20))
    kill "$1" 2>/dev/null
    while pid_alive "$1"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { kill -KILL "$1" 2>/dev/null; sleep 0.1; return; }
        sleep 0.05
    done
}

# Processes of this cluster's jobs and its waiting clients, without ourselves and our ancestors.
leftovers() {
    local pid name spared=" $$ " up=$$
    while [ "$up" -gt 1 ]; do
        up=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$up/status" 2>/dev/null)
        [ -n "$up" ] || break
        spared="$spared$up "
    done
    for pid in $(grep -lsxzF "ONEBOX_DIR=$dir" /proc/[0-9]*/environ | cut -d/ -f3); do
        case $spared in *" $pid "*) continue ;; esac
        pid_alive "$pid" || continue
        read -r name <"/proc/$pid/comm" || continue
        case $name in
            slurmstepd | slurmd | slurmctld | slurmdbd | munged | mariadbd | srun | sbatch | salloc) echo "$pid" ;;
            *) grep -qsz '^SLURM_JOB_ID=' "/proc/$pid/environ" && echo "$pid" ;;
        esac
    done 2>/dev/null
}

stop_all() {
    local name pid
    # Jobs first: a slurmd that ends leaves its steps running.
    if daemon_pid slurmctld >/dev/null; then
        (
            export_environment
            timeout 10 scancel --user="$(id -un)" && wait_for 8 no_jobs
        ) >/dev/null 2>&1 8<&- 9>&-
    fi
    local ending=()
    for name in $(daemon_names); do
        case $name in slurmd.* | slurmctld) pid=$(daemon_pid "$name") && kill "$pid" && ending+=("$pid") ;; esac
    done
    for pid in "${ending[@]}"; do end_pid "$pid" 10; done
    for name in slurmdbd mariadbd munged; do
        pid=$(daemon_pid "$name") && end_pid "$pid" 20
    done
    # mariadbd writes its pid file late.
    [ -z "${database_pid:-}" ] || end_pid "$database_pid" 20
    local rest tries
    for ((tries = 0; tries < 20; tries++)); do
        rest=$(leftovers)
        [ -n "$rest" ] || break
        # shellcheck disable=SC2086
        kill -KILL $rest 2>/dev/null
        sleep 0.1
    done
    rm -f "$dir"/run/*.pid "$dir"/run/db.sock "$dir"/munge/munged.pid "$dir"/munge/sock*
}
no_jobs() { [ -z "$(timeout 10 squeue -h -o %i)" ]; }
