# libnccl.so.2 of the software GPU. Links against the software libcuda.so.1, which offers core/engine.h, and finds it
# in its own folder.

SGN_SOURCES := api_comm.c api_work.c batch.c comm.c exports.c group.c hub.c hub_comm.c hub_data.c hub_match.c hub_time.c \
	links.c model.c net.c reader.c reduce.c types.c

# Its threads and its exit handler run its code until the process ends: never unload it.
SGN_LINK := -Wl$(softgpu_comma)-rpath$(softgpu_comma)'$$$$ORIGIN' -Wl$(softgpu_comma)-z$(softgpu_comma)nodelete
$(eval $(call shared_library,softgpu/libnccl.so.2,lib/softgpu/nccl,$(SGN_SOURCES),,$(call softgpu_link,libnccl.so.2) $$(LIB)/softgpu/libcuda.so.1 $(SGN_LINK) -lm,$(SOFTGPU_CFLAGS)))
$(LIB)/softgpu/libnccl.so.2: | $(LIB)/softgpu/libcuda.so.1
$(LIB)/softgpu/libnccl.so: $(LIB)/softgpu/libnccl.so.2
	@ln -sfn libnccl.so.2 $@
ALL += $(LIB)/softgpu/libnccl.so

# Tests run where they were built: the libraries are found beside them.
SGN_TEST_LINK := $(LIB)/softgpu/libnccl.so.2 $(LIB)/softgpu/libcudart.so.13 $(LIB)/softgpu/libcuda.so.1 \
	-Wl$(softgpu_comma)--disable-new-dtags -Wl$(softgpu_comma)-rpath$(softgpu_comma)'$$$$ORIGIN/../lib/softgpu' -lm
SGN_TESTS := ops messages comms faults time
$(eval $(call unit_test,softnccl_reduce,lib/softgpu/nccl/test,softnccl_reduce.c ../reduce.c ../types.c,,-lm,$(SOFTGPU_CFLAGS)))
$(foreach t,$(SGN_TESTS),$(eval $(call unit_test,softnccl_$(t),lib/softgpu/nccl/test,softnccl_$(t).c ranks.c,,$(SGN_TEST_LINK),$(SOFTGPU_CFLAGS))))
$(foreach t,$(SGN_TESTS),$(B)/test/softnccl_$(t)): | $(LIB)/softgpu/libnccl.so.2 $(LIB)/softgpu/libcudart.so.13
