/* SPDX-License-Identifier: Apache-2.0
 *
 * latedisk.c - a store that does everything as late as zeroth/offload.h allows: a request moves
 * its bytes when it is waited for. It refuses what the interface forbids, with the numbers of both
 * requests: one that overlaps another which is under way, if one of them writes; and a write whose
 * memory changed before it was waited for. It takes `max` requests at a time. LATEDISK_FAIL=N: the
 * Nth write fails when it is waited for. LATEDISK_SAY=FILE: when it is destroyed it appends how
 * many writes there were, and how many nobody had waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/offload.h>

#define MOST 64

struct opts {
	int64_t max, buffer_count;
};

static const struct zr_opt opts[] = {
	ZR_OPT(struct opts, max, ZR_T_I64, 0, "64", 1, MOST, "", "Requests at a time."),
	ZR_OPT(struct opts, buffer_count, ZR_T_I64, 0, "3", 3, 64, "", "Sub-groups in memory."),
};

struct object {
	char *mem;
	uint64_t bytes;
};

struct request {
	struct object *object;
	uint64_t off, bytes, ticket; /* ticket 0: none */
	char *mem, *copy;            /* copy: of what is written, NULL: it is read */
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	struct request request[MOST];
	uint64_t posts, writes, left; /* left: writes that nobody waited for */
};

static int info(struct zr_inst *s, struct zr_tier_info *i)
{
	*i = (struct zr_tier_info){ .size = i->size,
				    .mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
				    .max_inflight = (uint32_t)s->o->max,
				    .align = 1,
				    .capacity = UINT64_MAX,
				    .buffers = (uint32_t)s->o->buffer_count,
				    .pipeline_read = 1,
				    .pipeline_write = 1 };
	return ZR_OK;
}

static int make(struct zr_inst *s, const char *key, uint64_t bytes, uint64_t *object)
{
	struct object *o = malloc(sizeof *o);
	(void)s, (void)key;
	*o = (struct object){ calloc(bytes, 1), bytes };
	*object = (uint64_t)(uintptr_t)o;
	return ZR_OK;
}

static int discard(struct zr_inst *s, uint64_t object)
{
	struct object *o = (struct object *)(uintptr_t)object;
	(void)s;
	free(o->mem);
	free(o);
	return ZR_OK;
}

static int overlap(const struct request *a, const struct request *b)
{
	int disk = a->object == b->object && a->off < b->off + b->bytes &&
		   b->off < a->off + a->bytes;
	int memory = a->mem < b->mem + b->bytes && b->mem < a->mem + a->bytes;
	return (disk && (a->copy || b->copy)) || (memory && !(a->copy && b->copy));
}

static int post(struct zr_inst *s, struct request r, int write, uint64_t *ticket)
{
	struct request *room = NULL;
	int n = 0;
	*ticket = 0;
	if (!r.bytes)
		return ZR_OK;
	r.ticket = ++s->posts;
	r.copy = write ? malloc(r.bytes) : NULL;
	if (write)
		memcpy(r.copy, r.mem, r.bytes);
	for (struct request *q = s->request; q < s->request + MOST; q++) {
		if (!q->ticket)
			room = q;
		else if (overlap(&r, q))
			return zr_fail(s->h, ZR_EINVAL,
				       "request %llu begins while request "
				       "%llu of the same bytes goes on",
				       (unsigned long long)r.ticket, (unsigned long long)q->ticket);
		n += q->ticket != 0;
	}
	if (n >= s->o->max) {
		free(r.copy);
		return ZR_EAGAIN;
	}
	*room = r;
	*ticket = r.ticket;
	return ZR_OK;
}

static int read_object(struct zr_inst *s, uint64_t object, uint64_t off, void *dst, uint64_t bytes,
		       uint64_t *ticket)
{
	return post(s,
		    (struct request){ .object = (struct object *)(uintptr_t)object,
				      .off = off,
				      .bytes = bytes,
				      .mem = dst },
		    0, ticket);
}

static int write_object(struct zr_inst *s, uint64_t object, uint64_t off, const void *src,
			uint64_t bytes, uint64_t *ticket)
{
	return post(s,
		    (struct request){ .object = (struct object *)(uintptr_t)object,
				      .off = off,
				      .bytes = bytes,
				      .mem = (char *)(uintptr_t)src },
		    1, ticket);
}

static int test(struct zr_inst *s, uint64_t ticket)
{
	(void)s;
	return !ticket;
}

static int finish(struct zr_inst *s, struct request *r)
{
	const char *nth = getenv("LATEDISK_FAIL");
	int same = !r->copy || !memcmp(r->copy, r->mem, r->bytes), write = r->copy != NULL;
	char *there = r->object->mem + r->off;
	unsigned long long ticket = r->ticket;
	memcpy(write ? there : r->mem, write ? r->mem : there, r->bytes);
	free(r->copy);
	*r = (struct request){ 0 };
	if (!same)
		return zr_fail(s->h, ZR_EINVAL,
			       "the memory of write %llu changed before it was "
			       "waited for",
			       ticket);
	s->writes += (uint64_t)write;
	if (write && nth && s->writes == strtoull(nth, NULL, 10))
		return zr_fail(s->h, ZR_EIO, "write %llu failed", (unsigned long long)s->writes);
	return ZR_OK;
}

static int wait(struct zr_inst *s, uint64_t ticket)
{
	for (struct request *r = s->request; r < s->request + MOST; r++)
		if (ticket && r->ticket == ticket)
			return finish(s, r);
	return !ticket ? ZR_OK :
			 zr_fail(s->h, ZR_ESTATE, "there is no request %llu",
				 (unsigned long long)ticket);
}

static int drain(struct zr_inst *s)
{
	for (struct request *r = s->request; r < s->request + MOST; r++)
		if (r->ticket) {
			s->left += r->copy != NULL;
			finish(s, r);
		}
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *o, struct zr_inst **out)
{
	*out = calloc(1, sizeof **out);
	**out = (struct zr_inst){ .h = h, .o = o };
	return ZR_OK;
}

static void destroy(struct zr_inst *s)
{
	FILE *say = getenv("LATEDISK_SAY") ? fopen(getenv("LATEDISK_SAY"), "a") : NULL;
	drain(s);
	if (say) {
		fprintf(say, "%llu %llu\n", (unsigned long long)s->writes,
			(unsigned long long)s->left);
		fclose(say);
	}
	free(s);
}

static const struct zr_offload_v1 vtbl = { .size = sizeof vtbl,
					   .info = info,
					   .make = make,
					   .discard = discard,
					   .read = read_object,
					   .write = write_object,
					   .test = test,
					   .wait = wait,
					   .drain = drain };
static const struct zr_iface ifaces[] = { { "zr.offload/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "offload",
	.id = "latedisk",
	.version = "0",
	.license = "Apache-2.0",
	.summary = "Requests happen when they are waited for.",
	.ifaces = ifaces,
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.opt_stride = sizeof *opts,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};

ZR_PLUGIN(&desc);
