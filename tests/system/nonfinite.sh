#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: weights with a NaN or an infinity are refused when they are read, by file, tensor and element.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
golden=$ZR_SRCDIR/tests/golden/pretrained

# spoilt MODEL BYTES: a copy of a model whose last element has these bytes
spoilt() {
	rm -rf dir run
	cp -r "$golden/$1" dir
	chmod -R u+w dir
	truncate -s -$((${#2} / 4)) dir/model.safetensors
	printf '%b' "$2" >> dir/model.safetensors
}
train() {
	"$ZEROTH" train "$@" -o model.path=dir -o data.plugin=tokens -o data.path="$golden/tokens.bin" -o data.format=uint16 \
		-o train.sequence_length=13 -o train.steps=1 -o train.train_batch_size=2 -o train.micro_batch_size=1 -o run.dir=run 2>&1
}
echo > empty.ini
at='dir/model\.safetensors: tensor [a-z0-9._]+: element [0-9]+ is'
spoilt gpt2 '\x00\x00\xc0\x7f'
like "a NaN" "$(train empty.ini)" "^zeroth: $at -?nan: nothing can be learned"
ok "nothing is left" test ! -e run
like "a NaN, of two ranks" "$(train -n 2 empty.ini -o zero.plugin=stage3)" "$at -?nan: nothing"
like "sample" "$("$ZEROTH" sample dir --tokens 1 -p a 2>&1)" "$at -?nan: nothing"
spoilt gpt2 '\x00\x00\x80\xff'
like "an infinity" "$(train empty.ini)" "^zeroth: $at -inf: nothing"
spoilt gpt2-bf16 '\x80\x7f'
like "bf16" "$(train empty.ini -o precision.plugin=bf16)" "^zeroth: $at inf: nothing"
spoilt gpt2 '\xff\xff\x7f\x7f'
like "the largest number is one" "$(train empty.ini -o precision.on_nonfinite=skip)" '^digest: '
done_testing
