/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_emulated.c - prints C++ that runs the sources for NVRTC on the host, each in a
 * namespace of its own, with a function emulated_NAME(args, measure) for each.
 */
#include <stdio.h>

#include "elementwise_sources.h"
#include "plugins/device/cuda/elementwise_source.h"

static char text[1 << 20];

int main(void)
{
	puts("#include \"tests/unit/kernels/cuda_emulated.h\"");
	for (int i = 0; i < N_SOURCES; i++) {
		const struct source *s = &sources[i];
		const struct zr_elementwise e = source_load(s).e;
		if (cuda_elementwise_source(&e, s->types, s->lowp, text, sizeof text) >=
		    (int)sizeof text)
			return 1;
		/* guards and what the last source defined */
		puts("#undef ZEROTH_KERNELS_ELEMENTWISE_ARGS_H\n"
		     "#undef ZEROTH_KERNELS_CPU_SCALAR_H\n#undef ZEROTH_KERNELS_CPU_ELEMENTARY_H\n"
		     "#undef ZEROTH_KERNELS_CPU_RNG_H\n#undef ZEROTH_KERNELS_CPU_MOMENTS8_H\n"
		     "#undef ZEROTH_KERNELS_CUDA_STORAGE_H\n#undef ZEROTH_KERNELS_CUDA_GROUPS_H\n"
		     "#undef ZR_EW_N_STATE\n#undef ZR_EW_N_CONST\n#undef ZR_EW_SUMS\n"
		     "#undef ZR_EW_ROOTS\n#undef ZR_EW_RANDOM\n#undef ZR_EW_LOWP\n"
		     "#undef ZR_EW_TYPES");
		printf("namespace %s {\n%s}\n", s->name, text);
		printf("extern \"C\" void emulated_%s(const void *args, int measure, int blocks)\n"
		       "{\n\tconst %s::zr_ew_args a = *(const %s::zr_ew_args *)args;\n"
		       "\t(void)measure;\n",
		       s->name, s->name, s->name);
		if (e.n_sum)
			printf("\tif (measure) {\n"
			       "\t\temulated_launch([&] { %s::zr_ew_measure(a); }, "
			       "dim3((unsigned)blocks),\n"
			       "\t\t\t\tdim3(ZR_EW_THREADS), 0, NULL);\n"
			       "\t\treturn;\n\t}\n",
			       s->name);
		printf("\temulated_launch([&] { %s::zr_ew_update(a); }, dim3((unsigned)blocks), "
		       "dim3(ZR_EW_THREADS), 0, NULL);\n}\n",
		       s->name);
	}
	return 0;
}
