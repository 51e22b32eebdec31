#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Models that are exported, and what transformers 4.57 and 5.24 make of their config.json when they save them again
# (golden/make_resaved.py, which also compares the losses and the bytes of the tensors): each is read as the same model.
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
[optimizer]
plugin = adamw
lr = 0
weight_decay = 0
END
small=(-o model.layers=2 -o model.heads=2 -o model.width=16 -o model.ffn_width=24 -o model.context=16 -o model.vocabulary=61)
train() { # train RUN OPTION...
	local dir=$1
	shift
	"$ZEROTH" train a.ini -o run.dir="$dir" "$@" > "$dir.out" 2> "$dir.err" || cat "$dir.err"
}
digest() { tail -n 1 "$1.out"; }
own() { sed -n '/^\[model\]/,/^\[data\]/{s/ ;.*//; /^path\|^\[/d; p}' "$1/config.ini"; }

while read -r name options; do
	own=()
	for option in $options; do
		own+=(-o "$option")
	done
	kept=()
	for ((i = 1; i < ${#small[@]}; i += 2)); do # an option is given once
		[[ " $options" = *" ${small[i]%%=*}="* ]] || kept+=(-o "${small[i]}")
	done
	train "new.$name" "${kept[@]}" "${own[@]}"
	"$ZEROTH" checkpoint export "new.$name" dir > /dev/null
	is "$name: a run has the config.json of its export" "$(cat "new.$name/config.json")" "$(cat dir/config.json)"
	train "read.$name" -o model.path=dir
	for version in 4.57 5.24; do
		cp "$golden/resaved/$name.$version.json" dir/config.json
		train "again.$name" -o model.path=dir
		is "$name: saved by $version" "$(digest "again.$name")" "$(digest "read.$name")"
		is "$name: saved by $version, its options" "$(own "again.$name")" "$(own "read.$name")"
		rm -r "again.$name"
	done
	rm -r dir
done < "$golden/resaved/cases"
done_testing
