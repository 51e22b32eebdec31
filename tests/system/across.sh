#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The last writes of a step to a store go on into the next one. I1: what touches their bytes waits
# for them, and nothing else does, whatever comes next: a step, an evaluation, a save, the end. A
# failed one is the error of the next step, or of what reads it. The store latedisk moves bytes when
# it is waited for and refuses what overlaps; see latedisk.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
build latedisk
cd "$scratch" || exit 99
mkdir disk

train() { # train RUN OPTION...: its last line
	local dir=$1
	shift
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" \
		-o run.dir="$dir" -o model.layers=3 -o train.steps=4 \
		-o train.gradient_clipping=0 -o device.threads=1 "$@" 2>&1 | tail -n 1
}
late() { for t in $1; do printf -- '-o\noffload.%s.plugin=%s\n' "$t" "$scratch/latedisk.so"; done; }
mapfile -t state < <(late optimizer)
mapfile -t all < <(late 'optimizer gradient param')
early=(-o zero.update_in_backward=yes)

same() { # same NAME OPTION...: the bits of `want`
	rm -rf "$scratch/run"
	is "I1: $1" "$(train run -o zero.plugin=stage3 -o zero.persistence_threshold=0 "${@:2}")" "$want"
}
for batch in 1 6; do
	rm -rf "$scratch/run"
	want=$(train run -o train.train_batch_size=$batch)
	like "$batch micro-batches a step: everything in memory trains" "$want" \
		'^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	step=(-o train.train_batch_size=$batch)
	same "$batch slots, state" "${step[@]}" "${state[@]}"
	same "$batch slots, state, updates in the backward" "${step[@]}" "${state[@]}" "${early[@]}"
	same "$batch slots, all" "${step[@]}" "${all[@]}" -o zero.sub_group_size=5000
	same "$batch slots, all, updates in the backward, 9 buffers" "${step[@]}" "${all[@]}" \
		"${early[@]}" -o zero.sub_group_size=5000 -o offload.optimizer.buffer_count=9
	same "$batch slots, all, no evaluations" "${step[@]}" "${all[@]}" "${early[@]}" \
		-o train.eval_every=0
	same "$batch slots, all, few requests at a time" "${step[@]}" "${all[@]}" "${early[@]}" \
		-o zero.sub_group_size=5000 -o offload.optimizer.max=5 -o offload.param.max=3 -o offload.gradient.max=2
	same "$batch slots, all, a save after each step" "${step[@]}" "${all[@]}" "${early[@]}" \
		-o checkpoint.every=1
	is "I6: on from the second step" \
		"$(train on --resume "$scratch/run/checkpoints/step-00000002" -o zero.plugin=stage1 \
		"${step[@]}" "${state[@]}" "${early[@]}")" "$want"
	same "$batch slots, all, device memory that only copies reach" "${step[@]}" "${all[@]}" \
		"${early[@]}" -o device.memory=32M -o device.plugin="$cards"
	[ "$batch" = 1 ] || same "$batch slots, all, 2 ranks" "${step[@]}" "${all[@]}" "${early[@]}" -n 2
	rm -rf "$scratch/on"
done

# The last write of the second step, which nothing of that step waits for.
disk() {
	rm -rf "$scratch/run"
	train run -o train.train_batch_size=1 -o train.eval_every=0 "${state[@]}" "${early[@]}" "$@"
}
LATEDISK_SAY=$scratch/said disk -o train.steps=2 > /dev/null
read -r writes left < "$scratch/said"
is 'all writes are waited for in the end' "$left" 0
failing() { # failing NAME OPTION...
	like "$1" "$(LATEDISK_FAIL=$writes disk "${@:2}")" \
		"^zeroth: \[offload\.optimizer\] write $writes failed; rank 0, step 3, wait for the update \(unit [a-z0-9_.]+\)$"
}
failing 'a late write that fails ends the next step'
failing 'or the save before it' -o checkpoint.every=2
ok 'I6: which is not there then' test ! -e "$scratch/run/checkpoints/latest"
failing 'or the training' -o train.steps=2

# I6: killed while writes of a step go on in the next one.
far=(-o train.train_batch_size=1 -o train.eval_every=0 "${early[@]}"
	-o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk
	-o run.log_every=1 -o checkpoint.every=1 -o train.steps=40)
want=$(train whole "${far[@]}")
like 'I6: a run that is not killed' "$want" '^digest: '
killed() { # killed STEP
	mkdir disk
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" \
		-o run.dir=killed -o model.layers=3 -o train.gradient_clipping=0 -o device.threads=1 "${far[@]}" > out 2>&1 &
	pid=$!
	await $pid grep -q "^step $1[/ ]" out
	kill -KILL $pid $(children $pid) 2>/dev/null
	wait $pid 2>/dev/null
	is "I6: killed after step $1 and gone on from its last checkpoint" "$(train killed --resume auto "${far[@]}")" "$want"
}
for i in 3 6 9; do beside killed $i; done
join_besides
is 'and nothing is left on disk' "$(find disk ./*/disk -mindepth 1)" ''
done_testing
