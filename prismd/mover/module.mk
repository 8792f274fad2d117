# The process that moves the device memory of ranks to pinned memory and back. It opens CUDA by name and does not link it.
MOVER_CFLAGS := -I. -isystem lib/abi
$(eval $(call static_library,movers,prismd/mover,gpu.c units.c pool.c store.c spill.c guest.c failed.c hear.c copy.c hand.c available.c limit.c,$(MOVER_CFLAGS)))
$(eval $(call program,prism-mover,prismd/mover,main.c,movers proto common,-lxxhash -ldl,$(MOVER_CFLAGS)))
$(eval $(call unit_test,mover_units,prismd/mover/test,units.c,movers proto common,-lxxhash -ldl,$(MOVER_CFLAGS)))
$(eval $(call unit_test,mover_available,prismd/mover/test,available.c,movers proto common,-lxxhash -ldl,$(MOVER_CFLAGS)))
$(eval $(call unit_test,mover_store,prismd/mover/test,store.c,movers proto common,-lxxhash -ldl,$(MOVER_CFLAGS)))
# The test is a rank too: it makes device memory of its own.
mover_comma := ,
MOVER_TEST_LINK := -L$(LIB)/softgpu -lcudart -lcuda -ldl -Wl$(mover_comma)-rpath$(mover_comma)$(abspath $(LIB)/softgpu)
$(eval $(call unit_test,mover,prismd/mover/test,mover.c,proto common,$(MOVER_TEST_LINK),$(MOVER_CFLAGS)))
$(B)/test/mover: $(BIN)/prism-mover
$(eval $(call unit_test,mover_hand,prismd/mover/test,hand.c,,,$(MOVER_CFLAGS)))
$(B)/test/mover_hand: $(call objects,prismd/mover,hand.c)
