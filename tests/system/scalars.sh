#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, same bits with optimizers that keep scalars of the run, of sums over all parameters (prodigy, dadapt_adam) or of rates
# (schedulefree), built as a stranger would: over stages, ranks, pieces, tiers, devices, accumulation and resumes.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
umask 022
read -ra cc <<< "${CC:-cc}"

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > text
mkdir disk
build() { "${cc[@]}" -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I"$ZR_SRCDIR/include" -o "$1.so" "${2:-$ZR_SRCDIR/tests/examples/$1.c}"; }

run() { # OPTIMIZER RANKS [argument]...: the last line
	local optimizer=$1 ranks=$2
	shift 2
	[[ $* = *--resume* ]] || rm -rf run
	"$ZEROTH" train -n "$ranks" "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=run -o optimizer.plugin="$scratch/$optimizer.so" \
		-o optimizer.lr="$(rate "$optimizer")" -o train.train_batch_size=6 -o train.steps=4 -o train.eval_every=0 -o device.threads=1 "$@" 2>&1 |
		tail -n 1
}
rate() {
	case $1 in
	*schedulefree) echo 0.01 ;;
	*) echo 1 ;;
	esac
}

split=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
disk=()
for what in optimizer gradient param; do disk+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=$scratch/disk"); done
for optimizer in prodigy dadapt_adam schedulefree; do
	ok "$optimizer has less than 80 lines" test "$(wc -l < "$ZR_SRCDIR/tests/examples/$optimizer.c")" -lt 80
	ok "$optimizer builds" build $optimizer
	one=$(run $optimizer 1 -o zero.plugin=stage0)
	like "$optimizer trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	is "I1 $optimizer: stage 1 on 2 ranks" "$(run $optimizer 2 -o zero.plugin=stage1)" "$one"
	one_in 5 && is "I1 $optimizer: stage 2 on 3 ranks, in pieces" "$(run $optimizer 3 -o zero.plugin=stage2 -o zero.sub_group_size=5000)" "$one"
	one_in 5 && is "I1 $optimizer: stage 3 on 3 ranks, all on disk, in pieces" \
		"$(run $optimizer 3 "${split[@]}" "${disk[@]}" -o zero.sub_group_size=5000)" "$one"
	one_in 5 && is "I1 $optimizer: states in host memory, a device of its own" "$(run $optimizer 2 "${split[@]}" -o device.plugin="$cards" \
		-o device.memory=32M -o offload.optimizer.plugin=cpu)" "$one"
	one_in 5 && is "I1 $optimizer: micro-batches of one" "$(run $optimizer 2 -o train.micro_batch_size=1)" "$(run $optimizer 1 -o train.micro_batch_size=1)"
	one_in 5 && is "I1 $optimizer: sum_group" "$(run $optimizer 2 -o train.micro_batch_size=1 -o train.sum_group=2)" \
		"$(run $optimizer 1 -o train.micro_batch_size=1 -o train.sum_group=2)"
	run $optimizer 3 "${split[@]}" -o train.steps=2 -o checkpoint.every=2 > stopped
	is "I1 $optimizer: going on with other ranks" "$(run $optimizer 2 -o zero.plugin=stage1 --resume auto)" "$one"
done

# Sums need all gradients first; scalars that follow from rates alone do not.
now=(-o zero.update_in_backward=yes -o train.gradient_clipping=0 -o train.micro_batch_size=6)
like 'an update in the backward is refused by name where sums come first' "$(run prodigy 1 "${now[@]}")" \
	'prodigy needs sums over whole parameters first'
one=$(run schedulefree 1 "${now[@]:2}")
like 'schedulefree trains with large micro-batches' "$one" '^digest: '
is 'I1 schedulefree: updates in the backward' "$(run schedulefree 1 "${now[@]}")" "$one"

# A step that is skipped leaves the scalars as they were.
skips=(-o precision.plugin=fp16 -o precision.initial_scale_power=40)
one=$(run schedulefree 1 "${skips[@]}" -o train.steps=6)
like 'schedulefree trains where steps are skipped' "$one" '^digest: '
run schedulefree 2 "${skips[@]}" -o train.steps=3 -o checkpoint.every=3 > stopped
ok '... and has none of them' grep -q '"applied": 0' run/checkpoints/step-00000003/manifest.json
is '... nor of what they would have made' "$(grep -c '"value": "0x0p+0"' run/checkpoints/step-00000003/manifest.json)" 3
is 'I1 schedulefree: ... and goes on' "$(run schedulefree 1 "${skips[@]}" -o train.steps=6 --resume auto)" "$one"

# Weights for evaluation: a training goes on with its own, to the same bits, in every stage and tier; what it leaves, and
# what is read of its checkpoints, are the others.
build adamw_ema
loss() { awk -F'"val_loss":' '/val_loss/ { split($2, part, ","); loss = part[1] } END { print loss }' run/metrics.jsonl; }
values() { # DIRECTORY: names and bits of the tensors in its model.safetensors
	python3 - "$1/model.safetensors" <<'PY'
import hashlib, json, sys
data = open(sys.argv[1], "rb").read()
n = int.from_bytes(data[:8], "little")
for name, t in sorted(json.loads(data[8:8 + n]).items()):
    if name != "__metadata__":
        begin, end = t["data_offsets"]
        print(name, hashlib.sha256(data[8 + n + begin:8 + n + end]).hexdigest())
PY
}
drawn() { "$ZEROTH" sample "$1" -p line -n 16 | sha256sum; }
each=(-o train.eval_every=1 -o train.eval_batches=2)
for optimizer in schedulefree adamw_ema; do
	one=$(run $optimizer 1)
	is "I1 $optimizer: evaluations change nothing" "$(run $optimizer 1 "${each[@]}" -o checkpoint.every=3)" "$one"
	want=$(loss)
	rm -rf out
	"$ZEROTH" checkpoint export run/checkpoints/step-00000004 out > said 2>&1
	is "$optimizer: a checkpoint's export is what the training leaves" "$(values out)" "$(values run)"
	is "$optimizer: zeroth sample draws the same of both" "$(drawn run/checkpoints/step-00000004)" "$(drawn run)"
	for way in '2 -o zero.plugin=stage1' "3 ${split[*]} ${disk[*]} -o zero.sub_group_size=5000" \
		"2 ${split[*]} -o device.plugin=$cards -o device.memory=32M -o offload.optimizer.plugin=cpu" \
		'2 -o precision.plugin=bf16 -o precision.master=split'; do
		one_in 5 || continue
		read -ra arguments <<< "$way"
		[[ $way = *bf16* ]] && one=$(run $optimizer 1 "${arguments[@]:1}")
		is "I1 $optimizer: evaluations change nothing: ${way:0:40}" "$(run $optimizer "${arguments[@]}" "${each[@]}" -o checkpoint.every=1)" "$one"
		[[ $way = *bf16* ]] || is '... and have one loss' "$(loss)" "$want"
	done
	run $optimizer 1 "${each[@]}" -o train.eval_weights=no > no
	ok "$optimizer: eval_weights = no evaluates with the parameters" test "$(loss)" != "$want"
done
like 'I7: masters of 24 bits are refused by name' "$(run adamw_ema 1 -o precision.plugin=bf16 -o precision.master=split24)" \
	'eval_weights: \[precision\] keeps less than 32 bits'
like 'I7: so is qk_clip' "$(run adamw_ema 1 -o train.qk_clip=yes)" 'eval_weights: qk_clip scales parameters'

# What is no scalar is refused by name, and so is a checkpoint of others.
mkdir bad
bad() { # NAME SED TEXT
	sed "$2" "$ZR_SRCDIR/tests/examples/schedulefree.c" > bad.c
	build bad/schedulefree bad.c
	like "I7: $1" "$(run bad/schedulefree 1)" "$3"
}
bad 'scalars that are not finite' 's/run.OF_LAST. = .*/run[OF_LAST] = 1 \/ (run[LR_MAX] - run[LR_MAX]);/' \
	'update 1: \[optimizer\] schedulefree: advance\(\) makes share inf, and scalars of the run are finite'
bad 'two scalars of one name' 's/"share"/"weight_sum"/' \
	'optimizer schedulefree: scalar 3 of the run: "weight_sum" is the name of another'
bad 'two states that evaluate' 's/ZR_STATE_PARAM("z")/ZR_STATE_EVAL("z")/' 'state 3 of 3: "x" evaluates, and so does another one'
run schedulefree 1 -o train.steps=2 -o checkpoint.every=2 > stopped
sed 's/"share"/"part"/' "$ZR_SRCDIR/tests/examples/schedulefree.c" > bad.c
build bad/schedulefree bad.c
like 'I7: a checkpoint with other scalars' "$(run bad/schedulefree 1 --resume auto)" \
	'scalar 2 of the run of optimizer schedulefree was share, is part'
done_testing
