# SPDX-License-Identifier: Apache-2.0
#
# speed.sh - part of tests/gpu/run: the phases that measure. Rates of steps are medians; those of two programs are taken in
# turns, and their ratio is the median of the rounds'.
#
# Operations of a step, for its share of the rate of matrix products: 6 per token and parameter of a product, the head's too, and
# 6 per token, layer, position and element of attention, whose upper triangle is not computed. What is computed twice counts once.

# find_python: sets python to one with torch
find_python() {
	for python in python3 /usr/bin/python3 /opt/*/.venv/bin/python3 /opt/*/bin/python3; do
		command -v "$python" >/dev/null && "$python" -c 'import torch' 2>/dev/null && return
	done
	return 1
}

median() { sort -g | awk '{ x[NR] = $1 } END { if (NR) print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }

# Operations per token: of gpt2 LAYERS WIDTH VOCABULARY LENGTH; of llama LAYERS WIDTH VOCABULARY LENGTH FFN
per_token() {
	awk -v kind="$1" -v l="$2" -v c="$3" -v v="$4" -v t="$5" -v f="${6-0}" 'BEGIN {
		printf "%.0f", 6 * (l * (kind == "gpt2" ? 12 * c * c : 4 * c * c + 3 * c * f) + v * c) + 6 * l * t * c }'
}

# The value of a result of the phase limits.
measured() { sed -n "s/.*\"name\":\"$1\",\"result\":\"pass\",\"value\":\([^,]*\),.*/\1/p" "$work/limits.json" 2>/dev/null | tail -n 1; }

# tokens VOCABULARY: a file of them
tokens() {
	local file=$work/tokens-$1.bin
	[ -s "$file" ] || python3 -c 'import array, random, sys
random.seed(1)
array.array("H", (random.randrange(int(sys.argv[2])) for _ in range(2 << 20))).tofile(open(sys.argv[1], "wb"))' "$file" "$1" || return
	echo "$file"
}

# pace NAME STEPS SECONDS ARGUMENT...: sets `rate` to the median tokens/s of that many steps after `warm`, and `peak` to the GiB of the
# device that it uses; the training is ended then, for weights of gigabytes need not be written. Fails with the reason in `rate`.
# Where the time ends before all steps, `fewest` of them are enough; `taken` says how many there were.
warm=2 fewest=1000000
pace() {
	local name=$1 steps=$2 seconds=$3 file=$work/run/$1/metrics.jsonl log=$work/log/train-$1.log pid end conf=$4 done_steps
	shift 4
	rm -rf "$work/run/$name"
	"${zeroth[@]}" train "$conf" "${on_device[@]}" "$@" -o train.steps=1000000 -o train.eval_every=0 -o run.dir="$work/run/$name" \
		>"$log" 2>&1 &
	pid=$!
	[ "$seconds" -lt "$(left)" ] || seconds=$(left)
	end=$((SECONDS + seconds))
	while kill -0 $pid 2>/dev/null && [ "$(wc -l 2>/dev/null <"$file" || echo 0)" -lt $((steps + warm)) ] && [ $SECONDS -lt $end ]; do
		sleep 0.2
	done
	peak=$(timeout 10 nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | awk '{ printf "%.1f", $1 / 1024; exit }')
	if kill -0 $pid 2>/dev/null; then
		kill -KILL $pid
		rate=timeout
	else
		rate=$(grep -v '^ *$' "$log" | tail -n 1)
	fi
	wait $pid 2>/dev/null
	done_steps=$(wc -l 2>/dev/null <"$file" || echo 0)
	taken=$((done_steps - warm))
	[ $taken -ge "$steps" ] || [ $taken -ge "$fewest" ] || {
		rate="$rate after $done_steps steps, $seconds s: $(grep -v '^ *$' "$log" | tail -n 1)"
		return 1
	}
	cp "$file" "$work/log/metrics-$name.jsonl"
	rate=$(sed -n "$((warm + 1)),\$s/.*\"tokens_per_s\":\([0-9.e+]*\).*/\1/p" "$file" | median)
	rm -rf "$work/run/$name"
}

# The GPU's nominal dense rate of bf16 products in TFLOP/s, by NVIDIA's data sheets; nothing for one that is not known here.
nominal() {
	[ "$device" = cuda ] || return
	case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed 1q) in
	'NVIDIA H200' | 'NVIDIA H100 80GB HBM3') echo 989 ;;
	*A100*) echo 312 ;;
	esac
}

# A rate of tokens as a step's time, as a share of matrix products and as MFU, the share of the nominal rate.
in_words() { # in_words RATE TOKENS_PER_STEP OPERATIONS_PER_TOKEN
	awk -v r="$1" -v n="$2" -v f="$3" -v m="$(measured matmul_square)" -v p="$(nominal)" 'BEGIN {
		printf "%.1f ms a step, %.4g TFLOP/s", 1000 * n / r, r * f / 1e12
		if (m) printf ", %.1f %% of the %.4g of a large product", r * f / 1e10 / m, m
		if (p) printf ", MFU %.1f %% of %d", r * f / 1e10 / p, p }'
}

share() { awk -v a="$1" -v b="$2" 'BEGIN { if (b + 0) printf "%.3f", a / b; else printf "0" }'; }

# ---- PyTorch beside it ----

# Starts a PyTorch that trains; sets `theirs` to its version and memory. 0 if it is ready.
peer_starts() { # peer_starts NAME SECONDS KIND KEY=N...
	local seconds=$2 log=$work/log/$phase-peer-$1.log
	shift 2
	[ "$seconds" -lt "$(left)" ] || seconds=$(left)
	coproc peer { exec "$python" tests/gpu/peer.py speed "$@" 2>"$log"; }
	peer_out=${peer[0]} peer_in=${peer[1]} peer_pid=$peer_PID
	read -r -t "$seconds" -u "$peer_out" theirs && return
	peer_ends
	theirs="not ready in $seconds s: $(tail -n 1 "$log")"
	return 1
}

peer_ends() { kill -KILL "$peer_pid" 2>/dev/null; wait "$peer_pid" 2>/dev/null; }

# in_turns NAME TARGET TOKENS_PER_STEP OPERATIONS_PER_TOKEN STEPS KIND "KEY=N..." ARGUMENT...: three rounds of both
in_turns() {
	local name=$1 target=$2 n=$3 f=$4 steps=$5 kind=$6 sizes=$7 round other ours_all='' theirs_all='' ratios='' beside_them=0
	shift 7
	enough "$name" 40 || return
	if find_python; then
		# shellcheck disable=SC2086 # a list of words
		if peer_starts "${name//[^a-zA-Z0-9]/_}" 200 "$kind" $sizes; then
			beside_them=1
		elif enough "$name, PyTorch without compile" 90; then
			result "$name: PyTorch compiled" fail '' '' "$theirs"
			# shellcheck disable=SC2086
			peer_starts "${name//[^a-zA-Z0-9]/_}_eager" 100 "$kind" $sizes compile=0 && beside_them=1
		fi
	else
		theirs='python3 has no torch'
	fi
	[ $beside_them = 1 ] || result "$name: PyTorch" skip '' '' "$theirs"
	for round in 1 2 3; do
		pace "${kind}-turn" "$steps" 100 "$@" || { result "$name" fail '' '' "$rate"; break; }
		ours_all+="$rate "
		[ $beside_them = 1 ] || continue
		kill -0 "$peer_pid" 2>/dev/null && echo "$steps" >&"$peer_in"
		read -r -t 60 -u "$peer_out" other || { result "$name: PyTorch" fail '' '' 'no answer in 60 s'; break; }
		theirs_all+="$other "
		ratios+="$(share "$rate" "$other") "
	done
	[ $beside_them = 0 ] || peer_ends
	[ -n "$ours_all" ] || return
	rate=$(tr ' ' '\n' <<<"${ours_all% }" | median)
	result "$name" pass "$(printf %.0f "$rate")" tokens/s \
		"$(in_words "$rate" "$n" "$f"); rounds $ours_all; ${peak:-?} GiB in use${theirs_all:+ beside PyTorch}"
	[ -n "$theirs_all" ] || return
	other=$(tr ' ' '\n' <<<"${theirs_all% }" | median)
	result "$name: PyTorch" pass "$(printf %.0f "$other")" tokens/s "$(in_words "$other" "$n" "$f"); rounds $theirs_all; $theirs GiB"
	reaches "$name over PyTorch" "$(tr ' ' '\n' <<<"${ratios% }" | median)" x "$target" "rounds $ratios"
}

# ---- phases ----

small=$([ "$device" = cpu ] && echo 1)

limits() {
	local name value unit log=$work/log/limits-device.log of
	guard 240 "${ours[@]}" "$work/bin/device" >"$log" 2>&1
	while read -r name value unit; do
		result "$name" pass "$value" "$unit"
	done < <(grep -E '^[a-zA-Z0-9_]+ [0-9.e+]+ [A-Z]+/s$' "$log")
	grep -q '^copy_from_device ' "$log" || result operations fail '' '' "$(tail -n 1 "$log")"
	if [ "$device" = cuda ] && find_python; then
		log=$work/log/limits-peer.log
		guard 100 "$python" tests/gpu/peer.py limits >"$log" 2>&1
		of=$?
		[ $of = 0 ] || result 'PyTorch' "$(verdict $of)" $of code "$(tail -n 1 "$log")"
		while read -r name value unit; do
			result "$name" pass "$value" "$unit"
		done < <(grep -E '^torch_[a-z_]+ [0-9.e+]+ [A-Z]+/s$' "$log")
	fi
	[ -n "$(measured adamw)" ] && [ -n "$(measured copy_on_device)" ] || return
	of=$(printf '%s\n' "$(measured copy_on_device)" "$(measured torch_copy_on_device)" | sort -g | tail -n 1)
	reaches 'AdamW over the copy' "$(share "$(measured adamw)" "$of")" x 0.95 "$(measured adamw) of $of GB/s, bytes read and written; \
PyTorch's $(measured torch_adamw)"
}

gpt2_124m() {
	local file
	file=$(tokens 50257) || { result tokens fail '' '' 'python3 made none'; return; }
	if [ -n "$small" ]; then
		in_turns 'a small GPT-2 bf16' 1.15 256 "$(per_token gpt2 2 64 512 64)" 3 gpt2 \
			'layers=2 heads=2 width=64 vocabulary=512 length=64 batch=4 compile=0' conf/gpt2-124m.ini -o data.path="$(tokens 512)" \
			-o data.format=uint16 -o model.layers=2 -o model.heads=2 -o model.width=64 -o model.context=64 -o model.vocabulary=512 \
			-o train.sequence_length=64 -o train.micro_batch_size=4 -o train.train_batch_size=4
		return
	fi
	set -- conf/gpt2-124m.ini -o data.path="$file" -o data.format=uint16 -o train.micro_batch_size=64 -o train.train_batch_size=64
	in_turns 'GPT-2 124M bf16, 64 x 1024' 1.15 65536 "$(per_token gpt2 12 768 50257 1024)" 20 gpt2 \
		'layers=12 heads=12 width=768 vocabulary=50304 length=1024 batch=64' "$@"
	enough 'GPT-2 124M in other ways' 60 || return
	pace gpt2-padded 20 60 "$@" -o model.vocabulary=50304 && result 'GPT-2 124M, vocabulary of 50304 as PyTorch has it' pass \
		"$(printf %.0f "$rate")" tokens/s "$(in_words "$rate" 65536 "$(per_token gpt2 12 768 50304 1024)")"
	pace gpt2-half 20 60 "$@" -o train.micro_batch_size=32 && result 'GPT-2 124M, 2 x 32 x 1024' pass "$(printf %.0f "$rate")" \
		tokens/s "$(in_words "$rate" 65536 "$(per_token gpt2 12 768 50257 1024)")"
}

gpt2_1558m() {
	local file
	[ -z "$small" ] || { result 'GPT-2 1558M' skip '' '' 'no GPU'; return; }
	file=$(tokens 50257) || { result tokens fail '' '' 'python3 made none'; return; }
	in_turns 'GPT-2 1558M bf16, 4 x 8 x 1024' 1 32768 "$(per_token gpt2 48 1600 50257 1024)" 6 gpt2 \
		'layers=48 heads=25 width=1600 vocabulary=50304 length=1024 batch=32 micro=8' conf/gpt2-1558m.ini -o data.path="$file" \
		-o data.format=uint16 -o train.micro_batch_size=8 -o train.train_batch_size=32
}

# Of Llama 2 7B, 2048 tokens a sequence, 64k a step.
seven() { # prints an argument a line
	printf '%s\n' conf/llama-tinyllama-1.1b.ini -o model.preset=llama2-7b -o model.context=2048 -o train.train_batch_size=32 \
		-o data.format=uint16 -o data.path="$(tokens 32000)" -o activation.plugin=keep
}

llama_slice() {
	local args
	[ -z "$small" ] || { result 'Llama 7B, 6 of 32 layers' skip '' '' 'no GPU'; return; }
	mapfile -t args < <(seven)
	in_turns 'Llama 7B, 6 of 32 layers, bf16, 4 x 4 x 2048' 1 32768 "$(per_token llama 6 4096 32000 2048 11008)" 6 llama \
		'layers=6 heads=32 width=4096 ffn=11008 vocabulary=32000 length=2048 batch=16 micro=4' "${args[@]}" -o model.layers=6 \
		-o train.micro_batch_size=4 -o train.train_batch_size=16
}

# Where there is no GPU.
small_llama='-o model.preset=none -o model.layers=3 -o model.heads=2 -o model.width=64 -o model.context=64 -o model.vocabulary=512
	-o model.tied=no -o train.sequence_length=64'

# attempt NAME SECONDS ARGUMENT...: a 7B; sets `rate`, 0 if it does not run
attempt() {
	local name=$1 seconds=$2 ops
	shift 2
	enough "$name" 40 || { rate=0; return 1; }
	ops=$(per_token llama 32 4096 32000 2048 11008)
	if [ -n "$small" ]; then
		name="a small model in place of $name" ops=$(per_token llama 3 64 512 64 192)
		# shellcheck disable=SC2086 # a list of words
		set -- "$@" $small_llama -o train.train_batch_size=16 -o data.path="$(tokens 512)"
	fi
	if pace llama 3 "$seconds" "$@"; then
		result "$name" pass "$(printf %.0f "$rate")" tokens/s "$(in_words "$rate" 65536 "$ops"); ${peak:-?} GiB of the GPU in use"
	else
		result "$name" fail '' '' "$rate"
		rate=0
		return 1
	fi
}

llama_7b() {
	local args best=0 ops
	mapfile -t args < <(seven)
	ops=$(per_token llama 32 4096 32000 2048 11008)
	attempt 'Llama 7B resident, 16 x 2 x 2048, all activations kept' 130 "${args[@]}" -o train.micro_batch_size=2
	best=$rate
	attempt 'Llama 7B resident, 8 x 4 x 2048, 7 layers computed again' 130 "${args[@]}" -o train.micro_batch_size=4 \
		-o activation.plugin=recompute -o activation.max_bytes=18G
	best=$(printf '%s\n' "$best" "$rate" | sort -g | tail -n 1)
	[ "$best" != 0 ] || return
	result 'Llama 7B resident, the better' pass "$(printf %.0f "$best")" tokens/s
	[ -n "$small" ] || reaches 'Llama 7B resident, of the rate of a large product' \
		"$(share "$(awk -v r="$best" -v f="$ops" 'BEGIN { print r * f / 1e12 }')" "$(measured matmul_square)")" x 0.75 \
		"of its own products' rate, $(measured llama_7b_products) TFLOP/s: $(share "$(awk -v r="$best" -v f="$ops" \
			'BEGIN { print r * f / 1e12 }')" "$(measured llama_7b_products)")"
}

# Memory of some machines grows when it is used: takes GIB once and gives it back, so that a plan can count on it.
grow() {
	awk -v need="$1" '/^MemAvailable/ { exit !($2 / 1048576 < need) }' /proc/meminfo || return
	guard 60 python3 -c 'import mmap, os, sys
rooms, some = [mmap.mmap(-1, 1 << 30) for _ in range(int(sys.argv[1]))], b"1" * (16 << 20)
for part in range(4):  # of processes, each of which fills some gigabytes a second
    if not os.fork():
        for room in rooms[part::4]:
            for at in range(0, len(room), len(some)):
                room[at : at + len(some)] = some
        os._exit(0)
for part in range(4):
    os.wait()' "$1" >/dev/null 2>&1
	result 'memory of the host' pass "$(awk '/^MemAvailable/ { printf "%.1f", $2 / 1048576 }' /proc/meminfo)" GiB \
		'available, after it was used once'
}

# on_host NAME SECONDS ARGUMENT...: an attempt; where the host has too little memory, another with moments in bf16
on_host() {
	local name=$1 seconds=$2
	shift 2
	attempt "$name" "$seconds" "$@" && return
	grep -q 'does not fit: needs .* of memory' "$work/log/train-llama.log" || return
	attempt "$name, moments in bf16" "$seconds" "$@" -o optimizer.states=bf16
}

llama_7b_host() {
	local args best hosted
	[ -n "$small" ] || grow 116
	mapfile -t args < <(seven)
	best=$(sed -n 's/.*"name":"Llama 7B resident, the better","result":"pass","value":\([0-9.]*\).*/\1/p' "$work/llama_7b.json" \
		2>/dev/null)
	args+=(-o optimizer.plugin=cpu_adam -o offload.optimizer.plugin=cpu -o train.gradient_clipping=0 -o zero.update_in_backward=yes)
	on_host 'Llama 7B, state on the host, 1 x 32 x 2048, 14 layers computed again' 150 "${args[@]}" -o train.micro_batch_size=32 \
		-o activation.plugin=recompute -o activation.max_bytes=105G
	hosted=$rate
	on_host 'Llama 7B, state on the host, 2 x 16 x 2048' 150 "${args[@]}" -o train.micro_batch_size=16
	hosted=$(printf '%s\n' "$hosted" "$rate" | sort -g | tail -n 1)
	[ "$hosted" = 0 ] || reaches 'Llama 7B, state on the host over resident' "$(share "$hosted" "${best:-0}")" x 0.9 \
		"$(printf %.0f "$hosted") of ${best:-?} tokens/s"
	on_host 'Llama 7B within 24 GB, 4 x 8 x 2048' 200 "${args[@]}" -o train.micro_batch_size=8 -o activation.plugin=recompute \
		-o zero.plugin=stage3 -o offload.param.plugin=cpu -o device.memory="$([ -n "$small" ] && echo 1G || echo 24G)"
}
