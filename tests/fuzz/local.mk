# SPDX-License-Identifier: Apache-2.0
#
# What reads bytes, under damaged input: a target each. `make check` runs a short slice with replay.c,
# `make fuzz` libFuzzer (clang) in a build of its own: FUZZ_SECONDS in all, or FUZZ_RUNS inputs a
# target; FUZZ_TARGETS: only these.
fuzz_programs = %D%/fuzz_args %D%/fuzz_chat %D%/fuzz_encode %D%/fuzz_import %D%/fuzz_index \
	%D%/fuzz_ini %D%/fuzz_jinja %D%/fuzz_launch \
	%D%/fuzz_manifest %D%/fuzz_meeting %D%/fuzz_model %D%/fuzz_plugin %D%/fuzz_safetensors %D%/fuzz_tcp %D%/fuzz_template \
	%D%/fuzz_text %D%/fuzz_tokenizer %D%/fuzz_tokens %D%/fuzz_torch
check_PROGRAMS += $(fuzz_programs)
EXTRA_DIST += %D%/slice.sh %D%/campaign %D%/corpus %D%/json.dict %D%/ini.dict
noinst_LTLIBRARIES += %D%/libfuzz.la
%C%_libfuzz_la_SOURCES = %D%/fuzz.c %D%/fuzz.h
if !LIBFUZZER
TESTS += %D%/slice.sh
%C%_libfuzz_la_SOURCES += %D%/replay.c %D%/damage.c %D%/damage.h
endif
fuzz_cppflags = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
fuzz_libs = %D%/libfuzz.la files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS)

%C%_fuzz_args_SOURCES = %D%/fuzz_args.c cmd/args.c cmd/options.c cmd/help.c train/run/outlet.c
%C%_fuzz_args_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_args_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_args_LDADD = $(fuzz_libs)

fuzz_chat_libs = files/chat/libchat.la files/tokenizer/libtokenizer.la $(fuzz_libs)

%C%_fuzz_chat_SOURCES = %D%/fuzz_chat.c
%C%_fuzz_chat_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_chat_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_chat_LDADD = $(fuzz_chat_libs)

%C%_fuzz_encode_SOURCES = %D%/fuzz_encode.c
%C%_fuzz_encode_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_encode_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_encode_LDADD = files/tokenizer/libtokenizer.la $(fuzz_libs)

%C%_fuzz_import_SOURCES = %D%/fuzz_import.c
%C%_fuzz_import_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_import_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_import_LDADD = cmd/import/libimport.la files/tokenizer/libtokenizer.la $(fuzz_libs)

%C%_fuzz_index_SOURCES = %D%/fuzz_index.c
%C%_fuzz_index_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_index_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_index_LDADD = $(fuzz_libs)

%C%_fuzz_ini_SOURCES = %D%/fuzz_ini.c
%C%_fuzz_ini_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_ini_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_ini_LDADD = $(fuzz_libs)

%C%_fuzz_jinja_SOURCES = %D%/fuzz_jinja.c
%C%_fuzz_jinja_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_jinja_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_jinja_LDADD = $(fuzz_chat_libs)

# the launcher's and the agent's sources are part of the target's
%C%_fuzz_launch_SOURCES = %D%/fuzz_launch.c
%C%_fuzz_launch_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_launch_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_launch_LDADD = train/librun.la $(fuzz_libs)

%C%_fuzz_manifest_SOURCES = %D%/fuzz_manifest.c tests/lib/ckpt_fixture.c tests/lib/ckpt_fixture.h
%C%_fuzz_manifest_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_manifest_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_fuzz_manifest_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_manifest_LDADD = $(fuzz_libs) $(CMOCKA_LIBS)

# the server's source is part of the target's
%C%_fuzz_meeting_SOURCES = %D%/fuzz_meeting.c plugins/boot/env/tcp_proof.c
%C%_fuzz_meeting_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_meeting_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_meeting_LDADD = $(fuzz_libs) $(CRYPT_LIBS)

%C%_fuzz_model_SOURCES = %D%/fuzz_model.c
%C%_fuzz_model_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_model_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_model_LDADD = $(fuzz_libs)

%C%_fuzz_plugin_SOURCES = %D%/fuzz_plugin.c
%C%_fuzz_plugin_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_plugin_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_plugin_LDADD = $(fuzz_libs)

%C%_fuzz_safetensors_SOURCES = %D%/fuzz_safetensors.c
%C%_fuzz_safetensors_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_safetensors_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_safetensors_LDADD = $(fuzz_libs)

# tcp.c is part of the target's
%C%_fuzz_tcp_SOURCES = %D%/fuzz_tcp.c $(fuzz_tcp_moves)
fuzz_tcp_moves = plugins/comm/tcp/connect.c plugins/comm/tcp/fetch.c plugins/comm/tcp/group.c plugins/comm/tcp/lend.c \
	plugins/comm/tcp/move.c plugins/comm/tcp/note.c plugins/comm/tcp/post.c plugins/comm/tcp/sum.c \
	plugins/comm/tcp/text.c plugins/comm/tcp/wait.c plugins/comm/header.c plugins/comm/sum.c
%C%_fuzz_tcp_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_tcp_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_tcp_LDADD = tests/lib/libtesthost.la $(fuzz_libs)

%C%_fuzz_template_SOURCES = %D%/fuzz_template.c
%C%_fuzz_template_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_template_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_template_LDADD = $(fuzz_chat_libs)

%C%_fuzz_text_SOURCES = %D%/fuzz_text.c files/chat/input.c files/chat/input.h
%C%_fuzz_text_CPPFLAGS = $(fuzz_cppflags) $(ZLIB_CFLAGS)
%C%_fuzz_text_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_text_LDADD = tests/lib/libtesthost.la $(fuzz_libs) $(ZLIB_LIBS)

%C%_fuzz_tokenizer_SOURCES = %D%/fuzz_tokenizer.c
%C%_fuzz_tokenizer_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_tokenizer_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_tokenizer_LDADD = files/tokenizer/libtokenizer.la $(fuzz_libs)

%C%_fuzz_tokens_SOURCES = %D%/fuzz_tokens.c
%C%_fuzz_tokens_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_tokens_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_tokens_LDADD = tests/lib/libtesthost.la $(fuzz_libs)

%C%_fuzz_torch_SOURCES = %D%/fuzz_torch.c
%C%_fuzz_torch_CPPFLAGS = $(fuzz_cppflags)
%C%_fuzz_torch_LDFLAGS = $(FUZZ_LDFLAGS)
%C%_fuzz_torch_LDADD = $(fuzz_libs)

fuzz-programs: all-local $(fuzz_programs)
fuzz:
	@FUZZ_TARGETS='$(or $(FUZZ_TARGETS),$(fuzz_programs:%D%/fuzz_%=%))' \
		FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_RUNS='$(FUZZ_RUNS)' MAKE='$(MAKE)' bash $(srcdir)/%D%/campaign '$(abs_srcdir)' '$(abs_builddir)/fuzz-build'
clean-fuzz:
	rm -rf fuzz-build
.PHONY: fuzz fuzz-programs clean-fuzz
