/* SPDX-License-Identifier: Apache-2.0
 *
 * model_fixture.c - see model_fixture.h. Every buffer is an allocation of its own, so that a
 * sanitizer sees an access beyond the bytes declared, and is filled with NaN before each run, so
 * that nothing is read before it is written. On separate memory each buffer has a twin there: it
 * goes in before a call and comes back after it.
 */
#include "model_fixture.h"
#include "testdevice.h"

#include <stdlib.h>
#include <string.h>

#define NAN_BYTES 0xff

static void must(struct fixture *r, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "model_fixture: %s: %d: %s\n", what, rc, test_error(r->host));
	abort();
}

void *fixture_room(uint64_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p)
		abort();
	memset(p, NAN_BYTES, (bytes + 63) / 64 * 64);
	return p;
}

/* ---- twins ---- */

static void lend(struct fixture *r, void *host, uint64_t bytes)
{
	struct fixture_twin *t = &r->twin[r->n_twins];
	if (!r->s.separate)
		return;
	if (r->n_twins++ == sizeof r->twin / sizeof *r->twin)
		abort();
	*t = (struct fixture_twin){ .host = host, .bytes = bytes };
	must(r, r->dev_v->mem_alloc(r->dev, bytes + 1, ZR_MEM_DEVICE, (void **)&t->device),
	     "mem_alloc");
}

/* What the model gets for an address in a lent buffer. */
static void *lent(const struct fixture *r, const void *host)
{
	int i;
	if (!host || !r->s.separate)
		return (void *)(uintptr_t)host;
	for (i = 0; i < r->n_twins; i++) {
		const struct fixture_twin *t = &r->twin[i];
		if ((uintptr_t)host - (uintptr_t)t->host < t->bytes + !t->bytes)
			return t->device + ((const char *)host - t->host);
	}
	abort();
}

static void bring(struct fixture *r)
{
	int i;
	for (i = 0; i < r->n_twins; i++)
		must(r,
		     r->dev_v->copy(r->dev, NULL, r->twin[i].device, r->twin[i].host,
				    r->twin[i].bytes),
		     "copy");
}

static void fetch(struct fixture *r)
{
	int i;
	for (i = 0; i < r->n_twins; i++)
		must(r,
		     r->dev_v->copy(r->dev, NULL, r->twin[i].host, r->twin[i].device,
				    r->twin[i].bytes),
		     "copy");
}

static uint64_t element(int32_t dtype)
{
	return zr_bytes_of(dtype, 1);
}

/* splitmix64 of stream and element */
uint64_t fixture_hash(uint64_t stream, uint64_t e)
{
	uint64_t x = (stream << 32) + e + 0x9E3779B97F4A7C15u;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

void fixture_tokens(struct fixture *r, uint64_t stream)
{
	int64_t i, n = r->s.batch * r->s.length;
	for (i = 0; i < n; i++) {
		r->tokens[i] = (int32_t)((fixture_hash(stream, (uint64_t)i) >> 33) %
					 (uint64_t)r->d.vocabulary);
		r->targets[i] = (int32_t)((fixture_hash(stream + 1, (uint64_t)i) >> 33) %
					  (uint64_t)r->d.vocabulary);
	}
}

void fixture_documents(struct fixture *r)
{
	static const int64_t lengths[] = { 5, 1, 7 };
	int64_t i, T = r->s.length, start = 0, n = 0;
	r->documents = 1;
	for (i = 0; i < r->s.batch * T; i++) {
		if (i % T == 0)
			n = i / T;
		if (i % T == 0 || i % T == start + lengths[(n - 1) % 3]) {
			start = i % T;
			n++;
		}
		r->starts[i] = (int32_t)start;
		r->positions[i] = (int32_t)(i % T - start);
		r->targets[i] = i % 3 == 1 ? -1 : r->targets[i];
		r->weights[i] = i % 3 == 1 ? 0 : (float)(i % 4) / 2;
	}
}

/* Weights and biases in [-1/4, 1/4), gains of norms in [3/4, 5/4). */
static void draw_values(struct fixture *r)
{
	int t;
	int64_t i;
	for (t = 0; t < r->n_tensors; t++) {
		int gain = r->tensor[t]->ndim == 1 && strstr(r->tensor[t]->name, "weight");
		for (i = 0; i < r->numel[t]; i++) {
			float u = (float)(fixture_hash((uint64_t)t, (uint64_t)i) >> 48) / 32768 - 1;
			r->value[r->start[t] + i] = u / 4 + (float)gain;
		}
	}
}

void fixture_load(struct fixture *r)
{
	int t;
	int64_t i;
	for (t = 0; t < r->n_tensors; t++)
		for (i = 0; i < r->numel[t]; i++)
			put(r->param[t], r->s.dtype, i, r->value[r->start[t] + i]);
}

const struct zr_unit *fixture_unit(const struct fixture *r, int32_t u)
{
	return (const void *)((const char *)r->d.units + (size_t)u * r->d.unit_stride);
}

const struct zr_layer *fixture_layer(const struct fixture *r, uint32_t l)
{
	return (const void *)((const char *)r->d.layers + (size_t)l * r->d.layer_stride);
}

/* Number of a unit's first tensor. */
static int first_tensor(const struct fixture *r, int32_t unit)
{
	int n = 0, u;
	for (u = 0; u < unit; u++)
		n += (int)fixture_unit(r, u)->n_tensors;
	return n;
}

static void list_tensors(struct fixture *r)
{
	uint32_t u, i;
	int t = 0, k;
	r->n_tensors = first_tensor(r, (int32_t)r->d.n_units);
	r->tensor = fixture_room((uint64_t)r->n_tensors * sizeof *r->tensor);
	r->numel = fixture_room((uint64_t)r->n_tensors * sizeof *r->numel);
	r->start = fixture_room((uint64_t)r->n_tensors * sizeof *r->start);
	for (u = 0; u < r->d.n_units; u++)
		for (i = 0; i < fixture_unit(r, (int32_t)u)->n_tensors; i++, t++) {
			r->tensor[t] =
				(const void *)((const char *)fixture_unit(r, (int32_t)u)->tensors +
					       (size_t)i * r->d.tensor_stride);
			r->numel[t] = 1;
			for (k = 0; k < r->tensor[t]->ndim; k++)
				r->numel[t] *= r->tensor[t]->dims[k];
			r->start[t] = r->total;
			r->total += r->numel[t];
		}
}

static uint64_t blocks_bytes(const struct fixture *r, int tensor)
{
	return zr_bytes_of(r->s.dtype, (r->numel[tensor] + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK);
}

/* Those of a unit, from tensor number t on. */
static void make_touching(struct fixture *r, int t, int n)
{
	uint64_t bytes = 0;
	char *at;
	int i;
	for (i = t; i < t + n; i++)
		bytes += blocks_bytes(r, i);
	at = fixture_room(bytes);
	for (i = t; i < t + n; i++) {
		r->param[i] = at;
		at += blocks_bytes(r, i);
	}
}

static void make_params(struct fixture *r)
{
	uint32_t u;
	int t = 0, n;
	r->param = fixture_room((uint64_t)r->n_tensors * sizeof *r->param);
	for (u = 0; u < r->d.n_units; u++, t += n) {
		n = (int)fixture_unit(r, (int32_t)u)->n_tensors;
		if (r->s.touching)
			make_touching(r, t, n);
	}
	for (t = 0; t < r->n_tensors && !r->s.touching; t++)
		r->param[t] = fixture_room((uint64_t)r->numel[t] * element(r->s.dtype));
}

static void free_params(struct fixture *r)
{
	uint32_t u;
	int t;
	for (u = 0; u < r->d.n_units && r->s.touching; u++)
		free(r->param[first_tensor(r, (int32_t)u)]);
	for (t = 0; t < r->n_tensors && !r->s.touching; t++)
		free(r->param[t]);
	free(r->param);
}

static void make_buffers(struct fixture *r)
{
	uint64_t n = (uint64_t)(r->s.batch * r->s.length);
	uint32_t l;
	r->value = fixture_room((uint64_t)r->total * 4);
	r->gradient = fixture_room((uint64_t)r->total * 4);
	make_params(r);
	r->out = fixture_room(r->d.n_layers * sizeof *r->out);
	r->saved = fixture_room(r->d.n_layers * sizeof *r->saved);
	r->out_bytes = fixture_room(r->d.n_layers * sizeof *r->out_bytes);
	r->saved_bytes = fixture_room(r->d.n_layers * sizeof *r->saved_bytes);
	for (l = 0; l < r->d.n_layers; l++) {
		struct zr_layer_bytes b = { .size = sizeof b, .touching = (uint32_t)r->s.touching };
		int64_t rows = r->s.slices ? r->s.length / r->s.slices : r->s.length;
		must(r, r->v->bytes(r->model, (int32_t)l, r->s.batch, rows, r->s.dtype, r->ops, &b),
		     "bytes");
		r->out[l] = fixture_room(r->out_bytes[l] = b.out);
		r->saved[l] = fixture_room(r->saved_bytes[l] = b.saved);
		r->work_bytes = b.work_fwd > r->work_bytes ? b.work_fwd : r->work_bytes;
		r->work_bytes = b.work_bwd > r->work_bytes ? b.work_bwd : r->work_bytes;
		r->grad_bytes = b.grad > r->grad_bytes ? b.grad : r->grad_bytes;
	}
	r->work = fixture_room(r->work_bytes);
	r->grad = fixture_room(r->grad_bytes);
	r->tokens = fixture_room(n * 4);
	r->targets = fixture_room(n * 4);
	r->starts = fixture_room(n * 4);
	r->positions = fixture_room(n * 4);
	r->weights = fixture_room(n * 4);
	r->loss_rows = fixture_room(n * 4);
}

static void lend_buffers(struct fixture *r)
{
	uint64_t n = (uint64_t)(r->s.batch * r->s.length);
	uint32_t l;
	int t;
	for (t = 0; t < r->n_tensors; t++)
		lend(r, r->param[t], (uint64_t)r->numel[t] * element(r->s.dtype));
	for (l = 0; l < r->d.n_layers; l++) {
		lend(r, r->out[l], r->out_bytes[l]);
		lend(r, r->saved[l], r->saved_bytes[l]);
	}
	lend(r, r->gradient, (uint64_t)r->total * 4);
	lend(r, r->work, r->work_bytes);
	lend(r, r->grad, r->grad_bytes);
	lend(r, r->tokens, n * 4);
	lend(r, r->targets, n * 4);
	lend(r, r->starts, n * 4);
	lend(r, r->positions, n * 4);
	lend(r, r->weights, n * 4);
	lend(r, r->loss_rows, n * 4);
	lend(r, r->loss_sum, sizeof r->loss_sum);
}

static void set_options(struct fixture *r)
{
	static const char *const tiny[] = { "layers",  "2",  "heads",      "3",  "width", "24",
					    "context", "16", "vocabulary", "97", NULL };
	const char *const *o;
	r->opts = test_options(r->desc);
	for (o = tiny; *o; o += 2)
		must(r, test_set(r->desc, r->opts, o[0], o[1]), o[0]);
	for (o = r->s.options; *o; o += 2)
		must(r, test_set(r->desc, r->opts, o[0], o[1]), o[0]);
}

/* The fixture whose model is lent to an adapter that is being created. */
static const struct fixture *lender;

static const void *lend_model(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	(void)h;
	if (strcmp(iface, "zr.model/1"))
		return NULL;
	*inst = lender->base;
	return test_iface(lender->desc, iface);
}

static void adapt(struct fixture *r)
{
	r->adapter_desc = test_plugin("adapter/lora");
	r->adapter_opts = test_options(r->adapter_desc);
	for (const char *const *o = r->s.adapter; *o; o += 2)
		must(r, test_set(r->adapter_desc, r->adapter_opts, o[0], o[1]), o[0]);
	lender = r;
	r->host->get = lend_model;
	must(r, test_create(r->host, r->adapter_desc, r->adapter_opts, &r->model), "adapter");
	r->v = test_iface(r->adapter_desc, "zr.model/1");
}

struct fixture *fixture_new(struct fixture_setup s)
{
	struct fixture *r = calloc(1, sizeof *r);
	if (!r)
		abort();
	r->s = s;
	r->scale = 1;
	r->host = test_host(s.workers);
	r->dev_desc = s.separate ? test_plugin_cards() : test_plugin("device/cpu");
	r->desc = test_plugin(s.model ? s.model : "model/gpt2");
	r->dev_opts = test_options(r->dev_desc);
	if (s.separate && test_set(r->dev_desc, r->dev_opts, "memory", "128M"))
		abort();
	must(r, test_create(r->host, r->dev_desc, r->dev_opts, &r->dev), "device");
	r->dev_v = test_iface(r->dev_desc, "zr.device/1");
	r->v = test_iface(r->desc, "zr.model/1");
	if (!r->dev_v || !r->v)
		abort();
	r->ops = r->dev_v->ops(r->dev);
	set_options(r);
	must(r, test_create(r->host, r->desc, r->opts, &r->base), "model");
	r->model = r->base;
	if (s.adapter[0])
		adapt(r);
	r->d.slices = s.slices;
	must(r, r->v->declare(r->model, &r->d), "declare");
	list_tensors(r);
	make_buffers(r);
	lend_buffers(r);
	draw_values(r);
	fixture_load(r);
	fixture_tokens(r, 1000);
	return r;
}

void fixture_free(struct fixture *r)
{
	uint32_t l;
	for (l = 0; l < r->d.n_layers; l++) {
		free(r->out[l]);
		free(r->saved[l]);
	}
	free_params(r);
	if (r->adapter_desc)
		r->adapter_desc->destroy(r->model);
	r->desc->destroy(r->base);
	free(r->adapter_opts);
	r->dev_desc->destroy(r->dev);
	test_host_free(r->host);
	free(r->dev_opts);
	free(r->opts);
	free(r->tensor);
	free(r->numel);
	free(r->start);
	free(r->value);
	free(r->gradient);
	free(r->out);
	free(r->saved);
	free(r->out_bytes);
	free(r->saved_bytes);
	free(r->work);
	free(r->grad);
	free(r->tokens);
	free(r->targets);
	free(r->starts);
	free(r->positions);
	free(r->weights);
	free(r->loss_rows);
	free(r);
}

struct zr_layer_call fixture_call(struct fixture *r, uint32_t l, int training,
				  struct fixture_tensors *t)
{
	const struct zr_layer *layer = fixture_layer(r, l);
	uint32_t u, i;
	t->n = 0;
	for (u = 0; u < layer->n_units; u++)
		for (i = 0; i < fixture_unit(r, layer->units[u])->n_tensors; i++) {
			int n = first_tensor(r, layer->units[u]) + (int)i;
			if (t->n == FIXTURE_TENSORS)
				abort();
			t->param[t->n] = lent(r, r->param[n]);
			t->dparam[t->n] = lent(r, r->gradient + r->start[n]);
			t->number[t->n++] = n;
		}
	return (struct zr_layer_call){
		.size = sizeof(struct zr_layer_call),
		.layer = (int32_t)l,
		.training = training,
		.dtype = r->s.dtype,
		.batch = r->s.batch,
		.length = r->s.length,
		.slot_rows = r->s.batch * r->s.length,
		.tokens = lent(r, r->tokens),
		.targets = lent(r, r->targets),
		.in = l ? lent(r, r->out[l - 1]) : NULL,
		.out = lent(r, r->out[l]),
		.saved = lent(r, r->saved[l]),
		.work = lent(r, r->work),
		.grad = lent(r, r->grad),
		.param = t->param,
		.dparam = t->dparam,
		.accumulate = t->accumulate,
		.loss_rows = lent(r, r->loss_rows),
		.loss_sum = lent(r, r->loss_sum),
		.grad_scale = r->scale / (float)(r->s.batch * r->s.length),
		.aux_scale = r->scale,
		.rng = r->rng,
		.flags = r->s.touching ? ZR_CALL_TOUCHING : 0,
		.ops = r->ops,
		.starts = r->documents ? lent(r, r->starts) : NULL,
		.positions = r->documents ? lent(r, r->positions) : NULL,
		.weights = r->documents ? lent(r, r->weights) : NULL,
	};
}

/* Whatever an earlier run left, this one must not see. */
static void poison(struct fixture *r)
{
	uint32_t l;
	for (l = 0; l < r->d.n_layers; l++) {
		memset(r->out[l], NAN_BYTES, r->out_bytes[l]);
		memset(r->saved[l], NAN_BYTES, r->saved_bytes[l]);
	}
	memset(r->grad, NAN_BYTES, r->grad_bytes);
}

static void forward(struct fixture *r, uint32_t layers, int training)
{
	uint32_t l;
	poison(r);
	for (l = 0; l < layers; l++) {
		struct fixture_tensors t = { 0 };
		struct zr_layer_call c = fixture_call(r, l, training, &t);
		memset(r->work, NAN_BYTES, r->work_bytes);
		bring(r);
		must(r, r->v->forward(r->model, &c), "forward");
		fetch(r);
	}
}

/* Layers last .. first; a tensor's first contribution is stored unless `add`. */
static void backward(struct fixture *r, uint32_t first, int add)
{
	uint32_t l = r->d.n_layers, u, i;
	uint8_t *seen = calloc(r->d.n_units, 1);
	if (!seen)
		abort();
	while (l-- > first) {
		const struct zr_layer *layer = fixture_layer(r, l);
		struct fixture_tensors t = { 0 };
		struct zr_layer_call c = fixture_call(r, l, 1, &t);
		int k = 0;
		for (u = 0; u < layer->n_units; u++) {
			for (i = 0; i < fixture_unit(r, layer->units[u])->n_tensors; i++)
				t.accumulate[k++] = (uint8_t)(add || seen[layer->units[u]]);
			seen[layer->units[u]] = 1;
		}
		memset(r->work, NAN_BYTES, r->work_bytes);
		bring(r);
		must(r, r->v->backward(r->model, &c), "backward");
		fetch(r);
	}
	free(seen);
}

static double mean_loss(const struct fixture *r, int training)
{
	return r->loss_sum[0] / (double)(r->s.batch * r->s.length) +
	       (training && r->d.aux_loss ? r->loss_sum[1] : 0);
}

double fixture_loss(struct fixture *r, int training)
{
	forward(r, r->d.n_layers - (training ? 1 : 0), training);
	if (training)
		backward(r, r->d.n_layers - 1, 0);
	return mean_loss(r, training);
}

double fixture_step(struct fixture *r, int add)
{
	forward(r, r->d.n_layers - 1, 1);
	if (!add)
		memset(r->gradient, NAN_BYTES, (uint64_t)r->total * 4);
	backward(r, 0, add);
	return mean_loss(r, 1);
}

void fixture_logits(struct fixture *r, int64_t row, float *logits)
{
	struct fixture_tensors t = { 0 };
	struct zr_layer_call c = fixture_call(r, r->d.n_layers - 1, 0, &t);
	uint64_t bytes = (uint64_t)r->d.vocabulary * sizeof *logits;
	void *out = logits;
	memset(r->work, NAN_BYTES, r->work_bytes);
	bring(r);
	if (r->s.separate)
		must(r, r->dev_v->mem_alloc(r->dev, bytes, ZR_MEM_DEVICE, &out), "mem_alloc");
	must(r, r->v->logits(r->model, &c, row, out), "logits");
	if (!r->s.separate)
		return;
	must(r, r->dev_v->copy(r->dev, NULL, logits, out, bytes), "copy");
	r->dev_v->mem_free(r->dev, out, bytes, ZR_MEM_DEVICE);
}

double fixture_difference(struct fixture *r, uint64_t direction, int64_t lo, int64_t hi,
			  const float *at, double h)
{
	double loss[2];
	for (int side = 0; side < 2; side++) {
		memcpy(r->value, at, (size_t)r->total * sizeof(float));
		for (int64_t i = lo; i < hi; i++) {
			const int up = fixture_hash(direction, (uint64_t)i) >> 63 == (uint64_t)side;
			r->value[i] += (float)(up ? h : -h);
		}
		fixture_load(r);
		loss[side] = fixture_loss(r, 1);
	}
	return (loss[1] - loss[0]) / (2 * h);
}

double fixture_along(const float *gradient, uint64_t direction, int64_t lo, int64_t hi)
{
	double sum = 0;
	for (int64_t i = lo; i < hi; i++)
		sum += fixture_hash(direction, (uint64_t)i) >> 63 ? gradient[i] : -gradient[i];
	return sum;
}
