#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth report: one HTML page of run directories, of any age and state. zeroth watch: the same in a terminal.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
. "$ZR_SRCDIR/tests/lib/fixture.sh"
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
like 'the machine has its processors' "$page" \
	"<td>$(getconf _NPROCESSORS_ONLN)</td><td>cpu</td>"
like 'what is missing is said' "$page" 'no sample was kept'
like 'a chart without a point is not drawn' "$page" '>Loss scale</b>: no loss scale was recorded'
cp -r run pages
awk '{ sub(/"memory":[^,]*/, "\"memory\":" 52592640 + 4096 * (NR > 1)); sub(/"host_bytes":[^,}]*/, "\"host_bytes\":52592640"); print }' \
	run/metrics.jsonl > pages/metrics.jsonl
"$ZEROTH" report pages > out
ticks=$(sed -n 's/.*id="held".*class="ys"[^>]*>\(.*\)class="xs".*/\1/p' pages/report.html | grep -o '>[0-9.]* MiB<')
like 'memory has ticks' "$ticks" 'MiB'
is 'each with a text of its own, where memory grows by a page' "$(uniq -d <<<"$ticks")" ''
# rows MADE ROW...: the run again, with other rows
rows() {
	cp -r run "$1"
	printf '%s\n' "${@:2}" > "$1/metrics.jsonl"
	"$ZEROTH" report "$1" > out
}
legend() { sed -n 's/.*id="'"$2"'".*class="legend">\(.*\)<\/ul>.*/\1/p' "$1" | grep -o '</i>[^<]*' | cut -c 5- | tr '\n' ' '; }
fact() { sed -n "s/.*<dt>$2<\/dt><dd>\([^<]*\)<.*/\1/p" "$1/report.html"; }
rows sets '{"step":12,"loss":5,"aux_loss":0.04,"val_loss":5,"eval.a.loss":4,"eval.b.loss":3}'
is 'losses of [eval.NAME] are beside that of validation' "$(legend sets/report.html loss)" 'loss val_loss eval.a.loss eval.b.loss '
is 'that of routers is elsewhere' "$(legend sets/report.html other0)" 'aux_loss '
"$ZEROTH" report -o two.html run sets > out
is 'also where the first run has none' "$(legend two.html loss | grep -o 'sets: eval.[ab].loss' | tr '\n' ' ')" \
	'sets: eval.a.loss sets: eval.b.loss '
is 'nor those of routers' "$(legend two.html other0)" 'sets: aux_loss '
# what is not finite is null there
rows diverged '{"step":11,"loss":5.5,"val_loss":5.5}' '{"step":12,"loss":null,"val_loss":null}'
is 'the last loss of a run that diverged is not the last finite one' "$(fact diverged 'last loss')" 'not finite'
like 'nor in its numbers' "$(cat diverged/report.html)" '<th scope="row">loss</th><td>5.5</td><td>not finite</td><td>5.5</td>'
like 'nor in the terminal' "$(COLUMNS=100 LC_ALL=C "$ZEROTH" watch diverged | sed -n 2p)" 'loss not finite  val not finite'
# ten times as fast for a step: 11 s for two steps
rows rates '{"step":11,"tokens_per_s":100,"step_seconds":10,"possible":0.05}' '{"step":12,"tokens_per_s":1000,"step_seconds":1,"possible":0.5}'
sed -i '/"tokens_per_s"/d' rates/summary.json
"$ZEROTH" report rates > out
is 'tokens per second are those of all steps together' "$(fact rates 'tokens per second'), $(fact rates 'of what is possible')" '181.8, 9%'
like 'among the numbers, too' "$(cat rates/report.html)" '<th scope="row">tokens_per_s</th>(<td>[0-9,]+</td>){4}<td>181\.8</td><td>2</td>'
like 'in the terminal, too' "$(COLUMNS=100 LC_ALL=C "$ZEROTH" watch rates | sed -n 2p)" 'tokens/s 181.8 .* of possible 9%'
# what of a summary is older than the last row
rows longer '{"step":23,"tokens":9000,"tokens_per_s":500,"skipped":1}' '{"step":24,"tokens":9999,"tokens_per_s":500,"skipped":1}'
is 'a run that went on has the tokens of its rows' \
	"$(fact longer tokens), $(fact longer 'tokens per second'), $(fact longer 'skipped steps')" '9,999, 500, 2'
like 'but not the memory and machine of the process before' "$(grep -E 'not known before the run ends|stand in summary' longer/report.html)" \
	$'What was held is not known\ndevice and ranks stand in summary'
rows early '{"step":3,"tokens_per_s":100,"step_seconds":10}'
is 'nothing is left of a run that ended before its last step' "$(COLUMNS=100 LC_ALL=C "$ZEROTH" watch early | grep -o ' left ')" ''
rows shared '{"step":12,"loss":5}'
echo '{"planned":{"host":{"activations":3000,"batch":1000}},"shared":{"host":1000},"total":{"host":3000},"held_by_plugins":{"data":96}}' > shared/plan.json
"$ZEROTH" report shared > out
like 'what is planned has the sum of the plan' "$(cat shared/report.html)" '<title>planned: 3\.02 KiB</title>.*</svg><b>3\.02 KiB</b>'
like 'a point that is alone is a dot' "$(cat shared/report.html)" '<path class="line alone r0" data-run="0" d="M500\.0 [0-9.]*h0"/>'
rows halfway '{"step":1,"step_seconds":1,"elapsed":1}' '{"step":2,"step_seconds":1,"elapsed":11}'
rm halfway/summary.json
like 'what is left has evaluations' "$(COLUMNS=100 LC_ALL=C "$ZEROTH" watch halfway | sed -n 2p)" 'left 100 s '
rows far '{"step":12345678,"loss":5}' '{"step":12345679,"loss":4}'
like 'a step has all its digits in the data' "$(cat far/report.html)" '"x":\[12345678,12345679\]'
rows steep '{"step":11,"lr":1e-9}' '{"step":12,"lr":1}'
like 'a chart without a unit is logarithmic' "$(grep -o 'id="lr"><figcaption>.*small>' steep/report.html)" '<small>logarithmic</small>'
is 'a chart names what it has' "$(grep -o 'id="bits"><figcaption>[^<]*' run/report.html)" 'id="bits"><figcaption>Validation in bits per byte '
rows skips '{"step":11,"loss":5,"skipped":1}' '{"step":12,"loss":5,"skipped":0}'
like 'what was skipped without a loss scale has no chart of it' "$(grep -o 'id="scale"><figcaption>[^<]*' skips/report.html)" 'Skipped steps'
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

# each sample has its head, and the categories of memory their colours
{ echo '--- step 4, seed 1'; echo 'one <i>'; echo; echo '--- step 4, seed 2'; echo two; } >run/samples.txt
"$ZEROTH" report run >out
page=$(cat run/report.html)
is 'samples lie apart' "$(grep -c '<h4>step 4, seed [12]' run/report.html)" 2
like 'and are text' "$page" '<pre class="sample">one &lt;i&gt;'
is 'one colour is one category' "$(grep -o '<li><i class="p[0-9]"></i>[a-z ]*</li>' run/report.html |
	sort -u | grep -o 'class="p[0-9]"' | sort | uniq -d)" ''
is 'masters have the same colour everywhere' \
	"$(grep -o '<i class="p[0-9]*"></i>master parameters' run/report.html | sort -u)" \
	'<i class="p5"></i>master parameters'
rm run/samples.txt

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

# ---- zeroth watch ----
watch() { COLUMNS=100 LINES=30 "$ZEROTH" watch "$@"; }
LC_ALL=C watch run >out 2>err
is 'watch: exit code, messages' "$? $(cat err)" '0 '
like 'watch: how the run ended' "$(head -n 1 out)" '^run  finished$'
like 'watch: where it stands' "$(sed -n 2p out)" '^step 12 of 12 \(100%\)  loss [0-9.]+'
is 'watch: the loss is that of the step' "$(sed -n '2s/.*  loss \([0-9.]*\) .*/\1/p' out)" \
	"$(printf %.4g "$(tail -n 1 run/metrics.jsonl | sed 's/.*"loss":\([0-9.]*\).*/\1/')")"
like 'watch: curves' "$(cat out)" 'loss  [0-9.]+.*tokens/s'
is 'watch: no line is longer than the terminal' "$(awk 'length > 100' out)" ''
is 'watch: no codes of a terminal in a file' "$(grep -c $'\033' out)" 0
is 'watch: ASCII where the locale is' "$(LC_ALL=C grep -c '[^ -~]' out)" 0
if locale -a 2>/dev/null | grep -qi '^C\.utf'; then
	ok 'watch: braille where the locale is UTF-8' eval 'LC_ALL=C.UTF-8 watch run | grep -q "[⠀-⣿]"'
else
	skip 'watch: braille where the locale is UTF-8' 'no C.UTF-8'
fi
touch -d '100 seconds ago' 'old <b>/metrics.csv'
like 'watch: a run that stalls' "$(LC_ALL=C watch 'old <b>' | head -n 1)" '^old <b>  no step for [0-9.]+ s$'
cp -r run again
sed -n 's/\"step\":12/\"step\":13/p' run/metrics.jsonl >>again/metrics.jsonl
like 'watch: a run that goes on after its end' "$(LC_ALL=C watch again | head -n 1)" '^again  training$'
"$ZEROTH" report again >out
like 'report: a run that goes on after its end' "$(cat again/report.html)" 'gone on since it ended once'
mkdir new
cp run/config.ini new
like 'watch: a run without a step yet' "$(LC_ALL=C watch new | head -n 1)" '^new  no step yet$'
is 'watch without a run' "$("$ZEROTH" watch 2>&1 | head -n 1)" 'zeroth watch: RUN is missing'
is 'watch: an interval that is none' "$("$ZEROTH" watch -i 0 run 2>&1)" \
	'zeroth watch: -i 0: expected seconds in [0.05, 3600]'
ok 'watch --help' "$ZEROTH" watch --help

fails() { # fails NAME PATTERN [argument]...
	local name=$1 pattern=$2
	shift 2
	"$ZEROTH" report "$@" >out 2>err
	is "$name: exit code" "$?" 2
	like "$name" "$(cat err)" "$pattern"
}
mkdir empty
unreadable() { setpriv --bounding-set=-dac_override,-dac_read_search "$ZEROTH" "$@" 2>&1; }
[ "$(id -u)" = 0 ] || unreadable() { "$ZEROTH" "$@" 2>&1; }
mkdir -m 0 shut
if [ "$(id -u)" != 0 ] || ! setpriv --bounding-set=-dac_override,-dac_read_search ls shut > /dev/null 2>&1; then
	for command in watch report; do
		is "$command: a run that may not be read" "$(unreadable $command shut)" \
			'zeroth: shut: cannot be read: config.ini: Permission denied'
	done
else
	skip 'a run that may not be read' 'root reads everything here'
fi
rmdir shut
fails 'a directory of something else' '^zeroth: empty: is not the directory of a run' empty
fails 'a directory that is not there' '^zeroth: nowhere: No such file' nowhere
fails 'a file' '^zeroth: tiny.ini: is not a directory' tiny.ini
done_testing
