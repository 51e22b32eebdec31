# SPDX-License-Identifier: Apache-2.0
#
# Hosts that network namespaces play, to be sourced behind tap.sh: names of their own, a bridge as
# their network. make_hosts N sets `hosts`, an array of names, and `net`, the first three numbers of
# their addresses: host i has $net.$((i + 2)). They go when the script ends.

# Why there can be none; nothing, if there can.
no_hosts() {
	[ "$(id -u)" = 0 ] || { echo "only root makes network namespaces"; return; }
	command -v ip > /dev/null && command -v unshare > /dev/null || echo "needs ip and unshare"
}

clean_hosts() {
	local host
	for host in "${hosts[@]}"; do ip netns del "$host"; done
	ip link del "zrb$$"
} > /dev/null 2>&1

add_host() { # NUMBER
	local host=${hosts[$1]} link=v$(($1 + 2)).$$
	ip netns add "$host" && ip link add "$link" type veth peer name eth0 netns "$host" && ip link set "$link" master "zrb$$" up &&
		ip -n "$host" addr add "$net.$(($1 + 2))/24" dev eth0 && ip -n "$host" link set eth0 up && ip -n "$host" link set lo up
}

make_hosts() {
	local i
	net=10.$((64 + $$ / 256 % 64)).$(($$ % 256))
	hosts=()
	for ((i = 0; i < $1; i++)); do hosts+=("zr$(printf "\\x$((61 + i))")$$"); done
	trap 'clean_hosts; rm -rf "$scratch" ${reports:+"$reports"}' EXIT
	ip link add "zrb$$" type bridge && ip addr add "$net.1/24" dev "zrb$$" && ip link set "zrb$$" up || return
	for ((i = 0; i < $1; i++)); do add_host $i || return; done
	ip netns exec "${hosts[0]}" unshare --uts true
}

# on_host NUMBER COMMAND...: becomes the command there
on_host() {
	exec ip netns exec "${hosts[$1]}" unshare --uts sh -c 'hostname "$0" && exec "$@"' "${hosts[$1]}" "${@:2}"
}
# link_of NUMBER up|down: a cable is plugged in or pulled out
link_of() { ip link set "v$(($1 + 2)).$$" "$2"; }
