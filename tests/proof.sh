#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Proves that a change of the tree's form changes nothing else: three records of a build, to be
# compared with those of a build before the change, on the same kind of machine.
#   make proof DIR=D          writes the records of this build to D, in some minutes; the tree is
#                             built with the same compiler and options as the other one
#   proof.sh compare D1 D2    says what differs; exits with 1 where something does
#   proof.sh                  as a test: the comparison finds what was changed on purpose
# The records:
#   functions   the instructions of each function of the product, and each object's constants: the
#               same after moves of files
#   plans       of every configuration in conf/ and for 1, 2 and 4 ranks, a hash of its plan and of
#               its program; the texts lie in plan/, to see what differs
#   digests     of short trainings: the gallery, and stages, tiers, precisions and ranks
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/fixture.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/gallery.sh" || exit 99

# ---- functions ----

product='core train files cmd embed plugins kernels'

# A line for each function of an object, with its instructions, and one for each section of
# constants. Addresses and the object's path are left out.
functions_of() {
	objdump -dr --no-show-raw-insn --no-addresses "$1" | awk -v object="$2" '
		/^<.*>:$/ {
			if (text) print text
			text = object " " substr($1, 2, length($1) - 3)
			next
		}
		text && NF { $1 = $1; text = text "; " $0 }
		END { if (text) print text }'
	objdump -s "$1" | awk -v object="$2" '
		/^Contents of section/ {
			if (text) print text
			text = /section \.(rodata|data)/ ? object " " $4 : ""
			next
		}
		text { text = text " " $2 $3 $4 $5 }
		END { if (text) print text }'
}

# objects DIR...: the objects of the product below them. Where a library is built twice, for
# linking into programs and into other libraries, the latter counts.
objects() {
	find "$@" -name '*.o' 2> /dev/null | while read -r o; do
		[ -e "${o%/*}/.libs/${o##*/}" ] || echo "$o"
	done
}

# record_functions: of the build in the current directory, to standard output
record_functions() {
	local o name
	for o in $(objects $product); do
		name=${o##*/}
		functions_of "$o" "${name##*-}"
	done | sort
}

# ---- plans ----

# plan_of NAME RANKS ARGUMENT...: a configuration's plan and program, or why there is none
plan_of() {
	local out=$to/plan/$1-n$2.json
	{
		"$ZEROTH" plan --json --no-compare --card H100 --memory 2T -n "$2" "${@:3}"
		"$ZEROTH" plan --json --program --card H100 --memory 2T -n "$2" "${@:3}"
	} 2>&1 | sed "s|$src|SOURCES|g" > "$out"
	echo "${out##*/} $(sha256sum < "$out" | cut -d' ' -f1)"
	gzip -nf "$out"
}

record_plans() {
	local conf name n
	mkdir -p "$to/plan"
	for conf in "$src"/conf/*.ini "$src"/conf/gallery/*.ini; do
		name=${conf##*/}
		name=${name%.ini}
		for n in 1 2 4; do
			# the program of a trillion parameters on one rank takes more than most machines have
			if [ $n = 4 ] || ! huge "$name"; then plan_of "$name" $n "$conf"; fi
			case $conf in */gallery/*) settings "$name" ;; *) continue ;; esac
			plan_of "small-$name" $n "$conf" "${more[@]}"
		done
	done
}

# ---- digests ----

# digest NAME CONF [argument]...: a line of the record. A training that prints no digest proves
# nothing: two builds that fail in the same way would be equal.
digest() {
	local result
	result=$(trained "${@:2}")
	case $result in
	digest:*) echo "$1: $result" ;;
	*)
		echo "proof: $1: the training printed no digest: $result" >&2
		return 1
		;;
	esac
}

# on_disk STAGE: sets `disk`, the options that put on disk what the stage splits; it keeps all else
# whole in memory.
on_disk() {
	local what kinds='optimizer gradient param'
	case $1 in
	stage0) kinds=optimizer ;;
	stage1 | stage2) kinds='optimizer gradient' ;;
	esac
	disk=()
	for what in $kinds; do
		disk+=(-o "offload.$what.plugin=nvme" -o "offload.$what.path=disk")
	done
}

record_digests() {
	local conf name n stage precision tier recompute
	for conf in "$src"/conf/gallery/*.ini; do
		name=${conf##*/}
		name=${name%.ini}
		! huge "$name" || continue
		settings "$name"
		for n in 1 2; do
			digest "$name, $n ranks" "$conf" -n $n "${more[@]}" || return 1
		done
	done
	mkdir -p disk
	for stage in stage0 stage1 stage2 stage3 hpz mics; do
		on_disk $stage
		for precision in fp32 bf16 fp16; do
			for tier in memory disk; do
				for recompute in keep recompute; do
					set -- -n 2 -o train.steps=3 -o data.path=text.txt -o "zero.plugin=$stage" \
						-o "precision.plugin=$precision" -o "activation.plugin=$recompute"
					[ $tier = memory ] || set -- "$@" "${disk[@]}"
					digest "$stage $precision $tier $recompute" "$src/tests/lib/matrix.ini" \
						"$@" || return 1
				done
			done
		done
	done
}

# ---- commands ----

record() {
	to=$1
	[ -n "$to" ] || { echo 'proof: say where: make proof DIR=directory' >&2; exit 2; }
	[ -x "$ZEROTH" ] || { echo "proof: ZEROTH is '$ZEROTH', no command; use make proof" >&2; exit 2; }
	mkdir -p "$to" && to=$(cd "$to" && pwd) || exit 2
	src=$(cd "$ZR_SRCDIR" && pwd)
	(cd "$ZR_BUILDDIR" && record_functions > "$to/functions") || exit 1
	cd "$scratch" || exit 99
	gallery_texts
	record_plans > "$to/plans"
	record_digests > "$to/digests" || { rm "$to/digests"; exit 1; }
	wc -l "$to/functions" "$to/plans" "$to/digests"
}

compare() {
	local what differs=0
	for what in functions plans digests; do
		if [ ! -s "$1/$what" ] || [ ! -s "$2/$what" ]; then
			echo "$what: not recorded in both"
			differs=1
		elif ! diff "$1/$what" "$2/$what" > "$scratch/diff"; then
			echo "$what: $(grep -c '^<' "$scratch/diff") records of $1 are not in $2"
			grep '^[<>]' "$scratch/diff" | cut -c1-120 | sort -k2
			differs=1
		else
			echo "$what: $(wc -l < "$1/$what") records, the same"
		fi
	done
	return $differs
}

# Two builds of a file: the same code elsewhere, and other code.
built() { # DIRECTORY LINE...
	mkdir -p "$scratch/$1/cmd" "$scratch/$1/record"
	printf '%s\n' "${@:2}" > "$scratch/$1/cmd/it.c"
	(cd "$scratch/$1" && ${CC:-cc} -O2 -c cmd/it.c -o cmd/cmd_lib_la-it.o) || exit 99
	(cd "$scratch/$1" && product=cmd && record_functions > record/functions)
	echo "plan-n1.json ${plan-0}" > "$scratch/$1/record/plans"
	echo "stage0 digest: losses=${losses-0} params=1" > "$scratch/$1/record/digests"
}

check_itself() {
	local fine=('int twice(int x) { return 2 * x; }' 'const char *name(void) { return "zeroth"; }')
	command -v objdump > /dev/null || skip_all 'no objdump(1)'
	built before "${fine[@]}"
	built same '/* elsewhere */' '' "${fine[@]}"
	built code 'int twice(int x) { return 3 * x; }' "${fine[1]}"
	built text "${fine[0]}" 'const char *name(void) { return "zeroes"; }'
	losses=1 built digests "${fine[@]}"
	plan=1 built plans "${fine[@]}"
	built lost "${fine[@]}"
	: > "$scratch/lost/record/plans"
	cd "$scratch" || exit 99
	is 'nothing differs where nothing was changed' "$(compare before/record same/record)" \
		"functions: 3 records, the same
plans: 1 records, the same
digests: 1 records, the same"
	like 'an instruction' "$(compare before/record code/record)" '^< it.o twice;'
	like 'a constant' "$(compare before/record text/record)" '^< it.o .rodata'
	like 'a plan' "$(compare before/record plans/record)" '^> plan-n1.json 1$'
	like 'a digest' "$(compare before/record digests/record)" '^digests: 1 records of before'
	like 'a record that is not there' "$(compare before/record lost/record)" '^plans: not recorded in both$'
	ok 'a difference is an exit code of 1' test "$(compare before/record code/record > /dev/null; echo $?)" = 1

	local none="proof: it: the training printed no digest:"
	is 'a training that fails is not recorded' \
		"$(ZEROTH=false digest it it.ini 2>&1; echo "code $?")" "$none 
code 1"
	echo 'echo "digest: losses=0 params=1"' > trains
	chmod +x trains
	is 'one that prints a digest is' "$(ZEROTH=./trains digest it it.ini)" 'it: digest: losses=0 params=1'
	is 'without a command there is no record' "$( (ZEROTH='' record "$scratch/none") 2>&1; echo "code $?")" \
		"proof: ZEROTH is '', no command; use make proof
code 2"
	ok '... not even an empty one' test ! -e "$scratch/none"
	done_testing
}

case $1 in
'') check_itself ;;
record) record "$2" ;;
compare) compare "$2" "$3" ;;
*) echo "usage: proof.sh [record DIR | compare DIR DIR]" >&2; exit 2 ;;
esac
