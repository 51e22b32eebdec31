/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.c - device/cpu with a memory that nothing but operations and copies can touch, as a GPU's:
 * what else does, faults. Copies beside the computing are refused where host memory is not pinned.
 * It has the options of device/cpu and some of its own. Without `memory` it is device/cpu.
 */
#include "cards.h"

#include "plugins/near.h"
#include "wrapped.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

WRAP(device, "device/cpu.so", "cards")

#define OPTIONS 16 /* at most */

/* They lie behind those of device/cpu. */
struct own_opts {
	uint8_t separate, late_copies, later, marks, declared, stream, clock, graphs;
};

static const struct zr_opt own_opts[] = {
	ZR_OPT(struct own_opts, separate, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Whether operations and copies alone can touch the memory, and operations touch no "
	       "other; no: the host reaches all of it."),
	ZR_OPT(struct own_opts, late_copies, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "Copies at the last moment what could be copied beside computing: finds what looks "
	       "too early."),
	ZR_OPT(struct own_opts, later, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "Where operations alone touch the memory each waits until something needs it: "
	       "finds copies that come too early."),
	ZR_OPT(struct own_opts, marks, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Whether copies wait for marks; no: finds whether anybody would notice."),
	ZR_OPT(struct own_opts, declared, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "With separate = no: whether it says all the same that the host reaches nothing: "
	       "for programs that compute by addresses, as PyTorch on a GPU."),
	ZR_OPT(struct own_opts, stream, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "Whether it has a stream, which is not one of CUDA's."),
	ZR_OPT(struct own_opts, clock, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Whether it has a clock of its own, which counts operations."),
	ZR_OPT(struct own_opts, graphs, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "With separate = yes: whether it wants graphs; see cards_graphs.c."),
};
static struct zr_opt opts_of_both[OPTIONS];

/* ---- memory ---------------------------------------------------------------------- */

static uint64_t page(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t pages(uint64_t bytes)
{
	return (bytes + page() - 1) / page() * page();
}

void *card_real(const struct zr_inst *d, const void *p)
{
	for (const struct card_piece *i = d->pieces; i; i = i->next) {
		const uintptr_t at = (uintptr_t)p - (uintptr_t)i->seen;
		if (at <= i->bytes)
			return i->real + at;
	}
	return (void *)(uintptr_t)p;
}

static struct zr_inst *last; /* instance that was made */

/* For the double of CUDA: where the bytes of p lie. */
__attribute__((visibility("default"))) void *card_real_address(const void *p)
{
	return last ? card_real(last, p) : (void *)(uintptr_t)p;
}

/* Moves memory of device/cpu to between addresses that fault. */
static int hide(struct zr_inst *d, void *memory, uint64_t bytes, void **out)
{
	struct card_piece *piece = malloc(sizeof *piece);
	const uint64_t whole = pages(bytes), half = whole + page();
	if (!piece)
		return zr_fail(d->h, ZR_ENOMEM, "no memory");

	char *seen =
		mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (seen == MAP_FAILED) {
		free(piece);
		return zr_fail(d->h, ZR_ENOMEM, "no addresses for %llu bytes of device memory: %s",
			       (unsigned long long)bytes, strerror(errno));
	}

	char *real = mremap(memory, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, seen + half);
	if (real == MAP_FAILED) {
		int error = errno;
		munmap(seen, 2 * half);
		free(piece);
		return zr_fail(d->h, ZR_ENOMEM, "device memory cannot be moved: %s",
			       strerror(error));
	}

	*piece = (struct card_piece){ seen, real, whole, d->pieces };
	d->pieces = piece;
	*out = seen;
	return ZR_OK;
}

/* The memory itself is left to device/cpu, where it lies now; NULL: p is no piece. */
static void *reveal(struct zr_inst *d, const void *p)
{
	struct card_piece **link = &d->pieces;
	while (*link && (*link)->seen != p)
		link = &(*link)->next;
	struct card_piece *piece = *link;
	if (!piece)
		return NULL;

	void *real = piece->real;
	munmap(piece->seen, piece->bytes + page());
	munmap(piece->real + piece->bytes, page());
	*link = piece->next;
	free(piece);
	return real;
}

static int mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out)
{
	void *p;
	int rc = real_vtbl->mem_alloc(d->cpu, bytes, kind, &p);
	if (rc)
		return rc;

	if (kind == ZR_MEM_DEVICE && d->separate)
		rc = hide(d, p, bytes, out);
	else if (kind == ZR_MEM_PINNED)
		rc = card_pinned_add(d, p, bytes);
	if (rc)
		real_vtbl->mem_free(d->cpu, p, bytes, kind);
	else if (kind != ZR_MEM_DEVICE || !d->separate)
		*out = p;
	return rc;
}

static void mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind)
{
	if (!p)
		return;
	card_run_all(d);
	if (kind == ZR_MEM_PINNED)
		card_pinned_drop(d, p);
	if (kind == ZR_MEM_DEVICE && d->separate)
		p = reveal(d, p);
	real_vtbl->mem_free(d->cpu, p, bytes, kind);
}

/* ---- copies ---------------------------------------------------------------------- */

/* One thread calls what is [step]; no function of these while a graph is made. */
static int check_thread(struct zr_inst *d)
{
	int rc = card_graph_none(d, "a copy, or sync,");
	if (rc)
		return rc;
	if (!d->called)
		d->thread = pthread_self();
	d->called = 1;
	if (pthread_equal(d->thread, pthread_self()))
		return ZR_OK;
	return zr_fail(d->h, ZR_ESTATE, "the device is called by a second thread");
}

static int copy_bytes(struct zr_inst *d, const struct card_copy *c)
{
	int rc = card_run_until(d, c->after);
	for (uint64_t k = 0; !rc && k <= c->more; k++) {
		char *to = card_real(d, (char *)c->dst + k * c->dst_apart);
		const char *from = card_real(d, (const char *)c->src + k * c->src_apart);
		rc = real_vtbl->copy(d->cpu, NULL, to, from, c->bytes);
	}
	if (!rc)
		card_time_copied(d, c->begin, c->end);
	return rc;
}

static int copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes)
{
	const struct card_copy c = { .dst = dst,
				     .src = src,
				     .bytes = bytes,
				     .after = d->enqueued,
				     .begin = ZR_TIME_NONE,
				     .end = ZR_TIME_NONE };
	void *real = card_real(d, dst);
	int rc = check_thread(d);
	(void)s;
	if (rc)
		return rc;
	if (d->later && real != dst && bytes)
		return card_enqueue_copy(d, real, card_real(d, src), bytes);
	return copy_bytes(d, &c);
}

static int start_copy(struct zr_inst *d, struct card_copy *c, uint64_t *ticket)
{
	uint64_t k = 0;
	c->begin = d->copy_begins;
	c->end = d->copy_ends;
	d->copy_begins = ZR_TIME_NONE;
	int rc = check_thread(d);
	if (!rc)
		rc = card_check_beside(d, c);
	*ticket = 0;
	if (rc)
		return rc;

	while (d->late && k < CARD_LATE && d->late[k].bytes)
		k++;
	if (!d->late || k == CARD_LATE || !c->bytes)
		return copy_bytes(d, c);

	d->late[k] = *c;
	*ticket = k + 1;
	return ZR_OK;
}

static int copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes,
		      uint64_t *ticket)
{
	struct card_copy c = { .dst = dst, .src = src, .bytes = bytes, .after = d->enqueued };
	return start_copy(d, &c, ticket);
}

static int mark(struct zr_inst *d, uint32_t slot)
{
	if (slot >= ZR_MARKS)
		return zr_fail(d->h, ZR_EINVAL, "no mark has slot %u", slot);
	d->mark[slot] = d->enqueued;
	return card_graph_none(d, "mark");
}

static int copy_rows(struct zr_inst *d, const struct zr_device_rows *r, uint64_t *ticket)
{
	struct card_copy c = { .dst = r->dst,
			       .src = r->src,
			       .bytes = r->bytes,
			       .more = r->rows - 1,
			       .dst_apart = r->dst_apart,
			       .src_apart = r->src_apart };
	const uint64_t least = r->dst_apart < r->src_apart ? r->dst_apart : r->src_apart;
	if (r->slot >= ZR_MARKS)
		return zr_fail(d->h, ZR_EINVAL, "no mark has slot %u", r->slot);
	if (!r->rows || (c.more && least < r->bytes))
		return zr_fail(d->h, ZR_EINVAL, "copy_rows: %llu rows of %llu bytes, %llu apart",
			       (unsigned long long)r->rows, (unsigned long long)r->bytes,
			       (unsigned long long)least);
	if (!d->without_marks)
		c.after = d->mark[r->slot];
	return start_copy(d, &c, ticket);
}

static int copy_after(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint32_t slot,
		      uint64_t *ticket)
{
	const struct zr_device_rows r = {
		.slot = slot, .dst = dst, .src = src, .bytes = bytes, .rows = 1
	};
	return copy_rows(d, &r, ticket);
}

static int copy_wait(struct zr_inst *d, uint64_t ticket)
{
	if (!ticket)
		return ZR_OK;

	struct card_copy *c = d->late && ticket <= CARD_LATE ? d->late + ticket - 1 : NULL;
	if (!c || !c->bytes)
		return zr_fail(d->h, ZR_EINVAL, "no copy has ticket %llu",
			       (unsigned long long)ticket);

	const struct card_copy now = *c;
	c->bytes = 0;
	int rc = card_check_beside(d, &now);
	if (rc)
		return rc;
	return copy_bytes(d, &now);
}

static int sync_stream(struct zr_inst *d, struct zr_stream *s)
{
	int rc = check_thread(d);
	if (!rc)
		rc = card_run_all(d);
	if (rc)
		return rc;
	return real_vtbl->sync(d->cpu, s);
}

/* ---- instance -------------------------------------------------------------------- */

static int info(struct zr_inst *d, struct zr_device_info *i)
{
	int rc = real_vtbl->info(d->cpu, i);
	if (!d->separate && !d->declared)
		i->host_access = i->host_ops = 1;
	i->graphs = (uint32_t)d->wants_graphs;
	return rc;
}

/* ZR_CARD_SYSFS has a directory for each rank of the machine, as that of a PCI device in sysfs. */
static int32_t processors(struct zr_inst *d, int32_t *processor, int32_t room)
{
	const char *all = getenv("ZR_CARD_SYSFS");
	char dir[4096];
	if (!all)
		return 0;

	snprintf(dir, sizeof dir, "%s/%d", all, d->h->local_rank);
	if (near_node(dir) < 0)
		return 0;
	return near_processors(dir, processor, room);
}

/* Its address says which instance it is of. */
static void *native_stream(struct zr_inst *d, struct zr_stream *s)
{
	(void)s;
	return d->stream ? d : NULL;
}

static const struct zr_ops *ops(struct zr_inst *d)
{
	return d->separate ? &d->ops : d->cpu_ops;
}

static void destroy(struct zr_inst *d)
{
	card_graph_count(d);
	card_pinned_end(d);
	card_forget(d);
	card_time_end(d);
	while (d->pieces) {
		struct card_piece *piece = d->pieces;
		munmap(piece->real, piece->bytes);
		reveal(d, piece->seen);
	}
	if (d->cpu)
		real->destroy(d->cpu);
	free(d->late);
	if (last == d)
		last = NULL;
	free(d);
}

/* Without one the table is that of a device that says no times. */
static void set_clock(int there)
{
	vtbl.time_open = there ? card_time_open : NULL;
	vtbl.time_mark = there ? card_time_mark : NULL;
	vtbl.time_copies = there ? card_time_copies : NULL;
	vtbl.time_between = there ? card_time_between : NULL;
}

/* Nothing is on the account of host memory: plans are those of device/cpu. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct own_opts *own = (const void *)((const char *)opts + real->opts_size);
	struct zr_device_info about = { .size = sizeof about };
	struct zr_inst *d = calloc(1, sizeof *d);
	if (!d)
		return zr_fail(h, ZR_ENOMEM, "no memory for the instance");

	d->h = host = h;
	int rc = real->create(h, opts, &d->cpu);
	if (!rc)
		rc = real_vtbl->info(d->cpu, &about);
	if (rc) {
		destroy(d);
		return rc;
	}

	d->last = &d->first;
	d->copy_begins = d->copy_ends = ZR_TIME_NONE;
	d->separate = !about.unified && own->separate;
	d->later = d->separate && own->later;
	d->without_marks = !own->marks;
	d->declared = own->declared;
	d->stream = own->stream;
	d->wants_graphs = d->separate && own->graphs;
	set_clock(own->clock);
	d->cpu_ops = real_vtbl->ops(d->cpu);
	card_ops_fill(d);
	if (own->late_copies)
		d->late = calloc(CARD_LATE, sizeof *d->late);
	if (own->late_copies && !d->late) {
		destroy(d);
		return zr_fail(h, ZR_ENOMEM, "no memory for a list of copies");
	}
	*out = last = d;
	return ZR_OK;
}

/* ---- the plugin ------------------------------------------------------------------ */

static void add_options(void)
{
	const uint32_t n = real->n_opts, own = sizeof own_opts / sizeof *own_opts;
	if (n + own > OPTIONS || real->opt_stride != sizeof *opts_of_both)
		abort();

	memcpy(opts_of_both, real->opts, n * sizeof *opts_of_both);
	memcpy(opts_of_both + n, own_opts, sizeof own_opts);
	for (uint32_t i = n; i < n + own; i++)
		opts_of_both[i].offset += real->opts_size;
	desc.opts = opts_of_both;
	desc.n_opts = n + own;
	desc.opts_size = real->opts_size + sizeof(uint64_t); /* as aligned as they were */
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	add_options();
	desc.destroy = destroy;
	vtbl = (struct zr_device_v1){ .size = sizeof vtbl,
				      .info = info,
				      .ops = ops,
				      .mem_alloc = mem_alloc,
				      .mem_free = mem_free,
				      .copy = copy,
				      .sync = sync_stream,
				      .copy_start = copy_start,
				      .copy_wait = copy_wait,
				      .mem_pin = card_mem_pin,
				      .mem_unpin = card_mem_unpin,
				      .native_stream = native_stream,
				      .processors = processors,
				      .mark = mark,
				      .copy_after = copy_after,
				      .copy_rows = copy_rows,
				      .graph_begin = card_graph_begin,
				      .graph_end = card_graph_end,
				      .graph_launch = card_graph_launch,
				      .graph_free = card_graph_free };
}

ZR_PLUGIN(&desc);
