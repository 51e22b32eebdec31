#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Masters of 24 bits, the bf16 compute copy and 8 bits more. I1: the same bits over stages, ranks, pieces, tiers and going on.
# I2: the plan counts a byte per parameter beside the copy. I6: checkpoints have them in fp32, for and from every other format.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
. "$ZR_SRCDIR/tests/lib/digests.sh" || exit 99
cat "$ZR_SRCDIR/tests/lib/matrix.ini" - > wide.ini <<'INI'
[precision]
plugin = bf16
master = split24
INI
cat wide.ini - > narrow.ini <<'INI'
[optimizer]
plugin = adamw
states = 8bit
INI

for conf in wide narrow; do
	one=$(digest $conf 1)
	like "$conf: trains" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	one_in 5 && is "I1 $conf: stage 1 on 3 ranks, in pieces" "$(digest $conf 3 -o zero.plugin=stage1 "${pieces[@]}")" "$one"
	one_in 5 && is "I1 $conf: stage 3 on 2 ranks, 2 threads" "$(digest $conf 2 "${split[@]}" -o device.threads=2)" "$one"
	one_in 5 && is "I1 $conf: the state on disk" "$(digest $conf 1 -o zero.plugin=stage1 "${state[@]}" "${pieces[@]}")" "$one"
	one_in 5 && is "I1 $conf: everything on disk, 3 ranks" "$(digest $conf 3 "${split[@]}" "${all[@]}" "${pieces[@]}")" "$one"
	one_in 5 && is "I1 $conf: on a separate device, 2 ranks" "$(digest $conf 2 -o zero.plugin=stage1 "${apart[@]}")" "$one"
	one_in 5 && is "I1 $conf: the state beside a separate device" "$(digest $conf 2 "${split[@]}" "${apart[@]}" -o offload.optimizer.plugin=cpu)" "$one"
	ok "$conf: other bits than with a master of 32" test "$(digest $conf 1 -o precision.master=split)" != "$one"
done

# ---- the plan ----
masters() { "$ZEROTH" plan --json wide.ini -o data.path=text "$@" | awk '$1 " " $2 == "\"master parameters\":" { print $3 + 0 }'; }
wide=$(masters -o precision.master=fp32) narrow=$(masters)
ok "I2 masters take $narrow bytes beside the copy, $wide in fp32" \
	test "$wide" -gt 0 -a "$narrow" -ge $((wide / 4)) -a "$narrow" -lt $((wide / 4 + 4096))

# ---- going on ----
half=(-o train.steps=6 -o checkpoint.every=3)
resume() { # resume RANKS OPTION...: from step 3 of `from`
	local ranks=$1
	shift
	train run narrow "$ranks" "${half[@]}" --resume from/checkpoints/step-00000003 "$@"
	tail -n 1 run.out
}
train from narrow 1 "${half[@]}"
whole=$(tail -n 1 from.out)
one_in 5 && is 'I6 going on has the bits of the whole' "$(resume 1)" "$whole"
one_in 5 && is 'I6 on 2 ranks, stage 3' "$(resume 2 "${split[@]}")" "$whole"
one_in 5 && is 'I6 on 3 ranks, from disk' "$(resume 3 "${split[@]}" "${all[@]}" "${pieces[@]}")" "$whole"
is 'nothing is warned of there' "$(grep -c 'from here on' run.err)" 0
one=$(resume 1 -o precision.master=fp32)
like 'I7: to fp32 is said' "$(cat run.err)" 'masters had 24 bits, have 32: from here on'
one_in 5 && is 'I6 to fp32 and to a split master of 32 bits are one' "$(resume 2 "${split[@]}" -o precision.master=split)" "$one"
rm -rf from
train from narrow 2 "${half[@]}" -o precision.master=fp32 -o zero.plugin=stage1
one=$(resume 1)
like 'I7: from fp32 is said' "$(cat run.err)" 'masters had 32 bits, have 24: from here on'
one_in 5 && is 'I1 from fp32 on 3 ranks, in pieces' "$(resume 3 "${split[@]}" "${pieces[@]}")" "$one"
one_in 5 && is 'I1 from fp32 on a separate device' "$(resume 1 "${apart[@]}" -o zero.plugin=stage1)" "$one"
rm -rf from
train from narrow 2 "${half[@]}" -o precision.master=split -o zero.plugin=stage1
one_in 5 && is 'I1 from a split master of 32 bits' "$(resume 1)" "$one"

# ---- where it means nothing ----
for precision in fp32 fp16; do
	digest wide 1 -o precision.plugin=$precision -o precision.master=split24 > said
	like "I7 $precision has no such masters, and says so" "$(cat run.err)" "master=split24: unknown key; .*precision/$precision. lists"
done

# ---- learning ----
last() { train run narrow 1 -o train.steps=60 "$@"; awk '$1 == "loss" { print $4 }' run.out; }
wide=$(last -o optimizer.states=fp32 -o precision.master=fp32) narrow=$(last)
ok "after 60 steps the loss is $narrow, with fp32 states $wide: within 0.5 %" awk "BEGIN { d = $narrow / $wide - 1; exit !(d < 0.005 && d > -0.005) }"
is 'I2, I5: nothing is left on disk' "$(find disk -mindepth 1)" ''
done_testing
