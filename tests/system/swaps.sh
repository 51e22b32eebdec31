#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Changes by one -o: a key is unset, or a section gets another plugin, for every INI of conf/ and
# every pair of schedulers and of optimizers. What the new plugin has of the file's options it takes
# over, what it lacks a line names.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
src=$(cd "$ZR_SRCDIR" && pwd)
cd "$scratch" || exit 99

schedulers='constant constant_with_warmup cosine cosine_warmup_with_min_lr cosine_with_min_lr cosine_with_restarts inverse_sqrt
	linear lr_range_test one_cycle polynomial warmup_cosine_lr warmup_decay_lr warmup_lr warmup_stable_decay'
optimizers='adagrad adam adamw cpu_adam lamb lion muon sgd'
ids() { "$ZEROTH" plugin list | sed -n "s:^$1/\([a-z_]*\) .*:\1:p" | LC_ALL=C sort -u | tr '\n' ' '; }
# options ROLE ID: the file of its keys
options() {
	[ -e "$1.$2" ] || "$ZEROTH" plugin info "$1/$2" | sed -n 's/^  \([a-z_0-9]*\) = .*/\1/p' > "$1.$2"
	echo "$1.$2"
}

is 'the schedulers' "$(ids scheduler)" "$(echo $schedulers) "
is 'the optimizers' "$(ids optimizer)" "$optimizers "

# tiny ROLE ID: an INI that gives every option of a plugin, by its own default where it has one
tiny() {
	cat <<-INI
		[train]
		steps = 2
		micro_batch_size = 2
		[model]
		plugin = gpt2
		layers = 1
		heads = 2
		width = 8
		context = 16
		[data]
		plugin = text
		path = $scratch/text
		[run]
		dir = run
		[$1]
		plugin = $2
	INI
	# the steps of a warm-up are not auto in each plugin that has them
	"$ZEROTH" plugin info "$1/$2" | sed -n 's/^  \([a-z_0-9]* = .*\)/\1/p' | grep -v '^warmup_num_steps = auto'
}
seq 1 20000 > text

# lacks ROLE FROM TO: which options of FROM.ini the plugin TO does not have, as the line says it
lacks() {
	local keys
	keys=$(options "$1" "$3")
	awk -v from="$2" -v keys="$keys" 'FILENAME == keys { has[$1]; next }
		behind && / = / && !($1 in has) { printf "%s%s (%s.ini:%d)", n++ ? ", " : "", $1, from, FNR }
		$0 == "plugin = " from { behind = 1 }' "$keys" "$2.ini"
}

# by_hand FROM TO LACKED: FROM.ini as it would be written for TO
by_hand() {
	sed "s/^plugin = $1\$/plugin = $2/" "$1.ini" | grep -vxE "($(sed 's/ ([^)]*)//g; s/, /|/g' <<< "$3")) = .*"
}

# pair FROM TO ID...: whether to swap them: any two, under sanitizers neighbours of the list
pair() {
	local from=$1 to=$2
	shift 2
	[ "$from" != "$to" ] && { [ -z "$ZR_SANITIZE" ] || [[ " $* $1 " == *" $from $to "* ]]; }
}

# swapped ROLE FROM TO COMMAND [ARGUMENT]...: `zeroth COMMAND` of FROM.ini with -o ROLE.plugin=TO
# does what that of by_hand does, and says what it leaves out
swapped() {
	local role=$1 from=$2 to=$3 lacked want=
	shift 3
	lacked=$(lacks "$role" "$from" "$to")
	[ -z "$lacked" ] ||
		want="zeroth: -o $role.plugin=$to: [$role] goes without what it does not have: $lacked"
	by_hand "$from" "$to" "$lacked" > hand.ini
	rm -rf run
	"$ZEROTH" "$@" hand.ini > hand 2> /dev/null
	is "$role: $to by hand" "$?" 0
	rm -rf run
	"$ZEROTH" "$@" "$from.ini" -o "$role.plugin=$to" > out 2> err
	is "$role: $from to $to" "$? $(grep -v ' ends the schedule inside its warm-up ' err)" "0 $want"
	is "$role: $from to $to is what it is by hand" "$(grep -E '^digest|^[0-9]' out)" \
		"$(grep -E '^digest|^[0-9]' hand)"
}

for from in $schedulers; do
	tiny scheduler "$from" > "$from.ini"
	for to in $schedulers; do
		# which has other types of warm-up
		[ "$to" != warmup_stable_decay ] || ! grep -q '^warmup_type = log' "$from.ini" || continue
		! pair "$from" "$to" $schedulers || swapped scheduler "$from" "$to" schedule
	done
done
# muon updates matrices alone; what is none goes to another group
rest=(-o optimizer.rest.plugin=sgd -o 'optimizer.rest.match=*.bias *ln_*')
for from in $optimizers; do
	tiny optimizer "$from" > "$from.ini"
	for to in $optimizers; do
		more=()
		[ "$to" != muon ] || more=("${rest[@]}")
		! pair "$from" "$to" $optimizers || swapped optimizer "$from" "$to" train "${more[@]}"
	done
done

# ---- conf/ ----
for dir in gpt2 base; do # what finetune-gpt2.ini and chat-demo.ini begin with
	cp -r "$src/tests/golden/pretrained/gpt2" $dir
done
for conf in "$src"/conf/*.ini; do
	[ "${conf##*/}" != defaults.ini ] || continue
	bad=
	for to in $schedulers; do
		one_in 7 || continue
		"$ZEROTH" schedule "$conf" --steps 3 -o "scheduler.plugin=$to" > out 2> err || bad+="$to: $(cat err) "
		[ -z "$(grep -v -e ': \[scheduler\] goes without ' -e ' ends the schedule inside ' err)" ] || bad+="$to: $(cat err) "
	done
	for to in $optimizers; do
		one_in 7 || continue
		"$ZEROTH" schedule "$conf" --steps 3 -o "optimizer.plugin=$to" > out 2> err || bad+="$to: $(cat err) "
	done
	is "conf/${conf##*/} with every scheduler and optimizer" "$bad" ''
done
"$ZEROTH" schedule "$src/conf/finetune-gpt2.ini" --steps 500 -o scheduler.plugin=warmup_decay_lr > out 2> err
is 'its rate stays that of the optimizer' "$(cut -d, -f2 out | sort -g | tail -n 1)" 2e-05

# ---- unset ----
top() { "$ZEROTH" schedule warmup_lr.ini "$@" 2>&1 | tail -n 1; }
sed -i 's/^warmup_num_steps = .*/warmup_num_steps = 2/; s/^warmup_max_lr = .*/warmup_max_lr = 1/' warmup_lr.ini
is 'as the file has it' "$(top --steps 9)" 8,1
is 'a key of the file, unset' "$(top --steps 9 -o scheduler.warmup_max_lr=)" 8,0.001
is 'a key of an earlier -o, unset' "$(top --steps 9 -o scheduler.warmup_max_lr=3 -o scheduler.warmup_max_lr=)" 8,0.001
is 'and given again' "$(top --steps 9 -o scheduler.warmup_max_lr= -o scheduler.warmup_max_lr=3)" 8,3
is 'one that nothing gives' "$(top --steps 9 -o scheduler.warmup_num_steps= -o optimizer.lr=)" \
	"$(sed '/^warmup_num_steps/d' warmup_lr.ini > unset.ini; "$ZEROTH" schedule unset.ini --steps 9 | tail -n 1)"
is 'a plugin' "$(top --steps 9 -o scheduler.plugin= -o scheduler.warmup_num_steps= -o scheduler.warmup_max_lr= \
	-o scheduler.warmup_min_lr= -o scheduler.warmup_type=)" 8,0.001
"$ZEROTH" config show warmup_lr.ini -o scheduler.warmup_num_steps= > out
like 'config show: it is the default' "$(cat out)" '^warmup_num_steps = 1000 ; default$'

# ---- once, whatever the ranks ----
rm -rf run
"$ZEROTH" train -n 2 warmup_lr.ini -o scheduler.plugin=constant > out 2> err
is 'one line for all ranks' "$(grep -c 'goes without' err)" 1

done_testing
