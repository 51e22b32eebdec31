/* SPDX-License-Identifier: Apache-2.0
 *
 * collectives.c - comm/local, or what COMM names, as comm/tcp, against the collectives of an MPI
 * library, in the same processes, in interleaved rounds. For comm/tcp each rank is a machine; MPI
 * is to use TCP as well: mpirun --mca pml ob1 --mca btl tcp,self.
 *   mpicc ... -o collectives bench/collectives.c tests/lib/testhost.c tests/lib/testplugin.c -ldl
 *   -lpthread -lm
 *   mpirun -n 2 ./collectives [MiB [ROUNDS]]
 *   mpirun -n 2 ./collectives sizes [ROUNDS]
 * Prints median times for fp32 buffers of that size, or of sizes from 8 bytes to 64 MiB: with
 * buffers in memory of mem_alloc, and in private memory. The size is that of the whole: each rank
 * gathers or reduces to 1/N of it. Small ones are timed many in a row. A view needs no gather: for
 * it stands the time of a fence and of reading all of it once, beside that of reading what an
 * all_gather has brought.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "tests/lib/testhost.h"

#define KINDS      3
#define MAX_ROUNDS 200
#define PAGE       1024 /* elements: views are of whole pages */

static int rank, world;

/* What ranks publish: files in a directory of this run. */
static char meeting[64];

static const char *file_of(const char *key, const char *end)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s%s", meeting, key, end);
	return path;
}

static int boot_put(struct zr_inst *i, const char *key, const void *value, uint64_t bytes)
{
	char new[256];
	(void)i;
	snprintf(new, sizeof new, "%s", file_of(key, ".new"));
	int fd = open(new, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (fd < 0 || write(fd, value, bytes) != (ssize_t)bytes || close(fd))
		return -1;
	return rename(new, file_of(key, ""));
}

static int boot_get(struct zr_inst *i, const char *key, void *value, uint64_t bytes, double timeout)
{
	int fd;
	(void)i;
	(void)timeout;
	while ((fd = open(file_of(key, ""), O_RDONLY)) < 0)
		usleep(1000);
	ssize_t n = read(fd, value, bytes);
	close(fd);
	return n == (ssize_t)bytes ? 0 : -1;
}

static void meet(void)
{
	snprintf(meeting, sizeof meeting, "/tmp/collectives.%d", (int)getppid());
	mkdir(meeting, 0700);
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct zr_boot_v1 boot = { .size = sizeof boot, .put = boot_put, .get = boot_get };

static const void *host_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	(void)h;
	(void)iface;
	*inst = NULL;
	return &boot;
}

static const struct zr_comm_v1 *comm;
static struct zr_inst *inst;
static struct zr_host *host;

/* n elements in all; parts of n / world. */
static void by_zeroth(int kind, float *a, float *b, int64_t n)
{
	struct zr_comm_seg seg[KINDS] = { { a, a, n },
					  { a, b, n / world },
					  { b + rank * (n / world), b, n / world } };
	static const int kinds[KINDS] = { ZR_COMM_ALL_REDUCE, ZR_COMM_REDUCE_SCATTER,
					  ZR_COMM_ALL_GATHER };
	struct zr_comm_op op = { .size = sizeof op,
				 .kind = kinds[kind],
				 .group = ZR_GROUP_WORLD,
				 .dtype = ZR_F32,
				 .n_seg = 1,
				 .seg = &seg[kind] };
	zr_ticket t;
	if (comm->post(inst, &op, &t) || comm->wait(inst, t))
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static void by_mpi(int kind, float *a, float *b, int64_t n)
{
	int part = (int)(n / world);
	if (kind == 0)
		MPI_Allreduce(MPI_IN_PLACE, a, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else if (kind == 1)
		MPI_Reduce_scatter_block(a, b, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	else
		MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, part, MPI_FLOAT,
			      MPI_COMM_WORLD);
}

static volatile float sink;

static void read_all(const float *p, int64_t n)
{
	float sum[16] = { 0 };
	for (int64_t i = 0; i + 16 <= n; i += 16)
		for (int k = 0; k < 16; k++)
			sum[k] += p[i + k];
	for (int k = 0; k < 16; k++)
		sink += sum[k];
}

/* A fence, then the view b; kind is not used. */
static void by_view(int kind, float *a, float *b, int64_t n)
{
	struct zr_comm_seg seg = { a, NULL, n / world };
	struct zr_comm_op op = { .size = sizeof op,
				 .kind = ZR_COMM_FENCE,
				 .group = ZR_GROUP_WORLD,
				 .dtype = ZR_F32,
				 .n_seg = 1,
				 .seg = &seg };
	zr_ticket t;
	(void)kind;
	if (comm->post(inst, &op, &t) || comm->wait(inst, t))
		MPI_Abort(MPI_COMM_WORLD, 1);
	read_all(b, n);
}

/* The bytes of an all_gather, each rank copying what it lacks: no collective of copies can be
 * faster. */
static void by_memcpy(int kind, float *a, float *b, int64_t n)
{
	int64_t part = n / world;
	(void)kind;
	for (int k = 1; k < world; k++) {
		int r = (rank + k) % world;
		const float *theirs = comm->mem_peer(inst, b, ZR_GROUP_WORLD, r);
		memcpy(b + r * part, theirs + r * part, (size_t)part * 4);
	}
	(void)a;
}

/* Only the reading. */
static void by_nobody(int kind, float *a, float *b, int64_t n)
{
	(void)kind;
	(void)a;
	read_all(b, n);
}

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

static int in_a_row = 1;

/* Time of the slowest rank, ms. */
static double timed(void (*fn)(int, float *, float *, int64_t), int kind, float *a, float *b,
		    int64_t n)
{
	double t, worst;
	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime();
	for (int i = 0; i < in_a_row; i++)
		fn(kind, a, b, n);
	t = MPI_Wtime() - t;
	MPI_Allreduce(&t, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return worst * 1e3 / in_a_row;
}

static double ms[3][MAX_ROUNDS];
static int rounds;

static double median(double *x)
{
	qsort(x, (size_t)rounds, sizeof *x, ascending);
	return x[rounds / 2];
}

/* Median of how many times as fast as MPI. */
static double ratio(const double *mpi, const double *ours)
{
	double x[MAX_ROUNDS];
	for (int i = 0; i < rounds; i++)
		x[i] = mpi[i] / ours[i];
	return median(x);
}

/* a and b in memory of mem_alloc, c and d in private memory. */
static void compare_kind(int kind, float *a, float *b, float *c, float *d, int64_t n)
{
	static const char *const names[KINDS] = { "all_reduce", "reduce_scatter", "all_gather" };
	for (int i = -2; i < rounds; i++) { /* two to warm up */
		int k = i < 0 ? 0 : i;
		/* to and fro, so that nobody always comes after one with the same buffers */
		for (int j = 0; j < 3; j++) {
			int who = i % 2 ? j : 2 - j;
			ms[who][k] = who == 1 ? timed(by_zeroth, kind, a, b, n) :
						timed(who ? by_zeroth : by_mpi, kind, c, d, n);
		}
	}
	double shared = ratio(ms[0], ms[1]), private = ratio(ms[0], ms[2]);
	double m = median(ms[0]), s = median(ms[1]), p = median(ms[2]);
	const double unit = in_a_row > 1 ? 1e3 : 1;
	if (!rank)
		printf("%-15s %9lld %9.2f %9.2f %9.2f   %.2fx %.2fx\n", names[kind],
		       (long long)n * 4, m * unit, s * unit, p * unit, shared, private);
}

/* Every fourth power of 2. */
static void compare_sizes(float *a, float *b, float *c, float *d, int64_t most)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int64_t n = world; n <= most; n = n * 4 <= most || n == most ? n * 4 : most) {
			in_a_row = n < 1 << 16 ? 200 : n < 1 << 20 ? 20 : 1;
			compare_kind(kind, a, b, c, d, n);
		}
}

static void compare_limit(float *a, float *b, int64_t n)
{
	for (int i = -2; i < rounds; i++) {
		int k = i < 0 ? 0 : i;
		ms[0][k] = timed(by_memcpy, 0, a, b, n);
		ms[1][k] = timed(by_zeroth, 2, a, b, n);
	}
	double limit = median(ms[0]), ours = median(ms[1]);
	if (!rank)
		printf("all_gather %.2f, only its copies %.2f: %.2f of what they allow\n", ours,
		       limit, limit / ours);
}

static void compare_view(float *a, float *d, int64_t n)
{
	void *view;
	uint64_t bytes = (uint64_t)(n / world) * sizeof(float);
	if (comm->mem_view(inst, a, bytes, ZR_GROUP_WORLD, &view)) {
		if (!rank)
			printf("no view: %s\n", test_error(host));
		return;
	}
	for (int i = -2; i < rounds; i++) {
		int k = i < 0 ? 0 : i;
		ms[0][k] = timed(by_view, 0, a, view, n);
		ms[1][k] = timed(by_nobody, 0, a, d, n);
	}
	double v = median(ms[0]), c = median(ms[1]);
	if (!rank)
		printf("reading once: a view %.2f, a copy %.2f after its all_gather\n", v, c);
}

int main(int argc, char **argv)
{
	void *shared = NULL;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	const int sizes = argc > 1 && !strcmp(argv[1], "sizes");
	const int64_t mib = argc > 1 && !sizes ? atoll(argv[1]) : 64;
	int64_t n = mib * (1 << 18) / (world * PAGE) * (world * PAGE);
	rounds = argc > 2 ? atoi(argv[2]) : 15;
	rounds = rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
	const char *plugin = getenv("COMM") ? getenv("COMM") : "comm/local";
	const struct zr_desc *desc = test_plugin(plugin);
	meet();
	host = test_host(1);
	host->rank = rank;
	host->world = world;
	host->local_world = 1;
	if (!strcmp(plugin, "comm/local")) {
		host->local_rank = rank;
		host->local_world = world;
	}
	host->get = host_get;
	comm = test_iface(desc, "zr.comm/1");
	if (test_create(host, desc, test_options(desc), &inst))
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (!comm->mem_alloc)
		shared = malloc(2 * (uint64_t)n * 4);
	else if (comm->mem_alloc(inst, 2 * (uint64_t)n * 4, &shared))
		MPI_Abort(MPI_COMM_WORLD, 1);
	float *a = shared, *b = a + n, *c = malloc((uint64_t)n * 4), *d = malloc((uint64_t)n * 4);
	if (!shared || !c || !d)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(shared, 0, 2 * (uint64_t)n * 4);
	memset(c, 0, (uint64_t)n * 4);
	memset(d, 0, (uint64_t)n * 4);
	if (!rank)
		printf("%d ranks, fp32, medians of %d; us, from 4 MiB on ms\n"
		       "%-15s %9s %9s %9s %9s   ratios\n",
		       world, rounds, "", "bytes", "MPI", "shared", "private");
	for (int kind = 0; kind < KINDS && !sizes; kind++)
		compare_kind(kind, a, b, c, d, n);
	if (sizes)
		compare_sizes(a, b, c, d, n);
	in_a_row = 1;
	if (comm->mem_peer && comm->mem_view) {
		compare_limit(a, b, n);
		compare_view(a, d, n);
	}
	desc->destroy(inst);
	MPI_Finalize();
	return 0;
}
