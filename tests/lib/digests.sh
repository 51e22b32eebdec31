# SPDX-License-Identifier: Apache-2.0
#
# Small trainings over stages and tiers, for tests that compare their digests: a text and an empty
# directory `disk` in the current one, what trains, and lists of options.
for i in $(seq 1 4000); do
	echo "line $i of a text that is long enough to learn a little from"
done > text
mkdir disk

# train RUN CONF RANKS OPTION...: output in RUN.out, log in RUN.err
train() {
	local dir=$1 conf=$2 ranks=$3
	shift 3
	rm -rf "$dir"
	"$ZEROTH" train -n "$ranks" "$conf.ini" -o data.path=text -o run.dir="$dir" \
		-o train.train_batch_size=6 -o train.eval_every=0 -o device.threads=1 "$@" \
		> "$dir.out" 2> "$dir.err"
}
digest() { train run "$@"; tail -n 1 run.out; }

split=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
pieces=(-o zero.sub_group_size=5000)
apart=(-o device.memory=32M -o device.plugin="$cards")
all=() state=(-o offload.optimizer.plugin=nvme -o offload.optimizer.path=disk)
for what in optimizer gradient param; do
	all+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=disk")
done
