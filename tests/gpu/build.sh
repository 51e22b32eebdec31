# SPDX-License-Identifier: Apache-2.0
#
# build.sh - part of tests/gpu/run: where CUDA, NCCL and the bundle's programs are on this machine, and the phase `build`.

# The driver, where the linker does not look by itself.
find_driver() {
	local d
	ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && return
	for d in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/wsl/lib /usr/local/cuda/compat; do
		[ ! -e "$d/libcuda.so.1" ] || { export LD_LIBRARY_PATH=$d${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; return; }
	done
}

# Python's packages of NVIDIA.
nvidia=$(python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null | sed 1q)

# nvcc of PATH, else of CUDA's usual places.
find_nvcc() {
	command -v nvcc || ls -d ${nvidia:+"$nvidia"/*/bin/nvcc} /opt/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc /usr/local/cuda/bin/nvcc \
		2>/dev/null | tail -n 1
}

# The first file of a pattern in CUDA's directory, in those of Python's nvidia packages, in the system's.
find_cuda() {
	local home
	home=$(dirname "$(readlink -f "$(find_nvcc)")")/..
	ls "$home"/{include,lib64,lib,targets/*/include,targets/*/lib,extras/CUPTI/lib64}/$1 "${nvidia:-/nowhere}"/*/{include,lib}/$1 \
		/usr/include/$1 /usr/lib/x86_64-linux-gnu/$1 /usr/lib64/$1 2>/dev/null | sed 1q
}

# Directories of CUDA's libraries: those that a plugin was linked with may be elsewhere on this machine.
cuda_path() {
	local name file
	for name in libcudart libcublasLt libnccl; do
		file=$(find_cuda "$name.so*")
		[ -z "$file" ] || dirname "$file"
	done | sort -u | tr '\n' ':' | sed 's/:$//'
}

# Sets ours, before programs of the bundle: libraries of theirs, not of the machine's; and their options.
use_bundle() {
	local path= file
	[ "$device" = cpu ] || path=$(cuda_path)
	ours=(env LD_LIBRARY_PATH="$work/lib${path:+:$path}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
	zeroth=("${ours[@]}" "$work/bin/zeroth")
	on_device=(-o device.plugin="$device")
	if [ "$device" = cpu ]; then
		on_device=(-o device.plugin="$work/tests/doubles/.libs/cards.so" -o device.memory=4G)
	else
		on_device+=(-o device.index=0)
	fi
	for file in device/cuda.so device/cuda-trial comm/nccl.so; do
		[ -e "$work/plugins/$file" ] || [ ! -e "$work/prebuilt/$file" ] || cp "$work/prebuilt/$file" "$work/plugins/$file"
	done
	"${zeroth[@]}" --version >"$work/log/start.log" 2>&1 || die "the bundle's programs do not start: $(sed 1q "$work/log/start.log"
		) (they need $(cat "$work/needs"); here is $(getconf GNU_LIBC_VERSION))"
}

capability() { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/\.//p'; }

# compile OUT COMMAND...: beside others.
compile() {
	local out=$1
	shift
	{ guard 400 "$@" -o "$out" >"$out.log" 2>&1 || : >"$out.failed"; } &
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
}

# The C files of a plugin, by the makefile's list.
sources() {
	local mk
	for mk in "plugins/$1" "plugins/$1/$2"; do
		sed -e ':a' -e '/\\$/{N; s/\\\n//; ba' -e '}' -e "s|%D%|$mk|g" "$mk/local.mk"
	done | awk -v target="plugins_$1_$2_la_SOURCES" '
		function print_files(text,   n, word, i) {
			n = split(text, word)
			for (i = 1; i <= n; i++)
				if (word[i] ~ /^\$\(/)
					print_files(value[substr(word[i], 3, length(word[i]) - 3)])
				else if (word[i] ~ /\.c$/)
					print word[i]
		}
		$2 == "=" { name = $1; sub(/^[^=]*= */, ""); value[name] = $0 }
		END { print_files(value[target]) }'
}

# link PLUGIN LIBRARY... of its objects, if all of them were compiled: one plugin does without the other
link() {
	local plugin=$1 lib rpath=
	shift
	if compgen -G "$obj/$plugin/*.failed" >/dev/null; then
		[ ! -e "$work/prebuilt/$plugin.so" ] || result "$plugin" pass '' '' "the bundle's is used"
		return
	fi
	for lib; do rpath+=${rpath:+:}$(dirname "$lib"); done
	mkdir -p "$work/plugins/$(dirname "$plugin")"
	try "$plugin is linked" 120 "${cc[@]}" -shared -o "$work/plugins/$plugin.so" "$obj/$plugin"/*.o "$@" \
		-Wl,-rpath,"$rpath" -lstdc++ -lm -lpthread
}

# Why device/cuda cannot be used, if it cannot: then nothing else is worth its time.
refusal() {
	[ "$device" = cpu ] && return
	"${zeroth[@]}" plugin list 2>&1 | grep -E '^device/cuda .*not on this machine' || [ -e "$work/plugins/device/cuda.so" ] ||
		echo 'no device/cuda: run the phase build, or bring a bundle that has it'
}

# loads PLUGIN: what `plugin list` says of it.
loads() {
	local line
	line=$(grep "^$1 " "$work/log/build-plugin_list.log")
	case $line in
	'') result "$1 loads" fail '' '' "$(grep -m 1 "$1" "$work/log/build-plugin_list.log")" ;;
	*'not on this machine'*) result "$1 loads" "$([ "$device" = cpu ] && echo skip || echo fail)" '' '' "$line" ;;
	*) result "$1 loads" pass '' '' "$line" ;;
	esac
}

build() {
	local nvcc target arch obj=$work/obj flags runtime blas nccl file began=$SECONDS
	local cc=("$(command -v gcc cc clang | sed 1q)" -std=gnu11 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -ffp-contract=off)
	result machine pass '' '' "$(getconf GNU_LIBC_VERSION), the bundle needs $(cat "$work/needs"); $("${cc[0]}" --version | sed 1q); $(
		python3 -c 'import torch; print("torch", torch.__version__)' 2>/dev/null || echo 'no torch')"
	nvcc=$(find_nvcc)
	[ -n "$nvcc" ] || { result nvcc fail '' '' 'neither on PATH nor in /usr/local/cuda*'; return; }
	target=$(capability)
	target=${target:-90}
	runtime=$(find_cuda 'libcudart.so*') blas=$(find_cuda 'libcublasLt.so*') nccl=$(find_cuda 'libnccl.so*')
	result toolkit pass '' '' "$("$nvcc" --version | sed -n 's/.*release/release/p'): $nvcc $runtime $blas $nccl"
	[ -n "$runtime" ] && [ -n "$blas" ] || { result libraries fail '' '' 'no libcudart or no libcublasLt'; return; }
	flags=(-I. -Iinclude -Iplugins -Ikernels)
	for file in cublasLt.h cuda_runtime_api.h nccl.h; do
		file=$(find_cuda $file)
		[ -z "$file" ] || case $file in /usr/include/*) ;; *) flags+=(-isystem "$(dirname "$file")") ;; esac
	done
	rm -rf "$obj"
	mkdir -p "$obj/device/cuda" "$obj/comm/nccl"
	for file in kernels/cuda/*.cu; do
		arch=$target
		[[ $file != *_hopper* ]] || arch=90a # other targets have none of these kernels
		compile "$obj/device/cuda/$(basename "$file" .cu).cu.o" "$nvcc" -std=c++20 -O3 -fmad=false --threads 0 \
			-gencode=arch=compute_"$arch",code=sm_"$arch" -Xcompiler=-fPIC,-Wall,-Wextra "${flags[@]}" -c "$file"
	done
	for file in $(sources device cuda); do
		compile "$obj/device/cuda/$(basename "$file").o" "${cc[@]}" -D_GNU_SOURCE "${flags[@]}" -c "$file"
	done
	for file in ${nccl:+$(sources comm nccl)}; do
		compile "$obj/comm/nccl/$(basename "$file").o" "${cc[@]}" "${flags[@]}" -c "$file"
	done
	wait
	for file in "$obj"/*/*/*.log; do
		[ ! -s "$file" ] || result "$(basename "$file" .o.log)" "$([ -e "${file%.log}.failed" ] && echo fail || echo pass)" '' '' \
			"$(grep -m 3 -E 'error|warning' "$file" | tr '\n' ' ')"
	done
	compgen -G "$obj/*/*/*.failed" >/dev/null || result compiled pass $((SECONDS - began)) s "sm_$target"
	link device/cuda "$runtime" "$blas"
	try 'cuda-trial is linked' 60 "${cc[@]}" -D_GNU_SOURCE "${flags[@]}" -o "$work/plugins/device/cuda-trial" \
		plugins/device/cuda/trial_main.c -ldl
	if [ -n "$nccl" ]; then link comm/nccl "$runtime" "$nccl"; else result comm/nccl skip '' '' 'no libnccl on this machine'; fi
	use_bundle
	try 'plugin list' 60 "${zeroth[@]}" plugin list
	loads device/cuda
	[ ! -e "$work/plugins/comm/nccl.so" ] || loads comm/nccl
}
