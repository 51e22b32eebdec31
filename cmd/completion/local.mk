# SPDX-License-Identifier: Apache-2.0
#
# `zeroth completion`, and the scripts that it prints, where shells look for them.
cmd_libcmd_la_SOURCES += \
	%D%/completion.c %D%/completion.h %D%/complete.c %D%/options.c

bash_completiondir = $(datadir)/bash-completion/completions
nodist_bash_completion_DATA = %D%/zeroth
zsh_completiondir = $(datadir)/zsh/site-functions
nodist_zsh_completion_DATA = %D%/_zeroth
fish_completiondir = $(datadir)/fish/vendor_completions.d
nodist_fish_completion_DATA = %D%/zeroth.fish
CLEANFILES += %D%/zeroth %D%/_zeroth %D%/zeroth.fish

%D%/zeroth: zeroth$(EXEEXT)
	$(AM_V_GEN)./zeroth$(EXEEXT) completion bash >$@.part && mv $@.part $@
%D%/_zeroth: zeroth$(EXEEXT)
	$(AM_V_GEN)./zeroth$(EXEEXT) completion zsh >$@.part && mv $@.part $@
%D%/zeroth.fish: zeroth$(EXEEXT)
	$(AM_V_GEN)./zeroth$(EXEEXT) completion fish >$@.part && mv $@.part $@
