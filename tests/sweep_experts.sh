#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 of [zero] expert_ranks over trainings drawn at random: of every model, optimizer, precision, stage, tier and number of ranks
# below, every other one in an order of its own (shuffled_run.c). `make sweep-experts RUNS=n SEED=n` runs n of them;
# SWEEP_LOG=FILE: what each gave. tests/system/homes.sh is the test.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
log=${SWEEP_LOG:-$scratch/log}
build documents
common=(-o train.train_batch_size=16 -o train.steps=2 -o train.eval_every=2 -o train.eval_batches=2)

# What is trained, beside the product of tiers.sh. A name with `early` has updates in the backward, and its digest is that of
# updates after it.
mixture='-o model.heads=4 -o model.width=64 -o model.ffn_width=40'
declare -A kinds=(
	[mixtral]="$mixture -o model.plugin=mixtral -o model.experts=8 -o model.experts_per_token=2 -o model.router_aux_loss_coef=0"
	[mixtral-losses]="$mixture -o model.plugin=mixtral -o model.experts=8 -o model.experts_per_token=2 -o model.router_aux_loss_coef=0.4 -o model.router_z_loss_coef=0.2"
	[mixtral-lora]="$mixture -o model.plugin=mixtral -o model.experts=8 -o model.experts_per_token=2 -o adapter.plugin=lora -o adapter.r=3"
	[mixtral-one]="$mixture -o model.plugin=mixtral -o model.experts=8 -o model.experts_per_token=1"
	[mixtral-all]="$mixture -o model.plugin=mixtral -o model.experts=4 -o model.experts_per_token=4"
	[mixtral-frozen]="$mixture -o model.plugin=mixtral -o model.experts=8 -o model.experts_per_token=2 -o train.freeze=*.experts.*"
	[mixtral-muon]="$mixture -o model.plugin=mixtral -o model.experts=4 -o model.experts_per_token=2 -o optimizer.m.match=*.w?.weight -o optimizer.m.plugin=muon"
	[qwen3_moe-8bit]="$mixture -o model.plugin=qwen3_moe -o model.kv_heads=2 -o model.experts=8 -o model.experts_per_token=3 -o optimizer.states=8bit"
	[qwen3_moe-early]="$mixture -o model.plugin=qwen3_moe -o model.kv_heads=2 -o model.experts=8 -o model.experts_per_token=3 -o train.gradient_clipping=0"
	[olmoe-documents]="$mixture -o model.plugin=olmoe -o model.experts=8 -o model.experts_per_token=2"
)
mapfile -t names < <(printf '%s\n' "${!kinds[@]}" | grep -E "${KINDS:-.}" | sort)
MATRIX=full WORLDS='1 2 4 8' product | sed -E 's/(mics) 6/\1 4/' > "$scratch/product"

# One training a line: its name, EXPERT_RANKS GROUP ORDER SLICES SHARE SEQUENCE, and the line of the product.
drawn() {
	awk -v n="$1" -v seed="$2" -v names="${names[*]}" '
	function below(k) { return int(rand() * k) }
	BEGIN { srand(seed); kinds = split(names, name) }
	{ line[++lines] = $0 }
	END {
		while (made < n) {
			of = name[1 + below(kinds)]
			split(line[1 + below(lines)], p)
			if (of ~ /early/ && p[1] == "fp16") continue # a step that overflows must leave the weights
			ranks = 2 ^ below(4)
			while (ranks > p[7] || (ranks > 4 && of ~ /all|muon/)) ranks /= 2
			slices = below(2) ? 1 : 2 ^ (1 + below(3))
			share = 2 ^ below(4)
			while (share > p[7] || share > slices) share /= 2
			print of, ranks, 2 ^ below(3), below(2) * ++made, slices, share, below(3) ? "auto" : "keys", p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]
		}
	}' "$scratch/product"
}

declare -A want
runs=0 wrong=0 plainly=0
while read -r name ranks group SHUFFLE slices share sequence p m o g q z w act rest <&3; do
	read -ra options <<< "${kinds[$name]}"
	options+=(-o train.sum_group="$group" -o train.slices="$slices")
	data=(-o data.path="$scratch/text")
	[[ $name != *documents ]] || data=(-o data.plugin="$scratch/documents.so")
	key="$name $p $group $slices"
	if [ -z "${want[$key]}" ]; then
		ZEROTH=$zeroth
		want[$key]=$(digest $p fp32 none none none stage0 1 keep auto auto 1 "${common[@]}" "${options[@]}")
		plainly=$((plainly + 1))
		[[ ${want[$key]} = digest:* ]] || fail "$key trains" "${want[$key]}"
	fi

	case $name in *early*) options+=(-o zero.update_in_backward=yes -o zero.reduce_bucket_size=1000000) ;; esac
	case $z$w in mics8 | hpz8) options+=(-o boot.ranks_per_node=$((2 << runs % 2))) ;; esac
	export SHUFFLE
	ZEROTH=$zeroth
	[ "$SHUFFLE" = 0 ] || ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
	got=$(digest $p $m $o $g $q $z $w $act $rest "${common[@]}" "${options[@]}" -o zero.expert_ranks="$ranks" \
		-o train.sequence_ranks="$share" -o train.sequence="$sequence")
	runs=$((runs + 1))
	echo "$name $ranks $group $SHUFFLE $slices $share $sequence $p $m $o $g $q $z $w $act $rest: ${got//$'\n'/; }" >> "$log"
	[ "$got" = "${want[$key]}" ] && continue
	wrong=$((wrong + 1))
	note "other bits: $(tail -n 1 "$log"); wanted ${want[$key]}"
done 3< <(drawn "${RUNS:-1000}" "${SEED:-1}")
is "I1 $runs trainings, compared with $plainly of one rank: so many have other bits" "$wrong" 0
done_testing
