#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The plan names the bytes that cross the network (I2): what the kernel counts on the network card of a machine, beside what
# `zeroth plan --program --json` says that its ranks send to those of the other one.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/hosts.sh" || exit 99

[ -z "$ZR_SANITIZE" ] || skip_all 'sanitizers change no bytes on a network, and hosts.sh trains over one'
why=$(no_hosts)
[ -z "$why" ] || skip_all "$why"
make_hosts 2 > "$scratch/why" 2>&1 || skip_all "network namespaces are not allowed here: $(head -n 1 "$scratch/why")"
cd "$scratch" || exit 99
unset MASTER_ADDR MASTER_PORT ZEROTH_TOKEN RANK WORLD_SIZE

per=4 # ranks on each of the two machines
tiny text 4 $((2 * per)) 1 <<INI
[device]
threads = 1
INI
options=(-o model.width=128 -o train.eval_every=0)
cat > netns <<'SH'
#!/bin/bash
exec ip netns exec "$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
SH
chmod 755 netns

# planned OPTION...: bytes that a machine sends to the other one in a step. Of a collective over R ranks each rank sends each
# other one 1/R of the larger of what it reads and writes; an all_reduce sends the sums, too. Half of the world, or of the pairs
# of ranks in the same place, is elsewhere.
planned() {
	"$ZEROTH" plan -n $((2 * per)) tiny.ini "${options[@]}" -o comm.plugin=tcp -o boot.ranks_per_node=$per "$@" --program --json |
		awk -F'": "?' -v per=$per '
			{ value = $2; sub(/"?,?$/, "", value) }
			/^   "name"/ { program = value }
			/^     "queue"/ { group = ""; reads = writes = 0 }
			/^     "operation"/ { operation = value }
			/^     "group"/ { group = value }
			/^       "bytes"/ { bytes = value }
			/^       "reads": true/ { reads += bytes }
			/^       "writes": true/ { writes += bytes }
			/^     "after"/ && program ~ /^(last micro|boundary|update)$/ {
				most = reads > writes ? reads : writes
				pairs["world"] = per * per / (2 * per)
				pairs["cross"] = per / 2
				sent += most * pairs[group] * (operation == "all_reduce" ? 2 : 1)
			}
			END { printf "%d\n", sent }'
}
sent() { (on_host 0 cat /sys/class/net/eth0/statistics/tx_bytes); }
# counted STEPS OPTION...: bytes that leave the first machine in a training of so many steps
counted() {
	local before
	before=$(sent)
	rm -rf run
	timeout -s KILL 180 "$ZEROTH" launch --hosts "${hosts[0]},${hosts[1]}" -n $per --through "$PWD/netns" tiny.ini "${options[@]}" \
		-o run.dir=run -o boot.address="$net.2" -o train.steps="$1" "${@:2}" > out 2> log || note "$(tail -n 3 log)"
	echo $(($(sent) - before))
}
# near NAME BYTES OTHERS: within 3 %, and so many that headers do not matter
near() { ok "$1: $2 bytes, $3" test $((100 * ($2 > $3 ? $2 - $3 : $3 - $2))) -le $((3 * $3)) -a "$3" -gt 4000000; }
# as_planned NAME OPTION...: bytes of a step, by trainings of 2 steps and of 6; in `step`
as_planned() {
	local name=$1 few
	shift
	few=$(counted 2 "$@")
	step=$((($(counted 6 "$@") - few) / 4))
	near "$name: sent in a step, and as planned" $step "$(planned "$@")"
}
for stage in stage1 stage3 stage2; do as_planned $stage -o zero.plugin=$stage; done

# Gradients and parameters are as many bytes. Of the gradients a machine sends one sum in the place of one of each rank.
all=$step
as_planned "sums of $per" -o zero.plugin=stage2 -o train.sum_group=$per
near 'gradients are divided by the ranks of a machine' $step $((all / 2 + all / 2 / per))
as_planned codes -o zero.plugin=stage3 -o precision.plugin=bf16 -o train.communication_data_type=mxint8 -o train.gather_data_type=mxint8 \
	-o model.width=192
done_testing
