# SPDX-License-Identifier: Apache-2.0
#
# Ranks as a launcher starts them on this machine, to be sourced behind tap.sh.

unset MASTER_ADDR MASTER_PORT ZEROTH_TOKEN RANK WORLD_SIZE

# new_port: sets `port`, which nobody uses
new_port() {
	local hex
	while :; do
		port=$((20000 + RANDOM % 10000))
		printf -v hex ':%04X ' $port
		grep -qs "$hex" /proc/net/tcp /proc/net/tcp6 || return
	done
}

# as RANK RANKS PER_NODE COMMAND...: becomes the command, with the environment of a launcher
as() {
	exec env RANK=$1 WORLD_SIZE=$2 LOCAL_RANK=$(($1 % $3)) LOCAL_WORLD_SIZE=$3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${@:4}"
}
# all NAME RANKS PER_NODE COMMAND...: that many; output in NAME.RANK
all() {
	local r
	new_port
	for ((r = $2 - 1; r >= 0; r--)); do (as $r "$2" "$3" timeout 120 "${@:4}") > "$1.$r" 2>&1 & done
	wait
}

# ranks_of RANKS PER_NODE TEST [SUMS]: what each rank of comm_mpi says, with $COMM and $BOOT
ranks_of() {
	all said "$1" "$2" "$ZR_BUILDDIR/tests/unit/comm/comm_mpi" "$3" "$2" "${@:4}"
	cat said.*
}
# good NAME RANKS PER_NODE [TEST [SUMS]]: all ranks find nothing wrong
good() {
	local out
	out=$(ranks_of "$2" "$3" "${4:-kinds}" "${@:5}")
	is "$1" "$(grep -c 'rank [0-9]*: good' <<<"$out")" "$2"
	[ "$(grep -c good <<<"$out")" = "$2" ] || note "$out"
}

digest_of() { grep '^digest:' "$1"; }
