# The `prism` command.
PRISM_CLI_SOURCES := main.c options.c format.c paths.c load.c run.c report.c report_text.c info.c info_part.c verify.c \
	timeline.c timeline_spans.c timeline_select.c predict.c predict_text.c predict_slack.c export.c export_timeline.c export_chakra.c synth.c doctor.c checks.c gpu.c measure.c measure_world.c measure_group.c measure_time.c profile.c \
	plan.c plan_times.c command.c acct.c acct_store.c acct_text.c doctor_slurm.c plot.c plot_parts.c plot_timeline.c plot_utilisation.c
# cairo itself is looked for when a picture is drawn.
ifeq ($(shell pkg-config --exists cairo && echo yes),yes)
PRISM_CLI_SOURCES += plot_canvas_cairo.c
else
PRISM_CLI_SOURCES += plot_canvas_none.c
endif
$(eval $(call program,prism,prismd/cli,$(PRISM_CLI_SOURCES),\
	prismopt synth trace graph coll c10d common,\
	-lconfig -ljansson -lzstd -lxxhash -levent_core -ldl -lm,-I. -isystem lib/abi))
$(call objects,prismd/cli,plot_canvas_cairo.c): MODULE_CFLAGS += $(shell pkg-config --cflags cairo 2>/dev/null)
$(BIN)/prism: $(call objects,prismd,predict/duration.c predict/durations.c predict/predict.c predict/stages.c predict/breakdown.c predict/critical.c replay/slices.c folding/folding_options.c report/accounting_text.c)

PRISM_CLI_TESTED := options.c format.c report_text.c measure_group.c measure_time.c measure_world.c gpu.c
$(eval $(call unit_test,prism_cli,prismd/cli/test,cli.c,c10d common,\
	-ljansson -levent_core -lxxhash -ldl -lm,-I. -isystem lib/abi))
$(B)/test/prism_cli: $(call objects,prismd/cli,$(PRISM_CLI_TESTED))
