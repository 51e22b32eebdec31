#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth doctor: what it shows of this machine is so, limits that are set for it are found, and so is what hinders a
# configuration. What it makes of other machines: tests/unit/cmd/t_doctor.c.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99

# code OF-A-COMMAND...: runs it, for `out`, and gives its exit code
code() { "$@" >out 2>err; echo $?; }
doctor() { "$ZEROTH" doctor "$@"; }

text=$(doctor) # this machine may lack anything
like 'processors' "$text" "^processor   .*; $(nproc) can be used"
like 'the device that the plugin chooses' "$text" "^device      cpu, [a-z0-9+]+"
like 'the disk' "$text" "^disk        run\.dir: $(realpath .), .* free"
like 'MPI' "$text" "^mpi         $(mpirun --version 2>/dev/null | head -n 1 | sed 's/[().]/\\&/g; s/^$/there is no mpirun/')"
is 'no file stays behind' "$(ls -A)" ''

is 'few open files hinder' "$(ulimit -n 40; code doctor)" 1
like 'with the command that raises them' "$(cat out)" 'a process may open 40 files
 +-> ulimit -n 4096'
is 'small files hinder' "$(ulimit -f 100; ulimit -c 0; trap '' XFSZ; code doctor)" 1
like 'and how to allow more' "$(cat out)" '-> ulimit -f unlimited'
if setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock true 2>/dev/null; then
	like 'locked memory' "$(setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		bash -c 'ulimit -l 64; exec "$@"' - "$ZEROTH" doctor)" 'slows       locked memory is limited to 64\.0 KiB.*
 +-> ulimit -l unlimited'
else
	skip 'locked memory' 'no setpriv, or no privilege to drop one with it'
fi
if unshare -rm true 2>/dev/null; then
	like 'a small /dev/shm' "$(unshare -rm bash -c 'mount -t tmpfs -o size=1M none /dev/shm && exec "$@"' - "$ZEROTH" doctor)" \
		'slows       /dev/shm has 1\.0 MiB free.*
 +-> mount -o remount,size=2G /dev/shm'
	like 'a run directory that is read-only' "$(unshare -rm bash -c 'mkdir ro; mount -t tmpfs -o ro none ro && exec "$@"' - \
		"$ZEROTH" doctor -o run.dir=ro/run)" "hinders     run\.dir: nothing can be written to .*/ro: Read-only file system"
else
	skip 'a small /dev/shm' 'no unshare'
	skip 'a run directory that is read-only' 'no unshare'
fi

# ---- a configuration ----
seq 1 20000 >text
cat >c.ini <<'END'
[model]
plugin = gpt2
layers = 1
heads = 2
width = 8
context = 16
[train]
steps = 2
micro_batch_size = 2
gradient_accumulation_steps = 1
[data]
plugin = text
path = text
END
unlike() { if grep -qE "$3" <<<"$2"; then fail "$1" "$2"; else pass "$1"; fi; }
unlike 'one that runs' "$(doctor c.ini)" '^hinders'
is 'one whose data are not there' "$(code doctor c.ini -o data.path=nowhere)" 1
like 'says so' "$(cat out)" '^hinders     .*nowhere'
is 'one that does not fit' "$(code doctor c.ini -n 4 -o model.width=65536 -o model.layers=96)" 1
like 'says what it needs' "$(cat out)" '^hinders     does not fit: needs '
is 'a plugin that is none' "$(code doctor -o device.plugin=elephant)" 1
like 'is named' "$(cat out)" "^hinders     .*no device plugin 'elephant'"
mkdir -p more/zero
echo 'no library' >more/zero/broken.so
like 'a plugin that does not load, and why' "$(ZEROTH_PLUGIN_PATH=$ZEROTH_PLUGIN_PATH:$PWD/more "$ZEROTH" doctor)" \
	'^slows       zero/broken cannot be used: .*broken\.so'

if command -v python3 >/dev/null; then
	code doctor --json c.ini -o run.dir=r >/dev/null
	is '--json' "$(python3 -c 'import json
d = json.load(open("out"))
print(d["machine"]["processors"], d["machine"]["disks"][0]["for"], d["machine"]["device"],
      all(f["weight"] in ("hinders", "slows", "note") for f in d["findings"]),
      d["hindered"] == any(f["weight"] == "hinders" for f in d["findings"]))')" "$(nproc) run.dir cpu True True"
else
	skip '--json' 'no python3'
fi

done_testing
