#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each public header compiles alone, twice included, as C11 and as C++17, without a warning.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
include=${ZR_SRCDIR:-.}/include
cc=${CC:-cc}
strict='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'

# A C++ compiler of the same family, if there is one.
case $cc in
*clang*) cxx_names='clang++ g++ c++' ;;
*) cxx_names='g++ c++ clang++' ;;
esac
cxx=
for name in $cxx_names; do
	[ -n "$cxx" ] || cxx=$(command -v "$name")
done

for header in "$include"/zeroth/*.h; do
	name=zeroth/${header##*/}
	printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$name" "$name" >"$scratch/t.c"
	cp "$scratch/t.c" "$scratch/t.cc"
	ok "$name is C11" $cc -std=c11 $strict -I"$include" "$scratch/t.c"
	if [ -n "$cxx" ]; then
		ok "$name is C++17" "$cxx" -std=c++17 $strict -I"$include" "$scratch/t.cc"
	else
		skip "$name is C++17" 'no C++ compiler'
	fi
done

done_testing
