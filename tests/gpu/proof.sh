# SPDX-License-Identifier: Apache-2.0
#
# proof.sh - part of tests/gpu/run: the phases that say whether results are right.

# tap NAME SECONDS PROGRAM [PATTERN]: each of its tests is a result, with what it says of differences.
tap() {
	local name=$1 seconds=$2 log code line n=0
	shift 2
	log=$work/log/$phase-$name${2:+-$2}.log
	enough "$name ${2-}" 5 || return
	guard "$seconds" "${ours[@]}" "$@" >"$log" 2>&1
	code=$?
	while read -r line; do
		n=$((n + 1))
		case $line in
		ok*) result "$name: ${line#ok * - }" pass ;;
		*) result "$name: ${line#not ok * - }" fail "$(grep -c '^# .*, type' "$log")" differences \
			"$(grep -m 4 -E '^# .*, type|ERROR|rror:' "$log" | cut -c 1-180 | tr '\n' ' ')" ;;
		esac
	done < <(grep -aE '^(not )?ok [0-9]' "$log")
	[ $n -gt 0 ] && { [ $code = 0 ] || grep -q '^not ok' "$log"; } ||
		result "$name ${2-}" fail $code code "ended after $n tests: $(tail -n 2 "$log" | tr '\n' ' ')"
}

kernels() {
	local test
	for test in $(sed -n '/^int main/,$p' tests/unit/device/t_twin.c | grep -o 'TEST([a-z_0-9A-Z]*)' | sed 's/TEST(\(.*\))/\1/'); do
		beside tap t_twin 150 "$work/bin/t_twin" "$test"
	done
	beside tap t_device 120 "$work/bin/t_device"
	beside tap t_fp8 120 "$work/bin/t_fp8"
	wait
}

# ---- trainings ----

text=$work/text
[ -s "$text" ] || for i in $(seq 1 4000); do echo "line $i of a text that is long enough to learn a little from"; done >"$text"

# train NAME ARGUMENT...: the last line that a training says, a digest if it went well; its run is build/gpu/run/NAME.
train() {
	local name=$1 log=$work/log/train-$1.log
	shift
	rm -rf "$work/run/$name"
	if guard 120 "${zeroth[@]}" train "$@" -o run.dir="$work/run/$name" >"$log" 2>&1; then
		tail -n 1 "$log"
	else
		echo "exit $?: $(grep -v '^ *$' "$log" | tail -n 1)"
	fi
}

losses() { sed 's/.*"loss":\([^,]*\).*/\1/' "$work/run/$1/metrics.jsonl" 2>/dev/null; }

# The largest difference of two lists of losses; "nan" if there is nothing to compare.
apart() {
	paste <(losses "$1") <(losses "$2") | awk 'NF == 2 { d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; n++ } NF != 2 { bad = 1 }
		END { if (n && !bad) printf "%g", most; else printf "\"nan\"" }'
}

# near NAME A B LIMIT
near() {
	local d
	d=$(apart "$2" "$3")
	if awk -v d="$d" -v m="$4" 'BEGIN { exit !(d ~ /^[0-9]/ && d + 0 <= m + 0) }'; then
		result "$1" pass "$d" '' "of loss, at most $4"
	else
		result "$1" fail "$d" '' "of loss, at most $4: $(tail -n 1 "$work/log/train-$2.log")"
	fi
}

# A training on both devices; sets `digest` to that of the GPU.
cpu_beside_device() { # cpu_beside_device NAME RUN LIMIT ARGUMENT...
	local name=$1 run=$2 limit=$3
	shift 3
	train "$run-cpu" "$@" -o device.plugin=cpu -o device.threads=1 >/dev/null
	digest=$(train "$run" "$@" "${on_device[@]}")
	near "$name" "$run" "$run-cpu" "$limit"
}

small_steps() { # small_steps MODEL PRECISION OPTION...
	local m=$1 p=$2
	shift 2
	cpu_beside_device "$m $p: 20 losses beside device/cpu" "steps-$m-$p" "$([ "$p" = fp32 ] && echo 2e-3 || echo 5e-2)" \
		conf/quickstart.ini -o data.path="$text" -o train.steps=20 -o train.micro_batch_size=2 -o train.train_batch_size=4 \
		-o train.eval_every=0 -o optimizer.lr=1e-3 -o precision.plugin="$p" "$@"
}

# with_peer NAME KIND SIZES PRECISIONS: gradients, losses and norms beside PyTorch's, from the same weights and tokens.
with_peer() {
	local name=$1 kind=$2 sizes=$3 p rate code dir=$work/run/model-${1//[^a-zA-Z0-9]/_} o batch micro steps log got
	batch=$(sed 's/.*batch=\([0-9]*\).*/\1/' <<<"$sizes") micro=$(sed 's/.*micro=\([0-9]*\).*/\1/' <<<"$sizes")
	steps=$(sed 's/.*steps=\([0-9]*\).*/\1/' <<<"$sizes")
	rate=$(sed 's/.*rate=\([0-9]*\).*/\1e-6/' <<<"$sizes")
	local sgd=peer-sgd-${dir##*/} adam=peer-adam-${dir##*/}
	log=$work/log/$phase-peer-${dir##*/}.log
	rm -rf "$dir"
	enough "$name" 30 || return
	# shellcheck disable=SC2086 # a list of words
	guard 90 "$python" tests/gpu/peer.py make "$dir" "$kind" $sizes >"$log" 2>&1 ||
		{ result "$name: a model" fail $? code "$(tail -n 1 "$log")"; return; }
	printf '[data]\nplugin = tokens\nformat = uint16\norder = sequential\n' >"$dir/peer.ini"
	for p in $4; do
		enough "$name $p" 30 || return
		o=("$dir/peer.ini" -o model.path="$dir" -o data.path="$dir/tokens.bin" -o train.eval_every=0 -o train.train_batch_size="$batch"
			-o train.micro_batch_size="$micro" -o precision.plugin="$p" "${on_device[@]}")
		[ "$p" != fp16 ] || o+=(-o precision.loss_scale=256)
		got=$(train "$sgd" "${o[@]}" -o optimizer.plugin=sgd -o optimizer.lr=65536 -o train.steps=1 -o train.gradient_clipping=0
			train "$adam" "${o[@]}" -o optimizer.plugin=adamw -o optimizer.lr="$rate" -o 'optimizer.betas=0.9, 0.95' \
				-o optimizer.weight_decay=0.1 -o train.steps="$steps")
		if grep -q '^exit' <<<"$got"; then
			result "$name $p beside PyTorch" fail '' '' "does not train: $got"
			continue
		fi
		# shellcheck disable=SC2086
		guard 120 "$python" tests/gpu/peer.py steps "$dir" "$p" "$work/run/$sgd" "$work/run/$adam" $sizes >"$log" 2>&1
		code=$?
		if grep -q $'\tpass\t\|\tfail\t' "$log"; then
			while IFS=$'\t' read -r what good value unit remark; do
				result "$name $p beside PyTorch: $what" "$good" "$value" "$unit" "$remark"
			done < <(grep $'\tpass\t\|\tfail\t' "$log")
		else
			result "$name $p beside PyTorch" "$(verdict $code)" $code code "$(tail -n 1 "$log")"
		fi
	done
	rm -rf "$dir" "$work/run/$sgd" "$work/run/$adam"
}

steps() {
	local p
	for p in fp32 bf16 fp16; do
		beside small_steps gpt2 $p -o model.layers=2 -o model.heads=2 -o model.width=128 -o model.context=130
		beside small_steps llama $p -o model.plugin=llama -o model.layers=2 -o model.heads=2 -o model.width=128 \
			-o model.context=130 -o model.kv_heads=1 -o model.tied=yes
	done
	wait
	find_python || { result PyTorch skip '' '' 'python3 has no torch'; return; }
	beside with_peer 'GPT-2, small' gpt2 'layers=2 heads=2 width=64 vocabulary=300 length=64 batch=4 micro=2 steps=10 rate=1000' 'fp32 bf16 fp16'
	beside with_peer 'Llama, small' llama 'layers=2 heads=4 kv_heads=2 width=64 vocabulary=300 length=64 batch=4 micro=2 steps=10 rate=1000' \
		'fp32 bf16 fp16'
	[ "$device" != cpu ] || { wait; return; }
	beside with_peer 'GPT-2 124M' gpt2 'layers=12 heads=12 width=768 vocabulary=50257 length=1024 batch=8 micro=4 steps=5 rate=100' 'fp32 bf16 fp16'
	beside with_peer 'Llama 7B, 2 layers' llama \
		'layers=2 heads=32 width=4096 ffn=11008 vocabulary=32000 length=1024 batch=4 micro=2 steps=5 rate=100' 'fp32 bf16'
	wait
}

# ---- I1 ----

# Larger models than that of tests/lib/matrix.ini: attention and products on tensor cores.
medium=(tests/lib/matrix.ini -o model.heads=4 -o model.width=256 -o model.context=256)
medium_llama=(conf/llama-text.ini -o model.layers=2 -o model.heads=4 -o model.kv_heads=2 -o model.width=256 -o model.context=256
	-o train.steps=3 -o train.eval_every=2 -o train.eval_batches=2 -o train.micro_batch_size=1)

expects() { # expects NAME WANT RUN ARGUMENT...
	local name=$1 want=$2 run=$3
	shift 3
	enough "$name" 5 || return
	same "$name" "$(train "$run" "$@")" "$want"
}

# over NAME RUN ARGUMENT...: the digest of a training in every stage, on one rank and on two
over() {
	local name=$1 run=$2 want z n
	shift 2
	set -- "$@" "${on_device[@]}" -o data.path="$text" -o train.train_batch_size=4
	want=$(train "$run" "$@")
	case $want in digest:*) result "$name trains" pass '' '' "$want" ;; *) result "$name trains" fail '' '' "$want"; return ;; esac
	beside expects "$name: again" "$want" "$run-again" "$@"
	beside expects "$name: activations computed again" "$want" "$run-recompute" "$@" -o activation.plugin=recompute
	[ "$device" = cpu ] || beside expects "$name: graphs" "$want" "$run-graphs" "$@" -o device.graphs=yes
	for z in stage0 stage1 stage2 stage3 hpz; do
		for n in 1 2; do
			beside expects "$name: $z, $n ranks on the GPU" "$want" "$run-$z-$n" "$@" -n $n -o zero.plugin=$z
		done
	done
	wait
}

matrix() {
	local p
	for p in fp32 bf16 fp16; do over "GPT-2 $p" "m-$p" tests/lib/matrix.ini -o precision.plugin=$p; done
	over 'GPT-2 of width 256, bf16' m-medium "${medium[@]}" -o precision.plugin=bf16
	over 'Llama of width 256, bf16' m-llama "${medium_llama[@]}" -o precision.plugin=bf16
}

offload() {
	local p o g a want six
	for p in fp32 bf16; do
		local base=(tests/lib/matrix.ini "${on_device[@]}" -o data.path="$text" -o precision.plugin=$p -o train.train_batch_size=4)
		want=$(train "o-$p" "${base[@]}")
		case $want in digest:*) result "$p trains" pass '' '' "$want" ;; *) result "$p trains" fail '' '' "$want"; continue ;; esac
		for o in cpu nvme; do
			for g in none cpu nvme; do
				for a in keep offload; do
					local options=(-o offload.optimizer.plugin=$o -o activation.plugin=$a -o zero.plugin=stage3)
					[ $a = keep ] || options+=(-o activation.keep=1 -o offload.activation.plugin=cpu)
					[ $o = cpu ] || options+=(-o offload.optimizer.path="$work/disk")
					[ $g = none ] || options+=(-o offload.gradient.plugin=$g -o offload.param.plugin=$g)
					[ $g != nvme ] || options+=(-o offload.gradient.path="$work/disk" -o offload.param.path="$work/disk")
					beside expects "$p: state on $o, gradients and parameters on $g, activations $a" "$want" "o-$p-$o-$g-$a" \
						"${base[@]}" "${options[@]}"
				done
			done
		done
		beside expects "$p: state on the host, 2 ranks" "$want" "o-$p-2" "${base[@]}" -n 2 -o zero.plugin=stage3 \
			-o offload.optimizer.plugin=cpu -o offload.param.plugin=cpu
		wait
		six=$(train "o-$p-six" "${base[@]}" -o train.steps=6)
		train "o-$p-three" "${base[@]}" -o train.steps=3 -o checkpoint.every=3 >/dev/null
		beside expects "$p: resumed" "$six" "o-$p-r1" "${base[@]}" -o train.steps=6 --resume "$work/run/o-$p-three"
		beside expects "$p: resumed on 2 ranks in stage 3" "$six" "o-$p-r2" "${base[@]}" -n 2 -o train.steps=6 -o zero.plugin=stage3 \
			--resume "$work/run/o-$p-three"
		beside expects "$p: resumed with state on the host" "$six" "o-$p-r3" "${base[@]}" -o train.steps=6 -o zero.plugin=stage2 \
			-o offload.optimizer.plugin=cpu --resume "$work/run/o-$p-three"
		wait
	done
}

# ---- NCCL ----

# Two ranks on one GPU are two machines to NCCL if their names differ; zeroth is told the same. Only to be tested.
two_machines() { # two_machines NAME ARGUMENT...: the digest of rank 0
	local name=$1 rank pids=()
	shift
	rm -rf "$work/run/$name" "$work/run/$name-boot"
	mkdir -p "$work/run/$name-boot"
	for rank in 1 0; do
		guard 90 env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 NCCL_HOSTID="machine$rank" NCCL_SOCKET_IFNAME=lo \
			NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN "${zeroth[@]}" train "$@" -o boot.plugin=env -o boot.directory="$work/run/$name-boot" \
			-o run.dir="$work/run/$name" >"$work/log/train-$name-$rank.log" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	tail -n 1 "$work/log/train-$name-0.log"
}

nccl() {
	local z want got comm=nccl base=(tests/lib/matrix.ini "${on_device[@]}" -o data.path="$text" -o precision.plugin=bf16
		-o train.train_batch_size=4)
	[ "$device" = cuda ] || comm=local
	[ "$device" = cpu ] || [ -e "$work/plugins/comm/nccl.so" ] || { result comm/nccl skip '' '' 'was not built: no NCCL'; return; }
	want=$(train n-want "${base[@]}")
	expects 'one rank' "$want" n-one "${base[@]}" -o comm.plugin=$comm
	expects 'two ranks on one GPU, through host memory' "$want" n-local "${base[@]}" -n 2 -o zero.plugin=stage3
	if [ $comm = nccl ]; then
		got=$(train n-two "${base[@]}" -n 2 -o comm.plugin=nccl)
		case $got in
		*'have the same GPU'*'NCCL refuses'*) result 'two ranks on one GPU are refused' pass '' '' "$got" ;;
		*) result 'two ranks on one GPU are refused' fail '' '' "$got" ;;
		esac
	fi
	for z in stage0 stage1 stage2 stage3 hpz; do
		enough "two machines, $z" 10 || return
		got=$(two_machines n-far "${base[@]}" -o comm.plugin=$comm -o zero.plugin=$z)
		same "NCCL between two machines, so to speak: $z" "$got" "$want"
	done
	base+=(-o zero.plugin=stage2 -o train.reduction=local -o train.communication_data_type=fp32)
	want=$(train n-once "${base[@]}" -n 2)
	got=$(two_machines n-added "${base[@]}" -o comm.plugin=$comm)
	same 'one sum of each machine, added in rank order' "$got" "$want"
	[ $comm = nccl ] || return 0
	got=$(two_machines n-sums "${base[@]}" -o comm.plugin=nccl -o comm.sums=nccl)
	same 'and by NCCL: two numbers have one sum' "$got" "$want"
}

# ---- compute-sanitizer ----

sanitize() {
	local s test
	s=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
	[ -n "$s" ] && [ "$device" = cuda ] || { result compute-sanitizer skip '' '' 'is not on this machine'; return; }
	local memcheck=("$s" --tool memcheck --error-exitcode 9 --print-limit 20)
	for test in columns norms elements updates casts heads matrix attentions; do
		beside try "memcheck: t_twin $test" 200 "${ours[@]}" "${memcheck[@]}" "$work/bin/t_twin" "$test*"
	done
	wait
	for test in columns norms heads attentions; do
		beside try "racecheck: t_twin $test" 150 "${ours[@]}" "$s" --tool racecheck --error-exitcode 9 "$work/bin/t_twin" "$test*"
	done
	for test in columns norms elements; do
		beside try "synccheck: t_twin $test" 100 "${ours[@]}" "$s" --tool synccheck --error-exitcode 9 "$work/bin/t_twin" "$test*"
	done
	wait
	rm -rf "$work/run/sanitize"
	beside try 'memcheck: a training in bf16, stage 3, state on the host' 200 "${ours[@]}" "${memcheck[@]}" --target-processes all \
		"$work/bin/zeroth" train tests/lib/matrix.ini "${on_device[@]}" -o data.path="$text" -o train.train_batch_size=2 -o train.steps=2 \
		-o precision.plugin=bf16 -o zero.plugin=stage3 -o offload.optimizer.plugin=cpu -o run.dir="$work/run/sanitize"
	rm -rf "$work/run/sanitize-init"
	beside try 'initcheck: a training in bf16' 200 "${ours[@]}" "$s" --tool initcheck --error-exitcode 9 --target-processes all \
		"$work/bin/zeroth" train tests/lib/matrix.ini "${on_device[@]}" -o data.path="$text" -o train.train_batch_size=2 -o train.steps=2 \
		-o precision.plugin=bf16 -o run.dir="$work/run/sanitize-init"
	wait
}
