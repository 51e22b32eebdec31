#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# I4: core names no plugin. The include arrows of the architecture.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
of_texts
cd "${ZR_SRCDIR:-.}" || exit 99

# But for templates: what is made of them is its author's.
sources() { find "$@" -name '*.[ch]' ! \( -path 'cmd/new/*' ! -name 'new_plugin.?' \) | sort; }

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

libc='<(sys|linux|arpa|net|netinet)/[a-z0-9_/]+\.h>|<[a-z0-9_]+\.h>'
mine='"[a-z0-9_.]+\.h"'

only 'public headers include libc and each other' include "$libc" '<zeroth/[a-z]+\.h>'
only 'kernels include kernels.h and their own parts' kernels/cpu "$libc" "$mine" '<kernels\.def>'
only 'kernels.h includes the argument structs of device.h' kernels/kernels.h "$libc" '<zeroth/device\.h>' \
	'"kernels\.def"'
only 'core includes core and the public headers' core "$libc" '<zeroth/[a-z]+\.h>' '<ops\.def>' \
	'"core/((config|plugin|model|memory|program|lower|exec|update|base|pretrained)/)?[a-z0-9_]+\.(h|def)"'
only 'files includes files, core and the public headers' files "$libc" '<zeroth/[a-z]+\.h>' \
	'"core/((config|plugin|model|memory|exec|base|pretrained)/)?[a-z0-9_]+\.h"' \
	'"files/((chat|chat/jinja|checkpoint|direct|gguf|pretrained|tokenizer|tokens|torch)/)?[a-z0-9_]+\.h"'
below_cmd=("$libc" '<zeroth/[a-z]+\.h>'
	'"core/((config|plugin|model|memory|program|lower|exec|base|pretrained)/)?[a-z0-9_]+\.h"'
	'"files/((chat|checkpoint|direct|gguf|pretrained|tokenizer|tokens|torch)/)?[a-z0-9_]+\.h"'
	'"train/([a-z]+/)?[a-z0-9_]+\.h"')
only 'train includes train, files, core and the public headers' train "${below_cmd[@]}" '<ops\.def>'
only 'cmd includes cmd, train, files, core and the public headers' cmd "${below_cmd[@]}" \
	'"cmd/([a-z]+/)?[a-z0-9_]+\.(h|def)"' "$mine"

# embed trains without a word: train/run/ prints.
only 'embed includes the silent parts of train, files, core and the public headers' embed "$libc" \
	'<zeroth/[a-z]+\.h>' '"core/((base|config|memory)/)?[a-z0-9_]+\.h"' '"files/checkpoint/checkpoint\.h"' \
	'"train/[a-z_]+\.h"' '"embed/[a-z]+\.h"'

plugin_found=
for role in plugins/*/; do
	allowed=("$libc" '<zeroth/[a-z]+\.h>' "\"(${role})?[a-z0-9_]+\\.h\"" '"plugins/descriptor\.h"')
	[ "$role" != plugins/device/ ] || allowed+=('<cublasLt\.h>' '<nvtx3/nvToolsExt\.h>' '<ops\.def>')
	[ "$role" != plugins/monitor/ ] || allowed+=('"files/protobuf\.h"')
	[ "$role" != plugins/data/ ] || allowed+=('"files/(chat/chat|content|tokenizer/tokenizer|tokens/documents)\.h"')
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

# ---- the picture in ARCHITECTURE.md ----
# Lines "FOLDER -> FOLDER...": what the files of a folder include, itself left out.
arrows() {
	local dir targets
	for dir in cmd train embed files core plugins kernels; do
		targets=$(find $dir -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | xargs grep -hoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]*' |
			sed -E 's/.*["<]//' | awk -v self=$dir '
				/^zeroth\// { print 6, "include"; next }
				/^kernels(_cuda)?\.h$|^(cpu|cuda)\// { if (self != "kernels") print 5, "kernels"; next }
				split($0, part, "/") > 1 && index("cmd train files core", part[1]) && part[1] != self {
					print index("cmd train files core", part[1]) / 10, part[1]
				}' | sort -n -u | awk '{ printf " %s", $2 }')
		printf '%-7s ->%s\n' $dir "$targets"
	done
}
is 'ARCHITECTURE.md draws the arrows that the includes have' "$(sed -n '/^cmd .*->/,/^kernels/p' ARCHITECTURE.md)" "$(arrows)"

# An id is looked for as a word of any string; one that is also a plain word, as a whole string; and one that core itself
# needs as a word (element types are also precisions), as a path.
plain=' constant cpu csv jsonl keep linear '
words=' local text tokens fp32 bf16 fp16 recompute offload '
ids=$(find plugins -name local.mk | xargs grep -hoE '[a-z0-9_]+\.la' | sed 's/\.la$//' | sort -u)
ok 'there are plugins to look for' test -n "$ids"
named=
mapfile -t files < <(sources core files/*.[ch] files/checkpoint files/direct files/pretrained)
for id in $ids; do
	literal="\"([^\"]*[^\"a-z0-9_])?$id([^\"a-z0-9_][^\"]*)?\""
	case $plain in *" $id "*) literal="\"([^\"]*[/=])?$id(\\.so)?\"" ;; esac
	case $words in *" $id "*) literal="\"[^\"]*([/=]$id|$id\\.so)\"" ;; esac
	named+=$(grep -HnE "$literal" "${files[@]}" |
		grep -vE "^[^:]*:[0-9]*:[[:space:]]*(/\*|\*|//)")
done
if [ -z "$named" ]; then pass 'I4: core names no plugin'; else fail 'I4: core names no plugin' "$named"; fi

# and the files of core itself
# A file and its header count as one. tsort names what is in a circle.
circles=$(sources core | xargs grep -o '#include "core/[^"]*\.h"' /dev/null |
	sed 's|\.[ch]:.*"\(.*\)\.h"| \1|' | awk '$1 != $2' | tsort 2>&1 > /dev/null)
is 'no files of core include each other in a circle' "$circles" ''

# calls FOLDER...: of the objects below them a pair a line: one that uses a symbol, and the one of its folder, or of its
# plugin, that has it.
calls() {
	(cd "$ZR_BUILDDIR" && find "$@" -name '*.o' -print0 | xargs -0r nm -gAP) | awk '
		# a plugin of one file, or of a folder; else the first folder
		function parts_of(object, to) {
			if (!(split(object, path, "/") > 2 && path[1] == "plugins")) {
				to[1] = path[1]
				return 1
			}
			to[1] = path[3] == "decoder" ? path[3] : path[2] "/" path[3]
			to[2] = object
			sub(/.*\//, "", to[2])
			sub(/_la-.*/, "", to[2])
			to[2] = path[2] "/" to[2]
			return 1 + (to[1] != to[2])
		}
		{ sub(/:$/, "", $1); sub(/\.libs\//, "", $1) }
		$1 != object { object = $1; n = parts_of(object, part) }
		{
			for (i = 1; i <= n; i++)
				if ($3 == "U") uses[part[i] " " object " " $2]
				else has[part[i] " " $2] = object
		}
		END {
			for (i in uses) {
				split(i, u, " ")
				at = u[1] " " u[3]
				if (at in has && has[at] != u[2]) print u[2], has[at]
			}
		}'
}

ok 'there are calls to look at' test "$(calls core | wc -l)" -gt 300
circles=$(calls core files train cmd embed plugins | tsort 2>&1 > /dev/null)
is 'no files of a folder, or of a plugin, call each other in a circle' "$circles" ''

wide=$(sources include core files train cmd embed plugins kernels tests | grep -v ^tests/golden/ | xargs awk '
	length * 8 > 100 {
		columns = 0
		n = split($0, part, "\t")
		for (i = 1; i < n; i++)
			columns += length(part[i]) + 8 - length(part[i]) % 8
		if (columns + length(part[n]) > 100) print FILENAME ":" FNR
	}')
is 'no line of C has more than 100 columns' "$wide" ''
upward=$(sources core | xargs grep -HnE '"files/' /dev/null)
is 'core does not know of formats on disk' "$upward" ''

unlicensed=$(sources include core files train cmd embed plugins kernels tests bench | xargs awk '
	FNR == 1 { bare[FILENAME] }
	FNR <= 3 && /SPDX-License-Identifier: Apache-2\.0/ { delete bare[FILENAME] }
	END { for (file in bare) print file }')
is 'every source file states its license' "$unlicensed" ''

gone=$(grep -v '^#' tests/reached | while read -r script _; do [ -e "tests/system/$script" ] || echo "$script"; done)
is 'what sanitizers leave out are scripts' "$gone" ''

done_testing
