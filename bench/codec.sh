#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What it takes and brings that ranks send each other MXINT8 ([train] communication_data_type and gather_data_type).
#
#   bench/codec.sh networks [INI [CARD]]
#       by the forecast, tokens/s of 8 machines with 8 cards each over network cards from 8 x 400 to 1 x 25 Gbit/s a machine:
#       with gradients in bf16; as codes; and parameters as codes, too. INI: default conf/llama3-8b.ini; CARD: H100
#   bench/codec.sh curves FILE [STEPS [SEED...]]
#       validation losses of the GPT of conf/quickstart.ini, in bf16, on a text, one rank: without codes, with those of gradients,
#       of parameters, of both. Losses are the same on any number of ranks.
#   bench/codec.sh machines [RATE [ROUNDS]]
#       seconds of a step of a small GPT in stage 3 on two machines of two ranks, which network namespaces play, whose network
#       cards send no more than RATE (of tc; default: 100mbit): gradients in fp32, in bf16, as codes; and parameters, too. As
#       root.
#
# ZEROTH is the program under test (default: zeroth in PATH). Needs awk; ip, tc and unshare for the last one.
set -u

here=$(cd "$(dirname "$0")" && pwd) zeroth=${ZEROTH:-zeroth}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
gradients=(-o train.communication_data_type=mxint8) parameters=(-o train.gather_data_type=mxint8)

forecast() { # forecast INI CARD OPTION...: tokens/s of 64 ranks
	"$zeroth" plan --json --no-compare --card "$2" --scale 64 "$1" -o data.path="$work/text" -o data.format=uint16 \
		-o zero.update_in_backward=no -o optimizer.states=fp32 -o train.micro_batch_size=1 -o train.sequence_length=8192 \
		-o train.gradient_accumulation_steps=1 "${@:3}" |
		awk -F': ' '/"tokens_per_s"/ { printf "%.0f", $2 }'
}

networks() {
	local ini=${1:-$here/../conf/llama3-8b.ini} card=${2:-H100} stage network plain coded both
	head -c 200000 /dev/zero > "$work/text"
	printf '%-8s %-8s %10s %10s %6s %10s %6s\n' stage network bf16 gradients ratio both ratio
	for stage in stage2 stage3 hpz; do
		for network in 8x400 4x400 4x200 2x200 1x400 1x200 1x100 1x25; do
			common=(-o zero.plugin=$stage --network $network)
			plain=$(forecast "$ini" "$card" "${common[@]}" -o train.communication_data_type=bf16)
			coded=$(forecast "$ini" "$card" "${common[@]}" "${gradients[@]}")
			both=$(forecast "$ini" "$card" "${common[@]}" "${gradients[@]}" "${parameters[@]}")
			awk -v s=$stage -v n=$network -v p="$plain" -v c="$coded" -v b="$both" 'BEGIN {
				printf "%-8s %-8s %10d %10d %6.2f %10d %6.2f\n", s, n, p, c, c / p, b, b / p }'
		done
	done
}

losses() { # losses SEED STEPS FILE OPTION...: those of all evaluations
	rm -rf "$work/run"
	"$zeroth" train "$here/../conf/quickstart.ini" -o data.path="$3" -o precision.plugin=bf16 -o train.steps="$2" \
		-o train.eval_every=$(($2 / 6)) -o train.seed="$1" -o run.dir="$work/run" "${@:4}" > "$work/log" 2>&1 ||
		{ cat "$work/log" >&2; exit 1; }
	awk -F'"val_loss": ?' 'NF > 1 { split($2, v, /[,}]/); printf " %.4f", v[1] }' "$work/run/metrics.jsonl"
}

curves() {
	local file=$1 steps=${2:-600} seed
	printf 'validation loss after each sixth of %d steps\n' "$steps"
	for seed in "${@:3}"; do
		printf 'seed %d none      %s\n' "$seed" "$(losses "$seed" "$steps" "$file")"
		printf 'seed %d gradients %s\n' "$seed" "$(losses "$seed" "$steps" "$file" "${gradients[@]}")"
		printf 'seed %d parameters%s\n' "$seed" "$(losses "$seed" "$steps" "$file" "${parameters[@]}")"
		printf 'seed %d both      %s\n' "$seed" "$(losses "$seed" "$steps" "$file" "${gradients[@]}" "${parameters[@]}")"
	done
}

# Seconds of the second fastest of the last steps.
step() { # step OPTION...
	rm -rf run
	"$zeroth" launch --hosts "${hosts[0]},${hosts[1]}" -n 2 --through "$PWD/netns" tiny.ini -o model.width=256 -o train.steps=6 \
		-o train.eval_every=0 -o precision.plugin=bf16 -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o run.dir=run \
		-o boot.address="$net.2" "$@" > log 2>&1 || { cat log >&2; kill $$; }
	awk -F'"step_seconds":' 'NF > 1 { split($2, v, ","); print v[1] }' run/metrics.jsonl | tail -n 4 | sort -n | sed -n 2p
}

machines() {
	local rate=${1:-100mbit} host
	scratch=$work ZEROTH=$zeroth
	. "$here/../tests/lib/fixture.sh"
	. "$here/../tests/lib/hosts.sh"
	make_hosts 2 || exit 1
	cd "$work" || exit 1
	for host in "${hosts[@]}"; do
		ip netns exec "$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms || exit 1
	done
	printf '[device]\nthreads = 1\n' | tiny text 4 4 1
	cat > netns <<'SH'
#!/bin/bash
exec ip netns exec "$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
SH
	chmod 755 netns
	for _ in $(seq "${2:-2}"); do
		printf 'fp32 %.3f  ' "$(step -o train.communication_data_type=fp32)"
		printf 'bf16 %.3f  ' "$(step -o train.communication_data_type=bf16)"
		printf 'gradients %.3f  ' "$(step "${gradients[@]}")"
		printf 'both %.3f\n' "$(step "${gradients[@]}" "${parameters[@]}")"
	done
}

case ${1:-} in
machines) machines "${@:2}" ;;
networks) networks "${@:2}" ;;
curves) [ -r "${2:-}" ] && curves "$2" "${3:-600}" "${@:4}" ;;
*)
	sed -n '4,18s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
