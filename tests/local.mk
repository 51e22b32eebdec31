# Each subsystem wires its own tests.
dist_check_SCRIPTS = %D%/tap.sh %D%/rig.sh %D%/cmocka.sh
TESTS += %D%/layering.sh %D%/headers.sh %D%/readme.sh
EXTRA_DIST += %D%/layering.sh %D%/headers.sh %D%/readme.sh %D%/coverage README.md ARCHITECTURE.md SECURITY.md

# In a build of its own: what of the sources the tests reach.
coverage:
	@MAKE='$(MAKE)' bash $(srcdir)/%D%/coverage '$(abs_srcdir)' '$(abs_builddir)/coverage-build'
.PHONY: coverage

include tests/testhost.mk
include tests/attention.mk
include tests/checkpoint.mk
include tests/comm.mk
include tests/config.mk
include tests/core.mk
include tests/cuda.mk
include tests/device.mk
include tests/fuzz/local.mk
include tests/faults.mk
include tests/kernels.mk
include tests/model.mk
include tests/mpi.mk
include tests/mutate.mk
include tests/offload.mk
include tests/plan.mk
include tests/optimizers.mk
include tests/plugins.mk
include tests/pretrained.mk
include tests/stages.mk
include tests/tokenizer.mk
