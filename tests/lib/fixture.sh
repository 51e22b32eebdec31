# SPDX-License-Identifier: Apache-2.0
#
# What several shell tests train and build; to be sourced behind tap.sh.

# tiny DATA LAYERS BATCH STEPS: makes `text` and tiny.ini, a training on it that takes moments; lines of standard input follow.
tiny() {
	for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > text
	{
		cat <<-INI
		[train]
		train_batch_size = $3
		micro_batch_size = 1
		steps = $4
		[model]
		plugin = gpt2
		layers = $2
		heads = 2
		width = 32
		context = 32
		[data]
		plugin = $1
		path = $PWD/text
		INI
		cat
	} > tiny.ini
}

# one_process: trains tiny.ini in one process. Sets `one`, the line with the digest that other ways to train it must have.
one_process() {
	"$ZEROTH" train tiny.ini -o run.dir=one -o train.eval_every=0 > one.out 2>&1 || exit 99
	one=$(grep '^digest:' one.out)
}

# build SOURCE [NAME]: tests/doubles/SOURCE.c as the plugin $scratch/NAME.so, or SOURCE.so
build() {
	local out=$scratch/${2-$1}.so cc
	read -ra cc <<< "${CC:-cc}"
	"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o "$out" "$ZR_SRCDIR/tests/doubles/$1.c" -ldl || exit 99
	chmod 755 "$out"
}

# peft_ini: the training whose losses PEFT's are in golden/adapters, without [adapter]; $golden is tests/golden.
peft_ini() {
	cat <<-INI
		[data]
		plugin = tokens
		path = $golden/pretrained/tokens.bin
		format = uint16
		order = sequential
		[train]
		sequence_length = 13
		steps = 20
		train_batch_size = 2
		micro_batch_size = 1
		eval_every = 0
		gradient_clipping = 0
		[optimizer]
		plugin = adamw
		lr = 1e-2
		betas = 0.9, 0.999
		eps = 1e-8
		weight_decay = 0.01
	INI
}

# digest_or_end FILE: the digest in the output of a training, else its last line
digest_or_end() { grep '^digest: ' "$1" || tail -n 1 "$1"; }

# trained CONF [argument]...: the digest, else the last line of the log; output in out, log in log
trained() {
	rm -rf run
	timeout 120 "$ZEROTH" train "$1" -o run.dir=run "${@:2}" >out 2>log
	tail -n 1 out | grep '^digest' || tail -n 1 log
}

# use_disk: sets `disk`, the options that put everything on disk.
use_disk() {
	mkdir disk || exit 99
	disk=()
	for what in optimizer gradient param; do
		disk+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=disk")
	done
}

# memory_group LIMIT: makes a memory control group of its own; prints its directory, or fails with the reason.
memory_group() {
	local dir
	dir=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:\([^:]*,\)*memory\(,[^:]*\)*://p' /proc/self/cgroup)
	if [ -e "$dir/memory.limit_in_bytes" ]; then
		dir+=/zeroth-test-$$-$1
		mkdir "$dir" && echo "$1" > "$dir/memory.limit_in_bytes" || return
		[ ! -e "$dir/memory.memsw.limit_in_bytes" ] || echo "$1" > "$dir/memory.memsw.limit_in_bytes"
		echo "$dir"
		return
	fi
	dir=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
	[ -e "$dir/cgroup.controllers" ] || { echo "no memory control groups"; return 1; }
	grep -qw memory "$dir/cgroup.subtree_control" || echo +memory > "$dir/cgroup.subtree_control" || return
	dir+=/zeroth-test-$$-$1
	mkdir "$dir" && echo "$1" > "$dir/memory.max" && echo "$dir" && echo 0 > "$dir/memory.swap.max"
}
