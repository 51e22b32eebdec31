#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# QK-Clip, [train] qk_clip: I1 over stages, ranks, tiers, masters, activations, threads, comms, optimizers and orders, and after
# a resume; without it nothing changes; what a skipped step does; metrics; what is refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
on=(-o train.qk_clip=yes)
clip=("${on[@]}" -o train.qk_clip_threshold=0.05 -o train.qk_clip_alpha=0.3)
plainly() { digest "$1" "${2-fp32}" none none none stage0 1 keep auto auto 1 "${@:3}"; }
clipped() { grep -o '"clipped_heads":[0-9]*' "$scratch/run/metrics.jsonl" | cut -d : -f 2 | paste -sd ' '; }
largest() { grep -o '"max_score":[0-9.e-]*' "$scratch/run/metrics.jsonl" | head -n "${1-9}" | cut -d : -f 2 | paste -sd ' '; }

# ---- without it, and with a threshold that no score reaches ----
declare -A want without
for p in fp32 bf16 fp16; do
	without[$p]=$(plainly $p fp32)
	is "$p: no metrics of it without the option" "$(grep -cE 'max_score|clipped_heads' "$scratch/run/metrics.jsonl")" 0
	is "$p: scores that are all below the threshold change nothing" "$(plainly $p fp32 "${on[@]}")" "${without[$p]}"
	is "$p: and no head is clipped" "$(clipped)" '0 0 0'
	want[$p]=$(plainly $p fp32 "${clip[@]}")
	like "$p: it trains" "${want[$p]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	ok "$p: weights are others" test "${want[$p]}" != "${without[$p]}"
	like "$p: all 9 heads are clipped at first, fewer later" "$(clipped)" '^9 [0-8] [0-8]$'
done
is 'bf16: split masters have the same bits' "$(plainly bf16 split "${clip[@]}")" "${want[bf16]}"
like 'bf16: masters of 24 bits, which round, train too' "$(plainly bf16 split24 "${clip[@]}")" '^digest: '
like 'bf16: so do weights without masters' "$(plainly bf16 none "${clip[@]}")" '^digest: '

# ---- I1: of all that pairwise chooses every third ----
turn=0
while read -r p m o g q z w rest <&3; do
	turn=$((turn + 1))
	[ $((turn % 3)) = 1 ] && one_in 3 || continue
	is "I1 $p, master $m: optimizer $o, gradient $g, param $q, $z, $w ranks, $rest" \
		"$(digest "$p" "$m" "$o" "$g" "$q" "$z" "$w" $rest "${clip[@]}")" "${want[$p]}"
done 3< <(product | pairwise)
build devcomm
is 'I1: a comm that copies' "$(digest bf16 fp32 cpu none none stage2 3 keep auto auto 1 "${clip[@]}" \
	-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)" "${want[bf16]}"
is 'I1: four ranks' "$(digest fp32 fp32 none none none stage3 4 keep auto auto 1 "${clip[@]}" -o train.train_batch_size=8)" \
	"$(plainly fp32 fp32 "${clip[@]}" -o train.train_batch_size=8)"
for m in split24 none; do
	is "I1: masters $m" "$(digest bf16 $m cpu none none stage2 2 recompute tiny auto 2 "${clip[@]}")" "$(plainly bf16 $m "${clip[@]}")"
done

# Updates within the next forward, which sees scores of its own before the last unit is updated.
for p in fp32 bf16; do
	plainly $p fp32 "${clip[@]}" > "$scratch/last"
	metrics="$(clipped), $(largest)"
	is "I1 $p: updates in the next forward" "$(plainly $p fp32 "${clip[@]}" -o train.update_in_forward=yes)" "${want[$p]}"
	is "I1 $p: they clip the same heads by the same scores" "$(clipped), $(largest)" "$metrics"
	is "I1 $p: so do those of one micro-batch" "$(plainly $p fp32 "${clip[@]}" -o train.update_in_forward=yes -o train.micro_batch_size=6)" \
		"$(plainly $p fp32 "${clip[@]}" -o train.update_in_forward=no -o train.micro_batch_size=6)"
done

# The largest score does not depend on how sequences are shared among micro-batches.
for micro in 1 2 6; do
	plainly fp32 fp32 "${clip[@]}" -o train.micro_batch_size=$micro -o model.dropout=0 > "$scratch/last"
	[ $micro = 1 ] && scores=$(largest 1)
	is "I1: micro-batches of $micro see the same scores" "$(largest 1)" "$scores"
done

# ---- other optimizers: whole matrices at their owners, sums over parameters ----
muon=(-o 'optimizer.m.match=h.*.attn.*.weight h.*.mlp.*.weight' -o optimizer.m.plugin=muon)
one=$(plainly fp32 fp32 "${clip[@]}" "${muon[@]}")
like 'Muon: all heads are clipped at first, fewer later' "$(clipped)" '^9 [0-8] [0-8]$'
ok 'Muon: weights are others' test "$one" != "$(plainly fp32 fp32 "${muon[@]}")"
while read -r o z w rest; do
	one_in 2 || continue
	is "I1 Muon: optimizer $o, $z, $w ranks, $rest" "$(digest fp32 fp32 $o none none $z $w $rest "${clip[@]}" "${muon[@]}")" "$one"
done <<- 'CASES'
	none stage1 2 keep auto auto 1
	cpu stage2 3 recompute tiny auto 2
	nvme stage3 1 keep tiny 5 1
	none hpz 2 keep auto auto 1
CASES
is 'I1 Muon: split masters' "$(digest bf16 split none none none stage3 3 keep auto auto 1 "${clip[@]}" "${muon[@]}")" \
	"$(plainly bf16 fp32 "${clip[@]}" "${muon[@]}")"
is 'I1 Muon: updates in the next forward' "$(digest bf16 split none none none stage3 3 keep auto auto 1 "${clip[@]}" "${muon[@]}" \
	-o train.update_in_forward=yes)" "$(plainly bf16 fp32 "${clip[@]}" "${muon[@]}")"
is 'I1 LAMB' "$(digest fp32 fp32 cpu none none stage2 3 keep tiny auto 1 "${clip[@]}" -o optimizer.plugin=lamb)" \
	"$(plainly fp32 fp32 "${clip[@]}" -o optimizer.plugin=lamb)"

# ---- other models: shared key heads, joint maps, windows, soft caps, experts ----
model() { # model NAME OPTION...
	local common=(-o model.plugin="$1" -o model.heads=4 "${clip[@]}" -o train.qk_clip_threshold=0.01 "${@:2}") one
	one_in 3 || return 0
	one=$(plainly fp32 fp32 "${common[@]}")
	like "$1 ${*:2}: it trains" "$one" '^digest: '
	like "$1 ${*:2}: heads are clipped" "$(clipped)" '^[1-9]'
	is "I1 $1 ${*:2}" "$(digest fp32 fp32 none none none stage3 3 recompute tiny auto 2 "${common[@]}")" "$one"
}
model llama -o model.kv_heads=2
model llama -o model.kv_heads=1 -o model.qkv_bias=yes
model phi3 -o model.kv_heads=2
model gpt_neox -o model.rope_fraction=0.5
model gemma2 -o model.kv_heads=2 -o model.head_dim=12 -o model.window=7
model mixtral -o model.experts=3 -o model.experts_per_token=2

# ---- evaluation does not count; a resume goes on ----
run=$scratch/kept
go() { # go RANKS STEPS OPTION...; resume: goes on
	"$ZEROTH" train -n "$1" ${resume:+--resume auto} "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$run" \
		-o train.steps="$2" -o device.threads=1 -o checkpoint.every=2 -o train.train_batch_size=6 "${clip[@]}" "${@:3}" \
		> "$scratch/out" 2>&1
	digest_or_end "$scratch/out"
}
whole=$(go 1 4 -o train.eval_every=0)
rm -rf "$run"
is 'I1: evaluations between the steps change nothing' "$(go 1 4 -o train.eval_every=1)" "$whole"
rm -rf "$run"
go 3 2 -o train.eval_every=0 > /dev/null
is 'I1, I6: a run of three ranks goes on with two' "$(resume=yes go 2 4 -o train.eval_every=0 -o zero.plugin=stage3)" "$whole"

# ---- fp16: a step that overflows is skipped, and clips nothing ----
overflow=(-o precision.initial_scale_power=40 -o train.steps=1)
is 'a skipped step' "$(plainly fp16 fp32 "${clip[@]}" "${overflow[@]}")" "$(plainly fp16 fp32 "${overflow[@]}")"
plainly fp16 fp32 "${clip[@]}" "${overflow[@]}" > "$scratch/last"
like 'is skipped' "$(cat "$scratch/run/metrics.jsonl")" '"skipped":1'
is 'and clips no head' "$(clipped)" 0

# ---- orders ----
ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
export SHUFFLE
for SHUFFLE in 1 2 3 4; do
	one_in 4 || continue
	is "I1 order $SHUFFLE" "$(digest fp32 fp32 cpu none none stage$((SHUFFLE % 3 + 1)) $SHUFFLE keep tiny auto 1 "${clip[@]}" \
		-o train.train_batch_size=12 -o train.steps=2)" \
		"$(ZEROTH=$zeroth plainly fp32 fp32 "${clip[@]}" -o train.train_batch_size=12 -o train.steps=2)"
done
ZEROTH=$zeroth

# ---- the plan, the line of progress ----
plan() {
	"$ZEROTH" plan -n 2 "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o device.plugin="$cards" -o device.memory=32M \
		-o device.separate=on "$@"
}
is 'I2: no largest scores are planned without it' "$(plan --json | grep -c 'largest scores')" 0
like 'I2: with it they are' "$(plan "${on[@]}" --json)" '"largest scores": *[1-9]'
exchanges() { plan --program "$@" | sed -n '/^program boundary/,/^program meet/p' | grep -c ' comm  *collective'; }
is 'a step has one more exchange' "$(exchanges "${on[@]}")" "$(($(exchanges) + 1))"
plainly fp32 fp32 "${clip[@]}" > "$scratch/last"
like 'the line of a step says the score, and how many heads' "$(cat "$scratch/out")" '  score 0\.[0-9]+ \(9 heads clipped\)  '

# ---- refusals ----
refused() { like "I7: $1" "$(plainly fp32 fp32 "${on[@]}" "${@:3}")" "$2"; }
refused 'norms of queries and keys' 'qk_clip: \[model\] qwen3 has norms of queries and keys, .*: set it to no' -o model.plugin=qwen3 \
	-o model.heads=4
refused 'frozen weights' 'qk_clip: h\.0\.attn\.c_attn\.weight is frozen, .*: set it to no' -o 'train.freeze=h.0.*'
refused 'an adapter' 'qk_clip: h\.0\.attn\.c_attn\.weight is frozen, .*: set it to no' -o adapter.plugin=lora
refused 'updates in the backward' 'cannot be updated in the backward: \[train\] qk_clip needs the largest scores of all ranks first: set it to no' \
	-o zero.update_in_backward=yes -o train.gradient_clipping=0
refused 'a threshold of 0' 'qk_clip_threshold=0: 0 is out of range' -o train.qk_clip_threshold=0
refused 'a power above 1' 'qk_clip_alpha=1\.5: 1\.5 is out of range \[0, 1\]' -o train.qk_clip_alpha=1.5
build heads
of_heads() { HEADS=$2 refused "a model $1" "$3" -o model.plugin="$scratch/heads.so"; }
export HEADS
of_heads 'that says nothing of heads' silent 'qk_clip: the plugin of \[model\] does not say what makes queries and keys: set it to no'
of_heads 'with keys that are not there' outside 'tensor h\.0\.attn\.c_attn\.weight: heads: its 144 outputs do not have 3 heads of queries from 0 on and 3 of keys from 97 on, 16 elements each'
of_heads 'with scores that no layer computes' nowhere 'attention is -1; there are 5 layers'

done_testing
