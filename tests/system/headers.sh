#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each public header compiles alone, twice included, as C11 and, with each C++ compiler, as C++11 and C++17, without a warning.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
of_texts
include=${ZR_SRCDIR:-.}/include
cc=${CC:-cc}
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

for header in "$include"/zeroth/*.h; do
	name=zeroth/${header##*/}
	printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$name" "$name" >"$scratch/t.c"
	cp "$scratch/t.c" "$scratch/t.cc"
	ok "$name is C11" $cc -std=c11 $strict -I"$include" "$scratch/t.c"
	for cxx in g++ clang++; do
		for year in 11 17; do
			if command -v $cxx > /dev/null; then
				ok "$name is C++$year for $cxx" $cxx -std=c++$year $strict -I"$include" "$scratch/t.cc"
			else
				skip "$name is C++$year for $cxx" "no $cxx"
			fi
		done
	done
done

done_testing
