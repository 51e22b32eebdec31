#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: a plugin that breaks its contract is refused, or ends the run, with its name and what it did; see badoptimizer.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
scratch=$(pwd -P)
umask 022

for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
read -ra cc <<< "${CC:-cc}"
"${cc[@]}" -std=gnu11 -D_GNU_SOURCE -w -shared -fPIC -I"$ZR_SRCDIR/include" -o badoptimizer.so "$ZR_SRCDIR/tests/doubles/badoptimizer.c" -lpthread
"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o lacking.so "$ZR_SRCDIR/tests/doubles/lacking.c" -ldl
plugin=$scratch/badoptimizer.so lacking=$scratch/lacking.so

# train [ARGUMENT]...: the code and the last line of standard error of four small steps; $out has its output
train() {
	[[ $* = *--resume* ]] || rm -rf run
	out=$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir=run -o train.steps=4 -o train.eval_every=0 \
		-o optimizer.plugin="$plugin" -o optimizer.lr=1e-3 -o device.threads=1 -o checkpoint.every=2 "$@" 2> err)
	said="$? $(tail -n 1 err)"
}

train
like 'it is right but for what it is asked for' "$said" '^0 .* step 4 saved '
train -o train.steps=6 --resume auto
like 'and can be gone on from' "$said" '^0 .* step 6 saved '

# ---- tables of states: a checkpoint of each of these could not be read back ----
mend="; mend the plugin's table"
refused() {
	BAD_STATES=$1 train
	is "states: $1" "$said" "2 zeroth: plugin $plugin: $2"
	ok "states: $1: nothing is saved" test ! -e run
}
refused none "a table of 2 states at NULL with a stride of 24 bytes, expected at least 24, a multiple of 8; mend the plugin"
refused 'no stride' "a table of 2 states at an address with a stride of 0 bytes, expected at least 24, a multiple of 8; mend the plugin"
refused 'odd stride' "a table of 2 states at an address with a stride of 25 bytes, expected at least 24, a multiple of 8; mend the plugin"
refused twice "state 2 of 2: \"first\" is the name of state 1, too$mend"
refused master "state 2 of 2: \"master\" is the name of the parameters themselves; choose another$mend"
for name in unnamed empty slash at unprintable long; do
	refused $name "state 2 of 2: its name must have 1 to 128 letters, digits, _ - or .$mend"
done
type='expected ZR_F32, ZR_BF16 or ZR_F16, or no type and bytes per block, or neither with ZR_OPT_WHOLE and block_bytes()'
refused untyped "state 2 of 2: \"second\" has type 0 and 0 bytes per block; $type$mend"
refused 'unknown type' "state 2 of 2: \"second\" has type 77 and 0 bytes per block; $type$mend"
refused fp64 "state 2 of 2: \"second\" has type 4 and 0 bytes per block; $type$mend"
refused 'bytes without a block' "state 2 of 2: \"second\" has type 7 and 0 bytes per block; $type$mend"
refused both "state 2 of 2: \"second\" has type 1 and 2048 bytes per block; $type$mend"
refused 'large blocks' "state 2 of 2: \"second\" has 2147483648 bytes per block, at most 1048576 can be$mend"
refused infinite "state 2 of 2: \"second\" begins with inf, expected 0 or, of type ZR_F32, a number$mend"
refused 'bf16 from 1' "state 2 of 2: \"second\" begins with 1, expected 0 or, of type ZR_F32, a number$mend"
BAD_STATES=many train
is 'states: many' "$said" '2 zeroth: the optimizers have 64 state tensors; at most 28 together'
BAD_STATES='more than can be' train
is 'states: more than can be' "$said" '2 zeroth: the optimizers have 4294967295 state tensors; at most 28 together'

# ---- types of the precision: of one that is unknown nobody knows the bytes ----
"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o badprecision.so "$ZR_SRCDIR/tests/doubles/badprecision.c"
typed() { # dtype comm_dtype master
	train -o optimizer.plugin=sgd -o checkpoint.every=0 -o precision.plugin="$scratch/badprecision.so" \
		-o precision.dtype="$1" -o precision.comm_dtype="$2" -o precision.master="$3"
}
typed 1 1 0
like 'types: what is known trains' "$said" '^0 '
like 'types: and masters of bf16' "$(typed 2 1 2; echo "$said")" '^0 '
for types in '0 1 0' '77 1 0' '4 1 0' '1 7 0' '1 -1 0' '2 77 0' '2 1 5' '2 1 -1' '1 1 1' '1 1 2' '1 1 4' '3 1 1' '3 1 2'; do
	typed $types
	set -- $types
	is "I7: types $types are refused" "$said" "2 zeroth: plugin $scratch/badprecision.so: info: dtype is $1, comm_dtype $2, \
master $3; expected ZR_F32, ZR_BF16 or ZR_F16 for both and one of ZR_MASTER_*, FP32 where dtype is not ZR_BF16; mend it"
done

# ---- answers of plugins that `plugin new` begins, changed in one place ----
# changed ROLE FROM TO: ./mine.so
changed() {
	sed 's/@ID@/mine/' "$ZR_SRCDIR/cmd/new/$1.c" > mine.c
	grep -qF -- "$2" mine.c || { echo "no $2 in $1.c"; return 1; }
	FROM=$2 TO=$3 awk '{ at = index($0, ENVIRON["FROM"])
		if (at && !done++) $0 = substr($0, 1, at - 1) ENVIRON["TO"] substr($0, at + length(ENVIRON["FROM"])); print }' \
		mine.c > changed.c
	"${cc[@]}" -std=gnu11 -w -shared -fPIC -I"$ZR_SRCDIR/include" -o mine.so changed.c -lm
}
# answers NAME "CODE LINE" ROLE FROM TO [ARGUMENT]...
answers() {
	local name=$1 wanted=$2 section=$3
	[ "$3" != offload ] || section=offload.optimizer
	changed "$3" "$4" "$5"
	train -o optimizer.plugin=sgd -o "$section.plugin=$scratch/mine.so" "${@:6}"
	is "I7: $name" "${said%; -o run.dir=run --resume auto*}" "$wanted"
}
scale() { # NAME FROM TO "ANSWER"
	answers "a loss scale: $1" "2 zeroth: [precision] mine answers $4; expected one of ZR_STEP_* and finite scales above 0; \
rank 0, step 1, decision" precision "$2" "$3"
	ok "I7: a loss scale: $1: nothing is saved" test ! -e run
}
scale 'begins with 0' 's->scale = inst->o->first' 's->scale = 0' 'action 0 and loss scale 0 after 0'
scale 'begins below 0' 's->scale = inst->o->first' 's->scale = -8' 'action 0 and loss scale -8 after -8'
scale 'falls to 0' 's->step++' 's->step++, s->scale = 0' 'action 0 and loss scale 0 after 65536'
scale 'becomes infinite' 's->step++' 's->step++, s->scale = 1 / 0.0' 'action 0 and loss scale inf after 65536'
scale 'an unknown action' 's->step++' 's->step++, *action = 99' 'action 99 and loss scale 65536 after 65536'
answers 'a step that precision ends without a reason' '5 zeroth: step 1: [precision] asks for that, and all numbers are finite; '\
'loss scale 65536 cannot fall; the weights are those before this step' precision 's->step++' 's->step++, *action = ZR_STEP_STOP'
answers 'a scheduler that sets no rate' '2 zeroth: [scheduler] mine answers nan for step 0; a learning rate is finite and not negative; '\
'rank 0, step 1, learning rates' scheduler '*lr = ' 'double unused = '
unnamed="2 zeroth: plugin $scratch/mine.so: declare:"
answers 'tensors of one name' "$unnamed two tensors have the name h.0.up.weight; each needs one of its own; mend the plugin" model '"h.%d.up.bias"' '"h.%d.up.weight"'
answers 'a tensor without a name' "$unnamed name of tensor 1 () is empty, in unit h.0; mend the plugin" model '"h.%d.up.bias"' '""'
like 'I7: ... and nothing is saved' "$(ls run 2>&1)" 'No such file'
# layer NAME MEMBER TEXT: what is said of a declaration whose layers, the u-th of n, have the member
layer() { answers "$1" "$unnamed layer $3; mend the plugin" model '.n_units = 1 }' ".n_units = 1, $2 }"; }
layer 'a cut that there is not' '.cut = (u == 1) * 3' 'h.0: cut is 3; expected one of ZR_CUT_WHOLE (0), ZR_CUT_ROWS (1), ZR_CUT_KEYS (2)'
answers 'a layer without a text' '2 zeroth: -o: [model] backward failed with code -3 and no text; rank 0, step 1, backward of layer head (unit head)' \
	model 'struct zr_op_head_loss op = loss_op(m, c);' 'return -3; struct zr_op_head_loss op;'
answers 'a store that is full and empty' '4 zeroth: [offload] answers ZR_EAGAIN and has no request that could end; mend the plugin' \
	offload '*ticket = 0;' '*ticket = 0; return ZR_EAGAIN;' -o optimizer.momentum=0.9
for function in metrics flush; do
	changed monitor "static int $function(" "static int $function() { return -5; } static int unused_$function("
	train -o optimizer.plugin=sgd -o monitor.mine.plugin="$scratch/mine.so"
	like "I7: a monitor whose $function fails without a text" "$(grep monitor.mine err)" \
		"warning: monitor.mine: (stopped at step [0-9]*: )?$function\(\) failed with code -5 and no text"
done

# ---- functions that are NULL ----
for function in states step; do
	BAD_NULL=$function train
	is "NULL: $function" "$said" "2 zeroth: plugin $plugin: zr.optimizer/1: function $function is NULL, and it is not optional; mend the plugin"
done
LACKING=device/cpu train -o device.plugin="$lacking"
is 'NULL: an operation that core calls' "$said" "2 zeroth: plugin $lacking: its operations lack one of fold, cast, init, master_join, \
master_split, round_stochastic; mend the plugin"
LACKING=offload/cpu train -o device.memory=32M -o offload.optimizer.plugin="$lacking"
is 'NULL: map of a store whose objects have addresses' "$said" "2 zeroth: plugin $lacking: zr.offload/1: direct = 1 and no function map; \
mend the plugin"
LACKING=boot/local train -n 2 -o boot.plugin="$lacking"
is 'NULL: put and get where there are several ranks' "${said/rank 1/rank 0}" \
	"2 zeroth: rank 0 failed with code 2: [comm] boot offers no key-value area through which 2 ranks could meet"
# t_loader has the other roles, by core's table, which says what the headers say: "iface ?name" of functions that may be NULL,
# "+name" of one that shares the comment of an optional one before it.
declared=$(cat "$ZR_SRCDIR"/include/zeroth/*.h | awk '
	/^struct zr_[a-z]*_v1 \{/ { role = substr($2, 4, length($2) - 6); text = ""; optional = 0; next }
	/^}/ { role = "" }
	role == "" || role == "pretrained" { next }
	match($0, /\(\*[a-z_]+\)\(/) {
		name = substr($0, RSTART + 2, RLENGTH - 4)
		own = text $0 ~ /\/\*/
		optional = own ? text $0 ~ /\(optional/ : optional ? 2 : 0
		print "zr." role "/1 " (optional == 2 ? "+" : optional ? "?" : "") name
		text = ""
		next
	}
	{ text = text $0 }' | sort)
known=$({ sed '/^ \*/d' "$ZR_SRCDIR/core/plugin/roles.def" | tr -s '\n\t ' ' '; echo; } | sed 's/ROLE(/\n&/g' |
	sed -nE 's/ALSO\([^)]*\)|ONLY\([^)]*\)//; s/^ROLE\(([a-z]+),(.*)/\1 \2/p' | while read -r role names; do
		grep -oE '"[?+]?[a-z_]+"' <<< "$names" | tr -d '"' | sed "s,^,zr.$role/1 ,"
	done | sort)
is 'core knows the functions of all roles as the headers declare them' "$known" "$declared"

# ---- what ends the process ----
# ends NAME "CODE LINE" [ARGUMENT]...: the training ends with CODE, LINE as its last, behind which
# may be how to go on
ends() {
	local name=$1 wanted=$2
	shift 2
	train "$@"
	is "$name" "${said%; -o run.dir=run --resume auto*}" "$wanted"
}
export BAD_DOES BAD_IN BAD_RANK
place="plugin optimizer/badoptimizer, $plugin"
update='step 3, update (unit wte)'
# a device with a memory of its own: the host has a thread for what it computes
apart=(-o device.plugin="$cards" -o device.separate=on -o device.memory=32M -o offload.optimizer.plugin=cpu)
BAD_DOES=name train "${apart[@]}"
like 'what the host computes has a thread of its own' "$(cat err)" '^thread zeroth host$'
BAD_DOES=name train "${apart[@]}" -o device.clock=no -o run.wall_clock_breakdown=yes
like 'but where the time of each instruction is asked for' "$(cat err)" '^thread zeroth$'
if [ -z "$ZR_SANITIZE" ]; then # they say it themselves
	for case in 'write:139:SEGV (Segmentation fault)' 'call:139:SEGV (Segmentation fault)' 'overflow:139:SEGV (Segmentation fault)' \
		'trap:132:ILL (Illegal instruction)' 'bus:135:BUS (Bus error)' 'abort:134:ABRT (Aborted)' 'divide:136:FPE (Floating point exception)'; do
		IFS=: read -r BAD_DOES code signal <<< "$case"
		[ "$BAD_DOES" != divide ] || [ "$(uname -m)" = x86_64 ] || continue
		[ "$BAD_DOES" != trap ] || [ "$(uname -m)" = x86_64 ] || continue
		ends "I5: $BAD_DOES in a step" "$code zeroth: killed by SIG$signal in step() of $place; rank 0, $update"
	done
	BAD_DOES=write
	for BAD_IN in create states destroy; do
		ends "I5: a crash in $BAD_IN" "139 zeroth: killed by SIGSEGV (Segmentation fault) in $BAD_IN() of $place"
	done
	BAD_IN=step
	ends 'I5: a crash where the host computes beside the device' \
		"139 zeroth: killed by SIGSEGV (Segmentation fault) in step() of $place; rank 0, $update" "${apart[@]}"
	BAD_RANK=1
	beside ends 'I5: a crash of one of two ranks' \
		"4 zeroth: rank 1 was killed by SIGSEGV (Segmentation fault) in step() of $place; rank 1, $update" -n 2
	BAD_DOES='thread write' BAD_RANK=0
	ends 'I5: a crash in a thread of the plugin' "139 zeroth: killed by SIGSEGV (Segmentation fault) in $place; rank 0, $update"
	BAD_DOES= LACKING=model/gpt2 ends 'I5: a crash below a layer' "139 zeroth: killed by SIGSEGV (Segmentation fault) in backward() of \
plugin model/lacking, $lacking; rank 0, step 1, backward of layer head (unit ln_f)" -o model.plugin="$lacking"
else
	skip 'I5: crashes' 'sanitizers report them'
fi
for case in 'exit:exit(0)' 'exit 7:exit(7)' '_exit:_exit(0)' '_Exit:_exit(0)' 'quick_exit:quick_exit()'; do
	IFS=: read -r BAD_DOES call <<< "$case"
	ends "I7: $BAD_DOES in a step" "4 zeroth: $call ended the process in step() of $place; rank 0, $update"
	BAD_RANK=1 beside ends "I7: $BAD_DOES in a step of one of two ranks" \
		"4 zeroth: rank 1 failed with code 4: $call ended the process in step() of $place; rank 1, $update" -n 2
done
BAD_DOES=exit
for BAD_IN in create states destroy; do
	ends "I7: exit in $BAD_IN" "4 zeroth: exit(0) ended the process in $BAD_IN() of $place"
done
BAD_IN=step BAD_DOES='thread exit'
ends 'I7: exit in a thread of the plugin' "4 zeroth: exit(0) ended the process in $place; rank 0, $update"
BAD_DOES='system call'
ends 'I7: an end of a rank that nothing sees' "4 zeroth: rank 0 failed with code 4: its process ended with status 0 before the training \
did, by no call that can be seen; a plugin must have done that" -n 1
BAD_DOES=child
train
like 'a child of the plugin that ends is nobody else'"'"'s business' "$said" '^0 .* step 4 saved '
BAD_DOES=

done_testing
