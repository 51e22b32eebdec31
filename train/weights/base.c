/* SPDX-License-Identifier: Apache-2.0
 *
 * base.c - see base.h.
 */
#include "train/weights/base.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "train/weights/export.h"

#define WINDOW (128 * ZR_BLOCK) /* elements */

int zr_base_open(struct zr_base *b, struct zr_error *err)
{
	b->values = malloc(WINDOW * sizeof *b->values);
	b->codes = malloc(WINDOW * sizeof *b->values);
	b->hash = XXH3_createState();
	b->n = 0;
	if (b->values && b->codes && b->hash)
		return 0;
	return zr_no_memory(err);
}

void zr_base_close(struct zr_base *b)
{
	free(b->values);
	free(b->codes);
	XXH3_freeState(b->hash);
	*b = (struct zr_base){ 0 };
}

static int is_stored(const struct zr_base *b, int32_t tensor)
{
	return b->kept && b->kept->facts.frozen[tensor] > 1;
}

static int cast(const struct zr_base *b, int32_t from, const void *src, int32_t to, void *dst,
		struct zr_error *err)
{
	const struct zr_ops *ops = b->kept->roles.host_ops;
	const struct zr_op_cast op = { .size = sizeof op,
				       .n = (b->n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK,
				       .src = zr_array_at(from, src),
				       .dst = zr_array_at(to, dst) };
	int rc = ops->cast(ops, NULL, &op);

	if (rc)
		return zr_err(err, rc, "%s: cannot be brought into the type that it was stored in",
			      b->layout->tensor[b->tensor].decl->name);
	return 0;
}

/* Values to codes and back. */
static int store(const struct zr_base *b, struct zr_error *err)
{
	const int32_t type = b->kept->facts.stored;
	const int64_t padded = (b->n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK;

	memset(b->values + b->n, 0, (size_t)(padded - b->n) * sizeof *b->values);
	int rc = cast(b, ZR_F32, b->values, type, b->codes, err);
	if (rc)
		return rc;
	return cast(b, type, b->codes, ZR_F32, b->values, err);
}

static void round_all(const struct zr_base *b)
{
	for (int64_t i = 0; i < b->n; i++)
		b->values[i] = zr_export_rounded(b->dtype, b->values[i]);
}

static int read_window(struct zr_base *b, int32_t tensor, int64_t at, struct zr_error *err)
{
	const int64_t left = b->layout->tensor[tensor].elements - at;
	const int64_t n = left < WINDOW ? left : WINDOW;

	b->n = 0;
	int rc = b->fn(b->arg, tensor, at, n, b->values, err);
	b->tensor = tensor;
	b->at = at;
	b->n = rc ? 0 : n;
	if (!rc && is_stored(b, tensor))
		rc = store(b, err);
	else
		round_all(b);
	if (!at)
		XXH3_64bits_reset(b->hash);
	XXH3_64bits_update(b->hash, b->values, (size_t)b->n * sizeof *b->values);
	round_all(b); /* codes become what is computed in */
	b->n = rc ? 0 : b->n;
	return rc;
}

int zr_base_read(void *base, int32_t tensor, int64_t first, int64_t n, float *x,
		 struct zr_error *err)
{
	struct zr_base *b = base;
	int rc = 0;

	while (!rc && n) {
		if (b->tensor != tensor || first < b->at || first >= b->at + b->n)
			rc = read_window(b, tensor, first / WINDOW * WINDOW, err);
		if (rc)
			break;

		const int64_t from = first - b->at, now = n < b->n - from ? n : b->n - from;
		memcpy(x, b->values + from, (size_t)now * sizeof *x);
		x += now;
		first += now;
		n -= now;
	}

	return rc;
}

int zr_base_changed(const char *checkpoint, const char *tensor, const char *base,
		    struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s, which the checkpoint leaves out, is not what it was in %s",
		      checkpoint, tensor, base);
}

uint64_t zr_base_hash(const struct zr_base *b)
{
	return XXH3_64bits_digest(b->hash);
}
