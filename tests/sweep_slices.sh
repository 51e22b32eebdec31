#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 of [train] slices and sequence_ranks over trainings drawn at random: of every model, optimizer, precision, stage, tier and
# number of ranks below, every other one in an order of its own (shuffled_run.c). `make sweep-slices RUNS=n SEED=n` runs n of
# them, 3000 take half an hour; SWEEP_LOG=FILE: what each gave. tests/system/slices.sh is the test.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
log=${SWEEP_LOG:-$scratch/log}
build documents
common=(-o train.train_batch_size=8 -o train.steps=2 -o train.eval_every=2 -o train.eval_batches=2)

# What is trained, beside the product of tiers.sh. A name with `early` has updates in the backward, and its digest is that of
# updates after it.
plain='-o model.dropout=0'
four='-o model.heads=4 -o model.width=64'
mixture="$four -o model.ffn_width=40 -o model.experts=3 -o model.experts_per_token=2"
declare -A kinds=(
	[gpt2]="$plain"
	[gpt2-untied]="$plain -o model.tied=no"
	[gpt2-early]="$plain -o train.gradient_clipping=0"
	[gpt2-frozen]="$plain -o train.freeze=h.1.*"
	[gpt2-lora]="$plain -o adapter.plugin=lora -o adapter.r=3"
	[gpt2-dropout]="-o model.dropout=0.2"
	[gpt2-lora-dropout]="-o model.dropout=0.1 -o adapter.plugin=lora -o adapter.r=3 -o adapter.dropout=0.2"
	[gpt2-qkclip]="$plain -o train.qk_clip=yes -o train.qk_clip_threshold=0.05"
	[llama]="$four -o model.plugin=llama -o model.kv_heads=2"
	[llama-tied-muon]="$four -o model.plugin=llama -o model.kv_heads=1 -o model.tied=yes -o optimizer.m.match=*_proj.weight -o optimizer.m.plugin=muon"
	[llama-early]="$four -o model.plugin=llama -o model.kv_heads=2 -o train.gradient_clipping=0"
	[llama-documents]="$four -o model.plugin=llama -o model.kv_heads=2"
	[qwen3-8bit]="$four -o model.plugin=qwen3 -o model.kv_heads=2 -o optimizer.states=8bit"
	[gemma2]="$four -o model.plugin=gemma2 -o model.kv_heads=2 -o model.head_dim=16 -o model.window=7"
	[mixtral]="$mixture -o model.plugin=mixtral -o model.router_aux_loss_coef=0"
	[mixtral-losses]="$mixture -o model.plugin=mixtral -o model.router_aux_loss_coef=0.4 -o model.router_z_loss_coef=0.2"
	[mixtral-lora-dropout]="$mixture -o model.plugin=mixtral -o adapter.plugin=lora -o adapter.r=3 -o adapter.dropout=0.2"
	[qwen3_moe-early]="$mixture -o model.plugin=qwen3_moe -o model.kv_heads=2 -o train.gradient_clipping=0"
	[olmoe-documents]="$mixture -o model.plugin=olmoe"
)
mapfile -t names < <(printf '%s\n' "${!kinds[@]}" | grep -E "${KINDS:-.}" | sort)
MATRIX=full WORLDS='1 2 4 8' product | sed -E 's/(mics) 6/\1 4/' > "$scratch/product"

# One training a line: its name, SLICES SHARE GROUP ORDER SEQUENCE, and the line of the product.
drawn() {
	awk -v n="$1" -v seed="$2" -v names="${names[*]}" '
	function below(k) { return int(rand() * k) }
	BEGIN { srand(seed); kinds = split(names, name) }
	{ line[NR] = $0 }
	END {
		while (made < n) {
			of = name[1 + below(kinds)]
			split(line[1 + below(NR)], p)
			if (of ~ /early/ && p[1] == "fp16") continue # a step that overflows must leave the weights
			slices = 2 ^ (1 + below(3))
			share = 2 ^ below(4)
			while (share > p[7] || share > slices) share /= 2
			print of, slices, share, 1 + below(2), below(2) * ++made, below(3) ? "auto" : "keys", p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]
		}
	}' "$scratch/product"
}

of() { echo "-o train.slices=$1 -o train.sequence_ranks=$2 -o train.sum_group=$3"; }
declare -A want
runs=0 wrong=0 plainly=0
while read -r name slices share group SHUFFLE sequence p m o g q z w act rest <&3; do
	read -ra options <<< "${kinds[$name]}"
	data=(-o data.path="$scratch/text")
	[[ $name != *documents ]] || data=(-o data.plugin="$scratch/documents.so")
	key="$name $p $slices $group"
	if [ -z "${want[$key]}" ]; then
		ZEROTH=$zeroth
		want[$key]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${common[@]}" "${options[@]}" $(of $slices 1 $group))
		plainly=$((plainly + 1))
		[[ ${want[$key]} = digest:* ]] || fail "$key trains" "${want[$key]}"
	fi

	case $name in *early*) options+=(-o zero.update_in_backward=yes) ;; esac
	case $z$w in mics8 | hpz8) options+=(-o boot.ranks_per_node=$((2 << runs % 2))) ;; esac
	export SHUFFLE
	ZEROTH=$zeroth
	[ "$SHUFFLE" = 0 ] || ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
	got=$(digest $p $m $o $g $q $z $w $act $rest "${common[@]}" "${options[@]}" $(of $slices $share $group) -o train.sequence=$sequence)
	runs=$((runs + 1))
	echo "$name $slices $share $group $SHUFFLE $sequence $p $m $o $g $q $z $w $act $rest: ${got//$'\n'/; }" >> "$log"
	[ "$got" = "${want[$key]}" ] && continue
	wrong=$((wrong + 1))
	note "other bits: $(tail -n 1 "$log"); wanted ${want[$key]}"
done 3< <(drawn "${RUNS:-3000}" "${SEED:-1}")
is "I1 $runs trainings, compared with $plainly of one rank: so many have other bits" "$wrong" 0
done_testing
