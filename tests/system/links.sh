#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I6: what others put where checkpoints, weights and exports are written. Nothing is deleted or written through a symbolic
# or a hard link, and what is no regular file is refused with a line that says so (I7), at once.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

cd "$scratch" || exit 99
for i in $(seq 1 2000); do echo "line $i of a text that is long enough to learn a little from"; done > text

# train RUN OPTION...: output in RUN.out, log in RUN.err
train() {
	local dir=$1
	shift
	timeout 60 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir="$dir" -o train.train_batch_size=2 \
		-o train.eval_every=0 "$@" > "$dir.out" 2> "$dir.err"
}
digest() { tail -n 1 "$1.out"; }
fresh() { rm -rf "$1" && cp -r one "$1" && rm -rf victim && cp -r one/checkpoints/step-00000002 victim && echo mine > precious; }
# What links point to is as it was.
unharmed() {
	is "I6: $1: the files that it points to stay" "$(diff -r victim one/checkpoints/step-00000002 2>&1; cat precious)" mine
}

train one -o train.steps=4 -o checkpoint.every=2
train whole -o train.steps=6

# ---- saves ----
more=(--resume auto -o train.steps=6 -o checkpoint.every=6)
fresh a
ln -s ../../victim a/checkpoints/step-00000005.tmp
ln -s ../../victim a/checkpoints/step-00000006.tmp
train a "${more[@]}"
is "unfinished checkpoints that are links: a save succeeds" "$? $(digest a)" "0 $(digest whole)"
unharmed "an unfinished checkpoint that is a link"
is "it is gone, and the save has its place" "$(ls a/checkpoints | tr '\n' ' ')" "latest step-00000002 step-00000004 step-00000006 "

fresh b
ln -s ../../precious b/checkpoints/latest.tmp
ln -sf ../../precious b/checkpoints/latest
ln -s ../../victim b/checkpoints/step-00000006
train b "${more[@]}"
is "latest, its new text and the checkpoint are links: a save succeeds" "$? $(digest b)" "0 $(digest whole)"
unharmed "a link called latest, latest.tmp or as a checkpoint"
ok "the save has its place" "$ZEROTH" checkpoint verify b
is "and a directory of its own" "$(find b/checkpoints -type l)" ""

fresh c
ln precious c/checkpoints/latest.tmp
train c "${more[@]}"
is "latest.tmp is a hard link: a save succeeds" "$? $(digest c)" "0 $(digest whole)"
unharmed "a hard link"

fresh d
rm -r d/checkpoints/step-00000002
ln -s ../../victim d/checkpoints/step-00000002
train d "${more[@]}" -o checkpoint.keep=1
unharmed "keep = 1, where an old checkpoint is a link"
"$ZEROTH" checkpoint prune --keep 1 d > d.out 2>&1
unharmed "prune, where an old checkpoint is a link"

fresh e
rm -r e/checkpoints
ln -s ../victim e/checkpoints
train e "${more[@]}"
is "checkpoints/ is a link: exit 2" "$?" 2
like "I7: and what to do" "$(cat e.err)" \
	'^zeroth: e/checkpoints is a symbolic link, and none is followed in a run directory: give what it points to, \[checkpoint\] dir = \.\./victim$'
"$ZEROTH" checkpoint prune --keep 1 e > e.out 2>&1
is "nor does prune follow it" "$?" 2
unharmed "checkpoints/ that is a link"
mkdir elsewhere
ln -s elsewhere named
train f -o train.steps=2 -o checkpoint.every=2 -o checkpoint.dir=named
is "a directory that the user names may be a link" "$(ls elsewhere | tr '\n' ' ')" "latest step-00000002 "

# ---- going on ----
fresh g
mv g/checkpoints/step-00000004 there
ln -s ../../there g/checkpoints/step-00000004
train g --resume auto -o train.steps=6
is "I6: a checkpoint that is a link is passed over" "$? $(digest g)" "0 $(digest whole)"
like "I7: and why" "$(cat g.err)" \
	'step-00000004 is not whole and is passed over: g/checkpoints/step-00000004: a symbolic link, and none is followed here: give what it points to$'
train h --resume there -o train.steps=6
is "what it points to serves" "$? $(digest h)" "0 $(digest whole)"

# passed_over FILE WHAT TEXT: a checkpoint whose FILE is not a regular file
passed_over() {
	train bad --resume auto -o train.steps=6
	is "$1 is $2: the one before serves" "$? $(digest bad)" "0 $(digest whole)"
	like "I7: $1 is $2" "$(cat bad.err)" "step-00000004 is not whole and is passed over: bad/checkpoints/step-00000004/$1: $3\$"
}
for file in manifest.json rank-00000-of-00001.safetensors; do
	fresh bad && rm bad/checkpoints/step-00000004/$file && mkfifo bad/checkpoints/step-00000004/$file
	passed_over $file "a FIFO" "not a regular file"
	is "verify, too" "$(timeout 60 "$ZEROTH" checkpoint verify bad 2>&1 | grep -c "damaged: .*$file: not a regular file")" 1
	fresh bad && rm bad/checkpoints/step-00000004/$file && mkdir bad/checkpoints/step-00000004/$file
	passed_over $file "a directory" "not a regular file"
	fresh bad && rm bad/checkpoints/step-00000004/$file && ln -s /dev/zero bad/checkpoints/step-00000004/$file
	passed_over $file "a link" "a symbolic link, and none is followed here: give what it points to"
done
fresh bad && rm bad/checkpoints/latest && mkfifo bad/checkpoints/latest
train bad --resume auto -o train.steps=6
is "latest is a FIFO: the newest whole one serves" "$? $(digest bad)" "0 $(digest whole)"

# ---- weights, summary, exports ----
for file in model.safetensors model.safetensors.tmp summary.json; do
	fresh w
	rm -f w/$file
	ln -s ../precious w/$file
	train w --resume auto -o train.steps=6
	is "$file is a link: the training ends well" "$? $(digest w)" "0 $(digest whole)"
	unharmed "$file"
	is "and the file is its own" "$(find w -type l)" ""
done
fresh w
ln -s ../precious w/samples.txt
is "samples.txt is a link: it is refused" "$("$ZEROTH" sample --keep -n 2 w 2>&1 > /dev/null | tail -n 1)" \
	'zeroth: w/samples.txt: is a symbolic link, which a run does not follow: remove it'
unharmed "samples.txt"
rm w/samples.txt
mkfifo w/samples.txt
like "samples.txt is a FIFO: it is refused at once" "$(timeout 60 "$ZEROTH" sample --keep -n 2 w 2>&1 > /dev/null | tail -n 1)" \
	'^zeroth: w/samples.txt: (is not a regular file: remove it|cannot append: No such device or address)$'
fresh x
ln -s victim out.tmp
ok "an export whose temporary name is a link" "$ZEROTH" checkpoint export one out
unharmed "the temporary name of an export"
is "it is there" "$(ls out | tr "\n" " ")" "config.json model.safetensors "

mkdir model
for file in config.json model.safetensors; do
	rm -rf model && cp -r out model && rm model/$file && mkfifo model/$file
	timeout 60 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=no -o model.path=model > no.out 2> no.err
	is "[model] path with a FIFO as $file: exit 2" "$?" 2
	like "I7: $file" "$(tail -n 1 no.err)" "model/$file: not a regular file"
done
"$ZEROTH" checkpoint export --shard-bytes 60000 one parts > /dev/null
rm parts/model-00002-of-00007.safetensors
mkfifo parts/model-00002-of-00007.safetensors
timeout 60 "$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=no -o model.path=parts > no.out 2> no.err
is "a shard that an index names is a FIFO: exit 2" "$?" 2
like "I7: which" "$(tail -n 1 no.err)" 'parts/model-00002-of-00007\.safetensors: not a regular file'
done_testing
