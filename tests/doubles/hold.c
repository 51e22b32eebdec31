/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.c - data/text that stops where HOLD says (in the environment) until the file $HOLD_DIR/go is
 * there: in `create`, or in the batch of a number of training steps before it (`step3`), or in the
 * first batch of an evaluation after such a step (`eval3`). It makes the file $HOLD_DIR/held.RANK
 * when it stops. Rank 1 fails in its first batch with `fail1`, a while after it was made with
 * `refuse1`; with `high` a batch has a token that no model has. With HOLD_MORTAL rank 1 dies of
 * SIGTERM.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/data.h>

#include "wrapped.h"

WRAP(data, "data/text.so", "hold")

static int rank, held;
static long long step;

static int is(const char *what)
{
	const char *v = getenv("HOLD");
	return v && !strcmp(v, what);
}

static void hold(const char *where)
{
	const char *dir = getenv("HOLD_DIR");
	char path[4096];
	if (held || !dir || !is(where))
		return;
	held = 1;
	snprintf(path, sizeof path, "%s/held.%d", dir, rank);
	close(open(path, O_WRONLY | O_CREAT, 0666));
	snprintf(path, sizeof path, "%s/go", dir);
	while (access(path, F_OK))
		nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
}

/* Once, as a file tells. */
static int first_time(void)
{
	const char *dir = getenv("HOLD_DIR");
	char path[4096];
	snprintf(path, sizeof path, "%s/done", dir ? dir : ".");
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
	return fd >= 0 && !close(fd);
}

static void end(void)
{
	char die[64], dies[64], hang[64];
	snprintf(die, sizeof die, "die%lld", step);
	snprintf(dies, sizeof dies, "dies%lld", step);
	snprintf(hang, sizeof hang, "hang%lld", step);
	if (rank != host->world - 1)
		return;
	if (is(dies) || (is(die) && first_time()))
		raise(SIGKILL);
	while (is(hang) && (held || first_time())) {
		held = 1;
		pause();
	}
}

static int batch(struct zr_inst *inst, const struct zr_batch *b)
{
	char where[64];
	if (b->split == ZR_SPLIT_TRAIN)
		step = b->step;
	snprintf(where, sizeof where, "%s%lld", b->split == ZR_SPLIT_TRAIN ? "step" : "eval",
		 b->split == ZR_SPLIT_TRAIN ? step : step + 1);
	hold(where);
	if (b->split == ZR_SPLIT_TRAIN)
		end();
	if (rank == 1 && is("fail1"))
		return zr_fail(host, ZR_EINVAL, "rank 1 has another opinion");
	int rc = real_vtbl->batch(inst, b);
	if (!rc && is("high"))
		b->inputs[1] = 1 << 30;
	return rc;
}

static int prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	if (rank == 1 && is("refuse1")) {
		nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
		return zr_fail(host, ZR_EINVAL, "rank 1 has another opinion");
	}
	return real_vtbl->prepare(inst, length, vocabulary);
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	rank = h->rank;
	if (rank == 1 && getenv("HOLD_MORTAL"))
		signal(SIGTERM, SIG_DFL); /* as before it could take signals */
	hold("create");
	return real->create(h, opts, out);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.prepare = prepare;
	vtbl.batch = batch;
}

ZR_PLUGIN(&desc);
