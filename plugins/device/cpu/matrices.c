/* SPDX-License-Identifier: Apache-2.0
 *
 * matrices.c - what optimizers of whole matrices are lent (zeroth/matrices.h): products as models
 * have them, and orthogonal bases in double, by reflections of one row or column at a time. A sum
 * has LANES partial sums, of every LANES-th element, whoever computes it.
 */
#include "cpu.h"

#include <math.h>
#include <string.h>
#include <zeroth/matrices.h>

#define LANES   8
#define ROWS    16 /* per item */
#define PANEL   32 /* reflections that a row is reflected by while it is near */
#define COLUMNS 64 /* of vectors that a worker turns, per item */
#define TURNS   64 /* QL steps for an eigenvalue at most; it takes one or two */

static struct zr_inst *device_of(const struct zr_opt_step *s)
{
	return (struct zr_inst *)((char *)(uintptr_t)s->native - offsetof(struct zr_inst, native));
}

/* ---- products ---------------------------------------------------------------------- */

static void product(const struct zr_opt_step *s, uint32_t flags, int64_t m, int64_t n, int64_t k,
		    const float *a, const float *b, float *d)
{
	const int turned_a = (flags & ZR_TRANSPOSE_A) != 0,
		  turned_b = (flags & ZR_TRANSPOSE_B) != 0;
	const struct zr_op_matmul op = {
		.size = sizeof op,
		.flags = (turned_a ? ZR_MM_TRANS_A : 0) | (turned_b ? ZR_MM_TRANS_B : 0),
		.m = m,
		.n = n,
		.k = k,
		.lda = turned_a ? m : k,
		.ldb = turned_b ? k : n,
		.ldd = n,
		.a = zr_array_at(ZR_F32, a),
		.b = zr_array_at(ZR_F32, b),
		.d = zr_array_at(ZR_F32, d),
	};
	cpu_matmul(&device_of(s)->ops, NULL, &op);
}

/* ---- rows of doubles --------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t n)
{
	double sum[LANES] = { 0 }, all = 0;
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int l = 0; l < LANES; l++)
			sum[l] += a[i + l] * b[i + l];
	for (int l = 0; i + l < n; l++)
		sum[l] += a[i + l] * b[i + l];

	for (int l = 0; l < LANES; l++)
		all += sum[l];
	return all;
}

/* x -= f y */
static void subtract(double *restrict x, double f, const double *restrict y, int64_t n)
{
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int l = 0; l < LANES; l++)
			x[i + l] -= f * y[i + l];
	for (; i < n; i++)
		x[i] -= f * y[i];
}

/* ---- reflections ------------------------------------------------------------------- */

/* x becomes v of H = I - factor v v', which takes x to (*first, 0, ...). Returns the factor; 0: H
 * is I. */
static double reflection(double *x, int64_t n, double *first)
{
	const double rest = dot(x + 1, x + 1, n - 1), all = rest + x[0] * x[0];
	const double length = sqrt(all), was = x[0];
	*first = was;
	if (rest == 0)
		return 0;

	*first = was < 0 ? length : -length;
	x[0] = was - *first;
	return 1 / (all + length * fabs(was));
}

/* What workers share of reflections, or of a list of rotations. */
struct rows {
	double *a; /* [n, n] */
	int64_t n, from;
	/* reflections [first, last): that of row k has v from column k on; back: the last one first
	 */
	const double *factor;
	int64_t first, last;
	int back;
	/* of one that acts on rows and columns from `from` on: v, and room for a row */
	const double *v, *w;
	double *p;
	double size;
	const double *turn; /* pairs of a sine and a cosine, for rows [low, high] */
	int64_t low, high;
};

static void each_rows(const struct zr_inst *d, struct rows *r, void (*fn)(void *, int64_t, int32_t))
{
	cpu_parallel(d, cpu_ceil_div(r->n - r->from, ROWS), fn, r);
}

static void reflect_row(const struct rows *r, double *row, int64_t k)
{
	const double *v = r->a + k * r->n + k;
	if (r->factor[k] != 0)
		subtract(row + k, r->factor[k] * dot(row + k, v, r->n - k), v, r->n - k);
}

/* Some rows, each by one reflection after the other, while it is near. */
static void reflect_some(const struct rows *r, int64_t from, int64_t end)
{
	for (int64_t i = from; i < end; i++) {
		double *row = r->a + i * r->n;
		for (int64_t k = r->first; k < r->last && !r->back; k++)
			reflect_row(r, row, k);
		for (int64_t k = r->last - 1; k >= r->first && r->back; k--)
			reflect_row(r, row, k);
	}
}

static void reflect_item(void *arg, int64_t item, int32_t worker)
{
	const struct rows *r = arg;
	const int64_t from = r->from + item * ROWS;
	(void)worker;
	reflect_some(r, from, cpu_min(from + ROWS, r->n));
}

/* Rows [k0, end) get reflections of their own, which act on the rows behind each of them, too. */
static void factor_panel(double *a, int64_t n, int64_t k0, int64_t end, double *factor)
{
	double first;
	for (int64_t k = k0; k < end; k++) {
		const struct rows r = {
			.a = a, .n = n, .factor = factor, .first = k, .last = k + 1
		};
		factor[k] = reflection(a + k * n + k, n - k, &first);
		reflect_some(&r, k + 1, end);
	}
}

/* Row k, which has v from column k on, becomes column k of the reflection. */
static void row_of_reflection(double *a, int64_t n, int64_t k, double factor)
{
	double *row = a + k * n;
	const double first = row[k];
	for (int64_t i = 0; i < k; i++)
		row[i] = 0;
	for (int64_t i = k; i < n; i++)
		row[i] = factor != 0 ? -factor * first * row[i] : 0;
	row[k] += 1;
}

/* Rows, which have reflections that act from their own column on, become rows of the product of
 * all, transposed. */
static void multiply_out(const struct zr_inst *d, double *a, int64_t n, const double *factor)
{
	for (int64_t k0 = (n - 1) / PANEL * PANEL; k0 >= 0; k0 -= PANEL) {
		const int64_t end = cpu_min(k0 + PANEL, n);
		struct rows r = { .a = a,
				  .n = n,
				  .from = end,
				  .factor = factor,
				  .first = k0,
				  .last = end,
				  .back = 1 };
		each_rows(d, &r, reflect_item);
		for (int64_t k = end - 1; k >= k0; k--) {
			r.first = k;
			r.last = k + 1;
			reflect_some(&r, k + 1, end);
			row_of_reflection(a, n, k, factor[k]);
		}
	}
}

static int all_finite(const float *a, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(a[i]))
			return 0;
	return 1;
}

static int not_finite(const struct zr_inst *d, int64_t n)
{
	return zr_fail(d->h, ZR_EINVAL,
		       "a matrix of %lld x %lld has values that are not finite, and no basis",
		       (long long)n, (long long)n);
}

/* ---- the orthogonal factor --------------------------------------------------------- */

/* Columns of `a` are rows of the work memory. */
static int orthogonal(const struct zr_opt_step *s, int64_t n, float *a, void *work)
{
	const struct zr_inst *d = device_of(s);
	double *x = work, *factor = x + n * n;
	if (!all_finite(a, n * n))
		return not_finite(d, n);

	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++)
			x[k * n + i] = (double)a[i * n + k];
	for (int64_t k0 = 0; k0 < n; k0 += PANEL) {
		const int64_t end = cpu_min(k0 + PANEL, n);
		struct rows r = {
			.a = x, .n = n, .from = end, .factor = factor, .first = k0, .last = end
		};
		factor_panel(x, n, k0, end, factor);
		each_rows(d, &r, reflect_item);
	}

	multiply_out(d, x, n, factor);
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < n; k++)
			a[i * n + k] = (float)x[k * n + i];
	return ZR_OK;
}

/* ---- eigenvectors: to a tridiagonal matrix ------------------------------------------- */

/* p = factor A v, of a row each. */
static void times_item(void *arg, int64_t item, int32_t worker)
{
	const struct rows *r = arg;
	const int64_t from = r->from + item * ROWS, n = r->n - r->from;
	(void)worker;
	for (int64_t i = from; i < cpu_min(from + ROWS, r->n); i++)
		r->p[i - r->from] = r->size * dot(r->a + i * r->n + r->from, r->v, n);
}

/* A -= v w' + w v' */
static void update_item(void *arg, int64_t item, int32_t worker)
{
	const struct rows *r = arg;
	const int64_t from = r->from + item * ROWS, n = r->n - r->from;
	(void)worker;
	for (int64_t i = from; i < cpu_min(from + ROWS, r->n); i++) {
		double *row = r->a + i * r->n + r->from;
		subtract(row, r->v[i - r->from], r->w, n);
		subtract(row, r->w[i - r->from], r->v, n);
	}
}

/* Reflects rows and columns from k + 1 on so that row k has but one number beside the diagonal;
 * row k keeps v there. p: room for a row. */
static void reduce(const struct zr_inst *d, double *a, int64_t n, int64_t k, double *p,
		   double *factor, double *beside)
{
	double *v = a + k * n + k + 1;
	const int64_t rest = n - k - 1;
	*factor = reflection(v, rest, beside);
	if (*factor == 0)
		return;

	struct rows r = { .a = a, .n = n, .from = k + 1, .v = v, .w = p, .p = p, .size = *factor };
	each_rows(d, &r, times_item);
	subtract(p, *factor / 2 * dot(p, v, rest), v, rest);
	each_rows(d, &r, update_item);
}

/* Rows of `a` become those of V', where a = V T V'; T has `diagonal`, and beside[i] at (i, i + 1).
 */
static void tridiagonal(const struct zr_inst *d, double *a, int64_t n, double *diagonal,
			double *beside, double *factor, double *p)
{
	for (int64_t k = 0; k + 1 < n; k++)
		reduce(d, a, n, k, p, &factor[k + 1], &beside[k]);
	beside[n - 1] = 0;
	for (int64_t k = 0; k < n; k++)
		diagonal[k] = a[k * n + k];

	/* the reflection of row k acts from column k + 1 on: it moves to that row */
	for (int64_t k = n - 1; k > 0; k--)
		memcpy(a + k * n + k, a + (k - 1) * n + k, (size_t)(n - k) * sizeof *a);
	factor[0] = 0;
	multiply_out(d, a, n, factor);
}

/* ---- eigenvectors: QL steps ---------------------------------------------------------- */

/* Turns rows i and i + 1, from high - 1 down to low, in some columns. */
static void turn_item(void *arg, int64_t item, int32_t worker)
{
	const struct rows *r = arg;
	const int64_t from = item * COLUMNS, n = cpu_min(COLUMNS, r->n - from);
	(void)worker;
	for (int64_t i = r->high - 1; i >= r->low; i--) {
		double *x = r->a + i * r->n + from, *y = x + r->n;
		const double sine = r->turn[2 * i], cosine = r->turn[2 * i + 1];
		for (int64_t k = 0; k < n; k++) {
			const double was = y[k];
			y[k] = sine * x[k] + cosine * was;
			x[k] = cosine * x[k] - sine * was;
		}
	}
}

/* What is as good as 0 beside the largest numbers of a tridiagonal matrix. */
static double negligible(const double *diagonal, const double *beside, int64_t n)
{
	double most = 0;
	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs(diagonal[i]) + fabs(beside[i]));
	return 0x1p-53 * most;
}

/* Where the part of the matrix that begins at `low` ends: the next number beside the diagonal that
 * is as good as 0. */
static int64_t part_end(const double *beside, double least, int64_t low, int64_t n)
{
	int64_t i = low;
	while (i < n - 1 && !(fabs(beside[i]) <= least))
		i++;
	return i;
}

/* A QL step with a shift on [low, high] of the tridiagonal matrix; how it turns rows goes to
 * `turn`. Returns the lowest row that it turned. */
static int64_t ql_step(double *d, double *e, int64_t low, int64_t high, double *turn)
{
	double g = (d[low + 1] - d[low]) / (2 * e[low]), r = sqrt(g * g + 1);
	double sine = 1, cosine = 1, p = 0;
	g = d[high] - d[low] + e[low] / (g + (g < 0 ? -r : r));
	for (int64_t i = high - 1; i >= low; i--) {
		const double f = sine * e[i], b = cosine * e[i];
		r = sqrt(f * f + g * g);
		e[i + 1] = r;
		if (r == 0) { /* the matrix falls apart here */
			d[i + 1] -= p;
			e[high] = 0;
			return i + 1;
		}
		sine = f / r;
		cosine = g / r;
		g = d[i + 1] - p;
		r = (d[i] - g) * sine + 2 * cosine * b;
		p = sine * r;
		d[i + 1] = g + p;
		g = cosine * r - b;
		turn[2 * i] = sine;
		turn[2 * i + 1] = cosine;
	}

	d[low] -= p;
	e[low] = g;
	e[high] = 0;
	return low;
}

/* The diagonal becomes eigenvalues, and rows of `a` their vectors. Returns whether it does. */
static int diagonalize(const struct zr_inst *d, double *a, int64_t n, double *diagonal,
		       double *beside, double *turn)
{
	const double least = negligible(diagonal, beside, n);
	for (int64_t low = 0, high, turns; low < n; low++) {
		turns = 0;
		while ((high = part_end(beside, least, low, n)) > low) {
			struct rows r = { .a = a, .turn = turn, .n = n, .high = high };
			if (turns++ == TURNS)
				return 0;

			r.low = ql_step(diagonal, beside, low, high, turn);
			cpu_parallel(d, cpu_ceil_div(n, COLUMNS), turn_item, &r);
		}
	}
	return 1;
}

static int eigenvectors(const struct zr_opt_step *s, int64_t n, const float *a, float *q,
			void *work)
{
	const struct zr_inst *d = device_of(s);
	double *x = work, *diagonal = x + n * n, *beside = diagonal + n, *factor = beside + n;
	double *turn = factor + n; /* a pair for each row; and a row of the reduction */
	int64_t *place = (int64_t *)(void *)turn;
	if (!all_finite(a, n * n))
		return not_finite(d, n);

	for (int64_t i = 0; i < n * n; i++)
		x[i] = (double)a[i];
	tridiagonal(d, x, n, diagonal, beside, factor, turn);
	if (!diagonalize(d, x, n, diagonal, beside, turn))
		return zr_fail(d->h, ZR_EINTERNAL,
			       "a matrix of %lld x %lld: no eigenvector after %d QL steps",
			       (long long)n, (long long)n, TURNS);

	zr_places_falling(n, diagonal, place);
	for (int64_t k = 0; k < n; k++)
		for (int64_t i = 0; i < n; i++)
			q[i * n + place[k]] = (float)x[k * n + i];
	return ZR_OK;
}

const struct zr_matrices cpu_matrices = { .size = sizeof cpu_matrices,
					  .product = product,
					  .orthogonal = orthogonal,
					  .eigenvectors = eigenvectors };
