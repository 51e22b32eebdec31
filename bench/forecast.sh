#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What plan says that a step takes beside what it takes, for twenty configurations of models, stages,
# tiers and ranks: seconds of both (medians of the steps behind the second one), and their ratio.
#
#   bench/forecast.sh TEXT [RATES]
#
# TEXT: any file of some 100 KB. RATES: what `zeroth bench` measured; default: this machine's. ZEROTH:
# the program (default: zeroth in PATH). DISK: a directory on the disk of the nvme tier.
zeroth=${ZEROTH:-zeroth}
text=$(realpath "$1") || exit 1
rates=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
disk=${DISK:-$work/disk}
mkdir -p "$disk"
cat > c.ini <<INI
[run]
dir = run
[train]
steps = 17
eval_every = 0
micro_batch_size = 2
gradient_accumulation_steps = 1
[model]
plugin = gpt2
layers = 4
heads = 8
width = 512
context = 256
[data]
plugin = text
path = $text
[monitor.jsonl]
plugin = jsonl
INI
printf '%-54s %10s %10s %7s\n' '' forecast measured ratio

one() { # NAME [argument]...
	local name=$1 ranks=1 said took
	shift
	[ "$1" != -n ] || ranks=$2
	said=$("$zeroth" plan ${rates:+--rates "$rates"} --json c.ini "$@" | sed -nE 's/^    "seconds": ([-0-9.e]+),/\1/p')
	rm -rf run
	"$zeroth" train c.ini "$@" > log 2>&1 || { tail -n 1 log; return; }
	took=$(sed -nE 's/.*"step_seconds":([-0-9.e]+).*/\1/p' run/metrics.jsonl | tail -n +3 | sort -g | sed -n 8p)
	awk -v n="$name, $ranks rank$([ "$ranks" = 1 ] || echo s)" -v f="$said" -v m="$took" \
		'BEGIN { printf "%-54s %8.1f ms %7.1f ms %7.2f\n", n, 1000 * f, 1000 * m, f / m }'
}
tier() { echo -o "offload.$1.plugin=nvme" -o "offload.$1.path=$disk"; }
llama=(-o model.plugin=llama -o model.kv_heads=4 -o model.ffn_width=1376)
one 'GPT-2 4 x 512'
one 'GPT-2 4 x 512, bf16' -o precision.plugin=bf16
one 'GPT-2 4 x 512, all activations again' -o activation.plugin=recompute
one 'GPT-2 4 x 512, 4 micro-batches' -o train.gradient_accumulation_steps=4
one 'GPT-2 4 x 512, 1024 tokens' -o model.context=1024
one 'GPT-2 4 x 512, vocabulary of 16384' -o model.vocabulary=16384
one 'GPT-2 12 x 256' -o model.layers=12 -o model.width=256
one 'GPT-2 2 x 1024' -o model.layers=2 -o model.width=1024
one 'GPT-2 12 x 768' -o model.layers=12 -o model.heads=12 -o model.width=768
one 'Llama 4 x 512' "${llama[@]}"
one 'Llama 4 x 512, bf16' "${llama[@]}" -o precision.plugin=bf16
one 'Llama 4 x 512, SGD' "${llama[@]}" -o optimizer.plugin=sgd -o optimizer.lr=0.1
one 'GPT-2 4 x 512, stage 0' -n 2
one 'GPT-2 4 x 512, stage 1' -n 2 -o zero.plugin=stage1
one 'GPT-2 4 x 512, stage 2' -n 2 -o zero.plugin=stage2
one 'GPT-2 4 x 512, stage 3' -n 2 -o zero.plugin=stage3
one 'Llama 4 x 512, stage 3, bf16' -n 2 "${llama[@]}" -o zero.plugin=stage3 -o precision.plugin=bf16
# shellcheck disable=SC2046 # words are wanted
one 'GPT-2 12 x 768, state on disk' -o model.layers=12 -o model.heads=12 -o model.width=768 $(tier optimizer)
# shellcheck disable=SC2046
one 'GPT-2 4 x 512, stage 3, all on disk' -o zero.plugin=stage3 $(tier optimizer) $(tier param) $(tier gradient)
# shellcheck disable=SC2046
one 'GPT-2 4 x 512, stage 3, state on disk' -n 2 -o zero.plugin=stage3 $(tier optimizer)
