# SPDX-License-Identifier: Apache-2.0
#
# Instructions: what each waits for, and the proof that it is enough.
lower_tests = %D%/t_cut %D%/t_order %D%/t_spans %D%/t_two_comms
check_PROGRAMS += $(lower_tests)
TESTS += $(lower_tests)

%C%_t_cut_SOURCES = %D%/t_cut.c tests/lib/cards.h $(plan_fixture)
%C%_t_cut_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cut_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_order_SOURCES = %D%/t_order.c %D%/order_fixture.c %D%/order_fixture.h
%C%_t_order_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_order_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_spans_SOURCES = %D%/t_spans.c %D%/order_fixture.c %D%/order_fixture.h
%C%_t_spans_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_spans_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_two_comms_SOURCES = %D%/t_two_comms.c %D%/order_fixture.c %D%/order_fixture.h
%C%_t_two_comms_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_two_comms_LDADD = core/libcore.la $(CMOCKA_LIBS)
