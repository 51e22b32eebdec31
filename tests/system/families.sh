#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The families of models, each from a directory that transformers wrote (golden/make_pretrained.py;
# tests/unit/pretrained compares them with its numbers): one digest over ranks, stages, tiers,
# recomputation and a resume (I1); what is exported without a directory at hand is read again; and a
# model that is none of them is refused by what differs (I7).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/pretrained
cat > a.ini <<END
[data]
plugin = tokens
path = $golden/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 3
train_batch_size = 2
micro_batch_size = 1
eval_every = 0
[optimizer]
plugin = adamw
lr = 1e-2
END
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err" || cat "$dir.err"
}
digest() { tail -n 1 "$1.out"; }

mkdir store
disk=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path=store
	-o offload.param.plugin=nvme -o offload.param.path=store)
for f in mistral qwen3 gemma gemma2 gemma3 phi3 phi3-long olmo2 smollm3 starcoder2 gpt-neox granite; do
	from=(-o model.path="$golden/$f")
	train "$f" "${from[@]}"
	like "$f trains" "$(digest "$f")" '^digest: '
	train "$f.split" "${from[@]}" -n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
	is "I1: $f split by two ranks, activations computed again" "$(digest "$f.split")" "$(digest "$f")"
	train "$f.disk" "${from[@]}" -o zero.plugin=stage3 "${disk[@]}"
	is "I1: $f on disk" "$(digest "$f.disk")" "$(digest "$f")"
	train "$f.part" "${from[@]}" -o train.steps=2 -o checkpoint.every=2
	train "$f.on" "${from[@]}" -n 2 -o zero.plugin=stage2 --resume "$f.part"
	is "I1: $f goes on from step 2 with two ranks" "$(digest "$f.on")" "$(digest "$f")"
done

# ---- adapters beside them, on codes of 4 bits, too ----
adapter=(-o adapter.plugin=lora -o adapter.r=4 -o adapter.targets=all-linear)
for f in phi3 gpt-neox gemma3; do
	for store in as-is nf4; do
		from=(-o model.path="$golden/$f" "${adapter[@]}" -o model.store="$store")
		[ "$store" = nf4 ] || unset 'from[-1]' 'from[-1]'
		train "lora.$f" "${from[@]}"
		train "lora.$f.2" "${from[@]}" -n 2 -o zero.plugin=stage3 -o activation.plugin=recompute
		is "I1: adapters of $f, $store" "$(digest "lora.$f.2")" "$(digest "lora.$f")"
		like "they learn" "$(digest "lora.$f")" '^digest: '
		rm -r "lora.$f" "lora.$f.2"
	done
done

# ---- without a directory: config.json is made from the options ----
for f in qwen3 gemma3 phi3 smollm3 gpt_neox granite; do
	small=(-o model.plugin="$f" -o model.layers=2 -o model.heads=2 -o model.width=16
		-o model.ffn_width=24 -o model.context=16 -o model.vocabulary=61)
	train "new.$f" "${small[@]}" -o checkpoint.every=3
	"$ZEROTH" checkpoint export "new.$f" "out.$f" > "$f.export" 2>&1
	is "$f is exported" "$?" 0
	train "again.$f" -o model.path="out.$f" -o optimizer.lr=0 -o optimizer.weight_decay=0
	is "and read again" "$(digest "again.$f" | grep -o 'params=.*')" \
		"$(digest "new.$f" | grep -o 'params=.*')"
done

# ---- layers that differ otherwise than every so many ----
mkdir odd
sed 's/"sliding_attention",/"full_attention",/' "$golden/gemma3/config.json" > odd/config.json
ok "an order of layers without a period" "$ZEROTH" config check a.ini -o model.path=odd
sed -i 's/"sliding_attention"/"linear_attention"/' odd/config.json
like "I7: a kind of layer that is not computed" "$("$ZEROTH" config check a.ini -o model.path=odd 2>&1)" \
	'layer_types: layer 2 is linear_attention: sliding_attention or full_attention$'
sed -z -i 's/,\n *"linear_attention"//' odd/config.json
like "I7: too few of them" "$("$ZEROTH" config check a.ini -o model.path=odd 2>&1)" \
	'layer_types has fewer words than layers = 3: give one for each layer$'

# ---- a family that is not there ----
mkdir other
sed -e 's/"model_type": "smollm3"/"model_type": "minismollm"/' -e 's/"silu"/"relu"/' \
	-e 's/^{$/{\n  "alibi": true,/' "$golden/smollm3/config.json" > other/config.json
is "I7: the nearest family is named, and what differs" \
	"$("$ZEROTH" config check a.ini -o model.path=other 2>&1)" "zeroth: other/config.json: model_type = \
minismollm: no plugin reads it. The nearest is [model] plugin = smollm3, which does not compute \
hidden_act = relu, alibi"
done_testing
