# Tests of the daemon's parts that need processes, threads or sockets. The variables are prismd/module.mk's.
$(eval $(call unit_test,prismd_link_setup,prismd/test,link_setup.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_watch,prismd/test,watch.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_gloo,prismd/test,gloo.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_store,prismd/test,store.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_shrink,prismd/test,shrink.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_durations,prismd/test,durations.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_prefetch,prismd/test,prefetch.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_resident,prismd/test,resident.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
