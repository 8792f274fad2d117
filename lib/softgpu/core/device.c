/* device.c - which devices this process sees, and where each of them sits.
 *
 * SOFTGPU_DEVICES (default 8) devices stand in a node, SOFTGPU_NODE (default 0) says which node this is, and
 * CUDA_VISIBLE_DEVICES chooses and orders those the process sees, as with CUDA: the list ends at the first entry that
 * is no device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/core/internal.h"

static struct sg_device devices[SG_MAX_DEVICES];
static int device_count;
static bool init_done;
static volatile bool is_child; /* forked after sg_init: asked at every call, for which getpid() is too slow */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static int number_from_environment(const char *name, int fallback, int least, int most)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return fallback;
    long value = strtol(text, &end, 10);
    if (*end == '\0' && value >= least && value <= most)
        return (int)value;
    fprintf(stderr, "softgpu: %s=%s is not a number from %d to %d; %d is used\n", name, text, least, most, fallback);
    return fallback;
}

static void add_device(int node, int index)
{
    devices[device_count] = (struct sg_device){.ordinal = device_count, .place = {node, index}};
    device_count++;
}

/* One entry of CUDA_VISIBLE_DEVICES: a number, or the UUID that we gave the device ("GPU-..."). */
static int parse_entry(const char *entry, int node, int installed)
{
    char uuid[64], *end;
    if (!strncmp(entry, "GPU-", 4)) {
        for (int i = 0; i < installed; i++) {
            snprintf(uuid, sizeof(uuid), "GPU-50726973-6d00-0000-%04x-%012x", node & 0xffff, i);
            if (!strcmp(entry, uuid))
                return i;
        }
        return -1;
    }
    long index = strtol(entry, &end, 10);
    return end != entry && *end == '\0' && index >= 0 && index < installed ? (int)index : -1;
}

static void list_visible(const char *list, int node, int installed)
{
    char *copy = strdup(list), *rest = copy, *entry;
    bool seen[SG_MAX_DEVICES] = {false};
    while (copy && (entry = strsep(&rest, ","))) {
        entry += strspn(entry, " ");
        entry[strcspn(entry, " ")] = '\0';
        int index = parse_entry(entry, node, installed);
        if (index < 0)
            break;
        if (seen[index]) { /* CUDA: a device named twice leaves none */
            device_count = 0;
            break;
        }
        seen[index] = true;
        add_device(node, index);
    }
    free(copy);
}

static void find_devices(void)
{
    int installed = number_from_environment("SOFTGPU_DEVICES", 8, 0, SG_MAX_DEVICES);
    int node = number_from_environment("SOFTGPU_NODE", 0, 0, 65535);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        list_visible(visible, node, installed);
    else
        for (int i = 0; i < installed; i++)
            add_device(node, i);
}

static void note_fork(void)
{
    is_child = true;
}

CUresult sg_init(void)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (!init_done) {
        sg_profile();
        find_devices();
        pthread_atfork(NULL, NULL, note_fork);
        init_done = true;
    } else if (is_child) {
        result = CUDA_ERROR_NOT_INITIALIZED; /* CUDA does not outlive fork() either */
    }
    if (result == CUDA_SUCCESS && device_count == 0)
        result = CUDA_ERROR_NO_DEVICE;
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult sg_check_init(void)
{
    return init_done && !is_child ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int sg_device_count(void)
{
    return device_count;
}

struct sg_device *sg_device_get(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : NULL;
}

struct sg_device *sg_device_opened(int ordinal)
{
    struct sg_device *device = sg_device_get(ordinal);
    if (!device)
        return NULL;
    pthread_mutex_lock(&init_lock);
    if (!device->shared)
        device->shared = sg_shared_open(device->place.node, device->place.index);
    pthread_mutex_unlock(&init_lock);
    return device->shared ? device : NULL;
}

int sg_device_place(int ordinal, struct sg_place *place)
{
    struct sg_device *device = sg_device_get(ordinal);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    *place = device->place;
    return CUDA_SUCCESS;
}

void sg_device_comm_active(int ordinal, int64_t start_ns, int64_t end_ns)
{
    struct sg_device *device = sg_device_opened(ordinal);
    if (device)
        sg_shared_comm(device->shared, start_ns, end_ns);
}

int sg_current_device(void)
{
    struct CUctx_st *context = sg_context_current();
    return context ? context->device : 0;
}

int sg_stream_device(void *handle)
{
    struct CUstream_st *stream;
    if (sg_stream_resolve(handle, &stream) != CUDA_SUCCESS)
        return sg_current_device();
    return stream->context->device;
}

__attribute__((destructor)) static void leave_devices(void)
{
    for (int i = 0; i < device_count; i++)
        sg_shared_close(devices[i].shared);
}
