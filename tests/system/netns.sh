#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I1 over two hosts: network namespaces with names of their own play them, a bridge is their network, and Open MPI enters
# them by a script instead of ssh.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/mpi_env.sh"
. "$ZR_SRCDIR/tests/lib/hosts.sh"

why=$(no_mpi)
[ -z "$why" ] || skip_all "$why"
"$mpirun" --version 2> /dev/null | grep -q 'Open MPI' || skip_all "$mpirun is not of Open MPI"
why=$(no_hosts)
[ -z "$why" ] || skip_all "$why"
make_hosts 2 > "$scratch/why" 2>&1 || skip_all "network namespaces are not allowed here: $(head -n 1 "$scratch/why")"

for i in $(seq 1 3000); do echo "line $i of a text that is long enough"; done > "$scratch/text"
cat > "$scratch/tiny.ini" <<INI
[train]
micro_batch_size = 2
train_batch_size = 16
steps = 4
eval_every = 0
[model]
plugin = gpt2
layers = 2
heads = 2
width = 64
context = 32
[data]
plugin = text
path = text
[device]
threads = 1
INI
cat > "$scratch/enter" <<'SH'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
SH
chmod +x "$scratch/enter"
cd "$scratch" || exit 99

over_hosts() {
	timeout 120 "$mpirun" -n 4 --host "${hosts[0]}:2,${hosts[1]}:2" --mca plm_rsh_agent "$scratch/enter" --mca oob_tcp_if_include "$net.0/24" \
		--mca btl self,vader,tcp --mca btl_tcp_if_include "$net.0/24" \
		-x ZEROTH_PLUGIN_PATH -x ZEROTH_DATA_PATH -x ASAN_OPTIONS -wdir "$scratch" "$@"
}

# Open MPI may warn of its own children, on a busy machine.
is "each host has two ranks" "$(over_hosts hostname 2> /dev/null | sort | uniq -c | xargs)" "2 ${hosts[0]} 2 ${hosts[1]}"
one=$("$ZEROTH" train tiny.ini -o run.dir=one 2>&1 | tail -n 1)
like "one process prints a digest" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
for stage in stage0 stage3 hpz mics; do
	out=$(over_hosts "$ZEROTH" train tiny.ini -o run.dir=$stage -o zero.plugin=$stage -o boot.plugin=mpi -o comm.plugin=mpi 2> err)
	is "I1: 2 ranks on each of two hosts, $stage" "$(tail -n 1 <<<"$out")" "$one"
	[ "$(tail -n 1 <<<"$out")" = "$one" ] || note "$(tail -n 20 err)"
done

# shared NAME RANKS_OPTIONS OPTION...: what ranks share, of one host or of both, is what one process has alone
shared() {
	local out one
	rm -rf alone over
	one=$("$ZEROTH" train tiny.ini -o run.dir=alone "${@:3}" 2>&1 | tail -n 1)
	like "$1: one process prints a digest" "$one" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
	out=$(over_hosts "$ZEROTH" train tiny.ini -o run.dir=over -o boot.plugin=mpi -o comm.plugin=mpi $2 "${@:3}" 2> err)
	is "I1: 2 ranks on each of two hosts, $1" "$(tail -n 1 <<<"$out")" "$one"
	[ "$(tail -n 1 <<<"$out")" = "$one" ] || note "$(tail -n 20 err)"
}
mixture=(-o model.plugin=mixtral -o model.ffn_width=40 -o model.experts=4 -o model.experts_per_token=2 -o model.router_aux_loss_coef=0.4)
llama=(-o model.plugin=llama -o model.heads=4 -o model.kv_heads=4)
shared 'two share a sequence, by heads' '-o train.sequence_ranks=2 -o zero.plugin=stage3' -o train.slices=4 -o train.micro_batch_size=1 "${llama[@]}"
shared 'four share a sequence, by keys' '-o train.sequence_ranks=4 -o train.sequence=keys -o zero.plugin=stage2' -o train.slices=8 -o train.micro_batch_size=1 \
	-o precision.plugin=bf16 "${llama[@]}"
shared 'two divide experts' '-o zero.expert_ranks=2 -o zero.plugin=stage3' "${mixture[@]}"
shared 'four divide experts, two share a sequence' '-o zero.expert_ranks=4 -o train.sequence_ranks=2 -o zero.plugin=hpz' \
	-o train.slices=4 -o train.micro_batch_size=1 -o precision.plugin=bf16 -o activation.plugin=recompute "${mixture[@]}"
done_testing
