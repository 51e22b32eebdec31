#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Mixes of [model] options: those that a class of transformers computes are exported with the config.json that transformers 4.57 and
# 5.24 read as the same model (golden/make_mixes.py); the others train, and their export is refused with the option's name.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
cat > a.ini <<END
[data]
plugin = tokens
path = $golden/pretrained/tokens.bin
format = uint16
[train]
sequence_length = 13
steps = 1
train_batch_size = 2
micro_batch_size = 2
eval_every = 0
[model]
vocabulary = 61
END

while IFS='|' read -r model want; do
	read -r what family options <<< "$model"
	own=(-o "model.plugin=$family")
	for option in $options; do
		own+=(-o "model.$option")
	done
	rm -rf run dir
	"$ZEROTH" train a.ini -o run.dir=run "${own[@]}" > out 2> err
	is "$model: trains" "$?" 0
	"$ZEROTH" checkpoint export run dir > out 2> refusal
	code=$?
	if [ "$what" = same ]; then
		is "$model: is exported" "$code" 0
		is "$model: its config.json" " $(tr -s ' \n' ' ' < dir/config.json)" "$want "
		continue
	fi
	is "$model: exit 2" "$code" 2
	is "$model: is refused" " $(cat refusal)" "$want"
	ok "$model: leaves nothing" test ! -e dir -a ! -e dir.tmp -a ! -e run/config.json
	like "$model: the run says so" "$(cat err)" "^zeroth: export: no config.json is written: .* \[model\] ${want#*\[model\] }\$"
done < "$golden/mixes.txt"

# A training that would export at its end is refused before it begins.
rm -rf run
"$ZEROTH" train a.ini -o run.dir=run -o model.plugin=llama -o model.layers=1 -o model.heads=2 -o model.width=16 -o model.context=16 \
	-o model.window=4 -o model.mlp_bias=yes -o precision.plugin=bf16 -o zero.gather_16bit_weights_on_model_save=yes > out 2> err
is 'model-16bit of no class: exit 2' "$?" 2
like 'model-16bit of no class: is refused' "$(cat err)" '^zeroth: no class of transformers computes this model: \[model\] mlp_bias: '
ok 'model-16bit of no class: before the run' test ! -e run
done_testing
