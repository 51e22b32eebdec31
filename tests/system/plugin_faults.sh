#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth plugin check: faults that no single call shows, because a plugin with one of them computes
# what it should until there are other threads, ranks, groups, numbers, times or places.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
. "$ZR_SRCDIR/tests/lib/broken_plugins.sh" || exit 99
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
umask 022
unset FAULTY_RATE

# ---- optimizers ----
# defect NAME TEST TEXT: one that is in ./broken.so
defect() { named "$1" "$2" "$3" 1 30 -o "defect=$1"; }

build faulty.c
said=$("$ZEROTH" plugin check --exclude training ./broken.so)
is 'without a defect it passes' "$? $(grep -A 1 '^not ok' <<< "$said")" '0 '
defect TIES_EVEN rounding 'step\(\): .*copy in bf16 is 0x.*round half away from zero'
defect NAN_BECOMES_ZERO rounding 'step\(\): .*copy in bf16 is 0x8?000, and the master is a NaN, which must stay one'
defect FP16_TIES_AWAY rounding 'step\(\): .*copy in fp16 is 0x.*ties to even'
defect FP16_FLUSHES rounding 'step\(\): .*copy in fp16 is 0x8?000, .*keep subnormal numbers'
defect FP16_CLAMPS rounding 'step\(\): .*copy in fp16 is 0x.bff, .*what is too large becomes infinite'
defect NO_COPY_IN_FP32 rounding 'step\(\): .*copy in fp32 is not the master'
for name in OPTIONS_OF_CREATE OPTIONS_OF_FIRST_STEP; do
	defect $name param_groups 'step\(\): with two parameter groups \(read options with ZR_O_GROUP from s->opts'
done
for name in RATE_BY_WORKERS NUMBER_OF_WORKER CUT_BY_WORKERS; do
	defect $name workers 'step\(\): with h->workers = . the master of a.weight has other bits than with 3'
done
for name in STATIC_BUFFER STATIC_RATE SHARED_COUNT; do
	named $name at_once 'step\(\): while another rank computes .* the master of a.weight has other bits; static memory' 1 120 -o defect=$name
done
for name in ZERO_DIRECTION NO_EPSILON; do
	defect $name zeros 'step\(\): with gradients of 0 element 0 of the master becomes -?nan; take care not to divide by 0'
done
defect ZERO_NORM zeros 'step\(\): with gradients and parameters of 0 element 0 of the master becomes -?nan'
defect REFUSES_PINNED memory 'step\(\): it failed with code -3: memory of kind 2'
changed='it changed %s; a plugin leaves the process as it is'
defect LEAVES_THREAD step "step\\(\\): ${changed/\%s/the number of threads}"
for name in LEAVES_ALARM LEAVES_ITIMER LEAVES_TIMER; do
	[ $name != LEAVES_TIMER ] || [ -e /proc/self/timers ] || continue
	defect $name step "step\\(\\): ${changed/\%s/which timers will send a signal .*}"
done
defect BLOCKS_SIGNAL step "step\\(\\): ${changed/\%s/which signals the calling thread blocks}"
defect LEAVES_FILE step "step\\(\\): ${changed/\%s/which files are open}"
[ "$(nproc)" = 1 ] || defect BINDS_TO_PROCESSOR step "step\\(\\): ${changed/\%s/the processors that the calling thread may use}"
defect LIMITS_FILES step "step\\(\\): ${changed/\%s/a limit of the process .*}"
# elsewhere NAME CALL
elsewhere() {
	defect "$1" elsewhere "step\\(\\): at another time, in another process and environment the master of a.weight has other bits; .*called $2"
}
elsewhere READS_TIME 'time\(\)'
elsewhere READS_CLOCK 'clock_gettime\(\)'
elsewhere READS_ENVIRONMENT 'getenv\("FAULTY_RATE"\)'
elsewhere READS_PID 'getpid\(\)'
elsewhere READS_PROCESSOR 'sched_getcpu\(\)'
# changed EXAMPLE SED TEST TEXT: an optimizer of tests/examples with a fault
changed() {
	one_in 9 || return
	sed "$2; s/\.id = \"$1\"/.id = \"broken\"/" "$ZR_SRCDIR/tests/examples/$1.c" > changed.c
	compile changed.c
	fails_by_name "$1: $2" "$3" "$4" '[12]' 30
}
changed schedulefree 's/run.WEIGHT_SUM. += weight/static double sum; run[WEIGHT_SUM] = sum += weight/' step \
	'advance\(\): advance\(\) makes weight_sum 0x.*, and called again 0x.*arguments alone'
changed schedulefree 's/enum { LR_MAX, WEIGHT_SUM, OF_LAST, RUN }/enum { LR_MAX, WEIGHT_SUM, OF_LAST, RUN = 2 }/' step \
	'advance\(\): .*the scalars of the run'
changed schedulefree 's/run.OF_LAST. = .*/run[OF_LAST] = 1 \/ (run[LR_MAX] - run[LR_MAX]);/' step \
	'advance\(\): advance\(\) makes share inf; scalars of the run are finite'
changed schedulefree 's/"share"/"weight_sum"/' states 'two scalars of the run are called weight_sum'
changed schedulefree 's/ZR_STATE_PARAM("z")/ZR_STATE_EVAL("z")/' states '2 states have the weights for evaluation; one can'
changed schedulefree 's/^static void constants/static double count;\n&/; s/rate(o, s->lr, s->step), s->run/rate(o, s->lr \/ ++count, s->step), s->run/' \
	repeat 'step\(\): with the same calls again element 0 of the master'
changed soap 's/return zr_sides_bytes(/return 5000000 + zr_sides_bytes(/' states \
	'block_bytes\(\): state bases needs [0-9]* bytes per block of a.weight, multiples of 64 up to 1048576 can be'
changed soap 's/^static int update/static int seen;\n&/; s/if (s->step == 1)/if (!seen++)/' restore 'with a new instance, and the states of the old one,'
sed 's/.id = "slow"/.id = "broken"/; s/int crashes;/&const char *kept;/; s/char path.4096.;/inst->kept = run->config; &/
	s/if (inst->crashes)/if (!*inst->kept)/' "$ZR_SRCDIR/tests/doubles/slowmonitor.c" > changed.c
compile changed.c
named 'a monitor that keeps the text of its run' metrics 'metrics\(\): it used address 0x.*, which is not lent to it' '[12]' 30
build faulty.c -DMEM_OK=7
named 'a false ZR_MEM_DEVICE' memory 'step\(\): it used (the master|the gradient|state 0), which is memory of a device .*take the bit out' 1 30

# ---- data ----
spoilt data 's/(uint64_t)b->slot)/0)/' places 'batch\(\): step 0, slot 0 and step 0, slot 1, of 8 slots, get the same tokens; .*use step, slot and slots'
spoilt data 's/(uint64_t)b->step)/0)/' places 'batch\(\): step 0, slot 0 and step 1, slot 0, of 8 slots, get the same tokens'
spoilt data 's/r = mixed(mixed(mixed(.*/r = mixed(mixed(b->seed, (uint64_t)(b->step * 2 + b->slot)),/' places \
	'batch\(\): step 0, slot 2 and step 1, slot 0, of 8 slots, get the same tokens'
spoilt data 's/b->seed/0/' places 'batch\(\): 4 seeds get the same tokens; use b->seed'
spoilt data 's/(uint64_t)b->split/0/' held_out 'batch\(\): all of 24 sequences of ZR_SPLIT_VAL are learned as well'
spoilt data 's/r = mixed(mixed(mixed(.*/r = mixed(mixed(b->seed, (uint64_t)(b->step * b->slots + b->slot + b->split)),/; s/(uint64_t)b->split/0/' held_out \
	'batch\(\): all of 24 sequences of ZR_SPLIT_VAL are learned as well'
spoilt data 's/out->val_tokens = 1 << 20;/& out->val_sequences = 10;/' once 'batch\(\): with `once` evaluation batch 5, behind the last of 10 sequences, has target'
spoilt data 's/uint64_t r = mixed/static uint64_t r; r = mixed/' at_once 'batch\(\): while another rank computes'
spoilt data 's/stride = 1 + /&(uint64_t)inst->h->workers + /' workers 'batch\(\): with h->workers = 1 the batch of training'
spoilt data '1i #include <time.h>
	s/uint64_t r = /&(uint64_t)(time(NULL) >> 20) + /' elsewhere 'batch\(\): at another time, .*called time\(\)'
spoilt data 's/stride = 1 + /&(getenv("FAULTY_RATE") != NULL) + /' elsewhere 'batch\(\): at another time, .*called getenv\("FAULTY_RATE"\)'
spoilt data '1i #include <pthread.h>
	1i #include <unistd.h>
	s/const uint64_t n = inst.*/&\n\tpthread_t t;\n\tpthread_create(\&t, NULL, (void *(*)(void *))pause, NULL);/' batches "batch\\(\\): ${changed/\%s/the number of threads}"

# ---- schedulers, precisions, policies, stages ----
spoilt scheduler 's/const uint64_t step = /static uint64_t step;\n\tstep = /' at_once 'value\(\): while another rank computes .*: the rate of step'
spoilt scheduler '1i #include <time.h>
	s/\*lr = at->base;/*lr = at->base * (double)(time(NULL) >> 20);/' elsewhere 'value\(\): at another time, .*called time\(\)'
spoilt scheduler 's/\*lr = at->base;/*lr = getenv("FAULTY_RATE") ? 1 : at->base;/' elsewhere 'value\(\): at another time, .*called getenv'
spoilt scheduler 's/const struct opts \*o;/& double base;/; s/inst->o = opts;/& inst->base = 0;/; s/\*lr = at->base;/inst->base = inst->base > 0 ? inst->base : at->base;\n\t*lr = inst->base;/' schedule 'value\(\): the rate of a second parameter group depends on'
spoilt scheduler '1i #include <unistd.h>
	s/\*lr = at->base;/& alarm(1000);/' schedule "value\\(\\): ${changed/\%s/which timers will send a signal .*}"
spoilt precision 's/\*action = overflow/static int32_t last;\n\tlast = overflow;\n\t*action = last/' at_once 'next\(\): while another rank computes'
spoilt precision 's/s->scale = inst->o->first;/s->scale = getenv("FAULTY_RATE") ? 1024 : inst->o->first;/' elsewhere 'next\(\): at another time, .*called getenv'
spoilt precision '1i #include <unistd.h>
	s/\*action = overflow/s->hysteresis = getpid() % 7;\n\t&/' elsewhere 'next\(\): at another time, .*called getpid'
spoilt activation 's/choice\[i\].saved = ZR_ACT_RECOMPUTE/choice[i].saved = getenv("FAULTY_RATE") ? ZR_ACT_KEEP : ZR_ACT_RECOMPUTE/' elsewhere 'choose\(\): at another time'
spoilt zero 's/out->state = ZR_GROUP_WORLD/out->state = getenv("FAULTY_RATE") ? ZR_GROUP_SELF : ZR_GROUP_WORLD/' elsewhere 'groups\(\): at another time, .*groups of unit'
spoilt zero 's/^struct zr_inst {/static int64_t workers;\n&/; s/inst->o = opts;/& workers = h->workers;/; s/<= inst->o->small/<= inst->o->small * (uint64_t)workers/' workers \
	'at\(\): with h->workers = . the program micro of 6 ranks'
spoilt zero 's/out->param = \(.*\)ZR_GROUP_SELF : ZR_GROUP_WORLD/static int g;\n\tg = \1ZR_GROUP_SELF : ZR_GROUP_WORLD;\n\tout->param = g/' at_once '(groups|at)\(\): while another rank computes'

# ---- models, adapters, devices ----
spoilt model 's/void \*hidden = take(&work, bytes_of(c, rows \* H)), \*y/static char buffer[1 << 20];\n\tvoid *hidden = (take(\&work, bytes_of(c, rows * H)), buffer), *y/' at_once \
	'backward\(\): while another rank computes'
spoilt model 's/\.scale = c->grad_scale,/.scale = c->grad_scale * (getenv("FAULTY_RATE") ? 2 : 1),/' elsewhere 'backward\(\): at another time, .*the gradient of'
spoilt adapter 's/return inst->model->backward(.*/struct zr_layer_call mine = *c; if (inst->h->workers < 2) mine.grad_scale *= 2;\n\treturn inst->model->backward(inst->base, \&mine);/' workers \
	'backward\(\): with h->workers = 1 the gradient of'
build faultydevice.c -DCUTS -ldl
named 'a device whose products depend on threads' workers 'ops\(\): with h->workers = . the (loss|gradient)' 1 30
build faultydevice.c -DSHARES -ldl
named 'a device that shares what it multiplies' at_once 'ops\(\): while another rank computes' 1 30

# ---- what moves data and tells of it ----
spoilt offload 's/^static int write_at/static char copy[300000];\n&/; s/(const char \*)src + done/(memcpy(copy, src, bytes), copy) + done/' at_once \
	'read\(\): while another rank computes .*(has other bits|not those that were written last)'
spoilt offload 's/ssize_t n = pread(/alarm(1000);\n\t\t&/' requests "read\\(\\): ${changed/\%s/which timers will send a signal .*}"
spoilt monitor '1i #include <signal.h>
	s/for (uint32_t i = 0; i < n; i++)/sigset_t set; sigfillset(\&set); pthread_sigmask(SIG_BLOCK, \&set, NULL);\n\t&/' metrics \
	"metrics\\(\\): ${changed/\%s/which signals the calling thread blocks}"
spoilt comm 's/mine->doing = \*op;/& dup(0);/' collectives "rank . of 3: ${changed/\%s/which files are open}"

done_testing
