# The host for plugins under test. A test that uses it says
#   tests_t_x_LDADD = tests/libtesthost.la $(CMOCKA_LIBS)
noinst_LTLIBRARIES += %D%/libtesthost.la
%C%_libtesthost_la_SOURCES = %D%/testhost.c %D%/testhost.h %D%/testplugin.c
%C%_libtesthost_la_CFLAGS = $(AM_CFLAGS)
%C%_libtesthost_la_LIBADD = -ldl -lpthread -lm
