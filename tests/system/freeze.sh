#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [train] freeze with ranks, stages and tiers (I1), and in checkpoints, with what is frozen and without (I6, I7).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
cp -r "$ZR_SRCDIR/tests/golden/pretrained/llama" dir
chmod -R u+w dir
frozen='model.embed_tokens.weight model.layers.0.* *.mlp.up_proj.weight'
cat > a.ini <<END
[model]
path = dir
[data]
plugin = tokens
path = $ZR_SRCDIR/tests/golden/pretrained/tokens.bin
format = uint16
[train]
sequence_length = 6
steps = 4
train_batch_size = 4
micro_batch_size = 1
eval_every = 0
freeze = $frozen
[optimizer]
lr = 1e-2
END
mkdir disk
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }

# ---- the same bits ----
train one
is "a training with frozen tensors succeeds" "$?" 0
far="-o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk"
n=0
while read -r ranks options; do
	n=$((n + 1))
	# shellcheck disable=SC2086
	train "m$n" -n "$ranks" $options
	is "I1: $ranks ranks, $options" "$(digest "m$n")" "$(digest one)"
done <<END
2 -o zero.plugin=stage0
4 -o zero.plugin=stage1
2 -o zero.plugin=stage2 -o train.reduction=slots
4 -o zero.plugin=stage3 -o zero.persistence_threshold=0
4 -o zero.plugin=hpz -o zero.persistence_threshold=0 -o boot.ranks_per_node=2
4 -o zero.plugin=mics -o zero.persistence_threshold=0 -o boot.ranks_per_node=2
2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 $far -o offload.param.plugin=nvme -o offload.param.path=disk
1 -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o device.memory=32M -o device.plugin=$cards -o offload.optimizer.plugin=cpu -o offload.param.plugin=cpu
4 -o zero.plugin=hpz -o zero.persistence_threshold=0 -o boot.ranks_per_node=2 $far -o offload.param.plugin=nvme -o offload.param.path=disk
1 $far -o offload.gradient.plugin=nvme -o offload.gradient.path=disk -o zero.plugin=stage2
2 -o activation.plugin=recompute -o device.threads=2
END
train except -o 'train.freeze=* !model.layers.1.* !model.norm.weight !lm_head.weight *.mlp.up_proj.weight' -n 2
is "I1: the same set, written with exceptions" "$(digest except)" "$(digest one)"
plan=$("$ZEROTH" plan a.ini)
like "the plan says what is frozen" "$plan" '^frozen: 11 tensors, 3312 parameters; backward runs through 2 of 4 layers$'
like "as JSON, too" "$("$ZEROTH" plan --json a.ini | tr -d '\n')" '"frozen": 3312'
program=$("$ZEROTH" plan --program -n 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o zero.reduce_bucket_size=1e9 a.ini)
ok "and cuts it out of the units" test "$(grep -oE 'accumulate +reduce \(unit model\.layers\.1/[0-9]+\)' <<<"$program" | grep -oE '[0-9]+\)' | sort -u | tr -d '\n')" = '1)3)'
is "what is frozen is neither reduced nor updated" "$(grep -cE '(reduce|update) \(unit model\.(embed_tokens|layers\.0|layers\.1/2)\)' <<<"$program")" 0
ok "but gathered" grep -qE 'forward of layer model\.layers\.0 .* parameters\+[0-9]+ of all' <<<"$program"

# ---- checkpoints ----
bytes() { cat "$1"/checkpoints/step-00000002/*.safetensors | wc -c; }
# resumed NAME RUN SAVE OPTION...: two steps, saved, and two more on others
resumed() {
	local name=$1 run=$2 save=$3
	shift 3
	train "$run" -n 2 -o zero.plugin=stage3 -o checkpoint.every=2 -o train.steps=2 -o checkpoint.save="$save" "$@"
	is "$name: saved" "$?" 0
	train "$run" -o zero.plugin=stage1 -o checkpoint.save="$save" "$@" --resume auto
}
resumed "all" all all
is "I6: a checkpoint with everything goes on" "$(digest all)" "$(digest one)"
resumed "trainable" part trainable
is "I6: and one without what is frozen" "$(digest part)" "$(digest one)"
ok "which is smaller" test "$(($(bytes all) - $(bytes part)))" -gt $((3312 * 4 - 2000))
ok "verify takes it" "$ZEROTH" checkpoint verify part
"$ZEROTH" checkpoint export part x > /dev/null
is "export has the whole model" "$?" 0
"$ZEROTH" checkpoint export all y > /dev/null
ok "the same one" cmp x/model.safetensors y/model.safetensors
# Of a zeroth whose units could be frozen in part: two ranks, stage 3, what resumed() saves.
train old --resume "$ZR_SRCDIR/tests/golden/checkpoint"
like "I6: an older checkpoint, whose units are others, goes on" "$(cat old.out)" '^resumed after step 2$'
is "I7: its states were called moments, which is no other setting" "$(grep -c 'optimizer\.' old.err)" 0
if grep -q 'avx512.*+own' one.out; then # fp32: all of these are one
	is "I6: and to the same bits" "$(digest old)" "$(digest one)"
else
	skip "I6: and to the same bits" "it was written with AVX-512"
fi
for type in bf16 fp16; do
	rm -rf x y
	resumed "trainable, $type" part-$type trainable -o precision.plugin=$type
	resumed "all, $type" all-$type all -o precision.plugin=$type
	is "I6: $type: trainable and all are one training" "$(digest part-$type)" "$(digest all-$type)"
	"$ZEROTH" checkpoint export part-$type x > /dev/null
	"$ZEROTH" checkpoint export all-$type y > /dev/null
	ok "$type: exports are one, too" cmp x/model.safetensors y/model.safetensors
done
resumed "async" late trainable -o checkpoint.async=yes
is "I6: asynchronously" "$(digest late)" "$(digest one)"

# ---- refused ----
refused() { # refused NAME TEXT OPTION...
	local name=$1 text=$2
	shift 2
	rm -rf no
	train no "$@"
	is "$name: exit 2" "$?" 2
	like "I7: $name" "$(tail -n 1 no.err)" "$text"
}
refused "save without freeze" 'save = trainable leaves nothing out: there is no \[train\] freeze' -o train.freeze= -o checkpoint.save=trainable
refused "save without a path" 'save = trainable needs \[model\] path' -o model.path= -o model.plugin=llama -o model.layers=2 -o model.heads=4 \
	-o model.width=16 -o model.context=32 -o model.vocabulary=61 -o checkpoint.save=trainable
refused "other tensors" 'cannot go on from here: tensor model.embed_tokens.weight was frozen, is trained: give \[train\] freeze as it was, or begin' \
	-o 'train.freeze=model.layers.0.* *.mlp.up_proj.weight' --resume all
refused "what was left out" 'tensor model.embed_tokens.weight is frozen and was left out: it needs \[checkpoint\] save = trainable' --resume part
refused "what was not" 'tensor model.embed_tokens.weight is frozen and was saved: go on with \[checkpoint\] save = all$' \
	--resume all -o checkpoint.save=trainable
head -c 20000 /dev/zero | dd of=dir/model.safetensors bs=1 seek=$(($(wc -c < dir/model.safetensors) - 20000)) conv=notrunc status=none
refused "I6: a directory that has changed" 'tensor [a-z0-9_.]* is frozen and was left out: in \[model\] path it is not what it was' \
	--resume part -o checkpoint.save=trainable
err=$("$ZEROTH" checkpoint export part/checkpoints z 2>&1)
is "export: exit 2" "$?" 2
like "I6: nor is it exported" "$err" 'tensor [a-z0-9_.]*, which the checkpoint leaves out, is not what it was in .*/dir$'
ok "and nothing is left" test ! -e z -a ! -e z.tmp
rm -r dir
like "I7: no directory" "$("$ZEROTH" checkpoint export part/checkpoints z 2>&1)" '/dir: No such file|/dir: no model.safetensors'
done_testing
