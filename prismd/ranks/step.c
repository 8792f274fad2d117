#include "prismd/ranks/step.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

const char step_version[] = PRISM_VERSION;

static struct {
    pid_t parent;
    bool orphan;
    struct event *look;
} step;

int step_check_version(struct prism_error *err)
{
    const char *plugin = getenv("PRISM_PLUGIN_VERSION");
    if (!plugin || !*plugin || !strcmp(plugin, PRISM_VERSION))
        return 0;
    char self[4096] = "prismd";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0)
        self[n] = 0;
    return prism_error_set(err, PRISM_EXIT_DAEMON, "%s is Prism %s, this node's Slurm plugin is %.40s: install one version on the "
                           "node (prism doctor)", self, PRISM_VERSION, plugin);
}

/* An orphan's parent is init, or who takes its place. */
static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    if (step.orphan || getppid() == step.parent)
        return;
    step.orphan = true;
    pthread_mutex_lock(&d->lock);
    daemon_fail(d, PRISM_EXIT_DAEMON, "the slurmstepd of node %u is gone: its step ends", d->conf->node);
    pthread_mutex_unlock(&d->lock);
}

void step_watch(struct daemon *d)
{
    const struct timeval second = {1, 0};
    if (!getenv("PRISM_STEP_ID"))
        return;
    step.parent = getppid();
    step.look = event_new(d->base, -1, EV_PERSIST, on_look, d);
    if (step.look)
        event_add(step.look, &second);
}

/* srun waits for a slurmstepd that is gone until slurmctld misses it, which takes minutes: end the step ourselves. */
static void cancel_step(void)
{
    const char *name = getenv("PRISM_STEP_ID");
    pid_t pid = fork();
    if (!pid) {
        unsetenv("LD_PRELOAD");
        execlp("scancel", "scancel", "--quiet", name, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

void step_unwatch(void)
{
    if (step.look)
        event_free(step.look);
    step.look = NULL;
    if (step.orphan)
        cancel_step();
}
