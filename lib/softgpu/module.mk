# The software GPU: libcuda.so.1 and libcudart.so.13 (libnccl.so.2 is in nccl/). All of them lie in $(LIB)/softgpu, so
# that LD_LIBRARY_PATH=<build>/lib/softgpu is all a program needs, and -L the same folder with -lcudart links one.

softgpu_comma := ,
SOFTGPU_CFLAGS := -Ilib/abi

SOFTGPU_CUDA_SOURCES := core/clock.c core/context.c core/device.c core/driver.c core/gate.c core/memory.c core/profile.c core/ranges.c \
	core/shared.c core/stream.c cuda/copy.c cuda/device_api.c cuda/launch.c cuda/library.c cuda/memop.c \
	cuda/memory_api.c cuda/module.c cuda/per_thread.c cuda/pool.c cuda/stream_api.c cuda/unsupported.c cuda/vmm.c
SOFTGPU_CUDART_SOURCES := cudart/copy.c cudart/device.c cudart/library.c cudart/memory.c cudart/per_thread.c \
	cudart/stream.c

# -Bsymbolic: what a preloaded library exports does not replace the library's own calls, as with NVIDIA's.
softgpu_link = -Wl$(softgpu_comma)-soname$(softgpu_comma)$(1) -Wl$(softgpu_comma)-Bsymbolic -Wl$(softgpu_comma)-z$(softgpu_comma)now \
	-Wl$(softgpu_comma)-Map=$(OBJ)/lib/softgpu/$(1).map

$(eval $(call shared_library,softgpu/libcuda.so.1,lib/softgpu,$(SOFTGPU_CUDA_SOURCES),,$(call softgpu_link,libcuda.so.1) -lconfig -lm,$(SOFTGPU_CFLAGS)))
$(eval $(call shared_library,softgpu/libcudart.so.13,lib/softgpu,$(SOFTGPU_CUDART_SOURCES),,$(call softgpu_link,libcudart.so.13) -ldl,$(SOFTGPU_CFLAGS)))

$(LIB)/softgpu/libcuda.so.1 $(LIB)/softgpu/libcudart.so.13: lib/softgpu/module.mk # the link maps are made here

# Names for the linker.
$(LIB)/softgpu/libcuda.so: $(LIB)/softgpu/libcuda.so.1
	@ln -sfn libcuda.so.1 $@
$(LIB)/softgpu/libcudart.so: $(LIB)/softgpu/libcudart.so.13
	@ln -sfn libcudart.so.13 $@
ALL += $(LIB)/softgpu/libcuda.so $(LIB)/softgpu/libcudart.so

# Tests: CUDA programs, against lib/abi and again (as <name>_real) against an installed toolkit's headers.
SOFTGPU_TEST_LINK := -L$(LIB)/softgpu -lcudart -lcuda -ldl -Wl$(softgpu_comma)-rpath$(softgpu_comma)$(abspath $(LIB)/softgpu)
SOFTGPU_REAL_INCLUDE ?= $(wildcard /usr/local/cuda/include)

define softgpu_test
$(eval $(call unit_test,softgpu_$(1),lib/softgpu/test,$(1).c,,$(SOFTGPU_TEST_LINK),$(SOFTGPU_CFLAGS)))
endef
define softgpu_test_real
$(eval $(call unit_test,softgpu_$(1)_real,lib/softgpu/test,$(1)_real.c,,$(SOFTGPU_TEST_LINK),-isystem $(SOFTGPU_REAL_INCLUDE)))
endef
SOFTGPU_TESTS := streams gates memory devices per_thread untimed
$(foreach test,$(SOFTGPU_TESTS),$(eval $(call softgpu_test,$(test))))
ifneq ($(wildcard $(SOFTGPU_REAL_INCLUDE)/cuda.h),)
$(foreach test,$(SOFTGPU_TESTS),$(eval $(call softgpu_test_real,$(test))))
endif

$(eval $(call unit_test,softgpu_symbols,lib/softgpu/test,symbols.c,,,))
$(B)/test/softgpu_symbols: $(LIB)/softgpu/libcuda.so $(LIB)/softgpu/libcudart.so

-include lib/softgpu/nccl/module.mk

# Installed: the libraries in $(libdir)/softgpu, the profiles in $(datadir)/prism/softgpu, softgpu.h.
SOFTGPU_INSTALLED := $(DESTDIR)$(libdir)/softgpu
SOFTGPU_PROFILES := $(DESTDIR)$(datadir)/prism/softgpu
.PHONY: install-softgpu uninstall-softgpu
install: install-softgpu
install-softgpu: all
	@install -d $(SOFTGPU_INSTALLED) $(SOFTGPU_PROFILES)/device $(SOFTGPU_PROFILES)/network
	@for name in libcuda.so.1 libcudart.so.13 libnccl.so.2; do \
	    install -m 755 $(LIB)/softgpu/$$name $(SOFTGPU_INSTALLED)/$$name && \
	    ln -sfn $$name $(SOFTGPU_INSTALLED)/$${name%.so.*}.so || exit 1; \
	done
	@install -D -m 644 lib/softgpu/softgpu.h $(DESTDIR)$(prefix)/include/softgpu/softgpu.h
	@install -m 644 etc/soft.conf $(SOFTGPU_PROFILES)/
	@install -m 644 etc/device/*.conf $(SOFTGPU_PROFILES)/device/
	@install -m 644 etc/network/*.conf $(SOFTGPU_PROFILES)/network/
uninstall: uninstall-softgpu
uninstall-softgpu:
	@rm -rf $(SOFTGPU_INSTALLED) $(SOFTGPU_PROFILES) $(DESTDIR)$(prefix)/include/softgpu
