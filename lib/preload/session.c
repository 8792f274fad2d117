/* session.c - how this process becomes its rank, and what it says when it cannot go on. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "preload/environment.h"
#include "preload/finish.h"
#include "preload/gate/fill.h"
#include "preload/gate/gate_kernel.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/gate/slots.h"
#include "preload/socket.h"
#include "preload/memory/switch.h"
#include "preload/nodes/times.h"
#include "proto/board.h"
#include "proto/region.h"

#define FATAL_WAIT_MS 5000 /* prismd ends the run well before */

struct session session;
static pthread_mutex_t activation = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int get_state(void)
{
    return __atomic_load_n(&session.state, __ATOMIC_ACQUIRE);
}

static void set_state(int state)
{
    __atomic_store_n(&session.state, state, __ATOMIC_RELEASE);
}

/* Also called before our constructor: libraries initialised earlier may use dlsym. */
bool session_is_off(void)
{
    int state = get_state();
    if (state == SESSION_UNKNOWN) {
        const char *name = getenv("PRISM_SOCKET");
        state = getauxval(AT_SECURE) || !name || !*name || !getenv("PRISM_RANK") ? SESSION_OFF : SESSION_IDLE;
        int expected = SESSION_UNKNOWN;
        if (!__atomic_compare_exchange_n(&session.state, &expected, state, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            state = expected;
    }
    return state == SESSION_OFF;
}

void session_lock(void)
{
    pthread_mutex_lock(&lock);
}

bool session_trylock(void)
{
    return !pthread_mutex_trylock(&lock);
}

void session_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void take_welcome(const struct msg_welcome *w, int region_fd)
{
    session.world = w->world;
    session.phase = w->phase;
    session.transport = w->transport;
    session.record_times = w->record_times;
    session.only_gates = w->phase == PHASE_EMULATE;
    session.control = w->control;
    session.max_waiting = w->max_waiting;
    session.region_size = w->region_size;
    if (w->region_size <= REGION_HEAP_OFFSET)
        session_fatal(PRISM_EXIT_DAEMON, "rank %u: the region of %llu bytes has no room for the staging heap",
                      session.rank, (unsigned long long)w->region_size);
    session.region = region_map(region_fd, PROT_NONE, &session.region_size);
    if (!session.region)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot map the region of %zu bytes: %s", session.rank,
                      session.region_size, strerror(errno));
    close(region_fd);
    slots_init(session.region, session.region_size, w->staging);
}

static void take_board(const struct msg_welcome *w, int fd)
{
    if (fd < 0)
        return;
    session.board = mmap(NULL, board_size(w->seats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (session.board == MAP_FAILED || w->seat >= w->seats)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot map the node's board of %u seats: %s", session.rank, w->seats, strerror(errno));
    session.seats = w->seats;
    session.seat = w->seat;
    close(fd);
}

static void forked_child(void)
{
    if (get_state() >= SESSION_CONNECTED)
        session_forget();
}

void session_forget(void)
{
    set_state(SESSION_OFF);
    socket_drop();
    switch_forget();
}

/* activation held */
static void connect_locked(void)
{
    const char *key = getenv("PRISM_KEY");
    struct msg_welcome welcome;
    int descriptors[SOCKET_DESCRIPTORS];
    session.rank = (uint32_t)strtoul(getenv("PRISM_RANK"), NULL, 10);
    if (socket_hello(getenv("PRISM_SOCKET"), session.rank, key ? key : "", &welcome, descriptors)) {
        set_state(SESSION_OFF);
        return;
    }
    take_welcome(&welcome, descriptors[0]);
    session.mover = descriptors[1];
    take_board(&welcome, descriptors[2]);
    pthread_atfork(NULL, NULL, forked_child);
    set_state(SESSION_CONNECTED);
}

bool session_connect(void)
{
    if (session_is_off())
        return false;
    if (get_state() >= SESSION_CONNECTED)
        return true;
    pthread_mutex_lock(&activation);
    if (get_state() == SESSION_IDLE)
        connect_locked();
    pthread_mutex_unlock(&activation);
    return get_state() >= SESSION_CONNECTED;
}

/* The program may not have chosen a device yet; then it is the first one, as for the CUDA runtime. */
#define CONTEXT_WAIT_NS (300 * NSEC_PER_SEC)
#define NO_CONTEXT      "cuDevicePrimaryCtxRetain: out of memory, which drivers say of hardware queues too, of which an H200 has some 512"

/* Many processes that start on a device at once wait for the driver, which makes one context after the other and says "out of
 * memory" to those that have waited for some 45 s (measured). In capture that passes. */
static CUresult retain_context(CUdevice device)
{
    int64_t until = session.phase == PHASE_CAPTURE ? clock_now_ns() + CONTEXT_WAIT_NS : 0;
    bool told = false;
    CUresult r;
    while ((r = driver(cuDevicePrimaryCtxRetain)(&session.context, device)) == CUDA_ERROR_OUT_OF_MEMORY && clock_now_ns() < until) {
        if (!told)
            log_warn("rank %u: its device has no room for its context now (%s); trying for %d s more", session.rank, NO_CONTEXT,
                     (int)((until - clock_now_ns()) / NSEC_PER_SEC));
        told = true;
        nanosleep(&(struct timespec){1 + session.rank % 4, 0}, NULL);
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: its device has no room for its context (%s); fewer ranks a device, or a smaller PRISM_QUEUES",
                      session.rank, NO_CONTEXT);
    return r;
}

/* Any call that needs a context would do. A context that is current may be of no use: one that the program has destroyed, or the
 * primary one, which a CUDA runtime linked in statically makes current before it retains it (seen on an H200). */
static bool context_is_usable(void)
{
    size_t free_bytes, total_bytes;
    return driver(cuMemGetInfo)(&free_bytes, &total_bytes) != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void enter_context(void)
{
    CUdevice device;
    CUDA_MUST(driver(cuInit)(0));
    CUDA_MUST(driver(cuCtxGetCurrent)(&session.context));
    session.context_is_own = session.context && context_is_usable();
    if (session.context_is_own)
        return;
    CUDA_MUST(driver(cuDeviceGet)(&device, 0));
    int64_t began = clock_now_ns();
    CUDA_MUST(retain_context(device));
    session.context_ns = clock_now_ns() - began;
    log_debug("rank %u: context made in %.1f s", session.rank, (double)session.context_ns / 1e9);
    CUDA_MUST(driver(cuCtxSetCurrent)(session.context));
}

void session_enter_context(void)
{
    CUcontext context = NULL;
    if (driver(cuCtxGetCurrent)(&context) || context == session.context || (context && context_is_usable()))
        return;
    CUDA_MUST(driver(cuCtxSetCurrent)(session.context));
}

void session_register(size_t end)
{
    static size_t registered;
    while (registered < end) {
        size_t n = session.region_size - registered;
        if (n > SESSION_CHUNK)
            n = SESSION_CHUNK;
        if (mprotect(session.region + registered, n, PROT_READ | PROT_WRITE))
            session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot use %zu bytes more of the region: %s", session.rank, n, strerror(errno));
        CUDA_MUST(driver(cuMemHostRegister)(session.region + registered, n,
                                            CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
        registered += n;
    }
}

static void say_set_up(bool done)
{
    struct msg_set_up m = {.h = {MSG_SET_UP, sizeof m}, .done = done, .wakes = done && real_find(REAL_CUDA, "softgpuLaunchHostFunc")};
    socket_send(&m, sizeof m);
}

/* activation held */
static void set_up_cuda(void)
{
    const char *missing = driver_load();
    if (missing)
        session_fatal(PRISM_EXIT_UNSUPPORTED, "rank %u: the CUDA driver (libcuda.so.1) is missing or has no %s; CUDA 12 or "
                      "newer is needed", session.rank, missing);
    say_set_up(false);
    environment_enter();
    enter_context();
    environment_leave();
    session_register(REGION_HEAP_OFFSET);
    say_set_up(true);
    CUDA_MUST(driver(cuMemHostGetDevicePointer)(&session.region_device, session.region, 0));
    if (session.board) {
        CUDA_MUST(driver(cuMemHostRegister)(session.board, board_size(session.seats), CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
        CUDA_MUST(driver(cuMemHostGetDevicePointer)(&session.board_device, session.board, 0));
    }
    if (session.phase != PHASE_CAPTURE)
        gate_kernel_load();
    if (session.control)
        fill_load();
    if (session.record_times)
        times_start();
    finish_arm();
    if (session.mover >= 0 && session.phase == PHASE_CAPTURE)
        switch_start(session.mover);
    set_state(SESSION_READY);
}

bool session_use(void)
{
    if (get_state() == SESSION_READY)
        return true;
    if (!session_connect())
        return false;
    pthread_mutex_lock(&activation);
    if (get_state() == SESSION_CONNECTED)
        set_up_cuda();
    pthread_mutex_unlock(&activation);
    return get_state() == SESSION_READY;
}

_Noreturn void session_fatal(int code, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text)
        n = sizeof text - 1;
    if (socket_is_open()) {
        struct msg_fatal m = {.h = {MSG_FATAL, (uint32_t)(sizeof m + (size_t)n)}, .code = (uint32_t)code};
        socket_send_parts(&m, sizeof m, text, (size_t)n);
        socket_await_close(FATAL_WAIT_MS);
    } else {
        dprintf(STDERR_FILENO, "prism: %s\n", text);
    }
    _exit(code);
}

_Noreturn void session_cuda_failed(const char *call, int error)
{
    const char *name = NULL;
    if (driver(cuGetErrorName))
        driver(cuGetErrorName)((CUresult)error, &name);
    session_fatal(PRISM_EXIT_SYSTEM, "rank %u: CUDA error %d (%s) in %s", session.rank, error, name ? name : "unknown",
                  call);
}
