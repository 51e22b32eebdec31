/* @ID@ - an offload store for zeroth: a tier that holds what does not fit into memory. See
 * zeroth-plugin(7) and zeroth/offload.h, which is a DRAFT: a plugin of this role loads in the
 * release whose headers it was built with.
 *
 * As it is written here: each object is a file that has no name, so that nothing is left however
 * the run ends. Requests are over when they return, which the ticket 0 says; a store that lets them
 * proceed on their own gives other tickets, and wait() completes them. */
#define _GNU_SOURCE
#include <zeroth/offload.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a user may set in [offload.optimizer] and the like. */
struct opts {
	const char *path;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, path, ZR_T_PATH, 0, "/var/tmp", 0, 0, "",
	       "Directory on the disk that is to be used."),
};

struct object {
	struct object *next;
	int fd;
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	struct object *objects;
};

static int info(struct zr_inst *s, struct zr_tier_info *out)
{
	(void)s;
	out->mem_ok = ZR_MEM_HOST;
	out->max_inflight = 1024; /* none is ever outstanding */
	out->align = 1;
	out->capacity = UINT64_MAX; /* make() says what there is */
	return ZR_OK;
}

/* ---- objects --------------------------------------------------------------------- */

static struct object *object_of(uint64_t object)
{
	return (struct object *)(uintptr_t)object;
}

/* The space is reserved here: a write cannot run out of it. */
static int make(struct zr_inst *s, const char *key, uint64_t bytes, uint64_t *object)
{
	struct object *o = malloc(sizeof *o);
	if (!o)
		return zr_fail(s->h, ZR_ENOMEM, "no memory");

	o->fd = open(s->o->path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int error = o->fd < 0 ? errno : posix_fallocate(o->fd, 0, (off_t)bytes);
	if (error) {
		if (o->fd >= 0)
			close(o->fd);
		free(o);
		return zr_fail(s->h, ZR_EFIT, "%s: no room for the %llu bytes of %s: %s",
			       s->o->path, (unsigned long long)bytes, key, strerror(error));
	}

	o->next = s->objects;
	s->objects = o;
	*object = (uint64_t)(uintptr_t)o;
	return ZR_OK;
}

static int discard(struct zr_inst *s, uint64_t object)
{
	struct object **at = &s->objects, *o = object_of(object);
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	close(o->fd);
	free(o);
	return ZR_OK;
}

/* ---- requests -------------------------------------------------------------------- */

static int failed(struct zr_inst *s, const char *doing, uint64_t off, const char *why)
{
	return zr_fail(s->h, ZR_EIO, "%s: %s at %llu of an object: %s", s->o->path, doing,
		       (unsigned long long)off, why);
}

/* The system may do a part of what it is asked for. */
static int read_at(struct zr_inst *s, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		   uint64_t *ticket)
{
	*ticket = 0;
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = pread(object_of(object)->fd, (char *)dst + done, bytes - done,
				  (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed(s, "read", off + done, n ? strerror(errno) : "end of file");

		done += (uint64_t)n;
	}

	return ZR_OK;
}

static int write_at(struct zr_inst *s, uint64_t object, uint64_t off, const void *src,
		    uint64_t bytes, uint64_t *ticket)
{
	*ticket = 0;
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = pwrite(object_of(object)->fd, (const char *)src + done, bytes - done,
				   (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed(s, "write", off + done, n ? strerror(errno) : "no room");

		done += (uint64_t)n;
	}

	return ZR_OK;
}

static int test(struct zr_inst *s, uint64_t ticket)
{
	(void)s;
	(void)ticket;
	return 1;
}

static int wait_for(struct zr_inst *s, uint64_t ticket)
{
	(void)s;
	(void)ticket;
	return ZR_OK;
}

static int drain(struct zr_inst *s)
{
	(void)s;
	return ZR_OK;
}

/* ---- the plugin ------------------------------------------------------------------ */

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *s = malloc(sizeof *s);
	if (!s)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	*s = (struct zr_inst){ .h = h, .o = opts };
	*out = s;
	return ZR_OK;
}

static void destroy(struct zr_inst *s)
{
	while (s->objects)
		discard(s, (uint64_t)(uintptr_t)s->objects);
	free(s);
}

static const struct zr_offload_v1 vtbl = {
	.size = sizeof vtbl,
	.info = info,
	.make = make,
	.discard = discard,
	.read = read_at,
	.write = write_at,
	.test = test,
	.wait = wait_for,
	.drain = drain,
};
static const struct zr_iface ifaces[] = { { "zr.offload/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "offload",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Objects in files that have no name.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
