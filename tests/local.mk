# Each subsystem wires its own tests.
dist_check_SCRIPTS = %D%/tap.sh
TESTS += %D%/layering.sh %D%/headers.sh
EXTRA_DIST += %D%/layering.sh %D%/headers.sh

include tests/testhost.mk
