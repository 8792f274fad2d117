/* container.h - a rank in another network namespace than prismd's cannot reach it (prismd/ranks/container.h). */
#ifndef PRISM_PRELOAD_CONTAINER_H
#define PRISM_PRELOAD_CONTAINER_H

/* From the constructor: where the program is a tool that makes containers, a process in another namespace ends here (exit code
 * PRISM_EXIT_UNSUPPORTED), and prismd is told. */
void container_check_start(void);
/* prismd was not found: likewise, of a script that makes one; else returns. */
void container_check_lost(void);

#endif
