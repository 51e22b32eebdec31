#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How many times faster sampling is with its cache: `bench/sample.sh [TOKENS]` in a build, for the
# model of quickstart.ini with windows of 128, 512 and 1024 tokens. The texts are compared. Times are
# of the processor, so that what else runs matters little; of each, the least of three.
here=$(cd "$(dirname "$0")/.." && pwd)
zeroth=${ZEROTH:-./zeroth}
export ZEROTH_PLUGIN_PATH=${ZEROTH_PLUGIN_PATH:-$PWD/plugins}
export ZEROTH_DATA_PATH=${ZEROTH_DATA_PATH:-$here/conf}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > "$dir/text"

# seconds TOKENS FILE OPTION...: user and system time of a text
seconds() {
	local n=$1 to=$2 best= now
	shift 2
	for _ in 1 2 3; do
		now=$({ TIMEFORMAT='%U %S'; time "$zeroth" sample "$dir/run" -n "$n" -k 0 -t 1 \
			-o device.threads=1 "$@" > "$to"; } 2>&1 | awk '{ print $1 + $2 }')
		best=$(awk -v a="${best:-$now}" -v b="$now" 'BEGIN { print a < b ? a : b }')
	done
	echo "$best"
}

for window in 128 512 1024; do
	rm -rf "$dir/run"
	"$zeroth" train "$here/conf/quickstart.ini" -o data.path="$dir/text" -o run.dir="$dir/run" \
		-o model.context=$window -o train.steps=1 -o train.eval_every=0 > /dev/null || exit 1
	n=${1:-$window}
	start=$(seconds 1 "$dir/one")
	with=$(seconds "$n" "$dir/with")
	without=$(seconds "$n" "$dir/without" --no-cache)
	cmp "$dir/with" "$dir/without" || exit 1
	awk -v w="$window" -v n="$n" -v s="$start" -v a="$with" -v b="$without" 'BEGIN {
		printf "window %4d, %d tokens: %.2f s without, %.2f s with, start %.2f s: %.1f times\n",
			w, n, b, a, s, (b - s) / (a - s > 0.01 ? a - s : 0.01) }'
done
