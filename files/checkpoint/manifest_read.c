/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest_read.c - see manifest.h: reading. Nothing in the file is trusted, not even behind a
 * right checksum.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/setup.h"
#include "files/checkpoint/manifest.h"

#define HASH_LINE  "{\"xxh3\": \"0123456789abcdef\",\n"
#define MOST_BYTES (1u << 30)
#define MOST_RANKS (1 << 20)
/* of a model, with padding: what is counted in bytes stays far from 2^63 */
#define MOST_ELEMENTS (INT64_C(1) << 50)
#define MOST_STEPS    (INT64_C(1) << 48)

struct reader {
	const char *path;
	struct zr_manifest *m;
	struct zr_error *err;
};

static int bad(const struct reader *r, const char *what)
{
	return zr_err(r->err, ZR_EINVAL, "%s: the manifest has no valid %s", r->path, what);
}

static int number(const struct reader *r, const json_t *from, const char *key, int64_t most,
		  int64_t *out)
{
	const json_t *j = json_object_get(from, key);
	if (!json_is_integer(j) || json_integer_value(j) < 0 || json_integer_value(j) > most)
		return bad(r, key);

	*out = json_integer_value(j);
	return 0;
}

static int text(const struct reader *r, const json_t *from, const char *key, const char **out)
{
	*out = json_string_value(json_object_get(from, key));
	if (*out)
		return 0;
	return bad(r, key);
}

static int hash_of(const char *hex, uint64_t *out)
{
	if (strlen(hex) != 16 || strspn(hex, "0123456789abcdef") != 16)
		return -1;
	*out = strtoull(hex, NULL, 16);
	return 0;
}

static int read_scale(const struct reader *r)
{
	const json_t *j = json_object_get(r->m->root, "loss_scale");
	struct zr_scale *s = &r->m->scale;
	const char *exact;
	char *end = NULL;
	int rc = text(r, j, "scale", &exact);

	if (!rc)
		s->scale = strtod(exact, &end);
	if (rc)
		return rc;
	if (*end || end == exact || !(s->scale > 0))
		return bad(r, "loss_scale");

	rc = number(r, j, "step", INT64_MAX, &s->step);
	if (!rc)
		rc = number(r, j, "hysteresis", INT64_MAX, &s->hysteresis);
	const json_t *last = json_object_get(j, "last_overflow");
	if (rc)
		return rc;
	if (!json_is_integer(last)) /* -1: none */
		return bad(r, "last_overflow");

	s->last_overflow = json_integer_value(last);
	return 0;
}

/* An older zeroth wrote none, or none of what patience waits for: it was the best loss. */
static int read_best(const struct reader *r)
{
	const json_t *j = json_object_get(r->m->root, "best");
	struct zr_best *b = &r->m->best;
	int end = 0;

	*b = ZR_BEST_NONE;
	if (!j)
		return 0;

	const char *s = "";
	if (json_is_string(j))
		s = json_string_value(j);
	int n = sscanf(s, "%la %" SCNd64 " %" SCNd64 "%n %la%n", &b->loss, &b->step, &b->since,
		       &end, &b->lowest, &end);
	if (n == 3)
		b->lowest = b->loss;
	if (n >= 3 && !s[end] && b->step >= -1 && b->since >= 0)
		return 0;

	return bad(r, "best");
}

/* A rank's file; adds its bytes to *sum. */
static int read_file(const struct reader *r, const json_t *j, int32_t rank, uint64_t *sum)
{
	char name[ZR_CKPT_NAME];
	const char *is, *header;
	int64_t bytes;

	int rc = text(r, j, "name", &is);
	if (!rc)
		rc = number(r, j, "bytes", INT64_MAX / MOST_RANKS, &bytes);
	if (!rc)
		rc = text(r, j, "header_xxh3", &header);
	if (rc)
		return rc;
	if (strcmp(is, zr_ckpt_file_name(rank, r->m->world, name)) ||
	    hash_of(header, &r->m->file[rank].header))
		return bad(r, "files");

	r->m->file[rank].bytes = (uint64_t)bytes;
	*sum += (uint64_t)bytes;
	return 0;
}

/* Parameters that the files have. */
static uint64_t saved_parameters(const struct zr_manifest *m)
{
	uint64_t n = 0;

	for (int32_t i = 0; i < m->layout.n_tensors; i++)
		if (m->frozen[i] != ZR_FROZEN_LEFT_OUT)
			n += (uint64_t)m->layout.tensor[i].elements;

	return n;
}

static int read_files(const struct reader *r)
{
	const json_t *list = json_object_get(r->m->root, "files");
	uint64_t sum = 0;
	int rc = 0;

	r->m->file = calloc((size_t)r->m->world, sizeof *r->m->file);
	if (!r->m->file)
		return zr_err(r->err, ZR_ENOMEM, "%s: out of memory", r->path);
	if (json_array_size(list) != (size_t)r->m->world)
		return bad(r, "files");

	for (int32_t i = 0; !rc && i < r->m->world; i++)
		rc = read_file(r, json_array_get(list, (size_t)i), i, &sum);
	if (rc)
		return rc;
	if (sum / 4 < saved_parameters(r->m))
		return bad(r, "files: they are too small for the units");

	return 0;
}

/* ---- optimizers ---- */

static int32_t type_of(const char *name)
{
	const struct zr_dtype *t = zr_dtype_find(0, name);
	if (t->trains || t->id == ZR_U8)
		return t->id;

	return 0;
}

static int read_state(const struct reader *r, const json_t *j, struct zr_ckpt_state *st)
{
	const char *dtype;
	int64_t bytes = 0;
	int rc = text(r, j, "name", &st->name);
	if (!rc)
		rc = text(r, j, "dtype", &dtype);
	if (!rc && !(st->dtype = type_of(dtype)))
		rc = bad(r, "dtype");
	if (!rc && strlen(st->name) > ZR_ENTRY_NAME / 4)
		rc = bad(r, "name");
	if (!rc && st->dtype == ZR_U8 && json_object_get(j, "bytes_per_block"))
		rc = number(r, j, "bytes_per_block", ZR_STATE_BLOCK_MOST, &bytes);
	st->block_bytes = (uint32_t)bytes;
	return rc;
}

/* Of version 5. */
static int read_scalars(const struct reader *r, const json_t *list, struct zr_ckpt_optimizer *o)
{
	const char *value;
	char *end;
	int rc = 0;

	if (!list)
		return 0;
	if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > ZR_OPT_RUN)
		return bad(r, "scalars");

	o->n_run = (int32_t)json_array_size(list);
	for (int32_t i = 0; !rc && i < o->n_run; i++) {
		const json_t *j = json_array_get(list, (size_t)i);
		rc = text(r, j, "name", &o->run_name[i]);
		if (!rc)
			rc = text(r, j, "value", &value);
		if (rc)
			return rc;

		o->run[i] = strtod(value, &end);
		if (!*value || *end || !isfinite(o->run[i]) || strlen(o->run_name[i]) > 128)
			return bad(r, "scalars");
	}

	return rc;
}

/* Of version 5. */
static int read_evaluates(const struct reader *r, const json_t *j, struct zr_ckpt_optimizer *o)
{
	const char *name = json_string_value(j);

	for (int32_t i = 0; name && i < o->n_states; i++)
		if (!strcmp(o->state[i].name, name) && o->state[i].dtype == ZR_F32)
			o->evaluates = i + 1;
	if (j && !o->evaluates)
		return bad(r, "evaluates");

	return 0;
}

static int read_optimizer(const struct reader *r, const json_t *j, struct zr_ckpt_optimizer *o)
{
	const json_t *list = json_object_get(j, "states");
	int64_t version;
	int rc = text(r, j, "id", &o->id);
	if (!rc)
		rc = number(r, j, "state_version", UINT32_MAX, &version);
	if (rc)
		return rc;
	if (!json_is_array(list) || json_array_size(list) > ZR_CKPT_STATES)
		return bad(r, "states");

	o->state_version = (uint32_t)version;
	o->n_states = (int32_t)json_array_size(list);
	o->state = calloc((size_t)o->n_states + 1, sizeof *o->state);
	if (!o->state)
		return zr_err(r->err, ZR_ENOMEM, "%s: out of memory", r->path);

	for (int32_t i = 0; !rc && i < o->n_states; i++)
		rc = read_state(r, json_array_get(list, (size_t)i), &o->state[i]);
	if (rc)
		return rc;

	rc = read_scalars(r, json_object_get(j, "scalars"), o);
	if (rc)
		return rc;
	return read_evaluates(r, json_object_get(j, "evaluates"), o);
}

static int read_optimizers(const struct reader *r)
{
	const json_t *list = json_object_get(r->m->root, "optimizers");
	int rc = 0;

	if (!json_array_size(list) || json_array_size(list) > 4096)
		return bad(r, "optimizers");

	r->m->optimizer = calloc(json_array_size(list), sizeof *r->m->optimizer);
	if (!r->m->optimizer)
		return zr_err(r->err, ZR_ENOMEM, "%s: out of memory", r->path);

	r->m->n_optimizers = (int32_t)json_array_size(list);
	for (int32_t k = 0; !rc && k < r->m->n_optimizers; k++)
		rc = read_optimizer(r, json_array_get(list, (size_t)k), &r->m->optimizer[k]);

	return rc;
}

/* ---- units and tensors ---- */

static int read_shape(const struct reader *r, const json_t *shape, struct zr_tensor *t,
		      int64_t *left)
{
	int64_t n = 1;

	if (!json_is_array(shape) || json_array_size(shape) > sizeof t->dims / sizeof *t->dims)
		return bad(r, "shape");

	t->ndim = (int32_t)json_array_size(shape);
	for (int32_t d = 0; d < t->ndim; d++) {
		t->dims[d] = json_integer_value(json_array_get(shape, (size_t)d)); /* or 0 */
		if (t->dims[d] <= 0 || __builtin_mul_overflow(n, t->dims[d], &n) || n > *left)
			return bad(r, "shape");
	}

	*left -= (n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK;
	if (*left < 0)
		return bad(r, "shape");

	return 0;
}

/* Of version 2. */
static int read_frozen(const struct reader *r, const json_t *j, int32_t i)
{
	const json_t *frozen = json_object_get(j, "frozen");
	const char *word = json_string_value(frozen), *hash = NULL;

	if (!frozen)
		return 0;
	if (!word || (strcmp(word, "saved") && strcmp(word, "left out")))
		return bad(r, "frozen");

	r->m->frozen[i] = strcmp(word, "saved") ? ZR_FROZEN_LEFT_OUT : ZR_FROZEN_SAVED;
	if (r->m->frozen[i] == ZR_FROZEN_SAVED)
		return 0;

	int rc = text(r, j, "source_xxh3", &hash);
	if (rc)
		return rc;
	if (hash_of(hash, &r->m->source[i]))
		return bad(r, "source_xxh3");

	return 0;
}

/* Before format version 4 no tensor has any. */
static int read_persistent(const struct reader *r, const json_t *j, struct zr_tensor *t)
{
	int64_t n = 0;
	int rc = 0;

	if (json_object_get(j, "persistent"))
		rc = number(r, j, "persistent", ZR_PERSISTENT_MOST, &n);
	t->persistent = (int32_t)n;
	return rc;
}

/* Of version 5: a number for each state that has none of its own. */
static int read_by_shape(const struct reader *r, const json_t *list, int32_t i)
{
	const struct zr_ckpt_optimizer *o = &r->m->optimizer[r->m->optimizer_of[i]];
	size_t n = 0;

	for (int32_t k = 0; k < o->n_states; k++) {
		if (!zr_ckpt_is_by_shape(&o->state[k]))
			continue;

		const json_t *bytes = json_array_get(list, n++);
		if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
		    json_integer_value(bytes) > ZR_STATE_BLOCK_MOST)
			return bad(r, "bytes_per_block");
		*zr_ckpt_by_shape(r->m, i, k) = (uint32_t)json_integer_value(bytes);
	}

	return json_array_size(list) == n ? 0 : bad(r, "bytes_per_block");
}

static int read_tensor(const struct reader *r, const json_t *j, int32_t i, int64_t *left)
{
	struct zr_tensor *t = &r->m->tensors[i];
	int64_t optimizer, ranks = 0;
	int rc = text(r, j, "name", &t->name);
	if (!rc && strlen(t->name) > ZR_ENTRY_NAME / 2)
		rc = bad(r, "name");
	if (!rc)
		rc = number(r, j, "optimizer", r->m->n_optimizers - 1, &optimizer);
	if (rc)
		return rc;

	r->m->optimizer_of[i] = (int32_t)optimizer;
	if (json_object_get(j, "ranks")) /* of version 3 */
		rc = number(r, j, "ranks", r->m->world, &ranks);
	if (!rc && ranks && r->m->world % ranks)
		rc = bad(r, "ranks");
	r->m->ranks[i] = (int32_t)ranks;
	if (!rc)
		rc = read_frozen(r, j, i);
	if (!rc)
		rc = read_persistent(r, j, t);
	if (!rc)
		rc = read_by_shape(r, json_object_get(j, "bytes_per_block"), i);
	if (rc)
		return rc;

	return read_shape(r, json_object_get(j, "shape"), t, left);
}

static size_t count_tensors(const json_t *units)
{
	size_t n = 0, i;
	json_t *u;
	json_array_foreach(units, i, u) n += json_array_size(json_object_get(u, "tensors"));
	return n;
}

static int allocate_units(struct zr_manifest *m, size_t units, size_t tensors)
{
	m->units = calloc(units, sizeof *m->units);
	m->tensors = calloc(tensors, sizeof *m->tensors);
	m->optimizer_of = calloc(tensors, sizeof *m->optimizer_of);
	m->frozen = calloc(tensors, sizeof *m->frozen);
	m->source = calloc(tensors, sizeof *m->source);
	m->ranks = calloc(tensors, sizeof *m->ranks);
	m->by_shape = calloc(tensors * ZR_CKPT_STATES, sizeof *m->by_shape);
	if (!m->units || !m->tensors || !m->optimizer_of || !m->frozen || !m->source || !m->ranks ||
	    !m->by_shape)
		return ZR_ENOMEM;

	return 0;
}

/* A unit, whose tensors are those from *tensor on. */
static int read_unit(const struct reader *r, const json_t *j, struct zr_unit *unit, int32_t *tensor,
		     int64_t *left)
{
	const json_t *list = json_object_get(j, "tensors");
	*unit = (struct zr_unit){ .tensors = r->m->tensors + *tensor,
				  .n_tensors = (uint32_t)json_array_size(list) };

	int rc = text(r, j, "name", &unit->name);
	for (size_t k = 0; !rc && k < unit->n_tensors; k++)
		rc = read_tensor(r, json_array_get(list, k), (*tensor)++, left);

	return rc;
}

static int read_units(const struct reader *r)
{
	struct zr_manifest *m = r->m;
	const json_t *list = json_object_get(m->root, "units");
	size_t units = json_array_size(list), tensors = count_tensors(list);
	int64_t left = MOST_ELEMENTS;
	int32_t tensor = 0;
	int rc = 0;

	if (!units || !tensors || tensors > INT32_MAX / 2)
		return bad(r, "units");
	if (allocate_units(m, units, tensors))
		return zr_err(r->err, ZR_ENOMEM, "%s: out of memory", r->path);

	for (size_t u = 0; !rc && u < units; u++)
		rc = read_unit(r, json_array_get(list, u), &m->units[u], &tensor, &left);
	if (rc)
		return rc;

	const struct zr_model_decl decl = { .size = sizeof decl,
					    .n_units = (uint32_t)units,
					    .unit_stride = sizeof *m->units,
					    .tensor_stride = sizeof *m->tensors,
					    .units = m->units };
	rc = zr_layout_make(&decl, &m->layout, r->err);
	if (!rc && m->layout.persistent > ZR_PERSISTENT_MOST)
		rc = bad(r, "persistent");
	return rc;
}

/* ---- all of it ---- */

static int read_numbers(const struct reader *r)
{
	struct zr_manifest *m = r->m;
	const json_t *root = m->root, *batch = json_object_get(root, "batch"),
		     *seed = json_object_get(root, "seed");
	int64_t world, block, bits;
	const struct {
		const json_t *from;
		const char *key;
		int64_t most, *to;
	} numbers[] = {
		{ root, "step", MOST_STEPS, &m->step },
		{ root, "applied", MOST_STEPS, &m->applied },
		{ root, "world", MOST_RANKS, &world },
		{ root, "block_elements", ZR_BLOCK, &block },
		{ root, "entry_blocks", 1 << 20, &m->entry_blocks },
		{ root, "master_bits", 32, &bits },
		{ batch, "micro_batch_size", INT64_MAX, &m->micro },
		{ batch, "slots", INT64_MAX, &m->slots },
		{ batch, "sequence_length", INT64_MAX, &m->length },
	};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int rc = number(r, numbers[i].from, numbers[i].key, numbers[i].most, numbers[i].to);
		if (rc)
			return rc;
	}

	if (m->applied > m->step)
		return bad(r, "applied");
	if (!world)
		return bad(r, "world");
	if (block != ZR_BLOCK)
		return bad(r, "block_elements");
	if (!m->entry_blocks)
		return bad(r, "entry_blocks");
	if (!json_is_integer(seed))
		return bad(r, "seed");

	m->seed = json_integer_value(seed);
	m->world = (int32_t)world;
	m->master_bits = (int32_t)bits;
	return 0;
}

static int read_texts(const struct reader *r)
{
	struct zr_manifest *m = r->m;
	const char *key;
	json_t *value;
	int rc = text(r, m->root, "model", &m->model);

	if (!rc)
		rc = text(r, m->root, "data", &m->data);
	if (!rc)
		rc = text(r, m->root, "dtype", &m->dtype);
	m->config = json_string_value(json_object_get(m->root, "config"));
	m->settings = json_object_get(m->root, "settings");
	m->plugins = json_object_get(m->root, "plugins");
	m->meta = json_object_get(m->root, "meta");
	const json_t *all[] = { m->settings, m->plugins, m->meta };
	for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++) {
		if (!json_is_object(all[i]))
			return bad(r, "settings, plugins or meta");

		json_object_foreach((json_t *)all[i], key,
				    value) if (!json_is_string(value)) return bad(r, key);
	}

	return rc;
}

/* The fields of version 1, of 2: what is frozen, of 3: the ranks of a tensor, of 4: how many
 * persistent numbers it has, and of 5: scalars of the run, states by shape. */
static int read_fields(const struct reader *r)
{
	static int (*const parts[])(
		const struct reader *) = { read_numbers,    read_texts, read_scale, read_best,
					   read_optimizers, read_units, read_files };
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof parts / sizeof *parts; i++)
		rc = parts[i](r);

	return rc;
}

static int check_version(const struct reader *r)
{
	const json_t *format = json_object_get(r->m->root, "format"),
		     *version = json_object_get(r->m->root, "version");
	if (!json_is_string(format) || strcmp(json_string_value(format), "zeroth checkpoint") ||
	    !json_is_integer(version) || json_integer_value(version) < 1)
		return zr_err(r->err, ZR_EINVAL, "%s: not the manifest of a checkpoint", r->path);
	if (json_integer_value(version) > ZR_CKPT_VERSION)
		return zr_err(r->err, ZR_ENOTSUP,
			      "%s: format version %lld; this zeroth reads "
			      "versions up to %d: use a newer one",
			      r->path, (long long)json_integer_value(version), ZR_CKPT_VERSION);

	return 0;
}

int zr_manifest_parse(const char *at, size_t bytes, const char *path, struct zr_manifest *out,
		      struct zr_error *err)
{
	const size_t first = sizeof HASH_LINE - 1;
	struct zr_manifest m = { 0 };
	struct reader r = { path, &m, err };
	char hex[17] = "";
	uint64_t hash;

	if (bytes > first && !memcmp(at, HASH_LINE, 10) &&
	    !memcmp(at + 26, &HASH_LINE[26], first - 26))
		memcpy(hex, at + 10, 16);
	if (hash_of(hex, &hash) || hash != XXH3_64bits(at + first, bytes - first))
		return zr_err(err, ZR_EINVAL,
			      "%s: the manifest is damaged: its checksum does not fit", path);

	int rc = zr_json_object(at, bytes, path, &m.root, err);
	if (!rc)
		rc = check_version(&r);
	if (!rc)
		rc = read_fields(&r);
	if (rc)
		zr_manifest_free(&m);
	else
		*out = m;

	return rc;
}

int zr_manifest_read(const char *dir, struct zr_manifest *out, struct zr_error *err)
{
	char path[PATH_MAX], *at = NULL;
	size_t bytes;

	if (snprintf(path, sizeof path, "%s/manifest.json", dir) >= (int)sizeof path)
		return zr_err(err, ZR_EINVAL, "%s: a path too long", dir);

	int fd = zr_ckpt_dir(dir), rc;
	if (fd < 0)
		return zr_file_failed(err, dir, "", errno);

	int no = zr_file_text(fd, "manifest.json", 0, MOST_BYTES, &at, &bytes);
	close(fd);
	if (no)
		rc = zr_file_failed(err, path, "", no);
	else
		rc = zr_manifest_parse(at, bytes, path, out, err);
	free(at);
	return rc;
}

void zr_manifest_free(struct zr_manifest *m)
{
	for (int32_t k = 0; m->optimizer && k < m->n_optimizers; k++)
		free(m->optimizer[k].state);
	json_t *const described[] = { m->settings, m->plugins, m->meta };
	for (int i = 0; !m->root && i < 3; i++)
		json_decref(described[i]);
	if (m->root)
		zr_layout_free(&m->layout);
	void *const own[] = { m->optimizer, m->optimizer_of,
			      m->ranks,     m->by_shape,
			      m->frozen,    m->root ? m->source : NULL,
			      m->file,      m->units,
			      m->tensors,   m->root ? NULL : (char *)m->config };
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		free(own[i]);
	json_decref(m->root);
	*m = (struct zr_manifest){ 0 };
}
