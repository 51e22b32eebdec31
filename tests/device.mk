# Tests of plugins/device.
device_tests = %D%/t_device %D%/t_head %D%/t_matmul %D%/t_separate
check_PROGRAMS += $(device_tests)
TESTS += $(device_tests)
EXTRA_DIST += %D%/golden/make_head.py %D%/golden/head.txt
%C%_t_device_SOURCES = %D%/t_device.c %D%/testdevice.h %D%/isa.h %D%/half.h
%C%_t_device_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_device_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS) -lm
%C%_t_head_SOURCES = %D%/t_head.c %D%/testdevice.h %D%/half.h
%C%_t_head_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_head_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS) -lm
%C%_t_matmul_SOURCES = %D%/t_matmul.c %D%/testdevice.h %D%/half.h
%C%_t_matmul_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_matmul_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS) -lm
%C%_t_separate_SOURCES = %D%/t_separate.c %D%/testdevice.h %D%/model_rig.c %D%/model_rig.h
%C%_t_separate_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_separate_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS) -lm
