/* SPDX-License-Identifier: Apache-2.0
 *
 * t_rates.c - the file of rates: what is written reads back, what is not one is refused with its
 * place, and rates between the sizes, ranks and threads that were measured.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/forecast/rates.h"
#include "train/forecast/source.h"

#include <cmocka.h> /* last: it defines fail() */

static char dir[] = "/tmp/t_rates.XXXXXX", path[64];

static void set(struct zr_rates *r, const char *name, int ranks, int threads, double a, double b,
		double c, int dims, double rate)
{
	struct zr_error err = { 0 };
	const double at[] = { a, b, c };
	if (zr_rates_set(r, name, ranks, threads, at, dims, rate, &err))
		fail_msg("%s", err.text);
}

static double at1(const struct zr_rates *r, const char *name, int ranks, int threads, double a)
{
	return zr_rate_at(r, name, ranks, threads, &a, 1);
}

static void near(double is, double want)
{
	if (!(fabs(is - want) <= 1e-9 * fabs(want)))
		fail_msg("%.17g, expected %.17g", is, want);
}

static void between_sizes(void **unused)
{
	struct zr_rates r = { .processors = 2 };
	(void)unused;
	set(&r, "copy", 1, 2, 1000, 0, 0, 1, 1e8);
	set(&r, "copy", 1, 2, 100000, 0, 0, 1, 1e10);
	near(at1(&r, "copy", 1, 2, 1000), 1e8);
	near(at1(&r, "copy", 1, 2, 10000), 1e9);
	near(at1(&r, "copy", 1, 2, 1e9), 1e10);
	near(10 / at1(&r, "copy", 1, 2, 10), 1e-5); /* the time of the smallest */
	assert_true(at1(&r, "fold.fp32", 1, 2, 1000) == 0);
	zr_rates_free(&r);
}

/* Of a product the rate at a grid's point is that of the point; in the middle of a cell, where the
 * logarithm of the rate is linear in those of M, N and K, it is the same as there. */
static void in_a_grid(void **unused)
{
	struct zr_rates r = { .processors = 1 };
	const char *name = "matmul.fp32.nn";
	(void)unused;
	for (int m = 16; m <= 256; m *= 4)
		for (int n = 16; n <= 256; n *= 4)
			for (int k = 16; k <= 256; k *= 4)
				set(&r, name, 1, 1, m, n, k, 3, 1e3 * m * pow(n, 0.5) / k);
	const double point[] = { 64, 16, 256 }, middle[] = { 32, 128, 100 },
		     large[] = { 4096, 64, 16 };
	near(zr_rate_at(&r, name, 1, 1, point, 3), 1e3 * 64 * 4 / 256);
	near(zr_rate_at(&r, name, 1, 1, middle, 3), 1e3 * 32 * sqrt(128) / 100);
	near(zr_rate_at(&r, name, 1, 1, large, 3), 1e3 * 256 * 8 / 16);
	zr_rates_free(&r);
}

/* A grid with a hole: the nearest point. */
static void without_a_corner(void **unused)
{
	struct zr_rates r = { .processors = 1 };
	const double inside[] = { 60, 20 };
	(void)unused;
	set(&r, "attention.fp32", 1, 1, 16, 16, 0, 2, 1e3);
	set(&r, "attention.fp32", 1, 1, 64, 16, 0, 2, 2e3);
	set(&r, "attention.fp32", 1, 1, 16, 64, 0, 2, 3e3);
	near(zr_rate_at(&r, "attention.fp32", 1, 1, inside, 2), 2e3);
	zr_rates_free(&r);
}

static void of_other_ranks(void **unused)
{
	struct zr_rates r = { .processors = 4 };
	(void)unused;
	set(&r, "fold.fp32", 1, 4, 100, 0, 0, 1, 8e9);
	set(&r, "fold.fp32", 2, 2, 100, 0, 0, 1, 3e9);
	near(at1(&r, "fold.fp32", 1, 4, 100), 8e9);
	near(at1(&r, "fold.fp32", 1, 2, 100), 4e9); /* half the threads */
	near(at1(&r, "fold.fp32", 2, 2, 100), 3e9);
	near(at1(&r, "fold.fp32", 8, 1, 100), 0.75e9); /* half a processor each */
	zr_rates_free(&r);
}

static void reads_what_it_wrote(void **unused)
{
	struct zr_rates r = { .processors = 2,
			      .memory = 1ull << 40,
			      .cpu = "A ; B",
			      .disk = "/x y" },
			back = { 0 };
	struct zr_error err = { 0 };
	const double m[] = { 16, 64, 1024 };
	(void)unused;
	set(&r, "matmul.bf16.tn", 1, 2, 16, 64, 1024, 3, 1.25e11);
	set(&r, "copy", 2, 1, 4096, 0, 0, 1, 1e10);
	set(&r, "copy", 1, 2, 4096, 0, 0, 1, 2e10);
	set(&r, "copy", 1, 2, 4096, 0, 0, 1, 3e10); /* instead of the last one */
	snprintf(path, sizeof path, "%s/a/b/rates.ini", dir);
	if (zr_rates_write(path, &r, &err) || zr_rates_write(path, &r, &err) ||
	    zr_rates_read(path, &back, &err))
		fail_msg("%s", err.text);
	assert_int_equal(back.n, 3);
	assert_int_equal(back.processors, 2);
	assert_true(back.memory == 1ull << 40);
	assert_string_equal(back.cpu, "A ; B");
	assert_string_equal(back.disk, "/x y");
	near(zr_rate_at(&back, "matmul.bf16.tn", 1, 2, m, 3), 1.25e11);
	near(at1(&back, "copy", 1, 2, 4096), 3e10);
	near(at1(&back, "copy", 2, 1, 4096), 1e10);
	zr_rates_free(&r);
	zr_rates_free(&back);
}

static void refuses(const char *text, const char *why)
{
	struct zr_rates r = { 0 };
	struct zr_error err = { 0 };
	snprintf(path, sizeof path, "%s/bad.ini", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(zr_rates_read(path, &r, &err), ZR_EINVAL);
	if (!strstr(err.text, why))
		fail_msg("%s: expected %s", err.text, why);
	assert_null(r.rate);
}

static void refuses_what_is_none(void **unused)
{
	struct zr_rates r = { 0 };
	struct zr_error err = { 0 };
	(void)unused;
	refuses("[ranks 1 threads 2]\ncopy.4096 = much\n", "bad.ini:2: no rate");
	refuses("[ranks 1 threads 2]\ncopy.4096 = -1\n", "bad.ini:2: no rate");
	refuses("[ranks 1 threads 2]\ncopy.0 = 1\n", "bad.ini:2: no rate");
	refuses("[ranks 1 threads 2]\ncopy.4x4x4x4 = 1\n", "bad.ini:2: expected NAME.SIZE");
	refuses("[ranks 1 threads 2]\ncopy = 1\n", "bad.ini:2: expected NAME.SIZE");
	refuses("[ranks 1 threads 2]\ncopy.2 = 1\ncopy.2x2 = 1\n", "bad.ini:3: no rate");
	refuses("[ranks 0 threads 2]\n", "bad.ini:1: expected [machine]");
	refuses("[train]\n", "bad.ini:1: expected [machine]");
	refuses("[machine]\nprocessors = two\n", "bad.ini:2: expected a number");
	assert_int_equal(zr_rates_read("/nowhere/rates.ini", &r, &err), ZR_EINVAL);
}

static void where_it_is(void **unused)
{
	char at[PATH_MAX];
	struct zr_error err = { 0 };
	(void)unused;
	setenv("XDG_STATE_HOME", "/s", 1);
	assert_int_equal(zr_rates_path(at, &err), 0);
	assert_string_equal(at, "/s/zeroth/rates.ini");
	setenv("XDG_STATE_HOME", "relative", 1); /* which the specification says to ignore */
	setenv("HOME", "/h", 1);
	assert_int_equal(zr_rates_path(at, &err), 0);
	assert_string_equal(at, "/h/.local/state/zeroth/rates.ini");
	unsetenv("HOME");
	assert_int_equal(zr_rates_path(at, &err), ZR_EINVAL);
}

static int clean(void **unused)
{
	static const char *const made[] = { "a/b/rates.ini", "a/b", "a", "bad.ini", "" };
	(void)unused;
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, made[i]);
		remove(path);
	}
	return 0;
}

static void peaks_are_those_of_the_device(void **unused)
{
	static const struct {
		const char *device;
		double half, single;
	} want[] = {
		{ "NVIDIA H200", 989e12, 67e12 },
		{ "NVIDIA H100 PCIe", 756e12, 51e12 },
		{ "NVIDIA H100 80GB HBM3", 989e12, 67e12 },
		{ "NVIDIA L40S", 362e12, 91.6e12 },
		{ "NVIDIA A100-SXM4-80GB", 312e12, 19.5e12 },
		{ "NVIDIA L4", 121e12, 30.3e12 },
		{ "Quadro T400", 0, 0 },
		{ "cpu", 0, 0 },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		assert_true(zr_card_peak(want[i].device, ZR_BF16) == want[i].half);
		assert_true(zr_card_peak(want[i].device, ZR_F32) == want[i].single);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peaks_are_those_of_the_device),
		cmocka_unit_test(between_sizes),
		cmocka_unit_test(in_a_grid),
		cmocka_unit_test(without_a_corner),
		cmocka_unit_test(of_other_ranks),
		cmocka_unit_test(reads_what_it_wrote),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(where_it_is),
	};
	if (!mkdtemp(dir))
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, clean);
}
