#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a C test. cmocka (1.1) prints "not ok N # SKIP" for a skipped test; TAP says "ok N # SKIP". Most of these tests
# compute without a pause, so they have a lower priority than scripts, whose ranks wait for each other.
set -o pipefail
nice "$@" | sed -u 's/^not ok \([0-9]* # SKIP\)/ok \1/'
