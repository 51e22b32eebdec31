/* SPDX-License-Identifier: Apache-2.0
 *
 * disk.c - offload/nvme against fio: io_uring, direct I/O, registered buffers on huge pages,
 * the same block size and depth, files of the same size in the same directory, in turns.
 *
 *   bench/disk DIR [PAIRS [SECONDS [BLOCK [DEPTH [MIB]]]]]
 *
 * A store of Zeroth moves pieces, as an update does: 4 requests of 16 MiB are posted at any time,
 * cut by the plugin. Prints the medians in MB/s (10^6) and the median of the pairs' ratios: above 1
 * the plugin is faster. Both files exist in full before anything is measured, and are removed.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/offload.h>

#include "tests/lib/testhost.h"

#define PIECE     (16ull << 20)
#define POSTED    4
#define MAX_PAIRS 100

enum { READ, WRITE, MIXED, MODES };
static const char *const mode_names[MODES] = { "read", "write", "mixed" };
static const char *const fio_names[MODES] = { "read", "write", "rw" };

static struct zr_host *host;
static const struct zr_offload_v1 *store;
static struct zr_inst *inst;
static uint64_t object, size = 1ull << 30;
static const char *dir, *seconds = "3", *block = "1M", *depth = "32";
static char *mem;

static void stop(const char *what)
{
	fprintf(stderr, "disk: %s: %s\n", what, test_error(host));
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the plugin ------------------------------------------------------------------ */

static void open_store(void)
{
	const struct zr_desc *desc = test_plugin("offload/nvme");
	void *opts = test_options(desc);
	host = test_host(1);
	store = test_iface(desc, "zr.offload/1");
	test_set(desc, opts, "path", dir);
	if (test_set(desc, opts, "block_size", block) || test_set(desc, opts, "queue_depth", depth))
		stop("options");
	if (test_create(host, desc, opts, &inst) || store->make(inst, "bench", size, &object))
		stop("create");
	mem = mmap(NULL, POSTED * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (mem == MAP_FAILED)
		stop("mmap");
	madvise(mem, POSTED * PIECE, MADV_HUGEPAGE);
	memset(mem, 1, POSTED * PIECE);
	if (*test_log(host))
		fprintf(stderr, "disk: %s\n", test_log(host));
}

static void post(int mode, uint64_t i, uint64_t *ticket)
{
	uint64_t off = i * PIECE % size;
	char *at = mem + i % POSTED * PIECE;
	int rc = mode == WRITE || (mode == MIXED && i % 2) ?
			 store->write(inst, object, off, at, PIECE, ticket) :
			 store->read(inst, object, off, at, PIECE, ticket);
	if (rc)
		stop("post");
}

/* Bytes per second, until `bytes` were moved and `wanted` seconds are over. */
static double by_plugin(int mode, uint64_t bytes, double wanted)
{
	uint64_t ticket[POSTED], posted = 0, done = 0;
	double start = now();
	while (done < posted || posted == 0) {
		while (posted - done < POSTED &&
		       (now() - start < wanted || posted * PIECE < bytes)) {
			post(mode, posted, &ticket[posted % POSTED]);
			posted++;
		}
		if (store->wait(inst, ticket[done++ % POSTED]))
			stop("wait");
	}
	return (double)(done * PIECE) / (now() - start);
}

/* ---- fio ------------------------------------------------------------------------- */

static double by_fio(int mode, const char *how)
{
	char command[2000], line[8000];
	double kib = 0;
	int field = 1;
	FILE *f;
	snprintf(command, sizeof command,
		 "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 " /* its buffers, too, on huge pages */
		 "fio --name=disk --filename=%s/zeroth-bench-fio --size=%llu --bs=%s --iodepth=%s "
		 "--ioengine=io_uring --direct=1 "
		 "--fixedbufs=1 --rw=%s %s --output-format=terse --terse-version=3",
		 dir, (unsigned long long)size, block, depth, fio_names[mode], how);
	f = popen(command, "r");
	if (!f || !fgets(line, sizeof line, f))
		stop("fio does not run");
	for (char *at = strtok(line, ";"); at; at = strtok(NULL, ";"), field++)
		if (field == 7 || field == 48) /* bandwidth of reads, of writes */
			kib += atof(at);
	if (pclose(f) || kib <= 0)
		stop("fio failed");
	return kib * 1024;
}

/* ---- pairs ----------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void compare(int mode, int pairs)
{
	double own[MAX_PAIRS], fio[MAX_PAIRS], ratio[MAX_PAIRS];
	char how[100];
	snprintf(how, sizeof how, "--time_based --runtime=%s", seconds);
	for (int i = 0; i < pairs; i++) {
		if (i % 2)
			own[i] = by_plugin(mode, 0, atof(seconds));
		fio[i] = by_fio(mode, how);
		if (i % 2 == 0)
			own[i] = by_plugin(mode, 0, atof(seconds));
		ratio[i] = own[i] / fio[i];
	}
	double r = median(ratio, pairs); /* sorts */
	printf("%-6s  plugin %7.1f  fio %7.1f  ratio %.3f  (%.3f to %.3f, %d pairs)\n",
	       mode_names[mode], median(own, pairs) / 1e6, median(fio, pairs) / 1e6, r, ratio[0],
	       ratio[pairs - 1], pairs);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int pairs = argc > 2 ? atoi(argv[2]) : 10;
	char path[1000];
	if (argc < 2 || pairs < 1 || pairs > MAX_PAIRS) {
		fprintf(stderr, "usage: disk DIR [PAIRS [SECONDS [BLOCK [DEPTH [MIB]]]]]\n");
		return 2;
	}
	dir = argv[1];
	seconds = argc > 3 ? argv[3] : seconds;
	block = argc > 4 ? argv[4] : block;
	depth = argc > 5 ? argv[5] : depth;
	size = argc > 6 ? strtoull(argv[6], NULL, 10) << 20 : size;
	size -= size % PIECE;
	open_store();
	by_plugin(WRITE, size, 0);
	by_fio(WRITE, "");
	for (int mode = 0; mode < MODES; mode++)
		compare(mode, pairs);
	test_plugin("offload/nvme")->destroy(inst);
	snprintf(path, sizeof path, "%s/zeroth-bench-fio", dir);
	return unlink(path);
}
