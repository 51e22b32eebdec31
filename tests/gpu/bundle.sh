#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh OUT: packs what tests/gpu/run needs beside the tree, from the build directory it is called in: the program, its
# plugins but for those of MPI and CUDA, the tests of devices, and the libraries they need but for the C library's own.
set -e
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/lib" "$work/plugins"

for program in zeroth tests/t_device tests/t_twin bench/device; do
	file=$program
	[ ! -x "$(dirname "$program")/.libs/$(basename "$program")" ] || file=$(dirname "$program")/.libs/$(basename "$program")
	cp "$file" "$work/bin/$(basename "$program")"
done
for so in plugins/*/*.so; do
	case $so in */mpi.so | */cuda.so) continue ;; esac
	mkdir -p "$work/$(dirname "$so")"
	cp -L "$so" "$work/$so"
done
for file in "$work"/bin/* "$work"/plugins/*/*.so; do
	ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so\.[0-9]+$' | while read -r lib; do
	cp -L "$lib" "$work/lib/"
done
strip "$work"/bin/* "$work"/plugins/*/*.so
tar -C "$work" -czf "$out" bin lib plugins
size=$(stat -c %s "$out")
if [ "$size" -gt $((64 << 20)) ]; then
	echo "$out has $size bytes, more than 64 MiB" >&2
	exit 1
fi
echo "$out: $size bytes"
