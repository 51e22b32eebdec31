# SPDX-License-Identifier: Apache-2.0
#
# train/gguf: models as llama.cpp names and lays them out.
train_libtrain_la_SOURCES += %D%/beside.c %D%/bpe.c %D%/family.c %D%/family_keys.c %D%/family_rope.c \
	%D%/gguf.c %D%/gguf.h %D%/known.c %D%/parts.h %D%/pieces.c %D%/pre.c %D%/proto.c %D%/special.c \
	%D%/tokens.c
