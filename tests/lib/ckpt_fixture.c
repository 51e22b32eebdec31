/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt_fixture.c - see ckpt_fixture.h.
 */
#include "ckpt_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h> /* last: it defines fail() */

static const struct zr_tensor tensors[] = {
	{ .name = "a.weight", .dims = { 100, 90 }, .ndim = 2 },
	{ .name = "a.bias", .dims = { 7 }, .ndim = 1 },
	{ .name = "b.weight", .dims = { 5 * ZR_BLOCK }, .ndim = 1 },
	{ .name = "b.scale", .dims = { 1 }, .ndim = 1 },
};
static const struct zr_unit units[] = {
	{ .name = "a", .tensors = tensors, .n_tensors = 2 },
	{ .name = "b", .tensors = tensors + 2, .n_tensors = 2 },
};
static struct zr_ckpt_state adam[] = { { "exp_avg", ZR_F32, 0 },
				       { "exp_avg_sq", ZR_BF16, 0 },
				       { "scales", ZR_U8, 33 } };
static struct zr_ckpt_optimizer optimizers[] = {
	{ .id = "adam", .state_version = 1, .n_states = 3, .state = adam },
	{ .id = "sgd", .state_version = 4, .state = adam }
};
static int32_t optimizer_of[] = { 0, 1, 0, 1 }, of_all[4];

void ckpt_manifest(struct zr_manifest *m, int32_t world)
{
	struct zr_model_decl decl = { .size = sizeof decl,
				      .n_units = 2,
				      .unit_stride = sizeof *units,
				      .tensor_stride = sizeof *tensors,
				      .units = units };
	*m = (struct zr_manifest){
		.step = 50,
		.applied = 3,
		.seed = -7,
		.world = world,
		.n_optimizers = 2,
		.entry_blocks = 2,
		.scale = { .scale = 0x1.23456789abcdfp-3,
			   .step = 50,
			   .last_overflow = -1,
			   .hysteresis = 2 },
		.micro = 4,
		.slots = 8,
		.length = 1024,
		.model = "gpt2",
		.data = "text",
		.dtype = "BF16",
		.master_bits = 32,
		.optimizer = optimizers,
		.optimizer_of = optimizer_of,
		.ranks = of_all,
		.settings = json_pack("{s:s, s:s}", "optimizer.lr", "0.001", "train.reduction",
				      "slots"),
		.plugins = json_pack("{s:s}", "model", "gpt2 1"),
		.meta = json_pack("{s:s}", "n_layer", "2"),
		.config = "[train]\nsteps = 100\n",
	};
	assert_int_equal(zr_layout_make(&decl, &m->layout, NULL), 0);
	m->file = calloc((size_t)world, sizeof *m->file);
	assert_non_null(m->file);
	for (int32_t r = 0; r < world; r++)
		m->file[r] = (struct zr_ckpt_file){ 100000 + (uint64_t)r,
						    UINT64_C(0xfedcba9876543210) + (uint64_t)r };
}

void ckpt_manifest_free(struct zr_manifest *m)
{
	zr_layout_free(&m->layout);
	free(m->file);
	json_decref(m->settings);
	json_decref(m->plugins);
	json_decref(m->meta);
}

void ckpt_sign(char *text, size_t bytes)
{
	char hex[17], *end = memchr(text, '\n', bytes);
	if (!end || bytes < 27)
		return;
	memcpy(text + 10, zr_hex(XXH3_64bits(end + 1, bytes - (size_t)(end + 1 - text)), hex), 16);
}

/* The bytes of an entry: of no other one the same. */
static void fill(const struct zr_ckpt_entry *e, unsigned char *data)
{
	for (uint64_t i = 0; i < e->bytes; i++)
		data[i] = (unsigned char)((uint64_t)(e->tensor * 31 + e->state * 7 + 50) +
					  (uint64_t)e->first * 13 + i * 3);
}

static int write_rank(const char *tmp, struct zr_manifest *m, int32_t rank, struct zr_error *err)
{
	struct zr_st_tensor t[64];
	char names[64][ZR_ENTRY_NAME], file[ZR_CKPT_NAME], path[PATH_MAX + ZR_CKPT_NAME], hex[17];
	static unsigned char data[64][1 << 16];
	struct zr_st_writer w;
	struct zr_st st;
	int64_t n;
	struct zr_ckpt_entry *e = zr_entries(m, rank, &n);
	json_t *meta = json_object();
	assert_true(n < 64);
	for (int64_t i = 0; i < n; i++) {
		t[i] = zr_entry_tensor(m, &e[i], names[i]);
		assert_true(t[i].bytes == e[i].bytes && e[i].bytes < sizeof data[i]);
		fill(&e[i], data[i]);
		json_object_set_new(meta, names[i],
				    json_string(zr_hex(XXH3_64bits(data[i], e[i].bytes), hex)));
	}
	snprintf(path, sizeof path, "%s/%s", tmp, zr_ckpt_file_name(rank, m->world, file));
	int rc = zr_st_create(&w, path, t, n, meta, err);
	for (int64_t i = 0; !rc && i < n; i++)
		zr_st_append(&w, data[i], e[i].bytes);
	if (!rc)
		rc = zr_st_finish(&w, 1, err);
	if (!rc)
		rc = zr_st_open(path, &st, err);
	if (!rc) {
		m->file[rank] = (struct zr_ckpt_file){ st.bytes, st.hash };
		zr_st_close(&st);
	}
	json_decref(meta);
	free(e);
	return rc;
}

int ckpt_write(const char *dir, struct zr_manifest *m, struct zr_error *err)
{
	char tmp[PATH_MAX];
	int lock, rc = zr_ckpt_begin(dir, m->step, &lock, err);
	if (!rc)
		rc = zr_ckpt_path(dir, m->step, 1, tmp, err);
	for (int32_t r = 0; !rc && r < m->world; r++)
		rc = write_rank(tmp, m, r, err);
	if (!rc)
		rc = zr_ckpt_commit(dir, m, 0, err);
	close(lock);
	return rc;
}
