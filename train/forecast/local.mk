# SPDX-License-Identifier: Apache-2.0
#
# train/forecast: what a step will take before it runs: time by the machine's rates, bytes by link.
train_libtrain_la_SOURCES += \
	%D%/breakdown.c %D%/breakdown.h \
	%D%/cards.c \
	%D%/cost.c \
	%D%/forecast.c %D%/forecast.h \
	%D%/plan_json.c %D%/plan_json.h \
	%D%/print.c %D%/print.h \
	%D%/rates.c %D%/rates.h \
	%D%/simulate.c \
	%D%/source.c %D%/source.h \
	%D%/tally.c %D%/tally.h \
	%D%/traffic.c %D%/traffic.h
