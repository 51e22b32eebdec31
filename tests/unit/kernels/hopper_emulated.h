/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_emulated.h - what compute capability 9.0 does beside its threads, after the PTX ISA 8.0:
 * mbarriers, bulk copies of boxes of tensors, products of warpgroups, registers that warpgroups
 * hand over. cuda_emulated.h includes it; kernels/cuda/hopper.h calls it.
 *
 * Whatever is asynchronous ends as late as it may: a copy or a group of products is finished when
 * no thread can go on otherwise, and one waits for it. Until then
 *
 *   - what a copy brings is poison in shared memory, and no product may read it;
 *   - accumulators are poison, and whoever writes them is found out when the product ends;
 *   - operands are read when a product is issued and when it ends, and must be the same;
 *   - floats that are sent to global memory are read when that starts and when its thread waits for
 *     that, and must be the same; they arrive when it waits for that.
 *
 * The asynchronous proxy has a view of dynamic shared memory of its own, which products read. A
 * copy of a box arrives in both. A thread's store arrives in that view by its fence, and only if it
 * came by store_shared(); until the fence it is dirty, and neither products nor copies may touch
 * it.
 * Shared memory that kernels declare is not seen by the proxy.
 *
 * Addresses of shared memory are those of a block's window. An operand is found by the arithmetic
 * of its descriptor, whatever brought it there. What the emulator does not know ends the test.
 */
#ifndef ZR_TESTS_HOPPER_EMULATED_H
#define ZR_TESTS_HOPPER_EMULATED_H

/* What looks at variables of other threads, or of ended functions. */
#ifdef __SANITIZE_ADDRESS__
#define ZR_LOOKS __attribute__((no_sanitize("address"), noinline))
#else
#define ZR_LOOKS ZR_UNSEEN
#endif

namespace emulated
{

enum {
	HOPPER_DYNAMIC = 227 << 10,
	GROUP = 128,          /* threads of a warpgroup */
	REGISTERS = 64 << 10, /* of a multiprocessor */
	MOST_TX = (1 << 20) - 1,
	MBARRIERS = 64, /* of a block */
	BOXES = 128,    /* under way, of a block */
	PRODUCTS = 128, /* under way, of a warp */
	SUMS = 4,       /* accumulators that a thread's products have */
	PIECES = 64,    /* of A in registers, that a thread's products have read last */
	STORES = 4096,  /* of a thread, that no fence follows yet */
	SENDS = 16,     /* under way, of a thread */
	MOST_SENT = 64 << 10,
	NAMED = 16, /* barriers of a block */
	RANKS = 4,
};

/* What accumulators hold until their product has ended: any arithmetic makes another number of it,
 * a quiet one. */
const uint32_t SIGNALLING = 0xffa5a5a5u;

/* How rows of 16-byte pieces are permuted; the values are those of a descriptor. */
enum { ROWS_PLAIN, ROWS_128, ROWS_64, ROWS_32 };

/* Bytes of a row of the pattern. */
ZR_UNSEEN inline uint32_t span_of(int swizzle)
{
	const uint32_t bytes[4] = { 16, 128, 64, 32 };
	return bytes[swizzle];
}

/* The address at which the piece that belongs at `at` is: its number within a row is permuted by
 * the number of 128 bytes. */
ZR_UNSEEN inline uint32_t swizzled(uint32_t at, int swizzle)
{
	const uint32_t pieces = span_of(swizzle) / 16;
	return at ^ ((at >> 7) & (pieces - 1)) << 4;
}

/* ---- shared memory as the asynchronous proxy sees it ---- */

struct mbarrier {
	uint64_t *at;
	int expected, pending, tx;
	unsigned phase;
	bool seen_by_proxy;
	int by; /* thread that began it */
	char order[2];
};

struct tensor_map {
	const unsigned char *x;
	int rank, element, swizzle;
	int64_t size[RANKS], stride[RANKS]; /* stride in bytes; the first is element's */
	int box[RANKS];
};

struct bringing {
	tensor_map map;
	int first[RANKS];
	uint32_t to, bytes;
	int barrier;
};

struct beside {
	unsigned char view[WINDOW];
	uint16_t dirty[WINDOW]; /* the thread whose store it is, counted from 1 */
	unsigned char coming[WINDOW];
	mbarrier mbar[MBARRIERS];
	int mbarriers;
	bringing box[BOXES];
	int boxes;
	char asked_for; /* copies, as the thread sanitizer is told */
	struct {
		int members, came;
		unsigned turn;
		char order[2];
	} named[NAMED];
	int free_registers;
};

inline beside *besides[RESIDENT];
inline int launch_registers; /* of a thread, at first */

ZR_UNSEEN inline beside *own_beside()
{
	return besides[here - blocks];
}

ZR_UNSEEN inline unsigned char *window()
{
	return dynamic + dynamic_bytes - WINDOW;
}

ZR_UNSEEN inline uint32_t shared_address(const void *p)
{
	const ptrdiff_t at = (const unsigned char *)p - window();
	if (at < (ptrdiff_t)(WINDOW - dynamic_bytes) || at >= WINDOW)
		fail("uses an address that is not in its block's dynamic shared memory");
	return (uint32_t)at;
}

ZR_UNSEEN inline void check_room(uint32_t at, size_t n)
{
	if (at < WINDOW - dynamic_bytes || at + n > WINDOW)
		fail("leaves dynamic shared memory: %zu bytes at %u", n, at);
}

/* ---- accumulators and other registers ---- */

/* VALUE: of accumulators that products have, or as the last fence saw them. */
struct sums {
	float *at;
	int n, products;
	float value[128];
};

struct piece_of_a {
	const uint32_t *at;
	uint32_t value[4];
};

/* What a thread's next product is. */
struct asked {
	float *d;
	const uint32_t *a;
	uint64_t a_at, b_at;
	int n;
	bool a_mn, b_mn, is_bf16, add;
};

struct unfenced {
	uint32_t at;
	int n;
};

/* Floats on their way to global memory, as the proxy saw them when that started. */
struct sending {
	float *to;
	uint32_t from, bytes;
	bool add, read;
	int group;
	float *x;
};

struct thread_beside {
	sums acc[SUMS];
	piece_of_a piece[PIECES];
	int next_acc, next_piece;
	bool fenced; /* since the last commit */
	int commits;
	asked product;
	unfenced store[STORES];
	int stores;
	sending send[SENDS];
	int sends, send_groups;
	bool turn_came; /* and no fence shows to the proxy what was seen then */
};

struct product {
	asked what;
	int group;
	float *d[LANES];
	const uint32_t *pieces[LANES];
	uint16_t a[16][16], b[16][256];
};

struct warp_beside {
	int asked;
	product *queue[PRODUCTS];
	int products;
	int done; /* groups */
	int registers;
	uint64_t history; /* of products, to compare the warps of a warpgroup */
};

inline thread_beside *thread_beside_of[MOST];
inline warp_beside warps_beside[MOST / LANES];

ZR_UNSEEN inline thread_beside *own()
{
	return thread_beside_of[now];
}

ZR_UNSEEN inline warp_beside *own_warp_beside()
{
	return &warps_beside[now / LANES];
}

ZR_UNSEEN inline void begin_beside(resident *b)
{
	const int slot = (int)(b - blocks);
	if (!launch_registers)
		return;
	if (!besides[slot])
		besides[slot] = (beside *)malloc(sizeof(beside));
	beside *s = besides[slot];
	memset((void *)s, 0, sizeof *s);
	memset(s->view, 0xff, sizeof s->view);
	for (int i = b->first; i < b->end; i++) {
		if (!thread_beside_of[i])
			thread_beside_of[i] = (thread_beside *)malloc(sizeof(thread_beside));
		memset((void *)thread_beside_of[i], 0, sizeof(thread_beside));
	}
	for (int w = b->first / LANES; w < (b->end + LANES - 1) / LANES; w++) {
		memset((void *)&warps_beside[w], 0, sizeof *warps_beside);
		warps_beside[w].registers = launch_registers;
	}
}

ZR_UNSEEN inline void end_of_thread()
{
	if (!launch_registers)
		return;
	if (own_warp_beside()->products)
		fail("ends with products that it did not wait for");
	if (own()->stores)
		fail("ends with stores for the asynchronous proxy that no fence follows");
	if (own()->sends)
		fail("ends with floats under way that it did not wait for");
}

ZR_UNSEEN inline void end_beside(resident *b)
{
	if (!launch_registers)
		return;
	const beside *s = besides[b - blocks];
	if (s->boxes)
		fail("its block ended while a copy was under way");
	for (int i = 0; i < s->mbarriers; i++)
		if (s->mbar[i].tx)
			fail("its block ended while an mbarrier expected %d bytes", s->mbar[i].tx);
	for (int w = b->first / LANES; w < b->end / LANES; w++) {
		const warp_beside *first =
			&warps_beside[b->first / LANES + (w - b->first / LANES) / 4 * 4];
		if (warps_beside[w].history != first->history)
			fail("warps of a warpgroup did not issue the same products");
		if (warps_beside[w].registers != first->registers)
			fail("warps of a warpgroup did not set the same number of registers");
	}
}

/* Whether a thread of the block rests until that changes. */
ZR_UNSEEN inline bool is_waited_for(const void *what)
{
	for (int i = here->first; i < here->end; i++)
		if (!fiber[i].done && fiber[i].may_go && fiber[i].what == what)
			return true;
	return false;
}

/* ---- mbarriers ---- */

/* What shared memory holds of an mbarrier: who writes over it is found out. */
ZR_UNSEEN inline uint64_t mark_of(int i)
{
	return 0x6d62617200000000u | (uint32_t)i;
}

ZR_UNSEEN inline mbarrier *mbarrier_at(const uint64_t *at)
{
	beside *s = own_beside();
	shared_address(at);
	const uint64_t mark = *(const volatile uint64_t *)at;
	const uint32_t i = (uint32_t)mark;
	if (i >= (uint32_t)s->mbarriers || mark != mark_of((int)i) || s->mbar[i].at != at)
		fail("uses an mbarrier that has not begun, or was written over");
	return &s->mbar[i];
}

ZR_UNSEEN inline void mbarrier_init(uint64_t *at, int arrivals)
{
	beside *s = own_beside();
	if (shared_address(at) % 8 || arrivals < 1 || arrivals > MOST_TX)
		fail("begins an mbarrier of %d arrivals, or at an odd place", arrivals);
	for (int i = 0; i < s->mbarriers; i++)
		if (s->mbar[i].at == at)
			fail("begins an mbarrier twice");
	if (s->mbarriers == MBARRIERS)
		fail("begins more than %d mbarriers", MBARRIERS);
	mbarrier *m = &s->mbar[s->mbarriers];
	m->at = at;
	m->expected = m->pending = arrivals;
	m->by = now;
	*(volatile uint64_t *)at = mark_of(s->mbarriers++);
}

ZR_UNSEEN inline void end_phase(mbarrier *m)
{
	if (m->pending || m->tx)
		return;
	m->pending = m->expected;
	m->phase++;
}

/* TX more bytes are expected, or fewer. */
ZR_UNSEEN inline void add_tx(mbarrier *m, int tx)
{
	m->tx += tx;
	if (m->tx < -MOST_TX || m->tx > MOST_TX)
		fail("an mbarrier expects %d bytes", m->tx);
}

ZR_UNSEEN inline void mbarrier_arrive(uint64_t *at, int tx)
{
	mbarrier *m = mbarrier_at(at);
	if (m->pending == 0)
		fail("arrives at an mbarrier at which all have arrived");
	tell(&m->order[m->phase % 2]);
	add_tx(m, tx);
	m->pending--;
	end_phase(m);
}

/* Whether the phase of that parity has ended: of the current and the one before it. */
ZR_UNSEEN inline bool phase_ended(const void *what, uint64_t parity)
{
	return (((const mbarrier *)what)->phase & 1) != parity;
}

ZR_UNSEEN inline void mbarrier_wait(uint64_t *at, int parity)
{
	mbarrier *m = mbarrier_at(at);
	if (parity != 0 && parity != 1)
		fail("waits for parity %d", parity);
	rest_until(phase_ended, m, (uint64_t)parity, "an mbarrier");
	hear(&m->order[parity]);
}

/* ---- stores that the asynchronous proxy reads ---- */

template <class T> void store_shared(T *to, T x)
{
	beside *s = own_beside();
	thread_beside *me = own();
	const uint32_t at = shared_address(to);
	check_room(at, sizeof x);
	if (me->stores == STORES)
		fail("has %d stores that no fence follows", STORES);
	me->store[me->stores++] = unfenced{ at, (int)sizeof x };
	for (uint32_t i = at; i < at + sizeof x; i++) {
		if (s->coming[i])
			fail("stores where a copy is under way");
		s->dirty[i] = (uint16_t)(now + 1);
	}
	*to = x;
}

/* The proxy sees what this thread stored, and mbarriers that it began. */
ZR_UNSEEN inline void fence_async()
{
	beside *s = own_beside();
	thread_beside *me = own();
	for (int i = 0; i < me->stores; i++)
		for (uint32_t at = me->store[i].at; at < me->store[i].at + (uint32_t)me->store[i].n;
		     at++)
			if (s->dirty[at] == now + 1) {
				s->view[at] = *(volatile unsigned char *)(window() + at);
				s->dirty[at] = 0;
			}
	me->stores = 0;
	for (int i = 0; i < s->mbarriers; i++)
		s->mbar[i].seen_by_proxy |= s->mbar[i].by == now;
}

/* ---- boxes of tensors ---- */

/* What cuTensorMapEncodeTiled() demands, of what hopper.h asks of it. */
ZR_UNSEEN inline bool map_is_valid(const tensor_map *m)
{
	const int64_t inner = (int64_t)m->box[0] * m->element;
	if (m->rank < 2 || m->rank > RANKS || (uintptr_t)m->x % 16 || inner % 16)
		return false;
	if (m->swizzle != ROWS_PLAIN && inner > span_of(m->swizzle))
		return false;
	for (int i = 0; i < m->rank; i++) {
		if (m->size[i] < 1 || m->size[i] > (int64_t)1 << 32)
			return false;
		if (m->box[i] < 1 || m->box[i] > 256)
			return false;
		if (i &&
		    (m->stride[i] % 16 || m->stride[i] < 0 || m->stride[i] >= (int64_t)1 << 40))
			return false;
	}
	return true;
}

/* Poison, and no product may read it: or no longer. */
ZR_UNSEEN inline void mark_coming(const bringing *c, bool coming)
{
	beside *s = own_beside();
	unsigned char *shared = window() + c->to;
	for (uint32_t i = 0; i < c->bytes; i++) {
		s->coming[c->to + i] = coming;
		if (coming) {
			s->view[c->to + i] = 0xff;
			*(volatile unsigned char *)(shared + i) = 0xff;
		}
	}
}

ZR_UNSEEN inline void bring_box(void *to, const tensor_map *map, uint64_t *bar, const int *first)
{
	beside *s = own_beside();
	const mbarrier *m = mbarrier_at(bar);
	if (s->boxes == BOXES)
		fail("has too many copies under way");
	bringing *c = &s->box[s->boxes++];
	*c = bringing{ *map, {}, shared_address(to), (uint32_t)map->element, (int)(m - s->mbar) };
	for (int i = 0; i < map->rank; i++) {
		c->first[i] = first[i];
		c->bytes *= (uint32_t)map->box[i];
	}
	const uint32_t repeat = 8 * span_of(map->swizzle);
	if (!m->seen_by_proxy)
		fail("copies for an mbarrier that no fence shows to the asynchronous proxy");
	if (c->to % 128 || (map->swizzle != ROWS_PLAIN && c->to % repeat))
		fail("copies a box to an address that is not aligned");
	if (map->swizzle != ROWS_PLAIN &&
	    (uint32_t)(map->box[0] * map->element) != span_of(map->swizzle))
		fail("copies a box whose rows do not fill the swizzle's pattern");
	check_room(c->to, c->bytes);
	for (uint32_t i = c->to; i < c->to + c->bytes; i++) {
		if (s->dirty[i])
			fail("copies over a store that no fence orders before it");
		if (s->coming[i])
			fail("copies to where another copy is under way");
	}
	mark_coming(c, true);
	tell(&s->asked_for);
}

/* 16 bytes that begin at `first`: elements outside the tensor are 0. */
ZR_UNSEEN inline void bring_piece(const tensor_map *map, const int *first, unsigned char *to)
{
	const unsigned char *from = map->x;
	bool inside = true;
	for (int i = 1; i < map->rank; i++) {
		inside &= first[i] >= 0 && first[i] < map->size[i];
		from += first[i] * map->stride[i];
	}
	for (int i = 0; i < 16; i++) {
		const int64_t e = first[0] + i / map->element;
		const bool there = inside && e >= 0 && e < map->size[0];
		to[i] = there ? from[e * map->element + i % map->element] : 0;
	}
}

/* The place-th copy arrives. */
ZR_UNSEEN inline void finish_box(int place)
{
	beside *s = own_beside();
	const bringing c = s->box[place];
	const int row_bytes = c.map.box[0] * c.map.element;
	hear(&s->asked_for);
	s->box[place] = s->box[--s->boxes];
	mark_coming(&c, false);
	for (uint32_t done = 0; done < c.bytes; done += 16) {
		const int row = (int)done / row_bytes, in_row = (int)done % row_bytes;
		const int coords[RANKS] = {
			c.first[0] + in_row / c.map.element,
			c.first[1] + row % c.map.box[1],
			c.first[2] + row / c.map.box[1] % (c.map.rank > 2 ? c.map.box[2] : 1),
			c.first[3] + row / c.map.box[1] / (c.map.rank > 2 ? c.map.box[2] : 1),
		};
		const uint32_t at = swizzled(c.to + done, c.map.swizzle);
		unsigned char piece[16];
		bring_piece(&c.map, coords, piece);
		for (int i = 0; i < 16; i++) {
			s->view[at + i] = piece[i];
			*(volatile unsigned char *)(window() + at + i) = piece[i];
		}
		tell_of_write(window() + at, 16);
	}
	mbarrier *m = &s->mbar[c.barrier];
	if (*(volatile uint64_t *)m->at != mark_of(c.barrier))
		fail("an mbarrier was written over");
	tell(&m->order[m->phase % 2]);
	add_tx(m, -(int)c.bytes);
	end_phase(m);
}

/* ---- floats that are sent to global memory ---- */

inline float *spare_sent[(int)SENDS * (int)MOST];
inline int spares_sent;

ZR_UNSEEN inline float *new_sent()
{
	return spares_sent ? spare_sent[--spares_sent] : (float *)malloc(MOST_SENT);
}

ZR_UNSEEN inline void fence_async_global()
{
	own()->turn_came = false;
}

ZR_UNSEEN inline void send_floats(float *to, const void *from, int bytes, bool add)
{
	const beside *s = own_beside();
	thread_beside *me = own();
	const uint32_t at = shared_address(from);
	if (at % 16 || (uintptr_t)to % 16 || bytes % 16 || bytes < 16 || bytes > MOST_SENT)
		fail("sends %d bytes, or from or to an odd place", bytes);
	check_room(at, (size_t)bytes);
	if (me->sends == SENDS)
		fail("has more than %d sends under way", SENDS);
	if (me->turn_came)
		fail("sends floats, and no fence orders that behind its turn");
	for (uint32_t i = at; i < at + (uint32_t)bytes; i++)
		if (s->dirty[i] || s->coming[i])
			fail("sends a store that no fence orders before it, or what comes");
	sending *x = &me->send[me->sends++];
	*x = sending{ to, at, (uint32_t)bytes, add, false, me->send_groups, new_sent() };
	for (int i = 0; i < bytes; i++)
		((unsigned char *)x->x)[i] = s->view[at + (uint32_t)i];
}

ZR_UNSEEN inline void commit_sends()
{
	own()->send_groups++;
}

/* All but the last n groups that this thread has committed have read shared memory. */
ZR_UNSEEN inline void read_sends(int n)
{
	const beside *s = own_beside();
	thread_beside *me = own();
	for (int i = 0; i < me->sends && me->send[i].group < me->send_groups - n; i++) {
		sending *x = &me->send[i];
		bool same = true;
		for (uint32_t k = 0; k < x->bytes && !x->read; k++)
			same &= !s->dirty[x->from + k] &&
				((const unsigned char *)x->x)[k] == s->view[x->from + k];
		if (!same)
			fail("floats were changed before they had been sent");
		x->read = true;
	}
}

/* They arrive. */
ZR_UNSEEN inline void wait_sends(int n)
{
	thread_beside *me = own();
	int done = 0;
	read_sends(n);
	for (; done < me->sends && me->send[done].group < me->send_groups - n; done++) {
		const sending *x = &me->send[done];
		for (uint32_t i = 0; i < x->bytes / 4; i++)
			x->to[i] = x->add ? x->to[i] + x->x[i] : x->x[i];
		tell_of_write(x->to, x->bytes);
		spare_sent[spares_sent++] = x->x;
	}
	me->sends -= done;
	for (int i = 0; i < me->sends; i++)
		me->send[i] = me->send[i + done];
}

/* ---- products ---- */

/* The address of element (mn, k) of an operand, mn being its row of A or its column of B, by the
 * canonical layouts of the PTX ISA. In pieces of 16 bytes, 8 elements, a swizzle's row is W long:
 *
 *   K is contiguous:   8 rows of W pieces each, of which k selects two; every 8 rows `stride`.
 *                      Without a swizzle rows have one piece, the second is `leading` away.
 *   MN is contiguous:  8 rows, one for each k, of W pieces of mn each; the next W pieces of mn are
 *                      `leading` away and the next 8 of k `stride`; without a swizzle the other
 *                      way round. */
ZR_UNSEEN inline uint32_t operand_address(uint64_t operand, bool mn_major, int mn, int k)
{
	const uint32_t start = (uint32_t)(operand & 0x3fff) << 4,
		       leading = (uint32_t)(operand >> 16 & 0x3fff) << 4,
		       stride = (uint32_t)(operand >> 32 & 0x3fff) << 4;
	const int swizzle = (int)(operand >> 62);
	const uint32_t row = span_of(swizzle), in_row = row / 2; /* elements */
	const uint32_t x = (uint32_t)mn, y = (uint32_t)k;
	uint32_t at = start;
	if (operand & ~0xc0003fff3fff3fffu)
		fail("a descriptor has a base offset or unknown bits: %016llx",
		     (unsigned long long)operand);
	if (swizzle != ROWS_PLAIN && start % (8 * row) >= row)
		fail("a descriptor begins within a swizzle's pattern without a base offset");
	if (mn_major)
		at += x % in_row * 2 + x / in_row * (swizzle ? leading : stride) + y % 8 * row +
		      y / 8 * (swizzle ? stride : leading);
	else
		at += x % 8 * row + x / 8 * stride +
		      (swizzle ? y * 2 : y % 8 * 2 + y / 8 * leading);
	return swizzled(at, swizzle);
}

ZR_UNSEEN inline uint16_t read_operand(uint64_t operand, bool mn_major, int mn, int k)
{
	const beside *s = own_beside();
	const uint32_t at = operand_address(operand, mn_major, mn, k);
	check_room(at, 2);
	if (s->dirty[at] || s->dirty[at + 1])
		fail("a product reads a store that no fence orders before it");
	if (s->coming[at])
		fail("a product reads what a copy has not brought yet");
	return (uint16_t)(s->view[at] | s->view[at + 1] << 8);
}

/* A of a warp: 16 rows, from row 16w of the warpgroup's on; by lanes, as in mma.h. */
ZR_LOOKS inline void read_a(const product *p, int number, uint16_t (*a)[16])
{
	for (int r = 0; r < 16; r++)
		for (int k = 0; k < 16; k++) {
			const int lane = r % 8 * 4 + k % 8 / 2, reg = r / 8 + k / 8 * 2;
			a[r][k] = p->pieces[0] ? (uint16_t)(p->pieces[lane][reg] >> 16 * (k % 2)) :
						 read_operand(p->what.a_at, p->what.a_mn,
							      number % 4 * 16 + r, k);
		}
}

ZR_LOOKS inline void read_b(const product *p, uint16_t (*b)[256])
{
	for (int k = 0; k < 16; k++)
		for (int n = 0; n < p->what.n; n++)
			b[k][n] = read_operand(p->what.b_at, p->what.b_mn, n, k);
}

/* The 16-bit number as it is. */
ZR_UNSEEN inline float widened(uint16_t x, bool is_bf16)
{
	const uint32_t sign = (uint32_t)(x & 0x8000) << 16, mantissa = x & 0x3ff;
	const int exponent = x >> 10 & 31;
	uint32_t bits = (uint32_t)x << 16;
	float y;
	if (!is_bf16 && exponent == 31)
		bits = sign | 0x7f800000u | mantissa << 13;
	else if (!is_bf16 && exponent)
		bits = sign | (uint32_t)(exponent + 112) << 23 | mantissa << 13;
	else if (!is_bf16)
		return ldexpf(sign ? -(float)mantissa : (float)mantissa, -24);
	memcpy(&y, &bits, sizeof y);
	return y;
}

ZR_UNSEEN inline sums *sums_of(int thread, const float *at)
{
	thread_beside *t = thread_beside_of[thread];
	for (int i = 0; i < SUMS; i++)
		if (t->acc[i].at == at)
			return &t->acc[i];
	return NULL;
}

/* A thread's accumulators, that no product had or that this one's predecessors still have. */
ZR_LOOKS inline void take_sums(float *d, int n)
{
	thread_beside *me = own();
	sums *s = sums_of(now, d);
	for (int i = 0; i < SUMS; i++) {
		const sums *other = &me->acc[i];
		if (other->products && other != s && d < other->at + other->n && other->at < d + n)
			fail("two products have some of their accumulators in common");
	}
	if (s && s->products) {
		if (s->n != n)
			fail("products of different shapes have the same accumulators");
		s->products++;
		return;
	}
	if (s && s->n == n)
		for (int i = 0; i < n; i++)
			if (memcmp(&s->value[i], (const char *)&d[i], sizeof *d) != 0)
				fail("accumulators were changed after the fence");
	for (int i = 0; !s && i < SUMS; i++) {
		sums *other = &me->acc[me->next_acc++ % SUMS];
		s = other->products ? NULL : other;
	}
	if (!s)
		fail("has products of more than %d accumulators under way", SUMS);
	s->at = d;
	s->n = n;
	s->products = 1;
	for (int i = 0; i < n; i++) {
		s->value[i] = d[i];
		*(volatile uint32_t *)(void *)&d[i] = SIGNALLING;
	}
}

ZR_UNSEEN inline void check_at_rest(const float *d, int n)
{
	for (int i = 0; i < SUMS; i++) {
		const sums *s = &own()->acc[i];
		if (s->products && d < s->at + s->n && s->at < d + n)
			fail("reads or writes accumulators whose product has not ended");
	}
}

ZR_LOOKS inline void take_pieces(const uint32_t *a)
{
	thread_beside *me = own();
	piece_of_a *p = NULL;
	for (int i = 0; i < PIECES; i++)
		if (me->piece[i].at == a)
			p = &me->piece[i];
	for (int i = 0; p && i < 4; i++)
		if (p->value[i] != a[i])
			fail("registers of A were changed after the fence");
	if (!p)
		p = &me->piece[me->next_piece++ % PIECES];
	p->at = a;
	for (int i = 0; i < 4; i++)
		p->value[i] = a[i];
}

/* What registers hold here is what products may read. */
ZR_LOOKS inline void fence_registers()
{
	thread_beside *me = own();
	me->fenced = true;
	for (int i = 0; i < SUMS; i++) {
		sums *s = &me->acc[i];
		for (int k = 0; s->at && !s->products && k < s->n; k++)
			s->value[k] = s->at[k];
	}
	for (int i = 0; i < PIECES; i++)
		for (int k = 0; me->piece[i].at && k < 4; k++)
			me->piece[i].value[k] = me->piece[i].at[k];
}

ZR_UNSEEN inline bool same_product(const asked &a, const asked &b)
{
	return a.a_at == b.a_at && a.b_at == b.b_at && a.n == b.n && a.a_mn == b.a_mn &&
	       a.b_mn == b.b_mn && a.is_bf16 == b.is_bf16 && a.add == b.add && !a.a == !b.a;
}

ZR_UNSEEN inline uint64_t mixed(uint64_t h, uint64_t x)
{
	return (h ^ x) * 0x9e3779b97f4a7c15u;
}

inline product *spare[(int)PRODUCTS * ((int)MOST / LANES)];
inline int spares;

/* Memory goes round here: to the thread sanitizer malloc() and free() would be of the kernel. */
ZR_UNSEEN inline product *new_product()
{
	return spares ? spare[--spares] : (product *)malloc(sizeof(product));
}

/* All lanes have asked for the same product. */
ZR_UNSEEN inline void issue()
{
	warp_beside *w = own_warp_beside();
	const int first = now / LANES * LANES;
	if (w->products == PRODUCTS)
		fail("has too many products under way");
	product *p = new_product();
	p->what = thread_beside_of[first]->product;
	p->group = thread_beside_of[first]->commits;
	for (int i = 0; i < LANES; i++) {
		const thread_beside *t = thread_beside_of[first + i];
		if (!same_product(t->product, p->what) || t->commits != p->group)
			fail("the lanes of a warp do not issue the same product");
		p->d[i] = t->product.d;
		p->pieces[i] = t->product.a;
	}
	read_a(p, (first - here->first) / LANES, p->a);
	read_b(p, p->b);
	w->queue[w->products++] = p;
	w->history = mixed(mixed(w->history, p->what.b_at), p->what.a ? 0 : p->what.a_at);
	w->history = mixed(w->history, (uint64_t)p->what.n << 1 | p->what.add);
}

ZR_UNSEEN inline void multiply(const asked &what)
{
	thread_beside *me = own();
	if (!me->fenced)
		fail("issues the first product of a group without a fence of its registers");
	if (what.n % 8 || what.n < 8 || what.n > 256)
		fail("issues a product of %d columns", what.n);
	if (own_warp()->members != LANES)
		fail("issues a product in a warp of which threads have ended");
	take_sums(what.d, what.n / 2);
	if (what.a)
		take_pieces(what.a);
	me->product = what;
	if (++own_warp_beside()->asked == LANES) {
		own_warp_beside()->asked = 0;
		issue();
	}
	wait_for(own_warp());
}

ZR_UNSEEN inline void commit_products()
{
	own()->fenced = false;
	own()->commits++;
}

ZR_UNSEEN inline bool groups_done(const void *what, uint64_t groups)
{
	return (int64_t)((const warp_beside *)what)->done >= (int64_t)groups;
}

/* All but the last n groups that this thread has committed have ended. */
ZR_UNSEEN inline void wait_products(int n)
{
	if (own()->commits > n)
		rest_until(groups_done, own_warp_beside(), (uint64_t)(own()->commits - n),
			   "its products");
}

/* Rows of 16, as the lanes of a warp have them. */
ZR_LOOKS inline void add_product(const product *p, const float *a, const float *b, int lane)
{
	sums *s = sums_of(now / LANES * LANES + lane, p->d[lane]);
	for (int i = 0; i < s->n; i++) {
		const int row = lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
		float sum = 0;
		if (*(volatile uint32_t *)(void *)&s->at[i] != SIGNALLING)
			fail("accumulators were written before their product had ended");
		for (int k = 0; k < 16; k++)
			sum += a[row * 16 + k] * b[k * 256 + col];
		s->value[i] = p->what.add ? s->value[i] + sum : sum;
	}
	if (--s->products)
		return;
	for (int i = 0; i < s->n; i++)
		*(volatile float *)&s->at[i] = s->value[i];
}

ZR_UNSEEN inline void finish_product(const product *p, int warp_of_block)
{
	static uint16_t again_a[16][16], again_b[16][256];
	static float a[16][16], b[16][256];
	read_a(p, warp_of_block, again_a);
	read_b(p, again_b);
	for (int k = 0; k < 16; k++) {
		for (int r = 0; r < 16; r++) {
			if (again_a[r][k] != p->a[r][k])
				fail("an A was changed before its product had ended");
			a[r][k] = widened(p->a[r][k], p->what.is_bf16);
		}
		for (int n = 0; n < p->what.n; n++) {
			if (again_b[k][n] != p->b[k][n])
				fail("a B was changed before its product had ended");
			b[k][n] = widened(p->b[k][n], p->what.is_bf16);
		}
	}
	for (int lane = 0; lane < LANES; lane++)
		add_product(p, &a[0][0], &b[0][0], lane);
}

/* A warp's share of its oldest group. */
ZR_UNSEEN inline void finish_share(int w)
{
	warp_beside *x = &warps_beside[w];
	int n = 0;
	now = w * LANES;
	for (; n < x->products && x->queue[n]->group == x->done; n++) {
		finish_product(x->queue[n], w - here->first / LANES);
		spare[spares++] = x->queue[n];
	}
	x->products -= n;
	for (int i = 0; i < x->products; i++)
		x->queue[i] = x->queue[i + n];
	x->done++;
}

/* Products are their warpgroup's: the oldest group ends for all four warps at once, when all of
 * them have committed it. */
ZR_UNSEEN inline bool finish_group(int first, int end)
{
	bool waited_for = false;
	for (int w = first; w < end; w++) {
		if (warps_beside[w].done >= thread_beside_of[w * LANES]->commits)
			return false;
		waited_for |= is_waited_for(&warps_beside[w]);
	}
	for (int w = first; w < end && waited_for; w++)
		finish_share(w);
	return waited_for;
}

ZR_UNSEEN inline bool finish_a_group()
{
	const int end = here->end / LANES;
	for (int w = here->first / LANES; w + 4 <= end; w += 4)
		if (finish_group(w, w + 4))
			return true;
	return false;
}

/* The last copy first, if it is set: copies may end in any order. */
inline bool last_copy_first;

ZR_UNSEEN inline bool finish_a_box()
{
	const beside *s = own_beside();
	for (int i = 0; i < s->boxes; i++) {
		const int place = last_copy_first ? s->boxes - 1 - i : i;
		if (is_waited_for(&s->mbar[s->box[place].barrier])) {
			finish_box(place);
			return true;
		}
	}
	return false;
}

/* Copies before products, or the other way round. */
inline bool products_first;

ZR_UNSEEN inline bool finish_one()
{
	for (int i = 0; launch_registers && i < RESIDENT; i++) {
		if (!blocks[i].running)
			continue;
		go_into(&blocks[i]);
		now = here->first;
		if (products_first ? finish_a_group() || finish_a_box() :
				     finish_a_box() || finish_a_group())
			return true;
	}
	return false;
}

/* ---- registers ---- */

ZR_UNSEEN inline bool registers_free(const void *what, uint64_t n)
{
	return ((const beside *)what)->free_registers >= (int)n;
}

/* The first lane does it for its warp. */
ZR_UNSEEN inline void set_registers(int n, bool more)
{
	warp_beside *w = own_warp_beside();
	wait_for(own_warp());
	if (n < 24 || n > 256 || n % 8 || (more ? n < w->registers : n > w->registers))
		fail("sets %d registers where it has %d", n, w->registers);
	if (now % LANES == 0) {
		const int by = (n - w->registers) * LANES;
		if (more)
			rest_until(registers_free, own_beside(), (uint64_t)by, "registers");
		own_beside()->free_registers -= by;
	}
	wait_for(own_warp());
	if (now % LANES == 0)
		w->registers = n;
	wait_for(own_warp());
}

/* ---- barriers of some of a block's threads ---- */

ZR_UNSEEN inline bool turn_changed(const void *what, uint64_t turn)
{
	return *(const unsigned *)what != turn;
}

ZR_UNSEEN inline void named_barrier(int id, int threads, bool wait)
{
	if (id < 1 || id >= NAMED || threads % LANES || threads < LANES)
		fail("uses barrier %d of %d threads", id, threads);
	auto *b = &own_beside()->named[id];
	const unsigned turn = b->turn;
	if (b->came && b->members != threads)
		fail("barrier %d is one of %d threads, and of %d", id, b->members, threads);
	b->members = threads;
	tell(&b->order[turn % 2]);
	if (++b->came > threads)
		fail("barrier %d has more threads than it waits for", id);
	if (b->came == threads) {
		b->came = 0;
		b->turn++;
	}
	if (!wait)
		return;
	rest_until(turn_changed, &b->turn, turn, "a named barrier");
	hear(&b->order[turn % 2]);
}

/* ---- turns of blocks ---- */

ZR_UNSEEN inline bool is_turn(const void *what, uint64_t turn)
{
	return *(const volatile unsigned *)what == (unsigned)turn;
}

ZR_UNSEEN inline void wait_turn(const unsigned *counter, unsigned turn)
{
	rest_until(is_turn, counter, turn, "its turn");
	hear((char *)(uintptr_t)counter);
	own()->turn_came = true;
}

ZR_UNSEEN inline void pass_turn(unsigned *counter, unsigned next)
{
	if (own()->sends)
		fail("passes its turn on before its floats have arrived");
	tell((char *)counter);
	*(volatile unsigned *)counter = next;
}

} // namespace emulated

#endif
