# SPDX-License-Identifier: Apache-2.0
#
# Plugins with a fault, for the tests of `zeroth plugin check`; each becomes ./broken.so. Needs
# tap.sh.

read -ra cc <<< "${CC:-cc}"

# compile SOURCE [flag]...: a file here
compile() {
	local source=$1
	shift
	rm -f broken.so
	"${cc[@]}" -std=gnu11 -w -O0 -fvisibility=hidden -shared -fPIC -I"$ZR_SRCDIR/include" -o broken.so \
		"$source" "$@" -lm
}

# build SOURCE [flag]...: one of tests/doubles
build() {
	local source=$1
	shift
	compile "$ZR_SRCDIR/tests/doubles/$source" "$@"
}

# named NAME TEST TEXT CODE [SECONDS [option]...]: of ./broken.so this test fails, with a text that the
# pattern matches; under sanitizers of every ninth alone
named() { ! one_in 9 || fails_by_name "$@"; }
fails_by_name() {
	local said name=$1 test=$2 text=$3 code=$4 seconds=${5:-30}
	shift $(($# < 5 ? $# : 5))
	said=$("$ZEROTH" plugin check --include "$test" --include symbols --timeout "$seconds" "$@" ./broken.so 2>&1)
	like "$name: exit code" "$?" "^($code)\$"
	like "$name: $test fails, and says why" "$(grep -A 1 "^not ok [0-9]* - $test:" <<< "$said")" "^# plugin .*$text"
}

# spoilt ROLE SED TEST TEXT: the plugin that `plugin new` writes, with a fault
spoilt() {
	one_in 9 || return
	sed "s/@ID@/broken/; $2" "$ZR_SRCDIR/cmd/new/$1.c" > spoilt.c
	compile spoilt.c
	fails_by_name "$1: $2" "$3" "$4" 1 30
}
