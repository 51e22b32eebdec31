#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user does: train, interrupt, sample, plan; what a run leaves behind (I5, I6).
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
export XDG_STATE_HOME=$scratch/state

for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > "$scratch/text"
cat > "$scratch/tiny.ini" <<INI
[train]
micro_batch_size = 2
steps = 8
eval_every = 4
eval_batches = 2
[model]
plugin = gpt2
layers = 2
heads = 2
width = 32
context = 32
[data]
plugin = text
path = $scratch/text
[run]
log_every = 1
INI
cd "$scratch" || exit 99

out=$("$ZEROTH" train tiny.ini -o run.dir=one 2>err)
is "train succeeds" "$?" 0
is "I7: nothing is logged on a run without a fault" "$(cat err)" ""
is "a plain line for each step in a pipe" "$(grep -c '^step [0-9]*/8 ' <<<"$out")" 8
like "a line has loss, rate, norm, memory and time" "$out" \
	'^step 8/8  loss [0-9.]+  val [0-9.]+  lr [0-9.e+-]+  \|g\| [0-9.]+  [0-9.kM]+ tok/s  host [0-9.]+ MiB  512 tokens  epoch [0-9.e-]+  0s  ETA 0s$'
is "evaluations before, between and at the end" "$(grep -c '^step [048]  validation loss' <<<"$out")" 3
like "the digest is last" "$(tail -n 1 <<<"$out")" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
is "the run directory is whole" "$(ls one | tr '\n' ' ')" "config.ini config.json metrics.jsonl model.safetensors plan.json summary.json "
is "metrics of each step" "$(wc -l < one/metrics.jsonl)" 8
like "metrics have all names" "$(sed -n 4p one/metrics.jsonl)" \
	'"step": ?4,"loss": ?[0-9.e-]+,"val_loss": ?[0-9.e-]+,"lr": ?[0-9.e-]+,"grad_norm": ?[0-9.e-]+,"tokens_per_s": ?[0-9.e+]+,"memory": ?[0-9.e+]+'
like "a byte is a token of text" "$(sed -n 4p one/metrics.jsonl)" '"val_perplexity":[0-9.]+,"val_bits_per_byte":[0-9.]+'
is "and its loss in bits" "$(sed 's/.*"val_loss":\([0-9.]*\).*"val_perplexity":\([0-9.]*\),"val_bits_per_byte":\([0-9.]*\).*/\1 \2 \3/; t; d' \
	one/metrics.jsonl | awk '{ n++; bits = $1 / log(2) / $3; up = exp($1) / $2; ok += bits > 0.999 && bits < 1.001 && up > 0.999 && up < 1.001 }
	END { print ok, n }')" '2 2'
is "plan.json is what plan prints" "$("$ZEROTH" plan --json one/config.ini | sed '/"available"/,$d')" "$(sed '/"available"/,$d' one/plan.json)"
is "summary has the digest of the last line" "$(grep -o '"params_digest": "[0-9a-f]*"' one/summary.json | cut -d'"' -f4)" \
	"$(tail -n 1 <<<"$out" | sed 's/.*params=//')"


# Evaluations of 200 batches beside steps of one.
"$ZEROTH" train tiny.ini -o run.dir=slow -o train.steps=4 -o train.eval_every=1 -o train.eval_batches=200 > slow.out 2>&1
value() { sed -n "s/.*\"$1\": \([0-9.e-]*\).*/\1/p" slow/summary.json; }
speed="$(value tokens) tokens in $(value seconds) s, $(value step_seconds) s in steps, $(value tokens_per_s)/s"
ok "tokens per second leave evaluations out: $speed" awk -v n="$(value tokens)" -v all="$(value seconds)" \
	-v steps="$(value step_seconds)" -v rate="$(value tokens_per_s)" \
	'BEGIN { exit !(steps > 0 && all > 3 * steps && rate * steps > 0.999 * n && rate * steps < 1.001 * n) }'
like "and the end says the same" "$(cat slow.out)" \
	"^trained 4 steps, 0\.00 M tokens in [0-9]+s \($(value tokens_per_s | awk '{ printf "%.0f", $1 }') tokens/s in its steps\)$"

"$ZEROTH" train -n 2 tiny.ini -o run.dir=ranks > ranks.out 2>&1
is 'memory is said to be that of a rank' "$(sed -n 's/.* planned \(per rank,\).* \(available\)$/\1 \2/p; s/.* planned \(per rank,\).* \(peak of rank 0\)$/\1 \2/p' ranks.out | tr '\n' ' ')" \
	'per rank, available per rank, peak of rank 0 '

# A run that ends itself after its first line: what is left has 100 evaluations.
"$ZEROTH" train tiny.ini -o run.dir=left -o model.width=192 -o train.steps=100 -o train.eval_every=1 -o train.eval_batches=64 \
	-o optimizer.lr=1e30 > left.out 2>&1
ok 'the time that is left has evaluations' awk -v step="$(sed -n '1s/.*"step_seconds":\([^,]*\).*/\1/p' left/metrics.jsonl)" '
	/^step 1\/100 / { sub(/.*ETA /, ""); n = split($0, t, /[ms]/); eta = n > 2 ? 60 * t[1] + t[2] : t[1] }
	END { print eta " s left, a step takes " step " s"; exit !(eta > 5 * 100 * step) }' left.out

if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
	tty=$(script -qec "stty cols 80; '$ZEROTH' train tiny.ini -o run.dir=tty" /dev/null </dev/null | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g')
	like "on a terminal of 80 columns the live line is whole" "$tty" \
		'^8/8 loss [0-9.]+ val [0-9.]+ lr [0-9.e+-]+ \|g\| [0-9.]+ [0-9.kM]+/s [0-9.]+ MiB ETA 0s$'
	is "and no wider" "$(grep '/s .* ETA' <<<"$tty" | awk 'length > 79')" ''
else
	skip "on a terminal of 80 columns the live line is whole" 'no script(1)'
fi

again=$("$ZEROTH" train one/config.ini -o run.dir=two 2>&1 | tail -n 1)
is "I1: the resolved config trains to the same bits" "$again" "$(tail -n 1 <<<"$out")"

err=$("$ZEROTH" train tiny.ini -o run.dir=one 2>&1)
is "an existing run directory: exit 2" "$?" 2
like "an existing run directory is refused" "$err" 'run directory one exists already; go on from its checkpoint with --resume auto, choose another'

"$ZEROTH" train tiny.ini > /dev/null 2>&1
ok "a run is under runs/ by default" test -f runs/tiny-*/model.safetensors

like "the end has a command that samples" "$out" '^sample      zeroth sample one$'
like "in quotes where a shell needs them" "$("$ZEROTH" train tiny.ini -o run.dir="a run's" -o train.steps=1 2>&1)" \
	"^sample      zeroth sample 'a run'\\\\''s'\$"
text=$("$ZEROTH" sample one -n 50 -s 3 2>err)
is "sample succeeds" "$?" 0
is "sample prints as many bytes as asked for" "$(printf '%s' "$text" | wc -c)" 50
is "a seed gives the same text" "$("$ZEROTH" sample one -n 50 -s 3)" "$text"
is "--keep prints it too" "$("$ZEROTH" sample one -n 50 -s 3 --keep)" "$text"
"$ZEROTH" sample one -n 5 -p 'line 12' -t 0 --json --keep > json.out
is "--keep adds texts to samples.txt" "$(grep -ac '^--- step [1-9][0-9]*, temperature' one/samples.txt)" 2
is "as they were drawn" "$(sed -n '/seed 3$/,/seed 1$/p' one/samples.txt | sed '1d;$d' | tr -cd '!-~')" "$(tr -cd '!-~' <<<"$text")"
like "a prompt is kept with its text" "$(tr -cd '\n -~' < one/samples.txt)" $'seed 1\nline 12'
is "a text that cannot be kept" "$(rm one/samples.txt; mkdir one/samples.txt; "$ZEROTH" sample one -n 1 --keep 2>&1 > /dev/null; rmdir one/samples.txt)" \
	'zeroth: one/samples.txt: cannot append: Is a directory'
like "a prompt is continued" "$("$ZEROTH" sample one -n 5 -p 'line 12')" '^line 12'
like "temperature 0 is greedy whatever the seed" "$("$ZEROTH" sample one -n 9 -t 0 -s 1)" "^$("$ZEROTH" sample one -n 9 -t 0 -s 2)$"
like "a run that does not exist" "$("$ZEROTH" sample nowhere 2>&1)" '^zeroth: nowhere: No such file or directory'

# Interrupts: after the step, with weights, exit 130; I5: the program ends soon and says so.
"$ZEROTH" train tiny.ini -o run.dir=int -o train.steps=100000 -o train.eval_every=0 > int.out 2>&1 &
pid=$!
await $pid grep -q '^step 3/' int.out
kill -TERM $pid
wait $pid
is "I5: SIGTERM ends the run with 130" "$?" 130
like "an interrupted run says so" "$(cat int.out)" '^interrupted after [0-9]+ steps'
like "and prints its digest last" "$(tail -n 1 int.out)" '^digest: '
ok "I6: its weights can be sampled" "$ZEROTH" sample int -n 3

"$ZEROTH" train tiny.ini -o run.dir=killed -o train.steps=100000 > killed.out 2>&1 &
pid=$!
await $pid grep -q '^step 3/' killed.out
kill -KILL $pid
wait $pid 2>/dev/null
ok "I6: a killed run leaves no weights that look whole" test ! -e killed/model.safetensors

# A loss that is not finite stops the run with its name.
err=$("$ZEROTH" train tiny.ini -o run.dir=nan -o optimizer.plugin=sgd -o optimizer.lr=1e30 -o scheduler.plugin=constant \
	-o train.gradient_clipping=0 2>&1)
is "non-finite numbers: exit 5" "$?" 5
like "I5: the last line names step, tensor and rank" "$(tail -n 1 <<<"$err")" 'step [0-9]+: non-finite numbers in .* rank 0'

# Plan.
plan=$("$ZEROTH" plan tiny.ini)
is "plan: fits" "$?" 0
like "plan names tier and category" "$plan" '^host +optimizer state +[0-9.]+ [KM]iB'
like "plan names the activation policy" "$plan" '^activations: keep$'
like "plan counts what runs again" "$("$ZEROTH" plan tiny.ini -o model.layers=4 -o activation.plugin=recompute)" \
	'^activations: recompute, the forward of 3 layers runs again in backward$'
like "plan says that it fits" "$plan" '^fits: '
err=$("$ZEROTH" plan tiny.ini -o model.layers=4000 -o model.width=8192 2>&1)
is "plan: does not fit, exit 3" "$?" 3
like "what does not fit says needed, available, what to change" "$err" \
	'does not fit: needs [0-9.]+ [GTP]iB of memory \(largest: .*\), [0-9.]+ [MGT]iB available; '
err=$("$ZEROTH" train tiny.ini -o run.dir=big -o model.layers=4000 -o model.width=8192 2>&1)
is "train refuses what does not fit" "$?" 3
ok "and writes nothing" test ! -e big

err=$("$ZEROTH" train tiny.ini -o train.train_batch_size=7 -o train.gradient_accumulation_steps=2 2>&1)
is "a batch triple that does not multiply out: exit 2" "$?" 2
like "its text" "$err" 'train_batch_size = 7, but micro_batch_size 2 x gradient_accumulation_steps 2 x 1 rank = 4'
like "a triple that does not divide" "$("$ZEROTH" train tiny.ini -o train.train_batch_size=7 2>&1)" \
	'train_batch_size = 7 is not a multiple of micro_batch_size = 2'
like "a triple that is missing" "$("$ZEROTH" train /dev/null -o model.plugin=gpt2 -o model.layers=1 -o model.heads=1 \
	-o model.width=8 -o model.context=8 -o data.plugin=text -o data.path=text 2>&1)" 'needs two of train_batch_size'
like "a sequence longer than the context" "$("$ZEROTH" train tiny.ini -o train.sequence_length=33 2>&1)" \
	"sequence_length = 33 exceeds the model's context of 32"

if command -v ldd >/dev/null; then
	like "the program is linked as it was built" "$(ldd "$ZEROTH")" 'libinih'
	is "only plugins link BLAS, MPI or CUDA" "$(ldd "$ZEROTH" | grep -iE 'blas|lapack|mpi|cuda|nccl')" ''
else
	skip "only plugins link BLAS, MPI or CUDA" 'no ldd'
fi
done_testing
