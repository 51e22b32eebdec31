# SPDX-License-Identifier: Apache-2.0
#
# files/pretrained: the parameters in model directories of Hugging Face.
files_libfiles_la_SOURCES += %D%/tensors.c %D%/tensors.h
