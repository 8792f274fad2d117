/* measure.c - see measure.h. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "common/log.h"
#include "c10d/client.h"
#include "measure_group.h"
#include "profile.h"

/* Devices of this machine, counted by a child: a process that has used CUDA cannot fork others that do. */
static int count_devices(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct gpu gpu = { 0 };
        int n = 0;
        if (gpu_load_cudart(&gpu, NULL) != 0 || gpu.GetDeviceCount(&n) != cudaSuccess)
            n = 0;
        _exit(n > 250 ? 250 : n);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}

static int pick_device(const struct measure_world *w, const struct gpu *gpu, struct prism_error *err)
{
    int devices = 0;
    GPU_CUDA(gpu, GetDeviceCount(&devices), err);
    if (devices == 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "rank %d sees no device", w->rank);
    GPU_CUDA(gpu, SetDevice(w->local_rank % devices), err);
    return 0;
}

static bool is_member(const struct measure_group *group, int rank)
{
    for (int i = 0; i < group->size; i++)
        if (group->ranks[i] == rank)
            return true;
    return false;
}

static int measure_groups_all(struct measure_world *w, const struct gpu *gpu, const struct measure_options *options,
                              struct measure_result *result, struct prism_error *err)
{
    int n, failed = 0;
    struct measure_group *groups = measure_groups(w, &n);
    for (int i = 0; i < n && !failed; i++) {
        if (w->rank == 0)
            log_info("measuring group %d of %d: %d ranks on %d node%s", i + 1, n, groups[i].size,
                     groups[i].nodes, groups[i].nodes == 1 ? "" : "s");
        failed = (is_member(&groups[i], w->rank) &&
                  measure_group_run(w, gpu, &groups[i], i, options, result, err) != 0) ||
                 measure_world_barrier(w, err) != 0;
    }
    measure_groups_free(groups, n);
    return failed ? -1 : 0;
}

static int measure_here(const struct measure_options *options, struct prism_error *err)
{
    static struct gpu gpu; /* stays loaded */
    struct measure_world w;
    struct measure_result result = { .eager_bytes = -1, .eager_bytes_nodes = -1 };
    if (gpu_load(&gpu, err) != 0)
        return -1;
    if (measure_world_join(&w, err) != 0) {
        c10d_client_close(w.store);
        return -1;
    }
    int failed = pick_device(&w, &gpu, err) != 0 || measure_groups_all(&w, &gpu, options, &result, err) != 0;
    if (!failed && w.rank == 0) {
        failed = profile_write(&result, options->output, err) != 0;
        if (!failed)
            log_info("network profile of %d measurements written to %s", result.n, options->output);
    }
    free(result.samples);
    if (failed) /* the others must not wait for a barrier that never comes */
        return -1;
    measure_world_leave(&w);
    return 0;
}

int measure_run(const struct measure_options *options, struct prism_error *err)
{
    if (measure_world_launched())
        return measure_here(options, err);
    int devices = count_devices();
    if (devices < 2)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "%d device%s here and no launcher (RANK, WORLD_SIZE): start one "
                               "process a device, for example srun -N2 --ntasks-per-node=8 --gpus-per-node=8 prism "
                               "doctor --measure", devices, devices == 1 ? "" : "s");
    return measure_world_spawn(devices, err);
}
