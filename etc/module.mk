# Installing the programs and the preload library. prismd looks for ../lib/libprism.so beside its own folder, and for the
# prism command beside itself; the software GPU and the Slurm plugins have rules of their own in their folders.
PRISM_PROGRAMS = $(filter $(BIN)/prism $(BIN)/prismd $(BIN)/prism-assistant $(BIN)/prism-mover $(BIN)/prism-pmix $(BIN)/moetrain,$(ALL))

# Where Slurm's own plugins are, for the example of PluginDir.
SLURM_PLUGINS ?= $(firstword $(wildcard /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib64/slurm) /usr/lib/slurm)

# Jobs of prism synth, where the command looks for them: ../share/prism/synth.
SYNTH_PRESETS := $(patsubst etc/synth/%,$(B)/share/prism/synth/%,$(wildcard etc/synth/*.conf))
ALL += $(SYNTH_PRESETS)
# The workload that capture at full scale is measured with, where an installed moetrain finds it.
MOETRAIN_PRESETS := $(patsubst etc/moetrain/%,$(B)/share/prism/moetrain/%,$(wildcard etc/moetrain/*.conf))
ALL += $(MOETRAIN_PRESETS)
$(MOETRAIN_PRESETS): $(B)/share/prism/moetrain/%: etc/moetrain/%
	@mkdir -p $(@D)
	@cp $< $@
$(SYNTH_PRESETS): $(B)/share/prism/synth/%: etc/synth/%
	@mkdir -p $(@D)
	@cp $< $@

.PHONY: install-prism uninstall-prism deb
deb: ## Debian packages prism, prism-slurm (for the Slurm of SLURM_INCLUDE) and prism-softgpu
	@packaging/deb --build $(BUILD) --version $(VERSION) --slurm-include $(SLURM_INCLUDE)

install: install-prism
install-prism: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir) $(DESTDIR)$(datadir)/doc/prism
	install -m 755 $(PRISM_PROGRAMS) $(DESTDIR)$(bindir)
	install -m 755 $(LIB)/libprism.so $(DESTDIR)$(libdir)
	install -m 644 README.md CHANGELOG.md LICENSE docs/slurm.md docs/report.md $(DESTDIR)$(datadir)/doc/prism
	install -D -m 644 -t $(DESTDIR)$(datadir)/prism/synth $(SYNTH_PRESETS)
	install -D -m 644 -t $(DESTDIR)$(datadir)/prism/moetrain $(MOETRAIN_PRESETS)
	install -d $(DESTDIR)$(datadir)/doc/prism/examples
	for name in slurm.conf plugstack.conf; do \
	    sed 's|@PLUGINS@|$(libdir)/prism/slurm|; s|@LIBRARY@|$(libdir)|; s|@BIN@|$(bindir)|; s|@SLURM_PLUGINS@|$(SLURM_PLUGINS)|' \
	        etc/slurm/$$name.in >$(DESTDIR)$(datadir)/doc/prism/examples/$$name || exit 1; \
	done
	install -m 644 etc/slurm/prism.conf $(DESTDIR)$(datadir)/doc/prism/examples
uninstall: uninstall-prism
uninstall-prism:
	rm -f $(addprefix $(DESTDIR)$(bindir)/,$(notdir $(PRISM_PROGRAMS))) $(DESTDIR)$(libdir)/libprism.so
	rm -rf $(DESTDIR)$(datadir)/doc/prism $(DESTDIR)$(datadir)/prism/synth $(DESTDIR)$(datadir)/prism/moetrain
