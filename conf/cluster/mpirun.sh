#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains on the CPUs of the machines of a host file, two ranks on each, through MPI: mpirun.sh HOSTFILE train.ini [option]...
# Zeroth must have been configured --with-mpi, for the same MPI.
hosts=$1 conf=$2
exec mpirun --hostfile "$hosts" --map-by ppr:2:node zeroth train "$conf" --resume auto -o run.dir=runs/mpirun \
	-o boot.plugin=mpi -o comm.plugin=mpi "${@:3}"
