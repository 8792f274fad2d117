$(eval $(call static_library,common,lib/common,error.c log.c clock.c bytes.c file.c))
