#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The library libzeroth: programs that train with it give the digests of the command.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh"
cd "$scratch" || exit 99

lib=$ZR_BUILDDIR/.libs
read -ra cc <<< "${CC:-cc}"
sanitize=
[ -z "$ZR_SANITIZE" ] || sanitize=-fsanitize=$ZR_SANITIZE

# program NAME [object]...: examples/NAME.c as ./NAME
program() {
	"${cc[@]}" -std=c11 -g -O2 -Wall -Wextra -Werror ${sanitize:+"$sanitize"} -I"$ZR_SRCDIR/include" -o "$1" \
		"$ZR_SRCDIR/tests/examples/$1.c" "${@:2}" -L"$lib" -lzeroth -lpthread -lm -Wl,-rpath,"$lib"
}

exported=$(nm -D --defined-only "$lib/libzeroth.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
is 'the library exports functions of its header alone' "$(grep -v '^zeroth_' <<< "$exported")" ''
missing=$(grep -oE '^ZEROTH_API [^(]*\(' "$ZR_SRCDIR/include/zeroth/zeroth.h" | grep -oE 'zeroth_[a-z_]+' |
	grep -vxF "$exported")
is '... and all of them' "$missing" ''
is 'under a version' "$(nm -D --defined-only "$lib/libzeroth.so" | grep -c 'zeroth_open@@ZEROTH_1$')" 1

static=$(nm --defined-only -g "$ZR_BUILDDIR/libzeroth.a" | awk 'NF == 3 { print $3 }')
is 'the static library exports the same' "$(sort <<< "$static")" "$(sort <<< "$exported")"

tiny text 2 4 4 < /dev/null
want=$(trained tiny.ini)
like 'the command trains' "$want" '^digest'
ok 'a program builds' program embed_train
is 'it gives the digest of the command' "$(./embed_train 1 tiny.ini 2>&1)" "$want"
is '... in stage 3 on 2 ranks' "$(./embed_train 2 tiny.ini zero.plugin=stage3 2>&1)" "$want"
is '... in nodes of 2 of 4 ranks' \
	"$(./embed_train 4 tiny.ini zero.plugin=hpz boot.ranks_per_node=2 2>&1)" "$want"
is 'it writes nothing' "$(ls)" "$(printf '%s\n' embed_train log out run text tiny.ini)"
is 'it says what a wrong option is' "$(./embed_train 1 tiny.ini train.stepz=1 2>&1)" \
	'embed_train: -o train.stepz=1: unknown key; did you mean steps?'
is 'it says which options are left to the program' \
	"$(./embed_train 1 tiny.ini train.eval_every=3 checkpoint.every=2 checkpoint.on_signal=no 2>&1 | sed -n 1p)" \
	'log: zeroth: left to the program, which evaluates, saves and logs when it wants to: [train] eval_every, [checkpoint] every'
like 'ranks that do not fit are one text' "$(./embed_train 3 tiny.ini 2>&1)" \
	'^embed_train: [^ ]*tiny.ini:2: \[train\] train_batch_size = 4 is not a multiple'


# ---- what a program brings ----
ok 'a network on spirals takes 80 lines at most' \
	test "$(grep -cvE '^( ?\*|/\*| \*|$)' "$ZR_SRCDIR/tests/examples/spirals.c")" -le 80
ok '... and builds' program spirals
like '... it learns, in stage 2 on 2 ranks' "$(./spirals 2>&1)" '^loss 0\.0[0-9]* after 300 steps$'

examples=$ZR_SRCDIR/tests/examples
"${cc[@]}" -std=c11 -g -O2 -I"$ZR_SRCDIR/include" -Dzr_plugin_entry_v1=signsgd_entry -c "$examples/signsgd.c" || exit 99
ok 'a program builds with an optimizer, a stage and a monitor' program inside signsgd.o
./inside tiny.ini > inside.out 2>&1
"${cc[@]}" -std=c11 -O2 -shared -fPIC -I"$ZR_SRCDIR/include" -o signsgd.so "$examples/signsgd.c" && chmod 755 . signsgd.so
is 'it trains as the same optimizer in a file does' "$(sed -n 1p inside.out)" \
	"$(trained tiny.ini -o optimizer.plugin="$PWD/signsgd.so")"
lowest=$(sed -E 's/.*"loss": ?([^,}]*).*/\1/' run/metrics.jsonl | sort -g | sed -n 1p)
is 'its monitor got the losses' "$(sed -n 3p inside.out)" "lowest loss $(printf '%.9g' "$lowest")"
is 'two engines of one process have their own digests' "$(sed -n 2p inside.out)" "$want"

sed -n '/^The digest of/,/^\.Ed/p' "$ZR_SRCDIR/man/zeroth.3" | sed '1,/^\.Bd/d; /^\.Ed/d; s/\\e/\\/g' > page.c
sed -i 's/"conf.ini"/"tiny.ini"/' page.c
"${cc[@]}" -std=c11 -Wall -Wextra -Werror ${sanitize:+"$sanitize"} -I"$ZR_SRCDIR/include" -o page page.c -L"$lib" -lzeroth \
	-Wl,-rpath,"$lib"
is 'the example of zeroth(3) trains' "$(./page 2>&1)" "$(sed -E 's/.*=(.*) .*=(.*)/\1 \2/' <<< "$want")"

# ---- leaks; it goes on while Python trains ----
clean() {
	valgrind -q --leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=9 "$@" > "$1.clean" 2>&1
	echo "status $?" >> "$1.clean"
}
# As few steps of as small a model as leak what more would leak.
leaks=
if [ -z "$sanitize" ] && command -v valgrind > /dev/null; then
	leaks=1
	sed 's/^layers = .*/layers = 1/; s/^width = .*/width = 16/; s/^context = .*/context = 8/; s/^steps = .*/steps = 2/' \
		tiny.ini > less.ini
	sed 's/\<300\>/20/' "$examples/spirals.c" > short.c
	"${cc[@]}" -std=c11 -g -O2 -I"$ZR_SRCDIR/include" -o short short.c -L"$lib" -lzeroth -lm -Wl,-rpath,"$lib"
	clean ./inside less.ini &
	clean ./short &
fi

# ---- Python, that with numpy if there are several ----
python=$(command -v python3)
for try in "$python" /usr/bin/python3; do
	"$try" -c 'import numpy' 2> /dev/null && python=$try && break
done
cat > train.py <<-'EOF'
	import zeroth
	with zeroth.Engine("tiny.ini", {"zero.plugin": "stage2"}, ranks=2) as engine:
	    first = engine.parameters()
	    while engine.step < engine.steps:
	        engine.train_step()
	    print("digest: losses={} params={}".format(*engine.digest()))
	    engine.set_parameters(first)
	    again = engine.parameters()
	    assert all(bytes(memoryview(again[n]).cast("B")) == bytes(memoryview(first[n]).cast("B")) for n in first)
	    try:
	        engine.train_step()
	    except zeroth.Error as e:
	        print(e)
EOF
cat > refused.py <<-'EOF'
	import array, zeroth
	def refused(call):
	    try:
	        call()
	        print("accepted")
	    except (zeroth.Error, ValueError) as e:
	        print(e)
	text = open("tiny.ini").read()
	refused(lambda: zeroth.Engine(text=text.replace("[train]", "[train]\nsequence_length = 4096")))
	engine = zeroth.Engine(text=text)
	whole = engine.parameters()
	name, shape = list(engine.shapes().items())[-1]
	refused(lambda: engine.set_parameters({**whole, name: array.array("i", [0] * shape[0])}))
	refused(lambda: engine._call("get", zeroth._VALUES(lambda *of: 5), None))
	engine.close()
	refused(engine.shapes)
	refused(lambda: zeroth.Engine("tiny.ini", text=text))
	refused(lambda: zeroth.Engine(text=text, options={"train.steps": "4\0"}))
	refused(lambda: zeroth.Engine(text="[train]\nsteps = 2\n[optimizer]\nplugin = sgd\n", layers=[]))
	engine = zeroth.Engine(text=text)
	refused(lambda: engine._call("set_file", None))
	refused(lambda: engine._call("save_weights", None))
	before = engine.digest()
	refused(lambda: engine.set_parameters({**whole, "ln_g.bias": whole[name], "x": whole[name]}))
	refused(lambda: engine.set_parameters({n: a for n, a in whole.items() if n != name}))
	refused(lambda: engine.set_parameters({**whole, name: [0.0] * shape[0]}))
	refused(lambda: engine.set_parameters({**whole, name: memoryview(array.array("f", [0] * shape[0] * 2))[::2]}))
	wide = next(n for n, s in engine.shapes().items() if len(s) == 2 and s[0] != s[1])
	turned = memoryview(bytes(memoryview(whole[wide]).cast("B"))).cast("f", engine.shapes()[wide][::-1])
	refused(lambda: engine.set_parameters({**whole, wide: turned}))
	print(engine.digest() == before)
	engine.close()
	def nothing(call):
	    pass
	layers = [zeroth.Layer("one", [("w", (4,), 1)], 4, nothing, nothing), zeroth.Layer("loss", [("v", (4,), 1)], 0, nothing, nothing)]
	bf16 = zeroth.Engine(text="[train]\nsteps = 2\nmicro_batch_size = 2\n[optimizer]\nplugin = sgd\n[precision]\nplugin = bf16\n", layers=layers)
	refused(lambda: bf16.forward([None]))
	def steps(call):
	    again.train_step()
	def closes(call):
	    again.close()
	for within in steps, closes:
	    made = [zeroth.Layer("one", [("w", (4,), 1)], 4, within, nothing), zeroth.Layer("loss", [("v", (4,), 1)], 0, nothing, nothing)]
	    again = zeroth.Engine(text="[train]\nsteps = 2\nmicro_batch_size = 2\n[optimizer]\nplugin = sgd\n", layers=made)
	    refused(lambda: again.forward([None]))
	    again.close()
EOF
snake() {
	ZEROTH_LIBRARY=$lib/libzeroth.so PYTHONPATH=$ZR_SRCDIR/embed PYTHONDONTWRITEBYTECODE=1 "$python" "$@" 2>&1
}
if [ -z "$python" ] || [ -n "$sanitize" ]; then
	skip 'Python trains' 'no python3, or one without the sanitizers'
else
	is 'Python trains to the same digest' "$(snake train.py)" "$want
all 4 steps of [train] steps are done"
	snake refused.py > refused.out
	like 'an error of a text names no descriptor' "$(sed -n 1p refused.out)" \
		"^text:[0-9]*: \[train\] sequence_length = 4096 exceeds the model's context"
	is '... parameters of another type are refused, and an engine that is closed' "$(sed -n 2p\;4p refused.out)" \
		'ln_f.bias: 128 bytes of format i and shape (32,), expected fp32 of shape (32,)
the engine is closed'
	is '... a function that returns no ZR_E* has failed' "$(sed -n 3p refused.out)" \
		'values of tensor 0: the function failed with code 5'
	is '... two configurations, texts that would be cut, and no layers' "$(sed -n 5,7p refused.out)" \
		'config and text are both given, and are one configuration
zeroth_set: a text has a null character
-o: [model] n_units is 0; expected 1 to 16777216'
	is '... calls without a name' "$(sed -n 8,9p refused.out)" 'zeroth_set_file comes before zeroth_open
zeroth_save_weights: file is NULL'
	like '... parameters that are unknown or missing, which are named with what is expected' \
		"$(sed -n 10,11p refused.out)" '^(unknown parameters ln_g\.bias, x|missing parameters ln_f\.bias); expected the 28 names of shapes\(\): wte\.weight, .*, \.\.\., ln_f\.bias$'
	is '... and those that are no arrays, not contiguous or of another shape' "$(sed -n 12,14p refused.out)" \
		"ln_f.bias: a list, expected an array of fp32 of shape (32,)
ln_f.bias: not contiguous; expected a copy
wte.weight: 32768 bytes of format f and shape (32, 256), expected fp32 of shape (256, 32)"
	is '... so that nothing is set' "$(sed -n 15p refused.out)" True
	is '... and layers of other types than fp32' "$(sed -n 16p refused.out)" 'layers of Python are fp32: [precision] plugin = fp32'
	is '... and calls from within a call' "$(sed -n '17,$p' refused.out)" \
		'zeroth_step: another call of this engine runs; callbacks, and other threads meanwhile, do not call this
zeroth_close: another call of this engine runs'
	cat > numbers.py <<-'EOF'
		import zeroth
		text = open("tiny.ini").read()
		layer = zeroth.Layer("loss", [("v", (4,), 1)], 0, print, print)
		def refused(**how):
		    try:
		        zeroth.Engine(text=text, **how)
		        print("accepted")
		    except (zeroth.Error, ValueError) as e:
		        print(e)
		refused(ranks=2**32 + 3)
		refused(ranks=65)
		for shape, out in ((2**64 + 4,), 4), ((4,), 2**64 + 4), ((4,), -4):
		    refused(layers=[zeroth.Layer("one", [("w", shape, 1)], out, print, print), layer])
	EOF
	is '... numbers that C would cut are refused' "$(snake numbers.py)" 'zeroth_set_ranks: 4294967299 does not fit in 32 bits
zeroth_set_ranks: 65; expected 1 to 64
layer one: w: 18446744073709551620 does not fit in 64 bits
layer one: out: 18446744073709551620 does not fit in 64 bits
layer one: out: -4 does not fit in 64 bits'
	# The library asks a process of its own which plugin reads a model, whatever the program does with signals.
	golden=$ZR_SRCDIR/tests/golden
	{
		peft_ini
		echo '[model]'
		echo "path = $golden/pretrained/gpt2"
	} > found.ini
	cat > ignores.py <<-'EOF'
		import signal, zeroth
		for s in signal.SIGCHLD, signal.SIGALRM:
		    signal.signal(s, signal.SIG_IGN)
		signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
		def arranged():
		    lines = [line.split() for line in open("/proc/self/status") if line.startswith(("SigIgn", "SigBlk"))]
		    return [int(bits, 16) & 0x7fffffff for _, bits in lines]  # two of the others are libc's own
		before = arranged()
		with zeroth.Engine("found.ini") as engine:
		    engine.train_step()
		print(before == arranged() or (before, arranged()))
	EOF
	is '... a program that ignores the ends of its children keeps all signals as they are' \
		"$(snake ignores.py)" True
	if snake -c 'import numpy' > /dev/null; then
		is 'a model of numpy arrays learns' "$(snake "$examples/spirals.py")" 'learned in stage 3 on 2 ranks'
	else
		skip 'a model of numpy arrays learns' 'no numpy'
	fi
fi

if [ -n "$leaks" ]; then
	wait
	is 'two engines leave no memory' "$(tail -n 1 inside.clean)" 'status 0'
	is 'nor does a model of the program' "$(tail -n 1 short.clean)" 'status 0'
else
	skip 'no leak' 'no valgrind, or sanitizers look for leaks'
fi

done_testing
