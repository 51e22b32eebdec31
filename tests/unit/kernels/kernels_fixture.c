/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_fixture.c - see kernels_fixture.h.
 */
#include "cpu/scalar.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/isa.h"
#include "kernels_fixture.h"

#define GUARD 128 /* bytes, more than the widest vector */

struct buffer {
	struct buffer *next;
	size_t bytes;
	uint16_t poison;
	_Alignas(16) unsigned char memory[];
};

static struct buffer *buffers;

const struct zr_cpu_kernels *fixture_kernels(int i)
{
	static const struct zr_cpu_kernels *const all[] = {
		&zr_cpu_scalar,
#ifdef HAVE_X86_64
		&zr_cpu_avx2,
#endif
#ifdef HAVE_AVX512
		&zr_cpu_avx512,
#endif
	};
	return i < (int)(sizeof all / sizeof *all) ? all[i] : NULL;
}

int fixture_runs(const struct zr_cpu_kernels *k)
{
	return isa_runs(k->name);
}

void *fixture_buffer(int64_t n, int32_t dtype)
{
	size_t bytes = (size_t)(n * fixture_size(dtype));
	struct buffer *b = malloc(sizeof *b + bytes + 2 * GUARD);
	static uint16_t count;

	assert_non_null(b);
	/* a NaN, and in bf16 and fp32 a signalling one: arithmetic that passes it on makes it
	 * quiet */
	*b = (struct buffer){ .next = buffers,
			      .bytes = bytes,
			      .poison = (uint16_t)(0x7f80 | (count++ % 63 + 1)) };
	for (size_t i = 0; i < bytes + 2 * GUARD; i += sizeof b->poison)
		memcpy(b->memory + i, &b->poison, sizeof b->poison);
	buffers = b;
	return b->memory + GUARD;
}

void fixture_release(void)
{
	int broken = 0;

	while (buffers) {
		struct buffer *b = buffers;
		for (size_t i = 0; i < GUARD; i += sizeof b->poison)
			broken += memcmp(b->memory + i, &b->poison, sizeof b->poison) ||
				  memcmp(b->memory + GUARD + b->bytes + i, &b->poison,
					 sizeof b->poison);
		buffers = b->next;
		free(b);
	}
	assert_int_equal(broken, 0);
}

int64_t fixture_size(int32_t dtype)
{
	return zr_size(dtype);
}

double fixture_get(const void *p, int64_t i, int32_t dtype)
{
	return dtype == ZR_F64 ? ((const double *)p)[i] : (double)zr_get(p, i, dtype);
}

void fixture_set(void *p, int64_t i, int32_t dtype, double x)
{
	if (dtype == ZR_F64)
		((double *)p)[i] = x;
	else
		zr_put(p, i, dtype, (float)x);
}

double fixture_draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 40 & 0xff) / 64 - 2;
}

void *fixture_drawn(uint64_t *state, int64_t n, int32_t dtype, double scale)
{
	void *p = fixture_buffer(n, dtype);

	for (int64_t i = 0; i < n; i++)
		fixture_set(p, i, dtype, fixture_draw(state) * scale);
	return p;
}

void fixture_near(double a, double b, double tolerance)
{
	if (!(fabs(a - b) <= tolerance)) /* a NaN fails */
		fail_msg("%.17g is not within %g of %.17g", a, tolerance, b);
}

/* The file, at the values of `name`; the caller closes it. */
static FILE *find_golden(const char *name, int64_t n)
{
	const char *top = getenv("srcdir");
	char path[4096], word[64];
	long long count;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/golden/kernels.txt", top ? top : ".");
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: cannot be opened", path);
	while (fscanf(f, "%63s %lld", word, &count) == 2) {
		if (!strcmp(word, name)) {
			assert_int_equal(count, n);
			return f;
		}
		if (fscanf(f, "%*[^\n]") < 0)
			break;
	}
	fclose(f);
	fail_msg("%s: no values of %s", path, name);
	return NULL;
}

void fixture_golden(const char *what, const char *name, const void *p, int64_t n, int32_t dtype,
		    double tolerance)
{
	FILE *f = find_golden(name, n);

	for (int64_t i = 0; i < n; i++) {
		double golden = NAN, x = fixture_get(p, i, dtype);
		assert_int_equal(fscanf(f, "%lf", &golden), 1);
		if (!(fabs(x - golden) <= tolerance * (1 + fabs(golden)))) /* a NaN fails */
			fail_msg("%s: %s[%lld] is %.10g, golden %.10g", what, name, (long long)i, x,
				 golden);
	}
	fclose(f);
}
