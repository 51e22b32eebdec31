#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What runs has names, for tools that watch the device: steps, in these forward, backward and update, in these layers. Each ends,
# also when a step fails.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
tiny text 2 4 3 </dev/null
build watchdevice watched
card=(-o train.eval_every=0 -o device.memory=32M -o device.plugin="$scratch/watched.so" -o device.later=yes)

# named ARGUMENT...: the digest or the last line; the ranges are in ranges.0
named() {
	rm -f ranges.*
	WATCH_RANGES=$scratch/ranges trained tiny.ini "${card[@]}" "$@"
}
# outline FILE: its ranges but those of layers, the same in a row once, in one line
outline() { grep -v '^2' "$1" | uniq | tr '\n' ','; }
# layers FILE DEPTH: names of ranges there, in order
names() { sed -n "s/^$2 //p" "$1" | sort -u | tr '\n' ','; }

plain=$(trained tiny.ini -o train.eval_every=0)
like 'one memory trains' "$plain" '^digest'
is 'I1: ranges change nothing' "$(named)" "$plain"
micro='1 forward,1 backward,'
step="$micro$micro$micro$micro"
is 'steps have micro-batches and an update' "$(outline ranges.0)" \
	"0 step 1,${step}1 update,0 step 2,${step}1 update,0 step 3,${step}1 update,open 0,"
is 'these have layers' "$(names ranges.0 2)" "$(printf '%s,' \
	'backward of layer embed (unit wte)' 'backward of layer h.0 (unit h.0)' 'backward of layer h.1 (unit h.1)' \
	'backward of layer head (unit ln_f)' 'forward of layer embed (unit wte)' 'forward of layer h.0 (unit h.0)' \
	'forward of layer h.1 (unit h.1)')"
is 'each as often as it runs' "$(grep -c '^2 forward of layer h\.0 ' ranges.0)" 12
is 'no range is in a layer' "$(grep -c '^3' ranges.0)" 0

is 'what is computed again is of the backward' "$(named -o activation.plugin=recompute; outline ranges.0)" "$plain
0 step 1,${step}1 update,0 step 2,${step}1 update,0 step 3,${step}1 update,open 0,"
ok '... and named' grep -q '^2 recompute of layer h\.0' ranges.0
is 'an update in the backward is one' "$(named -o train.gradient_clipping=0 -o zero.update_in_backward=yes -o zero.reduce_bucket_size=1 | cut -c 1-7
	grep -c '^1 update' ranges.0 | awk '{ print($1 > 3) }'; tail -n 1 ranges.0)" 'digest:
1
open 0'
is 'evaluations are in no step' "$(named -o train.eval_every=3; grep -c '^0 forward' ranges.0 | awk '{ print($1 > 0) }'
	tail -n 1 ranges.0)" "$plain
1
open 0"

for what in 'attention_bwd 4' 'head_loss 1' 'adamw 2' 'matmul 9'; do
	like "$what fails" "$(WATCH_FAIL=$what named)" 'caught fire'
	is '... and all ranges have ended' "$(tail -n 1 ranges.0)" 'open 0'
done
done_testing
