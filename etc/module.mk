# Installing the programs and the preload library. prismd looks for ../lib/libprism.so beside its own folder, and for the
# prism command beside itself; the software GPU and the Slurm plugins have rules of their own in their folders.
PRISM_PROGRAMS = $(filter $(BIN)/prism $(BIN)/prismd $(BIN)/prism-assistant $(BIN)/prism-mover $(BIN)/prism-pmix $(BIN)/moetrain,$(ALL))

.PHONY: install-prism uninstall-prism
install: install-prism
install-prism: all
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir) $(DESTDIR)$(datadir)/doc/prism
	install -m 755 $(PRISM_PROGRAMS) $(DESTDIR)$(bindir)
	install -m 755 $(LIB)/libprism.so $(DESTDIR)$(libdir)
	install -m 644 README.md CHANGELOG.md LICENSE $(DESTDIR)$(datadir)/doc/prism
uninstall: uninstall-prism
uninstall-prism:
	rm -f $(addprefix $(DESTDIR)$(bindir)/,$(notdir $(PRISM_PROGRAMS))) $(DESTDIR)$(libdir)/libprism.so
	rm -rf $(DESTDIR)$(datadir)/doc/prism
