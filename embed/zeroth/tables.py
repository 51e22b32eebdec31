# SPDX-License-Identifier: Apache-2.0
"""tables.py - rows of data sets: Parquet, Arrow, what `datasets` saves, CSV, JSON lines.

find_files() opens what sources name; each File gives its rows from any one on, as dicts or, of JSON
lines whose columns are all wanted, as the lines themselves. pyarrow is loaded where a file needs it.
"""
import csv
import gzip
import json
import os
import re

BATCH = 1000          # rows at a time, or fewer:
BATCH_BYTES = 8 << 20  # of long rows
SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv",
            ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
# train-00000-of-00012.parquet and what `datasets` calls the files of its cache
SHARD = re.compile(r"^(.*?)-\d{5}-of-\d{5}(-[0-9a-f]+)?\.[a-z.]+$")
SPLIT = re.compile(r"(^|[-_])(train|test|validation|valid|val|dev|eval)$")


class Refused(Exception):
    """What is wrong, for people."""


def _pyarrow(path):
    """pyarrow, which reads `path`; it is the user's."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as e:
        raise Refused("{}: pyarrow reads such files, and is not there ({}): pip install "
                      "pyarrow".format(path, e)) from None
    return pyarrow


def numbered(n, what):
    return "{} {}{}".format(n, what, "" if n == 1 else "s")


# ---- what the values of a row become -----------------------------------------------------------

def _type_says(pyarrow, kind):
    """What of an Arrow type has no JSON; None: all of it has."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return _type_says(pyarrow, kind.value_type)
    if types.is_struct(kind):
        return next(filter(None, (_type_says(pyarrow, kind.field(i).type)
                                  for i in range(kind.num_fields))), None)
    if types.is_nested(kind) and not types.is_map(kind) and hasattr(kind, "value_type"):
        return _type_says(pyarrow, kind.value_type)
    plain = (types.is_string, types.is_large_string, types.is_boolean, types.is_integer,
             types.is_floating, types.is_null)
    is_view = getattr(types, "is_string_view", lambda _: False)
    return None if any(f(kind) for f in plain) or is_view(kind) else str(kind)


def _is_text(pyarrow, kind):
    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_view = getattr(types, "is_string_view", lambda _: False)
    return types.is_string(kind) or types.is_large_string(kind) or is_view(kind)


# ---- files -------------------------------------------------------------------------------------

class File:
    """A file of rows. columns: their names, or None where each row has its own; rows: how many the
    file says that it has, or None; parts(n) gives (first row, rows or None for as many as come) of
    runs that can be read alone; read(at, columns) gives rows from there on, dicts."""
    columns = rows = None

    def __init__(self, path):
        self.path = path
        self.bytes = os.stat(path).st_size

    def check(self, columns, text):
        """Refuses columns that do not become JSON. text: the only one, which must be a text."""

    def where(self, row):
        return "{}: row {}".format(self.path, row)


class Arrow(File):
    """What the formats of Arrow share."""
    schema = None

    def take_schema(self, schema):
        self.schema = schema
        self.columns = list(schema.names)
        twice = {n for n in self.columns if self.columns.count(n) > 1}
        if twice:
            raise Refused("{}: two columns are called {}".format(self.path, min(twice)))

    def check(self, columns, text):
        for name in columns:
            kind = self.schema.field(name).type
            if text and not _is_text(self.pyarrow, kind):
                raise Refused("{}: column {} is {}, not text".format(self.path, name, kind))
            bad = _type_says(self.pyarrow, kind)
            if bad:
                raise Refused("{}: column {} has {}, which JSON does not: --columns names those "
                              "that are read".format(self.path, name, bad))

    def rows_of(self, batches, skip, columns, behind):
        """Rows of record batches, of which the first one comes behind that many rows of the file,
        without the first `skip`."""
        for batch in batches:
            n = batch.num_rows
            if skip < n:
                batch = batch.select(columns)
                step = max(1, min(BATCH, BATCH_BYTES * n // max(1, batch.nbytes)))
                for at in range(skip, n, step):
                    yield from self.values(batch.slice(at, step), behind + at)
            skip, behind = max(0, skip - n), behind + n

    def values(self, batch, behind):
        """Its rows, as dicts."""
        try:
            return batch.to_pylist()
        except UnicodeDecodeError:
            pass
        for i in range(batch.num_rows):
            try:
                batch.slice(i, 1).to_pylist()
            except UnicodeDecodeError as e:
                raise Refused("{} is not UTF-8: {}".format(self.where(behind + i + 1), e))
        return []


class Parquet(Arrow):
    def __init__(self, path):
        super().__init__(path)
        self.pyarrow = _pyarrow(path)
        with self.open() as file:
            self.take_schema(file.schema_arrow)
            meta = file.metadata
            self.rows = meta.num_rows
            self.groups = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        if sum(self.groups) != self.rows:
            raise Refused("{}: its row groups have {} rows, but it says {}".format(
                path, sum(self.groups), self.rows))

    def open(self):
        try:
            # Not mapped, nor read ahead: memory would grow with the file.
            return self.pyarrow.parquet.ParquetFile(self.path, pre_buffer=False,
                                                    buffer_size=1 << 20)
        except (self.pyarrow.ArrowException, OSError) as e:
            raise Refused("{}: is no Parquet file that pyarrow reads: {}".format(self.path, e))

    def read(self, at, columns):
        first, behind = 0, 0
        while first < len(self.groups) and at >= behind + self.groups[first]:
            behind += self.groups[first]
            first += 1
        groups = list(range(first, len(self.groups)))
        if not groups:
            return
        with self.open() as file:
            size = sum(file.metadata.row_group(i).total_byte_size for i in groups)
            rows = sum(self.groups[i] for i in groups)
            step = max(1, min(BATCH, BATCH_BYTES * rows // max(1, size)))
            batches = file.iter_batches(step, row_groups=groups, columns=columns,
                                        use_threads=False)
            try:
                yield from self.rows_of(batches, at - behind, columns, behind)
            except (self.pyarrow.ArrowException, OSError) as e:
                raise Refused("{}: cannot be read: {}".format(self.path, e))


class Ipc(Arrow):
    """Arrow's file or stream, mapped."""

    def __init__(self, path):
        super().__init__(path)
        self.pyarrow = _pyarrow(path)
        with open(path, "rb") as f:
            self.is_file = f.read(6) == b"ARROW1"
            f.seek(max(0, self.bytes - 8))
            if not self.is_file and f.read() != b"\xff\xff\xff\xff\0\0\0\0":
                raise Refused("{}: does not end as a stream of Arrow does: it was cut off, or is "
                              "none".format(path))
        batches = self.batches()
        self.take_schema(next(batches))
        self.rows = sum(b.num_rows for b in batches)

    def batches(self):
        """The schema, then the record batches."""
        ipc = self.pyarrow.ipc
        try:
            with self.pyarrow.memory_map(self.path) as source:
                if self.is_file:
                    reader = ipc.open_file(source)
                    yield reader.schema
                    for i in range(reader.num_record_batches):
                        yield reader.get_batch(i)
                else:
                    reader = ipc.open_stream(source)
                    yield reader.schema
                    yield from reader
        except self.pyarrow.ArrowException as e:
            raise Refused("{}: is no Arrow file that pyarrow reads: {}".format(self.path, e))

    def read(self, at, columns):
        batches = self.batches()
        next(batches)
        yield from self.rows_of(batches, at, columns, 0)


class Lines(File):
    """Text, plain or gzip."""

    def open(self):
        with open(self.path, "rb") as f:
            packed = f.read(2) == b"\x1f\x8b"
        opened = gzip.open if packed else open
        return opened(self.path, "rt", encoding="utf-8-sig", newline="")

    def guarded(self, rows):
        try:
            yield from rows
        except UnicodeDecodeError as e:
            raise Refused("{}: is not UTF-8 behind row {}: {}".format(self.path, self.seen, e))
        except (EOFError, gzip.BadGzipFile) as e:
            raise Refused("{}: behind row {}: {}".format(self.path, self.seen, e))


class Csv(Lines):
    """Comma- or tab-separated values; every value is a text, the first line names them."""

    def __init__(self, path):
        super().__init__(path)
        csv.field_size_limit(1 << 30)
        self.seen = 0
        self.columns = next(self.guarded(self.records()), None)
        if not self.columns:
            raise Refused("{}: has no first line with the names of columns".format(path))
        twice = {n for n in self.columns if self.columns.count(n) > 1}
        if twice:
            raise Refused("{}: two columns are called {}".format(path, min(twice)))

    def records(self):
        tab = re.search(r"\.tsv(\.gz)?$", self.path)
        with self.open() as f:
            reader = csv.reader(f, delimiter="\t" if tab else ",", strict=True)
            try:
                yield from reader
            except csv.Error as e:
                raise Refused("{}:{}: {}".format(self.path, reader.line_num, e))

    def read(self, at, columns):
        self.seen = 0
        records = self.guarded(self.records())
        next(records)
        for values in records:
            if not values:  # an empty line
                continue
            self.seen += 1
            if len(values) != len(self.columns):
                raise Refused("{} has {}, the first line names {}".format(
                    self.where(self.seen), numbered(len(values), "value"), len(self.columns)))
            if self.seen > at:
                row = dict(zip(self.columns, values))
                yield {name: row[name] for name in columns}


class Jsonl(Lines):
    """JSON lines, each an object with columns of its own."""

    def records(self):
        with self.open() as f:
            yield from f

    def read(self, at, columns):
        self.seen = 0
        for line in self.guarded(self.records()):
            if not line.strip():
                continue
            self.seen += 1
            if self.seen <= at:
                continue
            if columns is None:  # zeroth tokenize reads it
                yield line.strip()
            else:
                yield self.choose(line, columns)

    def choose(self, line, columns):
        try:
            row = json.loads(line, object_pairs_hook=_once)
        except ValueError as e:
            raise Refused("{} is no JSON: {}".format(self.where(self.seen), e))
        if not isinstance(row, dict):
            raise Refused("{} is no object of JSON".format(self.where(self.seen)))
        for name in columns:
            if name not in row:
                raise Refused("{} has no {}, but {}".format(self.where(self.seen), name,
                                                            ", ".join(row) or "nothing"))
        return {name: row[name] for name in columns}


def _once(pairs):
    """An object of JSON, whose names differ."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError("two fields are called " + next(n for n in names if names.count(n) > 1))
    return row


READERS = {"parquet": Parquet, "arrow": Ipc, "csv": Csv, "jsonl": Jsonl}


# ---- sources -----------------------------------------------------------------------------------

def _kind(path):
    """The format of a file by its name; None: another."""
    stem = path[:-3] if path.endswith(".gz") else path
    kind = SUFFIXES.get(os.path.splitext(stem)[1].lower())
    return None if path.endswith(".gz") and kind not in ("csv", "jsonl") else kind


def load_json(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError) as e:
        raise Refused("{}: {}".format(path, e))


def _choose(folder, splits, split):
    names = sorted(splits)
    if split is None and len(names) == 1:
        return splits[names[0]]
    if split is None:
        raise Refused("{}: has the splits {}: --split chooses one".format(folder,
                                                                          ", ".join(names)))
    if split not in splits:
        raise Refused("{}: has no split {}, but {}".format(folder, split, ", ".join(names)))
    return splits[split]


def _saved(folder):
    """Files of a data set that `datasets` saved, in their order; how many rows is not said."""
    state = load_json(os.path.join(folder, "state.json"))
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise Refused("{}: has indices, by which rows are chosen: flatten_indices() and "
                      "save_to_disk() write what they choose".format(folder))
    files = [os.path.join(folder, f["filename"]) for f in state.get("_data_files", [])]
    if not files:
        raise Refused("{}: its state.json names no files".format(folder))
    # The rows of its dataset_info.json are those before it was filtered.
    return files, None


def _folder(folder, split):
    """Files of a directory, and how many rows they have together, None: not said."""
    splits = os.path.join(folder, "dataset_dict.json")
    if os.path.exists(splits):
        names = load_json(splits).get("splits", [])
        return _saved(_choose(folder, {n: os.path.join(folder, n) for n in names}, split))
    if os.path.exists(os.path.join(folder, "state.json")):
        if split:
            raise Refused("{}: is one split: --split chooses of several".format(folder))
        return _saved(folder)

    files = sorted(f for f in os.listdir(folder) if _kind(f))
    kinds = {_kind(f) for f in files}
    if not files:
        raise Refused("{}: has no files of a data set ({}), nor the state.json of `datasets`".format(
            folder, " ".join(sorted(SUFFIXES))))
    if len(kinds) > 1:
        raise Refused("{}: has files of several formats ({}): name those that are meant".format(
            folder, ", ".join(sorted(kinds))))
    return _of_split(folder, files, split)


def _of_split(folder, files, split):
    """Those of a split, where names say that there are several."""
    found = {}
    for f in files:
        match = SHARD.match(f)
        found.setdefault(match.group(1) if match else f.split(".")[0], []).append(f)
    names = [n for n in found if SPLIT.search(n)]
    rows = None
    if names or split or any(map(SHARD.match, files)):
        whole = {SPLIT.search(n).group(2) if SPLIT.search(n) else n: f for n, f in found.items()}
        if len(whole) < len(found):
            raise Refused("{}: has files of several data sets ({}): name those that are "
                          "meant".format(folder, ", ".join(sorted(found))))
        files = _choose(folder, whole, split)
        info = os.path.join(folder, "dataset_info.json")
        if os.path.exists(info):
            name = split or next(iter(whole))
            rows = ((load_json(info).get("splits") or {}).get(name) or {}).get("num_examples")
    return [os.path.join(folder, f) for f in files], rows


def find_files(sources, split):
    """All files that the sources name, opened, in their order."""
    files = []
    for source in sources:
        if not os.path.exists(source):
            raise Refused("{}: no such file or directory (a data set of a hub is downloaded "
                          "first)".format(source))
        if os.path.isdir(source):
            paths, rows = _folder(source, split)
        else:
            paths, rows = [source], None
        found = []
        for path in paths:
            if not _kind(path):
                raise Refused("{}: has none of the endings {}".format(
                    path, " ".join(sorted(SUFFIXES))))
            if not os.path.exists(path):
                raise Refused("{}: is not there, but {} names it".format(path, source))
            found.append(READERS[_kind(path)](path))
        has = sum(f.rows or 0 for f in found)
        if rows is not None and has != rows:
            raise Refused("{}: its files have {} rows, but dataset_info.json says {}".format(
                source, has, rows))
        files += found
    return files
