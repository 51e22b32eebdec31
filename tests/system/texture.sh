#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The texture of the code: how much a reader takes in at once. For each folder: tokens of a function
# (50th and 90th percentile), tokens of a line, conditional operators in 1,000 lines, blank lines
# inside functions in percent, chains `rc = rc ? rc : ...`. A thermometer, not a goal: it fails where
# a figure got worse, and a function that is cut in two for its sake is a defect.
#   texture.sh print   prints the table as it would stand below
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
of_texts
cd "${ZR_SRCDIR:-.}" || exit 99

# Worse is more, but for blank lines. Lower the figures where the code became better.
#        p50 p90 a_line ternaries blank chains    asked for: 75 200 8.5 (kernels 10) 15 5 0
allowed='
core     109 241 9.6 17.2 4.3 0
train    105 236 9.1 32.0 9.4 0
files    102 228 8.9 13.4 12.2 0
cmd      108 266 9.1 32.2 8.5 0
embed    93 190 8.4 28.0 9.1 0
plugins  96 225 9.0 15.9 8.4 0
kernels  76 251 10.6 36.8 4.3 0
'

figures() {
	find "$1" \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort | xargs cat | awk -v folder="$1" '
		# How many tokens a line has: a name or number, a string, any other sign.
		function tokens(line, n) {
			gsub(/"(\\.|[^"\\])*"/, " S ", line)
			n = gsub(/[A-Za-z0-9_]+/, " ", line)
			gsub(/[ \t\r]/, "", line)
			return n + length(line)
		}
		# The line without comments; in_comment goes on in the next one.
		function code(line, out, at) {
			out = ""
			while (line != "") {
				if (in_comment) {
					if (!(at = index(line, "*/"))) return out
					line = substr(line, at + 2)
					in_comment = 0
				}
				if (!match(line, /"(\\.|[^"\\])*"|\/\*|\/\//)) return out line
				at = substr(line, RSTART, 2)
				if (at == "//") return out substr(line, 1, RSTART - 1)
				if (at == "/*") {
					out = out substr(line, 1, RSTART - 1) " "
					line = substr(line, RSTART + 2)
					in_comment = 1
				} else {
					out = out substr(line, 1, RSTART + RLENGTH - 1)
					line = substr(line, RSTART + RLENGTH)
				}
			}
			return out
		}
		function percentile(p, i) { return n ? size[int(n * p) + 1] : 0 }
		{
			was_in_comment = in_comment
			line = code($0)
			bare = line !~ /[^ \t]/
			t = bare ? 0 : tokens(line)
			if (!bare) {
				lines++
				all += t
				quiet = line
				gsub(/"(\\.|[^"\\])*"/, "", quiet)
				ternaries += gsub(/\?/, "", quiet)
			}
			chains += line ~ /rc = rc \? rc/
			if (bare && !inside) head = 0
			else if (!inside) head += t
			if (!inside && line ~ /^\{/) { inside = 1; body = head }
			else if (inside) {
				body += t
				within++
				blank += $0 !~ /[^ \t]/
				if (line ~ /^\}/) { size[++n] = body; inside = head = 0 }
			}
		}
		END {
			for (i = 2; i <= n; i++) { # a heap would be faster, and longer
				x = size[i]
				for (j = i - 1; j > 0 && size[j] > x; j--) size[j + 1] = size[j]
				size[j + 1] = x
			}
			printf "%-8s %d %d %.1f %.1f %.1f %d\n", folder, percentile(.5), percentile(.9), all / lines,
				1000 * ternaries / lines, within ? 100 * blank / within : 0, chains
		}'
}

# worse FOLDER P50 P90 A_LINE TERNARIES BLANK CHAINS: names of the figures that are worse than allowed
worse() {
	awk -v now="$*" '
		BEGIN { split(now, is, " "); split("folder p50 p90 a_line ternaries blank chains", name, " ") }
		$1 == is[1] {
			found = 1
			for (i = 2; i <= 7; i++)
				if (name[i] == "blank" ? is[i] < $i : is[i] > $i) print name[i], is[i], "was", $i
		}
		END { if (!found) print "no figures are kept of", is[1] }' <<< "$allowed"
}

folders='core train files cmd embed plugins kernels'
if [ "$1" = print ]; then
	for f in $folders; do figures $f; done
	exit
fi
for f in $folders; do
	now=$(figures $f)
	note "$now"
	is "$f reads no worse than before" "$(worse $now)" ''
done
is 'the figures name what is worse' "$(allowed='x 9 9 9.0 9.0 5.0 0'; worse x 10 9 9.0 9.0 4.0 1)" \
	$'p50 10 was 9\nblank 4.0 was 5.0\nchains 1 was 0'
done_testing
