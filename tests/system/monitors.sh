#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A monitor that is slow or fails is stopped with a warning, and neither a step nor another monitor waits for it.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
tiny text 1 1 2500 <<'INI'
[optimizer]
lr = 1e-4
[scheduler]
plugin = constant
[run]
log_every = 100000
INI
build slowmonitor slow
slow=(-o train.eval_every=0 -o model.width=8 -o model.context=8 -o model.heads=1 -o monitor.slow.plugin="$scratch/slow.so")

# run MILLISECONDS [argument]...: the digest; how many steps metrics.jsonl has
run() {
	SLOWMONITOR=$1 trained tiny.ini "${slow[@]}" "${@:2}"
	wc -l < run/metrics.jsonl
}

checkpoint() {
	SLOWMONITOR=1000000 trained ../tiny.ini "${slow[@]}" -o data.path="$scratch/text" -o train.steps=6 -o checkpoint.every=2 > digest
	is 'a checkpoint waits for it, but not for ever' "$(wc -l < run/metrics.jsonl)" 6
	is 'and says so' "$(grep warning log)" 'zeroth: warning: monitor.slow: stopped at step 1: it takes more than 5 s for what it has been given'
	is 'what it has' "$(ls run/checkpoints | tr '\n' ' ')" 'latest step-00000002 step-00000004 step-00000006 '
}
beside checkpoint

plain=$(run 0)
like 'a monitor that is fast enough' "$plain" '^2500$'
is 'and nothing to say' "$(cat log)" ''
like 'it was told the name of the run, its steps, parameters and ranks' "$(head -n 1 run/told.txt)" '^run 2500 [1-9][0-9]* 1$'
is 'and its configuration, as config.ini has it' "$(tail -n +2 run/told.txt | sha256sum)" "$(sha256sum < run/config.ini)"
is 'one that never returns' "$(SECONDS=0; run 1000000; ((SECONDS < 300)) || echo "it took $SECONDS s")" "$plain"
like 'is stopped with a warning' "$(cat log)" \
	'^zeroth: warning: monitor\.slow: stopped at step 20[0-9][0-9]: slower than the steps, 2048 of which wait for it$'
is 'once' "$(wc -l < log)" 1

# It has a thread of its own, which is the one that crashes.
if [ -n "$ZR_SANITIZE" ]; then
	skip 'I5: one that crashes is named' 'the sanitizer has the signal'
else
	run crash -o train.steps=3 > crashed
	like 'I5: one that crashes is named' "$(tail -n 1 log)" \
		'^zeroth: killed by SIGSEGV \(Segmentation fault\) in metrics\(\) of plugin monitor/slow, '
fi
done_testing
