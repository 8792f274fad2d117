/* container_spank.c - what pyxis does to a task, as far as it matters here: in its task_init hook the task enters a mount namespace of
 * its own, in which the folder that FAKE_CONTAINER names is another one (empty). Needs root, as mounts do. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <slurm/spank.h>

SPANK_PLUGIN(fake_container, 1)

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    char folder[4096];
    if (spank_remote(spank) != 1 || spank_getenv(spank, "FAKE_CONTAINER", folder, sizeof folder) != ESPANK_SUCCESS)
        return 0;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("none", folder, "tmpfs", 0, NULL))
        slurm_error("fake_container: %s: %m", folder);
    return 0;
}
