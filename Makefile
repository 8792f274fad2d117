# Prism: one non-recursive Makefile. Every folder with sources has a module.mk that
# calls the macros below; nothing is listed here twice. `make help` tells the targets.

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# `make deps all`: what the packages bring is looked up while this file is read, so the rest is a make of its own, after them.
AFTER_DEPS := $(if $(filter deps,$(MAKECMDGOALS)),$(filter-out deps,$(MAKECMDGOALS)))
ifneq ($(AFTER_DEPS),)
.PHONY: deps $(AFTER_DEPS)
deps:
	@contrib/deps.sh
$(firstword $(AFTER_DEPS)): deps
	@+$(MAKE) --no-print-directory $(AFTER_DEPS)
$(filter-out $(firstword $(AFTER_DEPS)),$(AFTER_DEPS)): $(firstword $(AFTER_DEPS))
	@:
else

VERSION  := 0.1.0
JOBS     ?= $(shell nproc)
CC       ?= gcc
SANITIZE ?=
DEBUG    ?= 0
prefix   ?= /usr/local
bindir   ?= $(prefix)/bin
libdir   ?= $(prefix)/lib
sysconfdir ?= $(prefix)/etc
datadir  ?= $(prefix)/share

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wformat=2 -Wno-unused-parameter
WERROR ?= $(if $(CI),-Werror,)
CFLAGS ?= -O2 -g
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE -DPRISM_VERSION=\"$(VERSION)\" -fPIC -fvisibility=hidden $(WARN) $(WERROR) -pthread

ifneq ($(SANITIZE),)
BASE_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
BASE_LDFLAGS += -fsanitize=$(SANITIZE)
ifeq ($(SANITIZE),undefined)
BASE_CFLAGS += -fno-sanitize-recover=undefined
endif
endif

# FUZZ=libfuzzer|afl: by clang or AFL++'s compiler, for tests/fuzz/run; readers then take wrong checksums.
ifneq ($(FUZZ),)
CC := $(if $(filter afl,$(FUZZ)),afl-clang-fast,clang)
BASE_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION \
	$(if $(filter afl,$(FUZZ)),,-fsanitize=fuzzer-no-link)
BASE_LDFLAGS += -fsanitize=address,undefined
endif

# Objects of different flags never mix: the build folder is keyed by them.
FLAVOUR := $(or $(FUZZ),$(SANITIZE),release)
BUILD   ?= build
B       := $(BUILD)/$(FLAVOUR)
OBJ     := $(B)/obj
BIN     := $(B)/bin
LIB     := $(B)/lib
FLAGS_ID := $(shell printf '%s' '$(CC) $(CFLAGS) $(BASE_CFLAGS) $(LDFLAGS) $(VERSION)' | cksum | cut -d' ' -f1)
FLAGS_STAMP := $(OBJ)/.flags-$(FLAGS_ID)
$(FLAGS_STAMP):
	@mkdir -p $(OBJ); rm -f $(OBJ)/.flags-*; touch $@

ALL :=
UNIT_TESTS :=
SYSTEM_TESTS :=
TEST_PROGRAMS :=
FUZZ_TARGETS :=
CLEAN :=

# $(call objects,dir,sources)
objects = $(patsubst %.c,$(OBJ)/%.o,$(addprefix $(1)/,$(2)))
# $(call archives,names): static libraries in link order
archives = $(patsubst %,$(LIB)/lib%.a,$(1))
# $(call soft_names,link flags): what -lcuda, -lcudart and -lnccl find, where a program links the software GPU
soft_names = $(if $(findstring -L$(LIB)/softgpu,$(1)),$(patsubst %,$(LIB)/softgpu/lib%.so,cuda cudart nccl))

# $(eval $(call static_library,name,dir,sources,extra cflags))
define static_library
$(LIB)/lib$(strip $(1)).a: $(call objects,$(strip $(2)),$(3))
$(call objects,$(strip $(2)),$(3)): MODULE_CFLAGS := -Ilib $(4)
ALL += $(LIB)/lib$(strip $(1)).a
endef

# $(eval $(call program,name,dir,sources,static libraries,link flags,extra cflags,rpath dirs))
define program
$(BIN)/$(strip $(1)): $(call objects,$(strip $(2)),$(3)) $(call archives,$(4)) | $(call soft_names,$(5))
$(BIN)/$(strip $(1)): PROGRAM_LIBS := $(call archives,$(4)) $(5)
$(call objects,$(strip $(2)),$(3)): MODULE_CFLAGS := -Ilib $(6)
ALL += $(BIN)/$(strip $(1))
endef

# $(eval $(call shared_library,file name,dir,sources,static libraries,link flags,extra cflags))
define shared_library
$(LIB)/$(strip $(1)): $(call objects,$(strip $(2)),$(3)) $(call archives,$(4))
$(LIB)/$(strip $(1)): SHARED_LIBS := $(call archives,$(4)) $(5)
$(call objects,$(strip $(2)),$(3)): MODULE_CFLAGS := -Ilib $(6)
ALL += $(LIB)/$(strip $(1))
endef

# $(eval $(call unit_test,name,dir,sources,static libraries,link flags,extra cflags)): a cmocka program
define unit_test
$(B)/test/$(strip $(1)): $(call objects,$(strip $(2)),$(3)) $(call archives,$(4)) | $(call soft_names,$(5))
$(B)/test/$(strip $(1)): PROGRAM_LIBS := $(call archives,$(4)) -lcmocka $(5)
$(call objects,$(strip $(2)),$(3)): MODULE_CFLAGS := -Ilib $(6)
UNIT_TESTS += $(B)/test/$(strip $(1))
endef

# $(eval $(call test_program,name,dir,sources,static libraries,link flags,extra cflags)): a helper that tests run
define test_program
$(B)/test/$(strip $(1)): $(call objects,$(strip $(2)),$(3)) $(call archives,$(4)) | $(call soft_names,$(5))
$(B)/test/$(strip $(1)): PROGRAM_LIBS := $(call archives,$(4)) $(5)
$(call objects,$(strip $(2)),$(3)): MODULE_CFLAGS := -Ilib $(6)
TEST_PROGRAMS += $(B)/test/$(strip $(1))
endef

# $(eval $(call fuzz_target,name,static libraries,link flags,extra cflags)): tests/fuzz/NAME.c, with a fuzzer where FUZZ names
# one, else a unit test that replays its corpus (tests/fuzz/main.c)
define fuzz_target
$(B)/test/fuzz_$(strip $(1)): $(call objects,tests/fuzz,$(strip $(1)).c $(if $(FUZZ),,main.c)) $(call archives,$(2))
$(B)/test/fuzz_$(strip $(1)): PROGRAM_LIBS := $(call archives,$(2)) $(if $(FUZZ),-fsanitize=fuzzer) $(3)
$(call objects,tests/fuzz,$(strip $(1)).c main.c): MODULE_CFLAGS := -Ilib -I. $(4)
UNIT_TESTS += $(B)/test/fuzz_$(strip $(1))
FUZZ_TARGETS += $(B)/test/fuzz_$(strip $(1))
endef

MODULES := $(sort $(wildcard lib/*/module.mk prismd/module.mk prismd/*/module.mk spank/module.mk contrib/*/module.mk etc/module.mk docs/module.mk tests/module.mk tests/*/module.mk))
include $(MODULES)

.PHONY: all help deps check unit system demo accuracy bench install uninstall clean print-%

all: $(ALL) ## build everything (libraries, prismd, prism, plugins, software GPUs, moetrain)

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  variables: SANITIZE=address|undefined|thread  prefix= DESTDIR=  CC= CFLAGS= SLURM_INCLUDE='

deps: ## install the Debian or Ubuntu packages that building and testing need (says which)
	@contrib/deps.sh

check: deps ## install what is missing, build, and run every test
	@$(MAKE) --no-print-directory -j$(JOBS) all test-programs
	@tests/run --build $(B) all

.PHONY: test-programs
test-programs: $(UNIT_TESTS) $(TEST_PROGRAMS)

unit: ## unit tests only
	@$(MAKE) --no-print-directory -j$(JOBS) all test-programs
	@tests/run --build $(B) unit

system: ## system tests only (bats)
	@$(MAKE) --no-print-directory -j$(JOBS) all test-programs
	@tests/run --build $(B) system

demo: deps ## boot a private one-box Slurm with software GPUs, emulate 1,024 ranks, print the report
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@tests/demo.sh --build $(B)

accuracy: deps ## full runs without Prism against their emulation: build/accuracy.json
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@tests/accuracy/run --build $(B) $(ACCURACY_ARGS)

bench: all test-programs ## benchmarks; nothing here is asserted
	@tests/bench.sh --build $(B)

.PHONY: samples
samples: all ## sample traces with checksums: build/samples
	@tests/samples.sh $(B) $(BUILD)/samples

install: all ## install under prefix (honours DESTDIR)
uninstall: ## remove what install put there

clean: ## remove the build folder
	rm -rf $(BUILD)

print-%:
	@echo '$($*)'

$(OBJ)/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(MODULE_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# Readers that take wrong checksums, for fuzz targets that are unit tests.
$(OBJ)/unchecked/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(MODULE_CFLAGS) $(CFLAGS) -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -MMD -MP -c -o $@ $<

$(LIB)/%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(LIB)/%:
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(SHARED_LIBS)

$(BIN)/% $(B)/test/%:
	@mkdir -p $(@D)
	$(Q)$(CC) -pthread $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(PROGRAM_LIBS)

ifeq ($(V),1)
Q :=
else
Q := @
endif

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

endif # AFTER_DEPS
