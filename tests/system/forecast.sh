#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What plan says of the time of a step: by the rates of a file and by a card's data sheet, also as a table of stages and
# tiers; its bytes are those of a run, and a run says how close it comes.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'it compares figures; fit.sh and bench.sh run the same code under sanitizers'
cd "$scratch" || exit 99
export XDG_STATE_HOME=$scratch/state
tiny text 2 4 3 <<< ''
field() { sed -nE "s/.*\"$1\": ?([-0-9.e+]+).*/\1/p" | head -n 1; }

like 'without rates plan says how to get some' "$("$ZEROTH" plan tiny.ini)" 'time of a step: no rates: `zeroth bench` measures'
is 'JSON has no forecast then' "$("$ZEROTH" plan --json tiny.ini | grep -c '"forecast"')" 0
card=$("$ZEROTH" plan --card H100 tiny.ini)
like 'by the data sheet of a card' "$card" 'a step takes .* tokens/s, by the data sheet of H100'
like 'and what binds it' "$card" 'bound by compute; dependencies alone'
offloaded=$("$ZEROTH" plan --card H100 --no-compare tiny.ini -o offload.optimizer.plugin=cpu)
like 'a card copies gradients out' "$offloaded" '^  copy out  +[0-9.]+ [mu]?s '
like 'while it copies parameters in' "$offloaded" '^  copy in  +[0-9.]+ [mu]?s '
# The first parameters come before anything is computed, the last gradient goes after all is.
json=$("$ZEROTH" plan --card H100 --no-compare --json tiny.ini -o model.width=768 -o model.heads=12 -o model.layers=1 \
	-o zero.plugin=stage3 -o offload.param.plugin=cpu -o offload.optimizer.plugin=cpu -o train.update_in_forward=no \
	-o train.train_batch_size=1 | tr ',{}' '\n\n\n')
whole=$(field critical_path <<< "$json") compute=$(field compute <<< "$json") update=$(field update <<< "$json")
ok "what is computed waits for parameters: $whole s, not $compute and $update for the update" \
	awk "BEGIN { exit !($whole > $compute + $update) }"
like 'with an adapter, too' "$("$ZEROTH" plan --card H100 tiny.ini -o adapter.plugin=lora)" 'bound by compute'
like 'an unknown card is refused with those that are known' "$("$ZEROTH" plan --card Voodoo tiny.ini 2>&1)" \
	'card Voodoo: not known; known are B200, '
like 'also if it is that of [run] rates' "$("$ZEROTH" plan tiny.ini -o run.rates=nowhere 2>&1)" 'nowhere'
like 'a file of rates that is not there is refused' "$("$ZEROTH" plan --rates none tiny.ini 2>&1)" 'none'

table=$("$ZEROTH" plan -n 4 --card A100 tiny.ini -o device.memory=64M -o model.width=16 -o model.layers=1)
is 'the table has four stages and all tiers' "$(grep -cE '^[0-3]      (-|state)' <<< "$table")" 14
is 'of which none is refused' "$(grep -cE '^[0-3]      (-|state).* (compute|host|copy( in| out)?|store|comm)$' <<< "$table")" 14
device() { sed -nE "s/^$1      -  *([0-9]+)(\.[0-9])? KiB.*/\1/p" <<< "$table"; }
is 'stage 1 has less on a device than stage 0' "$(awk "BEGIN { print ($(device 1) < $(device 0)) }")" 1
moved() { sed -nE "s/^3      $1  *([0-9]+)(\.[0-9])? KiB.*/\1/p" <<< "$table"; }
is 'parameters in host memory leave more of it' \
	"$(awk "BEGIN { print ($(moved 'state, parameters: cpu') < $(moved 'state: cpu')) }")" 1
like 'an [offload.X] of the file is not in the rows without it' \
	"$(printf '[offload.%s]\nplugin = nvme\npath = .\n' param optimizer | cat tiny.ini - > off.ini
	"$ZEROTH" plan off.ini -o zero.plugin=stage3)" '^0      -  .* MiB +0 B +[0-9.]+ MiB$'

json=$("$ZEROTH" plan -n 2 --card A100 --json tiny.ini)
is 'JSON has the table' "$(grep -c '"stage": [0-3]' <<< "$json")" 14
is 'with the wear of disks' "$(grep -c '"disk_written_bytes_per_day": [1-9]' <<< "$json")" 5
is 'but without where nobody wants it' \
	"$("$ZEROTH" plan --no-compare --json tiny.ini | grep -c '"stage":')" 0

# Of two ranks, whose state is on disks that bear 1 PB.
worn() {
	"$ZEROTH" plan -n 2 --card A100 --no-compare tiny.ini -o zero.plugin=stage3 -o offload.optimizer.plugin=nvme \
		-o offload.optimizer.path=. "$@"
}
json=$(worn --endurance 1 --json 2> warned)
days=$(awk "BEGIN { printf \"%.3g\", 1e15 / (2 * 86400 * $(field disk_written_bytes <<< "$json") / $(field seconds <<< "$json")) }")
is 'disks last until what they bear is written' "$(field disk_years <<< "$json" | awk '{ printf "%.3g", $1 * 365.25 }')" "$days"
like 'less than a year is warned of' "$(cat warned)" "worn in $days days"
like 'text says terabytes a day' "$(worn)" '^disk: .* a step by each of 2 ranks; [0-9.]+ TB written a day$'
like 'and years' "$(worn --endurance 1e6 2> warned)" ' TB written a day, so that 1e\+06 PB last [0-9.e+]+ years$'
is 'of which many are fine' "$(cat warned)" ''
is 'without disks nothing is said' "$("$ZEROTH" plan --card A100 --no-compare --endurance 1 tiny.ini | grep -c PB)" 0
like 'what no disk bears is refused' "$(worn --endurance 0 2>&1)" '^zeroth plan: --endurance 0: expected petabytes'

many=(-o model.layers=1001 -o model.width=2 -o model.heads=1)
like 'a model of many layers is compared on demand' "$("$ZEROTH" plan tiny.ini "${many[@]}")" \
	'other stages and tiers: --compare'
like 'and then is' "$("$ZEROTH" plan --compare tiny.ini "${many[@]}")" '^3      -  '
is 'rows say nothing of their own' \
	"$("$ZEROTH" plan tiny.ini -o zero.plugin=stage3 -o zero.prefetch_bucket_size=0 2>&1 > /dev/null)" ''

# Data that is not there yet.
absent=$("$ZEROTH" plan --json tiny.ini -o data.path=later.txt -o model.vocabulary=256)
like 'a plan without data says so' "$("$ZEROTH" plan tiny.ini -o data.path='later*.txt' -o model.vocabulary=256)" \
	'^the data was not looked at: later\*\.txt is not there'
is 'and has the bytes of one with it' "$(grep -A20 '"planned"' <<< "$absent")" \
	"$("$ZEROTH" plan --json tiny.ini | grep -A20 '"planned"')"
like 'so do forecasts of many ranks' "$("$ZEROTH" plan --card H100 --scale 8 tiny.ini \
	-o data.path=later -o model.vocabulary=256 -o train.train_batch_size=auto \
	-o train.gradient_accumulation_steps=1)" $'^the data was not looked at: later is not there$\n^ +8 .* compute$'
like 'also with validation data, by epochs' "$("$ZEROTH" plan tiny.ini -o data.val_path=later \
	-o model.vocabulary=256 -o train.epochs=2)" '^fits'
like 'a vocabulary that only data knows is asked for' "$("$ZEROTH" plan tiny.ini -o data.path=later 2>&1)" \
	'vocabulary.*; the data was not looked at: later is not there$'

# Of many ranks, none of which is here. Published: torchtitan, Llama 3 8B, FSDP on 8 H100 of 500 W and HBM2e, 2 sequences of
# 8192, half of the products computed again: 6,667 tokens/s a card, compiled; 82.4 GiB without.
head -c 100000 /dev/zero > tokens
titan() {
	"$ZEROTH" plan --card 'H100 HBM2e' --json "$ZR_SRCDIR/conf/llama3-8b.ini" -o data.path=tokens -o data.format=uint16 -o zero.plugin=stage3 \
		-o train.micro_batch_size=2 -o train.gradient_accumulation_steps=1 -o train.sequence_length=8192 \
		-o optimizer.states=fp32 "$@"
}
kept=$(titan --scale 8 -o activation.plugin=keep) again=$(titan --scale 8 -o activation.plugin=recompute)
is 'what torchtitan reaches lies between keeping and recomputing' \
	"$(awk "BEGIN { print ($(field tokens_per_s <<< "$again") < 8 * 6667 && 8 * 6667 < $(field tokens_per_s <<< "$kept")) }")" 1
is 'and so does its memory, less logits that are not kept here' \
	"$(awk "BEGIN { g = 2 ^ 30; print ($(field device_bytes <<< "$again") / g < 82.4 - 2 * 7.8 &&
		82.4 - 2 * 7.8 < 1.1 * $(field device_bytes <<< "$kept") / g) }")" 1
many=$(titan --scale 1,64,16384 -o activation.plugin=recompute | grep -o '"device_bytes": [0-9]*' | sort -k2n | uniq | wc -l)
is 'each number of ranks has its own memory' "$many" 3
# Bytes from other ranks need no rates. The name of a card may be in any case.
received() {
	"$ZEROTH" plan --json --scale 8 "$ZR_SRCDIR/conf/llama3-8b.ini" -o data.path=tokens -o data.format=uint16 \
		-o zero.plugin=stage3 -o device.memory=80G "$@" | grep -o '"received_bytes": [1-9][0-9]*'
}
by_card=$(received --card h100)
is 'without rates a rank receives as much' "$(received)" "$by_card"
like 'which is not nothing' "$by_card" '[1-9]'
# On 8 machines of 8 ranks, over so many network cards of 400 Gbit/s, of which collectives reach 40 GB/s each.
network() { titan --scale 64 --network "$@"; }
seconds() { field comm_seconds <<< "$1"; }
bytes() { field received_bytes <<< "$1"; }
near() { awk "BEGIN { r = ($1) / ($2); print (r > 0.98 && r < 1.02) }"; }
ring=(-o comm.sums=library -o train.reduction=local)
one=$(network 1x400 "${ring[@]}") two=$(network 2x400 "${ring[@]}")
is 'a ring passes its bytes through the network cards of a machine once' \
	"$(near "$(seconds "$one") - $(seconds "$two")" "$(bytes "$one") / 40e9 - $(bytes "$two") / 80e9")" 1
wide=$(network 1x400) narrow=$(network 1x400 -o train.communication_data_type=bf16)
is 'all to all, each rank of a machine sends its own' \
	"$(near "$(seconds "$wide") - $(seconds "$narrow")" "8 * 56 / 63 * ($(bytes "$wide") - $(bytes "$narrow")) / 40e9")" 1
is 'there is a network card for each rank by default' "$(near "$(seconds "$(network 8x400)")" "$(seconds "$(titan --scale 64)")")" 1
is 'within a machine none counts' "$(seconds "$(titan --scale 8 --network 1x1)")" "$(seconds "$(titan --scale 8)")"
like 'they are named' "$("$ZEROTH" plan --card H100 --network 2x200 --no-compare tiny.ini)" ', 2 x 200 Gbit/s between machines$'
for cards in 8 0x400 8x-1 8x400G; do
	like "--network $cards is refused" "$("$ZEROTH" plan --network $cards tiny.ini 2>&1)" \
		"^zeroth: --network $cards: expected network cards of a machine and Gbit/s of each, as 8x400"
done
like 'a list that is none is refused' "$("$ZEROTH" plan --scale 1,x tiny.ini 2>&1)" 'expected numbers of ranks in'
like 'comm/planned trains nothing' "$(trained tiny.ini -n 2 -o comm.plugin=planned)" 'planned'

# What ranks send is moved and added by as many instructions, however many ranks there are: also if
# their blocks are more than host memory has room for.
instructions() {
	"$ZEROTH" plan -n "$1" --program --memory 1T tiny.ini \
		-o device.memory=64M -o train.train_batch_size=auto \
		-o train.gradient_accumulation_steps=2 \
		-o train.communication_data_type="$2" | grep -c '^ '
}
is '512 ranks have the instructions of 4' "$(instructions 512 fp32)" "$(instructions 4 fp32)"
is 'also where 16 bits are sent' "$(instructions 512 bf16)" "$(instructions 4 bf16)"

# What fits, as INI that plans and fits.
fit() { "$ZEROTH" plan -n 2 --fit --card A100 "$@" tiny.ini; }
fit --device 900K > fits
is 'something fits 900 KiB a card' "$?" 0
like 'the fastest is named' "$(cat fits)" '^fastest: .* tokens/s, bound by .*, by the data sheet of A100'
like 'rows say why the others do not' "$(cat fits)" '^0      -  *needs [0-9.]+ .iB of 900\.0 KiB device memory'
overrides=()
section=
while read -r line; do
	case $line in
	'['*) section=${line:1:-1} ;;
	*=*) overrides+=(-o "$section.${line%% =*}=${line#*= }") ;;
	esac
done < <(sed '1,/^; in place/d; /^;/d' fits)
like 'its INI plans within it' "$("$ZEROTH" plan -n 2 tiny.ini "${overrides[@]}" -o device.memory=900K 2>&1)" '^fits: '
# Clipping needs the norm of all gradients first: what it costs is said, and how to do without.
unclipped=$(sed -n '/^; updates in the backward/,$p' fits)
like 'what is faster without clipping is said apart' "$unclipped" \
	'^; updates in the backward, without gradient_clipping(: .* tokens/s; with it|, would not be faster)'
is 'and is no part of the INI' "$(grep -vc '^;' <<< "$unclipped")" 0
like 'JSON has both' "$(fit --device 900K --json)" '"without_clipping": \{'
is 'without clipping they are one search' "$(fit --device 900K -o train.gradient_clipping=0 | grep -c gradient_clipping)" 0
waits=(--device 1G -o model.width=1024 -o model.heads=16 -o model.layers=24 -o train.train_batch_size=8)
like 'state on the host is updated beside the backward' "$(fit "${waits[@]}")" '^; updates in the backward, .* tokens/s; with it'
like 'in which updates belong' "$(fit "${waits[@]}" -o train.gradient_clipping=0)" '^update_in_backward = yes$'
fit --device 20K > fits
is 'nothing fits 20 KiB: exit code' "$?" 3
like 'adapters were tried' "$(cat fits)" '^with LoRA on a base in 4 bits'
like 'as JSON' "$(fit --device 900K --json)" '"options": \['
sed 's/^train_batch_size.*/train_batch_size = 7/' tiny.ini > odd.ini
like 'a search names the file that the user knows' \
	"$("$ZEROTH" plan --fit odd.ini -n 2 --card H100 2>&1)" \
	'^zeroth: odd.ini:[0-9]+: \[train\] train_batch_size = 7 is not a multiple'
like 'without rates there is nothing to search by' "$("$ZEROTH" plan --fit tiny.ini 2>&1)" 'fit: no rates: '

# A file of rates for this device: of a processor that does everything at the same pace.
like 'a run names device and variant' "$(trained tiny.ini -o train.steps=1)" '^digest'
mkdir -p state/zeroth
{
	echo '[machine]'
	sed -nE 's/^ *"device": "(.*)",?$/device = \1/p; s/^ *"device_variant": "(.*)",?$/variant = \1/p' run/summary.json
	printf 'processors = 2\n[ranks 1 threads 1]\n'
	for kind in nn nt tn; do echo "matmul.fp32.$kind.64x64x64 = 1e9"; done
	printf '%s = 1e9\n' attention.fp32.64x64 attention_bwd.fp32.64x64 head_loss.fp32.64x64x64 copy.65536 adamw.fp32.65536
} > state/zeroth/rates.ini
like 'rates of another device are named' "$(sed 's/^variant = .*/variant = other/' state/zeroth/rates.ini > other.ini
	"$ZEROTH" plan --rates other.ini --no-compare tiny.ini)" '^time of a step: no rates of cpu \(.*\): the file has those of cpu \(other\)'
like 'a run by these rates' "$(trained tiny.ini -n 2 -o zero.plugin=stage2)" '^digest'
like 'its metrics have the part of what is possible' "$(tail -n 1 run/metrics.jsonl)" '"possible":[0-9.]+'
plan=$("$ZEROTH" plan -n 2 --json tiny.ini -o zero.plugin=stage2)
like 'bytes come from other ranks' "$(field received_bytes <<< "$plan")" '^[1-9]'
is 'as many as in the run' "$(field received_bytes <<< "$plan")" \
	"$(field measured < run/summary.json)"
more=$("$ZEROTH" plan -n 2 --json tiny.ini -o zero.plugin=stage2 -o train.train_batch_size=8)
is 'twice the micro-batches take longer' \
	"$(awk "BEGIN { r = $(field seconds <<< "$more") / $(field seconds <<< "$plan"); print (r > 1.4 && r < 2.1) }")" 1
mv state/zeroth/rates.ini measured.ini
# Beside a card, a file has rates of which it measured something: a product of any size takes long.
printf '[machine]\n[ranks 1 threads 1]\nmatmul.bf16.nn.64x64x64 = 1e6\n' > card.ini
carded() { "$ZEROTH" plan --no-compare --card H100 tiny.ini -o precision.plugin=bf16 "$@"; }
like 'rates of a file take the place of those of a card' "$(carded --rates card.ini)" \
	'^a step takes [0-9.]+ s, .* by the data sheet of H100 .*, but for the rates of card.ini$'
ok 'which without them are others' awk "BEGIN { exit !($(carded --rates card.ini --json | field seconds) > \
	100 * $(carded --json | field seconds)) }"
is 'those of [run] rates do not' "$(carded -o run.rates=card.ini --json | field seconds)" "$(carded --json | field seconds)"
is '[run] rates names another file' \
	"$("$ZEROTH" plan -n 2 --json tiny.ini -o zero.plugin=stage2 -o run.rates=measured.ini | field seconds)" \
	"$(field seconds <<< "$plan")"
like 'also for a run' "$(trained tiny.ini -n 2 -o zero.plugin=stage2 -o run.rates=measured.ini)" '^digest'
like 'whose metrics say so' "$(tail -n 1 run/metrics.jsonl)" '"possible":[0-9.]+'
sed 's/= 1e9/= 1e8/' measured.ini > slow.ini
is '--rates wins over it' \
	"$(awk "BEGIN { print ($("$ZEROTH" plan -n 2 --rates slow.ini --json tiny.ini -o zero.plugin=stage2 \
		-o run.rates=measured.ini | field seconds) > 5 * $(field seconds <<< "$plan")) }")" 1

# MFU counts what is computed, once: at the length that is trained, without gradients of frozen weights.
counted() {
	trained tiny.ini -o run.rates=measured.ini -o device.threads=1 "$@" > /dev/null
	tail -n 1 run/metrics.jsonl | sed -E 's/.*"step_seconds":([^,]*),.*"mfu_product":([^,}]*).*/\1 \2/' |
		awk -v ranks="$(field world < run/summary.json)" '{ printf "%.6g", $1 * $2 * ranks * 1e9 }'
}
forecast() { "$ZEROTH" plan --json --no-compare tiny.ini -o run.rates=measured.ini "$@" | field flops | awk '{ printf "%.6g", $1 }'; }
all=$(forecast)
like 'the forecast has operations' "$all" '^[1-9]'
is 'a run counts as many' "$(counted)" "$all"
is 'also of two ranks' "$(counted -n 2)" "$all"
is 'none twice where activations are computed again' "$(counted -o activation.plugin=recompute)" "$all"
for change in train.sequence_length=8 'train.freeze=h.0.*'; do
	is "as many with $change" "$(counted -o "$change")" "$(forecast -o "$change")"
	ok 'which are fewer' awk "BEGIN { exit !($(forecast -o "$change") < 0.95 * $all) }"
done

# A line speaks of the same steps with all its numbers.
trained tiny.ini -o run.rates=measured.ini -o train.steps=30 -o run.log_every=1 > /dev/null
seconds=$(field seconds < run/plan.json)
is 'tokens per second of a line are the part of what is possible that it has' "$(sed -nE \
	's/^step .* ([0-9.]+k?) tok\/s .* of possible ([0-9]+) %.*/\1 \2/p' out | awk -v s="$seconds" '{
		rate = $1 ~ /k/ ? 1000 * $1 : $1 + 0; part = 100 * rate * s / 128; off += (part - $2) ^ 2 > (0.02 * part + 1) ^ 2
	} END { print NR, off + 0 }')" '30 0'
done_testing
