#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make.sh MINOR REVISION: builds kept.c with the headers of a revision of this repository, the last one of a minor, as
# minorMINOR.so. Was called for 0 456b97a^, 1 2e65e40^, 2 8f0ed22^, 3 5136a99, 4 ae87cf43.
cd "$(dirname "$0")" || exit 1
at=$(mktemp -d) || exit 1
trap 'rm -r "$at"' EXIT
git -C ../../.. archive "$2" include | tar -x -C "$at"
grep -q "^#define ZR_ABI_MINOR *$1\$" "$at/include/zeroth/plugin.h" || { echo "$2 is not minor $1"; exit 1; }
gcc -std=c11 -O1 -shared -fPIC -fvisibility=hidden -ffp-contract=off -s -Wl,-z,noseparate-code -Wl,--build-id=none \
	-Wl,--hash-style=gnu -I"$at/include" -o "minor$1.so" kept.c && chmod 644 "minor$1.so"
