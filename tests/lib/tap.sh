# SPDX-License-Identifier: Apache-2.0
#
# TAP for shell tests. A test sources this, calls the functions below and ends with done_testing.
#   ok NAME COMMAND...      passes when the command succeeds; its output is shown when it fails
#   is NAME GOT WANTED      passes when both texts are equal
#   like NAME TEXT PATTERN  passes when an extended regular expression matches a line of the text,
#                           one of several lines: when each of these does
#   pass NAME, fail NAME [WHY], skip NAME WHY, skip_all WHY
#   of_texts                skips all under sanitizers, which change nothing that the test looks at
#   one_in N                yes, and under sanitizers, where a run takes several times as long and
#                           some of many like cases show as much, to each Nth call alone
#   beside COMMAND...       runs it in a subshell and an empty directory while the test goes on: for
#                           commands that wait more than they compute. At most 4 run at a time;
#                           their results are counted at the end of the test
#   children PID            its processes, one a line, ascending: bare machines have no ps
#   await PID COMMAND...    waits until the command succeeds or the child has ended, for five minutes at most
#   running PID...          those that have not ended, one a line; a zombie counts as ended
#   memory_scratch          from here on $scratch is another directory, in memory if there is room: for
#                           tests that a disk would only slow down
# $cards is the double of device/cpu whose memory only operations and copies reach, for device.plugin.
# $scratch is an empty directory, removed at the end. What a sanitizer reports of any process fails
# the test, also where nobody reads what that process prints.

tap_count=0
cards=$ZR_BUILDDIR/tests/doubles/.libs/cards.so
scratch=$(mktemp -d "${TMPDIR:-/tmp}/zeroth-test.XXXXXX") || exit 99
reports=
if [ -n "$ZR_SANITIZE" ]; then
	reports=$(mktemp -d "${TMPDIR:-/tmp}/zeroth-reports.XXXXXX") || exit 99
	for tool in ASAN UBSAN TSAN; do
		options=${tool}_OPTIONS
		export "$options=${!options}${!options:+:}log_path=$reports/report"
	done
fi
trap 'rm -rf "$scratch" ${reports:+"$reports"}' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

memory_scratch() {
	[ -w /dev/shm ] && [ -z "$TMPDIR" ] || return 0
	rm -rf "$scratch"
	scratch=$(mktemp -d /dev/shm/zeroth-test.XXXXXX) || exit 99
}

like_cases=0
one_in() { [ -z "$ZR_SANITIZE" ] || [ $((like_cases++ % $1)) = 0 ]; }

note() { printf '%s\n' "$*" | sed 's/^/# /'; }

pass() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1"
}

fail() {
	tap_count=$((tap_count + 1))
	echo "not ok $tap_count - $1"
	[ $# -lt 2 ] || note "$2"
}

skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

# Of what sanitizers find, other tests reach as much: see the list.
if [[ $ZR_SANITIZE = address* ]] && [ -z "$ZR_ALL_TESTS" ] && grep -q "^${0##*/} " "$ZR_SRCDIR/tests/reached"; then
	skip_all 'other tests reach its code (tests/reached); ./setup check --asan runs it'
fi

of_texts() { [ -z "$ZR_SANITIZE" ] || skip_all 'it runs no program of Zeroth: once is enough'; }

ok() {
	ok_name=$1
	shift
	if ok_output=$("$@" 2>&1); then pass "$ok_name"; else fail "$ok_name" "$* -> $?
$ok_output"; fi
}

is() {
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "got:    $2
wanted: $3"; fi
}

# matches TEXT PATTERN: bash itself sees whether one line does. To grep a pattern of several lines would be that many, any of
# which may match; here each has to.
matches() {
	local one
	if [[ $1$2 != *$'\n'* ]]; then
		[[ $1 =~ $2 ]]
		return
	fi
	while IFS= read -r one; do
		grep -Eq -e "$one" <<< "$1" || return
	done <<< "$2"
}

like() {
	if matches "$2" "$3"; then pass "$1"; else fail "$1" "got:            $2
wanted a match: $3"; fi
}

beside_count=0
besides=() # process and directory of each
beside() {
	beside_dir=$scratch/beside.$((beside_count++))
	while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
	mkdir "$beside_dir" || exit 99
	(
		cd "$beside_dir" && tap_count=0 && "$@"
		echo "1..$tap_count"
	) > "$beside_dir.tap" &
	besides+=("$! $beside_dir")
}

# Waits for what runs beside; its tests take the next numbers. done_testing does so, too.
join_besides() {
	local one tap
	for one in "${besides[@]}"; do
		tap=${one#* }.tap
		wait "${one%% *}"
		awk -v n="$tap_count" '/^(not )?ok [0-9]/ { sub(/[0-9]+/, ++n) } !/^1\.\.[0-9]/' "$tap"
		tap_count=$((tap_count + $(grep -cE '^(not )?ok [0-9]' "$tap")))
		[[ $(tail -n 1 "$tap") = 1..[0-9]* ]] ||
			fail "what runs beside comes to its end" "$(tail -n 3 "$tap")"
	done
	besides=()
}

children() { grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | tr -dc '0-9\n' | sort -n; }

await() {
	local end=$((SECONDS + 300))
	until "${@:2}" > /dev/null 2>&1; do
		kill -0 "$1" 2> /dev/null && [ $SECONDS -lt $end ] || return
		sleep 0.02
	done
}

# An orphan may stay a zombie for seconds, until init reaps it; kill -0 still finds it.
running() {
	local process
	for process; do
		! grep -qs '^State:[[:space:]]*[^XZ[:space:]]' "/proc/$process/task/"*/status || echo "$process"
	done
}

# Prints what sanitizers reported, the first lines of each.
reported() {
	find "$reports" -type f -exec grep -hE -A 12 'ERROR: |runtime error: |WARNING: Thread' {} + |
		head -n 60
}

done_testing() {
	join_besides
	[ -z "$reports" ] || is 'no sanitizer reports anything' "$(reported)" ''
	echo "1..$tap_count"
}
