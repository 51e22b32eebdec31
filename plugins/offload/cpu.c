/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.c - the plugin offload/cpu: objects in host memory, exactly as large as asked for. Requests
 * are copies by the host's threads and have happened when they return, so no ticket is ever
 * outstanding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zeroth/offload.h>

#include "plugins/descriptor.h"

#define COPY_CUT (1u << 20)

struct opts {
	uint8_t pin_memory;
	uint64_t pin_max;
};

static const struct zr_opt cpu_opts[] = {
	ZR_OPT(struct opts, pin_memory, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "Lock the memory of objects, so that it is never swapped out; what cannot be locked "
	       "is used as it is, and said. What a device copies it pins without this."),
	ZR_OPT(struct opts, pin_max, ZR_T_BYTES, ZR_O_AUTO, "auto", 0, ZR_HI, "bytes",
	       "Memory to lock at most, more stays pageable; auto is half of what this rank may "
	       "use, or 0 with pin_memory = no."),
};

struct object {
	struct object *next;
	char *mem;
	uint64_t bytes;
	int pinned;
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	struct object *objects;
	uint64_t pinned; /* bytes */
	int told;        /* that some memory is not pinned */
};

/* ---- options --------------------------------------------------------------------- */

static uint64_t machine(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE) * (uint64_t)sysconf(_SC_PHYS_PAGES);
}

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct opts *o = opts;
	if (o->pin_max && o->pin_max != ZR_AUTO_COUNT && !o->pin_memory)
		return zr_fail(
			h, ZR_EINVAL,
			"pin_max = %llu does nothing with pin_memory = no; set pin_memory = yes or "
			"remove it",
			(unsigned long long)o->pin_max);
	if (o->pin_max == ZR_AUTO_COUNT) {
		if (o->pin_memory)
			o->pin_max = (facts->memory ? facts->memory : machine()) / 2;
		else
			o->pin_max = 0;
	}

	return ZR_OK;
}

/* ---- objects --------------------------------------------------------------------- */

/* Best effort: says once why memory is not pinned. */
static void pin(struct zr_inst *s, struct object *o, const char *key)
{
	const char *why = NULL;

	if (!s->o->pin_memory)
		return;
	if (o->bytes > s->o->pin_max - s->pinned)
		why = "pin_max would be exceeded";
	else if (mlock(o->mem, o->bytes)) {
		if (errno == ENOMEM || errno == EPERM)
			why = "the limit of locked memory (ulimit -l) is lower";
		else
			why = strerror(errno);
	}

	o->pinned = !why;
	if (!why)
		s->pinned += o->bytes;
	if (why && !s->told)
		zr_log(s->h, ZR_LOG_WARN, "%s: %llu bytes stay pageable beside %llu pinned: %s",
		       key, (unsigned long long)o->bytes, (unsigned long long)s->pinned, why);
	s->told |= why != NULL;
}

/* Core plans and counts objects, so their memory does not go through host->alloc. */
static int make(struct zr_inst *s, const char *key, uint64_t bytes, uint64_t *object)
{
	struct object *o;

	if (!bytes)
		return zr_fail(s->h, ZR_EINVAL, "%s: an object of 0 bytes", key);

	o = calloc(1, sizeof *o);
	if (!o)
		return zr_fail(s->h, ZR_ENOMEM, "no memory for an object");

	o->bytes = bytes;
	o->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (o->mem == MAP_FAILED) {
		int error = errno;
		free(o);
		return zr_fail(s->h, error == ENOMEM ? ZR_EFIT : ZR_ENOMEM,
			       "%s: no memory for %llu bytes: %s", key, (unsigned long long)bytes,
			       strerror(error));
	}

	madvise(o->mem, bytes, MADV_HUGEPAGE);
	pin(s, o, key);
	o->next = s->objects;
	s->objects = o;
	*object = (uint64_t)(uintptr_t)o;
	return ZR_OK;
}

static struct object *object_of(uint64_t object)
{
	return (struct object *)(uintptr_t)object;
}

static int discard(struct zr_inst *s, uint64_t object)
{
	struct object *o = object_of(object), **at = &s->objects;
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	if (o->pinned)
		s->pinned -= o->bytes;
	munmap(o->mem, o->bytes);
	free(o);
	return ZR_OK;
}

static void *map(struct zr_inst *s, uint64_t object)
{
	(void)s;
	return object_of(object)->mem;
}

/* ---- requests -------------------------------------------------------------------- */

struct copy {
	char *dst;
	const char *src;
	uint64_t bytes;
};

static void copy_item(void *arg, int64_t item, int32_t worker)
{
	const struct copy *c = arg;
	uint64_t lo = (uint64_t)item * COPY_CUT, left = c->bytes - lo;
	(void)worker;
	memcpy(c->dst + lo, c->src + lo, left < COPY_CUT ? left : COPY_CUT);
}

static int inside(struct zr_inst *s, const struct object *o, uint64_t off, uint64_t bytes)
{
	if (off <= o->bytes && bytes <= o->bytes - off)
		return ZR_OK;

	return zr_fail(s->h, ZR_EINVAL, "%llu bytes at %llu of an object of %llu",
		       (unsigned long long)bytes, (unsigned long long)off,
		       (unsigned long long)o->bytes);
}

static void copy(struct zr_inst *s, void *dst, const void *src, uint64_t bytes)
{
	struct copy c = { dst, src, bytes };
	if (bytes && dst != src) /* a caller that computed in place through map() */
		s->h->parallel(s->h, (int64_t)((bytes - 1) / COPY_CUT + 1), copy_item, &c);
}

static int read_object(struct zr_inst *s, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		       uint64_t *ticket)
{
	const struct object *o = object_of(object);
	int rc = inside(s, o, off, bytes);
	if (rc)
		return rc;

	copy(s, dst, o->mem + off, bytes);
	*ticket = 0;
	return ZR_OK;
}

static int write_object(struct zr_inst *s, uint64_t object, uint64_t off, const void *src,
			uint64_t bytes, uint64_t *ticket)
{
	struct object *o = object_of(object);
	int rc = inside(s, o, off, bytes);
	if (rc)
		return rc;

	copy(s, o->mem + off, src, bytes);
	*ticket = 0;
	return ZR_OK;
}

static int no_ticket(struct zr_inst *s, uint64_t ticket)
{
	if (ticket)
		return zr_fail(s->h, ZR_ESTATE, "there is no ticket %llu",
			       (unsigned long long)ticket);

	return ZR_OK;
}

static int test(struct zr_inst *s, uint64_t ticket)
{
	int rc = no_ticket(s, ticket);
	if (rc)
		return rc;
	return 1;
}

static int drain(struct zr_inst *s)
{
	(void)s;
	return ZR_OK;
}

/* ---- instance -------------------------------------------------------------------- */

static int info(struct zr_inst *s, struct zr_tier_info *i)
{
	(void)s;
	*i = (struct zr_tier_info){ .size = i->size,
				    .mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
				    .max_inflight = 1,
				    .direct = 1,
				    .align = 1,
				    .capacity = UINT64_MAX };

	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *s = h->alloc(h, sizeof *s, "workspace");
	if (!s)
		return zr_fail(h, ZR_ENOMEM, "no memory for the instance");

	s->h = h;
	s->o = opts;
	*out = s;
	return ZR_OK;
}

static void destroy(struct zr_inst *s)
{
	while (s->objects)
		discard(s, (uint64_t)(uintptr_t)s->objects);
	s->h->release(s->h, s);
}

static const struct zr_offload_v1 vtbl = { .size = sizeof vtbl,
					   .info = info,
					   .make = make,
					   .discard = discard,
					   .read = read_object,
					   .write = write_object,
					   .map = map,
					   .test = test,
					   .wait = no_ticket,
					   .drain = drain };

PLUGIN(offload, "cpu", &vtbl, .version = "0.1.0", .summary = "Host memory, used in place.",
       PLUGIN_OPTIONS(struct opts, cpu_opts), .resolve = resolve, .create = create,
       .destroy = destroy);
