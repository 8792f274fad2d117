$(eval $(call static_library,common,lib/common,error.c log.c clock.c bytes.c file.c names.c cores.c))
$(eval $(call unit_test,common_names,lib/common/test,names.c,common,,))
$(eval $(call unit_test,common_cores,lib/common/test,cores.c,common,,))
