#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I6: one process writes a directory: a second one is refused and told who the first is; a crash leaves no lock behind; readers
# go on. What a run writes follows no link, and a run that is refused leaves nothing.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
cd "$scratch" || exit 99

tiny ./hold.so 1 4 4 <<INI
[train]
eval_every = 0
[checkpoint]
every = 1
INI
build hold
export HOLD_DIR=$scratch

# hold WHERE ARGUMENT...: a training in the background that waits at WHERE; sets $pid.
hold() {
	rm -f go held.*
	HOLD=$1 "$ZEROTH" train tiny.ini "${@:2}" > held.out 2>&1 &
	pid=$!
	await $pid test -e held.0
}
# refused NAME PATTERN COMMAND...: exit 2 and one line.
refused() {
	err=$("${@:3}" 2>&1 >/dev/null)
	is "$1: exit 2" "$?" 2
	like "$1" "$err" "^zeroth: (rank 0 failed with code 2: )?$2\$"
	is "$1: one line" "$(wc -l <<<"$err")" 1
}
host=$(uname -n)

for ranks in '' '-n 2'; do
	rm -rf one
	hold step3 $ranks -o run.dir=one
	writer=$pid
	[ -z "$ranks" ] || writer=$(children $pid | head -n 1)
	busy="process $writer on $host is writing there: wait for its end, end it, or choose another directory"
	cp one/config.ini config.before
	refused "I6: a second --resume ${ranks:-alone}" "one: $busy" "$ZEROTH" train $ranks tiny.ini -o run.dir=one --resume auto
	refused "I6: a second run ${ranks:-alone}" '.*run directory one exists already.*' "$ZEROTH" train $ranks tiny.ini -o run.dir=one
	refused "I6: another run with its checkpoints ${ranks:-alone}" ".*one: $busy" \
		"$ZEROTH" train $ranks tiny.ini -o run.dir=two -o checkpoint.dir=one/checkpoints --resume auto
	refused "I6: prune ${ranks:-alone}" ".*one: $busy" "$ZEROTH" checkpoint prune --keep 1 one
	ok "nothing is left of who was refused ${ranks:-alone}" test ! -e two
	is "and nothing is changed ${ranks:-alone}" "$(cat one/config.ini)" "$(cat config.before)"
	ok "ls reads on ${ranks:-alone}" "$ZEROTH" checkpoint ls one
	ok "verify reads on ${ranks:-alone}" "$ZEROTH" checkpoint verify one
	ok "export reads on ${ranks:-alone}" "$ZEROTH" checkpoint export one "out$ranks"
	kill -KILL $pid $(children $pid)
	wait $pid 2>/dev/null
	while [ -n "$(running $writer)" ]; do sleep 0.02; done
	out=$("$ZEROTH" train $ranks tiny.ini -o run.dir=one --resume auto 2>&1)
	is "I6: a crash leaves no lock behind ${ranks:-alone}: exit 0" "$?" 0
	like "and it is gone on from ${ranks:-alone}" "$out" "^resumed after step 3\$"
	is "a run that has ended leaves no lock ${ranks:-alone}" "$(find one -name .lock)" ""
done
ok "prune takes what nobody writes" "$ZEROTH" checkpoint prune --keep 1 one
is "and leaves no lock" "$(find one -name .lock)" ""

# A directory of checkpoints elsewhere, shared by two runs.
hold step1 -o run.dir=three -o checkpoint.dir=shared
refused "I6: a second run in a directory of checkpoints" "shared: process $pid on $host is writing there.*" \
	"$ZEROTH" train tiny.ini -o run.dir=four -o checkpoint.dir=shared
ok "nothing is left of it" test ! -e four
touch go
wait $pid
is "the first run ends well" "$?" 0
"$ZEROTH" train tiny.ini -o run.dir=five -o checkpoint.dir=unused -o checkpoint.every=0 > /dev/null 2>&1
ok "a directory of checkpoints that a run did not use is not left" test ! -e unused -a -e five

# Links in the place of what a run writes.
for name in config.ini summary.json; do
	rm -rf one
	"$ZEROTH" train tiny.ini -o run.dir=one -o train.steps=2 > /dev/null 2>&1
	echo precious > precious
	ln -sf ../precious one/$name
	ln -sf ../precious one/$name.tmp
	"$ZEROTH" train tiny.ini -o run.dir=one --resume auto > /dev/null 2>&1
	is "$name is no link to something else: exit 0" "$?" 0
	is "$name: what the link leads to is as it was" "$(cat precious)" precious
	ok "$name is a file now" test ! -L one/$name -a -s one/$name
done
rm -rf one
"$ZEROTH" train tiny.ini -o run.dir=one -o train.steps=2 > /dev/null 2>&1
for name in metrics.jsonl .lock; do
	cp -r one "one$name"
	ln -sf ../precious "one$name/$name"
	refused "$name is a link" ".*one$name/$name: .*" "$ZEROTH" train tiny.ini -o run.dir="one$name" --resume auto
	is "$name: what the link leads to is as it was" "$(cat precious)" precious
	rm "one$name/$name"
	mkfifo "one$name/$name"
	refused "$name is a FIFO" ".*one$name/$name: .*not a regular file.*" timeout 60 "$ZEROTH" train tiny.ini -o run.dir="one$name" --resume auto
done

# Runs that are refused late leave nothing, also when only one rank is.
for ranks in '' '-n 2'; do
	for bad in 'monitor.log.path=no/such/dir/x' 'checkpoint.dir=text/x' 'data.path=none'; do
		"$ZEROTH" train $ranks tiny.ini -o run.dir=deep/in/it -o "$bad" > /dev/null 2>&1
		ok "refused with $bad ${ranks:-alone}: $?" test $? -ne 0
		ok "refused with $bad ${ranks:-alone}: nothing is left" test ! -e deep
	done
done
HOLD=fail1 "$ZEROTH" train -n 2 tiny.ini -o run.dir=deep/in/it > /dev/null 2>&1
ok "refused by rank 1 in its first step: $?" test $? -ne 0
ok "refused by rank 1 in its first step: nothing is left" test ! -e deep
HOLD=refuse1 "$ZEROTH" train -n 2 tiny.ini -o run.dir=deep/in/it -o zero.plugin=stage0 > /dev/null 2>&1
ok "refused by rank 1 before it: $?" test $? -ne 0
ok "refused by rank 1 before it: nothing is left" test ! -e deep
done_testing
