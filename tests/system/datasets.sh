#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# python -m zeroth.data: rows of CSV and JSON lines, and where pyarrow is of Parquet, Arrow and what `datasets` saves, to
# files of tokens: the same ones, counted, begun again where they were stopped, and refused by name.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$(cd "$ZR_SRCDIR" && pwd)/tests/golden/tokenizers
command -v python3 >/dev/null || skip_all 'no python3'
cd "$scratch" || exit 99
printf a >a
"$ZEROTH" tokenize -T "$golden/gpt2.json" -o a.bin a >/dev/null 2>err
[ -z "$ZR_SANITIZE" ] || skip_all 'token_documents.sh and chat.sh test what the command does with rows'
! grep -q 'needs PCRE2' err || skip_all 'no PCRE2'
python=$(command -v "${ZR_PYTHON:-python3}")

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ZR_SRCDIR/embed ZEROTH_LIBRARY=$ZR_BUILDDIR/.libs/libzeroth.so
alone() { "$python" -m zeroth.data -T "$golden/gpt2.json" "$@" >out 2>err; echo "$? $(cat err)"; }

# data ARGUMENT...: the same, in one process for all: to start Python takes longer than what it does here.
mkfifo asked told
"$python" -c 'import contextlib, shlex, sys, zeroth.data
with open("asked") as asked, open("told", "w", 1) as told:
    for line in asked:
        with open("out", "w") as out, open("err", "w") as err, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = zeroth.data.main(shlex.split(line))
            except SystemExit as e:
                code = e.code
        print(code, file=told)' &
exec 8>asked 9<told
data() {
	printf '%q ' -T "$golden/gpt2.json" "$@" >&8
	echo >&8
	read -r code <&9
	echo "$code $(cat err)"
}
tokens() { for f in "$1"/part-*.tok; do tail -c +8193 "$f"; done | sha256sum; }

# 25 rows: plain, with line ends, quotes and other scripts; one is empty.
cat >make.py <<'END'
import csv, json
rows = [{"id": i, "text": 'row %d, "quoted"\n%s' % (i, "d\u00e9j\u00e0 \u4e16 " * (i % 4))} for i in range(24)]
rows.insert(7, {"id": 24, "text": ""})
with open("t.csv", "w", newline="") as f:
    out = csv.DictWriter(f, ["id", "text"])
    out.writeheader()
    out.writerows(rows)
with open("t.jsonl", "w") as f:
    f.writelines(json.dumps(r) + "\n" for r in rows)
END
"$python" make.py
gzip -c t.csv >t.csv.gz
"$ZEROTH" tokenize -T "$golden/gpt2.json" --content rows --documents -o whole.tok t.jsonl >/dev/null

is 'JSON lines' "$(data -o whole t.jsonl)" '0 '
is '... are the tokens that the command writes of them' "$(tail -c +8193 whole/part-00000.tok | sha256sum)" "$(tail -c +8193 whole.tok | sha256sum)"
like '... are counted' "$(cat out)" '^read        25 rows of 1 file$
^documents   24 of 24 rows: [0-9]+ tokens in 1 file$
^left out    1: empty$
^vocabulary  457 tokens'
is '... and the end is for an INI file' "$(tail -n 3 out)" "$(printf '[data]\nplugin = tokens\npath = %s/whole/part-*.tok' "$PWD")"
is 'in parts of 10 rows' "$(data -o parts --part-rows 10 t.jsonl; ls parts)" "$(printf '0 \ndata.json\npart-00000.tok\npart-00001.tok\npart-00002.tok')"
like '... which count the same' "$(cat out)" '^documents   24 of 24 rows: [0-9]+ tokens in 3 files$
^left out    1: empty$'
for file in t.csv t.csv.gz; do
	is "$file has the same" "$(data -o "of-$file" --part-rows 10 --text text $file; tokens "of-$file")" "0 
$(tokens parts)"
done
{
	printf '[data]\nplugin = tokens\npath = parts/part-*.tok\n[train]\nsteps = 2\ntrain_batch_size = 2\nmicro_batch_size = 2\n'
	printf 'sequence_length = 32\n[model]\nplugin = gpt2\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 32\nvocabulary = 457\n'
} >train.ini
like 'they train' "$("$ZEROTH" train train.ini -o run.dir=run 2>&1)" '^digest: '

# ---- stopped, and begun again ----
# A zeroth that fails as the third part begins, as one that is killed does.
cat >fails <<END
#!/bin/bash
echo x >>calls
[ "\$(wc -l <calls)" != 3 ] || exit 7
exec "$ZEROTH" "\$@"
END
chmod +x fails
(ZEROTH=$PWD/fails; export ZEROTH; alone -o again --part-rows 10 t.jsonl) >stopped
is 'a run that ends on the way' "$(cat stopped; ls again)" "$(printf '2 zeroth.data: zeroth tokenize ended with code 7\ndata.json\npart-00000.tok\npart-00001.tok')"
touch -d 2001-01-01 again/part-0000[01].tok
is 'goes on behind what is done' "$(data -o again --part-rows 10 t.jsonl; find again -name '*.tok' -newermt 2002-01-01)" "$(printf '0 \nagain/part-00002.tok')"
is '... to the same tokens' "$(tokens again)" "$(tokens parts)"
cp out first
is 'once more it has nothing to do, and says the same' "$(data -o again --part-rows 10 t.jsonl; cmp out first; find again -name '*.tok' -newermt 2002-01-01)" "$(printf '0 \nagain/part-00002.tok')"
like 'what was begun otherwise is refused' "$(data -o again --part-rows 9 t.jsonl)" '^2 zeroth.data: again: was begun with part_rows 10, now it is 9: -f begins anew, another -o keeps both$'
cp -p t.jsonl kept
echo '{"text": "more"}' >>t.jsonl
like 'so are sources that have changed' "$(data -o again --part-rows 10 t.jsonl)" '^2 zeroth.data: again: was begun with files '
mv kept t.jsonl
truncate -s -1 again/part-00001.tok
like 'so is a part that is not as it was' "$(data -o again --part-rows 10 t.jsonl)" '^2 zeroth.data: again/part-00001.tok: is not there, or not as it was written: -f begins anew$'
is '-f begins anew' "$(data -f -o again --part-rows 20 t.jsonl; ls again; tokens again)" "$(printf '0 \ndata.json\npart-00000.tok\npart-00001.tok\n%s' "$("$ZEROTH" tokenize -T "$golden/gpt2.json" -f --content rows --documents -o one <(head -n 20 t.jsonl) >/dev/null; "$ZEROTH" tokenize -T "$golden/gpt2.json" -f --content rows --documents -o two <(tail -n 5 t.jsonl) >/dev/null; (tail -c +8193 one; tail -c +8193 two) | sha256sum)")"
mkdir other
echo >other/file
like 'a directory with files of others' "$(data -o other t.jsonl)" '^2 zeroth.data: other: has files, as file, but no data.json: '

# ---- conversations ----
cat >chat.jsonl <<'END'
{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}], "id": 1}
{"id": 2, "messages": []}
{"messages": [{"role": "user", "content": "three"}, {"role": "assistant", "content": "four"}], "id": 3}
END
chat() { data --chat -o "$@" -- -t alpaca; }
like 'a bad row is named by its number' "$(chat c0 chat.jsonl)" '^2 zeroth.data: chat.jsonl: row 2: there is no message in it '
like '... or left out' "$(chat c1 --on-bad skip --part-rows 1 chat.jsonl)" '^0 zeroth: warning: tokenize: chat.jsonl: row 2: left out: there is no message in it$'
like '... and counted' "$(cat out)" '^documents   2 of 2 rows: [0-9]+ tokens in 2 files$
^left out    1: nothing to learn$
^not read    id \(2 rows\)$'
sed 's/"messages"/"dialog"/' chat.jsonl | sed 2d >dialog.jsonl
is 'a column of another name' "$(chat c2 --messages dialog --part-rows 1 dialog.jsonl; tokens c2)" "0 
$(tokens c1)"
printf 'question,answer\n"a, b","c\nd"\n' >qa.csv
"$ZEROTH" tokenize --chat -t alpaca -T "$golden/gpt2.json" -o qa.tok - >/dev/null <<<'{"prompt": "a, b", "completion": "c\nd"}'
is 'columns of CSV' "$(chat c3 --prompt question --completion answer qa.csv; tokens c3)" "0 
$(tail -c +8193 qa.tok | sha256sum)"

# ---- refused ----
printf '{"text": "a"}\n{"text": null}\n{"text": 3}\n' >bad.jsonl
like 'null' "$(data -o r1 bad.jsonl)" '^2 zeroth.data: bad.jsonl: row 2: text is null \(--on-bad skip leaves such rows out\)$'
is '... is left out' "$(data -o r2 --on-bad skip bad.jsonl; grep out out)" "$(printf '0 \nleft out    1: not a text\nleft out    1: null')"
like 'no such column' "$(data -o r3 --text body t.csv)" '^2 zeroth.data: t.csv: has no column body, but id, text$'
like '... of a row' "$(data -o r4 --text body t.jsonl)" '^2 zeroth.data: t.jsonl: row 1 has no body, but id, text$'
like 'none that is meant' "$(data -o r5 qa.csv)" '^2 zeroth.data: qa.csv: has no column text, but question, answer: --text names the one to learn, --chat reads conversations$'
printf 'a,b\n1,2\n3\n' >short.csv
like 'a row of too few values' "$(data -o r6 --text a short.csv)" '^2 zeroth.data: short.csv: row 2 has 1 value, the first line names 2$'
printf 'text\n"a\n' >open.csv
like 'a quote that stays open' "$(data -o r7 open.csv)" '^2 zeroth.data: open.csv:2: '
printf 'text\n\xff\n' >latin.csv
like 'what is no UTF-8' "$(data -o r8 latin.csv)" '^2 zeroth.data: latin.csv: is not UTF-8 behind row 0: '
printf '{"text": "a", "text": "b"}\n' >twice.jsonl
like 'a field twice' "$(data -o r9 twice.jsonl)" '^2 zeroth.data: twice.jsonl: row 1 is no JSON: two fields are called text$'
printf '{"text": "a"}\n{"text"\n' >half.jsonl
like 'half a row' "$(data -o r10 half.jsonl)" '^2 zeroth.data: half.jsonl: row 2 is no JSON: '
head -c 200 t.csv.gz >cut.csv.gz
like 'a gzip file that was cut off' "$(data -o r11 cut.csv.gz)" '^2 zeroth.data: cut.csv.gz: behind row [0-9]+: '
like 'another format' "$(data -o r12 a)" '^2 zeroth.data: a: has none of the endings .arrow .csv '
like 'nothing there' "$(data -o r13 nowhere)" '^2 zeroth.data: nowhere: no such file or directory'
mkdir splits
cp t.jsonl splits/train-00000-of-00002.jsonl
cp t.jsonl splits/train-00001-of-00002.jsonl
cp bad.jsonl splits/test-00000-of-00001.jsonl
like 'splits' "$(data -o r14 splits)" '^2 zeroth.data: splits: has the splits test, train: --split chooses one$'
like '... one that is not there' "$(data -o r15 --split dev splits)" '^2 zeroth.data: splits: has no split dev, but test, train$'
is '... one that is' "$(data -o r16 --split train splits; sed -n 1p out)" "$(printf '0 \nread        50 rows of 2 files')"
is 'what was refused is no file of tokens' "$(ls r1 r3 r4 2>/dev/null | grep -c tok)" 0

# ---- Parquet, Arrow and datasets ----
if ! "$python" -c 'import pyarrow.parquet' 2>/dev/null; then
	printf 'PAR1' >t.parquet
	like 'without pyarrow it says what to do' "$(data -o n t.parquet)" '^2 zeroth.data: t.parquet: pyarrow reads such files, and is not there \(.*\): pip install pyarrow$'
	skip 'Parquet, Arrow and datasets' 'no pyarrow'
	exec 8>&-
	done_testing
	exit
fi
cat >arrow.py <<'END'
import datetime, json, os
import pyarrow as pa, pyarrow.ipc, pyarrow.parquet as pq
rows = [json.loads(t) for t in open("t.jsonl")]
table = pa.Table.from_pylist(rows)
pq.write_table(table, "t.parquet", row_group_size=4)
pq.write_table(table.set_column(1, "text", table["text"].dictionary_encode()), "dictionary.parquet")
def stream(path, rows):
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(path, table.schema) as out:
        for batch in table.to_batches(3):
            out.write_batch(batch)
stream("t.arrow", rows)
with pa.ipc.new_file("t.feather", table.schema) as out:
    out.write_table(table, 6)
for split, part in (("train", rows), ("test", rows[:5])):
    os.makedirs("saved/" + split)
    stream("saved/%s/data-00000-of-00002.arrow" % split, part[:3])
    stream("saved/%s/data-00001-of-00002.arrow" % split, part[3:])
    json.dump({"_data_files": [{"filename": "data-0000%d-of-00002.arrow" % i} for i in (0, 1)], "_split": split,
               "_indices_data_files": None}, open("saved/%s/state.json" % split, "w"))
    json.dump({"splits": {split: {"num_examples": 99}}}, open("saved/%s/dataset_info.json" % split, "w"))  # before it was filtered
json.dump({"splits": ["train", "test"]}, open("saved/dataset_dict.json", "w"))
chat = [json.loads(t) for t in open("chat.jsonl")]
pq.write_table(pa.Table.from_pylist(chat), "chat.parquet")
pq.write_table(pa.table({"text": ["a", "b"], "when": [datetime.datetime(2026, 1, 1)] * 2, "n": [1, 2]}), "odd.parquet")
END
"$python" arrow.py || exit 99
for file in t.parquet dictionary.parquet t.arrow t.feather; do
	is "$file has the same" "$(data -o "of-$file" --part-rows 10 $file; tokens "of-$file"; sed -n 1p out)" "0 
$(tokens parts)
read        25 rows of 1 file, as they say"
done
(ZEROTH=$PWD/fails; export ZEROTH; rm calls; alone -o resumed --part-rows 10 t.parquet) >stopped
is 'Parquet goes on in the middle of a row group' "$(cat stopped; data -o resumed --part-rows 10 t.parquet; tokens resumed)" "2 zeroth.data: zeroth tokenize ended with code 7
0 
$(tokens parts)"
is 'a saved data set' "$(data -o saved-out --split train saved; sed -n '1,2s/:.*//; 1,2p' out)" "0 
read        25 rows of 2 files, as they say
documents   24 of 24 rows"
like '... of several splits' "$(data -o q1 saved)" '^2 zeroth.data: saved: has the splits test, train: --split chooses one$'
mkdir cache
cp t.arrow cache/some-train.arrow
cp saved/test/data-00000-of-00002.arrow cache/some-test.arrow
echo '{"splits": {"train": {"num_examples": 26}, "test": {"num_examples": 3}}}' >cache/dataset_info.json
is 'a split of a cache' "$(data -o q8 --split test cache; sed -n 1p out)" "0 
read        3 rows of 1 file, as they say"
like '... with fewer rows than it says' "$(data -o q2 --split train cache)" '^2 zeroth.data: cache: its files have 25 rows, but dataset_info.json says 26$'
is 'conversations' "$(chat c4 --on-bad skip --part-rows 1 chat.parquet | cut -c1; tokens c4)" "0
$(tokens c1)"
like 'a column that has no JSON' "$(chat q3 odd.parquet)" '^2 zeroth.data: odd.parquet: column when has timestamp.*, which JSON does not: --columns names those that are read$'
is '... is not read' "$(data --chat -o q4 --columns text,n odd.parquet -- -t none --eos '<|endoftext|>')" '0 '
like 'a column that is no text' "$(data -o q5 --text n odd.parquet)" '^2 zeroth.data: odd.parquet: column n is int64, not text$'
head -c 600 t.parquet >cut.parquet
like 'a file that was cut off' "$(data -o q6 cut.parquet)" '^2 zeroth.data: cut.parquet: is no Parquet file that pyarrow reads: '
head -c -8 t.arrow >cut.arrow
like 'a stream that was cut off' "$(data -o q7 cut.arrow)" '^2 zeroth.data: cut.arrow: does not end as a stream of Arrow does'
exec 8>&-
done_testing
