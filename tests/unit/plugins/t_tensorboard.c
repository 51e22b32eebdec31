/* SPDX-License-Identifier: Apache-2.0
 *
 * t_tensorboard.c - the event files of monitor/tensorboard: the bytes that TensorBoard's own writer
 * has for the same events (tests/golden/make_events.py).
 */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zeroth/monitor.h>

#include <cmocka.h> /* after the headers with members that its macros name */

#include "plugins/monitor/message.h"
#include "plugins/monitor/tag.h"
#include "tests/lib/testhost.h"

static struct zr_host *host;
static char dir[] = "/tmp/t_tensorboard.XXXXXX";

struct monitor {
	const struct zr_desc *desc;
	const struct zr_monitor_v1 *v;
	struct zr_inst *inst;
	void *opts;
};

static int open_monitor(struct monitor *m)
{
	test_clear(host);
	m->desc = test_plugin("monitor/tensorboard");
	m->v = test_iface(m->desc, "zr.monitor/1");
	m->opts = test_options(m->desc);
	return test_create(host, m->desc, m->opts, &m->inst);
}

static void close_monitor(struct monitor *m)
{
	m->desc->destroy(m->inst);
	free(m->opts);
}

/* Names of the event files in the order in which TensorBoard reads them; returns how many. */
static int event_files(struct dirent ***list)
{
	char path[256];
	snprintf(path, sizeof path, "%s/tensorboard", dir);
	return scandir(path, list, NULL, alphasort);
}

static void remove_files(void)
{
	struct dirent **list;
	int n = event_files(&list);
	for (int i = 0; i < n; i++) {
		char path[600];
		snprintf(path, sizeof path, "%s/tensorboard/%s", dir, list[i]->d_name);
		unlink(path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

static size_t content(const char *path, uint8_t *to, size_t room)
{
	FILE *f = fopen(path, "rb");
	size_t n;
	assert_non_null(f);
	n = fread(to, 1, room, f);
	fclose(f);
	return n;
}

/* The content of the k-th file of `want`. */
static size_t file_content(int k, int want, uint8_t *to, size_t room)
{
	struct dirent **list;
	size_t bytes = 0;
	int n = event_files(&list), seen = 0;
	for (int i = 0; i < n; i++) {
		char path[600];
		snprintf(path, sizeof path, "%s/tensorboard/%s", dir, list[i]->d_name);
		if (list[i]->d_name[0] != '.' && seen++ == k)
			bytes = content(path, to, room);
		free(list[i]);
	}
	free(list);
	assert_int_equal(seen, want);
	return bytes;
}

static const struct zr_metric eighth[] = {
	{ "time", 1700000000.5 },   { "loss", 5.5 }, { "lr", 3e-4 }, { "forward_s", 0.125 },
	{ "memory", 2147483648.0 },
};
static const struct zr_metric ninth[] = {
	{ "time", 1700000000.75 },     { "loss", NAN },
	{ "val_loss", 1.875 },         { "news_accuracy", 0.5 },
	{ "tokens_per_s", 12345.678 }, { "step_seconds", 1e-30 },
	{ "loss_scale", INFINITY },
};

static void the_file_is_that_of_the_writer_of_tensorboard(void **state)
{
	uint8_t got[4096], want[4096];
	char golden[600];
	struct monitor m;
	size_t n;
	(void)state;
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->resume(m.inst, 7), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 8, eighth, 5), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 9, ninth, 7), ZR_OK);
	assert_int_equal(m.v->flush(m.inst), ZR_OK);
	close_monitor(&m);
	snprintf(golden, sizeof golden, "%s/tests/golden/events.bin",
		 getenv("ZR_SRCDIR") ? getenv("ZR_SRCDIR") : ".");
	n = content(golden, want, sizeof want);
	assert_int_equal(file_content(0, 1, got, sizeof got), n);
	assert_memory_equal(got, want, n);
	remove_files();
}

static void a_full_disk_tears_no_record(void **state)
{
	uint8_t got[4096], want[4096];
	char golden[600];
	struct monitor m;
	(void)state;
	snprintf(golden, sizeof golden, "%s/tests/golden/events.bin",
		 getenv("ZR_SRCDIR") ? getenv("ZR_SRCDIR") : ".");
	size_t n = content(golden, want, sizeof want);
	for (size_t limit = 0; limit < n; limit += 7) {
		assert_int_equal(open_monitor(&m), ZR_OK);
		assert_int_equal(m.v->resume(m.inst, 7), ZR_OK);
		test_file_limit((int64_t)limit);
		int rc = m.v->metrics(m.inst, 8, eighth, 5);
		if (!rc)
			assert_int_equal(m.v->metrics(m.inst, 9, ninth, 7), ZR_EAGAIN);
		test_file_limit(-1);
		assert_true(!rc || rc == ZR_EAGAIN);
		if (rc)
			assert_int_equal(m.v->metrics(m.inst, 8, eighth, 5), ZR_OK);
		assert_int_equal(m.v->metrics(m.inst, 9, ninth, 7), ZR_OK);
		close_monitor(&m);
		assert_int_equal(file_content(0, 1, got, sizeof got), n);
		assert_memory_equal(got, want, n);
		remove_files();
	}
}

static void a_new_run_has_no_event_at_which_tensorboard_forgets(void **state)
{
	uint8_t got[4096];
	struct monitor m;
	size_t n;
	(void)state;
	assert_int_equal(open_monitor(&m), ZR_OK);
	assert_int_equal(m.v->metrics(m.inst, 1, eighth, 1), ZR_OK);
	close_monitor(&m);
	n = file_content(0, 1, got, sizeof got);
	/* the version, 24 bytes, and an event with a time, a step and no value, 13 */
	assert_int_equal(n, 24 + 16 + 13 + 16);
	remove_files();
}

static void a_later_file_sorts_behind_an_earlier_one(void **state)
{
	uint8_t got[4096];
	struct monitor m;
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct zr_metric x = { "loss", i };
		assert_int_equal(open_monitor(&m), ZR_OK);
		assert_int_equal(m.v->metrics(m.inst, 1, &x, 1), ZR_OK);
		close_monitor(&m);
	}
	for (int i = 0; i < 3; i++) {
		float loss;
		size_t n = file_content(i, 3, got, sizeof got);
		memcpy(&loss, got + n - 8, sizeof loss);
		assert_int_equal(loss, i);
	}
	remove_files();
}

static void a_link_is_not_followed(void **state)
{
	char path[300], away[] = "/tmp/t_tb_away.XXXXXX";
	struct monitor m;
	(void)state;
	snprintf(path, sizeof path, "%s/tensorboard", dir);
	rmdir(path);
	assert_non_null(mkdtemp(away));
	assert_int_equal(symlink(away, path), 0);
	assert_int_equal(open_monitor(&m), ZR_EINVAL);
	assert_non_null(strstr(test_error(host), "is not a directory of the run"));
	free(m.opts);
	unlink(path);
	assert_int_equal(rmdir(away), 0); /* it is empty */
}

static void nothing_is_allocated_after_create_I3(void **state)
{
	struct monitor m;
	struct mallinfo2 before;
	(void)state;
	assert_int_equal(open_monitor(&m), ZR_OK);
	before = mallinfo2();
	for (int step = 1; step <= 100; step++)
		assert_int_equal(m.v->metrics(m.inst, step, ninth, 7), ZR_OK);
	assert_int_equal(m.v->flush(m.inst), ZR_OK);
	assert_true(mallinfo2().uordblks == before.uordblks);
	close_monitor(&m);
	remove_files();
}

static void tags_have_groups(void **state)
{
	static const char *const want[][2] = {
		{ "loss", "train/loss" },
		{ "grad_norm", "train/grad_norm" },
		{ "skipped", "train/skipped" },
		{ "val_perplexity", "val/perplexity" },
		{ "news_loss", "eval/news_loss" },
		{ "gather_wait_s", "time/gather_wait" },
		{ "tokens_per_s", "speed/tokens_per_s" },
		{ "mfu_product", "speed/mfu_product" },
		{ "device_bytes", "memory/device" },
		{ "epoch", "progress/epoch" },
		{ "_s", "train/_s" },
	};
	char tag[TAG_ROOM], longest[2 * TAG_ROOM];
	(void)state;
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		tag_of(want[i][0], tag);
		assert_string_equal(tag, want[i][1]);
	}
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	tag_of(longest, tag);
	assert_int_equal(strlen(tag), TAG_ROOM - 1);
}

/* The check values of the catalogue of CRCs (reveng.sourceforge.io). */
static void crcs_are_those_of_the_catalogue(void **state)
{
	struct crc c;
	(void)state;
	crc_init(&c, CRC32C);
	assert_int_equal(crc_of(&c, 0, "123456789", 9), 0xe3069283u);
	crc_init(&c, CRC32);
	assert_int_equal(crc_of(&c, 0, "123456789", 9), 0xcbf43926u);
	assert_int_equal(crc_of(&c, crc_of(&c, 0, "1234", 4), "56789", 5), 0xcbf43926u);
}

/* A length of one byte and one of two. */
static void a_message_in_a_message_has_its_length(void **state)
{
	uint8_t b[400], small[4];
	struct message m = { b, 0, sizeof b, 0 };
	char text[200];
	size_t at = message_begin(&m, 5);
	(void)state;
	memset(text, 'a', 199);
	text[199] = 0;
	message_text(&m, 1, text);
	message_end(&m, at);
	assert_false(m.full);
	assert_int_equal(m.used, 3 + 3 + 199);
	assert_memory_equal(b,
			    "\x2a\xca\x01\x0a\xc7\x01"
			    "aaa",
			    9);
	m = (struct message){ small, 0, sizeof small, 0 };
	message_varint(&m, 1, UINT64_MAX);
	assert_true(m.full);
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
	char path[300];
	(void)state;
	snprintf(path, sizeof path, "%s/tensorboard", dir);
	rmdir(path);
	test_host_free(host);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_is_that_of_the_writer_of_tensorboard),
		cmocka_unit_test(a_new_run_has_no_event_at_which_tensorboard_forgets),
		cmocka_unit_test(a_full_disk_tears_no_record),
		cmocka_unit_test(a_later_file_sorts_behind_an_earlier_one),
		cmocka_unit_test(nothing_is_allocated_after_create_I3),
		cmocka_unit_test(a_link_is_not_followed),
		cmocka_unit_test(tags_have_groups),
		cmocka_unit_test(crcs_are_those_of_the_catalogue),
		cmocka_unit_test(a_message_in_a_message_has_its_length),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
