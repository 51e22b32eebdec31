#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py - makes a wheel of an installed tree, which `make wheel` stages.

The tree becomes zeroth/_prefix of the package: the command, the library, plugins and configurations
find each other there by their places (core/plugin/prefix.c). Libraries that they link travel in
_prefix/LIBDIR/beside under names of their own, with their licences, and are found by $ORIGIN; the C
library does not, and the newest symbol of it that is asked for gives the tag manylinux_X_Y. What
links CUDA, NCCL, MPI or PMIx is left out: those belong to the machine.
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile

# Of the system: the C library, and what unwinds stacks, of which a process has one.
SYSTEM = re.compile(r"^(ld-linux.*|lib(c|m|dl|pthread|rt|util|resolv|gcc_s))\.so(\.\d+)*$")
# Libraries of a machine: what needs them is no part of a wheel.
MACHINE = re.compile(r"^lib(cuda|cudart|cublas|cublasLt|nccl|mpi|mpich|open-rte|pmix)\b.*\.so")

# The command, where scripts of Python are; it does not import the package, which takes time.
SCRIPT = """#!python
# The command of the package zeroth.
import importlib.util
import os
import sys

found = importlib.util.find_spec("zeroth")
if found is None:
    sys.exit("zeroth: the package zeroth is not installed for " + sys.executable)
program = os.path.join(found.submodule_search_locations[0], "_prefix", "{bindir}", "zeroth")
os.execv(program, ["zeroth"] + sys.argv[1:])
"""

METADATA = """Metadata-Version: 2.1
Name: zeroth
Version: {version}
Summary: A training runtime for transformers, in C: the command, the library and its plugins
License: Apache-2.0
Platform: Linux
Requires-Python: >=3.7
Provides-Extra: data
Requires-Dist: pyarrow ; extra == "data"
Provides-Extra: torch
Requires-Dist: torch ; extra == "torch"
{licences}Description-Content-Type: text/markdown

{readme}"""


def fail(text):
    sys.exit("wheel.py: " + text)


def run(*command):
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                              universal_newlines=True).stdout
    except FileNotFoundError:
        fail("{0} is missing (Debian: apt install {1})".format(
            command[0], "patchelf" if command[0] == "patchelf" else "binutils"))
    except subprocess.CalledProcessError as e:
        fail("{} failed with code {}".format(" ".join(command), e.returncode))


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path))


def glibc_of(path):
    """The newest version of the C library whose symbols a file asks for."""
    text = run("readelf", "-VW", path)
    found = [tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_(\d+\.\d+)", text)]
    return max(found, default=(2, 0))


def where_libraries_are(path):
    """Name to path, of all that the file loads."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", path), re.M))


def walk(top):
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            yield os.path.join(folder, name)


class Tree:
    """The tree that becomes the wheel."""

    def __init__(self, top, libdir):
        self.prefix = os.path.join(top, "zeroth", "_prefix")
        self.beside = os.path.join(self.prefix, libdir, "beside")
        self.copied = {}  # name of a library to (its name in the wheel, where it was)
        self.left_out = []

    def leave_out_machine(self):
        for path in list(walk(self.prefix)):
            if is_elf(path) and any(MACHINE.match(n) for n in needed(path)):
                self.left_out.append(os.path.relpath(path, self.prefix))
                os.remove(path)

    def copy_libraries(self):
        """Until nothing is asked for that is not there."""
        files = [p for p in walk(self.prefix) if is_elf(p)]
        while files:
            path = files.pop()
            paths = None
            for name in needed(path):
                if SYSTEM.match(name) or name in self.copied:
                    continue
                paths = paths or where_libraries_are(path)
                if name not in paths:
                    fail("{} needs {}, which is not found".format(path, name))
                files.append(self.copy(name, os.path.realpath(paths[name])))

    def copy(self, name, source):
        """A name of its own: a process may have loaded another library under the usual one."""
        stem, rest = name.split(".so", 1)
        with open(source, "rb") as f:
            mark = hashlib.sha256(f.read()).hexdigest()[:8]
        new = "{}-{}.so{}".format(stem, mark, rest)
        os.makedirs(self.beside, exist_ok=True)
        to = os.path.join(self.beside, new)
        shutil.copyfile(source, to)
        self.copied[name] = new, source
        return to

    def relink(self):
        """Every file finds the copies from where it lies itself."""
        for path in [p for p in walk(self.prefix) if is_elf(p)]:
            own = os.path.basename(path)
            names = needed(path)
            run("strip", "--strip-unneeded", path)
            # What was configured: directories of the machine on which it was built.
            run("patchelf", "--remove-rpath", path)
            # A call for each change: of several, patchelf 0.14 mixes up the texts.
            for name in names:
                if name in self.copied:
                    run("patchelf", "--replace-needed", name, self.copied[name][0], path)
            if os.path.dirname(path) == self.beside:
                os.chmod(path, 0o755)
                run("patchelf", "--set-soname", own, path)
            if any(n in self.copied for n in names):
                at = os.path.relpath(self.beside, os.path.dirname(path))
                run("patchelf", "--set-rpath", "$ORIGIN" if at == "." else "$ORIGIN/" + at, path)

    def glibc(self):
        return max(glibc_of(p) for p in walk(self.prefix) if is_elf(p))


def licence_of(source):
    """What the package of a library says of its licence."""
    for path in (source, re.sub("^/usr", "", source), "/usr" + source):
        owner = subprocess.run(["dpkg", "-S", path], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, universal_newlines=True).stdout
        if owner:
            package = owner.split(":")[0]
            return package, "/usr/share/doc/{}/copyright".format(package)
    return None


def copy_licences(tree, folder, given):
    """Of Zeroth and of each library that travels."""
    for name, (_, source) in sorted(tree.copied.items()):
        if given:
            package, path = name, os.path.join(given, name)
        else:
            package, path = (shutil.which("dpkg") and licence_of(source)) or (name, "")
        if not os.path.exists(path):
            fail("no licence of {} is found ({}): put it to a file {} and name its directory with "
                 "--licences".format(source, path or "no package has it", name))
        to = os.path.join(folder, package)
        os.makedirs(to, exist_ok=True)
        shutil.copyfile(path, os.path.join(to, "copyright"))


def stage(a, top):
    """Copies what is installed to where the wheel has it."""
    installed = a.stage + a.prefix
    package = os.path.join(top, "zeroth")
    tree = Tree(top, a.libdir)
    python = os.path.join(installed, a.pkgdata, "python", "zeroth")
    left = shutil.ignore_patterns("*.pyc", "__pycache__", "*.a", "*.la", "libzeroth.so",
                                  "libzeroth.so.0")
    shutil.copytree(python, package, ignore=left)
    shutil.copytree(os.path.join(installed, a.bindir), os.path.join(tree.prefix, a.bindir))
    shutil.copytree(os.path.join(installed, a.libdir), os.path.join(tree.prefix, a.libdir),
                    ignore=left)
    shutil.copytree(os.path.join(installed, "include"), os.path.join(tree.prefix, "include"))
    shutil.copytree(os.path.join(installed, a.pkgdata), os.path.join(tree.prefix, a.pkgdata),
                    ignore=shutil.ignore_patterns("python"))
    # A wheel has no links: the library has the name that it is asked for.
    lib = os.path.join(tree.prefix, a.libdir)
    shutil.copyfile(os.path.realpath(os.path.join(installed, a.libdir, "libzeroth.so.0")),
                    os.path.join(lib, "libzeroth.so.0"))
    for name in os.listdir(lib):
        if re.match(r"libzeroth\.so\.\d+\.", name):
            os.remove(os.path.join(lib, name))
    return tree


def add_data(a, top, data):
    """Manual pages and completions, where a prefix has them."""
    share = os.path.join(a.stage + a.prefix, "share")
    for part in ("man", "bash-completion", "zsh", "fish"):
        if os.path.isdir(os.path.join(share, part)):
            shutil.copytree(os.path.join(share, part), os.path.join(data, "data", "share", part))
    scripts = os.path.join(data, "scripts")
    os.makedirs(scripts)
    with open(os.path.join(scripts, "zeroth"), "w") as f:
        f.write(SCRIPT.format(bindir=a.bindir))
    os.chmod(os.path.join(scripts, "zeroth"), 0o755)


def write_text(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def metadata(source, version, licences):
    with open(os.path.join(source, "README.md"), encoding="utf-8") as f:
        return METADATA.format(version=version, licences=licences, readme=f.read())


def pack(top, info, out):
    """The zip, the same bytes for the same tree."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", 315532800))
    when = max(time.gmtime(seconds)[:6], (1980, 1, 1, 0, 0, 0))
    record = []
    with zipfile.ZipFile(out + ".part", "w", zipfile.ZIP_DEFLATED) as z:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)

        for path in walk(top):
            name = os.path.relpath(path, top)
            with open(path, "rb") as f:
                data = f.read()
            mode = 0o755 if os.stat(path).st_mode & 0o100 else 0o644
            add(name, data, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("{},sha256={},{}\n".format(name, digest, len(data)))
        own = os.path.basename(info) + "/RECORD"
        add(own, "".join(record) + own + ",,\n", 0o644)
    os.replace(out + ".part", out)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--stage", required=True, help="what DESTDIR was")
    p.add_argument("--prefix", required=True)
    p.add_argument("--bindir", required=True, help="as configured, as are the following")
    p.add_argument("--libdir", required=True)
    p.add_argument("--pkgdata", required=True)
    p.add_argument("--version", required=True)
    p.add_argument("--source", required=True, help="the source tree")
    p.add_argument("--work", required=True, help="a directory to make and remove")
    p.add_argument("--licences", help="a directory with a file of each library's name")
    p.add_argument("--out", required=True, help="directory of the wheel")
    a = p.parse_args()
    for key in ("bindir", "libdir", "pkgdata"):
        path = getattr(a, key)
        if not path.startswith(a.prefix + "/"):
            fail("{} is not below the prefix {}: configure without --{}".format(path, a.prefix,
                                                                                key))
        setattr(a, key, os.path.relpath(path, a.prefix))

    shutil.rmtree(a.work, ignore_errors=True)
    tree = stage(a, a.work)
    tree.leave_out_machine()
    tree.copy_libraries()
    tree.relink()
    tag = "py3-none-manylinux_{}_{}_{}".format(*tree.glibc(), os.uname().machine)

    name = "zeroth-" + a.version
    info = os.path.join(a.work, name + ".dist-info")
    add_data(a, a.work, os.path.join(a.work, name + ".data"))
    licences = os.path.join(info, "licenses")
    copy_licences(tree, licences, a.licences)
    shutil.copyfile(os.path.join(a.source, "LICENSE"), os.path.join(licences, "LICENSE"))
    listed = "".join("License-File: {}\n".format(os.path.relpath(f, licences))
                     for f in walk(licences))
    write_text(os.path.join(info, "METADATA"), metadata(a.source, a.version, listed))
    write_text(os.path.join(info, "WHEEL"), "Wheel-Version: 1.0\nGenerator: zeroth wheel.py\n"
               "Root-Is-Purelib: false\nTag: {}\n".format(tag))
    out = os.path.join(a.out, "{}-{}.whl".format(name, tag))
    pack(a.work, info, out)
    shutil.rmtree(a.work)
    for path in tree.left_out:
        print("left out    {}: it links libraries of this machine".format(path))
    for name, (new, source) in sorted(tree.copied.items()):
        print("carries     {} of {}".format(new, source))
    print("wrote       {}".format(out))


if __name__ == "__main__":
    main()
