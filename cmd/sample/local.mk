# SPDX-License-Identifier: Apache-2.0
#
# cmd/sample: texts that a model writes: prompts, tokens that are drawn, conversations.
cmd_libcmd_la_SOURCES += \
	%D%/chat.c %D%/chat.h \
	%D%/draw.c %D%/draw.h \
	%D%/eos.c %D%/eos.h \
	%D%/forms.c %D%/forms.h \
	%D%/generate.c %D%/generate.h \
	%D%/model.c %D%/model.h \
	%D%/prompts.c %D%/prompts.h \
	%D%/samples_file.c %D%/samples_file.h \
	%D%/token_text.c %D%/token_text.h
