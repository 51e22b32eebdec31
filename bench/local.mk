# Measurements; built with the tests so that they stay buildable, run by hand.
EXTRA_DIST += %D%/run %D%/torch_peer.py %D%/growth %D%/gpt2_124m.sh %D%/collectives.c \
	%D%/nvme_step.sh %D%/nvme_checksums.sh \
	%D%/tokenize.py %D%/checkpoint.sh %D%/sample.sh %D%/store.sh %D%/ptxas.sh %D%/chat.py %D%/attention.py \
	%D%/sft.py %D%/module.py %D%/results/module.txt %D%/results/sft.txt %D%/templates.py %D%/results/templates.txt \
	%D%/results/chat.txt %D%/results/attention.txt %D%/results/low_rank.txt \
	%D%/results/experts.txt %D%/results/forecast.txt %D%/moments8.sh %D%/results/moments8.txt \
	%D%/forecast.sh %D%/watching.sh %D%/results/watching.txt %D%/results/ptxas.txt %D%/results/tokenizers.txt
check_PROGRAMS += %D%/elementwise
%C%_elementwise_SOURCES = %D%/elementwise.c
%C%_elementwise_LDADD = tests/lib/libtesthost.la -lm
check_LTLIBRARIES += %D%/ew_adamw.la %D%/ew_sgd.la
%C%_ew_adamw_la_SOURCES = %D%/ew_adamw.c
%C%_ew_adamw_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_ew_adamw_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
%C%_ew_sgd_la_SOURCES = %D%/ew_sgd.c
%C%_ew_sgd_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_ew_sgd_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere
EXTRA_DIST += %D%/results/gpu.txt %D%/results/gpu.json %D%/results/hopper.txt %D%/results/run.txt %D%/results/elementwise.txt %D%/results/disk.txt %D%/matmul_torch.py
EXTRA_DIST += %D%/start.sh %D%/sample_peer.py %D%/results/sample.txt %D%/results/start.txt %D%/results/collectives.txt \
	%D%/results/growth.txt %D%/results/many_ranks.txt %D%/results/slurm.txt %D%/card.c %D%/sequences.sh %D%/slices.sh %D%/results/sequences.txt \
	%D%/codec.sh %D%/results/codec.txt
check_PROGRAMS += %D%/matmul
%C%_matmul_SOURCES = %D%/matmul.c cmd/measure/multiply.c cmd/measure/multiply.h
%C%_matmul_CFLAGS = $(AM_CFLAGS)
%C%_matmul_LDADD = tests/lib/libtesthost.la -lm -lpthread
check_PROGRAMS += %D%/experts
%C%_experts_SOURCES = %D%/experts.c
%C%_experts_LDADD = tests/lib/libtesthost.la -lm
check_PROGRAMS += %D%/low_rank
%C%_low_rank_SOURCES = %D%/low_rank.c
%C%_low_rank_LDADD = tests/lib/libtesthost.la -lm
check_PROGRAMS += %D%/disk
%C%_disk_SOURCES = %D%/disk.c
%C%_disk_LDADD = tests/lib/libtesthost.la
check_PROGRAMS += %D%/adam
%C%_adam_SOURCES = %D%/adam.c
%C%_adam_LDADD = tests/lib/libtesthost.la -lm
check_PROGRAMS += %D%/attention
%C%_attention_SOURCES = %D%/attention.c
%C%_attention_LDADD = tests/lib/libtesthost.la -lm
check_PROGRAMS += %D%/device
%C%_device_SOURCES = %D%/device.c
%C%_device_LDADD = tests/lib/libtesthost.la -lm
