/* native.c - built as libcutest.so: stands for one of NVIDIA's libraries, which reach the driver directly. */
#include <cuda.h>
#include <cuda_runtime_api.h>

int native_look(int *count, int *driver_count, int *current, char pci[32]);

__attribute__((visibility("default"))) int native_look(int *count, int *driver_count, int *current, char pci[32])
{
    CUdevice device;
    return cudaGetDeviceCount(count) || cuDeviceGetCount(driver_count) || cudaGetDevice(current) || cuCtxGetDevice(&device) ||
           cuDeviceGetPCIBusId(pci, 32, device) || cudaSetDevice(0);
}
