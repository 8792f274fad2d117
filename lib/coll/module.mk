# Vectorised at -O2 too; explicit options are not undone by a later -O. Nobody looks at floating-point exception flags, and
# a compiler that keeps them does not turn selects into vector code.
COLL_CFLAGS := -fno-trapping-math -ftree-vectorize $(if $(findstring clang,$(CC)),,-fvect-cost-model=dynamic)
$(eval $(call static_library,coll,lib/coll,types.c reduce.c premul.c pairs.c share.c combine.c differ.c model.c duration.c curves.c fit.c profile.c plan.c plan_build.c plan_messages.c volume.c ballast.c synthetic.c,$(COLL_CFLAGS)))
COLL_LIBS := -ljansson -lm
$(eval $(call unit_test,coll_abi,lib/coll/test,abi.c,coll common,$(COLL_LIBS),-Ilib/abi))
$(eval $(call unit_test,coll_reduce,lib/coll/test,reduce.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_pairs,lib/coll/test,pairs.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_share,lib/coll/test,share.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_plan,lib/coll/test,plan.c interpret.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_combine,lib/coll/test,combine.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_duration,lib/coll/test,duration.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_ballast,lib/coll/test,ballast.c,coll common,$(COLL_LIBS)))
$(eval $(call unit_test,coll_synthetic,lib/coll/test,synthetic.c,coll common,$(COLL_LIBS)))
$(eval $(call test_program,coll_bench_reduce,lib/coll/bench,reduce.c,coll common,$(COLL_LIBS)))
