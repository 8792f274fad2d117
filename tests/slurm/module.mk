SYSTEM_TESTS += $(sort $(wildcard tests/slurm/*.bats))
ifneq ($(wildcard $(SLURM_INCLUDE)/slurm/slurmdb.h),)
$(eval $(call test_program,roll,tests/slurm,roll.c,,-lslurm,$(SPANK_CFLAGS)))
endif
