#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One trainer: the command and libzeroth give the same digest, checkpoint, numbers of each step,
# weights, refusals and warnings, for every configuration of conf/ and its gallery, and for options
# on which they once differed.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/gallery.sh" || exit 99
src=$(cd "$ZR_SRCDIR" && pwd)
gallery=$src/conf/gallery
cd "$scratch" || exit 99
gallery_texts

lib=$ZR_BUILDDIR/.libs
read -ra cc <<< "${CC:-cc}"
"${cc[@]}" -std=c11 -g -O2 -Wall -Wextra -Werror ${ZR_SANITIZE:+-fsanitize="$ZR_SANITIZE"} -I"$src/include" \
	-o embed_run "$src/tests/examples/embed_run.c" -L"$lib" -lzeroth -Wl,-rpath,"$lib" || exit 99

# command_trains DIR RANKS CONF ARGUMENT...: the digest, or why there is none, without the supervisor's words
command_trains() {
	rm -rf cache
	XDG_CACHE_HOME=$PWD/cache "$ZEROTH" train "$3" -o run.dir="$1" -n "$2" "${@:4}" > "$1.out" 2> "$1.err"
	tail -n 1 "$1.out" | grep '^digest' || sed -nE 's/^(rank [0-9]+: )?zeroth: (rank [0-9]+ failed with code [0-9]+: )?//p' "$1.err" | tail -n 1
}

# library_trains DIR RANKS CONF ARGUMENT...: the same by the library. Arguments before "--" are the program's.
library_trains() {
	local dir=$1 ranks=$2 conf=$3 own=()
	shift 3
	while [ "$1" != -- ]; do own+=("$1"); shift; done
	shift
	local options=()
	for o in "$@"; do [ "$o" = -o ] || options+=("$o"); done
	rm -rf cache
	XDG_CACHE_HOME=$PWD/cache ./embed_run -n "$ranks" "${own[@]}" "$conf" run.dir="$dir" "${options[@]}" > "$dir.out" 2> "$dir.err"
	cat "$dir.out"
	sed -n 's/^embed_run: //p' "$dir.err"
}

# numbers FILE: of each step, what does not depend on time, on memory, or on the text of tokens,
# which the command alone knows
numbers() {
	local timed='tokens_per_s|memory|[a-z_]*seconds|elapsed|time|[a-z_]+_s|[a-z]*_bytes|val_bits_per_byte'
	sed -E "s/,\"($timed)\":[^,}]*//g" "$1" 2>&1
}

# files DIR: a hash of each file of a checkpoint. The manifest has the configuration, which names the
# directory of the run, and the plugin by which ranks meet: threads are ranks of the library alone.
files() {
	local f
	(cd "$1" 2>&1 && for f in *; do
		echo "$f $(sed -E 's/"(xxh3|config|boot)": *"[^"]*"//' "$f" | sha256sum | cut -c1-16)"
	done)
}

# warnings FILE: what was warned of, in any order. What one rank of the command says for all, each rank
# of the library says; which options are left to its program it says alone.
warnings() {
	sed -nE 's/^((rank [0-9]+: )?zeroth: warning|log): //p' "$1" | grep -v '^zeroth: left to the program' |
		sed -E 's/\b[ab]\//DIR\//g' | sort -u
}

# same NAME RANKS CONF ARGUMENT...: trains by both, with a checkpoint at the end, and compares
same() {
	local name=$1 ranks=$2 conf=$3 sets=() s
	shift 3
	rm -rf a b a.* b.*
	want=$(command_trains a "$ranks" "$conf" "$@" -o checkpoint.every=100)
	for s in $(grep -oE '"(val_loss|eval\.[a-z0-9_]+\.loss)"' a/metrics.jsonl | sort -u | tr -d '"'); do
		case $s in
		val_loss) sets+=(-e 3 '') ;;
		eval.*) s=${s%.loss}; sets+=(-e 3 "${s#eval.}") ;;
		esac
	done
	local last
	is "$name: the digest" "$(library_trains b "$ranks" "$conf" "${sets[@]}" -s 100 -w b.safetensors -- "$@")" "$want"
	last=$(cat a/checkpoints/latest 2>&1)
	is "$name: the checkpoint" "$(files "b/checkpoints/$last" 2>&1)" "$(files "a/checkpoints/$last" 2>&1)"
	is "$name: the numbers of each step" "$(numbers b/metrics.jsonl 2>&1)" "$(numbers a/metrics.jsonl 2>&1)"
	is "$name: the warnings" "$(warnings b.err)" "$(warnings a.err)"
	[ ! -e a/model.safetensors ] || is "$name: the weights" "$(sha256sum < b.safetensors)" "$(sha256sum < a/model.safetensors)"
}

for conf in "$gallery"/*.ini; do
	name=${conf##*/}
	name=${name%.ini}
	! huge "$name" || continue
	settings "$name"
	same "$name" $ranks "$conf" "${more[@]}"
done

for conf in "$src"/conf/*.ini; do
	name=${conf##*/}
	name=${name%.ini}
	[ "$name" != defaults ] || continue # the lowest layer of all others
	conf_settings "$name"
	same "$name" $ranks "$conf" "${more[@]}"
done

# ---- weights of an optimizer's own for evaluations, and for what a training leaves ----
settings accumulation-clipping
"${cc[@]}" -std=c11 -O2 -shared -fPIC -I"$src/include" -o schedulefree.so "$src/tests/examples/schedulefree.c"
same 'weights for evaluation' 2 "$gallery/accumulation-clipping.ini" "${more[@]}" -o optimizer.plugin="$scratch/schedulefree.so" \
	-o train.eval_every=3 -o zero.plugin=stage3
like '... evaluations are compared' "$(cat a/metrics.jsonl)" '"val_loss"'

# ---- warnings ----
conf_settings chat-demo
rm -rf a b a.* b.*
same 'what its template needs' 1 "$src/conf/chat-demo.ini" "${more[@]}"
like 'warnings are compared' "$(warnings a.err)" '^data: <s> is no added token of bytes.json'
settings fp16-loss-scale
rm -rf a b a.* b.*
same 'steps that are skipped' 2 "$gallery/fp16-loss-scale.ini" "${more[@]}" -o precision.initial_scale_power=120
like 'skipped steps are compared' "$(warnings a.err)" '^train: step 1 skipped: '

# ---- checkpoints of what is trained alone: each goes on from the other's ----
settings lora
lora=$gallery/lora.ini
half=("${more[@]}" -o train.eval_every=0 -o checkpoint.every=2)
rm -rf a b a.* b.*
whole=$(command_trains a 1 "$lora" "${half[@]}" -o train.steps=4)
command_trains c 1 "$lora" "${half[@]}" -o train.steps=4 -o checkpoint.keep=9 > log
library_trains d 1 "$lora" -s 2 -- "${half[@]}" -o train.steps=4 -o checkpoint.keep=9 > log
is 'the library goes on from a checkpoint of the command' \
	"$(library_trains e 1 "$lora" -r c/checkpoints/step-00000002 -- "${half[@]}" -o train.steps=4)" "$whole"
is 'the command goes on from a checkpoint of the library' \
	"$(command_trains f 1 "$lora" "${half[@]}" -o train.steps=4 --resume d/checkpoints/step-00000002)" "$whole"
settings qlora
rm -rf a b
same 'a stored base' 2 "$gallery/qlora.ini" "${more[@]}" -o train.eval_every=0 -o zero.plugin=stage3

# ---- refusals ----
# refused NAME CONF ARGUMENT...: both say the same, and train nothing
refused() {
	local name=$1 conf=$2 text
	shift 2
	rm -rf x y x.* y.*
	text=$(command_trains x 1 "$conf" "$@")
	like "$name: the command refuses" "$text" '^([^d]|d[^i])'
	is "$name: the library says the same" "$(library_trains y 1 "$conf" -s 100 -- "$@" | sed 's/= y/= x/; s| y/| x/|g')" "$text"
}
settings accumulation-clipping
plain=$gallery/accumulation-clipping.ini
refused 'an unknown key' "$plain" "${more[@]}" -o train.stepz=3
refused 'a batch that is no multiple' "$plain" "${more[@]}" -o train.micro_batch_size=3
refused 'nothing to leave out' "$plain" "${more[@]}" -o checkpoint.save=trainable
refused '16 bits of a training in fp32' "$plain" "${more[@]}" -o zero.plugin=stage3 \
	-o zero.gather_16bit_weights_on_model_save=yes
refused 'patience without evaluations' "$plain" "${more[@]}" -o train.eval_every=0 -o train.patience=2
refused 'more memory than there is' "$plain" "${more[@]}" -o memory.host=1M
refused 'no such plugin' "$plain" "${more[@]}" -o optimizer.plugin=none
refused 'no such data' "$plain" "${more[@]}" -o data.path=nowhere.txt
settings lora
refused 'adapters beside 16 bits' "$lora" "${more[@]}" -o zero.plugin=stage3 -o precision.plugin=bf16 \
	-o zero.gather_16bit_weights_on_model_save=yes
settings qlora
refused 'all of a stored base' "$gallery/qlora.ini" "${more[@]}" -o checkpoint.save=all

# A training that ends early: the command has a summary, and a digest of what there is.
settings accumulation-clipping
rm -rf x y
command_trains x 1 "$plain" "${more[@]}" -o optimizer.lr=1e30 -o train.steps=9 > log
text=$(sed -n 's/^zeroth: .*: \(step [0-9]*: \)/\1/p' x.err)
like 'numbers that are not finite: the command ends' "$text" '^step [0-9]: non-finite numbers in '
is 'numbers that are not finite: the library says the same' \
	"$(library_trains y 1 "$plain" -- "${more[@]}" -o optimizer.lr=1e30 -o train.steps=9)" "$text"

# A directory that another training has.
rm -rf a a.*
settings accumulation-clipping
command_trains a 1 "$plain" "${more[@]}" > log
text=$(command_trains a 1 "$plain" "${more[@]}")
like 'a run directory with a run: the command refuses' "$text" 'run directory a'
is 'a run directory with a run: the library says the same' "$(library_trains a 1 "$plain" -- "${more[@]}")" "$text"
text=$(command_trains a 1 "$plain" "${more[@]}" --resume auto)
like 'a model without a checkpoint: the command refuses' "$text" 'no checkpoint to go on from'
is 'a model without a checkpoint: the library says the same' \
	"$(library_trains a 1 "$plain" -r auto -- "${more[@]}")" "$text"
done_testing
