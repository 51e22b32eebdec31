#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Sequences that hold documents (documents.c), of which not every token is a target: loss and
# gradient are divided by the targets of the global batch, so that micro-batches, accumulation,
# ranks, stages and tiers change no bit (I1), also with updates in the backward. Arrays that do not
# fit together are refused.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99

cd "$scratch" || exit 99
build documents
{
	sed '/^\[data\]/,/^plugin/d' "$ZR_SRCDIR/tests/lib/matrix.ini"
	printf '[data]\nplugin = ./documents.so\n'
} > gpt2.ini
sed -e 's/^plugin = gpt2/plugin = llama/' -e '/^dropout/d' gpt2.ini > llama.ini

# train CONF OPTION...: as trained
train() { trained "$@" -o train.train_batch_size=12; }
same() { is "I1 $1" "$(train "${@:2}")" "$want"; }

use_disk
for model in gpt2 llama; do
	want=$(train $model.ini)
	like "$model: it trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	same "$model: accumulation on two ranks" $model.ini -n 2
	same "$model: stage3 on three ranks" $model.ini -n 3 -o zero.plugin=stage3 \
		-o zero.persistence_threshold=0
	same "$model: a device that only copies reach" $model.ini -n 2 -o zero.plugin=stage2 \
		-o device.memory=48M -o device.plugin="$cards"
	same "$model: everything on disk" $model.ini -n 2 -o zero.plugin=stage3 "${disk[@]}" \
		-o activation.plugin=recompute
done
before=$(train gpt2.ini -o train.gradient_clipping=0)
is "I1 updates in the backward" "$(train gpt2.ini -n 2 -o zero.update_in_backward=yes \
	-o train.gradient_clipping=0)" "$before"

# ---- sequences without a target, and steps ----
export MASKED=1
masked=(gpt2.ini -o train.steps=4 -o train.micro_batch_size=2 -o monitor.csv.plugin=csv)
want=$(train "${masked[@]}")
like 'rows without a target: it trains' "$want" '^digest'
same 'rows without a target: three ranks' "${masked[@]}" -n 3 -o zero.plugin=stage3 \
	-o zero.persistence_threshold=0
same 'rows without a target: everything on disk' "${masked[@]}" -n 2 -o zero.plugin=stage3 \
	"${disk[@]}"
is 'a step without a target has no loss and no gradient' \
	"$(awk -F, '$1 == 3 { print $2, $5 }' run/metrics.csv)" '0 0'
unset MASKED

# ---- what does not fit together ----
for defect in start falls position target weight; do
	DEFECT=$defect train gpt2.ini > last
	like "I7 a wrong $defect is refused" "$(cat last)" \
		'\[data\] documents: token [0-9]+ of slot [0-9]+ has start -?[0-9]+, position [0-9]+, token [0-9]+, target -?[0-9]+ of [0-9]+ and weight [-0-9.]+, which do not fit together'
done
like 'I7 documents without their number of targets are refused' "$(DEFECT=targets train gpt2.ini)" \
	'\[data\] documents: it has documents, but no function `targets`'
like 'I7 unknown flags are refused' "$(DEFECT=flags train gpt2.ini)" \
	'\[data\] documents: it has flags that this zeroth does not know; install a newer one'
like 'I7 a number of targets that is none is refused' "$(DEFECT=sum train gpt2.ini)" \
	'\[data\] documents: targets\(\) answers inf, expected the sum of weights'

done_testing
