/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_isa.c - which vector instruction sets this processor has and this system saves: CPUID feature
 * bits and XCR0, never a model name.
 */
#include "cpu.h"

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
	{ "osxsave", CPU_AVX2, 1, 2, 1u << 27 },
	{ "avx", CPU_AVX2, 1, 2, 1u << 28 },
	{ "ymm state saved by the system", CPU_AVX2, XCR0, 0, 0x6 },
	{ "fma", CPU_AVX2, 1, 2, 1u << 12 },
	{ "f16c", CPU_AVX2, 1, 2, 1u << 29 },
	{ "avx2", CPU_AVX2, 7, 1, 1u << 5 },
	{ "bmi2", CPU_AVX2, 7, 1, 1u << 8 },
	{ "avx512f", CPU_AVX512, 7, 1, 1u << 16 },
	{ "zmm state saved by the system", CPU_AVX512, XCR0, 0, 0xe6 },
	{ "avx512dq", CPU_AVX512, 7, 1, 1u << 17 },
	{ "avx512bw", CPU_AVX512, 7, 1, 1u << 30 },
	{ "avx512vl", CPU_AVX512, 7, 1, 1u << 31 },
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

const char *cpu_isa_missing(int32_t isa)
{
	size_t i;
	for (i = 0; i < sizeof features / sizeof *features; i++)
		if (features[i].isa <= isa && !has(&features[i]))
			return features[i].name;
	return NULL;
}
#else
const char *cpu_isa_missing(int32_t isa)
{
	return isa == CPU_SCALAR ? NULL : "a build with vector kernels";
}
#endif

int32_t cpu_isa_best(void)
{
	int32_t isa = CPU_AVX512;
	while (cpu_isa_missing(isa))
		isa--;
	return isa;
}
