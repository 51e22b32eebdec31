/* SPDX-License-Identifier: Apache-2.0
 *
 * cards_ops.c - the operations on a separate memory: each copies its argument struct, turns the
 * addresses that callers see into those of the memory, and calls the operation itself. Addresses of
 * host memory are refused. All but the updates by a function of one element is generated from
 * ops.def.
 */
#include "cards.h"

#include <checks.h>
#include <elementwise.h>

#include <string.h>

static int translate(const struct zr_inst *d, void *op, const uint16_t *at, size_t n,
		     const char *name, const char *members)
{
	size_t i;
	for (i = 0; i < n; i++) {
		void *p, *real;
		memcpy(&p, (char *)op + at[i], sizeof p); /* pointers of any type */
		real = card_real(d, p);
		if (p && real == p)
			return zr_fail(
				d->h, ZR_EINVAL,
				"operation %s: pointer %zu of %s is not to memory of this device, "
				"which is separate",
				name, i + 1, members);

		memcpy((char *)op + at[i], &real, sizeof real);
	}
	return ZR_OK;
}

#define AT(member)    offsetof(T, member)
#define ARRAY(member) AT(member.data), AT(member.scales)
/* of an array of ZR_EXPERTS pointers */
#define FOUR(a, i)    AT(a[i]), AT(a[(i) + 1]), AT(a[(i) + 2]), AT(a[(i) + 3])
#define SIXTEEN(a, i) FOUR(a, i), FOUR(a, (i) + 4), FOUR(a, (i) + 8), FOUR(a, (i) + 12)
#define QUARTER(a, i)                                                                              \
	SIXTEEN(a, i), SIXTEEN(a, (i) + 16), SIXTEEN(a, (i) + 32), SIXTEEN(a, (i) + 48)
#define EACH(a) QUARTER(a, 0), QUARTER(a, 64), QUARTER(a, 128), QUARTER(a, 192)
_Static_assert(ZR_EXPERTS == 256, "EACH");

#define POINTERS(...) __VA_ARGS__

/* Contributions in the memory of others, which a list of the caller names, are added at once. */
static int refers_to_caller(const char *name, const void *op)
{
	return !strcmp(name, "fold") && ((const struct zr_op_fold *)op)->each;
}

#define OPERATION(name, arg, last, pointers, work)                                                 \
	static int run_##name(const struct zr_ops *real, const void *op)                           \
	{                                                                                          \
		return real->name(real, NULL, op);                                                 \
	}                                                                                          \
	static int separate_##name(const struct zr_ops *ops, struct zr_stream *s,                  \
				   const struct zr_op_##arg *given)                                \
	{                                                                                          \
		typedef struct zr_op_##arg T;                                                      \
		static const uint16_t at[] = { POINTERS pointers };                                \
		struct zr_inst *d = ops->dev;                                                      \
		T op = *given;                                                                     \
		(void)s;                                                                           \
		_Static_assert(sizeof op - offsetof(T, last) - sizeof op.last < sizeof(void *),    \
			       "struct zr_op_" #arg                                                \
			       " has grown: list its pointers in ops.def, and its last member");   \
		int rc = translate(d, &op, at, sizeof at / sizeof *at, #name, #pointers);          \
		if (!rc && refers_to_caller(#name, &op))                                           \
			rc = card_graph_none(d, "fold with a list");                               \
		if (!rc && d->graph)                                                               \
			return card_graph_keep(d, run_##name, &op, sizeof op);                     \
		d->alone++;                                                                        \
		if (!rc && d->later && !refers_to_caller(#name, &op))                              \
			return card_enqueue(d, run_##name, &op, sizeof op);                        \
		if (!rc)                                                                           \
			rc = card_run_all(d);                                                      \
		if (rc)                                                                            \
			return rc;                                                                 \
		card_time_passes(d);                                                               \
		return run_##name(d->cpu_ops, &op);                                                \
	}
#define QUERY(name, arg)                                                                           \
	static uint64_t separate_##name(const struct zr_ops *ops, const struct zr_op_##arg *op)    \
	{                                                                                          \
		const struct zr_ops *real = ops->dev->cpu_ops;                                     \
		return real->name(real, op);                                                       \
	}
#include <ops.def>

/* The rows laid out as the slots are. */
struct rows {
	uint32_t size, rsv;
	struct zr_inst *dev;
#define OPERATION(name, arg, last, pointers, work) void (*name)(void);
#define QUERY(name, arg)                           void (*name)(void);
#include <ops.def>
	const struct zr_native *native;
	void (*elementwise)(void);
	const struct zr_matrices *matrices;
};

#define IN_PLACE(name)                                                                             \
	_Static_assert(offsetof(struct rows, name) == offsetof(struct zr_ops, name),               \
		       "ops.def: " #name " is out of order");
#define OPERATION(name, arg, last, pointers, work) IN_PLACE(name)
#define QUERY(name, arg)                           IN_PLACE(name)
#include <ops.def>
_Static_assert(sizeof(struct rows) == sizeof(struct zr_ops),
	       "struct zr_ops has grown: ops.def lacks its new slots");

/* ---- updates by a function of one element ------------------------------------------ */

static int real_buf(const struct zr_inst *d, const struct zr_elementwise *e, const void **p)
{
	const void *real = card_real(d, *p);
	if (*p && real == *p)
		return zr_fail(d->h, ZR_EINVAL,
			       "%s: memory of an elementwise update is not of this device, "
			       "which is separate",
			       e->name);

	*p = real;
	return ZR_OK;
}

static int card_elementwise(const struct zr_opt_step *given, const struct zr_elementwise *e)
{
	struct zr_inst *d =
		(void *)((char *)(uintptr_t)given->native - offsetof(struct zr_inst, native));
	struct zr_buf state[ZR_ELEMENTWISE_STATES];
	struct zr_opt_step s = *given;
	struct zr_elementwise own = { 0 };
	const void **at[ZR_ELEMENTWISE_STATES + 5] = {
		(const void **)&s.master.data, (const void **)&s.grad.data,
		(const void **)&s.lowp.data,   (const void **)&s.partials,
		(const void **)&own.sums,
	};
	uint32_t n = 5;
	int rc = zr_check_elementwise(d->h, given, e);
	if (rc)
		return rc;

	memcpy(&own, e, e->size < sizeof own ? e->size : sizeof own);
	own.size = sizeof own;
	memcpy(state, s.state, s.n_state * sizeof *state);
	s.state = state;
	s.native = d->cpu_ops->native;
	for (uint32_t i = 0; i < s.n_state; i++)
		at[n++] = (const void **)&state[i].data;
	for (uint32_t i = 0; i < n; i++)
		if ((rc = real_buf(d, e, at[i])))
			return rc;

	rc = card_graph_none(d, "elementwise");
	if (!rc)
		rc = card_run_all(d); /* what it refers to is the caller's */
	if (rc)
		return rc;
	card_time_passes(d);
	return d->cpu_ops->elementwise(&s, &own);
}

void card_ops_fill(struct zr_inst *d)
{
	d->native = *d->cpu_ops->native;
	d->native.api = UINT32_MAX; /* none that a plugin knows: the processor reaches nothing */
	d->ops = (struct zr_ops){
		.size = sizeof d->ops,
		.dev = d,
#define OPERATION(name, arg, last, pointers, work) .name = separate_##name,
#define QUERY(name, arg)                           .name = separate_##name,
#include <ops.def>
		.native = &d->native,
		.elementwise = card_elementwise,
	};
}
