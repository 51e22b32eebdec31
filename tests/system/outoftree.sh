#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that never saw this tree: installs into a directory of its own, builds examples/ there with the installed
# headers and `pkg-config zeroth-plugin` alone, and trains with them.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

root=$scratch/root
install_all() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKE_TERMOUT make -s -C "$ZR_BUILDDIR" install DESTDIR="$root"
}
ok "installs below DESTDIR" install_all

pc=$(find "$root" -name zeroth-plugin.pc)
ok "installs zeroth-plugin.pc" test -f "$pc"
export PKG_CONFIG_LIBDIR=${pc%/*} PKG_CONFIG_PATH=
prefix=$(pkg-config --variable=prefix zeroth-plugin)

work=$scratch/elsewhere
mkdir "$work"
cp "$ZR_SRCDIR/tests/examples/signsgd.c" "$work"
cd "$work" || exit 99
build() {
	# shellcheck disable=SC2046
	${CC:-cc} -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o "$2" "$1"
}
ok "an optimizer builds with the installed headers alone" build signsgd.c signsgd.so
is "it needs nothing of Zeroth when linked" "$(nm -D --undefined-only signsgd.so | grep -c ' zr_')" 0

# As a user of the installation would; only that it is not where configure was told.
zeroth=$prefix/bin/zeroth
export ZEROTH_PLUGIN_PATH ZEROTH_DATA_PATH
ZEROTH_PLUGIN_PATH=$(dirname "$(dirname "$(find "$root" -path '*/optimizer/adamw.so')")")
quickstart=$(find "$root" -name quickstart.ini)
ZEROTH_DATA_PATH=$(dirname "$(find "$root" -name defaults.ini)")

info=$("$zeroth" plugin info "$work/signsgd.so" 2>&1)
like "plugin info names it" "$info" 'optimizer/signsgd'
like "plugin info prints its summary" "$info" 'signSGD with decoupled weight decay\.'
like "plugin info prints the text of its options" "$info" 'Learning rate: how far every parameter moves per step\.'

seq 1 20000 > digits.txt
train() { # RUN [-o ...]
	run=$1
	shift
	"$zeroth" train "$quickstart" -o optimizer.plugin="$work/signsgd.so" -o data.path=digits.txt \
		-o train.steps=3 -o train.train_batch_size=2 -o train.micro_batch_size=2 -o train.sequence_length=16 \
		-o model.layers=1 -o model.width=16 -o model.heads=2 -o model.context=16 \
		-o run.dir="$run" "$@" > "$run.out" 2> "$run.err" || { rc=$?; cat "$run.err"; return $rc; }
}
digest() { tail -n 1 "$1.out"; }

ok "train runs with it" train one
like "train ends with the digest" "$(digest one)" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
is "every step left its metrics" "$(grep -c '"loss"' one/metrics.jsonl)" 3
like "the resolved configuration names it" "$(cat one/config.ini)" "^plugin *= *$work/signsgd\.so"

ok "runs again" train two
is "I1: two runs give the same digest" "$(digest two)" "$(digest one)"
ok "runs with another learning rate" train fast -o optimizer.lr=1e-2
ok "its learning rate acts" test "$(digest fast)" != "$(digest one)"

train bad -o optimizer.lr=-1 > /dev/null
is "I7: its option table refuses a value out of range" "$?" 2
like "... by name" "$(cat bad.err)" 'lr'
ok "... and writes nothing" test ! -e bad

# What `plugin new` writes, from the installed templates, headers and program.
own() {
	"$zeroth" plugin new "$1" "own_$1" &&
		env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "own_$1" check ZEROTH="$zeroth"
}
for role in scheduler offload; do
	like "plugin new $role, whose check passes" "$(own $role 2>&1; echo "code $?")" 'code 0$'
done

# A program that trains by the library, shared and static.
cp "$ZR_SRCDIR/tests/examples/embed_train.c" .
library=${pc%/pkgconfig/*}
program() {
	# shellcheck disable=SC2046
	${CC:-cc} -std=c11 -Wall -Wextra -Werror ${ZR_SANITIZE:+-fsanitize=$ZR_SANITIZE} $(pkg-config --cflags zeroth) -o "$1" \
		embed_train.c "${@:2}"
}
# shellcheck disable=SC2046
ok "a program builds with the installed library" program shared $(pkg-config --libs zeroth) -Wl,-rpath,"$library"
static=$(pkg-config --static --libs zeroth)
# shellcheck disable=SC2086
ok "... and with the static one" program static ${static/-lzeroth/-l:libzeroth.a}
is "which needs no other of Zeroth" "$(ldd static | grep -c libzeroth)" 0
options=(data.path=digits.txt train.steps=3 train.train_batch_size=2 train.micro_batch_size=2 train.sequence_length=16
	model.layers=1 model.width=16 model.heads=2 model.context=16)
for way in shared static; do
	is "the $way one gives the digest of the command" \
		"$("./$way" 1 "$quickstart" "${options[@]}" optimizer.plugin="$work/signsgd.so" 2>&1 | tail -n 1)" "$(digest one)"
done
ok "the Python binding is there" test -f "$(find "$root" -path "*/python/zeroth/__init__.py")"

# Updates of one element: every stage, number of ranks and tier has one digest, whatever the type of the states, and so
# has a run that goes on.
cp "$ZR_SRCDIR"/tests/examples/{ademamix,lion,signum}.c "$work"
mkdir disk
all=()
for what in optimizer gradient param; do all+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=$work/disk"); done
stage3=(-o zero.plugin=stage3 -o zero.persistence_threshold=0)
apart=(-o device.memory=32M -o device.plugin="$cards")

run() { # ID RANKS [-o ...]: prints the digest
	local id=$1 ranks=$2
	shift 2
	[ "$resume" ] || rm -rf run
	"$zeroth" train -n "$ranks" "$quickstart" -o optimizer.plugin="$work/$id.so" -o data.path=digits.txt \
		-o train.steps=4 -o train.train_batch_size=2 -o train.micro_batch_size=1 -o train.sequence_length=16 \
		-o model.layers=2 -o model.width=48 -o model.heads=2 -o model.context=16 -o device.threads=1 \
		-o run.dir=run "$@" ${resume:+--resume auto} > run.out 2> run.err || { tail -n 3 run.err; return; }
	[ "$resume" ] && grep 'from the beginning' run.err
	tail -n 1 run.out
}

for id in ademamix lion signum; do
	ok "$id has at most 50 lines" test "$(wc -l < "$id.c")" -le 50
	ok "$id builds with the installed headers alone" build "$id.c" "$id.so"
	is "$id needs no fused multiply-add" "$(objdump -d "$id.so" | grep -c vfmadd)" 0
	for type in fp32 8bit; do
		one_in 7 || continue
		states=(-o optimizer.states="$type")
		want=$(run "$id" 1 "${states[@]}" -o zero.plugin=stage0)
		like "$id trains with states in $type" "$want" '^digest: '
		is "I1: $id $type: stage 1" "$(run "$id" 2 "${states[@]}" -o zero.plugin=stage1)" "$want"
		is "I1: $id $type: stage 2" "$(run "$id" 2 "${states[@]}" -o zero.plugin=stage2)" "$want"
		is "I1: $id $type: stage 3, in small pieces" \
			"$(run "$id" 2 "${states[@]}" "${stage3[@]}" -o zero.sub_group_size=5000)" "$want"
		is "I1: $id $type: states in host memory" \
			"$(run "$id" 1 "${states[@]}" "${apart[@]}" -o offload.optimizer.plugin=cpu)" "$want"
		is "I1: $id $type: all on disk" "$(run "$id" 2 "${states[@]}" "${stage3[@]}" "${apart[@]}" "${all[@]}")" "$want"
		run "$id" 2 "${states[@]}" -o train.steps=2 -o checkpoint.every=2 -o zero.plugin=stage2 > stopped
		resume=yes
		is "I1: $id $type: going on with other ranks" "$(run "$id" 1 "${states[@]}")" "$want"
		resume=
	done
done

# The twin in C++ has the bits of the one in C.
cp "$ZR_SRCDIR/tests/examples/lion.cc" .
for cxx in g++ clang++; do
	for year in 11 14 17 20; do
		if ! command -v $cxx > /dev/null; then
			skip "lion.cc is C++$year for $cxx" "no $cxx"
			continue
		fi
		# shellcheck disable=SC2046
		ok "lion.cc is C++$year for $cxx" $cxx -std=c++$year -Wall -Wextra -pedantic -Werror -O2 -shared -fPIC \
			$(pkg-config --cflags zeroth-plugin) -o lion.so lion.cc
		[ $year = 11 ] || continue
		for type in fp32 8bit; do
			got=$(run lion 1 -o optimizer.states="$type")
			build lion.c lion.so
			like "I1: lion.cc trains with states in $type" "$got" '^digest: '
			is "I1: lion.cc by $cxx trains as lion.c, $type" "$got" "$(run lion 1 -o optimizer.states="$type")"
			# shellcheck disable=SC2046
			$cxx -std=c++11 -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o lion.so lion.cc
		done
	done
done
build lion.c lion.so

# One with sums and random words is C++11, too.
sed -e 's/^ZR_ELEMENTWISE(/ZR_ELEMENTWISE_WITH_SUMS_AND_RANDOM(/' -e 's/^enum { M, STATES };/& enum { ALL, SUMS };/' \
	-e 's/float \*s)$/float *s, uint32_t random)/' -e 's/direction;$/direction * zr_uniform(random);/' \
	-e 's/^})$/}\
static void measure(const float *k, float g, float p, const float *s, double *sum) { sum[ALL] = k[B1] * g * p * s[M]; }\
static void use(float *k, const double *total) { k[LR] *= (float)total[ALL]; }\
)/' lion.cc > sums.cc
for cxx in g++ clang++; do
	if command -v $cxx > /dev/null; then
		# shellcheck disable=SC2046
		ok "sums and random words are C++11 for $cxx" $cxx -std=c++11 -Wall -Wextra -pedantic -Werror -O2 -shared -fPIC \
			$(pkg-config --cflags zeroth-plugin) -o sums.so sums.cc
	else
		skip "sums and random words are C++11 for $cxx" "no $cxx"
	fi
done

# A checkpoint with states of one type, read with another.
for type in fp32:F32:8bit:U8 8bit:U8:bf16:BF16; do
	IFS=: read -r from was to kept <<< "$type"
	run ademamix 2 -o train.steps=2 -o checkpoint.every=2 -o zero.plugin=stage2 -o optimizer.states="$from" > stopped
	rm -rf stop
	mv run stop
	for ranks in 1 2; do
		cp -r stop run
		resume=yes
		digest[ranks]=$(run ademamix $ranks "${stage3[@]}" -o optimizer.states="$to")
		resume=
		rm -rf before
		mv run before
	done
	like "$from to $to: goes on" "${digest[1]}" '^digest: '
	is "I1: $from to $to: on two ranks" "${digest[2]}" "${digest[1]}"
	like "I7: $from to $to: and says so" "$(cat run.err)" "state exp_avg_slow of optimizer ademamix was kept in $was and is converted to $kept"
done

is "I1: a device that plays a memory of its own" "$(run ademamix 1 "${apart[@]}")" "$(run ademamix 1)"

# One that needs sums over rows and columns takes whole matrices; another optimizer has the rest.
cp "$ZR_SRCDIR/tests/examples/adafactor.c" "$work"
ok "adafactor builds with the installed headers alone" build adafactor.c adafactor.so
cat "$quickstart" - > groups.ini <<-INI
	[optimizer.matrices]
	plugin = $work/adafactor.so
	match = *.c_attn.weight *.c_proj.weight *.c_fc.weight
INI
quickstart=groups.ini
want=$(run lion 1)
like "adafactor trains" "$want" '^digest: '
is "I1: adafactor: stage 1" "$(run lion 2 -o zero.plugin=stage1)" "$want"
is "I1: adafactor: stage 2" "$(run lion 2 -o zero.plugin=stage2)" "$want"
is "I1: adafactor: stage 3, all on disk" "$(run lion 2 "${stage3[@]}" "${apart[@]}" "${all[@]}")" "$want"
run lion 2 -o train.steps=2 -o checkpoint.every=2 -o zero.plugin=stage2 > stopped
resume=yes
is "I1: adafactor: going on with other ranks" "$(run lion 1)" "$want"
resume=

done_testing
