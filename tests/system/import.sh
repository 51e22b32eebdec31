#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `zeroth config import`: the examples of DeepSpeed's documentation as INI files, which check and
# plan; what is unknown or not possible here; and that every setting has a result. ZR_GOLDEN=1
# writes the golden files anew.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
cp "$src"/tests/golden/import/* .
cp -r "$src/tests/golden/pretrained/gpt2" model
printf '\001\000%.0s' {1..5000} >train.bin
mkdir disk

import() { "$ZEROTH" config import "$@" >out 2>err; echo "$? $(cat err)"; }
# refused NAME JSON PATTERN
refused() {
	printf '%s\n' "$2" >refused.json
	rm -f refused.ini
	like "$1" "$(import -o refused.ini refused.json)" "$3"
	ok "$1: nothing is written" test ! -e refused.ini
}

# made COMMAND...: of the INI that was made
made() { "$ZEROTH" "$@" made.ini -o data.format=uint16 "${played[@]}" 2>&1; }

for json in *.json; do
	name=${json%.json}
	import --device cuda -o "$name.made" "$json" >/dev/null
	if [ -n "$ZR_GOLDEN" ]; then
		cp "$name.made" "$src/tests/golden/import/$name.ini"
		cp err "$src/tests/golden/import/$name.txt"
	fi
	is "$name: the INI" "$(cat "$name.made")" "$(cat "$name.ini")"
	is "$name: what became of each key" "$(cat err)" "$(cat "$name.txt")"
	for device in cpu cuda; do
		played=()
		[ $device = cpu ] || played=(-o device.plugin=cpu -o device.memory=1G)
		import --device $device --model model --data train.bin -o made.ini "$json" >/dev/null
		like "$name: plan for $device" "$(made plan)" '^fits'
	done
done
like 'config check' "$(made config check)" '^made.ini: ok: '
like 'without --model the INI names no model' "$("$ZEROTH" config check warmup.ini 2>&1)" \
	'no \[model\] section'

refused 'an unknown key' '{
  "zero_optimization": { "stage": 2,
    "overlap_com": true } }' \
	'^2 zeroth: refused\.json:3: .*_com: unknown key; did you mean zero_optimization\.overlap_comm\?$'
refused 'what is not here' \
	'{ "zero_optimization": { "stage": 3, "zero_quantized_weights": true } }' \
	': zero_optimization\.zero_quantized_weights: nothing encodes what ranks exchange'
refused 'an option that the optimizer lacks' \
	'{ "optimizer": { "type": "SGD", "params": { "betas": [0.9, 0.99] } } }' \
	'optimizer\.params\.betas: \[optimizer\] plugin = sgd has no betas; take it out$'
refused 'a value out of range' '{ "gradient_clipping": -1 }' ':1: gradient_clipping: .*-1'
refused 'a stage that is none' '{ "zero_optimization": { "stage": 4 } }' \
	'stage: expected 0, 1, 2 or 3$'
refused 'a key given twice' '{ "gradient_clipping": 1, "gradient_clipping": 2 }' \
	'^2 zeroth: refused\.json:1:.*duplicate'
refused 'two names for one thing' '{ "fp16": { "enabled": true }, "bf16": { "enabled": true } }' \
	'would be bf16, and fp16 by fp16\.enabled \(refused\.json:1\); give one of the two$'
refused 'a disk without a path' \
	'{ "zero_optimization": { "stage": 3, "offload_param": { "device": "nvme" } } }' \
	'device: give nvme_path beside it: a directory$'
refused 'all of them at once' '{ "gradient_cliping": 1,
 "sparse_attention": { "mode": "fixed" } }' ':2: sparse_attention\.mode: DeepSpeed has removed it'
refused 'two files that differ' '{ "per_device_train_batch_size": 2,
 "deepspeed": { "train_micro_batch_size_per_gpu": 4 } }' \
	'size: \[train\] micro_batch_size would be 2, and 4 by train_micro_batch_size_per_gpu'
refused 'a share of unknown steps' '{ "num_train_epochs": 1, "warmup_ratio": 0.1 }' \
	':1: warmup_ratio: how many steps that is depends on the data: give warmup_steps'
refused 'an optimizer of transformers that is not here' '{ "max_steps": 9, "optim": "galore_adamw" }' \
	': optim: use adamw_torch, '
printf '{ "zero_optimization": { "stage": 1 } }' >ds.json
printf '{ "max_steps": 9, "deepspeed": "ds.json" }' >arguments.json
mkdir below
mv ds.json arguments.json below
like "DeepSpeed's file lies beside the arguments" "$(import below/arguments.json; cat out)" \
	'^plugin = stage1 ; zero_optimization.stage, line 1$'
refused 'no JSON' '{ "stage": }' '^2 zeroth: refused\.json:1:.*not JSON'
like 'no file' "$(import none.json)" '^2 zeroth: none\.json: '
like '--json without -o' "$(import --json warmup.json)" '^2 zeroth config import: --json needs -o'
if command -v python3 >/dev/null; then
	import --json -o made.ini warmup.json >/dev/null
	is 'every key is in the report' "$(python3 -c 'import json
def leaves(v): return sum(map(leaves, v.values())) if isinstance(v, dict) else 1
r = json.load(open("out"))
print(len(r["keys"]) - leaves(json.load(open("warmup.json"))), 
      {k["result"] for k in r["keys"]} - {"mapped", "partly", "without effect"},
      all(k["why"] for k in r["keys"] if k["result"] != "mapped"))')" '0 set() True'
else
	skip 'every key is in the report' 'no python3'
fi

done_testing
