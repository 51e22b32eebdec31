#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Optimizer states in 8 bits. I1: the same bits over stages, ranks, pieces, tiers and going on. I2: the plan counts 2176
# bytes per block. I7: states of other types are converted, and a warning says so. And training learns as with fp32.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
. "$ZR_SRCDIR/tests/lib/digests.sh" || exit 99
cat "$ZR_SRCDIR/tests/lib/matrix.ini" - > adamw.ini <<'INI'
[optimizer]
plugin = adamw
states = 8bit
lr = 1e-3
INI
cat adamw.ini - > lion.ini <<'INI'
[optimizer.matrices]
plugin = lion
states = 8bit
match = *.c_attn.weight *.c_proj.weight *.c_fc.weight
lr = 1e-4
INI
sed 's/= adamw/= cpu_adam/' adamw.ini > cpu_adam.ini

for optimizer in adamw lion; do
	for precision in fp32 bf16; do
		set -- -o precision.plugin=$precision
		[ -z "$ZR_SANITIZE" ] || [ $optimizer$precision != adamwfp32 ] || continue
		one=$(digest $optimizer 1 "$@")
		like "$optimizer, $precision: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
		one_in 5 && is "I1 $optimizer, $precision: stage 1 on 3 ranks, in pieces" "$(digest $optimizer 3 "$@" -o zero.plugin=stage1 "${pieces[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: stage 3 on 2 ranks, 2 threads" "$(digest $optimizer 2 "$@" "${split[@]}" -o device.threads=2)" "$one"
		one_in 5 && is "I1 $optimizer, $precision: updates in the backward" "$(digest $optimizer 2 "$@" "${split[@]}" \
			-o train.gradient_clipping=0 -o zero.update_in_backward=yes)" "$(digest $optimizer 1 "$@" -o train.gradient_clipping=0)"
		one_in 5 && is "I1 $optimizer, $precision: the state on disk" "$(digest $optimizer 1 "$@" -o zero.plugin=stage1 "${state[@]}" "${pieces[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: everything on disk, 3 ranks" "$(digest $optimizer 3 "$@" "${split[@]}" "${all[@]}" "${pieces[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: on a separate device, 2 ranks" "$(digest $optimizer 2 "$@" -o zero.plugin=stage1 "${apart[@]}")" "$one"
		one_in 5 && is "I1 $optimizer, $precision: the state beside a separate device" "$(digest $optimizer 2 "$@" "${split[@]}" "${apart[@]}" \
			-o offload.optimizer.plugin=cpu)" "$one"
	done
	one_in 5 && is "I1 $optimizer, bf16: the master in two halves" "$(digest $optimizer 2 "$@" "${split[@]}" -o precision.master=split)" "$one"
done
one=$(digest adamw 1)
one_in 5 && is 'I1 cpu_adam has the bits of adamw' "$(digest cpu_adam 2 "${split[@]}")" "$one"

# ---- the plan ----
state_of() { "$ZEROTH" plan --json adamw.ini -o data.path=text "$@" | awk '$1 " " $2 == "\"optimizer state\":" { print $3 + 0 }'; }
wide=$(state_of -o optimizer.states=fp32) narrow=$(state_of)
blocks=$((wide / 16384))
ok "I2 $blocks blocks of two states take $narrow bytes, 2 x 2176 each and what aligns them" \
	test "$blocks" -gt 0 -a "$narrow" -ge $((blocks * 4352)) -a "$narrow" -lt $((blocks * 4352 + 8192))

# ---- going on ----
half=(-o train.steps=6 -o checkpoint.every=3)
train whole adamw 1 "${half[@]}"
whole=$(tail -n 1 whole.out)
resume() { # resume CONF RANKS OPTION...: from step 3 of `from`
	local conf=$1 ranks=$2
	shift 2
	train run "$conf" "$ranks" "${half[@]}" --resume from/checkpoints/step-00000003 "$@"
	tail -n 1 run.out
}
mv whole from
one_in 5 && is 'I6 going on has the bits of the whole' "$(resume adamw 1)" "$whole"
one_in 5 && is 'I6 on 2 ranks, stage 3' "$(resume adamw 2 "${split[@]}")" "$whole"
one_in 5 && is 'I6 on 3 ranks, from disk' "$(resume adamw 3 "${split[@]}" "${all[@]}" "${pieces[@]}")" "$whole"
is 'nothing is converted there' "$(grep -c converted run.err)" 0

declare -A kept=([fp32]=F32 [bf16]=BF16)
for to in fp32 bf16; do
	one=$(resume adamw 1 -o optimizer.states=$to)
	like "8 bits to $to: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	like "I7: and says so" "$(cat run.err)" "state exp_avg_sq of optimizer adamw was kept in U8 and is converted to ${kept[$to]}$"
	one_in 5 && is "I1 8 bits to $to on 3 ranks, in pieces" "$(resume adamw 3 "${split[@]}" "${pieces[@]}" -o optimizer.states=$to)" "$one"
done
rm -rf from
train from adamw 2 "${half[@]}" -o optimizer.states=fp32 -o zero.plugin=stage1
wide=$(tail -n 1 from.out)
one=$(resume adamw 1)
like 'fp32 to 8 bits: trains' "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
ok 'other bits than with fp32' test "$one" != "$wide"
like 'I7: and says so' "$(cat run.err)" 'state exp_avg of optimizer adamw was kept in F32 and is converted to U8$'
like 'I7: the setting is said, too' "$(cat run.err)" 'optimizer.states was fp32, is 8bit: from here on'
is 'each state is said once' "$(grep -c 'is converted to' run.err)" 2
one_in 5 && is 'I1 fp32 to 8 bits on 3 ranks' "$(resume adamw 3 "${split[@]}")" "$one"
one_in 5 && is 'I1 fp32 to 8 bits on disk' "$(resume adamw 2 "${split[@]}" "${all[@]}" "${pieces[@]}")" "$one"
one_in 5 && is 'I1 fp32 to 8 bits on a separate device' "$(resume adamw 1 "${apart[@]}" -o zero.plugin=stage1)" "$one"
one=$(resume adamw 1 -o optimizer.states=bf16)
like 'I7: fp32 to bf16 is said' "$(cat run.err)" 'state exp_avg of optimizer adamw was kept in F32 and is converted to BF16$'
one_in 5 && is 'I1 fp32 to bf16 on 3 ranks' "$(resume adamw 3 "${split[@]}" -o optimizer.states=bf16)" "$one"

# ---- names of before ----
sed '/^states/d' adamw.ini > plain.ini
for id in adamw lion; do
	like "${id}8 is refused, and the way of today named" "$("$ZEROTH" plan plain.ini -o data.path=text -o optimizer.plugin=${id}8 2>&1)" \
		"no optimizer plugin '${id}8'; did you mean $id\?.*; write plugin = $id and states = 8bit$"
done
for id in adamw lion; do
	train former $id 1 -o optimizer.states=8bit
	"$ZEROTH" sample former -n 8 > sampled 2>&1
	sed -i "s/^plugin = $id ;/plugin = ${id}8 ;/" former/config.ini
	is "the configuration of a run has ${id}8 now" "$(grep -c "^plugin = ${id}8 ;" former/config.ini)" 1
	is 'and the run samples as before' "$("$ZEROTH" sample former -n 8 2>&1)" "$(cat sampled)"
	rm -rf former
done

# ---- from before the key was called states ----
train former adamw 1
"$ZEROTH" sample former -n 8 > sampled 2>&1
sed -i 's/^states = /moments = /' former/config.ini
is 'the configuration of a run has moments now' "$(grep -c '^moments = 8bit' former/config.ini)" 1
is 'and the run samples as before' "$("$ZEROTH" sample former -n 8 2>&1)" "$(cat sampled)"

# ---- from before separate and late_copies of device/cpu went ----
sed -i '/^\[device\]/a separate = no ; default\nlate_copies = yes' former/config.ini
is 'the configuration of a run has both now' "$(grep -cE '^(separate|late_copies) = ' former/config.ini)" 2
is 'and the run samples as before, too' "$("$ZEROTH" sample former -n 8 2>&1)" "$(cat sampled)"

# ---- learning ----
last() { train run adamw 1 -o train.steps=60 "$@"; awk '$1 == "loss" { print $4 }' run.out; }
wide=$(last -o optimizer.states=fp32) narrow=$(last)
ok "after 60 steps the loss is $narrow, with fp32 states $wide: within 0.5 %" awk "BEGIN { d = $narrow / $wide - 1; exit !(d < 0.005 && d > -0.005) }"
is 'I2, I5: nothing is left on disk' "$(find disk -mindepth 1)" ''
done_testing
