#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a training does with numbers that are not finite, in every precision: fp16's loss scale falls and climbs, the
# same on all ranks and stages, what is skipped moves neither weights nor schedule, and what cannot go on says why (I7).
# At the tiny model's start fp16 overflows at scales above 2^19.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > "$scratch/text"
cd "$scratch" || exit 99

# train RUN OPTION=VALUE...: its output in RUN.out, its log in RUN.err
train() {
	local run=$1 options=() o
	shift
	[ "${ranks:-1}" = 1 ] || options=(-n "$ranks")
	for o; do options+=(-o "$o"); done
	rm -rf "$run"
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o train.train_batch_size=4 -o run.dir="$run" \
		-o device.threads=1 "${options[@]}" > "$run.out" 2> "$run.err"
}
digest() { tail -n 1 "$1.out"; }
# column RUN NAME FORMAT: a metric of every step
column() { sed -n 's/.*"'"$2"'":\([^,}]*\).*/\1/p' "$1/metrics.jsonl" | awk -v f="$3 " '{ printf f, $1 }'; }

# ---- bursts of overflow: two at the start and after every third step without one ----
fp16=(precision.plugin=fp16 precision.initial_scale_power=21 precision.loss_scale_window=2 train.steps=12 train.eval_every=0
	scheduler.plugin=lr_range_test scheduler.lr_range_test_min_lr=1e-6 scheduler.lr_range_test_step_size=1)
train one "${fp16[@]}"
is "fp16: a run with bursts of overflow ends well" "$?" 0
is "fp16: the scale of each step" "$(column one loss_scale %d)" \
	"2097152 2097152 1048576 524288 524288 524288 1048576 1048576 524288 524288 524288 1048576 "
is "fp16: a skipped step does not advance the schedule" "$(column one lr %.3g)" \
	"1e-06 1e-06 1e-06 1e-06 2e-06 3e-06 4e-06 4e-06 4e-06 5e-06 6e-06 7e-06 "
is "fp16: every skipped step is logged" "$(grep -c ' skipped: ' one.err)" 6
name='non-finite numbers in the gradient of wte.weight \(unit wte\), rank 0; loss scale'
like "I7: with tensor, unit, rank and scale" "$(cat one.err)" "^zeroth: warning: train: step 2 skipped: $name 2097152 -> 1048576$"
like "also where hysteresis holds the scale" "$(cat one.err)" "^zeroth: warning: train: step 1 skipped: $name 2097152 -> 2097152$"
like "the summary counts them" "$(cat one/summary.json)" '"skipped": 6,'
like "so does the end" "$(cat one.out)" '^skipped +6 steps with non-finite numbers$'
like "the line of progress has the scale" "$(cat one.out)" '^step 12/12 .* \|g\| [a-z0-9.]+  scale 1048576  '

for stage in stage0 stage1 stage2 stage3; do
	for ranks in 1 2 4; do
		one_in 7 || continue
		train many "${fp16[@]}" zero.plugin=$stage
		is "I1 fp16 with overflows: $stage, $ranks ranks" "$(digest many) $(column many loss_scale %d)" \
			"$(digest one) $(column one loss_scale %d)"
	done
done
ranks=1

# The same lines in every batch: what was skipped has left no trace, not in the optimizer's count of steps either.
for _ in $(seq 400); do printf 'the forty letters of a line that repeats'; done > same
same=(precision.plugin=fp16 precision.hysteresis=1 data.path=same data.order=sequential model.dropout=0 train.eval_every=0)
for optimizer in adamw lamb cpu_adam sgd; do
	one_in 5 || continue
	same[6]=optimizer.plugin=$optimizer
	train skips "${same[@]}" precision.initial_scale_power=24 train.steps=12
	like "$optimizer: five of twelve steps are skipped" "$(cat skips/summary.json)" '"skipped": 5,'
	train none "${same[@]}" precision.initial_scale_power=19 train.steps=7
	is "$optimizer: and leave no trace" "$(digest skips | grep -o 'params=.*')" "$(digest none | grep -o 'params=.*')"
done

# ---- fp16 on the wire, where the gradients of parameters overflow at 2^17 ----
wire=(precision.plugin=fp16 precision.initial_scale_power=18 precision.hysteresis=1 train.communication_data_type=fp16)
train one "${wire[@]}"
is "fp16 on the wire overflows before activations do, also alone" "$(column one loss_scale %d)" "262144 131072 65536 "
for run in "stage0 2 2" "stage1 4 4" "stage2 2 1" "stage3 4 2"; do
	one_in 5 || continue
	read -r stage ranks nodes <<< "$run"
	train many "${wire[@]}" zero.plugin=$stage boot.ranks_per_node=$nodes
	is "I1 fp16 on the wire: $stage, $ranks ranks, $nodes in a node" "$(digest many) $(column many loss_scale %d)" \
		"$(digest one) $(column one loss_scale %d)"
done
ranks=1

# ---- a step is unscaled with the scale it was computed with: one that doubles after every step changes no update ----
sgd=(precision.plugin=fp16 optimizer.plugin=sgd optimizer.lr=0.05 scheduler.plugin=constant train.gradient_clipping=0 train.steps=8
	train.eval_every=8)
train fixed "${sgd[@]}" precision.loss_scale=4096
train climbing "${sgd[@]}" precision.initial_scale_power=9 precision.loss_scale_window=1
is "a scale that climbs in every step" "$(column climbing loss_scale %d)" "512 512 1024 2048 4096 8192 16384 32768 "
is "trains as a fixed one does" "$(cat fixed/summary.json climbing/summary.json | sed -n 's/.*last_val_loss": \([0-9.]*\).*/\1/p' |
	awk '{ v[NR] = $1 } END { d = v[2] / v[1]; print (NR == 2 && d > 0.9999 && d < 1.0001) ? "yes" : v[1] " " v[2] }')" yes

# ---- the floor ----
floor=(precision.plugin=fp16 precision.initial_scale_power=21 precision.hysteresis=1 precision.min_loss_scale=1048576)
train stopped "${floor[@]}"
is "fp16: an overflow at the floor ends the run, exit 5" "$?" 5
like "I7: with step, tensor, unit, rank and scale" "$(tail -n 1 stopped.err)" \
	'^zeroth: step 2: .* gradient of wte.weight \(unit wte\), rank 0; loss scale 1048576 cannot fall; the weights are those before'
ranks=2 train stopped "${floor[@]}" zero.plugin=stage2
is "and two ranks" "$?" 5
train skipped "${floor[@]}" precision.on_nonfinite=skip
is "on_nonfinite = skip goes on" "$? $(column skipped loss_scale %d)" "0 2097152 1048576 1048576 "
train fixed precision.plugin=fp16 precision.loss_scale=4096
is "a fixed scale trains" "$? $(column fixed loss_scale %d)" "0 4096 4096 4096 "
train wide
is "its norms are those of fp32, not of scaled gradients" "$(column fixed grad_norm %.1f)" "$(column wide grad_norm %.1f)"
train dead precision.plugin=fp16 precision.loss_scale=4096 precision.hysteresis=1
is "I7: and refuses what then does nothing" "$? $(tail -n 1 dead.err)" \
	"2 zeroth: -o: [precision] loss_scale = 4096 is fixed, so hysteresis does nothing: drop it, or set loss_scale = 0"

# ---- without a scale ----
for precision in fp32 bf16; do
	explode=(precision.plugin=$precision optimizer.plugin=sgd optimizer.lr=1e30 scheduler.plugin=constant train.gradient_clipping=0
		train.eval_every=0)
	train nan "${explode[@]}"
	is "$precision: numbers that are not finite end the run, exit 5" "$?" 5
	like "I7: $precision says where" "$(tail -n 1 nan.err)" \
		'^zeroth: step [23]: non-finite numbers in the gradient of wte.weight \(unit wte\), rank 0; the weights are those before'
	train nan "${explode[@]}" precision.on_nonfinite=skip
	is "$precision: on_nonfinite = skip goes on" "$?" 0
	like "I7: and says so" "$(cat nan.err)" '^zeroth: warning: train: step 3 skipped: .* \(unit wte\), rank 0$'
	is "$precision has no scale to show" "$(cat nan.out nan.err nan/metrics.jsonl | grep -c scale )" 0
done

# ---- it learns ----
for precision in fp32 fp16; do
	[ $precision = fp32 ] && scale=() || scale=(precision.initial_scale_power=12)
	train $precision precision.plugin=$precision "${scale[@]}" train.steps=60 train.eval_every=60 optimizer.lr=1e-3 model.dropout=0
done
is "fp16 skips nothing here" "$(grep -c skipped fp16.err)" 0
is "and its validation loss is within 0.1 % of fp32's, less than half of where both began" \
	"$(cat fp32/summary.json fp16/summary.json | sed -n 's/.*_val_loss": \([0-9.]*\).*/\1/p' |
	awk '{ v[NR] = $1 } END { d = v[4] / v[2]; print (NR == 4 && v[2] < 0.5 * v[1] && d > 0.999 && d < 1.001) ? "yes" : v[1] " " v[2] " " v[4] }')" yes
is "fp16 samples" "$("$ZEROTH" sample fp16 -n 5 > sample.out 2>&1; echo $?)" 0
# ---- clipping ----
sgd=(optimizer.plugin=sgd scheduler.plugin=constant train.eval_every=0)
train free "${sgd[@]}" optimizer.lr=0.5 train.gradient_clipping=0
train far "${sgd[@]}" optimizer.lr=0.5 train.gradient_clipping=1e6
is "a limit above the norm changes nothing" "$(digest far)" "$(digest free)"
train near "${sgd[@]}" optimizer.lr=0.5 train.gradient_clipping=0.25
like "one below it does" "$([ "$(digest near)" != "$(digest free)" ] && digest near)" '^digest: '
train half "${sgd[@]}" optimizer.lr=1 train.gradient_clipping=0.125
is "and at half of it the gradient is half as long" "$(digest half)" "$(digest near)"
done_testing
