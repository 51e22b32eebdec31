#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth plugin new: what it writes builds by the headers alone, passes its check and trains; nothing is written over.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
mkdir "$scratch/in" && cd "$scratch/in" || exit 99 # so that .. is nobody else's
umask 022
export PKG_CONFIG_PATH=$ZR_BUILDDIR
mkdir bin
ln -s "$ZEROTH" bin/zeroth
PATH=$PWD/bin:$PATH
alone() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s "$@"; }

roles=$(sed -n 's/^ROLE(\([a-z]*\),.*/\1/p' "$ZR_SRCDIR/core/plugin/roles.def" | grep -vx device | tr '\n' ' ')
is 'zeroth-plugin(1) lists these roles' "$(sed -n '/^\.Ar role$/,/^\.Ar name$/s/^\.Cm//p' "$ZR_SRCDIR/man/zeroth-plugin.1" |
	tr -s ' ,.\n' ' ' | xargs -n1 | sort)" "$(xargs -n1 <<< "$roles" | sort)"
for role in $roles; do
	said=$(zeroth plugin new $role "my_$role-1" 2>&1)
	is "new $role" "$? $(ls "my_$role-1" | tr '\n' ' ')" "0 Makefile README.md my_$role-1.c my_$role-1.ini "
	like "new $role says what comes next" "$said" "make -C my_$role-1 check\$"
	is "$role: no mark is left" "$(grep -rn '@[A-Z]*@' "my_$role-1")" ''
	target=check
	one_in 3 || target=my_$role-1.so # plugin_check.sh checks plugins under sanitizers
	ok "$role: it builds without a warning, and its check passes" alone -C "my_$role-1" $target CFLAGS='-O1 -Wall -Wextra -Werror'
	cd "my_$role-1" || exit 99
	zeroth train "my_$role-1.ini" -o run.dir=run -o train.steps=3 > out 2> err
	like "$role: it trains" "$? $(tail -n 1 out err)" 'digest: losses='
	cd ..
done
is 'the monitor wrote a line for each step' "$(cut -d' ' -f1 my_monitor-1/run/my_monitor-1.txt | tr '\n' ' ')" '1 2 3 '
like 'the README says where pkg-config looks' "$(cat my_data-1/README.md)" 'PKG_CONFIG_PATH=/usr/local/lib/pkgconfig'
is 'the Makefile has ten lines' "$(wc -l < my_data-1/Makefile)" 10
digest() { zeroth train "$PWD/text.ini" -o run.dir="run$1" -n "$@" 2> err | tail -n 1; }
printf '[data]\nplugin = text\npath = %s\n[model]\nplugin = gpt2\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 32
[train]\nsteps = 3\ntrain_batch_size = 4\nmicro_batch_size = 2\n' "$PWD/my_zero-1/my_zero-1.c" > text.ini
plain=$(digest 1 -o zero.plugin=stage0)
mkdir values
ranks() {
	local r
	for r in 0 1; do
		RANK=$r WORLD_SIZE=2 zeroth train "$PWD/text.ini" -o boot.plugin=./my_boot-1/my_boot-1.so -o boot.path="$PWD/values" \
			-o run.dir=runboot 2> "err$r" &
	done
	wait
}
is 'the boot joins two processes, with the same bits' "$(ranks | tail -n 1)" "$plain"
is 'the comm gives them, too, in stage 3' "$(digest 2 -o zero.plugin=stage3 -o comm.plugin=./my_comm-1/my_comm-1.so -o run.dir=runcomm)" "$plain"
is 'the stage gives the bits of stage 0, on two ranks' "$(digest 2 -o zero.plugin=./my_zero-1/my_zero-1.so)" "$plain"

# A model computes with a kernel of its own where the device says where it runs.
sed '/^static int add_vectors(/,/^}/{
	s/^\treturn .*/\tif (c->dtype != ZR_F32 || !ZR_HAS(c->ops, struct zr_ops, native) || !c->ops->native || c->ops->native->api != ZR_NATIVE_HOST)\
		return -1;\
	for (int64_t i = 0; i < op.n; i++)\
		((float *)op.out)[i] = ((const float *)op.a)[i] + ((const float *)op.b)[i];\
	return ZR_OK;/
}; s/^#include <stdlib.h>/&\n#include <zeroth\/optimizer.h>/' my_model-1/my_model-1.c > own.c
own() { # DIRECTORY: builds own.c there
	mkdir "$1"
	"${CC%% *}" -std=c11 -O1 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC -I"$ZR_SRCDIR/include" -o "$1/my_model-1.so" own.c
}
modelled() { digest 1 -o model.heads= -o model.plugin="./$1/my_model-1.so" -o run.dir="run_$1"; }
own own
one=$(modelled my_model-1)
like 'a model trains' "$one" '^digest: '
is 'with a kernel of its own it has the same bits' "$(modelled own)" "$one"
sed -i 's/\[i\] = /[i] = 1 + /' own.c
own wrong
wrong=$(modelled wrong)
like '... a wrong one trains, too' "$wrong" '^digest: '
ok '... to other bits' test "$wrong" != "$one"

# So does an adapter, which stands in front of the operations: its own sum of two vectors. On a device of another interface,
# as a card's memory has, it takes the operation, or refuses by name.
sed '/^static int forward(/,/^}/c\
struct own_ops {\
	struct zr_ops ops;\
	const struct zr_ops *base;\
};\
\
static int refuses;\
static int add(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_residual *op)\
{\
	const struct zr_ops *base = ((const struct own_ops *)(const void *)ops)->base;\
	if (!ops->native || ops->native->api != ZR_NATIVE_HOST)\
		return refuses ? ZR_ENOTSUP : base->residual(base, s, op);\
	if (op->dtype != ZR_F32 || !op->a || op->dropout > 0 || op->gain > 0)\
		return base->residual(base, s, op);\
	for (int64_t i = 0; i < op->n; i++)\
		((float *)op->out)[i] = ((const float *)op->a)[i] + ((const float *)op->b)[i];\
	return ZR_OK;\
}\
\
static int forward(struct zr_inst *inst, const struct zr_layer_call *c)\
{\
	struct own_ops own = { *c->ops, c->ops };\
	struct zr_layer_call call = *c;\
	own.ops.residual = add;\
	call.ops = &own.ops;\
	int rc = inst->model->forward(inst->base, &call);\
	return rc == ZR_ENOTSUP ? zr_fail(inst->h, rc, "it adds in host memory alone") : rc;\
}
s/^#include <stdlib.h>/#include <zeroth\/device.h>\n#include <zeroth\/optimizer.h>\n&/' my_adapter-1/my_adapter-1.c > adapter.c
adapts() { # DIRECTORY [SED]: builds adapter.c there
	mkdir "$1"
	sed "$2" adapter.c > "$1/my_adapter-1.c"
	"${CC%% *}" -std=c11 -O1 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC -I"$ZR_SRCDIR/include" -o "$1/my_adapter-1.so" \
		"$1/my_adapter-1.c"
}
adapted() { digest 1 -o adapter.plugin="./$1/my_adapter-1.so" -o run.dir="run_$1" "${@:2}"; }
apart=(-o device.plugin="$cards" -o device.memory=32M)
one=$(adapted my_adapter-1)
like 'an adapter trains' "$one" '^digest: '
adapts adds
is 'with a kernel of its own it has the same bits' "$(adapted adds)" "$one"
adapts adds_more 's/\[i\] = /[i] = 1 + /'
wrong=$(adapted adds_more)
like '... a wrong one trains, too' "$wrong" '^digest: '
ok '... to other bits' test "$wrong" != "$one"
is '... and is not called on a device of another interface' "$(adapted adds_more "${apart[@]}" -o run.dir=run_apart)" "$one"
adapts refuses 's/^static int refuses/& = 1/'
adapted refuses "${apart[@]}" > said
like '... where an adapter that needs its own refuses' "$(cat err)" '\[adapter\] it adds in host memory alone; rank 0, step 1, forward of layer'

# ---- what is refused ----
refused() { # NAME TEXT ARGUMENT...
	local name=$1 text=$2
	shift 2
	is "$name" "$(zeroth plugin new "$@" 2>&1; echo $?)" "zeroth: $text
2"
}
cp -r my_data-1 before
refused 'nothing is written over' 'my_data-1/my_data-1.c is there already, and nothing is written over; choose another name or --dir' data my_data-1
refused 'nor is a part of it' 'here/Makefile is there already, and nothing is written over; choose another name or --dir' \
	--dir "$(mkdir here; touch here/Makefile; echo here)" data other
is 'and nothing else is' "$(diff -r before my_data-1; ls here)" Makefile
refused 'a role without a template' "there is no template for role 'devil', but for $(echo $roles | sed 's/ /, /g')" \
	devil x
refused 'a device, with a reason' "there is no template of a device: it has all operations of zeroth/device.h, which no short \
source can show; begin with a copy of plugins/device/cpu of Zeroth's sources" device x
for name in '' 9lives Upper a/b ../x "$(printf 'a%.0s' {1..64})"; do
	refused "the name '$name'" "'$name' is no name of a plugin: it has 1 to 63 of a-z, 0-9, _ and -, a letter first" data "$name"
done
is 'nothing was made' "$(ls -d 9lives Upper a ../x 2> /dev/null)" ''
(trap '' XFSZ; ulimit -f 1; zeroth plugin new data torn) 2> err
is 'a file that cannot be written leaves nothing of the others' "$? $(cat err) $(ls -d torn 2>&1)" \
	"4 zeroth: torn/torn.c: File too large ls: cannot access 'torn': No such file or directory"
zeroth plugin new --dir deep/er scheduler s 2> err
is 'a directory whose parent is not there' "$? $(cat err)" '4 zeroth: deep/er: No such file or directory'

done_testing
