#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [adapter] plugin = lora: adapters of PEFT are gone on from, learn what PEFT's learn, and are left
# as PEFT reads them; one digest over ranks, stages, tiers, recomputation and resumes (I1); and what
# cannot be adapted is refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cd "$scratch" || exit 99

# ---- PEFT as the oracle ----
{ peft_ini; printf '[adapter]\nplugin = lora\n'; } > peft.ini
# near FILE FILE [MOST]: the largest difference between the numbers in two files, if it is over 2e-6, or MOST
near() {
	paste "$1" "$2" | awk -v bound="${3-2e-6}" '{ d = $1 - $2; d = d < 0 ? -d : d; most = d > most ? d : most }
		END { if (NR != 20 || !(most <= bound)) print NR " lines, " most }'
}
# The adapters of FILE beside those of another: the largest difference, in the largest element of
# its tensor, if it is over 5e-5.
cat > differ.py <<END
import json, struct, sys
def read(path):
    data = open(path, 'rb').read()
    at = 8 + struct.unpack('<Q', data[:8])[0]
    for name, t in json.loads(data[8:at]).items():
        if name != '__metadata__':
            lo, hi = t['data_offsets']
            yield name, struct.unpack('<%df' % ((hi - lo) // 4), data[at + lo:at + hi])
ours, theirs = dict(read(sys.argv[1])), dict(read(sys.argv[2]))
worst = max(abs(x - y) / max(map(abs, b)) for name, b in theirs.items()
            for x, y in zip(ours[name], b))
if not worst <= 5e-5:
    print(worst)
END
# base_of NAME: the model of adapters
base_of() { case $1 in *-names | *-tokens | *-saved | *-head) echo "$golden/pretrained/${1%-*}" ;; *) echo "$golden/pretrained/$1" ;; esac; }
for model in gpt2 gpt2-names gpt2-untied llama qwen2 mixtral qwen3-moe {llama,gpt2,gemma2}-tokens qwen2-saved llama-head; do
	trained peft.ini -o model.path="$(base_of $model)" \
		-o adapter.path="$golden/adapters/$model" > digest
	like "$model: it trains" "$(cat digest)" '^digest'
	grep -o '"loss":[^,]*' run/metrics.jsonl | cut -d : -f 2 > losses
	is "$model: twenty losses are PEFT's" "$(near losses "$golden/adapters/$model/losses.txt")" ''
	if command -v python3 > python; then
		is "$model: and so are the adapters behind them" "$(python3 differ.py \
			run/adapter_model.safetensors "$golden/adapters/$model/after.safetensors" 2>&1)" ''
	else
		skip "$model: and so are the adapters behind them" 'python3 reads them'
	fi
done

# ---- a base at a relative path ----
cp -r "$golden/pretrained/llama" base
trained peft.ini -o model.path=base -o train.steps=2 > digest
mkdir elsewhere
is 'a run is sampled from another directory' \
	"$(cd elsewhere && "$ZEROTH" sample -n 12 -t 0 ../run 2>&1)" \
	"$("$ZEROTH" sample -n 12 -t 0 run 2>&1)"

trained peft.ini -n 2 -o model.path=base -o train.steps=2 > digest
like 'a run of two ranks is evaluated by three' \
	"$("$ZEROTH" eval -n 3 run -o data.val_path="$golden/pretrained/tokens.bin" 2>&1)" \
	'^  digest '

# header FILE: its tensors, with types and shapes
header() {
	tail -c +9 "$1" | head -c "$(od -An -tu8 -N8 "$1")" | tr '}' '\n' |
		grep -oE '"base[^]]*\]' | sort
}
for model in gpt2 gpt2-names gpt2-untied llama mixtral {llama,gpt2}-tokens llama-head qwen2{-saved,}; do
	adapters=$golden/adapters/$model
	base=$(base_of $model)
	trained peft.ini -o model.path="$base" -o adapter.path="$adapters" > digest
	is "$model: what is left has PEFT's names, types and shapes" \
		"$(header run/adapter_model.safetensors)" "$(header "$adapters/after.safetensors")"
	is "$model: the model is not written again" "$(find run -name 'model*')" ''
	like "$model: the run evaluates" \
		"$("$ZEROTH" eval run -o data.val_path="$golden/pretrained/tokens.bin" 2>&1)" \
		'^  digest '
	tuned=(--no-cache -n 12 -t 0)
	is "$model: the run samples as the model with its adapters" \
		"$("$ZEROTH" sample "${tuned[@]}" run 2>&1)" \
		"$("$ZEROTH" sample "${tuned[@]}" --adapter run "$base" 2>&1)"
	rm -rf left theirs
	mv run left
	mkdir theirs
	cp "$adapters/adapter_config.json" theirs
	cp "$adapters/after.safetensors" theirs/adapter_model.safetensors
	for from in left theirs; do
		trained peft.ini -o model.path="$base" -o adapter.path=$from > digest
		grep -o '"loss":[^,]*' run/metrics.jsonl | cut -d : -f 2 > losses.$from
	done
	# adapters that are up to 5e-5 apart when they begin
	is "$model: and goes on as what PEFT left does" "$(near losses.left losses.theirs 2e-5)" ''
done
like 'the first lines say what is trained' "$(grep ^adapter out)" \
	'^adapter lora, 0.000 M parameters trained, path = theirs, r = 1, alpha = 1, .*targets = '
is 'config show shows what the file says' \
	"$("$ZEROTH" config show peft.ini -o model.path="$golden/pretrained/llama" \
		-o adapter.path="$golden/adapters/llama" 2>&1 |
		sed -n 's/ *;.*//; /^r = /,/^modules_to_save/p' | tr '\n' '|')" \
	"r = 3|alpha = 6|rslora = yes|dropout = 0|targets = down_proj q_proj v_proj|\
exclude_modules =|layers_to_transform =|layers_pattern =|\
rank_pattern = v_proj:2|alpha_pattern = 1.mlp.down_proj:5|ensure_weight_tying = no|modules_to_save = lm_head|"
like 'the configuration names the base and the modules' \
	"$(tr -d ' \n' < left/adapter_config.json)" \
	'"base_model_name_or_path":"/[^"]*/qwen2",.*"r":1,.*"target_modules":\["q_proj","k_proj"'

cp -r "$golden/pretrained/qwen2" beside
trained peft.ini -o model.path=beside -o adapter.path="$golden/adapters/qwen2" > digest
like 'a base of a relative name is found from anywhere' "$(tr -d ' \n' < run/adapter_config.json)" \
	"\"base_model_name_or_path\":\"$(realpath beside)\""
rm -r beside

# PEFT's configuration may have a regular expression in place of the names.
regex() { # MODEL EXPRESSION: the digest of a training whose file has it
	rm -rf pattern
	cp -r "$golden/adapters/$1" pattern
	tr -d '\n' < "$golden/adapters/$1/adapter_config.json" |
		sed 's/"target_modules": \[[^]]*\]/"target_modules": "EXPRESSION"/' > config.json
	EXPRESSION=${2//\\/\\\\} awk '{ n = index($0, "EXPRESSION")
		print substr($0, 1, n - 1) ENVIRON["EXPRESSION"] substr($0, n + 10) }' config.json \
		> pattern/adapter_config.json
	trained peft.ini -o model.path="$golden/pretrained/$1" -o adapter.path=pattern
}
names() { # MODEL
	trained peft.ini -o model.path="$golden/pretrained/$1" -o adapter.path="$golden/adapters/$1"
}
said=$(regex gpt2 '.*\.c_(attn|proj|fc)')
if grep -q 'needs PCRE2' <<< "$said"; then
	like 'a regular expression without PCRE2' "$said" 'install libpcre2-dev'
else
	is 'a regular expression trains as the names' "$said" "$(names gpt2)"
	is 'one with what POSIX has not, too' \
		"$(regex llama '(?:.*?(?:self_attn|mlp).*?(?:[qv]_proj|down_proj))|(?:\bnone\.[\d]{1,})')" \
		"$(names llama)"
	ok 'it is sampled from' "$ZEROTH" sample --no-cache -n 2 run
	like 'it is written with the names' "$(tr -d ' \n' < run/adapter_config.json)" \
		'"target_modules":\["q_proj","v_proj","down_proj"\]'
	is 'one of names as PEFT has them, with what is before them in files' \
		"$(regex gpt2 'transformer\.h\.\d+\.(?:attn|mlp)\.c_(attn|proj|fc)')" "$said"
	like 'one that fits the ends of names alone' "$(regex gpt2 'c_(attn|proj|fc)')" \
		'targets: no linear map of the model has a name that is fit as a whole'
	like 'one with what is not before them' \
		"$(regex gpt2 'model\.h\.\d+\..*\.c_(attn|proj|fc)')" \
		'targets: no linear map of the model has a name that is fit as a whole'
	like 'one that is none' "$(regex gpt2 '(c_fc')" \
		're:\(c_fc: missing closing parenthesis at letter 6'
	like 'one that fits an embedding' "$(regex gpt2 '.*')" \
		'targets: transformer has parts: name those of them that are linear maps'
fi

# ---- the same bits ----
for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > text
cp "$ZR_SRCDIR/tests/lib/matrix.ini" gpt2.ini
sed -e 's/^plugin = gpt2/plugin = llama/' -e '/^dropout/d' gpt2.ini > llama.ini
for model in gpt2 llama; do
	printf '[train]\ntrain_batch_size = 12\n[adapter]\nplugin = lora\nr = 3\n' >> $model.ini
	printf 'alpha = 5\ndropout = 0.1\n' >> $model.ini
done
sed 's/^plugin = lora/&\nmodules_to_save = lm_head\nensure_weight_tying = yes/' gpt2.ini > tied.ini
echo 'targets = c_attn c_proj c_fc wte' >> gpt2.ini
echo 'targets = *_proj embed_tokens lm_head' >> llama.ini
use_disk
ways() {
	same 'accumulation on two ranks' -n 2
	same 'stage3 on three ranks' -n 3 -o zero.plugin=stage3 -o zero.persistence_threshold=0
	same 'a device that only copies reach' -n 2 -o zero.plugin=stage2 -o device.memory=48M \
		-o device.plugin="$cards"
	same 'everything on disk, recomputed' -n 2 -o zero.plugin=stage3 "${disk[@]}" \
		-o activation.plugin=recompute
}
for model in gpt2 llama; do
	for type in fp32 bf16; do
		# Under sanitizers one of the four is enough.
		common=(-o data.path=text -o "precision.plugin=$type")
		same() { is "I1 $model, $type: $1" "$(trained $model.ini "${common[@]}" "${@:2}")" "$want"; }
		want=$(trained $model.ini "${common[@]}")
		like "$model, $type: it trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		[ -n "$ZR_SANITIZE" ] && [ $model$type != llamabf16 ] || ways
	done
done
one_in 5 && is 'I1 an embedding that is the head, trained' \
	"$(trained tied.ini -o data.path=text -n 3 -o zero.plugin=stage3 -o train.steps=3)" \
	"$(trained tied.ini -o data.path=text -o train.steps=3)"
trained gpt2.ini -o data.path=text > digest
one_in 5 && is 'I1 sampling with a cache' "$("$ZEROTH" sample -n 30 run)" \
	"$("$ZEROTH" sample -n 30 --no-cache run)"
one_in 5 && is 'I1 updates in the backward' \
	"$(trained gpt2.ini -o data.path=text -n 2 -o zero.update_in_backward=yes \
		-o train.gradient_clipping=0)" \
	"$(trained gpt2.ini -o data.path=text -o train.gradient_clipping=0)"

# Adapters that are split over ranks in the middle: three rows of 720 elements are over one block.
sed -e 's/^width = .*/width = 720/' -e 's/^layers = .*/layers = 1/' gpt2.ini > wide.ini
wide=(-o data.path=text -o train.steps=2 -o train.eval_every=0 -o adapter.targets=attn.c_proj)
want=$(trained wide.ini "${wide[@]}")
like 'adapters of over a block: they train' "$want" '^digest'
one_in 5 && is 'I1 adapters of over a block on three ranks' \
	"$(trained wide.ini "${wide[@]}" -n 3 -o zero.plugin=stage3)" "$want"
if [ -z "$ZR_SANITIZE" ]; then
	wide+=(-o adapter.r=1 -o adapter.dropout=0)
	is 'I1 rank 1 on two ranks' "$(trained wide.ini "${wide[@]}" -n 2 -o zero.plugin=stage3)" "$(trained wide.ini "${wide[@]}")"
fi

# ---- what a run leaves ----
want=$(trained gpt2.ini -o data.path=text)
mv run whole
trained gpt2.ini -o data.path=text -o train.steps=2 -o checkpoint.every=2 > digest
mv run part
one_in 5 && is 'I1 a resume' "$(trained gpt2.ini -o data.path=text --resume part)" "$want"
rm -rf run && mv whole run
like 'it evaluates' "$("$ZEROTH" eval run 2> log)" 'accuracy'
ok 'it samples' "$ZEROTH" sample -n 4 run
config=(-o model.path="$golden/pretrained/gpt2" -o checkpoint.every=20)
size() { cat run/checkpoints/step-00000020/*.safetensors | wc -c; }
trained peft.ini "${config[@]}" > digest
few=$(size)
adapters=$(wc -c < run/adapter_model.safetensors)
# A, B and two moments of each, and names
ok 'a checkpoint has what is trained alone' test "$few" -lt $((adapters * 4))
ok 'and names the rest by its hash' \
	grep -q '"source_xxh3": "[0-9a-f]\{16\}"' run/checkpoints/step-00000020/manifest.json
trained peft.ini "${config[@]}" -o checkpoint.save=all > digest
ok 'unless all is to be saved' test "$(size)" -gt $((few + 25000))
mv run all
like 'of such a checkpoint the same is asked for' \
	"$(trained peft.ini "${config[@]}" --resume all)" 'was saved: go on with \[checkpoint\] save = all$'
like 'with which it goes on' \
	"$(trained peft.ini "${config[@]}" --resume all -o checkpoint.save=all)" '^digest'
trained gpt2.ini -o data.path=text -o train.steps=2 -o checkpoint.every=2 > digest
like 'without [model] path all is saved' "$(cat run/config.ini)" 'save = all ; auto'

# of an adapter that is frozen in part all is kept: no other file has it
fixed=(-o model.path="$golden/pretrained/gpt2" -o 'train.freeze=*.lora_A.*' -o train.seed=7)
trained peft.ini "${fixed[@]}" > digest
mv run fixed
is 'a file has what is frozen of the adapters, too' \
	"$(header fixed/adapter_model.safetensors | grep -c lora_A)" 8
trained peft.ini "${fixed[@]}" -o train.steps=10 -o checkpoint.every=10 > half
mv run cut
one_in 5 && is 'I1 a resume with such adapters' "$(trained peft.ini "${fixed[@]}" --resume cut)" \
	"$(cat digest)"
rm -rf files
"$ZEROTH" checkpoint export cut files > log
ok 'which a checkpoint exports, too' cmp files/adapter_model.safetensors \
	cut/adapter_model.safetensors

# ---- what is refused ----
refused() { # NAME TEXT OPTION...
	like "$1" "$(trained peft.ini -o "model.path=$golden/pretrained/gpt2" "${@:3}")" "$2"
}
refused 'a module that is not there' 'targets: no linear map of the model is called q_proj' \
	-o adapter.targets=q_proj
like 'of several one may be missing' "$(trained peft.ini \
	-o "model.path=$golden/pretrained/gpt2" -o adapter.targets='c_attn q_proj')" '^digest'
like 'which a line says' "$(cat log)" \
	'targets: the model has no module called q_proj; the other names count'
refused 'an embedding of positions' \
	'targets: transformer.wpe is no linear map, and no embedding of tokens, that can be adapted' \
	-o adapter.targets=wpe
refused 'a head that is the embedding, as a target' \
	'targets: lm_head is tied to the embedding, and cannot be adapted alone' \
	-o adapter.targets='c_attn lm_head'
trained peft.ini -o model.path="$golden/pretrained/gpt2" -o train.steps=1 -o adapter.targets=wte > digest
like 'an embedding that is the head, merged' "$("$ZEROTH" checkpoint export --merge run tied 2>&1)" \
	'wte.weight is the head, too, which has no adapter'
ok 'leaves nothing' test ! -e tied
cp -r "$golden/adapters/llama-tokens" other
cp "$golden/adapters/llama-tokens/adapter_model.safetensors" other
printf '\001' | dd of=other/adapter_model.safetensors bs=1 conv=notrunc \
	seek=$((8 + $(od -An -tu8 -N8 other/adapter_model.safetensors) + 1)) 2> /dev/null
like 'adapters of another base' \
	"$(trained peft.ini -o model.path="$golden/pretrained/llama" -o adapter.path=other)" \
	'embed_tokens.base_layer.weight is no copy of model.embed_tokens.weight of the model, with which'
refused 'a module that is adapted and trained' \
	'modules_to_save: transformer.h.0.attn.c_attn ends with one of these names and has an' \
	-o adapter.modules_to_save=_attn
refused 'a rank that is too large' 'r = 17: transformer.h.0.attn.c_attn is a map from 16 to 48 elements' \
	-o adapter.r=17
refused 'a pattern without a number' "rank_pattern: 'c_fc': expected MODULE:NUMBER" \
	-o adapter.rank_pattern=c_fc
refused 'a second pattern without a number' "rank_pattern: 'c_fc': expected MODULE:NUMBER" \
	-o adapter.rank_pattern='c_attn:4 c_fc' -o adapter.targets=c_attn
refused 'a pattern of nothing' 'alpha_pattern: no module that gets an adapter is called q_proj' \
	-o adapter.alpha_pattern=q_proj:9
refused 'a pattern of what gets no adapter' \
	'rank_pattern: no module that gets an adapter is called c_fc' \
	-o adapter.rank_pattern='c_attn:4 c_fc:2' -o adapter.targets=c_attn
refused 'a tied embedding' 'modules_to_save: unit wte is tied, 2 layers use it' \
	-o adapter.modules_to_save=wte
refused 'both, called otherwise than PEFT knows' 'modules_to_save: unit wte is tied, 2 layers use it' \
	-o adapter.modules_to_save=wte -o adapter.ensure_weight_tying=yes
refused 'adapters for both' \
	'ensure_weight_tying: PEFT adapts transformer.wte and lm_head in the same memory, but trains' \
	-o adapter.targets='c_attn lm_head' -o adapter.ensure_weight_tying=yes
refused 'both, where the file says otherwise' \
	'ensure_weight_tying = yes: adapter_config.json in path says no' \
	-o adapter.path="$golden/adapters/gpt2" -o adapter.ensure_weight_tying=yes
refused 'a head that is the embedding' 'modules_to_save: the model has no module whose name ends with lm_head' \
	-o adapter.modules_to_save=lm_head
refused 'weights in 16 bits' 'adapters are merged by .zeroth checkpoint export --merge.' -o zero.plugin=stage3 \
	-o zero.gather_16bit_weights_on_model_save=yes -o precision.plugin=bf16
refused 'no adapters there' 'adapter_config.json' -o adapter.path=nowhere
cp -r "$golden/adapters/gpt2" bad
sed -i 's/"modules_to_save": null/"modules_to_save": ["wpe"]/' bad/adapter_config.json
refused 'a module to save that the file does not have' 'tensor wpe.weight is missing' \
	-o adapter.path=bad
cp "$golden/adapters/gpt2/adapter_config.json" bad
sed -i 's/"use_dora": false/"use_dora": true/' bad/adapter_config.json
refused 'a rank that the file does not have' 'r = 16: adapter_config.json in path says 4' \
	-o adapter.path="$golden/adapters/gpt2" -o adapter.r=16
refused 'DoRA' 'bad/adapter_config.json: use_dora is not supported' -o adapter.path=bad
sed -i -e 's/"use_dora": true/"use_dora": false/' -e 's/"r": 4/"r": 5/' bad/adapter_config.json
refused 'another rank than the tensors have' 'lora_A.weight has shape \[4, 16\]' -o adapter.path=bad
sed -i -e 's/"r": 5/"r": 4/' bad/adapter_config.json
for init in pissa pissa_niter_4 olora corda loftq lora_ga; do
	sed "s/\"init_lora_weights\": true/\"init_lora_weights\": \"$init\"/" \
		"$golden/adapters/gpt2/adapter_config.json" > bad/adapter_config.json
	refused "adapters that changed their base: $init" \
		"init_lora_weights = $init: such adapters change their base; PEFT's save_pretrained" \
		-o adapter.path=bad
done
for bias in all lora_only; do
	sed "s/\"bias\": \"none\"/\"bias\": \"$bias\"/" "$golden/adapters/gpt2/adapter_config.json" > bad/adapter_config.json
	refused "biases that learn: $bias" "bias = $bias; none is read" -o adapter.path=bad
done
for key in alora_invocation_tokens arrow_config use_bdlora kasa_config monteclora_config; do
	sed "s/\"$key\": null/\"$key\": [1]/" \
		"$golden/adapters/gpt2-names/adapter_config.json" > bad/adapter_config.json
	refused "another product: $key" "$key is not supported" -o adapter.path=bad
done
sed 's/"init_lora_weights": true/"init_lora_weights": "gaussian"/' \
	"$golden/adapters/gpt2/adapter_config.json" > bad/adapter_config.json
like 'adapters that began otherwise are read' \
	"$(trained peft.ini -o model.path="$golden/pretrained/gpt2" -o adapter.path=bad)" '^digest'
cp "$golden/adapters/gpt2/adapter_config.json" bad
sed -i 's/"c_fc"/"c_(fc|x)"/' bad/adapter_config.json
refused 'a regular expression' 'target_modules: expected a list of names' -o adapter.path=bad
tr -d '\n' < "$golden/adapters/gpt2/adapter_config.json" |
	sed 's/"target_modules": *\[[^]]*\]/"target_modules": null/' > bad/adapter_config.json
refused "names that are PEFT's own" 'target_modules: expected names of linear maps; PEFT takes' \
	-o adapter.path=bad
done_testing
