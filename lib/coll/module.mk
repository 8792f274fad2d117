# Vectorised at -O2 too; explicit options are not undone by a later -O.
COLL_CFLAGS := -ftree-vectorize $(if $(findstring clang,$(CC)),,-fvect-cost-model=dynamic)
$(eval $(call static_library,coll,lib/coll,types.c reduce.c combine.c model.c duration.c curves.c fit.c profile.c,$(COLL_CFLAGS)))
