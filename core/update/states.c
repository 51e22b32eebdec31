/* SPDX-License-Identifier: Apache-2.0
 *
 * states.c - the table of states that an optimizer declares. Entries of a checkpoint are called
 * TENSOR/STATE@FIRST, those of the parameters themselves TENSOR/master@FIRST.
 */
#include "core/update/optimizers.h"

#include <math.h>
#include <string.h>

#include "core/base/dtype.h"

#define LONGEST_NAME 128 /* checkpoints read names of that length back */

int zr_is_state_name(const char *name)
{
	const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = 0;
	if (name)
		n = strspn(name, letters);
	return n && n <= LONGEST_NAME && !name[n];
}

/* NULL: it has none. */
static uint32_t (*block_bytes_of(const struct zr_optimizer *o))(struct zr_inst *, uint32_t,
								const int64_t *, int32_t)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	if (ZR_HAS(v, struct zr_optimizer_v1, block_bytes))
		return v->block_bytes;
	return NULL;
}

static int check_flags(const struct zr_optimizer *o, uint32_t i, struct zr_error *err)
{
	const uint32_t flags = zr_state_flags(o, i);
	const uint32_t known = ZR_STATE_FROM_PARAM | ZR_STATE_FOR_EVAL;
	const struct zr_state *st = zr_optimizer_state(o, i);
	if (flags & ~known)
		return zr_err(err, ZR_EINVAL, "\"%s\" has flags 0x%x, this zeroth knows 0x%x",
			      st->name, flags, known);
	if (flags && st->dtype != ZR_F32)
		return zr_err(err, ZR_EINVAL,
			      "\"%s\" has flags 0x%x, which are for states of ZR_F32", st->name,
			      flags);
	if (flags & ZR_STATE_FROM_PARAM && st->init != 0)
		return zr_err(err, ZR_EINVAL,
			      "\"%s\" begins as the parameter, and with %g; expected 0 there",
			      st->name, st->init);
	if (flags & ZR_STATE_FOR_EVAL && zr_eval_state(o) != (int32_t)i)
		return zr_err(err, ZR_EINVAL, "\"%s\" evaluates, and so does another one",
			      st->name);
	return 0;
}

/* Its type, its bytes per block, or that block_bytes() says them. */
static int check_size(const struct zr_optimizer *o, const struct zr_state *st, struct zr_error *err)
{
	const int whole = zr_is_whole(o) && block_bytes_of(o);
	if (zr_is_by_shape(st) && whole)
		return 0;
	if (st->bytes_per_block > ZR_STATE_BLOCK_MOST)
		return zr_err(err, ZR_EINVAL, "\"%s\" has %u bytes per block, at most %d can be",
			      st->name, st->bytes_per_block, ZR_STATE_BLOCK_MOST);
	if (!st->dtype != !st->bytes_per_block &&
	    (!st->dtype || zr_dtype_find(st->dtype, NULL)->trains))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "\"%s\" has type %d and %u bytes per block; expected ZR_F32, ZR_BF16 or "
		      "ZR_F16, or no type and bytes per block, or neither with ZR_OPT_WHOLE and "
		      "block_bytes()",
		      st->name, st->dtype, st->bytes_per_block);
}

static int check_state(const struct zr_optimizer *o, uint32_t i, struct zr_error *err)
{
	const struct zr_state *st = zr_optimizer_state(o, i);
	if (!zr_is_state_name(st->name))
		return zr_err(err, ZR_EINVAL,
			      "its name must have 1 to %d letters, digits, _ - or "
			      ".",
			      LONGEST_NAME);
	if (!strcmp(st->name, "master"))
		return zr_err(err, ZR_EINVAL,
			      "\"master\" is the name of the parameters themselves"
			      "; choose another");

	for (uint32_t k = 0; k < i; k++)
		if (!strcmp(zr_optimizer_state(o, k)->name, st->name))
			return zr_err(err, ZR_EINVAL, "\"%s\" is the name of state %u, too",
				      st->name, k + 1);

	int rc = check_size(o, st, err);
	if (rc)
		return rc;
	if (isfinite(st->init) && (st->init == 0 || st->dtype == ZR_F32))
		return check_flags(o, i, err);
	return zr_err(err, ZR_EINVAL,
		      "\"%s\" begins with %g, expected 0 or, of type ZR_F32, a "
		      "number",
		      st->name, st->init);
}

int zr_states_check(const struct zr_optimizer *o, struct zr_error *err)
{
	const char *path = o->it.section->plugin->path;
	const uint32_t stride = zr_optimizer_calls(o)->state_stride, n = o->n_states;
	/* of minor 0 */
	const size_t align = _Alignof(struct zr_state), least = offsetof(struct zr_state, init) + 8;
	struct zr_error why = { 0 };
	uint32_t i = 0;
	if (n && (!o->states || stride < least || stride % align))
		return zr_err(err, ZR_EINVAL,
			      "plugin %s: a table of %u states at %s with a stride "
			      "of %u bytes, expected at least %zu, a multiple of %zu; mend the "
			      "plugin",
			      path, n, o->states ? "an address" : "NULL", stride, least, align);

	while (i < n && !check_state(o, i, &why))
		i++;
	if (i == n)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "plugin %s: state %u of %u: %s; mend the "
		      "plugin's table",
		      path, i + 1, n, why.text);
}

uint32_t zr_state_bytes(const struct zr_state *st)
{
	if (!st->dtype)
		return st->bytes_per_block;
	return ZR_BLOCK * (uint32_t)zr_dtype_bytes(st->dtype);
}

uint32_t zr_state_bytes_of(const struct zr_optimizer *o, uint32_t i, const struct zr_tensor *t)
{
	const struct zr_state *st = zr_optimizer_state(o, i);
	if (!zr_is_by_shape(st))
		return zr_state_bytes(st);
	return block_bytes_of(o)(o->it.inst, i, t->dims, t->ndim);
}
