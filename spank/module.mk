# prismopt: options and their parsers, and the variables they become, without Slurm; the prism command uses it too.
$(eval $(call static_library,prismopt,spank,parse.c options.c shape.c policy.c policy_file.c client.c config.c script.c,-DPRISM_CONF_FILE=\"$(sysconfdir)/prism/prism.conf\"))
$(eval $(call unit_test,spank_config,spank/test,config.c,prismopt common,,-Ispank))
$(eval $(call unit_test,spank_parse,spank/test,parse.c,prismopt common,,-Ispank))
$(eval $(call unit_test,spank_policy,spank/test,policy.c,prismopt common,,-Ispank))
$(eval $(call unit_test,spank_options,spank/test,options.c,prismopt common,,-Ispank))

# Plugins that Slurm's own processes load. SLURM_INCLUDE: where slurm/spank.h is.
SLURM_INCLUDE ?= /usr/include
SPANK_CFLAGS := $(if $(filter-out /usr/include,$(SLURM_INCLUDE)),-isystem $(SLURM_INCLUDE))
SPANK_LDFLAGS = -Wl,--version-script=spank/$(1).map -Wl,--exclude-libs,ALL

ifneq ($(wildcard $(SLURM_INCLUDE)/slurm/spank.h),)
# Plugins of one release must not stay when they are built for another.
SLURM_STAMP := $(OBJ)/.slurm-$(shell cat $(SLURM_INCLUDE)/slurm/slurm_version.h | cksum | cut -d' ' -f1)
$(SLURM_STAMP):
	@mkdir -p $(OBJ); rm -f $(OBJ)/.slurm-*; touch $@
$(call objects,spank,spank_prism.c spank_client.c spank_stepd.c cli_filter.c step_policy.c job_submit.c): $(SLURM_STAMP)
# Slurm's symbols come from the process that loads the plugin.
$(eval $(call shared_library,slurm/spank_prism.so,spank,spank_prism.c spank_client.c spank_stepd.c,prismopt common,$(call SPANK_LDFLAGS,spank_prism),$(SPANK_CFLAGS)))
$(eval $(call shared_library,slurm/cli_filter_prism.so,spank,cli_filter.c step_policy.c,prismopt common,$(call SPANK_LDFLAGS,cli_filter_prism),$(SPANK_CFLAGS)))
$(eval $(call shared_library,slurm/job_submit_prism.so,spank,job_submit.c,prismopt common,$(call SPANK_LDFLAGS,job_submit_prism),$(SPANK_CFLAGS) -DPRISM_CONF_FILE=\"$(sysconfdir)/prism/prism.conf\"))
else
.PHONY: spank-skipped
ALL += spank-skipped
spank-skipped:
	@echo "prism: no $(SLURM_INCLUDE)/slurm/spank.h: the Slurm plugins are not built (install libslurm-dev or set SLURM_INCLUDE)"
endif

# The plugins stay in a folder of their own: slurm.conf's PluginDir and plugstack.conf name it (docs/slurm.md).
SPANK_INSTALLED := $(DESTDIR)$(libdir)/prism/slurm
.PHONY: install-spank uninstall-spank
install: install-spank
install-spank: all
	@for plugin in spank_prism.so cli_filter_prism.so job_submit_prism.so; do \
	    [ ! -e $(LIB)/slurm/$$plugin ] || install -D -m 755 $(LIB)/slurm/$$plugin $(SPANK_INSTALLED)/$$plugin || exit 1; \
	done
uninstall: uninstall-spank
uninstall-spank:
	@rm -f $(SPANK_INSTALLED)/spank_prism.so $(SPANK_INSTALLED)/cli_filter_prism.so $(SPANK_INSTALLED)/job_submit_prism.so
	@rmdir $(SPANK_INSTALLED) 2>/dev/null || true
