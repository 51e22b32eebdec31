# SPDX-License-Identifier: Apache-2.0
"""python -m zeroth.data - data sets to files of tokens that Zeroth trains on.

    python -m zeroth.data -T MODEL -o tokens train-*.parquet
    python -m zeroth.data -T MODEL -o tokens --chat saved_by_datasets --split train

Rows of Parquet, Arrow, saved `datasets`, CSV and JSON lines are streamed to `zeroth tokenize` in
parts of some thousand rows; what is done is kept, and the same command goes on behind it. See
zeroth-python(7). Parquet and Arrow need pyarrow, which is the user's; nothing else does.
"""
import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

from .tables import Refused, SUFFIXES, find_files, load_json, numbered

FORMAT = "zeroth.data/1"
JOURNAL = "data.json"
PART = re.compile(r"^part-\d{5,}\.tok$")
NEXT = "next.tok"  # a part until it is whole and counted
PART_ROWS = 100000
# What zeroth tokenize says where no row of a part gives a document.
NOTHING = re.compile("there is no (conversation to learn from|row with a text) in standard input")
NOTES = 10             # lines that zeroth tokenize says of rows that it leaves out
TEXT = "text"
FIELDS = ("messages", "conversations", "prompt", "completion", "instruction", "input", "output",
          "text", "system")
SHORT = ("text", "messages", "conversations", "prompt", "completion")  # have an option


# ---- columns -----------------------------------------------------------------------------------

class Columns:
    """Which columns are read, and what `zeroth tokenize` is told of them."""

    def __init__(self, a, files):
        self.text = None if a.chat else self.choose_text(a, files)
        self.read = None
        fields = dict(a.fields)
        if self.text is not None:
            self.read = [self.text]
        elif a.columns:
            self.read = a.columns
        self.options = ["--field=%s=%s" % f for f in sorted(fields.items())] if a.chat else []
        for file in files:
            self.check(file, fields)

    @staticmethod
    def choose_text(a, files):
        for name, column in a.fields:
            if name != TEXT:
                raise Refused("--{}: goes with --chat; without it --text names the column of the "
                              "texts".format(name))
            return column
        for file in files:
            if file.columns is not None and TEXT not in file.columns:
                if len(file.columns) == 1:
                    return file.columns[0]
                raise Refused("{}: has no column text, but {}: --text names the one to learn, "
                              "--chat reads conversations".format(file.path,
                                                                  ", ".join(file.columns)))
        return TEXT

    def of(self, file):
        if self.read is None:
            return file.columns
        return self.read

    def check(self, file, fields):
        if file.columns is None:
            return
        for name in list(self.of(file)):
            if name not in file.columns:
                raise Refused("{}: has no column {}, but {}".format(file.path, name,
                                                                    ", ".join(file.columns)))
        # A role, as --field user=human, is no column.
        for name, column in fields.items():
            if name in FIELDS and column not in self.of(file):
                raise Refused("{}: --{} {}: {} has {}".format(
                    file.path, name, column, "--columns" if self.read else "the file",
                    ", ".join(self.of(file))))
        file.check(self.of(file), self.text is not None)


# ---- the journal -------------------------------------------------------------------------------

def _digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            h.update(piece)
    return h.hexdigest()


def _tokenizer_says(path):
    """Digests of the files that decide tokens."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    names = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
    files = {n: os.path.join(folder, n) for n in names}
    if not os.path.isdir(path):
        files["tokenizer.json"] = path
    if not os.path.exists(files["tokenizer.json"]):
        raise Refused("{}: has no tokenizer.json".format(path))
    return {n: _digest(f) for n, f in sorted(files.items()) if os.path.exists(f)}


class Journal:
    """What is done, in OUT/data.json: replaced as a whole when a part is."""

    def __init__(self, out, asked, force):
        self.out, self.path = out, os.path.join(out, JOURNAL)
        os.makedirs(out, exist_ok=True)
        self.lock = open(os.path.join(out, ".lock"), "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("{}: another zeroth.data writes there".format(out))
        if force:
            self.remove()
        if os.path.exists(self.path):
            self.state = load_json(self.path)
            self.compare(asked)
            self.check_parts()
        else:
            left = [f for f in os.listdir(out) if f != ".lock" and not f.startswith(NEXT)]
            if left:
                raise Refused("{}: has files, as {}, but no {}: give a directory that is empty or "
                              "not there".format(out, min(left), JOURNAL))
            self.state = {"format": FORMAT, "asked": asked, "parts": [], "complete": False}
            self.write()

    def remove(self):
        for name in os.listdir(self.out):
            if PART.match(name) or name.startswith((JOURNAL, NEXT)):
                os.remove(os.path.join(self.out, name))

    def compare(self, asked):
        """What was begun goes on only as it was begun."""
        before = self.state.get("asked", {})
        if self.state.get("format") != FORMAT:
            raise Refused("{}: is not of this version ({})".format(self.path, FORMAT))
        for key in sorted(set(before) | set(asked)):
            if before.get(key) != asked.get(key):
                raise Refused("{}: was begun with {} {}, now it is {}: -f begins anew, another -o "
                              "keeps both".format(self.out, key, self.short(before.get(key)),
                                                  self.short(asked.get(key))))

    @staticmethod
    def short(value):
        text = json.dumps(value)
        return text if len(text) <= 200 else text[:197] + "..."

    def check_parts(self):
        for part in self.state["parts"]:
            if not part["file"]:
                continue
            path = os.path.join(self.out, part["file"])
            if not os.path.exists(path) or os.stat(path).st_size != part["size"]:
                raise Refused("{}: is not there, or not as it was written: -f begins anew".format(
                    path))

    def write(self):
        """A signal waits until it is durable."""
        signals = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            self.replace()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def replace(self):
        with open(self.path + ".tmp", "w", encoding="utf-8") as f:
            json.dump(self.state, f, indent=1)
            f.write("\n")
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.path + ".tmp", self.path)
        folder = os.open(self.out, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def done(self, file):
        """The next row of a file, and whether all of it is done."""
        parts = [p for p in self.state["parts"] if p["source"] == file]
        return (parts[-1]["to"], parts[-1]["last"]) if parts else (0, False)


# ---- zeroth tokenize ---------------------------------------------------------------------------

def find_command():
    """The command of this package, or of PATH."""
    folder = os.path.dirname(os.path.realpath(__file__))
    places = [os.environ.get("ZEROTH"), os.path.join(folder, "_prefix", "bin", "zeroth")]
    if os.path.basename(os.path.dirname(folder)) == "python":  # PREFIX/share/zeroth/python/zeroth
        places.append(os.path.join(folder, "..", "..", "..", "..", "bin", "zeroth"))
    for path in places:
        if path and os.access(path, os.X_OK):
            return path
    found = shutil.which("zeroth")
    if not found:
        raise Refused("the command zeroth is not there: install it, or name it in ZEROTH")
    return found


def _header(path):
    """Tokens, documents and other numbers of a file that zeroth tokenize wrote."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(size).decode())
    meta = head.pop("__metadata__")
    numbers = {k: int(v) for k, v in meta.items() if v.isdigit()}
    numbers["tokens"] = head["tokens"]["shape"][0]
    numbers["documents"] = head["documents"]["shape"][0] - 1
    return numbers


class Tokenizing:
    """A process that makes a part. A row is a line, so that a line of its messages is a row."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True)
        self.texts = {}
        self.threads = [threading.Thread(target=self.drain, args=(name,), daemon=True)
                        for name in ("stdout", "stderr")]
        for thread in self.threads:
            thread.start()

    def drain(self, name):
        self.texts[name] = getattr(self.process, name).read().decode(errors="replace")

    def write(self, data):
        """Returns whether somebody reads it."""
        try:
            self.process.stdin.write(data)
            return True
        except BrokenPipeError:
            return False

    def end(self):
        """The exit code, and what the process said to stderr and to stdout."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait()
        for thread in self.threads:
            thread.join()
        return code, self.texts["stderr"], self.texts["stdout"]

    def stop(self):
        """Its unfinished file goes with it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.end()


class Progress:
    """A line on a terminal, and elsewhere one every ten seconds."""

    def __init__(self, rows, done):
        self.rows, self.begun = rows, done
        self.start = self.shown = time.monotonic()
        self.tty = sys.stderr.isatty()

    def show(self, done, size):
        now = time.monotonic()
        if now - self.shown < (0.2 if self.tty else 10):
            return
        self.shown = now
        took = now - self.start
        text = "{} rows".format(done)
        if self.rows:
            left = took * (self.rows - done) / max(1, done - self.begun)
            text = "{} of {} rows  {:.0f} %  ETA {:.0f} s".format(done, self.rows,
                                                                  100 * done / self.rows, left)
        text += "  {:.1f} MB/s".format(size / took * 1e-6)
        sys.stderr.write(("\r\033[K" + text) if self.tty else text + "\n")
        sys.stderr.flush()

    def end(self):
        if self.tty:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Run:
    def __init__(self, a, files, columns, journal):
        self.a, self.files, self.columns, self.journal = a, files, columns, journal
        self.encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False,
                                       separators=(",", ":")).encode
        rows = [f.rows for f in files]
        self.all = sum(rows) if None not in rows else None
        self.rows = sum(p["rows"] for p in journal.state["parts"])
        self.bytes, self.notes = 0, []
        self.progress = Progress(self.all, self.rows)

    def command(self, out):
        kind = ["--chat", "--on-bad", self.a.on_bad] if self.a.chat else \
            ["--content", "rows", "--documents"]
        return ([find_command(), "tokenize"] + kind + self.columns.options +
                ["-T", self.a.tokenizer, "-f", "-o", out] + self.a.options + ["-"])

    def line(self, file, row, at, skipped):
        """A row as a line; an empty one keeps the count of lines where it is left out."""
        if isinstance(row, str):
            return (row + "\n").encode()
        if self.columns.text is not None:
            value = row[self.columns.text]
            if not isinstance(value, str):
                return self.leave_out(file, at, "null" if value is None else "not a text", skipped)
            row = {TEXT: value}
        try:
            return (self.encode(row) + "\n").encode()
        except (ValueError, TypeError) as e:
            raise Refused("{}: {}".format(file.where(at), e))

    def leave_out(self, file, at, why, skipped):
        if self.a.on_bad == "stop":
            raise Refused("{}: {} is {} (--on-bad skip leaves such rows out)".format(
                file.where(at), self.columns.text, why))
        skipped[why] = skipped.get(why, 0) + 1
        return b"\n"

    def part(self, source, file, begin, rows, ahead):
        """A part from the row behind `begin` on; ahead: that row. Returns the row behind the
        part's last one, None: there is none."""
        path = os.path.join(self.a.output, NEXT)
        work = Tokenizing(self.command(path))
        skipped, at, is_read = {}, begin, True
        try:
            while ahead is not None and at - begin < self.a.part_rows and is_read:
                at += 1
                data = self.line(file, ahead, at, skipped)
                self.bytes += len(data)
                is_read = work.write(data)
                ahead = next(rows, None)
                self.progress.show(self.rows + at - begin, self.bytes)
            code, said, told = work.end()
        except BaseException:
            work.stop()
            raise
        said = self.show_notes(self.in_rows(file, begin, said))
        entry = {"source": source, "from": begin, "to": at, "rows": at - begin,
                 "last": ahead is None, "skipped": skipped, "unread": self.unread(told),
                 "file": None, "size": 0, "documents": 0, "tokens": 0}
        if not code:
            self.take_numbers(entry, path)
        elif not NOTHING.search(said):
            raise Refused(said or "zeroth tokenize ended with code {}".format(code))
        else:  # of all its rows
            left = at - begin - sum(skipped.values())
            if left:
                skipped["nothing to learn"] = left
        self.journal.state["parts"].append(entry)
        self.journal.write()
        self.rows += entry["rows"]
        return ahead

    def take_numbers(self, entry, path):
        """Of the file that was written, which gets its name when they are right."""
        numbers = _header(path)
        given = entry["rows"] - sum(entry["skipped"].values())
        if numbers["records"] != given:
            raise Refused("{}: zeroth tokenize read {} rows of {}".format(path, numbers["records"],
                                                                         given))
        for key, n in numbers.items():
            if key.startswith("dropped."):
                why = key[len("dropped."):]
                entry["skipped"][why] = entry["skipped"].get(why, 0) + n
        name = "part-{:05d}.tok".format(len(self.journal.state["parts"]))
        os.replace(path, os.path.join(self.a.output, name))
        entry.update(file=name, size=os.stat(os.path.join(self.a.output, name)).st_size,
                     documents=numbers["documents"], tokens=numbers["tokens"],
                     vocabulary=numbers["vocabulary"], truncated=numbers.get("truncated", 0))

    def show_notes(self, said):
        """What zeroth tokenize warns of, of all parts the first lines; returns the others."""
        lines = said.splitlines()
        warnings = [t for t in lines if t.startswith("zeroth: warning: ")]
        new = [t for t in warnings if t not in self.notes][:NOTES - len(self.notes)]
        self.notes += new
        if new:
            self.progress.end()
            print("\n".join(new), file=sys.stderr)
        return "\n".join(re.sub("^zeroth: ", "", t) for t in lines if t not in warnings)

    @staticmethod
    def unread(told):
        """Fields that zeroth tokenize does not read, and in how many records they are."""
        found = re.search(r"^not read    (.*)$", told, re.M)
        fields = re.findall(r"([^ ,]+) \((\d+) records?\)", found.group(1)) if found else []
        return {name: int(n) for name, n in fields}

    @staticmethod
    def in_rows(file, begin, said):
        """What zeroth said of lines of its standard input, of rows of the file."""
        return re.sub(r"standard input:(\d+)",
                      lambda m: file.where(begin + int(m.group(1))), said).strip()

    def file(self, source, file):
        begin, last = self.journal.done(source)
        if last:
            return
        rows = iter(file.read(begin, self.columns.of(file)))
        ahead = next(rows, None)
        while ahead is not None:
            ahead = self.part(source, file, begin, rows, ahead)
            begin = self.journal.done(source)[0]
        if file.rows is not None and begin != file.rows:
            raise Refused("{}: {} rows were read, but it says that it has {}".format(
                file.path, begin, file.rows))

    def all_files(self):
        for source, file in enumerate(self.files):
            self.file(source, file)
        self.journal.state["complete"] = True
        self.journal.write()
        self.progress.end()


def _sum(counts):
    total = {}
    for each in counts:
        for name, n in each.items():
            total[name] = total.get(name, 0) + n
    return total


def report(a, files, journal):
    parts = journal.state["parts"]
    rows = sum(p["rows"] for p in parts)
    skipped, unread = _sum(p["skipped"] for p in parts), _sum(p["unread"] for p in parts)
    left = sum(skipped.values())
    says = [f.rows for f in files]
    told = ", as they say" if None not in says else ""
    print("read        {} of {}{}".format(numbered(rows, "row"), numbered(len(files), "file"),
                                          told))
    print("documents   {} of {} rows: {} tokens in {}".format(
        sum(p["documents"] for p in parts), rows - left, sum(p["tokens"] for p in parts),
        numbered(sum(1 for p in parts if p["file"]), "file")))
    for why, n in sorted(skipped.items()):
        print("left out    {}: {}".format(n, why))
    if unread:
        print("not read    " + ", ".join("{} ({})".format(name, numbered(n, "row"))
                                         for name, n in sorted(unread.items())))
    truncated = sum(p.get("truncated", 0) for p in parts)
    if truncated:
        print("truncated   {} lost their oldest turns".format(truncated))
    if not any(p["file"] for p in parts):
        raise Refused("no row has anything to learn")
    vocabulary = max(p.get("vocabulary", 0) for p in parts)
    print("vocabulary  {0} tokens: [model] vocabulary = {0}, or more".format(vocabulary))
    print("\n[data]\nplugin = tokens\npath = {}".format(
        os.path.join(os.path.abspath(a.output), "part-*.tok")))


# ---- the command line --------------------------------------------------------------------------

def _field(text):
    name, equals, column = text.partition("=")
    if not equals or not column:
        raise argparse.ArgumentTypeError("{}: expected NAME=COLUMN".format(text))
    return name, column


def parse(arguments):
    p = argparse.ArgumentParser(
        prog="python -m zeroth.data", allow_abbrev=False,
        description="Writes the rows of data sets as files of tokens, which [data] plugin = tokens "
        "trains on. The same command goes on where it was stopped.",
        epilog="What is behind -- goes to zeroth tokenize as it is, as -- --max-length 2048. See "
        "zeroth-python(7).")
    p.add_argument("source", nargs="+", metavar="SOURCE", help="files ({}; .gz of CSV and JSON "
                   "lines), or directories of them or of `datasets`".format(
                       " ".join(sorted(SUFFIXES))))
    p.add_argument("-T", "--tokenizer", required=True, metavar="FILE",
                   help="tokenizer.json, or the directory of a model that has one")
    p.add_argument("-o", "--output", required=True, metavar="DIR", help="directory to write")
    p.add_argument("-f", "--force", action="store_true", help="begins anew in DIR")
    p.add_argument("--chat", action="store_true", help="rows are conversations")
    p.add_argument("--split", metavar="NAME", help="of a directory that has several")
    p.add_argument("--columns", type=lambda t: [c for c in t.split(",") if c], metavar="A,B",
                   help="of conversations: what is read (default: all columns)")
    p.add_argument("--field", action="append", type=_field, default=[], dest="fields",
                   metavar="NAME=COLUMN", help="the column that has what zeroth tokenize calls NAME")
    for name in SHORT:
        p.add_argument("--" + name, metavar="COLUMN", help="--field {}=COLUMN".format(name))
    p.add_argument("--on-bad", choices=("stop", "skip"), default="stop",
                   help="what a row does that cannot be learned (default: stop)")
    p.add_argument("--part-rows", type=int, default=PART_ROWS, metavar="N",
                   help="rows of a file of tokens (default: {})".format(PART_ROWS))
    own, options = arguments, []
    if "--" in arguments:
        own, options = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    a = p.parse_args(own)
    a.options = options
    a.fields += [(n, getattr(a, n)) for n in SHORT if getattr(a, n)]
    if a.part_rows < 1:
        p.error("--part-rows {}: expected 1 or more".format(a.part_rows))
    if a.columns and not a.chat:
        p.error("--columns goes with --chat; --text names the column of texts")
    for name in ("-o", "--output", "-f", "--force", "-T", "--tokenizer", "--raw", "--chat"):
        if name in options:
            p.error("{} behind --: zeroth.data says it".format(name))
    return a


def _load_parts(journal):
    """Those of the file, which another run will find."""
    return load_json(journal.path)["parts"]


def asked(a, files, columns):
    """What has to be the same for what was begun to go on."""
    def of_file(f):
        st = os.stat(f.path)
        return [os.path.basename(f.path), st.st_size, st.st_mtime_ns, f.rows]
    return {"files": [of_file(f) for f in files], "columns": columns.read, "chat": a.chat,
            "fields": sorted(map(list, a.fields)), "on_bad": a.on_bad, "part_rows": a.part_rows,
            "options": a.options, "tokenizer": _tokenizer_says(a.tokenizer)}


def main(arguments=None):
    a = parse(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    journal = None
    try:
        files = find_files(a.source, a.split)
        columns = Columns(a, files)
        find_command()
        journal = Journal(a.output, asked(a, files, columns), a.force)
        Run(a, files, columns, journal).all_files()
        report(a, files, journal)
    except Refused as e:
        print("zeroth.data: {}".format(e), file=sys.stderr)
        return 2
    except OSError as e:
        print("zeroth.data: {}".format(e), file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        rows = sum(p["rows"] for p in _load_parts(journal)) if journal else 0
        print("zeroth.data: stopped; the same command goes on behind {}".format(
            numbered(rows, "row")), file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
