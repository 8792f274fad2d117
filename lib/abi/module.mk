# lib/abi is headers only. Its test compares them with the real ones where a CUDA toolkit is installed.

ABI_CUDA_INCLUDE ?= $(wildcard /usr/local/cuda/include)
abi_no_nccl = $(if $(wildcard $(ABI_CUDA_INCLUDE)/nccl.h),,-DFACTS_NO_NCCL)

$(eval $(call test_program,abi_facts,lib/abi/test,facts.c,,,-Ilib/abi))
$(eval $(call unit_test,abi,lib/abi/test,abi.c,,,-Ilib/abi))
$(B)/test/abi: $(B)/test/abi_facts
$(eval $(call test_program,abi_nvtx,lib/abi/test,nvtx.c,,,-Ilib/abi))
$(B)/test/abi: $(B)/test/abi_nvtx
ifneq ($(wildcard $(ABI_CUDA_INCLUDE)/nvtx3/nvToolsExt.h),)
$(eval $(call test_program,abi_nvtx_real,lib/abi/test,nvtx_real.c,,-ldl,-isystem $(ABI_CUDA_INCLUDE)))
$(B)/test/abi: $(B)/test/abi_nvtx_real
endif
ifneq ($(wildcard $(ABI_CUDA_INCLUDE)/cuda.h),)
$(eval $(call test_program,abi_facts_real,lib/abi/test,facts_real.c,,,-isystem $(ABI_CUDA_INCLUDE) $(abi_no_nccl)))
$(B)/test/abi: $(B)/test/abi_facts_real
endif
