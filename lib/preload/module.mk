# libprism.so: lives in the program's process. It exports the functions it interposes and nothing else, and links none of
# the CUDA or NCCL libraries.
preload_comma := ,
PRELOAD_CFLAGS := -Ilib/abi -ftls-model=initial-exec
PRELOAD_SOURCES := container.c environment.c finish.c frame.c launcher.c lookup.c main.c names.c nvtx.c real.c session.c socket.c store_port.c \
	$(addprefix cuda/,cuda_device.c cuda_events.c cuda_first.c cuda_launch.c cuda_load.c cuda_memory.c cuda_sync.c cuda_vmm.c device.c driver_device.c nvml.c) \
	$(addprefix nccl/,comm.c group.c local.c nccl_api.c nccl_more.c shrunk.c) \
	$(addprefix gate/,early.c fill.c gate.c gate_capture.c gate_fill.c gate_kernel.c gate_nccl.c gate_paced.c heap.c slots.c streams.c) \
	$(addprefix nodes/,blocked.c events.c marks.c node.c put.c sync.c times.c) \
	$(addprefix memory/,grant.c keep.c lanes.c load.c memory.c park.c physical.c queue.c residence.c room.c switch.c vmm.c vmm_async.c vmm_program.c)
$(eval $(call shared_library,libprism.so,lib/preload,$(PRELOAD_SOURCES),coll proto common,-Wl$(preload_comma)--version-script=lib/preload/libprism.map -Wl$(preload_comma)-soname$(preload_comma)libprism.so -Wl$(preload_comma)-z$(preload_comma)defs -ldl,$(PRELOAD_CFLAGS)))
$(LIB)/libprism.so: lib/preload/libprism.map

# The double of prismd runs preload_program as its ranks, on the software GPU.
$(eval $(call test_program,preload_program,lib/preload/test,program.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl,-Ilib/abi))
# preload_devices asks about devices; libcutest.so is one of NVIDIA's libraries by its name, libnvidia-ml.so.1 a double.
$(eval $(call test_program,preload_devices,lib/preload/test,devices.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl,-Ilib/abi))
$(B)/test/doubles/libcutest.so: lib/preload/test/native.c | $(call soft_names,-L$(LIB)/softgpu)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -Ilib/abi $(CFLAGS) -shared -o $@ $< -L$(LIB)/softgpu -lcudart -lcuda
$(B)/test/doubles/libnvidia-ml.so.1: lib/preload/test/fake_nvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -shared -Wl$(preload_comma)-soname$(preload_comma)libnvidia-ml.so.1 -o $@ $<
PRELOAD_DOUBLES := $(B)/test/doubles/libcutest.so $(B)/test/doubles/libnvidia-ml.so.1
TEST_PROGRAMS += $(PRELOAD_DOUBLES)

$(eval $(call unit_test,preload_rank,lib/preload/test,rank.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_rank: | $(B)/test/preload_program $(LIB)/libprism.so
$(eval $(call unit_test,preload_device,lib/preload/test,device.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_device: | $(B)/test/preload_devices $(PRELOAD_DOUBLES) $(LIB)/libprism.so
$(eval $(call test_program,preload_ahead,lib/preload/test,ahead.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda,-Ilib/abi))
$(eval $(call unit_test,preload_blocked,lib/preload/test,blocked.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_blocked: $(call objects,lib/preload,nodes/blocked.c) | $(B)/test/preload_ahead $(LIB)/libprism.so
$(eval $(call test_program,preload_contexts,lib/preload/test,contexts.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl,-Ilib/abi))
$(eval $(call unit_test,preload_context,lib/preload/test,context.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_context: | $(B)/test/preload_contexts $(LIB)/libprism.so
# preload_switched is moved off its device and back.
$(eval $(call test_program,preload_switched,lib/preload/test,switched.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl,-Ilib/abi))
$(eval $(call unit_test,preload_keep,lib/preload/test,keep.c,,,-Ilib/abi))
$(B)/test/preload_keep: $(call objects,lib/preload,memory/keep.c)
$(eval $(call unit_test,preload_switching,lib/preload/test,switching.c fake_mover.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_switching: | $(B)/test/preload_switched $(PRELOAD_DOUBLES) $(LIB)/libprism.so
# preload_ranged names what it does; a second time by NVIDIA's own headers, where they are.
$(eval $(call test_program,preload_ranged,lib/preload/test,ranged.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl -pthread,-Ilib/abi -I.))
$(eval $(call unit_test,preload_marks,lib/preload/test,marks.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_marks: | $(B)/test/preload_ranged $(LIB)/libprism.so
ifneq ($(wildcard $(ABI_CUDA_INCLUDE)/nvtx3/nvToolsExt.h),)
$(eval $(call test_program,preload_ranged_real,lib/preload/test,ranged_real.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl -pthread,-Ilib/abi -I. -idirafter $(ABI_CUDA_INCLUDE)))
$(B)/test/preload_marks: | $(B)/test/preload_ranged_real
endif
# What switching rests on, measured on a GPU.
$(eval $(call test_program,gpu_vmm,tests/gpu,vmm.c,proto,-ldl,-Ilib/abi -I.))
$(eval $(call unit_test,preload_symbols,lib/preload/test,symbols.c,,-ldl,-Ilib/abi))
$(B)/test/preload_symbols: | $(LIB)/libprism.so $(LIB)/softgpu/libnccl.so
# preload_controlled is emulated in control mode.
$(eval $(call test_program,preload_controlled,lib/preload/test,controlled.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda -ldl,-Ilib/abi))
$(eval $(call unit_test,preload_control,lib/preload/test,control.c fake_prismd.c,coll proto common,,-Ilib/abi))
$(B)/test/preload_control: | $(B)/test/preload_controlled $(LIB)/libprism.so
# The same objects as the library's, without CUDA behind them.
$(eval $(call unit_test,preload_heap,lib/preload/test,heap.c,proto,))
$(B)/test/preload_heap: $(call objects,lib/preload,gate/heap.c gate/slots.c)
# torchrun's arguments.
$(eval $(call unit_test,preload_launcher,lib/preload/test,launcher.c,common,,))
$(B)/test/preload_launcher: $(call objects,lib/preload,launcher.c)
