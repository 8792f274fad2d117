# The PMIx server of a logical node. Optional: without pmix_server.h prismd is built without it and says so when a rank asks.
PMIX_CFLAGS ?= $(shell pkg-config --cflags pmix 2>/dev/null)
PMIX_LDLIBS ?= $(shell pkg-config --libs pmix 2>/dev/null)
ifneq ($(PMIX_LDLIBS),)
$(eval $(call program,prism-pmix,prismd/pmix_server,main.c job.c wire.c,common,$(PMIX_LDLIBS),-I. $(PMIX_CFLAGS)))
else
.PHONY: pmix-skipped
ALL += pmix-skipped
pmix-skipped:
	@echo "prism: no pmix.pc: the PMIx server for ranks is not built (install libpmix-dev)"
endif
