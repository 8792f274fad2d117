# graph: needs -lzstd -lxxhash -lm and common at link time.
GRAPH_SOURCES := graph.c share.c recorder.c feeds.c validate.c check.c structure.c iterations.c marks.c marks_find.c multiples.c classes.c fold.c fold_members.c fold_expand.c fold_twins.c chunk.c block.c format_write.c format_read_v1.c file.c file_program.c file_read.c eval.c eval_setup.c eval_deal.c eval_state.c eval_lines.c eval_threads.c eval_slack.c \
	run.c run_setup.c run_table.c run_match.c run_lines.c run_why.c run_terms.c terms.c condense.c condensed.c
$(eval $(call static_library,graph,lib/graph,$(GRAPH_SOURCES)))
GRAPH_OBJECTS := $(call objects,lib/graph,$(GRAPH_SOURCES))
GRAPH_LINK := -lzstd -lxxhash -lm
$(eval $(call unit_test,graph_run_hand,lib/graph/test,run_hand.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_run_random,lib/graph/test,run_random.c oracle.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_condense,lib/graph/test,condense.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call test_program,bench_graph_run,lib/graph/bench,bench_run.c training.c,graph common,$(GRAPH_LINK)))
$(eval $(call test_program,bench_engine,lib/graph/bench,bench_engine.c,graph common,$(GRAPH_LINK)))
$(eval $(call test_program,bench_condense,lib/graph/bench,bench_condense.c training.c,graph common,$(GRAPH_LINK)))
$(eval $(call test_program,bench_write,lib/graph/bench,bench_write.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_feeds,lib/graph/test,feeds.c,graph coll common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_structure,lib/graph/test,structure.c build.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_fold,lib/graph/test,fold.c build.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_truncate,lib/graph/test,truncate.c build.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_marks,lib/graph/test,marks.c build.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_recorder,lib/graph/test,recorder.c random_graph.c,graph common,$(GRAPH_LINK)))
$(eval $(call unit_test,graph_format,lib/graph/test,format.c build.c random_graph.c,graph common,$(GRAPH_LINK)))
