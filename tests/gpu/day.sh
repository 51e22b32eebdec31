# SPDX-License-Identifier: Apache-2.0
#
# day.sh - part of tests/gpu/run: the phases `day1` and `day2`, the measurements of one day with one H200 in the order of their
# worth, each a line that ends when its time is over. What a line says is compared with a target; a target that is not reached is
# a miss. Where there is no GPU, small models try the script.

# line SECONDS COMMAND...: which has no more of the phase than that; the table has its results at once.
line() {
	local whole=$ends cut=1 over=$((SECONDS + $1 * ${patience:-1}))
	[ $over -ge "$ends" ] || ends=$over cut=
	shift
	"$@"
	ends=$whole
	table "$(table_of "$phase")"
}

# trains NAME SECONDS LEAST TOKENS_PER_STEP OPERATIONS_PER_TOKEN STEPS ARGUMENT...: a rate of tokens and its target; sets `rate`,
# 0 if it does not train.
trains() {
	local name=$1 seconds=$2 least=$3 n=$4 ops=$5 steps=$6 words
	shift 6
	enough "$name" 15 || { rate=0; return 1; }
	[ -z "$small" ] || least=0 steps=2
	if pace day "$steps" "$seconds" "$@"; then
		words=$([ -n "$small" ] && echo 'a small model, no GPU' || in_words "$rate" "$n" "$ops")
		reaches "$name" "$(printf %.0f "$rate")" tokens/s "$least" "$words; $taken steps, ${peak:-?} GiB in use"
	else
		result "$name" "$(ended)" '' '' "$rate"
		rate=0
		return 1
	fi
}

# What ended without a result fails, but for what the end of the phase cut short.
ended() { if [ -n "$cut" ] && [ "$(left)" -le 1 ]; then echo skip; else echo fail; fi; }

# without NAME LOG [WORDS]: what has no result, and the last that its log says
without() { result "$1" "$(ended)" '' '' "$(tail -n 1 "$2")${3:+; $3}"; }

# The value of a result of today, else of the day whose results are in the tree.
of_day() { # of_day NAME
	cat "$root/bench/results/gpu-day.json" "$work"/day[12].json 2>/dev/null |
		sed -n "s/.*\"name\":\"$1\",\"result\":\"[a-z]*\",\"value\":\([0-9.]*\),.*/\1/p" | tail -n 1
}

# Of a small GPT-2 and a small Llama where there is no GPU.
small_gpt2='-o model.layers=2 -o model.heads=2 -o model.width=64 -o model.context=64 -o model.vocabulary=512 -o train.sequence_length=64'

# ---- the clock, and where a step goes ----

# Samples the GPU's clocks ten times a second until clocks_end, which sets `clocks` to what they were under load.
clocks_begin() {
	local fields=clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active
	clock_file=$work/log/$phase-clocks.csv clock_pid=
	command -v nvidia-smi >/dev/null || return
	nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits -lms 100 >"$clock_file" 2>/dev/null &
	clock_pid=$!
}

clocks_end() {
	clocks='no clocks: no nvidia-smi'
	[ -n "$clock_pid" ] || return
	kill "$clock_pid" 2>/dev/null
	wait "$clock_pid" 2>/dev/null
	clocks=$(clocks_under_load <"$clock_file")
}

# Of lines "SM clock, memory clock, power, temperature, reasons": those with nearly the most power.
clocks_under_load() {
	awk -F ', *' '$3 + 0 > most { most = $3 + 0 } { line[NR] = $0; power[NR] = $3 + 0 }
		END { for (i = 1; i <= NR; i++) if (power[i] && power[i] >= 0.8 * most) print line[i] }' | sort -n |
		awk -F ', *' '{ sm[NR] = $1; mem = $2; w += $3; t = $4 > t ? $4 : t; why[$5] = 1 }
			END { if (!NR) { print "no clocks under load"; exit }
				for (r in why) reasons = reasons " " r
				printf "SM clock %d MHz (%d to %d), memory %d MHz, %.0f W, %d degrees, reasons%s, %d samples", sm[int((NR + 1) / 2)],
					sm[1], sm[NR], mem, w / NR, t, reasons, NR }'
}

# Of lines "BEGIN END NAME" in ns, by begin: a step's milliseconds as "WHAT MS". A step begins with the kernel that looks tokens up;
# its backward with the first softmax of the head; its update with the first of the optimizer. Its first steps count for nothing.
step_of_kernels() {
	awk -v first="${1:-5}" '
		function commit(to) {
			if (steps > first) { n++; for (k in t) total[k] += t[k]; total["step"] += to - began }
			delete t
			began = to
		}
		function class(name) {
			if (name ~ /embedding/) return "embedding"
			if (name ~ /softmax|loss/) return "softmax of the head"
			if (name ~ /adam/) return "optimizer"
			if (name ~ /fold/) return "fold"
			if (name ~ /norm/) return "norms"
			if (name ~ /gelu/) return "GELU"
			if (name ~ /forward_kernel|d[qkv]*_kernel|delta_kernel|attention/) return "attention"
			if (name ~ /nvjet|gemm|cutlass|xmma|splitK|cublas|matmul/) return "products"
			if (name ~ /bias|sum/) return "sums"
			if (name ~ /residual/) return "residual"
			if (name ~ /^(copy|memset)$/) return name
			return "other"
		}
		{
			from = $1 + 0; to = $2 + 0; name = $3
			gap = end && from > end ? from - end : 0
			if (steps) {
				t["gaps"] += gap
				t[(name ~ /embedding_kernel/ ? "gaps between steps" : "gaps in or after " part)] += gap
				t[gap > 20000 ? "gaps above 20 us" : gap > 3000 ? "gaps of 3 to 20 us" : "gaps below 3 us"] += gap
			}
			if (name ~ /embedding_kernel/ && part != "forward") { commit(from); steps++; part = "forward" }
			else if (part == "forward" && name ~ /softmax/) part = "backward"
			else if (part == "backward" && name ~ /adam/) part = "update"
			t["kernels"]++
			t["of " class(name)] += to - from
			t["in " part] += (to > end ? to - (from > end ? from : end) : 0)
			if (to > end) end = to
		}
		END {
			if (!n) exit
			printf "steps %d\nlaunches %d\nstep %.3f\nbusy %.3f\n", n, total["kernels"] / n, total["step"] / n / 1e6,
				(total["step"] - total["gaps"]) / n / 1e6
			delete total["kernels"]
			delete total["step"]
			for (k in total) printf "%s %.3f\n", k, total[k] / n / 1e6
		}'
}

# What kernels of a training are at when, by CUPTI; the training itself waits for nothing.
seen_by_cupti() { # seen_by_cupti NAME ARGUMENT...
	local name=$1 file cupti seen=$work/log/activity step busy
	shift
	cupti=$(find_cuda 'libcupti.so.1?')
	[ "$device" = cuda ] && [ -e "$work/lib/activity.so" ] && [ -n "$cupti" ] ||
		{ result "$name" skip '' '' 'no GPU, no CUPTI here, or none where the bundle was made'; return; }
	enough "$name" 12 || return
	rm -f "$seen".*
	: >"$work/log/step.txt"
	local zeroth=(env CUDA_INJECTION64_PATH="$work/lib/activity.so" ZR_ACTIVITY="$seen"
		LD_LIBRARY_PATH="$work/lib:$(cuda_path):$(dirname "$cupti")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$work/bin/zeroth")
	pace seen 20 30 "$@" || { result "$name" "$(ended)" '' '' "$rate"; return; }
	file=$(ls -S "$seen".* 2>/dev/null | sed 1q)
	[ -z "$file" ] || sort -n "$file" | step_of_kernels >"$work/log/step.txt"
	step=$(sed -n 's/^step //p' "$work/log/step.txt") busy=$(sed -n 's/^busy //p' "$work/log/step.txt")
	[ -z "$file" ] || gzip -f "$file"
	[ -n "$step" ] || { result "$name" fail '' '' "CUPTI saw no step: $(grep -m 1 activity.so "$work/log/train-seen.log")"; return; }
	reaches "$name" "$(share "$busy" "$step")" x 0.98 "$(in_parts '^steps|^launches|^step|^busy|^gaps|^in ')"
	result "$name: kernels" pass "$busy" ms "$(in_parts '^of ')"
}

in_parts() { grep -E "$1" "$work/log/step.txt" | sort -t ' ' -k 1,1 | tr '\n' ';' | sed 's/;$//; s/;/; /g'; }

# Of metrics with a breakdown, the last step's.
parts_of_step() {
	tail -n 1 | grep -oE '"(forward|backward|reduce|gather_wait|read_wait|optimizer|write_wait|publish|boundary|data|launch|other|idle)_s":[0-9.e-]*' |
		tr -d '"' | awk -F : '{ printf "%s%s %.2f ms", (NR > 1 ? ", " : ""), substr($1, 1, length($1) - 2), 1000 * $2 }'
}

# How long a step takes whose parts are wanted; these by the GPU's clock, and in how much of it (idle) no kernel ran.
parts_by_clock() { # parts_by_clock NAME TOKENS_PER_STEP ARGUMENT...
	local name=$1 tokens=$2
	shift 2
	enough "$name" 12 || return
	pace parts 6 25 "$@" -o run.wall_clock_breakdown=yes || { result "$name" "$(ended)" '' '' "$rate"; return; }
	result "$name" pass "$(share "$tokens" "$(share "$rate" 1000)")" ms "$(parts_of_step <"$work/log/metrics-parts.jsonl")"
}

day_124m() {
	local file
	file=$(tokens "$([ -n "$small" ] && echo 512 || echo 50257)") || { result tokens fail '' '' 'python3 made none'; return; }
	enough 'GPT-2 124M' 15 || return
	set -- conf/gpt2-124m.ini -o data.path="$file" -o data.format=uint16
	if [ -n "$small" ]; then
		# shellcheck disable=SC2086 # a list of words
		set -- "$@" $small_gpt2 -o train.micro_batch_size=8 -o train.train_batch_size=8
	else
		set -- "$@" -o train.micro_batch_size=64 -o train.train_batch_size=64
	fi
	clocks_begin
	trains 'GPT-2 124M bf16, 64 x 1024' 30 518000 65536 "$(per_token gpt2 12 768 50257 1024)" 20 "$@"
	clocks_end
	result 'GPT-2 124M: clocks' pass '' '' "$clocks"
	seen_by_cupti 'GPT-2 124M: share of a step in which something runs' "$@"
	parts_by_clock 'GPT-2 124M: a step by the clock of the GPU' "$([ -n "$small" ] && echo 512 || echo 65536)" "$@"
	[ "$device" = cpu ] || # these have none
		trains 'GPT-2 124M bf16, 64 x 1024, graphs' 12 518000 65536 "$(per_token gpt2 12 768 50257 1024)" 20 "$@" -o device.graphs=yes
}

# ---- large models on the GPU ----

day_7b() { # day_7b NAME LEAST ARGUMENT...
	local name=$1 least=$2 args warm=1 fewest=1
	shift 2
	mapfile -t args < <(seven)
	# shellcheck disable=SC2086 # a list of words
	[ -z "$small" ] || args+=($small_llama -o train.train_batch_size=16 -o data.path="$(tokens 512)")
	trains "$name" 70 "$least" 65536 "$(per_token llama 32 4096 32000 2048 11008)" 3 "${args[@]}" "$@"
}

day_8b() {
	local args warm=1 fewest=1 name='Llama 3 8B, 4 x 4096, adamw with moments of 8 bits, updated in backward'
	args=(conf/llama3-8b.ini -o train.micro_batch_size=4 -o data.format=uint16 -o data.path="$(tokens 50257)")
	# shellcheck disable=SC2086
	[ -z "$small" ] || args+=($small_llama -o data.path="$(tokens 512)")
	args+=(-o activation.plugin=keep)
	trains "$name" 65 10000 16384 "$(per_token_8b)" 4 "${args[@]}" || return
	reaches "$name: with all that is planned" "$(printf %.0f "$rate")" tokens/s "$([ -n "$small" ] && echo 0 || echo 12000)" ''
}

# Keys and values of 8 heads of 128 beside 32 of queries, 32 layers, T 4096.
per_token_8b() {
	awk 'BEGIN { c = 4096; f = 14336; printf "%.0f", 6 * (32 * (2 * c * c + 2 * c * 1024 + 3 * c * f) + 128256 * c) + 6 * 32 * 4096 * c }'
}

# ---- attention ----

# Query heads / heads of keys and values / width of a head: 4096 wide, 16384 tokens.
shapes='64/64/64 32/8/128 16/4/256'
lengths='1024 2048 4096 8192'
[ "$device" = cuda ] || { shapes='4/4/16 4/1/32' lengths=32; }

# The least rate forward and backward that is aimed at, of a width and a length.
attention_targets() {
	case $1 in
	*/64) [ "$2" -lt 8192 ] && echo 300 230 || echo 400 300 ;;
	*/128) echo 500 380 ;;
	*/256) echo 150 150 ;;
	*) echo 0 0 ;;
	esac
}

# attention_line SHAPE LENGTH [HOW]: ours, by other kernels than the usual, beside PyTorch's, of the files of both
attention_line() {
	local shape=$1 length=$2 how=$3 which least value beside name=${1//\//_}_$2 log title=
	[ -z "$how" ] || title=" by $how"
	log=$work/log/$phase-attention-${shape//\//_}$how.log
	read -r -a least < <(attention_targets "$shape" "$length")
	for which in attention attention_bwd; do
		value=$(sed -n "s/^${which}_$name \([0-9.e+]*\) .*/\1/p" "$log")
		beside=$(sed -n "s/^torch_\([a-z]*\)_${which}_$name \([0-9.e+]*\) .*/\1 \2/p" "$work/log/$phase-attention-torch.log" 2>/dev/null |
			tr '\n' ' ')
		if [ -n "$value" ]; then
			reaches "$which$title, heads $shape, T $length" "$value" TFLOP/s "${least[$([ $which = attention ] && echo 0 || echo 1)]}" \
				"PyTorch: ${beside:-none}"
		else
			without "$which$title, heads $shape, T $length" "$log" "PyTorch: ${beside:-none}"
		fi
	done
}

day_attention() {
	local shape length words all_words=()
	enough 'attention of several shapes' 5 || return
	for shape in $shapes; do
		words=()
		for length in $lengths; do words+=("attention=$shape/$length") all_words+=("$shape/$length"); done
		guard 25 "${ours[@]}" "$work/bin/device" "${words[@]}" >"$work/log/$phase-attention-${shape//\//_}.log" 2>&1
	done
	if find_python; then
		guard 40 "$python" tests/gpu/peer.py attention "${all_words[@]}" >"$work/log/$phase-attention-torch.log" 2>&1
	fi
	for shape in $shapes; do
		for length in $lengths; do attention_line "$shape" "$length"; done
	done
}

# Kernels for compute capability 9.0: whether they are right, how fast they are, and a training with them.
day_hopper() {
	local shape length words log=$work/log/$phase-hopper.log name='attention = hopper: kernels agree'
	[ "$(capability)" = 90 ] || return
	enough "$name" 15 || return
	if guard 60 "${ours[@]}" "$work/plugins/device/cuda-trial" "$work/plugins/device/cuda.so" 0 60 >"$log" 2>&1; then
		result "$name" pass '' '' "$(tail -n 1 "$log")"
	else
		without "$name" "$log"
		return
	fi
	for shape in $shapes; do
		words=()
		for length in $lengths; do words+=("attention=$shape/$length"); done
		ZR_TEST_OPTION=attention=hopper guard 30 "${ours[@]}" "$work/bin/device" "${words[@]}" \
			>"$work/log/$phase-attention-${shape//\//_}hopper.log" 2>&1
		for length in $lengths; do attention_line "$shape" "$length" hopper; done
	done
	trains 'GPT-2 124M bf16, 64 x 1024, attention = hopper' 12 518000 65536 "$(per_token gpt2 12 768 50257 1024)" 20 \
		conf/gpt2-124m.ini -o data.path="$(tokens 50257)" -o data.format=uint16 -o train.micro_batch_size=64 \
		-o train.train_batch_size=64 -o device.attention=hopper
}

# ---- the first half ----

twins() {
	local test
	for test in attentions heads matrix; do beside tap t_twin "$1" "$work/bin/t_twin" "$test*"; done
	beside tap t_fp8 "$1" "$work/bin/t_fp8"
	wait
}

day1() {
	line $([ -n "$small" ] && echo 100 || echo 25) twins 100
	line 50 day_124m
	line 75 day_7b 'Llama 7B, 16 x 2 x 2048, all activations kept' 12500 -o train.micro_batch_size=2
	line 75 day_7b 'Llama 7B, 8 x 4 x 2048, some layers computed again' 14000 -o train.micro_batch_size=4 -o activation.plugin=recompute \
		-o activation.max_bytes="$([ -n "$small" ] && echo 1G || echo 18G)"
	line 65 day_attention
	line 45 day_hopper
	line 70 day_8b
	line 40 day_7b 'Llama 7B, 16 x 2 x 2048, products in 8 bits' 17000 -o train.micro_batch_size=2 -o precision.products=fp8
}

# ---- between host and GPU ----

# rate_in FILE NAME: of a line "NAME RATE UNIT"
rate_in() { sed -n "s/^$2 \([0-9.e+]*\) .*/\1/p" "$1" 2>/dev/null | tail -n 1; }

day_copies() {
	local log=$work/log/$phase-copies.log torch=$work/log/$phase-copies-torch.log name value least
	enough 'copies between host and GPU' 5 || return
	guard 12 "${ours[@]}" "$work/bin/device" copy_to_device copy_from_device copy_both_ways >"$log" 2>&1
	: >"$torch"
	if [ "$device" = cuda ] && find_python; then guard 20 "$python" tests/gpu/peer.py copies >"$torch" 2>&1; fi
	for name in to_device from_device both_ways; do
		value=$(rate_in "$log" "copy_$name")
		least=$([ $name = both_ways ] && echo 95 || echo 55)
		[ -z "$small" ] || least=0
		if [ -n "$value" ]; then
			reaches "copies, $name" "$value" GB/s "$least" "PyTorch: $(rate_in "$torch" "torch_copies_${name/both_ways/2_streams}")"
		else
			without "copies, $name" "$log"
		fi
	done
	for name in 2 4; do
		value=$(rate_in "$torch" "torch_copies_${name}_streams")
		[ -z "$value" ] || reaches "copies both ways by $name streams of PyTorch" "$value" GB/s 95 'what the machine has'
	done
}

# What the host does beside: adds gradients of 12 bytes a parameter, and updates with 28.
day_host_rates() {
	local log=$work/log/$phase-host.log adam=$work/log/$phase-adam.log threads value millions=128 large=(BIG=1) least=100
	enough 'what the host does beside' 5 || return
	threads=$(nproc)
	[ -z "$small" ] || millions=4 large=(SMALL=1) least=0
	guard 15 env ZR_TEST_DEVICE=cpu THREADS="$threads" "${large[@]}" "${ours[@]}" "$work/bin/device" fold >"$log" 2>&1
	value=$(rate_in "$log" fold)
	if [ -n "$value" ]; then
		reaches 'fold on the host' "$value" GB/s "$least" "$threads threads"
	else
		without 'fold on the host' "$log"
	fi
	guard 15 env PYTHON=/nowhere "${ours[@]}" "$work/bin/adam" $millions 5 "$threads" >"$adam" 2>&1
	value=$(awk '/ parameters, / { n = $1 } /^cpu_adam / { printf "%.4g", 28e-6 * n / $2 }' "$adam")
	if [ -n "$value" ]; then
		reaches 'cpu_adam on the host' "$value" GB/s "$least" "$threads threads; ms $(grep -E '^(cpu_adam|8bit|streams|loop)' "$adam" |
			awk '{ printf "%s %s  ", $1, $2 }')"
	else
		without 'cpu_adam on the host' "$adam"
	fi
}

# ---- large models with their state on the host ----

# day_host NAME SHARE ARGUMENT...: a 7B whose rate is a share of that of the one on the GPU
day_host() {
	local name=$1 of=$2 args warm=1 fewest=1 best least
	shift 2
	[ -n "$small" ] || grow 116
	mapfile -t args < <(seven)
	# shellcheck disable=SC2086 # a list of words
	[ -z "$small" ] || args+=($small_llama -o train.train_batch_size=16 -o data.path="$(tokens 512)")
	args+=(-o optimizer.plugin=cpu_adam -o offload.optimizer.plugin=cpu -o train.gradient_clipping=0 -o zero.update_in_backward=yes)
	if [ -z "$small" ] && awk '/^MemAvailable/ { exit !($2 / 1048576 < 104) }' /proc/meminfo; then # it would not fit
		name+=', moments in bf16'
		args+=(-o optimizer.states=bf16)
	fi
	best=$(printf '%s\n' "$(of_day 'Llama 7B, 16 x 2 x 2048, all activations kept')" \
		"$(of_day 'Llama 7B, 8 x 4 x 2048, some layers computed again')" | sort -g | tail -n 1)
	[ -n "$best" ] || name+=', day1 has no rate to compare with'
	least=$(awk -v b="${best:-0}" -v s="$of" 'BEGIN { printf "%.0f", b * s }')
	trains "$name" 95 "$least" 65536 "$(per_token llama 32 4096 32000 2048 11008)" 3 "${args[@]}" "$@" || return
	[ -z "$best" ] || result "$name: of the rate on the GPU" pass "$(share "$rate" "$best")" x "$(printf %.0f "$rate") of $best tokens/s"
}

# Seconds that a step of the 13B's shape with 8 layers, 16 sequences of 2048, takes at least in micro-batches of $1: of parameters
# copied in twice, of gradients copied out and added in fp32, of products, which a forward that runs again has a third more of. By
# what was measured before; products else at 690 TFLOP/s.
bound_of_13b() {
	awk -v micro="$1" -v in_="$(of_day 'copies, to_device')" -v out="$(of_day 'copies, from_device')" \
		-v fold="$(of_day 'fold on the host')" -v products="$(measured llama_7b_products)" 'BEGIN {
			layers = 8 * (4 * 5120 * 5120 + 3 * 5120 * 13824); words = 32000 * 5120; all = layers + 2 * words
			tokens = 16 * 2048; n = 16 / micro
			t["in"] = n * 4 * all / 1e9 / (in_ ? in_ : 55); t["out"] = n * 4 * all / 1e9 / (out ? out : 55)
			t["fold"] = n * 12 * all / 1e9 / (fold ? fold : 80)
			t["products"] = tokens * (8 * layers + 6 * words + 8 * 8 * 2048 * 5120) / 1e12 / (products ? products : 690)
			for (k in t) if (t[k] > most) { most = t[k]; name = k }
			printf "%.4g %s, in %.4g out %.4g fold %.4g products %.4g s\n", most, name, t["in"], t["out"], t["fold"], t["products"] }'
}

day_13b() { # day_13b MICRO
	local micro=$1 warm=1 fewest=1 name args bound seconds
	name="Llama 2 13B, 8 of 40 layers, all of it on the host, $((16 / micro)) x $micro x 2048"
	args=(conf/llama2-13b.ini -o model.layers=8 -o train.micro_batch_size="$micro" -o train.gradient_accumulation_steps=$((16 / micro))
		-o data.format=uint16 -o data.path="$(tokens 32000)")
	# shellcheck disable=SC2086
	[ -z "$small" ] || args+=($small_llama -o data.path="$(tokens 512)")
	enough "$name" 12 || return
	pace day "$([ -n "$small" ] && echo 2 || echo 3)" 40 "${args[@]}" || { result "$name" "$(ended)" '' '' "$rate"; return; }
	if [ -n "$small" ]; then
		result "$name" pass "$(printf %.0f "$rate")" tokens/s 'a small model, no GPU'
		return
	fi
	read -r seconds bound < <(bound_of_13b "$micro")
	reaches "$name: bound to time" "$(awk -v r="$rate" -v s="$seconds" 'BEGIN { printf "%.3f", s / (32768 / r) }')" x 0.85 \
		"$(printf %.0f "$rate") tokens/s, $(awk -v r="$rate" 'BEGIN { printf "%.2f", 32768 / r }') s a step, $taken steps; bound $seconds s by $bound"
}

day_1558m() {
	local args warm=1 fewest=2
	args=(conf/gpt2-1558m.ini -o data.format=uint16 -o train.micro_batch_size=8 -o train.train_batch_size=32)
	# shellcheck disable=SC2086
	if [ -n "$small" ]; then args+=($small_gpt2 -o data.path="$(tokens 512)"); else args+=(-o data.path="$(tokens 50257)"); fi
	trains 'GPT-2 1558M bf16, 4 x 8 x 1024' 40 50000 32768 "$(per_token gpt2 48 1600 50257 1024)" 8 "${args[@]}"
}

# ---- forecasts ----

# forecast NAME RATES RATE ARGUMENT...: tokens/s of `zeroth plan` by measured rates beside a measured rate
forecast() {
	local name=$1 rates=$2 rate=$3 said
	shift 3
	said=$(guard 20 "${zeroth[@]}" plan --rates "$rates" --json --no-compare "$@" "${on_device[@]}" 2>"$work/log/$phase-plan.log" |
		sed -n 's/^ *"tokens_per_s": \([0-9.e+]*\),.*/\1/p' | sed 1q)
	if [ -z "$said" ]; then
		result "$name" fail '' '' "no forecast: $(tail -n 1 "$work/log/$phase-plan.log")"
	elif [ -z "$rate" ]; then
		result "$name" skip "$(printf %.0f "$said")" tokens/s 'day1 has no rate to compare with'
	else
		reaches "$name" "$(awk -v a="$said" -v b="$rate" 'BEGIN { printf "%.3f", (a < b ? a / b : b / a) }')" x \
			"$([ -n "$small" ] && echo 0 || echo 0.9)" "$(printf %.0f "$said") forecast, $(printf %.0f "$rate") measured"
	fi
}

day_forecast() {
	local rates=$work/run/rates.ini subject log args
	enough 'forecasts by measured rates' 10 || return
	rm -f "$rates"
	for subject in gemm ops adam; do
		log=$work/log/$phase-bench-$subject.log
		guard 20 "${zeroth[@]}" bench $subject -n 1 --seconds "$([ -n "$small" ] && echo 0.001 || echo 0.02)" --rates "$rates" \
			"${on_device[@]}" >"$log" 2>&1 || result "zeroth bench $subject" fail $? code "$(tail -n 1 "$log")"
	done
	[ -s "$rates" ] || { without 'rates of this machine' "$log"; return; }
	cp "$rates" "$work/log/rates.ini"
	mapfile -t args < <(seven)
	if [ -n "$small" ]; then
		# shellcheck disable=SC2086
		set -- $small_gpt2 -o train.micro_batch_size=8 -o train.train_batch_size=8
		# shellcheck disable=SC2206
		args+=($small_llama -o train.train_batch_size=16 -o data.path="$(tokens 512)")
	else
		set -- -o train.micro_batch_size=64 -o train.train_batch_size=64
	fi
	forecast 'forecast of GPT-2 124M by measured rates' "$rates" "$(of_day 'GPT-2 124M bf16, 64 x 1024')" conf/gpt2-124m.ini "$@"
	forecast 'forecast of Llama 7B by measured rates' "$rates" "$(of_day 'Llama 7B, 16 x 2 x 2048, all activations kept')" "${args[@]}" \
		-o train.micro_batch_size=2
}

# ---- the second half ----

day2() {
	line 25 day_copies
	line 30 day_host_rates
	line 100 day_host 'Llama 7B, state on the host, 2 x 16 x 2048' 0.9 -o train.micro_batch_size=16
	line 95 day_host 'Llama 7B within 24 GB, 4 x 8 x 2048' 0.8 -o train.micro_batch_size=8 -o activation.plugin=recompute \
		-o activation.max_bytes="$([ -n "$small" ] && echo 1G || echo 18G)" -o zero.plugin=stage3 -o offload.param.plugin=cpu \
		-o device.memory="$([ -n "$small" ] && echo 1G || echo 24G)"
	line 36 day_13b 1
	line 26 day_13b 4
	line 26 day_13b 16
	line 40 day_1558m
	line 45 day_forecast
}
