# SPDX-License-Identifier: Apache-2.0
#
# core/memory: bytes: the plan of them, the ledger, tiers and their stores, subgroups of what this rank holds.
core_libcore_la_SOURCES += \
	%D%/account.c %D%/account.h \
	%D%/lifetime.c %D%/lifetime.h \
	%D%/machine.c \
	%D%/offload.c \
	%D%/subgroup.c %D%/subgroup.h \
	%D%/plan.h %D%/sizes.c %D%/staging.c %D%/ways.c \
	%D%/tier.c %D%/tier.h
