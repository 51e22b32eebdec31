/* SPDX-License-Identifier: Apache-2.0
 *
 * gguf.c - see gguf.h.
 */
#include "train/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/checkpoint/manifest.h"
#include "files/tokenizer/tokenizer.h"
#include "train/gguf/parts.h"

#define CHUNK 65536 /* values that are written at a time: whole blocks of any type */

struct zr_export_gguf {
	char *path;
	const struct zr_layout *layout;
	const struct zr_gguf_family *family;
	struct zr_gguf_shape shape;
	struct zr_gguf_keys keys;
	struct zr_gguf_factors factors[2];
	int n_factors;
	struct zr_gguf_tensor *tensor; /* [n_factors + n_tensors] factors are the first */
	struct zr_gguf_writer w;
	int32_t at;      /* tensor of the layout that the next value belongs to */
	int64_t element; /* and which of its elements */
	float *values;   /* of it, that are not written yet, and room to turn them */
	int64_t n, unit; /* how many; how many make what is written at a time */
	void *encoded;
	int64_t infinite;
	struct zr_error failed;
};

/* ---- how a tensor is written ---- */

static int ends_so(const char *name, const char *end)
{
	const size_t n = strlen(name), tail = strlen(end);
	return n >= tail && !strcmp(name + n - tail, end);
}

/* Matrices have the type that was asked for; what cannot be cut into blocks is F16 in place of
 * Q8_0, as llama.cpp's converter has it. Vectors and norms stay in fp32. */
static int32_t type_of(const char *name, const struct zr_tensor *t, int32_t type)
{
	if (t->ndim < 2 || ends_so(name, "_norm.weight") || !ends_so(name, ".weight"))
		return ZR_GGUF_F32;
	if (type == ZR_GGUF_Q8_0 && t->dims[t->ndim - 1] % ZR_GGUF_BLOCK)
		return ZR_GGUF_F16;
	return type;
}

/* Heads whose rows are turned in a tensor; 0: none. Transformers rotates the halves of a head
 * against each other, llama.cpp's `llama` neighbours. */
static int64_t turned_heads(const struct zr_export_gguf *x, const char *name)
{
	if (!x->family->turned)
		return 0;
	if (ends_so(name, "q_proj.weight") || ends_so(name, "q_proj.bias"))
		return x->shape.heads;
	if (ends_so(name, "k_proj.weight") || ends_so(name, "k_proj.bias"))
		return x->shape.kv_heads;
	return 0;
}

/* A head at a time is turned. */
static int64_t unit_of(const struct zr_export_gguf *x, int32_t i)
{
	const struct zr_place *t = &x->layout->tensor[i];
	const int64_t heads = turned_heads(x, t->decl->name);
	if (heads)
		return t->elements / heads;
	return CHUNK;
}

/* Row i of the first half of a head becomes row 2 i, row i of the second one row 2 i + 1. */
static void turn_head(const struct zr_export_gguf *x)
{
	const int64_t rows = x->shape.head_dim, row = x->unit / rows;
	float *from = x->values, *to = x->values + x->unit;

	for (int64_t i = 0; i < rows; i++) {
		const int64_t at = i < rows / 2 ? 2 * i : 2 * (i - rows / 2) + 1;
		memcpy(to + at * row, from + i * row, (size_t)row * sizeof *to);
	}

	memcpy(from, to, (size_t)x->unit * sizeof *to);
}

static void flush(struct zr_export_gguf *x)
{
	const struct zr_tensor *t = x->layout->tensor[x->at].decl;
	const struct zr_gguf_tensor *to = &x->tensor[x->n_factors + x->at];

	if (turned_heads(x, t->name))
		turn_head(x);
	for (int64_t i = 0; x->family->shifted && ends_so(t->name, "norm.weight") && i < x->n; i++)
		x->values[i] += 1;

	for (int64_t i = 0; i < x->n && !x->failed.code; i += CHUNK) {
		const int64_t n = x->n - i < CHUNK ? x->n - i : CHUNK;
		if (zr_gguf_encode(to->type, x->values + i, n, x->encoded, &x->infinite))
			zr_err(&x->failed, ZR_EINVAL,
			       "tensor %s has values that q8_0 cannot hold: not finite, or beyond "
			       "8.3 million: export as bf16",
			       t->name);
		else
			zr_gguf_append(&x->w, x->encoded, (size_t)zr_gguf_bytes(to->type, n));
	}

	x->n = 0;
}

void zr_export_gguf_put(struct zr_export_gguf *x, const float *values, int64_t n)
{
	while (n > 0 && !x->failed.code) {
		const int64_t elements = x->layout->tensor[x->at].elements;
		const int64_t left = elements - x->element;
		if (!x->element)
			x->unit = unit_of(x, x->at);

		int64_t now = n < left ? n : left;
		if (now > x->unit - x->n)
			now = x->unit - x->n;
		memcpy(x->values + x->n, values, (size_t)now * sizeof *values);
		x->n += now;
		x->element += now;
		values += now;
		n -= now;
		if (x->n == x->unit || x->element == elements)
			flush(x);
		if (x->element < elements)
			continue;

		zr_gguf_pad(&x->w);
		x->at++;
		x->element = 0;
	}
}

/* ---- what comes before the tensors ---- */

static int32_t file_type(int32_t type)
{
	if (type == ZR_GGUF_Q8_0)
		return 7;
	if (type == ZR_GGUF_BF16)
		return 32;
	return 1;
}

/* The file's name without its directories and without .gguf. llama.cpp does something of its own
 * with the tokens of models that are called so, and does not read a file without them. */
static void put_name(struct zr_export_gguf *x, int as_phi3)
{
	const char *slash = strrchr(x->path, '/');
	char *name = strdup(slash ? slash + 1 : x->path);

	if (!name) {
		x->keys.failed = 1;
		return;
	}
	if (ends_so(name, ".gguf") && strlen(name) > 5)
		name[strlen(name) - 5] = 0;

	const int meant = strcasestr(name, "phi-3") || strcasestr(name, "phi3");
	if ((!meant || as_phi3) && !strcasestr(name, "modern-bert"))
		zr_gguf_text(&x->keys, "general.name", name);
	free(name);
}

static void put_general(struct zr_export_gguf *x, int32_t type)
{
	zr_gguf_text(&x->keys, "general.architecture", x->family->name);
	zr_gguf_text(&x->keys, "general.type", "model");
	zr_gguf_u32(&x->keys, "general.file_type", (uint32_t)file_type(type));
	zr_gguf_u32(&x->keys, "general.quantization_version", 2);
}

static int put_tokens(struct zr_export_gguf *x, const json_t *meta, const json_t *config,
		      const char *dir, int *as_phi3, struct zr_error *err)
{
	const char *added = json_string_value(json_object_get(meta, ZR_META_ADDED));
	const char *ids = json_string_value(json_object_get(meta, ZR_META_IDS));

	if (!dir)
		dir = json_string_value(json_object_get(meta, ZR_META_PATH));
	if (!dir)
		return zr_err(err, ZR_EINVAL,
			      "--gguf: a file has its tokenizer in it, and the model began with no "
			      "directory: --tokenizer names the one of its tokenizer");
	if (access(dir, R_OK | X_OK))
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s, which has the files of the tokenizer, cannot be read: "
			      "--tokenizer names another directory",
			      dir);
	if (added && zr_tokenizer_has_places(dir, added, ids, err))
		return err->code;

	return zr_gguf_tokenizer(dir, added, x->family, config, x->shape.vocabulary, &x->keys,
				 as_phi3, err);
}

static int put_keys(struct zr_export_gguf *x, const json_t *meta, const json_t *config,
		    const struct zr_export_gguf_how *how, struct zr_error *err)
{
	struct zr_gguf_describe d;
	int as_phi3 = 0;

	int rc = zr_gguf_family(meta, &x->family, err);
	if (!rc)
		rc = zr_gguf_shape_of(meta, &x->shape, err);
	if (rc)
		return rc;

	d = (struct zr_gguf_describe){ x->family, &x->shape, meta, x->layout, &x->keys };
	put_general(x, how->type);
	rc = zr_gguf_family_keys(&d, err);
	if (!rc)
		rc = zr_gguf_rope_factors(&d, x->factors, &x->n_factors, err);
	if (!rc)
		rc = put_tokens(x, meta, config, how->tokenizer, &as_phi3, err);
	if (!rc)
		put_name(x, as_phi3);
	return rc;
}

static int list_tensors(struct zr_export_gguf *x, int32_t type, struct zr_error *err)
{
	const int32_t n = x->layout->n_tensors;
	char name[128];

	x->tensor = calloc((size_t)(n + x->n_factors) + 1, sizeof *x->tensor);
	if (!x->tensor)
		return zr_no_memory(err);

	for (int i = 0; i < x->n_factors; i++)
		zr_gguf_make(&x->tensor[i], x->factors[i].name, ZR_GGUF_F32, 1, &x->factors[i].n);
	for (int32_t i = 0; i < n; i++) {
		const struct zr_tensor *t = x->layout->tensor[i].decl;
		int rc = zr_gguf_name(x->family, t->name, name, err);
		if (rc)
			return rc;
		zr_gguf_make(&x->tensor[x->n_factors + i], name, type_of(name, t, type), t->ndim,
			     t->dims);
	}

	return 0;
}

static int make_room(struct zr_export_gguf *x, struct zr_error *err)
{
	int64_t most = CHUNK;

	for (int32_t i = 0; i < x->layout->n_tensors; i++)
		if (unit_of(x, i) > most)
			most = unit_of(x, i);
	x->values = malloc((size_t)most * 2 * sizeof *x->values);
	x->encoded = malloc((size_t)CHUNK * sizeof *x->values);
	if (x->values && x->encoded)
		return 0;
	return zr_no_memory(err);
}

static void release(struct zr_export_gguf *x)
{
	for (int i = 0; i < 2; i++)
		free(x->factors[i].value);
	zr_gguf_keys_free(&x->keys);
	zr_gguf_shape_free(&x->shape);
	free(x->tensor);
	free(x->values);
	free(x->encoded);
	free(x->path);
	free(x);
}

int zr_export_gguf_open(const char *path, const struct zr_layout *layout, const json_t *meta,
			const json_t *config, const struct zr_export_gguf_how *how,
			struct zr_export_gguf **out, struct zr_error *err)
{
	struct zr_export_gguf *x = calloc(1, sizeof *x);
	if (!x)
		return zr_no_memory(err);

	x->layout = layout;
	x->path = strdup(path);
	int rc = x->path ? 0 : zr_no_memory(err);
	if (!rc)
		rc = put_keys(x, meta, config, how, err);
	if (!rc)
		rc = list_tensors(x, how->type, err);
	if (!rc)
		rc = make_room(x, err);
	if (!rc)
		rc = zr_gguf_create(&x->w, path, &x->keys, x->tensor,
				    x->n_factors + layout->n_tensors, err);
	if (rc) {
		release(x);
		return rc;
	}

	for (int i = 0; i < x->n_factors; i++) {
		zr_gguf_append(&x->w, x->factors[i].value, (size_t)x->factors[i].n * sizeof(float));
		zr_gguf_pad(&x->w);
	}

	*out = x;
	return 0;
}

int zr_export_gguf_done(struct zr_export_gguf *x, int keep, int64_t *infinite, struct zr_error *err)
{
	if (keep && !x->failed.code && x->at < x->layout->n_tensors)
		zr_err(&x->failed, ZR_EINTERNAL, "%s: values are missing", x->path);

	int rc = zr_gguf_finish(&x->w, keep && !x->failed.code, err);
	if (!rc && x->failed.code)
		rc = zr_err(err, x->failed.code, "%s", x->failed.text);
	*infinite = x->infinite;
	release(x);
	return rc;
}
