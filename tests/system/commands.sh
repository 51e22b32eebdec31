#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the commands share, `config` and `schedule`; that every INI in conf/ is valid; and that zeroth.ini(5) says
# what the option tables say.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
build=${ZR_BUILDDIR:-.}

# says NAME CODE STDOUT-PATTERN STDERR-PATTERN [argument]...; an empty pattern wants empty output
says() {
	local name=$1 code=$2 out=$3 err=$4 got
	shift 4
	"$ZEROTH" "$@" >"$scratch/out" 2>"$scratch/err"
	got=$?
	is "$name: exit code" "$got" "$code"
	if [ -n "$out" ]; then like "$name" "$(cat "$scratch/out")" "$out"; else is "$name: no output" "$(cat "$scratch/out")" ''; fi
	if [ -n "$err" ]; then like "$name: message" "$(cat "$scratch/err")" "$err"; else is "$name: no message" "$(cat "$scratch/err")" ''; fi
}

says 'no command' 2 '' '^usage: zeroth COMMAND'
says '--help' 0 '^  schedule ' '' --help
says '-h' 0 '^usage: zeroth COMMAND' '' -h
says '--version' 0 '^zeroth [0-9.]+ \(plugin ABI 1\.[0-9]+, draft [0-9]+\)$' '' --version
says 'a misspelt command' 2 '' '^zeroth: no command trian; did you mean train\?$' trian
says 'an unknown command' 2 '' '^zeroth: no command elephant; see zeroth --help$' elephant
for command in train launch tokenize sample plan config data plugin schedule checkpoint bench doctor completion 'config check' \
	'config show' 'data show' 'plugin list' 'plugin info' 'plugin check' 'plugin new'; do
	says "$command --help" 0 "^usage: zeroth ${command%% *}" '' $command --help
	says "$command with an unknown option" 2 '' '.' $command --elephant
done
for command in train launch tokenize 'tokenize --chat' sample plan eval data report watch checkpoint 'config check' \
	'config diff' 'config import' 'data show' 'plugin list' 'plugin check' 'plugin new'; do
	is "$command with an unknown option: the message, not all of the help" \
		"$("$ZEROTH" $command --elephant 2>&1 | sed -n '1s/.*--elephant.*/elephant/p;$p')" "elephant
--help says more"
done
for command in train sample plan config schedule 'config check' 'config show' 'data show' \
	'plugin info' 'plugin check' 'plugin new'; do
	says "$command without its operand" 2 '' '^usage: ' $command
done
says 'two operands' 2 '' '^zeroth schedule: unexpected argument: b$' schedule a b
says 'config with another verb' 2 '' '^zeroth config: expected check, show, diff or import, found chekc$' config chekc x
says 'plugin with another verb' 2 '' '^zeroth plugin: expected list, info, check or new, found lsit$' plugin lsit
says 'an operand after plugin list' 2 '' '^zeroth plugin: unexpected argument: x$' plugin list x
says 'steps that are no number' 2 '' '^zeroth schedule: --steps many: expected a number of steps, 1 or more$' schedule x --steps many
if [ -w /dev/full ]; then
	"$ZEROTH" --help >/dev/full 2>"$scratch/err"
	is 'a full disk is no success' "$? $(cat "$scratch/err")" '4 zeroth: standard output: No space left on device'
else
	skip 'a full disk is no success' 'no /dev/full'
fi

# ---- config ----
cd "$scratch" || exit 99
seq 1 20000 >text
cat >c.ini <<'END'
[train]
steps = 20
micro_batch_size = 2
[model]
plugin = gpt2
layers = 1
heads = 2
width = 8
context = 16
[data]
plugin = text
path = text
[optimizer]
lr = 0.1
[scheduler]
plugin = warmup_lr
warmup_num_steps = 10
END
says 'config check' 0 '^c\.ini: ok: .*model=gpt2 .*scheduler=warmup_lr ' '' config check c.ini
says 'config show: auto is resolved' 0 '^vocabulary = 256 ; auto$' '' config show c.ini
like 'config show: a value and its line' "$(cat out)" '^lr = 0\.1 ; c\.ini:14$'
like 'config show: the third of the batch triple' "$(cat out)" '^train_batch_size = 2 ; auto$'
like 'config show: a layer below' "$(cat out)" '^plugin = adamw ; defaults\.ini:[0-9]+$'
cp out shown.ini
"$ZEROTH" config show shown.ini | sed 's/ ;.*//' >again
is 'config show prints a configuration of the same values' "$(sed 's/ ;.*//' shown.ini)" "$(cat again)"
is 'config show: no store that nothing needs' "$(grep offload shown.ini)" ''
"$ZEROTH" config show -o activation.plugin=offload -o model.layers=4 -o device.memory=1G c.ini >host.ini
like 'config show: the store that activations need' "$(grep -A 1 'offload\.activation' host.ini)" '^plugin = cpu ; defaults\.ini:[0-9]+$'
is 'and of the same values' "$(sed 's/ ;.*//' host.ini | sort)" "$("$ZEROTH" config show host.ini | sed 's/ ;.*//' | sort)"
says 'config show takes -o' 0 '^steps = 500000000 ; -o$' '' config show -o train.steps=1 -o train.steps=5e8 c.ini
if command -v python3 >/dev/null; then
	is 'plan --program --json has every line' "$("$ZEROTH" plan --program --json c.ini | python3 -c 'import json, sys
print(sum(len(p["instructions"]) for p in json.load(sys.stdin)["programs"]))')" "$("$ZEROTH" plan --program c.ini | grep -c '^ ')"
	is 'config show --json' "$("$ZEROTH" config show --json c.ini | python3 -c 'import json, sys
c = json.load(sys.stdin)
print(c["optimizer"]["lr"], c["model"]["vocabulary"], c["optimizer"]["betas"]["value"], c["optimizer"]["plugin"]["value"])')" \
		"{'value': 0.1, 'source': 'c.ini:14'} {'value': 256, 'source': 'auto'} [0.9, 0.999] adamw"
else
	skip 'config show --json' 'no python3'
fi
like 'config show --json: 3e-4 is 3e-4' "$("$ZEROTH" config show --json c.ini -o optimizer.lr=3e-4 -o optimizer.eps=1e-5 | tr -d '\n ')" \
	'"lr":\{"value":0\.0003,.*"eps":\{"value":1e-0?5,'
is 'config shows and checks without writing' "$(ls)" "$(printf '%s\n' again c.ini err host.ini out shown.ini text)"

# ---- schedule ----
"$ZEROTH" schedule c.ini --steps 12 >rows
is 'schedule: a header and a row per step' "$(wc -l <rows) $(head -n 1 rows)" '13 step,lr'
is 'schedule: nine significant digits' "$(sed -n 4p rows)" '2,0.0301029996'
is 'schedule: the last' "$(tail -n 1 rows)" '11,0.1'
is 'schedule: without --steps all of them' "$("$ZEROTH" schedule c.ini | wc -l)" 21
is 'schedule: -n and -o' "$("$ZEROTH" schedule -n 1 -o scheduler.warmup_min_lr=0.05 c.ini)" "$(printf 'step,lr\n0,0.05')"
is 'a learning rate of 0' "$("$ZEROTH" schedule -n 1 -o optimizer.lr=0 c.ini)" "$(printf 'step,lr\n0,0')"
says 'config check with a learning rate of 0' 0 '^c\.ini: ok: ' '' config check -o optimizer.lr=0 c.ini
rm text
sed '/\[scheduler\]/,$d' c.ini >plain.ini
ok 'schedule needs no data' "$ZEROTH" schedule c.ini -n 1
last() # the rate of the last of c.ini's 20 updates, with another schedule and its OPTIONS
{
	local arguments=() option
	for option; do
		arguments+=(-o "scheduler.$option")
	done
	"$ZEROTH" schedule plain.ini "${arguments[@]}" | tail -n 1
}
is 'schedule: warmup_decay_lr over [train] steps' "$(last plugin=warmup_decay_lr warmup_num_steps=10)" '19,0.02'
is 'schedule: warmup_cosine_lr of the optimizer'"'"'s lr' "$(last plugin=warmup_cosine_lr warmup_num_steps=10)" '19,0.00245692947'
is 'schedule: one_cycle' "$(last plugin=one_cycle cycle_min_lr=0.1 cycle_max_lr=1 cycle_first_step_size=10)" '19,0.19'
is 'schedule: lr_range_test' "$(last plugin=lr_range_test lr_range_test_step_size=10)" '19,0.29'

# ---- the examples of zeroth-plugin(7) and zeroth_model(3) ----
for example in trust normed rows; do
	sed -n "/^\.\\\\\" EXAMPLE $example\$/,/^\.Ed/p" "$src/man/zeroth-plugin.7" | sed '1,/^\.Bd/d; /^\.Ed/d; s/\\e/\\/g' > $example.c
	ok "the example $example of zeroth-plugin(7) compiles" ${CC:-cc} -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -fvisibility=hidden \
		-I"$src/include" -o $example.so $example.c -lm
	chmod go-w . $example.so
	is '... and passes its check' "$("$ZEROTH" plugin check --exclude training ./$example.so 2>&1 | grep '^not ok')" ''
done
is 'the example of zeroth_model(3) is tests/examples/spirals.c' "$(sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$src/man/zeroth_model.3" |
	sed '1,/^\.Bd/d; /^\.Ed/d; s/\\e/\\/g' | sha256sum)" "$(sed '1,/^ \*\//d' "$src/tests/examples/spirals.c" | sha256sum)"
sed -n '/^A scheduler that/,/^\.Ed/p' "$src/man/zeroth-plugin.7" | sed '1,/^\.Bd/d; /^\.Ed/d' >halving.c
ok 'the example of zeroth-plugin(7) compiles' ${CC:-cc} -std=c11 -Wall -Wextra -Werror -shared -fPIC -I"$src/include" -o halving.so halving.c -lm
is 'and is a scheduler' "$(chmod go-w . halving.so; "$ZEROTH" schedule -n 4 -o scheduler.plugin=./halving.so -o scheduler.period=2 plain.ini |
	tr '\n' ' ')" 'step,lr 0,0.1 1,0.1 2,0.05 3,0.05 '

# ---- conf/ ----
for dir in gpt2 base; do # what finetune-gpt2.ini and chat-demo.ini begin with
	cp -r "$src/tests/golden/pretrained/gpt2" $dir
done
for conf in "$src"/conf/*.ini; do
	[ "${conf##*/}" = defaults.ini ] || ok "conf/${conf##*/} is valid" "$ZEROTH" schedule "$conf" -n 2
done
for size in gpt2-124m:124.44 gpt2-355m:354.82 gpt2-774m:774.03 gpt2-1558m:1557.61 llama-tinyllama-1.1b:1100.05; do
	printf '\001\000%.0s' {1..5000} >tokens
	like "conf/${size%:*}.ini plans ${size#*:} M parameters" \
		"$("$ZEROTH" plan "$src/conf/${size%:*}.ini" -o data.path=tokens -o data.format=uint16 2>&1)" "^${size#*:} M parameters"
done
plan_for() { "$ZEROTH" plan "$src/conf/gpt2-124m.ini" -o data.path=tokens -o data.format=uint16 "$@" 2>&1; echo "code $?"; }
like 'plan --memory: a machine that is large enough' "$(plan_for --memory 1T | grep -E '^(fits|code)' | tr '\n' ' ')" \
	'^fits: .* 1\.0 TiB available code 0 $'
like 'plan --memory: one that is not' "$(plan_for --memory 64M | tail -n 2 | tr '\n' ' ')" '64\.0 MiB available; .* code 3 $'
like 'plan --memory: no number' "$(plan_for --memory much | tr '\n' ' ')" '--memory much: expected .* code 2 $'

# ---- zeroth.ini(5) ----
page=$src/man/zeroth.ini.5
text=$(cat "$page" 2>/dev/null)
in_page() { # in_page NAME [argument]...: what `plugin info --mdoc` prints is in the page as it is
	local name=$1
	shift
	part=$("$ZEROTH" plugin info --mdoc "$@")
	if [ -n "$part" ] && [[ $text == *"$part"* ]]; then
		pass "zeroth.ini(5) has the options of $name"
	else
		fail "zeroth.ini(5) has the options of $name" 'run make man-options'
	fi
}
in_page core
for so in "$build"/plugins/*/*.so; do
	name=${so#"$build"/plugins/}
	in_page "${name%.so}" "${name%.so}"
done
for page in "$src"/man/*.[0-9]; do
	if command -v mandoc >/dev/null; then
		# whether the pages it refers to are installed is no fault of the page
		is "man/${page##*/} has no lint" "$(mandoc -T lint -W style "$page" 2>&1 | grep -v 'referenced manual not found')" ''
	else
		skip "man/${page##*/} has no lint" 'no mandoc'
	fi
done

done_testing
