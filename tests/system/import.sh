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
cp -r "$src/tests/golden/pretrained/llama" llama
cp -r "$src/tests/golden/pretrained/mixtral" mixtral
printf '\001\000%.0s' {1..5000} >train.bin
mkdir disk

import() { "$ZEROTH" config import --force "$@" >out 2>err; echo "$? $(cat err)"; }
# refused NAME JSON PATTERN
refused() {
	printf '%s\n' "$2" >refused.json
	rm -f refused.ini
	like "$1" "$(import -o refused.ini refused.json)" "$3"
	ok "$1: nothing is written" test ! -e refused.ini
}

# made COMMAND...: of the INI that was made
made() { "$ZEROTH" "$@" made.ini -o data.format=uint16 "${played[@]}" 2>&1; }

# Without libyaml Axolotl's files are refused, by name.
printf 'base_model: x\n' >x.yaml
files=$(ls *.json *.yml)
case $(import x.yaml) in
*'built without libyaml'*)
	files=$(ls *.json)
	skip 'YAML' 'no libyaml'
	;;
esac

for json in $files; do
	name=${json%.*}
	model=model
	[ $json != axolotl.yml ] || model=llama
	import --device cuda -o "$name.made" "$json" >/dev/null
	if [ -n "$ZR_GOLDEN" ]; then
		cp "$name.made" "$src/tests/golden/import/$name.ini"
		cp err "$src/tests/golden/import/$name.txt"
	fi
	is "$name: the INI" "$(cat "$name.made")" "$(cat "$name.ini")"
	is "$name: what became of each key" "$(cat err)" "$(cat "$name.txt")"
	devices='cpu cuda'
	[ -z "$ZR_SANITIZE" ] || [ $name = stage3-disk ] || devices= # each plan takes seconds there
	for device in $devices; do
		played=()
		[ $device = cpu ] || played=(-o device.plugin=cpu -o device.memory=1G)
		import --device $device --model $model --data train.bin -o made.ini "$json" \
			>/dev/null
		like "$name: plan for $device" "$(made plan)" '^fits'
	done
done
like 'config check' "$(made config check)" '^made.ini: ok: '
like 'without --model the INI names no model' "$("$ZEROTH" config check warmup.ini 2>&1)" \
	'no \[model\] section'

refused 'an unknown key' '{
  "zero_optimization": { "stage": 2,
    "overlap_com": true } }' \
	'^2 zeroth: refused\.json:3: .*_com: unknown key; did you mean .*\.overlap_comm\?$'
refused 'what is not here' \
	'{ "zero_optimization": { "stage": 3, "zero_quantized_weights": true } }' \
	': zero_optimization\.zero_quantized_weights: its codes are not here; set it to false, and give \[train\] gather_data_type = mxint8'
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
cycle='"type": "OneCycle", "params": { "cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3'
refused 'betas that move' "{ \"scheduler\": { $cycle, \"cycle_momentum\": true } } }" \
	'scheduler\.params\.cycle_momentum: betas stay as they are; set it to false$'
refused 'betas that move by default' "{ \"scheduler\": { $cycle } } }" \
	'scheduler\.type: OneCycle moves betas by default, .*; set cycle_momentum to false$'
refused 'all of them at once' '{ "gradient_cliping": 1,
 "sparse_attention": { "mode": "fixed" } }' ':2: sparse_attention\.mode: DeepSpeed has removed it'
refused 'two files that differ' '{ "per_device_train_batch_size": 2,
 "deepspeed": { "train_micro_batch_size_per_gpu": 4 } }' \
	'size: \[train\] micro_batch_size would be 2, and 4 by train_micro_batch_size_per_gpu'
refused 'a share of unknown steps for a schedule of DeepSpeed' '{ "num_train_epochs": 1,
 "warmup_ratio": 0.1, "deepspeed": { "scheduler": { "type": "WarmupLR",
 "params": { "warmup_num_steps": "auto" } } } }' \
	':2: warmup_ratio: how many steps that is depends on the data, and a schedule of DeepSpeed'
for schedule in greedy reduce_lr_on_plateau; do
	refused "$schedule" "{ \"max_steps\": 9, \"lr_scheduler_type\": \"$schedule\" }" \
		':1: lr_scheduler_type: it follows measured losses; no schedule here does$'
done
refused 'a schedule that needs more' '{ "max_steps": 9, "lr_scheduler_type": "warmup_stable_decay" }' \
	':1: lr_scheduler_type: transformers asks for num_decay_steps in lr_scheduler_kwargs$'
refused 'what the schedule is not given' '{ "max_steps": 9, "lr_scheduler_type": "linear",
 "lr_scheduler_kwargs": { "power": 2 } }' 'plugin = linear has no power'
refused 'an optimizer of transformers that is not here' \
	'{ "max_steps": 9, "optim": "galore_adamw" }' \
	': optim: there is no such optimizer here: AdamW '
printf '%s\n' '{ "max_steps": 9, "optim": "adamw_torch", "deepspeed": { "zero_optimization": {
 "stage": 2, "offload_optimizer": { "device": "cpu" } } } }' >offloaded.json
like 'what is offloaded is updated by the processor' \
	"$(import --device cuda offloaded.json; cat out)" '^plugin = cpu_adam ; optim, line 1$'
# An optimizer that accelerate would not use there is taken as it is given, and the difference told.
replaced() { # replaced OPTIM KEY...
	printf '{ "max_steps": 9, "optim": "%s", "deepspeed": { %s"zero_optimization": {
 "stage": 2, "offload_optimizer": { "device": "cpu" } } } }\n' "$1" "$2" >offloaded.json
	import --device cuda offloaded.json | grep -c 'optim: accelerate replaces it, beside offload_optimizer, by DeepSpeedCPUAdam with fp32'
	grep -A 2 '^\[optimizer\]' out | sed 's/ ;.*//' | tr '\n' ' '
}
is '8-bit states that are offloaded' "$(replaced adamw_bnb_8bit)" '1
[optimizer] plugin = cpu_adam states = 8bit '
is 'sgd that is offloaded' "$(replaced sgd | head -n 1)" 1
is '... which accelerate may be told to keep' "$(replaced sgd '"zero_force_ds_cpu_optimizer": false, ' | head -n 1)" 0
is 'what is replaced by the same is not told of' "$(replaced paged_adamw_32bit | head -n 1)" 0
# ---- ranks that share a sequence ----
refused 'three ranks of a sequence' '{ "sequence_parallel_size": 3 }' \
	'sequence_parallel_size: a power of two of ranks shares a sequence here$'
refused 'another way to choose experts' '{ "expert_parallel": { "enabled": true, "autoep_size": 2, "top_k": 3 } }' \
	'expert_parallel\.top_k: config.json says how tokens choose experts, and nothing changes it$'
refused 'parts of layers' '{ "max_steps": 9, "parallelism_config": { "tp_size": 2 } }' \
	'parallelism_config\.tp_size: layers are not split over ranks; '
refused 'a length that no ranks can share' '{ "max_steps": 9, "max_length": 1001, "parallelism_config": { "cp_size": 2 } }' \
	'cp_size: sequences of 1001 tokens are not cut into 2 parts of equal length; give them a multiple of it$'
# shares JSON: how a sequence is shared, and what a batch is
shares() {
	printf '%s\n' "$1" >shared.json
	import --device cpu shared.json >shared.out
	sed -n 's/^\(slices\|sequence_ranks\|micro_batch_size\|gradient_acc.*_steps\|train_batch_size\|communication.*\) = \([^ ]*\).*/\1 \2/p' out |
		sort | tr '\n' ' '
}
is "DeepSpeed's Ulysses" "$(shares '{ "sequence_parallel_size": 4, "train_micro_batch_size_per_gpu": 1 }')" \
	'communication_data_type fp32 micro_batch_size 1 sequence_ranks 4 slices 8 '
is '... of several sequences' "$(shares '{ "sequence_parallel_size": 2, "train_micro_batch_size_per_gpu": 2,
 "gradient_accumulation_steps": 3, "seq_parallel_communication_data_type": "bf16", "communication_data_type": "fp16" }')" \
	'communication_data_type bf16 gradient_accumulation_steps 6 micro_batch_size 1 sequence_ranks 2 slices 4 '
like '... says so' "$(cat shared.out)" \
	'shared\.json:1: sequence_parallel_size: a micro-batch is one sequence, and a step has as many more$'
is '... of a batch' "$(shares '{ "sequence_parallel_size": 2, "train_batch_size": 32, "gradient_accumulation_steps": 4 }')" \
	'communication_data_type fp32 micro_batch_size 1 sequence_ranks 2 slices 4 train_batch_size 32 '
shares '{ "sequence_parallel_size": 2, "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4 }' \
	>shared.lines
like '... of three sizes, which fix the ranks' "$(cat shared.out)" 'train_batch_size: it is that with `-n 8`$'
is 'of one rank' "$(shares '{ "sequence_parallel_size": 1, "train_micro_batch_size_per_gpu": 2,
 "seq_parallel_communication_data_type": "bf16" }')" 'micro_batch_size 2 '
is 'of training arguments, with their length' "$(shares '{ "max_steps": 9, "max_length": 1002, "per_device_train_batch_size": 1,
 "parallelism_config": { "cp_size": 2, "cp_backend": "torch", "dp_shard_size": 2, "tp_size": 1 } }')" \
	'micro_batch_size 1 sequence_ranks 2 slices 2 '
is '... and DeepSpeed' "$(shares '{ "max_steps": 9, "per_device_train_batch_size": 1, "parallelism_config": { "sp_size": 2 },
 "deepspeed": { "zero_optimization": { "stage": 3 }, "communication_data_type": "bf16" } }')" \
	'communication_data_type fp32 micro_batch_size 1 sequence_ranks 2 slices 4 '
like 'AutoEP of one rank' "$(printf '{ "expert_parallel": { "enabled": true } }' >shared.json; import shared.json)" \
	'expert_parallel\.enabled: expert_ranks says it$'
experts() { printf '%s\n' "$1" >shared.json; import --device cpu shared.json 2>&1; grep '^expert_ranks' out; }
like 'AutoEP of two ranks' "$(experts '{ "expert_parallel": { "enabled": true, "autoep_size": 2, "comm_backend": "comm" } }')" \
	'^expert_ranks = 2 '
like 'AutoEP that is off' "$(experts '{ "expert_parallel": { "enabled": false, "autoep_size": 2 } }')" \
	'autoep_size: expert_parallel.enabled is off'

# without NAME JSON PATTERN: imported, and a key has no effect
without() {
	printf '%s\n' "$2" >without.json
	like "$1" "$(import without.json)" "$3"
}
without 'a warm-up that the schedule lacks' \
	'{ "max_steps": 9, "lr_scheduler_type": "constant", "warmup_steps": 3 }' \
	'warmup_steps: the schedule has no warm-up$'
without 'two warm-ups' '{ "max_steps": 9, "warmup_ratio": 0.5, "warmup_steps": 3 }' \
	'warmup_ratio: the other of the two counts$'
without "a warm-up beside DeepSpeed's" \
	'{ "max_steps": 9, "warmup_steps": 3, "deepspeed": { "scheduler":
 { "type": "WarmupLR", "params": { "warmup_num_steps": 4 } } } }' \
	'warmup_steps: DeepSpeed.s configuration says how long$'
without "DeepSpeed's interval of messages beside that of transformers" \
	'{ "max_steps": 9, "logging_steps": 10, "deepspeed": { "steps_per_print": 2000 } }' \
	'steps_per_print: logging_steps says it: transformers turns this off$'
is 'the latter counts' "$(grep ^log_every out)" 'log_every = 10 ; logging_steps, line 1'
without "a norm that does not reach DeepSpeed" \
	'{ "max_steps": 9, "max_grad_norm": 0.5, "deepspeed": { "train_batch_size": "auto" } }' \
	'max_grad_norm: DeepSpeed clips, by its default: give it "gradient_clipping": "auto"$'
clips="gradient_clipping = 1 ; DeepSpeed's default since 0.19.3; 0 (off) before"
is 'which clips nevertheless' "$(grep ^gradient_clipping out)" "$clips"
printf '{ "train_batch_size": 8 }' >bare.json
import bare.json >/dev/null
is 'and so it does where no arguments are' "$(grep ^gradient_clipping out)" "$clips"
printf '%s\n' '{ "max_steps": 9, "max_grad_norm": 0.5,
 "deepspeed": { "gradient_clipping": "auto" } }' >auto.json
import auto.json >/dev/null
is 'a norm that reaches DeepSpeed' "$(grep ^gradient_clipping out)" \
	'gradient_clipping = 0.5 ; max_grad_norm, line 1'
# has NAME JSON LINE...: imported, and the INI has these lines, comments aside
has() {
	local name=$1 line
	printf '%s\n' "$2" >has.json
	shift 2
	ok "$name" "$ZEROTH" config import --force -o has.ini --device cuda has.json
	for line; do
		like "$name: $line" "$(sed 's/ ;.*//' has.ini)" "^$line\$"
	done
}
has 'a share of unknown steps' '{ "num_train_epochs": 1, "warmup_ratio": 0.1 }' \
	'plugin = linear' 'warmup_ratio = 0\.1'
is 'which transformers rounds up' "$(grep -c rounding has.ini)" 0
has 'shards that offload' '{ "max_steps": 3, "fsdp": "full_shard offload" }' 'plugin = stage3'
is '... parameters and states' "$(sed 's/ ;.*//' has.ini | grep -A1 '^\[offload' | tr '\n' ' ')" \
	'[offload.optimizer] plugin = cpu -- [offload.param] plugin = cpu '
has 'shards of gradients that offload' '{ "max_steps": 3, "fsdp": "shard_grad_op offload" }' 'plugin = stage2'
is '... states alone' "$(grep -c '^\[offload' has.ini)" 1
has 'the same for a schedule of DeepSpeed' '{ "max_steps": 100, "warmup_ratio": 0.07,
 "deepspeed": { "scheduler": { "type": "WarmupLR", "params": { "warmup_num_steps": "auto" } } } }' 'warmup_num_steps = 8'
has 'a share as version 5 writes it' '{ "max_steps": 100, "warmup_steps": 0.07 }' 'warmup_ratio = 0\.07'
is '... of 100 updates is 8' "$("$ZEROTH" schedule has.ini -o device.plugin=cpu -o model.path=model \
	-o data.plugin=tokens -o data.path=train.bin |
	awk -F, '$2 == 5e-05 { print $1; exit }')" 8
for schedule in linear cosine cosine_with_restarts polynomial constant_with_warmup inverse_sqrt; do
	has "transformers' $schedule" "{ \"max_steps\": 9, \"lr_scheduler_type\": \"$schedule\" }" \
		"plugin = $schedule" 'warmup_num_steps = 0'
done
has "transformers' warmup_stable_decay" '{ "max_steps": 9, "warmup_steps": 2,
 "lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": { "num_decay_steps": 3,
 "decay_type": "1-sqrt", "min_lr_ratio": 0.1 } }' 'plugin = warmup_stable_decay' \
	'num_decay_steps = 3' 'decay_type = 1-sqrt' 'min_lr_rate = 0\.1' 'warmup_num_steps = 2'
has 'a polynomial' '{ "max_steps": 9, "lr_scheduler_type": "polynomial",
 "lr_scheduler_kwargs": { "power": 2, "lr_end": 1e-6 } }' 'power = 2' 'lr_end = 1e-06'
schedule() { printf '{ "scheduler": { "type": "%s", "params": { "total_num_steps": 9 } } }' $1; }
has "WarmupLR's default" "$(schedule WarmupLR | sed 's/"total_num_steps": 9//')" \
	'warmup_max_lr = auto'
has "WarmupDecayLR's default" "$(schedule WarmupDecayLR)" 'warmup_max_lr = 0\.001'
has "LRRangeTest's default" '{ "scheduler": { "type": "LRRangeTest" } }' \
	'lr_range_test_min_lr = 0\.001'
has "Lion's defaults" '{ "optimizer": { "type": "Lion" } }' 'lr = 0\.001' 'betas = 0\.9, 0\.999'
has "torch's AdamW" '{ "optimizer": { "type": "Adam", "params": { "torch_adam": true } } }' \
	'weight_decay = 0\.01'
# Muon has the matrices of a model but those of the vocabulary, which --model tells; AdamW has the rest.
muon() { printf '{ "gradient_clipping": %s, "optimizer": { "type": "Muon", "params": { %s } } }\n' "$1" "$2"; }
refused 'steps of Muon that are clipped' "$(muon 1 '"lr": 0.01')" 'optimizer\.type: DeepSpeed clips the steps of Muon, .*: 0$'
refused '... by default' '{ "optimizer": { "type": "Muon" } }' 'optimizer\.type: DeepSpeed clips the steps of Muon, .*: 0$'
refused "Muon's matrices without a model" "$(muon 0 '"lr": 0.01')" 'optimizer\.type: import with --model DIR'
refused 'Muon beside training arguments' "{ \"max_steps\": 9, \"deepspeed\": $(muon 0 '"lr": 0.01') }" \
	'optimizer\.type: beside training arguments use AdamW, and add \[optimizer\.NAME\]'
muon 0 '"lr": 0.01, "per_head_muon": true' >muon.json
like "Muon's heads" "$(import --model llama -o muon.ini muon.json)" \
	'optimizer\.params\.per_head_muon: set it to false, and give \[optimizer\.NAME\] match and head_rows'
muon 0 '"lr": 0.01, "ns_method": "cubic"' >muon.json
like "no method of Muon" "$(import --model llama -o muon.ini muon.json)" 'ns_method: expected gram or standard$'
muon 0 '"lr": 0.01' >muon.json
like 'experts, which are one parameter there' "$(import --model mixtral -o muon.ini muon.json)" \
	'optimizer\.type: transformers 5 has one parameter for .*\.experts\.'
# groups JSON MODEL: the lines of the two groups, comments aside
groups() {
	printf '%s\n' "$1" >muon.json
	import --device cpu --model "$2" -o muon.ini muon.json >/dev/null
	sed -n '/^\[optimizer/,/^;\[data/p' muon.ini | sed 's/ ;.*//; /^;/d; /^$/d'
}
is "Muon's defaults" "$(groups "$(muon 0 '"lr": 0.01')" model)" "[optimizer]
plugin = adamw
lr = 0.01
betas = 0.9, 0.95
eps = 1e-10
weight_decay = 0
[optimizer.matrices]
plugin = muon
match = wte.weight wpe.weight h.*.attn.c_attn.weight h.*.attn.c_proj.weight h.*.mlp.c_fc.weight h.*.mlp.c_proj.weight
lr = 0.01
method = gram"
is "Muon's keys" "$(groups "$(muon 0 '"lr": 0.01, "muon_lr": 0.02, "adam_lr": 0.003, "momentum": 0.9, "betas": [0.8, 0.9],
 "eps": 1e-6, "weight_decay": 0.1, "ns_method": "standard", "per_head_muon": false, "adam_w_mode": false')" llama)" "[optimizer]
plugin = adam
lr = 0.003
betas = 0.8, 0.9
eps = 1e-06
weight_decay = 0.1
[optimizer.matrices]
plugin = muon
match = model.layers.*.self_attn.* model.layers.*.mlp.*
lr = 0.02
momentum = 0.9
weight_decay = 0.1
method = direct"
like 'which says where it differs' "$(cat err)" 'optimizer\.type: Muon iterates in fp32; DeepSpeed in 16 bits where it can'
like 'and which plans' "$("$ZEROTH" plan muon.ini -o data.plugin=tokens -o data.format=uint16 -o data.path=train.bin)" \
	'optimizer\.matrices: muon, 14 tensors, 3840 parameters'
has 'comments, and what DeepSpeed does not read' '{ "_comment": "x", "train_batch_size": 8,
 "zero_optimization": { "stage": 1, "_comment_2": 1 }, "monitor_config": { "enabled": true },
 "comms_config": { "verbose": true } }' 'plugin = stage1'
has "TRL's arguments" '{ "max_steps": 9, "max_length": 64, "packing": false, "loss_type": "nll",
 "truncation_mode": "keep_start", "shuffle_dataset": false, "dataset_num_proc": 4 }' \
	'sequence_length = 64'
for what in assistant completion; do
	printf '{ "max_steps": 9, "%s_only_loss": true }' $what >trl.json
	is "TRL's mask of the $what" "$("$ZEROTH" config import --data rows.jsonl trl.json 2>/dev/null | sed -n 's/ ;.*//; /^train_on\|^mask/p' | xargs)" \
		"train_on = $what mask = trl"
done
refused 'a loss of TRL that is not here' '{ "max_steps": 9, "loss_type": "dft" }' \
	'loss_type: all targets have one weight$'
fp16='"fp16": { "enabled": true, "loss_scale"'
stage='"zero_optimization": { "stage"'
has 'a fixed scale' "{ $fp16: 128 }, $stage: 1 } }" 'on_nonfinite = skip'
has "torch's GradScaler" '{ "per_device_train_batch_size": 2, "learning_rate": 1e-4, "fp16": true }' \
	'plugin = fp16' 'loss_scale_window = 2000' 'hysteresis = 1' 'on_nonfinite = skip'
has 'a dynamic scale' "{ $fp16: 0, \"hysteresis\": 3 }, $stage: 1 } }" 'hysteresis = 3'
is 'at its floor the run ends' "$(grep -c on_nonfinite has.ini)" 0
has 'a dynamic scale of stage 0' "{ $fp16: 0, \"hysteresis\": 3 } }" 'on_nonfinite = skip' \
	'hysteresis = 1'
has 'bf16 in stage 2' "{ \"bf16\": { \"enabled\": true }, $stage: 2 } }" 'on_nonfinite = skip'
has 'bf16 in stage 3' "{ \"bf16\": { \"enabled\": true }, $stage: 3 } }" 'plugin = bf16'
is 'where nothing looks for it' "$(grep -c on_nonfinite has.ini)" 0
arguments='"max_steps": 9, "learning_rate": 1e-5, "weight_decay": 0.2, "adam_beta1": 0.8,
 "adam_epsilon": 1e-6, "warmup_steps": 3'
has "DeepSpeed's defaults beside arguments" "{ $arguments, \"deepspeed\": {
 \"optimizer\": { \"type\": \"AdamW\" }, \"scheduler\": { \"type\": \"WarmupLR\" } } }" \
	'lr = 0\.001' 'warmup_num_steps = 1000'
is 'nothing else counts there' "$(grep -cE '^(weight_decay|betas|eps) ' has.ini)" 0
has 'arguments where DeepSpeed has auto' "{ $arguments, \"deepspeed\": { \"optimizer\":
 { \"type\": \"AdamW\", \"params\": { \"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\",
 \"weight_decay\": \"auto\" } } } }" 'lr = 1e-05' 'betas = 0\.8, 0\.999' 'eps = 1e-06' \
	'weight_decay = 0\.2'
has 'auto of the schedule alone' "{ $arguments, \"deepspeed\": { \"optimizer\":
 { \"type\": \"AdamW\" }, \"scheduler\": { \"type\": \"WarmupLR\", \"params\":
 { \"warmup_max_lr\": \"auto\" } } } }" 'warmup_max_lr = 1e-05'
has '... and the rate that transformers has by default' '{ "max_steps": 9, "deepspeed": { "optimizer":
 { "type": "AdamW" }, "scheduler": { "type": "WarmupLR", "params":
 { "warmup_max_lr": "auto" } } } }' 'lr = 0\.001' 'warmup_max_lr = 5e-5'
without 'betas that the optimizer lacks' '{ "max_steps": 9, "optim": "sgd", "adam_beta1": 0.8 }' \
	'adam_beta1: the optimizer has none$'
for momentum in '' ', "cycle_momentum": true' ', "cycle_momentum": false'; do
	printf '%s\n' "{ \"optimizer\": { \"type\": \"SGD\" }, \"scheduler\": { $cycle$momentum } } }" \
		>cycle.json
	like "OneCycle without betas to move$momentum" "$(import cycle.json; cat out)" \
		'^plugin = one_cycle ; scheduler.type, line 1$'
done
without 'a sub-block that is off' '{ "zero_optimization": { "stage": 2,
 "offload_optimizer": { "device": "none", "pin_memory": true } } }' ':2: .*pin_memory: '
printf '{ "zero_optimization": { "stage": 1 } }' >ds.json
printf '{ "max_steps": 9, "deepspeed": "ds.json" }' >arguments.json
mkdir below
mv ds.json arguments.json below
like "DeepSpeed's file lies beside the arguments" "$(import below/arguments.json; cat out)" \
	'^plugin = stage1 ; zero_optimization.stage, line 1$'
if [ -e axolotl.made ]; then
	mv refused.json other.json
	yaml() { # yaml NAME TEXT PATTERN
		printf '%b' "$2" >refused.yml
		like "$1" "$(import refused.yml)" "$3"
	}
	yaml 'YAML: an unknown key' 'base_model: x\nmicro_batch_size: 1\nlora_rr: 8\n' \
		'^2 zeroth: refused\.yml:3: lora_rr: unknown key; did you mean lora_r\?$'
	yaml 'YAML: an adapter that is off' 'micro_batch_size: 1\nadapter:\nlora_r: 8\n' \
		'lora_r: nothing asks for \[adapter\]$'
	yaml 'YAML: what is not here' 'micro_batch_size: 1\nmax_steps: 3\nrl: dpo\n' \
		':3: rl: only the likelihood of targets is trained'
	yaml 'YAML: a key given twice' 'max_steps: 1\nmax_steps: 2\n' ':2: a key given twice$'
	yaml 'YAML: none' 'a: [1, 2\n' '^2 zeroth: refused\.yml:[0-9]+: not YAML: '
	# of NAME TEXT LINE...: Axolotl's file is imported, and the INI has these lines
	of() {
		local name=$1 line
		printf 'base_model: x\nmicro_batch_size: 1\n%b' "$2" >of.yml
		shift 2
		ok "Axolotl: $name" "$ZEROTH" config import --force -o of.ini --device cuda of.yml
		for line; do
			like "Axolotl: $name: $line" "$(sed 's/ ;.*//' of.ini)" "^$line\$"
		done
	}
	of 'a warm-up by default' 'num_epochs: 1\n' 'plugin = cosine' 'warmup_ratio = 0\.03' \
		'warmup_rounding = down' 'warmup_least_steps = 2' 'warmup_most_steps = 100'
	of 'a share rounds down' 'warmup_ratio: 0.1\n' 'warmup_ratio = 0\.1' 'warmup_rounding = down' \
		'warmup_least_steps = 2'
	is 'Axolotl: ... and has no limit' "$(grep -c most of.ini)" 0
	of "a share as transformers' steps rounds up" 'warmup_steps: 0.1\n' 'warmup_ratio = 0\.1'
	is 'Axolotl: ... as transformers' "$(grep -cE 'rounding|least|most' of.ini)" 0
	of '1 becomes 2' 'warmup_steps: 1\n' 'warmup_num_steps = 2'
	of '0 stays 0' 'warmup_steps: 0\n' 'warmup_num_steps = 0'
	of 'a cosine to a minimum' 'lr_scheduler: cosine\ncosine_min_lr_ratio: 0.1\n' \
		'plugin = cosine_with_min_lr' 'min_lr_rate = 0\.1'
	of '... reached earlier' 'cosine_min_lr_ratio: 0.1\ncosine_constant_lr_ratio: 0.8\n' \
		'plugin = cosine_with_min_lr' 'min_lr_rate = 0\.1' 'constant_lr_ratio = 0\.8'
	of '... not without a minimum' 'cosine_constant_lr_ratio: 0.8\n' 'plugin = cosine'
	of 'a quadratic warm-up' 'lr_quadratic_warmup: true\n' 'plugin = cosine' \
		'quadratic_warmup = yes'
	sets='datasets:\n  - path: rows.jsonl\n    type: chat_template\n'
	of 'a data set' "${sets}sequence_len: 64\n" 'plugin = chat' 'path = rows\.jsonl' 'tokenizer = x' \
		'packing = none' 'max_length = 64' 'on_long = drop' 'train_on = assistant'
	of 'names of fields' "$sets    field_messages: conversations
    message_property_mappings:\n      role: from\n      content: value\n" \
		'fields = messages=conversations role=from content=value'
	of 'a template' "${sets}chat_template: gemma3\neot_tokens: ['<end_of_turn>']\n" 'template = gemma3'
	of 'its own template' "$sets    chat_template: qwen_25\nchat_template: gemma3\n" 'template = qwen2\.5'
	of 'a template of Jinja' "${sets}chat_template: jinja\nchat_template_jinja: own.jinja\n" 'template = own\.jinja'
	of "Alpaca's rows" 'datasets:\n  - path: rows.jsonl\n    type: alpaca\ntrain_on_inputs: true\n' \
		'template = alpaca-input' 'train_on = all'
	of 'texts' 'datasets:\n  - path: rows.jsonl\n    type: completion\n    field: story\n' \
		'plugin = chat' 'fields = text=story'
	is 'Axolotl: ... which are cut where a sequence is full' "$(grep -c max_length of.ini)" 0
	of 'tokens' "${sets}special_tokens:\n  eos_token: </s>\n  pad_token: <pad>\n" 'eos = </s>'
	of 'experts' 'adapter: qlora\nload_in_4bit: true\nquantize_moe_experts: true\n' 'store = nf4'
	of 'all linear maps, and some by name' \
		'adapter: lora\nlora_target_linear: true\nlora_target_modules: [q_proj, gate_proj]\n' \
		'targets = all-linear'
	of 'layers of adapters' \
		"adapter: lora\nlora_target_modules: [q_proj]\npeft_layers_to_transform: [0, 2]
peft_layers_pattern: [h, layers]\npeft_ensure_weight_tying: true\n" \
		'layers_to_transform = 0 2' 'layers_pattern = h layers' 'ensure_weight_tying = yes'
	of 'outputs in host memory' 'gradient_checkpointing: true\nactivation_offloading: true\n' \
		'plugin = recompute' 'outputs = offload'
	of 'a number with underscores' 'sequence_len: 500_000\n' 'sequence_length = 500000'
	of 'a batch' 'batch_size: 8\n' 'gradient_accumulation_steps = 8'
	no() { # no NAME TEXT PATTERN: refused by name
		yaml "Axolotl: $1" "base_model: x\nmicro_batch_size: 1\nmax_steps: 3\n$2" "$3"
	}
	no 'a list of objects is not off' 'lr_groups:\n  - name: a\n    modules: [q]\n    lr: 1e-5\n' \
		':5: lr_groups\[0\]\.name: give \[optimizer\.NAME\] match and lr$'
	no 'texts that stream' 'pretraining_dataset:\n  - path: c4\n' \
		':5: pretraining_dataset\[0\]\.path: texts that stream are not read'
	no 'data to validate on that is not here' 'test_datasets:\n  - path: hub/set\n' \
		':5: test_datasets\[0\]\.path: nothing is downloaded: .* give \[data\] val_path$'
	no 'data to validate on of another form' "${sets}test_datasets:\n  - path: other.jsonl\n    type: alpaca\n" \
		':9: test_datasets\[0\]\.type: \[data\] val_path is read as path is: give both the same$'
	no 'a key of a data set' "${sets}    no_such_key: 1\n" ':7: datasets\[0\]\.no_such_key: no data set has it here$'
	no 'rows of another kind' 'datasets:\n  - path: a\n    type: jeopardy\n' \
		':6: datasets\[0\]\.type: rows of this form are not read'
	no 'two names of a field' \
		"${sets}    field_messages: dialog\n  - path: rows.jsonl\n    type: chat_template\n    field_messages: talk\n" \
		':10: datasets\[1\]\.field_messages: another name than that of a data set before'
	no 'another template' "${sets}chat_template: qwen3\n" ':7: chat_template: no template here renders like it'
	no 'a template as a text' "${sets}chat_template_jinja: '{{ x }}'\n" \
		'chat_template_jinja: a chat template of Jinja is read from a file NAME\.jinja, which'
	no 'other roles' "$sets    roles_to_train: [user]\n" 'roles_to_train: of roles, what the assistant says'
	no 'other ends' "$sets    train_on_eos: all\n" 'train_on_eos: the end of each learned turn is learned'
	no 'another end of turns' "${sets}chat_template: gemma3\neot_tokens: [x]\n" 'eot_tokens: what ends a turn'
	no 'what all roles say' "${sets}train_on_inputs: true\n" ':6: .*with train_on_inputs Axolotl learns'
	no 'what is too long is cut' "${sets}excess_length_strategy: truncate\n" 'excess_length_strategy: a conver'
	no 'images' 'processor_type: AutoProcessor\n' ':4: processor_type: images and sounds are not read$'
	no 'a head beside all linear maps' \
		'adapter: lora\nlora_target_linear: true\nlora_target_modules: [lm_head]\n' 'lm_head beside lora_target_linear'
	no "the routers' loss" 'model_config:\n  output_router_logits: true\n' \
		'output_router_logits: import with --model DIR'
	# unfrozen NAME MODEL PATTERN EXPRESSION...: what is imported, or why it is not
	unfrozen() {
		local got
		printf '%s\n' 'base_model: x' 'micro_batch_size: 1' 'max_steps: 3' 'unfrozen_parameters:' >of.yml
		printf "  - '%s'\n" "${@:4}" >>of.yml
		rm -f of.ini
		got=$(import -o of.ini --device cpu --model "$2" --data train.bin of.yml | grep 'unfrozen_parameters')
		[ ! -e of.ini ] || got+=$(sed -n 's/^freeze = //; T; s/ ;.*//p' of.ini)
		like "Axolotl: unfrozen_parameters: $1" "$got" "$3"
	}
	layer='model.layers.1.'
	unfrozen 'expressions' llama '' lm_head
	if grep -q 'needs PCRE2' err; then
		skip 'Axolotl: unfrozen_parameters' 'no PCRE2'
	else
		unfrozen 'of the second layer' llama '\* !model\.layers\.1\.\* !lm_head\.weight' '^lm_head.weight$' model.layers.1
		like '... and nothing else learns' "$("$ZEROTH" plan of.ini -o data.format=uint16 2>&1)" '^frozen: 11 tensors'
		unfrozen 'a map of each layer' llama '\* !model\.layers\.\*\.mlp\.up_proj\.weight$' 'model.layers.[0-9]+.mlp.up_proj'
		unfrozen 'a map of one layer' llama "\* !${layer//./\\.}mlp\.up_proj\.weight$" 'model.layers.[1-9]+.mlp.(up|side)_proj'
		unfrozen 'begins at the start' llama 'no parameter of llama has a name that begins so$' 'layers.1' 'up_proj'
		unfrozen 'a dot is no other character' llama 'no parameter of llama' 'model_layers' 'model.layers.1.mlp.*proj' 'model\.layers'
		unfrozen 'but before a +' llama '\* !model\.layers\.1\.\*$' 'model.+1.'
		unfrozen 'all' llama 'it names all parameters' '.+weight'
		unfrozen 'rows' llama 'embed_tokens\.weight\$\[:32000\]: tensors are trained whole: without rows of them$' \
			'^lm_head.weight$' '^model.embed_tokens.weight$[:32000]'
		unfrozen 'one row' llama 'weight\[7\]: tensors are trained whole' 'lm_head.weight[7]'
		unfrozen 'an expression that is not here' llama '\(\?P<a>lm_head\): .*of the groups only' '(?P<a>lm_head)'
		unfrozen 'a set in a set' llama 'a \[ in a set is not supported$' 'lm_head[a[.]weight'
		unfrozen 'as PyTorch names them' model '\* !h\.0\.\* !ln_f\.\*$' 'transformer.h.0.' 'transformer.ln_f' 'h.1'
		unfrozen 'a name of transformers 4 alone' mixtral \
			'it fits one of model\.layers\.0\.block_sparse_moe\.gate\.weight, .*, and model\.layers\.0\.mlp\.gate\.weight' \
			'model.layers.[0-9]+.block_sparse_moe.gate'
		unfrozen 'and all of a layer' mixtral '\* !model\.layers\.1\.\*$' 'model.layers.1.'
		unfrozen 'no model' llama/none 'llama/none' 'lm_head'
	fi
	no 'parameters that are not frozen' 'unfrozen_parameters: [lm_head]\n' 'unfrozen_parameters: import with --model DIR'
	no 'and an adapter' 'adapter: lora\nunfrozen_parameters: [lm_head]\n' 'with an adapter that alone is trained'
	no 'a plugin' 'plugins: [axolotl.integrations.kd.KDPlugin]\n' 'KDPlugin: there is no such plugin here$'
	no 'states of 4 bits' 'optimizer: adamw_torch_4bit\n' 'optimizer: there is no such optimizer here'
	# of_yaml LINE...: how Axolotl's ranks share a sequence
	of_yaml() {
		printf '%s\n' 'base_model: x' 'max_steps: 3' "$@" >of.yml
		import -o of.ini --device cpu of.yml >shared.out
		sed -n 's/^\(slices\|sequence_ranks\|micro_batch_size\) = \([^ ]*\).*/\1 \2/p' of.ini | sort | tr '\n' ' '
	}
	is 'Axolotl: ranks that share a sequence' "$(of_yaml 'micro_batch_size: 1' 'context_parallel_size: 4' 'sequence_len: 8192')" \
		'micro_batch_size 1 sequence_ranks 4 slices 8 '
	is '... by their older name' "$(of_yaml 'micro_batch_size: 2' 'sequence_parallel_degree: 2')" \
		'micro_batch_size 1 sequence_ranks 2 slices 4 '
	is '... by both' "$(of_yaml 'micro_batch_size: 1' 'sequence_parallel_degree: 2' 'context_parallel_size: 4')" \
		'micro_batch_size 1 sequence_ranks 4 slices 8 '
	is 'Axolotl: one rank' "$(of_yaml 'micro_batch_size: 2' 'context_parallel_size: 1')" 'micro_batch_size 2 '
	yaml 'Axolotl: two warm-ups' 'base_model: x\nwarmup_steps: 3\nwarmup_ratio: 0.5\n' \
		':3: warmup_ratio: Axolotl takes no warmup_steps beside it'
	yaml 'Axolotl: a schedule that is not here' 'max_steps: 3\nlr_scheduler: rex\n' \
		':2: lr_scheduler: there is no such schedule here$'
	printf '%s\n' 'model_name_or_path: model' 'stage: sft' 'do_train: true' 'finetuning_type: lora' \
		'lora_rank: 4' 'lora_target: all' 'dataset: identity' 'template: llama3' 'cutoff_len: 16' \
		'learning_rate: 1.0e-4' 'num_train_epochs: 3.0' 'warmup_ratio: 0.1' 'plot_loss: true' >of.yml
	ok "LLaMA-Factory's YAML" "$ZEROTH" config import --force -o of.ini --device cuda --data train.bin of.yml
	for line in 'alpha = 8' 'targets = all-linear' 'sequence_length = 16' 'warmup_ratio = 0\.1'; do
		like "LLaMA-Factory: $line" "$(sed 's/ ;.*//' of.ini)" "^$line\$"
	done
	sed -i '/finetuning_type/d' of.yml
	ok '... without a type of tuning' "$ZEROTH" config import --force -o of.ini --device cuda --data train.bin of.yml
	like '... it is LoRA' "$(cat of.ini)" "^plugin = lora ; LLaMA-Factory's default\$"
	for template in 'llama3 keeps the blanks' 'qwen learns the line end behind each answer, and tokenizes' 'mistral puts the system message before the first' 'nanbeige ^'; do
		sed -i "s/^template:.*/template: ${template%% *}/" of.yml
		wanted=${template#* }
		[ "$wanted" != ^ ] || wanted='no template here renders like it'
		like "... its template ${template%% *}" "$(import --data rows.jsonl of.yml)" \
			":7: template: .*$wanted.*: save its tokens as a file, and import with --data\$"
	done
	for template in phi4=phi4 mistral_small=mistral-v7-tekken; do
		sed -i "s/^template:.*/template: ${template%=*}/" of.yml
		ok "... its template ${template%=*}" "$ZEROTH" config import --force -o of.ini --device cuda --data rows.jsonl --model model of.yml
		like '... is one here' "$(cat of.ini)" "^template = ${template#*=} ; template, line 7\$"
		like '... and differs in one thing' "$(import -o of.ini --device cuda --data rows.jsonl --model model of.yml)" \
			':7: template: a system message without text is written, which LLaMA-Factory leaves out'
	done
	sed -i 's/sft/dpo/' of.yml
	like '... its other stages' "$(import --data train.bin of.yml)" ':2: stage: only the likelihood'
	printf '%s\n' 'compute_environment: LOCAL_MACHINE' 'distributed_type: FSDP' 'mixed_precision: bf16' \
		'num_processes: 8' 'fsdp_config:' '  fsdp_sharding_strategy: SHARD_GRAD_OP' \
		'  fsdp_activation_checkpointing: true' >of.yml
	ok "accelerate's YAML" "$ZEROTH" config import --force -o of.ini --device cuda of.yml
	is '... is mapped' "$(sed -n 's/ ;.*//; /^plugin/p' of.ini)" 'plugin = stage2
plugin = bf16
plugin = recompute
plugin = cuda'
	printf '%s\n' 'parallelism_config:' '  parallelism_config_cp_size: 2' '  parallelism_config_dp_shard_size: 2' >shared.yml
	cat of.yml shared.yml >both.yml
	ok '... of ranks that share a sequence' "$ZEROTH" config import --force -o both.ini --device cuda both.yml
	like '... which are cut for them' "$(tr '\n' ' ' <both.ini)" '\[train\] sequence_ranks = 2 .* slices = 4 '
	sed -i 's/FSDP/DEEPSPEED/; s/^fsdp_config.*/deepspeed_config:/; s/^  fsdp_sh.*/  zero_stage: 3/; /activation/d' of.yml
	ok '... of DeepSpeed' "$ZEROTH" config import --force -o of.ini --device cuda of.yml
	like '... its stage' "$(cat of.ini)" '^plugin = stage3 ; deepspeed_config.zero_stage, line 6$'
	sed -i 's/DEEPSPEED/MEGATRON_LM/' of.yml
	like '... of Megatron' "$(import of.yml)" ':2: distributed_type: ranks share a model as FSDP or DeepSpeed do'
	yaml 'YAML: an alias of itself' 'base_model: &a [*a]\n' 'too deep or too large|not YAML'
fi
# ---- so often in an epoch ----
# A share of all steps, which are known when the run begins.
# often NAME YAML_OR_JSON LINE...: the file has these lines; a line that begins with ! is not there.
often() {
	local name=$1 file=often.json line
	case $2 in '{'*) ;; *) file=often.yml ;; esac
	printf "$2" > $file
	ok "$name" "$ZEROTH" config import --force -o often.ini --device cpu --data train.bin $file
	shift 2
	for line; do
		case $line in
		!*) is "$name: no ${line#!}" "$(grep -c "^${line#!}" often.ini)" 0 ;;
		*) like "$name: $line" "$(sed 's/ ;.*//' often.ini)" "^$line\$" ;;
		esac
	done
}
often 'at the end of each epoch' '{ "num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "epoch" }' \
	'eval_every_ratio = 0\.333333333333' 'every_ratio = 0\.333333333333' '!eval_every =' '!every ='
often 'at the end of each of 3 epochs by default' '{ "seed": 1, "eval_strategy": "epoch" }' 'eval_every_ratio = 0\.333333333333' 'every = 500'
often 'at the end of a part of an epoch' '{ "num_train_epochs": 0.5, "save_strategy": "epoch" }' 'every_ratio = 1'
often 'a share of all steps' '{ "max_steps": 7, "eval_strategy": "steps", "eval_steps": 0.1, "save_steps": 0.25 }' \
	'eval_every_ratio = 0\.1' 'every_ratio = 0\.25'
often 'evaluations as often as lines' '{ "max_steps": 7, "eval_strategy": "steps", "logging_steps": 3 }' 'eval_every = 3'
often 'evaluations as often as lines by default' '{ "max_steps": 7, "eval_strategy": "steps" }' 'eval_every = 500'
often 'steps of evaluations without a strategy' '{ "max_steps": 7, "eval_steps": 3 }' 'eval_every = 0'
refused 'epochs of a number of steps' '{ "max_steps": 7, "eval_strategy": "epoch" }' \
	'eval_strategy: how many steps an epoch has depends on the data, and max_steps says how long: give a number of steps$'
refused 'epochs that are not whole' '{ "num_train_epochs": 2.5, "save_strategy": "epoch" }' \
	'save_strategy: 2\.5 epochs are not whole: .*: give a number of steps$'
case $files in *yml*)
	held='base_model: x\nval_set_size: 0.1\n'
	often 'Axolotl: so often' "${held}num_epochs: 3\nevals_per_epoch: 4\nsaves_per_epoch: 2\n" \
		'eval_every_ratio = 0\.0833333333333333[0-9]*' 'every_ratio = 0\.1666666666666666[0-9]*' 'keep = 4'
	often 'Axolotl: nothing is said' "$held" 'eval_every = 0' 'every_ratio = 1' 'keep = 4'
	often 'Axolotl: nothing is said of 4 epochs' "${held}num_epochs: 4\n" 'eval_every = 0' 'every_ratio = 0\.25'
	often 'Axolotl: once in a run' "${held}evals_per_epoch: 1\nsaves_per_epoch: 1\n" 'eval_every = 0' 'every_ratio = 1'
	often 'Axolotl: nothing is held out' 'base_model: x\nnum_epochs: 3\nevals_per_epoch: 4\n' 'eval_every = 0'
	often 'Axolotl: of a number of steps' "${held}max_steps: 9\nevals_per_epoch: 4\n" 'eval_every_ratio = 0\.25'
	often 'Axolotl: steps' "${held}eval_steps: 3\nsave_steps: 0.25\nsave_total_limit: 0\n" 'eval_every = 3' 'every_ratio = 0\.25' 'keep = 4'
	often 'Axolotl: never' "${held}save_strategy: 'no'\neval_strategy: 'no'\nsave_total_limit: 2\n" 'eval_every = 0' 'every = 0' 'keep = 2'
	often 'Axolotl: a batch of all' "${held}batch_size: 8\nmicro_batch_size: 2\n" 'gradient_accumulation_steps = 4' 'micro_batch_size = 2'
	often 'Axolotl: saves by steps' "${held}save_strategy: steps\n" 'every = 500'
	;;
esac

refused 'no JSON' '{ "stage": }' '^2 zeroth: refused\.json:1:.*not JSON'
like 'no file' "$(import none.json)" '^2 zeroth: none\.json: '
like 'a file that is there is not replaced' "$("$ZEROTH" config import -o made.ini warmup.json 2>&1; echo $?)" \
	'^zeroth: made.ini exists already; choose another name, or --force replaces it'
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

# ---- keys of other programs where an INI is expected ----
cat >a.ini <<'END'
[train]
micro_batch_size = 2
[model]
path = model
[data]
plugin = tokens
path = train.bin
format = uint16
END
# hints OPTION TEXT: an unknown key is told as that program's
hints() { like "-o $1" "$("$ZEROTH" schedule a.ini -o "$1" 2>&1)" "$2"; }
hints zero.stage=2 'key; zero_optimization\.stage of DeepSpeed is \[zero\] plugin = stage2 here$'
hints optimizer.type=Lamb 'key; optimizer\.type of DeepSpeed is \[optimizer\] plugin = lamb here$'
hints train.max_grad_norm=2 \
	'key; max_grad_norm of transformers is \[train\] gradient_clipping = 2 here$'
hints run.steps_per_print=5 'key; steps_per_print of DeepSpeed is \[run\] log_every = 5 here$'
hints offload.optimizer.device=cpu \
	'no plugin; .*_optimizer\.device of DeepSpeed is \[offload\.optimizer\] plugin = cpu here$'
hints fp16.enabled=yes 'section \[fp16\]; .* of DeepSpeed is \[precision\] plugin = fp16 here$'
hints train.context_parallel_size=2 'context_parallel_size of Axolotl is \[train\] sequence_ranks = 2 here$'
hints zero.contiguous_gradients=yes 'of DeepSpeed has no effect here: gradients lie'
hints zero.overlap_com=yes 'unknown key; did you mean overlap_comm\?$'
printf '[offload.param]\ndevice = cpu\n' | cat a.ini - >b.ini
like 'the same in a file' "$("$ZEROTH" schedule b.ini 2>&1)" \
	'^zeroth: b\.ini:9: .*no plugin; .*_param\.device of DeepSpeed is \[offload\.param\]'
for command in train plan schedule 'config check'; do
	like "$command with DeepSpeed's file" "$("$ZEROTH" $command warmup.json 2>&1)" \
		'^zeroth: warmup\.json is no INI .*: zeroth config import warmup\.json -o '
done

# ---- config diff ----
sed 's/= 2/= 4/' a.ini >b.ini
printf '[optimizer]\nplugin = sgd\n' >>b.ini
diff_of() { "$ZEROTH" config diff "$@" >out 2>err; echo "$?"; }
is 'config diff: nothing differs' "$(diff_of a.ini a.ini) $(cat out err)" '0 '
is 'config diff: it exits with 1' "$(diff_of a.ini b.ini)" 1
is 'a value, with both lines' "$(sed -n 4,6p out)" '[train] micro_batch_size
- 2 ; a.ini:2
+ 4 ; b.ini:2'
is 'what follows from it' "$(sed -n 1,3p out)" '[train] train_batch_size
- 2 ; auto
+ 4 ; auto'
is 'an option that one plugin has' "$(grep -A 1 'optimizer\] momentum' out)" '[optimizer] momentum
+ 0 ; default'
ok 'a run' "$ZEROTH" train a.ini -o train.steps=1 -o train.eval_every=0 -o run.dir=run
is 'config diff of a run' "$(diff_of a.ini run)" 1
is 'and the steps that it had' "$(grep -A 2 'train\] steps' out | cut -d ' ' -f 1,2)" '[train] steps
- 1000
+ 1'
is 'config diff of one file' "$(diff_of a.ini) $(head -n 1 err)" \
	'2 zeroth config diff: B is missing'
is 'config diff of no file' "$(diff_of a.ini none.ini)" 2

done_testing
