#include "prismd/network.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/duration.h"
#include "common/log.h"
#include "prismd/ranks/child.h"

int network_load(struct daemon *d, struct prism_error *err)
{
    char path[PATH_MAX];
    network_clear(d);
    if (d->conf->network)
        snprintf(path, sizeof path, "%s", d->conf->network);
    else
        snprintf(path, sizeof path, "%s/network.json", d->conf->trace);
    if (access(path, R_OK))
        return prism_error_set(err, PRISM_EXIT_USAGE, "no network profile: %s cannot be read; measure one with `prism doctor "
                               "--measure --output FILE` and give it with --prism-network=FILE", path);
    d->network = malloc(sizeof *d->network);
    if (!d->network)
        abort();
    if (coll_network_load(d->network, path, err)) {
        free(d->network);
        d->network = NULL;
        return -1;
    }
    return 0;
}

int network_check(struct daemon *d, struct prism_error *err)
{
    if (!network_load(d, err))
        return 0;
    if (d->conf->network)
        return -1;
    *err = (struct prism_error){0};
    if (d->conf->phase != CONF_EMULATE && d->conf->world > 1 && d->conf->ndevices < 2)
        return prism_error_set(err, PRISM_EXIT_USAGE, "no network profile, and this node has one device, so there is no link to measure: "
                               "measure one where there are more (`prism doctor --measure --output FILE`) and give it with "
                               "--prism-network=FILE");
    return 0;
}

int network_measure(struct daemon *d, struct prism_error *err)
{
    char prism[PATH_MAX], output[PATH_MAX];
    *err = (struct prism_error){0};
    if (d->conf->network)
        return network_load(d, err);
    snprintf(output, sizeof output, "%s/network.json", d->conf->trace);
    if (d->conf->world == 1) { /* there is nothing to measure, and nothing hangs on it */
        d->network = calloc(1, sizeof *d->network);
        if (!d->network)
            abort();
        coll_network_default(d->network);
        return coll_network_save(d->network, output, err);
    }
    if (child_find("prism", prism))
        return prism_error_set(err, PRISM_EXIT_DAEMON, "cannot find the prism command beside prismd");
    log_info("no network profile given: measuring this node's links into %s", output);
    pid_t pid = fork();
    if (!pid) {
        execl(prism, prism, "doctor", "--measure", "--output", output, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "measuring the network failed (`prism doctor --measure --output %s`, "
                               "%s %d); give a profile with --prism-network=FILE", output, WIFSIGNALED(status) ? "signal" : "exit code",
                               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return network_load(d, err);
}

int network_keep(struct daemon *d, struct prism_error *err)
{
    char path[PATH_MAX];
    if (!d->conf->network)
        return 0;
    snprintf(path, sizeof path, "%s/network.json", d->conf->trace);
    return coll_network_save(d->network, path, err);
}

void network_clear(struct daemon *d)
{
    if (d->network)
        coll_network_clear(d->network);
    free(d->network);
    d->network = NULL;
}
