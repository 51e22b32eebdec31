# SPDX-License-Identifier: Apache-2.0
"""backend.py - how pip makes a wheel of the source tree (PEP 517): configure, make, make wheel.

ZEROTH_CONFIGURE has more options of configure, MAKEFLAGS those of make.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile

import wheel

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build twice."""
    with open(os.path.join(ROOT, "configure.ac"), encoding="utf-8") as f:
        version = re.search(r"^AC_INIT\(\[zeroth\], \[(.*)\]\)$", f.read(), re.M).group(1)
    name = "zeroth-{}.dist-info".format(version)
    wheel.write_text(os.path.join(metadata_directory, name, "METADATA"),
                     wheel.metadata(ROOT, version, ""))
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="zeroth-") as build:
        def run(*command):
            subprocess.run(command, cwd=build, check=True)
        if not os.path.exists(os.path.join(ROOT, "configure")):
            subprocess.run(["./bootstrap"], cwd=ROOT, check=True)
        # The prefix is not used: what is in a wheel finds its own.
        run(os.path.join(ROOT, "configure"), "--prefix=/usr/local", "--libdir=/usr/local/lib",
            "--with-cuda=no", *shlex.split(os.environ.get("ZEROTH_CONFIGURE", "")))
        run("make", *([] if "MAKEFLAGS" in os.environ else ["-j%d" % os.cpu_count()]))
        run("make", "wheel")
        built, = glob.glob(os.path.join(build, "*.whl"))
        shutil.copy(built, wheel_directory)
        return os.path.basename(built)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("make dist makes the archive of sources")
