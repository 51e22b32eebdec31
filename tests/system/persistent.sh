#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Persistent numbers of tensors, by a model whose gradients depend on them (doubles/persistent.c): I1, whatever ranks, stage,
# tier, type and resumption there are; I2, the plan has them; and what is refused. Where no model declares any, plan and
# checkpoints are without a trace of them.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
memory_scratch
cd "$scratch" || exit 99
umask 022
for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done > text
mkdir disk
read -ra cc <<< "${CC:-cc}"
build persistent
model=$scratch/persistent.so

# train DIR [ARGUMENT]...: $out has its output, $said the code and the last line of standard error
train() {
	out=$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path="$scratch/text" -o run.dir="$1" -o model.plugin="$model" \
		-o train.train_batch_size=12 -o train.steps=6 -o device.threads=1 "${@:2}" 2> err)
	said="$? $(tail -n 1 err)"
}
digest() { echo "$(grep '^digest: ' <<< "$out" || echo "$said") $(grep -o '"last_val_loss": [0-9.e-]*' "$1/summary.json" 2> /dev/null)"; }

numbers() { grep -oaE '"persistent": *"[0-9a-f]{16}"' "$1"/rank-00000-of-*.safetensors | grep -oE '[0-9a-f]{16}'; } # their hash

# ---- I1 ----
for type in fp32 bf16; do
	train $type -o precision.plugin=$type
	want=$(digest $type)
	like "$type: it trains" "$want" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16} "last_val_loss": '
	PERSISTENT=none train $type-without -o precision.plugin=$type
	ok "$type: the numbers matter" test "$(digest $type-without)" != "$want"
	PERSISTENT=stay train $type-stay -o precision.plugin=$type
	is "$type: but not where they stay 0" "$(digest $type-stay)" "$(digest $type-without)"
	for how in '2 stage0' '2 stage1' '3 stage2' '2 stage3' '4 stage3' '1 stage0 -o activation.plugin=recompute' \
		'2 stage3 -o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk' "2 stage2 -o device.plugin=$cards -o device.memory=32M"; do
		read -r n stage more <<< "$how"
		one_in 7 || continue
		# shellcheck disable=SC2086
		train "run" -n "$n" -o precision.plugin=$type -o zero.plugin="$stage" $more
		is "$type: $how: the same bits" "$(digest run)" "$want"
		rm -rf run
	done

	# the first half of one world goes on in another; with async = yes the next step begins before the numbers are written
	for how in '1 stage0 2 stage3' '2 stage3 1 stage0' '3 stage2 2 stage1' '2 stage0 4 stage2'; do
		read -r n stage m other <<< "$how"
		train half -n "$n" -o precision.plugin=$type -o zero.plugin="$stage" -o checkpoint.every=3 -o checkpoint.async=yes \
			-o checkpoint.keep=9
		is "$type: $how: a whole run that saves" "$(digest half)" "$want"
		train rest -n "$m" -o precision.plugin=$type -o zero.plugin="$other" --resume half/checkpoints/step-00000003
		is "$type: $how: gone on with in the middle" "$(digest rest)" "$want"
		ok "$type: $how: what was saved is whole" "$ZEROTH" checkpoint verify half/checkpoints/step-00000003
		rm -rf half rest
	done
done

# An adapter hands them on; the norm is frozen then, and its numbers are of no use.
for n in 1 2; do
	train lora-$n -n $n -o adapter.plugin=lora -o adapter.r=2 -o zero.plugin=stage3 -o checkpoint.every=3
	lora[n]=$(digest lora-$n)
done
is 'lora: the same bits' "${lora[2]}" "${lora[1]}"
is 'lora: the same numbers' "$(numbers lora-2/checkpoints/step-00000003)" "$(numbers lora-1/checkpoints/step-00000003)"
like 'lora: and there are some' "$(numbers lora-1/checkpoints/step-00000003)" '[0-9a-f]{16}'

# A device whose memory the host does not reach has the numbers twice.
train apart -n 2 -o device.plugin="$cards" -o device.memory=32M -o checkpoint.every=3
train alike -n 2 -o checkpoint.every=3
is 'apart: checkpoints are the same' "$(cd apart/checkpoints/step-00000003 && sha256sum *.safetensors)" \
	"$(cd alike/checkpoints/step-00000003 && sha256sum *.safetensors)"

# ---- libzeroth, whose ranks are threads ----
lib=$ZR_BUILDDIR/.libs
"${cc[@]}" -std=c11 -g -O2 ${ZR_SANITIZE:+-fsanitize="$ZR_SANITIZE"} -I"$ZR_SRCDIR/include" -o embed_run \
	"$ZR_SRCDIR/tests/examples/embed_run.c" -L"$lib" -lzeroth -Wl,-rpath,"$lib" || exit 99
embedded=(data.path="$scratch/text" model.plugin="$model" train.train_batch_size=12 device.threads=1 train.steps=6 zero.plugin=stage3
	checkpoint.keep=9 run.dir=library)
train again
want=$(digest again)
is 'libzeroth: the same bits' "$(./embed_run -n 2 -s 3 "$ZR_SRCDIR/tests/lib/matrix.ini" "${embedded[@]}" 2>&1 | grep '^digest')" "${want%% \"*}"
train rest -n 3 --resume library/checkpoints/step-00000003
is 'libzeroth: the command goes on from its checkpoint' "$(digest rest)" "$want"
rm -rf rest

# ---- what a checkpoint says ----
like 'a checkpoint is of version 4' "$(cat alike/checkpoints/step-00000003/manifest.json)" '^ "version": 4,'
like '... and says how many a tensor has' "$(tr -d '\n' < alike/checkpoints/step-00000003/manifest.json)" \
	'"name": "ln_f.weight",[^}]*"persistent": 3'
is '... rank 0 has them' "$(cd alike/checkpoints/step-00000003 && grep -l '"persistent":' *.safetensors)" rank-00000-of-00002.safetensors
PERSISTENT=none train none -o checkpoint.every=3
like 'without any it is of version 1' "$(cat none/checkpoints/step-00000003/manifest.json)" '^ "version": 1,'
is '... and has no trace of them' "$(grep -rl '"persistent": *[0-9"]' none/checkpoints)" ''

# ---- I2 ----
options=(-o data.path=text -o model.plugin="$model" -o train.train_batch_size=12 -o device.threads=1)
plan() { "$ZEROTH" plan --json "$ZR_SRCDIR/tests/lib/matrix.ini" "${options[@]}" "$@"; }
bytes() { tr -d ' \n' | grep -oE '"persistentnumbers":(\{"planned":[0-9]+,"peak":)?[0-9]+' | grep -oE '[0-9]+$'; }
is 'I2: the plan has a page of them' "$(plan | bytes)" 4096
is 'I2: and so has the run' "$(bytes < alike/summary.json)" 4096
like 'people see them' "$("$ZEROTH" plan "$ZR_SRCDIR/tests/lib/matrix.ini" "${options[@]}")" 'persistent numbers +4.0 KiB'
is 'I2: without any there is no such line' "$(PERSISTENT=none plan | bytes)$(bytes < none/summary.json)" ''
is 'I2: and everything else is as it was' \
	"$(plan --program | tr ',' '\n' | grep -c '"kind"')" "$(PERSISTENT=none plan --program | tr ',' '\n' | grep -c '"kind"')"

# ---- what is refused ----
refused() { is "refused: $1" "$said" "$2"; }
other='give \[model\] and \[adapter\] as they were'
train late --resume none/checkpoints/step-00000003
like 'refused: a checkpoint without them' "$said" "^2 zeroth: .*cannot go on from here: the model is another one: tensor [a-z._]+ had 0 \
persistent numbers, has [23]: $other"
PERSISTENT=none train late --resume alike/checkpoints/step-00000003
like 'refused: a checkpoint with them by a model without' "$said" "tensor [a-z._]+ had [23] persistent numbers, has 0: $other"
for how in 'too many:tensor ln_f.weight: persistent is 1048577' 'fewer than none:tensor ln_f.weight: persistent is -1' \
	'a few too many:tensor h.0.attn.c_attn.weight: persistent is 262144'; do
	PERSISTENT=${how%%:*} train late
	like "refused: ${how%%:*}" "$said" "^2 zeroth: plugin $model: declare: ${how#*:}; expected 0 or more, and at most 1048576 in all \
tensors; mend the plugin"
done
PERSISTENT='no renew' train late
refused 'no function that writes them' "2 zeroth: plugin $model: it declares persistent numbers of tensors and has no function \
renew; mend the plugin"
PERSISTENT=fail train late
like 'refused: what renew fails with ends the training' "$said" '^5 zeroth: .*the numbers have no end'
ok '... at the start no directory was left' test ! -e late/checkpoints/step-00000003
rm -rf late
PERSISTENT=drift train late -n 2 -o checkpoint.every=2 -o train.steps=2
like 'refused: ranks that wrote something else save nothing' "$(cat err)" 'persistent numbers of rank 1 are not those of rank 0'
is '... indeed' "$(ls late/checkpoints 2> /dev/null)" ''
"$ZEROTH" sample alike 2> err > /dev/null
like 'refused: to sample what files of weights do not have' "$? $(tail -n 1 err)" \
	'^2 zeroth: .*\[model\] plugin: .*the model keeps persistent numbers of tensors, which no file of weights has'
ok 'weights are exported' "$ZEROTH" checkpoint export alike/checkpoints/step-00000003 exported
is '... which have none of them' "$(grep -ac '"persistent' exported/model.safetensors)" 0
done_testing
