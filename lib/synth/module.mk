# synth: needs -lconfig, and graph coll common with theirs, at link time.
$(eval $(call static_library,synth,lib/synth,conf.c model.c emit.c schedule.c build.c))
SYNTH_LINK := -lconfig -ljansson -lzstd -lxxhash -lm
$(eval $(call unit_test,synth,lib/synth/test,synth.c,synth graph coll common,$(SYNTH_LINK)))
