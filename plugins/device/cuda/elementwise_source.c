/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_source.c - see elementwise_source.h. elementwise_before.h has headers of kernels
 * that every update needs, without their includes: NVRTC has no files.
 */
#include "elementwise_source.h"

#include <elementwise.h>
#include <zeroth/parameters.h>

static const char before[] =
#include "elementwise_before.h"
	;
static const char after[] =
#include "elementwise_after.h"
	;

#define HEAD                                                                                       \
	"#ifdef __CUDACC_RTC__\n"                                                                  \
	"typedef signed char int8_t;\n"                                                            \
	"typedef unsigned char uint8_t;\n"                                                         \
	"typedef unsigned short uint16_t;\n"                                                       \
	"typedef int int32_t;\n"                                                                   \
	"typedef unsigned int uint32_t;\n"                                                         \
	"typedef long int64_t;\n"                                                                  \
	"typedef unsigned long uint64_t;\n"                                                        \
	"typedef unsigned long uintptr_t;\n"                                                       \
	"#define NULL 0\n"                                                                         \
	"#define ZR_EW_KERNEL extern \"C\" __global__ void\n"                                      \
	"#else\n"                                                                                  \
	"#define ZR_EW_KERNEL static void\n"                                                       \
	"#endif\n"                                                                                 \
	"#define ZR_DEVICE static __device__ __forceinline__\n"                                    \
	"#define ZR_INLINE ZR_DEVICE\n"                                                            \
	"#define ZR_FN ZR_DEVICE\n"                                                                \
	"#define ZR_MEMBER __device__ __forceinline__\n"                                           \
	"#define ZR_WARP 32\n"                                                                     \
	"#define ZR_FULL_WARP 0xffffffffu\n"                                                       \
	"struct zr_rng { uint64_t seed, step; uint32_t slot, site; };\n"

#define AUTHOR                                                                                     \
	"namespace author {\n"                                                                     \
	"ZR_FN uint32_t zr_bits_of(float x) { return zr_bits(x); }\n"                              \
	"ZR_FN float zr_float_of(uint32_t u) { return zr_from_bits(u); }\n"                        \
	"ZR_FN double zr_sqrt64(double x) { return sqrt(x); }\n"

#define NUMBERS                                                                                    \
	"#define ZR_F32 %d\n#define ZR_BF16 %d\n#define ZR_F16 %d\n#define ZR_F64 %d\n"            \
	"#define ZR_BLOCK %d\n#define ZR_MOMENT8_GROUP %d\n"                                       \
	"#define ZR_MOMENT8_BYTES (ZR_BLOCK + ZR_BLOCK / ZR_MOMENT8_GROUP * 2)\n"                  \
	"#define ZR_ACT_SILU 1\n#define ZR_ACT_GELU_TANH 2\n#define ZR_ACT_GELU_ERF 3\n"           \
	"#define ZR_EW_SITE %uu\n#define ZR_EW_N_STATE %u\n#define ZR_EW_N_CONST %u\n"             \
	"#define ZR_EW_SUMS %u\n#define ZR_EW_ROOTS %uu\n#define ZR_EW_RANDOM %d\n"                \
	"#define ZR_EW_LOWP %d\n#define ZR_EW_TYPES %s\n"

int cuda_elementwise_source(const struct zr_elementwise *e, const int32_t *types, int32_t lowp,
			    char *to, size_t room)
{
	char list[ZR_ELEMENTWISE_STATES * 16] = "";
	size_t at = 0;
	for (uint32_t i = 0; i < e->n_state && i < ZR_ELEMENTWISE_STATES; i++)
		at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? ", " : "",
				       types[i]);
	return snprintf(to, room, HEAD NUMBERS "%s" AUTHOR "%s\n#line 1 \"%s\"\n%s\n}\n%s", ZR_F32,
			ZR_BF16, ZR_F16, ZR_F64, ZR_BLOCK, ZR_MOMENT8_GROUP, ZR_ELEMENTWISE_SITE,
			e->n_state, e->n_const, e->n_sum, e->roots,
			(e->flags & ZR_ELEMENTWISE_RANDOM) != 0, lowp, list, before, e->functions,
			e->name ? e->name : "update", e->text, after);
}
