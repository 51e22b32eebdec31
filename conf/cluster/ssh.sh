#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains on machines that ssh reaches without a password, eight ranks on each: ssh.sh a,b,c train.ini [option]...
# It goes on after a machine has gone, without it as long as 8 ranks are left, from the newest checkpoint.
hosts=$1 conf=$2
exec zeroth launch --hosts "$hosts" -n 8 --restarts 10 --min-ranks 8 "$conf" --resume auto -o run.dir=runs/ssh "${@:3}"
