/* SPDX-License-Identifier: Apache-2.0
 *
 * t_wandb.c - the log of monitor/wandb: one that the package wandb wrote is gone on with
 * (tests/golden/make_wandb.py), and what the plugin wrote is read back, over the ends of blocks.
 */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zeroth/monitor.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "tests/lib/testhost.h"

#define ROOM (1 << 20)

static struct zr_host *host;
static char dir[] = "/tmp/t_wandb.XXXXXX";
static uint8_t file[ROOM], records[ROOM];

struct monitor {
	const struct zr_desc *desc;
	const struct zr_monitor_v1 *v;
	struct zr_inst *inst;
	void *opts;
};

static int open_monitor(struct monitor *m)
{
	test_clear(host);
	m->desc = test_plugin("monitor/wandb");
	m->v = test_iface(m->desc, "zr.monitor/1");
	m->opts = test_options(m->desc);
	return test_create(host, m->desc, m->opts, &m->inst);
}

static void close_monitor(struct monitor *m)
{
	m->desc->destroy(m->inst);
	free(m->opts);
}

static void in_dir(char path[700], const char *name)
{
	snprintf(path, 700, "%s/%s", dir, name);
}

static size_t content(const char *path, uint8_t *to)
{
	FILE *f = fopen(path, "rb");
	size_t n;
	assert_non_null(f);
	n = fread(to, 1, ROOM, f);
	fclose(f);
	return n;
}

/* The only entry of a directory; 0: there is none. */
static int only_entry(const char *path, char name[300])
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;
	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.') {
			snprintf(name, 300, "%s", e->d_name);
			n++;
		}
	closedir(d);
	assert_in_range(n, 0, 1);
	return n;
}

/* The path of the log of the only run. */
static void log_path(char path[700])
{
	char entry[300];
	in_dir(path, "wandb");
	assert_int_equal(only_entry(path, entry), 1);
	assert_int_equal(strncmp(entry, "offline-run-", 12), 0);
	strcat(strcat(path, "/"), entry);
	assert_int_equal(only_entry(path, entry), 1);
	assert_int_equal(strncmp(entry, "run-", 4), 0);
	strcat(strcat(path, "/"), entry);
}

static void remove_run(void)
{
	char path[700], *slash;
	log_path(path);
	unlink(path);
	for (int i = 0; i < 2 && (slash = strrchr(path, '/')); i++) {
		*slash = 0;
		rmdir(path);
	}
}

/* CRC-32 of zlib, a bit at a time. */
static uint32_t crc32_of(uint32_t c, const uint8_t *p, size_t n)
{
	c = ~c;
	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

/* Puts the records of a log behind each other into `records`, each behind its length in 4 bytes,
 * and checks each fragment. Returns how many; *bytes of `records`. */
static int unpack(size_t n, size_t *bytes)
{
	size_t at = 7, start = 0, used = 4;
	int count = 0, inside = 0; /* a record that a fragment before has begun */
	assert_memory_equal(file, ":W&B\xe1\xbe", 7); /* with the version 0 behind it */
	while (at < n) {
		if (32768 - at % 32768 < 7) {
			at += 32768 - at % 32768;
			continue;
		}
		const uint8_t *h = file + at;
		const size_t length = (size_t)h[4] | (size_t)h[5] << 8;
		const uint32_t crc = (uint32_t)h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 |
				     (uint32_t)h[3] << 24;
		assert_true(at + 7 + length <= n && length <= 32768 - 7 - at % 32768);
		assert_int_equal(crc, crc32_of(0, h + 6, length + 1));
		assert_int_equal(h[6] == 1 || h[6] == 2, !inside);
		memcpy(records + used, h + 7, length);
		used += length;
		at += 7 + length;
		inside = h[6] == 2 || h[6] == 3;
		if (!inside) {
			const uint32_t all = (uint32_t)(used - start - 4);
			memcpy(records + start, &all, 4);
			start = used;
			used += 4;
			count++;
		}
	}
	*bytes = start;
	return count;
}

static int has(const char *text, size_t bytes)
{
	const size_t n = strlen(text);
	for (size_t i = 0; i + n <= bytes; i++)
		if (!memcmp(records + i, text, n))
			return 1;
	return 0;
}

static void a_new_run_has_header_run_steps_and_end(void **state)
{
	const struct zr_metric x[] = { { "time", 1700000000.5 }, { "loss", 5.5 }, { "bad", NAN } };
	struct monitor m;
	char path[700];
	size_t bytes;
	(void)state;
	in_dir(path, "config.ini");
	FILE *f = fopen(path, "w");
	fputs("[optimizer]\nlr = 0.001 ; a.ini:3\nplugin = adamw ; default\n", f);
	fclose(f);
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, 3), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 2, x, 3), ZR_OK);
	assert_int_equal(m.v->flush(m.inst), ZR_OK);
	close_monitor(&m);
	log_path(path);
	/* header, run, two steps, summary, exit */
	assert_int_equal(unpack(content(path, file), &bytes), 6);
	assert_true(has("\x0a\x0coptimizer.lr\x82\x01\x05"
			"0.001",
			bytes));
	assert_true(has("\x82\x01\x07\"adamw\"", bytes));
	assert_true(has("\x12\x0atrain/loss\x82\x01\x03"
			"5.5",
			bytes));
	assert_true(has("\x12\x09train/bad\x82\x01\x03NaN", bytes));
	assert_true(has("\x12\x02\x08\x02", bytes)); /* the step of the second */
	in_dir(path, "config.ini");
	unlink(path);
	remove_run();
}

static void records_go_over_the_ends_of_blocks_and_resuming_cuts_them(void **state)
{
	struct zr_metric x[64];
	char name[64][20], path[700];
	struct monitor m;
	size_t bytes, before;
	(void)state;
	for (int i = 0; i < 64; i++) {
		snprintf(name[i], sizeof name[i], "metric%d", i);
		x[i] = (struct zr_metric){ name[i], 1.0 / (i + 3) };
	}
	assert_int_equal(open_monitor(&m), ZR_OK);
	for (int step = 1; step <= 100; step++)
		assert_int_equal(m.v->metrics(m.inst, step, x, 64), ZR_OK);
	close_monitor(&m);
	log_path(path);
	before = content(path, file);
	assert_true(before > 3 * 32768);
	assert_int_equal(unpack(before, &bytes), 2 + 100 + 2);
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 60), ZR_OK);
	for (int step = 61; step <= 70; step++)
		assert_int_equal(m.v->metrics(m.inst, step, x, 64), ZR_OK);
	close_monitor(&m);
	assert_int_equal(unpack(content(path, file), &bytes), 2 + 70 + 2);
	/* a torn record, as a killed run leaves it */
	assert_int_equal(truncate(path, (off_t)(before * 6 / 10)), 0);
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 200), ZR_OK);
	close_monitor(&m);
	assert_in_range(unpack(content(path, file), &bytes), 50, 70);
	remove_run();
}

/* Writes steps until `left` bytes of the first block are left. Returns how many. */
static int steps_up_to(struct monitor *m, size_t left)
{
	char name[4][50], path[700];
	struct zr_metric x[5] = { { "time", 1700000000.5 } };
	size_t size = 0, grown = 0, more = 0;
	int step = 0;

	for (int i = 0; i < 4; i++)
		x[1 + i] = (struct zr_metric){ name[i], i };

	/* the last one is longer by what is still to be filled, which its names take */
	for (;; more = 32768 - left - size - grown) {
		const int is_last = step && more < grown;

		for (size_t i = 0, rest = is_last ? more : 0; i < 4; i++) {
			const size_t longer = rest < 44 ? rest : 44;
			snprintf(name[i], sizeof name[i], "%zu%.*s", i + 1, (int)(4 + longer),
				 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
			rest -= longer;
		}

		step++;
		assert_int_equal(m->v->metrics(m->inst, step, x, 5), ZR_OK);
		log_path(path);
		grown = content(path, file) - size;
		size += grown;
		if (is_last)
			break;
	}

	assert_int_equal(size, 32768 - left);
	return step;
}

/* A record's first fragment has no byte where its header alone fits into the block. */
static void a_block_may_end_at_each_place_of_a_header(void **state)
{
	const struct zr_metric x[] = { { "time", 1700000000.5 }, { "loss", 5.5 } };
	struct monitor m;
	char path[700];
	size_t bytes;
	int steps;
	(void)state;

	for (size_t left = 0; left <= 9; left++) {
		assert_int_equal(open_monitor(&m), ZR_OK);
		steps = steps_up_to(&m, left);
		for (int i = 0; i < 3; i++)
			assert_int_equal(m.v->metrics(m.inst, ++steps, x, 2), ZR_OK);
		close_monitor(&m);
		log_path(path);
		assert_int_equal(unpack(content(path, file), &bytes), 2 + steps + 2);

		assert_int_equal(open_monitor(&m), ZR_OK);
		assert_int_equal(m.v->resume(m.inst, steps), ZR_OK);
		assert_int_equal(m.v->metrics(m.inst, ++steps, x, 2), ZR_OK);
		close_monitor(&m);
		/* two summaries: the first end's exit alone was cut */
		assert_int_equal(unpack(content(path, file), &bytes), 2 + steps + 3);
		remove_run();
	}
}

/* At each of many places, also in the first record and where a fragment ends. */
static void a_full_disk_tears_no_record(void **state)
{
	const struct zr_metric x[] = { { "time", 1700000000.5 }, { "loss", 5.5 } };
	char path[700] = "";
	struct monitor m;
	size_t bytes;
	(void)state;
	assert_int_equal(open_monitor(&m), ZR_OK);
	for (int step = 1; step <= 400; step++) {
		const size_t size = *path ? content(path, file) : 0;
		test_file_limit((int64_t)size + step % 90);
		assert_int_equal(m.v->metrics(m.inst, step, x, 2), ZR_EAGAIN);
		test_file_limit(-1);
		log_path(path);
		assert_int_equal(content(path, file), size);
		assert_int_equal(m.v->metrics(m.inst, step, x, 2), ZR_OK);
	}
	close_monitor(&m);
	assert_int_equal(unpack(content(path, file), &bytes), 2 + 400 + 2);
	assert_true(content(path, file) > 32768);
	remove_run();
}

static void a_log_of_the_package_is_gone_on_with(void **state)
{
	const struct zr_metric x[] = { { "time", 1700000009.0 }, { "loss", 0.25 } };
	char golden[700], path[700];
	struct monitor m;
	size_t n, bytes;
	FILE *f;
	(void)state;
	snprintf(golden, sizeof golden, "%s/tests/golden/offline.wandb",
		 getenv("ZR_SRCDIR") ? getenv("ZR_SRCDIR") : ".");
	n = content(golden, file);
	assert_int_equal(unpack(n, &bytes), 6);
	in_dir(path, "wandb");
	assert_int_equal(mkdir(path, 0777), 0);
	strcat(path, "/offline-run-20231114_221320-goldenid");
	assert_int_equal(mkdir(path, 0777), 0);
	strcat(path, "/run-goldenid.wandb");
	f = fopen(path, "wb");
	assert_int_equal(fwrite(file, 1, n, f), n);
	fclose(f);
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 2), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 3, x, 2), ZR_OK);
	close_monitor(&m);
	/* run, steps 1 and 2, the new 3, summary, exit */
	assert_int_equal(unpack(content(path, file), &bytes), 6);
	assert_true(has("\x12\x02\x08\x02", bytes));
	assert_true(has("_runtime\x82\x01\x01"
			"9",
			bytes)); /* since the first start */
	assert_false(has("0.3333333333333333", bytes));
	remove_run();
}

static void what_is_no_log_is_left_alone(void **state)
{
	struct monitor m;
	char path[700];
	FILE *f;
	(void)state;
	in_dir(path, "wandb");
	assert_int_equal(mkdir(path, 0777), 0);
	strcat(path, "/offline-run-20231114_221320-x");
	assert_int_equal(mkdir(path, 0777), 0);
	strcat(path, "/run-x.wandb");
	f = fopen(path, "wb");
	fputs("something else", f);
	fclose(f);
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 2), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "is no log of W&B"));
	close_monitor(&m);
	assert_int_equal(content(path, file), 14);
	remove_run();
}

static void nothing_is_allocated_after_the_first_step_I3(void **state)
{
	const struct zr_metric x[] = { { "loss", 1.0 / 3 }, { "lr", 1e-300 }, { "other", 2 } };
	struct monitor m;
	struct mallinfo2 before;
	(void)state;
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, x, 3), ZR_OK);
	before = mallinfo2();
	for (int step = 2; step <= 100; step++)
		assert_int_equal(m.v->metrics(m.inst, step, x, 3), ZR_OK);
	assert_true(mallinfo2().uordblks == before.uordblks);
	close_monitor(&m);
	remove_run();
}

static int setup(void **state)
{
	(void)state;
	host = test_host(1);
	if (!mkdtemp(dir))
		return -1;
	host->run_dir = dir;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_host_free(host);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_run_has_header_run_steps_and_end),
		cmocka_unit_test(records_go_over_the_ends_of_blocks_and_resuming_cuts_them),
		cmocka_unit_test(a_block_may_end_at_each_place_of_a_header),
		cmocka_unit_test(nothing_is_allocated_after_the_first_step_I3),
		cmocka_unit_test(a_full_disk_tears_no_record),
		cmocka_unit_test(a_log_of_the_package_is_gone_on_with),
		cmocka_unit_test(what_is_no_log_is_left_alone),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
