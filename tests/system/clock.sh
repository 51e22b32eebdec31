#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A device that computes later than it is told to, and has a clock: where the time of a step goes is known without waiting for it.
# The clock of the double of cards counts what was computed: tests/doubles/cards_time.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
command -v python3 >/dev/null || skip_all 'no python3'

cd "$scratch" || exit 99
export XDG_STATE_HOME=$scratch/state
tiny text 2 4 6 </dev/null
build watchdevice watched
clock=(-o train.eval_every=3 -o device.memory=32M -o device.plugin="$scratch/watched.so" -o device.later=yes)
on=(-o run.wall_clock_breakdown=yes -o run.log_every=1)

waits() { awk '$1 == "sync" { print $2 }' "$scratch/count.0"; }

plain=$(trained tiny.ini -o train.eval_every=3)
like 'one memory trains' "$plain" '^digest'
is 'I1: a device that computes later' "$(WATCH_COUNT=$scratch/count trained tiny.ini "${clock[@]}")" "$plain"
few=$(waits)
is 'without a clock it trains the same' "$(WATCH_COUNT=$scratch/count trained tiny.ini "${clock[@]}" -o device.clock=no "${on[@]}")" "$plain"
ok 'and each of its operations is waited for' test "$(waits)" -gt $((few + 200))
is 'no kernel is all that is not known then' "$(grep -c 'no kernel ran' out; grep -c idle_s run/metrics.jsonl)" '0
0'
is 'with one: I1' "$(WATCH_COUNT=$scratch/count trained tiny.ini "${clock[@]}" "${on[@]}" -o run.trace='2 4-6')" "$plain"
is 'it is waited for once more, at the end' "$(waits)" "$((few + 1))"
is 'each line says how long no kernel ran' "$(grep -cE '^step [1-6]  [0-9.e-]+ s:  forward .*;  no kernel ran in [0-9.]+ %$' out)" 6
is 'all traces are there' "$(ls run/trace | tr '\n' ' ')" \
	'step-000002.json step-000004.json step-000005.json step-000006.json '
cp -r run first

# clocked RUN: what is wrong with the times of its steps, which are those of the counting clock; then those that are known.
cat > clocked.py <<'PY'
import glob, json, sys
names = ["forward", "backward", "reduce", "gather_wait", "read_wait", "optimizer", "write_wait", "publish", "boundary", "data",
         "launch", "other"]
run = sys.argv[1]
rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
summary = json.load(open(run + "/summary.json"))
ns = lambda seconds: round(1e9 * seconds)
total = lambda parts: ns(sum(parts[name + "_s"] for name in names))
for row in rows[1:]: # a step as it always is: from the update of the one before on
    if ns(row["forward_s"]) != ns(rows[1]["forward_s"]) or ns(row["backward_s"]) != ns(rows[1]["backward_s"]):
        print("step", row["step"], row["forward_s"], row["backward_s"])
    if total(row) != total(rows[1]) or ns(row["idle_s"]) != ns(rows[1]["idle_s"]):
        print("step", row["step"], "takes", total(row), row["idle_s"])
for row in rows:
    if total(row) % 10 or not 0 < ns(row["idle_s"]) < total(row) or min(row[name + "_s"] for name in names) < 0:
        print("step", row["step"], total(row), row["idle_s"])
mean = summary["breakdown"]
if abs(6 * mean["forward_s"] - sum(row["forward_s"] for row in rows)) > 1e-9:
    print("forward", mean["forward_s"])
if 6 * mean["optimizer_s"] <= sum(row["optimizer_s"] for row in rows):
    print("the last update is missing")
for file in sorted(glob.glob(run + "/trace/*.json")):
    step = json.load(open(file))
    events = [e for e in step["traceEvents"] if e["ph"] == "X"]
    computed = [e for e in events if e["tid"] % 5 == 0]
    if any(e["tid"] for e in computed):
        print(file, "compute instructions overlap")
    for e in computed:
        if round(1e3 * e["dur"]) % 1000 not in (10, 9, 11): # as ns since 1970 are rounded
            print(file, "not of the device's clock", e)
    number = step["otherData"]["step"]
    took = sum(e["dur"] for e in computed if e["cat"] == "forward")
    if abs(1e3 * took - ns(rows[1]["forward_s"])) > len(computed) and len(sys.argv) < 3:
        print(file, "forward", took, rows[1]["forward_s"])
    copies = [round(1e3 * e["dur"]) for e in events if e["tid"] % 5 == 2]
    if len(sys.argv) > 2 and not any(299 <= took <= 301 for took in copies): # of one part
        print(file, "no copy takes 300 ns", copies)
print(ns(rows[1]["forward_s"]), ns(rows[1]["backward_s"]), ns(rows[1]["idle_s"]), total(rows[1]), total(rows[0]))
PY
times=$(python3 clocked.py run)
like 'the times are those of its clock' "$times" '^[0-9]+ [0-9]+ [0-9]+ [0-9]+ [0-9]+$'
note "$times"
trained tiny.ini "${clock[@]}" "${on[@]}" > digest
is 'whatever the host does' "$(python3 clocked.py run)" "$times"
is 'steps are traced without a breakdown, too' "$(trained tiny.ini "${clock[@]}" -o run.trace=1-6; ls run/trace | wc -l)" "$plain
6"

# What moves beside: copies, and what the host computes.
host=(-o device.late_copies=yes -o zero.plugin=stage3 -o offload.optimizer.plugin=cpu -o train.accumulate_on=tier)
is 'I1: with states on the host' "$(WATCH_COUNT=$scratch/count trained tiny.ini "${clock[@]}" "${host[@]}")" "$plain"
few=$(waits)
is 'and times of copies' "$(WATCH_COUNT=$scratch/count trained tiny.ini "${clock[@]}" "${host[@]}" "${on[@]}" -o run.trace='4-6')" "$plain"
is 'it is waited for no more often' "$(waits)" "$((few + 1))"
like 'they are those of its clock' "$(python3 clocked.py run moved)" '^[0-9]+ [0-9]+ [0-9]+ [0-9]+ [0-9]+$'
ok 'copies are traced' grep -q '"kind":"copy"' run/trace/step-000005.json
ok 'updates of the host are traced' grep -q '"kind":"optimize"' run/trace/step-000005.json
is 'two ranks' "$(trained tiny.ini -n 2 "${clock[@]}" "${host[@]}" "${on[@]}" -o run.trace=2-6; ls run/trace | wc -l)" "$plain
5"

"$ZEROTH" report first > log
like 'a report says how long no kernel ran' "$(cat first/report.html)" 'of it without a kernel</th><td>'
done_testing
