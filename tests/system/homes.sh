#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [zero] expert_ranks: ranks divide the experts of a mixture; [train] experts_on = host: the host computes them. I1 over precisions, stages, ranks, ranks that divide experts, slices
# and ranks that share them, tiers, activations, comms, models, orders and resumes; routing at its limits; micro-batches of several
# rounds; the plan (I2); what is refused. tests/sweep_experts.sh tries thousands of such trainings.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/bytes.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
common=(-o train.train_batch_size=8 -o train.eval_every=2 -o train.steps=2 -o model.heads=4 -o model.width=64 -o model.ffn_width=40
	-o model.plugin=mixtral)
few=(-o model.experts=4 -o model.experts_per_token=2 -o model.router_aux_loss_coef=0.4)
# of EXPERT_RANKS [SLICES [SHARE [SUM_GROUP]]]: options
of() { echo "-o zero.expert_ranks=$1 -o train.slices=${2-1} -o train.sequence_ranks=${3-1} -o train.sum_group=${4-1}"; }
# plainly PRECISION OPTION...: on one rank, which keeps everything
plainly() { digest "$1" fp32 none none none stage0 1 keep auto auto 1 "${common[@]}" "${@:2}"; }

# ---- one digest ----
declare -A want
for p in fp32 bf16 fp16; do
	for k in 1 4; do
		for g in 1 2; do want[$p$k$g]=$(plainly $p "${few[@]}" $(of 1 $k 1 $g)); done
		like "$p, $k slices: trains" "${want[$p${k}1]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	done
done

# Each case with a number of ranks that divide experts, of slices, of ranks that share them, and of micro-batches of a tree.
cases() {
	product | awk '{
		ranks = $7 < 4 ? $7 : 2 + 2 * (NR % 2)
		slices = NR % 3 ? 1 : 4
		share = slices == 1 || NR % 2 ? 1 : $7 < 4 ? $7 : 2
		print $0, ranks, slices, share, 1 + int(NR / 4) % 2
	}'
}
export WORLDS='2 4'
while read -r p m o g q z w act pieces buffers threads e k s group <&3; do
	[ "$z$w" != mics6 ] || w=4
	one_in 7 || continue
	case="optimizer $o, gradient $g, param $q, $z, $w ranks, $act, pieces $pieces, buffers $buffers, $threads threads"
	is "I1 $p, master $m: $case, $e divide experts, $k slices, $s share, trees of $group" \
		"$(digest $p $m $o $g $q $z $w $act $pieces $buffers $threads "${common[@]}" "${few[@]}" $(of $e $k $s $group))" "${want[$p$k$group]}"
done 3< <(cases | pairwise)

# same NAME PRECISION EXPERT_RANKS SLICES SHARE GROUP OF digest FROM THE MASTER ON...
same() {
	is "I1 $1: $3 divide experts, $4 slices, $5 share, trees of $6" \
		"$(digest "$2" "${@:7:10}" "${common[@]}" "${few[@]}" $(of "$3" "$4" "$5" "$6") "${@:17}")" "${want[$2$4$6]}"
}
two=(-o boot.ranks_per_node=2)
same 'eight ranks' bf16 4 1 1 1 fp32 none none none stage3 8 keep auto auto 1
same 'eight ranks, two homes of each expert, whose sums are halves of a tree' fp32 2 4 4 1 fp32 none none none stage2 8 recompute auto auto 1
same 'nodes whose ranks divide experts' bf16 2 1 1 2 fp32 none none none hpz 4 keep auto auto 1 "${two[@]}"
same 'experts over nodes' fp16 4 1 1 1 fp32 none none none stage3 4 keep auto auto 1 "${two[@]}"

over_tcp() { # over_tcp EXPERT_RANKS RANKS PER_NODE OPTION...
	all trains "$2" "$3" "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o run.dir=run -o data.path="$scratch/text" -o boot.plugin=env \
		-o comm.plugin=tcp -o model.layers=3 -o precision.plugin=bf16 -o device.threads=1 "${common[@]}" "${few[@]}" $(of "$1") "${@:4}"
	is "I1 comm/tcp, $2 ranks, $3 of a node: $1 divide experts" "$(digest_of trains.0)" "${want[bf1611]}"
}
beside over_tcp 2 4 2 -o zero.plugin=stage3
beside over_tcp 4 4 1 -o zero.plugin=stage1
join_besides

ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
export SHUFFLE
for SHUFFLE in 1 2; do
	one_in 5 && same "order $SHUFFLE" fp32 2 4 1 1 fp32 cpu none none stage$SHUFFLE 2 keep tiny auto 1
	one_in 5 && same "order $SHUFFLE" bf16 4 1 1 2 fp32 none none none stage3 4 recompute auto auto 1
done
ZEROTH=$zeroth

# ---- kinds of models and trainings ----
# kind NAME OPTION...: the same digest however many ranks divide experts; fp32, or $type
kind() {
	local p=${type-fp32} name=$1 one
	one_in 7 || return 0
	shift
	one=$(plainly "$p" "${few[@]}" "$@")
	like "$name: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "I1 $name: two divide experts" \
		"$(digest "$p" fp32 none none none stage3 2 recompute tiny auto 2 "${common[@]}" "${few[@]}" "$@" -o zero.expert_ranks=2)" "$one"
	one_in 5 && is "I1 $name: four divide experts" \
		"$(digest "$p" fp32 cpu none none stage2 4 keep auto auto 1 "${common[@]}" "${few[@]}" "$@" -o zero.expert_ranks=4)" "$one"
}
type=bf16 kind 'qwen3_moe, losses of routers' -o model.plugin=qwen3_moe -o model.kv_heads=2 -o model.router_z_loss_coef=0.2
kind 'olmoe' -o model.plugin=olmoe
kind 'frozen experts' -o 'train.freeze=*.experts.*'
kind 'LoRA of experts' -o adapter.plugin=lora -o adapter.r=3
type=bf16 kind 'LoRA of attention, with dropout' -o adapter.plugin=lora -o adapter.r=3 -o adapter.targets=q_proj -o adapter.dropout=0.2
type=bf16 kind 'frozen attention' -o 'train.freeze=*.self_attn.*'
kind 'Muon' -o 'optimizer.m.match=*.w?.weight' -o optimizer.m.plugin=muon
type=bf16 kind '8-bit states' -o optimizer.states=8bit
kind 'codes of gradients' -o train.communication_data_type=mxint8
type=bf16 kind 'codes of parameters and gradients' -o train.communication_data_type=mxint8 -o train.gather_data_type=mxint8
kind 'updates in the backward' -o train.gradient_clipping=0 -o zero.update_in_backward=yes -o zero.reduce_bucket_size=1e6
kind 'updates in the forward' -o train.update_in_forward=yes
type=bf16 kind 'one expert of a token' -o model.experts_per_token=1
kind 'all experts of a token' -o model.experts_per_token=4
kind 'as many experts as there are at most' -o model.experts=256 -o model.width=16 -o model.ffn_width=8 -o device.memory=256M
echo "$(printf 'a%.0s' {1..4000})" > "$scratch/one"
data=(-o data.path="$scratch/one")
type=bf16 kind 'all tokens to one expert' -o model.experts_per_token=1
data=(-o data.path="$scratch/text")

# ---- experts on the host, beside a device with a memory of its own ----
on_host=(-o train.experts_on=host)
# there NAME PRECISION EXPERT_RANKS SLICES SUM_GROUP OF digest FROM THE OPTIMIZER ON...; in want[] by precision, slices, group
there() {
	is "I1 experts on the host: $1" \
		"$(digest "$2" fp32 "${@:6:9}" "${common[@]}" "${few[@]}" $(of "$3" "$4" 1 "$5") "${on_host[@]}" "${@:15}")" "${want[$2$4$5]}"
}
there 'all in its memory' fp32 1 1 1 cpu cpu cpu stage3 1 keep auto auto 1
there 'sums on the device' bf16 1 1 1 cpu none cpu stage3 1 recompute auto 5 1
there 'weights on disk' bf16 1 1 2 nvme cpu nvme stage3 1 recompute tiny auto 1
there 'two ranks, states on disk' fp16 1 1 1 nvme cpu cpu stage3 2 keep auto auto 1
there 'slices' fp32 1 4 1 cpu cpu cpu hpz 2 offload auto 5 1
there 'two divide them' bf16 2 1 1 cpu cpu cpu stage3 2 recompute auto auto 1
there 'two of four divide them, slices' fp32 2 4 2 cpu nvme nvme stage3 4 keep tiny 5 1
there 'all four divide them, in nodes' fp32 4 1 1 cpu cpu cpu mics 4 keep auto auto 1

# kind_there NAME OPTION...: the same digest with experts on the host; fp32, or $type
kind_there() {
	local p=${type-fp32} name=$1 one
	one_in 7 || return 0
	one=$(plainly "$p" "${few[@]}" "${@:2}")
	like "$name: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "I1 experts on the host: $name" \
		"$(digest "$p" fp32 cpu cpu cpu stage3 2 recompute auto auto 1 "${common[@]}" "${few[@]}" "${@:2}" "${on_host[@]}")" "$one"
}
type=bf16 kind_there 'qwen3_moe, losses of routers' -o model.plugin=qwen3_moe -o model.kv_heads=2 -o model.router_z_loss_coef=0.2
kind_there 'frozen experts' -o 'train.freeze=*.experts.*'
kind_there 'some frozen experts' -o 'train.freeze=*.experts.1.*'
kind_there 'LoRA of experts' -o adapter.plugin=lora -o adapter.r=3
kind_there 'Muon' -o 'optimizer.m.match=*.w?.weight' -o optimizer.m.plugin=muon
type=bf16 kind_there 'codes of parameters and gradients' -o train.communication_data_type=mxint8 -o train.gather_data_type=mxint8
kind_there 'updates in the backward' -o train.gradient_clipping=0 -o zero.update_in_backward=yes -o zero.reduce_bucket_size=1e6

# Bits are those of [device.host], and the run says so.
other=$(digest fp32 fp32 cpu cpu cpu stage3 1 keep auto auto 1 "${common[@]}" "${few[@]}" "${on_host[@]}" -o device.host.isa=scalar)
like 'kernels of the host that differ are those of experts' "$other" '^digest: '
[ "$("$ZEROTH" doctor --json | sed -n 's/^ *"variant": "\([a-z0-9]*\).*/\1/p')" = scalar ] || isnt 'so that bits differ' "$other" "${want[fp3211]}"
like 'the run says what computes experts' "$(cat "$scratch/out")" '; experts on the host \(scalar[^)]*\)$'
like 'its summary says it' "$(grep experts_variant "$scratch/run/summary.json")" '"experts_variant": "scalar'

# What comes and goes between the memories: rows in place of weights.
copied() { # copied OPTION...
	"$ZEROTH" plan --json --no-compare --card H100 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" "${common[@]}" "${few[@]}" \
		-o model.width=512 -o model.ffn_width=2048 -o train.freeze='*.experts.*' -o precision.plugin=bf16 -o zero.plugin=stage3 \
		-o zero.persistence_threshold=0 -o offload.optimizer.plugin=cpu -o offload.param.plugin=cpu "$@" 2> /dev/null
}
number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),\{0,1\}\$/\1/p" | head -n 1; }
weights=$(copied | number copied_bytes)
rows=$(copied "${on_host[@]}" | number copied_bytes)
ok "weights of experts stay where they are: $rows bytes of $weights" [ "$rows" -lt $((weights / 2)) ]
like 'the plan says what the other way takes' "$(copied | tr -d ' \n')" '"experts_on_host":\{'
like 'and the other one' "$(copied "${on_host[@]}" | tr -d ' \n')" '"experts_on_device":\{'

# Tokens of two rounds; the second one has few.
long=("${few[@]}" -o model.layers=1 -o train.micro_batch_size=52 -o train.train_batch_size=104 -o train.steps=1 -o train.eval_every=0)
for p in fp32 bf16; do
	one_in 5 && is "I1 $p: a micro-batch of two rounds" \
		"$(digest $p fp32 none none none stage3 2 keep auto auto 1 "${common[@]}" "${long[@]}" -o zero.expert_ranks=2)" \
		"$(plainly $p "${long[@]}")"
	one_in 5 && is "I1 $p: and on the host" \
		"$(digest $p fp32 cpu cpu cpu stage3 1 keep auto auto 1 "${common[@]}" "${long[@]}" "${on_host[@]}")" "$(plainly $p "${long[@]}")"
done

# ---- zeroth eval, zeroth sample, going on ----
run=$scratch/kept
go() { # go RANKS STEPS OPTION...; resume: goes on
	"$ZEROTH" train -n "$1" ${resume:+--resume auto} "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$run" \
		-o device.threads=1 -o checkpoint.every=2 "${common[@]}" "${few[@]}" -o train.steps="$2" -o train.eval_every=0 "${@:3}" > "$scratch/out" 2>&1
	digest_or_end "$scratch/out"
}
whole=$(go 1 4)
evaluated() { "$ZEROTH" eval "$run" "$@" 2>&1 | sed -n 's/^  digest *//p'; }
one=$(evaluated)
is 'I1 zeroth eval: four ranks divide experts' "$(evaluated -n 4 -o zero.plugin=stage3 -o zero.expert_ranks=4)" "$one"

layouts=("1 $(of 1)" "2 $(of 2) -o zero.plugin=stage3" "4 $(of 2) -o zero.plugin=stage1" "4 $(of 4) -o zero.plugin=stage3")
for first in "${layouts[@]}"; do
	one_in 5 || continue
	rm -rf "$run" "$scratch/begun"
	go ${first%% *} 2 ${first#* } > /dev/null
	ok "zeroth sample: a run of $first" "$ZEROTH" sample -n 4 -t 0 "$run"
	mv "$run" "$scratch/begun" || exit 99
	for second in "${layouts[@]}"; do
		[ "$first" != "$second" ] && one_in 5 || continue
		rm -rf "$run"
		cp -r "$scratch/begun" "$run"
		is "I1, I6: $first goes on as $second" "$(resume=yes go ${second%% *} 4 ${second#* })" "$whole"
	done
done

# ---- the plan ----
as_planned() { # as_planned RANKS OPTION...
	local small=("$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o device.threads=1 "${common[@]}" "${few[@]}") plan
	plan=$("$ZEROTH" plan -n "$1" --json --no-compare "${small[@]}" "${@:2}" | planned_bytes)
	rm -rf "$scratch/run"
	"$ZEROTH" train -n "$1" "${small[@]}" -o run.dir="$scratch/run" "${@:2}" > "$scratch/out" 2>&1
	like "I2: $* is planned" "$plan" '^[0-9]+ [0-9]+ [0-9]+$'
	is "I2: $* takes what is planned" "$(taken_bytes < "$scratch/run/summary.json")" "$plan"
}
as_planned 2 $(of 2) -o zero.plugin=stage3
as_planned 4 $(of 2 4 2) -o precision.plugin=bf16 -o zero.plugin=stage2 -o activation.plugin=recompute
beside_card=(-o device.plugin="$cards" -o device.memory=32M -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o offload.optimizer.plugin=cpu
	-o offload.param.plugin=cpu "${on_host[@]}")
as_planned 1 "${beside_card[@]}"
as_planned 2 $(of 2) "${beside_card[@]}" -o offload.gradient.plugin=cpu -o precision.plugin=bf16

# Of 3 layers of 4 experts, 2 of a token, width 64, 40 tokens, in bf16: rows go there in both passes, gradients and weights in one.
exchanged() { # exchanged OPTION...: of the last micro-batch, how many of which bytes arrive at the most likely
	"$ZEROTH" plan -n 4 --program --json "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" "${common[@]}" "${few[@]}" \
		-o model.layers=3 -o precision.plugin=bf16 -o zero.plugin=stage3 -o train.train_batch_size=4 "$@" 2> /dev/null | tr -d ' \n' |
		sed 's/.*"name":"lastmicro"/"name":"lastmicro"/; s/"name":"boundary".*//' |
		grep -oE '"operation":"[a-z_]*","group":"expert","bytes":[0-9]+' | sort | uniq -c |
		sed -E 's/"(operation|group|bytes|expert)"//g; s/[":,]+/ /g' | tr -s ' \n' ' '
}
is 'rows go to experts and back' "$(exchanged -o zero.expert_ranks=4)" \
	" 6 all_gather $((4 * 5 * 4)) 12 all_to_all $((80 * 64 * 2)) 3 all_to_all $((80 * 64 * 4)) 6 all_to_all $((80 * 4)) "
is 'nobody divides experts' "$(exchanged)" ''

# ---- refusals ----
moe=("${few[@]}" -o zero.expert_ranks=2)
refused() { # refused NAME RANKS TEXT OPTION...
	rm -rf "$scratch/run"
	is "I7: $1" "$("$ZEROTH" train -n "$2" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" "${common[@]}" \
		"${@:4}" 2>&1 | tail -n 1 | sed -E 's/rank [0-9]+ failed with code 2: //; s/^zeroth: [^ ]+: /zeroth: /')" "zeroth: [zero] expert_ranks = $3"
}
refused 'ranks that do not divide all' 3 '2: it must divide the number of ranks, 3' "${moe[@]}"
refused 'experts that they do not divide' 3 '3: model mixtral has no experts, or a number of them that 3 does not divide' "${few[@]}" -o zero.expert_ranks=3
refused 'a model without experts' 2 '2: model llama has no experts, or a number of them that 2 does not divide' -o zero.expert_ranks=2 \
	-o model.plugin=llama
refused 'sums of each rank first' 2 '2: reduction = local adds what ranks compute in another order; take one of both out' \
	"${moe[@]}" -o train.reduction=local
is 'I7: dropout of adapters of experts' "$("$ZEROTH" plan -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" "${common[@]}" \
	"${moe[@]}" -o adapter.plugin=lora -o adapter.dropout=0.1 2>&1 | tail -n 1 | sed 's/.*dropout: //')" \
	'that of experts counts their places in one call; with [zero] expert_ranks, or [train] experts_on = host, set it to 0, or adapt no experts'
refused 'some frozen experts' 2 '2: [train] freeze has some experts of a block and not all; freeze all of them, or none' "${moe[@]}" \
	-o 'train.freeze=*.experts.1.*'
refused 'half of an expert' 2 \
	'2: [train] freeze cuts an expert into a part that is trained and one that is not; freeze all of its tensors, or none' \
	"${moe[@]}" -o 'train.freeze=*.experts.*.w1.weight'
refuses() { # refuses NAME TEXT OPTION...
	rm -rf "$scratch/run"
	is "I7: $1" "$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" "${common[@]}" \
		"${on_host[@]}" "${@:3}" 2>&1 | tail -n 1 | sed -E 's/^zeroth: [^ ]+: /zeroth: /')" "zeroth: [train] experts_on = host: $2"
}
refuses 'a device that computes there' '[device] computes on host memory already; take it out' "${few[@]}"
card=(-o device.plugin="$cards" -o device.memory=32M)
refuses 'weights on the device' 'the weights of experts are in the memory of the device; add [offload.param], or take it out' "${card[@]}" "${few[@]}"
refuses 'no experts' 'model llama has no experts, or computes them with the rest of a layer; take it out' "${card[@]}" -o model.plugin=llama
there=("${few[@]}" -o zero.plugin=stage3 -o offload.optimizer.plugin=cpu -o offload.param.plugin=cpu)
refuses 'whole experts' 'some experts are whole in the memory of the device, where [offload.param] does not have them; take a stage that splits them, and their names out of persistent' \
	"${card[@]}" "${there[@]}" -o zero.persistence_threshold=0 -o 'zero.persistent=*.experts.*'
refuses 'half of an expert' '[train] freeze cuts an expert into a part that is trained and one that is not; freeze all of its tensors, or none' \
	"${card[@]}" "${there[@]}" -o 'train.freeze=*.experts.*.w1.weight'
done_testing
