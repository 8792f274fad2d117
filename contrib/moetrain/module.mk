# moetrain: the example trainer. Everything but its kernels is plain CUDA runtime and NCCL.
# MOETRAIN_INCLUDE: where cuda_runtime_api.h and nccl.h are; NVIDIA's do as well (MOETRAIN_INCLUDE=/usr/local/cuda/include).
MOETRAIN_INCLUDE ?= lib/abi
MOETRAIN_PMIX_INCLUDE := $(firstword $(wildcard /usr/lib/*/pmix2/include /usr/include/pmix))
MOETRAIN_CFLAGS := -isystem $(MOETRAIN_INCLUDE) $(addprefix -isystem ,$(MOETRAIN_PMIX_INCLUDE))
MOETRAIN_TRAINER := check.c data.c groups.c host_math.c kernels_host.c layout.c memory.c model.c moe.c optimizer.c \
    options.c params.c pipeline.c trainer.c waits.c
MOETRAIN_LINK := -L$(LIB)/softgpu -lcudart -lnccl -Wl,--allow-shlib-undefined -levent_core -lxxhash -lm -ldl

$(eval $(call program,moetrain,contrib/moetrain,main.c bootstrap.c bootstrap_pmix.c $(MOETRAIN_TRAINER),c10d common,$(MOETRAIN_LINK),$(MOETRAIN_CFLAGS)))
$(BIN)/moetrain: $(LIB)/softgpu/libcudart.so.13 $(LIB)/softgpu/libnccl.so.2

# Unit tests run over a fake device in the test program; the gradient check compiles the trainer in double precision.
MOETRAIN_TRAINER_OBJECTS := $(call objects,contrib/moetrain,$(MOETRAIN_TRAINER))
MOETRAIN_DOUBLE_OBJECTS := $(patsubst %.c,$(OBJ)/contrib/moetrain/double/%.o,$(MOETRAIN_TRAINER))
MOETRAIN_BOOTSTRAP_OBJECTS := $(call objects,contrib/moetrain,bootstrap.c bootstrap_pmix.c)
MOETRAIN_TEST_LINK := -rdynamic -levent_core -lxxhash -lm -ldl
MOETRAIN_TEST_CFLAGS := $(MOETRAIN_CFLAGS) -fvisibility=default

$(eval $(call unit_test,moetrain_options,contrib/moetrain/test,options.c))
$(eval $(call unit_test,moetrain_train,contrib/moetrain/test,train.c fake_cuda.c,c10d common,$(MOETRAIN_TEST_LINK),$(MOETRAIN_TEST_CFLAGS)))
$(eval $(call unit_test,moetrain_gradient,contrib/moetrain/test,gradient.c,c10d common,$(MOETRAIN_TEST_LINK),$(MOETRAIN_TEST_CFLAGS) -DMOETRAIN_DOUBLE))
$(B)/test/moetrain_options: $(call objects,contrib/moetrain,options.c layout.c)
$(B)/test/moetrain_train: $(MOETRAIN_TRAINER_OBJECTS) $(MOETRAIN_BOOTSTRAP_OBJECTS)
$(B)/test/moetrain_gradient: $(MOETRAIN_DOUBLE_OBJECTS) $(MOETRAIN_BOOTSTRAP_OBJECTS) $(OBJ)/contrib/moetrain/test/fake_cuda.o
$(MOETRAIN_DOUBLE_OBJECTS): MODULE_CFLAGS := -Ilib $(MOETRAIN_CFLAGS) -DMOETRAIN_DOUBLE
$(OBJ)/contrib/moetrain/double/%.o: contrib/moetrain/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(MODULE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

SYSTEM_TESTS += contrib/moetrain/test/moetrain.bats
