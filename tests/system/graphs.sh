#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [device] graphs: what the device repeats at once is what would be enqueued one by one. I1: the same bits, whatever is trained and
# wherever things lie. The double of cards keeps operations with the arguments that they had when a graph was made, and repeats
# these: whatever differs from step to step and is not compared changes bits. It counts what it is asked for: cards_graphs.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
tiny text 2 4 6 </dev/null
mkdir disk
card=(-o device.memory=32M -o device.plugin="$cards" -o train.eval_every=0)
graphs=(-o device.graphs=yes)

# on ARGUMENT...: the digest with graphs, or the last line; what was asked for is in count.RANK
on() { ZR_CARD_COUNT=$scratch/count trained tiny.ini "${card[@]}" "${graphs[@]}" "$@"; }
# counts: operations alone, launches, operations within graphs, graphs, made anew
counts() { cat count.0; }
# launched NAME: graphs were launched, and those of the run are what the device says
launched() {
	local alone launches rest
	read -r alone launches rest < count.0
	ok "$1: graphs are launched" test "$launches" -gt 0
}

# ---- what is in graphs ----

for steps in 2 4; do on -o train.steps=$steps > digest; counts; done > asked
read -r alone launches within made anew < asked
is 'from the second step on nothing is enqueued one by one, and no graph is made' "$(awk 'NR == 2 { print $1, $4, $5 }' asked)" "$alone $made 0"
more=$(awk 'NR == 1 { n = $2; of = $3 } NR == 2 { print $2 - n, $3 - of }' asked)
read -r launches within <<< "$more"
trained tiny.ini "${card[@]}" -o train.steps=2 > /dev/null
ZR_CARD_COUNT=$scratch/count trained tiny.ini "${card[@]}" -o train.steps=2 > /dev/null
is 'two steps are the operations that they were' "$within" "$(cut -d ' ' -f 1 count.0)"
note "two steps: $within operations in $launches launches"
ok 'in a twentieth of the launches' test $((launches * 20)) -le "$within"
on -o train.steps=4 > digest
like 'the end of a run says so' "$(cat out)" \
	"^graphs +$made, launched $(cut -d ' ' -f 2 count.0) times for $(cut -d ' ' -f 3 count.0) operations; $alone operations alone$"
like '... and its summary' "$(tr -d '\n ' < run/summary.json)" "\"device_graphs\":\{\"graphs\":$made,\"made_anew\":0,\"launches\":[0-9]+,"
trained tiny.ini "${card[@]}" > digest
is 'without the option nobody speaks of graphs' "$(grep -c 'graphs' out run/summary.json | tr '\n' ' ')" 'out:0 run/summary.json:0 '
like 'device/cpu has no graphs' "$(trained tiny.ini -o device.graphs=yes)" 'device\.graphs=yes: unknown key; .zeroth plugin info device/cpu. lists the keys'

# ---- I1 ----

# same NAME ARGUMENT...: the digest without graphs, twice on the double
same() {
	local plain
	plain=$(trained tiny.ini "${card[@]}" "${@:2}")
	is "I1: $1" "$(on "${@:2}")" "$plain"
	[[ $plain = digest:* ]] || fail "$1 trains" "$plain"
	launched "$1"
}
stage3=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
states=(-o offload.optimizer.plugin=cpu)
tiers=("${states[@]}" -o offload.param.plugin=nvme -o offload.param.path=disk)
late=(-o device.later=yes -o device.late_copies=yes)

same 'fp32' -o train.eval_every=2
same 'bf16, operations late' -o precision.plugin=bf16 "${late[@]}"
same 'fp16, whose scale changes' -o precision.plugin=fp16 -o precision.initial_scale_power=26 -o precision.loss_scale_window=2 -o train.steps=16
same 'stochastic rounding' -o precision.plugin=bf16 -o precision.master=none
same 'stage 1, two ranks' -n 2 -o zero.plugin=stage1
same 'stage 2, two ranks, states on the host' -n 2 -o zero.plugin=stage2 "${states[@]}" "${late[@]}"
same 'stage 3, two ranks' -n 2 "${stage3[@]}" -o train.eval_every=2
build devcomm
same 'stage 2, two ranks, a comm of device memory' -n 2 -o zero.plugin=stage2 -o comm.plugin="$scratch/devcomm.so" -o comm.host.plugin=local "${late[@]}"
same 'stage 3, tiers' "${stage3[@]}" "${tiers[@]}" "${late[@]}" -o train.eval_every=3
same 'activations computed again' -o activation.plugin=recompute -o precision.plugin=bf16
same 'activations on the host' -o activation.plugin=offload -o activation.keep=1 "${late[@]}"
same 'updates in the backward' -o train.gradient_clipping=0 -o zero.update_in_backward=yes
same 'dropout' -o model.dropout=0.1 -o train.steps=16
same 'trees of micro-batches' -o train.sum_group=4
is '... in graphs that are not made anew' "$(cut -d ' ' -f 5 count.0)" 0
same 'trees of many micro-batches' -o train.sum_group=8 -o train.train_batch_size=8 -o train.steps=4
ok "... in graphs that are made anew" test "$(cut -d " " -f 5 count.0)" -gt 0
same 'slices' -o train.slices=2
same 'lamb' -o optimizer.plugin=lamb
same 'qk_clip' -o train.qk_clip=yes -o train.qk_clip_threshold=0.02
on > /dev/null
few=$(cut -d ' ' -f 2 count.0)
same 'parts of a step are timed' -o run.wall_clock_breakdown=yes -o run.trace=3-4 -o device.later=yes
ok '... each by itself' test "$(cut -d ' ' -f 2 count.0)" -gt $((3 * few))
same 'some steps are traced' -o run.trace=3 -o device.later=yes
mixture=(-o model.plugin=mixtral -o model.kv_heads=1 -o model.ffn_width=40 -o model.experts=5 -o model.experts_per_token=2)
same 'experts' "${mixture[@]}"
trained tiny.ini > digest
mv run base
same 'adapters' -o model.path=base -o adapter.plugin=lora -o adapter.r=4 -o adapter.dropout=0.1
same 'adapters without dropout' -o model.path=base -o adapter.plugin=lora -o adapter.r=4

# What differs from step to step is in graphs that are made anew.
for steps in 12 20; do on -o model.dropout=0.1 -o train.steps=$steps > digest; counts; done > asked
is 'dropout: after some steps nothing is enqueued one by one' "$(sed -n '2s/ .*//p' asked)" "$(sed -n '1s/ .*//p' asked)"
ok '... but in graphs that are made anew' test "$(awk 'NR == 2 { print $5 }' asked)" -gt "$(awk 'NR == 1 { print $5 }' asked)"
like '... which the end of a run says' "$(cat out)" '^graphs +[0-9]+, made anew [0-9]+ times, launched '

# ---- going on, and failing ----

want=$(on)
on -o checkpoint.every=3 > digest
mv run first
is 'I6: on from the third step' "$(ZR_CARD_COUNT= trained tiny.ini "${card[@]}" "${graphs[@]}" --resume first/checkpoints/step-00000003)" "$want"
for what in begin operation end; do
	is "I1: the device fails at the $what of a graph" "$(ZR_CARD_FAILS=$what on)" "$want"
	is '... which is said once' "$(grep -c 'warning: device: graphs = yes: .*; operations are enqueued one by one from now on' log)" 1
done

build watchdevice watched
like 'an operation that fails ends the run' "$(WATCH_FAIL='adamw 40' on -o device.plugin="$scratch/watched.so")" \
	'adamw: the device caught fire \(error 451\); rank 0, step 2, '

# An update by a function of one element beside operations: it comes in its place.
read -ra cc <<< "${CC:-cc}"
mkdir optimizer
for known in '' '-include zeroth/device.h'; do
	"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" $known -o lion.so "$ZR_SRCDIR/tests/examples/lion.c" || exit 99
	chmod 755 lion.so
	same "a function of one element${known:+ that knows operations}" -o optimizer.plugin="$scratch/lion.so" -o precision.plugin=bf16 \
		-o precision.master=split "${late[@]}"
done
done_testing
