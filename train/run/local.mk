# SPDX-License-Identifier: Apache-2.0
#
# train/run: a whole run: its loop, what it prints and writes, and the processes around it.
train_librun_la_SOURCES += \
	%D%/agent.c %D%/agent.h \
	%D%/clock.c %D%/clock.h \
	%D%/config_ini.c %D%/config_ini.h \
	%D%/crash.c %D%/crash.h \
	%D%/frames.c %D%/frames.h \
	%D%/machines.c %D%/machines.h \
	%D%/oom.c %D%/oom.h \
	%D%/outlet.c %D%/outlet.h \
	%D%/progress.c %D%/progress.h \
	%D%/report.c %D%/report.h \
	%D%/restart.c %D%/restart.h \
	%D%/run.c %D%/run.h \
	%D%/signals.c %D%/signals.h \
	%D%/stacks.c %D%/stacks.h \
	%D%/summary.c \
	%D%/supervise.c %D%/supervise.h \
	%D%/timeline.c %D%/timeline.h \
	%D%/trace.c %D%/trace.h
