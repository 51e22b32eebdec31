#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains on two machines of eight GPUs that torchrun starts: on each of them
#     torchrun.sh FIRST_MACHINE train.ini [option of zeroth train]...
# Where a rank has died, torchrun starts all of them again, ten times at most, and they go on from the newest checkpoint.
# ZEROTH_TOKEN, the same on both, keeps strangers out.
first=$1 conf=$2
exec torchrun --nnodes=2 --nproc-per-node=8 --max-restarts=10 --rdzv-backend=c10d --rdzv-endpoint="$first:29400" \
	--no-python zeroth train "$conf" --resume auto -o run.dir=runs/torchrun \
	-o boot.plugin=env -o comm.plugin=nccl "${@:3}"
