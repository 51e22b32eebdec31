# SPDX-License-Identifier: Apache-2.0
#
# cmd/forecast: the time of a step before it runs.

train_librun_la_SOURCES += \
	cmd/forecast/cards.c \
	cmd/forecast/cost.c \
	cmd/forecast/forecast.c cmd/forecast/forecast.h \
	cmd/forecast/print.c cmd/forecast/print.h \
	cmd/forecast/simulate.c \
	cmd/forecast/source.c cmd/forecast/source.h \
	cmd/forecast/tally.c cmd/forecast/tally.h

cmd_libcmd_la_SOURCES += \
	cmd/forecast/compare.c cmd/forecast/open.c cmd/forecast/scale.c \
	cmd/forecast/search.c \
	cmd/forecast/trial.c cmd/forecast/trial.h
