# The daemon. Everything but main() is an archive, so that tests can link it.
PRISMD_MUNGE := $(if $(wildcard /usr/include/munge.h),1,)
PRISMD_CFLAGS := -I. $(if $(PRISMD_MUNGE),-DHAVE_MUNGE)
PRISMD_LINK := -levent -levent_pthreads -lzstd -lxxhash -ljansson -lm -ldl $(if $(PRISMD_MUNGE),-lmunge)
PRISMD_LIBS := prismd prismopt c10d trace graph coll proto common
PRISMD_FOLDING := folding.c folding_options.c folding_store.c folding_p2p.c folding_spread.c standing.c
$(eval $(call static_library,prismd,prismd,$(PRISMD_FOLDING) conf.c devices.c elf.c place.c board.c limits.c progress.c watch.c rank.c membership.c spawn.c container.c child.c listen.c dispatch.c \
	sched.c movers.c resident.c switching.c stall.c hang.c hang_cpu.c tasks.c hosts.c manifest.c scratch.c registry.c channel.c collective.c capture.c record.c align.c live.c pace.c emulate.c slices.c synthetic.c local.c result.c \
	enough.c prefetch.c arming.c shrink.c assist.c assist_place.c assist_process.c ballast.c \
	phases.c predict.c stages.c breakdown.c critical.c diagnose.c diagnose_match.c diagnose_wait.c hang_file.c duration.c durations.c network.c report.c gloo.c accounting.c accounting_text.c step.c store.c pmix.c pmix_values.c pmix_identity.c pmix_trace.c pmix_door.c pmix_node.c pmix_fence.c pmix_log.c link.c link_setup.c credential.c,$(PRISMD_CFLAGS)))
$(eval $(call program,prismd,prismd,main.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_accounting,prismd/test,accounting.c,prismd common,,$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_pure,prismd/test,pure.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_scale,prismd/test,scale.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_predict,prismd/test,predict.c,synth graph coll common,$(SYNTH_LINK),-I.))
$(B)/test/prismd_predict: $(call objects,prismd,predict.c stages.c breakdown.c critical.c duration.c durations.c)
$(eval $(call unit_test,prismd_diagnose,prismd/test,diagnose.c,synth graph coll common,$(SYNTH_LINK),-I.))
$(B)/test/prismd_diagnose: $(call objects,prismd,diagnose.c diagnose_match.c diagnose_wait.c)
$(BIN)/prism: $(call objects,prismd,diagnose.c diagnose_match.c diagnose_wait.c hang_file.c)
