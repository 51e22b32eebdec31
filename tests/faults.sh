#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5, I6, I7: a call of the C library that fails, is short, slow or interrupted, or has a bit changed on its way, ends in
# the right digest, or in a clean stop that names the cause, with a checkpoint that can be gone on from. tests/faults/ has
# the library that is preloaded and the program that tries each call; here are the trainings. `make check` tries some
# calls of each, FAULTS=full (`make check-faults`) all; FAULTS=full CASES='one resume' those of some cases.
. "$ZR_SRCDIR/tests/tap.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'sanitizers have an allocator of their own'

# In memory, where there is room: a sync of a disk takes longer than the training.
if [ -w /dev/shm ] && [ -z "$TMPDIR" ]; then
	rm -rf "$scratch"
	scratch=$(mktemp -d /dev/shm/zeroth-test.XXXXXX) || exit 99
fi
cd "$scratch" || exit 99
faults=$ZR_BUILDDIR/tests/.libs/libfaults.so
mkdir base
for i in $(seq 1 60); do echo "line $i of a text that is long enough"; done > base/text
cat > base/tiny.ini << 'EOF'
[model]
plugin = gpt2
layers = 1
heads = 1
width = 8
context = 8
[data]
plugin = text
path = text
[train]
train_batch_size = 2
micro_batch_size = 1
steps = 2
eval_every = 0
[device]
threads = 1
[checkpoint]
every = 1
[run]
dir = run
EOF
train=("$ZEROTH" train tiny.ini)

# digest STEPS: the last line of a training that nothing disturbs
digest() { (cd base && "${train[@]}" -o run.dir="$scratch/plain" -o train.steps="$1" 2> /dev/null | tail -n 1; rm -rf "$scratch/plain"); }

# case NAME BUDGET OPTION... -- COMMAND... -- GO-ON...: tries its calls; the results go to the file `results`
try() {
	local name=$1 budget=$2
	shift 2
	case " ${CASES-$name} " in *" $name "*) ;; *) return ;; esac
	[ "$FAULTS" != full ] || budget=${FULL_BUDGET-0}
	if ! "$ZR_BUILDDIR/tests/sweep" --library "$faults" --name "$name" --base "$scratch/base" --work "$scratch/work" \
		--budget "$budget" "$@" > result 2> problem; then
		fail "$name: cannot be tried" "$(cat problem)"
		return
	fi
	cat result >> results
	is "I5, I6, I7: $name: the right digest or a clean stop" "$(grep '^else' result | cut -f3-)" ''
}

three=$(digest 3)
: > results
slice="$([ "$FAULTS" = full ] || echo ' mmap open write sync range rename mkdir space close list thread ')"
try one 150 ${slice:+--calls "$slice"} --end "$three" -- "${train[@]}" -- "${train[@]}" --resume auto -o train.steps=3

awk -F '\t' 'BEGIN { printf "# %-10s %8s %8s %8s %8s\n", "call", "tried", "right", "clean", "else" }
	function row(name) { printf "# %-10s %8d %8d %8d %8d\n", name, tried[name], right[name], clean[name], other[name] }
	$1 == "done" {
		for (i = 1; i <= 2; i++) {
			name = i == 1 ? $3 : "all"
			if (!(name in tried) && i == 1) order[++n] = name
			tried[name] += $4; right[name] += $5; clean[name] += $6; other[name] += $7
		}
	}
	END { for (i = 1; i <= n; i++) row(order[i]); row("all") }' results
done_testing
