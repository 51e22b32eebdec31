#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that others have built keep working: the layout of the stable headers is as it was released, plugins built with
# every minor of the ABI load and compute the same bits, and so do those of today in a host whose structs have grown.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd) build=$PWD
golden=$src/tests/golden
read -ra cc <<< "${CC:-cc}"
command -v python3 > "$scratch/python" || skip_all 'python3 reads the headers'
cd "$scratch" || exit 99
umask 022
python=$(cat python)

is 'the stable headers are laid out as in tests/golden/layout.txt' \
	"$("$python" "$golden/make_layout.py" --check "$golden/layout.txt" "$src/include" "${cc[@]}" 2>&1)" ''

# What would be wrong is seen: one header changed at a time.
changed() { # NAME SED FILE WANTED
	rm -rf include
	cp -r "$src/include" include
	sed -i "$2" "include/zeroth/$3.h"
	like "$1" "$("$python" "$golden/make_layout.py" --check "$golden/layout.txt" include "${cc[@]}" 2>&1)" "$4"
}
changed 'a member put between others is seen' 's/^\tdouble base; /\tint64_t more; double base;/' scheduler \
	'^changed: member zr_sched_point.base was 24 8 and is 32 8'
changed 'a member that is gone is seen' '/^\tuint64_t seed;/d' optimizer '^changed: member zr_opt_step.seed is gone'
changed 'another number is seen' 's/^#define ZR_EIO *(-5)/#define ZR_EIO (-50)/' plugin '^changed: constant ZR_EIO was -5 and is -50'
changed 'a type of the same size is seen' 's/^\tdouble base; /\tint64_t base;/' scheduler \
	'^changed: type zr_sched_point.base was double base and is int64_t base'
changed 'an argument of another type is seen' 's/at, double \*lr/at, float *lr/' scheduler \
	'^changed: type zr_scheduler_v1.value was int .*double \*lr. and is int .*float \*lr.'
changed 'a frozen struct that grows is seen' 's/^\tint64_t hysteresis;/&int64_t more;/' precision \
	'^changed: struct zr_scale was frozen 32 and is frozen 40'
changed 'a member at the end is a line to add' 's/^\tdouble base; /&int64_t more;/' scheduler \
	'^not in the golden file: member zr_sched_point.more 32 8'

# What a release has, in all its public headers: of stable ones and the library's for good, of drafts for plugins of the
# same draft revision. A new release gets a file of its own:
#   python3 tests/golden/make_layout.py --release include > tests/golden/abi/layout-VERSION.txt
# The file of a release that is still to come is written again in the same way.
since() { "$python" "$golden/make_layout.py" --since "$1" "$2" "${cc[@]}" 2>&1; }
for file in "$golden"/abi/layout-*.txt; do
	is "the public headers have all that $(basename "$file") has" "$(since "$file" "$src/include")" ''
done
# later NAME PATTERN FILE SED...: what is said of today's headers as a release, once header FILE.h has changed so
"$python" "$golden/make_layout.py" --release "$src/include" "${cc[@]}" > released.txt
later() {
	local name=$1 wanted=$2 file=$3
	shift 3
	rm -rf include
	cp -r "$src/include" include
	sed -i "$1" "include/zeroth/$file.h"
	[ -z "$2" ] || sed -i "$2" include/zeroth/plugin.h
	like "$name" "$(since released.txt include; echo "code $?")" "$wanted"
}
later 'a member of a draft that moves in one revision is seen' \
	'changed: member zr_comm_op.n_seg .* .in drafts of comm, revision [0-9]*: raise ZR_DRAFT_COMM and' \
	comm 's/^\tint32_t root;/&\n\tint32_t more, again;/'
later 'so is a member behind the others of a draft' 'changed: member zr_comm_op.more .* .in drafts of comm, revision' \
	comm 's/^\tstruct zr_comm_tag tag;/&\n\tint64_t more;/'
later 'in another revision it is not' '^code 0$' comm 's/^\tint32_t root;/&\n\tint32_t more, again;/' \
	's/^#define ZR_DRAFT_COMM .*/#define ZR_DRAFT_COMM 999/'
later 'a stable struct may grow after a release' '^code 0$' scheduler 's/^\tdouble base; /&int64_t more;/'
later '... at its end alone' '^changed: member zr_sched_point.base was' scheduler 's/^\tdouble base; /\tint64_t more; double base;/'
later 'a struct of the library that changes is seen' '^changed: member zeroth_tensor.init was' zeroth 's/^\tint32_t ndim;/&\n\tint64_t more;/'
minor=$(sed -n 's/^#define ZR_ABI_MINOR *//p' "$src/include/zeroth/plugin.h")
draft=$(sed -n 's/^#define ZR_DRAFT_REVISION *//p' "$src/include/zeroth/plugin.h")
soname=libzeroth.so.$(sed -n 's/.*-version-info \([0-9]*\):[0-9]*:0 .*/\1/p' "$src/embed/local.mk")
like 'zeroth-plugin(7) has the numbers of this version' "$(tr '\n' ' ' < "$src/man/zeroth-plugin.7")" \
	"has ABI 1\.$minor, draft revision $draft and a library with the SONAME *(.Pa )?$soname"

is 'ABI.md has the version, and what is new in it' "$(grep -c "has ABI 1\.$minor\.\|^- \*\*1\.$minor\*\*" "$src/ABI.md")" 2
missing=$(sed -n 's/^ROLE(\([a-z]*\), \([A-Z]*\),.*/\1 \2/p' "$src/core/plugin/roles.def" | while read -r role kind; do
	section=$(sed -n "/^## What is $([ "$kind" = STABLE ] && echo stable || echo 'a draft')/,/^## /p" "$src/ABI.md")
	grep -q "zr\.$role/1" <<< "$section" || echo "$role"
done)
is '... and says of each role whether it is stable' "$missing" ''

# By abidiff: the stable structs of plugins, and functions and structs of zeroth/zeroth.h, are those of the release in
# tests/golden/abi/*-VERSION.abi, or more. For a release that is still to come `bash tests/system/abi.sh write VERSION`, in the
# directory of a build with -g, writes these files.
printf '[suppress_type]\ntype_kind = struct\nhas_data_member_inserted_at = end\n' > grows
differs() { abidiff --no-added-syms --suppressions grows "$1" "$2" 2>&1; echo "code $?"; }
describe() { # LIBRARY INCLUDE FILE
	abidw --drop-private-types --no-show-locs --no-corpus-path --no-comp-dir-path --exported-interfaces-only \
		--headers-dir "$2/zeroth" --out-file "$3" "$1"
}
plugins() { # NAME [SED FILE]: describes the stable structs, once header FILE.h has changed so
	rm -rf include
	cp -r "$src/include" include
	[ -z "$2" ] || sed -i "$2" "include/zeroth/$3.h"
	"$python" "$golden/make_layout.py" --witness include > witness.c
	"${cc[@]}" -std=gnu11 -g -w -shared -fPIC -Iinclude -o witness.so witness.c
	describe witness.so include "$1.abi"
}
# The functions of libzeroth alone, with types: the library itself may be built without.
library() { # FILE: describes them
	local defs
	eval "defs=($(sed -n 's/^DEFS = //p' "$build/Makefile"))"
	"${cc[@]}" -std=gnu11 -D_GNU_SOURCE "${defs[@]}" -g -w -shared -fPIC -I"$build" -I"$src" -I"$src/include" -o library.so \
		-Wl,--unresolved-symbols=ignore-all -Wl,--version-script="$src/embed/zeroth.map" -Wl,-soname,"$soname" "$src"/embed/*.c
	describe library.so "$src/include" "$1"
}
if [ "$1" = write ]; then
	plugins now
	cp now.abi "$golden/abi/plugins-$2.abi"
	library "$golden/abi/libzeroth-$2.abi"
	exit
fi
if command -v abidiff > /dev/null; then
	plugins now
	plugins more 's/^\tdouble base; /&int64_t more;/' scheduler
	plugins other 's/^\tdouble base; /\tint64_t more; double base;/' scheduler
	like 'abidiff lets structs grow' "$(differs now.abi more.abi)" 'code 0$'
	like '... and sees a member put between others' "$(differs now.abi other.abi)" 'double base. offset changed'
	for file in "$golden"/abi/plugins-*.abi; do
		like "the structs of plugins have what $(basename "$file") has" "$(differs "$file" now.abi)" 'code 0$'
	done
	for file in "$golden"/abi/libzeroth-*.abi; do
		if [ -f "$build/Makefile" ]; then
			library today.abi
			like "libzeroth has what $(basename "$file") has" "$(differs "$file" today.abi)" '^code 0$'
		else
			skip "libzeroth has what $(basename "$file") has" 'needs the directory of a build'
		fi
	done
else
	skip 'what the last release had, by abidiff' 'no abidiff: install abigail-tools'
fi

[ -n "$ZEROTH" ] && "$ZEROTH" --version > version || { done_testing; exit; }
for i in $(seq 1 300); do echo "line $i of a text that is long enough"; done > text
mkdir -p optimizer scheduler monitor
# kept FILE: the digest of a training with the optimizer, scheduler and monitor in it, and what the monitor wrote
zeroth=$ZEROTH
kept() {
	for role in optimizer scheduler monitor; do cp "$1" "$role/kept.so"; done
	rm -rf run
	ZEROTH_PLUGIN_PATH=$PWD:$ZEROTH_PLUGIN_PATH "$zeroth" train "$src/tests/lib/matrix.ini" -n 2 -o data.path=text -o run.dir=run \
		-o train.steps=7 -o train.eval_every=0 -o device.threads=1 -o zero.plugin=stage3 -o optimizer.plugin=kept \
		-o optimizer.lr=0.1 -o scheduler.plugin=kept -o monitor.kept.plugin=kept > log 2>&1
	tail -n 1 log
	cat run/kept.txt
}
make_kept() { "${cc[@]}" -std=gnu11 -w -O1 -ffp-contract=off -shared -fPIC "$@" "$golden/abi/kept.c"; }
make_kept -I"$src/include" -o today.so
kept today.so > today
like 'a training with the optimizer, scheduler and monitor of kept.c' "$(cat today)" '^digest: '
is 'its monitor is told every step' "$(grep -c '^[0-9]' today)" 7
for file in "$golden"/abi/minor*.so; do
	name=$(basename "$file" .so)
	if [ "$(uname -m)" = x86_64 ]; then
		is "the plugins of $name compute the same" "$(kept "$file")" "$(cat today)"
	else
		skip "the plugins of $name" 'they were built for x86_64'
	fi
done

"$python" "$golden/make_layout.py" --grow "$src/include" grown || exit 99
make_kept -Igrown -o tomorrow.so
is 'plugins of tomorrow, with grown structs, compute the same' "$(kept tomorrow.so)" "$(cat today)"
sed 's/^ZR_PLUGIN(/ZR_PLUGIN_NEED(99, /' "$golden/abi/kept.c" > needs.c
"${cc[@]}" -std=gnu11 -w -shared -fPIC -Igrown -o needs.so needs.c
like 'one that needs a later host is refused with both minors' "$(kept needs.so)" \
	"need_minor is 99, this zeroth has $minor; install a newer zeroth"

# A host whose structs have grown, and all plugins of today's build.
if [ ! -x "$build/config.status" ] || [ -n "$ZR_SANITIZE" ]; then
	skip 'a host whose structs have grown' 'needs the directory of a plain build'
	done_testing
	exit
fi
mkdir host
sed "s|^srcdir='.*'|srcdir='$src'|" "$build/config.status" > host/config.status
# What libtool does for a program, which takes as long as the compiler: an object is compiled as
# make says, a library is a list of what it consists of. What no training calls is left out.
: > empty.c
cat > lists <<'LISTS'
while [[ $1 != --mode=* ]]; do shift; done
if [[ ${*: -1} =~ cmd/(measure|check|doctor)/|files/(chat|tokenizer)/ ]]; then
	set -- "${@:1:$#-1}" "${0%lists}empty.c"
fi
[ "$1" = --mode=link ] || exec "${@:2}"
shift
command=() objects=() libraries=()
while [ $# -gt 0 ]; do
	case $1 in
	-o) out=$2; shift ;;
	*.la) list=$(cat "$1") || exit; objects+=($list) ;;
	*.lo | *.o) objects+=("$1") ;;
	-l* | -L*) libraries+=("$1") ;;
	*) command+=("$1") ;;
	esac
	shift
done
case $out in
*.la) echo "${objects[*]} ${libraries[*]}" > "$out" ;;
*) exec "${command[@]}" -o "$out" $(printf '%s\n' "${objects[@]}" | awk '!seen[$0]++ && !/^-l/') \
	"${libraries[@]}" $(printf '%s\n' "${objects[@]}" | grep '^-l' | sort -u) ;;
esac
LISTS
# All is compiled once: no rule of other objects is wanted, which config.status would make one by one.
(cd host && bash ./config.status Makefile && sed -i '/# am--include-marker$/d' Makefile && make -j2 zeroth LIBTOOL="bash $scratch/lists" \
	AM_CPPFLAGS="-I$scratch/grown -I$src/include -I$src" CFLAGS='-O0 -w -fno-pie' CXXFLAGS='-O0 -w -fno-pie' \
	LDFLAGS='-no-pie -Wl,--unresolved-symbols=ignore-all') > host.log 2>&1
ok 'a host whose structs have grown is built' test -x host/zeroth
[ -x host/zeroth ] || note "$(tail -n 5 host.log)"
like 'it has a later minor' "$(host/zeroth --version)" 'ABI 1\.99'
zeroth=$PWD/host/zeroth
is 'plugins of today compute the same there' "$(kept today.so)" "$(cat today)"
for file in "$golden"/abi/minor*.so; do
	[ "$(uname -m)" = x86_64 ] || continue
	is "so do those of $(basename "$file" .so)" "$(kept "$file")" "$(cat today)"
done
# What a line of ours trains with: all built-in roles, each in its stable interface.
built_in() {
	rm -rf run
	"$1" train "$src/tests/lib/matrix.ini" -n 2 -o data.path=text -o run.dir=run -o train.steps=3 -o device.threads=1 \
		-o zero.plugin="$2" -o optimizer.plugin="$3" -o precision.plugin="$4" -o scheduler.plugin=warmup_lr -o monitor.c.plugin=csv \
		2>&1 | tail -n 1
}
for with in 'stage3 adamw fp32' 'stage2 lamb fp16' 'hpz muon bf16'; do
	read -ra w <<< "$with"
	is "and our own: $with" "$(built_in host/zeroth "${w[@]}")" "$(built_in "$ZEROTH" "${w[@]}")"
done
done_testing
