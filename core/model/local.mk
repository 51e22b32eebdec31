# SPDX-License-Identifier: Apache-2.0
#
# core/model: the model as core sees it: where its tensors lie, who holds which blocks, what training leaves as it is, the order
# of its layers, what becomes of activations.
core_libcore_la_SOURCES += \
	%D%/activation.h %D%/lives.c \
	%D%/declared.c %D%/declared.h \
	%D%/freeze.c \
	%D%/homes.c %D%/homes.h \
	%D%/layout.c %D%/layout.h \
	%D%/mesh.c %D%/mesh.h \
	%D%/slices.c %D%/slices.h \
	%D%/schedule.c %D%/schedule.h
