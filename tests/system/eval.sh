#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `zeroth eval`, sets to evaluate on during training, patience and keep_best: one digest over ranks,
# stages, tiers and sizes of a micro-batch (I1), also with documents and rows without a target; what
# a training knows of its best evaluation outlives a kill.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
export MALLOC_ARENA_MAX=1
build documents
tiny text 2 2 4 << 'END'
[device]
threads = 1
[optimizer]
lr = 0.01
[eval.text]
plugin = text
path = book
sequences = 11
[eval.docs]
plugin = ./documents.so
sequences = 7
END
sed -i 's/^width = 32/width = 32\nvocabulary = 256/; s/^steps = 4/steps = 4\neval_every = 2/' tiny.ini
head -c 20001 text | tr 'a-z' 'b-za' > book
mkdir disk

train() { timeout 120 "$ZEROTH" train "$@" > out 2> log || tail -n 1 log; }
# evaluate MODEL OPTION...: the digests
evaluate() { timeout 120 "$ZEROTH" eval "$@" 2> log | sed -n 's/^  digest *//p' | tr '\n' ' '; tail -n 1 log; }
value() { "$ZEROTH" eval --json "$1" "${@:3}" 2> log | tr -d ' \n' | grep -oE "$2"; }

# ---- sets during training ----
train tiny.ini -o run.dir=run
like 'a set has a line' "$(cat out)" '^step 4  eval text loss [0-9.]+  accuracy [0-9.]+ %  after '
like 'and metrics' "$(tail -n 1 run/metrics.jsonl)" \
	'"val_loss":[0-9.]+,"eval.text.loss":[0-9.]+,"eval.text.accuracy":[0-9.]+,"eval.docs.loss":[0-9.]+,"eval.docs.accuracy":[0-9.]+,"lr"'
like 'and is in the summary' "$(tr -d ' \n' < run/summary.json)" '"evals":\{"text":\{"first_loss":[0-9.]+,"last_loss":[0-9.]+,"last_accuracy"'
like 'the report has it' "$(cat out)" '^text        [0-9.]+ -> [0-9.]+$'
learned=$(tail -n 1 out)
train tiny.ini -o run.dir=bare -o train.eval_every=0
is 'I1 sets change nothing that is learned' "$(tail -n 1 out)" "$learned"
is 'eval of the run has the loss that its training had' \
	"$(value run '"loss":[0-9.]*' | cut -c 1-16 | tail -n +2 | tr '\n' ' ')" \
	"$(tail -n 1 run/metrics.jsonl | grep -oE '"eval[.a-z]*loss":[0-9.]*' | sed 's/.*"loss"//; s/.*:/"loss":/' | cut -c 1-16 | tr '\n' ' ')"
train tiny.ini -o run.dir=late -o train.eval_every=9 -o checkpoint.every=3
first=$(sed -n 's/^validation  \([0-9.]*\) -> [0-9.]*$/\1/p' out)
learned_to=$(sed -n 's/^validation  .* -> //p' out)
train tiny.ini -o run.dir=late -o train.eval_every=9 -o train.steps=4 --resume late/checkpoints/step-00000003
is 'what goes on has no first loss of what it has not evaluated' "$(grep '^validation' out), $(grep -c first_val_loss late/summary.json)" \
	"validation  $learned_to, 0"
train tiny.ini -o run.dir=late -o train.eval_every=9 --resume auto
is 'what has no step left has no speed' "$(grep '^trained' out), $(grep -c tokens_per_s late/summary.json)" 'trained 0 steps, 0.00 M tokens in 0s, 0'
train tiny.ini -o run.dir=spoilt -o train.eval_every=9 -o optimizer.lr=1e30
is 'a loss from before the end says from when it is' "$(grep '^validation' out)" "validation  $first after step 0"
like 'in the summary, too' "$(tr -d ' \n' < spoilt/summary.json)" '"evaluated_after_step":0,'
is 'the step that ended the run is not one that was skipped' "$(grep -c '^skipped' out) $(grep -o '"skipped": [0-9]*' spoilt/summary.json)" '0 "skipped": 0'
train tiny.ini -o run.dir=all -o train.eval_batches=9999
is 'more batches than are held out are all of them, once' \
	"$(tail -n 1 all/metrics.jsonl | grep -oE '"val_loss":[0-9.]{12}' | cut -d : -f 2)" \
	"$(value all '"loss":[0-9.]*' | head -n 1 | cut -c 8-19)"

# ---- one digest ----
want=$(evaluate run)
like 'digests of the held-out part and of two sets' "$want" '^([0-9a-f]{16} ){3}$'
same() { is "I1 $1" "$(evaluate "${@:2}")" "$want"; }
same '3 ranks of stage3' run -n 3 -o zero.plugin=stage3 -o zero.persistence_threshold=0
same '2 ranks of stage1, 5 sequences in a micro-batch' run -n 2 -o zero.plugin=stage1 -o train.micro_batch_size=5
same '4 sequences, more ranks than micro-batches' run -n 3 -o train.micro_batch_size=4
same 'parameters on disk, activations computed again' run -n 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 \
	-o offload.param.plugin=nvme -o offload.param.path=disk -o offload.optimizer.plugin=nvme \
	-o offload.optimizer.path=disk -o activation.plugin=recompute
same 'a device that only copies reach' run -o device.memory=48M -o device.plugin="$cards" -o train.micro_batch_size=3
same 'gradients that were computed in parts' run -o zero.plugin=stage1 -o offload.gradient.plugin=nvme \
	-o offload.gradient.path=disk -o train.gradient_part_size=2048
export MASKED=yes
want=$(evaluate run)
same 'rows without a target' run -n 2 -o zero.plugin=stage3 -o train.micro_batch_size=2
export MASKED=all
is 'nothing is a target' "$(value run '"docs":[^}]*"targets":[0-9]*,"loss":[0-9.]*')" '"docs":{"sequences":7,"targets":0,"loss":0.0'
unset MASKED

# ---- all of it, once ----
is 'every byte behind the first is a target' "$(value run '"text":[^}]*"targets":[0-9]*' -o eval.text.sequences=auto | grep -oE '[0-9]*$')" 20000
is 'also where nothing is left over' "$(head -c 65 book > short
	value run '"text":[^}]*"targets":[0-9]*' -o eval.text.path=short -o eval.text.sequences=99 | grep -oE '[0-9]*$')" 64
train tiny.ini -o run.dir=saved -o checkpoint.every=4
"$ZEROTH" checkpoint export saved hf > log 2>&1
is 'a directory of Hugging Face is evaluated on all of [data]' "$(value hf '"targets":[0-9]*' -o data.plugin=text -o data.path=book)" '"targets":20000'
is 'and has the loss of the run' "$(value hf '"loss":[0-9.]*' -o data.plugin=text -o data.path=book | cut -c 1-14)" \
	"$(value saved '"text":[^}]*' -o eval.text.sequences=auto | grep -oE '"loss":[0-9.]*' | head -n 1 | cut -c 1-14)"
is '--sequences' "$(value run '"heldout":.*"text' --sequences 3 | grep -oE '"sequences":[0-9]*,"targets":[0-9]*')" '"sequences":3,"targets":96'

# ---- what cannot be ----
: > empty
like 'I7 an empty set' "$(evaluate run -o eval.text.path=empty)" 'empty: is empty$'
like 'I7 an unknown plugin' "$(evaluate run -o eval.text.plugin=elephant)" "eval.text.plugin=elephant: no data plugin 'elephant'"
like 'I7 a set that does not count its sequences' "$(evaluate run -o eval.docs.sequences=auto)" '\[eval.docs\] documents does not say how many sequences it has'
like 'I7 a set without a name' "$(evaluate run -o eval.sequences=3)" 'a set to evaluate on has a name: \[eval.NAME\]$'
like 'I7 neither a run nor a model' "$(evaluate disk)" '^zeroth: disk: neither a run, which has config.ini, nor a'
like 'I7 best_by without its set' "$(train tiny.ini -o run.dir=no -o train.best_by=other)" 'best_by = other: there is no \[eval.other\]$'
like 'I7 patience without evaluations' "$(train tiny.ini -o run.dir=no -o train.eval_every=0 -o train.patience=2)" \
	'eval_every = 0: patience and \[checkpoint\] keep_best need evaluations$'

# ---- the best, and enough ----
early=(tiny.ini -o train.best_by=text -o train.patience=3 -o optimizer.lr=0.03 -o train.steps=400 -o train.eval_every=2
	-o checkpoint.keep_best=yes -o checkpoint.keep=1 -o checkpoint.every=2)
last() { sed -n 's/.*ends early, //p' log; tail -n 1 out; cat "$1/checkpoints/best"; ls "$1/checkpoints"; }
train "${early[@]}" -o run.dir=early
want=$(last early)
like 'patience ends the training and says why' "$want" \
	'^after step [0-9]+: 3 evaluations without a lower text loss than [0-9.]+, that of step [0-9]+$'
like 'the summary says so, too' "$(cat early/summary.json)" '"ended_early": "3 evaluations without'
best=$(cat early/checkpoints/best)
is 'the best checkpoint stays beside the last one' "$(find early/checkpoints -name 'step-*' | wc -l) $(ls early/checkpoints | grep -c "$best")" '2 1'
like 'ls names it' "$("$ZEROTH" checkpoint ls early)" 'whole, best: loss [0-9.]+$'
ok 'prune leaves it' "$ZEROTH" checkpoint prune --keep 1 early
ok 'and export --best finds it' "$ZEROTH" checkpoint export --best early top
loss=$("$ZEROTH" eval --json top -o data.plugin=text -o data.path=book --sequences 11 2> log | grep -oE '"loss": [0-9.]{6}')
is 'what is exported has the lowest loss' "$loss" "$(grep -A 1 '"best"' early/summary.json | grep -oE '"loss": [0-9.]{6}')"
like 'I7 no best one' "$("$ZEROTH" checkpoint export --best saved none 2>&1)" 'no checkpoint is called the best: train with'

# Killed as soon as there is a best checkpoint and a later one; again, from a stop after a step. One that is killed with
# its last checkpoint would have nothing left to do, nor to prune: once more then.
ended=$(ls early/checkpoints | tail -n 1)
for _ in $(seq 20); do
	rm -rf killed
	"$ZEROTH" train "${early[@]}" -o run.dir=killed > out 2> log &
	pid=$!
	for _ in $(seq 2400); do
		[ ! -e killed/checkpoints/latest ] || [ "$(cat killed/checkpoints/latest 2>&1)" '<' step-00000004 ] || break
		sleep 0.005
	done
	kill -KILL $pid
	wait $pid 2> /dev/null
	[ -e "killed/checkpoints/$ended" ] || break
done
rm -rf killed/checkpoints/*.tmp
train "${early[@]}" -o run.dir=killed --resume auto
is 'I6 after a kill the count goes on where it was' "$(last killed)" "$want"
stop=$(sed 's/step-0*//; s/$/ + 2/' <<< "$best" | xargs expr)
train "${early[@]}" -o run.dir=stopped -o train.steps="$stop"
train "${early[@]}" -o run.dir=stopped --resume auto -o zero.plugin=stage3 -n 2 -o train.micro_batch_size=1
is 'I6 also on other ranks' "$(last stopped)" "$want"
train "${early[@]}" -o run.dir=stopped --resume auto
is 'what has ended early ends at once' "$(sed -n 's/.*ends early, //p' log)" "$(head -n 1 <<< "$want")"
between=$(expr "$stop" + 1)
train "${early[@]}" -o run.dir=between -o train.steps="$between"
like 'a run that ends between two evaluations evaluates' "$(tail -n 1 between/metrics.jsonl)" 'eval\.text\.loss'
train "${early[@]}" -o run.dir=between --resume auto
is '... which patience does not count' "$(last between | grep -v "^$between\$")" "$want"

done_testing
