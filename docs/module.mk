# Manual pages: templates in docs/man, the tables of options filled in from spank/options.c.
MAN_PAGES := prism.1 prism.conf.5 prism-slurm.7 prismd.8
MAN_BUILT := $(addprefix $(B)/man/,$(MAN_PAGES))
mandir   ?= $(datadir)/man
ALL += $(MAN_BUILT)

$(call objects,spank,options_mdoc.c): MODULE_CFLAGS := -Ilib
$(B)/gen/options_mdoc: $(call objects,spank,options_mdoc.c) $(call archives,prismopt common)
	@mkdir -p $(@D)
	$(Q)$(CC) -pthread $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $^
$(MAN_BUILT): $(B)/man/%: docs/man/% $(B)/gen/options_mdoc
	@mkdir -p $(@D)
	$(Q)$(B)/gen/options_mdoc $< >$@

.PHONY: install-man uninstall-man
install: install-man
install-man: all
	for page in $(MAN_PAGES); do \
	    install -D -m 644 $(B)/man/$$page $(DESTDIR)$(mandir)/man$${page##*.}/$$page || exit 1; \
	done
uninstall: uninstall-man
uninstall-man:
	rm -f $(foreach page,$(MAN_PAGES),$(DESTDIR)$(mandir)/man$(lastword $(subst ., ,$(page)))/$(page))
