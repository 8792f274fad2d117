# trace: programs that use it link trace and common with $(TRACE_LINK).
TRACE_LINK := -lzstd -lxxhash -ljansson
$(eval $(call static_library,trace,lib/trace,manifest.c files.c program_id.c crew.c rooms.c payload_format.c payload_writer.c payload_reader.c))
$(eval $(call unit_test,trace_manifest,lib/trace/test,manifest.c scratch.c,trace common,$(TRACE_LINK)))
$(eval $(call unit_test,trace_files,lib/trace/test,files.c scratch.c,trace common,$(TRACE_LINK)))
$(eval $(call unit_test,trace_crew,lib/trace/test,crew.c scratch.c,trace common,))
$(eval $(call unit_test,trace_payload,lib/trace/test,payload.c scratch.c,trace common,$(TRACE_LINK)))
$(eval $(call test_program,bench_payload,lib/trace/test,bench_payload.c scratch.c,trace common,$(TRACE_LINK)))
