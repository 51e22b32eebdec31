#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layout of every public struct of the stable headers, and the value of every constant.

    make_layout.py INCLUDE CC...            prints it
    make_layout.py --release INCLUDE CC...  prints that of all public headers: the stable ones and the library's, then
                                            `draft ROLE REVISION` and those of that role, for each of the drafts
    make_layout.py --since FILE INCLUDE CC...  compares it with FILE, which --release has printed for a release; says
                                            what does not have a part of it any more
    make_layout.py --check FILE INCLUDE CC...  compares it with FILE; says what moved, what is new
    make_layout.py --witness INCLUDE        prints C in which a debugger sees every struct of the stable headers
    make_layout.py --grow INCLUDE OUT       copies headers as they may be later: grown structs, minor 99

A line is `struct NAME frozen|growable BYTES`, `member STRUCT.NAME OFFSET BYTES`, `constant NAME VALUE` or, of the stable
headers and the library's, `type STRUCT.NAME DECLARATION`: two types of one size are not the same. What FILE has must stay, member by member and number by number; a growable struct may get
members behind those that it has, which are then added to FILE by hand, with the new minor.
"""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = "plugin optimizer elementwise matrices scheduler monitor zero precision data adapter".split()
LIBRARY = ["zeroth"]
STRUCT = re.compile(r"struct ((?:zr|zeroth)_\w+) \{(.*?)\n\};", re.S)
CONSTANT = re.compile(r"^#define ((?:ZR|ZEROTH)_[A-Z0-9_]+)[ \t]+(\S.*)$", re.M)


# of the plugin's own code: no host sees it
PRIVATE = {"zr_elementwise_inst", "zr_elementwise_about", "zr_sides", "zr_whole_inst"}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def members(body):
    for line in body.split(";"):
        call = re.search(r"\(\*(\w+)\)\s*\(", line)
        if call:
            yield call.group(1)
            continue
        line = " ".join(line.split())
        if not line:
            continue
        for part in re.sub(r"^(const )?(struct )?\w+ (const )?", "", line).split(","):
            name = re.search(r"(\w+)(\[[^\]]*\])*$", part.strip())
            yield name.group(1)


def declarations(body):
    """Of each member, as the header writes it."""
    for line in body.split(";"):
        text = " ".join(line.split())
        if text:
            for name in members(line):
                yield name, text


def grows(text, name):
    before = text[:text.index(f"struct {name} {{")].rsplit("/*", 1)[-1]
    return "FROZEN" not in before


def grow(include, out):
    """Two members behind the last one of every struct that may grow."""
    os.makedirs(os.path.join(out, "zeroth"))
    for h in sorted(os.listdir(os.path.join(include, "zeroth"))):
        text = open(os.path.join(include, "zeroth", h)).read()
        if h[:-2] in HEADERS:
            for name, body in STRUCT.findall(text):
                if name not in PRIVATE and grows(text, name):
                    old = f"struct {name} {{{body}\n}};"
                    assert old in text, name
                    text = text.replace(old, f"struct {name} {{{body}\n\tuint64_t grown, grown_more;\n}};")
        text = re.sub(r"(#define ZR_ABI_MINOR) \d+", r"\1 99", text)
        open(os.path.join(out, "zeroth", h), "w").write(text)


def ask(include, cc, headers=HEADERS):
    """A C program that prints every line, of what the headers declare."""
    out = ["#include <stdio.h>", '#include <zeroth/plugin.h>']
    out += [f"#include <zeroth/{h}.h>" for h in headers]
    out += ["int main(void) {"]
    for h in headers:
        text = open(os.path.join(include, "zeroth", h + ".h")).read()
        plain = without_comments(text)
        for name, value in CONSTANT.findall(plain):
            if name.endswith("_") or value.startswith('"') or re.search(r"__|\bextern\b", value):
                continue
            if re.match("ZR_(DRAFT_|DRAFTS$|USES_)", name):  # they change with every revision
                continue
            if name in ("ZR_EXTERN", "ZR_ABI_MINOR", "ZR_HEADERS_NEED", "ZR_ENTRY_FLAGS") or value.endswith("\\") or \
                    value.startswith("{"):
                continue
            out.append(f'printf("constant {name} %.17g\\n", (double)({name}));')
        for name, body in STRUCT.findall(plain):
            if name in PRIVATE:
                continue
            # what the header says before the struct
            kind = "growable" if grows(text, name) else "frozen"
            out.append(f'printf("struct {name} {kind} %zu\\n", sizeof(struct {name}));')
            for m in members(body):
                out.append(f'printf("member {name}.{m} %zu %zu\\n", offsetof(struct {name}, {m}), '
                           f'sizeof(((struct {name} *)0)->{m}));')
            for m, declared in declarations(body) if h in HEADERS + LIBRARY else ():
                out.append(f'puts("type {name}.{m} {declared}");')
    out += ["return 0; }"]
    with tempfile.TemporaryDirectory() as d:
        source, program = os.path.join(d, "t.c"), os.path.join(d, "t")
        open(source, "w").write("\n".join(out))
        subprocess.run([*cc, "-w", "-I", include, "-o", program, source], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def table(text):
    lines = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    return {(w[0], w[1]): w[2:] for w in lines}


def check(golden, now):
    """Texts of what is wrong, and of what is not in the golden file yet."""
    bad, new = [], []
    for key, was in golden.items():
        if key not in now:
            bad.append(f"{' '.join(key)} is gone: it is part of the ABI")
            continue
        has = now[key]
        if has == was:
            continue
        if key[0] == "struct" and was[0] == has[0] == "growable" and int(has[1]) > int(was[1]):
            new.append(f"struct {key[1]} grew from {was[1]} to {has[1]} bytes")
            continue
        bad.append(f"{' '.join(key)} was {' '.join(was)} and is {' '.join(has)}")
    for key, has in now.items():
        if key in golden:
            continue
        owner = key[1].split(".")[0]
        size = golden.get(("struct", owner))
        if key[0] == "member" and size and int(has[0]) + int(has[1]) <= int(size[1]):
            bad.append(f"member {key[1]} is at {has[0]}, among those that struct {owner} had")
        new.append(f"{' '.join(key)} {' '.join(has)}")
    return bad, new


def drafts(include):
    """The roles whose headers may change with their draft revision, and these headers."""
    roles = {}
    for h in sorted(os.listdir(os.path.join(include, "zeroth"))):
        used = re.search(r"^#define ZR_USES_(\w+) ", open(os.path.join(include, "zeroth", h)).read(), re.M)
        if used and h != "plugin.h":
            roles.setdefault(used.group(1).lower(), []).append(h[:-2])
    return roles


def draft_revision(include, role):
    text = open(os.path.join(include, "zeroth", "plugin.h")).read()
    return int(re.search(rf"^#define ZR_DRAFT_{role.upper()} +(\d+)", text, re.M).group(1))


def release(include, cc):
    text = ask(include, cc, HEADERS + LIBRARY)
    for role, headers in drafts(include).items():
        text += f"draft {role} {draft_revision(include, role)}\n" + ask(include, cc, headers)
    return text


def since(file, include, cc):
    """Texts of what plugins and programs that were built for a release would miss."""
    was_stable, *parts = re.split(r"^draft (\w+) (\d+)\n", open(file).read(), flags=re.M)
    bad, _ = check(table(was_stable), table(ask(include, cc, HEADERS + LIBRARY)))
    roles = drafts(include)
    for role, revision, was in zip(parts[0::3], parts[1::3], parts[2::3]):
        if role not in roles or int(revision) != draft_revision(include, role):
            continue
        changed, new = check(table(was), table(ask(include, cc, roles[role])))
        again = (f"in drafts of {role}, revision {revision}: raise ZR_DRAFT_{role.upper()} and ZR_DRAFT_REVISION; or, "
                 "before that release, write the file again with make_layout.py --release")
        bad += [f"{line} ({again})" for line in changed + new]
    return bad


def witness(include):
    """A function that returns a pointer to each struct: what only headers declare is in no library."""
    out = [f"#include <zeroth/{h}.h>" for h in HEADERS]
    for h in HEADERS:
        text = without_comments(open(os.path.join(include, "zeroth", h + ".h")).read())
        out += [f"struct {name} *witness_{name}(void) {{ return 0; }}" for name, _ in STRUCT.findall(text)
                if name not in PRIVATE]
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1] == "--witness":
        print(witness(sys.argv[2]), end="")
        return 0
    if sys.argv[1] == "--grow":
        grow(*sys.argv[2:])
        return 0
    if sys.argv[1] == "--release":
        print(release(sys.argv[2], sys.argv[3:] or ["cc"]), end="")
        return 0
    if sys.argv[1] == "--since":
        bad = since(sys.argv[2], sys.argv[3], sys.argv[4:] or ["cc"])
        for line in bad:
            print("changed:", line)
        return 1 if bad else 0
    if sys.argv[1] != "--check":
        print(ask(sys.argv[1], sys.argv[2:] or ["cc"]), end="")
        return 0
    golden = table(open(sys.argv[2]).read())
    bad, new = check(golden, table(ask(sys.argv[3], sys.argv[4:] or ["cc"])))
    for line in bad:
        print("changed:", line)
    for line in new:
        print("not in the golden file:", line)
    return 1 if bad or new else 0


if __name__ == "__main__":
    sys.exit(main())
