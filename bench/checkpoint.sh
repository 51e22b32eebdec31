#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints of GPT-2 124M in fp32 (1.5 GB: masters and two moments) against the disk, in turns: a
# synchronous save, which writes and reads back, beside fio doing both of as many bytes at a time, a
# load beside fio reading them, both from a cold cache, fio past the page cache and on huge pages, and
# both beside torch.save and torch.load of tensors of that size. And what training waits for an
# asynchronous save.
#
#   bench/checkpoint.sh DIRECTORY [--rounds N] [--threads N]
#
# ZEROTH is the program under test (default: zeroth in PATH). Needs fio, python3 with torch (PYTHON
# names another) and 6 GB in DIRECTORY. Prints GB/s per round; then medians: save and load as parts
# of fio's rate, and the wait of an asynchronous save as part of a synchronous one.
set -u

rounds=3 threads=2
dir=${1:-}
[ -d "$dir" ] || { sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2 ;;
	--threads) threads=$2 ;;
	*) sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
	shift 2
done
zeroth=${ZEROTH:-zeroth}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "$dir/zeroth-bench.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
head -c 1000000 /dev/urandom | LC_ALL=C tr '\200-\377' '\000-\177' >"$work/tokens"

# train RUN OPTION...: log in $work/log
train() {
	local run=$1
	shift
	"$zeroth" train "$here/conf/gpt2-124m.ini" -o run.dir="$work/$run" -o data.plugin=tokens \
		-o data.path="$work/tokens" \
		-o data.format=uint16 -o precision.plugin=fp32 -o train.micro_batch_size=1 \
		-o train.train_batch_size=4 \
		-o train.sequence_length=64 -o train.eval_every=0 \
		-o device.threads="$threads" "$@" >"$work/out" 2>"$work/log" ||
		{ cat "$work/log" >&2; kill $$; }
}
# Seconds, and those that training waited, of the first save in the log; later ones are at the end,
# where nothing hides them.
saved() { sed -n 's/.* saved in \([0-9.]*\) s, of which training waited \([0-9.]*\) s.*/\1 \2/p' "$work/log" | head -n 1; }
bytes() { find "$work/$1/checkpoints" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }'; }
cold() { sync; find "$@" -type f -exec dd if={} iflag=nocache count=0 status=none \;; }
fio_seconds() { # fio_seconds rw|read BYTES_OF_FILE BYTES_MOVED
	cold "$work/fio" 2>/dev/null
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --name=seq --filename="$work/fio" --size="$2" --io_size="$3" \
		--rw="$1" --bs=1M --ioengine=io_uring --iodepth=32 --direct=1 --end_fsync=1 --output-format=json 2>/dev/null |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["job_runtime"] / 1000)'
}
torch_seconds() { # both: save, load
	"${PYTHON:-/usr/bin/python3}" - "$work/torch" "$1" <<'END'
import os, sys, time, torch
path, n = sys.argv[1], int(sys.argv[2]) // 12
state = {k: torch.rand(n) for k in ("master", "exp_avg", "exp_avg_sq")}
t = time.time()
with open(path, "wb") as f:
	torch.save(state, f)
	f.flush()
	os.fsync(f.fileno())
save = time.time() - t
fd = os.open(path, os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
t = time.time()
torch.load(path)
print(save, time.time() - t)
END
}

echo 'round    save  (fio, torch)         load  (fio, torch)   GB/s    wait'
for round in $(seq "$rounds"); do
	rm -rf "$work/sync" "$work/async" "$work/fio"
	train sync -o train.steps=2 -o checkpoint.every=1 -o checkpoint.keep=1
	save=$(saved | cut -d ' ' -f 1)
	size=$(bytes sync)
	fio_write=$(fio_seconds rw "$size" "$((2 * size))")
	cold "$work/sync"
	train sync -o train.steps=2 --resume auto
	load=$(sed -n 's/.*"resume_seconds": \([0-9.]*\).*/\1/p' "$work/sync/summary.json")
	fio_read=$(fio_seconds read "$size" "$size")
	torch=$(torch_seconds "$size")
	rm -rf "$work/torch" "$work/sync"
	train async -o train.steps=4 -o checkpoint.every=1 -o checkpoint.async=yes \
		-o checkpoint.keep=1
	wait=$(saved | cut -d ' ' -f 2)
	echo "$round $size $save $load $fio_write $fio_read $wait $torch" | awk '{
		printf "%5d  %6.2f  (%4.2f, %4.2f)      %8.2f  (%4.2f, %4.2f)       %8.3f s of %.3f s\n",
			$1, $2 / $3 * 1e-9, $2 / $5 * 1e-9, $2 / $8 * 1e-9, $2 / $4 * 1e-9, $2 / $6 * 1e-9, $2 / $9 * 1e-9, $7, $3 }'
	echo "$fio_write $save $fio_read $load $wait" >>"$work/times"
done
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.3f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
echo "save $(awk '{ print $1 / $2 }' "$work/times" | median) of fio, load $(awk '{ print $3 / $4 }' "$work/times" | median) of fio," \
	"an asynchronous save waits $(awk '{ print $5 / $2 }' "$work/times" | median) of a synchronous one"
