#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: bad input gets one line that names the place and the remedy, its exit code, and nothing is written.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
umask 022

# A small run that would work.
seq 1 20000 >text
mkdir plugins
head -c 4096 text >short
: >empty
# write [LINE]...: the run that works, and what spoils it from line 13 on
write() {
	cat >c.ini <<'END'
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
path = text
END
	[ $# = 0 ] || printf '%s\n' "$@" >>c.ini
}
files() { find . -print | LC_ALL=C sort | cksum; }

# refused NAME CODE TEXT [argument]...: `train` says exactly this line, exits with CODE, and writes nothing
refused() {
	local name=$1 code=$2 text=$3 before after said got
	shift 3
	before=$(files)
	said=$("$ZEROTH" train "$@" c.ini 2>&1)
	got=$?
	after=$(files)
	is "$name" "$got $said" "$code zeroth: $text"
	is "$name: nothing written" "$after" "$before"
}

# matched NAME CODE PATTERN [argument]...: the same where numbers of the machine are in the text
matched() {
	local name=$1 code=$2 pattern=$3 before after said got
	shift 3
	before=$(files)
	said=$("$ZEROTH" train "$@" c.ini 2>&1)
	got=$?
	after=$(files)
	like "$name" "$got|$(wc -l <<<"$said")|$said" "^$code\\|1\\|zeroth: $pattern\$"
	is "$name: nothing written" "$after" "$before"
}

write
is 'the run that the others spoil works' "$("$ZEROTH" config check c.ini 2>&1 | cut -c 1-10)" 'c.ini: ok:'

# ---- sections and keys ----
write '[trian]'
refused 'an unknown section' 2 'c.ini:13: unknown section [trian]; did you mean [train]?'
write '[elephant]'
refused 'an unknown section like no other' 2 'c.ini:13: unknown section [elephant]'
write '[train]' 'gradient_clipp1ng = 1'
refused 'an unknown key' 2 'c.ini:14: [train] gradient_clipp1ng: unknown key; did you mean gradient_clipping?'
write
refused 'an unknown key on the command line' 2 '-o optimizer.lrr=1: unknown key; did you mean lr?' -o optimizer.lrr=1
refused 'an unknown section on the command line' 2 '-o optimiser.lr=1: unknown section [optimiser]; did you mean [optimizer]?' \
	-o optimiser.lr=1
refused 'an option without a section' 2 '-o lr=1: expected section.key=value' -o lr=1
refused 'an option without a value' 2 '-o optimizer.lr: expected section.key=value' -o optimizer.lr
refused 'a key that no other is like' 2 \
	'-o optimizer.elephant=1: unknown key; `zeroth plugin info optimizer/adamw` lists the keys' -o optimizer.elephant=1
refused 'a key of another section' 2 '-o train.log_every=1: unknown key; [run] has log_every' -o train.log_every=1
refused 'a key of another section than that of a plugin' 2 \
	'-o optimizer.epochs=1: unknown key; `zeroth plugin info optimizer/adamw` lists the keys; [train] has epochs' -o optimizer.epochs=1
refused 'a key that no other of a section of core is like' 2 '-o memory.elephant=1: unknown key; [memory] has host, disk' \
	-o memory.elephant=1
refused 'a named section of a role that has one' 2 \
	'-o scheduler.a.plugin=constant: there is one section [scheduler]; sections with a name are [comm.host], [device.host], [data.NAME], [offload.optimizer], [offload.gradient], [offload.param], [offload.activation], [optimizer.NAME], [monitor.NAME], [eval.NAME]' \
	-o scheduler.a.plugin=constant
refused 'a tier for what there is not' 2 \
	'-o: [offload.optimiser] plugin: nothing lies in a section of this name; there are [offload.optimizer], [offload.gradient], [offload.param], [offload.activation]' \
	-o offload.optimiser.plugin=cpu
refused 'a tier for nothing' 2 \
	'-o: [offload] plugin: nothing lies in a section of this name; there are [offload.optimizer], [offload.gradient], [offload.param], [offload.activation]' \
	-o offload.plugin=cpu
write '[optimizer.x]' 'lr = 1'
refused 'a parameter group without patterns' 2 "c.ini:13: [optimizer.x] match: missing: The tensors of this group, by patterns of \
their names as in Hugging Face's files, separated by blanks: * stands for any text, dots too, ? for one character, [a-z] for one of these."
write '[optimizer.x]' 'match ='
refused 'a parameter group with no pattern' 2 "c.ini:14: [optimizer.x] match = : expected patterns of tensors' names"
write '[optimizer.x]' 'lr = 1' 'match = *.bias *.biass'
refused 'a pattern that no tensor has' 2 \
	'c.ini:15: [optimizer.x] match: no tensor has a name like *.biass; their names are like wte.weight and h.0.ln_1.weight'
write '[optimizer.x]' 'match = w*' '[optimizer.y]' 'match = wte.weight'
refused 'a parameter group that is left with nothing' 2 \
	'c.ini:16: [optimizer.y] match: groups before this one have all of its tensors; take it out or put it before them'
write '[optimizer.x]' 'matches = *.bias'
refused 'a key of a parameter group that is none' 2 'c.ini:14: [optimizer.x] matches: unknown key; did you mean match?'
write '[optimizer]' 'plugin = sgd' '[optimizer.x]' 'match = *.bias' 'momentum = 0.9'
refused 'an option that groups share' 2 "c.ini:17: [optimizer.x] momentum = 0.9: one value serves all groups of sgd: give it in \
[optimizer]; a group may have its own lr, dampening, weight_decay, nesterov"
write '[train]' 'steps = 3'
refused 'a key given twice' 2 'c.ini:14: [train] steps: given twice, first at c.ini:2'
write 'steps'
refused 'a line that is nothing' 2 'c.ini:13: expected `key = value` or `[section]`'
write "val_path = $(printf 'x%.0s' {1..5000})"
refused 'a line that is too long' 2 'c.ini:13: the line is too long'
write
sed -i '4,9d' c.ini
refused 'no model' 2 'c.ini: no [model] section: add one with plugin = ID; `zeroth plugin list` shows the IDs'
write '[monitor.csv]'
refused 'a section that names no plugin' 2 \
	'c.ini:13: [monitor.csv] no plugin: add plugin = ID; `zeroth plugin list` shows the IDs'
write
sed -i '/^path/d' c.ini
refused 'a required key that is missing' 2 "c.ini:10: [data] path: missing, plugin text requires it: Text file, plain or gzip, or a \
pattern of several; relative to the working directory."

# ---- plugins ----
write
options='`zeroth plugin info optimizer/adamw` lists'
refused 'an unknown plugin' 2 "-o optimizer.plugin=adamww: no optimizer plugin 'adamww'; did you mean adamw? \
$options its options" -o optimizer.plugin=adamww
refused 'a plugin in the wrong case' 2 "-o optimizer.plugin=AdamW: no optimizer plugin 'AdamW'; did you mean adamw? \
$options its options" -o optimizer.plugin=AdamW
matched 'a plugin that no other is like' 2 "-o zero.plugin=3: no zero plugin '3' in [^ ]*, which has .*, stage1, stage2, stage3" \
	-o zero.plugin=3
matched 'a plugin that several are like' 2 "-o zero.plugin=stage4: no zero plugin 'stage4' in [^ ]*, which has .*, stage0, stage1, stage2, stage3" \
	-o zero.plugin=stage4
refused 'a key that is renamed' 2 "-o optimizer.moments=8bit: unknown key; did you mean states?" -o optimizer.moments=8bit
like 'and there it is' "$("$ZEROTH" plugin info optimizer/adamw)" '^ *one of fp32, bf16, 8bit$'
write '[device]' 'separate = yes'
refused 'a key that played a card for tests' 2 'c.ini:14: [device] separate: unknown key; leave it out: `memory = SIZE` alone plays a card that only operations and copies reach'
write
refused 'another that did, on the command line' 2 \
	'-o device.host.late_copies=yes: unknown key; leave it out: it served tests alone, and is gone' \
	-o device.host.plugin=cpu -o device.host.late_copies=yes
refused 'a plugin file that is missing' 2 '-o optimizer.plugin=./no.so: plugin ./no.so: No such file or directory' \
	-o optimizer.plugin=./no.so
write '[optimizer]' 'plugin = adamw' 'lr = 1' 'betas = 0.9,0.99' 'eps = 1e-8'
refused 'a key that the plugin of -o lacks, by -o too' 2 "-o optimizer.betas=1,1: unknown key; \
\`zeroth plugin info optimizer/sgd\` lists the keys" \
	-o optimizer.plugin=sgd -o optimizer.betas=1,1
write '[optimizer]' 'plugin = sgd' 'betas = 0.9,0.99'
refused 'a key of another plugin than the one beside it' 2 "c.ini:15: [optimizer] betas: unknown key; \
\`zeroth plugin info optimizer/sgd\` lists the keys" -o optimizer.plugin=sgd
write
refused 'a key that is unset and is none' 2 '-o optimizer.weight_decy=: unknown key; did you mean weight_decay?' \
	-o optimizer.weight_decy=
refused 'a plugin that is unset in a section that is none' 2 \
	"-o: unknown section [optimiser]; did you mean [optimizer]?" -o optimiser.plugin=
refused 'a key that is required, unset' 2 "-o: [data] path: missing, plugin text requires it: Text file, \
plain or gzip, or a pattern of several; relative to the working directory." -o data.path=

build() { ${CC:-cc} -std=gnu11 -w -shared -fPIC -I"$src/include" "${@:2}" -o "$1" "$src/tests/doubles/badplugin.c"; }
at=$(pwd -P)/plugins
write
build plugins/good.so -DMAJOR=2
refused 'a plugin with another ABI major' 2 "-o scheduler.plugin=plugins/good.so: plugin $at/good.so: abi_major is 2, this zeroth \
has 1; rebuild it with this zeroth's headers" -o scheduler.plugin=plugins/good.so
build plugins/good.so
size=$(wc -c <plugins/good.so)
head -c $((size / 2)) plugins/good.so >plugins/half.so
matched 'a truncated plugin' 2 "-o scheduler\\.plugin=plugins/half\\.so: plugin $at/half\\.so: truncated: it has $((size / 2)) bytes \
and its headers promise $size; copy or build it again" -o scheduler.plugin=plugins/half.so
chmod 777 plugins/good.so
refused 'a plugin that others can write' 2 "-o scheduler.plugin=plugins/good.so: plugin $at/good.so: mode is 0777, writable by \
others; run chmod o-w on it" -o scheduler.plugin=plugins/good.so
chmod 755 plugins/good.so
build plugins/old.so '-DID="old"' '-DIFACE="zr.scheduler/0"'
refused 'a plugin without the interface of its role' 2 "plugin $at/old.so: offers zr.scheduler/0, expected zr.scheduler/1; rebuild \
it with this zeroth's headers" -o scheduler.plugin=plugins/old.so

# ---- values ----
refused 'a wrong type' 2 "-o optimizer.lr=abc: expected a number, found 'abc'" -o optimizer.lr=abc
write
sed -i 's/^steps = 2/steps = many/' c.ini
refused 'a wrong type in the file' 2 "c.ini:2: [train] steps = many: expected a whole number, found 'many'"
write
refused 'a whole number that is not' 2 "-o train.steps=1.5: expected a whole number, found '1.5'" -o train.steps=1.5
refused 'out of range' 2 '-o optimizer.lr=-1: -1 is out of range >= 0' -o optimizer.lr=-1
refused 'NaN' 2 "-o optimizer.lr=nan: expected a number, found 'nan'" -o optimizer.lr=nan
refused 'an element of a list out of range' 2 '-o optimizer.betas=2,0.9: 2 is out of range [0, 1)' -o optimizer.betas=2,0.9
refused 'a list that is too short' 2 "-o optimizer.betas=0.9: expected 2 numbers, found 1 in '0.9'" -o optimizer.betas=0.9
refused 'a list that is too long' 2 "-o optimizer.betas=0.9,0.9,0.9: expected 2 numbers, found 3 in '0.9,0.9,0.9'" \
	-o optimizer.betas=0.9,0.9,0.9
refused 'a word that is no choice' 2 "-o data.order=rondom: 'rondom' is none of random, sequential; did you mean random?" \
	-o data.order=rondom
refused 'neither yes nor no' 2 "-o optimizer.bias_correction=2: expected yes or no, found '2'" -o optimizer.bias_correction=2
refused 'a value of a lower layer that is wrong, though overridden' 2 "-o train.steps=x: expected a whole number, found 'x'" \
	-o train.steps=x -o train.steps=3
refused 'auto where it is not taken' 2 "-o train.steps=auto: expected a whole number, found 'auto'" -o train.steps=auto

# ---- files ----
rm c.ini
refused 'a missing file' 2 'c.ini: No such file or directory'
mkdir c.ini
refused 'a directory' 2 'c.ini: Is a directory; name an INI file'
: >c.ini/config.ini
refused 'the directory of a run' 2 'c.ini: Is a directory of a run, whose configuration is c.ini/config.ini'
rm -r c.ini
# Not random bytes: by chance the first could be that of JSON, which has its own message.
printf '\377\376\001\200zeroth\n\002\003\n%.0s' {1..100} >c.ini
matched 'a file that is no text' 2 'c\.ini:[0-9]+: .*'

# ---- data, model, batch, memory ----
write
refused 'missing data' 2 '-o: [data] path = nothing-here: No such file or directory' -o data.path=nothing-here
refused 'empty data' 2 '-o: [data] empty: is empty' -o data.path=empty
refused 'data too short for a sequence' 2 '-o: [data] short: 4096 bytes to train on, one sequence needs 8001' \
	-o data.path=short -o data.val_path=text -o model.context=8000
sed -i 's/^path = text/path = nothing-here/' c.ini
refused 'missing data of a file' 2 'c.ini:12: [data] path = nothing-here: No such file or directory'
write
sed -i 's/heads = 2/heads = 3/' c.ini
refused 'heads that do not divide the width' 2 'c.ini:7: [model] heads = 3 does not divide width = 8'
write
refused 'a batch triple that does not multiply out' 2 '-o: [train] train_batch_size = 7, but micro_batch_size 2 x gradient_accumulation_steps 2 x 1 rank = 4; drop one of the three to have it derived' \
	-o train.train_batch_size=7 -o train.gradient_accumulation_steps=2
refused 'a default that does not suit a plugin of -o: without a place, since -o has not said it' 2 \
	'[activation] keep = 2: of the model'"'"'s 2 layers before the loss none but the first would leave; lower keep, or use [activation] plugin = keep without [offload.activation]' \
	-o activation.plugin=offload
refused '... and from -o' 2 \
	'-o: [activation] keep = 3: of the model'"'"'s 2 layers before the loss none but the first would leave; lower keep, or use [activation] plugin = keep without [offload.activation]' \
	-o activation.plugin=offload -o activation.keep=3
refused 'a batch of which too little is given' 2 '[train] needs two of train_batch_size, micro_batch_size and gradient_accumulation_steps (the third is derived); found none' \
	-o train.micro_batch_size=auto
refused 'a batch that no number holds' 2 '-o train.gradient_accumulation_steps=4611686018427387904: 4.611686018427388e+18 is out of range [1, 16777216]' \
	-o train.gradient_accumulation_steps=4611686018427387904
refused 'a sequence longer than the context' 2 "-o: [train] sequence_length = 17 exceeds the model's context of 16" -o train.sequence_length=17
refused 'bytes and a smaller vocabulary' 2 "the data has 256 different tokens, but the model's vocabulary is 97; raise [model] vocabulary" \
	-o model.vocabulary=97
{
	printf '\x05\x00\x06\x00%.0s' {1..500}
	printf '\x61\x00'
	printf '\x05\x00\x06\x00%.0s' {1..500}
} >tokens
refused 'a token that is not in the vocabulary' 2 '-o: [data] tokens: token 97 at position 1000 is not below the vocabulary of 97' \
	-o data.plugin=tokens -o data.path=tokens -o data.format=uint16 -o model.vocabulary=97
matched 'a model that does not fit' 3 'does not fit: needs 1\.7 PiB of memory \(largest: optimizer state .*\), [0-9.]+ [KMGT]iB available; add \[offload\.optimizer\] .*' \
	-o model.width=100000 -o model.layers=1000
# Numbers that options allow one by one; what they make together must not wrap around to something that fits.
for i in 1 2 3 4 5 6; do seq 1 200000; done >long
wide=(-o data.path=long -o train.eval_every=0 -o model.width=1048576 -o model.context=65536)
refused 'a micro-batch of too many tokens' 2 '[train] micro_batch_size x sequence_length exceeds 268435456 tokens; lower one' \
	"${wide[@]}" -o train.micro_batch_size=16777216
refused 'a layer of too many bytes' 2 'layer 0 needs over 64 TiB a micro-batch; lower [train] micro_batch_size' \
	"${wide[@]}" -o train.micro_batch_size=4096
matched 'a model of too many parameters' 2 'tensor h\.85\.attn\.c_proj\.weight has an impossible shape, or the model over 2\^50 parameters' -o model.width=1048576 -o model.layers=10000
matched 'activations of more than there is' 3 'does not fit: needs .* of memory \(largest: .*; raise that, or lower \[train\] micro_batch_size \(64\) or sequence_length \(16\), or choose \[activation\] plugin = recompute' \
	-o train.micro_batch_size=64 -o memory.host=100K
matched 'less than the user allows' 3 'does not fit: .* 100\.0 KiB available by \[memory\] host; raise that, or add \[offload\.optimizer\] .*' \
	-o memory.host=100K
many=$(ulimit -t 15 && "$ZEROTH" plan c.ini -o model.layers=10000 -o train.micro_batch_size=1 --memory 1T 2>&1)
like 'ten thousand layers are planned in 15 seconds of a processor' "$many" '^fits: '
many=$(ulimit -t 8 && "$ZEROTH" plan c.ini -o model.layers=2000 -o activation.plugin=recompute -o activation.max_bytes=2M \
	-o train.micro_batch_size=1 --memory 1T 2>&1)
like 'what fits of two thousand in a limit is found in 8' "$many" '^fits: '
mkdir -p runs/here
refused 'a run directory that exists' 2 '-o: run directory runs/here exists already; go on from its checkpoint with --resume auto, choose another [run] dir or remove it' \
	-o run.dir=runs/here
refused 'a run directory that cannot be' 2 '-o: [run] cannot make dir = /proc/nothing/here: No such file or directory' \
	-o run.dir=/proc/nothing/here
refused 'a monitor that cannot write' 2 '-o: [monitor.csv] path = /nothing/here: cannot open: No such file or directory' \
	-o run.dir=new/run -o monitor.csv.plugin=csv -o monitor.csv.path=/nothing/here

is 'no defaults.ini: where it comes from' "$(ZEROTH_DATA_PATH=$scratch/plugins "$ZEROTH" config show c.ini 2>&1)" \
	"zeroth: $scratch/plugins/defaults.ini: No such file or directory: make install puts it there, and ZEROTH_DATA_PATH names another directory, as conf of the sources"
done_testing
