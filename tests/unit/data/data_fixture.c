/* SPDX-License-Identifier: Apache-2.0
 *
 * data_fixture.c - files, instances and requests for tests of data plugins.
 */
#include "data_fixture.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct zr_host *host;
char dir[] = "/tmp/t_data.XXXXXX";

int data_setup(void **state)
{
	(void)state;
	host = test_host(1);
	return mkdtemp(dir) ? 0 : -1;
}

int data_teardown(void **state)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	(void)state;
	if (!d)
		return -1;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			unlink(in_dir(e->d_name));
	closedir(d);
	test_host_free(host);
	return rmdir(dir);
}

/* ---- files ---- */

char *in_dir(const char *name)
{
	static char path[8][300];
	static int next;
	char *p = path[next++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

void write_file(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(in_dir(name), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

void write_tokens(const char *name, uint32_t first, int n, int width, int header)
{
	char *bytes = calloc(1, 1024 + (size_t)n * 4), *p = bytes;
	int32_t head[3] = { width == 2 ? 20240520 : 20240801, width == 2 ? 1 : 7, header };
	int i;
	assert_non_null(bytes);
	if (header >= 0) {
		memcpy(bytes, head, sizeof head);
		p += 1024;
	}
	for (i = 0; i < n; i++, p += width) {
		uint32_t v = first + (uint32_t)i;
		memcpy(p, &v, (size_t)width);
	}
	write_file(name, bytes, (size_t)(p - bytes));
	free(bytes);
}

void write_text(const char *name, int n, int (*fn)(int))
{
	char *bytes = malloc((size_t)n);
	int i;
	assert_non_null(bytes);
	for (i = 0; i < n; i++)
		bytes[i] = (char)fn(i);
	write_file(name, bytes, (size_t)n);
	free(bytes);
}

/* ---- instances ---- */

int data_open(struct data *d, const char *plugin, const char *const *options)
{
	int rc;
	test_clear(host);
	d->desc = test_plugin(plugin);
	d->v = test_iface(d->desc, "zr.data/1");
	d->opts = test_options(d->desc);
	for (; *options; options += 2)
		assert_int_equal(test_set(d->desc, d->opts, options[0], options[1]), 0);
	rc = test_create(host, d->desc, d->opts, &d->inst);
	if (rc)
		free(d->opts);
	return rc;
}

void data_close(struct data *d)
{
	d->desc->destroy(d->inst);
	free(d->opts);
}

struct zr_data_info info_of(struct data *d)
{
	struct zr_data_info info = { .size = sizeof info };
	assert_int_equal(d->v->info(d->inst, &info), ZR_OK);
	return info;
}

void data_prepared(struct data *d, const char *plugin, const char *const *options, int64_t length)
{
	if (data_open(d, plugin, options))
		fail_msg("%s", test_error(host));
	if (d->v->prepare(d->inst, length, 1 << 20))
		fail_msg("%s", test_error(host));
}

int32_t inputs[MAX_BATCH], targets[MAX_BATCH];

struct zr_batch request(int32_t split, int64_t step, int64_t slot, int64_t slots, int64_t sequences,
			int64_t length)
{
	struct zr_batch b = { .size = sizeof b,
			      .split = split,
			      .seed = 1234,
			      .step = step,
			      .slot = slot,
			      .slots = slots,
			      .sequences = sequences,
			      .length = length,
			      .inputs = inputs,
			      .targets = targets };
	assert_true(sequences * length <= MAX_BATCH);
	return b;
}

void get(struct data *d, const struct zr_batch *b)
{
	memset(inputs, 0xff, sizeof inputs);
	memset(targets, 0xff, sizeof targets);
	if (d->v->batch(d->inst, b))
		fail_msg("%s", test_error(host));
}
