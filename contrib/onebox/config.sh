# config.sh - the configuration files of a onebox cluster. Sourced by onebox; uses its variables dir, nodes, gpus, plugins,
# libdir, bindir, softgpu, prefix and base (first port).

# What a start was asked for, to notice another.
config_options() {
    echo "nodes=$nodes gpus=$gpus plugins=$plugins libdir=$libdir bindir=$bindir prefix=$prefix softgpu=$softgpu"
}

# With --prefix the programs and libraries of DIR come first in our own environment, and so in every daemon's and job's.
prefix_use() {
    [ -n "$prefix" ] || return 0
    PATH=$prefix/usr/sbin:$prefix/usr/bin:$PATH
    local libs
    libs=$prefix/lib:$(slurm_plugin_dir)
    export LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# Slurm's own plugins. PluginDir is a list; ours come behind them.
slurm_plugin_dir() {
    local each
    for each in "$prefix"/usr/lib/*/slurm-wlm "$prefix"/usr/lib/*/slurm "$prefix"/usr/lib64/slurm "$prefix"/usr/lib/slurm \
        "$prefix"/usr/local/lib/slurm; do
        [ -e "$each/accounting_storage_slurmdbd.so" ] && { echo "$each"; return; }
    done
    return 1
}

config_write() {
    local user system_plugins
    user=$(id -un)
    system_plugins=$(slurm_plugin_dir) || give_up '' "Slurm's plugins with slurmdbd support were not found: run contrib/deps.sh"
    mkdir -p "$dir"/{etc,run,log,state,spool,tmp,dev,munge,softgpu} || give_up '' "cannot write below $dir"
    # munge insists on folders that nobody else can write to; its clients must reach the socket.
    chmod 755 "$dir" "$dir"/{etc,run,log,munge} && mkdir -p -m 700 "$dir/secret" || give_up '' "cannot write below $dir"
    [ -s "$dir/secret/munge.key" ] ||
        (umask 077; head -c 128 /dev/urandom >"$dir/secret/munge.key") || give_up '' "cannot write below $dir"
    config_options >"$dir/etc/options"
    config_slurm "$user" "$system_plugins" >"$dir/etc/slurm.conf"
    (umask 077; config_slurmdbd "$user" "$system_plugins" >"$dir/etc/slurmdbd.conf")
    config_gres >"$dir/etc/gres.conf"
    # Nothing here uses cgroups, but slurmd loads the plugin; the one for version 2 fails where there is no systemd.
    echo 'CgroupAutomount=no' >"$dir/etc/cgroup.conf"
    [ -z "$prefix" ] || echo 'CgroupPlugin=cgroup/v1' >>"$dir/etc/cgroup.conf"
    config_plugstack >"$dir/etc/plugstack.conf"
    config_task_prolog >"$dir/etc/task_prolog" && chmod 755 "$dir/etc/task_prolog"
}

config_plugstack() {
    [ -n "$plugins" ] && [ -e "$plugins/spank_prism.so" ] || return 0
    echo "optional $plugins/spank_prism.so libdir=$libdir bindir=$bindir"
}

# Standard output of a task prolog becomes the task's environment. Only the machine: nothing of Prism.
config_task_prolog() {
    cat <<E
#!/bin/sh
echo "export ONEBOX_DIR=$dir"
echo "export SOFTGPU_DIR=$dir/softgpu"
echo "export SOFTGPU_NODE=\${SLURMD_NODENAME#node}"
E
    [ -z "$softgpu" ] || cat <<E
case :\${LD_LIBRARY_PATH:-}: in
    *:$softgpu:*) ;;
    *) echo "export LD_LIBRARY_PATH=$softgpu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" ;;
esac
E
}

config_gres() {
    local i
    for ((i = 0; i < gpus; i++)); do ln -sfn /dev/null "$dir/dev/gpu$i"; done
    # Slurm refuses a count of GPUs without device files.
    [ "$gpus" -eq 0 ] || echo "NodeName=node[0-$((nodes - 1))] Name=gpu File=$dir/dev/gpu[0-$((gpus - 1))]"
}

config_slurmdbd() {
    cat <<E
AuthType=auth/munge
AuthInfo=socket=$dir/munge/sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((base + 1))
SlurmUser=$1
PluginDir=$2
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=onebox
StorageLoc=slurm_acct
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
DebugLevel=info
E
}

config_slurm() {
    local user=$1 host i
    host=$(hostname -s 2>/dev/null || hostname)
    cat <<E
ClusterName=onebox
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/sock
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
# No privileges are needed and nothing of the machine is touched.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
TaskProlog=$dir/etc/task_prolog
PlugStackConfig=$dir/etc/plugstack.conf
PluginDir=$2${plugins:+:$plugins}
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# The machine has fewer cores than the nodes claim.
SlurmdParameters=config_overrides
ReturnToService=2
InactiveLimit=0
# A busy machine is no reason to kill what is about to end, to forget a job, or to call a node down.
KillWait=30
MinJobAge=3600
SlurmdTimeout=300
SlurmctldTimeout=300
MessageTimeout=60
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((base + 1))
AccountingStoragePass=$dir/munge/sock
AccountingStoreFlags=job_comment,job_env,job_script
AccountingStorageTRES=gres/gpu,license/prism_rank,license/prism_gpu
Licenses=prism_rank:1000000,prism_gpu:1000000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
GresTypes=gpu
E
    [ -n "$plugins" ] && [ -e "$plugins/cli_filter_prism.so" ] && echo 'CliFilterPlugins=prism'
    [ -n "$plugins" ] && [ -e "$plugins/job_submit_prism.so" ] && echo 'JobSubmitPlugins=prism'
    for ((i = 0; i < nodes; i++)); do
        echo "NodeName=node$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 10 + i)) CPUs=64 Boards=1" \
            "SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:$gpus State=UNKNOWN"
    done
    echo 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO'
}

# NAME=value lines that make a shell a client of the cluster.
environment_lines() {
    local gpu_libs
    gpu_libs=$(sed -n 's/.* softgpu=//p' "$dir/etc/options")
    echo "SLURM_CONF=$dir/etc/slurm.conf"
    echo "ONEBOX_DIR=$dir"
    echo "PRISM_MUNGE_SOCKET=$dir/munge/sock"
    echo "SOFTGPU_DIR=$dir/softgpu"
    echo "PATH=$PATH"
    if [ -n "$gpu_libs" ]; then
        echo "LD_LIBRARY_PATH=$gpu_libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    elif [ -n "$prefix" ]; then
        echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    fi
}
