/* fake_nvml.c - built as libnvidia-ml.so.1: as much of NVML as the tests ask, with two devices. */
#include <stdio.h>
#include <string.h>

struct nvmlDevice_st {
    int index;
};
typedef struct nvmlDevice_st *nvmlDevice_t;
static struct nvmlDevice_st devices[2] = {{0}, {1}};

#define NVML(name, parameters) \
    int name parameters;       \
    __attribute__((visibility("default"))) int name parameters

NVML(nvmlDeviceGetCount_v2, (unsigned *count))
{
    *count = 2;
    return 0;
}

NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device))
{
    if (index > 1)
        return 2;
    *device = &devices[index];
    return 0;
}

NVML(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))
{
    return 6; /* not found */
}

/* As the software GPU numbers them: bus 01, bus 02. */
NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char *text, nvmlDevice_t *device))
{
    unsigned bus = 0;
    if (sscanf(text, "%*x:%x", &bus) != 1 || bus < 1 || bus > 2)
        return 6;
    *device = &devices[bus - 1];
    return 0;
}

NVML(nvmlDeviceGetUUID, (nvmlDevice_t device, char *text, unsigned length))
{
    snprintf(text, length, "GPU-physical-%d", device->index);
    return 0;
}

NVML(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned *index))
{
    *index = (unsigned)device->index;
    return 0;
}

NVML(nvmlDeviceGetName, (nvmlDevice_t device, char *text, unsigned length))
{
    snprintf(text, length, "physical-%d", device->index);
    return 0;
}

NVML(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, unsigned long long memory[3])) /* total, free, used */
{
    memory[0] = 8ull << 30;
    memory[1] = 1ull << 20; /* others have nearly all */
    memory[2] = memory[0] - memory[1];
    return 0;
}
