#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A short slice of fuzzing: for every target all of its corpus and some hundred inputs made of it, the same each time.
# `make fuzz` is the long one.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
memory_scratch
cd "$scratch" || exit 99
export TMPDIR=$scratch

slice() {
	local what=$1 inputs=$2 out
	if out=$("$ZR_BUILDDIR/tests/fuzz/fuzz_$what" -runs="$inputs" "$ZR_SRCDIR/tests/fuzz/corpus/$what" 2>&1) &&
		[[ $out =~ ^[1-9][0-9]*\ files.*,\ [1-9][0-9]*\ of\ both\ usable$ ]]; then
		pass "$what: $out"
	else
		fail "$what" "$out"
	fi
}

slice args 400
slice chat 1000
slice encode 1000
slice import 500
slice index 1000
slice ini 400
slice jinja 1500
slice launch 1000
slice manifest 2000
slice meeting 200
slice model 400
slice plugin 2000
slice safetensors 1500
slice tcp 1000
slice template 1000
slice text 1000
slice tokenizer 300
slice tokens 500
slice torch 1500
done_testing
