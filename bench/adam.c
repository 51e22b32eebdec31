/* SPDX-License-Identifier: Apache-2.0
 *
 * adam.c - optimizer/cpu_adam against what bounds it and what others do, in turns on the same
 * threads:
 *   8bit    itself with states = 8bit
 *   streams the same memory read and written with almost no arithmetic: master, gradient and both
 *   moments in, all but the
 *            gradient out
 *   loop     the formula as a plain loop, as the compiler makes it
 *   torch torch.optim.AdamW of the python3 in PATH (or $PYTHON), in a process that waits for its
 *   turn
 *
 *   bench/adam [MILLIONS OF PARAMETERS [ROUNDS [THREADS]]]
 *
 * Prints median times, least ones, and the median over rounds of their ratio to cpu_adam's: above 1
 * cpu_adam is faster.
 */
#include "tests/lib/testhost.h"

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CUT  (64 * ZR_BLOCK)
#define MOST 200

enum { OURS, NARROW, STREAMS, LOOP, TORCH, PEERS };
static const char *const names[PEERS] = { "cpu_adam", "8bit", "streams", "loop", "torch" };
enum { MASTER, GRAD, M, V, ARRAYS };

static struct zr_host *host;
static int64_t n = 32 << 20;
static float *x[ARRAYS];
static float *codes[2]; /* of both moments in 8 bits */
static int64_t step_number;
static FILE *to_torch, *from_torch;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *take(int64_t elements)
{
	void *p = mmap(NULL, (size_t)elements * 4, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	madvise(p, (size_t)elements * 4, MADV_HUGEPAGE);
	return p;
}

/* ---- peers ---- */

static void stream_cut(void *arg, int64_t item, int32_t worker)
{
	typedef uint32_t wide __attribute__((vector_size(64), may_alias));
	int64_t lo = item * CUT, hi = lo + CUT < n ? lo + CUT : n;
	(void)arg;
	(void)worker;
	for (int64_t i = lo; i + 16 <= hi; i += 16) {
		wide g = *(const wide *)(x[GRAD] + i);
		*(wide *)(x[M] + i) ^= g;
		*(wide *)(x[V] + i) ^= g;
		*(wide *)(x[MASTER] + i) ^= g;
	}
}

static void loop_cut(void *arg, int64_t item, int32_t worker)
{
	int64_t lo = item * CUT, hi = lo + CUT < n ? lo + CUT : n;
	float c1 = 1 - powf(0.9f, (float)step_number), c2 = 1 - powf(0.999f, (float)step_number);
	(void)arg;
	(void)worker;
	for (int64_t i = lo; i < hi; i++) {
		float g = x[GRAD][i];
		x[M][i] = 0.9f * x[M][i] + 0.1f * g;
		x[V][i] = 0.999f * x[V][i] + 0.001f * g * g;
		x[MASTER][i] -= 1e-3f * (x[M][i] / c1 / (sqrtf(x[V][i] / c2) + 1e-8f) +
					 0.01f * x[MASTER][i]);
	}
}

static void by_torch(void)
{
	double seconds;
	fputs("step\n", to_torch);
	if (fflush(to_torch) || fscanf(from_torch, "%lf", &seconds) != 1)
		abort();
}

/* A python that has torch, ready for its first step; NULL files where there is none. */
static void start_torch(int threads)
{
	static const char script[] =
		"import sys, time, torch\n"
		"n, threads = int(sys.argv[1]), int(sys.argv[2])\n"
		"torch.set_num_threads(threads)\n"
		"p = torch.nn.Parameter(torch.randn(n)); p.grad = torch.randn(n)\n"
		"o = torch.optim.AdamW([p], lr=1e-3, weight_decay=0.01)\n"
		"print(torch.__version__, flush=True)\n"
		"for line in sys.stdin:\n"
		"  t = time.time(); o.step(); print(time.time() - t, flush=True)\n";
	const char *python = getenv("PYTHON") ? getenv("PYTHON") : "python3";
	int in[2], out[2];
	char a[24], b[24], version[64];
	if (pipe(in) || pipe(out))
		abort();
	snprintf(a, sizeof a, "%lld", (long long)n);
	snprintf(b, sizeof b, "%d", threads);
	if (!fork()) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execlp(python, python, "-c", script, a, b, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	to_torch = fdopen(in[1], "w");
	from_torch = fdopen(out[0], "r");
	if (fscanf(from_torch, "%63s", version) == 1) {
		printf("torch %s\n", version);
		return;
	}
	printf("torch: %s has none; PYTHON names another\n", python);
	to_torch = NULL;
}

/* ---- cpu_adam ---- */

static const struct zr_optimizer_v1 *vtbl;
static struct zr_inst *inst[2]; /* with moments in fp32, in 8 bits */
static void *opts[2];

static struct zr_buf buffer(float *p, int32_t dtype)
{
	return (struct zr_buf){ p, (uint64_t)n, dtype, ZR_MEM_HOST };
}

static void ours(int narrow)
{
	const int64_t dims[] = { n };
	struct zr_seg seg = { .n = n, .ndim = 1, .dims = dims, .name = "p" };
	struct zr_buf state[2];
	for (int i = 0; i < 2; i++)
		state[i] = narrow ? buffer(codes[i], 0) : buffer(x[M + i], ZR_F32);
	struct zr_opt_step s = { .size = sizeof s,
				 .seg_stride = sizeof(struct zr_seg),
				 .n_state = 2,
				 .step = step_number,
				 .lr = 1e-3,
				 .grad_mult = 1,
				 .opts = opts[narrow],
				 .master = buffer(x[MASTER], ZR_F32),
				 .grad = buffer(x[GRAD], ZR_F32),
				 .state = state,
				 .seg = &seg,
				 .n_seg = 1 };
	if (vtbl->step(inst[narrow], &s))
		abort();
}

/* ---- turns ---- */

static double timed(int peer)
{
	double t = now();
	switch (peer) {
	case OURS:
	case NARROW:
		ours(peer == NARROW);
		break;
	case STREAMS:
		host->parallel(host, (n + CUT - 1) / CUT, stream_cut, NULL);
		break;
	case LOOP:
		host->parallel(host, (n + CUT - 1) / CUT, loop_cut, NULL);
		break;
	default:
		by_torch();
	}
	return now() - t;
}

/* Values that stay values: what the streams leave behind may be subnormal or not a number, which
 * slows arithmetic down. */
static void fill(void)
{
	for (int64_t i = 0; i < n; i++) {
		x[MASTER][i] = 0.5f;
		x[GRAD][i] = 0.25f + (float)(i & 15) / 64;
		x[M][i] = 0.1f;
		x[V][i] = 0.01f;
	}
}

static int ascending(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;
	return (p > q) - (p < q);
}

static double least(const double *v, int count)
{
	double x = v[0];
	for (int i = 1; i < count; i++)
		x = v[i] < x ? v[i] : x;
	return x;
}

static double median(const double *v, int count)
{
	double sorted[MOST];
	memcpy(sorted, v, (size_t)count * sizeof *v);
	qsort(sorted, (size_t)count, sizeof *sorted, ascending);
	return sorted[count / 2];
}

int main(int argc, char **argv)
{
	static double s[PEERS][MOST], ratio[MOST];
	int rounds = argc > 2 ? atoi(argv[2]) : 15, threads = argc > 3 ? atoi(argv[3]) : 2;
	const struct zr_desc *desc = test_plugin("optimizer/cpu_adam");
	if (argc > 1)
		n = atoll(argv[1]) * 1000000 / ZR_BLOCK * ZR_BLOCK;
	rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
	host = test_host(threads);
	vtbl = test_iface(desc, "zr.optimizer/1");
	for (int narrow = 0; narrow < 2; narrow++) {
		opts[narrow] = test_options(desc);
		if ((narrow && test_set(desc, opts[1], "states", "8bit")) ||
		    test_create(host, desc, opts[narrow], &inst[narrow]))
			return 1;
		codes[narrow] = take(n / ZR_BLOCK * ZR_MOMENT8_BYTES / 4);
	}
	for (int i = 0; i < ARRAYS; i++)
		x[i] = take(n);
	start_torch(threads);
	fill();
	for (int r = -2; r < rounds; r++) { /* two to warm up */
		step_number++;
		for (int peer = 0; peer < PEERS; peer++) {
			if (peer == TORCH && !to_torch)
				continue;
			s[peer][r < 0 ? 0 : r] = timed(peer);
			if (peer == STREAMS)
				timed(STREAMS); /* twice undoes it */
		}
	}
	printf("%lld parameters, %d threads, %d rounds; ms\n", (long long)n, threads, rounds);
	for (int peer = 0; peer < PEERS; peer++) {
		if (peer == TORCH && !to_torch)
			continue;
		for (int r = 0; r < rounds; r++)
			ratio[r] = s[peer][r] / s[OURS][r];
		printf("%-9s %9.2f %9.2f   %.2fx\n", names[peer], 1e3 * median(s[peer], rounds),
		       1e3 * least(s[peer], rounds), median(ratio, rounds));
	}
	for (int narrow = 0; narrow < 2; narrow++) {
		desc->destroy(inst[narrow]);
		free(opts[narrow]);
	}
	test_host_free(host);
	return 0;
}
