#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# nvcc.sh NVCC ARG... - nvcc for libtool, which adds -fPIC for a compiler of C: nvcc takes that only
# for its host compiler.
n=$#
while [ "$n" -gt 0 ]; do
	word=$1
	shift
	[ "$word" != -fPIC ] || word=-Xcompiler=-fPIC
	set -- "$@" "$word"
	n=$((n - 1))
done
exec "$@"
