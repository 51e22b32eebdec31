/* SPDX-License-Identifier: Apache-2.0
 *
 * soap.c - SOAP (Vyas et al. 2024): Adam in the eigenbases of averages of G G' and G' G, which a
 * step of orthogonal iteration brings up to date; the first update makes the bases alone. Vectors,
 * and sides beyond max_precond_dim, have none.
 *   cc -O2 -shared -fPIC $(pkg-config --cflags zeroth-plugin) -o soap.so soap.c
 */
#include <zeroth/matrices.h>

struct soap {
	double lr, betas[2], shampoo_beta, eps, weight_decay;
	int64_t precondition_frequency, max_precond_dim;
};

#define WHOLE(f, flags, def, doc) ZR_OPT(struct soap, f, ZR_T_I64, flags, def, 1, ZR_HI, "", doc)
static const struct zr_opt options[] = {
	ZR_OPT_LR(struct soap, "3e-3"),
	ZR_OPT(struct soap, betas, ZR_T_F64S, ZR_O_PER_GROUP, "0.95, 0.95", 0, 1, "",
	       "Decay of both averages of Adam per step."),
	ZR_OPT_REAL(struct soap, shampoo_beta, "0.95", "Decay of the averages of G G' and G' G."),
	ZR_OPT_REAL(struct soap, eps, "1e-8", "Added to the root."),
	ZR_OPT_REAL(struct soap, weight_decay, "0.01", "Share, times lr, that a step takes away."),
	WHOLE(precondition_frequency, ZR_O_PER_GROUP, "10", "Updates from basis to basis."),
	WHOLE(max_precond_dim, ZR_O_NUMERIC, "10000", "Longest side that has a basis."),
};

enum { M, V, BASES };
static const struct zr_state states[] = { { "exp_avg", ZR_F32, 0, 0 },
					  { "exp_avg_sq", ZR_F32, 0, 0 },
					  { "bases", 0, 0, 0 } };

static uint64_t bytes_by_shape(const struct soap *o, const int64_t *dims, int32_t ndim)
{
	return zr_sides_bytes(dims, ndim, o->max_precond_dim);
}

static uint64_t work_bytes(const struct soap *o, const int64_t *dims, int32_t ndim)
{
	return zr_sides_work(dims, ndim, o->max_precond_dim);
}

/* Update t of Adam; both averages are those of the gradient in the bases. */
static void adam(const struct soap *o, const struct zr_opt_step *s, const struct zr_sides *d,
		 int64_t t)
{
	const double b1 = o->betas[0], b2 = o->betas[1];
	const double fix = zr_sqrt64(1 - zr_power(b2, t)) / (1 - zr_power(b1, t));
	const float rate = (float)(s->lr * fix), keep = (float)(1 - s->lr * o->weight_decay);
	float *p = s->master.data, *m = s->state[M].data, *v = s->state[V].data, *x = d->x;

	zr_sides_turn(s, d, x, 0);
	for (int64_t i = 0; i < d->rows * d->cols; i++) {
		m[i] = (float)b1 * m[i] + (float)(1 - b1) * x[i];
		v[i] = (float)b2 * v[i] + (float)(1 - b2) * (x[i] * x[i]);
		x[i] = m[i] / (zr_sqrt(v[i]) + (float)o->eps);
	}
	zr_sides_turn(s, d, x, 1);
	for (int64_t i = 0; i < d->rows * d->cols; i++)
		p[i] = (p[i] - rate * x[i]) * keep;
}

static int update(const struct soap *o, const struct zr_opt_step *s)
{
	const struct zr_sides d = zr_sides_open(s, BASES, o->max_precond_dim);
	if (s->step > 1)
		adam(o, s, &d, s->step - 1);

	zr_sides_average(s, &d, o->shampoo_beta);
	if (s->step == 1)
		return zr_sides_eigenvectors(s, &d);
	if ((s->step - 1) % o->precondition_frequency)
		return ZR_OK;
	zr_sides_turn(s, &d, s->state[M].data, 1);
	const int rc = zr_sides_iterate(s, &d, s->state[V].data);
	zr_sides_turn(s, &d, s->state[M].data, 0);
	return rc;
}
ZR_WHOLE_OPTIMIZER(struct soap, .id = "soap", .version = "1", .license = "Apache-2.0",
		   .summary = "SOAP.");
