/* finish.h - the orderly end of a rank: last times, memory, BYE. */
#ifndef PRISM_PRELOAD_FINISH_H
#define PRISM_PRELOAD_FINISH_H

/* From now on an exit of the process flushes what is outstanding. */
void finish_arm(void);

#endif
