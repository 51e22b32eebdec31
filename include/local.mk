# The only shared vocabulary; installed for authors of plugins.
zerothincludedir = $(includedir)/zeroth
zerothinclude_HEADERS = \
	%D%/zeroth/activation.h \
	%D%/zeroth/adapter.h \
	%D%/zeroth/boot.h \
	%D%/zeroth/comm.h \
	%D%/zeroth/data.h \
	%D%/zeroth/device.h \
	%D%/zeroth/elementwise.h \
	%D%/zeroth/experts.h \
	%D%/zeroth/model.h \
	%D%/zeroth/look.h \
	%D%/zeroth/matrices.h \
	%D%/zeroth/monitor.h \
	%D%/zeroth/offload.h \
	%D%/zeroth/optimizer.h \
	%D%/zeroth/parameters.h \
	%D%/zeroth/plugin.h \
	%D%/zeroth/precision.h \
	%D%/zeroth/scheduler.h \
	%D%/zeroth/states.h \
	%D%/zeroth/array.h \
	%D%/zeroth/zero.h \
	%D%/zeroth/zeroth.h

# Not installed.
EXTRA_DIST += %D%/ops.def
