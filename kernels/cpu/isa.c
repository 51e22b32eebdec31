/* SPDX-License-Identifier: Apache-2.0
 *
 * isa.c - finds the vector instruction sets that this processor has and whose registers this system
 * saves, by CPUID feature bits and XCR0, never by a model name; and which of them is fastest.
 */
#include <kernels.h>

#include "bf16_pairs.h"

#ifdef HAVE_X86_64
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum leaf { LEAF1, LEAF7, LEAF7_1, XCR0, LEAVES }; /* of CPUID, LEAF7_1: subleaf 1 of leaf 7 */

struct feature {
	const char *name;
	int32_t isa; /* the lowest instruction set that needs it */
	enum leaf leaf;
	int reg; /* 0 eax, 1 ebx, 2 ecx, 3 edx */
	uint32_t bits;
};

#define OSXSAVE (1u << 27) /* in ecx of LEAF1: without it there is no XCR0 */

static const struct feature features[] = {
	{ "osxsave", ZR_CPU_AVX2, LEAF1, 2, OSXSAVE },
	{ "avx", ZR_CPU_AVX2, LEAF1, 2, 1u << 28 },
	{ "ymm state saved by the system", ZR_CPU_AVX2, XCR0, 0, 0x6 },
	{ "fma", ZR_CPU_AVX2, LEAF1, 2, 1u << 12 },
	{ "f16c", ZR_CPU_AVX2, LEAF1, 2, 1u << 29 },
	{ "avx2", ZR_CPU_AVX2, LEAF7, 1, 1u << 5 },
	{ "bmi2", ZR_CPU_AVX2, LEAF7, 1, 1u << 8 },
	{ "avx512f", ZR_CPU_AVX512, LEAF7, 1, 1u << 16 },
	{ "zmm state saved by the system", ZR_CPU_AVX512, XCR0, 0, 0xe6 },
	{ "avx512dq", ZR_CPU_AVX512, LEAF7, 1, 1u << 17 },
	{ "avx512bw", ZR_CPU_AVX512, LEAF7, 1, 1u << 30 },
	{ "avx512vl", ZR_CPU_AVX512, LEAF7, 1, 1u << 31 },
	{ "avx512_bf16", ZR_CPU_AVX512BF16, LEAF7_1, 0, 1u << 5 },
	{ "amx_tile", ZR_CPU_AMX, LEAF7, 3, 1u << 24 },
	{ "amx_bf16", ZR_CPU_AMX, LEAF7, 3, 1u << 22 },
	{ "tile state saved by the system", ZR_CPU_AMX, XCR0, 0, 0x60000 },
};

/* Each leaf once: a virtual machine stops for every CPUID. What is missing is 0. */
static void read_leaves(uint32_t r[LEAVES][4])
{
	static const struct {
		uint32_t leaf, subleaf;
	} ask[] = { { 1, 0 }, { 7, 0 }, { 7, 1 } };
	const uint32_t most = __get_cpuid_max(0, NULL);
	memset(r, 0, LEAVES * sizeof *r);
	for (int i = LEAF1; i <= LEAF7_1; i++)
		if (ask[i].leaf <= most)
			__cpuid_count(ask[i].leaf, ask[i].subleaf, r[i][0], r[i][1], r[i][2],
				      r[i][3]);
	if (r[LEAF1][2] & OSXSAVE)
		__asm__ volatile("xgetbv" : "=a"(r[XCR0][0]), "=d"(r[XCR0][3]) : "c"(0));
}

#ifdef HAVE_AVX512BF16
/* Exponents of both factors and of what their product is added to. */
struct exponents {
	uint32_t a, b, sum;
};

/* Of the nth products: any, around 1, or of products around the least number. */
static struct exponents exponents_of(uint64_t n, uint32_t x, uint32_t y)
{
	if (n % 3 == 0)
		return (struct exponents){ x >> 24, y >> 24, y >> 16 & 255 };
	if (n % 3 == 1)
		return (struct exponents){ 120 + (x >> 28), 120 + (y >> 28), 124 + (x >> 29) };
	return (struct exponents){ x >> 26, 40 + (y >> 26), y >> 30 };
}

/* Whether the processor sums pairs as bf16_pairs.h says: of any bits, and of values near 1 and near
 * the denormal numbers. */
static int sums_pairs(void)
{
	const struct zr_rng rng = { 0 };

	for (uint64_t n = 0; n < 48; n++) {
		uint16_t a[32], b[32];
		float sum[16], was[16];
		for (int i = 0; i < 32; i++) {
			uint32_t x = zr_rng_word(&rng, 64 * n + (uint64_t)i),
				 y = zr_rng_word(&rng, 64 * n + 32 + (uint64_t)i);
			const struct exponents e = exponents_of(n, x, y);

			a[i] = (uint16_t)((x & 0x807f) | e.a << 7);
			b[i] = (uint16_t)((y & 0x807f) | e.b << 7);
			was[i / 2] = zr_from_bits((x << 16) | (y & 0x7fff) | e.sum << 23);
			sum[i / 2] = was[i / 2];
		}

		zr_pair_sums_avx512bf16(sum, a, b);
		for (int i = 0; i < 16; i++) {
			float want = zr_pair_sum(was[i], a + 2 * i, b + 2 * i);
			if (zr_bits(want) != zr_bits(sum[i]) && (want == want || sum[i] == sum[i]))
				return 0;
		}
	}
	return 1;
}

static const char *of_pairs(int32_t isa)
{
	if (isa < ZR_CPU_AVX512BF16 || sums_pairs())
		return NULL;
	return ZR_CPU_OTHER_SUMS;
}

#ifdef HAVE_AMX
/* Linux, arch_prctl(2) */
#define ASK_FOR_STATE 0x1023
#define TILE_DATA     18

/* Whether the processor sums tiles as bf16_pairs.h says, where products are around 1 and where they
 * are denormal. */
static int sums_tiles(void)
{
	const struct zr_rng rng = { 0 };
	uint16_t a[16][ZR_TILE_PAIRS][2], b[ZR_TILE_PAIRS][16][2], column[ZR_TILE_PAIRS][2];
	float sum[16][16];

	for (int i = 0; i < 16; i++) {
		const struct exponents base = { i < 12 ? 120 : 50, i < 12 ? 120 : 70, 0 };
		const float unit = i < 12 ? 0x1p-25f : 0x1p-149f;

		for (int p = 0; p < ZR_TILE_PAIRS; p++)
			for (int e = 0; e < 2; e++) {
				uint64_t at = (uint64_t)((i * ZR_TILE_PAIRS + p) * 2 + e);
				uint32_t x = zr_rng_word(&rng, at), y = zr_rng_word(&rng, at + 512);
				a[i][p][e] = (uint16_t)((x & 0x807f) | (base.a + (x >> 28)) << 7);
				b[p][i][e] = (uint16_t)((y & 0x807f) | (base.b + (y >> 28)) << 7);
				sum[i][p] = (float)(int32_t)(x ^ y) * unit;
			}
	}

	float was[16][16];
	memcpy(was, sum, sizeof sum);
	zr_tile_sums_amx(sum[0], a[0][0], b[0][0]);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++) {
			for (int p = 0; p < ZR_TILE_PAIRS; p++)
				memcpy(column[p], b[p][j], sizeof column[p]);
			if (zr_bits(sum[i][j]) != zr_bits(zr_tile_sum(was[i][j], a[i], column)))
				return 0;
		}
	return 1;
}

static const char *of_tiles(int32_t isa)
{
	if (isa < ZR_CPU_AMX)
		return NULL;
	if (syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA))
		return "the system's permission to use tile registers";
	if (!sums_tiles())
		return ZR_CPU_OTHER_SUMS;
	return NULL;
}
#else
static const char *of_tiles(int32_t isa)
{
	return isa >= ZR_CPU_AMX ? "a build with kernels of AMX" : NULL;
}
#endif
#else
static const char *of_pairs(int32_t isa)
{
	return isa >= ZR_CPU_AVX512BF16 ? "a build with kernels of avx512_bf16" : NULL;
}

static const char *of_tiles(int32_t isa)
{
	(void)isa;
	return NULL;
}
#endif

#ifdef HAVE_AVX512
static const int has_avx512 = 1;
#else
static const int has_avx512 = 0;
#endif

const char *zr_cpu_missing(int32_t isa)
{
	uint32_t r[LEAVES][4];
	read_leaves(r);
	for (const struct feature *f = features; f < features + sizeof features / sizeof *f; f++)
		if (f->isa <= isa && (r[f->leaf][f->reg] & f->bits) != f->bits)
			return f->name;
	if (isa >= ZR_CPU_AVX512 && !has_avx512)
		return "a build with kernels of AVX-512";

	const char *missing = of_pairs(isa);
	if (missing)
		return missing;
	return of_tiles(isa);
}
#else
const char *zr_cpu_missing(int32_t isa)
{
	return isa == ZR_CPU_SCALAR ? NULL : "a build with vector kernels";
}
#endif

int32_t zr_cpu_best_of(int32_t isa, int slow_pairs)
{
	while (zr_cpu_missing(isa) || (isa == ZR_CPU_AVX512BF16 && slow_pairs))
		isa--;
	return isa;
}

int32_t zr_cpu_best(void)
{
	int slow_pairs = 0;
#ifdef HAVE_X86_64
	__builtin_cpu_init();
	slow_pairs = __builtin_cpu_is("intel");
#endif
	return zr_cpu_best_of(ZR_CPU_BEST, slow_pairs);
}

const struct zr_cpu_kernels *zr_cpu_variant(int32_t isa)
{
#ifdef HAVE_AMX
	if (isa == ZR_CPU_AMX)
		return &zr_cpu_amx;
#endif
#ifdef HAVE_AVX512BF16
	if (isa == ZR_CPU_AVX512BF16)
		return &zr_cpu_avx512bf16;
#endif
#ifdef HAVE_AVX512
	if (isa == ZR_CPU_AVX512)
		return &zr_cpu_avx512;
#endif
#ifdef HAVE_X86_64
	if (isa == ZR_CPU_AVX2)
		return &zr_cpu_avx2;
#endif
	(void)isa;
	return &zr_cpu_scalar;
}
