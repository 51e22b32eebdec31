#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I2: in random configurations rank 0 allocates, to the byte, what `zeroth plan` says beforehand. LEDGER_SEED chooses them,
# LEDGER_RUNS and LEDGER_MIXTURES how many.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/bytes.sh" || exit 99
cd "$scratch" || exit 99
for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
mkdir disk
RANDOM=${LEDGER_SEED:-5}

one_of() { local a=("$@"); choice=${a[RANDOM % $#]}; }

choose() {
	local r stage type optimizer
	one_of 0 1 2 3; stage=$choice
	one_of 1 1 2 3; r=$choice
	set -- -n "$r" -o zero.plugin=stage$stage -o device.threads=1 -o train.steps=2 -o train.eval_every=1
	one_of 2 3 4; set -- "$@" -o train.gradient_accumulation_steps=$((choice - 1))
	one_of 16 24 48; set -- "$@" -o model.heads=2 -o model.width="$choice"
	one_of 2 3 5; set -- "$@" -o model.layers="$choice"
	one_of fp32 bf16 fp16; type=$choice; set -- "$@" -o precision.plugin="$type"
	one_of adamw sgd lion lamb adagrad; optimizer=$choice
	set -- "$@" -o optimizer.plugin="$optimizer" -o optimizer.lr=1e-3
	if [[ $optimizer = adamw || $optimizer = lion ]]; then
		one_of fp32 8bit; set -- "$@" -o optimizer.states="$choice"
		one_of split split24; [ $type != bf16 ] || set -- "$@" -o precision.master="$choice"
	fi
	one_of none none lora; [ "$choice" = none ] || set -- "$@" -o adapter.plugin=lora -o adapter.r=3
	one_of none recompute; [ "$choice" = none ] || set -- "$@" -o activation.plugin=recompute
	one_of none cpu nvme
	if [ "$choice" != none ]; then
		set -- "$@" -o offload.optimizer.plugin="$choice" -o device.memory=64M
		if [ "$choice" = nvme ]; then
			one_of yes no; set -- "$@" -o offload.optimizer.path=disk -o offload.optimizer.checksums="$choice"
		fi
		one_of yes no; set -- "$@" -o device.plugin="$cards" -o device.separate="$choice"
		one_of cpu nvme none
		if [ $stage = 3 ] && [ "$choice" != none ]; then
			set -- "$@" -o offload.param.plugin="$choice"
			[ "$choice" != nvme ] || set -- "$@" -o offload.param.path=disk
		fi
	fi
	one_of yes no; [ $stage != 3 ] || set -- "$@" -o zero.overlap_comm="$choice"
	options=("$@")
}

run_chosen() { # run_chosen INI
	local plan taken
	rm -rf run
	plan=$("$ZEROTH" plan "${options[@]:0:2}" --json --no-compare "$1" -o data.path=text "${options[@]:2}" |
		planned_bytes)
	"$ZEROTH" train "${options[@]:0:2}" "$1" -o data.path=text -o run.dir=run "${options[@]:2}" > out 2> err ||
		note "$(tail -n 1 err)"
	taken=$(taken_bytes < run/summary.json)
	is "I2: $i: ${options[*]}" "${taken:-nothing}" "$plan"
}
for i in $(seq "${LEDGER_RUNS:-18}"); do
	choose
	run_chosen "$ZR_SRCDIR/tests/lib/matrix.ini"
done

# ---- mixtures of experts ----
choose_mixture() {
	local r
	one_of 1 2 3; r=$choice
	set -- -n "$r" -o device.threads=1 -o train.steps=2 -o train.eval_every=1 -o model.width=24 -o model.heads=2
	one_of mixtral olmoe; set -- "$@" -o model.plugin="$choice"
	one_of 0 1 2 3; set -- "$@" -o zero.plugin=stage"$choice"
	one_of 3 5 16; set -- "$@" -o model.experts="$choice"
	one_of 1 2 3; set -- "$@" -o model.experts_per_token="$choice"
	one_of 12 40; set -- "$@" -o model.ffn_width="$choice"
	one_of fp32 bf16; set -- "$@" -o precision.plugin="$choice"
	one_of keep recompute; set -- "$@" -o activation.plugin="$choice"
	one_of 0.1 0; set -- "$@" -o model.router_aux_loss_coef="$choice"
	one_of none cpu nvme
	[ "$choice" = none ] || set -- "$@" -o offload.optimizer.plugin="$choice" -o device.memory=64M
	[ "$choice" != nvme ] || set -- "$@" -o offload.optimizer.path=disk
	options=("$@")
}
for i in $(seq "${LEDGER_MIXTURES:-6}"); do
	choose_mixture
	run_chosen "$ZR_SRCDIR/tests/lib/mixture.ini"
done
done_testing
