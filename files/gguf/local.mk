# SPDX-License-Identifier: Apache-2.0
#
# files/gguf: models as llama.cpp and what is built on it read them.
files_libfiles_la_SOURCES += %D%/gguf.h %D%/keys.c %D%/types.c %D%/writer.c
