#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits with optimizers that look beyond an element: sums over whole parameters (lamb), whole matrices beside an
# elementwise one (muon and adamw, and a group without decay; heads: muon with its other methods): over stages, ranks,
# pieces, tiers and master formats.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
mkdir "$scratch/disk"
cat "$ZR_SRCDIR/tests/lib/matrix.ini" > "$scratch/lamb.ini"
printf '%s\n' '[optimizer]' 'plugin = lamb' 'lr = 1e-3' >> "$scratch/lamb.ini"
cat "$ZR_SRCDIR/tests/lib/matrix.ini" - > "$scratch/muon.ini" <<'INI'
[optimizer]
plugin = adamw
lr = 1e-3
weight_decay = 0.1
[optimizer.matrices]
plugin = muon
match = *.c_attn.weight *.c_proj.weight *.c_fc.weight
lr = 0.02
[optimizer.no_decay]
match = *.bias *ln_*
weight_decay = 0
INI
sed '/^lr = 0.02/a coefficients = polar_express\nmethod = gram\nhead_rows = 16\nadjust_lr_fn = spectral_unclamped' \
	"$scratch/muon.ini" > "$scratch/heads.ini"

digest() { # digest OPTIMIZER RANKS [arguments]...
	local conf=$scratch/$1.ini ranks=$2
	shift 2
	rm -rf "${scratch:?}/run"
	"$ZEROTH" train -n "$ranks" "$conf" -o data.path="$scratch/text" -o run.dir="$scratch/run" -o train.train_batch_size=6 \
		-o train.eval_every=0 -o device.threads=1 "$@" 2>&1 | tail -n 1
}

split=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
pieces=(-o zero.sub_group_size=5000)
disk=()
for what in optimizer gradient param; do disk+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=$scratch/disk"); done
for optimizer in lamb muon heads; do
	for precision in fp32 bf16; do
		set -- -o precision.plugin=$precision
		one=$(digest $optimizer 1 "$@")
		like "$optimizer, $precision: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		one_in 5 && is "I1 $optimizer, $precision: whole on 2 ranks" "$(digest $optimizer 2 "$@" -o zero.plugin=stage0)" "$one"
		one_in 5 && is "I1 $optimizer, $precision: stage 1 on 3 ranks, in pieces" "$(digest $optimizer 3 "$@" -o zero.plugin=stage1 "${pieces[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: stage 3 on 2 ranks, 2 threads" "$(digest $optimizer 2 "$@" "${split[@]}" -o device.threads=2)" "$one"
		one_in 5 && is "I1 $optimizer, $precision: everything on disk, in pieces" "$(digest $optimizer 1 "$@" "${split[@]}" "${disk[@]}" "${pieces[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: on a separate device, 3 ranks" "$(digest $optimizer 3 "$@" -o zero.plugin=stage1 \
			-o device.memory=32M -o device.plugin="$cards")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: on disk, 3 ranks" "$(digest $optimizer 3 "$@" "${split[@]}" "${disk[@]}" "${pieces[@]}")" "$one"
	done
	one_in 5 && is "I1 $optimizer, bf16: the master in two halves" "$(digest $optimizer 2 "$@" "${split[@]}" -o precision.master=split)" "$one"
	one_in 5 && is "I1 $optimizer, bf16: the master in two halves, beside a separate device" "$(digest $optimizer 2 "$@" "${split[@]}" \
		-o precision.master=split -o device.memory=32M -o device.plugin="$cards" -o offload.optimizer.plugin=cpu)" "$one"
done
# Products of the device have other bits than those of the host: whole matrices are computed by the device, wherever state lies.
apart=(-o device.memory=32M -o device.plugin="$cards" -o device.isa=scalar)
for precision in fp32 bf16; do
	set -- "${apart[@]}" -o precision.plugin=$precision
	one=$(digest muon 1 "$@")
	like "muon, $precision: trains on a device of other products" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	one_in 5 && is "I1 muon, $precision: state on the host" "$(digest muon 1 "$@" -o offload.optimizer.plugin=cpu)" "$one"
	one_in 5 && is "I1 muon, $precision: state on the host, split over 3 ranks, late copies" "$(digest muon 3 "$@" "${split[@]}" \
		-o offload.optimizer.plugin=cpu -o device.late_copies=yes)" "$one"
	one_in 5 && is "I1 muon, $precision: state on disk, 2 ranks, in pieces" "$(digest muon 2 "$@" "${split[@]}" "${disk[@]}" "${pieces[@]}")" "$one"
done
one=$(digest muon 1)
is 'I1 muon: three ranks on three nodes' "$(digest muon 3 "${split[@]}" -o boot.ranks_per_node=1)" "$one"

# collectives of an update, beside those that publish: a pair for as many matrices as there are ranks
exchanges() {
	"$ZEROTH" plan -n "$1" "$scratch/muon.ini" -o data.path="$scratch/text" -o train.train_batch_size=12 -o zero.plugin=stage2 \
		-o boot.ranks_per_node=1 --program | awk '/^program/ { on = /update/ } on && / collective +update/' | wc -l
}
is 'matrices travel two ways for as many as there are ranks' "$(exchanges 2) $(exchanges 4)" '8 4'
other=$(digest muon 1 -o optimizer.no_decay.weight_decay=0.1)
ok 'a group without decay changes bits' test "$one" != "$other"
for option in coefficients=polar_express method=gram head_rows=16 adjust_lr_fn=spectral_unclamped; do
	like "muon: $option has results of its own" "$(digest muon 1 -o optimizer.matrices.$option | grep -v "$one")" '^digest: '
done
like 'heads that do not fit are refused by name' "$(digest muon 1 -o optimizer.matrices.head_rows=13)" \
	'zeroth: .*\[optimizer.matrices\] h.0.attn.c_attn.weight has 48 rows, which head_rows = 13 does not divide'
like 'a matrix optimizer refuses other shapes' "$(digest muon 1 -o optimizer.matrices.match='*')" 'zeroth: .*\[optimizer'
done_testing
