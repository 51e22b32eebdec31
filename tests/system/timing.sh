#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Where the time of a step goes: its parts, as lines, metrics and in the summary; its trace.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
command -v python3 >/dev/null || skip_all 'no python3'

cd "$scratch" || exit 99
export XDG_STATE_HOME=$scratch/state
tiny text 2 4 6 </dev/null
use_disk

# parts RUN: of the metrics, what is wrong with the parts of each step, and those that took any time
parts() {
	python3 - "$1" <<'PY'
import json, sys
names = ["forward", "backward", "reduce", "gather_wait", "read_wait", "optimizer", "write_wait", "publish", "boundary", "data",
         "launch", "other"]
seen, before, apart = set(), 0, []
sums = dict.fromkeys(names, 0.0)
rows = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
for row in rows:
    took, parts = row["step_seconds"], {name: row[name + "_s"] for name in names}
    if abs(sum(parts.values()) - took) > 0.01 * took:
        apart.append(("step", row["step"], "takes", took, "its parts", sum(parts.values())))
    if min(parts.values()) < 0 or not before <= row["elapsed"] or row["tokens"] != 128 * row["step"]:
        print("step", row["step"], row)
    before = row["elapsed"]
    for name in names:
        sums[name] += parts[name] / len(rows)
    seen |= {name for name in names[:-1] if parts[name] > 0}
if len(apart) > 1:  # once another program may have the processor between two looks at the clock
    print(*apart)
summary = json.load(open(sys.argv[1] + "/summary.json"))
for name in names:
    if abs(summary["breakdown"][name + "_s"] - sums[name]) > 1e-9 + 1e-6 * sums[name]:
        print("summary", name, summary["breakdown"][name + "_s"], sums[name])
if "breakdown_min" in summary:
    for name in names:
        lo, at, hi = (summary[which][name + "_s"] for which in ("breakdown_min", "breakdown", "breakdown_max"))
        if not lo <= at <= hi:
            print("ranks", name, lo, at, hi)
    if summary["breakdown_min"] == summary["breakdown_max"]:
        print("two ranks took the same time")
print(len(rows), *[name for name in names if name in seen])
PY
}

on=(-o train.eval_every=3 -o run.wall_clock_breakdown=yes -o run.log_every=2)
plain=$(trained tiny.ini -o train.eval_every=3)
like 'a plain run' "$plain" '^digest'
is 'I1: parts are counted without a change' "$(trained tiny.ini "${on[@]}")" "$plain"
is 'the parts of each step add up to it' "$(parts run)" '6 forward backward reduce optimizer boundary data'
is 'as often as other lines' "$(grep -cE '^step [1246]  [0-9.e-]+ s:  forward [0-9.]+ %  .*backward [0-9.]+ %' out)" 4
is 'two ranks' "$(trained tiny.ini -n 2 -o zero.plugin=stage1 "${on[@]}"; parts run)" "$plain
6 forward backward reduce optimizer publish boundary data"
"$ZEROTH" report run > out
like 'the report says whose they are' "$(cat run/report.html)" '>Time of a step by part <small>run, rank 0<'
is 'two ranks, all on disk' "$(trained tiny.ini -n 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 "${disk[@]}" "${on[@]}"
	parts run)" "$plain
6 forward backward reduce gather_wait read_wait optimizer write_wait boundary data"
is 'without it there are none' "$(trained tiny.ini | grep -c digest; grep -c forward_s run/metrics.jsonl)" '1
0'

# ---- what the machine can do ----

# rates PRODUCT: a file of rates of this device, at 64 x 64 x 64
rates() {
	mkdir -p "$XDG_STATE_HOME/zeroth"
	sed -n 's/^device  \(.*\) (\(.*\)), .*/[machine]\ndevice = \1\nvariant = \2/p' out > machine
	{ cat machine; printf '[ranks 1 threads 1]\nmatmul.fp32.nn.64x64x64 = %s\n' "$1"; } > "$XDG_STATE_HOME/zeroth/rates.ini"
}

# operations: those of a step, as the parts of the highest rate of products and the seconds say, in each step
operations() {
	sed -n 's/.*"step_seconds":\([^,]*\),.*"mfu_product":\([^,}]*\).*/\1 \2/p' run/metrics.jsonl |
		awk -v rate="$1" '{ printf "%.0f\n", $1 * $2 * rate }' | sort -u
}

rates 1e9
is 'rates change nothing' "$(trained tiny.ini -o train.eval_every=3)" "$plain"
first=$(operations 1e9)
like 'the part of products that steps reach' "$first" '^[0-9]{6,}$'
like 'in the line, too' "$(cat out)" '^step 6/6 .* tok/s  of products [0-9]+ %  of possible [0-9]+ % \([a-z]+\)  host '
like 'and in plan.json how long a step takes' "$(tr -d ' \n' < run/plan.json)" '"forecast":\{.*"seconds":[0-9.e-]+'
rates 2e9
is 'by the rate' "$(trained tiny.ini -o train.eval_every=3; operations 2e9)" "$plain
$first"
sed -i 's/^variant.*/variant = another/' "$XDG_STATE_HOME/zeroth/rates.ini"
is 'rates of another machine' "$(trained tiny.ini -o train.eval_every=3; operations 2e9)" "$plain"
echo nonsense > "$XDG_STATE_HOME/zeroth/rates.ini"
trained tiny.ini > digest
like 'a file that is none' "$(cat log)" '^zeroth: warning: train: how fast this machine is, is not known: .*rates.ini:1'
rm "$XDG_STATE_HOME/zeroth/rates.ini"

# ---- traces ----

# traced FILE: what breaks the rules of a trace in JSON; its ranks and threads, in order; the parts, the units that layers have,
# and the seconds in them beside those of the metrics
traced() {
	python3 - "$@" <<'PY'
import json, sys
trace = json.load(open(sys.argv[1]))
ranks, threads, spans = {}, {}, {}
for e in trace["traceEvents"]:
    if e["ph"] == "M":
        if e["name"] == "process_name":
            ranks[e["pid"]] = e["args"]["name"]
        elif e["name"] == "thread_name":
            threads[e["pid"], e["tid"]] = e["args"]["name"]
        elif e["name"] not in ("process_sort_index", "thread_sort_index"):
            print("strange", e)
        continue
    if e["ph"] != "X" or e["ts"] < 0 or e["dur"] < 0 or not e["name"] or not e["cat"] or e["args"]["waited_us"] < 0:
        print("strange", e)
    spans.setdefault((e["pid"], e["tid"]), []).append(e)
for thread, events in spans.items():
    if thread not in threads or thread[0] not in ranks:
        print("without a name", thread)
    if threads[thread].split()[0] != ["compute", "host", "copy", "store", "comm"][thread[1] % 5]:
        print("another queue", thread, threads[thread])
    events.sort(key=lambda e: e["ts"])
    for a, b in zip(events, events[1:]):
        if round(1e3 * (a["ts"] + a["dur"])) > round(1e3 * b["ts"]):
            print("overlap", a, b)
everything = [e for events in spans.values() for e in events]
if min(e["ts"] for e in everything) != 0:
    print("begins at", min(e["ts"] for e in everything))
print(*[ranks[r] for r in sorted(ranks)], "|", *sorted({name.split()[0] for name in threads.values()}))
print(*sorted({e["args"]["unit"] for e in everything if e["args"]["kind"] == "layer"}))
print(*sorted({e["args"]["kind"] for e in everything if e["args"]["bytes"] > 0}))
if len(sys.argv) > 2: # all that rank 0 did itself is in the parts of the step
    row = [json.loads(line) for line in open(sys.argv[2] + "/metrics.jsonl")][trace["otherData"]["step"] - 1]
    for part in "forward", "backward":
        took = sum(e["dur"] for e in everything if e["cat"] == part and e["pid"] == 0) / 1e6
        if abs(took - row[part + "_s"]) > 0.01 * row[part + "_s"]:
            print(part, took, row[part + "_s"])
PY
}

is 'I1: a trace changes nothing' "$(trained tiny.ini "${on[@]}" -o 'run.trace=2 4-5')" "$plain"
is 'and logs nothing' "$(cat log)" ''
is 'the steps that were asked for' "$(ls run/trace | tr '\n' ' ')" 'step-000002.json step-000004.json step-000005.json '
is 'its instructions' "$(traced run/trace/step-000004.json run)" "rank 0 | compute host
h.0 h.1 ln_f wte
accumulate call layer optimize secure"
is 'two ranks' "$(trained tiny.ini -n 2 -o zero.plugin=stage3 -o zero.persistence_threshold=0 -o comm.cross_read=off \
	-o train.eval_every=3 -o run.trace=6; traced run/trace/step-000006.json; ls run/trace)" "$plain
rank 0 rank 1 | comm compute host
h.0 h.1 ln_f wte
accumulate call collective layer optimize secure
step-000006.json"
is 'requests to the disk, which overlap' "$(trained tiny.ini -o zero.plugin=stage3 "${disk[@]}" -o train.eval_every=3 \
	-o run.trace=3; traced run/trace/step-000003.json)" "$plain
rank 0 | compute host store
h.0 h.1 ln_f wte
accumulate call layer optimize read secure write"
is 'I1: a device that is waited for after each operation' "$(trained tiny.ini "${on[@]}" -o run.trace=1-6 -o device.memory=32M \
	-o device.plugin="$cards" -o device.late_copies=yes -o device.clock=no; parts run)" "$plain
6 forward backward reduce optimizer boundary data"
for text in 0 1,2 3-2 x 4- 1-2-3 99999999999999999999; do
	is "trace = $text" "$(trained tiny.ini -o run.trace="$text")" \
		"zeroth: -o: [run] trace = $text: expected at most 64 steps and ranges of steps, as 10 20-22"
	for verb in 'config check' plan; do
		is "trace = $text: $verb says the same" "$("$ZEROTH" $verb tiny.ini -o run.trace="$text" 2>&1)" "$(tail -n 1 log)"
	done
done

# ---- a run that goes on ----

is 'the first half' "$(trained tiny.ini -o train.eval_every=3 -o train.steps=3 -o checkpoint.every=3 -o run.trace=3; ls run/trace)" \
	"$(trained tiny.ini -o train.eval_every=3 -o train.steps=3)
step-000003.json"
trained tiny.ini -o train.eval_every=3 -o train.steps=3 -o checkpoint.every=3 -o run.trace=3 > digest
sed -i '3s/"elapsed":[0-9.]*/"elapsed":1000/' run/metrics.jsonl
echo torn > run/trace/step-000005.rank-0
# In a directory of its own, from any name of the checkpoint; steps after it, which a run has that went on, do not count.
echo '{"step":4,"elapsed":2000}' >> run/metrics.jsonl
for from in run run/checkpoints run/checkpoints/step-00000003; do
	ok "another directory goes on from $from" "$ZEROTH" train tiny.ini -o run.dir=other -o train.steps=4 --resume "$from"
	is '... and so does its time' "$(sed 's/.*"elapsed":\([0-9]*\).*/\1/' other/metrics.jsonl)" 1000
	rm -rf other
done
sed -i '$d' run/metrics.jsonl
is 'and the second' "$("$ZEROTH" train tiny.ini -o run.dir=run -o train.eval_every=3 -o run.trace='2 4' --resume auto 2>log | tail -n 1)" \
	"$plain"
is 'its time goes on' "$(sed 's/.*"elapsed":\([0-9]*\).*/\1/' run/metrics.jsonl | tail -n 4 | tr '\n' ' ')" '1000 1000 1000 1000 '
is 'what a killed rank left is gone' "$(ls run/trace | tr '\n' ' ')" 'step-000003.json step-000004.json '
rm -rf run

mkdir -p run
ln -s "$scratch" run/trace
is 'a link in its place is not followed' "$(timeout 120 "$ZEROTH" train tiny.ini -o run.dir=run -o run.trace=2 --resume auto \
	2>&1 >/dev/null | tail -n 1)" 'zeroth: warning: trace: run/trace/step-000002.rank-0: Too many levels of symbolic links: no more steps are traced'
done_testing
