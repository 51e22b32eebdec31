/* @ID@ - a boot for zeroth: says which rank a process is, and lets ranks exchange small values. See
 * zeroth-plugin(7) and zeroth/boot.h, which is a DRAFT: a plugin of this role loads in the release
 * whose headers it was built with.
 *
 * As it is written here: ranks of one machine that a launcher started with RANK and WORLD_SIZE in
 * their environment. A value is a file in a directory, which has to be empty when a run begins:
 *   for r in 0 1; do RANK=$r WORLD_SIZE=2 zeroth train @ID@.ini & done; wait */
#include <zeroth/boot.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a user may set in [boot]. */
struct opts {
	const char *path;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, path, ZR_T_PATH, 0, ".", 0, 0, "",
	       "Directory for values, empty when a run begins; one rank needs none."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	int32_t rank, world;
	int fences;
};

static int info(struct zr_inst *b, struct zr_boot_info *out)
{
	out->rank = out->local_rank = b->rank;
	out->world = out->local_world = b->world;
	out->node = 0;
	out->nodes = 1;
	if (gethostname(out->host, sizeof out->host - 1))
		return zr_fail(b->h, ZR_EIO, "the name of the host: %s", strerror(errno));
	return ZR_OK;
}

/* ---- values ---------------------------------------------------------------------- */

/* A value has its name when it is whole: nobody reads a part of it. */
static int put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
{
	char path[4200], part[4300];

	snprintf(path, sizeof path, "%s/%s", b->o->path, key);
	snprintf(part, sizeof part, "%s.%d.part", path, b->rank);
	FILE *f = fopen(part, "we");
	int bad = !f || fwrite(value, 1, bytes, f) != bytes;
	bad |= f && fclose(f);
	if (bad || rename(part, path))
		return zr_fail(b->h, ZR_EIO, "%s: %s", path, strerror(errno));
	return ZR_OK;
}

static int stopped(const struct zr_inst *b)
{
	char path[4200], why[400] = "";

	snprintf(path, sizeof path, "%s/stopped", b->o->path);
	FILE *f = fopen(path, "re");
	if (!f)
		return ZR_OK;
	if (!fgets(why, sizeof why, f))
		snprintf(why, sizeof why, "another rank stopped");
	fclose(f);
	return zr_fail(b->h, ZR_EPEER, "%s", why);
}

static int get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
{
	const struct timespec nap = { 0, 2000000 };
	char path[4200];
	double waited = 0, said = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", b->o->path, key);
	while (!(f = fopen(path, "re"))) {
		int rc = stopped(b);
		if (rc || waited > timeout)
			return rc ? rc :
				    zr_fail(b->h, ZR_EPEER, "%s: not there after %g s", path,
					    timeout);
		if (waited >= said + 10) {
			said = waited;
			zr_log(b->h, ZR_LOG_INFO, "waits for a rank to write %s", path);
		}

		nanosleep(&nap, NULL);
		waited += 1e-9 * (double)nap.tv_nsec;
	}

	size_t n = fread(value, 1, bytes, f);
	fclose(f);
	if (n == bytes)
		return ZR_OK;
	return zr_fail(b->h, ZR_EIO, "%s has %zu bytes, not %llu", path, n,
		       (unsigned long long)bytes);
}

/* All ranks have come here as often as this one. */
static int fence(struct zr_inst *b, double timeout)
{
	char key[64], here = 1;
	int number = b->fences++;

	snprintf(key, sizeof key, "fence.%d.%d", number, b->rank);
	int rc = put(b, key, &here, 1);
	for (int32_t r = 0; r < b->world && !rc; r++) {
		snprintf(key, sizeof key, "fence.%d.%d", number, r);
		rc = get(b, key, &here, 1, timeout);
	}

	return rc;
}

static void stop(struct zr_inst *b, const char *why)
{
	char text[400];
	snprintf(text, sizeof text, "rank %d stopped: %s", b->rank, why);
	put(b, "stopped", text, strlen(text));
}

/* ---- the plugin ------------------------------------------------------------------ */

static int number(const char *name, int32_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? atoi(text) : otherwise;
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *b = malloc(sizeof *b);
	if (!b)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	*b = (struct zr_inst){
		.h = h, .o = opts, .rank = number("RANK", 0), .world = number("WORLD_SIZE", 1)
	};
	if (b->rank < 0 || b->rank >= b->world) {
		int rc = zr_fail(h, ZR_EINVAL, "RANK=%d, WORLD_SIZE=%d: ranks count from 0",
				 b->rank, b->world);
		free(b);
		return rc;
	}

	*out = b;
	return ZR_OK;
}

static void destroy(struct zr_inst *b)
{
	free(b);
}

static const struct zr_boot_v1 vtbl = {
	.size = sizeof vtbl, .info = info, .put = put, .get = get, .fence = fence, .abort = stop
};
static const struct zr_iface ifaces[] = { { "zr.boot/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "boot",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Ranks of one machine that meet in a directory.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
