/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise.c - updates of two optimizers in turns on the same threads, such as one by an
 * operation of the device and one by a function of one element:
 *
 *   bench/elementwise PLUGIN PLUGIN [PARAMETERS [ROUNDS [THREADS [OPTION=VALUE...]]]]
 *
 * A PLUGIN is ROLE/ID in $ZR_TEST_PLUGINS. Options are set where a plugin has them. Prints the
 * least and the median time of an element in ns, and the median over rounds of the first one's time
 * divided by the second one's: above 1 the second one is faster.
 */
#include "tests/lib/testhost.h"

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MOST   1000 /* rounds */
#define STATES 8

static struct zr_host *host;
static const struct zr_ops *ops;
static int64_t n = 8 << 20;

struct side {
	const char *name;
	const struct zr_optimizer_v1 *vtbl;
	struct zr_inst *inst;
	struct zr_opt_step step;
	struct zr_buf state[STATES];
	double time[MOST], sorted[MOST];
};

static struct zr_scalars scalars = { 3, 0.5f, 1e-4f };
static struct zr_seg seg;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(int64_t bytes)
{
	void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (p == MAP_FAILED)
		abort();
	madvise(p, (size_t)bytes, MADV_HUGEPAGE);
	memset(p, 0, (size_t)bytes);
	return p;
}

static struct zr_buf numbers(int32_t dtype, int fill)
{
	struct zr_buf b = { take(n * 4), (uint64_t)n, dtype, ZR_MEM_HOST };
	uint32_t x = 1;
	for (int64_t i = 0; fill && i < n; i++) {
		x = x * 1664525 + 1013904223;
		((float *)b.data)[i] = (float)(int32_t)x * 0x1p-31f;
	}
	return b;
}

static void open_side(struct side *s, const char *name, char **options)
{
	const struct zr_desc *desc = test_plugin(name);
	void *opts = test_options(desc);
	const struct zr_state *st;
	for (; *options; options++) {
		char key[64], *value = strchr(*options, '=');
		snprintf(key, sizeof key, "%.*s", (int)(value - *options), *options);
		for (uint32_t i = 0; i < desc->n_opts; i++)
			if (!strcmp(desc->opts[i].name, key))
				test_set(desc, opts, key, value + 1);
	}
	s->name = name;
	s->vtbl = test_iface(desc, "zr.optimizer/1");
	if (test_create(host, desc, opts, &s->inst))
		abort();
	s->step = (struct zr_opt_step){ .size = sizeof s->step,
					.seg_stride = sizeof(struct zr_seg),
					.step = 3,
					.lr = 1e-4,
					.grad_mult = 0.5,
					.opts = opts,
					.state = s->state,
					.seg = &seg,
					.n_seg = 1,
					.ops = ops,
					.scalars = &scalars,
					.native = ops->native,
					.elementwise = ops->elementwise };
	s->step.master = numbers(ZR_F32, 1);
	s->step.grad = numbers(ZR_F32, 1);
	s->step.lowp = numbers(ZR_BF16, 0);
	st = s->vtbl->states(s->inst, &s->step.n_state);
	for (uint32_t i = 0; i < s->step.n_state; i++)
		s->state[i] = numbers(st[i].dtype, 0);
}

static double once(struct side *s, int repeat)
{
	double t = now();
	for (int i = 0; i < repeat; i++)
		if (s->vtbl->step(s->inst, &s->step))
			abort();
	return (now() - t) / repeat / (double)n * 1e9;
}

static int by_size(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;
	return d < 0 ? -1 : d > 0;
}

static double median(struct side *s, int rounds)
{
	memcpy(s->sorted, s->time, sizeof s->sorted);
	qsort(s->sorted, (size_t)rounds, sizeof *s->sorted, by_size);
	return s->sorted[rounds / 2];
}

int main(int argc, char **argv)
{
	static char *none[] = { NULL };
	static struct side side[3]; /* the last one has ratios */
	int rounds = argc > 4 ? atoi(argv[4]) : 50, threads = argc > 5 ? atoi(argv[5]) : 1;
	const struct zr_desc *cpu = test_plugin("device/cpu");
	const struct zr_device_v1 *v = test_iface(cpu, "zr.device/1");
	struct zr_inst *device;
	int64_t dims[1];
	if (argc < 3 || rounds < 1 || rounds > MOST) {
		fprintf(stderr,
			"usage: %s PLUGIN PLUGIN [PARAMETERS [ROUNDS [THREADS "
			"[OPTION=VALUE...]]]]\n",
			argv[0]);
		return 2;
	}
	n = argc > 3 ? atoll(argv[3]) / ZR_BLOCK * ZR_BLOCK : n;
	dims[0] = n;
	seg = (struct zr_seg){ .n = n, .ndim = 1, .dims = dims, .name = "p" };
	host = test_host(threads);
	if (test_create(host, cpu, test_options(cpu), &device))
		abort();
	ops = v->ops(device);
	for (int i = 0; i < 2; i++)
		open_side(&side[i], argv[1 + i], argc > 6 ? argv + 6 : none);
	int repeat = n < 1 << 18 ? (1 << 22) / (int)n : 1;
	for (int r = -1; r < rounds; r++) {
		int k = r > 0 ? r : 0;
		for (int i = 0; i < 2; i++)
			side[(i + k) % 2].time[k] = once(&side[(i + k) % 2], repeat);
		side[2].time[k] = side[0].time[k] / side[1].time[k];
	}
	for (int i = 0; i < 2; i++) {
		double m = median(&side[i], rounds);
		printf("%-28s %7.3f %7.3f ns\n", side[i].name, side[i].sorted[0], m);
	}
	printf("%-28s %7.3f\n", "ratio", median(&side[2], rounds));
	return 0;
}
