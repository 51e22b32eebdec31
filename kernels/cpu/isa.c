/* SPDX-License-Identifier: Apache-2.0
 *
 * isa.c - finds the vector instruction sets that this processor has and whose registers this system
 * saves, by CPUID feature bits and XCR0, never by a model name.
 */
#include <kernels.h>

#ifdef HAVE_X86_64
#include <cpuid.h>

struct feature {
	const char *name;
	int32_t isa;   /* the lowest instruction set that needs it */
	uint32_t leaf; /* CPUID leaf 1 or 7, subleaf 0; XCR0 */
	int reg;       /* 0 eax, 1 ebx, 2 ecx */
	uint32_t bits;
};

#define XCR0 0xffffffffu

/* OSXSAVE comes first: XCR0 exists only with it. */
static const struct feature features[] = {
	{ "osxsave", ZR_CPU_AVX2, 1, 2, 1u << 27 },
	{ "avx", ZR_CPU_AVX2, 1, 2, 1u << 28 },
	{ "ymm state saved by the system", ZR_CPU_AVX2, XCR0, 0, 0x6 },
	{ "fma", ZR_CPU_AVX2, 1, 2, 1u << 12 },
	{ "f16c", ZR_CPU_AVX2, 1, 2, 1u << 29 },
	{ "avx2", ZR_CPU_AVX2, 7, 1, 1u << 5 },
	{ "bmi2", ZR_CPU_AVX2, 7, 1, 1u << 8 },
	{ "avx512f", ZR_CPU_AVX512, 7, 1, 1u << 16 },
	{ "zmm state saved by the system", ZR_CPU_AVX512, XCR0, 0, 0xe6 },
	{ "avx512dq", ZR_CPU_AVX512, 7, 1, 1u << 17 },
	{ "avx512bw", ZR_CPU_AVX512, 7, 1, 1u << 30 },
	{ "avx512vl", ZR_CPU_AVX512, 7, 1, 1u << 31 },
};

static int has(const struct feature *f)
{
	uint32_t r[4] = { 0, 0, 0, 0 };
	if (f->leaf == XCR0) {
		uint32_t high;
		__asm__ volatile("xgetbv" : "=a"(r[0]), "=d"(high) : "c"(0));
		(void)high;
	} else if (!__get_cpuid_count(f->leaf, 0, &r[0], &r[1], &r[2], &r[3])) {
		return 0;
	}
	return (r[f->reg] & f->bits) == f->bits;
}

const char *zr_cpu_missing(int32_t isa)
{
	size_t i;
	for (i = 0; i < sizeof features / sizeof *features; i++)
		if (features[i].isa <= isa && !has(&features[i]))
			return features[i].name;
	return NULL;
}
#else
const char *zr_cpu_missing(int32_t isa)
{
	return isa == ZR_CPU_SCALAR ? NULL : "a build with vector kernels";
}
#endif

int32_t zr_cpu_best(void)
{
	int32_t isa = ZR_CPU_AVX512;
	while (zr_cpu_missing(isa))
		isa--;
	return isa;
}

const struct zr_cpu_kernels *zr_cpu_variant(int32_t isa)
{
#ifdef HAVE_X86_64
	if (isa == ZR_CPU_AVX512)
		return &zr_cpu_avx512;
	if (isa == ZR_CPU_AVX2)
		return &zr_cpu_avx2;
#endif
	(void)isa;
	return &zr_cpu_scalar;
}
