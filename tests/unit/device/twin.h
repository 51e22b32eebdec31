/* SPDX-License-Identifier: Apache-2.0
 *
 * twin.h - two devices with the same memory, the scalar kernels' and the one under test: an
 * operation runs on the same operands on either, and all that memory holds after it is compared.
 * Differences are said and counted.
 */
#ifndef ZR_TESTS_TWIN_H
#define ZR_TESTS_TWIN_H

#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define ROOM   (24ull << 20)  /* bytes of device memory, each */
#define BESIDE (256ull << 10) /* bytes past the last operand that are looked at as well */
#define MOST   18

/* ---- two devices with the same memory ---- */

struct operand {
	uint64_t at;
	int64_t n;
	int32_t dtype;
	/* that results may be apart, of the last place of the largest; 0: none; below: any
	 * (scratch) */
	double units;
};

static struct side {
	struct dev d;
	char *memory; /* of the device */
	char *image;  /* what it held before and after */
} scalar, tested;

static char *start; /* operands, and 0xa5 around them */
static struct operand operands[MOST];
static int count, wrong;
static uint64_t end, seed;

static void must(const struct dev *d, int rc)
{
	if (rc)
		fail_msg("%s", test_error(d->h));
}

static void open_side(struct side *s, int rc)
{
	must(&s->d, rc);
	must(&s->d, s->d.v->mem_alloc(s->d.inst, ROOM, ZR_MEM_DEVICE, (void **)&s->memory));
	s->image = malloc(ROOM);
	assert_non_null(s->image);
}

/* Whether the device under test multiplies bf16 in pairs, and so rounds what else would be fp32. */
static int multiplies_pairs(void)
{
	struct zr_device_info info = { .size = sizeof info };
	must(&tested.d, tested.d.v->info(tested.d.inst, &info));
	return !strncmp(info.variant, "avx512bf16", 10) || !strncmp(info.variant, "amx", 3);
}

static void close_side(struct side *s)
{
	s->d.v->mem_free(s->d.inst, s->memory, ROOM, ZR_MEM_DEVICE);
	free(s->image);
	dev_close(&s->d);
}

static int open_both(void **state)
{
	char *id = getenv("ZR_TEST_DEVICE") ? strdup(getenv("ZR_TEST_DEVICE")) : NULL;
	(void)state;
	unsetenv("ZR_TEST_DEVICE");
	open_side(&scalar, dev_open(&scalar.d, 2, "scalar"));
	if (id)
		setenv("ZR_TEST_DEVICE", id, 1);
	free(id);
	open_side(&tested, dev_open_memory(&tested.d, 2, "auto", "128M", 1));
	start = malloc(ROOM);
	if (!start)
		return -1;
	memset(start, 0xa5, ROOM);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	close_side(&scalar);
	close_side(&tested);
	free(start);
	return 0;
}

static void begin(uint64_t which)
{
	memset(start, 0xa5, end);
	count = 0;
	end = 256;
	seed = which + 1;
}

/* An operand of random numbers times scale, of poison if that is 0; `off` elements past 256 bytes.
 * Its number. */
static int operand(int64_t n, int32_t dtype, double scale, int off, double units)
{
	struct operand *o = &operands[count];
	*o = (struct operand){ end + (uint64_t)off * width_of(dtype), n, dtype, units };
	end = (o->at + (uint64_t)n * width_of(dtype) + 511) / 256 * 256;
	assert_true(end + BESIDE <= ROOM && count < MOST);
	memset(start + o->at, 0xff, (size_t)n * width_of(dtype));
	for (int64_t i = 0; scale != 0 && i < n; i++)
		put(start + o->at, dtype, i, rnd(&seed) * scale);
	return count++;
}

static void *at(const struct side *s, int which)
{
	return s->memory + operands[which].at;
}

static float *f32(const struct side *s, int which)
{
	return at(s, which);
}

typedef int op_fn(const struct side *s, int32_t dtype, int variant);

static void run(struct side *s, op_fn *op, int32_t dtype, int variant)
{
	must(&s->d, s->d.v->copy(s->d.inst, NULL, s->memory, start, end + BESIDE));
	must(&s->d, op(s, dtype, variant));
	must(&s->d, s->d.v->copy(s->d.inst, NULL, s->image, s->memory, end + BESIDE));
	must(&s->d, s->d.v->sync(s->d.inst, NULL));
}

static double value(const struct side *s, const struct operand *o, int64_t i)
{
	double x;
	if (o->dtype != ZR_F64)
		return get(s->image + o->at, o->dtype, i);
	memcpy(&x, s->image + o->at + i * 8, 8);
	return x;
}

__attribute__((format(printf, 1, 2))) static void differ(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	fflush(stdout);
	wrong++;
}

static int clear_differences(void **state)
{
	(void)state;
	wrong = 0;
	return 0;
}

static void all_agreed(void)
{
	if (wrong)
		fail_msg("%d operations differ", wrong);
}

static void compare(const char *what, int number, int32_t dtype, int variant)
{
	const struct operand *o = &operands[number];
	const double step = o->dtype == ZR_BF16 ? 0x1p-8 :
			    o->dtype == ZR_F16  ? 0x1p-11 :
			    o->dtype == ZR_F64  ? 0x1p-52 :
						  0x1p-23;
	size_t width = width_of(o->dtype);
	double most = 0;
	if (o->units < 0)
		return;
	for (int64_t i = 0; i < o->n; i++)
		most = fmax(most, fabs(value(&scalar, o, i)));
	for (int64_t i = 0; i < o->n; i++) {
		double x = value(&scalar, o, i), y = value(&tested, o, i);
		int same = !memcmp(scalar.image + o->at + (size_t)i * width,
				   tested.image + o->at + (size_t)i * width, width);
		if (same || fabs(x - y) <= o->units * step * most)
			continue;
		differ("%s, type %d, variant %d: operand %d, element %lld of %lld is %.9g, should "
		       "be %.9g; largest %g",
		       what, dtype, variant, number, (long long)i, (long long)o->n, y, x, most);
		return;
	}
}

/* The operation on both, and all that it left. */
static void twins(const char *what, op_fn *op, int32_t dtype, int variant)
{
	uint64_t from = 0;
	run(&scalar, op, dtype, variant);
	run(&tested, op, dtype, variant);
	for (int i = 0; i <= count; i++) {
		uint64_t to = i < count ? operands[i].at : end + BESIDE;
		if (memcmp(start + from, tested.image + from, to - from))
			differ("%s, type %d, variant %d: written beside operand %d", what, dtype,
			       variant, i);
		if (i == count)
			break;
		compare(what, i, dtype, variant);
		from = to + (uint64_t)operands[i].n * width_of(operands[i].dtype);
	}
}

#endif
