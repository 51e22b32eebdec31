# SPDX-License-Identifier: Apache-2.0
#
# What proves device/cuda and comm/nccl on a machine with a GPU; system/gpu.sh tries it without one.
EXTRA_DIST += %D%/run %D%/build.sh %D%/proof.sh %D%/features.sh %D%/speed.sh %D%/day.sh %D%/peer.py %D%/bundle.sh \
	%D%/activity.c

gpu-bundle: all tests/doubles/cards.la tests/unit/device/t_device tests/unit/device/t_fp8 tests/unit/device/t_twin bench/device bench/adam
	CC='$(CC)' CUPTI_CPPFLAGS='$(CUDA_CPPFLAGS) $(CUPTI_CPPFLAGS)' bash $(abs_srcdir)/%D%/bundle.sh zeroth-gpu-bundle.tar.gz

.PHONY: gpu-bundle
CLEANFILES += zeroth-gpu-bundle.tar.gz
