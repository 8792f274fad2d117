/* launcher.h - torchrun in a rank's process: what it would start there runs in its place.
 *
 * `srun torchrun --nnodes=1024 --nproc-per-node=8 train.py` starts an agent a node, which starts its ranks. Here prismd is the
 * agent: it starts a process a rank, with a rank's variables, and the store. So a process that is about to become torchrun
 * (python .../torchrun, python -m torch.distributed.run or launch) becomes `python -u train.py` instead, before main().
 */
#ifndef PRISM_PRELOAD_LAUNCHER_H
#define PRISM_PRELOAD_LAUNCHER_H

#include <stdbool.h>

struct launcher {
    char **command;       /* owned array, strings borrowed from argv: what to run, NULL-terminated */
    bool python;          /* the interpreter runs it (command[0] is to be its name) */
    unsigned nnodes, per_node; /* 0 = as many as there are (per_node: "gpu", "auto") */
};

/* Pure: is this torchrun, and of what? argv as the kernel has it. False: it is not, or it only prints help. */
bool launcher_parse(char **argv, struct launcher *out);
/* In a rank's process: does not return if it is torchrun. A world of another size ends it with PRISM_EXIT_USAGE. */
void launcher_skip(char **argv);

#endif
