# SPDX-License-Identifier: Apache-2.0
#
# What stands in for the texts, models and sizes of conf/gallery where its files are tried; to be
# sourced behind tap.sh.

# gallery_texts: makes the files that the gallery reads, in the current directory.
gallery_texts() {
	seq 1 20000 > text.txt
	cp text.txt code.txt
	cp text.txt test.txt
	mkdir data
	# as zeroth tokenize writes it: llm.c's header, 49488 tokens
	{ printf '\x88\xd8\x34\x01\x01\0\0\0\x50\xc1\0\0'; head -c 99988 /dev/zero; } > data/train.bin
}

# settings NAME: sets `more`, the options that make a small training of the file, and `ranks`
settings() {
	local src
	src=$(cd "$ZR_SRCDIR" && pwd)
	more=(-o train.steps=3 -o train.eval_every=3 -o train.eval_batches=1)
	ranks=1
	! grep -q '^; Run: .* -n 2 ' "$src/conf/gallery/$1.ini" || ranks=2
	case $1 in
	lora | qlora | full-finetune)
		more+=(-o "model.path=$src/tests/golden/pretrained/llama" -o train.sequence_length=13)
		[ "$1" = full-finetune ] || more+=(-o adapter.r=2) ;;
	*)
		more+=(-o train.train_batch_size=4 -o train.micro_batch_size=2 -o model.layers=4
			-o model.width=16 -o model.context=16) ;;
	esac
}

# huge NAME: whether the file is for machines that only a plan reaches
huge() {
	case $1 in
	gpt3-175b-nvme | gpt-1t-nvme | gpt2-1.5b-4x24g | llama2-7b-4-cards) return 0 ;;
	esac
	return 1
}
