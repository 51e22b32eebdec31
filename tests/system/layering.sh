#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I4: core names no plugin. The include arrows of the architecture, and the size of its parts.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
cd "${ZR_SRCDIR:-.}" || exit 99

sources() { find "$@" -name '*.[ch]' | sort; }

# Lines "file:include" of the #includes in files under $1 that match none of the patterns after it.
strange_includes() {
	local dir=$1 pattern
	shift
	pattern=$(printf '|%s' "$@")
	sources "$dir" | xargs grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]*[">]' /dev/null |
		sed -E 's/#[[:space:]]*include[[:space:]]*//' | grep -vE "^[^:]*:[[:space:]]*(${pattern#|})\$"
}

only() {
	local name=$1 found
	shift
	found=$(strange_includes "$@")
	if [ -z "$found" ]; then pass "$name"; else fail "$name" "$found"; fi
}

libc='<(sys|linux|arpa|netinet)/[a-z0-9_/]+\.h>|<[a-z0-9_]+\.h>'
mine='"[a-z0-9_.]+\.h"'

only 'public headers include libc and each other' include "$libc" '<zeroth/[a-z]+\.h>'
only 'kernels include kernels.h and their own parts' kernels/cpu "$libc" "$mine"
only 'kernels.h includes the argument structs of device.h' kernels/kernels.h "$libc" '<zeroth/device\.h>'
only 'core includes core and the public headers' core "$libc" '<zeroth/[a-z]+\.h>' \
	'"core/((config|plugin|model|memory|program|lower|exec|update|files|pretrained)/)?[a-z0-9_]+\.h"'
only 'files includes files, core and the public headers' files "$libc" '<zeroth/[a-z]+\.h>' \
	'"core/((config|plugin|model|memory|exec|files|pretrained)/)?[a-z0-9_]+\.h"' \
	'"files/((chat|checkpoint|direct|pretrained|tokenizer|tokens)/)?[a-z0-9_]+\.h"'
only 'cmd includes cmd, files, core and the public headers' cmd "$libc" '<zeroth/[a-z]+\.h>' \
	'"core/((config|plugin|model|memory|program|lower|exec|files|pretrained)/)?[a-z0-9_]+\.h"' \
	'"files/((chat|checkpoint|direct|pretrained|tokenizer|tokens)/)?[a-z0-9_]+\.h"' '"cmd/([a-z]+/)?[a-z0-9_]+\.h"' "$mine"

only 'embed includes the silent parts of cmd, files, core and the public headers' embed "$libc" \
	'<zeroth/[a-z]+\.h>' '"core/((config|memory|files)/)?[a-z0-9_]+\.h"' '"files/checkpoint/checkpoint\.h"' \
	'"cmd/(adapter|evaluate|fit|launcher|lock|metrics|resume|run_eval|rundir|settings|weights)\.h"' '"embed/[a-z]+\.h"'

plugin_found=
for role in plugins/*/; do
	allowed=("$libc" '<zeroth/[a-z]+\.h>' "\"(${role})?[a-z0-9_]+\\.h\"")
	[ "$role" != plugins/device/ ] || allowed+=('<cublasLt\.h>')
	[ "$role" != plugins/data/ ] || allowed+=('"files/(chat/chat|tokenizer/tokenizer|tokens/documents)\.h"')
	[ "$role" = plugins/device/ ] || allowed[2]="\"(${role})?([a-z0-9_]+/)?[a-z0-9_]+\\.h\""
	found=$(strange_includes "$role" "${allowed[@]}")
	case $role in
	plugins/device/ | plugins/optimizer/) ;;
	*) found+=$(sources "$role" | xargs grep -Hn '["<]kernels\.h[">]' /dev/null) ;;
	esac
	plugin_found+=$found
done
if [ -z "$plugin_found" ]; then
	pass 'plugins include public headers, and only those of devices and optimizers kernels.h'
else
	fail 'plugins include public headers, and only those of devices and optimizers kernels.h' "$plugin_found"
fi

# An id is looked for as a word of any string; one that is also a plain word, as a whole string; and one that core itself
# needs as a word (element types are also precisions), as a path.
plain=' constant cpu csv jsonl keep '
words=' local text tokens fp32 bf16 fp16 recompute offload '
ids=$(find plugins -name local.mk | xargs grep -hoE '[a-z0-9_]+\.la' | sed 's/\.la$//' | sort -u)
ok 'there are plugins to look for' test -n "$ids"
named=
for id in $ids; do
	literal="\"([^\"]*[^\"a-z0-9_])?$id([^\"a-z0-9_][^\"]*)?\""
	case $plain in *" $id "*) literal="\"([^\"]*[/=])?$id(\\.so)?\"" ;; esac
	case $words in *" $id "*) literal="\"[^\"]*([/=]$id|$id\\.so)\"" ;; esac
	named+=$(sources core files/*.[ch] files/checkpoint files/direct files/pretrained |
		xargs grep -HnE "$literal" /dev/null |
		grep -vE "^[^:]*:[0-9]*:[[:space:]]*(/\*|\*|//)")
done
if [ -z "$named" ]; then pass 'I4: core names no plugin'; else fail 'I4: core names no plugin' "$named"; fi

# and the files of core itself
# A file and its header count as one. tsort names what is in a circle.
circles=$(for f in $(sources core); do
	grep -o '#include "core/[^"]*\.h"' "$f" | sed "s|.*\"\(.*\)\.h\"|${f%.[ch]} \1|"
done | awk '$1 != $2' | tsort 2>&1 > /dev/null)
is 'no files of core include each other in a circle' "$circles" ''

# calls FIND-ARGUMENTS: of the objects that find finds, a pair a line: one that uses a symbol, and the one that has it.
calls() {
	find "$@" -name '*.o' -print0 | xargs -0r nm -gAP | awk '
		{ sub(/:$/, "", $1); sub(/\.libs\//, "", $1) }
		$3 == "U" { uses[$1 " " $2] }
		$3 != "U" { has[$2] = $1 }
		END { for (i in uses) if (split(i, u, " ") && u[2] in has && has[u[2]] != u[1]) print u[1], has[u[2]] }'
}
# Of those alone which are in a circle.
in_circle() { calls "$@" | tsort 2>&1 > /dev/null; }

ok 'there are calls to look at' test "$(calls "$ZR_BUILDDIR/core" | wc -l)" -gt 300
circles=
for folder in core files cmd embed plugins/model/decoder; do
	circles+=$(in_circle "$ZR_BUILDDIR/$folder")
done
for plugin in "$ZR_BUILDDIR"/plugins/*/*.la; do
	id=$(basename "$plugin" .la)
	circles+=$(in_circle "${plugin%/*}" '(' -path "*/${id}_la-*" -o -path "*/$id/*" ')')
done
is 'no files of a folder, or of a plugin, call each other in a circle' "$circles" ''

# code FILE...: their lines, without blank ones and those of comments alone.
code() {
	cat "$@" | awk '
		{
			text = $0 "\n"
			line = ""
			while (text != "") {
				if (inside) {
					at = index(text, "*/")
					inside = !at
					text = at ? substr(text, at + 2) : ""
				} else {
					at = index(text, "/*")
					line = line (at ? substr(text, 1, at - 1) : text)
					inside = at > 0
					text = at ? substr(text, at + 2) : ""
				}
			}
			n += line ~ /[^ \t\n]/
		}
		END { print n + 0 }'
}
is 'lines of code are counted' "$(printf '/* a\n\n * b */\nint x; /* c */\n\t/* d */ int y;\n\n' | code -)" 2
# no_more NAME MOST FILE...
no_more() {
	local lines=$(code "${@:3}")
	ok "$1: at most $2 lines of code (there are $lines)" test "$lines" -le "$2"
}
engine="core/model core/memory core/program core/lower core/exec core/update"
no_more 'the engine' 8000 $(sources core -maxdepth 1) $(sources $engine)
no_more 'the executor' 1200 $(sources core/exec)
no_more 'the engine with config and who loads plugins' 10400 \
	$(sources core -maxdepth 1) $(sources $engine core/config core/plugin)
no_more 'who loads plugins' 710 $(sources core/plugin)
no_more 'checkpoints' 3040 $(sources files/checkpoint)
no_more 'direct I/O' 220 $(sources files/direct)
no_more 'files and JSON' 680 $(sources core/files files/*.[ch])
no_more 'models of others' 820 $(sources core/pretrained files/pretrained)

wide=$(for f in $(sources include core files cmd embed plugins kernels tests | grep -v ^tests/golden/); do
	expand "$f" | awk -v f="$f" 'length > 100 { print f ":" FNR }'
done)
is 'no line of C has more than 100 columns' "$wide" ''
upward=$(sources core | xargs grep -HnE '"files/' /dev/null)
is 'core does not know of formats on disk' "$upward" ''

long=$(sources include core files cmd embed plugins kernels tests | xargs wc -l |
	awk '$2 != "total" && $1 > 600')
is 'no file has more than 600 lines' "$long" ''

unlicensed=$(sources include core files cmd embed plugins kernels tests bench | while read -r f; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$f"
done)
is 'every source file states its license' "$unlicensed" ''

done_testing
