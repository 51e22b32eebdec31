/* SPDX-License-Identifier: Apache-2.0
 *
 * faulty.c - an optimizer with momentum and weight decay that is right but for the defect that its
 * option names, for tests/system/plugin_faults.sh. None of them shows when it is called once, by
 * one thread, with numbers as they come.
 */
#define _GNU_SOURCE
#include <zeroth/optimizer.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define DEFECTS(X)                                                                                 \
	X(NONE)                                                                                    \
	X(TIES_EVEN)                                                                               \
	X(NAN_BECOMES_ZERO)                                                                        \
	X(FP16_TIES_AWAY)                                                                          \
	X(FP16_FLUSHES)                                                                            \
	X(FP16_CLAMPS)                                                                             \
	X(NO_COPY_IN_FP32)                                                                         \
	X(OPTIONS_OF_CREATE)                                                                       \
	X(OPTIONS_OF_FIRST_STEP)                                                                   \
	X(RATE_BY_WORKERS)                                                                         \
	X(NUMBER_OF_WORKER)                                                                        \
	X(CUT_BY_WORKERS)                                                                          \
	X(STATIC_BUFFER)                                                                           \
	X(STATIC_RATE)                                                                             \
	X(SHARED_COUNT)                                                                            \
	X(STATIC_POINTER)                                                                          \
	X(ZERO_DIRECTION)                                                                          \
	X(NO_EPSILON)                                                                              \
	X(ZERO_NORM)                                                                               \
	X(REFUSES_PINNED)                                                                          \
	X(LEAVES_THREAD)                                                                           \
	X(LEAVES_ALARM)                                                                            \
	X(LEAVES_ITIMER)                                                                           \
	X(LEAVES_TIMER)                                                                            \
	X(BLOCKS_SIGNAL)                                                                           \
	X(LEAVES_FILE)                                                                             \
	X(BINDS_TO_PROCESSOR)                                                                      \
	X(LIMITS_FILES)                                                                            \
	X(READS_TIME)                                                                              \
	X(READS_CLOCK)                                                                             \
	X(READS_ENVIRONMENT)                                                                       \
	X(READS_PID)                                                                               \
	X(READS_PROCESSOR)

#define NUMBER(name) name,
#define TEXT(name)   #name,
enum { DEFECTS(NUMBER) DEFECTS_END };
static const char *const defects[] = { DEFECTS(TEXT) NULL };

struct opts {
	double lr, decay;
	int32_t defect;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, ZR_O_SCHED | ZR_O_GROUP | ZR_O_NUMERIC, "1e-2", 0, ZR_HI,
	       "", "Learning rate."),
	ZR_OPT(struct opts, decay, ZR_T_F64, ZR_O_GROUP | ZR_O_NUMERIC, "0", 0, 1, "",
	       "Share of a parameter that goes at each step, times lr."),
	ZR_OPT_ENUM(struct opts, defect, ZR_O_NUMERIC, "NONE", defects, "What is wrong."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o, *first; /* those of create(), and of the first step() */
};

/* A call of step(). */
struct job {
	const struct zr_inst *inst;
	const struct zr_opt_step *s;
	const struct zr_seg *seg;
	float rate, decay;
	int defect;
};

/* ---- copies in 16 bits ----------------------------------------------------------- */

static uint16_t to_bf16(float x, int defect)
{
	uint32_t u;
	memcpy(&u, &x, 4);
	if (isnan(x) && defect != NAN_BECOMES_ZERO)
		return (uint16_t)(u >> 16 | 0x40);
	if (defect == TIES_EVEN)
		return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
	return (uint16_t)((u + 0x8000u) >> 16);
}

static double to_integer(double x, int defect)
{
	return defect == FP16_TIES_AWAY ? round(x) : nearbyint(x);
}

static uint16_t to_fp16(float x, int defect)
{
	const uint16_t sign = signbit(x) ? 0x8000 : 0;
	const double a = fabs((double)x);
	int e;
	if (isnan(x))
		return 0x7e00;
	if (a >= 65520)
		return sign | (defect == FP16_CLAMPS ? 0x7bff : 0x7c00);
	if (a < 0x1p-14)
		return sign |
		       (uint16_t)(defect == FP16_FLUSHES ? 0 : to_integer(a * 0x1p24, defect));
	frexp(a, &e);
	return sign |
	       (uint16_t)(((e + 14) << 10) + (int)to_integer(ldexp(a, 11 - e), defect) - 1024);
}

static void copy(const struct job *j, int64_t i, float x)
{
	const struct zr_buf *to = &j->s->lowp;
	if (!to->data)
		return;
	if (to->dtype == ZR_BF16)
		((uint16_t *)to->data)[i] = to_bf16(x, j->defect);
	else if (to->dtype == ZR_F16)
		((uint16_t *)to->data)[i] = to_fp16(x, j->defect);
	else if (j->defect != NO_COPY_IN_FP32)
		((float *)to->data)[i] = x;
}

/* ---- an update ------------------------------------------------------------------- */

static float buffer[ZR_BLOCK];
static float shared_rate;
static int64_t calls;     /* of step(), of all instances */
static int64_t instances; /* that were made */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Sum of the squares of n numbers, in so many parts. */
static float squares(const float *x, int64_t n, int64_t parts)
{
	float sum = 0;
	for (int64_t part = 0; part < parts; part++) {
		float of = 0;
		for (int64_t i = part * n / parts; i < (part + 1) * n / parts; i++)
			of += x[i] * x[i];
		sum += of;
	}
	return sum;
}

static float direction(const struct job *j, float m, const float *p, int64_t n)
{
	switch (j->defect) {
	case ZERO_DIRECTION:
		return m / fabsf(m);
	case NO_EPSILON:
		return m / sqrtf(m * m);
	case ZERO_NORM:
		return m / sqrtf(squares(p, n, 1));
	case CUT_BY_WORKERS:
		return m * sqrtf(squares(p, n, j->inst->h->workers));
	default:
		return m;
	}
}

static void update_block(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_opt_step *s = j->s;
	const int64_t first = j->seg->off + item * ZR_BLOCK, left = j->seg->n - item * ZR_BLOCK;
	const int64_t n = left < ZR_BLOCK ? left : ZR_BLOCK;
	const float *g = (const float *)s->grad.data + first;
	float *p = (float *)s->master.data + first, *m = (float *)s->state[0].data + first;
	float own[ZR_BLOCK];
	float *d = j->defect == STATIC_BUFFER ? buffer : own;

	for (int64_t i = 0; i < n; i++)
		m[i] = 0.9f * m[i] + g[i] * (float)s->grad_mult;
	for (int64_t i = 0; i < n; i++)
		d[i] = direction(j, m[i], p, n < 64 ? n : 64);
	if (j->defect == NUMBER_OF_WORKER)
		d[0] += 1e-3f * (float)worker;
	for (int64_t i = 0; i < n; i++) {
		const float rate = j->defect == STATIC_RATE ? shared_rate : j->rate;
		p[i] -= rate * (d[i] + j->decay * p[i]);
		copy(j, first + i, p[i]);
	}
}

/* ---- what a step must not do ----------------------------------------------------- */

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void disturb(int defect)
{
	const struct itimerval later = { .it_value = { 1000, 0 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct rlimit files;
	sigset_t set;
	cpu_set_t processors;
	pthread_t thread;
	timer_t timer;

	switch (defect) {
	case LEAVES_THREAD:
		pthread_create(&thread, NULL, waits, NULL);
		break;
	case LEAVES_ALARM:
		alarm(1000);
		break;
	case LEAVES_ITIMER:
		setitimer(ITIMER_VIRTUAL, &later, NULL);
		break;
	case LEAVES_TIMER:
		timer_create(CLOCK_MONOTONIC, &event, &timer);
		break;
	case BLOCKS_SIGNAL:
		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		break;
	case LEAVES_FILE:
		open("/dev/null", O_RDONLY);
		break;
	case BINDS_TO_PROCESSOR:
		CPU_ZERO(&processors);
		CPU_SET(sched_getcpu(), &processors);
		sched_setaffinity(0, sizeof processors, &processors);
		break;
	case LIMITS_FILES:
		getrlimit(RLIMIT_NOFILE, &files);
		files.rlim_cur--;
		setrlimit(RLIMIT_NOFILE, &files);
		break;
	default:
		break;
	}
}

/* The processor that it finds. Where there are two, each second instance is moved one down before,
 * as the system may do at any time: what a check makes of the number must not hide behind that. */
static int processor_here(void)
{
	cpu_set_t may, one;
	if (sched_getaffinity(0, sizeof may, &may) || CPU_COUNT(&may) < 2)
		return sched_getcpu();

	int at = 0;
	while (!CPU_ISSET(at, &may) || !CPU_ISSET(at + 1, &may))
		if (++at + 1 >= CPU_SETSIZE)
			return sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(at + instances % 2, &one);
	sched_setaffinity(0, sizeof one, &one);
	const int processor = sched_getcpu();
	sched_setaffinity(0, sizeof may, &may);
	return processor;
}

/* By what the place where it runs says; 1 but for a defect. */
static float outside(int defect)
{
	struct timespec t;
	const char *text;

	switch (defect) {
	case READS_TIME:
		return (float)(time(NULL) / 86400 % 97);
	case READS_CLOCK:
		clock_gettime(CLOCK_MONOTONIC, &t);
		return (float)(1 + t.tv_sec / 86400 % 97);
	case READS_ENVIRONMENT:
		text = getenv("FAULTY_RATE");
		return text ? (float)atof(text) : 1;
	case READS_PID:
		return (float)(getpid() % 97);
	case READS_PROCESSOR:
		return (float)processor_here();
	default:
		return 1;
	}
}

/* ---- the plugin ------------------------------------------------------------------ */

/* Static memory behind a lock is right as long as no result follows from it. */
static int64_t count_call(void)
{
	pthread_mutex_lock(&lock);
	const int64_t n = ++calls;
	pthread_mutex_unlock(&lock);
	return n;
}

static const struct opts *options_of(struct zr_inst *inst, const struct zr_opt_step *s)
{
	if (!inst->first)
		inst->first = s->opts;
	if (inst->o->defect == OPTIONS_OF_CREATE)
		return inst->o;
	return inst->o->defect == OPTIONS_OF_FIRST_STEP ? inst->first : s->opts;
}

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const int defect = inst->o->defect;
	struct job j = {
		.inst = inst, .s = s, .defect = defect, .rate = (float)s->lr * outside(defect)
	};
	if (defect == REFUSES_PINNED && s->master.mem != ZR_MEM_HOST)
		return zr_fail(inst->h, ZR_ENOTSUP, "memory of kind %u", s->master.mem);
	j.decay = (float)options_of(inst, s)->decay;
	const int64_t n = count_call();
	if (defect == SHARED_COUNT)
		j.rate /= (float)n;
	if (defect == RATE_BY_WORKERS)
		j.rate /= (float)inst->h->workers;
	if (defect == STATIC_RATE)
		shared_rate = j.rate;
	disturb(defect);
	for (uint64_t i = 0; i < s->n_seg; i++) {
		j.seg = ZR_SEG(s, i);
		inst->h->parallel(inst->h, (j.seg->n + ZR_BLOCK - 1) / ZR_BLOCK, update_block, &j);
	}
	return ZR_OK;
}

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	static const struct zr_state s[] = { { "momentum", ZR_F32, 0, 0 } };
	(void)inst;
	*n = 1;
	return s;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	*inst = (struct zr_inst){ .h = h, .o = opts };
	instances++;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

#ifndef MEM_OK
#define MEM_OK (ZR_MEM_HOST | ZR_MEM_PINNED)
#endif
static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = MEM_OK,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = states,
	.step = step,
};
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };
static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "broken",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
