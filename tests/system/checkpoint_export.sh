#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints of ours for other programs (checkpoint export --to): Python's own libraries read what torch would, and a training
# that imports them again goes on with the bits of one that was never exported. golden/compare_exports.py has the others.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

memory_scratch
cd "$scratch" || exit 99
golden=$ZR_SRCDIR/tests/golden/checkpoints
have_python=$(command -v python3)

# conf FILE MODEL PLAIN
conf() {
	cat > "$1" <<-END
	[model]
	path = $2
	[data]
	plugin = tokens
	path = $golden/tokens.bin
	format = uint16
	order = sequential
	[train]
	sequence_length = 12
	steps = 6
	train_batch_size = 2
	micro_batch_size = 1
	eval_every = 0
	gradient_clipping = 1.0
	[optimizer]
	plugin = adamw
	lr = 1e-2
	weight_decay = 0.1
	[optimizer.plain]
	match = $3
	weight_decay = 0
	[scheduler]
	plugin = cosine
	warmup_num_steps = 3
	[precision]
	plugin = fp32
	[checkpoint]
	every = 4
	END
}

# trained NAME CONF [OPTION...]: to run-NAME
trained() {
	local name=$1
	shift
	"$ZEROTH" train "$@" -o run.dir="run-$name" > "run-$name.out" 2> "run-$name.err" || fail "$name: trains" "$(cat "run-$name.err")"
}

to() { "$ZEROTH" checkpoint export --to "$1" "run-$2/checkpoints/step-00000004" "$3"; }
last() { tail -n 1 "$1.out" | grep -o "params=.*"; }

# structure FORM NAME WANTED
structure() {
	[ -n "$have_python" ] || { skip "$2: $1: as torch has it" 'no python3'; return; }
	is "$2: $1: as torch has it" "$(python3 "$ZR_SRCDIR/tests/lib/torch_files.py" "$1" "out-$2-$1" "weights-$2/model.safetensors" 4 2>&1)" "$3"
}

# goes_round NAME CONF [OPTION...]: each form, and back again
goes_round() {
	local name=$1 form
	shift
	for form in ${forms:-universal dcp dcp-safetensors}; do
		ok "$name: $form: exported" to "$form" "$name" "out-$name-$form"
		ok "$name: $form: imported again" "$ZEROTH" checkpoint import "out-$name-$form" "$@" -o run.dir="back-$name-$form"
		"$ZEROTH" train "$@" -o run.dir="back-$name-$form" --resume auto > back.out 2> back.err || fail "$name: $form: goes on" "$(cat back.err)"
		is "$name: $form: the bits of a training that was not exported" "$(last back)" "$(last "run-$name")"
	done
}

weights() { "$ZEROTH" checkpoint export "run-$1/checkpoints/step-00000004" "weights-$1" > /dev/null 2>&1; }

# ---- a tied model, and one whose head is its own ----
conf gpt2.ini "$golden/trainer-gpt2" "*.bias ln_*"
trained gpt2 gpt2.ini
goes_round gpt2 gpt2.ini
weights gpt2
structure universal gpt2 '16 parameters, 17 weights'
structure dcp gpt2 '16 parameters, 17 weights, 2 groups'
structure dcp-safetensors gpt2 '16 parameters, 17 weights, 2 groups'
conf llama.ini "$golden/trainer-llama" "*.bias *norm.weight"
trained llama llama.ini
goes_round llama llama.ini
weights llama
structure universal llama '16 parameters, 16 weights'
structure dcp llama '16 parameters, 16 weights, 2 groups'
"$ZEROTH" checkpoint export --to dcp-safetensors --shard-bytes 2K run-llama/checkpoints/step-00000004 several > /dev/null 2>&1
ok 'in several files' test "$(ls several | wc -l)" -gt 2
ok 'in several files: imported again' "$ZEROTH" checkpoint import several llama.ini -o run.dir=back-several

# ---- who wrote it, and where its states were ----
mkdir disk
trained split llama.ini -n 2 -o zero.plugin=stage3 -o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk
for form in universal dcp; do
	to "$form" split "out-split-$form" > /dev/null 2>&1
	ok "of two ranks, with states beside: the same files, $form" diff -r "out-split-$form" "out-llama-$form" --exclude '*_model_states.pt'
done

# what has other types goes on as a training does that converts them
for states in bf16 8bit; do
	trained "$states" llama.ini -o optimizer.states="$states"
	to universal "$states" "out-$states" > /dev/null 2>&1
	ok "states in $states: imported in fp32" "$ZEROTH" checkpoint import "out-$states" llama.ini -o run.dir="back-$states"
	"$ZEROTH" train llama.ini -o run.dir="back-$states" --resume auto > back.out 2>&1
	"$ZEROTH" train llama.ini -o run.dir="wide-$states" -o optimizer.states=fp32 \
		--resume "run-$states/checkpoints/step-00000004" > wide.out 2>&1
	is "states in $states: the bits of a training that goes on in fp32" "$(last back)" "$(last wide)"
done
forms=universal
trained split16 llama.ini -o precision.plugin=bf16
goes_round split16 llama.ini -o precision.plugin=bf16
trained sgd llama.ini -o optimizer.plugin=sgd -o optimizer.momentum=0.9
goes_round sgd llama.ini -o optimizer.plugin=sgd -o optimizer.momentum=0.9
weights sgd
structure universal sgd '16 parameters, 16 weights'
half=(-o precision.plugin=fp16 -o precision.initial_scale_power=10)
trained half llama.ini "${half[@]}"
goes_round half llama.ini "${half[@]}"
scale_of() { grep -A 4 '"loss_scale": {' "$1/checkpoints/step-00000004/manifest.json"; }
is 'half: the loss scale and its rule' "$(scale_of back-half-universal)" "$(scale_of run-half)"
forms=dcp
trained frozen llama.ini -o train.freeze='*embed_tokens*'
goes_round frozen llama.ini -o train.freeze='*embed_tokens*'

# another head than the embedding is not that of a tied model
other_head='
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    at = 8 + n + json.loads(f.read(n))["model.lm_head.weight"]["data_offsets"][0]
    f.seek(at)
    f.write(b"\0\0\0\0")'
if [ -n "$have_python" ]; then
	python3 -c "$other_head" out-gpt2-dcp-safetensors/shard-00001-model-00001-of-00001.safetensors
	err=$("$ZEROTH" checkpoint import out-gpt2-dcp-safetensors gpt2.ini -o run.dir=other 2>&1)
	is 'another head: exit 2' "$?" 2
	like 'another head: says so' "$err" 'tensors lm_head\.weight and transformer\.wte\.weight differ, and the model has one'
else
	skip 'another head: says so' 'no python3'
fi

# ---- what is refused, and leaves nothing ----
refused() {
	local name=$1 pattern=$2
	shift 2
	err=$("$ZEROTH" checkpoint export "$@" none 2>&1)
	is "$name: exit 2" "$?" 2
	like "$name: says why" "$err" "$pattern"
	[ ! -e none ] && [ ! -e none.tmp ] || fail "$name: leaves something"
}
refused 'frozen, for DeepSpeed' 'tensor model\.embed_tokens\.weight is frozen: DeepSpeed .*--to dcp' --to universal run-frozen
refused 'a loss scale, for DCP' 'has a loss scale, 1024, .*--to universal' --to dcp run-half
trained lion llama.ini -o optimizer.plugin=lion
refused 'an optimizer that torch has not' '\[optimizer\] plugin = lion: --to knows .*adamw' --to universal run-lion
trained biased llama.ini -o optimizer.bias_correction=no
refused 'an option that torch has not' '\[optimizer\] bias_correction = no' --to dcp run-biased
trained rates llama.ini -o optimizer.plain.lr=2e-2
refused 'two rates, for DeepSpeed' 'learning rates [0-9.e-]* and [0-9.e-]*, .*--to dcp' --to universal run-rates/checkpoints/step-00000004
trained adapted llama.ini -o adapter.plugin=lora -o adapter.r=2 -o optimizer.plain.match='*lora_B*'
refused 'adapters' '\[adapter\]: states of adapters are not exported; without --to' --to dcp run-adapted
conf mixtral.ini "$ZR_SRCDIR/tests/golden/pretrained/mixtral" "*norm.weight"
trained mixtral mixtral.ini
refused 'experts' 'tensor model\.layers\.0\.[a-z_.]*experts\.0\.[a-z0-9_.]*: transformers has all experts' --to universal run-mixtral
refused 'a type' '--to writes what a training goes on from, in fp32' --to dcp --dtype bf16 run-llama
refused 'a form that is none' '--to .*universal' --to pickle run-llama
mkdir there
err=$(to dcp llama there 2>&1)
is 'a directory that is there: exit 2' "$?" 2
like 'a directory that is there: says so' "$err" 'there exists already'

# ---- an attempt that was killed, and a file that does not fit ----
mkdir -p again.tmp/global_step4_universal/zero/x
touch again.tmp/global_step4_universal/zero/x/fp32.pt
ok 'what an attempt left behind is no hindrance' to universal llama again
ok 'what an attempt left behind is gone' diff -r again out-llama-universal
ok 'and nothing of it stays' test ! -e again.tmp
err=$( (trap '' XFSZ; ulimit -f 4; to dcp llama full) 2>&1)
is 'a file that does not fit: exit 4' "$?" 4
like 'a file that does not fit: says so' "$err" 'full\.tmp/__0_0\.distcp: cannot write: File too large'
ok 'a file that does not fit: nothing is left' test ! -e full -a ! -e full.tmp
done_testing
