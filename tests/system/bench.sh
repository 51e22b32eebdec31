#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth bench: each subject measures what it says, with one rank and with two; the file of rates has it, and a second
# subject's rates join those that are there. How fast anything is no test says.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
export TMPDIR=$scratch XDG_STATE_HOME=$scratch/state

bench() { "$ZEROTH" bench "$@" --seconds 0.0001 >out 2>err; }

# keys NAME: the sizes that the file has of a name, with one rank and with two
keys() { grep -c "^$1\.[0-9x]* = [0-9.e+]*$" rates.ini; }

ok 'adam' bench adam -n 2 --rates rates.ini
is 'adam: three sizes, both kinds of states, one rank and two' "$(keys adamw.fp32) $(keys adamw.8bit)" '6 6'
like 'adam: a bar beside its limit' "$(cat out)" 'adamw\.fp32 +8388608 +[0-9.]+ [kMG]parameter/s +\[[# ]{20}\] +[0-9]+ %'
ok 'comm' bench comm -n 2 --rates rates.ini
is 'comm: four sizes of two ranks' "$(keys all_gather) $(keys reduce_scatter) $(keys fence)" '4 4 1'
is 'what adam has measured stays' "$(keys adamw.fp32)" 6
ok 'io' bench io -n 1 --dir . --rates rates.ini
is 'io: three sizes' "$(keys disk_read) $(keys disk_write_one) $(keys disk_mixed)" '3 3 3'
ok 'step' bench step -n 1 -o model.width=32 -o model.layers=1 --rates rates.ini
is 'step' "$(keys step)" 1
if [ -n "$ZR_SANITIZE" ]; then
	skip 'gemm: a grid of sizes' 'too slow under sanitizers'
else
	ok 'gemm' bench gemm -n 1 --rates rates.ini
	is 'gemm: a grid of sizes' "$(keys matmul.fp32.nn) $(keys matmul.bf16.tn) $(keys attention_bwd.fp32) $(keys head_loss.bf16)" '64 64 9 12'
fi
ok 'ops' bench ops -n 1 --rates rates.ini
is 'ops: three sizes' "$(keys layernorm.fp32) $(keys swiglu_bwd.bf16) $(keys copy)" '3 3 3'
is 'and nothing but keys that the reader knows' "$(grep -cvE '^(;.*|\[machine\]|\[ranks [12] threads [0-9]+\]||[a-z0-9_.]+\.[0-9x]+ = [0-9.e+]+|(cpu|device|variant|date|version|disk|processors|memory) = .*)$' rates.ini)" 0
is 'no subject writes the rates of the machine' "$(ls)" "$(printf '%s\n' err out rates.ini)"

if command -v python3 >/dev/null; then
	bench adam -n 1 --json
	is '--json' "$(python3 -c 'import json, sys
r = json.load(open("out"))
print(len(r["rates"]), all(x["rate"] > 0 and x["ranks"] == 1 for x in r["rates"]), sorted(r))')" \
		"7 True ['cpu', 'date', 'device', 'processors', 'rates', 'variant', 'version']"
	# Of the limit each share is bytes per element: 12 of residual in fp32, 6 in bf16. The table of the embedding is a
	# quarter of the rows that are looked up.
	[ -n "$ZR_SANITIZE" ] || bench ops -n 1 --json
	[ -n "$ZR_SANITIZE" ] || is 'ops: the table of an embedding is read once' "$(python3 -c 'import json
r = {x["name"]: x["rate"] / x["of_limit"] for x in json.load(open("out"))["rates"] if "of_limit" in x}
for t, size in ("fp32", 12), ("bf16", 6):
    for name in "embedding", "embedding_bwd":
        print(round(4 * size * r["residual." + t] / r[name + "." + t]) / 4, end=" ")')" '5.0 6.0 2.5 4.0 '
else
	skip '--json' 'no python3'
	skip 'ops: the table of an embedding is read once' 'no python3'
fi

if [ "$(nproc)" -gt 1 ]; then
	bench adam --rates ways.ini
	is 'without -n: one rank, one thread, two ranks' "$(grep '^\[r' ways.ini)" "[ranks 1 threads $(nproc)]
[ranks 1 threads 1]
[ranks 2 threads $(($(nproc) / 2))]"
	rm ways.ini
else
	skip 'without -n: one rank, one thread, two ranks' 'one processor'
fi
# A device with memory of its own, which only its operations and copies can touch.
for subject in adam comm; do
	ok "$subject on a separate device" bench $subject -n 2 -o device.memory=1G -o device.plugin="$cards"
done

# An optimizer without states in 8 bits, and a configuration that does not fit.
bench adam -n 1 -o optimizer.plugin=sgd --rates sgd.ini
is 'another optimizer' "$(grep -c '^sgd\.fp32\.[0-9]* = ' sgd.ini) $(grep -c 8bit sgd.ini)" '3 0'
rm sgd.ini

# a rank dies while it waits for the other one: nobody waits for it
timeout -k 1 60 "$ZEROTH" bench comm -n 2 --seconds 0.5 --rates rates.ini >out 2>err &
pid=$!
ranks_of() { children "$(children $pid)" | tr '\n' ' '; }
both_there() { [[ $(ranks_of) = *' '*' ' ]]; }
await $pid both_there
sleep 0.5
read -r one other < <(ranks_of)
kill -STOP "$one"
sleep 0.2
kill -KILL "$other"
sleep 0.2
kill -CONT "$one"
wait $pid
is 'a rank that died ends it' "$? $(cat err)" '4 zeroth: rank 1 was killed by SIGKILL (Killed)'

# ---- what cannot be measured ----
says() { # says NAME CODE PATTERN [argument]...
	local name=$1 code=$2 pattern=$3
	shift 3
	"$ZEROTH" bench "$@" >out 2>err
	is "$name: exit code" $? "$code"
	like "$name" "$(cat err)" "$pattern"
}
says 'a subject that is none' 2 '^zeroth bench: gem: neither a subject nor a file; did you mean gemm\?$' gem
says 'seconds that are no number' 2 '^zeroth bench: --seconds soon: expected a number of seconds' --seconds soon
says 'no such directory' 2 '^zeroth bench: --dir nowhere: No such file or directory$' io --dir nowhere
says 'too many ranks' 2 '^zeroth bench: -n 65: expected a number of ranks in \[1, 64\]$' comm -n 65
says 'an option that is none' 2 '^zeroth: rank 0 failed .*elephant=1: unknown key' adam -n 1 -o device.elephant=1
echo '[ranks 1 threads 1]
copy = fast' >bad.ini
says 'a model that does not fit' 3 'does not fit: needs ' step -n 1 -o model.width=65536 -o model.layers=96
says 'a file of rates that is none' 2 '^zeroth: bad\.ini:2: expected NAME\.SIZE = RATE' adam --rates bad.ini
is 'and nothing stays behind' "$(ls)" "$(printf '%s\n' bad.ini err out rates.ini)"

done_testing
