/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise.c - updates by a plugin's own function of one element: its text is compiled when it
 * is first used, once for each types of states and copy, and launched for each segment.
 */
#include "cuda.h"

#include <elementwise_args.h>
#include <elementwise.h>

#include <stdlib.h>
#include <string.h>

#include "elementwise_source.h"
#include "nvrtc.h"

#define MOST_BLOCKS 2048 /* fills any device several times, then each thread loops */

/* A text on states of these types, compiled. */
struct cuda_update {
	struct cuda_update *next;
	const char *text; /* the plugin's: it is never unloaded */
	int32_t types[ZR_ELEMENTWISE_STATES], lowp;
	uint32_t roots;
	cudaLibrary_t library;
	cudaKernel_t update, measure; /* measure: NULL without sums */
};

static void drop_first(struct zr_inst *d)
{
	struct cuda_update *u = d->updates;
	d->updates = u->next;
	if (u->library)
		cuda_gave_back(d, cudaLibraryUnload(u->library), "unloading an update");
	free(u);
}

void cuda_elementwise_end(struct zr_inst *d)
{
	while (d->updates)
		drop_first(d);
}

/* ---- compiling ------------------------------------------------------------------- */

static int load(struct zr_inst *d, struct cuda_update *u, const struct zr_elementwise *e,
		const void *code)
{
	int rc = cuda_result(d,
			     cudaLibraryLoadData(&u->library, code, NULL, NULL, 0, NULL, NULL, 0),
			     "loading an update");
	if (!rc)
		rc = cuda_result(d, cudaLibraryGetKernel(&u->update, u->library, "zr_ew_update"),
				 "finding an update");
	if (!rc && e->n_sum)
		rc = cuda_result(d, cudaLibraryGetKernel(&u->measure, u->library, "zr_ew_measure"),
				 "finding the sums of an update");
	return rc;
}

static int compile(struct zr_inst *d, struct cuda_update *u, const struct zr_elementwise *e)
{
	int length = cuda_elementwise_source(e, u->types, u->lowp, NULL, 0), rc;
	char *source = NULL;
	size_t bytes;
	void *code = NULL;
	if (length >= 0)
		source = malloc((size_t)length + 1);
	if (!source)
		return zr_fail(d->h, ZR_ENOMEM, "optimizer %s: no memory for its source", e->name);

	cuda_elementwise_source(e, u->types, u->lowp, source, (size_t)length + 1);
	rc = cuda_compile(d->h, e->name, source, d->capability, &code, &bytes);
	if (!rc)
		rc = load(d, u, e, code);
	free(code);
	free(source);
	return rc;
}

static int same(const struct cuda_update *a, const struct cuda_update *b)
{
	return a->text == b->text && a->lowp == b->lowp && a->roots == b->roots &&
	       !memcmp(a->types, b->types, sizeof a->types);
}

static int find(struct zr_inst *d, const struct zr_opt_step *s, const struct zr_elementwise *e,
		const struct cuda_update **out)
{
	struct cuda_update key = { .text = e->text, .roots = e->roots };
	struct cuda_update *u = d->updates;
	int rc = ZR_OK;
	if (s->lowp.data)
		key.lowp = s->lowp.dtype;
	for (uint32_t i = 0; i < e->n_state; i++)
		key.types[i] = s->state[i].dtype;
	while (u && !same(u, &key))
		u = u->next;
	if (!u) {
		u = malloc(sizeof *u);
		if (!u)
			return zr_fail(d->h, ZR_ENOMEM, "optimizer %s: no memory", e->name);

		*u = key;
		u->next = d->updates;
		d->updates = u;
		rc = compile(d, u, e);
	}

	if (rc)
		drop_first(d);
	else
		*out = u;
	return rc;
}

/* ---- launching ------------------------------------------------------------------- */

static int launch(struct zr_inst *d, cudaKernel_t kernel, int64_t blocks, struct zr_ew_args *a,
		  const char *name)
{
	cudaLaunchConfig_t how = {
		.gridDim = { (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1 },
		.blockDim = { ZR_EW_THREADS, 1, 1 },
		.stream = d->stream,
	};
	void *args[] = { a };
	d->last = name;
	return cuda_result(d, cudaLaunchKernelExC(&how, (const void *)kernel, args), name);
}

static char *state_at(const struct zr_buf *b, int64_t off)
{
	if (!b->dtype)
		return (char *)b->data + off / ZR_BLOCK * ZR_STATE8_BYTES;
	return (char *)b->data + zr_bytes_of(b->dtype, off);
}

static int aligned(const void *p)
{
	return (uintptr_t)p % 16 == 0;
}

/* The argument for buffers from element `off` on. */
static struct zr_ew_args args_at(const struct zr_opt_step *s, const struct zr_elementwise *e,
				 int64_t off)
{
	const int64_t width = s->lowp.dtype == ZR_F32 ? 4 : 2;
	struct zr_ew_args a = { .grad = (const float *)s->grad.data + off,
				.master = (float *)s->master.data + off,
				.mult = (float)s->grad_mult,
				.seed = s->seed,
				.step = (uint64_t)s->step };
	a.whole = aligned(a.grad) && aligned(a.master);
	if (s->lowp.data) {
		a.lowp = (char *)s->lowp.data + off * width;
		a.whole = a.whole && aligned(a.lowp);
	}
	for (uint32_t i = 0; i < e->n_state; i++) {
		a.state[i] = state_at(&s->state[i], off);
		a.whole = a.whole && (!s->state[i].dtype || aligned(a.state[i]));
	}
	memcpy(a.k, e->k, e->n_const * sizeof *a.k);
	return a;
}

static int update(struct zr_inst *d, const struct zr_opt_step *s, const struct zr_elementwise *e,
		  const struct cuda_update *u)
{
	int rc = ZR_OK;
	for (uint64_t i = 0; i < s->n_seg && !rc; i++) {
		const struct zr_seg *seg = ZR_SEG(s, i);
		struct zr_ew_args a = args_at(s, e, seg->off);
		a.n = seg->n;
		a.first = seg->param_off;
		a.param = (uint32_t)seg->param;
		a.total = NULL;
		if (e->n_sum)
			a.total = s->partials + i * e->n_sum;
		rc = launch(d, u->update, (seg->n + 4 * ZR_EW_THREADS - 1) / (4 * ZR_EW_THREADS),
			    &a, e->name);
	}
	return rc;
}

static int measure(struct zr_inst *d, const struct zr_opt_step *s, const struct zr_elementwise *e,
		   const struct cuda_update *u)
{
	const int64_t per_block = ZR_EW_THREADS / 16;
	int rc = ZR_OK;
	for (uint64_t i = 0; i < s->n_seg && !rc; i += ZR_EW_SEGMENTS) {
		struct zr_ew_args a = args_at(s, e, 0);
		a.sums = e->sums + i * e->n_sum;
		for (; a.n_seg < ZR_EW_SEGMENTS && i + a.n_seg < s->n_seg; a.n_seg++) {
			a.off[a.n_seg] = ZR_SEG(s, i + a.n_seg)->off;
			a.count[a.n_seg] = (int32_t)ZR_SEG(s, i + a.n_seg)->n;
		}
		rc = launch(d, u->measure, ((int64_t)a.n_seg + per_block - 1) / per_block, &a,
			    e->name);
	}
	return rc;
}

int cuda_elementwise(const struct zr_opt_step *s, const struct zr_elementwise *e)
{
	struct zr_inst *d =
		(struct zr_inst *)((char *)(uintptr_t)s->native - offsetof(struct zr_inst, native));
	const struct cuda_update *u = NULL;
	int rc = zr_check_elementwise(d->h, s, e);
	if (!rc)
		rc = find(d, s, e, &u);
	if (rc)
		return rc;
	if (e->sums)
		return measure(d, s, e, u);
	return update(d, s, e, u);
}
