#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints of other programs (golden/make_checkpoints.py), as those libraries wrote them: a training goes on from each as
# theirs did, the next ten losses within 1e-5; what is not read exactly is refused by name, and what is damaged leaves nothing.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

memory_scratch
cd "$scratch" || exit 99
golden=$ZR_SRCDIR/tests/golden/checkpoints

# conf FILE MODEL PLAIN [SEQUENCES]: what all of these trainings have in common
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
	steps = 14
	train_batch_size = ${4:-2}
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
	END
}

# near RUN FILE: whether the last losses of a run are those of the file
near() {
	paste -d' ' <(grep -o '"loss":[^,]*' "$1/metrics.jsonl" | cut -d: -f2 | tail -n "$(wc -l < "$2")") "$2" |
		awk 'NF < 2 { bad = 1 } { d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5)) { print $1, $2; bad = 1 } n++ }
			END { exit bad || n != 10 }'
}

# goes_on NAME GOLDEN CONF [OPTION...]
goes_on() {
	local name=$1 from=$2 conf=$3 run=run-${1// /-}
	shift 3
	ok "$name: imported" "$ZEROTH" checkpoint import "$from" "$conf" -o run.dir="$run" "$@"
	ok "$name: whole" "$ZEROTH" checkpoint verify "$run"
	"$ZEROTH" train "$conf" -o run.dir="$run" "$@" --resume auto > "$run.out" 2> "$run.err" || fail "$name: trains" "$(cat "$run.err")"
	ok "$name: the next ten losses are theirs" near "$run" "${losses:-${from%/global_step*}/losses.txt}"
}

# refused NAME PATTERN OPERAND...: and nothing is left
refused() {
	local name=$1 pattern=$2
	shift 2
	err=$("$ZEROTH" checkpoint import "$@" -o run.dir=none 2>&1)
	is "$name: exit 2" "$?" 2
	like "$name: says why" "$err" "$pattern"
	[ ! -e none ] || fail "$name: leaves something"
}

# ---- transformers' Trainer ----
conf llama.ini "$golden/trainer-llama" "*.bias *norm.weight"
goes_on "trainer llama" "$golden/trainer-llama" llama.ini
"$ZEROTH" checkpoint import "$golden/trainer-llama" llama.ini -o run.dir=two > /dev/null 2>&1
"$ZEROTH" train -n 2 llama.ini -o run.dir=two -o zero.plugin=stage3 --resume auto > two.out 2> two.err
is "trainer: on two ranks that split everything, the same bits" "$(tail -n 1 two.out)" "$(tail -n 1 run-trainer-llama.out)"
conf gpt2.ini "$golden/trainer-gpt2" "*.bias *ln_*"
gpt2=(-o scheduler.plugin=linear -o optimizer.betas=0.9,0.95)
goes_on "trainer gpt2" "$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}"

refused "another decay" 'weight_decay = 0\.1, and \[optimizer\] has 0\.2: .*optimizer\.weight_decay' \
	"$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}" -o optimizer.weight_decay=0.2
refused "other betas" 'betas = 0\.95, and \[optimizer\] has 0\.999' "$golden/trainer-gpt2" gpt2.ini -o scheduler.plugin=linear
refused "another schedule" 'learning rate 0\.0090.* and \[scheduler\] cosine gives' \
	"$golden/trainer-gpt2" gpt2.ini -o optimizer.betas=0.9,0.95
refused "another optimizer" 'exp_avg_sq, which \[optimizer\] lion does not keep' \
	"$golden/trainer-gpt2" gpt2.ini -o scheduler.plugin=linear -o optimizer.plugin=lion
refused "another decay's form" 'was trained with AdamW, and \[optimizer\] has plugin = adam' \
	"$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}" -o optimizer.plugin=adam
refused "another type of moments" 'import with -o optimizer\.states=fp32' \
	"$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}" -o optimizer.states=bf16
refused "a loss scale that is not there" 'has no loss scale' \
	"$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}" -o precision.plugin=fp16
refused "more steps than the run has" 'at step 4, and \[train\] steps = 3' \
	"$golden/trainer-gpt2" gpt2.ini "${gpt2[@]}" -o train.steps=3
refused "no checkpoint" 'no checkpoint that is known' "$ZR_SRCDIR/tests/golden" gpt2.ini
refused "what is not there" 'no checkpoint that is known' nowhere gpt2.ini

# ---- DeepSpeed ----
conf ds.ini "$golden/zero1-1" "*.bias *norm.weight" 4
zero=(-o scheduler.plugin=warmup_decay_lr -o scheduler.warmup_type=linear)
for stage in 1 2 3; do
	for ranks in 1 2 4; do
		goes_on "zero$stage $ranks" "$golden/zero$stage-$ranks" ds.ini "${zero[@]}"
	done
done
goes_on "universal" "$golden/universal" ds.ini "${zero[@]}"
is "universal: the bits of the files that it was made of" "$(tail -n 1 run-universal.out)" "$(tail -n 1 run-zero1-2.out)"
losses=$golden/universal/losses.txt goes_on "universal by its directory" "$golden" ds.ini "${zero[@]}"
goes_on "zero3 4 by its directory" "$golden/zero3-4/global_step4" ds.ini "${zero[@]}"
refused "another schedule than DeepSpeed's" 'learning rate 0\.01, and \[scheduler\] cosine gives' "$golden/zero2-2" ds.ini

# the loss scale of fp16, two overflows and two calm steps after its start
rm -rf bad
cp -r "$golden/universal" bad
chmod -R u+w bad
cp "$golden/scaled.pt" bad/zero/optimizer_state.pt
refused "a scale without fp16" 'trained with a loss scale: choose \[precision\] plugin = fp16' bad ds.ini "${zero[@]}"
refused "another rule of the scale" 'loss_scale_window = 1000, and \[precision\] has 500' \
	bad ds.ini "${zero[@]}" -o precision.plugin=fp16 -o precision.loss_scale_window=500
ok "a loss scale: imported" "$ZEROTH" checkpoint import bad ds.ini "${zero[@]}" -o precision.plugin=fp16 -o run.dir=scaled
is "a loss scale: all of it" "$(grep -A 4 '"loss_scale": {' scaled/checkpoints/step-00000004/manifest.json | tr -d ' \n')" \
	'"loss_scale":{"scale":"0x1p+15","step":4,"last_overflow":1,"hysteresis":1'
fresh_trainer() { rm -rf bad; cp -r "$golden/trainer-gpt2" bad; chmod -R u+w bad; cp "$golden/scaler.pt" bad; }
fresh_trainer
half=(-o precision.plugin=fp16 -o precision.loss_scale_window=2000)
refused "a scale of GradScaler: another rule" 'hysteresis = 1, and \[precision\] has 2' bad gpt2.ini "${gpt2[@]}" "${half[@]}"
ok "a scale of GradScaler: imported" "$ZEROTH" checkpoint import bad gpt2.ini "${gpt2[@]}" "${half[@]}" \
	-o precision.hysteresis=1 -o run.dir=grad
is "a scale of GradScaler: all of it" "$(grep -A 4 '"loss_scale": {' grad/checkpoints/step-00000004/manifest.json | tr -d ' \n')" \
	'"loss_scale":{"scale":"0x1p+16","step":4,"last_overflow":-1,"hysteresis":1'
ok "a loss scale: it goes on" "$ZEROTH" train ds.ini "${zero[@]}" -o precision.plugin=fp16 -o run.dir=scaled --resume auto

# ---- torch.distributed.checkpoint, of FSDP2 ----
conf dcp.ini "$golden/dcp-2" "*norm.weight" 4
dcp=(-o scheduler.plugin=constant -o train.gradient_clipping=0)
for ranks in 1 2 4; do
	losses=$golden/dcp-$ranks/losses.txt goes_on "dcp $ranks" "$golden/dcp-$ranks/checkpoint" dcp.ini "${dcp[@]}"
done
refused "dcp: another rate" 'learning rate 0\.01, and \[scheduler\] constant gives 0\.02' \
	"$golden/dcp-2/checkpoint" dcp.ini "${dcp[@]}" -o optimizer.lr=0.02

# transformers' Trainer with FSDP has one for the weights and one for the states
mkdir sharded
cp -r "$golden/dcp-2/checkpoint" sharded/pytorch_model_fsdp_0
cp -r "$golden/dcp-2/checkpoint" sharded/optimizer_0
echo '{"global_step": 4}' > sharded/trainer_state.json
losses=$golden/dcp-2/losses.txt goes_on "trainer fsdp" "$scratch/sharded" dcp.ini "${dcp[@]}"
is "trainer fsdp: the bits of one for both" "$(tail -n 1 run-trainer-fsdp.out)" "$(tail -n 1 run-dcp-2.out)"
rm -rf sharded/optimizer_0
refused "trainer fsdp: no states" 'sharded/optimizer_0/\.metadata: ' sharded dcp.ini "${dcp[@]}"

# as accelerate's own functions write it, of a tied model, whose head is there beside the embedding
conf accelerate.ini "$golden/accelerate-2" "*norm.weight" 4
goes_on "accelerate fsdp" "$golden/accelerate-2" accelerate.ini "${dcp[@]}"
goes_on "accelerate fsdp, whole" "$golden/accelerate-whole" accelerate.ini "${dcp[@]}"
refused "accelerate fsdp: an untied model" 'tensor lm_head\.weight has no exp_avg' "$golden/accelerate-2" dcp.ini "${dcp[@]}"

# the safetensors form has weights alone: those of the same step
refused "dcp in safetensors: without its moments" 'no parameter groups: --weights' "$golden/dcp-4/safetensors" dcp.ini "${dcp[@]}"
for ranks in 1 2; do
	ok "dcp in safetensors, $ranks ranks: the weights" "$ZEROTH" checkpoint import --weights "$golden/dcp-$ranks/safetensors" \
		dcp.ini -o run.dir="parts-$ranks"
	"$ZEROTH" checkpoint import --weights "$golden/dcp-$ranks/checkpoint" dcp.ini -o run.dir="pickled-$ranks" > /dev/null 2>&1
	"$ZEROTH" checkpoint export "parts-$ranks" "parts-$ranks-out" > /dev/null 2>&1
	"$ZEROTH" checkpoint export "pickled-$ranks" "pickled-$ranks-out" > /dev/null 2>&1
	ok "dcp in safetensors, $ranks ranks: those of .distcp" \
		cmp "parts-$ranks-out/model.safetensors" "pickled-$ranks-out/model.safetensors"
done

# ---- damage ----
fresh() { rm -rf bad; cp -r "$golden/trainer-gpt2" bad; chmod -R u+w bad; }
fresh
LC_ALL=C sed -z 's/collections\nOrderedDict/subprocess_\ncheck_outpu/' "$golden/trainer-gpt2/optimizer.pt" > bad/optimizer.pt
refused "a pickle that would run something" 'would run subprocess_\.check_outpu, .*nothing of it is read' bad gpt2.ini "${gpt2[@]}"
fresh
head -c 5000 "$golden/trainer-gpt2/optimizer.pt" > bad/optimizer.pt
refused "a file that was cut off" 'bad/optimizer\.pt: not a file of torch\.save: it has no end record' bad gpt2.ini "${gpt2[@]}"
fresh
rm bad/optimizer.pt
refused "no optimizer" 'no optimizer\.pt .*--weights' bad gpt2.ini "${gpt2[@]}"
ok "--weights: the weights alone" "$ZEROTH" checkpoint import --weights bad gpt2.ini "${gpt2[@]}" -o run.dir=weights
ok "--weights: a training begins with them" "$ZEROTH" train gpt2.ini "${gpt2[@]}" -o run.dir=weights --resume auto
"$ZEROTH" train gpt2.ini "${gpt2[@]}" -o run.dir=plain > plain.out 2> plain.err
is "--weights: as from [model] path" "$(tail -n 1 weights/metrics.jsonl | grep -o '"loss":[^,]*')" \
	"$(tail -n 1 plain/metrics.jsonl | grep -o '"loss":[^,]*')"
fresh
sed -i 's/"global_step": 4/"global_step": "4"/' bad/trainer_state.json
refused "a step that is none" 'global_step is no number of steps' bad gpt2.ini "${gpt2[@]}"
rm -rf bad
cp -r "$golden/zero3-4" bad
chmod -R u+w bad
mv bad/global_step4/zero_pp_rank_3_mp_rank_00_optim_states.pt .
refused "a rank's file is missing" 'zero_pp_rank_3_mp_rank_00_optim_states\.pt: ' bad ds.ini "${zero[@]}"
cp "$golden/zero3-2/global_step4/zero_pp_rank_1_mp_rank_00_optim_states.pt" bad/global_step4/zero_pp_rank_3_mp_rank_00_optim_states.pt
refused "a rank's file is of another training" 'not split over 4 ranks' bad ds.ini "${zero[@]}"
echo ../nowhere > bad/latest
refused "latest names what is elsewhere" 'latest: names no directory beside it' bad ds.ini "${zero[@]}"
rm -rf bad
cp -r "$golden/dcp-4/checkpoint" bad
chmod -R u+w bad
rm bad/__3_0.distcp
refused "a part of a checkpoint of four ranks is missing" 'bad/__3_0\.distcp: ' bad dcp.ini "${dcp[@]}"
cp "$golden/dcp-2/checkpoint/__1_0.distcp" bad/__3_0.distcp
refused "a part is of another checkpoint" 'bad/__3_0\.distcp: |not one of its tensor' bad dcp.ini "${dcp[@]}"
LC_ALL=C sed 's/ChunkStorageMetadata/ChunkStorageMetadati/' "$golden/dcp-2/checkpoint/.metadata" > bad/.metadata
refused "metadata that would run something" 'would run torch\.distributed\.checkpoint\.metadata\.ChunkStorageMetadati' bad dcp.ini
rm -rf bad
cp -r "$golden/dcp-4/safetensors" bad
chmod -R u+w bad
rm bad/shard-00002*
refused "a part in safetensors is missing" 'not there whole and once' bad dcp.ini --weights
done_testing
