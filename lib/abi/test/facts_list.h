/* facts_list.h - what facts.c prints: every enumerator, size, offset and signature of the headers in lib/abi.
 *
 * V(constant), S(type), O(type, member), F(function, result, parameters). Add to it what you add to a header. */
#ifndef PRISM_ABI_FACTS_LIST_H
#define PRISM_ABI_FACTS_LIST_H

/* clang-format off */
#define CUDA_VALUES(V) \
    V(CU_CTX_SCHED_AUTO) \
    V(CU_CTX_SCHED_SPIN) \
    V(CU_CTX_SCHED_YIELD) \
    V(CU_CTX_SCHED_BLOCKING_SYNC) \
    V(CU_CTX_SCHED_MASK) \
    V(CU_CTX_MAP_HOST) \
    V(CU_CTX_LMEM_RESIZE_TO_MAX) \
    V(CU_CTX_FLAGS_MASK) \
    V(CU_STREAM_DEFAULT) \
    V(CU_STREAM_NON_BLOCKING) \
    V(CU_EVENT_DEFAULT) \
    V(CU_EVENT_BLOCKING_SYNC) \
    V(CU_EVENT_DISABLE_TIMING) \
    V(CU_EVENT_INTERPROCESS) \
    V(CU_EVENT_RECORD_DEFAULT) \
    V(CU_EVENT_RECORD_EXTERNAL) \
    V(CU_EVENT_WAIT_DEFAULT) \
    V(CU_EVENT_WAIT_EXTERNAL) \
    V(CU_MEM_ATTACH_GLOBAL) \
    V(CU_MEM_ATTACH_HOST) \
    V(CU_MEM_ATTACH_SINGLE) \
    V(CU_LIMIT_STACK_SIZE) \
    V(CU_LIMIT_PRINTF_FIFO_SIZE) \
    V(CU_LIMIT_MALLOC_HEAP_SIZE) \
    V(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) \
    V(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT) \
    V(CU_LIMIT_MAX_L2_FETCH_GRANULARITY) \
    V(CU_LIMIT_PERSISTING_L2_CACHE_SIZE) \
    V(CU_FUNC_CACHE_PREFER_NONE) \
    V(CU_FUNC_CACHE_PREFER_SHARED) \
    V(CU_FUNC_CACHE_PREFER_L1) \
    V(CU_FUNC_CACHE_PREFER_EQUAL) \
    V(CU_COMPUTEMODE_DEFAULT) \
    V(CU_COMPUTEMODE_PROHIBITED) \
    V(CU_COMPUTEMODE_EXCLUSIVE_PROCESS) \
    V(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) \
    V(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED) \
    V(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) \
    V(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED) \
    V(CU_GET_PROC_ADDRESS_DEFAULT) \
    V(CU_GET_PROC_ADDRESS_LEGACY_STREAM) \
    V(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) \
    V(CU_GET_PROC_ADDRESS_SUCCESS) \
    V(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) \
    V(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT) \
    V(CU_MEMORYTYPE_HOST) \
    V(CU_MEMORYTYPE_DEVICE) \
    V(CU_MEMORYTYPE_ARRAY) \
    V(CU_MEMORYTYPE_UNIFIED) \
    V(CU_POINTER_ATTRIBUTE_CONTEXT) \
    V(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) \
    V(CU_POINTER_ATTRIBUTE_DEVICE_POINTER) \
    V(CU_POINTER_ATTRIBUTE_HOST_POINTER) \
    V(CU_POINTER_ATTRIBUTE_P2P_TOKENS) \
    V(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) \
    V(CU_POINTER_ATTRIBUTE_BUFFER_ID) \
    V(CU_POINTER_ATTRIBUTE_IS_MANAGED) \
    V(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) \
    V(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) \
    V(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) \
    V(CU_POINTER_ATTRIBUTE_RANGE_SIZE) \
    V(CU_POINTER_ATTRIBUTE_MAPPED) \
    V(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES) \
    V(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) \
    V(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS) \
    V(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) \
    V(CU_POINTER_ATTRIBUTE_MAPPING_SIZE) \
    V(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR) \
    V(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID) \
    V(CU_MEM_LOCATION_TYPE_INVALID) \
    V(CU_MEM_LOCATION_TYPE_NONE) \
    V(CU_MEM_LOCATION_TYPE_DEVICE) \
    V(CU_MEM_LOCATION_TYPE_HOST) \
    V(CU_MEM_LOCATION_TYPE_HOST_NUMA) \
    V(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) \
    V(CU_MEM_LOCATION_TYPE_MAX) \
    V(CU_MEM_ACCESS_FLAGS_PROT_NONE) \
    V(CU_MEM_ACCESS_FLAGS_PROT_READ) \
    V(CU_MEM_ACCESS_FLAGS_PROT_READWRITE) \
    V(CU_MEM_ACCESS_FLAGS_PROT_MAX) \
    V(CU_MEM_ALLOCATION_TYPE_INVALID) \
    V(CU_MEM_ALLOCATION_TYPE_PINNED) \
    V(CU_MEM_ALLOCATION_TYPE_MANAGED) \
    V(CU_MEM_ALLOCATION_TYPE_MAX) \
    V(CU_MEM_HANDLE_TYPE_NONE) \
    V(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) \
    V(CU_MEM_HANDLE_TYPE_WIN32) \
    V(CU_MEM_HANDLE_TYPE_WIN32_KMT) \
    V(CU_MEM_HANDLE_TYPE_FABRIC) \
    V(CU_MEM_HANDLE_TYPE_MAX) \
    V(CU_MEM_ALLOC_GRANULARITY_MINIMUM) \
    V(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) \
    V(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES) \
    V(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC) \
    V(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) \
    V(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) \
    V(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) \
    V(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) \
    V(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) \
    V(CU_MEMPOOL_ATTR_USED_MEM_HIGH) \
    V(CU_MEM_ADVISE_SET_READ_MOSTLY) \
    V(CU_MEM_ADVISE_UNSET_READ_MOSTLY) \
    V(CU_MEM_ADVISE_SET_PREFERRED_LOCATION) \
    V(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) \
    V(CU_MEM_ADVISE_SET_ACCESSED_BY) \
    V(CU_MEM_ADVISE_UNSET_ACCESSED_BY) \
    V(CU_STREAM_WAIT_VALUE_GEQ) \
    V(CU_STREAM_WAIT_VALUE_EQ) \
    V(CU_STREAM_WAIT_VALUE_AND) \
    V(CU_STREAM_WAIT_VALUE_NOR) \
    V(CU_STREAM_WAIT_VALUE_FLUSH) \
    V(CU_STREAM_WRITE_VALUE_DEFAULT) \
    V(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) \
    V(CU_STREAM_MEM_OP_WAIT_VALUE_32) \
    V(CU_STREAM_MEM_OP_WRITE_VALUE_32) \
    V(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES) \
    V(CU_STREAM_MEM_OP_WAIT_VALUE_64) \
    V(CU_STREAM_MEM_OP_WRITE_VALUE_64) \
    V(CU_STREAM_MEM_OP_BARRIER) \
    V(CU_STREAM_CAPTURE_MODE_GLOBAL) \
    V(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) \
    V(CU_STREAM_CAPTURE_MODE_RELAXED) \
    V(CU_STREAM_CAPTURE_STATUS_NONE) \
    V(CU_STREAM_CAPTURE_STATUS_ACTIVE) \
    V(CU_STREAM_CAPTURE_STATUS_INVALIDATED) \
    V(CU_DEVICE_CPU) \
    V(CU_DEVICE_INVALID) \
    V(CU_IPC_HANDLE_SIZE) \
    V(CU_MEMHOSTALLOC_PORTABLE) \
    V(CU_MEMHOSTALLOC_DEVICEMAP) \
    V(CU_MEMHOSTALLOC_WRITECOMBINED) \
    V(CU_MEMHOSTREGISTER_PORTABLE) \
    V(CU_MEMHOSTREGISTER_DEVICEMAP) \
    V(CU_MEMHOSTREGISTER_IOMEMORY) \
    V(CU_MEMHOSTREGISTER_READ_ONLY) \
    V(cudaMemcpyHostToHost) \
    V(cudaMemcpyHostToDevice) \
    V(cudaMemcpyDeviceToHost) \
    V(cudaMemcpyDeviceToDevice) \
    V(cudaMemcpyDefault) \
    V(cudaMemoryTypeUnregistered) \
    V(cudaMemoryTypeHost) \
    V(cudaMemoryTypeDevice) \
    V(cudaMemoryTypeManaged) \
    V(cudaComputeModeDefault) \
    V(cudaComputeModeExclusive) \
    V(cudaComputeModeProhibited) \
    V(cudaComputeModeExclusiveProcess) \
    V(cudaLimitStackSize) \
    V(cudaLimitPrintfFifoSize) \
    V(cudaLimitMallocHeapSize) \
    V(cudaLimitDevRuntimeSyncDepth) \
    V(cudaLimitDevRuntimePendingLaunchCount) \
    V(cudaLimitMaxL2FetchGranularity) \
    V(cudaLimitPersistingL2CacheSize) \
    V(cudaFuncCachePreferNone) \
    V(cudaFuncCachePreferShared) \
    V(cudaFuncCachePreferL1) \
    V(cudaFuncCachePreferEqual) \
    V(cudaMemPoolReuseFollowEventDependencies) \
    V(cudaMemPoolReuseAllowOpportunistic) \
    V(cudaMemPoolReuseAllowInternalDependencies) \
    V(cudaMemPoolAttrReleaseThreshold) \
    V(cudaMemPoolAttrReservedMemCurrent) \
    V(cudaMemPoolAttrReservedMemHigh) \
    V(cudaMemPoolAttrUsedMemCurrent) \
    V(cudaMemPoolAttrUsedMemHigh) \
    V(cudaMemAllocationTypeInvalid) \
    V(cudaMemAllocationTypePinned) \
    V(cudaMemAllocationTypeManaged) \
    V(cudaMemAllocationTypeMax) \
    V(cudaMemLocationTypeInvalid) \
    V(cudaMemLocationTypeNone) \
    V(cudaMemLocationTypeDevice) \
    V(cudaMemLocationTypeHost) \
    V(cudaMemLocationTypeHostNuma) \
    V(cudaMemLocationTypeHostNumaCurrent) \
    V(cudaMemAccessFlagsProtNone) \
    V(cudaMemAccessFlagsProtRead) \
    V(cudaMemAccessFlagsProtReadWrite) \
    V(cudaMemHandleTypeNone) \
    V(cudaMemHandleTypePosixFileDescriptor) \
    V(cudaMemHandleTypeWin32) \
    V(cudaMemHandleTypeWin32Kmt) \
    V(cudaMemHandleTypeFabric) \
    V(cudaMemAdviseSetReadMostly) \
    V(cudaMemAdviseUnsetReadMostly) \
    V(cudaMemAdviseSetPreferredLocation) \
    V(cudaMemAdviseUnsetPreferredLocation) \
    V(cudaMemAdviseSetAccessedBy) \
    V(cudaMemAdviseUnsetAccessedBy) \
    V(cudaDevP2PAttrPerformanceRank) \
    V(cudaDevP2PAttrAccessSupported) \
    V(cudaDevP2PAttrNativeAtomicSupported) \
    V(cudaDevP2PAttrCudaArrayAccessSupported) \
    V(cudaStreamCaptureModeGlobal) \
    V(cudaStreamCaptureModeThreadLocal) \
    V(cudaStreamCaptureModeRelaxed) \
    V(cudaStreamCaptureStatusNone) \
    V(cudaStreamCaptureStatusActive) \
    V(cudaStreamCaptureStatusInvalidated) \
    V(cudaEnableDefault) \
    V(cudaEnableLegacyStream) \
    V(cudaEnablePerThreadDefaultStream) \
    V(cudaDriverEntryPointSuccess) \
    V(cudaDriverEntryPointSymbolNotFound) \
    V(cudaDriverEntryPointVersionNotSufficent) \
    V(cudaHostAllocDefault) \
    V(cudaHostAllocPortable) \
    V(cudaHostAllocMapped) \
    V(cudaHostAllocWriteCombined) \
    V(cudaHostRegisterDefault) \
    V(cudaHostRegisterPortable) \
    V(cudaHostRegisterMapped) \
    V(cudaHostRegisterIoMemory) \
    V(cudaHostRegisterReadOnly) \
    V(cudaStreamDefault) \
    V(cudaStreamNonBlocking) \
    V(cudaEventDefault) \
    V(cudaEventBlockingSync) \
    V(cudaEventDisableTiming) \
    V(cudaEventInterprocess) \
    V(cudaEventRecordDefault) \
    V(cudaEventRecordExternal) \
    V(cudaEventWaitDefault) \
    V(cudaEventWaitExternal) \
    V(cudaDeviceScheduleAuto) \
    V(cudaDeviceScheduleSpin) \
    V(cudaDeviceScheduleYield) \
    V(cudaDeviceScheduleBlockingSync) \
    V(cudaDeviceScheduleMask) \
    V(cudaDeviceMapHost) \
    V(cudaDeviceLmemResizeToMax) \
    V(cudaMemAttachGlobal) \
    V(cudaMemAttachHost) \
    V(cudaMemAttachSingle) \
    V(cudaIpcMemLazyEnablePeerAccess) \
    V(cudaPeerAccessDefault) \
    V(cudaCpuDeviceId) \
    V(cudaInvalidDeviceId) \
    V(cudaInitDeviceFlagsAreValid) \
    V(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) \
    V(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) \
    V(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) \
    V(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) \
    V(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) \
    V(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) \
    V(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY) \
    V(CU_DEVICE_ATTRIBUTE_WARP_SIZE) \
    V(CU_DEVICE_ATTRIBUTE_MAX_PITCH) \
    V(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_REGISTERS_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) \
    V(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) \
    V(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP) \
    V(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) \
    V(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) \
    V(CU_DEVICE_ATTRIBUTE_INTEGRATED) \
    V(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES) \
    V(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT) \
    V(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS) \
    V(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) \
    V(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) \
    V(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) \
    V(CU_DEVICE_ATTRIBUTE_TCC_DRIVER) \
    V(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) \
    V(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) \
    V(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) \
    V(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT) \
    V(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE) \
    V(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) \
    V(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT) \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) \
    V(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH) \
    V(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) \
    V(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) \
    V(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) \
    V(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) \
    V(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID) \
    V(CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) \
    V(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) \
    V(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) \
    V(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1) \
    V(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) \
    V(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH) \
    V(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) \
    V(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES) \
    V(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) \
    V(CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST) \
    V(CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) \
    V(CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE) \
    V(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE) \
    V(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK) \
    V(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) \
    V(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) \
    V(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) \
    V(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) \
    V(CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) \
    V(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR) \
    V(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT) \
    V(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS) \
    V(CU_DEVICE_ATTRIBUTE_NUMA_CONFIG) \
    V(CU_DEVICE_ATTRIBUTE_NUMA_ID) \
    V(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MPS_ENABLED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) \
    V(CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK) \
    V(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH) \
    V(CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID) \
    V(CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID) \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED) \
    V(CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED) \
    V(cudaDevAttrMaxThreadsPerBlock) \
    V(cudaDevAttrMaxBlockDimX) \
    V(cudaDevAttrMaxBlockDimY) \
    V(cudaDevAttrMaxBlockDimZ) \
    V(cudaDevAttrMaxGridDimX) \
    V(cudaDevAttrMaxGridDimY) \
    V(cudaDevAttrMaxGridDimZ) \
    V(cudaDevAttrMaxSharedMemoryPerBlock) \
    V(cudaDevAttrTotalConstantMemory) \
    V(cudaDevAttrWarpSize) \
    V(cudaDevAttrMaxPitch) \
    V(cudaDevAttrMaxRegistersPerBlock) \
    V(cudaDevAttrClockRate) \
    V(cudaDevAttrTextureAlignment) \
    V(cudaDevAttrGpuOverlap) \
    V(cudaDevAttrMultiProcessorCount) \
    V(cudaDevAttrKernelExecTimeout) \
    V(cudaDevAttrIntegrated) \
    V(cudaDevAttrCanMapHostMemory) \
    V(cudaDevAttrComputeMode) \
    V(cudaDevAttrMaxTexture1DWidth) \
    V(cudaDevAttrMaxTexture2DWidth) \
    V(cudaDevAttrMaxTexture2DHeight) \
    V(cudaDevAttrMaxTexture3DWidth) \
    V(cudaDevAttrMaxTexture3DHeight) \
    V(cudaDevAttrMaxTexture3DDepth) \
    V(cudaDevAttrMaxTexture2DLayeredWidth) \
    V(cudaDevAttrMaxTexture2DLayeredHeight) \
    V(cudaDevAttrMaxTexture2DLayeredLayers) \
    V(cudaDevAttrSurfaceAlignment) \
    V(cudaDevAttrConcurrentKernels) \
    V(cudaDevAttrEccEnabled) \
    V(cudaDevAttrPciBusId) \
    V(cudaDevAttrPciDeviceId) \
    V(cudaDevAttrTccDriver) \
    V(cudaDevAttrMemoryClockRate) \
    V(cudaDevAttrGlobalMemoryBusWidth) \
    V(cudaDevAttrL2CacheSize) \
    V(cudaDevAttrMaxThreadsPerMultiProcessor) \
    V(cudaDevAttrAsyncEngineCount) \
    V(cudaDevAttrUnifiedAddressing) \
    V(cudaDevAttrMaxTexture1DLayeredWidth) \
    V(cudaDevAttrMaxTexture1DLayeredLayers) \
    V(cudaDevAttrMaxTexture2DGatherWidth) \
    V(cudaDevAttrMaxTexture2DGatherHeight) \
    V(cudaDevAttrMaxTexture3DWidthAlt) \
    V(cudaDevAttrMaxTexture3DHeightAlt) \
    V(cudaDevAttrMaxTexture3DDepthAlt) \
    V(cudaDevAttrPciDomainId) \
    V(cudaDevAttrTexturePitchAlignment) \
    V(cudaDevAttrMaxTextureCubemapWidth) \
    V(cudaDevAttrMaxTextureCubemapLayeredWidth) \
    V(cudaDevAttrMaxTextureCubemapLayeredLayers) \
    V(cudaDevAttrMaxSurface1DWidth) \
    V(cudaDevAttrMaxSurface2DWidth) \
    V(cudaDevAttrMaxSurface2DHeight) \
    V(cudaDevAttrMaxSurface3DWidth) \
    V(cudaDevAttrMaxSurface3DHeight) \
    V(cudaDevAttrMaxSurface3DDepth) \
    V(cudaDevAttrMaxSurface1DLayeredWidth) \
    V(cudaDevAttrMaxSurface1DLayeredLayers) \
    V(cudaDevAttrMaxSurface2DLayeredWidth) \
    V(cudaDevAttrMaxSurface2DLayeredHeight) \
    V(cudaDevAttrMaxSurface2DLayeredLayers) \
    V(cudaDevAttrMaxSurfaceCubemapWidth) \
    V(cudaDevAttrMaxSurfaceCubemapLayeredWidth) \
    V(cudaDevAttrMaxSurfaceCubemapLayeredLayers) \
    V(cudaDevAttrMaxTexture1DLinearWidth) \
    V(cudaDevAttrMaxTexture2DLinearWidth) \
    V(cudaDevAttrMaxTexture2DLinearHeight) \
    V(cudaDevAttrMaxTexture2DLinearPitch) \
    V(cudaDevAttrMaxTexture2DMipmappedWidth) \
    V(cudaDevAttrMaxTexture2DMipmappedHeight) \
    V(cudaDevAttrComputeCapabilityMajor) \
    V(cudaDevAttrComputeCapabilityMinor) \
    V(cudaDevAttrMaxTexture1DMipmappedWidth) \
    V(cudaDevAttrStreamPrioritiesSupported) \
    V(cudaDevAttrGlobalL1CacheSupported) \
    V(cudaDevAttrLocalL1CacheSupported) \
    V(cudaDevAttrMaxSharedMemoryPerMultiprocessor) \
    V(cudaDevAttrMaxRegistersPerMultiprocessor) \
    V(cudaDevAttrManagedMemory) \
    V(cudaDevAttrIsMultiGpuBoard) \
    V(cudaDevAttrMultiGpuBoardGroupID) \
    V(cudaDevAttrHostNativeAtomicSupported) \
    V(cudaDevAttrSingleToDoublePrecisionPerfRatio) \
    V(cudaDevAttrPageableMemoryAccess) \
    V(cudaDevAttrConcurrentManagedAccess) \
    V(cudaDevAttrComputePreemptionSupported) \
    V(cudaDevAttrCanUseHostPointerForRegisteredMem) \
    V(cudaDevAttrReserved92) \
    V(cudaDevAttrReserved93) \
    V(cudaDevAttrReserved94) \
    V(cudaDevAttrCooperativeLaunch) \
    V(cudaDevAttrReserved96) \
    V(cudaDevAttrMaxSharedMemoryPerBlockOptin) \
    V(cudaDevAttrCanFlushRemoteWrites) \
    V(cudaDevAttrHostRegisterSupported) \
    V(cudaDevAttrPageableMemoryAccessUsesHostPageTables) \
    V(cudaDevAttrDirectManagedMemAccessFromHost) \
    V(cudaDevAttrMaxBlocksPerMultiprocessor) \
    V(cudaDevAttrMaxPersistingL2CacheSize) \
    V(cudaDevAttrMaxAccessPolicyWindowSize) \
    V(cudaDevAttrReservedSharedMemoryPerBlock) \
    V(cudaDevAttrSparseCudaArraySupported) \
    V(cudaDevAttrHostRegisterReadOnlySupported) \
    V(cudaDevAttrTimelineSemaphoreInteropSupported) \
    V(cudaDevAttrMemoryPoolsSupported) \
    V(cudaDevAttrGPUDirectRDMASupported) \
    V(cudaDevAttrGPUDirectRDMAFlushWritesOptions) \
    V(cudaDevAttrGPUDirectRDMAWritesOrdering) \
    V(cudaDevAttrMemoryPoolSupportedHandleTypes) \
    V(cudaDevAttrClusterLaunch) \
    V(cudaDevAttrDeferredMappingCudaArraySupported) \
    V(cudaDevAttrReserved122) \
    V(cudaDevAttrReserved123) \
    V(cudaDevAttrReserved124) \
    V(cudaDevAttrIpcEventSupport) \
    V(cudaDevAttrMemSyncDomainCount) \
    V(cudaDevAttrReserved127) \
    V(cudaDevAttrReserved128) \
    V(cudaDevAttrReserved129) \
    V(cudaDevAttrNumaConfig) \
    V(cudaDevAttrNumaId) \
    V(cudaDevAttrReserved132) \
    V(cudaDevAttrMpsEnabled) \
    V(cudaDevAttrHostNumaId) \
    V(cudaDevAttrD3D12CigSupported) \
    V(cudaDevAttrVulkanCigSupported) \
    V(cudaDevAttrGpuPciDeviceId) \
    V(cudaDevAttrGpuPciSubsystemId) \
    V(cudaDevAttrReserved141) \
    V(cudaDevAttrHostNumaMemoryPoolsSupported) \
    V(cudaDevAttrHostNumaMultinodeIpcSupported) \
    V(cudaDevAttrHostMemoryPoolsSupported) \
    V(cudaDevAttrReserved145) \
    V(cudaDevAttrOnlyPartialHostNativeAtomicSupported)

#define CUDA_SIZES(S) \
    S(CUuuid) \
    S(CUipcMemHandle) \
    S(CUipcEventHandle) \
    S(CUDA_MEMCPY2D_v2) \
    S(CUDA_MEMCPY3D_v2) \
    S(CUmemLocation_v1) \
    S(CUmemAccessDesc_v1) \
    S(CUmemAllocationProp_v1) \
    S(CUmemPoolProps_v1) \
    S(CUstreamBatchMemOpParams_v1) \
    S(CUlaunchAttributeValue) \
    S(CUlaunchAttribute) \
    S(CUlaunchConfig) \
    S(CUctxCreateParams) \
    S(struct cudaExtent) \
    S(struct cudaPos) \
    S(struct cudaPitchedPtr) \
    S(struct cudaMemcpy3DParms) \
    S(struct cudaPointerAttributes) \
    S(struct cudaMemLocation) \
    S(struct cudaMemAccessDesc) \
    S(struct cudaMemPoolProps) \
    S(cudaIpcMemHandle_t) \
    S(cudaIpcEventHandle_t) \
    S(dim3) \
    S(cudaLaunchAttributeValue) \
    S(cudaLaunchAttribute) \
    S(cudaLaunchConfig_t) \
    S(struct cudaFuncAttributes) \
    S(struct cudaDeviceProp)

#define CUDA_OFFSETS(O) \
    O(CUuuid, bytes) \
    O(CUipcMemHandle, reserved) \
    O(CUipcEventHandle, reserved) \
    O(CUDA_MEMCPY2D_v2, srcXInBytes) \
    O(CUDA_MEMCPY2D_v2, srcY) \
    O(CUDA_MEMCPY2D_v2, srcMemoryType) \
    O(CUDA_MEMCPY2D_v2, srcHost) \
    O(CUDA_MEMCPY2D_v2, srcDevice) \
    O(CUDA_MEMCPY2D_v2, srcArray) \
    O(CUDA_MEMCPY2D_v2, srcPitch) \
    O(CUDA_MEMCPY2D_v2, dstXInBytes) \
    O(CUDA_MEMCPY2D_v2, dstY) \
    O(CUDA_MEMCPY2D_v2, dstMemoryType) \
    O(CUDA_MEMCPY2D_v2, dstHost) \
    O(CUDA_MEMCPY2D_v2, dstDevice) \
    O(CUDA_MEMCPY2D_v2, dstArray) \
    O(CUDA_MEMCPY2D_v2, dstPitch) \
    O(CUDA_MEMCPY2D_v2, WidthInBytes) \
    O(CUDA_MEMCPY2D_v2, Height) \
    O(CUDA_MEMCPY3D_v2, srcXInBytes) \
    O(CUDA_MEMCPY3D_v2, srcY) \
    O(CUDA_MEMCPY3D_v2, srcZ) \
    O(CUDA_MEMCPY3D_v2, srcLOD) \
    O(CUDA_MEMCPY3D_v2, srcMemoryType) \
    O(CUDA_MEMCPY3D_v2, srcHost) \
    O(CUDA_MEMCPY3D_v2, srcDevice) \
    O(CUDA_MEMCPY3D_v2, srcArray) \
    O(CUDA_MEMCPY3D_v2, reserved0) \
    O(CUDA_MEMCPY3D_v2, srcPitch) \
    O(CUDA_MEMCPY3D_v2, srcHeight) \
    O(CUDA_MEMCPY3D_v2, dstXInBytes) \
    O(CUDA_MEMCPY3D_v2, dstY) \
    O(CUDA_MEMCPY3D_v2, dstZ) \
    O(CUDA_MEMCPY3D_v2, dstLOD) \
    O(CUDA_MEMCPY3D_v2, dstMemoryType) \
    O(CUDA_MEMCPY3D_v2, dstHost) \
    O(CUDA_MEMCPY3D_v2, dstDevice) \
    O(CUDA_MEMCPY3D_v2, dstArray) \
    O(CUDA_MEMCPY3D_v2, reserved1) \
    O(CUDA_MEMCPY3D_v2, dstPitch) \
    O(CUDA_MEMCPY3D_v2, dstHeight) \
    O(CUDA_MEMCPY3D_v2, WidthInBytes) \
    O(CUDA_MEMCPY3D_v2, Height) \
    O(CUDA_MEMCPY3D_v2, Depth) \
    O(CUmemLocation_v1, type) \
    O(CUmemLocation_v1, id) \
    O(CUmemAccessDesc_v1, location) \
    O(CUmemAccessDesc_v1, flags) \
    O(CUmemAllocationProp_v1, type) \
    O(CUmemAllocationProp_v1, requestedHandleTypes) \
    O(CUmemAllocationProp_v1, location) \
    O(CUmemAllocationProp_v1, win32HandleMetaData) \
    O(CUmemAllocationProp_v1, allocFlags) \
    O(CUmemPoolProps_v1, allocType) \
    O(CUmemPoolProps_v1, handleTypes) \
    O(CUmemPoolProps_v1, location) \
    O(CUmemPoolProps_v1, win32SecurityAttributes) \
    O(CUmemPoolProps_v1, maxSize) \
    O(CUmemPoolProps_v1, usage) \
    O(CUmemPoolProps_v1, reserved) \
    O(CUstreamBatchMemOpParams_v1, operation) \
    O(CUstreamBatchMemOpParams_v1, waitValue) \
    O(CUstreamBatchMemOpParams_v1, writeValue) \
    O(CUstreamBatchMemOpParams_v1, flushRemoteWrites) \
    O(CUstreamBatchMemOpParams_v1, memoryBarrier) \
    O(CUstreamBatchMemOpParams_v1, pad) \
    O(CUlaunchAttribute, id) \
    O(CUlaunchAttribute, value) \
    O(CUlaunchConfig, gridDimX) \
    O(CUlaunchConfig, gridDimY) \
    O(CUlaunchConfig, gridDimZ) \
    O(CUlaunchConfig, blockDimX) \
    O(CUlaunchConfig, blockDimY) \
    O(CUlaunchConfig, blockDimZ) \
    O(CUlaunchConfig, sharedMemBytes) \
    O(CUlaunchConfig, hStream) \
    O(CUlaunchConfig, attrs) \
    O(CUlaunchConfig, numAttrs) \
    O(CUctxCreateParams, execAffinityParams) \
    O(CUctxCreateParams, numExecAffinityParams) \
    O(CUctxCreateParams, cigParams) \
    O(CUuuid, bytes) \
    O(struct cudaExtent, width) \
    O(struct cudaExtent, height) \
    O(struct cudaExtent, depth) \
    O(struct cudaPos, x) \
    O(struct cudaPos, y) \
    O(struct cudaPos, z) \
    O(struct cudaPitchedPtr, ptr) \
    O(struct cudaPitchedPtr, pitch) \
    O(struct cudaPitchedPtr, xsize) \
    O(struct cudaPitchedPtr, ysize) \
    O(struct cudaMemcpy3DParms, srcArray) \
    O(struct cudaMemcpy3DParms, srcPos) \
    O(struct cudaMemcpy3DParms, srcPtr) \
    O(struct cudaMemcpy3DParms, dstArray) \
    O(struct cudaMemcpy3DParms, dstPos) \
    O(struct cudaMemcpy3DParms, dstPtr) \
    O(struct cudaMemcpy3DParms, extent) \
    O(struct cudaMemcpy3DParms, kind) \
    O(struct cudaPointerAttributes, type) \
    O(struct cudaPointerAttributes, device) \
    O(struct cudaPointerAttributes, devicePointer) \
    O(struct cudaPointerAttributes, hostPointer) \
    O(struct cudaPointerAttributes, reserved) \
    O(struct cudaMemLocation, type) \
    O(struct cudaMemLocation, id) \
    O(struct cudaMemAccessDesc, location) \
    O(struct cudaMemAccessDesc, flags) \
    O(struct cudaMemPoolProps, allocType) \
    O(struct cudaMemPoolProps, handleTypes) \
    O(struct cudaMemPoolProps, location) \
    O(struct cudaMemPoolProps, win32SecurityAttributes) \
    O(struct cudaMemPoolProps, maxSize) \
    O(struct cudaMemPoolProps, usage) \
    O(struct cudaMemPoolProps, reserved) \
    O(cudaIpcMemHandle_t, reserved) \
    O(cudaIpcEventHandle_t, reserved) \
    O(dim3, x) \
    O(dim3, y) \
    O(dim3, z) \
    O(cudaLaunchAttribute, id) \
    O(cudaLaunchAttribute, val) \
    O(cudaLaunchConfig_t, gridDim) \
    O(cudaLaunchConfig_t, blockDim) \
    O(cudaLaunchConfig_t, dynamicSmemBytes) \
    O(cudaLaunchConfig_t, stream) \
    O(cudaLaunchConfig_t, attrs) \
    O(cudaLaunchConfig_t, numAttrs) \
    O(struct cudaFuncAttributes, sharedSizeBytes) \
    O(struct cudaFuncAttributes, constSizeBytes) \
    O(struct cudaFuncAttributes, localSizeBytes) \
    O(struct cudaFuncAttributes, maxThreadsPerBlock) \
    O(struct cudaFuncAttributes, numRegs) \
    O(struct cudaFuncAttributes, ptxVersion) \
    O(struct cudaFuncAttributes, binaryVersion) \
    O(struct cudaFuncAttributes, cacheModeCA) \
    O(struct cudaFuncAttributes, maxDynamicSharedSizeBytes) \
    O(struct cudaFuncAttributes, preferredShmemCarveout) \
    O(struct cudaFuncAttributes, clusterDimMustBeSet) \
    O(struct cudaFuncAttributes, requiredClusterWidth) \
    O(struct cudaFuncAttributes, requiredClusterHeight) \
    O(struct cudaFuncAttributes, requiredClusterDepth) \
    O(struct cudaFuncAttributes, clusterSchedulingPolicyPreference) \
    O(struct cudaFuncAttributes, nonPortableClusterSizeAllowed) \
    O(struct cudaFuncAttributes, reserved) \
    O(struct cudaDeviceProp, name) \
    O(struct cudaDeviceProp, uuid) \
    O(struct cudaDeviceProp, luid) \
    O(struct cudaDeviceProp, luidDeviceNodeMask) \
    O(struct cudaDeviceProp, totalGlobalMem) \
    O(struct cudaDeviceProp, sharedMemPerBlock) \
    O(struct cudaDeviceProp, regsPerBlock) \
    O(struct cudaDeviceProp, warpSize) \
    O(struct cudaDeviceProp, memPitch) \
    O(struct cudaDeviceProp, maxThreadsPerBlock) \
    O(struct cudaDeviceProp, maxThreadsDim) \
    O(struct cudaDeviceProp, maxGridSize) \
    O(struct cudaDeviceProp, totalConstMem) \
    O(struct cudaDeviceProp, major) \
    O(struct cudaDeviceProp, minor) \
    O(struct cudaDeviceProp, textureAlignment) \
    O(struct cudaDeviceProp, texturePitchAlignment) \
    O(struct cudaDeviceProp, multiProcessorCount) \
    O(struct cudaDeviceProp, integrated) \
    O(struct cudaDeviceProp, canMapHostMemory) \
    O(struct cudaDeviceProp, maxTexture1D) \
    O(struct cudaDeviceProp, maxTexture1DMipmap) \
    O(struct cudaDeviceProp, maxTexture2D) \
    O(struct cudaDeviceProp, maxTexture2DMipmap) \
    O(struct cudaDeviceProp, maxTexture2DLinear) \
    O(struct cudaDeviceProp, maxTexture2DGather) \
    O(struct cudaDeviceProp, maxTexture3D) \
    O(struct cudaDeviceProp, maxTexture3DAlt) \
    O(struct cudaDeviceProp, maxTextureCubemap) \
    O(struct cudaDeviceProp, maxTexture1DLayered) \
    O(struct cudaDeviceProp, maxTexture2DLayered) \
    O(struct cudaDeviceProp, maxTextureCubemapLayered) \
    O(struct cudaDeviceProp, maxSurface1D) \
    O(struct cudaDeviceProp, maxSurface2D) \
    O(struct cudaDeviceProp, maxSurface3D) \
    O(struct cudaDeviceProp, maxSurface1DLayered) \
    O(struct cudaDeviceProp, maxSurface2DLayered) \
    O(struct cudaDeviceProp, maxSurfaceCubemap) \
    O(struct cudaDeviceProp, maxSurfaceCubemapLayered) \
    O(struct cudaDeviceProp, surfaceAlignment) \
    O(struct cudaDeviceProp, concurrentKernels) \
    O(struct cudaDeviceProp, ECCEnabled) \
    O(struct cudaDeviceProp, pciBusID) \
    O(struct cudaDeviceProp, pciDeviceID) \
    O(struct cudaDeviceProp, pciDomainID) \
    O(struct cudaDeviceProp, tccDriver) \
    O(struct cudaDeviceProp, asyncEngineCount) \
    O(struct cudaDeviceProp, unifiedAddressing) \
    O(struct cudaDeviceProp, memoryBusWidth) \
    O(struct cudaDeviceProp, l2CacheSize) \
    O(struct cudaDeviceProp, persistingL2CacheMaxSize) \
    O(struct cudaDeviceProp, maxThreadsPerMultiProcessor) \
    O(struct cudaDeviceProp, streamPrioritiesSupported) \
    O(struct cudaDeviceProp, globalL1CacheSupported) \
    O(struct cudaDeviceProp, localL1CacheSupported) \
    O(struct cudaDeviceProp, sharedMemPerMultiprocessor) \
    O(struct cudaDeviceProp, regsPerMultiprocessor) \
    O(struct cudaDeviceProp, managedMemory) \
    O(struct cudaDeviceProp, isMultiGpuBoard) \
    O(struct cudaDeviceProp, multiGpuBoardGroupID) \
    O(struct cudaDeviceProp, hostNativeAtomicSupported) \
    O(struct cudaDeviceProp, pageableMemoryAccess) \
    O(struct cudaDeviceProp, concurrentManagedAccess) \
    O(struct cudaDeviceProp, computePreemptionSupported) \
    O(struct cudaDeviceProp, canUseHostPointerForRegisteredMem) \
    O(struct cudaDeviceProp, cooperativeLaunch) \
    O(struct cudaDeviceProp, sharedMemPerBlockOptin) \
    O(struct cudaDeviceProp, pageableMemoryAccessUsesHostPageTables) \
    O(struct cudaDeviceProp, directManagedMemAccessFromHost) \
    O(struct cudaDeviceProp, maxBlocksPerMultiProcessor) \
    O(struct cudaDeviceProp, accessPolicyMaxWindowSize) \
    O(struct cudaDeviceProp, reservedSharedMemPerBlock) \
    O(struct cudaDeviceProp, hostRegisterSupported) \
    O(struct cudaDeviceProp, sparseCudaArraySupported) \
    O(struct cudaDeviceProp, hostRegisterReadOnlySupported) \
    O(struct cudaDeviceProp, timelineSemaphoreInteropSupported) \
    O(struct cudaDeviceProp, memoryPoolsSupported) \
    O(struct cudaDeviceProp, gpuDirectRDMASupported) \
    O(struct cudaDeviceProp, gpuDirectRDMAFlushWritesOptions) \
    O(struct cudaDeviceProp, gpuDirectRDMAWritesOrdering) \
    O(struct cudaDeviceProp, memoryPoolSupportedHandleTypes) \
    O(struct cudaDeviceProp, deferredMappingCudaArraySupported) \
    O(struct cudaDeviceProp, ipcEventSupported) \
    O(struct cudaDeviceProp, clusterLaunch) \
    O(struct cudaDeviceProp, unifiedFunctionPointers) \
    O(struct cudaDeviceProp, deviceNumaConfig) \
    O(struct cudaDeviceProp, deviceNumaId) \
    O(struct cudaDeviceProp, mpsEnabled) \
    O(struct cudaDeviceProp, hostNumaId) \
    O(struct cudaDeviceProp, gpuPciDeviceID) \
    O(struct cudaDeviceProp, gpuPciSubsystemID) \
    O(struct cudaDeviceProp, hostNumaMultinodeIpcSupported) \
    O(struct cudaDeviceProp, reserved)

#define CUDA_FUNCTIONS(F) \
    F(cuInit, CUresult, (unsigned int flags)) \
    F(cuDriverGetVersion, CUresult, (int *version)) \
    F(cuGetErrorString, CUresult, (CUresult error, const char **text)) \
    F(cuGetErrorName, CUresult, (CUresult error, const char **name)) \
    F(cuGetProcAddress, CUresult, (const char *symbol, void **function, int cuda_version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)) \
    F(cuGetExportTable, CUresult, (const void **table, const CUuuid *id)) \
    F(cuDeviceGet, CUresult, (CUdevice *device, int ordinal)) \
    F(cuDeviceGetCount, CUresult, (int *count)) \
    F(cuDeviceGetName, CUresult, (char *name, int length, CUdevice device)) \
    F(cuDeviceGetUuid, CUresult, (CUuuid *uuid, CUdevice device)) \
    F(cuDeviceTotalMem, CUresult, (size_t *bytes, CUdevice device)) \
    F(cuDeviceGetAttribute, CUresult, (int *value, CUdevice_attribute attribute, CUdevice device)) \
    F(cuDeviceGetPCIBusId, CUresult, (char *text, int length, CUdevice device)) \
    F(cuDeviceGetByPCIBusId, CUresult, (CUdevice *device, const char *text)) \
    F(cuDeviceCanAccessPeer, CUresult, (int *can, CUdevice device, CUdevice peer)) \
    F(cuDeviceGetP2PAttribute, CUresult, (int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)) \
    F(cuDeviceGetDefaultMemPool, CUresult, (CUmemoryPool *pool, CUdevice device)) \
    F(cuDeviceGetMemPool, CUresult, (CUmemoryPool *pool, CUdevice device)) \
    F(cuDeviceSetMemPool, CUresult, (CUdevice device, CUmemoryPool pool)) \
    F(cuDevicePrimaryCtxRetain, CUresult, (CUcontext *context, CUdevice device)) \
    F(cuDevicePrimaryCtxRelease, CUresult, (CUdevice device)) \
    F(cuDevicePrimaryCtxReset, CUresult, (CUdevice device)) \
    F(cuDevicePrimaryCtxSetFlags, CUresult, (CUdevice device, unsigned int flags)) \
    F(cuDevicePrimaryCtxGetState, CUresult, (CUdevice device, unsigned int *flags, int *active)) \
    F(cuCtxCreate, CUresult, (CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)) \
    F(cuCtxDestroy, CUresult, (CUcontext context)) \
    F(cuCtxPushCurrent, CUresult, (CUcontext context)) \
    F(cuCtxPopCurrent, CUresult, (CUcontext *context)) \
    F(cuCtxSetCurrent, CUresult, (CUcontext context)) \
    F(cuCtxGetCurrent, CUresult, (CUcontext *context)) \
    F(cuCtxGetDevice, CUresult, (CUdevice *device)) \
    F(cuCtxGetFlags, CUresult, (unsigned int *flags)) \
    F(cuCtxGetId, CUresult, (CUcontext context, unsigned long long *id)) \
    F(cuCtxGetApiVersion, CUresult, (CUcontext context, unsigned int *version)) \
    F(cuCtxSynchronize, CUresult, (void)) \
    F(cuCtxSetLimit, CUresult, (CUlimit limit, size_t value)) \
    F(cuCtxGetLimit, CUresult, (size_t *value, CUlimit limit)) \
    F(cuCtxGetCacheConfig, CUresult, (CUfunc_cache *config)) \
    F(cuCtxSetCacheConfig, CUresult, (CUfunc_cache config)) \
    F(cuCtxGetStreamPriorityRange, CUresult, (int *least, int *greatest)) \
    F(cuCtxEnablePeerAccess, CUresult, (CUcontext peer, unsigned int flags)) \
    F(cuCtxDisablePeerAccess, CUresult, (CUcontext peer)) \
    F(cuMemGetInfo, CUresult, (size_t *free_bytes, size_t *total_bytes)) \
    F(cuMemAlloc, CUresult, (CUdeviceptr *pointer, size_t bytes)) \
    F(cuMemAllocPitch, CUresult, (CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)) \
    F(cuMemFree, CUresult, (CUdeviceptr pointer)) \
    F(cuMemGetAddressRange, CUresult, (CUdeviceptr *base, size_t *size, CUdeviceptr pointer)) \
    F(cuMemAllocHost, CUresult, (void **pointer, size_t bytes)) \
    F(cuMemFreeHost, CUresult, (void *pointer)) \
    F(cuMemHostAlloc, CUresult, (void **pointer, size_t bytes, unsigned int flags)) \
    F(cuMemHostGetDevicePointer, CUresult, (CUdeviceptr *device, void *host, unsigned int flags)) \
    F(cuMemHostGetFlags, CUresult, (unsigned int *flags, void *pointer)) \
    F(cuMemHostRegister, CUresult, (void *pointer, size_t bytes, unsigned int flags)) \
    F(cuMemHostUnregister, CUresult, (void *pointer)) \
    F(cuMemAllocManaged, CUresult, (CUdeviceptr *pointer, size_t bytes, unsigned int flags)) \
    F(cuMemPrefetchAsync, CUresult, (CUdeviceptr pointer, size_t count, CUmemLocation location, unsigned int flags, CUstream stream)) \
    F(cuMemAdvise, CUresult, (CUdeviceptr pointer, size_t count, CUmem_advise advice, CUmemLocation location)) \
    F(cuPointerGetAttribute, CUresult, (void *data, CUpointer_attribute attribute, CUdeviceptr pointer)) \
    F(cuPointerGetAttributes, CUresult, (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)) \
    F(cuPointerSetAttribute, CUresult, (const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)) \
    F(cuIpcGetMemHandle, CUresult, (CUipcMemHandle *handle, CUdeviceptr pointer)) \
    F(cuIpcOpenMemHandle, CUresult, (CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)) \
    F(cuIpcCloseMemHandle, CUresult, (CUdeviceptr pointer)) \
    F(cuIpcGetEventHandle, CUresult, (CUipcEventHandle *handle, CUevent event)) \
    F(cuIpcOpenEventHandle, CUresult, (CUevent *event, CUipcEventHandle handle)) \
    F(cuMemcpy, CUresult, (CUdeviceptr destination, CUdeviceptr source, size_t bytes)) \
    F(cuMemcpyAsync, CUresult, (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)) \
    F(cuMemcpyHtoD, CUresult, (CUdeviceptr destination, const void *source, size_t bytes)) \
    F(cuMemcpyDtoH, CUresult, (void *destination, CUdeviceptr source, size_t bytes)) \
    F(cuMemcpyDtoD, CUresult, (CUdeviceptr destination, CUdeviceptr source, size_t bytes)) \
    F(cuMemcpyHtoDAsync, CUresult, (CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)) \
    F(cuMemcpyDtoHAsync, CUresult, (void *destination, CUdeviceptr source, size_t bytes, CUstream stream)) \
    F(cuMemcpyDtoDAsync, CUresult, (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)) \
    F(cuMemcpyPeer, CUresult, (CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes)) \
    F(cuMemcpyPeerAsync, CUresult, (CUdeviceptr destination, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes, CUstream stream)) \
    F(cuMemcpy2D, CUresult, (const CUDA_MEMCPY2D *copy)) \
    F(cuMemcpy2DUnaligned, CUresult, (const CUDA_MEMCPY2D *copy)) \
    F(cuMemcpy2DAsync, CUresult, (const CUDA_MEMCPY2D *copy, CUstream stream)) \
    F(cuMemcpy3D, CUresult, (const CUDA_MEMCPY3D *copy)) \
    F(cuMemcpy3DAsync, CUresult, (const CUDA_MEMCPY3D *copy, CUstream stream)) \
    F(cuMemsetD8, CUresult, (CUdeviceptr pointer, unsigned char value, size_t count)) \
    F(cuMemsetD16, CUresult, (CUdeviceptr pointer, unsigned short value, size_t count)) \
    F(cuMemsetD32, CUresult, (CUdeviceptr pointer, unsigned int value, size_t count)) \
    F(cuMemsetD8Async, CUresult, (CUdeviceptr pointer, unsigned char value, size_t count, CUstream stream)) \
    F(cuMemsetD16Async, CUresult, (CUdeviceptr pointer, unsigned short value, size_t count, CUstream stream)) \
    F(cuMemsetD32Async, CUresult, (CUdeviceptr pointer, unsigned int value, size_t count, CUstream stream)) \
    F(cuMemsetD2D8, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned char value, size_t width, size_t height)) \
    F(cuMemsetD2D16, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned short value, size_t width, size_t height)) \
    F(cuMemsetD2D32, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned int value, size_t width, size_t height)) \
    F(cuMemsetD2D8Async, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)) \
    F(cuMemsetD2D16Async, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)) \
    F(cuMemsetD2D32Async, CUresult, (CUdeviceptr pointer, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)) \
    F(cuMemAddressReserve, CUresult, (CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr wish, unsigned long long flags)) \
    F(cuMemAddressFree, CUresult, (CUdeviceptr pointer, size_t size)) \
    F(cuMemCreate, CUresult, (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties, unsigned long long flags)) \
    F(cuMemRelease, CUresult, (CUmemGenericAllocationHandle handle)) \
    F(cuMemMap, CUresult, (CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    F(cuMemUnmap, CUresult, (CUdeviceptr pointer, size_t size)) \
    F(cuMemSetAccess, CUresult, (CUdeviceptr pointer, size_t size, const CUmemAccessDesc *descriptions, size_t count)) \
    F(cuMemGetAccess, CUresult, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)) \
    F(cuMemGetAllocationGranularity, CUresult, (size_t *granularity, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)) \
    F(cuMemGetAllocationPropertiesFromHandle, CUresult, (CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)) \
    F(cuMemRetainAllocationHandle, CUresult, (CUmemGenericAllocationHandle *handle, void *address)) \
    F(cuMemExportToShareableHandle, CUresult, (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)) \
    F(cuMemImportFromShareableHandle, CUresult, (CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type)) \
    F(cuMemAllocAsync, CUresult, (CUdeviceptr *pointer, size_t bytes, CUstream stream)) \
    F(cuMemAllocFromPoolAsync, CUresult, (CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)) \
    F(cuMemFreeAsync, CUresult, (CUdeviceptr pointer, CUstream stream)) \
    F(cuMemPoolCreate, CUresult, (CUmemoryPool *pool, const CUmemPoolProps *properties)) \
    F(cuMemPoolDestroy, CUresult, (CUmemoryPool pool)) \
    F(cuMemPoolTrimTo, CUresult, (CUmemoryPool pool, size_t keep)) \
    F(cuMemPoolSetAttribute, CUresult, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    F(cuMemPoolGetAttribute, CUresult, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    F(cuMemPoolSetAccess, CUresult, (CUmemoryPool pool, const CUmemAccessDesc *descriptions, size_t count)) \
    F(cuMemPoolGetAccess, CUresult, (CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)) \
    F(cuStreamCreate, CUresult, (CUstream *stream, unsigned int flags)) \
    F(cuStreamCreateWithPriority, CUresult, (CUstream *stream, unsigned int flags, int priority)) \
    F(cuStreamDestroy, CUresult, (CUstream stream)) \
    F(cuStreamGetPriority, CUresult, (CUstream stream, int *priority)) \
    F(cuStreamGetFlags, CUresult, (CUstream stream, unsigned int *flags)) \
    F(cuStreamGetId, CUresult, (CUstream stream, unsigned long long *id)) \
    F(cuStreamGetCtx, CUresult, (CUstream stream, CUcontext *context)) \
    F(cuStreamGetDevice, CUresult, (CUstream stream, CUdevice *device)) \
    F(cuStreamQuery, CUresult, (CUstream stream)) \
    F(cuStreamSynchronize, CUresult, (CUstream stream)) \
    F(cuStreamWaitEvent, CUresult, (CUstream stream, CUevent event, unsigned int flags)) \
    F(cuStreamAddCallback, CUresult, (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)) \
    F(cuStreamAttachMemAsync, CUresult, (CUstream stream, CUdeviceptr pointer, size_t length, unsigned int flags)) \
    F(cuStreamWaitValue32, CUresult, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    F(cuStreamWaitValue64, CUresult, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)) \
    F(cuStreamWriteValue32, CUresult, (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    F(cuStreamWriteValue64, CUresult, (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)) \
    F(cuStreamBatchMemOp, CUresult, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags)) \
    F(cuEventCreate, CUresult, (CUevent *event, unsigned int flags)) \
    F(cuEventDestroy, CUresult, (CUevent event)) \
    F(cuEventRecord, CUresult, (CUevent event, CUstream stream)) \
    F(cuEventRecordWithFlags, CUresult, (CUevent event, CUstream stream, unsigned int flags)) \
    F(cuEventQuery, CUresult, (CUevent event)) \
    F(cuEventSynchronize, CUresult, (CUevent event)) \
    F(cuEventElapsedTime, CUresult, (float *milliseconds, CUevent start, CUevent end)) \
    F(cuLaunchHostFunc, CUresult, (CUstream stream, CUhostFn function, void *data)) \
    F(cuLaunchKernel, CUresult, (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)) \
    F(cuLaunchKernelEx, CUresult, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)) \
    F(cuModuleLoadData, CUresult, (CUmodule *module, const void *image)) \
    F(cuModuleUnload, CUresult, (CUmodule module)) \
    F(cuModuleGetFunction, CUresult, (CUfunction *function, CUmodule module, const char *name)) \
    F(cuStreamBeginCapture, CUresult, (CUstream stream, CUstreamCaptureMode mode)) \
    F(cuStreamEndCapture, CUresult, (CUstream stream, CUgraph *graph)) \
    F(cuStreamIsCapturing, CUresult, (CUstream stream, CUstreamCaptureStatus *status)) \
    F(cuThreadExchangeStreamCaptureMode, CUresult, (CUstreamCaptureMode *mode)) \
    F(cuGraphCreate, CUresult, (CUgraph *graph, unsigned int flags)) \
    F(cuGraphDestroy, CUresult, (CUgraph graph)) \
    F(cuGraphInstantiate, CUresult, (CUgraphExec *executable, CUgraph graph, unsigned long long flags)) \
    F(cuGraphExecDestroy, CUresult, (CUgraphExec executable)) \
    F(cuGraphLaunch, CUresult, (CUgraphExec executable, CUstream stream)) \
    F(cudaGetLastError, cudaError_t, (void)) \
    F(cudaPeekAtLastError, cudaError_t, (void)) \
    F(cudaGetErrorName, const char *, (cudaError_t error)) \
    F(cudaGetErrorString, const char *, (cudaError_t error)) \
    F(cudaDriverGetVersion, cudaError_t, (int *version)) \
    F(cudaRuntimeGetVersion, cudaError_t, (int *version)) \
    F(cudaGetDriverEntryPoint, cudaError_t, (const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)) \
    F(cudaGetDriverEntryPointByVersion, cudaError_t, (const char *symbol, void **function, unsigned int version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)) \
    F(cudaGetDeviceCount, cudaError_t, (int *count)) \
    F(cudaGetDevice, cudaError_t, (int *device)) \
    F(cudaSetDevice, cudaError_t, (int device)) \
    F(cudaInitDevice, cudaError_t, (int device, unsigned int device_flags, unsigned int flags)) \
    F(cudaSetDeviceFlags, cudaError_t, (unsigned int flags)) \
    F(cudaGetDeviceFlags, cudaError_t, (unsigned int *flags)) \
    F(cudaSetValidDevices, cudaError_t, (int *devices, int count)) \
    F(cudaChooseDevice, cudaError_t, (int *device, const struct cudaDeviceProp *wish)) \
    F(cudaGetDeviceProperties, cudaError_t, (struct cudaDeviceProp *properties, int device)) \
    F(cudaDeviceGetAttribute, cudaError_t, (int *value, enum cudaDeviceAttr attribute, int device)) \
    F(cudaDeviceGetPCIBusId, cudaError_t, (char *text, int length, int device)) \
    F(cudaDeviceGetByPCIBusId, cudaError_t, (int *device, const char *text)) \
    F(cudaDeviceSynchronize, cudaError_t, (void)) \
    F(cudaDeviceReset, cudaError_t, (void)) \
    F(cudaDeviceGetLimit, cudaError_t, (size_t *value, enum cudaLimit limit)) \
    F(cudaDeviceSetLimit, cudaError_t, (enum cudaLimit limit, size_t value)) \
    F(cudaDeviceGetCacheConfig, cudaError_t, (enum cudaFuncCache *config)) \
    F(cudaDeviceSetCacheConfig, cudaError_t, (enum cudaFuncCache config)) \
    F(cudaDeviceGetStreamPriorityRange, cudaError_t, (int *least, int *greatest)) \
    F(cudaDeviceCanAccessPeer, cudaError_t, (int *can, int device, int peer)) \
    F(cudaDeviceEnablePeerAccess, cudaError_t, (int peer, unsigned int flags)) \
    F(cudaDeviceDisablePeerAccess, cudaError_t, (int peer)) \
    F(cudaDeviceGetP2PAttribute, cudaError_t, (int *value, enum cudaDeviceP2PAttr attribute, int source, int destination)) \
    F(cudaDeviceGetDefaultMemPool, cudaError_t, (cudaMemPool_t *pool, int device)) \
    F(cudaDeviceGetMemPool, cudaError_t, (cudaMemPool_t *pool, int device)) \
    F(cudaDeviceSetMemPool, cudaError_t, (int device, cudaMemPool_t pool)) \
    F(cudaMalloc, cudaError_t, (void **pointer, size_t size)) \
    F(cudaMallocPitch, cudaError_t, (void **pointer, size_t *pitch, size_t width, size_t height)) \
    F(cudaMallocManaged, cudaError_t, (void **pointer, size_t size, unsigned int flags)) \
    F(cudaMallocHost, cudaError_t, (void **pointer, size_t size)) \
    F(cudaHostAlloc, cudaError_t, (void **pointer, size_t size, unsigned int flags)) \
    F(cudaHostRegister, cudaError_t, (void *pointer, size_t size, unsigned int flags)) \
    F(cudaHostUnregister, cudaError_t, (void *pointer)) \
    F(cudaHostGetDevicePointer, cudaError_t, (void **device, void *host, unsigned int flags)) \
    F(cudaHostGetFlags, cudaError_t, (unsigned int *flags, void *pointer)) \
    F(cudaFree, cudaError_t, (void *pointer)) \
    F(cudaFreeHost, cudaError_t, (void *pointer)) \
    F(cudaMemGetInfo, cudaError_t, (size_t *free_bytes, size_t *total_bytes)) \
    F(cudaPointerGetAttributes, cudaError_t, (struct cudaPointerAttributes *attributes, const void *pointer)) \
    F(cudaMemcpy, cudaError_t, (void *destination, const void *source, size_t count, enum cudaMemcpyKind kind)) \
    F(cudaMemcpyAsync, cudaError_t, (void *destination, const void *source, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)) \
    F(cudaMemcpyPeer, cudaError_t, (void *destination, int to, const void *source, int from, size_t count)) \
    F(cudaMemcpyPeerAsync, cudaError_t, (void *destination, int to, const void *source, int from, size_t count, cudaStream_t stream)) \
    F(cudaMemcpy2D, cudaError_t, (void *destination, size_t dpitch, const void *source, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)) \
    F(cudaMemcpy2DAsync, cudaError_t, (void *destination, size_t dpitch, const void *source, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)) \
    F(cudaMemcpy3D, cudaError_t, (const struct cudaMemcpy3DParms *copy)) \
    F(cudaMemcpy3DAsync, cudaError_t, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream)) \
    F(cudaMemset, cudaError_t, (void *pointer, int value, size_t count)) \
    F(cudaMemsetAsync, cudaError_t, (void *pointer, int value, size_t count, cudaStream_t stream)) \
    F(cudaMemset2D, cudaError_t, (void *pointer, size_t pitch, int value, size_t width, size_t height)) \
    F(cudaMemset2DAsync, cudaError_t, (void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)) \
    F(cudaMemPrefetchAsync, cudaError_t, (const void *pointer, size_t count, struct cudaMemLocation location, unsigned int flags, cudaStream_t stream)) \
    F(cudaMemAdvise, cudaError_t, (const void *pointer, size_t count, enum cudaMemoryAdvise advice, struct cudaMemLocation location)) \
    F(cudaIpcGetMemHandle, cudaError_t, (cudaIpcMemHandle_t *handle, void *pointer)) \
    F(cudaIpcOpenMemHandle, cudaError_t, (void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)) \
    F(cudaIpcCloseMemHandle, cudaError_t, (void *pointer)) \
    F(cudaIpcGetEventHandle, cudaError_t, (cudaIpcEventHandle_t *handle, cudaEvent_t event)) \
    F(cudaIpcOpenEventHandle, cudaError_t, (cudaEvent_t *event, cudaIpcEventHandle_t handle)) \
    F(cudaMallocAsync, cudaError_t, (void **pointer, size_t size, cudaStream_t stream)) \
    F(cudaMallocFromPoolAsync, cudaError_t, (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)) \
    F(cudaFreeAsync, cudaError_t, (void *pointer, cudaStream_t stream)) \
    F(cudaMemPoolCreate, cudaError_t, (cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)) \
    F(cudaMemPoolDestroy, cudaError_t, (cudaMemPool_t pool)) \
    F(cudaMemPoolTrimTo, cudaError_t, (cudaMemPool_t pool, size_t keep)) \
    F(cudaMemPoolSetAttribute, cudaError_t, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)) \
    F(cudaMemPoolGetAttribute, cudaError_t, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)) \
    F(cudaMemPoolSetAccess, cudaError_t, (cudaMemPool_t pool, const struct cudaMemAccessDesc *descriptions, size_t count)) \
    F(cudaMemPoolGetAccess, cudaError_t, (enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location)) \
    F(cudaStreamCreate, cudaError_t, (cudaStream_t *stream)) \
    F(cudaStreamCreateWithFlags, cudaError_t, (cudaStream_t *stream, unsigned int flags)) \
    F(cudaStreamCreateWithPriority, cudaError_t, (cudaStream_t *stream, unsigned int flags, int priority)) \
    F(cudaStreamDestroy, cudaError_t, (cudaStream_t stream)) \
    F(cudaStreamGetPriority, cudaError_t, (cudaStream_t stream, int *priority)) \
    F(cudaStreamGetFlags, cudaError_t, (cudaStream_t stream, unsigned int *flags)) \
    F(cudaStreamGetId, cudaError_t, (cudaStream_t stream, unsigned long long *id)) \
    F(cudaStreamGetDevice, cudaError_t, (cudaStream_t stream, int *device)) \
    F(cudaStreamQuery, cudaError_t, (cudaStream_t stream)) \
    F(cudaStreamSynchronize, cudaError_t, (cudaStream_t stream)) \
    F(cudaStreamWaitEvent, cudaError_t, (cudaStream_t stream, cudaEvent_t event, unsigned int flags)) \
    F(cudaStreamAddCallback, cudaError_t, (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags)) \
    F(cudaStreamBeginCapture, cudaError_t, (cudaStream_t stream, enum cudaStreamCaptureMode mode)) \
    F(cudaStreamEndCapture, cudaError_t, (cudaStream_t stream, cudaGraph_t *graph)) \
    F(cudaStreamIsCapturing, cudaError_t, (cudaStream_t stream, enum cudaStreamCaptureStatus *status)) \
    F(cudaThreadExchangeStreamCaptureMode, cudaError_t, (enum cudaStreamCaptureMode *mode)) \
    F(cudaEventCreate, cudaError_t, (cudaEvent_t *event)) \
    F(cudaEventCreateWithFlags, cudaError_t, (cudaEvent_t *event, unsigned int flags)) \
    F(cudaEventDestroy, cudaError_t, (cudaEvent_t event)) \
    F(cudaEventRecord, cudaError_t, (cudaEvent_t event, cudaStream_t stream)) \
    F(cudaEventRecordWithFlags, cudaError_t, (cudaEvent_t event, cudaStream_t stream, unsigned int flags)) \
    F(cudaEventQuery, cudaError_t, (cudaEvent_t event)) \
    F(cudaEventSynchronize, cudaError_t, (cudaEvent_t event)) \
    F(cudaEventElapsedTime, cudaError_t, (float *milliseconds, cudaEvent_t start, cudaEvent_t end)) \
    F(cudaLaunchHostFunc, cudaError_t, (cudaStream_t stream, cudaHostFn_t function, void *data)) \
    F(cudaLaunchKernel, cudaError_t, (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream)) \
    F(cudaLaunchKernelExC, cudaError_t, (const cudaLaunchConfig_t *config, const void *function, void **arguments)) \
    F(cudaFuncGetAttributes, cudaError_t, (struct cudaFuncAttributes *attributes, const void *function)) \
    F(cudaGraphCreate, cudaError_t, (cudaGraph_t *graph, unsigned int flags)) \
    F(cudaGraphDestroy, cudaError_t, (cudaGraph_t graph)) \
    F(cudaGraphInstantiate, cudaError_t, (cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)) \
    F(cudaGraphExecDestroy, cudaError_t, (cudaGraphExec_t executable)) \
    F(cudaGraphLaunch, cudaError_t, (cudaGraphExec_t executable, cudaStream_t stream))

#define NCCL_VALUES(V) \
    V(ncclSuccess) \
    V(ncclUnhandledCudaError) \
    V(ncclSystemError) \
    V(ncclInternalError) \
    V(ncclInvalidArgument) \
    V(ncclInvalidUsage) \
    V(ncclRemoteError) \
    V(ncclInProgress) \
    V(ncclNumResults) \
    V(ncclInt8) \
    V(ncclChar) \
    V(ncclUint8) \
    V(ncclInt32) \
    V(ncclInt) \
    V(ncclUint32) \
    V(ncclInt64) \
    V(ncclUint64) \
    V(ncclFloat16) \
    V(ncclHalf) \
    V(ncclFloat32) \
    V(ncclFloat) \
    V(ncclFloat64) \
    V(ncclDouble) \
    V(ncclBfloat16) \
    V(ncclFloat8e4m3) \
    V(ncclFloat8e5m2) \
    V(ncclNumTypes) \
    V(ncclNumOps_dummy) \
    V(ncclSum) \
    V(ncclProd) \
    V(ncclMax) \
    V(ncclMin) \
    V(ncclAvg) \
    V(ncclNumOps) \
    V(ncclMaxRedOp) \
    V(ncclScalarDevice) \
    V(ncclScalarHostImmediate) \
    V(NCCL_MAJOR) \
    V(NCCL_MINOR) \
    V(NCCL_PATCH) \
    V(NCCL_VERSION_CODE) \
    V(NCCL_UNIQUE_ID_BYTES) \
    V(NCCL_SPLIT_NOCOLOR) \
    V(NCCL_WIN_DEFAULT) \
    V(NCCL_WIN_COLL_SYMMETRIC) \
    V(NCCL_WIN_REQUIRED_ALIGNMENT) \
    V(NCCL_CTA_POLICY_DEFAULT) \
    V(NCCL_CTA_POLICY_EFFICIENCY) \
    V(NCCL_CTA_POLICY_ZERO) \
    V(NCCL_SHRINK_DEFAULT) \
    V(NCCL_SHRINK_ABORT) \
    V(NCCL_REVOKE_DEFAULT)

#define NCCL_SIZES(S) \
    S(ncclUniqueId) \
    S(ncclConfig_t) \
    S(ncclSimInfo_t)

#define NCCL_OFFSETS(O) \
    O(ncclUniqueId, internal) \
    O(ncclConfig_t, size) \
    O(ncclConfig_t, magic) \
    O(ncclConfig_t, version) \
    O(ncclConfig_t, blocking) \
    O(ncclConfig_t, cgaClusterSize) \
    O(ncclConfig_t, minCTAs) \
    O(ncclConfig_t, maxCTAs) \
    O(ncclConfig_t, netName) \
    O(ncclConfig_t, splitShare) \
    O(ncclConfig_t, trafficClass) \
    O(ncclConfig_t, commName) \
    O(ncclConfig_t, collnetEnable) \
    O(ncclConfig_t, CTAPolicy) \
    O(ncclConfig_t, shrinkShare) \
    O(ncclConfig_t, nvlsCTAs) \
    O(ncclConfig_t, nChannelsPerNetPeer) \
    O(ncclConfig_t, nvlinkCentricSched) \
    O(ncclSimInfo_t, size) \
    O(ncclSimInfo_t, magic) \
    O(ncclSimInfo_t, version) \
    O(ncclSimInfo_t, estimatedTime)

#define NCCL_FUNCTIONS(F) \
    F(ncclMemAlloc, ncclResult_t, (void **ptr, size_t size)) \
    F(pncclMemAlloc, ncclResult_t, (void **ptr, size_t size)) \
    F(ncclMemFree, ncclResult_t, (void *ptr)) \
    F(pncclMemFree, ncclResult_t, (void *ptr)) \
    F(ncclGetVersion, ncclResult_t, (int *version)) \
    F(pncclGetVersion, ncclResult_t, (int *version)) \
    F(ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id)) \
    F(pncclGetUniqueId, ncclResult_t, (ncclUniqueId * id)) \
    F(ncclCommInitRankConfig, ncclResult_t, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)) \
    F(pncclCommInitRankConfig, ncclResult_t, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)) \
    F(ncclCommInitRank, ncclResult_t, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank)) \
    F(pncclCommInitRank, ncclResult_t, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank)) \
    F(ncclCommInitAll, ncclResult_t, (ncclComm_t * comms, int ndev, const int *devices)) \
    F(pncclCommInitAll, ncclResult_t, (ncclComm_t * comms, int ndev, const int *devices)) \
    F(ncclCommInitRankScalable, ncclResult_t, (ncclComm_t * comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config)) \
    F(pncclCommInitRankScalable, ncclResult_t, (ncclComm_t * comm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config)) \
    F(ncclCommFinalize, ncclResult_t, (ncclComm_t comm)) \
    F(pncclCommFinalize, ncclResult_t, (ncclComm_t comm)) \
    F(ncclCommDestroy, ncclResult_t, (ncclComm_t comm)) \
    F(pncclCommDestroy, ncclResult_t, (ncclComm_t comm)) \
    F(ncclCommAbort, ncclResult_t, (ncclComm_t comm)) \
    F(pncclCommAbort, ncclResult_t, (ncclComm_t comm)) \
    F(ncclCommRevoke, ncclResult_t, (ncclComm_t comm, int flags)) \
    F(pncclCommRevoke, ncclResult_t, (ncclComm_t comm, int flags)) \
    F(ncclCommSplit, ncclResult_t, (ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)) \
    F(pncclCommSplit, ncclResult_t, (ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)) \
    F(ncclCommShrink, ncclResult_t, (ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config, int flags)) \
    F(pncclCommShrink, ncclResult_t, (ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config, int flags)) \
    F(ncclGetErrorString, const char *, (ncclResult_t result)) \
    F(pncclGetErrorString, const char *, (ncclResult_t result)) \
    F(ncclGetLastError, const char *, (ncclComm_t comm)) \
    F(pncclGetLastError, const char *, (ncclComm_t comm)) \
    F(ncclResetDebugInit, void, (void)) \
    F(pncclResetDebugInit, void, (void)) \
    F(ncclCommGetAsyncError, ncclResult_t, (ncclComm_t comm, ncclResult_t *error)) \
    F(pncclCommGetAsyncError, ncclResult_t, (ncclComm_t comm, ncclResult_t *error)) \
    F(ncclCommCount, ncclResult_t, (const ncclComm_t comm, int *count)) \
    F(pncclCommCount, ncclResult_t, (const ncclComm_t comm, int *count)) \
    F(ncclCommCuDevice, ncclResult_t, (const ncclComm_t comm, int *device)) \
    F(pncclCommCuDevice, ncclResult_t, (const ncclComm_t comm, int *device)) \
    F(ncclCommUserRank, ncclResult_t, (const ncclComm_t comm, int *rank)) \
    F(pncclCommUserRank, ncclResult_t, (const ncclComm_t comm, int *rank)) \
    F(ncclCommRegister, ncclResult_t, (const ncclComm_t comm, void *buffer, size_t size, void **handle)) \
    F(pncclCommRegister, ncclResult_t, (const ncclComm_t comm, void *buffer, size_t size, void **handle)) \
    F(ncclCommDeregister, ncclResult_t, (const ncclComm_t comm, void *handle)) \
    F(pncclCommDeregister, ncclResult_t, (const ncclComm_t comm, void *handle)) \
    F(ncclCommWindowRegister, ncclResult_t, (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)) \
    F(pncclCommWindowRegister, ncclResult_t, (ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)) \
    F(ncclCommWindowDeregister, ncclResult_t, (ncclComm_t comm, ncclWindow_t window)) \
    F(pncclCommWindowDeregister, ncclResult_t, (ncclComm_t comm, ncclWindow_t window)) \
    F(ncclRedOpCreatePreMulSum, ncclResult_t, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm)) \
    F(pncclRedOpCreatePreMulSum, ncclResult_t, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm)) \
    F(ncclRedOpDestroy, ncclResult_t, (ncclRedOp_t op, ncclComm_t comm)) \
    F(pncclRedOpDestroy, ncclResult_t, (ncclRedOp_t op, ncclComm_t comm)) \
    F(ncclReduce, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclReduce, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclBcast, ncclResult_t, (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclBcast, ncclResult_t, (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclBroadcast, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclBroadcast, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclAllReduce, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclAllReduce, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclReduceScatter, ncclResult_t, (const void *send, void *recv, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclReduceScatter, ncclResult_t, (const void *send, void *recv, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclAllGather, ncclResult_t, (const void *send, void *recv, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclAllGather, ncclResult_t, (const void *send, void *recv, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclAlltoAll, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclAlltoAll, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclGather, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclGather, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclScatter, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclScatter, ncclResult_t, (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclSend, ncclResult_t, (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclSend, ncclResult_t, (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclRecv, ncclResult_t, (void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) \
    F(pncclRecv, ncclResult_t, (void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) \
    F(ncclGroupStart, ncclResult_t, (void)) \
    F(pncclGroupStart, ncclResult_t, (void)) \
    F(ncclGroupEnd, ncclResult_t, (void)) \
    F(pncclGroupEnd, ncclResult_t, (void)) \
    F(ncclGroupSimulateEnd, ncclResult_t, (ncclSimInfo_t * info)) \
    F(pncclGroupSimulateEnd, ncclResult_t, (ncclSimInfo_t * info))

/* clang-format on */

#endif
