#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A step has as many instructions on a thousand ranks as on eight: plans of the first rank of so many, none of which is started.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
double=$ZR_BUILDDIR/tests/doubles/.libs/nccl_double.so

# model WIDTH LAYERS MICRO_BATCHES
model() {
	cat <<-INI
	[train]
	micro_batch_size = 1
	gradient_accumulation_steps = $3
	sequence_length = 64
	[model]
	plugin = llama
	layers = $2
	width = $1
	heads = $(($1 / 128))
	vocabulary = 1024
	context = 64
	[data]
	plugin = tokens
	path = none.bin
	[precision]
	plugin = bf16
	[device]
	memory = 80G
	INI
}
model 512 4 4 > small.ini
model 4096 2 1 > large.ini

# counts RANKS CONF OPTION...: how many instructions of each kind each program has, a line each
counts() {
	"$ZEROTH" plan -n "$1" --memory 1000T --no-compare --program "${@:2}" |
		awk '/^program/ { name = $0; sub(/:.*/, "", name) }
			name && $1 ~ /^[0-9]+$/ { count[name ": " $3]++ }
			END { for (k in count) print k, count[k] }' | sort
}
# same NAME OPTION...: on 8, 64 and 1,024 ranks
same() {
	local eight
	eight=$(counts 8 small.ini "${@:2}")
	like "$1: there are programs to count" "$(grep -c . <<< "$eight")" '^[0-9]{2}$'
	is "$1: as many instructions on 64 ranks as on 8" "$(counts 64 small.ini "${@:2}")" "$eight"
	is "... and on 1,024" "$(counts 1024 small.ini "${@:2}")" "$eight"
}
on_cards=(-o comm.plugin="$double" -o boot.ranks_per_node=8)
for stage in stage0 stage1 stage2 stage3 hpz; do
	same "$stage on cards" "${on_cards[@]}" -o zero.plugin=$stage
done
same 'state in host memory' "${on_cards[@]}" -o zero.plugin=stage3 -o offload.optimizer.plugin=cpu
same 'reduction = local' "${on_cards[@]}" -o zero.plugin=stage2 -o train.reduction=local
trees=("${on_cards[@]}" -o zero.plugin=stage2 -o train.sum_group=8)
is 'sums of a node: as many on 1,024 ranks as on 64' "$(counts 1024 small.ini "${trees[@]}")" "$(counts 64 small.ini "${trees[@]}")"

# The owner of a matrix copies at once what all ranks have of it that hold as much.
matrices=("${on_cards[@]}" -o zero.plugin=stage3 -o optimizer.matrices.plugin=muon -o 'optimizer.matrices.match=*_proj.weight')
# copies RANKS: of an update
copies() { counts "$1" small.ini "${matrices[@]}" | sed -n 's/^program update: copy //p'; }
few=$(copies 64)
ok 'an update of whole matrices copies what it brings together' test "$few" -gt 10
for ranks in 256 1024; do
	ok "no more copies on $ranks ranks than on 64" test "$(copies $ranks)" -le "$few"
done

# A comm of host memory carries what cards have in chunks of a fixed size.
by_host=(-o comm.plugin=tcp -o zero.plugin=stage3)
# collectives RANKS: of the last micro-batch
collectives() { counts "$1" large.ini "${by_host[@]}" | sed -n 's/^program last micro: collective //p'; }
# passed RANKS: bytes of host memory that they pass through
passed() {
	"$ZEROTH" plan -n "$1" --memory 1000T --no-compare --json large.ini "${by_host[@]}" | tr -d ' \n' |
		sed 's/.*"host":{[^}]*"communication":\([0-9]*\).*/\1/'
}
few=$(collectives 8)
ok 'large units go through host memory in chunks' test "$few" -gt 30
for ranks in 64 1024 4096; do
	ok "no more of them on $ranks ranks than on 8" test "$(collectives $ranks)" -le "$few"
	ok '... through 8 MiB at most' test "$(passed $ranks)" -le $((8 << 20))
done
done_testing
