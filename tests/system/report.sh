#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth report: one HTML page of run directories, of any age and state.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
. "$ZR_SRCDIR/tests/lib/rig.sh"
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99

tiny text 1 2 12 </dev/null
sed -i 's/^steps = .*/&\neval_every = 4/' tiny.ini
timeout 120 "$ZEROTH" train tiny.ini -o run.dir=run >out 2>log || cat out log
"$ZEROTH" report run >out 2>err
is 'report: exit code, output' "$? $(cat out err)" '0 run/report.html'
page=$(cat run/report.html)
for section in training time memory timeline numbers config machine samples; do
	like "the page has the section $section" "$page" "<h2 id=\"$section\">"
done
for chart in loss lr norm speed; do
	like "the page has the chart $chart" "$page" "<figure class=\"card chart\" id=\"$chart\">"
done
like 'what is missing is said' "$page" 'no sample was drawn'
is 'nothing of the page comes from elsewhere' "$(grep -oE '(src|href)="[^#d][^"]*"|https?://[^"]*' run/report.html |
	grep -v '^http://www.w3.org/2000/svg')" ''
if command -v python3 >/dev/null; then
	is 'the data is JSON, with a point of every step' "$(python3 - <<'END'
import json, re
text = open('run/report.html').read()
data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
print(data['loss']['curves'][0]['x'] == list(range(1, 13)), data['loss']['curves'][1]['x'])
END
)" 'True [4, 8, 12]'
	is 'all elements are closed' "$(python3 - <<'END'
from html.parser import HTMLParser
class Check(HTMLParser):
    stack, bad = [], []
    def handle_starttag(self, tag, attrs):
        if tag not in ('meta', 'link', 'input', 'br'):
            self.stack.append(tag)
    def handle_startendtag(self, tag, attrs):
        pass
    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.bad.append(tag)
check = Check()
check.feed(open('run/report.html').read())
print(check.stack, check.bad)
END
)" '[] []'
else
	skip 'the data is JSON, with a point of every step' 'no python3'
	skip 'all elements are closed' 'no python3'
fi

ok 'report --help' "$ZEROTH" report --help
is 'report without a run' "$("$ZEROTH" report 2>&1 | head -n 1)" 'zeroth report: RUN is missing'

# a run that goes on, of an older version: rows alone, the last one torn, names that would be markup
mkdir 'old <b>'
printf 'step,loss,lr\n1,5,0.1\n2,4,0.1\n3,' >'old <b>/metrics.csv'
ok 'a run of rows alone' "$ZEROTH" report -o both.html run 'old <b>'
page=$(cat both.html)
like 'a name is text' "$page" 'old &lt;b&gt;'
is 'and never markup' "$(grep -c 'old <b>' both.html)" 0
like 'a torn line is said' "$page" 'last line of the metrics has no end'
like 'that it goes on, too' "$page" 'still going, or was killed'
like 'where configurations differ' "$page" '<td>12</td><td>-</td>'

fails() { # fails NAME PATTERN [argument]...
	local name=$1 pattern=$2
	shift 2
	"$ZEROTH" report "$@" >out 2>err
	is "$name: exit code" "$?" 2
	like "$name" "$(cat err)" "$pattern"
}
mkdir empty
fails 'a directory of something else' '^zeroth: empty: is not the directory of a run' empty
fails 'a directory that is not there' '^zeroth: nowhere: No such file' nowhere
fails 'a file' '^zeroth: tiny.ini: is not a directory' tiny.ini
done_testing
