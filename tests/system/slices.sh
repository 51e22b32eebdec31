#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [train] slices and sequence_ranks: sequences cut into slices, which ranks share. I1 over precisions, stages, ranks, ranks that
# share a sequence, tiers, activations, comms, models, documents, optimizers, orders and resumes; losses and gradients of
# transformers; what is refused; the plan (I2).
# tests/sweep_slices.sh tries thousands of such trainings.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/bytes.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/launched.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/pairwise.sh"
. "$ZR_SRCDIR/tests/lib/tiers.sh"

zeroth=$ZEROTH
common=(-o train.train_batch_size=8 -o model.dropout=0 -o train.eval_every=2)
# of SLICES [SEQUENCE_RANKS [SUM_GROUP]]: options
of() { echo "-o train.slices=$1 -o train.sequence_ranks=${2-1} -o train.sum_group=${3-1}"; }
# plainly PRECISION SLICES OPTION...: on one rank, which keeps everything
plainly() { digest "$1" fp32 none none none stage0 1 keep auto auto 1 "${common[@]}" $(of "$2") "${@:3}"; }

# ---- one digest ----
declare -A want
# wanted PRECISION SLICES GROUP: sets the digest of one rank in `want`, if it is not there
wanted() { [ -n "${want[$1$2$3]}" ] || want[$1$2$3]=$(ZEROTH=$zeroth plainly "$1" "$2" -o train.sum_group="$3"); }
for p in fp32 bf16 fp16; do
	[ $p = fp32 ] || [ -z "$ZR_SANITIZE" ] || continue
	for k in 4 8; do
		for g in 1 2 4; do wanted $p $k $g; done
		like "$p: $k slices train" "${want[$p${k}1]}" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		ok "$p: trees of two micro-batches are another order" test "${want[$p${k}2]}" != "${want[$p${k}1]}"
	done
	ok "$p: 8 slices are another order of sums than 4" test "${want[${p}81]}" != "${want[${p}41]}"
done

# Each case with a number of slices, of ranks that share a sequence, and of micro-batches of a tree, in turns.
cases() {
	product | awk '{
		slices = NR % 2 ? 4 : 8
		share = 2 ^ (int(NR / 2) % 4)
		while (share > $7 || share > slices) share /= 2
		print $0, slices, share, 2 ^ (int(NR / 8) % 3)
	}'
}
export WORLDS='1 2 4'
while read -r p m o g q z w act pieces buffers threads k s group <&3; do
	[ "$z$w" != mics6 ] || w=4
	one_in 13 || continue
	wanted $p $k $group
	case="optimizer $o, gradient $g, param $q, $z, $w ranks, $act, pieces $pieces, buffers $buffers, $threads threads"
	is "I1 $p, master $m: $case, $k slices, $s share, trees of $group" \
		"$(digest $p $m $o $g $q $z $w $act $pieces $buffers $threads "${common[@]}" $(of $k $s $group))" "${want[$p$k$group]}"
done 3< <(cases | pairwise)

# same NAME PRECISION SLICES SHARE GROUP OF digest FROM THE MASTER ON...
same() {
	one_in 3 || return 0
	wanted "$2" "$3" "$5"
	is "I1 $1: $3 slices, $4 share, trees of $5" "$(digest "$2" "${@:6:10}" "${common[@]}" $(of "$3" "$4" "$5") "${@:16}")" "${want[$2$3$5]}"
}
two=(-o boot.ranks_per_node=2) four=(-o boot.ranks_per_node=4)
same 'eight ranks' bf16 8 8 1 fp32 none none none stage2 8 keep auto auto 1
same 'eight ranks' fp32 8 4 2 fp32 none none none stage3 8 recompute auto auto 1
same 'eight ranks' fp16 4 2 4 fp32 cpu none none stage1 8 keep tiny auto 1
same 'nodes whose ranks share a sequence' bf16 4 2 1 fp32 none none none stage2 4 keep auto auto 1 "${two[@]}"
same 'sequences over nodes' bf16 8 4 1 fp32 none none none hpz 4 keep auto auto 1 "${two[@]}"
same 'sequences over nodes, sums of micro-batches in each' fp32 8 2 2 fp32 none none none stage2 8 keep auto auto 1 "${four[@]}"
same 'two nodes, a sequence each' fp16 4 4 2 fp32 none none none stage3 8 keep auto auto 1 "${four[@]}"

build devcomm
copies=(-o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local)
same 'a comm that copies' bf16 4 2 1 fp32 none none none stage2 4 keep auto auto 1 "${copies[@]}"
same 'a comm that copies' fp32 8 4 1 fp32 cpu none none stage3 4 recompute auto auto 1 "${copies[@]}"
same 'a comm that copies, over nodes' fp16 8 2 2 fp32 none none none stage2 4 keep auto auto 1 "${copies[@]}" "${two[@]}"

over_tcp() { # over_tcp SHARE RANKS PER_NODE OPTION...
	all trains "$2" "$3" "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o run.dir=run -o data.path="$scratch/text" -o boot.plugin=env \
		-o comm.plugin=tcp -o model.layers=3 -o precision.plugin=bf16 -o device.threads=1 "${common[@]}" $(of 4 "$1") "${@:4}"
	is "I1 comm/tcp, $2 ranks, $3 of a node: $1 share a sequence" "$(digest_of trains.0)" "${want[bf1641]}"
}
wanted bf16 4 1
beside over_tcp 2 2 2 -o zero.plugin=stage2
beside over_tcp 2 4 2 -o zero.plugin=stage3
beside over_tcp 4 4 1 -o zero.plugin=stage1
join_besides

ZEROTH=$ZR_BUILDDIR/tests/doubles/shuffled
export SHUFFLE
for SHUFFLE in 1 2 3; do
	same "order $SHUFFLE" fp32 8 2 1 fp32 cpu none none stage$SHUFFLE 2 keep tiny auto 1
	same "order $SHUFFLE" bf16 4 4 2 fp32 none none none stage$((4 - SHUFFLE)) 4 recompute auto auto 1
done
ZEROTH=$zeroth

# ---- kinds of models and trainings ----
# kind NAME OPTION...: the same digest however many ranks share a sequence; fp32, or $type. Two share it in each kind; the other
# ways to share are taken in turns.
kinds=0
kind() {
	local p=${type-fp32} name=$1 one
	one_in 7 || return 0
	shift
	one=$(plainly "$p" 4 "$@")
	like "$name: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "I1 $name: two share" "$(digest "$p" fp32 none none none stage3 2 recompute tiny auto 2 "${common[@]}" $(of 4 2) "$@")" "$one"
	case $((kinds++ % 3)) in
	0) is "I1 $name: four share" "$(digest "$p" fp32 cpu none none stage2 4 keep auto auto 1 "${common[@]}" $(of 4 4) "$@")" "$one" ;;
	1) is "I1 $name: two share, by keys" "$(digest "$p" fp32 none none none stage2 2 keep auto auto 1 "${common[@]}" $(of 4 2) \
		-o train.sequence=keys "$@")" "$one" ;;
	2) is "I1 $name: two share, four ranks" "$(digest "$p" fp32 none none none stage1 4 offload auto auto 1 "${common[@]}" $(of 4 2) "$@")" \
		"$one" ;;
	esac
}
kind 'own head' -o model.tied=no
kind 'clipping' -o train.gradient_clipping=0.1
type=bf16 kind 'no clipping, updates in the backward' -o train.gradient_clipping=0 -o zero.update_in_backward=yes
type=bf16 kind 'tied, no clipping' -o train.gradient_clipping=0
kind 'one micro-batch for all ranks of a sequence' -o train.train_batch_size=4
kind 'frozen tensors' -o 'train.freeze=wte.* h.1.attn.* *.bias'
kind 'a frozen block' -o 'train.freeze=wpe.* wte.* h.0.*'
kind 'LoRA' -o adapter.plugin=lora -o adapter.r=3
kind 'dropout' -o model.dropout=0.1
type=bf16 kind 'LoRA, dropout' -o adapter.plugin=lora -o adapter.r=3 -o adapter.dropout=0.2
kind 'Muon' -o 'optimizer.m.match=h.*.attn.*.weight h.*.mlp.*.weight' -o optimizer.m.plugin=muon
kind 'LAMB' -o optimizer.plugin=lamb
kind '8-bit states' -o optimizer.states=8bit
type=bf16 kind 'masters of 24 bits' -o precision.master=split24
kind 'QK-Clip' -o train.qk_clip=yes -o train.qk_clip_threshold=0.05 -o train.qk_clip_alpha=0.3
kind 'updates in the forward' -o train.update_in_forward=yes

common=("${common[@]/model.dropout=0/model.heads=4}" -o model.width=64)
llama=(-o model.plugin=llama)
kind 'llama' "${llama[@]}"
type=bf16 kind 'llama, tied' "${llama[@]}" -o model.tied=yes -o model.kv_heads=2
kind 'llama, fewer key heads than ranks' "${llama[@]}" -o model.kv_heads=1
type=bf16 kind 'llama, two heads' "${llama[@]}" -o model.heads=2 -o model.kv_heads=1
kind 'llama, LoRA' "${llama[@]}" -o adapter.plugin=lora -o adapter.r=3
type=fp16 kind 'qwen3' -o model.plugin=qwen3 -o model.kv_heads=2
kind 'gemma2: windows, soft caps' -o model.plugin=gemma2 -o model.kv_heads=2 -o model.head_dim=12 -o model.window=7
kind 'smollm3: blocks without positions' -o model.plugin=smollm3 -o model.kv_heads=2
kind 'phi3: joint maps' -o model.plugin=phi3 -o model.kv_heads=2 -o model.dropout=0
kind 'gpt_neox: parallel branches' -o model.plugin=gpt_neox -o model.rope_fraction=0.5 -o model.dropout=0
kind 'olmo2: norms of all heads' -o model.plugin=olmo2 -o model.kv_heads=2
moe=(-o model.experts=3 -o model.experts_per_token=2 -o model.ffn_width=40)
kind 'mixtral' -o model.plugin=mixtral "${moe[@]}"
type=bf16 kind 'mixtral, no losses of routers' -o model.plugin=mixtral "${moe[@]}" -o model.router_aux_loss_coef=0
kind 'qwen3_moe, both losses of routers' -o model.plugin=qwen3_moe "${moe[@]}" -o model.router_aux_loss_coef=0.4 -o model.router_z_loss_coef=0.2
type=fp16 kind 'olmoe' -o model.plugin=olmoe "${moe[@]}" -o model.kv_heads=2
kind 'mixtral, LoRA with dropout' -o model.plugin=mixtral "${moe[@]}" -o adapter.plugin=lora -o adapter.r=3 -o adapter.dropout=0.2
is 'I1 llama: two sequences of four ranks, by keys' "$(digest fp32 fp32 none none none stage3 8 keep auto auto 1 \
	"${common[@]}" $(of 8 4) "${llama[@]}" -o train.sequence=keys)" "$(plainly fp32 8 "${llama[@]}")"
is 'I1 llama: as many ranks as slices' "$(digest fp32 fp32 none none none stage3 8 keep auto auto 1 "${common[@]}" $(of 8 8) "${llama[@]}" \
	-o model.kv_heads=2)" "$(plainly fp32 8 "${llama[@]}" -o model.kv_heads=2)"

# aux RANKS OPTION...: the losses of routers of each step
aux() {
	rm -rf "$scratch/aux"
	"$ZEROTH" train -n "$1" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$scratch/aux" -o device.threads=1 \
		-o train.steps=3 "${common[@]}" -o model.plugin=mixtral "${moe[@]}" -o model.router_aux_loss_coef=0.4 \
		-o model.router_z_loss_coef=0.2 "${@:2}" > "$scratch/out" 2>&1
	sed -n 's/.*"aux_loss":\([0-9.e-]*\).*/\1/p' "$scratch/aux/metrics.jsonl"
}
of_all=$(aux 1 $(of 8))
like 'losses of routers, once for a micro-batch, are those without slices' "$(paste <(echo "$of_all") <(aux 1) |
	awk '$1 - $2 < 1e-6 && $2 - $1 < 1e-6 && $1 > 0.1' | wc -l)" '^3$'
is 'I1 losses of routers: two ranks share' "$(aux 2 $(of 8 2))" "$of_all"
is 'I1 losses of routers: eight ranks share, by keys' "$(aux 8 $(of 8 8) -o train.sequence=keys -o zero.plugin=stage3)" "$of_all"

# ---- documents ----
build documents
text=("${data[@]}")
data=(-o data.plugin="$scratch/documents.so")
documents() { # documents NAME: of the environment
	local docs=("${llama[@]}" -o model.kv_heads=2) name=$1 p one
	# shared PRECISION SHARE OF digest FROM THE STAGE ON...
	shared() { digest "$1" fp32 none none none "${@:3}" "${common[@]}" $(of 8 "$2") "${docs[@]}"; }
	for p in fp32 bf16; do
		one=$(plainly $p 8 "${docs[@]}")
		like "$name, $p: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		is "I1 $name, $p: two share" "$(shared $p 2 stage3 2 recompute auto auto 1)" "$one"
		one_in 3 && is "I1 $name, $p: four share" "$(shared $p 4 stage2 4 keep tiny auto 2)" "$one"
		one_in 7 && is "I1 $name, $p: two share, four ranks" "$(shared $p 2 stage1 4 offload auto auto 1)" "$one"
		one_in 7 && is "I1 $name, $p: eight share" "$(shared $p 8 stage2 8 keep auto auto 1)" "$one"
	done
}
documents 'documents over slices'
EDGES=5 documents 'documents of a token at borders, slices and ranks without a target'
MASKED=yes documents 'steps without a target'
data=("${text[@]}")

# ---- transformers as the oracle: documents packed in a sequence ----
golden=$ZR_SRCDIR/tests/golden
cat > "$scratch/descent.ini" <<INI
[data]
plugin = tokens
path = $golden/slices/sequence.tok
packing = wrapped
order = sequential
[train]
sequence_length = 32
steps = 1
train_batch_size = 1
micro_batch_size = 1
eval_every = 0
gradient_clipping = 0
[optimizer]
plugin = sgd
lr = 1099511627776
INI
descent() { # descent MODEL SLICES SHARE: differences from transformers' loss and gradients, where they are too large
	rm -rf "$scratch/run"
	"$ZEROTH" train -n "$3" "$scratch/descent.ini" -o model.path="$golden/pretrained/$1" -o run.dir="$scratch/run" $(of "$2" "$3") \
		> "$scratch/out" 2>&1 || tail -n 1 "$scratch/out"
	python3 "$ZR_SRCDIR/tests/lib/gradients.py" "$scratch/run" "$golden/slices/$1.safetensors" 2>&1 |
		awk '{ if (!($1 <= 2e-6 && $2 <= 5e-6 && $3 >= 20)) print }'
}
for model in llama llama-tied qwen3; do
	if ! command -v python3 > /dev/null; then
		skip "$model: loss and gradients are transformers'" 'python3 reads them'
		continue
	fi
	for k in 4 8; do
		for s in 1 2 4; do
			one_in 7 && is "$model: loss and gradients of $k slices, $s share, are transformers'" "$(descent $model $k $s)" ''
		done
	done
done

# ---- zeroth eval, zeroth sample, going on ----
run=$scratch/kept
go() { # go RANKS STEPS OPTION...; resume: goes on
	"$ZEROTH" train -n "$1" ${resume:+--resume auto} "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$run" \
		-o train.steps="$2" -o device.threads=1 -o checkpoint.every=2 -o train.train_batch_size=8 -o model.dropout=0 -o train.eval_every=0 \
		"${@:3}" > "$scratch/out" 2>&1
	digest_or_end "$scratch/out"
}
whole=$(go 1 4 $(of 8))
evaluated() { "$ZEROTH" eval "$run" "$@" 2>&1 | sed -n 's/^  digest *//p'; }
one=$(evaluated)
like 'zeroth eval: a run of slices' "$one" '^[0-9a-f]{16}$'
is 'I1 zeroth eval: two ranks share a sequence' "$(evaluated -n 2 -o train.sequence_ranks=2)" "$one"
is 'I1 zeroth eval: eight ranks, four share, stage3' "$(evaluated -n 8 -o train.sequence_ranks=4 -o zero.plugin=stage3)" "$one"
ok 'zeroth sample: a run of slices' "$ZEROTH" sample -n 10 -t 0 "$run"

layouts=("1 $(of 8)" "2 $(of 8 2) -o zero.plugin=stage3" "4 $(of 8 2) -o zero.plugin=stage1" "8 $(of 8 8) -o zero.plugin=stage2"
	"4 $(of 8 4) -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o activation.plugin=recompute")
for first in "${layouts[@]}"; do
	rm -rf "$run" "$scratch/begun"
	go ${first%% *} 2 ${first#* } > /dev/null
	mv "$run" "$scratch/begun" || exit 99
	for second in "${layouts[@]}"; do
		[ "$first" != "$second" ] && one_in 5 || continue
		rm -rf "$run"
		cp -r "$scratch/begun" "$run"
		is "I1, I6: $first goes on as $second" "$(resume=yes go ${second%% *} 4 ${second#* })" "$whole"
	done
done
rm -rf "$run"
go 2 2 $(of 8 2) > /dev/null
resume=yes go 2 4 $(of 4 2) > /dev/null
like 'I7: going on with another number of slices says so' "$(tr '\n' ' ' < "$scratch/out")" 'train\.slices'

# ---- the plan ----
received() { # of a step of the run: bytes, planned or measured
	tr -d ' \n' < "$scratch/run/summary.json" | sed -E "s/.*\"received_bytes_per_step\":\{[^}]*\"$1\":([0-9]+).*/\1/"
}
as_planned() { # as_planned RANKS OPTION...
	local small=("$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o device.threads=1 -o train.steps=2 "${common[@]}") plan
	plan=$("$ZEROTH" plan -n "$1" --json --no-compare "${small[@]}" "${@:2}" | planned_bytes)
	rm -rf "$scratch/run"
	"$ZEROTH" train -n "$1" "${small[@]}" -o run.dir="$scratch/run" "${@:2}" > "$scratch/out" 2>&1
	like "I2: $* is planned" "$plan" '^[0-9]+ [0-9]+ [0-9]+$'
	is "I2: $* takes what is planned" "$(taken_bytes < "$scratch/run/summary.json")" "$plan"
	is "I2: $* receives what is planned" "$(received measured)" "$(received planned)"
}
as_planned 1 $(of 8) "${llama[@]}"
as_planned 2 $(of 8 2) -o model.plugin=mixtral "${moe[@]}" -o zero.plugin=stage2
as_planned 2 $(of 8 2) "${llama[@]}" -o model.kv_heads=2 -o precision.plugin=bf16 -o zero.plugin=stage3
one_in 7 && as_planned 4 $(of 8 4 2) -o model.dropout=0 -o zero.plugin=stage2 -o activation.plugin=recompute
one_in 7 && as_planned 4 $(of 8 2 4) -o model.dropout=0 -o precision.plugin=fp16 -o offload.optimizer.plugin=cpu -o device.memory=32M \
	-o device.plugin="$cards" -o device.separate=on

# Two regions are workspace for people: a number in JSON is that of both.
card=(--no-compare "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o device.memory=32M -o device.plugin="$cards" -o device.separate=on)
listed=$("$ZEROTH" plan "${card[@]}" | awk '$1 == "device" && $2 == "workspace" { n += $3 } END { print int(n * 1024) }')
counted=$("$ZEROTH" plan --json "${card[@]}" | tr -d ' ,' | sed -n 's/^"workspace"://p' | head -n 1)
ok "plan --json: regions of one name are one ($listed, $counted)" test $((counted - listed)) -lt 200 -a $((listed - counted)) -lt 200

# What zeroth-cluster(7) says of what ranks exchange: of 3 layers with 4 heads of width 16, 2 of keys, of 40 tokens in bf16. The
# program has a step and an evaluation.
exchanged() { # exchanged OPTION...
	"$ZEROTH" plan -n 4 --program --json "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" "${llama[@]}" -o model.kv_heads=2 \
		-o model.layers=3 -o precision.plugin=bf16 "${common[@]}" -o train.train_batch_size=4 "$@" 2> /dev/null | tr -d ' \n' |
		sed 's/.*"name":"lastmicro"/"name":"lastmicro"/' |
		grep -oE '"operation":"[a-z_]*","group":"sequence","bytes":[0-9]+' | sort | uniq -c | sed -E 's/"(operation|group|bytes|sequence)"//g; s/[":,]+/ /g' |
		tr -s ' \n' ' '
}
is 'by heads, queries, keys and values of all heads go there and back' "$(exchanged $(of 8 2))" ' 9 all_to_all 2560 9 all_to_all 5120 '
is 'by keys, these are gathered in each pass, and their sums go back' "$(exchanged $(of 8 4))" ' 9 all_gather 5120 3 all_to_all 10240 '
is '... of two ranks, too' "$(exchanged $(of 8 2) -o train.sequence=keys)" ' 9 all_gather 5120 3 all_to_all 10240 '
is 'a layer that is computed again gathers them again' "$(exchanged $(of 8 4) -o activation.plugin=recompute)" ' 11 all_gather 5120 3 all_to_all 10240 '
is 'a tied unit has its sums twice, in fp32' "$(exchanged $(of 8 4) -o model.tied=yes)" \
	" 9 all_gather 5120 3 all_to_all 10240 2 all_to_all $((256 * 64 * 4)) "
is 'one rank of a sequence exchanges nothing in it' "$(exchanged $(of 8 1))" ''

# ---- refusals ----
refused() { # refused NAME RANKS TEXT OPTION...
	rm -rf "$scratch/run"
	is "I7: $1" "$("$ZEROTH" train -n "$2" "$scratch/refused.ini" -o data.path="$scratch/text" -o run.dir="$scratch/run" "${@:4}" 2>&1 |
		tail -n 1 | sed -E 's/rank [0-9]+ failed with code 2: //; s/^zeroth: [^ ]+: /zeroth: /')" "zeroth: $3"
}
sed 's/^dropout.*/dropout = 0/' "$ZR_SRCDIR/tests/lib/matrix.ini" > "$scratch/refused.ini"
refused 'slices that are no power of two' 1 '[train] slices = 6: it must be a power of two, at most 32768' -o train.slices=6
refused 'too many slices' 1 '[train] slices = 65536: it must be a power of two, at most 32768' -o train.slices=65536
refused 'slices that do not divide the length' 1 '[train] slices = 16: it must divide sequence_length, 40' -o train.slices=16
refused 'several sequences in a micro-batch' 1 '[train] slices = 4: a micro-batch is one sequence then: set micro_batch_size = 1 (found 4)' \
	-o train.slices=4 -o train.micro_batch_size=4 -o train.train_batch_size=4
refused 'sums of each rank first' 2 '[train] slices = 4: reduction = local adds in another order; take one of both out' \
	-o train.slices=4 -o train.reduction=local
refused 'ranks that share what is not cut' 2 '[train] sequence_ranks = 2: each rank needs a slice: set slices to 2 or a larger power of two' \
	-o train.sequence_ranks=2
refused 'more ranks than slices' 4 '[train] sequence_ranks = 4: each rank needs a slice: set slices to 4 or a larger power of two' $(of 2 4)
refused 'so many ranks that there are others' 3 '[train] sequence_ranks = 2: it must divide the number of ranks, 3' $(of 4 2)
refused 'heads that ranks do not divide' 2 \
	'[train] sequence = heads: sequence_ranks = 2 does not divide the key heads of the model; take fewer ranks, or keys' \
	$(of 4 2) -o train.sequence=heads
refused 'ranks that are no power of two' 3 '[train] sequence_ranks = 3: it must be a power of two' $(of 4 3)
build whole
refused 'a model that is not cut' 1 \
	'[train] slices = 4: model whole computes layer h.1 whole, not slice by slice; set slices = 1, or take another model' $(of 4) \
	-o model.plugin="$scratch/whole.so"
for at in 4 1000000; do
	SUMS_AT=$at refused "sums that are not in an output, at $at" 1 'layer 0: its sums lie outside of its output' $(of 4) \
		-o model.plugin="$scratch/whole.so"
done

done_testing
