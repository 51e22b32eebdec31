#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh OUT: packs what tests/gpu/run needs beside the tree, from the build directory it is called in: the program, its
# plugins but for those of MPI, the tests of devices, and the libraries they need but for the C library's own. Plugins for CUDA
# that were built here go along, in case the other machine cannot build them; so does activity.so, where there is the header of
# CUPTI: CUPTI_CPPFLAGS says where. `needs` says which C library all this is for.
set -e
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/lib" "$work/plugins"

for program in zeroth tests/unit/device/t_device tests/unit/device/t_fp8 tests/unit/device/t_twin bench/device bench/adam; do
	file=$program
	[ ! -x "$(dirname "$program")/.libs/$(basename "$program")" ] || file=$(dirname "$program")/.libs/$(basename "$program")
	cp "$file" "$work/bin/$(basename "$program")"
done
for so in plugins/*/*.so; do
	to=$work/$so
	case $so in */mpi.so) continue ;; */cuda.so | */nccl.so) to=$work/prebuilt/${so#plugins/} ;; esac
	mkdir -p "$(dirname "$to")"
	cp -L "$so" "$to"
done
[ ! -e plugins/device/cuda.so ] || cp plugins/device/cuda-trial "$work/prebuilt/device/"
mkdir -p "$work/tests/doubles/.libs"
cp tests/doubles/.libs/cards.so "$work/tests/doubles/.libs/"
for file in "$work"/bin/* "$work"/plugins/*/*.so; do
	ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so\.[0-9]+$' | while read -r lib; do
	cp -L "$lib" "$work/lib/"
done
# shellcheck disable=SC2086 # lists of words
if echo '#include <cupti.h>' | ${CC-cc} $CUPTI_CPPFLAGS -E - >/dev/null 2>&1; then
	${CC-cc} -std=gnu11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden $CUPTI_CPPFLAGS -o "$work/lib/activity.so" \
		"$(dirname "$0")/activity.c" -ldl
else
	echo 'no cupti.h: without CUPTI_CPPFLAGS the bundle cannot see what kernels are at when' >&2
fi
find "$work" -type f | xargs strip
find "$work" -type f -exec objdump -T {} + | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 >"$work/needs"
(cd "$work" && tar -czf - ./*) >"$out"
size=$(stat -c %s "$out")
if [ "$size" -gt $((48 << 20)) ]; then
	echo "$out has $size bytes, more than the 48 MiB that are left of 64 beside the tree" >&2
	exit 1
fi
echo "$out: $size bytes, for $(cat "$work/needs") or later"
