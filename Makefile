# regard: `make test` builds everything and passes every test, installing what is missing
# first. `make help` lists the rest.

BUILD  ?= build
CFLAGS ?= -O3 -g
PREFIX ?= /usr/local

# IEEE arithmetic: these flags let GCC vectorise and change no result.
NUMBERS  := -fno-math-errno -fno-trapping-math -ffp-contract=off
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes
STB      := $(patsubst -I%,-isystem %,$(or $(shell pkg-config --cflags stb 2>/dev/null),-I/usr/include/stb))
CLANG    := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
# Threads; OPENMP= builds for one.
OPENMP   ?= $(shell echo 'int main(void) { return 0; }' | $(CC) -fopenmp -xc -include omp.h - -o /dev/null 2>/dev/null && echo -fopenmp)
OPENMP   := $(OPENMP)
override CFLAGS += -std=gnu11 $(WARNINGS) $(NUMBERS) -fPIC -fvisibility=hidden -pthread $(OPENMP) -I. $(STB)
LIBS := -lm -ldl -pthread

LAYERS   := tensor autograd nn
# These headers are for programs, and are installed; all others are private.
PUBLIC   := regard.h tensor/tensor.h autograd/autograd.h autograd/ops.h \
            $(addprefix nn/,nn.h module.h containers.h layers.h losses.h init.h text.h transformer.h optim.h)
sources   = $(sort $(wildcard $(1)/*.c $(1)/*/*.c))
objects   = $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(1)))
ARCHIVES := $(LAYERS:%=$(BUILD)/libregard-%.a)
STATIC   := $(BUILD)/libregard.a
SHARED   := $(BUILD)/libregard.so

# A test links its own layer and those below it, and nothing above.
links_tensor   := $(BUILD)/libregard-tensor.a
links_autograd := $(BUILD)/libregard-autograd.a $(links_tensor)
links_nn       := $(BUILD)/libregard-nn.a $(links_autograd)
tests           = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/$(1)/test_*.c)))
TESTS          := $(foreach l,$(LAYERS),$(call tests,$(l)))
FUZZERS        := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/*.c)))
EXAMPLES       := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard examples/*.c examples/notebooks/*.c)))
NOTEBOOKS      := $(patsubst examples/notebooks/%.c,%,$(sort $(wildcard examples/notebooks/*.c)))
# Beside the tests of a layer stand files that they share.
HELPERS        := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/*.c)))
helpers         = $(HELPERS) $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/$(1)/test_%,$(wildcard tests/$(1)/*.c)))

# The headers from C++, against the shared library, where there is a compiler for it.
CXX         := $(if $(CLANG),clang++,$(CXX))
CXXTEST     := $(if $(shell command -v $(CXX)),$(BUILD)/tests/cplusplus)
CXXFLAGS     = $(filter-out -std=gnu11 -Wstrict-prototypes,$(CFLAGS)) -std=c++17

.PHONY: all demo notebooks test-names test-notebooks test-examples test-readme test asan tsan fuzz valgrind bench docs size fmt install clean deps stb help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(STATIC) $(SHARED)

help:
	@sed -n 's/^## //p' Makefile

## all        the static and the shared library, in build/
## test       every test, with what it needs installed first
test: deps
	@$(MAKE) --no-print-directory run-tests test-names test-notebooks test-examples test-readme

run-tests: $(TESTS) $(CXXTEST) $(SHARED)
	@tests/run $(TESTS) $(CXXTEST)

# GCC 12 miscompiles the null check of a thread-local's address; ASan sees null pointers anyway.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=null \
            -fno-sanitize-recover=undefined

## asan       every test under AddressSanitizer and UBSan
asan: deps
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan \
	    CFLAGS="$(SANITIZE)" run-tests test-names test-notebooks test-examples test-readme

## tsan       the tests that start threads, under ThreadSanitizer
tsan: deps
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CFLAGS="-O1 -g -fsanitize=thread" OPENMP= run-threads

THREADED := $(patsubst %.c,$(BUILD)/%,$(shell grep -l pthread_create $(wildcard tests/*/test_*.c)))
run-threads: $(THREADED)
	@tests/run $(THREADED)

## fuzz       every reader on texts and files that nobody would write, under the same
fuzz:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CFLAGS="$(SANITIZE)" run-fuzzers

# The short form of one: each public function is called, and its errors name it.
test-names: $(BUILD)/tests/fuzz/fuzz_ops $(SHARED)
	@tests/fuzz/covers $(SHARED)
	@$< 150000

run-fuzzers: $(FUZZERS)
	@for f in $(FUZZERS); do $$f $(FUZZ) || exit 1; done

## valgrind   every test under valgrind, where a leak is a failure; QUICK=1: without the long ones
valgrind: deps
	@tests/deps valgrind
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/valgrind CFLAGS="-O1 -gdwarf-4" OPENMP= run-valgrind

LONG           = ops engine golden sets parallel attention gpt layers init transformer trajectory optim
UNDER_VALGRIND = $(if $(QUICK),$(filter-out $(LONG:%=\%/test_%),$(TESTS)),$(TESTS))
run-valgrind: $(UNDER_VALGRIND)
	@RUN="valgrind -q --leak-check=full --show-leak-kinds=definite,indirect,possible --error-exitcode=9" \
	    CK_FORK=no REGARD_POOL=0 tests/run $(UNDER_VALGRIND)

# V=1 shows the commands.
ifneq ($(V),1)
Q = @printf '%-7s %s\n' $(1) $(2);
endif

# The string map inside nn/text.c is a header of libstb-dev.
stb:
	@echo '#include <stb_ds.h>' | $(CC) $(STB) -E -xc - >/dev/null 2>&1 || tests/deps libstb-dev

# What was compiled before there was OpenMP is compiled again.
THREADS := $(BUILD)/threads-$(if $(OPENMP),many,one)
$(THREADS): $(if $(wildcard $(THREADS)),,stb)
	@mkdir -p $(@D)
	@touch $@

$(BUILD)/%.o: %.c Makefile $(THREADS) | stb
	@mkdir -p $(@D)
	$(call Q,compile,$<) $(CC) $(CFLAGS) -MMD -MP -c $< -o $@

define archive
$(BUILD)/libregard-$(1).a: $(call objects,$(1))
	@rm -f $$@
	$$(call Q,archive,$$@) ar rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call archive,$(l))))

$(STATIC): $(foreach l,$(LAYERS),$(call objects,$(l)))
	@rm -f $@
	$(call Q,archive,$@) ar rcs $@ $^

$(SHARED): $(foreach l,$(LAYERS),$(call objects,$(l)))
	$(call Q,link,$@) $(CC) $(CFLAGS) -shared -Wl,-soname,libregard.so,-z,nodelete,-Bsymbolic-functions -o $@ $^ $(LIBS)

define link_tests
$(call tests,$(1)): $(BUILD)/%: $(BUILD)/%.o $(call helpers,$(1)) $$(links_$(1))
	$$(call Q,link,$$@) $$(CC) $$(CFLAGS) -o $$@ $$< $$(call helpers,$(1)) -Wl,--whole-archive $$(links_$(1)) -Wl,--no-whole-archive $$$$(pkg-config --libs check) $$(LIBS)
endef
$(foreach l,$(LAYERS),$(eval $(call link_tests,$(l))))

$(BUILD)/tests/cplusplus: tests/cplusplus.cc $(SHARED) Makefile
	@mkdir -p $(@D)
	$(call Q,link,$@) $(CXX) $(CXXFLAGS) -MMD -MP -o $@ $< $(SHARED) '-Wl,-rpath,$(abspath $(BUILD))'

$(EXAMPLES) $(FUZZERS): $(BUILD)/%: $(BUILD)/%.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

## notebooks  the five notebooks' twins, to standard output and to build/notebooks/
notebooks: $(NOTEBOOKS:%=$(BUILD)/examples/notebooks/%)
	@mkdir -p $(BUILD)/notebooks
	@for n in $(NOTEBOOKS); do \
	    $(BUILD)/examples/notebooks/$$n > $(BUILD)/notebooks/$$n.txt || exit 1; cat $(BUILD)/notebooks/$$n.txt; done

# Each prints, in order, every output of its notebook, character for character.
test-notebooks: $(NOTEBOOKS:%=$(BUILD)/examples/notebooks/%)
	@for n in $(NOTEBOOKS); do \
	    $(BUILD)/examples/notebooks/$$n | diff - tests/notebooks/$$n.txt || exit 1; done
	@echo "notebooks: $(words $(NOTEBOOKS)) as the originals"

# The other examples, quickly: what they say, and how they refuse.
test-examples: $(EXAMPLES)
	@tests/examples $(BUILD)

# README.md's programs, and what it says that they print.
test-readme: $(STATIC) $(BUILD)/examples/train_self_attention
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" tests/readme $(BUILD)

## bench      regard beside PyTorch; ROWS=w0 for some of the rows
bench: $(BUILD)/bench-static $(BUILD)/bench-shared
	@tests/bench/run $^ $(ROWS)

$(BUILD)/bench-static: $(BUILD)/tests/bench/bench.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/bench-shared: $(BUILD)/tests/bench/bench.o $(SHARED)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $< -L$(BUILD) -lregard -Wl,-rpath,'$$ORIGIN' $(LIBS)

## docs       the reference of ops, from their rows, in build/ops.md
docs: $(BUILD)/tests/docs/ops
	@$< > $(BUILD)/ops.md
	@echo "$(BUILD)/ops.md: $$(grep -c '^| [a-z]' $(BUILD)/ops.md) ops"

$(BUILD)/tests/docs/ops: $(BUILD)/tests/docs/ops.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

## demo       trains a self-attention layer, with pictures; ARGS="'Another sentence to learn' --steps 600"
demo: $(BUILD)/examples/train_self_attention
	@$< --out $(BUILD)/demo $(ARGS)

## deps       what is missing of: check libstb-dev pkg-config; with Clang libomp-dev
deps:
	@tests/deps check libstb-dev pkg-config $(if $(CLANG),libomp-dev)

## size       lines of the three library folders
size:
	@tests/size $(wildcard $(LAYERS))

## fmt        clang-format over the lines that are changed and not committed
fmt:
	@tests/deps clang-format
	git clang-format --force

## install    headers and libraries under PREFIX (/usr/local)
install: all
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,lib $(addprefix include/regard/,$(sort $(dir $(PUBLIC)))))
	for h in $(PUBLIC); do install -m 644 $$h $(DESTDIR)$(PREFIX)/include/regard/$$h || exit 1; done
	install -m 644 $(STATIC) $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(SHARED) $(DESTDIR)$(PREFIX)/lib

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
