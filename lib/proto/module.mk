$(eval $(call static_library,proto,lib/proto,region.c mover.c))
