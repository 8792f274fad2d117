#!/bin/bash
# launch.sh [-g GPUS_PER_NODE] N [--] PROGRAM [ARGUMENTS...]
#
# Start N ranks of a program on this machine, for tests and baselines: sets RANK, WORLD_SIZE, LOCAL_RANK,
# LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and SOFTGPU_NODE for software GPUs (rank / GPUS_PER_NODE, default 8).
# A PROGRAM that starts with -- is taken for an option of moetrain ($MOETRAIN, else the one in PATH).
# When a rank fails the others are ended; the exit code is that of the first rank seen failing.

gpus=8
while getopts g: option; do
    case $option in
    g) gpus=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
world=$1
[[ $world =~ ^[1-9][0-9]*$ && $gpus =~ ^[1-9][0-9]*$ && $# -ge 1 ]] || {
    echo "usage: launch.sh [-g GPUS_PER_NODE] N [--] PROGRAM [ARGUMENTS...]" >&2
    exit 2
}
shift
[[ ${1-} == -- ]] && shift
[[ $# -eq 0 || $1 == --* ]] && set -- "${MOETRAIN:-moetrain}" "$@"

# A free port, unless the caller chose one; the kernel's range for outgoing connections starts at 32768.
if [[ -z ${MASTER_PORT-} ]]; then
    for ((i = 0; i < 100; i++)); do
        MASTER_PORT=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null || break
    done
fi
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} MASTER_PORT WORLD_SIZE=$world

pids=()
end_ranks() {
    ((${#pids[@]})) && kill -TERM "${pids[@]}" 2>/dev/null
    for ((i = 0; i < 20; i++)); do
        kill -0 "${pids[@]}" 2>/dev/null || return
        sleep 0.1
    done
    kill -KILL "${pids[@]}" 2>/dev/null
}
trap 'end_ranks; wait; exit 130' INT
trap 'end_ranks; wait; exit 143' TERM

for ((rank = 0; rank < world; rank++)); do
    local_world=$((world - rank / gpus * gpus < gpus ? world - rank / gpus * gpus : gpus))
    RANK=$rank LOCAL_RANK=$((rank % gpus)) LOCAL_WORLD_SIZE=$local_world SOFTGPU_NODE=$((rank / gpus)) "$@" &
    pids+=($!)
done

code=0
for ((left = world; left > 0; left--)); do
    wait -n
    status=$?
    if ((status != 0 && code == 0)); then
        code=$status
        end_ranks
    fi
done
exit $code
