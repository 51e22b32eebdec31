#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 for parameter groups and for optimizers that need more than an element: one digest over stages, ranks, sizes of
# pieces and threads.
. "$ZR_SRCDIR/tests/tap.sh"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"

# digest RANKS OPTION...: the last line of a run, or why there was none
digest() {
	local ranks=$1 option options=()
	shift
	for option; do options+=(-o "$option"); done
	rm -rf "$scratch/run"
	"$ZEROTH" train -n "$ranks" "${options[@]}" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.steps=4 \
		-o train.eval_every=0 -o train.train_batch_size=6 "$ZR_SRCDIR/tests/matrix.ini" 2> "$scratch/err" | tail -n 1 |
		grep digest || tail -n 1 "$scratch/err"
}

# spread NAME OPTION...: the same bits however the run is spread. Each line: ranks, options.
spread() {
	local name=$1 want ranks how
	shift
	want=$(digest 1 "$@" device.threads=1)
	like "$name: trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	while read -r ranks how; do
		# shellcheck disable=SC2086
		is "I1 $name: $ranks ranks, $how" "$(digest "$ranks" "$@" $how)" "$want"
	done <<-END
		1 device.threads=2 zero.sub_group_size=2048
		2 zero.plugin=stage0 zero.sub_group_size=4096
		2 zero.plugin=stage1 device.threads=2
		3 zero.plugin=stage2 zero.sub_group_size=2048
		3 zero.plugin=stage3 zero.persistence_threshold=0 device.threads=2
		2 zero.plugin=hpz zero.sub_group_size=6144 zero.overlap_comm=no
	END
}

decay=(optimizer.lr=0.01 optimizer.weight_decay=0.1 'optimizer.plain.match=*.bias *ln_*' optimizer.plain.weight_decay=0)
spread 'two groups' "${decay[@]}"
spread 'two groups, bf16' "${decay[@]}" precision.plugin=bf16
spread 'two plugins' optimizer.lr=0.01 'optimizer.m.match=h.*.c_*.weight wpe.*' optimizer.m.plugin=sgd optimizer.m.momentum=0.9 \
	precision.plugin=bf16

done_testing
