# SPDX-License-Identifier: Apache-2.0
#
# files/torch: what torch.save writes. No Python runs: of its pickles only plain data is taken.
files_libfiles_la_SOURCES += %D%/classes.c %D%/machine.c %D%/machine.h %D%/names.c \
	%D%/object.c %D%/object.h %D%/pickle.c %D%/pickle.h %D%/pickler.c %D%/pickler.h \
	%D%/torch.c %D%/torch.h %D%/writer.c %D%/writer.h %D%/zip.c %D%/zip.h
