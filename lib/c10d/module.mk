C10D_EVENT := -levent_core
$(eval $(call static_library,c10d,lib/c10d,mutation.c wire.c store.c dispatch.c server.c inside.c thread.c client.c log.c replay.c))
$(eval $(call test_program,c10d_server,lib/c10d/test,c10d_server.c,c10d common,$(C10D_EVENT) -lxxhash))
$(eval $(call unit_test,c10d_wire,lib/c10d/test,wire.c,c10d common,$(C10D_EVENT) -lxxhash))
$(eval $(call unit_test,c10d_server_client,lib/c10d/test,server.c,c10d common,$(C10D_EVENT) -lxxhash))
$(eval $(call unit_test,c10d_log,lib/c10d/test,log.c,c10d common,$(C10D_EVENT) -lxxhash))
SYSTEM_TESTS += lib/c10d/test/torch.bats
