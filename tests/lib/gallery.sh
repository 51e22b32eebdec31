# SPDX-License-Identifier: Apache-2.0
#
# What stands in for the texts, models and sizes of conf/gallery, and of the files in conf/, where they
# are tried; to be sourced behind tap.sh.

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
	local src micro=2
	src=$(cd "$ZR_SRCDIR" && pwd)
	more=(-o train.steps=3 -o train.eval_every=3 -o train.eval_batches=1)
	ranks=1
	! grep -q '^; Run: .* -n 2 ' "$src/conf/gallery/$1.ini" || ranks=2
	case $1 in
	lora | qlora | full-finetune)
		more+=(-o "model.path=$src/tests/golden/pretrained/llama" -o train.sequence_length=13)
		[ "$1" = full-finetune ] || more+=(-o adapter.r=2) ;;
	*)
		[ "$1" != long-sequence ] || micro=1 # ranks share it
		more+=(-o train.train_batch_size=4 -o train.micro_batch_size=$micro
			-o model.layers=4 -o model.width=16 -o model.context=16) ;;
	esac
}

# conf_settings NAME: the same of a file in conf/ itself; the chat of chat-demo is written, too
conf_settings() {
	local src golden
	src=$(cd "$ZR_SRCDIR" && pwd)
	golden=$src/tests/golden/pretrained
	more=(-o train.steps=3 -o train.eval_every=3 -o train.eval_batches=1 -o train.micro_batch_size=2
		-o data.path=text.txt)
	ranks=1
	! grep -q '^plugin = stage3' "$src/conf/$1.ini" || ranks=2
	! grep -q '^train_batch_size' "$src/conf/$1.ini" || more+=(-o train.train_batch_size=4)
	! grep -q '^gradient_accumulation_steps' "$src/conf/$1.ini" ||
		more+=(-o train.gradient_accumulation_steps=2)
	! grep -q '^sequence_length' "$src/conf/$1.ini" || more+=(-o train.sequence_length=13)
	! grep -q '^plugin = tokens' "$src/conf/$1.ini" || more+=(-o data.path=data/train.bin)
	! grep -A1 '^\[offload' "$src/conf/$1.ini" | grep -q '^plugin = cpu' || more+=(-o device.memory=1G)
	case $1 in
	chat-demo)
		cp "$src/conf/bytes.json" .
		for i in 1 2 3 4 5 6 7 8 9; do
			printf '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"%s%s"}]}\n' $i $i $i
		done > chat.jsonl
		more+=(-o train.epochs= -o data.path=chat.jsonl -o data.tokenizer=bytes.json -o data.max_length=33
			-o model.path= -o model.plugin=gpt2 -o model.layers=2 -o model.heads=2 -o model.width=16
			-o model.context=32 -o train.train_batch_size=2 -o train.micro_batch_size=1) ;;
	finetune-gpt2) more+=(-o "model.path=$golden/gpt2" -o model.dropout=0) ;;
	llama3-70b-qlora | llama3-8b-*) model_of llama "$1" ;;
	qwen3-30b-*) model_of qwen3-moe "$1" ;;
	gpt2-1.3b-disk) small_model ;;
	gpt2-*) small_model -o model.size= -o model.vocabulary=256 ;;
	llama-tinyllama-1.1b | llama2-13b | llama3-8b) small_model -o model.preset= -o model.vocabulary=256 ;;
	quickstart | llama-text) small_model ;;
	esac
}

# small_model OPTION...: a model of a few layers in `more`
small_model() {
	more+=("$@" -o model.layers=4 -o model.heads=2 -o model.width=16 -o model.context=16)
}

# model_of MODEL NAME: that of the golden files, in place of the sizes in the file
model_of() {
	local key
	for key in preset layers heads kv_heads width ffn_width context vocabulary rope_theta; do
		! grep -q "^$key = " "$src/conf/$2.ini" || more+=(-o "model.$key=")
	done
	more+=(-o "model.path=$golden/$1" -o adapter.r=2)
}

# huge NAME: whether the file is for machines that only a plan reaches
huge() {
	case $1 in
	gpt3-175b-nvme | gpt-1t-nvme | gpt2-1.5b-4x24g | llama2-7b-4-cards) return 0 ;;
	esac
	return 1
}
