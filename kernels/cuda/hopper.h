/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper.h - what compute capability 9.0 has beyond mma.h: mbarriers, copies of boxes of tensors by
 * the copy engine, products of warpgroups, registers that warpgroups hand over. Names and rules are
 * those of the PTX ISA 8.0; each function is one instruction, of sm_90a.
 *
 * A warpgroup, 128 threads, computes D[64,N] += A[64,16] B[16,N] of 16-bit numbers, fp32 sums. Warp
 * w of it has rows [16w, 16w + 16) of D and, if A is in registers, of A. With lane l, g = l / 4 and
 * t = l % 4, D has for every 8 columns the 4 floats of mma.h, and A its 4 registers: so what
 * products leave, rounded, is an A of the next ones.
 *
 * Products read operands from shared memory by descriptors (zr_operand). With the swizzles the
 * tensor maps (zr_tensor_map_of) bring boxes as products read them:
 *
 *   K is contiguous:   a box has rows of K, 128, 64 or 32 bytes each as the swizzle says, one row
 *                      for each row of A or column of B; `stride` is 8 rows, `leading` is not
 *                      read, and the next 16 of K are 32 bytes further.
 *   MN is contiguous:  a box has rows of A's rows or B's columns, one for each k; `leading` goes to
 *                      the next box beside this one, `stride` is 8 rows, and the next 16 of K are
 *                      16 rows further.
 *
 * Boxes begin at multiples of 8 rows of their swizzle, ZR_BOX_ALIGNMENT at most.
 *
 * What products do with registers is not finished before zr_products_wait: accumulators and A may
 * neither be read nor written until then, nor may what descriptors point to. zr_products_fence
 * comes before the first product of each group, and between what writes accumulators or A and the
 * product that reads them.
 */
#ifndef ZEROTH_KERNELS_CUDA_HOPPER_H
#define ZEROTH_KERNELS_CUDA_HOPPER_H

#include "kernel.h"

#ifndef ZR_CUDA_EMULATED
#include <cuda.h>
#endif

#define ZR_WARPGROUP     128
#define ZR_BOX_ALIGNMENT 1024
#define ZR_HOPPER_SHARED (227 << 10) /* that a CUDA block may have */

/* Kernels of this header have a body where this is defined: for sm_90a, and for the host. */
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ZR_HOPPER 1
#endif

/* The values are those of a descriptor. */
enum zr_swizzle { ZR_SWIZZLE_NONE, ZR_SWIZZLE_128, ZR_SWIZZLE_64, ZR_SWIZZLE_32 };

/* A tensor in global memory and the boxes that are brought of it. Sizes, and the box's, are in
 * elements, the contiguous dimension first; strides are in bytes, and the first is not read. */
struct zr_boxes {
	const void *x;
	int rank;
	int64_t size[4], stride[4];
	int box[4];
	enum zr_swizzle swizzle;
};

template <class T> inline constexpr bool zr_is_bf16 = false;
template <> inline constexpr bool zr_is_bf16<bf16> = true;

#ifdef ZR_CUDA_EMULATED

#define ZR_ALIGNED_SHARED(name) ZR_DYNAMIC_SHARED(name)

typedef emulated::tensor_map zr_tensor_map;

static inline cudaError_t zr_tensor_map_of(zr_tensor_map *map, const struct zr_boxes *b)
{
	*map = zr_tensor_map{ (const unsigned char *)b->x, b->rank, 2, b->swizzle, {}, {}, {} };

	for (int i = 0; i < b->rank; i++) {
		map->size[i] = b->size[i];
		map->stride[i] = i ? b->stride[i] : 2;
		map->box[i] = b->box[i];
	}

	return emulated::map_is_valid(map) ? cudaSuccess : cudaErrorInvalidValue;
}

ZR_DEVICE void zr_mbarrier_init(uint64_t *b, int arrivals)
{
	emulated::mbarrier_init(b, arrivals);
}

ZR_DEVICE void zr_mbarrier_arrive(uint64_t *b)
{
	emulated::mbarrier_arrive(b, 0);
}

ZR_DEVICE void zr_mbarrier_arrive_expecting(uint64_t *b, int bytes)
{
	emulated::mbarrier_arrive(b, bytes);
}

ZR_DEVICE void zr_mbarrier_wait(uint64_t *b, int parity)
{
	emulated::mbarrier_wait(b, parity);
}

ZR_DEVICE void zr_fence_async()
{
	emulated::fence_async();
}

template <class T> ZR_DEVICE void zr_store_for_async(T *to, T x)
{
	emulated::store_shared(to, x);
}

ZR_DEVICE void zr_fence_async_global()
{
	emulated::fence_async_global();
}

ZR_DEVICE void zr_send_floats(float *to, const void *from, int bytes, bool add)
{
	emulated::send_floats(to, from, bytes, add);
}

ZR_DEVICE void zr_sends_commit()
{
	emulated::commit_sends();
}

template <int N> ZR_DEVICE void zr_sends_read()
{
	emulated::read_sends(N);
}

template <int N> ZR_DEVICE void zr_sends_wait()
{
	emulated::wait_sends(N);
}

template <class... I>
ZR_DEVICE void zr_bring_box(void *to, const zr_tensor_map *map, uint64_t *b, I... first)
{
	const int coords[] = { first... };

	if (sizeof...(first) != map->rank)
		emulated::fail("copies a box of another rank than its tensor's");

	emulated::bring_box(to, map, b, coords);
}

ZR_DEVICE uint32_t zr_shared_address(const void *p)
{
	return emulated::shared_address(p);
}

template <class T, int N, bool A_MN = false, bool B_MN = false>
ZR_DEVICE void zr_product(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool add)
{
	emulated::multiply({ &d[0][0], NULL, a, b, N, A_MN, B_MN, zr_is_bf16<T>, add });
}

template <class T, int N, bool B_MN = false>
ZR_DEVICE void zr_product(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, bool add)
{
	emulated::multiply({ &d[0][0], a, 0, b, N, false, B_MN, zr_is_bf16<T>, add });
}

ZR_DEVICE void zr_products_fence()
{
	emulated::fence_registers();
}

ZR_DEVICE void zr_products_commit()
{
	emulated::commit_products();
}

template <int N> ZR_DEVICE void zr_products_wait()
{
	emulated::wait_products(N);
}

template <int M> ZR_DEVICE void zr_pin(float (&d)[M][4])
{
	emulated::check_at_rest(&d[0][0], M * 4);
}

template <int M> ZR_DEVICE void zr_pin(uint32_t (&a)[M][4])
{
	(void)a;
}

template <int N> ZR_DEVICE void zr_fewer_registers()
{
	emulated::set_registers(N, false);
}

template <int N> ZR_DEVICE void zr_more_registers()
{
	emulated::set_registers(N, true);
}

ZR_DEVICE void zr_barrier_sync(int id, int threads)
{
	emulated::named_barrier(id, threads, true);
}

ZR_DEVICE void zr_barrier_arrive(int id, int threads)
{
	emulated::named_barrier(id, threads, false);
}

ZR_DEVICE void zr_wait_turn(const unsigned *counter, unsigned turn)
{
	emulated::wait_turn(counter, turn);
}

ZR_DEVICE void zr_pass_turn(unsigned *counter, unsigned next)
{
	emulated::pass_turn(counter, next);
}

#else

#define ZR_ALIGNED_SHARED(name)                                                                    \
	extern __shared__ __align__(ZR_BOX_ALIGNMENT)                                              \
	unsigned char name[]

typedef CUtensorMap zr_tensor_map;

/* The driver's function is looked up, as nothing here is linked with the driver. */
static inline cudaError_t zr_tensor_map_of(zr_tensor_map *map, const struct zr_boxes *b)
{
	/* in the order of zr_swizzle */
	static const CUtensorMapSwizzle swizzles[] = {
		CU_TENSOR_MAP_SWIZZLE_NONE,
		CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_SWIZZLE_64B,
		CU_TENSOR_MAP_SWIZZLE_32B,
	};
	decltype(&cuTensorMapEncodeTiled) encode;
	void *found = NULL;
	cudaDriverEntryPointQueryResult how;
	cuuint64_t size[4], stride[4];
	cuuint32_t box[4], step[4];

	const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
							       12000, cudaEnableDefault, &how);
	if (e != cudaSuccess)
		return e;
	if (!found)
		return cudaErrorNotSupported;

	encode = (decltype(encode))found;
	for (int i = 0; i < b->rank; i++) {
		size[i] = (cuuint64_t)b->size[i];
		stride[i] = (cuuint64_t)b->stride[i];
		box[i] = (cuuint32_t)b->box[i];
		step[i] = 1;
	}

	/* bits that are moved: bf16 stands for fp16 too, and outside the tensor both are 0 */
	const CUresult r = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)b->rank,
				  (void *)(uintptr_t)b->x, size, stride + 1, box, step,
				  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[b->swizzle],
				  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
				  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

	return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

ZR_DEVICE uint32_t zr_shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* One thread begins an mbarrier of so many arrivals; zr_fence_async and a barrier follow. */
ZR_DEVICE void zr_mbarrier_init(uint64_t *b, int arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
		     :
		     : "r"(zr_shared_address(b)), "r"(arrivals)
		     : "memory");
}

ZR_DEVICE void zr_mbarrier_arrive(uint64_t *b)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
		     :
		     : "r"(zr_shared_address(b))
		     : "memory");
}

/* The phase ends once copies have brought so many bytes more. */
ZR_DEVICE void zr_mbarrier_arrive_expecting(uint64_t *b, int bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
		     :
		     : "r"(zr_shared_address(b)), "r"(bytes)
		     : "memory");
}

/* Until the phase of this parity has ended; the one before the first has parity 1. */
ZR_DEVICE void zr_mbarrier_wait(uint64_t *b, int parity)
{
	uint32_t ended = 0;

	while (!ended)
		asm volatile("{\n"
			     ".reg .pred p;\n"
			     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
			     "selp.b32 %0, 1, 0, p;\n"
			     "}"
			     : "=r"(ended)
			     : "r"(zr_shared_address(b)), "r"(parity)
			     : "memory");
}

/* Products and copies that a barrier orders behind this see what this thread has stored in shared
 * memory. */
ZR_DEVICE void zr_fence_async()
{
	asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/* A store in shared memory that products or copies read, or overwrite. */
template <class T> ZR_DEVICE void zr_store_for_async(T *to, T x)
{
	*to = x;
}

/* One thread starts to bring the box whose first element is at these coordinates; it arrives at an
 * mbarrier. What is outside the tensor becomes 0. */
ZR_DEVICE void zr_bring_box(void *to, const zr_tensor_map *map, uint64_t *b, int x, int y)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%3, %4}], [%2];"
		     :
		     : "r"(zr_shared_address(to)), "l"(map), "r"(zr_shared_address(b)), "r"(x),
		       "r"(y)
		     : "memory");
}

ZR_DEVICE void zr_bring_box(void *to, const zr_tensor_map *map, uint64_t *b, int x, int y, int z)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%3, %4, %5}], [%2];"
		     :
		     : "r"(zr_shared_address(to)), "l"(map), "r"(zr_shared_address(b)), "r"(x),
		       "r"(y), "r"(z)
		     : "memory");
}

ZR_DEVICE void zr_bring_box(void *to, const zr_tensor_map *map, uint64_t *b, int x, int y, int z,
			    int w)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%3, %4, %5, %6}], [%2];"
		     :
		     : "r"(zr_shared_address(to)), "l"(map), "r"(zr_shared_address(b)), "r"(x),
		       "r"(y), "r"(z), "r"(w)
		     : "memory");
}

/* Copies behind this see in global memory what this thread has seen before it. */
ZR_DEVICE void zr_fence_async_global()
{
	asm volatile("fence.proxy.async.global;" : : : "memory");
}

/* One thread starts to send floats of shared memory to global memory, or to add them to what is
 * there. Addresses and bytes are multiples of 16. */
ZR_DEVICE void zr_send_floats(float *to, const void *from, int bytes, bool add)
{
	if (add)
		asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
			     "[%0], [%1], %2;"
			     :
			     : "l"(__cvta_generic_to_global(to)), "r"(zr_shared_address(from)),
			       "r"(bytes)
			     : "memory");
	else
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
			     :
			     : "l"(__cvta_generic_to_global(to)), "r"(zr_shared_address(from)),
			       "r"(bytes)
			     : "memory");
}

ZR_DEVICE void zr_sends_commit()
{
	asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

/* Until all but the last N groups of this thread have read shared memory. */
template <int N> ZR_DEVICE void zr_sends_read()
{
	asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(N) : "memory");
}

/* Until they have stored or added all: this thread may pass a turn on. */
template <int N> ZR_DEVICE void zr_sends_wait()
{
	asm volatile("cp.async.bulk.wait_group %0;" : : "n"(N) : "memory");
}

ZR_DEVICE void zr_products_fence()
{
	asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

ZR_DEVICE void zr_products_commit()
{
	asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Until all but the last N groups have ended. */
template <int N> ZR_DEVICE void zr_products_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
}

#define ZR_INOUT_4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])

/* The compiler takes accumulators for ready where a product is issued. What reads or writes them,
 * or an A in registers, it moves past no place where they are pinned: behind zr_products_wait, and
 * before zr_products_fence. */
template <int M> ZR_DEVICE void zr_pin(float (&d)[M][4])
{
#pragma unroll
	for (int i = 0; i < M; i++)
		asm volatile("" : ZR_INOUT_4(i) : : "memory");
}

template <int M> ZR_DEVICE void zr_pin(uint32_t (&a)[M][4])
{
#pragma unroll
	for (int i = 0; i < M; i++)
		asm volatile(""
			     : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])
			     :
			     : "memory");
}

/* Registers of each thread of the warpgroup: the rest is there for others of its CUDA block, which
 * wait until there are enough. */
template <int N> ZR_DEVICE void zr_fewer_registers()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N));
}

template <int N> ZR_DEVICE void zr_more_registers()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
}

/* A barrier of so many threads of the CUDA block: 1 to 15, as __syncthreads is 0. */
ZR_DEVICE void zr_barrier_sync(int id, int threads)
{
	asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

/* Arrives there, and does not wait. */
ZR_DEVICE void zr_barrier_arrive(int id, int threads)
{
	asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

/* One thread waits until a counter in global memory says so. Whoever is waited for must already
 * run: CUDA blocks begin in any order, so a turn is drawn from a counter, not from blockIdx. */
ZR_DEVICE void zr_wait_turn(const unsigned *counter, unsigned turn)
{
	unsigned seen;

	do
		asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
			     : "=r"(seen)
			     : "l"(__cvta_generic_to_global(counter))
			     : "memory");
	while (seen != turn);
}

/* What the threads of this CUDA block have stored before a barrier is seen by who waits. */
ZR_DEVICE void zr_pass_turn(unsigned *counter, unsigned next)
{
	asm volatile("st.release.gpu.global.u32 [%0], %1;"
		     :
		     : "l"(__cvta_generic_to_global(counter)), "r"(next)
		     : "memory");
}

/* ---- products -------------------------------------------------------------------- */

#define ZR_SUMS_32                                                                                 \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                   \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ZR_SUMS_40                                                                                 \
	ZR_SUMS_32 ", "                                                                            \
		   "%32, %33, %34, %35, %36, %37, %38, %39"
#define ZR_SUMS_48                                                                                 \
	ZR_SUMS_32                                                                                 \
	", "                                                                                       \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ZR_SUMS_64                                                                                 \
	ZR_SUMS_32                                                                                 \
	", "                                                                                       \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "         \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ZR_SUMS_128                                                                                \
	ZR_SUMS_64 ", "                                                                            \
		   "%64, %65, %66, %67, %68, %69, %70, %71, "                                      \
		   "%72, %73, %74, %75, %76, %77, %78, %79, "                                      \
		   "%80, %81, %82, %83, %84, %85, %86, %87, "                                      \
		   "%88, %89, %90, %91, %92, %93, %94, %95, "                                      \
		   "%96, %97, %98, %99, %100, %101, %102, %103, "                                  \
		   "%104, %105, %106, %107, %108, %109, %110, %111, "                              \
		   "%112, %113, %114, %115, %116, %117, %118, %119, "                              \
		   "%120, %121, %122, %123, %124, %125, %126, %127"

#define ZR_INOUT_8(i)  ZR_INOUT_4(i), ZR_INOUT_4(i + 1)
#define ZR_INOUT_32(i) ZR_INOUT_8(i), ZR_INOUT_8(i + 2), ZR_INOUT_8(i + 4), ZR_INOUT_8(i + 6)
#define ZR_ALL_32      ZR_INOUT_32(0)
#define ZR_ALL_40      ZR_ALL_32, ZR_INOUT_8(8)
#define ZR_ALL_48      ZR_ALL_40, ZR_INOUT_8(10)
#define ZR_ALL_64      ZR_ALL_32, ZR_INOUT_32(8)
#define ZR_ALL_128     ZR_ALL_64, ZR_INOUT_32(16), ZR_INOUT_32(24)

/* Of n columns, `sums` accumulators, then operands with these numbers. */
#define ZR_PRODUCT_OF_SHARED(n, type, sums, i0, i1, i2, i3, i4)                                    \
	asm volatile("{\n"                                                                         \
		     ".reg .pred p;\n"                                                             \
		     "setp.ne.b32 p, %" #i2 ", 0;\n"                                               \
		     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type               \
		     " {" ZR_SUMS_##sums "}, %" #i0 ", %" #i1 ", p, 1, 1, %" #i3 ", %" #i4 ";\n"   \
					 "}"                                                       \
		     : ZR_ALL_##sums                                                               \
		     : "l"(a), "l"(b), "r"((int)add), "n"((int)A_MN), "n"((int)B_MN))

#define ZR_PRODUCT_OF_HELD(n, type, sums, i0, i1, i2, i3, i4, i5, i6)                              \
	asm volatile("{\n"                                                                         \
		     ".reg .pred p;\n"                                                             \
		     "setp.ne.b32 p, %" #i5 ", 0;\n"                                               \
		     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type               \
		     " {" ZR_SUMS_##sums "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4      \
					 ", p, 1, 1, %" #i6 ";\n"                                  \
					 "}"                                                       \
		     : ZR_ALL_##sums                                                               \
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add),          \
		       "n"((int)B_MN))

/* D = A B, or += if `add`; A_MN and B_MN say that not K is contiguous. */
template <class T, int N, bool A_MN = false, bool B_MN = false>
ZR_DEVICE void zr_product(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool add)
{
	static_assert(N == 64 || N == 80 || N == 96 || N == 128 || N == 256, "of another shape");

#define ZR_OF_TYPE(n, ...)                                                                         \
	do {                                                                                       \
		if constexpr (N == n && zr_is_bf16<T>)                                             \
			ZR_PRODUCT_OF_SHARED(n, "bf16", __VA_ARGS__);                              \
		else if constexpr (N == n)                                                         \
			ZR_PRODUCT_OF_SHARED(n, "f16", __VA_ARGS__);                               \
	} while (0)

	ZR_OF_TYPE(64, 32, 32, 33, 34, 35, 36);
	ZR_OF_TYPE(80, 40, 40, 41, 42, 43, 44);
	ZR_OF_TYPE(96, 48, 48, 49, 50, 51, 52);
	ZR_OF_TYPE(128, 64, 64, 65, 66, 67, 68);
	ZR_OF_TYPE(256, 128, 128, 129, 130, 131, 132);

#undef ZR_OF_TYPE
}

template <class T, int N, bool B_MN = false>
ZR_DEVICE void zr_product(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, bool add)
{
	static_assert(N == 64 || N == 80 || N == 96 || N == 128 || N == 256, "of another shape");

#define ZR_OF_TYPE(n, ...)                                                                         \
	do {                                                                                       \
		if constexpr (N == n && zr_is_bf16<T>)                                             \
			ZR_PRODUCT_OF_HELD(n, "bf16", __VA_ARGS__);                                \
		else if constexpr (N == n)                                                         \
			ZR_PRODUCT_OF_HELD(n, "f16", __VA_ARGS__);                                 \
	} while (0)

	ZR_OF_TYPE(64, 32, 32, 33, 34, 35, 36, 37, 38);
	ZR_OF_TYPE(80, 40, 40, 41, 42, 43, 44, 45, 46);
	ZR_OF_TYPE(96, 48, 48, 49, 50, 51, 52, 53, 54);
	ZR_OF_TYPE(128, 64, 64, 65, 66, 67, 68, 69, 70);
	ZR_OF_TYPE(256, 128, 128, 129, 130, 131, 132, 133, 134);

#undef ZR_OF_TYPE
}

#endif

/* An operand in shared memory. */
ZR_DEVICE uint64_t zr_operand(const void *start, int leading, int stride, enum zr_swizzle swizzle)
{
	return (uint64_t)(zr_shared_address(start) >> 4 & 0x3fff) |
	       (uint64_t)(leading >> 4 & 0x3fff) << 16 | (uint64_t)(stride >> 4 & 0x3fff) << 32 |
	       (uint64_t)swizzle << 62;
}

/* The same so many bytes further. */
ZR_DEVICE uint64_t zr_operand_at(uint64_t operand, int bytes)
{
	return operand + (uint64_t)(bytes >> 4);
}

/* Kernels of sm_90a, of at most 64K / threads registers. */
template <class... P, class... A>
static cudaError_t zr_launch_hopper(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
				    cudaStream_t s, const A &...args)
{
#ifdef ZR_CUDA_EMULATED
	if (!grid.x || !grid.y || !grid.z)
		return cudaSuccess;

	return emulated_launch_hopper([&] { kernel(args...); }, grid, block, shared, s);
#else
	return zr_launch(kernel, grid, block, shared, s, args...);
#endif
}

#endif
