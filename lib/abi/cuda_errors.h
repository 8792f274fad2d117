/* cuda_errors.h - the result codes of CUDA 13.0, once for cuda.h, cuda_runtime_api.h and the software GPU.
 *
 * BOTH(value, driver name, runtime name, text), DRIVER(value, name, text), RUNTIME(value, name, text).
 * Values are part of the ABI; lib/abi/test compares them with the real headers. The texts are ours.
 */
#ifndef PRISM_ABI_CUDA_ERRORS_H
#define PRISM_ABI_CUDA_ERRORS_H

#define PRISM_CUDA_ERRORS(BOTH, DRIVER, RUNTIME) \
    BOTH(0, CUDA_SUCCESS, cudaSuccess, "no error") \
    BOTH(1, CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue, "invalid argument") \
    BOTH(2, CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation, "out of memory") \
    BOTH(3, CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError, "initialization error") \
    BOTH(4, CUDA_ERROR_DEINITIALIZED, cudaErrorCudartUnloading, "driver shutting down") \
    BOTH(5, CUDA_ERROR_PROFILER_DISABLED, cudaErrorProfilerDisabled, "profiler disabled") \
    BOTH(6, CUDA_ERROR_PROFILER_NOT_INITIALIZED, cudaErrorProfilerNotInitialized, "profiler not initialized") \
    BOTH(7, CUDA_ERROR_PROFILER_ALREADY_STARTED, cudaErrorProfilerAlreadyStarted, "profiler already started") \
    BOTH(8, CUDA_ERROR_PROFILER_ALREADY_STOPPED, cudaErrorProfilerAlreadyStopped, "profiler already stopped") \
    RUNTIME(9, cudaErrorInvalidConfiguration, "invalid configuration") \
    RUNTIME(12, cudaErrorInvalidPitchValue, "invalid pitch value") \
    RUNTIME(13, cudaErrorInvalidSymbol, "invalid symbol") \
    RUNTIME(16, cudaErrorInvalidHostPointer, "invalid host pointer") \
    RUNTIME(17, cudaErrorInvalidDevicePointer, "invalid device pointer") \
    RUNTIME(18, cudaErrorInvalidTexture, "invalid texture") \
    RUNTIME(19, cudaErrorInvalidTextureBinding, "invalid texture binding") \
    RUNTIME(20, cudaErrorInvalidChannelDescriptor, "invalid channel descriptor") \
    RUNTIME(21, cudaErrorInvalidMemcpyDirection, "invalid memcpy direction") \
    RUNTIME(22, cudaErrorAddressOfConstant, "address of constant") \
    RUNTIME(23, cudaErrorTextureFetchFailed, "texture fetch failed") \
    RUNTIME(24, cudaErrorTextureNotBound, "texture not bound") \
    RUNTIME(25, cudaErrorSynchronizationError, "synchronization error") \
    RUNTIME(26, cudaErrorInvalidFilterSetting, "invalid filter setting") \
    RUNTIME(27, cudaErrorInvalidNormSetting, "invalid norm setting") \
    RUNTIME(28, cudaErrorMixedDeviceExecution, "mixed device execution") \
    RUNTIME(31, cudaErrorNotYetImplemented, "not yet implemented") \
    RUNTIME(32, cudaErrorMemoryValueTooLarge, "memory value too large") \
    BOTH(34, CUDA_ERROR_STUB_LIBRARY, cudaErrorStubLibrary, "CUDA driver is a stub library") \
    RUNTIME(35, cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    BOTH(36, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, cudaErrorCallRequiresNewerDriver, "call requires newer driver") \
    RUNTIME(37, cudaErrorInvalidSurface, "invalid surface") \
    RUNTIME(43, cudaErrorDuplicateVariableName, "duplicate variable name") \
    RUNTIME(44, cudaErrorDuplicateTextureName, "duplicate texture name") \
    RUNTIME(45, cudaErrorDuplicateSurfaceName, "duplicate surface name") \
    BOTH(46, CUDA_ERROR_DEVICE_UNAVAILABLE, cudaErrorDevicesUnavailable, "device unavailable") \
    RUNTIME(49, cudaErrorIncompatibleDriverContext, "incompatible driver context") \
    RUNTIME(52, cudaErrorMissingConfiguration, "missing configuration") \
    RUNTIME(53, cudaErrorPriorLaunchFailure, "prior launch failure") \
    RUNTIME(65, cudaErrorLaunchMaxDepthExceeded, "launch max depth exceeded") \
    RUNTIME(66, cudaErrorLaunchFileScopedTex, "launch file scoped tex") \
    RUNTIME(67, cudaErrorLaunchFileScopedSurf, "launch file scoped surf") \
    RUNTIME(68, cudaErrorSyncDepthExceeded, "sync depth exceeded") \
    RUNTIME(69, cudaErrorLaunchPendingCountExceeded, "launch pending count exceeded") \
    RUNTIME(98, cudaErrorInvalidDeviceFunction, "invalid device function") \
    BOTH(100, CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice, "no CUDA-capable device is detected") \
    BOTH(101, CUDA_ERROR_INVALID_DEVICE, cudaErrorInvalidDevice, "invalid device ordinal") \
    BOTH(102, CUDA_ERROR_DEVICE_NOT_LICENSED, cudaErrorDeviceNotLicensed, "device not licensed") \
    RUNTIME(103, cudaErrorSoftwareValidityNotEstablished, "software validity not established") \
    RUNTIME(127, cudaErrorStartupFailure, "startup failure") \
    BOTH(200, CUDA_ERROR_INVALID_IMAGE, cudaErrorInvalidKernelImage, "invalid image") \
    BOTH(201, CUDA_ERROR_INVALID_CONTEXT, cudaErrorDeviceUninitialized, "invalid device context") \
    DRIVER(202, CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current") \
    BOTH(205, CUDA_ERROR_MAP_FAILED, cudaErrorMapBufferObjectFailed, "map failed") \
    BOTH(206, CUDA_ERROR_UNMAP_FAILED, cudaErrorUnmapBufferObjectFailed, "unmap failed") \
    BOTH(207, CUDA_ERROR_ARRAY_IS_MAPPED, cudaErrorArrayIsMapped, "array is mapped") \
    BOTH(208, CUDA_ERROR_ALREADY_MAPPED, cudaErrorAlreadyMapped, "already mapped") \
    BOTH(209, CUDA_ERROR_NO_BINARY_FOR_GPU, cudaErrorNoKernelImageForDevice, "no binary for gpu") \
    BOTH(210, CUDA_ERROR_ALREADY_ACQUIRED, cudaErrorAlreadyAcquired, "already acquired") \
    BOTH(211, CUDA_ERROR_NOT_MAPPED, cudaErrorNotMapped, "not mapped") \
    BOTH(212, CUDA_ERROR_NOT_MAPPED_AS_ARRAY, cudaErrorNotMappedAsArray, "not mapped as array") \
    BOTH(213, CUDA_ERROR_NOT_MAPPED_AS_POINTER, cudaErrorNotMappedAsPointer, "not mapped as pointer") \
    BOTH(214, CUDA_ERROR_ECC_UNCORRECTABLE, cudaErrorECCUncorrectable, "ecc uncorrectable") \
    BOTH(215, CUDA_ERROR_UNSUPPORTED_LIMIT, cudaErrorUnsupportedLimit, "unsupported limit") \
    BOTH(216, CUDA_ERROR_CONTEXT_ALREADY_IN_USE, cudaErrorDeviceAlreadyInUse, "context already in use") \
    BOTH(217, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cudaErrorPeerAccessUnsupported, "peer access unsupported") \
    BOTH(218, CUDA_ERROR_INVALID_PTX, cudaErrorInvalidPtx, "invalid ptx") \
    BOTH(219, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, cudaErrorInvalidGraphicsContext, "invalid graphics context") \
    BOTH(220, CUDA_ERROR_NVLINK_UNCORRECTABLE, cudaErrorNvlinkUncorrectable, "nvlink uncorrectable") \
    BOTH(221, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, cudaErrorJitCompilerNotFound, "jit compiler not found") \
    BOTH(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cudaErrorUnsupportedPtxVersion, "unsupported ptx version") \
    BOTH(223, CUDA_ERROR_JIT_COMPILATION_DISABLED, cudaErrorJitCompilationDisabled, "jit compilation disabled") \
    BOTH(224, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, cudaErrorUnsupportedExecAffinity, "unsupported exec affinity") \
    BOTH(225, CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, cudaErrorUnsupportedDevSideSync, "unsupported devside sync") \
    BOTH(226, CUDA_ERROR_CONTAINED, cudaErrorContained, "contained") \
    BOTH(300, CUDA_ERROR_INVALID_SOURCE, cudaErrorInvalidSource, "invalid source") \
    BOTH(301, CUDA_ERROR_FILE_NOT_FOUND, cudaErrorFileNotFound, "file not found") \
    BOTH(302, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found") \
    BOTH(303, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, cudaErrorSharedObjectInitFailed, "shared object init failed") \
    BOTH(304, CUDA_ERROR_OPERATING_SYSTEM, cudaErrorOperatingSystem, "operating system") \
    BOTH(400, CUDA_ERROR_INVALID_HANDLE, cudaErrorInvalidResourceHandle, "invalid resource handle") \
    BOTH(401, CUDA_ERROR_ILLEGAL_STATE, cudaErrorIllegalState, "illegal state") \
    BOTH(402, CUDA_ERROR_LOSSY_QUERY, cudaErrorLossyQuery, "lossy query") \
    BOTH(500, CUDA_ERROR_NOT_FOUND, cudaErrorSymbolNotFound, "named symbol not found") \
    BOTH(600, CUDA_ERROR_NOT_READY, cudaErrorNotReady, "device not ready") \
    BOTH(700, CUDA_ERROR_ILLEGAL_ADDRESS, cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    BOTH(701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cudaErrorLaunchOutOfResources, "launch out of resources") \
    BOTH(702, CUDA_ERROR_LAUNCH_TIMEOUT, cudaErrorLaunchTimeout, "launch timeout") \
    BOTH(703, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, cudaErrorLaunchIncompatibleTexturing, "launch incompatible texturing") \
    BOTH(704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled") \
    BOTH(705, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cudaErrorPeerAccessNotEnabled, "peer access has not been enabled") \
    BOTH(708, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, cudaErrorSetOnActiveProcess, "primary context active") \
    BOTH(709, CUDA_ERROR_CONTEXT_IS_DESTROYED, cudaErrorContextIsDestroyed, "context is destroyed") \
    BOTH(710, CUDA_ERROR_ASSERT, cudaErrorAssert, "assert") \
    BOTH(711, CUDA_ERROR_TOO_MANY_PEERS, cudaErrorTooManyPeers, "too many peers") \
    BOTH(712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped") \
    BOTH(713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region") \
    BOTH(714, CUDA_ERROR_HARDWARE_STACK_ERROR, cudaErrorHardwareStackError, "hardware stack error") \
    BOTH(715, CUDA_ERROR_ILLEGAL_INSTRUCTION, cudaErrorIllegalInstruction, "illegal instruction") \
    BOTH(716, CUDA_ERROR_MISALIGNED_ADDRESS, cudaErrorMisalignedAddress, "misaligned address") \
    BOTH(717, CUDA_ERROR_INVALID_ADDRESS_SPACE, cudaErrorInvalidAddressSpace, "invalid address space") \
    BOTH(718, CUDA_ERROR_INVALID_PC, cudaErrorInvalidPc, "invalid pc") \
    BOTH(719, CUDA_ERROR_LAUNCH_FAILED, cudaErrorLaunchFailure, "unspecified launch failure") \
    BOTH(720, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cudaErrorCooperativeLaunchTooLarge, "cooperative launch too large") \
    BOTH(721, CUDA_ERROR_TENSOR_MEMORY_LEAK, cudaErrorTensorMemoryLeak, "tensor memory leak") \
    BOTH(800, CUDA_ERROR_NOT_PERMITTED, cudaErrorNotPermitted, "operation not permitted") \
    BOTH(801, CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported, "operation not supported") \
    BOTH(802, CUDA_ERROR_SYSTEM_NOT_READY, cudaErrorSystemNotReady, "system not ready") \
    BOTH(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, cudaErrorSystemDriverMismatch, "system driver mismatch") \
    BOTH(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, cudaErrorCompatNotSupportedOnDevice, "compat not supported on device") \
    BOTH(805, CUDA_ERROR_MPS_CONNECTION_FAILED, cudaErrorMpsConnectionFailed, "mps connection failed") \
    BOTH(806, CUDA_ERROR_MPS_RPC_FAILURE, cudaErrorMpsRpcFailure, "mps rpc failure") \
    BOTH(807, CUDA_ERROR_MPS_SERVER_NOT_READY, cudaErrorMpsServerNotReady, "mps server not ready") \
    BOTH(808, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, cudaErrorMpsMaxClientsReached, "mps max clients reached") \
    BOTH(809, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, cudaErrorMpsMaxConnectionsReached, "mps max connections reached") \
    BOTH(810, CUDA_ERROR_MPS_CLIENT_TERMINATED, cudaErrorMpsClientTerminated, "mps client terminated") \
    BOTH(811, CUDA_ERROR_CDP_NOT_SUPPORTED, cudaErrorCdpNotSupported, "cdp not supported") \
    BOTH(812, CUDA_ERROR_CDP_VERSION_MISMATCH, cudaErrorCdpVersionMismatch, "cdp version mismatch") \
    BOTH(900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    BOTH(901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cudaErrorStreamCaptureInvalidated, "stream capture invalidated") \
    BOTH(902, CUDA_ERROR_STREAM_CAPTURE_MERGE, cudaErrorStreamCaptureMerge, "stream capture merge") \
    BOTH(903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cudaErrorStreamCaptureUnmatched, "stream capture unmatched") \
    BOTH(904, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cudaErrorStreamCaptureUnjoined, "stream capture unjoined") \
    BOTH(905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cudaErrorStreamCaptureIsolation, "stream capture isolation") \
    BOTH(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit, "stream capture implicit") \
    BOTH(907, CUDA_ERROR_CAPTURED_EVENT, cudaErrorCapturedEvent, "captured event") \
    BOTH(908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cudaErrorStreamCaptureWrongThread, "stream capture wrong thread") \
    BOTH(909, CUDA_ERROR_TIMEOUT, cudaErrorTimeout, "timeout") \
    BOTH(910, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cudaErrorGraphExecUpdateFailure, "graph exec update failure") \
    BOTH(911, CUDA_ERROR_EXTERNAL_DEVICE, cudaErrorExternalDevice, "external device") \
    BOTH(912, CUDA_ERROR_INVALID_CLUSTER_SIZE, cudaErrorInvalidClusterSize, "invalid cluster size") \
    BOTH(913, CUDA_ERROR_FUNCTION_NOT_LOADED, cudaErrorFunctionNotLoaded, "function not loaded") \
    BOTH(914, CUDA_ERROR_INVALID_RESOURCE_TYPE, cudaErrorInvalidResourceType, "invalid resource type") \
    BOTH(915, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, cudaErrorInvalidResourceConfiguration, "invalid resource configuration") \
    DRIVER(916, CUDA_ERROR_KEY_ROTATION, "key rotation") \
    BOTH(999, CUDA_ERROR_UNKNOWN, cudaErrorUnknown, "unknown error")

#endif
