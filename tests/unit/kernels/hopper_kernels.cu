/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_kernels.cu - see hopper_kernels.h.
 */
#include "kernels/cuda/hopper.h"

#include "hopper_kernels.h"

/* Elements of a row of a box with that swizzle. */
ZR_INLINE int box_width(int swizzle)
{
	const int width[4] = { 8, 64, 32, 16 };
	return width[swizzle];
}

/* An operand in shared memory, as boxes of a matrix that lie one behind the other: MN rows or
 * columns, K in all. */
struct boxed {
	unsigned char *x;
	int mn, k, swizzle;
	bool mn_major;
	ZR_MEMBER int width() const
	{
		return box_width(swizzle);
	}
	ZR_MEMBER int rows() const
	{
		return mn_major ? k : mn;
	}
	ZR_MEMBER int boxes() const
	{
		return (int)zr_ceil_div(mn_major ? mn : k, width());
	}
	ZR_MEMBER int box_bytes() const
	{
		return rows() * width() * 2;
	}
	ZR_MEMBER int bytes() const
	{
		return boxes() * box_bytes();
	}
	/* The sixteen of K that begin at `from`. */
	ZR_MEMBER uint64_t operand(int from, int fault) const
	{
		const int eight = 8 * width() * 2, how = swizzle;
		const int other = fault == OTHER_SWIZZLE ? how % 3 + 1 : how;
		const bool crossed = mn_major && !how;
		const int in_box = mn_major ? from * width() * 2 :
					      from / width() * box_bytes() + from % width() * 2;
		int stride = crossed ? box_bytes() : eight;
		int leading = crossed ? eight : box_bytes();
		if (fault == WRONG_STRIDE)
			stride *= 2;
		if (fault == WRONG_LEADING)
			leading *= 2;
		return zr_operand(x + in_box, leading, stride, (zr_swizzle)other);
	}
	ZR_MEMBER void bring(const zr_tensor_map *map, uint64_t *full) const
	{
		for (int i = 0; i < boxes(); i++)
			zr_bring_box(x + i * box_bytes(), map, full, i * width(), 0);
	}
};

/* Sixteen columns of A from `from` on, in a thread's registers. */
ZR_DEVICE void hold(uint32_t (&r)[4], const product_case &c, int from)
{
	const int warp = (int)threadIdx.x / ZR_WARP, lane = (int)threadIdx.x % ZR_WARP;
	for (int i = 0; i < 8; i++) {
		const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8,
			  col = from + lane % 4 * 2 + i % 2 + i / 4 * 8;
		const uint32_t x = row < c.m && col < c.k ? c.a[row * c.a_pitch + col] : 0;
		r[i / 2] = i % 2 ? r[i / 2] | x << 16 : x;
	}
}

/* D is `width` wide; row 0 is row `first`. */
template <int N> ZR_DEVICE void store(float *to, const float (&d)[N / 8][4], int first)
{
	const int thread = (int)threadIdx.x % ZR_WARPGROUP, lane = thread % ZR_WARP;
	for (int i = 0; i < N / 2; i++) {
		const int row = first + thread / ZR_WARP * 16 + lane / 4 + i / 2 % 2 * 8,
			  col = i / 4 * 8 + lane % 4 * 2 + i % 2;
		to[row * N + col] = d[i / 4][i % 4];
	}
}

enum { MOST_STEPS = 8 };

template <class T, int N, int A_HOW, bool B_MN>
static __global__ void __launch_bounds__(ZR_WARPGROUP, 1)
	product_kernel(const __grid_constant__ product_case c,
		       const __grid_constant__ zr_tensor_map a_map,
		       const __grid_constant__ zr_tensor_map b_map)
{
	ZR_ALIGNED_SHARED(room);
	const int k = (int)zr_ceil_div(c.k, 16) * 16;
	const boxed a = { room, 64, k, c.swizzle, A_HOW == A_SHARED_MN };
	const boxed b = { room + (A_HOW == A_HELD ? 0 : a.bytes()), N, k, c.swizzle, B_MN };
	uint64_t *const full = (uint64_t *)(void *)(b.x + b.bytes());
	uint32_t held[MOST_STEPS][4];
	float d[N / 8][4];
	if (threadIdx.x == 0) {
		zr_mbarrier_init(full, 1);
		if (c.fault != NO_FENCE_OF_MBARRIER)
			zr_fence_async();
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		int bytes = b.bytes() + (A_HOW == A_HELD ? 0 : a.bytes());
		if (c.fault == FEWER_BYTES)
			bytes -= b.box_bytes();
		if (c.fault == MORE_BYTES)
			bytes += 16;
		if (c.fault == NO_EXPECTED_BYTES)
			zr_mbarrier_arrive(full);
		else
			zr_mbarrier_arrive_expecting(full, bytes);
		if (A_HOW != A_HELD)
			a.bring(&a_map, full);
		b.bring(&b_map, full);
	}
	for (int i = 0; i < N / 2; i++)
		d[i / 4][i % 4] = 0;
	if (A_HOW == A_HELD)
		for (int step = 0; step < k / 16; step++)
			hold(held[step], c, step * 16);
	if (c.fault != NO_WAIT_FOR_COPY)
		zr_mbarrier_wait(full, c.fault == WRONG_PARITY);
	zr_pin(d);
	if (c.fault != NO_FENCE_OF_REGISTERS)
		zr_products_fence();
	for (int step = 0; step < k / 16; step++) {
		const uint64_t b_at = b.operand(step * 16, c.fault);
		if (c.fault == WARP_LEFT_OUT && step == 1 && threadIdx.x / ZR_WARP == 2)
			continue;
		if (A_HOW == A_HELD)
			zr_product<T, N, B_MN>(d, held[step], b_at, true);
		else
			zr_product<T, N, A_HOW == A_SHARED_MN, B_MN>(d, a.operand(step * 16, 0),
								     b_at, true);
	}
	if (c.fault != NO_COMMIT)
		zr_products_commit();
	if (c.fault == CHANGES_A)
		held[0][1] ^= 1;
	if (c.fault == CHANGES_SUMS)
		d[0][3] *= 2;
	if (c.fault != NO_WAIT_FOR_PRODUCT)
		zr_products_wait<0>();
	if (c.fault != NO_WAIT_FOR_PRODUCT)
		zr_pin(d);
	if (c.fault == PINS_EARLY) {
		zr_products_fence();
		zr_product<T, N, B_MN>(d, held[0], b.operand(0, 0), true);
		zr_products_commit();
		zr_pin(d);
	}
	if (c.fault == CHANGES_A_AFTER_FENCE || c.fault == CHANGES_SUMS_AFTER_FENCE) {
		zr_products_fence();
		if (c.fault == CHANGES_SUMS_AFTER_FENCE)
			d[1][1] += 1;
		else
			held[0][2] ^= 1;
		zr_product<T, N, B_MN>(d, held[0], b.operand(0, 0), true);
		zr_products_commit();
		zr_products_wait<0>();
	}
	store<N>(c.d, d, 0);
	if (c.fault == NO_WAIT_FOR_PRODUCT)
		zr_products_wait<0>();
}

/* A matrix of `rows` rows of `cols`, in boxes of so many rows. */
static int map_of(zr_tensor_map *map, const uint16_t *x, int rows, int cols, int64_t pitch,
		  int box_rows, int swizzle)
{
	const zr_boxes b = { x,
			     2,
			     { cols, rows },
			     { 0, pitch * 2 },
			     { box_width(swizzle), box_rows },
			     (zr_swizzle)swizzle };
	return zr_tensor_map_of(map, &b) != cudaSuccess;
}

template <class T, int N, int A_HOW, bool B_MN> static int run_product(const product_case *c)
{
	const int k = (int)zr_ceil_div(c->k, 16) * 16, width = box_width(c->swizzle);
	const bool a_mn = A_HOW == A_SHARED_MN;
	const int64_t a_bytes = zr_ceil_div(a_mn ? 64 : k, width) * width * (a_mn ? k : 64) * 2,
		      b_bytes = zr_ceil_div(B_MN ? N : k, width) * width * (B_MN ? k : N) * 2;
	zr_tensor_map a, b;
	if (map_of(&a, c->a, a_mn ? c->k : c->m, a_mn ? c->m : c->k, c->a_pitch, a_mn ? k : 64,
		   c->swizzle) ||
	    map_of(&b, c->b, B_MN ? c->k : c->n, B_MN ? c->n : c->k, c->b_pitch, B_MN ? k : N,
		   c->swizzle))
		return -1;
	return zr_launch_hopper(product_kernel<T, N, A_HOW, B_MN>, dim3(1), dim3(ZR_WARPGROUP),
				(size_t)(a_bytes + b_bytes + 8), 0, *c, a, b);
}

template <class T, int N> static int product_of_width(const product_case *c)
{
	if (c->a_how == A_HELD)
		return c->b_mn ? run_product<T, N, A_HELD, true>(c) :
				 run_product<T, N, A_HELD, false>(c);
	if (c->a_how == A_SHARED_MN)
		return c->b_mn ? run_product<T, N, A_SHARED_MN, true>(c) :
				 run_product<T, N, A_SHARED_MN, false>(c);
	return c->b_mn ? run_product<T, N, A_SHARED, true>(c) :
			 run_product<T, N, A_SHARED, false>(c);
}

template <class T> static int product_of_type(const product_case *c)
{
	switch (c->width) {
	case 64:
		return product_of_width<T, 64>(c);
	case 80:
		return product_of_width<T, 80>(c);
	case 96:
		return product_of_width<T, 96>(c);
	case 128:
		return product_of_width<T, 128>(c);
	default:
		return product_of_width<T, 256>(c);
	}
}

int hopper_product(const product_case *c)
{
	return c->is_bf16 ? product_of_type<bf16>(c) : product_of_type<f16>(c);
}

/* ---- a ring ---------------------------------------------------------------------- */

enum { STAGES = 2, STAGE_K = 64, RING_N = 64, STAGE_BYTES = (128 + RING_N) * STAGE_K * 2 };

struct ring_state {
	int stage, parity;
	ZR_MEMBER void step(int fault)
	{
		stage = (stage + 1) % STAGES;
		if (!stage && fault != PARITY_STAYS)
			parity ^= 1;
	}
};

static __global__ void __launch_bounds__(3 * ZR_WARPGROUP, 1)
	ring_kernel(const __grid_constant__ product_case c,
		    const __grid_constant__ zr_tensor_map a_map,
		    const __grid_constant__ zr_tensor_map b_map)
{
	ZR_ALIGNED_SHARED(room);
	uint64_t *const full = (uint64_t *)(void *)(room + STAGES * STAGE_BYTES), *const empty =
											  full +
											  STAGES;
	const int group = (int)threadIdx.x / ZR_WARPGROUP, thread = (int)threadIdx.x % ZR_WARPGROUP,
		  steps = (int)zr_ceil_div(c.k, STAGE_K);
	ring_state at = { 0, 0 };
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) {
			zr_mbarrier_init(&full[i], 1);
			zr_mbarrier_init(&empty[i], 2);
		}
		zr_fence_async();
	}
	__syncthreads();
	if (group == 0) {
		if (c.fault != REGISTERS_KEPT &&
		    (c.fault != WARP_KEEPS_REGISTERS || thread / ZR_WARP != 1))
			zr_fewer_registers<24>();
		if (thread != 0)
			return;
		for (int i = 0; i < steps; i++, at.step(c.fault)) {
			unsigned char *const stage = room + at.stage * STAGE_BYTES;
			if (c.fault != NO_WAIT_FOR_RELEASE)
				zr_mbarrier_wait(&empty[at.stage], at.parity ^ 1);
			zr_mbarrier_arrive_expecting(&full[at.stage], STAGE_BYTES);
			zr_bring_box(stage, &a_map, &full[at.stage], i * STAGE_K, 0);
			zr_bring_box(stage + 128 * STAGE_K * 2, &b_map, &full[at.stage],
				     i * STAGE_K, 0);
		}
		return;
	}
	float d[RING_N / 8][4];
	if (c.fault == TOO_MANY_REGISTERS)
		zr_more_registers<248>();
	else
		zr_more_registers<240>();
	for (int i = 0; i < steps; i++, at.step(c.fault)) {
		const boxed a = { room + at.stage * STAGE_BYTES + (group - 1) * 64 * STAGE_K * 2,
				  64, STAGE_K, ZR_SWIZZLE_128, false };
		const boxed b = { room + at.stage * STAGE_BYTES + 128 * STAGE_K * 2, RING_N,
				  STAGE_K, ZR_SWIZZLE_128, false };
		zr_mbarrier_wait(&full[at.stage], at.parity);
		zr_products_fence();
		for (int k = 0; k < STAGE_K; k += 16)
			zr_product<bf16, RING_N>(d, a.operand(k, 0), b.operand(k, 0), i || k);
		zr_products_commit();
		if (c.fault == EARLY_RELEASE && thread == 0)
			zr_mbarrier_arrive(&empty[at.stage]);
		zr_products_wait<0>();
		if (c.fault != EARLY_RELEASE && c.fault != NO_RELEASE && thread == 0)
			zr_mbarrier_arrive(&empty[at.stage]);
	}
	store<RING_N>(c.d, d, (group - 1) * 64);
}

int hopper_ring(const product_case *c)
{
	zr_tensor_map a, b;
	if (map_of(&a, c->a, c->m, c->k, c->a_pitch, 128, ZR_SWIZZLE_128) ||
	    map_of(&b, c->b, c->n, c->k, c->b_pitch, RING_N, ZR_SWIZZLE_128))
		return -1;
	return zr_launch_hopper(ring_kernel, dim3(1), dim3(3 * ZR_WARPGROUP),
				STAGES * STAGE_BYTES + 2 * STAGES * sizeof(uint64_t), 0, *c, a, b);
}

/* ---- stores ---------------------------------------------------------------------- */

/* Of N = 64, with the swizzle of 128 bytes; K is contiguous. */
static __global__ void __launch_bounds__(ZR_WARPGROUP, 1)
	stored_kernel(const __grid_constant__ product_case c,
		      const __grid_constant__ zr_tensor_map b_map)
{
	ZR_ALIGNED_SHARED(room);
	const boxed a = { room, 64, 64, ZR_SWIZZLE_128, false },
		    b = { room + 8192, 64, 64, ZR_SWIZZLE_128, false };
	float d[8][4];
	uint64_t *const full = (uint64_t *)(void *)(room + 16384);
	if (threadIdx.x == 0)
		zr_mbarrier_init(full, 1);
	for (int i = (int)threadIdx.x; i < 2 * 64 * 64; i += ZR_WARPGROUP) {
		const bool in_b = i >= 64 * 64;
		const int row = i % 4096 / 64, col = i % 64;
		const int at = row * 128 + ((col / 8) ^ (row % 8)) * 16 + col % 8 * 2;
		const bool there = row < (in_b ? c.n : c.m) && col < c.k;
		const uint16_t *from = in_b ? c.b + row * c.b_pitch : c.a + row * c.a_pitch;
		uint16_t *to = (uint16_t *)(void *)((in_b ? b.x : a.x) + at);
		const uint16_t x = there ? from[col] : (uint16_t)0;
		if (c.fault == PLAIN_STORES)
			*to = x;
		else
			zr_store_for_async(to, x);
	}
	if (c.fault != NO_FENCE_OF_STORES && c.fault != FENCE_BEHIND_BARRIER)
		zr_fence_async();
	if (c.fault == COPY_OVER_STORES && threadIdx.x == 5) {
		zr_store_for_async((uint16_t *)(void *)b.x, (uint16_t)0);
		zr_bring_box(b.x, &b_map, full, 0, 0);
	}
	if (c.fault != NO_BARRIER)
		__syncthreads();
	zr_products_fence();
	for (int k = 0; k < 64; k += 16)
		zr_product<bf16, 64>(d, a.operand(k, 0), b.operand(k, 0), k > 0);
	zr_products_commit();
	zr_products_wait<0>();
	if (c.fault == FENCE_BEHIND_BARRIER)
		zr_fence_async();
	store<64>(c.d, d, 0);
}

int hopper_stored(const product_case *c)
{
	zr_tensor_map b;
	if (map_of(&b, c->b, c->n, c->k, c->b_pitch, 64, ZR_SWIZZLE_128))
		return -1;
	return zr_launch_hopper(stored_kernel, dim3(1), dim3(ZR_WARPGROUP), 16384 + 8, 0, *c, b);
}

/* ---- boxes ----------------------------------------------------------------------- */

static __global__ void __launch_bounds__(ZR_WARP, 1)
	box_kernel(const __grid_constant__ box_case c, const __grid_constant__ zr_tensor_map map)
{
	ZR_ALIGNED_SHARED(room);
	int n = 1;
	for (int i = 0; i < c.rank; i++)
		n *= c.box[i];
	uint64_t *const full = (uint64_t *)(void *)(room + (n * 2 + 7) / 8 * 8);
	const uint16_t *from = (const uint16_t *)(void *)room;
	if (threadIdx.x == 0) {
		zr_mbarrier_init(full, 1);
		zr_fence_async();
		zr_mbarrier_arrive_expecting(full, n * 2);
		if (c.rank == 2)
			zr_bring_box(room, &map, full, c.first[0], c.first[1]);
		else if (c.rank == 3)
			zr_bring_box(room, &map, full, c.first[0], c.first[1], c.first[2]);
		else
			zr_bring_box(room, &map, full, c.first[0], c.first[1], c.first[2],
				     c.first[3]);
	}
	__syncwarp();
	if (c.fault != NO_WAIT_FOR_COPY)
		zr_mbarrier_wait(full, 0);
	for (int i = (int)threadIdx.x; i < n; i += ZR_WARP)
		c.to[i] = from[i];
}

int hopper_box(const box_case *c)
{
	zr_boxes b = { c->x, c->rank, {}, {}, {}, (zr_swizzle)c->swizzle };
	zr_tensor_map map;
	size_t bytes = 2;
	for (int i = 0; i < c->rank; i++) {
		b.size[i] = c->size[i];
		b.stride[i] = c->stride[i];
		b.box[i] = c->box[i];
		bytes *= (size_t)c->box[i];
	}
	if (zr_tensor_map_of(&map, &b) != cudaSuccess)
		return -1;
	return zr_launch_hopper(box_kernel, dim3(1), dim3(ZR_WARP), bytes + 16, 0, *c, map);
}

/* ---- turns ----------------------------------------------------------------------- */

static __global__ void __launch_bounds__(2 * ZR_WARP, 1)
	turns_kernel(const __grid_constant__ turns_case c)
{
	ZR_ALIGNED_SHARED(room);
	unsigned *const shared = (unsigned *)(void *)room;
	if (threadIdx.x == 0)
		*shared = (unsigned)atomicAdd((int *)(void *)c.drawn, 1);
	__syncthreads();
	const unsigned turn = c.fault == TURN_BY_BLOCK ? blockIdx.x : *shared;
	if (threadIdx.x == 0)
		zr_wait_turn(c.turn, turn);
	__syncthreads();
	if (threadIdx.x == ZR_WARP)
		*c.value = *c.value * 3 + turn;
	__syncthreads();
	if (threadIdx.x == 0 && c.fault != TURN_NOT_PASSED)
		zr_pass_turn(c.turn, turn + 1);
}

int hopper_turns(const turns_case *c)
{
	return zr_launch_hopper(turns_kernel, dim3((unsigned)c->blocks), dim3(2 * ZR_WARP), 16, 0,
				*c);
}

/* ---- floats that are sent --------------------------------------------------------- */

static __global__ void __launch_bounds__(2 * ZR_WARP, 1)
	sends_kernel(const __grid_constant__ sends_case c)
{
	ZR_ALIGNED_SHARED(room);
	float *const shared = (float *)(void *)room;
	unsigned *const drawn = (unsigned *)(void *)(shared + c.n);
	if (threadIdx.x == 0)
		*drawn = (unsigned)atomicAdd((int *)(void *)c.drawn, 1);
	__syncthreads();
	const unsigned turn = *drawn;
	for (int i = (int)threadIdx.x; i < c.n; i += 2 * ZR_WARP)
		zr_store_for_async(&shared[i], hopper_sent(turn, i));
	if (c.fault != NO_FENCE_OF_SENT || threadIdx.x != 0)
		zr_fence_async();
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	zr_wait_turn(c.turn, turn);
	if (c.fault != NO_FENCE_BEHIND_TURN)
		zr_fence_async_global();
	zr_send_floats(c.to, shared, c.n * 4, turn > 0);
	if (c.fault != NO_COMMIT_OF_SENT)
		zr_sends_commit();
	if (c.fault == TURN_BEFORE_SENT)
		zr_pass_turn(c.turn, turn + 1);
	if (c.fault != CHANGED_BEFORE_SENT)
		zr_sends_read<0>();
	zr_store_for_async(&shared[1], 3.0f);
	zr_fence_async();
	if (c.fault != NO_WAIT_FOR_SENT)
		zr_sends_wait<0>();
	if (c.fault != TURN_BEFORE_SENT)
		zr_pass_turn(c.turn, turn + 1);
}

int hopper_sends(const sends_case *c)
{
	return zr_launch_hopper(sends_kernel, dim3((unsigned)c->blocks), dim3(2 * ZR_WARP),
				(size_t)c->n * 4 + 16, 0, *c);
}

/* ---- named barriers -------------------------------------------------------------- */

/* The first half shows numbers and goes on; the second waits for them. */
static __global__ void __launch_bounds__(ZR_WARPGROUP, 1) named_kernel(int *to, int fault)
{
	ZR_ALIGNED_SHARED(room);
	int *const shown = (int *)(void *)room;
	const int thread = (int)threadIdx.x, half = ZR_WARPGROUP / 2;
	if (thread < half) {
		shown[thread] = thread * 7;
		if (fault != TOO_FEW_ARRIVE || thread >= ZR_WARP)
			zr_barrier_arrive(3, ZR_WARPGROUP);
		to[thread] = 0;
		return;
	}
	zr_barrier_sync(3, ZR_WARPGROUP);
	to[thread] = shown[thread - half];
}

int hopper_named(int *to, int fault)
{
	return zr_launch_hopper(named_kernel, dim3(1), dim3(ZR_WARPGROUP),
				ZR_WARPGROUP * sizeof(int), 0, to, fault);
}

void hopper_order(int bits)
{
	emulated::last_first = bits & 1;
	emulated::last_copy_first = bits >> 1 & 1;
	emulated::products_first = bits >> 2 & 1;
}
