/* SPDX-License-Identifier: Apache-2.0
 *
 * isa.h - whether this processor runs a variant of the kernels, asked by other means than
 * device/cpu does.
 */
#ifndef ZR_TESTS_ISA_H
#define ZR_TESTS_ISA_H

#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>

static inline int isa_has_bf16(void)
{
	unsigned a, b, c, d;
	return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & bit_AVX512BF16;
}

static inline int isa_has_tiles(void)
{
	unsigned a, b, c, d;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & 1u << 22 && d & 1u << 24;
}

static inline int isa_has_f16c(void) /* no name for __builtin_cpu_supports() in clang 14 */
{
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

/* "scalar", "avx2", "avx512", "avx512bf16", "amx" */
static inline int isa_runs(const char *name)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (!strcmp(name, "avx2"))
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		       isa_has_f16c();
	if (!strcmp(name, "avx512"))
		return isa_runs("avx2") && __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("avx512vl");
	if (!strcmp(name, "amx"))
		return isa_runs("avx512bf16") && isa_has_tiles();
	if (!strcmp(name, "avx512bf16"))
		return isa_runs("avx512") && isa_has_bf16();
#endif
	return !strcmp(name, "scalar");
}

#endif
