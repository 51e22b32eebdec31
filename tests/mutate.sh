#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Mistakes that are planted on purpose, one after the other: tests/mutations says which, and what should notice each.
#   mutate.sh          as a test: each mistake can still be planted, its old text is in its file exactly once
#   mutate.sh run DIR  what `make mutate` does; DIR: a copy of the sources, from `make distdir`
# A run works in mutate/ of the build directory, and touches no other source file. For each mistake it builds, then runs
# the tests that the table names until one fails. Environment:
#   MUTATE_ONLY="NAME ..."  only these, patterns of the shell
#   MUTATE_GO_ON=yes        keeps the results of the last run, and takes what has none
#   MUTATE_SECONDS=N        begins no other mistake after N seconds
#   MUTATE_WHOLE=yes        where no named test fails, the whole `make check`
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99

declare -a name file old new tests why
declare -A text

# The table's entries, in the arrays above. Several lines `old` or `new` are lines of one text.
read_table() {
	local line key rest i=-1
	while IFS= read -r line; do
		key=${line%% *} rest=
		[ "$key" = "$line" ] || rest=${line#* }
		case $key in
		'' | '#'*) ;;
		name) i=$((i + 1)); name[i]=$rest ;;
		file) file[i]=$rest ;;
		old) old[i]+=${old[i]+$'\n'}$rest ;;
		new) new[i]+=${new[i]+$'\n'}$rest ;;
		tests) tests[i]=$rest ;;
		why) why[i]+=${why[i]:+ }$rest ;;
		*) echo "tests/mutations: unknown word $key" >&2; exit 99 ;;
		esac
	done < "$ZR_SRCDIR/tests/mutations"
}

# The text of a file, once read.
load() { [ -n "${text[$1]}" ] || text[$1]=$(cat "$1" && echo .); }

# How often the i-th old text is in the file.
count() {
	load "$2"
	local rest=${text[$2]//"${old[$1]}"/}
	echo $(((${#text[$2]} - ${#rest}) / ${#old[$1]}))
}

# What is wrong with the i-th entry.
wrong() {
	local i=$1 t n
	[ -n "${old[i]}" ] && [ "${old[i]}" != "${new[i]}" ] || { echo "nothing to change"; return; }
	[ -f "$ZR_SRCDIR/${file[i]}" ] || { echo "no file ${file[i]}"; return; }
	n=$(count "$i" "$ZR_SRCDIR/${file[i]}")
	[ "$n" = 1 ] || echo "${file[i]} has the old text $n times"
	[ -n "${tests[i]}" ] || echo "no tests"
	for t in ${tests[i]}; do
		[ -f "$ZR_SRCDIR/tests/$t" ] || [ -f "$ZR_SRCDIR/tests/$t.c" ] || echo "no test $t"
	done
}

check_table() {
	local i
	is 'names are unique' "$(printf '%s\n' "${name[@]}" | sort | uniq -d)" ''
	for i in "${!name[@]}"; do is "${name[i]}: can be planted" "$(wrong "$i")" ''; done
	done_testing
}

# ---- a run ----

bad='	\(SURVIVED\|BROKEN\)	'

say() { printf '%s\n' "$*"; }
die() { say "mutate: $*" >&2; exit 1; }

# Brings the copy of the sources up to date, and builds it with this tree's own configuration.
prepare() {
	local from=$1 f
	mkdir -p "$dir/src" "$dir/obj"
	touch "$dir/changed" # since the last build
	(cd "$from" && find . -type f) | while read -r f; do
		cmp -s "$from/$f" "$dir/src/$f" && continue
		mkdir -p "$dir/src/${f%/*}"
		cp "$from/$f" "$dir/src/$f"
		echo "$f" >> "$dir/changed"
	done
	[ ! -s "$dir/changed" ] || rm -f "$dir/passed"
	cd "$dir/obj" || die "no $dir/obj"
	touch ../src/aclocal.m4
	touch ../src/configure ../src/Makefile.in # newer than what autotools made them from
	if [ ! -s Makefile ] || grep -qx ./configure ../changed; then
		eval "../src/configure $("$ZR_BUILDDIR/config.status" --config)" > ../configure.log 2>&1 || die "see $dir/configure.log"
	elif grep -qx ./Makefile.in ../changed; then
		./config.status > ../configure.log 2>&1 || die "see $dir/configure.log"
	fi
	touch config.status
	touch Makefile
	say "building in $dir"
	make -j"$(nproc)" > ../build.log 2>&1 && make -j"$(nproc)" check TESTS= >> ../build.log 2>&1 || die "the tree does not build: see $dir/build.log"
	rm "$dir/changed"
	touch "$dir/passed"
	export ZEROTH=$dir/obj/zeroth ZEROTH_PLUGIN_PATH=$dir/obj/plugins ZEROTH_DATA_PATH=$dir/src/conf
	export ZR_TEST_PLUGINS=$dir/obj/plugins ZR_SRCDIR=$dir/src ZR_BUILDDIR=$dir/obj srcdir=$dir/src
}

plant() {
	local f=$dir/src/${file[$1]} t
	load "$f"
	planted=$f
	t=${text[$f]%.}
	printf '%s' "${t/"${old[$1]}"/"${new[$1]}"}" > "$f"
}

restore() {
	[ -z "$planted" ] || printf '%s' "${text[$planted]%.}" > "$planted"
	planted=
}

build() { timeout -k 5 600 make -j"$(nproc)" > ../build.log 2>&1; }

# Processes that run in the environment of a test, or a program of the build directory.
left_over() {
	env -u ZR_BUILDDIR grep -lsxzF "ZR_BUILDDIR=$dir/obj" /proc/[0-9]*/environ
	find /proc/[0-9]*/exe -prune -lname "$dir/obj/*" 2> /dev/null
}

# Ends what a test leaves behind: mistakes are planted in what ends trainings, too.
end_left() {
	local left p tries
	for ((tries = 0; tries < 100; tries++)); do
		left=$(left_over)
		[ -n "$left" ] || return 0
		for p in $left; do
			p=${p#/proc/}
			kill -KILL "${p%%/*}" 2> /dev/null
		done
		sleep 0.1
	done
	die "what a test left behind does not end: $left"
}

# Whether a test of the tree as it is now fails; how in $by. It is not needed to its end: the first failure ends it.
fails() {
	local t=$1 command=(bash "$dir/src/tests/$1") status
	if [ "${t%.sh}" = "$t" ]; then
		make "tests/$t" > ../build.log 2>&1 || { by="$t: does not build"; return; }
		command=(bash "$dir/src/tests/lib/cmocka.sh" "tests/$t")
	fi
	(
		timeout -k 5 "${MUTATE_PATIENCE:-300}" "${command[@]}" 2>&1
		rc=$?
		end_left >&2
		exit $rc
	) | env -u ZR_BUILDDIR awk -v log_file=../check.log '
		{ print > log_file } /^1\.\./ { whole = 1 } /^not ok/ { failed = 1; exit } END { exit failed ? 2 : !whole }'
	status=("${PIPESTATUS[@]}")
	case ${status[*]} in
	*' 2') by="$t: $(grep -m 1 '^not ok' ../check.log)" ;;
	'124 '* | '137 '*) by="$t: hangs" ;;
	'0 0') return 1 ;;
	*) by="$t: ends with status ${status[0]}: $(tail -n 1 ../check.log)" ;;
	esac
}

# Whether the test passes without any mistake, which counts once.
passes_bare() {
	grep -qx "$1" "$dir/passed" && return
	local was=$by
	build && ! fails "$1" && echo "$1" >> "$dir/passed"
	local rc=$?
	by=$was
	return $rc
}

# The i-th: $verdict, and by what.
judge() {
	local i=$1 t
	verdict=SURVIVED by=
	[ -z "${why[i]}" ] || verdict=explained by=${why[i]}
	[ "$(count "$i" "$dir/src/${file[i]}")" = 1 ] || { verdict=BROKEN by="${file[i]} does not have the old text once"; return; }
	plant "$i"
	if ! build; then
		verdict=BROKEN by=$(grep -m 1 'error:' ../build.log)
		restore
		return
	fi
	local whole=
	[ "$MUTATE_WHOLE$verdict" != yesSURVIVED ] || whole='all of them'
	for t in ${tests[i]} $whole; do
		fails "$t" || continue
		restore
		verdict=killed
		passes_bare "$t" || { verdict=BROKEN; by="$t fails without it, too"; }
		return
	done
	[ -z "$MUTATE_WHOLE" ] || [ "$verdict" != SURVIVED ] || whole_check
	restore
}

whole_check() {
	make -k check > ../check.log 2>&1
	local rc=$?
	end_left
	[ $rc != 0 ] || return
	by="the whole check: $(grep -m 1 -o '^FAIL: .*' ../check.log)"
	verdict=killed
}

chosen() {
	local pattern
	[ -n "$MUTATE_ONLY" ] || return 0
	for pattern in $MUTATE_ONLY; do [[ $1 == $pattern ]] && return 0; done
	return 1
}

summary() {
	local v
	say
	for v in killed explained SURVIVED BROKEN; do
		say "$(printf '%-9s %4d' $v "$(grep -c "	$v	" "$dir/results")")"
	done
	sort "$dir/results" | grep "$bad"
}

run() {
	dir=$ZR_BUILDDIR/mutate planted=
	trap 'restore; end_left' EXIT
	prepare "$1"
	[ -n "$MUTATE_GO_ON" ] || : > "$dir/results"
	touch "$dir/results"
	local i begin
	for i in "${!name[@]}"; do
		chosen "${name[i]}" || continue
		grep -q "^${name[i]}	" "$dir/results" && continue
		[ "$SECONDS" -le "${MUTATE_SECONDS:-1000000}" ] || break
		begin=$SECONDS
		judge "$i"
		printf '%-36s %-9s %s (%d s)\n' "${name[i]}" "$verdict" "$by" $((SECONDS - begin))
		printf '%s\t%s\t%s\n' "${name[i]}" "$verdict" "$by" >> "$dir/results"
	done
	summary
	! grep -q "$bad" "$dir/results"
}

unset MAKEFLAGS MFLAGS MAKELEVEL
read_table
if [ "$1" = run ]; then
	run "$2"
else
	of_texts
	check_table
fi
