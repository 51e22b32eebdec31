#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The library libzeroth: programs that train with it give the digests of the command.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/rig.sh"
cd "$scratch" || exit 99

lib=$ZR_BUILDDIR/.libs
read -ra cc <<< "${CC:-cc}"
sanitize=
[ -z "$ZR_SANITIZE" ] || sanitize=-fsanitize=$ZR_SANITIZE

# program NAME: examples/NAME.c as ./NAME
program() {
	"${cc[@]}" -std=c11 -g -O2 -Wall -Wextra -Werror ${sanitize:+"$sanitize"} -I"$ZR_SRCDIR/include" -o "$1" \
		"$ZR_SRCDIR/tests/examples/$1.c" -L"$lib" -lzeroth -lpthread -lm -Wl,-rpath,"$lib"
}

exported=$(nm -D --defined-only "$lib/libzeroth.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
is 'the library exports functions of its header alone' "$(grep -v '^zeroth_' <<< "$exported")" ''
missing=$(grep -oE '^ZEROTH_API [^(]*\(' "$ZR_SRCDIR/include/zeroth/zeroth.h" | grep -oE 'zeroth_[a-z_]+' |
	grep -vxF "$exported")
is '... and all of them' "$missing" ''
is 'under a version' "$(nm -D --defined-only "$lib/libzeroth.so" | grep -c 'zeroth_open@@ZEROTH_1$')" 1

static=$(nm --defined-only -g "$ZR_BUILDDIR/libzeroth.a" | awk 'NF == 3 { print $3 }')
is 'the static library exports the same' "$(sort <<< "$static")" "$(sort <<< "$exported")"

tiny text 2 4 4 < /dev/null
want=$(trained tiny.ini)
like 'the command trains' "$want" '^digest'
ok 'a program builds' program embed_train
is 'it gives the digest of the command' "$(./embed_train 1 tiny.ini 2>&1)" "$want"
is '... in stage 3 on 2 ranks' "$(./embed_train 2 tiny.ini zero.plugin=stage3 2>&1)" "$want"
is '... in nodes of 2 of 4 ranks' \
	"$(./embed_train 4 tiny.ini zero.plugin=hpz boot.ranks_per_node=2 2>&1)" "$want"
is 'it writes nothing' "$(ls)" "$(printf '%s\n' embed_train log out run text tiny.ini)"
is 'it says what a wrong option is' "$(./embed_train 1 tiny.ini train.stepz=1 2>&1)" \
	'embed_train: -o train.stepz=1: unknown key; did you mean steps?'
like 'ranks that do not fit are one text' "$(./embed_train 3 tiny.ini 2>&1)" \
	'^embed_train: [^ ]*tiny.ini:2: train_batch_size = 4 is not a multiple'

done_testing
