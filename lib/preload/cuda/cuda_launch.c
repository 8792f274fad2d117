/* cuda_launch.c - calls that put work on a stream and are interposed nowhere else: the stream is in use (park.h), there is work on it
 * (nodes/put.h), and what names device memory holds it meanwhile (residence.h). Some branches each while switching is off.
 *
 * The driver's functions are found by CUDA runtimes linked into other libraries too (lookup.c); there is no frame, because
 * a call of the runtime comes by here again in the driver.
 */
#include "preload/cuda/wrap.h"
#include "preload/memory/load.h"
#include "preload/memory/park.h"
#include "preload/memory/residence.h"
#include "preload/memory/room.h"

/* --- kernels, graphs, host functions --- */

/* function: what may have to be loaded; NULL: nothing, it is a graph or a host function. */
#define LAUNCH(api, name, function, stream, per_thread, parameters, arguments) \
    WRAP(api, name, parameters,                                                \
         room_enter((CUstream)(stream), per_thread);                           \
         if (!(function))                                                      \
             blocked_give_up();                                                \
         bool loads = load_begin((const void *)(function));                    \
         park_touch((CUstream)(stream), per_thread);                           \
         RESULT_##api r = real arguments;                                      \
         if (loads)                                                            \
             load_end();                                                       \
         room_leave();                                                         \
         return r;)
#define LAUNCH_RT(name, function, stream, per_thread, parameters, arguments) \
    LAUNCH(RT, name, function, stream, per_thread, parameters, arguments)
#define LAUNCH_DRV(name, function, stream, per_thread, parameters, arguments) \
    LAUNCH(DRV, name, function, stream, per_thread, parameters, arguments)

#define KERNEL_RT(name, per_thread)                                                                              \
    LAUNCH_RT(name, function, s, per_thread,                                                                     \
              (const void *function, dim3 grid, dim3 block, void **values, size_t shared_bytes, cudaStream_t s), \
              (function, grid, block, values, shared_bytes, s))
KERNEL_RT(cudaLaunchKernel, false)
KERNEL_RT(cudaLaunchKernel_ptsz, true)
KERNEL_RT(cudaLaunchCooperativeKernel, false)
KERNEL_RT(cudaLaunchCooperativeKernel_ptsz, true)

#define KERNEL_EX_RT(name, per_thread)                    \
    LAUNCH_RT(name, function, config->stream, per_thread, \
              (const cudaLaunchConfig_t *config, const void *function, void **values), (config, function, values))
KERNEL_EX_RT(cudaLaunchKernelExC, false)
KERNEL_EX_RT(cudaLaunchKernelExC_ptsz, true)

#define HOST_FUNCTION_RT(name, per_thread) \
    LAUNCH_RT(name, NULL, s, per_thread, (cudaStream_t s, cudaHostFn_t function, void *data), (s, function, data))
HOST_FUNCTION_RT(cudaLaunchHostFunc, false)
HOST_FUNCTION_RT(cudaLaunchHostFunc_ptsz, true)

#define GRAPH_RT(name, per_thread) \
    LAUNCH_RT(name, NULL, s, per_thread, (cudaGraphExec_t graph, cudaStream_t s), (graph, s))
GRAPH_RT(cudaGraphLaunch, false)
GRAPH_RT(cudaGraphLaunch_ptsz, true)

#define KERNEL_DRV(name, per_thread)                                                                      \
    LAUNCH_DRV(name, function, s, per_thread,                                                             \
               (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
                unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream s, void **values,     \
                void **extra),                                                                            \
               (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, s, values, extra))
KERNEL_DRV(cuLaunchKernel, false)
KERNEL_DRV(cuLaunchKernel_ptsz, true)

#define COOPERATIVE_DRV(name, per_thread)                                                                 \
    LAUNCH_DRV(name, function, s, per_thread,                                                             \
               (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
                unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream s, void **values),    \
               (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, s, values))
COOPERATIVE_DRV(cuLaunchCooperativeKernel, false)
COOPERATIVE_DRV(cuLaunchCooperativeKernel_ptsz, true)

#define KERNEL_EX_DRV(name, per_thread)                                                          \
    LAUNCH_DRV(name, function, config->hStream, per_thread,                                      \
               (const CUlaunchConfig *config, CUfunction function, void **values, void **extra), \
               (config, function, values, extra))
KERNEL_EX_DRV(cuLaunchKernelEx, false)
KERNEL_EX_DRV(cuLaunchKernelEx_ptsz, true)

#define HOST_FUNCTION_DRV(name, per_thread) \
    LAUNCH_DRV(name, NULL, s, per_thread, (CUstream s, CUhostFn function, void *data), (s, function, data))
HOST_FUNCTION_DRV(cuLaunchHostFunc, false)
HOST_FUNCTION_DRV(cuLaunchHostFunc_ptsz, true)

#define GRAPH_DRV(name, per_thread) LAUNCH_DRV(name, NULL, s, per_thread, (CUgraphExec graph, CUstream s), (graph, s))
GRAPH_DRV(cuGraphLaunch, false)
GRAPH_DRV(cuGraphLaunch_ptsz, true)

/* The software GPU's kernels (softgpu/softgpu.h). */
struct softgpuCost;
#define RESULT_SOFT  int
#define LIBRARY_SOFT REAL_CUDA
#define MISSING_SOFT CUDA_ERROR_NOT_SUPPORTED
LAUNCH(SOFT, softgpuLaunchHostFunc, function, stream, false,
       (void *stream, void (*function)(void *), const void *values, size_t bytes, const struct softgpuCost *cost),
       (stream, function, values, bytes, cost))

/* --- copies and fills --- */

#define TRANSFER_OF(api, name, stream, per_thread, parameters, arguments) \
    WRAP(api, name, parameters,                                           \
         room_enter((CUstream)(stream), per_thread);                      \
         park_touch((CUstream)(stream), per_thread);                      \
         residence_hold_issuing((CUstream)(stream), per_thread);          \
         RESULT_##api r = real arguments;                                 \
         residence_let_go();                                              \
         room_leave();                                                    \
         return r;)

#define TRANSFER_DRV(name, stream, per_thread, parameters, arguments) \
    TRANSFER_OF(DRV, name, stream, per_thread, parameters, arguments)
#define TRANSFER_RT(name, per_thread, parameters, arguments) TRANSFER_OF(RT, name, s, per_thread, parameters, arguments)

/* name on the default stream, name_ptds on the thread's. */
#define TRANSFER(name, parameters, arguments)              \
    TRANSFER_DRV(name, NULL, false, parameters, arguments) \
    TRANSFER_DRV(name##_ptds, NULL, true, parameters, arguments)
/* The last parameter is the stream s. */
#define TRANSFER_ASYNC(name, parameters, arguments)     \
    TRANSFER_DRV(name, s, false, parameters, arguments) \
    TRANSFER_DRV(name##_ptsz, s, true, parameters, arguments)

#define FILLS(F, bits, type)                                                                                         \
    F(cuMemsetD##bits##_v2, (CUdeviceptr to, type value, size_t count), (to, value, count))                          \
    F(cuMemsetD2D##bits##_v2, (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),               \
      (to, pitch, value, width, height))
#define FILLS_ASYNC(F, bits, type)                                                                                   \
    F(cuMemsetD##bits##Async, (CUdeviceptr to, type value, size_t count, CUstream s), (to, value, count, s))         \
    F(cuMemsetD2D##bits##Async, (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream s), \
      (to, pitch, value, width, height, s))
FILLS(TRANSFER, 8, unsigned char)
FILLS(TRANSFER, 16, unsigned short)
FILLS(TRANSFER, 32, unsigned int)
FILLS_ASYNC(TRANSFER_ASYNC, 8, unsigned char)
FILLS_ASYNC(TRANSFER_ASYNC, 16, unsigned short)
FILLS_ASYNC(TRANSFER_ASYNC, 32, unsigned int)

TRANSFER(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t count), (to, from, count))
TRANSFER(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t count),
         (to, to_context, from, from_context, count))
TRANSFER_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t count, CUstream s), (to, from, count, s))
TRANSFER_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t count, CUstream s), (to, from, count, s))
TRANSFER_ASYNC(cuMemcpyPeerAsync,
               (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t count, CUstream s),
               (to, to_context, from, from_context, count, s))
TRANSFER_ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream s), (copy, s))
TRANSFER_ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream s), (copy, s))

#define FILL_RT(name, per_thread) \
    TRANSFER_RT(name, per_thread, (void *to, int value, size_t count, cudaStream_t s), (to, value, count, s))
FILL_RT(cudaMemsetAsync, false)
FILL_RT(cudaMemsetAsync_ptsz, true)

#define FILL_2D_RT(name, per_thread)                                                                                \
    TRANSFER_RT(name, per_thread, (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t s), \
                (to, pitch, value, width, height, s))
FILL_2D_RT(cudaMemset2DAsync, false)
FILL_2D_RT(cudaMemset2DAsync_ptsz, true)

#define COPY_3D_RT(name, per_thread) \
    TRANSFER_RT(name, per_thread, (const struct cudaMemcpy3DParms *copy, cudaStream_t s), (copy, s))
COPY_3D_RT(cudaMemcpy3DAsync, false)
COPY_3D_RT(cudaMemcpy3DAsync_ptsz, true)

/* --- what may wait on a stream for long; seen so that it is known to be there (nodes/put.h), and for nothing else --- */

#define NOTED(name, parameters, arguments)     \
    WRAP(DRV, name, parameters,                \
         if (!frame.depth)                     \
             put_note(s);                      \
         return real arguments;)
#define NOTED_BOTH(name, parameters, arguments) \
    NOTED(name, parameters, arguments)          \
    NOTED(name##_ptsz, parameters, arguments)

NOTED_BOTH(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags), (s, address, value, flags))
NOTED_BOTH(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr address, cuuint64_t value, unsigned flags), (s, address, value, flags))
NOTED_BOTH(cuStreamBatchMemOp_v2, (CUstream s, unsigned n, CUstreamBatchMemOpParams *operations, unsigned flags), (s, n, operations, flags))
NOTED_BOTH(cuStreamAddCallback, (CUstream s, CUstreamCallback callback, void *data, unsigned flags), (s, callback, data, flags))
