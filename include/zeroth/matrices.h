/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/matrices.h - STABLE, since minor 5. What an optimizer of whole matrices is made of:
 * products and orthogonal bases, which the host's device computes on its threads, and what a plugin
 * has around its update.
 *
 * Matrices are of fp32, row by row without gaps, in memory that the processor reaches. Each result
 * is the same bits whatever the number of threads. Products may differ between instruction sets, as
 * those of models do; bases do not: their sums are of doubles in an order that follows from n.
 */
#ifndef ZEROTH_MATRICES_H
#define ZEROTH_MATRICES_H

#include <zeroth/elementwise.h>
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 5

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_TRANSPOSE_A 1u /* a is [k, m] */
#define ZR_TRANSPOSE_B 2u /* b is [n, k] */

/* zr_opt_step.matrices. GROWABLE. */
struct zr_matrices {
	uint32_t size, rsv;
	/* [step] d[m, n] = a[m, k] b[k, n]; d overlaps neither, all of m, n and k are above 0. */
	void (*product)(const struct zr_opt_step *, uint32_t flags, int64_t m, int64_t n, int64_t k,
			const float *a, const float *b, float *d);
	/* [step] a[n, n] becomes Q of a = QR, an orthogonal matrix whatever the rank of a, by
	 * Householder's reflections (Golub and Van Loan, Matrix Computations, 5.2); the signs of
	 * its columns are those of LAPACK. work: ZR_BASIS_WORK(n) bytes, 8-byte aligned. ZR_OK, or
	 * a code with a text: a is not finite. */
	int (*orthogonal)(const struct zr_opt_step *, int64_t n, float *a, void *work);
	/* [step] The columns of q[n, n] become eigenvectors of a[n, n], which is symmetric, by
	 * falling eigenvalues: those of a tridiagonal matrix by implicit QL steps (8.3 there). A
	 * multiple eigenvalue has any basis of its space. Work and errors as above. */
	int (*eigenvectors)(const struct zr_opt_step *, int64_t n, const float *a, float *q,
			    void *work);
};
#define ZR_BASIS_WORK(n) ((uint64_t)(n) * (uint64_t)(n)*8 + (uint64_t)(n)*64)

/* Bytes per block of a state that has `bytes` for a parameter of this shape. */
static inline uint32_t zr_block_share(uint64_t bytes, const int64_t *dims, int32_t ndim)
{
	uint64_t n = 1, blocks;
	for (int32_t i = 0; i < ndim; i++)
		n *= (uint64_t)dims[i];
	blocks = (n + ZR_BLOCK - 1) / ZR_BLOCK;
	bytes = ((bytes + blocks - 1) / blocks + 63) / 64 * 64;
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* ---- both sides of a matrix ------------------------------------------------------
 * Shampoo, SOAP and their like keep of a matrix G[rows, cols], a gradient, averages of G G' and
 * G' G, and bases that follow from them. A side longer than `most` has neither, and counts as the
 * identity; so do both of a vector, of one column. Parameters of more dimensions are refused. */
struct zr_sides {
	int64_t rows, cols;
	int64_t n[2];      /* rows, cols; 0: that side has nothing */
	float *average[2]; /* [n, n] */
	float *basis[2];   /* [n, n], its vectors are columns */
	float *g, *x, *t;  /* [rows, cols] the gradient, unscaled and clipped; its copy; work */
	void *work;        /* ZR_BASIS_WORK() */
};

static inline int64_t zr_side(const int64_t *dims, int32_t ndim, int64_t most, int k)
{
	return ndim == 2 && dims[k] <= most ? dims[k] : 0;
}

/* Bytes of the averages and bases: a state by shape. */
static inline uint64_t zr_sides_bytes(const int64_t *dims, int32_t ndim, int64_t most)
{
	const int64_t m = zr_side(dims, ndim, most, 0), n = zr_side(dims, ndim, most, 1);
	return (uint64_t)(m * m + n * n) * 2 * sizeof(float);
}

static inline int64_t zr_sides_room(int64_t elements, int64_t longest)
{
	const int64_t n = elements > longest * longest ? elements : longest * longest;
	return (n + 15) / 16 * 16;
}

/* Bytes of work memory. */
static inline uint64_t zr_sides_work(const int64_t *dims, int32_t ndim, int64_t most)
{
	const int64_t m = zr_side(dims, ndim, most, 0), n = zr_side(dims, ndim, most, 1);
	const int64_t longest = m > n ? m : n;
	if (ndim > 2)
		return ZR_WORK_REFUSED;
	return (uint64_t)zr_sides_room(dims[0] * (ndim == 2 ? dims[1] : 1), longest) * 12 +
	       ZR_BASIS_WORK(longest);
}

/* Those of a step's parameter: kept in state `i`. g and x become its gradient. */
static inline struct zr_sides zr_sides_open(const struct zr_opt_step *s, uint32_t i, int64_t most)
{
	const struct zr_seg *seg = ZR_SEG(s, 0);
	const int64_t m = zr_side(seg->dims, seg->ndim, most, 0);
	const int64_t n = zr_side(seg->dims, seg->ndim, most, 1);
	const int64_t room = zr_sides_room(seg->n, m > n ? m : n);
	float *kept = (float *)s->state[i].data, *work = (float *)s->work;
	const float *grad = (const float *)s->grad.data;
	struct zr_sides d = { seg->dims[0],   seg->n / seg->dims[0], { m, n },
			      { NULL, NULL }, { NULL, NULL },        work,
			      work + room,    work + 2 * room,       work + 3 * room };
	for (int k = 0; k < 2; k++) {
		const int64_t square = d.n[k] * d.n[k];
		if (!square)
			continue;
		d.average[k] = kept;
		d.basis[k] = kept + square;
		kept += 2 * square;
	}
	for (int64_t e = 0; e < seg->n; e++)
		d.g[e] = d.x[e] = grad[e] * (float)s->grad_mult;
	return d;
}

/* x[rows, cols] becomes Q' x Q with the bases Q of both sides; back, Q x Q'. */
static inline void zr_sides_turn(const struct zr_opt_step *s, const struct zr_sides *d, float *x,
				 int back)
{
	const uint32_t left = back ? 0 : ZR_TRANSPOSE_A, right = back ? ZR_TRANSPOSE_B : 0;
	const int64_t m = d->rows, n = d->cols;
	for (int k = 0; k < 2; k++) {
		if (!d->n[k])
			continue;
		if (k)
			s->matrices->product(s, right, m, n, n, x, d->basis[1], d->t);
		else
			s->matrices->product(s, left, m, n, m, d->basis[0], x, d->t);
		memcpy(x, d->t, (size_t)(m * n) * sizeof *x);
	}
}

/* The averages: keep of themselves, and 1 - keep of G G' and G' G. */
static inline void zr_sides_average(const struct zr_opt_step *s, const struct zr_sides *d,
				    double keep)
{
	const float old = (float)keep, share = (float)(1 - keep);
	for (int k = 0; k < 2; k++) {
		const uint32_t flags = k ? ZR_TRANSPOSE_A : ZR_TRANSPOSE_B;
		const int64_t n = d->n[k], other = k ? d->rows : d->cols;
		if (!n)
			continue;
		s->matrices->product(s, flags, n, n, other, d->g, d->g, d->t);
		for (int64_t i = 0; i < n * n; i++)
			d->average[k][i] = old * d->average[k][i] + share * d->t[i];
	}
}

/* The bases become eigenvectors of the averages. */
static inline int zr_sides_eigenvectors(const struct zr_opt_step *s, const struct zr_sides *d)
{
	int rc = ZR_OK;
	for (int k = 0; k < 2 && !rc; k++)
		if (d->n[k])
			rc = s->matrices->eigenvectors(s, d->n[k], d->average[k], d->basis[k],
						       d->work);
	return rc;
}

/* place[i] of n values: how many are larger, or equal and before it; of no number some place. */
static inline void zr_places_falling(int64_t n, const double *value, int64_t *place)
{
	for (int64_t i = 0; i < n; i++) {
		place[i] = 0;
		for (int64_t k = 0; k < n; k++)
			place[i] += value[k] > value[i] || (value[k] == value[i] && k < i);
	}
}

/* A step of orthogonal iteration: each basis Q becomes the orthogonal factor of A Q, A its average,
 * its columns by falling q' A q first. Rows and columns of v[rows, cols] go where those go. */
static inline int zr_sides_iterate(const struct zr_opt_step *s, const struct zr_sides *d, float *v)
{
	double *value = (double *)d->work;
	int rc = ZR_OK;
	for (int k = 0; k < 2 && !rc; k++) {
		const int64_t n = d->n[k];
		int64_t *place = (int64_t *)(void *)(value + n);
		float *q = d->basis[k];
		if (!n)
			continue;
		s->matrices->product(s, 0, n, n, n, d->average[k], q, d->t);
		for (int64_t i = 0; i < n; i++)
			value[i] = 0;
		for (int64_t i = 0; i < n * n; i++)
			value[i % n] += (double)q[i] * (double)d->t[i];
		zr_places_falling(n, value, place);
		for (int64_t i = 0; i < n * n; i++)
			q[i / n * n + place[i % n]] = d->t[i];
		memcpy(d->t, v, (size_t)(d->rows * d->cols) * sizeof *v);
		for (int64_t i = 0; i < d->rows * d->cols; i++) {
			const int64_t r = i / d->cols, c = i % d->cols;
			v[k ? r * d->cols + place[c] : place[r] * d->cols + c] = d->t[i];
		}
		rc = s->matrices->orthogonal(s, n, q, d->work);
	}
	return rc;
}

/* ---- the plugin around it -------------------------------------------------------- */

struct zr_whole_inst {
	const struct zr_host *h;
	const void *opts; /* of [optimizer], or the first group of this plugin */
};

/* ZR_WHOLE_OPTIMIZER(S, .id = "...", .version, .license, .summary, ...), in C, comes behind
 *   struct S, options[]  as with zeroth/elementwise.h
 *   states[]             struct zr_state, at least one; those with neither type nor bytes are by
 *                        shape
 *   bytes_by_shape()     uint64_t bytes_by_shape(const struct S *o, const int64_t *dims, int32_t
 *                        ndim): of each of those for a parameter of this shape
 *   work_bytes()         uint64_t work_bytes(const struct S *o, const int64_t *dims, int32_t ndim),
 *                        as whole_work() there
 *   update()             int update(const struct S *o, const struct zr_opt_step *s), step_whole()
 *                        of a parameter that work_bytes() did not refuse; s->matrices is there
 * To update() o are the options of the parameter's group, to the others those of the instance: an
 * option that they read has no ZR_O_GROUP. */
#define ZR_WHOLE_OPTIMIZER(S, ...)                                                                 \
	struct zr_inst {                                                                           \
		struct zr_whole_inst w;                                                            \
	};                                                                                         \
	static int zr_whole_create_(const struct zr_host *h, const void *opts,                     \
				    struct zr_inst **out)                                          \
	{                                                                                          \
		*out = (struct zr_inst *)calloc(1, sizeof **out);                                  \
		if (!*out)                                                                         \
			return zr_fail(h, ZR_ENOMEM, "no memory");                                 \
		(*out)->w = (struct zr_whole_inst){ h, opts };                                     \
		return ZR_OK;                                                                      \
	}                                                                                          \
	static void zr_whole_destroy_(struct zr_inst *inst)                                        \
	{                                                                                          \
		free(inst);                                                                        \
	}                                                                                          \
	static const struct zr_state *zr_whole_states_(struct zr_inst *inst, uint32_t *n)          \
	{                                                                                          \
		(void)inst;                                                                        \
		*n = sizeof states / sizeof *states;                                               \
		return states;                                                                     \
	}                                                                                          \
	static int zr_whole_sub_group_(struct zr_inst *inst, const struct zr_opt_step *s)          \
	{                                                                                          \
		(void)s;                                                                           \
		return zr_fail(inst->w.h, ZR_ESTATE, "it updates whole parameters");               \
	}                                                                                          \
	static int zr_whole_step_(struct zr_inst *inst, const struct zr_opt_step *s)               \
	{                                                                                          \
		if (!ZR_HAS(s, struct zr_opt_step, matrices) || !s->matrices)                      \
			return zr_fail(inst->w.h, ZR_ENOTSUP,                                      \
				       "this host and device lend no products of matrices");       \
		return update((const S *)s->opts, s);                                              \
	}                                                                                          \
	static uint64_t zr_whole_work_(struct zr_inst *inst, const int64_t *dims, int32_t ndim)    \
	{                                                                                          \
		return work_bytes((const S *)inst->w.opts, dims, ndim);                            \
	}                                                                                          \
	static uint32_t zr_whole_block_(struct zr_inst *inst, uint32_t i, const int64_t *dims,     \
					int32_t ndim)                                              \
	{                                                                                          \
		(void)i;                                                                           \
		return zr_block_share(bytes_by_shape((const S *)inst->w.opts, dims, ndim), dims,   \
				      ndim);                                                       \
	}                                                                                          \
	static const struct zr_optimizer_v1 zr_whole_vtbl_ = {                                     \
		.size = sizeof zr_whole_vtbl_,                                                     \
		.caps = ZR_OPT_WHOLE,                                                              \
		.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,                                             \
		.state_version = 1,                                                                \
		.state_stride = sizeof(struct zr_state),                                           \
		.states = zr_whole_states_,                                                        \
		.step = zr_whole_sub_group_,                                                       \
		.step_whole = zr_whole_step_,                                                      \
		.whole_work = zr_whole_work_,                                                      \
		.block_bytes = zr_whole_block_                                                     \
	};                                                                                         \
	static const struct zr_iface zr_whole_ifaces_[] = { { "zr.optimizer/1", &zr_whole_vtbl_ }, \
							    { NULL, NULL } };                      \
	static const struct zr_desc zr_whole_desc_ = { .size = sizeof zr_whole_desc_,              \
						       .role = "optimizer",                        \
						       .ifaces = zr_whole_ifaces_,                 \
						       .opts = options,                            \
						       .n_opts = sizeof options / sizeof *options, \
						       .opt_stride = sizeof *options,              \
						       .opts_size = sizeof(S),                     \
						       .create = zr_whole_create_,                 \
						       .destroy = zr_whole_destroy_,               \
						       __VA_ARGS__ };                              \
	ZR_PLUGIN_NEED(5, &zr_whole_desc_)

#ifdef __cplusplus
}
#endif
#endif
