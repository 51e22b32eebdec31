#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The gallery: every file says how it is planned and run; each is planned, the large ones for the
# cards that they are for, and the small ones train three steps: the third is the first with a
# learning rate.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/gallery.sh" || exit 99
src=$(cd "$ZR_SRCDIR" && pwd)
gallery=$src/conf/gallery
cd "$scratch" || exit 99
gallery_texts

# planned NAME MEMORY ARGUMENT...: the exit code of a plan for cards of so much memory
planned() {
	"$ZEROTH" plan --no-compare "$gallery/$1.ini" -o "device.memory=$2" "${@:3}" \
		> plan 2>&1
	echo $?
}

for conf in "$gallery"/*.ini; do
	name=${conf##*/}
	name=${name%.ini}
	head=$(grep '^;' "$conf")
	like "$name says how it is planned" "$head" \
		"^; Plan:  zeroth (plan|schedule|data show) .*$name\.ini"
	like "$name says how it is run" "$head" "^; Run:   zeroth train .*$name\.ini"
	like "$name says what to look at" "$head" '^; See:   '
	! huge "$name" || continue
	settings "$name"
	ok "$name is planned" "$ZEROTH" plan -n $ranks "$conf" "${more[@]}"
	like "$name runs" "$(trained "$conf" -n $ranks "${more[@]}")" '^digest'
	case $name in
	monitors)
		ok 'all monitors write' ls run/metrics.jsonl run/metrics.csv run/tensorboard/* \
			run/wandb/offline-run-*/* ;;
	breakdown-trace) ok 'a step is traced' test -s run/trace/step-000001.json ;;
	lora | qlora) ok "$name leaves adapters" test -s run/adapter_model.safetensors ;;
	full-finetune | stage3)
		ok "$name leaves a model in 16 bits" test -s run/model-16bit/model.safetensors ;;
	early-stopping)
		like 'both sets are measured' "$(tr -d '\n ' < run/summary.json)" 'evals.*code' ;;
	mixture-of-experts)
		like 'routers have a loss' "$(cat run/metrics.jsonl)" '"aux_loss": ?[0-9]' ;;
	esac
done

# On other ranks, in another stage: the bits of a run that was never interrupted.
settings resume-elsewhere
more+=(-o train.steps=6 -o checkpoint.every=3)
whole=$(trained "$gallery/resume-elsewhere.ini" "${more[@]}")
trained "$gallery/resume-elsewhere.ini" -n 2 "${more[@]}" -o train.steps=3 > first
"$ZEROTH" train -n 1 "$gallery/resume-elsewhere.ini" "${more[@]}" -o run.dir=run \
	-o zero.plugin=stage3 --resume auto > out 2> log
is 'resume-elsewhere goes on to the same bits' "$(grep -o 'params=.*' out)" "${whole##* }"

is '1.5 B: four cards of 24 GB' "$(planned gpt2-1.5b-4x24g 23G -n 4 --memory 64G)" 0
is 'and not in stage 0' "$(planned gpt2-1.5b-4x24g 23G -n 4 --memory 64G -o zero.plugin=stage0)" 3
# device STAGE [argument]...: GiB of a card with 7 B on four, without and with states on the host,
device() {
	planned llama2-7b-4-cards 200G -n 4 --memory 500G -o "zero.plugin=$1" "${@:2}" > code
	awk '$1 == "device" && $2 == "total" { print $3, $4 }' plan
}
cpu='offload.optimizer.plugin=cpu'
is '7 B by stage: 0' "$(device stage0) $(device stage0 -o $cpu)" '102.7 GiB 14.8 GiB'
is '7 B by stage: 1' "$(device stage1) $(device stage1 -o $cpu)" '36.8 GiB 14.8 GiB'
is '7 B by stage: 2' "$(device stage2) $(device stage2 -o $cpu)" '36.8 GiB 14.8 GiB'
is '7 B by stage: 3' "$(device stage3) $(device stage3 -o $cpu)" '28.2 GiB 6.2 GiB'
is 'and with parameters on the host' \
	"$(device stage3 -o $cpu -o offload.param.plugin=cpu)" '3.1 GiB'
like 'of which it has' "$(cat plan)" '^fits: 112\.7 GiB of memory for 4 ranks'
machine=(-n 16 --memory 1536G -o memory.disk=200G)
is '175 B: 16 cards of 32 GB' "$(planned gpt3-175b-nvme 32G "${machine[@]}")" 0
like 'its parameters' "$(cat plan)" ' 174604\.[0-9]* M parameters'
is 'and not without disks' "$(planned gpt3-175b-nvme 32G "${machine[@]}" \
	-o offload.param.plugin=cpu -o offload.gradient.plugin=cpu -o $cpu)" 3
is '175 B on 1024 ranks' "$(planned gpt3-175b-nvme 32G -n 1024 --memory 64T -o memory.disk=6G)" 0
machine=(-n 16 --memory 2T -o memory.disk=1T)
is 'a trillion: 16 cards of 80 GB' "$(planned gpt-1t-nvme 80G "${machine[@]}")" 0
like 'its parameters' "$(cat plan)" ' 10080[0-9]*\.[0-9]* M parameters'
is 'and not gathered ahead' \
	"$(planned gpt-1t-nvme 80G "${machine[@]}" -o zero.prefetch_bucket_size=auto)" 3
done_testing
