#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a base in codes costs a step and saves in memory: `bench/store.sh [ROUNDS]` in a build. LoRA
# beside a Llama of 12 blocks of width 512, bf16; of each [model] store the least processor time of
# ROUNDS turns (3), without that of starting, to that of auto; and the bytes that two ranks plan
# for parameters and gather in a micro-batch.
here=$(cd "$(dirname "$0")/.." && pwd)
zeroth=${ZEROTH:-./zeroth}
export ZEROTH_PLUGIN_PATH=${ZEROTH_PLUGIN_PATH:-$PWD/plugins}
export ZEROTH_DATA_PATH=${ZEROTH_DATA_PATH:-$here/conf}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
[[ $zeroth == /* ]] || zeroth=$OLDPWD/$zeroth
for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > text
cat > base.ini <<END
[train]
micro_batch_size = 1
gradient_accumulation_steps = 1
eval_every = 0
[model]
plugin = llama
layers = 12
heads = 8
width = 512
context = 256
[data]
plugin = text
path = text
[precision]
plugin = bf16
END
"$zeroth" train base.ini -o train.steps=1 -o run.dir=first -o checkpoint.every=1 > /dev/null &&
	"$zeroth" checkpoint export first/checkpoints/step-00000001 base > /dev/null || exit 1
sed -e '/^layers/,/^context/d' -e 's|^plugin = llama|path = base|' base.ini > lora.ini
printf '[adapter]\nplugin = lora\nr = 16\ntargets = all-linear\n' >> lora.ini

# seconds STORE STEPS: user and system time
seconds() {
	rm -rf run
	{ TIMEFORMAT='%U %S'; time "$zeroth" train lora.ini -o run.dir=run -o "model.store=$1" \
		-o "train.steps=$2" -o device.threads=1 > /dev/null 2>&1; } 2>&1 |
		awk '{ print $1 + $2 }'
}
least() { awk -v a="${1:-$2}" -v b="$2" 'BEGIN { print a < b ? a : b }'; }

declare -A one many
for _ in $(seq 1 "${1:-3}"); do
	for store in auto bf16 int8 nf4; do
		one[$store]=$(least "${one[$store]}" "$(seconds $store 1)")
		many[$store]=$(least "${many[$store]}" "$(seconds $store 9)")
	done
done
for store in auto bf16 int8 nf4; do
	plan() {
		"$zeroth" plan -n 2 lora.ini -o model.store=$store -o zero.plugin=stage3 \
			-o device.memory=4G "$@"
	}
	memory=$(plan | awk '$1 == "device" && $2 == "parameters" { print $3, $4 }')
	gathered=$(plan --program | awk '/^program/ { last = /last micro/ } last && /collective  gather/ {
		for (i = 1; i < NF; i++) if ($(i + 1) ~ /^[KMG]iB$/) {
			sum += $i * ($(i + 1) == "KiB" ? 1 : $(i + 1) == "MiB" ? 1024 : 1048576); break } }
		END { printf "%.1f MiB", sum / 1024 }')
	awk -v s=$store -v n="${many[$store]}" -v o="${one[$store]}" -v a="${many[auto]}" \
		-v b="${one[auto]}" -v m="$memory" -v g="$gathered" 'BEGIN {
		printf "%-5s step %.3f of auto, parameters of a rank %s, gathered %s\n", s,
			(n - o) / (a - b), m, g }'
done
