#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I7: a plugin that cannot be used is refused with the field, both values, the file and the remedy, and with exit
# code 2. And what `zeroth plugin list|info` show.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=${ZR_SRCDIR:-.}
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
dir=$(cd "$scratch" && pwd -P)
mkdir -p "$dir/scheduler"
chmod 755 "$dir" "$dir/scheduler"
umask 022

# build FILE [-DMACRO...]: a variant of badplugin.c
build() {
	local out=$1
	shift
	${CC:-cc} -std=gnu11 -w -shared -fPIC -I"$src/include" "$@" -o "$out" "$src/tests/doubles/badplugin.c"
}

# refused NAME FILE TEXT: loading FILE ends with exactly this line
refused() {
	local said code
	said=$("$ZEROTH" plugin info "$2" 2>&1 >/dev/null)
	code=$?
	is "$1" "$code $said" "2 zeroth: $3"
}

# variant NAME TEXT -DMACRO...: builds good.so so and expects the refusal "plugin FILE: TEXT"
variant() {
	local name=$1 text=$2
	shift 2
	build "$dir/good.so" "$@" && refused "$name" "$dir/good.so" "plugin $dir/good.so: $text"
}

rebuild="rebuild it with this zeroth's headers"
variant 'another magic number' 'magic is 0x0000002a, expected 0x5a525031; it is not a plugin of zeroth' -DMAGIC=42
variant 'another ABI major' "abi_major is 2, this zeroth has 1; $rebuild" -DMAJOR=2
minor=$(sed -n 's/^#define ZR_ABI_MINOR *//p' "$ZR_SRCDIR/include/zeroth/plugin.h")
variant 'a newer ABI minor' "need_minor is 7, this zeroth has $minor; install a newer zeroth" -DNEED=7
revision=$(sed -n 's/^#define ZR_DRAFT_REVISION *//p' "$ZR_SRCDIR/include/zeroth/plugin.h")
variant 'another draft revision' "draft is 99, this zeroth has $revision; $rebuild" -DDRAFT=99
variant 'a draft interface in a file without drafts' \
	"draft is 0, zr.comm/1 of this zeroth has $revision; $rebuild" '-DIFACE="zr.comm/1"'
# Since minor 5 each role's headers have a revision of their own.
comm=$(sed -n 's/^#define ZR_DRAFT_COMM *//p' "$ZR_SRCDIR/include/zeroth/plugin.h")
uses() { printf -- '-DDRAFTS=(const uint32_t[]){%s},%s,0' "$1" "${2:-7}"; }
variant 'another revision of one role' "draft of comm is 99, this zeroth has $comm; $rebuild" "$(uses 0,99,0,0,0,0,0)"
variant 'an interface of a role whose headers it does not include' \
	"draft of comm is 0, zr.comm/1 of this zeroth has $comm; $rebuild" '-DIFACE="zr.comm/1"' "$(uses 0,0,0,0,0,0,0)"
variant 'headers of a role that this zeroth does not have' \
	'it was built with draft headers that this zeroth does not have; install a newer zeroth' "$(uses 0,0,0,0,0,0,0,10 8)"
build "$dir/good.so" -DDRAFT=99 "$(uses "0,$comm,0,0,0,0,0")"
like 'the revision of all does not count beside those of roles' "$("$ZEROTH" plugin info "$dir/good.so" 2>&1)" '^scheduler/good 1.5 '
newer='install a newer zeroth'
variant 'flags of the entry' "its entry's flags are 0x6, this zeroth knows 0x1; $newer" -DENTRY_BITS=6
variant 'flags of the descriptor' "its descriptor's flags are 0x4, this zeroth knows none; $newer" -DDESC_BITS=4
variant 'flags of an option' 'option rate: unknown flags 0x200' -DOPT_BITS=0x200
build "$dir/good.so" -DDRAFT=99 -DENTRY_BITS=1
like 'a stable interface of another draft, which can do without' "$("$ZEROTH" plugin info "$dir/good.so" 2>&1)" \
	'^scheduler/good 1.5 '
variant 'a draft interface of one that can do without drafts' \
	"draft is 99, zr.comm/1 of this zeroth has $revision; $rebuild" \
	-DDRAFT=99 -DENTRY_BITS=1 '-DIFACE="zr.comm/1"'
variant 'an entry that ends too early' 'its entry of 12 bytes has no descriptor, expected at least 40 bytes' -DENTRY_SIZE=12
variant 'no descriptor' 'its entry of 56 bytes has no descriptor, expected at least 40 bytes' -DNO_DESC
variant 'a descriptor that ends too early' 'its descriptor has 8 bytes, expected at least 112' -DDESC_SIZE=8
variant 'a descriptor that lacks a text' \
	'its descriptor lacks one of role, id, version, license, summary, ifaces, create, destroy' -DVERSION=NULL
variant 'an id that is not the name of the file' "id is other, the file's name says good; rename the file to other.so" \
	'-DID="other"'
variant 'a default out of range' "option rate: default '2': 2 is out of range [0, 1]" '-DDEFAULT="2"'
variant 'a default of another type' "option rate: default 'fast': expected a number, found 'fast'" '-DDEFAULT="fast"'
variant 'an option without default' 'option rate: no default and not required' -DDEFAULT=NULL
variant 'an option outside the struct' 'option rate: 8 bytes at offset 8, expected 8 within the 8 of its struct' -DSHIFT=8
variant 'an option of the wrong width' 'option rate: 8 bytes at offset 0, expected 1 within the 8 of its struct' -DTYPE=ZR_T_BOOL
variant 'an option of unknown type' 'option rate: unknown type 77' -DTYPE=77
variant 'an option table of another stride' 'option table with a stride of 16 bytes, expected at least 72' -DSTRIDE=16
variant 'no entry symbol' 'no symbol zr_plugin_entry_v1; end its source with ZR_PLUGIN(&descriptor)' -DNO_ENTRY

case $(uname -m) in
x86_64)
	variant 'one that changes the floating-point mode' \
		'loading it changed the floating-point mode; link it without -ffast-math' -DFP_MODE
	;;
*) skip 'one that changes the floating-point mode' 'the test knows x86 only' ;;
esac

# As UCX does, with which some builds of Open MPI are linked.
if [ -z "$ZR_SANITIZE" ]; then # they report crashes themselves
	build "$dir/good.so" -DTAKES_SIGNALS
	like 'I5: a library that takes signals hides no crash' \
		"$("$ZEROTH" schedule "$src/tests/lib/matrix.ini" -o data.path="$0" -o scheduler.plugin="$dir/good.so" --steps 2 2>&1)" \
		'^zeroth: killed by SIGSEGV \(Segmentation fault\) in create\(\) of plugin scheduler/good'
fi

build "$dir/libdep.so"
echo 'int x;' >"$dir/x.c"
${CC:-cc} -shared -fPIC -Wl,--no-as-needed -o "$dir/good.so" "$dir/x.c" "$dir/libdep.so"
refused 'an entry that belongs to a library it was linked with' "$dir/good.so" \
	"plugin $dir/good.so: zr_plugin_entry_v1 belongs to $dir/libdep.so, with which it was linked; link plugins with no other"

build "$dir/whole.so"
size=$(wc -c <"$dir/whole.so")
head -c $((size - 100)) "$dir/whole.so" >"$dir/good.so"
like 'a truncated file' "$("$ZEROTH" plugin info "$dir/good.so" 2>&1)" \
	"^zeroth: plugin $dir/good.so: truncated: it has $((size - 100)) bytes and its headers promise $size; copy or build it again\$"
head -c 70 "$dir/whole.so" >"$dir/good.so"
refused 'a file truncated within its headers' "$dir/good.so" \
	"plugin $dir/good.so: truncated: 70 bytes end within its program headers; copy or build it again"
echo 'plugin' >"$dir/good.so"
refused 'a file that is no ELF' "$dir/good.so" "plugin $dir/good.so: not an ELF file; a plugin is a shared object"
: >"$dir/good.so"
refused 'an empty file' "$dir/good.so" "plugin $dir/good.so: not an ELF file; a plugin is a shared object"
refused 'a missing file' "$dir/none.so" "plugin $dir/none.so: No such file or directory"
refused 'a directory' "$dir/scheduler/" "plugin $dir/scheduler: not a regular file"

# A file system that is slow or fails is not a truncated file.
if [ -z "$ZR_SANITIZE" ]; then
	build "$dir/good.so"
	${CC:-cc} -std=gnu11 -w -shared -fPIC -o "$dir/slowread.so" \
		"$src/tests/doubles/slowread.c" -ldl
	slowly() { LD_PRELOAD="$dir/slowread.so" ZR_SLOWREAD=$1 "$ZEROTH" plugin info "$dir/good.so" 2>&1 | head -n 1; }
	for how in eintr short; do
		is "reads of a plugin's file: $how" "$(slowly $how)" 'scheduler/good 1.5 (Apache-2.0): For tests.'
	done
	is "reads of a plugin's file: EIO at first" "$(slowly 'eio 1')" "zeroth: plugin $dir/good.so: cannot read it: Input/output error"
	is "reads of a plugin's file: EIO later" "$(slowly 'eio 3')" \
		"zeroth: plugin $dir/good.so: cannot read its program headers: Input/output error"
else
	skip "reads of a plugin's file" 'sanitizers want to be the first library'
fi

echo 'int missing(void); int f(void) { return missing(); } ' >"$dir/x.c"
${CC:-cc} -shared -fPIC -o "$dir/good.so" "$dir/x.c"
like "dlopen's own text, verbatim" "$("$ZEROTH" plugin info "$dir/good.so" 2>&1)" \
	"^zeroth: plugin $dir/good.so: $dir/good.so: undefined symbol: missing\$"

build "$dir/good.so"
chmod 666 "$dir/good.so"
refused 'a file that others can write' "$dir/good.so" \
	"plugin $dir/good.so: mode is 0666, writable by others; run chmod o-w on it"
chmod 644 "$dir/good.so"
mkdir "$dir/open"
cp "$dir/good.so" "$dir/open/good.so"
chmod 777 "$dir/open"
refused 'a file in a directory that others can write' "$dir/open/good.so" \
	"plugin $dir/open/good.so: its directory's mode is 0777, writable by others; run chmod o-w on it"
ln -s "$dir/open/good.so" "$dir/scheduler/good.so"
refused 'a link to one' "$dir/scheduler/good.so" \
	"plugin $dir/open/good.so: its directory's mode is 0777, writable by others; run chmod o-w on it"
chmod 1777 "$dir/open"
ok 'a directory that others can write but not rename in is fine' "$ZEROTH" plugin info "$dir/open/good.so"
rm "$dir/scheduler/good.so"

# ---- owners ----
if [ "$(id -u)" = 0 ] && chown 4242 "$dir/open" 2>/dev/null; then
	owner=$(stat -c %u "$ZEROTH")
	theirs="belongs to uid 4242, who can change it; the owner must be root, you (uid 0) or the owner of zeroth (uid $owner)"
	copy='copy the plugin to a directory of yours if you trust it'
	refused 'a file in a directory that is another user'"'"'s' "$dir/open/good.so" \
		"plugin $dir/open/good.so: its directory $theirs: $copy"
	chown 0 "$dir/open"
	chown 4242 "$dir/open/good.so"
	refused 'a file that is another user'"'"'s' "$dir/open/good.so" "plugin $dir/open/good.so: it $theirs: $copy"
	mkdir "$dir/built"
	cp "$ZEROTH" "$dir/built/zeroth"
	chown 4242 "$dir/open" "$dir/built/zeroth"
	ok 'but the owner of zeroth may own plugins, as in a build under sudo' \
		"$dir/built/zeroth" plugin info "$dir/open/good.so"
	chown 0 "$dir/built/zeroth" "$dir/open"
	chmod 755 "$dir" "$dir/built"
	if command -v setpriv >/dev/null; then
		as() { setpriv --reuid "$1" --regid "$1" --clear-groups "$dir/built/zeroth" plugin info "$dir/open/good.so" 2>&1; }
		like 'one'"'"'s own is fine' "$(as 4242)" '^scheduler/good 1.5 '
		is 'that of a third user is not' "$(as 4343)" \
			"zeroth: plugin $dir/open/good.so: it ${theirs/uid 0) or*/uid 4343) or} the owner of zeroth (uid 0): $copy"
	fi
	chown 0 "$dir/open/good.so"
else
	skip 'owners of plugins' 'only root can give files away'
fi

# ---- by id, in directories ----
good() { ZEROTH_PLUGIN_PATH=$1 "$ZEROTH" plugin info "$2" 2>&1; }
cp "$dir/good.so" "$dir/scheduler/good.so"
is 'an id is found in ZEROTH_PLUGIN_PATH' "$(good "$dir" scheduler/good | head -n 1)" \
	'scheduler/good 1.5 (Apache-2.0): For tests.'
is 'a relative directory is refused' "$(good plugins:$dir scheduler/good)" \
	"zeroth: ZEROTH_PLUGIN_PATH: 'plugins' is not an absolute path"
is 'so is a relative ZEROTH_DATA_PATH' \
	"$(cd "$dir" && ZEROTH_DATA_PATH=conf "$ZEROTH" train "$ZR_SRCDIR/conf/quickstart.ini" -o run.dir="$dir/never" 2>&1 | tail -n 1)" \
	"zeroth: ZEROTH_DATA_PATH: 'conf' is not an absolute path"
is 'a misspelt id gets the nearest' "$(good "$dir" scheduler/godo)" \
	"zeroth: no scheduler plugin 'godo'; did you mean good? \`zeroth plugin info scheduler/good\` lists its options"
like 'an id like no other gets the directories' "$(good "$dir" scheduler/elephant)" \
	"^zeroth: no scheduler plugin 'elephant' in $dir:/[^ ]*, which has .*good.*"
is 'a path is not an id' "$(good "$dir" scheduler/../good)" 'zeroth: plugin scheduler/../good: No such file or directory'
(cd "$dir" && good / good >"$dir/said")
is 'the working directory is not searched' "$(cat "$dir/said")" "zeroth: no plugin 'good'; see \`zeroth plugin list\`"
mkdir -p "$dir/first/scheduler" "$dir/first/optimizer"
ln -s /nowhere "$dir/first/scheduler/good.so"
is 'a broken link is not passed over' "$(good "$dir/first:$dir" scheduler/good)" \
	"zeroth: plugin $dir/first/scheduler/good.so: No such file or directory"
rm "$dir/first/scheduler/good.so"
cp "$dir/good.so" "$dir/first/optimizer/good.so"
is 'a plugin in the directory of another role' "$(good "$dir/first" optimizer/good)" \
	"zeroth: plugin $dir/first/optimizer/good.so: role is scheduler, expected optimizer; name it in a section of its role"
is 'one id in two roles is ambiguous' "$(good "$dir/first:$dir" good)" \
	'zeroth: good is ambiguous: optimizer/good or scheduler/good'
rm "$dir/first/optimizer/good.so"

# ---- list ----
cp "$dir/good.so" "$dir/first/scheduler/good.so"
build "$dir/first/scheduler/crash.so" -DCRASH '-DID="crash"'
build "$dir/first/scheduler/quit.so" -DQUIT '-DID="quit"'
build "$dir/first/scheduler/chatter.so" -DCHATTER '-DID="chatter"'
build "$dir/first/scheduler/lacks.so" '-DPROBE="no such machine"' '-DID="lacks"'
build "$dir/first/scheduler/older.so" '-DPROBE="no such machine"' -DDESC_SIZE=112 '-DID="older"'
build "$dir/first/scheduler/major.so" -DMAJOR=3 '-DID="major"'
list=$(ZEROTH_PLUGIN_PATH=$dir/first:$dir "$ZEROTH" plugin list 2>&1)
code=$?
is 'list survives all of them' "$code" 0
like 'list shows a plugin' "$list" '^scheduler/good +1\.5 +For tests\.$'
like 'list shows one that crashes' "$list" '^scheduler/crash +unusable: crashes when loaded: Segmentation fault$'
like 'list shows one that ends the process' "$list" '^scheduler/quit +unusable: ends the process that loads it$'
like 'list shows one that prints, silently' "$list" '^scheduler/chatter +1\.5 +For tests\.$'
is 'what it printed is gone' "$(grep -c '^chatter' <<<"$list")" 0
like 'list shows why one is refused' "$list" "^scheduler/major +unusable: abi_major is 3, this zeroth has 1; $rebuild\$"
like 'list shows what the machine lacks for one' "$list" '^scheduler/lacks +not on this machine: no such machine$'
like 'list does not ask a descriptor that ends before it' "$list" '^scheduler/older +1\.5 +For tests\.$'
like 'list shows a duplicate that is never used' "$list" "$dir/scheduler/good.so \(never used: an earlier directory has it\)\$"
is 'and only that one' "$(grep -c 'never used' <<<"$list")" 1
mkdir "$dir/loop"
ln -s scheduler "$dir/loop/scheduler"
like 'list says of which directory it cannot tell, I7' "$(ZEROTH_PLUGIN_PATH=$dir/loop "$ZEROTH" plugin list 2>&1)" \
	"^zeroth: warning: $dir/loop/scheduler: its plugins cannot be listed: Too many levels of symbolic links\$"
is 'and nothing of one that is not there' "$(ZEROTH_PLUGIN_PATH=$dir/nowhere "$ZEROTH" plugin list 2>&1 | grep -c warning)" 0
json=$(ZEROTH_PLUGIN_PATH=$dir/first:$dir "$ZEROTH" plugin list --json)
if command -v python3 >/dev/null; then
	is 'list --json says the same' "$(python3 -c 'import json, sys
for p in json.load(sys.stdin):
    if p["file"].startswith(sys.argv[1]): print(p["role"], p["id"], p.get("version"), p["shadowed"], "error" in p)' "$dir" <<<"$json")" \
		'scheduler chatter 1.5 False False
scheduler crash None False True
scheduler good 1.5 False False
scheduler good 1.5 True False
scheduler lacks 1.5 False False
scheduler major None False True
scheduler older 1.5 False False
scheduler quit None False True'
	is 'info --json says the same' "$("$ZEROTH" plugin info --json "$dir/good.so" | python3 -c 'import json, sys
p = json.load(sys.stdin); o = p["options"][0]
print(p["role"], p["id"], p["interfaces"], o["name"], o["type"], o["default"], o["range"], o["doc"])')" \
		"scheduler good ['zr.scheduler/1'] rate number 0.5 [0, 1] Learning rate at every step."
else
	skip 'list --json says the same' 'no python3'
	skip 'info --json says the same' 'no python3'
fi

# ---- plugins for GPUs, without a driver ----
built=${ZR_TEST_PLUGINS:-plugins}
for id in device/cuda comm/nccl; do
	if [ ! -e "$built/$id.so" ]; then
		role=${id%/*}
		like "$id that was not built" "$("$ZEROTH" config check "$ZR_SRCDIR/conf/quickstart.ini" \
			-o "$role.plugin=${id#*/}" 2>&1)" \
			"no $role plugin '${id#*/}' .*; this build goes without (CUDA|NCCL): \./configure --with-cuda"
		skip "$id without a driver" 'not built'
		continue
	fi
	[ ! -e /dev/nvidiactl ] || { skip "$id without a driver" 'this machine has one'; continue; }
	list=$(ZEROTH_PLUGIN_PATH=$built "$ZEROTH" plugin list)
	is "list survives $id without a driver" $? 0
	like "list says why $id cannot be used" "$list" "^$id +not on this machine: no NVIDIA driver on this machine\$"
	[ $id = device/cuda ] || continue # NCCL is not needed for one rank
	said=$(cd "$dir" && ZEROTH_PLUGIN_PATH=$built timeout 60 "$ZEROTH" train "$ZR_SRCDIR/conf/quickstart.ini" -o device.plugin=cuda 2>&1)
	is "a training with $id is refused in a line" "$? $said" "2 zeroth: -o: [device] plugin = cuda: no NVIDIA driver on this machine; plugin = cpu needs none"
done

# ---- info ----
info=$("$ZEROTH" plugin info "$dir/good.so")
like 'info shows the file' "$info" "^  file        $dir/good.so\$"
like 'info shows the ABI' "$info" "^  abi         1\.$minor, needs 1\.0; built with "
like 'info shows an option and its default' "$info" '^  rate = 0\.5$'
like 'info shows its type and range' "$info" '^      number \[0, 1\]$'
like 'info shows what it means' "$info" '^      Learning rate at every step\.$'

done_testing
