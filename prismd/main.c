/* main.c - prismd PROGRAM ARGS...: runs the program as a world of logical ranks (docs/design.md). All else comes from
 * PRISM_* variables (conf.h), which `prism run` and the Slurm plugin set. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/thread.h>

#include "common/log.h"
#include "common/file.h"
#include "prismd/ranks/container.h"
#include "prismd/ranks/elf.h"
#include "prismd/link/link.h"
#include "prismd/local.h"
#include "prismd/network.h"
#include "prismd/phases.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/step.h"
#include "prismd/gates/watch.h"

static void raise_file_limit(void)
{
    struct rlimit r;
    if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int daemon_init(struct daemon *d, struct prism_error *err)
{
    pthread_mutex_init(&d->lock, NULL);
    d->listener = -1;
    d->program_exit = -1;
    evthread_use_pthreads();
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    d->base = event_base_new_with_config(config);
    event_config_free(config);
    if (!d->base)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make an event loop");
    d->watch = watch_create(d);
    if (!d->watch)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot start a thread");
    if (local_init(d, err) || rank_listen(d, err) || container_listen(d, err))
        return -1;
    return link_create(d, &d->link, err);
}

static void daemon_fini(struct daemon *d)
{
    link_destroy(d->link);
    container_unlisten();
    rank_unlisten(d);
    local_fini(d);
    watch_destroy(d->watch);
    network_clear(d);
    if (d->base)
        event_base_free(d->base);
    pthread_mutex_destroy(&d->lock);
}

int main(int argc, char **argv)
{
    struct conf conf = {0};
    struct daemon d = {.conf = &conf};
    struct prism_error err = {0};
    prism_log_init("prism");
    if (argc < 2) {
        fprintf(stderr, "usage: prismd PROGRAM [ARGUMENTS]; settings come from PRISM_* variables, see prism(1)\n");
        return PRISM_EXIT_USAGE;
    }
    raise_file_limit();
    int code;
    if (step_check_version(&err) || conf_read(&conf, argv + 1, &err) || elf_check(conf.executable, &err) ||
        (conf.nodes > 1 && file_make_dirs(conf.trace, 0755, &err)) || daemon_init(&d, &err)) {
        log_error("%s", err.text);
        code = err.code == PRISM_EXIT_INTERRUPTED && d.program_exit > 0 ? d.program_exit : err.code;
    } else {
        step_watch(&d);
        code = phases_run(&d);
        step_unwatch();
    }
    daemon_fini(&d);
    conf_clear(&conf);
    return code;
}
