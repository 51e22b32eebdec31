#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I5, I6, I7: a call of the C library that fails, is short, slow or interrupted, or has a bit changed on its way, ends in
# the right digest, or in a clean stop that names the cause, with a checkpoint that can be gone on from. tests/faults/ has
# the library that is preloaded and the program that tries each call; here are the trainings. `make check` tries some
# calls of each, FAULTS=full (`make check-faults`) up to BUDGET=2000; FAULTS=full CASES='one resume' those of some cases.
# RESULTS=FILE: what was tried goes there too, one line each as it ends, behind what other runs tried.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'sanitizers have an allocator of their own'

memory_scratch # a sync of a disk takes longer than the training
results=$(realpath -m -- "${RESULTS-$scratch/results}")
cd "$scratch" || exit 99
faults=$ZR_BUILDDIR/tests/faults/.libs/libfaults.so
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
resume=("${train[@]}" --resume auto)

# digest STEPS OPTION...: the last line of a training that nothing disturbs
digest() {
	local steps=$1
	shift
	(cd base && "${train[@]}" -o run.dir="$scratch/plain" -o train.steps="$steps" "$@" 2> /dev/null | tail -n 1)
	rm -rf "$scratch/plain"
}

# try NAME BUDGET OPTION... -- COMMAND... -- GO-ON...: tries calls of a command, see tests/faults/sweep.c
try() {
	local name=$1 budget=$2 before
	shift 2
	case " ${CASES-$name} " in *" $name "*) ;; *) return ;; esac
	cd "$scratch" || exit 99
	[ "$FAULTS" = full ] && budget=${BUDGET-2000} || set -- --calls "$slice" "$@"
	before=$(wc -l < "$results")
	if ! "$ZR_BUILDDIR/tests/faults/sweep" --library "$faults" --name "$name" \
		--work "$scratch/work.$name" \
		--budget "$budget" "$@" >> "$results" 2> "problem.$name"; then
		fail "$name: cannot be tried" "$(cat "problem.$name")"
		return
	fi
	is "I5, I6, I7: $name: the right digest or a clean stop" \
		"$(tail -n +"$((before + 1))" "$results" | awk -F '\t' -v name="$name" '$2 == name && $4 == "else"' | cut -f3,5-)" ''
}

# table: what was tried, by case and by call
table() {
	for column in 2 3; do
		awk -F '\t' -v column=$column 'function row(name) {
				printf "# %-12s %8d %8d %8d %8d\n", name, tried[name], n[name, "right"], n[name, "clean"], n[name, "else"]
			}
			BEGIN { printf "# %-12s %8s %8s %8s %8s\n", column == 2 ? "case" : "call", "tried", "right", "clean", "else" }
			$1 == "point" {
				if (!($column in tried)) order[++names] = $column
				tried[$column]++; n[$column, $4]++; tried["all"]++; n["all", $4]++
			}
			END { for (i = 1; i <= names; i++) row(order[i]); row("all") }' "$results"
	done
}

slice=' alloc mmap open read write sync range rename mkdir space close unlink list stat thread fork lock ring '
three=$(digest 3) four=$(digest 4)
: >> "$results"
trap 'table; exit 1' INT TERM

# ---- starting ----
start() {
	local n short= out
	for n in $(seq 1 8); do
		rm -rf run
		out=$(ZR_FAULT="call=alloc kind=ENOMEM n=$n process=1" LD_PRELOAD=$faults "$ZEROTH" train ../base/tiny.ini \
			-o data.path=../base/text -n 2 -o checkpoint.every=0 2>&1 > /dev/null) ||
			[[ ${out##*$'\n'} = *emory* ]] || short+="$n: ${out##*$'\n'}"$'\n'
	done
	is 'I5: a rank for whose start memory is too short' "$short" ''
}
beside start

# ---- saving ----
try one 20 --base base --end "$three" -- "${train[@]}" -o checkpoint.keep=1 -- "${resume[@]}" -o train.steps=3
try async 10 --base base --end "$three" -- "${train[@]}" -o checkpoint.async=yes -- "${resume[@]}" -o train.steps=3
beside try two 20 --base base --end "$three" -- "${train[@]}" -n 2 -o zero.plugin=stage2 -- "${resume[@]}" -o train.steps=3
try two-async 10 --base base --end "$three" -- "${train[@]}" -n 2 -o zero.plugin=stage3 -o checkpoint.async=yes \
	-- "${resume[@]}" -o train.steps=3
sixteen=(-o precision.plugin=bf16 -o zero.gather_16bit_weights_on_model_save=yes)
try sixteen 10 --base base --end "$(digest 3 -o precision.plugin=bf16)" -- "${train[@]}" "${sixteen[@]}" \
	-- "${resume[@]}" -o precision.plugin=bf16 -o train.steps=3

# The allocations of config.ini's text, one by one: the last before the run says where it writes.
from=1 to=20000
while [ "${CASES-config}" = config ] && [ $((to - from)) -gt 1 ]; do
	n=$(((from + to) / 2))
	rm -rf config
	out=$(cd base && ZR_FAULT="call=alloc n=$n kind=ENOMEM and=later" LD_PRELOAD=$faults "${train[@]}" -o run.dir=../config 2> /dev/null)
	case $out in *../config*) to=$n ;; *) from=$n ;; esac
done
short=
for n in $(seq $((from - 7)) $((from + 1))); do
	rm -rf config
	(cd base && ZR_FAULT="call=alloc n=$n kind=ENOMEM" LD_PRELOAD=$faults "${train[@]}" -o run.dir=../config > /dev/null 2>&1) &&
		! grep -q '^\[run\]' config/config.ini && short="$short $n"
done
is 'I6: a config.ini for which memory is too short is an error' "$short" ''

# ---- tiers on disk ----
cp -r base disk
mkdir disk/disk
tiers=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
for tier in optimizer gradient; do
	tiers+=(-o offload.$tier.plugin=nvme -o offload.$tier.path=disk)
done
try disk 20 --base disk --end "$three" --flips zeroth-offload -- "${train[@]}" "${tiers[@]}" -- "${resume[@]}" -o train.steps=3
export ZR_FAULT_NO_RING=1
try disk-plain 10 --base disk --end "$three" --flips zeroth-offload -- "${train[@]}" "${tiers[@]}" -- "${resume[@]}" \
	-o train.steps=3
unset ZR_FAULT_NO_RING
beside try disk-two 10 --base disk --end "$three" --flips zeroth-offload -- "${train[@]}" -n 2 "${tiers[@]}" -- "${resume[@]}" -o train.steps=3

# ---- going on ----
cp -r base saved
(cd saved && "${train[@]}" > /dev/null 2>&1)
try resume 20 --base saved --from 2 --end "$four" --flips /step- -- "${resume[@]}" -o train.steps=3 -- "${resume[@]}" -o train.steps=4
beside try resume-two 10 --base saved --from 2 --end "$four" --flips /step- -- "${resume[@]}" -n 2 -o zero.plugin=stage2 \
	-o train.steps=3 -- "${resume[@]}" -o train.steps=4
cp -r saved torn
truncate -s 1000 torn/run/checkpoints/step-00000002/rank-00000-of-00001.safetensors
try replace 10 --base torn --from 1 --end "$three" -- "${resume[@]}" -- "${resume[@]}" -o train.steps=3

# ---- commands ----
go_on=("${resume[@]}" -o train.steps=3)
try verify 6 --base saved --from 2 --end "$three" --flips /step- -- "$ZEROTH" checkpoint verify run -- "${go_on[@]}"
try ls 6 --base saved --from 2 --end "$three" -- "$ZEROTH" checkpoint ls run -- "${go_on[@]}"
try prune 6 --base saved --from 2 --end "$three" -- "$ZEROTH" checkpoint prune --keep 1 run -- "${go_on[@]}"
try export 10 --base saved --from 2 --end "$three" --flips /step- -- "$ZEROTH" checkpoint export run out -- "${go_on[@]}"
try hand-over 10 --base saved --from 2 --end "$three" --flips /step- -- "$ZEROTH" checkpoint export --to universal run out -- "${go_on[@]}"
try dcp 6 --base saved --from 2 --end "$three" --flips /step- -- "$ZEROTH" checkpoint export --to dcp run out -- "${go_on[@]}"
try sample 6 --base saved --from 2 --end "$three" -- "$ZEROTH" sample run -n 5 -s 1 -- "${go_on[@]}"
cp -r base pretrained
(cd saved && "$ZEROTH" checkpoint export run ../pretrained/model > /dev/null 2>&1)
sed -i 's/^layers.*//; s/^heads.*//; s/^width.*//; s/^context.*//; s/^plugin = gpt2/path = model/' pretrained/tiny.ini
end=$(cd pretrained && "${train[@]}" -o run.dir="$scratch/plain" -o train.steps=3 2> /dev/null | tail -n 1)
rm -rf plain
try pretrained 10 --base pretrained --end "$end" -- "${train[@]}" -- "${resume[@]}" -o train.steps=3
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/tokenizers
tokenize=("$ZEROTH" tokenize --force -T "$golden/gpt2.json" -o out.bin text)
if grep -q HAVE_PCRE2 "$ZR_BUILDDIR/config.status"; then
	try tokenize 6 --base base -- "${tokenize[@]}" -- "${tokenize[@]}"
fi

# ---- conversations ----
cp -r base talk
cp "$golden/../chat/bytes.json" talk/tokenizer.json
head -n 12 "$golden/../chat/conversations.jsonl" > talk/talk.jsonl
printf '%s\n' '[data]' 'plugin = chat' 'path = talk.jsonl' 'tokenizer = tokenizer.json' \
	'template = chatml' 'cache = cache' > talk/data
sed -e '/^\[data\]/,/^path/d' -e '/^context/r talk/data' base/tiny.ini > talk/tiny.ini
tokenize=("$ZEROTH" tokenize --chat --force -T tokenizer.json -t chatml -o out.tok talk.jsonl)
if (cd talk && "${tokenize[@]}" > /dev/null 2>&1); then
	end=$(cd talk && "${train[@]}" -o run.dir="$scratch/plain" -o train.steps=3 2> /dev/null |
		tail -n 1)
	rm -rf plain talk/cache
	# what is there is replaced by the same, or stays
	learn=("${train[@]}" -o data.plugin=tokens -o data.path=out.tok -o data.tokenizer=
		-o data.template= -o data.cache=)
	try tokenize-chat 10 --base talk --end "$end" -- "${tokenize[@]}" -- "${learn[@]}" \
		-o train.steps=3
	try chat 10 --base talk --end "$end" -- "${train[@]}" -- "${resume[@]}" -o train.steps=3
fi

# ---- models of others, adapters, merges ----
goldens=$(cd "$ZR_SRCDIR" && pwd)/tests/golden
# hub MODEL: a training that begins with a golden directory of Hugging Face's, in a directory of that name
hub() {
	mkdir "$1"
	cp -r "$goldens/pretrained/$1" "$1/model"
	rm -f "$1/model/expect.safetensors"
	cp "$goldens/pretrained/tokens.bin" "$1"
	cat > "$1/tiny.ini" <<- 'INI'
		[model]
		path = model
		[data]
		plugin = tokens
		path = tokens.bin
		format = uint16
		[train]
		sequence_length = 8
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
	INI
}
# third DIRECTORY OPTION...: the last line of three steps in it
third() {
	(cd "$1" && "${train[@]}" -o run.dir="$scratch/plain" -o train.steps=3 "${@:2}" 2> /dev/null | tail -n 1)
	rm -rf "$scratch/plain"
}
hub gpt2-shards
try shards 6 --base gpt2-shards --end "$(third gpt2-shards)" -- "${train[@]}" -- "${resume[@]}" -o train.steps=3
hub gpt2
cp -r "$goldens/adapters/gpt2" gpt2/adapter
rm -f gpt2/adapter/{after,merged}.safetensors
adapted=(-o adapter.plugin=lora -o adapter.path=adapter)
end=$(third gpt2 "${adapted[@]}")
try adapter 6 --base gpt2 --end "$end" -- "${train[@]}" "${adapted[@]}" -- "${resume[@]}" "${adapted[@]}" -o train.steps=3
cp -r gpt2 adapted
(cd adapted && "${train[@]}" "${adapted[@]}" > /dev/null 2>&1)
go_adapted=("${resume[@]}" "${adapted[@]}" -o train.steps=3)
try merge 6 --base adapted --from 2 --end "$end" --flips /step- -- "$ZEROTH" checkpoint export --merge run merged -- "${go_adapted[@]}"
try merge-files 6 --base adapted --from 2 --end "$end" -- "$ZEROTH" checkpoint export --merge --adapter adapter model merged \
	-- "${go_adapted[@]}"
try export-adapter 6 --base adapted --from 2 --end "$end" -- "$ZEROTH" checkpoint export run out -- "${go_adapted[@]}"

# ---- sets to evaluate on ----
sets=(-o train.eval_every=1 -o eval.text.plugin=text -o eval.text.path=text -o eval.text.sequences=3)
end=$(third base "${sets[@]}")
try sets 6 --base base --end "$end" -- "${train[@]}" "${sets[@]}" -- "${resume[@]}" "${sets[@]}" -o train.steps=3
try eval 6 --base saved --from 2 --end "$three" -- "$ZEROTH" eval run "${sets[@]:2}" -- "${go_on[@]}"

# ---- conversations that are tokenized already ----
if [ -e talk/out.tok ]; then
	cp -r talk cached
	(cd cached && "${train[@]}" -o train.steps=1 > /dev/null 2>&1; rm -rf run)
	cp -r cached stale
	printf '\1' | dd of="$(echo stale/cache/*.tokens)" bs=1 seek=9000 conv=notrunc 2> /dev/null
	end=$(third talk)
	rm -rf talk/cache
	try cached 6 --base cached --end "$end" -- "${train[@]}" -- "${resume[@]}" -o train.steps=3
	try stale 6 --base stale --end "$end" -- "${train[@]}" -- "${resume[@]}" -o train.steps=3
	beside try cached-two 6 --base cached --end "$end" -- "${train[@]}" -n 2 -- "${resume[@]}" -o train.steps=3
fi

# ---- ranks that meet in a directory ----
# Rank 1 meets no fault, and does not outlive rank 0.
cat > meeting.sh <<'END'
export WORLD_SIZE=2
options="-o boot.plugin=env -o boot.directory=$MEETING -o boot.timeout=10"
env -u LD_PRELOAD RANK=1 "$ZEROTH" train tiny.ini $options > /dev/null 2>&1 &
RANK=0 "$ZEROTH" train tiny.ini $options
code=$?
exec 2> /dev/null # what the shell says of rank 1 is not the last line
[ $code = 0 ] || kill -9 $!
wait $!
exit $code
END
mkdir -m 700 meet
MEETING=$scratch/meet ZR_FAULT_PROGRAM=zeroth try meeting 8 --base base --end "$three" -- \
	"$(command -v bash)" "$scratch/meeting.sh" -- "${resume[@]}" -o train.steps=3

try plan 4 --base base -- "$ZEROTH" plan -n 2 --program tiny.ini -- "${train[@]}"
try show 4 --base base -- "$ZEROTH" config show --json tiny.ini -- "${train[@]}"

# ---- calls of which each must be tried ----
# told NAME BASE FAULT WORDS COMMAND...: the log of a command in a copy of BASE has the words; '': it succeeds
told() {
	local name=$1 base=$2 fault=$3 words=$4
	shift 4
	[ -z "$CASES" ] || return
	rm -rf told
	cp -r "$base" told
	(cd told && ZR_FAULT="$fault" LD_PRELOAD=$faults "$@" > ../told.out 2> ../told.err)
	local code=$?
	if [ "$words" ]; then like "$name" "$(cat told.err)" "$words"; else is "$name" "$code" 0; fi
}

told 'I6: a checkpoint that cannot be looked at' saved 'call=stat kind=EIO n=1 path=run/checkpoints' 'Input/output error' \
	"$ZEROTH" checkpoint verify run
told 'I6: a run directory that cannot be looked at' saved 'call=stat kind=EIO n=1 path=told/run' \
	'run directory run: Input/output error' "${resume[@]}"
told 'I6: data of a tier that cannot be removed' disk 'call=unlink kind=EIO n=1 path=zeroth-offload' \
	'.obj: Input/output error' "${train[@]}" "${tiers[@]}"
told 'I6: plugins that cannot be listed' pretrained 'call=list kind=EIO n=1 path=plugins/model' 'Input/output error' "${train[@]}"
told 'I6: a plugin that cannot be read' pretrained 'call=read kind=EIO n=1 path=model/.libs/gpt2' 'Input/output error' "${train[@]}"
told 'I6: a plugin that cannot be looked at' pretrained 'call=stat kind=EIO n=1 path=model/.libs/gpt2' \
	'model_type gpt2 .*gpt2.so: Input/output error.*name one by' "${train[@]}"
short=
for n in $(seq 1 6); do
	rm -rf look && cp -r base look
	out=$(cd look && ZR_FAULT="call=stat kind=EIO n=$n path=look/text" LD_PRELOAD=$faults "${train[@]}" 2>&1)
	case $out in *'Input/output error'*) continue ;; esac
	[ "$(sed -n 's|^path = \([^ ]*/text\) .*|\1|p' look/run/config.ini)" = "$scratch/look/text" ] || short+=" $n"
done
is 'I6: a path of config.ini that cannot be looked at is one still' "$short" ''
told 'I5: weights that cannot be looked at' pretrained 'call=stat kind=EIO n=1 path=model.safetensors' '' "${train[@]}"
told 'I6: a pretrained model that cannot be looked at' pretrained 'call=stat kind=EIO n=9 path=told/model' \
	'Input/output error' "${train[@]}"
told 'I6: a tier on disk that gives other data while its state is saved' disk 'call=read n=110 kind=flip path=zeroth-offload' \
	'^zeroth: .*last because: .*zeroth-offload-r0-.*offset [0-9]+ are not .*another path.*--resume' \
	env ZR_FAULT_NO_RING=1 "${train[@]}" "${tiers[@]}"
told 'I6: an entry of a checkpoint that does not read back' base 'call=write n=1 kind=flip path=step-00000002' \
	'^zeroth: .*rank-00000-of-00001.safetensors: tensor [a-z].*[^ ]$' "${train[@]}"
told 'I6: a file for others that does not read back' saved 'call=write n=9 kind=flip path=distcp' \
	'__0_0\.distcp: what was written does not read back$' "$ZEROTH" checkpoint export --to dcp run out
told 'I6: an export of a run whose checkpoints cannot be listed' saved 'call=list kind=EIO n=1 path=run/checkpoints' \
	'^zeroth: run: cannot read the directory: Input/output error$' "$ZEROTH" checkpoint export run out
told 'I6: or that cannot be looked at itself' saved 'call=stat kind=EIO n=4 path=told/run' '^zeroth: run: Input/output error$' \
	"$ZEROTH" checkpoint export run out
told 'I6: or looked at' saved 'call=stat kind=EIO n=1 path=told/run/checkpoints' 'Input/output error$' \
	"$ZEROTH" checkpoint export run out
told 'I7: an evaluation of a run that cannot be looked at' saved 'call=stat kind=EIO n=2 path=told/run' \
	'^zeroth: run: Input/output error$' "$ZEROTH" eval run "${sets[@]:2}"
for file in config.ini model.safetensors; do
	told "I7: $file of a run that is evaluated cannot be looked at, but read" saved "call=stat kind=EIO n=1 path=run/$file" '' \
		"$ZEROTH" eval run "${sets[@]:2}"
done
told 'I7: adapters that may be there in a run that is evaluated' saved 'call=stat kind=EIO n=1 path=run/adapter_model' \
	'^zeroth: run/adapter_model.safetensors: Input/output error$' "$ZEROTH" eval run "${sets[@]:2}"
# either NAME BASE FAULT COMMAND...: the first 8 calls that the fault describes; each is got over, or named
either() {
	local name=$1 base=$2 fault=$3 n out short=
	shift 3
	for n in $(seq 1 8); do
		rm -rf told && cp -r "$base" told
		out=$(cd told && ZR_FAULT="$fault n=$n" LD_PRELOAD=$faults "$@" 2>&1) ||
			[[ ${out##*$'\n'} = *'Input/output error'* ]] || short+=" $n: ${out##*$'\n'}"
	done
	is "$name" "$short" ''
}
either 'I7: adapters that cannot be read' gpt2 'call=read kind=EIO path=adapter_config.json' "${train[@]}" "${adapted[@]}"
either 'I7: adapters that cannot be opened' gpt2 'call=open kind=EIO path=adapter_config.json' "${train[@]}" "${adapted[@]}"

# A disk that is full for one line of metrics, for the last one, or from one on.
waits='monitor.jsonl: waits at step 1: run/metrics.jsonl: cannot write: No space left on device; it is asked again at each step$'
for n in 1 2; do
	told "I7: line $n of the metrics meets a full disk" base "call=write n=$n kind=ENOSPC path=metrics.jsonl" \
		"^zeroth: warning: ${waits/step 1/step $n}" "${train[@]}"
	[ -n "$CASES" ] && continue
	like "and comes later" "$(cat told.err)" "^zeroth: warning: monitor.jsonl: goes on at step $n: 0 steps are lost\$"
	is "no line is lost, $n" "$(sed -E 's/,.*//' told/run/metrics.jsonl | tr '\n' ' ')" '{"step":1 {"step":2 '
done
told 'I7: a disk that stays full' base 'call=write n=1 kind=ENOSPC and=later path=metrics.jsonl' \
	"^zeroth: warning: $waits" "${train[@]}"
[ -n "$CASES" ] || like 'what was lost is said' "$(grep -c warning told.err) $(tail -n 1 told.err)" \
	'^2 zeroth: warning: monitor.jsonl: it never went on: 2 steps up to 2 are lost$'
cp -r base apart
(cd apart && "${train[@]}" -o checkpoint.dir=ckpt > /dev/null 2>&1)
told 'I6: a run directory that is to be locked' apart 'call=stat kind=EIO n=3 path=told/run' \
	'^zeroth: run: Input/output error' "${resume[@]}" -o checkpoint.dir=ckpt
told 'I6: checkpoints elsewhere to be locked' apart 'call=stat kind=EIO n=1 path=told/ckpt' \
	'^zeroth: ckpt: Input/output error' "${resume[@]}" -o checkpoint.dir=ckpt
told 'I6: checkpoints of a run whose lock cannot be looked at' saved \
	'call=stat kind=EIO n=1 path=run/.lock' 'run: process 1 is writing there' bash -c \
	'rm run/config.ini; echo process 1 > run/.lock; exec 9< run/.lock; flock 9
	exec "$0" checkpoint prune --keep 1 run' "$ZEROTH"
if [ -e talk/out.tok ]; then
	told 'I6: a part of a file of tokens that cannot be made' talk \
		'call=open kind=EIO n=1 path=tmp.documents' \
		'^zeroth: out.tok.tmp.documents: Input/output error$' "${tokenize[@]}"
	told 'I6: or stays behind' talk 'call=unlink kind=EIO n=2 path=tmp.learned' \
		'^zeroth: out.tok.tmp.learned: Input/output error$' "${tokenize[@]}"
fi
for thread in 1:device 2:offload.optimizer 4:monitor; do
	told "I7: no thread for ${thread#*:}" disk "call=thread n=${thread%:*} kind=EAGAIN" \
		"^zeroth: .*${thread#*:}.*unavailable: too little memory, or too many threads" \
		"${train[@]}" -o device.threads=2 "${tiers[@]}"
done
told 'I7: why there is no thread to read a checkpoint' saved 'call=thread n=1 kind=EAGAIN' \
	'^zeroth: .*step-00000002.*: too little memory, or too many threads' "${resume[@]}"
short=
for n in $(seq 1 130) 800 1100; do
	out=$(cd base && ZR_FAULT="call=alloc n=$n kind=ENOMEM" LD_PRELOAD=$faults "$ZEROTH" config show --json tiny.ini 2>&1 > /dev/null) ||
		[[ $out = *emory* ]] || short+="$n: $out"$'\n'
done
is 'I6: a configuration for which memory is too short' "$short" ''

# Each of these allocations may be one that jansson does not look at: a line lost a letter then, or
# was no JSON.
# read_whole NAME FIRST COMMAND...: some of 1300 allocations of a command, from FIRST on
read_whole() {
	local name=$1 first=$2 n short= out
	shift 2
	for n in $(seq "$first" 61 $((first + 1300))); do
		rm -rf out.tok run cache
		if out=$(ZR_FAULT="call=alloc kind=ENOMEM n=$n" LD_PRELOAD=$faults "$@" 2>&1); then
			[ ! -e out.tok ] || cmp -s out.tok whole.tok || short+=" $n: another file"
		else
			[[ ${out##*$'\n'} = *emory* ]] || short+=" $n: ${out##*$'\n'}"$'\n'
		fi
	done
	is "I6: $name for which memory is too short" "$short" ''
}
if [ -e talk/out.tok ] && [ -z "$CASES" ] && cd talk; then
	ZR_FAULT_COUNTS=$scratch/counts LD_PRELOAD=$faults "${tokenize[@]}" -j 1 > ../told.out
	mv out.tok whole.tok
	n=$(od -An -t d8 -N 8 "$scratch/counts" | tr -d ' ')
	read_whole 'conversations' $((n - 1300)) "${tokenize[@]}" -j 1
	from=1 to=20000
	while [ $((to - from)) -gt 40 ]; do
		n=$(((from + to) / 2))
		fault="call=alloc n=$n kind=ENOMEM and=later"
		out=$(ZR_FAULT=$fault LD_PRELOAD=$faults "${train[@]}" 2>&1)
		case $out in *tokenizing*) to=$n ;; *) from=$n ;; esac
		rm -rf run cache
	done
	read_whole 'a training on conversations' "$to" "${train[@]}"
	cd ..
fi

# The last allocations of a command make its JSON: it is whole or not there. A plugin may be listed as unusable for this.
mkdir -p "$scratch/one/scheduler"
cp -L "$ZR_TEST_PLUGINS/scheduler/warmup_lr.so" "$scratch/one/scheduler/"
without() {
	(cd base && ZR_FAULT="call=alloc kind=ENOMEM n=$1" LD_PRELOAD=$faults "${json[@]}" --json) > part 2> told.err
}
# short_of_memory COUNT COMMAND...: the last COUNT allocations one by one
short_of_memory() {
	local count=$1 from=1 to=100000 short= n
	shift
	json=("$@")
	(cd base && "${json[@]}" --json > ../whole)
	while [ $((to - from)) -gt 1 ]; do
		n=$(((from + to) / 2))
		if without "$n and=later"; then to=$n; else from=$n; fi
	done
	[ "$count" -lt "$to" ] || count=$((to - 1))
	for n in $(seq $((to - count)) "$to"); do
		if without "$n"; then
			cmp -s part whole || grep -q '"error": ".*memory' part || short+=" $n"
		else
			[ ! -s part ] && grep -q memory told.err || short+=" $n"
		fi
	done
	is "I6: ${json[*]:1} --json for which memory is too short" "$short" ''
}
short_of_memory 40 "$ZEROTH" plan --memory 1T tiny.ini
short_of_memory 40 "$ZEROTH" plan --memory 1T --program tiny.ini
short_of_memory 60 "$ZEROTH" plugin info scheduler/warmup_lr
ZEROTH_PLUGIN_PATH=$scratch/one short_of_memory 60 "$ZEROTH" plugin list

join_besides
table
done_testing
