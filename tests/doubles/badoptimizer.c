/* SPDX-License-Identifier: Apache-2.0
 *
 * badoptimizer.c - an optimizer that is right but for what its environment asks for;
 * tests/system/contract.sh builds and runs it.
 *   BAD_STATES  what is wrong with its table of states: see bad_states() below
 *   BAD_NULL    the function of its interface that is NULL
 *   BAD_DOES    what it does: see misbehave() below; BAD_IN where: create, states, step (the
 *               default), destroy; BAD_STEP at which update (3) and BAD_RANK on which rank (0)
 */
#include <zeroth/optimizer.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct opts {
	double lr;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, ZR_O_SCHED | ZR_O_NUMERIC, "1e-3", 0, ZR_HI, "",
	       "Learning rate."),
};

struct zr_inst {
	int rank;
};

static const char *asked(const char *name)
{
	const char *v = getenv(name);
	if (v)
		return v;
	return "";
}

/* ---- states ---- */

static struct zr_state table[64] = { { "first", ZR_F32, 0, 0 }, { "second", ZR_F32, 0, 0 } };
static struct zr_optimizer_v1 vtbl;

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	static char name[200];
	const char *bad = asked("BAD_STATES");
	(void)inst;
	*n = 2;
	if (!strcmp(bad, "many"))
		for (*n = 0; *n < 64; ++*n)
			table[*n] = table[0];
	if (!strcmp(bad, "more than can be"))
		*n = UINT32_MAX;
	if (!strcmp(bad, "twice"))
		table[1].name = "first";
	if (!strcmp(bad, "master"))
		table[1].name = "master";
	if (!strcmp(bad, "unnamed"))
		table[1].name = NULL;
	if (!strcmp(bad, "empty"))
		table[1].name = "";
	if (!strcmp(bad, "slash"))
		table[1].name = "sec/ond";
	if (!strcmp(bad, "at"))
		table[1].name = "second@0";
	if (!strcmp(bad, "unprintable"))
		table[1].name = "second\n\001";
	if (!strcmp(bad, "long"))
		table[1].name = memset(name, 'x', sizeof name - 1);
	if (!strcmp(bad, "untyped"))
		table[1].dtype = 0;
	if (!strcmp(bad, "unknown type"))
		table[1].dtype = 77;
	if (!strcmp(bad, "fp64"))
		table[1].dtype = ZR_F64;
	if (!strcmp(bad, "bytes without a block"))
		table[1].dtype = ZR_U8;
	if (!strcmp(bad, "both"))
		table[1].bytes_per_block = 2048;
	if (!strcmp(bad, "large blocks"))
		table[1] = (struct zr_state){ "second", 0, 1u << 31, 0 };
	if (!strcmp(bad, "infinite"))
		table[1].init = INFINITY;
	if (!strcmp(bad, "bf16 from 1"))
		table[1] = (struct zr_state){ "second", ZR_BF16, 0, 1 };
	return strcmp(bad, "none") ? table : NULL;
}

/* ---- misbehaviour ---- */

static void misbehave(const char *what)
{
	volatile int zero = 0;
	int *volatile nowhere = NULL;
	void (*volatile nothing)(void) = NULL;
	if (!strcmp(what, "write"))
		*nowhere = 1;
	if (!strcmp(what, "call"))
		nothing();
	if (!strcmp(what, "divide"))
		zero = 7 / zero;
	if (!strcmp(what, "trap"))
		__builtin_trap();
	if (!strcmp(what, "bus"))
		raise(SIGBUS);
	if (!strcmp(what, "abort"))
		abort();
	if (!strcmp(what, "exit"))
		exit(0);
	if (!strcmp(what, "exit 7"))
		exit(7);
	if (!strcmp(what, "_exit"))
		_exit(0);
	if (!strcmp(what, "_Exit"))
		_Exit(0);
	if (!strcmp(what, "quick_exit"))
		quick_exit(0);
	if (!strcmp(what, "system call"))
		syscall(SYS_exit_group, 0);
	if (!strcmp(what, "child")) /* which is none of anybody's business */
		(void)!system("exit 3");
}

static __attribute__((noinline)) int overflow(volatile char *above)
{
	volatile char here[4096];
	here[0] = above ? above[0] : 1;
	return here[0] + overflow(here) + here[1];
}

static void *in_thread(void *what)
{
	misbehave(what);
	return NULL;
}

static void say_thread(void)
{
	char name[16] = "";
	pthread_getname_np(pthread_self(), name, sizeof name);
	fprintf(stderr, "thread %s\n", name);
}

static void at(const struct zr_inst *inst, const char *where)
{
	const char *what = asked("BAD_DOES"), *in = asked("BAD_IN");
	pthread_t t;
	if (strcmp(*in ? in : "step", where) || inst->rank != atoi(asked("BAD_RANK")))
		return;
	if (!strcmp(what, "overflow"))
		overflow(NULL);
	else if (!strcmp(what, "name"))
		say_thread();
	else if (!strncmp(what, "thread ", 7) &&
		 !pthread_create(&t, NULL, in_thread, (void *)(what + 7)))
		pthread_join(t, NULL);
	else
		misbehave(what);
}

/* ---- the optimizer ---- */

static const struct zr_state *asked_states(struct zr_inst *inst, uint32_t *n)
{
	at(inst, "states");
	return states(inst, n);
}

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	float *x = s->master.data;
	const float *g = s->grad.data;
	if (s->step == (*asked("BAD_STEP") ? atoi(asked("BAD_STEP")) : 3))
		at(inst, "step");
	for (uint64_t i = 0; i < s->master.count; i++)
		x[i] -= (float)(s->lr * s->grad_mult) * g[i];
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->rank = h->rank;
	at(inst, "create");
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	at(inst, "destroy");
	free(inst);
}

static struct zr_optimizer_v1 vtbl = { .size = sizeof vtbl,
				       .caps = ZR_OPT_ELEMENTWISE,
				       .mem_ok = ZR_MEM_HOST,
				       .state_version = 1,
				       .state_stride = sizeof(struct zr_state),
				       .states = asked_states,
				       .step = step };

__attribute__((constructor)) static void damage(void)
{
	if (!strcmp(asked("BAD_STATES"), "no stride"))
		vtbl.state_stride = 0;
	if (!strcmp(asked("BAD_STATES"), "odd stride"))
		vtbl.state_stride++;
	if (!strcmp(asked("BAD_NULL"), "states"))
		vtbl.states = NULL;
	if (!strcmp(asked("BAD_NULL"), "step"))
		vtbl.step = NULL;
}

static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "badoptimizer",
	.version = "1.0",
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = 1,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};

ZR_PLUGIN(&desc);
