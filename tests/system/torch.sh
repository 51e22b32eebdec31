#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Models that a program computes by itself: in Python alone, and modules of PyTorch where that is installed; TORCH_PYTHON
# names a python that has it.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
[ -z "$ZR_SANITIZE" ] || skip_all 'python is one without the sanitizers'
command -v python3 > /dev/null || skip_all 'no python3'
cd "$scratch" || exit 99

python=python3
snake() {
	ZR_CARDS=$cards ZEROTH_LIBRARY=$ZR_BUILDDIR/.libs/libzeroth.so PYTHONPATH=$ZR_SRCDIR/embed PYTHONDONTWRITEBYTECODE=1 "$python" "$@" 2>&1
}
places() { snake "$ZR_SRCDIR/tests/examples/places.py" "$@"; }

# ---- without PyTorch ----
want=$(places 1)
like 'Python computes a model by itself' "$(sed -n 1p <<< "$want")" '^digest: losses=[0-9a-f]{16} params=[0-9a-f]{16}$'
is '... the same in stage 3 on 2 ranks' "$(places 2 zero.plugin=stage3)" "$(sed '2s/.*/[2.0, 1.0]/' <<< "$want")"
apart=("device.plugin=$cards" device.memory=32M device.separate=no device.declared=yes device.late_copies=yes)
for kind in '1 zero.plugin=stage0' '1 zero.plugin=stage2' '2 zero.plugin=stage3'; do
	is "... on a device with a memory of its own: $kind" "$(places $kind "${apart[@]}" | sed -n 1p)" "$(sed -n 1p <<< "$want")"
done
mkdir disk
is '... and with states on disk' "$(places 2 zero.plugin=stage1 offload.optimizer.plugin=nvme offload.optimizer.path=disk | sed -n 1p)" \
	"$(sed -n 1p <<< "$want")"
is '... what it keeps goes into a checkpoint' "$(places 1 run.dir=run | sed -n 1p)" 'saved [1.0, 0.0]'
is '... and comes out of it, on other ranks' "$(places 2 run.dir=run zero.plugin=stage3 | sed -n 1p)" 'saved [2.0, 1.0]'
places 1 run.dir=run zero.plugin=stage2 > last
is '... and the training goes on to the same' "$(sed -n '1p;2p' last)" "saved [3.0, 2.0]
$(sed -n 1p <<< "$want")"

if ! "$python" -c 'import torch' 2> /dev/null; then
	like 'zeroth.torch says what it lacks' "$(snake -c 'import zeroth.torch' | tail -n 1)" \
		'^ImportError: zeroth.torch trains modules of PyTorch, which this python lacks: pip install torch'
fi

# ---- with it ----
python=${TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch' 2> /dev/null; then
	skip 'modules of PyTorch train' 'no python with torch'
	done_testing
	exit
fi

# modules CASE...: what tests/examples/modules.py says of it
modules() { snake "$ZR_SRCDIR/tests/examples/modules.py" "$@"; }

for case in $(modules); do
	is "a module of PyTorch: $case" "$(modules "$case" | tail -n 1)" good
done

if "$python" -c 'import transformers' 2> /dev/null; then
	ok 'a model of transformers takes 40 lines, with its comparison' \
		test "$(sed '/^"""/,/"""$/d' "$ZR_SRCDIR/tests/examples/t5.py" | grep -cvE '^ *(#.*)?$')" -le 40
	like '... and learns as with PyTorch alone' "$(HF_HUB_OFFLINE=1 snake "$ZR_SRCDIR/tests/examples/t5.py" 8 | tail -n 1)" \
		'^loss [0-9.]*, of PyTorch [0-9.]*; at most (0e[+]00|[0-9]e-0[6-9]) apart$'
else
	skip 'a model of transformers takes 40 lines, with its comparison' 'no transformers'
fi

done_testing
