# SPDX-License-Identifier: Apache-2.0
#
# plugins/data.
data_tests = %D%/t_data_text %D%/t_data_tokens %D%/t_data_documents \
	%D%/t_packing
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)

data_fixture = %D%/data_fixture.c %D%/data_fixture.h

%C%_t_data_text_SOURCES = %D%/t_data_text.c $(data_fixture)
%C%_t_data_text_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(ZLIB_CFLAGS)
%C%_t_data_text_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS) $(ZLIB_LIBS)

%C%_t_data_tokens_SOURCES = %D%/t_data_tokens.c $(data_fixture)
%C%_t_data_tokens_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_data_tokens_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_data_documents_SOURCES = %D%/t_data_documents.c $(data_fixture)
%C%_t_data_documents_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_data_documents_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_packing_SOURCES = %D%/t_packing.c plugins/data/packing.c plugins/data/windows.c $(data_fixture)
%C%_t_packing_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_packing_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
