#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Memory of long sequences, as `zeroth plan` says it: of a rank for lengths and ranks that share a sequence, and of the whole of
# Llama 3 8B. With RANKS, how long a small Llama trains on so many ranks of this machine at 131,072 tokens, and what it takes
# beside its plan.
#
#   bench/sequences.sh [RANKS]
#
# ZEROTH: the program (default: zeroth in PATH). ZR_TEST_PLUGINS: its plugins, which card.c is built beside.
here=$(cd "$(dirname "$0")" && pwd)
zeroth=${ZEROTH:-zeroth}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

cat > llama.ini <<INI
[train]
steps = 2
train_batch_size = 1
micro_batch_size = 1
eval_every = 0
gradient_clipping = 0
[model]
plugin = llama
preset = llama3-8b
context = 1048576
[data]
plugin = tokens
path = train.bin
[optimizer]
plugin = adamw
[precision]
plugin = bf16
INI

# plan OPTION...: GiB of activations, workspace, communication, gradient buffers and gathered parameters, all of the device
# and of the host, seconds of a step, and whether it fits
plan() {
	"$zeroth" plan llama.ini --no-compare "$@" 2> err | awk '
	function gib(n, unit) { return n * (unit == "TiB" ? 1024 : unit == "GiB" ? 1 : unit == "MiB" ? 1 / 1024 : 1 / 1048576) }
	$1 == "device" || $1 == "host" {
		what = $0
		sub(/^[a-z]+ +/, "", what)
		sub(/  .*/, "", what)
		for (n = 2; $n !~ /^[0-9]/; n++) ;
		if (!(($1, what) in has)) has[$1, what] = gib($n, $(n + 1)) # the first workspace is that of layers
	}
	/^fits/ { fits = "yes" }
	/^does not fit/ { fits = "no" }
	/^a step takes/ { step = $4 * ($5 ~ /^ms/ ? 0.001 : 1) }
	END {
		printf "%9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9.1f  %-3s", has["device", "activations"], has["device", "workspace"],
			has["device", "communication"], has["device", "gradient buffers"], has["device", "gathered parameters"],
			has["device", "total"], has["host", "total"], fits
	}'
	sed -n 's/.*(largest: \([^)]*\)).*/ largest: \1/p' err | tr -d '\n'
	echo
}
${CC:-cc} -std=gnu11 -shared -fPIC -I"$here/../include" -o card.so "$here/card.c" -ldl || exit 1
columns='activ.  workspace   comm.   gradient gathered  device      host'
card=(--card H100 --memory 2T -o device.plugin=./card.so -o device.memory=80G)

tables() {
	echo "Two layers of Llama 3 8B's shape, bf16, all activations kept, stage 3, GiB of a rank:"
	printf '%8s %2s %4s %-5s %9s\n' tokens S K by "$columns"
	for length in 4096 8192 16384 32768 65536 131072; do
		for share in 1 2 4 8; do
			slices=$((2 * share))
			[ $((length / 4096)) -le $slices ] || slices+=" $((length / 4096))"
			for by in heads keys; do
				[ $share$by != 1keys ] || continue
				for k in $slices; do
					printf '%8d %2d %4d %-5s ' $length $share $k $by
					plan "${card[@]}" -n $share -o model.layers=2 -o zero.plugin=stage3 -o train.sequence_length=$length \
						-o train.slices=$k -o train.sequence_ranks=$share -o train.sequence=$by
				done
			done
		done
	done

	echo
	echo "Llama 3 8B whole, bf16, stage 3, AdamW's state on the host, 8 cards of 80 GB that share a sequence:"
	printf '%8s %2s %4s %-5s %-5s %9s\n' tokens S K by layer "$columns"
	for length in 131072 262144 524288 1048576; do
		for by in heads keys; do
			for k in 8 16 64; do
				for layers in again away both; do
					printf '%8d %2d %4d %-5s %-5s ' $length 8 $k $by $layers
					plan "${card[@]}" -n 8 ${!layers} -o zero.plugin=stage3 -o train.sequence_length=$length -o train.slices=$k \
						-o train.sequence_ranks=8 -o train.sequence=$by -o offload.optimizer.plugin=cpu
				done
			done
		done
	done

	echo
	echo "The same on one card of 80 GB, with gradients and parameters on the host, too:"
	printf '%8s %2s %4s %-5s %-5s %9s\n' tokens S K by layer "$columns"
	for length in 32768 131072 262144 524288; do
		for k in 1 8 64; do
			for layers in both last; do
				printf '%8d %2d %4d %-5s %-5s ' $length 1 $k - $layers
				plan "${card[@]}" ${!layers} -o zero.plugin=stage3 -o train.sequence_length=$length -o train.slices=$k \
					-o offload.optimizer.plugin=cpu -o offload.gradient.plugin=cpu -o offload.param.plugin=cpu
			done
		done
	done
}

# What is kept of a layer from its forward to its backward. again: its output, all else is computed again; away: all, on the
# host; both: its output, on the host; last: so of the last layer, too, which else keeps all until its backward.
again='-o activation.plugin=recompute'
away='-o activation.plugin=offload -o offload.activation.plugin=cpu'
both='-o activation.plugin=recompute -o activation.outputs=offload -o offload.activation.plugin=cpu'
last="$both -o activation.last=recompute"

trains() {
	seq 1 40000 > text
	cat > small.ini <<-INI
		[train]
		sequence_length = 131072
		steps = 2
		train_batch_size = 1
		micro_batch_size = 1
		eval_every = 0
		slices = 32
		[run]
		log_every = 1
		[device]
		threads = 1
		[model]
		plugin = llama
		layers = 2
		width = 32
		heads = 2
		kv_heads = 1
		ffn_width = 96
		context = 131072
		[data]
		plugin = text
		path = text
		val_path = text
		[zero]
		plugin = stage3
	INI
	"$zeroth" train -n "$1" small.ini -o train.sequence_ranks="$1" -o run.dir=run > out 2>&1 || tail -n 1 out
	grep '^memory\|^step\|^trained\|^digest' out
	echo "the process of rank 0 had $(($(tr -d ' \n' < run/summary.json | grep -oE '"process_peak_bytes":[0-9]+' | tr -dc 0-9) >> 20)) MiB at most"
}

if [ $# = 0 ]; then
	tables
else
	trains "$1"
fi
