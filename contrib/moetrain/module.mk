# moetrain: the example trainer. Everything but its kernels is plain CUDA runtime and NCCL.
# MOETRAIN_INCLUDE: where cuda_runtime_api.h and nccl.h are; NVIDIA's do as well (MOETRAIN_INCLUDE=/usr/local/cuda/include).
MOETRAIN_INCLUDE ?= lib/abi
MOETRAIN_PMIX_INCLUDE := $(firstword $(wildcard /usr/lib/*/pmix2/include /usr/include/pmix))
MOETRAIN_CFLAGS := -isystem $(MOETRAIN_INCLUDE) $(addprefix -isystem ,$(MOETRAIN_PMIX_INCLUDE))
MOETRAIN_TRAINER := check.c data.c groups.c host_math.c kernels_host.c layout.c memory.c model.c moe.c optimizer.c \
    options.c params.c pipeline.c resources.c trainer.c waits.c
MOETRAIN_LINK := -L$(LIB)/softgpu -lcudart -lnccl -Wl,--allow-shlib-undefined -levent_core -lxxhash -lm -ldl

$(eval $(call program,moetrain,contrib/moetrain,main.c bootstrap.c bootstrap_pmix.c $(MOETRAIN_TRAINER),c10d common,$(MOETRAIN_LINK),$(MOETRAIN_CFLAGS)))

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

# For real GPUs: needs nvcc and NVIDIA's libraries.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
MOETRAIN_CUDA_HOME := $(patsubst %/bin/,%,$(dir $(NVCC)))
MOETRAIN_CUDA_FLAGS ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
MOETRAIN_CUDA_SOURCES := main.c bootstrap.c bootstrap_pmix.c $(filter-out kernels_host.c host_math.c,$(MOETRAIN_TRAINER))
MOETRAIN_CUDA_OBJECTS := $(patsubst %.c,$(OBJ)/contrib/moetrain/cuda/%.o,$(MOETRAIN_CUDA_SOURCES)) $(OBJ)/contrib/moetrain/cuda/kernels_cuda.o

.PHONY: moetrain-cuda
moetrain-cuda: $(if $(NVCC),$(BIN)/moetrain-cuda) ## moetrain with kernels for real GPUs (needs nvcc and NCCL)
	@$(if $(NVCC),true,echo 'moetrain-cuda: there is no nvcc in PATH or /usr/local/cuda; set NVCC=' >&2; exit 1)

$(BIN)/moetrain-cuda: $(MOETRAIN_CUDA_OBJECTS) $(call archives,c10d common)
$(BIN)/moetrain-cuda: PROGRAM_LIBS := $(call archives,c10d common) -L$(MOETRAIN_CUDA_HOME)/lib64 -lcudart -lnccl -levent_core -lxxhash -lm -ldl -lstdc++
$(MOETRAIN_CUDA_OBJECTS): MODULE_CFLAGS := -Ilib -isystem $(MOETRAIN_CUDA_HOME)/include $(addprefix -isystem ,$(MOETRAIN_PMIX_INCLUDE))
$(OBJ)/contrib/moetrain/cuda/%.o: contrib/moetrain/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(MODULE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(OBJ)/contrib/moetrain/cuda/%.o: contrib/moetrain/%.cu $(FLAGS_STAMP) contrib/moetrain/kernels.h contrib/moetrain/kernels_cuda.cuh
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(MOETRAIN_CUDA_FLAGS) -O2 -Xcompiler -Wall -c -o $@ $<
