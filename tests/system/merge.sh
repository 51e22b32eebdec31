#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# checkpoint export of what has adapters: PEFT's files, or a model in which they are merged, of a
# checkpoint, of a run that ended and of PEFT's own files. What merging computes is compared with
# PEFT in tests/unit/cmd/t_merge.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cd "$scratch" || exit 99

cat > peft.ini <<END
[data]
plugin = tokens
path = $golden/pretrained/tokens.bin
format = uint16
order = sequential
[train]
sequence_length = 13
steps = 5
train_batch_size = 3
micro_batch_size = 1
eval_every = 0
[optimizer]
plugin = adamw
lr = 1e-2
[checkpoint]
every = 5
[adapter]
plugin = lora
END

# values FILE: the tensors of a safetensors file, without its header
values() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1"; }
merge() { # DIR OUT [OPTION]...: prints what the command does
	rm -rf "$2"
	"$ZEROTH" checkpoint export --merge "${@:3}" "$1" "$2" 2>&1
}
loss() { # DIR [OPTION]...
	"$ZEROTH" eval "$1" -o data.plugin=tokens -o data.format=uint16 -o train.sequence_length=13 \
		-o data.path="$golden/pretrained/tokens.bin" \
		-o data.val_path="$golden/pretrained/tokens.bin" "${@:2}" 2>&1 |
		sed -n 's/^  loss *//p'
}
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d <= 2e-6 && d >= -2e-6) }'; }

# ---- a run with the model in [model] path ----
for model in gpt2 llama; do
	for save in all trainable; do
		trained peft.ini -n 3 -o zero.plugin=stage3 -o checkpoint.save=$save \
			-o model.path="$golden/pretrained/$model" \
			-o adapter.path="$golden/adapters/$model" > digest
		like "$model, $save: it trains" "$(cat digest)" '^digest'
		rm -rf files
		like "$model, $save: a checkpoint exports adapters" \
			"$("$ZEROTH" checkpoint export run files 2>&1)" \
			'^exported    the adapters of step 5 of run/checkpoints/step-00000005 to files$'
		ok "$model, $save: those that the run left" \
			cmp files/adapter_model.safetensors run/adapter_model.safetensors
		ok "$model, $save: with their configuration" \
			cmp files/adapter_config.json run/adapter_config.json
		is "$model, $save: and nothing else" "$(ls files)" "$(ls "$golden/adapters/$model" |
			grep -E '^adapter_(config|model)')"
		like "$model, $save: a checkpoint is merged" "$(merge run merged)" \
			"^merged      .*pretrained/$model with step 5 of run/checkpoints/step-00000005"
		mv run/checkpoints away
		like "$model, $save: a run is merged" "$(merge run again)" "pretrained/$model with run"
		rm -rf ended
		is "$model, $save: and exports its adapters" \
			"$("$ZEROTH" checkpoint export run ended 2>&1)" \
			'exported    the adapters of step 5 of run/adapter_model.safetensors to ended'
		ok "$model, $save: the same" cmp files/adapter_model.safetensors ended/adapter_model.safetensors
		ok "$model, $save: and their configuration" cmp files/adapter_config.json ended/adapter_config.json
		mv away run/checkpoints
		is "$model, $save: to the same values" "$(values merged/model.safetensors | md5sum)" \
			"$(values again/model.safetensors | md5sum)"
	done
	like "$model: the file names base and adapter" "$(head -c 400 merged/model.safetensors)" \
		"\"base_model\":\"/.*pretrained/$model\",\"adapter\":\"run/checkpoints/step-00000005\""
	ok "$model: the merged model has the loss of the adapters" \
		near "$(loss merged -o precision.plugin=fp32)" "$(loss run -o precision.plugin=fp32)"
	is "$model: it is merged with PEFT's files, too" \
		"$(merge "$golden/pretrained/$model" third --adapter files > log 2>&1
		values third/model.safetensors | md5sum)" \
		"$(values merged/model.safetensors | md5sum)"
	is "$model: and samples as the run" "$("$ZEROTH" sample --no-cache -n 12 -t 0 merged 2>&1)" \
		"$("$ZEROTH" sample --no-cache -n 12 -t 0 run 2>&1)"
	merge run half --dtype bf16 > log
	is "$model: half of it in bf16" "$(values half/model.safetensors | wc -c)" \
		"$(($(values merged/model.safetensors | wc -c) / 2))"
done
# The base is what training used of it.
trained peft.ini -o precision.plugin=bf16 -o model.path="$golden/pretrained/llama" > digest
merge run merged > log
mv run/checkpoints away
merge run again > log
is 'bf16: a run and a checkpoint are merged to the same' \
	"$(values merged/model.safetensors | md5sum)" "$(values again/model.safetensors | md5sum)"
merge "$golden/pretrained/llama" third --adapter run > log
ok 'bf16: which is not the base in fp32' \
	test "$(values third/model.safetensors | md5sum)" != "$(values again/model.safetensors | md5sum)"
rm -rf away
trained peft.ini -o checkpoint.save=trainable -o model.path="$golden/pretrained/llama" > digest
cp -r "$golden/pretrained/llama" base
trained peft.ini -o checkpoint.save=trainable -o model.path=base > digest
mv run was
printf '\x3f' | dd of=base/model.safetensors bs=1 seek=9000 conv=notrunc 2> /dev/null
refused() { # NAME TEXT COMMAND...
	rm -rf out
	like "$1" "$("${@:3}" 2>&1 | tail -n 1)" "$2"
	ok "$1: and nothing is left" test ! -e out -a ! -e out.tmp
}
refused 'a base that was changed' 'which the checkpoint leaves out, is not what it was in' \
	merge was out
like 'a base that was changed, on resuming' \
	"$(trained peft.ini -o checkpoint.save=trainable -o model.path=base --resume was)" \
	'tensor .* is frozen and was left out: in \[model\] path it is not what it was'
evaluated() { # RUN [OPTION]...: the last line
	"$ZEROTH" eval "$1" -o data.val_path="$golden/pretrained/tokens.bin" "${@:2}" 2>&1 | tail -n 1
}
changed='which the checkpoint leaves out, is not what it was in .*base$'
like 'a base that was changed, on evaluating' "$(evaluated was)" "$changed"
like 'and on two ranks' "$(evaluated was -n 2 -o zero.plugin=stage3)" "$changed"
like 'a base that was changed, on sampling' "$("$ZEROTH" sample -n 1 was 2>&1 | tail -n 1)" "$changed"
like 'of another type it is said that it is not known' \
	"$("$ZEROTH" sample -n 1 was -o precision.plugin=bf16 2>&1)" 'base is what it was is not looked at: '
like 'the base elsewhere' "$(evaluated was -o model.path="$golden/pretrained/llama")" '^  digest'
mv was/checkpoints away
like 'without a checkpoint nothing is known of it' "$(evaluated was)" '^  digest'
rm -rf away

# ---- a base in codes of 4 and 8 bits ----
for case in gpt2-nf4-fp32 llama-int8-fp32 llama-nf4-bf16; do
	IFS=- read -r model store type <<< "$case"
	trained peft.ini -n 3 -o zero.plugin=stage3 -o model.path="$golden/pretrained/$model" \
		-o adapter.path="$golden/adapters/$model" -o model.store="$store" \
		-o precision.plugin="$type" > digest
	like "$case: a checkpoint is merged onto what was trained" "$(merge run merged)" \
		"^merged      .*pretrained/$model in $store with step 5 of run/"
	like "$case: the base is known again on evaluating" "$(evaluated run)" '^  digest'
	ok "$case: and on sampling" "$ZEROTH" sample -n 1 run
	is "$case: its checkpoint samples as it does" "$("$ZEROTH" sample -n 9 run/checkpoints/step-* 2>&1)" \
		"$("$ZEROTH" sample -n 9 run 2>&1)"
	mv run/checkpoints away
	like "$case: a run is, too" "$(merge run again)" "pretrained/$model in $store with run"
	rm -rf away
	is "$case: to the same values" "$(values merged/model.safetensors | md5sum)" \
		"$(values again/model.safetensors | md5sum)"
	like "$case: the file says so" "$(head -c 400 merged/model.safetensors)" \
		"\"base_model_stored_as\":\"$store\""
	[ "$type" = bf16 ] || ok "$case: the merged model has the loss of the adapters" \
		near "$(loss merged -o precision.plugin=fp32)" "$(loss run)"
done
merge "$golden/pretrained/llama" third --adapter run > log
ok 'which is not the base of the files' \
	test "$(values third/model.safetensors | md5sum)" != "$(values again/model.safetensors | md5sum)"
is 'but is with the same options' \
	"$(merge "$golden/pretrained/llama" third --adapter run -o model.store=nf4 \
		-o precision.plugin=bf16 > log; values third/model.safetensors | md5sum)" \
	"$(values again/model.safetensors | md5sum)"
sed '/adapter/,$d' peft.ini > frozen.ini
trained frozen.ini -o model.path="$golden/pretrained/llama" -o model.store=nf4 \
	-o train.freeze='*_proj.weight' > digest
like 'without adapters: what was trained is exported' \
	"$("$ZEROTH" checkpoint export run whole 2>&1)" '^exported    step 5 of run'
mv run/checkpoints away
like 'without a checkpoint, too' \
	"$("$ZEROTH" checkpoint export run ended-whole 2>&1)" '^exported    step 5 of run/model.safetensors'
is 'the same files' "$(md5sum < ended-whole/config.json) $(ls ended-whole)" "$(md5sum < whole/config.json) $(ls whole)"
is 'with the same values' "$(values ended-whole/model.safetensors | md5sum)" "$(values whole/model.safetensors | md5sum)"
rm -rf away
ok 'with the loss of the run' near "$(loss whole -o precision.plugin=fp32)" "$(loss run)"

# ---- a run of its own model, in which a tensor takes several entries and chunks ----
for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
cat > large.ini <<END
[model]
plugin = gpt2
width = 1040
heads = 2
layers = 1
context = 16
[data]
plugin = text
path = text
[train]
steps = 1
train_batch_size = 2
micro_batch_size = 1
eval_every = 0
[optimizer]
plugin = adamw
lr = 1
[adapter]
plugin = lora
r = 1
targets = c_fc mlp.c_proj
[checkpoint]
every = 1
END
trained large.ini -n 2 > digest
like 'a large tensor: it trains' "$(cat digest)" '^digest'
merge run merged > log
rm -rf run/checkpoints
merge run again > log
is 'a large tensor: a run and a checkpoint are merged to the same' \
	"$(values merged/model.safetensors | md5sum)" "$(values again/model.safetensors | md5sum)"
of() { "$ZEROTH" eval --sequences 2 "$@" -o data.path=text -o data.val_path=text |
	sed -n 's/^  loss *//p'; }
ok 'a large tensor: the merged model has the loss of the adapters' \
	near "$(of run)" "$(of merged -o data.plugin=text)"

# ---- what is refused ----
refused 'another type than fp32 for adapters' '^zeroth: --dtype is for a model: adapters are' \
	"$ZEROTH" checkpoint export --dtype bf16 was out
refused 'adapters of another model' 'targets: no linear map of the model is called c_' \
	merge "$golden/pretrained/llama" out --adapter "$golden/adapters/gpt2"
refused 'adapters that are not there' 'nowhere/adapter_config.json' \
	merge "$golden/pretrained/llama" out --adapter nowhere
sed 's/"LORA"/"lo ra"/' "$golden/adapters/gpt2/adapter_config.json" > files/adapter_config.json
refused 'a kind that is no name' 'adapter_config.json: peft_type names no kind of adapter' \
	merge "$golden/pretrained/gpt2" out --adapter files
sed 's/"LORA"/"IA3"/' "$golden/adapters/gpt2/adapter_config.json" > files/adapter_config.json
refused 'a kind that no plugin knows' 'ia3' merge "$golden/pretrained/gpt2" out --adapter files
sed '/adapter/,$d' peft.ini > whole.ini
trained whole.ini -o model.path="$golden/pretrained/llama" > digest
refused 'a run without adapters' 'there are no adapters in it' merge run out
like '--adapter without --merge' \
	"$("$ZEROTH" checkpoint export --adapter files was out 2>&1 | head -n 1)" \
	'^zeroth checkpoint: --adapter needs --merge'
like '-o without --adapter' \
	"$("$ZEROTH" checkpoint export --merge -o model.store=nf4 was out 2>&1 | head -n 1)" \
	'^zeroth checkpoint: -o is for --adapter'
like '--merge without export' "$("$ZEROTH" checkpoint ls --merge was 2>&1 | head -n 1)" \
	'^zeroth checkpoint: --merge is not for ls but for export$'
mkdir out
like 'a directory that is there' "$("$ZEROTH" checkpoint export was out 2>&1)" \
	'out exists already; choose another directory or remove it'
done_testing
