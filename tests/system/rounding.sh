#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1, I7: a plugin that leaves the processor rounding in another way changes nobody's bits, and is named.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
read -ra cc <<< "${CC:-cc}"
"${cc[@]}" -std=gnu11 -O1 -ffp-contract=off -Wall -Wextra -frounding-math -shared -fPIC -I"$ZR_SRCDIR/include" -o rounding.so \
	"$ZR_SRCDIR/tests/doubles/rounding.c" -lm || exit 99

# train THREADS: prints the digest of a few steps
train() {
	rm -rf run
	"$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o data.path=text -o run.dir=run -o train.steps=5 -o train.eval_every=2 \
		-o optimizer.plugin="$PWD/rounding.so" -o device.threads="$1" -o model.init_std=0.3 2> err | grep '^digest: '
}
one=$(train 1)
like "trains" "$one" '^digest: '
is "says nothing" "$(grep -c warning err)" 0
for where in resolve create step item; do
	for to in up down zero denormals; do
		[ "$to" != denormals ] || [ "$(uname -m)" = x86_64 ] || continue
		for threads in 1 3; do
			is "I1: $to in $where, $threads threads: the same bits" "$(CHANGE_IN=$where CHANGE_TO=$to train $threads)" "$one"
			called=$where
			[ "$where" != item ] || called=step
			is "I7: $to in $where, $threads threads: named, once" "$(grep warning err)" "zeroth: warning: optimizer: $called of plugin\
 rounding, or what it called, changed how the processor rounds or treats denormals, and did not put it back: zeroth did"
		done
	done
done
done_testing
