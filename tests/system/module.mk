# System tests of `prism run`, and the programs that they run.
SYSTEM_TESTS += $(sort $(wildcard tests/system/*.bats))

SYSTEM_SOFTGPU := -L$(LIB)/softgpu -lcudart -lnccl -Wl,--allow-shlib-undefined
$(eval $(call test_program,looper,tests/system,looper.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,stubborn,tests/system,stubborn.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash -pthread,-isystem lib/abi))
$(eval $(call test_program,crossing,tests/system,crossing.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash -pthread,-isystem lib/abi))
$(eval $(call test_program,buckets,tests/system,buckets.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,clash,tests/system,clash.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,player,tests/system,player.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,replica,tests/system,replica.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,lazy,tests/system,lazy.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,large,tests/system,large.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,gradients,tests/system,gradients.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,averages,tests/system,averages.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash,-isystem lib/abi))
$(eval $(call test_program,ranges,tests/system,ranges.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash -ldl,-isystem lib/abi -I.))
ifneq ($(wildcard $(ABI_CUDA_INCLUDE)/nvtx3/nvToolsExt.h),)
$(eval $(call test_program,ranges_real,tests/system,ranges_real.c,c10d common,$(SYSTEM_SOFTGPU) -levent_core -lxxhash -ldl,-isystem lib/abi -I. -idirafter $(ABI_CUDA_INCLUDE)))
endif
$(eval $(call test_program,silent,tests/system,silent.c))

$(eval $(call test_program,fold_compare,tests/system,fold_compare.c,graph common,$(GRAPH_LINK)))
$(eval $(call test_program,misfit,tests/system,misfit.c,trace graph coll common,$(GRAPH_LINK) -ljansson))

# Not with sanitizers, which have no static form.
$(B)/test/silent-static: tests/system/silent.c
	@mkdir -p $(@D)
	$(Q)$(CC) -static -O1 -o $@ $<
TEST_PROGRAMS += $(B)/test/silent-static

# Clients of PMIx, where libpmix-dev is. The MPI program is built by the test, with the MPI that is there.
ifneq ($(shell pkg-config --libs pmix 2>/dev/null),)
$(eval $(call test_program,pmix_client,tests/system,pmix_client.c,,$(shell pkg-config --libs pmix) -ldl,$(shell pkg-config --cflags pmix)))
endif
$(eval $(call test_program,pmix_multiply,tests/system,pmix_multiply.c,$(PRISMD_LIBS),$(PRISMD_LINK),-I.))
