# SPDX-License-Identifier: Apache-2.0
#
# conf: configurations, installed beside the lowest layer of all, defaults.ini.
dist_pkgdata_DATA = \
	%D%/defaults.ini \
	%D%/quickstart.ini \
	%D%/chat-demo.ini \
	%D%/bytes.json \
	%D%/jargon-chat.awk \
	%D%/finetune-gpt2.ini \
	%D%/gpt2-124m.ini \
	%D%/gpt2-355m.ini \
	%D%/gpt2-774m.ini \
	%D%/gpt2-1558m.ini \
	%D%/gpt2-1.3b-disk.ini \
	%D%/llama-text.ini \
	%D%/llama-tinyllama-1.1b.ini \
	%D%/llama2-13b.ini \
	%D%/llama3-70b-qlora.ini \
	%D%/llama3-8b-lora.ini \
	%D%/llama3-8b-qlora.ini \
	%D%/llama3-8b.ini \
	%D%/qwen3-30b-a3b-qlora.ini

# One file for each way to start a training on several machines.
clusterdir = $(pkgdatadir)/cluster
dist_cluster_DATA = %D%/cluster/kubernetes.yaml
dist_cluster_SCRIPTS = \
	%D%/cluster/mpirun.sh \
	%D%/cluster/slurm.sbatch \
	%D%/cluster/ssh.sh \
	%D%/cluster/torchrun.sh

# One file for each situation of a training, to be read and copied from.
gallerydir = $(pkgdatadir)/gallery
dist_gallery_DATA = \
	%D%/gallery/accumulation-clipping.ini \
	%D%/gallery/activation-checkpointing.ini \
	%D%/gallery/bf16.ini \
	%D%/gallery/breakdown-trace.ini \
	%D%/gallery/data-mixture.ini \
	%D%/gallery/early-stopping.ini \
	%D%/gallery/fp16-loss-scale.ini \
	%D%/gallery/full-finetune.ini \
	%D%/gallery/gpt-1t-nvme.ini \
	%D%/gallery/gpt2-1.5b-4x24g.ini \
	%D%/gallery/gpt3-175b-nvme.ini \
	%D%/gallery/llama2-7b-4-cards.ini \
	%D%/gallery/long-sequence.ini \
	%D%/gallery/lora.ini \
	%D%/gallery/mixture-of-experts.ini \
	%D%/gallery/monitors.ini \
	%D%/gallery/one-cycle.ini \
	%D%/gallery/parameter-groups.ini \
	%D%/gallery/qlora.ini \
	%D%/gallery/resume-elsewhere.ini \
	%D%/gallery/slow-network.ini \
	%D%/gallery/stage1.ini \
	%D%/gallery/stage2-cpu-offload.ini \
	%D%/gallery/stage2.ini \
	%D%/gallery/stage3-cpu-offload.ini \
	%D%/gallery/stage3-nvme.ini \
	%D%/gallery/stage3.ini \
	%D%/gallery/warmup-decay.ini
