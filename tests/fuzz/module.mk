# Fuzz targets (fuzz.h). graph: its library is built a second time without checksums, which no changed input has right.
$(eval $(call fuzz_target,graph,$(if $(FUZZ),graph) common,$(GRAPH_LINK)))
ifeq ($(FUZZ),)
UNCHECKED := $(patsubst $(OBJ)/%,$(OBJ)/unchecked/%,$(GRAPH_OBJECTS))
$(UNCHECKED): MODULE_CFLAGS := -Ilib
$(B)/test/fuzz_graph: $(UNCHECKED)
endif
$(eval $(call fuzz_target,manifest,trace common,$(TRACE_LINK)))
$(eval $(call fuzz_target,payload,trace common,$(TRACE_LINK)))
$(eval $(call fuzz_target,options,prismopt common,,-Ispank))
$(eval $(call fuzz_target,store_log,c10d common,-levent_core -lxxhash))
$(eval $(call fuzz_target,c10d_wire,c10d common,-levent_core -lxxhash))
$(eval $(call fuzz_target,pmix_log,common,-lxxhash))
$(B)/test/fuzz_pmix_log: $(call objects,prismd,pmix/pmix_log.c)
$(eval $(call fuzz_target,files,synth coll graph common,$(SYNTH_LINK) -ljansson))
$(B)/test/fuzz_files: $(call objects,prismd,predict/durations.c report/accounting_text.c)
$(eval $(call fuzz_target,messages,coll graph common,$(GRAPH_LINK)))
MESSAGES_OBJECTS := $(call objects,prismd,ranks/dispatch.c capture/membership.c capture/registry.c capture/settling.c capture/channel.c capture/collective.c capture/collective_keep.c capture/capture.c capture/record.c replay/align.c)
$(B)/test/fuzz_messages: $(MESSAGES_OBJECTS)
ifeq ($(FUZZ),)
$(eval $(call unit_test,fuzz_message_seeds,tests/fuzz,message_seeds.c messages.c,coll graph common,$(GRAPH_LINK),-I.))
$(B)/test/fuzz_message_seeds: $(MESSAGES_OBJECTS)
endif
$(eval $(call fuzz_target,hub,common,-lm,-Ilib/abi -Wno-missing-prototypes))
$(B)/test/fuzz_hub: $(call objects,lib/softgpu/nccl,hub_match.c hub_data.c hub_time.c model.c reduce.c types.c)
$(eval $(call fuzz_target,reports,common,-ljansson -lm))
$(B)/test/fuzz_reports: $(call objects,prismd,capture/hang_file.c cli/acct_text.c cli/format.c cli/report_text.c report/accounting_text.c)
$(eval $(call fuzz_target,pmix,common,-lxxhash -levent_core))
$(B)/test/fuzz_pmix: $(call objects,prismd,pmix/pmix.c pmix/pmix_fence.c pmix/pmix_log.c pmix/pmix_values.c)
$(eval $(call fuzz_target,switching,proto common))
$(B)/test/fuzz_switching: $(call objects,prismd,switching/busy.c switching/gangs.c switching/resident.c switching/victims.c)
$(eval $(call fuzz_target,mover,common))
$(B)/test/fuzz_mover: $(call objects,prismd/mover,hear.c guest.c hand.c)
$(eval $(call fuzz_target,links,$(PRISMD_LIBS),$(PRISMD_LINK)))
$(B)/test/fuzz_links: $(call objects,prismd/assistant,order.c)
$(eval $(call fuzz_target,orders,coll common,-lm))
$(B)/test/fuzz_orders: $(call objects,prismd/assistant,order.c)
$(eval $(call fuzz_target,surroundings,c10d common,-levent -lxxhash))
$(B)/test/fuzz_surroundings: $(call objects,prismd,capture/gloo.c diagnose/words.c link/greeting.c pmix/pmix_door.c ranks/elf.c) $(call objects,lib/preload,launcher.c)
$(eval $(call test_program,plain_graph,tests/fuzz,plain_graph.c,graph common,$(GRAPH_LINK),-I.))

.PHONY: fuzz-targets fuzz
fuzz-targets: $(FUZZ_TARGETS)
fuzz: ## fuzz every reader for FUZZ_SECONDS (60) under libFuzzer and AFL++
	@for target in $(patsubst fuzz_%,%,$(notdir $(FUZZ_TARGETS))); do \
	    for engine in libfuzzer afl; do tests/fuzz/run $$target $(or $(FUZZ_SECONDS),60) $$engine || exit; done; done
