#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth plugin check: our own plugins pass, and each planted fault is named; see broken.c.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/broken_plugins.sh" || exit 99
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
umask 022

# macro TEST TEXT CODE FLAG: a fault that is built in
macro() {
	build broken.c "$4"
	named "$4" "$1" "$2" "$3"
}
# fault NAME TEST TEXT: one that is in ./broken.so
fault() { BROKEN=$1 named "$1" "$2" "$3" 1 "${@:4}"; }

macro symbols 'exports helper' 1 -DEXPORTS
macro symbols 'does not export zr_plugin_entry_v1' 2 -DNO_ENTRY
macro load 'look at its constructors, and whether opts, n_opts and opt_stride of its descriptor are its options' 2 -DTOO_MANY_OPTIONS
if [ -z "$ZR_SANITIZE" ]; then # they report crashes themselves
	like 'plugin info blames the plugin for it' "$("$ZEROTH" plugin info ./broken.so 2>&1)" \
		'^zeroth: killed by SIGSEGV \(Segmentation fault\) looking at the options of plugin \./broken\.so: they are not what opts, n_opts and opt_stride of its descriptor say; mend it$'
	like '... and so does a training' \
		"$("$ZEROTH" train "$ZR_SRCDIR/tests/lib/matrix.ini" -o optimizer.plugin=./broken.so -o data.path=broken.so -o run.dir=run 2>&1)" \
		'looking at the options of a plugin: they are not'
fi
# from glibc 2.41 on it cannot be loaded, either
macro sections 'executable stack' '1|2' -Wl,-z,execstack
macro runpath '"lib"' 1 -Wl,-rpath,lib,--enable-new-dtags
macro load 'working directory' 1 -DCHANGES_DIRECTORY
macro load 'floating-point mode' 2 -DCHANGES_ROUNDING
macro imports 'signal\(\)' 1 -DHANDLER
named -DHANDLER lifecycle 'create\(\): it changed the handler of a signal' 1
macro imports '_Exit\(\)' 1 -DENDS
named -DENDS step 'step\(\): it called _Exit\(\)' 1
macro imports 'fesetround\(\)' 1 -DROUNDS
named -DROUNDS step 'step\(\): it left another floating-point mode' 1
macro options 'momentum has no doc' 1 -DDOC
macro options 'lr and momentum share bytes' 1 -DOVERLAP
macro options 'leaves option period auto' 1 -DAUTO_STAYS

sed 's,zr\.optimizer/1,zr.optimizer/9,' "$ZR_SRCDIR/tests/doubles/broken.c" > other.c
compile other.c
for test in states cut training; do
	named 'another interface' $test 'broken: it offers no interface zr.optimizer/1' 1
done
sed 's/@ID@/broken/; s/out->vocabulary = .*/&out->val_tokens = 0;/; s/targets\[.*= (int32_t)token/&+ 70000/' "$ZR_SRCDIR/cmd/new/data.c" > other.c
compile other.c
named 'a training that fails is of no function' training 'data/broken: a training' 1 30

sed 's/@ID@/broken/; s/uint32_t add_to = .*/uint32_t add_to = 0;/' "$ZR_SRCDIR/cmd/new/model.c" > other.c
compile other.c
named 'a model that stores where it should add' gradients 'backward\(\): with accumulate set it does not add to the gradient of h.0.up.weight' 1 30

build broken.c -DPERIOD_TYPE=double 2> said
like 'ZR_OPT: a member of another type does not compile' "$(cat said)" 'option period: its type is not that of the member'

build broken.c
said=$(BROKEN='' "$ZEROTH" plugin check ./broken.so)
is 'without a fault it passes' "$?" 0
is 'with a result of each test' "$(grep -c '^ok ' <<< "$said")" "$(tail -n 1 <<< "$said" | cut -d. -f3)"
fault USES_GET alone 'create\(\): it used address \(nil\)'
fault LEAKS lifecycle 'destroy\(\): it leaks'
[ -n "$ZR_SANITIZE" ] || fault SHARED lifecycle 'destroy\(\): it was killed by SIGABRT'
fault NO_LOOK no_memory 'create\(\): it used address'
fault SILENT no_memory 'create\(\): it returned -4 and no text'
fault LOSES no_memory 'create\(\): when allocation 2 of 2 fails, 1 blocks of malloc are not freed'
fault NAMES states 'states\(\): .*mo/mentum'
fault INFINITE states 'states\(\): .*momentum begins with'
fault HALF_FROM_1 states 'states\(\): .*momentum begins with 1; only those of ZR_F32'
fault ALLOCATES step 'step\(\): it called host->alloc, which is \[main\]'
fault NESTS step 'step\(\): it called host->parallel in an item'
fault LOG_LEVEL step 'step\(\): host->log got level 9'
fault WRITES_GRAD step 'step\(\): it wrote into the gradient'
fault WRITES_OPTIONS step 'step\(\): it wrote into the options'
fault BEYOND step 'step\(\): it went beyond the master of 57344 bytes, to 57344'
fault PRINTS step 'step\(\): it printed "hello" to standard output'
fault POSITIVE step 'step\(\): it returned 1'
fault OWN_LR step 'step\(\): it ignores the lr'
fault NO_MULT multiplier 'step\(\): .*grad_mult'
fault PADS padding 'step\(\): .*at element 2400'
fault TRUNCATES rounding 'step\(\): .*bf16 is 0x'
fault PLACE cut 'step\(\): with pieces of one block'
fault MALLOCS repeat 'step\(\): it allocates memory, 8 times in 4 calls'
fault REMEMBERS restore 'step\(\): with a new instance'
fault RANK ranks 'step\(\): with rank 1 of 2'
fault HANGS nonfinite 'step\(\): it did not return within 1 s' 1
fault NEWER shorter 'step\(\): it went beyond struct zr_opt_step'
build brokenschedule.c
is 'a scheduler without a fault' "$(BROKEN='' "$ZEROTH" plugin check ./broken.so | grep -c '^not ok')" 0
fault COUNTS schedule 'value\(\): .*depends on which steps'
fault NEGATIVE schedule 'value\(\): .*step 101 is -'
fault ENDLESS schedule 'value\(\): .*step 50 is inf'
fault UNSET schedule 'value\(\): .*set \*lr'

# ---- the function of one element ----
# element SED TEST TEXT: tests/examples/signum.c with a fault
element() {
	one_in 7 || return
	sed "s/\"signum\"/\"broken\"/; $1" "$ZR_SRCDIR/tests/examples/signum.c" > spoilt.c
	compile spoilt.c -O2
	fails_by_name "an update: $1" "$2" "$3" 1 30
}
element '1i #include <float.h>
	s/p - k/zr_min(FLT_MAX, p) - k/' text 'step\(\): its text has the name FLT_MAX'
element '1i #define HALF 0.5f
	s/\* g;/* g * HALF;/' text 'step\(\): its text has the name HALF'
element '1i static const float half = 0.5f;
	s/\* g;/* g * half;/' text 'step\(\): its text has the name half'
element '1i #include <math.h>
	s/zr_sign(s.M.)/fabsf(s[M])/' text 'step\(\): its text has the name fabsf'
element 's/, 1 - o->momentum }, CONSTANTS/ }, CONSTANTS - 1/' step 'step\(\): after 3 steps .* is -?nan'
"${cc[@]}" -std=gnu11 -w -O2 -shared -fPIC -I"$ZR_SRCDIR/include" -o declares.so "$ZR_SRCDIR/tests/doubles/declares.c"
is 'a text may declare what C can' "$("$ZEROTH" plugin check --include text ./declares.so | grep -c '^ok')" 1

# ---- other roles ----
spoilt zero 's/each_split(inst, p, s, s->gather)/ZR_OK/' programs 'at\(\): with 1 ranks: .*gather'
spoilt zero 's/inst->o = opts;/& nodes = h->local_world < h->world;/; s/^struct zr_inst {/static int nodes;\n&/; s/each_split(inst, p, s, s->gather)/nodes ? ZR_OK : &/' programs 'at\(\): with 2 ranks in nodes of 1: .*gather'
spoilt zero 's/return s->reduce(.*/return ZR_OK;/' programs 'at\(\): with 1 ranks: .*reduce'
spoilt zero 's/out->state = .*//' groups 'groups\(\): unit 0 gets group -1'
spoilt zero 's/rc = s->publish(.*/rc = 0;/' programs 'at\(\): .*publish'
spoilt data 's/(uint64_t)b->slot/(uint64_t)inst->h->rank/' restart 'batch\(\): .*on rank 1 of 2, gets other tokens'
spoilt data 's/(uint64_t)b->slot/(uint64_t)rand()/' batches 'batch\(\): .*when it is asked for again'
spoilt data 's/= (token + stride) % n/= token + n/' batches 'batch\(\): token .* is .*, expected one below the vocabulary of 256'
spoilt data 's/k < b->length/k <= b->length/' batches 'batch\(\): it went beyond the (inputs|targets)'
spoilt precision 's/overflow ? ZR_STEP_SKIP : //' scale 'next\(\): a step whose gradients are not finite is applied'
spoilt precision 's/s->scale > 2 ? s->scale \/ 2 : 1/0/' scale 'next\(\): the scale became 0'
spoilt monitor 's/fprintf(inst->file,/printf(/' imports 'it calls printf\(\)'
spoilt monitor 's/fclose(inst->file);$//' lifecycle 'which files are open'
keeps='s/m->unit\[u\].n_tensors = .*/&\n\tt->persistent ='
spoilt model "$keeps -1;/" declaration 'tensor .*: persistent is -1; expected 0 or more, and at most 1048576 in all tensors'
spoilt model "$keeps 1 << 19;/" declaration 'tensor .*: persistent is 524288; expected 0 or more, and at most 1048576 in all tensors'
spoilt model "$keeps 3;/" declaration 'declare\(\): .* has persistent numbers, and there is no function renew to write them'
spoilt model "$keeps 3;/; s/^static const struct zr_model_v1/static int renew(struct zr_inst *m, const struct zr_renewal *r) \
{ (void)m; return r->persistent[0][3] = 0; }\n&/; s/\.backward = backward /.backward = backward, .renew = renew /" gradients \
	'renew\(\): it went beyond the persistent numbers'
spoilt adapter 's/return inst->model->backward(.*/return ZR_OK;/' gradients 'backward\(\): the gradient of'

spoilt comm 's/if (sums && r)/if (sums \&\& r != 1)/' collectives 'wait\(\): rank . of 3: reduce_scatter over 3 ranks: segment 0'
spoilt comm 's/r \* s->count \* e, piece/r * n * e, piece/' collectives 'wait\(\): .*all_gather over 3 ranks: segment 4 of 20001 elements'
spoilt comm 's/r != op->root/r != 0/' collectives 'wait\(\): .*broadcast over 3 ranks'
spoilt comm 's/from + r \* s->count \* e, (size_t)(n \* e)/from + r * s->count * e, (size_t)(n * e + 1)/' collectives 'wait\(\): rank . of 3: it went beyond what is sent'
spoilt comm 's/&c->op\[++c->done/\&c->op[++c->done, ticket/' outstanding 'wait\(\)'
spoilt comm 's/mine->doing = \*op;/mine->doing = *op; if (op->kind == ZR_COMM_FENCE) return 0;/' meeting 'wait\(\): .*a fence was over'
spoilt comm 's/o->dtype == op->dtype && //' differences 'wait\(\): .*with a type other'
spoilt comm 's/while (c->done < ticket/while (0/' abort 'wait\(\): .*after abort'
# Who stops may be slow to write why: the others wait for it.
sed "s/@ID@/broken/; s/snprintf(c->area->why/nanosleep(\&(struct timespec){ 0, 100000000 }, NULL); &/" \
	"$ZR_SRCDIR/cmd/new/comm.c" > slow.c
compile slow.c
like 'comm: a reason that comes late is waited for' "$("$ZEROTH" plugin check --include abort --timeout 30 ./broken.so)" \
	'^ok [0-9]* - abort:'
build brokencomm.c -ldl
named 'comm: memory of another rank' memory 'mem_peer\(\): rank . of 3: byte . of the memory of rank . is not what' 1 30
BROKEN=counts named 'comm: an exchange that compares no counts' exchange 'exchange over|rank 2 expects one element more than rank 0 sends to it, and the exchange succeeded' 1 30
BROKEN=group named 'comm: operations over a listed group that run over the world' listed 'place . of a group of rank . has what rank . sent' 1 30

spoilt offload 's/done += (uint64_t)n;/done = bytes;/' no_space 'write\(\): on a full disk the write succeeded, and byte'
spoilt offload 's/return failed(s, "write".*/return ZR_EIO;/' no_space 'write\(\): it returned -. and no text'
spoilt offload 's/if (!o)$/if (0)/' make 'make\(\): it used address'
spoilt offload 's/o->fd = open(s->o->path, O_TMPFILE/char at[300]; snprintf(at, 300, "%s\/o", s->h->run_dir); o->fd = open(at, O_CREAT/' killed 'write\(\): after another process was killed, a new object'
spoilt offload 's/o->fd = open(s->o->path, O_TMPFILE/char at[300]; snprintf(at, 300, "%s\/o%d", s->h->run_dir, getpid()); o->fd = open(at, O_CREAT | O_TRUNC/' killed 'files of killed processes stay'
spoilt activation 's/choice\[i\].saved = ZR_ACT_RECOMPUTE/choice[i].saved = ZR_ACT_KEEP/' choices 'choose\(\)'

build brokenmixture.c -ldl
mixture=(-o layers=2 -o width=32 -o heads=2 -o context=16 -o experts=4 -o experts_per_token=2 -o router_aux_loss_coef=0.5)
for BROKEN in weights balance; do
	export BROKEN
	like "a mixture without the gradient of its $BROKEN" \
		"$("$ZEROTH" plugin check --include gradients "${mixture[@]}" ./broken.so)" 'backward\(\): the gradient of .*gate.weight'
done
unset BROKEN

# ---- the command ----
build broken.c
export BROKEN=PADS
if command -v python3 > /dev/null; then
	is '--json says the same' "$("$ZEROTH" plugin check --json --include 'pad*' ./broken.so | python3 -c 'import json, sys
j = json.load(sys.stdin); t = j["tests"][0]
print(j["plugin"], len(j["tests"]), t["test"], t["result"], "padding" in t["text"])')" 'optimizer/broken 1 padding fail True'
else
	skip '--json says the same' 'no python3'
fi
"$ZEROTH" plugin check --exclude 'pad*' ./broken.so > said
is '--exclude leaves a test out' "$? $(grep -c padding said)" '0 0'
is 'a file that is not there' "$("$ZEROTH" plugin check ./nowhere.so 2>&1; echo $?)" \
	"zeroth: plugin ./nowhere.so: No such file or directory
2"
like 'an option that it does not have' "$("$ZEROTH" plugin check -o elephant=1 ./broken.so 2>&1)" 'elephant'
is 'the tests, by name' "$("$ZEROTH" plugin check --tests | grep -c '^optimizer ')" 16

# ---- our own ----
unset BROKEN
for name in adafactor ademamix lion signsgd signum; do
	one_in 7 || continue
	"${cc[@]}" -std=gnu11 -O2 -fvisibility=hidden -shared -fPIC -I"$ZR_SRCDIR/include" -o $name.so "$ZR_SRCDIR/tests/examples/$name.c" -lm
	said=$("$ZEROTH" plugin check ./$name.so)
	is "the example $name passes" "$? $(grep -A 1 '^not ok' <<< "$said")" '0 '
done
trained=' '
seq 10000 12999 > text
own() { # trainings with one of a role: other tests have the others
	local said training=(--exclude training)
	[[ $trained = *" ${1%/*} "* ]] || training=() trained+="${1%/*} "
	said=$("$ZEROTH" plugin check "${training[@]}" "$@")
	is "$* passes" "$? $(grep -A 1 '^not ok' <<< "$said")" '0 '
}
for so in "${ZR_TEST_PLUGINS:-plugins}"/*/*.so; do
	name=${so%.so} name=${name#"${ZR_TEST_PLUGINS:-plugins}/"}
	case $name in
	model/* | scheduler/* | optimizer/*) one_in 7 || continue ;;& # most are one decoder, or one function
	boot/* | comm/* | data/* | monitor/* | offload/* | precision/* | zero/*) one_in 2 || continue ;;&
	model/*moe | model/mixtral) own "$name" "${mixture[@]}" ;;
	model/*) own "$name" -o layers=2 -o width=32 -o heads=2 -o context=16 ;;
	data/tokens) own "$name" -o path="$scratch/text" -o format=uint16 ;;
	boot/mpi) # a process that Open MPI starts in finds more in its environment, whoever calls it
		leave_out=()
		[[ $("${MPIRUN:-mpirun}" --version 2> /dev/null) != *'Open MPI'* ]] ||
			leave_out=(--exclude alone --exclude lifecycle --exclude no_memory --exclude hosts)
		own "$name" "${leave_out[@]}" ;;
	comm/mpi) # ranks that mpirun did not start are none to it
		own "$name" --exclude collectives --exclude outstanding --exclude meeting --exclude memory --exclude differences \
			--exclude abort ;;
	offload/nvme) own "$name" -o path="$scratch" ;;
	*) own "$name" ;;
	esac
done

done_testing
