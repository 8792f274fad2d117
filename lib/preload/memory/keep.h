/* keep.h - descriptors that have to stay open as long as memory is used that came through them (physical.h).
 *
 * They lie in the upper half of what the process may open, or from 2,048 on, out of the program's way, and are closed in children that it forks,
 * which would keep the memory from being freed. There are KEEP_MOST at most, and none that the program's limit has no room for.
 */
#ifndef PRISM_PRELOAD_KEEP_H
#define PRISM_PRELOAD_KEEP_H

#define KEEP_MOST 1024

/* Room for one more; -1 = there is none. What is open there meanwhile is `any`, a descriptor of the caller's. */
int keep_reserve(int any);
/* Put fd there; it is closed where it was. */
void keep_put(int kept, int fd);
/* Close it. -1 is fine. */
void keep_close(int kept);
/* In a forked child: close all. */
void keep_forget(void);

#endif
