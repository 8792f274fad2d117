# gpu_cost: a CUDA and NCCL program; runs on real GPUs too (the libraries' SONAMEs are the same).
$(eval $(call test_program,gpu_cost,tests/gpu,cost.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda,-Ilib/abi -I.))
# Contexts of one device by number of hardware queues.
$(eval $(call test_program,gpu_contexts,tests/gpu,contexts.c,,-ldl,-I. -isystem lib/abi))
# How many operations a stream takes behind a closed gate.
$(eval $(call test_program,gpu_queue,tests/gpu,queue.c,,-ldl -pthread,-I. -isystem lib/abi))
# Measuring programs for two GPUs (tests/gpu/two); CUDA and NCCL are opened by name.
$(eval $(call test_program,pace_arm,tests/gpu,pace_arm.c,,-ldl,-I. -isystem lib/abi))
$(eval $(call test_program,ballast,tests/gpu,ballast.c,,-ldl,-I. -isystem lib/abi))
# Ranks that share a device by turns.
$(eval $(call test_program,gpu_moves,tests/gpu,moves.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda,-Ilib/abi -I.))
# Kinds of host memory that copies use.
$(eval $(call test_program,gpu_pinned,tests/gpu,pinned.c,,-ldl -pthread,-I. -isystem lib/abi))
# What copies both ways at once make of each step of switching, from plain ones to those that switching makes.
$(eval $(call test_program,gpu_both,tests/gpu,both.c,,-ldl -pthread,-I. -isystem lib/abi))
# Device memory that goes from one process to the next through a third.
$(eval $(call test_program,gpu_hand,tests/gpu,hand.c,,-ldl,-I. -isystem lib/abi))
# What capture does of large operations.
$(eval $(call test_program,gpu_volume,tests/gpu,volume.c,,-L$(LIB)/softgpu -lnccl -lcudart -lcuda,-Ilib/abi -I.))
# What control mode makes on the device; the same object as the library's.
$(eval $(call test_program,gpu_fill,tests/gpu,fill.c,coll common,-ldl -lm,-I. -isystem lib/abi))
$(B)/test/gpu_fill: $(call objects,lib/preload,gate/fill.c)
