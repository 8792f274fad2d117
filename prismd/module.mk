# The daemon. Everything but main() is an archive, so that tests can link it.
PRISMD_MUNGE := $(if $(wildcard /usr/include/munge.h),1,)
PRISMD_CFLAGS := -I. $(if $(PRISMD_MUNGE),-DHAVE_MUNGE)
PRISMD_LINK := -levent -levent_pthreads -lzstd -lxxhash -ljansson -lm -ldl $(if $(PRISMD_MUNGE),-lmunge)
PRISMD_LIBS := prismd prismopt c10d trace graph coll proto common
PRISMD_SOURCES := conf.c devices.c local.c manifest.c network.c phase_message.c phases.c place.c store.c trace_folder.c \
	$(addprefix gates/,board.c pace.c watch.c) \
	$(addprefix ranks/,child.c container.c dispatch.c elf.c hosts.c limits.c listen.c rank.c region.c sched.c scratch.c spawn.c starter.c step.c tasks.c) \
	$(addprefix capture/,capture.c channel.c collective.c collective_keep.c enough.c gloo.c hang.c hang_cpu.c hang_file.c membership.c progress.c record.c registry.c settling.c standing.c) \
	$(addprefix folding/,folding.c folding_options.c folding_p2p.c folding_spread.c folding_store.c) \
	$(addprefix switching/,busy.c gangs.c movers.c resident.c switching.c tell.c victims.c) \
	$(addprefix replay/,align.c arrival.c beginning.c behind.c delivery.c emulate.c live.c measured.c origins.c player.c prefetch.c slices.c stall.c) \
	$(addprefix assistants/,arming.c assist.c assist_place.c assist_process.c ballast.c shrink.c) \
	$(addprefix predict/,breakdown.c critical.c duration.c durations.c predict.c stages.c) \
	$(addprefix diagnose/,diagnose.c diagnose_match.c diagnose_wait.c words.c) \
	$(addprefix report/,accounting.c accounting_text.c report.c result.c) \
	$(addprefix pmix/,pmix.c pmix_door.c pmix_fence.c pmix_identity.c pmix_log.c pmix_node.c pmix_trace.c pmix_values.c) \
	$(addprefix link/,allowed.c credential.c greeting.c link.c link_setup.c)
$(eval $(call static_library,prismd,prismd,$(PRISMD_SOURCES),$(PRISMD_CFLAGS)))
$(eval $(call program,prismd,prismd,main.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_accounting,prismd/test,accounting.c,prismd common,,$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_pure,prismd/test,pure.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_scale,prismd/test,scale.c,$(PRISMD_LIBS),$(PRISMD_LINK),$(PRISMD_CFLAGS)))
$(eval $(call unit_test,prismd_predict,prismd/test,predict.c,synth graph coll common,$(SYNTH_LINK),-I.))
$(B)/test/prismd_predict: $(call objects,prismd,predict/predict.c predict/stages.c predict/breakdown.c predict/critical.c predict/duration.c predict/durations.c)
$(eval $(call unit_test,prismd_diagnose,prismd/test,diagnose.c,synth graph coll common,$(SYNTH_LINK),-I.))
$(B)/test/prismd_diagnose: $(call objects,prismd,diagnose/diagnose.c diagnose/diagnose_match.c diagnose/diagnose_wait.c diagnose/words.c)
$(BIN)/prism: $(call objects,prismd,diagnose/diagnose.c diagnose/diagnose_match.c diagnose/diagnose_wait.c diagnose/words.c \
	capture/hang_file.c pmix/pmix_log.c)
