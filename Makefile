# regard: `make test` builds everything, installing what is missing first, and runs every test.
# `make help` lists the other goals. All of them use every core, unless make is given a -j.

BUILD  ?= build
CFLAGS ?= -O3 -g
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib

# A sub-make shares the jobs of the first one.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# These flags keep IEEE arithmetic. They let GCC vectorise and change no result.
NUMBERS  := -fno-math-errno -fno-trapping-math -ffp-contract=off
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror=switch
STB      := $(shell pkg-config --cflags stb 2>/dev/null)
STB      := $(patsubst -I%,-isystem %,$(or $(STB),-I/usr/include/stb))
CLANG    := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
# Each function and table has a section of its own, of which a program keeps those that it needs
# where its linker is asked to.
SECTIONS := -ffunction-sections -fdata-sections
NEEDED   := -Wl,$(if $(filter Darwin,$(shell uname)),-dead_strip,--gc-sections)
# A debugger steps through the kernels by their lines. What it knows of their variables takes a
# quarter of the time that they take to compile, and is there where CFLAGS is said.
LINES    := $(if $(filter file,$(origin CFLAGS)),-g1)
override CFLAGS += -std=gnu11 $(WARNINGS) $(NUMBERS) -fPIC -fvisibility=hidden -pthread \
                   $(SECTIONS) -I. $(if $(BARE),-Itests/bare) $(STB)
LIBS := -lm -ldl -pthread

LAYERS   := tensor autograd nn
# These headers are for programs, and are installed; all others are private.
PUBLIC   := regard.h tensor/keywords.h tensor/tensor.h \
            tensor/arguments/arguments.h tensor/arguments/each.h tensor/text/print.h \
            $(addprefix tensor/files/,files.h json_reader.h) \
            $(addprefix autograd/,autograd.h ops/ops.h ops/ops_macros.h replay/replay.h) \
            autograd/export/to_c.h autograd/export/compile.h \
            $(addprefix autograd/tools/,autocast.h function.h functional.h saved.h explain.h) \
            $(addprefix nn/,nn.h module.h containers.h tools/vector.h inside/points.h) \
            nn/tools/functional_call.h \
            $(addprefix nn/layers/,layers.h losses.h init.h attention.h kv_cache.h positions.h) \
            $(addprefix nn/layers/,transformer.h recurrent.h) \
            $(addprefix nn/save/,save.h checkpoint.h seal.h) \
            $(addprefix nn/optim/,optim.h optimizer.h clip.h schedule.h averaged_model.h) \
            nn/data/data.h $(addprefix nn/models/,gpt.h sampling.h vocabulary.h batches.h) \
            $(addprefix nn/models/,tokenizer.h gpt_folder.h) \
            $(addprefix nn/report/,pictures.h progress.h report.h)
sources   = $(sort $(filter-out nn/parallel/%,$(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)))
compiled  = $(patsubst %.c,$(BUILD)/%.o,$(1))
objects   = $(call compiled,$(call sources,$(1)))
ARCHIVES := $(LAYERS:%=$(BUILD)/libregard-%.a)
STATIC   := $(BUILD)/libregard.a
SHARED   := $(BUILD)/libregard.so
# A program that was linked with one version runs with every later one that has the same first
# number, which stands in the shared library's name and in its symbols' version.
VERSION  := $(shell sed -n 's/^.define RG_VERSION *"\(.*\)"/\1/p' tensor/tensor.h)
MAJOR    := $(firstword $(subst ., ,$(VERSION)))

# nn/parallel/ is a library of its own, for many processes: on MPI where that is found, and else of
# one process, for the examples, which are then the same programs.
MPI          := $(shell RUN='$(RUN)' tests/mpi $(BUILD) $(CC))
MPIFLAGS     := $(filter -isystem% -D%,$(MPI))
MPILIBS      := $(filter-out $(MPIFLAGS),$(MPI))
PARALLEL     := $(call compiled,$(filter-out nn/parallel/$(if $(MPI),alone,mpi).c,$(sort \
                $(wildcard nn/parallel/*.c))))
MPI_PUBLIC   := $(addprefix nn/parallel/,parallel.h process_group.h distributed.h \
                distributed_checkpoint.h sharded_optim.h)
MPI_STATIC   := $(if $(MPI),$(BUILD)/libregard-mpi.a)
MPI_SHARED   := $(if $(MPI),$(BUILD)/libregard-mpi.so)

# A test links its own layer and those below it, and nothing above.
links_tensor   := $(BUILD)/libregard-tensor.a
links_autograd := $(BUILD)/libregard-autograd.a $(links_tensor)
links_nn       := $(BUILD)/libregard-nn.a $(links_autograd)
programs        = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard $(1))))
tests           = $(call programs,tests/$(1)/test_*.c)
TESTS          := $(foreach l,$(LAYERS),$(call tests,$(l)))
# The fuzzer that takes longest begins first.
FUZZERS        := $(call programs,tests/fuzz/fuzz_tokenizer.c)
FUZZERS        += $(filter-out $(FUZZERS),$(call programs,tests/fuzz/*.c))
# One test counts what these files do, step by step: they are compiled for it a second time.
STEPS          := $(BUILD)/tests/steps/test_steps
COUNTED        := tensor/map.c nn/optim/optimizer.c nn/optim/optim_state.c nn/optim/saved.c \
                  $(addprefix autograd/,hook_list.c hooks.c call_hooks.c collect.c leaf_table.c) \
                  $(addprefix autograd/replay/,lower.c parts.c) \
                  $(addprefix nn/,module.c names.c tree.c state.c containers.c call.c) \
                  $(addprefix nn/tools/,convert.c copy.c repr.c requires_grad.c tie.c)
TESTS          += $(STEPS)
# These run under mpirun.
TOGETHER       := $(call programs,tests/parallel/*.c)
EXAMPLES       := $(call programs,examples/*.c examples/notebooks/*.c)
NOTEBOOKS      := $(patsubst examples/notebooks/%.c,%,$(sort $(wildcard examples/notebooks/*.c)))
# The library as one file is compiled in these ways (tests/one_file/compile): with ALL=1 for all
# instruction sets, too, and with the other compilers that are here.
ONE_FILE       := plain $(if $(ALL),sets \
                  $(foreach c,clang musl-gcc,$(if $(shell command -v $(c)),$(c))))
ONE_FILE       := $(ONE_FILE:%=$(BUILD)/one-file/%.o)
# Other files of tests/ and of a layer's folder there are shared by the layer's tests. BARE=1 takes
# the part of Check that is in tests/bare, for targets for which there is no Check.
BARE_CHECK     := tests/bare/check.c tests/bare/windows/posix.c
HELPERS        := $(call compiled,$(sort $(wildcard tests/*.c)) $(if $(BARE),$(BARE_CHECK)))
LIBCHECK        = $(if $(BARE),,$$(pkg-config --libs check))
helpers         = $(HELPERS) \
                  $(call compiled,$(filter-out tests/$(1)/test_%,$(wildcard tests/$(1)/*.c)))

# Where there is a C++ compiler, the headers are compiled with it, too, for the shared library.
CXX         := $(if $(CLANG),clang++,$(CXX))
CXXTEST     := $(if $(shell command -v $(CXX)),$(BUILD)/tests/cplusplus)
CXXFLAGS     = $(filter-out -std=gnu11 -Wstrict-prototypes,$(CFLAGS)) -std=c++17

CHECKS  := test-export test-one-file run-tests test-names test-notebooks test-examples \
           test-pages test-guide test-refused test-debugger test-literals test-wrong test-report \
           test-loops test-graphs test-parallel
GOALS   := all help test asan tsan fuzz coverage mutants ulp valgrind exchange notebooks bench \
           docs demo one-file deps size style same fmt install uninstall clean sets musl arm64 \
           windows mcu web musl-deps arm64-deps windows-deps mcu-deps web-deps mpi-deps \
           docs-deps ulp-deps write-docs measure-ulp install-core install-mpi test-leaks \
           $(CHECKS) run-threads run-fuzzers run-valgrind run-bare run-alone
.PHONY: $(GOALS) programs stb print-public print-mpi-public
.DELETE_ON_ERROR:
.SECONDARY:

all: $(STATIC) $(SHARED) $(MPI_STATIC) $(MPI_SHARED)

# Goals that are asked for together run one after another, so that what they print keeps apart.
# Their programs are still compiled side by side, but after `clean` where that comes first. The
# checks of `make test` run side by side, since most of them use one core, and the longest begin
# first; GNU make 4 keeps together what each prints. The many processes of test-parallel need all
# cores: it runs last, and alone.
BESIDE = SIDE_BY_SIDE=1 $(if $(filter output-sync,$(.FEATURES)),-Otarget)
asked := $(filter $(GOALS),$(MAKECMDGOALS))
ifeq ($(SIDE_BY_SIDE),)
$(foreach g,$(asked),$(eval $(g): | $(before))$(eval before := $(g)))
else
test-parallel: | $(filter-out test-parallel,$(asked))
endif
CLEAN := $(filter clean,$(firstword $(asked)))

help:
	@sed -n 's/^## //p' Makefile

## all        the static and the shared library, in build/
## test       every test, with what it needs installed first
test: deps
	@$(MAKE) --no-print-directory programs
	@began=$$(date +%s); $(MAKE) --no-print-directory $(BESIDE) $(CHECKS) || { \
	    echo "make test: a test failed, as the lines above say"; exit 1; }; \
	    tests/verdict $$began $(if $(filter run-tests,$(CHECKS)),$(RAN:%=%.txt))

# The programs of the checks are built before the first check runs. What takes longest begins first.
programs: $(if $(filter test-one-file,$(CHECKS)),$(ONE_FILE)) $(TESTS) $(CXXTEST) $(STATIC) \
          $(SHARED) $(BUILD)/tests/fuzz/fuzz_ops $(EXAMPLES) \
          $(if $(MPI),$(TOGETHER) $(MPI_STATIC) $(MPI_SHARED))

# Test programs run side by side, and what each of them prints keeps together. SKIP names some that
# are left out. The warnings that a program provoked are shown only if the program failed; its file
# has them in any case.
RAN = $(addsuffix .ran,$(filter-out $(SKIP:%=\%/test_%),$(TESTS)) $(CXXTEST))
run-tests: $(TESTS) $(CXXTEST) $(SHARED)
	@$(MAKE) -k --no-print-directory $(RAN)

# run-alone runs the test programs only: for targets on which the shared library and the programs
# that run-tests also builds can't be built.
run-alone: $(RAN)

%.ran: %
	@RUN="$(RUN)" tests/run $< >$@.txt 2>&1 && grep -v '^regard: warning: ' $@.txt \
	    || { cat $@.txt; exit 1; }

# GCC 12 miscompiles UBSan's null check of a thread-local's address, and ASan sees null
# pointers anyway. Clang also reports 0 added to a null pointer, which C2y defines.
SANITIZE := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=null \
            -fno-sanitize-recover=undefined $(if $(CLANG),-fno-sanitize=pointer-overflow)

# lld, where it is installed, links the programs of these gates in half the time. (`make test` has
# linked them as users do.)
LINKED := LIBS="$(LIBS) $(if $(shell command -v ld.lld 2>/dev/null),-fuse-ld=lld)"

## asan       every test under AddressSanitizer and UBSan; QUICK=1: without the long ones
asan: deps
	@$(if $(QUICK),,$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CFLAGS="$(SANITIZE)" \
	    $(LINKED) programs)
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CFLAGS="$(SANITIZE)" $(LINKED) \
	    SKIP="$(if $(QUICK),$(LONG_SANITIZED))" \
	    $(if $(QUICK),run-tests test-notebooks test-refused,$(CHECKS))

# QUICK=1 leaves these tests out: they compute much, in ways that shorter tests go, too, or run
# programs that no sanitizer sees. `make fuzz` is a gate of its own, which calls functions with
# tensors of each dtype; `make valgrind` runs the many processes.
LONG_SANITIZED = bits parallel trajectory bfloat16 transformers golden gradcheck rule_checks sets \
                 half_ops default_dtype compile compiled

# The quick forms of tsan and musl compile the loops for the plain set alone, in a quarter of the
# time. Work is divided among threads in the same way in every set, and all sets call the same few
# functions of libm. Objects for one set have a folder of their own, since others don't fit them.
IN_ONE_SET = $(if $(QUICK),-plain)

## tsan       the tests that start threads, under ThreadSanitizer; QUICK=1: in one set
tsan: deps
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan$(IN_ONE_SET) $(LINKED) \
	    CFLAGS="-O1 -g1 -fsanitize=thread $(if $(QUICK),-DRG_ONLY_PLAIN)" run-threads

# Of test_denied's threads one runs after the other, and it takes many minutes there. The thread of
# test_deep runs alone, on a stack that is too small for TSan's frames.
THREADED := $(call programs,$(filter-out %/test_denied.c %/test_deep.c,\
                $(shell grep -l pthread_create $(wildcard tests/*/test_*.c))))
run-threads: $(THREADED:%=%.ran)

## fuzz       every reader and every op, on what nobody would write, under the same sanitizers
fuzz:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan CFLAGS="$(SANITIZE)" $(LINKED) run-fuzzers

# A short run of one fuzzer sees that each public function is called, that its errors name it, and
# that it says what it has always said.
test-names: $(BUILD)/tests/fuzz/fuzz_ops $(SHARED)
	@tests/fuzz/covers $(SHARED)
	@tests/fuzz/says $<
	@$< 150000

run-fuzzers: $(FUZZERS)
	@$(MAKE) -k --no-print-directory $(FUZZERS:%=%.fuzzed)
%.fuzzed: %
	@$< $(FUZZ) >$@.txt 2>&1; status=$$?; cat $@.txt; exit $$status

## coverage   which part of the lines and branches of each folder the tests run
# test_parallel is left out: its threads would wait for each other at every counter.
coverage: deps
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/coverage SKIP=parallel \
	    CFLAGS="-O1 -g1 --coverage -DRG_ONLY_PLAIN" run-tests
	@tests/coverage $(BUILD)/coverage

## mutants    plants N=100 faults that SEED=1 draws, one at a time; lists those that no test finds.
##            FOLDER=nn/optim: in a part of the library
mutants: deps
	@CC="$(CC)" SANITIZE="$(SANITIZE)" \
	    tests/mutants/run $(BUILD) $(or $(SEED),1) $(or $(N),100) $(FOLDER)

## ulp        errors of functions of one tensor, found by MPFR; QUICK=1: each 4099th float
ulp: ulp-deps
	@$(MAKE) --no-print-directory measure-ulp
ulp-deps:
	@tests/deps libmpfr-dev
measure-ulp: $(BUILD)/ulp/ulp
	@CC="$(CC)" tests/ulp/run $(BUILD)

## valgrind   every test under valgrind, where a leak is a failure; QUICK=1: without the long ones
# The programs are those of `make test`.
valgrind: deps
	@tests/deps valgrind
	@$(MAKE) --no-print-directory run-valgrind

# QUICK=1 leaves these tests out, which take long under valgrind; most run under the sanitizers.
LONG_CHECKED = compile compiled ops half_ops half_training engine golden sets every_set parallel \
               foreign torch_file attention gpt layers init lower \
               transformer transformers trajectory optim checkpoint conv gradcheck gpt_folder \
               replays denied recurrent copy rule_checks bfloat16 npy profile points walk \
               steps parse print replay functional random reduce sizes loop_text \
               load_limit exactness deep plan replay_changes default_dtype
LEAKS        = valgrind -q --leak-check=full --error-exitcode=9 \
               --show-leak-kinds=definite,indirect,possible
# A fork's child would count the parent's threads as leaks. Tests of threads set their number.
run-valgrind:
	@CK_FORK=no REGARD_POOL=0 REGARD_THREADS=1 $(MAKE) --no-print-directory RUN="$(LEAKS)" CXX= \
	    SKIP="$(if $(QUICK),$(LONG_CHECKED))" run-tests $(if $(MPI),test-leaks)
test-leaks: $(TOGETHER)
	@tests/parallel/leaks $(BUILD)

## sets       every test in each instruction set below the best; QUICK=1: short forms of most tests
sets: deps
	@$(MAKE) --no-print-directory programs
	@$(if $(QUICK),EMULATED=1) tests/sets $(firstword $(TESTS)) $(MAKE) --no-print-directory \
	    SKIP="$(if $(QUICK),$(SAME_IN_SETS))" \
	    $(if $(QUICK),run-tests,$(filter-out test-parallel,$(CHECKS)))

# QUICK=1 runs the test programs alone, and asks them for the short forms that they have for
# emulators: test_sets and test_every_set, in `make test`, have compared the sets at every size. It
# leaves out these tests, which take most of the time: the first call no loop of numbers, and the
# others compare, within one set, calls with threads, plans and compiled steps.
SAME_IN_SETS = denied safetensors zip torch_file loop_text bits trajectory parallel plan compile \
               compiled

# On other targets a warning is an error, for nobody reads what their compilers say.
ELSEWHERE = --no-print-directory BARE=1 CXX= BUILD=$(BUILD)/$@$(FOLDER_ELSEWHERE) \
            CFLAGS="$(if $(QUICK),-O1,-O2) -Werror $(FLAGS_ELSEWHERE)"

## musl       every test with musl as the C library; QUICK=1: without the long ones, in one set
musl: FLAGS_ELSEWHERE = $(if $(QUICK),-DRG_ONLY_PLAIN)
musl: FOLDER_ELSEWHERE = $(IN_ONE_SET)
musl: musl-deps
	@$(MAKE) $(ELSEWHERE) $(LINKED) CC=musl-gcc SKIP="$(if $(QUICK),$(LONG_ELSEWHERE))" \
	    run-bare run-tests test-notebooks $(if $(QUICK),,test-examples)

# QUICK=1 leaves these tests out: they compute much, and little of it is the C library's.
# (Steps are compiled by cc, for the C library and the processor of this machine.)
LONG_ELSEWHERE = compile compiled bits parallel ops half_ops golden trajectory gradcheck sizes \
                 plan every_set attention matmul conv lower

## arm64      the tests but two long ones, on an emulated ARM of 64 bits; QUICK=1: but more of them
arm64: arm64-deps
	@$(MAKE) $(ELSEWHERE) CC=aarch64-linux-gnu-gcc RUN="$(EMULATOR)" \
	    SKIP="$(LONG_EMULATED) $(if $(QUICK),$(SLOW_EMULATED))" run-bare run-tests

EMULATOR = qemu-aarch64 -E EMULATED=1 -L /usr/aarch64-linux-gnu
musl-deps:
	@tests/deps musl-tools libstb-dev
arm64-deps:
	@tests/deps gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libstb-dev

## windows    most tests, compiled by MinGW-w64, under Wine; QUICK=1: without the long ones
windows: FLAGS_ELSEWHERE = -DRG_ONLY_PLAIN -D__USE_MINGW_ANSI_STDIO=1 -D_FILE_OFFSET_BITS=64 \
                           -Wno-format
windows: windows-deps
	@rm -f $(BUILD)/$@/tests/*/*.ran.txt
	@tests/wine $(BUILD)/$@ $(MAKE) -k $(ELSEWHERE) CC=x86_64-w64-mingw32-gcc \
	    LIBS='$(LIBS_ON_WINDOWS)' LIGHTLY="-O0 -Itests/bare/windows -include posix.h" \
	    RUN="timeout 300 wine" SKIP="$(NOT_ON_WINDOWS) $(if $(QUICK),$(SLOW_ON_WINDOWS))" \
	    run-bare run-alone
	@cat $(BUILD)/$@/tests/*/*.ran.txt | awk '/^100%/ { n += $$3 } /: left out/ { left++ } \
	    END { print "make windows:", n - left, "tests passed, and", left, "are left out" }'
	@$(if $(QUICK),echo "QUICK left out the programs: $(SLOW_ON_WINDOWS)")
windows-deps:
	@tests/deps gcc-mingw-w64-x86-64-posix wine64 wine libstb-dev
	@mkdir -p $(BUILD)/windows && echo 'int main(void) { return 0; }' | \
	    x86_64-w64-mingw32-gcc -xc - -o $(BUILD)/windows/empty.exe
	@tests/wine $(BUILD)/windows timeout 100 wine $(BUILD)/windows/empty.exe || { \
	    echo "make windows: Wine doesn't run programs here"; exit 1; }

# The compiler would add .exe to a program's name. The linker, which this -o reaches, doesn't.
LIBS_ON_WINDOWS = -static -lm -pthread -Wl,-o,$$@
# Test programs that aren't built for Windows: callbacks needs <glob.h>, the others test fork, pipe
# and dladdr, and Windows has none of these. In tests/bare/windows/left_out.def are single tests of
# the other programs that can't pass on Windows.
NOT_ON_WINDOWS = compile compiled callbacks fork unread trace
# Programs that take long in Wine: they compute much, or make many calls for files, which are slow.
SLOW_ON_WINDOWS = parallel sizes denied ops gradcheck bits sets transformers golden scope \
                  safetensors zip npy attention trajectory conv gpt

# An emulator is twenty times as slow, and these would take many minutes, or one or two.
LONG_EMULATED = compile compiled parallel bits
SLOW_EMULATED = trajectory golden special gpt conv gradcheck transformers torch_file denied ops \
                matmul attention bfloat16 rule_checks sizes half_ops default_dtype plan lower

# The small part of Check is seen to tell a test that fails.
$(BUILD)/tests/bare/wrong: $(call compiled,tests/bare/wrong.c $(BARE_CHECK))
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

run-bare: $(BUILD)/tests/bare/wrong
	@$(RUN) $< >$<.txt 2>&1 || { cat $<.txt; exit 1; }
	@echo "bare: $$(tail -1 $<.txt)"

# V=1 shows the commands.
ifneq ($(V),1)
Q = @printf '%-7s %s\n' $(1) $(2);
endif

# tensor/map.c takes its hash map from libstb-dev.
stb:
	@echo '#include <stb_ds.h>' | $(CC) $(STB) -E -xc - >/dev/null 2>&1 || tests/deps libstb-dev

# Tests spend their time in the library, and are compiled three times as fast without optimisation;
# what is measured is compiled as a user's program would be.
$(BUILD)/tests/%.o: override CFLAGS += $(LIGHTLY)
$(BUILD)/tests/bench/%.o $(BUILD)/tests/ulp/%.o: LIGHTLY :=
LIGHTLY := -O0

# After `clean`, where that is asked for first, everything is compiled again.
$(BUILD)/%.o: %.c Makefile $(CLEAN) | stb
	@mkdir -p $(@D)
	$(call Q,compile,'$<$(count)') $(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/tensor/kernels/%.o: override CFLAGS += $(LINES)

# At -O3 GCC unrolls what its vectors leave of a loop, which makes kernels larger by half and no
# faster. These are compiled at -O2, with -O3's vectors; their loops that must be unrolled say so.
SMALLER := sums norms extremes products activations special compare binary ternary unary random \
           optim distance loss pool half_product half_float bfloat16
SMALL   := $(if $(CLANG),,$(if $(filter -O3,$(CFLAGS)),-O2 -ftree-vectorize \
           -fvect-cost-model=dynamic -fno-tree-loop-distribute-patterns))
$(SMALLER:%=$(BUILD)/tensor/kernels/%.o): override CFLAGS += $(SMALL)

# The rooms that compute little themselves are also compiled at -O2, except the files in FASTER:
# those whose functions need fewer instructions for small tensors at -O3, and the decompressor.
FASTER := tensor/files/inflate.c nn/optim/step.c \
          $(patsubst %,autograd/ops/%.c,product reduce reshape part permute softmax layer_norm)
ROOMS  := $(wildcard $(addsuffix /*.c,tensor/text tensor/files tensor/files/torch autograd/tools \
          autograd/ops nn/*)) tensor/map.c
$(call compiled,$(filter-out $(FASTER) nn/parallel/%,$(ROOMS))): override CFLAGS += $(SMALL)

# What a program calls seldom, or what waits for a file, is compiled at -Os.
SMALLEST := $(if $(filter -O3,$(CFLAGS)),-Os)
SELDOM   := $(wildcard $(addsuffix /*.c,tensor/text tensor/files tensor/files/torch \
            tensor/messages nn/report nn/save nn/data nn/tools nn/optim nn/models \
            autograd/export)) autograd/hooks.c autograd/rebase.c \
            $(patsubst %,nn/parallel/%.c,buffers distributed distributed_checkpoint group \
            mpi parts reducer sharded_optim) \
            $(addprefix autograd/replay/,lower.c plan.c recording.c) \
            $(patsubst %,nn/%.c,backward_hooks containers module names state tree) \
            $(addprefix tensor/kernels/,trace.c steps.c element.c half.c) tensor/load.c \
            tensor/compare.c tensor/look.c \
            $(patsubst %,tensor/random/%.c,distributions generator random rewind) \
            $(patsubst %,autograd/tools/%.c,anomaly autocast check_run checkpoint explain \
            function_check functional gradcheck graphviz paths profile profile_file rule_checks)
SELDOM   += $(patsubst %,nn/layers/%.c,transformer transformer_decoder transformer_encoder \
            transformer_model kv_cache packed positions recurrent_cells sequence_checks init child \
            pool conv batch_norm multihead_attention recurrent) \
            $(patsubst %,autograd/ops/%.c,batch_norm bincount conv cross_entropy distance einsum \
            embedding embedding_loss half half_linear likelihood_loss loss nll pad pool rank \
            recurrent repeat roll rotary scatter_reduce strided subscript subscript_text \
            tensordot triangle unfold)
OFTEN    := tensor/text/digits.c $(addprefix nn/optim/,optimizer.c optimizers.c clip.c) \
            $(addprefix nn/models/,batches.c gpt_generate.c sampling.c tokenizer_encode.c bpe.c \
            regex.c aligned.c normalizer.c pretokenizer.c tokenizer_model.c unigram.c) \
            nn/save/sha256.c
$(call compiled,$(filter-out $(FASTER) $(OFTEN),$(SELDOM))): override CFLAGS += $(SMALLEST)

# stb_ds, of which this file is made, shifts bytes into the sign bit, and indexes past an array of
# eight that stands for a longer one. Neither does harm, and UBSan would stop at both.
$(BUILD)/tensor/map.o $(BUILD)/steps/tensor/map.o: override CFLAGS += -fno-sanitize=shift,bounds

# The text of the loops, which a program that writes steps as C links: as items, and as the bytes
# of a file that gzip makes of them.
EXPORT := $(BUILD)/autograd/export
$(EXPORT)/loops.txt: $(addprefix autograd/export/,loops loops.awk by_hand.txt) \
                     $(wildcard tensor/*.h tensor/*/*.h tensor/kernels/*/* tensor/kernels/*.[cd]*) \
                     $(CLEAN)
	@mkdir -p $(@D)
	$(call Q,write,$@) CC="$(CC)" autograd/export/loops $@

$(EXPORT)/loops.inc: $(EXPORT)/loops.txt
	@gzip -9n <$< | od -An -v -tu1 | sed 's/ *\([0-9][0-9]*\)/\1,/g' >$@

$(EXPORT)/loop_text.o: $(EXPORT)/loops.inc
$(EXPORT)/loop_text.o: override CFLAGS += -I$(EXPORT)

define archive
$(BUILD)/libregard-$(1).a: $(call objects,$(1))
	@rm -f $$@
	$$(call Q,archive,$$@) ar rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call archive,$(l))))

$(STATIC): $(foreach l,$(LAYERS),$(call objects,$(l)))
	@rm -f $@
	$(call Q,archive,$@) ar rcs $@ $^

LINK_SHARED = -shared -Wl,-soname,$(notdir $(SHARED)).$(MAJOR),-z,nodelete,-Bsymbolic-functions \
              -Wl,--version-script=$(BUILD)/libregard.map
$(SHARED): $(foreach l,$(LAYERS),$(call objects,$(l)))
	@echo 'REGARD_$(MAJOR) { global: rg_*; local: *; };' >$(BUILD)/libregard.map
	@ln -sf $(@F) $@.$(MAJOR)
	$(call Q,link,$@) $(CC) $(CFLAGS) $(LINK_SHARED) -o $@ $^ $(LIBS)

$(BUILD)/nn/parallel/mpi.o: override CFLAGS += $(MPIFLAGS)

$(BUILD)/libregard-mpi.a: $(PARALLEL)
	@rm -f $@
	$(call Q,archive,$@) ar rcs $@ $^

# It finds of regard only what is public.
$(BUILD)/libregard-mpi.so: $(PARALLEL) $(SHARED)
	@echo 'REGARD_MPI_$(MAJOR) { global: rg_*; local: *; };' >$(BUILD)/libregard-mpi.map
	@ln -sf $(@F) $@.$(MAJOR)
	$(call Q,link,$@) $(CC) $(CFLAGS) -shared -Wl,-soname,$(@F).$(MAJOR),-z,defs \
	    -Wl,--version-script=$(BUILD)/libregard-mpi.map -o $@ $^ $(MPILIBS) $(LIBS)

# Every object of a layer is linked to its tests, so that one that calls upward fails.
define link_tests
$(call tests,$(1)): $(BUILD)/%: $(BUILD)/%.o $(call helpers,$(1)) $$(links_$(1))
	$$(call Q,link,$$@) $$(CC) $$(CFLAGS) -o $$@ $$< $$(call helpers,$(1)) \
	    -Wl,--whole-archive $$(links_$(1)) -Wl,--no-whole-archive \
	    $$(LIBCHECK) $$(LIBS)
endef
$(foreach l,$(LAYERS),$(eval $(call link_tests,$(l))))

$(BUILD)/steps/%.o: %.c Makefile $(CLEAN) | stb
	@mkdir -p $(@D)
	$(call Q,compile,$<) $(CC) $(CFLAGS) -fsanitize-coverage=trace-pc -MMD -MP -c $< -o $@

$(STEPS): $(STEPS).o $(HELPERS) $(COUNTED:%.c=$(BUILD)/steps/%.o) $(links_nn)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBCHECK) $(LIBS)

$(BUILD)/tests/cplusplus: tests/cplusplus.cc $(SHARED) Makefile
	@mkdir -p $(@D)
	$(call Q,link,$@) $(CXX) $(CXXFLAGS) -MMD -MP -o $@ $< $(SHARED) '-Wl,-rpath,$(abspath $(BUILD))'

$(BUILD)/examples/char_gpt $(BUILD)/examples/train_self_attention: $(PARALLEL)
$(EXAMPLES) $(FUZZERS): $(BUILD)/%: $(BUILD)/%.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $(filter-out $(STATIC),$^) $(STATIC) \
	    $(if $(filter $(PARALLEL),$^),$(MPILIBS)) $(LIBS)

$(TOGETHER): $(BUILD)/%: $(BUILD)/%.o $(PARALLEL) $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(MPILIBS) $(LIBS)

# These are regard's half of the scripts in tests/exchange/.
EXCHANGE := $(call programs,tests/exchange/*.c)
$(EXCHANGE): $(BUILD)/%: $(BUILD)/%.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

## exchange   files to and from PyTorch, NumPy, safetensors and transformers, where they are
exchange: $(EXCHANGE) $(SHARED) $(BUILD)/examples/decoder $(BUILD)/examples/sentences
	@tests/exchange/run $(BUILD)

## notebooks  the five notebooks' twins, to standard output and to build/notebooks/
notebooks: $(NOTEBOOKS:%=$(BUILD)/examples/notebooks/%)
	@mkdir -p $(BUILD)/notebooks
	@for n in $(NOTEBOOKS); do \
	    $(BUILD)/examples/notebooks/$$n > $(BUILD)/notebooks/$$n.txt || exit 1; \
	    cat $(BUILD)/notebooks/$$n.txt; \
	done

# Each twin prints, in order, every output of its notebook, character for character.
test-notebooks: $(NOTEBOOKS:%=$(BUILD)/examples/notebooks/%)
	@for n in $(NOTEBOOKS); do \
	    $(BUILD)/examples/notebooks/$$n | diff - tests/notebooks/$$n.txt || exit 1; \
	done
	@echo "notebooks: $(words $(NOTEBOOKS)) as the originals"

# The other examples are run for a short while, and with arguments that they must refuse.
test-examples: $(EXAMPLES)
	@tests/examples $(BUILD)

# The programs of README.md and of the guides in docs/ print what these say that they print.
test-pages: $(STATIC) $(BUILD)/examples/train_self_attention
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" CFLAGS="$(CFLAGS)" CXXFLAGS="$(CXXFLAGS)" \
	    LIBS="$(LIBS)" tests/pages $(BUILD)

# So does the program of docs/own_layer.md, for which the public headers are enough.
test-guide: $(STATIC)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" MAKE="$(MAKE)" tests/guide $(BUILD)
print-public:
	@echo $(PUBLIC)
print-mpi-public:
	@echo $(filter-out %/parallel.h,$(MPI_PUBLIC))

# The compilers of C and C++ refuse the lines that must not compile, options have the same
# defaults in both languages, and calls with numbers that aren't values of an enum fail.
test-refused: $(STATIC)
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" tests/refused
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" RUN="$(RUN)" tests/defaults
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" RUN="$(RUN)" tests/enums $(STATIC)

# Options that are literals live as long as the call that they are given to.
test-literals: $(STATIC)
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" LIBS="$(LIBS)" RUN="$(RUN)" \
	    tests/literals/run $(BUILD)
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" LIBS="$(LIBS)" RUN="$(RUN)" \
	    tests/literals/order $(BUILD)

# Programs with the usual mistakes tell their users what is wrong, and where.
test-wrong: $(STATIC)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" RUN="$(RUN)" tests/wrong/run $(BUILD)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" RUN="$(RUN)" tests/environment $(BUILD)

# A browser, where there is one, shows the page of a run, also where it is cut short.
test-report: $(STATIC)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" RUN="$(RUN)" tests/report/run $(BUILD)

# The text of the loops, the steps that are written as C with it, and steps of random operations.
# LONG=1 compiles the steps in more ways, and GRAPHS=10000 makes so many random ones.
EXPORTING = CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" RUN="$(RUN)"
test-loops: $(STATIC)
	@$(EXPORTING) tests/export/loops $(BUILD)
test-export: $(STATIC)
	@$(EXPORTING) LONG="$(LONG)" tests/export/run $(BUILD)
test-graphs: $(STATIC)
	@$(EXPORTING) tests/export/random $(BUILD) $(or $(GRAPHS),60)

# A debugger stops at rg_fail where the library itself fails, and prints tensors and modules.
test-debugger: $(BUILD)/examples/gpt2 all
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" MAKE="$(MAKE)" tests/debugger/run $(BUILD)

# Several processes learn together, as one does. KILLS=50 kills so many of them, to see that what is
# left goes on.
test-parallel: $(if $(MPI),$(TOGETHER) $(MPI_STATIC) $(STATIC) $(BUILD)/examples/char_gpt \
               $(BUILD)/examples/train_self_attention)
ifneq ($(MPI),)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(MPILIBS) $(LIBS)" tests/parallel/run $(BUILD) $(KILLS)
else
	@echo "parallel: left out, for there is no MPI: make mpi-deps installs it"
endif
mpi-deps:
	@tests/deps mpi-default-dev

## mcu        exported steps train on an emulated microcontroller, with their sizes there
mcu: mcu-deps $(BUILD)/examples/learners
	@tests/mcu $(BUILD)
mcu-deps:
	@tests/deps gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm

## web        a page in which exported steps train, build/web/index.html
web: web-deps $(BUILD)/examples/learners
	@tests/web $(BUILD)
web-deps:
	@tests/deps clang lld

## bench      regard beside PyTorch; ROWS=w0 for some of the rows; MICROGPT=FILE for that program
bench: $(BUILD)/bench-static $(BUILD)/bench-shared $(BUILD)/bench-vectors \
       $(BUILD)/examples/microgpt $(BUILD)/examples/decoder
	@MICROGPT="$(MICROGPT)" tests/bench/run $(wordlist 1,2,$^) $(ROWS)

$(BUILD)/bench-static: $(BUILD)/tests/bench/bench.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/ulp/ulp: $(call compiled,tests/ulp/ulp.c tests/ulp/references.c) $(STATIC)
	@mkdir -p $(@D)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ -lmpfr -lgmp $(LIBS)

$(BUILD)/bench-vectors: $(BUILD)/tests/bench/vectors.o $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/bench-shared: $(BUILD)/tests/bench/bench.o $(SHARED)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $< -L$(BUILD) -lregard -Wl,-rpath,'$$ORIGIN' $(LIBS)

## docs       a site of guides, functions and ops, in build/docs/
docs: docs-deps
	@$(MAKE) --no-print-directory write-docs
docs-deps:
	@tests/deps python3 cmark-gfm mujs

write-docs: $(BUILD)/tests/docs/ops $(SHARED) $(MPI_SHARED)
	@CC="$(CC)" CFLAGS="$(CFLAGS)" LIBS="$(LIBS)" tests/docs/run $(BUILD) $(PUBLIC) \
	    $(filter-out %/parallel.h,$(MPI_PUBLIC))

$(BUILD)/tests/docs/ops: $(call compiled,tests/docs/ops.c tests/autograd/derive.c) $(STATIC)
	$(call Q,link,$@) $(CC) $(CFLAGS) -o $@ $^ $(LIBS)

## demo       trains a self-attention layer, with pictures; ARGS="'Other words' --steps 600",
##            LAUNCH="mpirun -n 4"
demo: $(BUILD)/demo/train_self_attention
	@$(LAUNCH) $< --out $(BUILD)/demo $(ARGS)

# The demo's program is linked from the objects of the files in tests/demo_needs, so that no others
# are compiled for it. `make style` tells where the list is out of date. Then, and where a linker
# can't leave out what is not needed, the whole library is linked.
DEMO_NEEDS := $(call compiled,$(wildcard $(shell cat tests/demo_needs)))
# The line for a file of the library that wasn't compiled before tells how far the work has come, as
# in "compile nn/module.c (150 of 295)".
LIBRARY    := $(if $(filter demo,$(firstword $(filter-out clean,$(MAKECMDGOALS)))),$(DEMO_NEEDS), \
              $(foreach l,$(LAYERS),$(call objects,$(l)))) $(PARALLEL)
TO_COMPILE := $(if $(CLEAN),$(LIBRARY),$(filter-out $(wildcard $(LIBRARY)),$(LIBRARY)))
count       = $(if $(filter $@,$(TO_COMPILE)),$(eval BEGUN += $@) ($(words $(BEGUN)) of \
              $(words $(TO_COMPILE))))
$(BUILD)/demo/train_self_attention: $(BUILD)/examples/train_self_attention.o $(DEMO_NEEDS) \
                                    $(PARALLEL)
	@mkdir -p $(@D)
	$(call Q,link,$@) $(CC) $(CFLAGS) $(NEEDED) -o $@ $^ $(MPILIBS) $(LIBS) 2>$@.txt || { \
	    echo "make demo: tests/demo_needs lacks a file; the whole library is compiled"; \
	    $(MAKE) --no-print-directory $(BUILD)/examples/train_self_attention && \
	    cp $(BUILD)/examples/train_self_attention $@; }

## one-file   the library as two files, build/one-file/regard.c and regard.h
one-file: $(BUILD)/one-file/regard.c
$(BUILD)/one-file/regard.c: $(EXPORT)/loops.inc tests/one_file/write LICENSE $(PUBLIC) \
                            $(foreach d,* */* */*/*,$(wildcard $(LAYERS:%=%/$(d).[chdi]*))) \
                            $(CLEAN) | stb
	$(call Q,write,$@) CC="$(CC)" STB="$(STB)" tests/one_file/write $(@D) $< $(PUBLIC)

$(ONE_FILE): $(BUILD)/one-file/%.o: $(BUILD)/one-file/regard.c tests/one_file/compile
	@CC="$(CC)" tests/one_file/compile $(BUILD)/one-file $*

# Programs that are built with these two print what they print with the library.
test-one-file: $(ONE_FILE) $(STATIC) $(BUILD)/tests/fuzz/fuzz_ops
	@CC="$(CC)" CXX="$(if $(CXXTEST),$(CXX))" CFLAGS="$(CFLAGS)" \
	    tests/one_file/run $(BUILD) $(ONE_FILE)

## same       one hash of a training, in every set, on any threads, by any compiler; QUICK=1: fewer
SEALED := $(if $(MPI),$(BUILD)/tests/parallel/sealed)
same: $(BUILD)/examples/check_seal $(BUILD)/one-file/regard.c $(SEALED)
	@CC="$(CC)" tests/same $(BUILD) $(SEALED)

## deps       installs what the tests need: check libstb-dev pkg-config
deps:
	@tests/deps check libstb-dev pkg-config

## size       lines of the library, its heart and its tour; sizes of programs, which have limits
size: $(STATIC) $(BUILD)/examples/train_self_attention.o $(PARALLEL)
	@tests/size $(wildcard $(LAYERS))
	@FLAGS="$(CFLAGS)" LIBS="$(NEEDED) $(LIBS)" DEMO_LIBS="$(MPILIBS)" \
	    DEMO="$(BUILD)/examples/train_self_attention.o $(PARALLEL)" \
	    tests/light $(BUILD) $(CC)

## style      the rules of style, of includes and of calls that a script can see
style: $(STATIC) $(SHARED) $(BUILD)/examples/train_self_attention.o $(PARALLEL)
	@tests/style $(STATIC) $(SHARED)
	@tests/report/page
	@tests/rooms $(BUILD) $(PUBLIC)
	@LIBS="$(MPILIBS) $(LIBS)" tests/needs $(BUILD) $(CC)
	@CFLAGS="$(CFLAGS)" LIBS="$(NEEDED) $(LIBS)" tests/links $(BUILD) $(CC)

## fmt        clang-format over the lines that are changed and not committed
fmt:
	@tests/deps clang-format
	git clang-format --force

## install    headers, libraries, and what pkg-config and CMake look for, under PREFIX (/usr/local)
# DESTDIR stands before every path, and in no file; LIBDIR is PREFIX/lib unless it is said. The
# libraries are installed without what debuggers read; STRIP=: leaves it in.
STRIP   ?= strip
INCLUDE := $(PREFIX)/include
CMAKE   := $(LIBDIR)/cmake/regard
# gdb loads this file with the library: from where it lies if PREFIX is /usr, see docs/errors.md.
GDB     := $(PREFIX)/share/gdb/auto-load$(LIBDIR)/libregard.so.$(VERSION)-gdb.py
PLAIN   := $(PUBLIC:%=$(INCLUDE)/regard/%) $(INCLUDE)/regard.h $(LIBDIR)/libregard.a \
           $(LIBDIR)/libregard.so.$(VERSION) $(LIBDIR)/pkgconfig/regard.pc \
           $(CMAKE)/regard-config.cmake $(CMAKE)/regard-config-version.cmake $(GDB)
LINKS   := $(LIBDIR)/libregard.so $(LIBDIR)/libregard.so.$(MAJOR)
# These are there where MPI is.
MPIPLAIN := $(MPI_PUBLIC:%=$(INCLUDE)/regard/%) $(INCLUDE)/regard-mpi.h \
            $(LIBDIR)/libregard-mpi.a $(LIBDIR)/libregard-mpi.so.$(VERSION) \
            $(LIBDIR)/pkgconfig/regard-mpi.pc
MPILINKS := $(LIBDIR)/libregard-mpi.so $(LIBDIR)/libregard-mpi.so.$(MAJOR)
# The last line says what to run before programs are compiled and started. V=1 shows the commands.
NEXT    := $(if $(filter /usr /usr/local,$(PREFIX)),sudo ldconfig,export \
           PKG_CONFIG_PATH=$(LIBDIR)/pkgconfig)
ifneq ($(V),1)
.SILENT: install install-core install-mpi
endif
install: all install-core $(if $(MPI),install-mpi)
	echo "installed in $(DESTDIR)$(PREFIX)$(if $(DESTDIR),,; now: $(NEXT))"
install-core: export REGARD_PC = $(regard.pc)
install-core: export REGARD_CMAKE = $(regard-config.cmake)
install-core: export REGARD_CMAKE_VERSION = $(regard-config-version.cmake)
install-core: all
	$(call Q,install,$(DESTDIR)$(PREFIX)) :
	install -d $(sort $(dir $(PLAIN:%=$(DESTDIR)%)))
	for h in $(PUBLIC); do install -m 644 $$h $(DESTDIR)$(INCLUDE)/regard/$$h || exit 1; done
	echo '#include "regard/regard.h"' >$(DESTDIR)$(INCLUDE)/regard.h
	install -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)
	install -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)/libregard.so.$(VERSION)
	$(STRIP) -S $(DESTDIR)$(LIBDIR)/libregard.a $(DESTDIR)$(LIBDIR)/libregard.so.$(VERSION)
	for l in $(LINKS:%=$(DESTDIR)%); do ln -sf libregard.so.$(VERSION) $$l || exit 1; done
	printf '%s\n' "$$REGARD_PC" >$(BUILD)/regard.pc
	printf '%s\n' "$$REGARD_CMAKE" >$(BUILD)/regard-config.cmake
	printf '%s\n' "$$REGARD_CMAKE_VERSION" >$(BUILD)/regard-config-version.cmake
	install -m 644 $(BUILD)/regard.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 $(BUILD)/regard-config*.cmake $(DESTDIR)$(CMAKE)
	install -m 644 nn/gdb.py $(DESTDIR)$(GDB)

install-mpi: export REGARD_PC = $(regard-mpi.pc)
install-mpi: install-core
	install -d $(sort $(dir $(MPIPLAIN:%=$(DESTDIR)%)))
	for h in $(MPI_PUBLIC); do install -m 644 $$h $(DESTDIR)$(INCLUDE)/regard/$$h || exit 1; done
	echo '#include "regard/nn/parallel/parallel.h"' >$(DESTDIR)$(INCLUDE)/regard-mpi.h
	install -m 644 $(MPI_STATIC) $(DESTDIR)$(LIBDIR)
	install -m 755 $(MPI_SHARED) $(DESTDIR)$(LIBDIR)/libregard-mpi.so.$(VERSION)
	$(STRIP) -S $(DESTDIR)$(LIBDIR)/libregard-mpi.a \
	    $(DESTDIR)$(LIBDIR)/libregard-mpi.so.$(VERSION)
	for l in $(MPILINKS:%=$(DESTDIR)%); do \
	    ln -sf libregard-mpi.so.$(VERSION) $$l || exit 1; \
	done
	printf '%s\n' "$$REGARD_PC" >$(BUILD)/regard-mpi.pc
	install -m 644 $(BUILD)/regard-mpi.pc $(DESTDIR)$(LIBDIR)/pkgconfig

## uninstall  takes away what install put there, with the same PREFIX, LIBDIR and DESTDIR
uninstall:
	rm -f $(patsubst %,$(DESTDIR)%,$(PLAIN) $(LINKS) $(MPIPLAIN) $(MPILINKS))
	find $(addprefix $(DESTDIR),$(INCLUDE)/regard $(CMAKE) $(dir $(GDB))) \
	    -depth -type d -empty -delete 2>/dev/null || :

# Programs look for shared libraries in the system's folders, and in those that the linker was told.
COMMA := ,
RPATH  = $(if $(filter-out /usr/lib /usr/lib/% /usr/lib64,$(LIBDIR)), \
         -Wl$(COMMA)-rpath$(COMMA)$(LIBDIR))

define regard.pc
Name: regard
Description: autograd and neural-network modules in plain C
Version: $(VERSION)
Cflags: -I$(INCLUDE)
Libs: -L$(LIBDIR) $(strip $(RPATH)) -lregard -lm
Libs.private: $(LIBS) $(NEEDED)
endef

define regard-mpi.pc
Name: regard-mpi
Description: training with regard in many processes, on MPI
Version: $(VERSION)
Requires: regard = $(VERSION)
Cflags: -I$(INCLUDE)
Libs: -L$(LIBDIR) $(strip $(RPATH)) -lregard-mpi
Libs.private: $(MPILIBS)
endef

define regard-config.cmake
# regard::regard is the shared library, and regard::static the static one.
if(NOT TARGET regard::regard)
  add_library(regard::regard SHARED IMPORTED)
  set_target_properties(regard::regard PROPERTIES
    IMPORTED_LOCATION "$(LIBDIR)/libregard.so.$(VERSION)"
    IMPORTED_SONAME libregard.so.$(MAJOR)
    INTERFACE_INCLUDE_DIRECTORIES "$(INCLUDE)"
    INTERFACE_LINK_LIBRARIES m)
  add_library(regard::static STATIC IMPORTED)
  set_target_properties(regard::static PROPERTIES
    IMPORTED_LOCATION "$(LIBDIR)/libregard.a"
    INTERFACE_INCLUDE_DIRECTORIES "$(INCLUDE)"
    INTERFACE_LINK_OPTIONS "$(NEEDED)"
    INTERFACE_LINK_LIBRARIES "$(subst $(eval ) ,;,$(LIBS:-l%=%))")
endif()
endef

# A program that asks for another first number, or for a later version, is told that it isn't here.
define regard-config-version.cmake
set(PACKAGE_VERSION $(VERSION))
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(PACKAGE_FIND_VERSION_MAJOR EQUAL $(MAJOR)
   AND NOT PACKAGE_FIND_VERSION VERSION_GREATER $(VERSION))
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
endef

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
