/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - tests of models, and of adapters in front of one: the declaration, and gradients by
 * differences of the loss.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/model.h>

#include "cmd/check/check.h"
#include "core/model/declared.h"
#include "core/model/layout.h"

enum { TENSORS = 512, LAYERS = 32, ROWS = 2, LENGTH_MOST = 12 };

struct fixture {
	struct zr_try t;
	struct zr_check *c;
	const struct zr_model_v1 *v;
	const struct zr_ops *ops;
	struct zr_model_decl d;
	const struct zr_tensor *tensor[TENSORS];
	float *param[TENSORS], *grad[TENSORS];
	float *unused[TENSORS];     /* where gradients go that nobody wants */
	float *persistent[TENSORS]; /* its persistent numbers; NULL: it has none */
	int64_t n[TENSORS];
	int got[TENSORS];       /* its gradient has a contribution already */
	int32_t first[TENSORS]; /* of each unit */
	int32_t tensors;
	int has_persistent; /* whether a tensor has persistent numbers */
	int64_t length;
	int32_t tokens[ROWS * LENGTH_MOST], targets[ROWS * LENGTH_MOST];
	struct zr_layer_bytes bytes[LAYERS];
	void *out[LAYERS], *saved[LAYERS], *gradient;
	int unread; /* nobody reads the output of the call */
	float loss[ROWS * LENGTH_MOST];
	double sum[2];
};

static const void *at(const void *base, uint32_t stride, uint32_t i)
{
	return (const char *)base + (size_t)i * stride;
}

static const struct zr_unit *unit_of(const struct fixture *r, uint32_t i)
{
	return at(r->d.units, r->d.unit_stride, i);
}

static const struct zr_layer *layer_of(const struct fixture *r, uint32_t i)
{
	return at(r->d.layers, r->d.layer_stride, i);
}

/* ---- the declaration ------------------------------------------------------------- */

static void take_tensor(struct fixture *r, const struct zr_tensor *t)
{
	const int32_t i = r->tensors++;

	if (i == TENSORS)
		zr_check_skip(r->c, "it has more tensors than this test can hold");
	if (!t->name || !*t->name || t->ndim < 1 || t->ndim > 4)
		zr_check_fail(r->c, "tensor %d has no name, or %d dimensions", i, t->ndim);
	r->tensor[i] = t;
	r->n[i] = 1;
	for (int k = 0; k < t->ndim; k++) {
		if (t->dims[k] < 1)
			zr_check_fail(r->c, "%s has a dimension of %" PRId64, t->name, t->dims[k]);
		r->n[i] *= t->dims[k];
	}

	if (r->n[i] > 1 << 24)
		zr_check_skip(r->c, "its tensors are too large for a test; give smaller options");
	for (int32_t k = 0; k < i; k++)
		if (!strcmp(r->tensor[k]->name, t->name))
			zr_check_fail(r->c, "two tensors are called %s", t->name);
	if (t->init != ZR_INIT_NORMAL && t->init != ZR_INIT_CONST && t->init != ZR_INIT_UNIFORM)
		zr_check_fail(r->c, "init of %s is %d, expected ZR_INIT_*", t->name, t->init);
	if (!isfinite(t->mean) || !isfinite(t->std) || t->std < 0)
		zr_check_fail(r->c, "%s begins with mean %g and deviation %g", t->name, t->mean,
			      t->std);
}

static void look_at_layers(struct fixture *r)
{
	for (uint32_t i = 0; i < r->d.n_layers; i++) {
		const struct zr_layer *l = layer_of(r, i);
		const uint32_t want = (i == 0 ? ZR_LAYER_INPUT : 0) |
				      (i + 1 == r->d.n_layers ? ZR_LAYER_LOSS : 0);
		if ((l->flags & (ZR_LAYER_INPUT | ZR_LAYER_LOSS)) != want)
			zr_check_fail(r->c,
				      "layer %u has flags 0x%x; the first has "
				      "ZR_LAYER_INPUT, the last ZR_LAYER_LOSS, and no other",
				      i, l->flags);
		for (uint32_t k = 0; k < l->n_units; k++)
			if (l->units[k] < 0 || (uint32_t)l->units[k] >= r->d.n_units)
				zr_check_fail(r->c, "layer %u names unit %d of %u", i, l->units[k],
					      r->d.n_units);
	}
}

/* Whoever declares persistent numbers has to write them. */
static void require_renew(const struct fixture *r)
{
	if (!ZR_TENSOR_HAS(&r->d, persistent))
		return;
	if (ZR_HAS(r->v, struct zr_model_v1, renew) && r->v->renew)
		return;

	for (int32_t i = 0; i < r->tensors; i++) {
		if (r->tensor[i]->persistent)
			zr_check_fail(r->c,
				      "%s has persistent numbers, and there is no function renew "
				      "to write them",
				      r->tensor[i]->name);
	}
}

static void open_fixture(struct zr_check *c, struct fixture *r)
{
	const struct zr_model_decl empty = { .size = sizeof empty };

	r->c = c;
	r->v = c->vtbl;
	r->t = (struct zr_try){ .c = c };
	zr_try_open(c, &r->t);
	struct zr_model_decl *lent =
		zr_lend(c, "struct zr_model_decl", &empty, sizeof empty, sizeof empty);
	r->t.code = 0;
	zr_must(&r->t, ZR_CALL(c, ZR_MAIN, "declare", r->v->declare(r->t.inst, lent)));
	r->d = *lent;
	zr_area_free(c, lent);
	if (r->d.n_layers < 2 || !r->d.n_units || r->d.vocabulary < 2 || r->d.context < 1)
		zr_check_fail(c,
			      "%u layers, %u units, a vocabulary of %" PRId64 " and a context "
			      "of %" PRId64,
			      r->d.n_layers, r->d.n_units, r->d.vocabulary, r->d.context);
	if (r->d.unit_stride < sizeof(struct zr_unit) ||
	    r->d.layer_stride < offsetof(struct zr_layer, flags) + sizeof(uint32_t) ||
	    !ZR_TENSOR_HAS(&r->d, experts_per_token))
		zr_check_fail(c, "a stride is smaller than its struct; set all three");
	for (uint32_t u = 0; u < r->d.n_units; u++) {
		r->first[u] = r->tensors;
		for (uint32_t i = 0; i < unit_of(r, u)->n_tensors; i++)
			take_tensor(r, at(unit_of(r, u)->tensors, r->d.tensor_stride, i));
	}

	look_at_layers(r);

	struct zr_error err = { 0 };
	if (zr_declared_check(&r->d, &err))
		zr_check_fail(c, "%s", err.text);
	require_renew(r);
}

void zr_test_declaration(struct zr_check *c)
{
	static struct fixture r;
	open_fixture(c, &r);
	zr_try_close(&r.t);
}

/* ---- layers ---------------------------------------------------------------------- */

static void *room(struct zr_check *c, const char *name, uint64_t bytes)
{
	return bytes ? zr_area_new(c, name, bytes, 64) : NULL;
}

/* The persistent numbers as the model writes them at the beginning of a training. */
static void fill_persistent(struct fixture *r)
{
	for (int32_t i = 0; i < r->tensors && ZR_TENSOR_HAS(&r->d, persistent); i++) {
		const int32_t n = r->tensor[i]->persistent;
		if (!n)
			continue;
		r->persistent[i] =
			zr_area_new(r->c, "the persistent numbers", (uint64_t)n * sizeof(float), 4);
		r->has_persistent = 1;
	}
	if (!r->has_persistent)
		return;

	const struct zr_renewal of = { .size = sizeof of,
				       .n_tensors = r->tensors,
				       .persistent = r->persistent };
	struct zr_renewal *lent = zr_lend(r->c, "struct zr_renewal", &of, sizeof of, sizeof of);
	r->t.code = 0;
	zr_must(&r->t, ZR_CALL(r->c, ZR_STEP, "renew", r->v->renew(r->t.inst, lent)));
	zr_area_free(r->c, lent);
}

static void fill(struct fixture *r)
{
	for (int32_t i = 0; i < r->tensors; i++) {
		const struct zr_tensor *t = r->tensor[i];
		r->param[i] = calloc((size_t)r->n[i], 4);
		r->grad[i] = calloc((size_t)r->n[i], 4);
		r->unused[i] = calloc((size_t)r->n[i], 4);
		if (!r->param[i] || !r->grad[i] || !r->unused[i])
			zr_check_lacks(r->c, "memory");
		/* near what it declares, and nowhere all alike; which experts a token has should
		 * matter to the loss */
		const float wider = t->experts_per_token ? 12 : 1.7f;
		const float spread = t->init == ZR_INIT_CONST ? 0.05f : (float)t->std * wider;
		zr_fill_random(r->param[i], r->n[i], (uint64_t)i + 1 + 1000 * r->c->seed, spread);
		for (int64_t k = 0; k < r->n[i]; k++)
			r->param[i][k] += (float)t->mean;
	}
	fill_persistent(r);

	for (int i = 0; i < ROWS * r->length; i++) {
		r->tokens[i] = (int32_t)((i * 7 + 3) % r->d.vocabulary);
		r->targets[i] = (int32_t)((i * 7 + 10) % r->d.vocabulary);
	}
}

static void size_layer(struct fixture *r, uint32_t i, int lean)
{
	struct zr_layer_bytes *b = &r->bytes[i];

	*b = (struct zr_layer_bytes){ .size = sizeof *b, .wants_lean = (uint32_t)lean };
	zr_must(&r->t,
		ZR_CALL(r->c, ZR_MAIN, "bytes",
			r->v->bytes(r->t.inst, (int32_t)i, ROWS, r->length, ZR_F32, r->ops, b)));
	r->saved[i] = room(r->c, "what a layer saves", b->saved);
}

static void size_layers(struct fixture *r)
{
	struct zr_check *c = r->c;
	uint64_t most = 0;

	if (r->d.n_layers > LAYERS)
		zr_check_skip(c, "it has more layers than this test can hold");
	r->length = r->d.context < LENGTH_MOST ? r->d.context : LENGTH_MOST;
	for (uint32_t i = 0; i < r->d.n_layers; i++) {
		const struct zr_layer_bytes *b = &r->bytes[i];
		size_layer(r, i, 0);
		r->out[i] = room(c, "the output of a layer", b->out);
		most = b->grad > most ? b->grad : most;
	}

	r->gradient = room(c, "the gradient of activations", most);
}

static void call_with(struct fixture *r, uint32_t layer, int back, int training, float **grad)
{
	struct zr_check *c = r->c;
	const struct zr_layer *l = layer_of(r, layer);
	const void *param[TENSORS];
	float *dparam[TENSORS];
	uint8_t accumulate[TENSORS];
	const float *persistent[TENSORS];
	int32_t n = 0, number[TENSORS];

	for (uint32_t k = 0; k < l->n_units; k++) {
		const int32_t u = l->units[k];
		for (uint32_t i = 0; i < unit_of(r, (uint32_t)u)->n_tensors; i++, n++) {
			number[n] = r->first[u] + (int32_t)i;
			const int frozen = r->tensor[number[n]]->flags & ZR_TENSOR_FROZEN;
			param[n] = r->param[number[n]];
			dparam[n] = frozen ? NULL : grad[number[n]];
			accumulate[n] = (uint8_t)r->got[number[n]];
			persistent[n] = r->persistent[number[n]];
		}
	}

	const uint64_t bytes = back || l->flags & ZR_LAYER_LOSS ? r->bytes[layer].work_bwd :
								  r->bytes[layer].work_fwd;
	struct zr_layer_call of = {
		.size = sizeof of,
		.layer = (int32_t)layer,
		.training = training,
		.dtype = ZR_F32,
		.batch = ROWS,
		.length = r->length,
		.slot_rows = ROWS * r->length,
		.tokens = r->tokens,
		.targets = r->targets,
		.in = layer ? r->out[layer - 1] : NULL,
		.out = r->unread ? NULL : r->out[layer],
		.saved = r->saved[layer],
		.work = room(c, "the work memory", bytes),
		.grad = back ? r->gradient : NULL,
		.param = param,
		.dparam = back ? dparam : NULL,
		.accumulate = back ? accumulate : NULL,
		.persistent = r->has_persistent ? persistent : NULL,
		.loss_rows = l->flags & ZR_LAYER_LOSS ? r->loss : NULL,
		.loss_sum = l->flags & ZR_LAYER_LOSS ? r->sum : NULL,
		.grad_scale = 1,
		.aux_scale = (float)(ROWS * r->length),
		.flags = r->bytes[layer].is_lean ? ZR_CALL_LEAN : 0,
		.rng = { .seed = 5, .step = 1 },
		.ops = r->ops,
	};
	struct zr_layer_call *lent = zr_lend(c, "struct zr_layer_call", &of, sizeof of, sizeof of);
	r->t.code = 0;
	if (back)
		zr_must(&r->t, ZR_CALL(c, ZR_STEP, "backward", r->v->backward(r->t.inst, lent)));
	else
		zr_must(&r->t, ZR_CALL(c, ZR_STEP, "forward", r->v->forward(r->t.inst, lent)));
	zr_area_free(c, lent);
	if (of.work)
		zr_area_free(c, of.work);
	for (int32_t i = 0; back && i < n; i++)
		r->got[number[i]] = 1;
}

static void call(struct fixture *r, uint32_t layer, int back, int training)
{
	call_with(r, layer, back, training, r->grad);
}

/* What gradients are of: the tokens' losses, and as many times what is added to their mean, which
 * only the loss layer's backward says. */
static double loss_of(struct fixture *r)
{
	const uint32_t last = r->d.n_layers - 1;

	zr_routing_pass(1);
	for (uint32_t i = 0; i < last; i++)
		call(r, i, 0, 1);
	r->sum[1] = 0;
	if (r->d.aux_loss)
		call_with(r, last, 1, 1, r->unused);
	else
		call(r, last, 0, 0);
	if (!isfinite(r->sum[0]) || !isfinite(r->sum[1]))
		zr_check_fail(r->c, "the loss of small parameters is %g", r->sum[0] + r->sum[1]);
	return r->sum[0] + r->sum[1] * (double)(ROWS * r->length);
}

/* again: they are added to those of the same call before. */
static void gradients(struct fixture *r, int again)
{
	zr_routing_pass(again);
	if (!again)
		memset(r->got, 0, sizeof r->got);
	for (uint32_t i = 0; i + 1 < r->d.n_layers; i++)
		call(r, i, 0, 1);
	for (uint32_t i = r->d.n_layers; i-- > 0;)
		call(r, i, 1, 1);
}

/* ---- gradients ------------------------------------------------------------------- */

/* How the loss changes along `d`, by differences. */
static double slope(struct fixture *r, int32_t i, const float *d, double step)
{
	float *p = r->param[i], *old = malloc((size_t)r->n[i] * 4);
	double loss[2];

	if (!old)
		zr_check_lacks(r->c, "memory");
	memcpy(old, p, (size_t)r->n[i] * 4);
	for (int side = 0; side < 2; side++) {
		for (int64_t k = 0; k < r->n[i]; k++)
			p[k] = old[k] + (float)((side ? -step : step) * (double)d[k]);
		loss[side] = loss_of(r);
	}

	memcpy(p, old, (size_t)r->n[i] * 4);
	free(old);
	return (loss[0] - loss[1]) / (2 * step);
}

static double dot(const float *a, const float *b, int64_t n)
{
	double sum = 0;
	for (int64_t k = 0; k < n; k++)
		sum += (double)a[k] * (double)b[k];
	return sum;
}

/* Along the gradient, where errors of its scale show, and along a random direction. */
static void compare(struct fixture *r, int32_t i)
{
	const int64_t n = r->n[i];
	const float *g = r->grad[i];
	float *d = malloc((size_t)n * 4);
	const double norm = sqrt(dot(g, g, n));

	if (!d)
		zr_check_lacks(r->c, "memory");
	for (int way = 0; way < 2; way++) {
		zr_fill_random(d, n, (uint64_t)i + 99, 1);
		if (!way && norm > 0)
			memcpy(d, g, (size_t)n * 4);
		const double length = sqrt(dot(d, d, n));
		for (int64_t k = 0; k < n; k++)
			d[k] /= (float)length;
		const double said = dot(g, d, n), step = 4e-3 / fmax(1, sqrt(norm));
		const double is = slope(r, i, d, step);
		zr_blame(r->c, "backward");
		if (!(fabs(said - is) <= 0.02 * norm + 0.03))
			zr_check_fail(r->c,
				      "the gradient of %s says that the loss changes by %.5g "
				      "along a %s direction, and it changes by %.5g",
				      r->tensor[i]->name, said, way ? "random" : "steepest", is);
	}

	free(d);
}

/* With `accumulate` a second call doubles what the first one stored. */
static void check_added(struct fixture *r)
{
	for (int32_t i = 0; i < r->tensors; i++)
		memcpy(r->unused[i], r->grad[i], (size_t)r->n[i] * 4);
	gradients(r, 1);
	for (int32_t i = 0; i < r->tensors; i++) {
		const float *once = r->unused[i];
		float *left = r->grad[i];
		for (int64_t k = 0; k < r->n[i]; k++)
			left[k] -= 2 * once[k];
		if (!(dot(left, left, r->n[i]) <= 1e-4 * dot(once, once, r->n[i])))
			zr_check_fail(r->c,
				      "with accumulate set it does not add to the gradient "
				      "of %s",
				      r->tensor[i]->name);
	}
}

/* ---- computed again --------------------------------------------------------------- */

/* Asks for ZR_CALL_LEAN. 0: no layer can. */
static int become_lean(struct fixture *r)
{
	int lean = 0;

	for (uint32_t i = 0; i < r->d.n_layers; i++) {
		if (r->saved[i])
			zr_area_free(r->c, r->saved[i]);
		size_layer(r, i, 1);
		lean |= r->bytes[i].is_lean != 0;
	}

	return lean;
}

/* What was saved is dropped, and made again by a forward whose output nobody reads. */
static void forward_again(struct fixture *r, uint32_t layer)
{
	if (!r->bytes[layer].is_lean)
		return;
	if (r->bytes[layer].saved)
		memset(r->saved[layer], 0xff, r->bytes[layer].saved);
	r->unread = 1;
	call(r, layer, 0, 1);
	r->unread = 0;
}

/* The gradients so far are those of plain calls. */
static void check_lean(struct fixture *r)
{
	for (int32_t i = 0; i < r->tensors; i++)
		memcpy(r->unused[i], r->grad[i], (size_t)r->n[i] * 4);
	if (!become_lean(r))
		return;

	zr_routing_pass(0);
	memset(r->got, 0, sizeof r->got);
	for (uint32_t i = 0; i + 1 < r->d.n_layers; i++)
		call(r, i, 0, 1);
	for (uint32_t i = r->d.n_layers; i-- > 0;) {
		forward_again(r, i);
		call(r, i, 1, 1);
	}

	for (int32_t i = 0; i < r->tensors; i++)
		if (memcmp(r->unused[i], r->grad[i], (size_t)r->n[i] * 4))
			zr_check_fail(r->c,
				      "computed again with ZR_CALL_LEAN it gives another gradient "
				      "of %s",
				      r->tensor[i]->name);
}

/* ---- a device, by what models compute with it ------------------------------------ */

static struct zr_device_info device_info(struct zr_check *c, struct zr_try *t)
{
	const struct zr_device_v1 *v = c->vtbl;
	struct zr_device_info info = { .size = sizeof info };

	zr_must(t, ZR_CALL(c, ZR_MAIN, "info", v->info(t->inst, &info)));
	if (!memchr(info.name, 0, sizeof info.name) ||
	    !memchr(info.variant, 0, sizeof info.variant))
		zr_check_fail(c, "name or variant has no end");
	if (!*info.variant)
		zr_check_fail(c, "variant is empty; name all that results depend on");
	if (!info.memory)
		zr_check_fail(c, "it has no memory");
	if (info.unified && (!info.host_access || !info.host_ops))
		zr_check_fail(c, "unified is 1, and host_access or host_ops is not");
	return info;
}

static void same_gradients(struct zr_check *c, const char *model, const struct fixture *a,
			   const struct fixture *b)
{
	if (!(fabs(a->sum[0] - b->sum[0]) <= 1e-4 * fabs(a->sum[0])))
		zr_check_fail(c,
			      "the loss of a small %s is %.9g, and %.9g by the scalar "
			      "reference",
			      model, b->sum[0], a->sum[0]);
	for (int32_t i = 0; i < a->tensors; i++) {
		double far = 0, norm = dot(a->grad[i], a->grad[i], a->n[i]);
		for (int64_t k = 0; k < a->n[i]; k++) {
			const double d = (double)a->grad[i][k] - (double)b->grad[i][k];
			far += d * d;
		}

		if (!(sqrt(far) <= 1e-3 * sqrt(norm) + 1e-5))
			zr_check_fail(c,
				      "the gradient of %s of a small %s is %.3g from that of "
				      "the scalar reference, whose norm is %.3g",
				      a->tensor[i]->name, model, sqrt(far), sqrt(norm));
	}
}

static void add_results(const struct fixture *r, struct zr_check *c, struct zr_results *to,
			const char *function)
{
	zr_result_add(c, to, function, r->sum, sizeof *r->sum, "the loss");
	for (int32_t i = 0; i < r->tensors; i++)
		if (!(r->tensor[i]->flags & ZR_TENSOR_FROZEN))
			zr_result_add(c, to, function, r->grad[i], (uint64_t)r->n[i] * 4,
				      "the gradient of %s", r->tensor[i]->name);
}

static void free_fixture(struct fixture *r)
{
	for (int32_t i = 0; i < r->tensors; i++) {
		free(r->param[i]);
		free(r->grad[i]);
		free(r->unused[i]);
		if (r->persistent[i])
			zr_area_free(r->c, r->persistent[i]);
	}

	for (uint32_t i = 0; i < r->d.n_layers; i++) {
		zr_area_free(r->c, r->out[i]);
		zr_area_free(r->c, r->saved[i]);
	}

	zr_area_free(r->c, r->gradient);
	zr_try_close(&r->t);
	zr_area_free(r->c, r->t.opts);
	zr_area_free(r->c, r->t.h);
	free(r);
}

static struct fixture *new_fixture(struct zr_check *c)
{
	struct fixture *r = calloc(1, sizeof *r);
	if (!r)
		zr_check_lacks(c, "memory");
	return r;
}

static void compute(struct fixture *r, struct zr_check *model, const struct zr_ops *ops)
{
	*r = (struct fixture){ .ops = ops };
	open_fixture(model, r);
	size_layers(r);
	fill(r);
	gradients(r, 0);
}

void zr_test_device(struct zr_check *c)
{
	static const char *const models[] = { "gpt2", "llama" };
	const struct zr_device_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	const struct zr_device_info info = device_info(c, &t);
	const struct zr_ops *ops = v->ops(t.inst), *reference = zr_check_scalar_ops(c);
	if (!ops)
		zr_check_fail(c, "ops() gives no table");
	if (!info.host_ops)
		zr_check_skip(c, "its operations do not take addresses of host memory");
	if (!reference)
		zr_check_skip(c, "there is no scalar device to compare with");
	for (int i = 0; i < 2; i++) {
		static struct zr_check side;
		static struct fixture by[2];
		if (!zr_check_model(c, models[i], &side))
			zr_check_skip(c, "there is no model to compute");
		compute(&by[0], &side, reference);
		side.n_areas = 0; /* those of the first stay as they are */
		compute(&by[1], &side, ops);
		zr_blame(c, "ops");
		same_gradients(c, models[i], &by[0], &by[1]);
	}

	zr_try_close(&t);
}

void zr_compute_device(struct zr_check *c, struct zr_results *to)
{
	const struct zr_device_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	struct zr_check side;
	struct fixture *r = new_fixture(c);

	zr_try_open(c, &t);
	const struct zr_device_info info = device_info(c, &t);
	if (!info.host_ops)
		zr_check_skip(c, "its operations do not take addresses of host memory");
	if (!zr_check_model(c, "gpt2", &side))
		zr_check_skip(c, "there is no model to compute");
	side.entering = c->entering;
	compute(r, &side, v->ops(t.inst));
	add_results(r, c, to, "ops");
	free_fixture(r);
	zr_try_close(&t);
	zr_area_free(c, t.opts);
	zr_area_free(c, t.h);
}

/* ---- a model --------------------------------------------------------------------- */

void zr_test_gradients(struct zr_check *c)
{
	static struct fixture r;

	open_fixture(c, &r);
	if (!(r.ops = zr_check_ops(c)))
		zr_check_skip(c, "there is no device to compute on");
	r.ops = zr_routing_ops(c, r.ops);
	size_layers(&r);
	fill(&r);
	gradients(&r, 0);
	for (int32_t i = 0; i < r.tensors; i++)
		if (!(r.tensor[i]->flags & ZR_TENSOR_FROZEN))
			compare(&r, i);
	float *first = malloc((size_t)r.n[0] * 4);
	if (!first)
		zr_check_lacks(c, "memory");
	memcpy(first, r.grad[0], (size_t)r.n[0] * 4);
	gradients(&r, 0);
	if (memcmp(first, r.grad[0], (size_t)r.n[0] * 4))
		zr_check_fail(c, "the same calls give another gradient of %s", r.tensor[0]->name);
	free(first);
	check_lean(&r);
	gradients(&r, 0);
	check_added(&r);
	zr_try_close(&r.t);
}

void zr_compute_model(struct zr_check *c, struct zr_results *to)
{
	const struct zr_ops *ops = zr_check_ops(c);
	struct fixture *r = new_fixture(c);

	if (!ops)
		zr_check_skip(c, "there is no device to compute on");
	compute(r, c, ops);
	add_results(r, c, to, "backward");
	free_fixture(r);
}
