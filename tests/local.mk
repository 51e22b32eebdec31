# Each subsystem wires its own tests.
include tests/testhost.mk
