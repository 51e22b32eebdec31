/* SPDX-License-Identifier: Apache-2.0
 *
 * slices_fixture.c - see slices_fixture.h.
 */
#include "slices_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAN_BYTES 0xff

static void must(const struct slices *z, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "slices_fixture: %s: %d: %s\n", what, rc, test_error(z->r->host));
	abort();
}

/* Of n pointers. */
static void *table(size_t n)
{
	void *t = calloc(n, sizeof(void *));
	if (!t)
		abort();
	return t;
}

static int64_t rows_to(const struct slices *z, int s)
{
	return (s + 1) * z->rows;
}

static void make_slice(struct slices *z, int s)
{
	uint64_t grad = 0, held = 0, sums = 0;
	for (uint32_t l = 0; l < z->r->d.n_layers; l++) {
		const struct zr_layer_bytes *b = &z->bytes[l];
		z->out[l * (uint32_t)z->n + (uint32_t)s] = fixture_room(b->out);
		z->saved[l * (uint32_t)z->n + (uint32_t)s] = fixture_room(b->saved);
		grad = b->grad > grad ? b->grad : grad;
		held = b->held > held ? b->held : held;
		sums = b->key_sums > sums ? b->key_sums : sums;
	}
	z->grad[s] = fixture_room(grad);
	z->held[s] = fixture_room(held);
	z->given[s] = fixture_room((uint64_t)(s + 1) * sums);
	z->gradient[s] = fixture_room((uint64_t)z->r->total * sizeof(float));
	z->writer[s] = fixture_room(z->r->d.n_units * sizeof(int32_t));
}

struct slices *slices_new(struct fixture *r)
{
	struct slices *z = calloc(1, sizeof *z);
	if (!z || r->s.separate || r->s.slices < 2 || r->s.batch != 1)
		abort();
	z->r = r;
	z->n = r->s.slices;
	z->rows = r->s.length / z->n;
	size_t layers = r->d.n_layers, n = (size_t)z->n;
	z->bytes = fixture_room(layers * sizeof *z->bytes);
	z->out = table(layers * n);
	z->saved = table(layers * n);
	z->keys = table(layers);
	z->key_sums = table(layers);
	z->grad = table(n);
	z->held = table(n);
	z->given = table(n);
	z->gradient = table(n);
	z->writer = table(n);
	z->loss = fixture_room(n * sizeof *z->loss);
	z->before = fixture_room((uint64_t)r->total * sizeof(float));
	for (uint32_t l = 0; l < layers; l++) {
		struct zr_layer_bytes *b = &z->bytes[l];
		*b = (struct zr_layer_bytes){ .size = sizeof *b };
		must(z, r->v->bytes(r->model, (int32_t)l, 1, z->rows, r->s.dtype, r->ops, b),
		     "bytes");
		z->keys[l] = fixture_room(n * b->keys);
		z->key_sums[l] = fixture_room(n * b->key_sums);
	}
	z->sums = fixture_room(n * z->bytes[layers - 2].sums);
	for (int s = 0; s < z->n; s++)
		make_slice(z, s);
	for (int32_t i = 0; i < r->s.length && !r->documents; i++)
		r->positions[i] = i;
	return z;
}

void slices_free(struct slices *z)
{
	for (int s = 0; s < z->n; s++) {
		free(z->grad[s]);
		free(z->held[s]);
		free(z->given[s]);
		free(z->gradient[s]);
		free(z->writer[s]);
	}
	for (uint32_t l = 0; l < z->r->d.n_layers; l++) {
		free(z->keys[l]);
		free(z->key_sums[l]);
		for (int s = 0; s < z->n; s++) {
			free(z->out[l * (uint32_t)z->n + (uint32_t)s]);
			free(z->saved[l * (uint32_t)z->n + (uint32_t)s]);
		}
	}
	free(z->bytes);
	free(z->out);
	free(z->saved);
	free(z->keys);
	free(z->key_sums);
	free(z->grad);
	free(z->held);
	free(z->given);
	free(z->gradient);
	free(z->writer);
	free(z->loss);
	free(z->sums);
	free(z->before);
	free(z);
}

/* ---- calls ---- */

static int has_parts(const struct slices *z, uint32_t l)
{
	return fixture_layer(z->r, l)->cut == ZR_CUT_KEYS;
}

static struct zr_layer_call call_of(struct slices *z, uint32_t l, int s, uint32_t parts,
				    struct fixture_tensors *t)
{
	struct fixture *r = z->r;
	struct zr_layer_call c = fixture_call(r, l, 1, t);
	const int64_t first = s * z->rows;
	c.length = z->rows;
	c.slot_first = first;
	c.tokens += first;
	c.targets += first;
	c.positions = r->positions + first;
	if (c.weights)
		c.weights += first;
	c.loss_rows += first;
	c.loss_sum = z->loss[s];
	c.in = l ? z->out[(l - 1) * (uint32_t)z->n + (uint32_t)s] : NULL;
	c.out = z->out[l * (uint32_t)z->n + (uint32_t)s];
	c.saved = z->saved[l * (uint32_t)z->n + (uint32_t)s];
	c.grad = z->grad[s];
	c.parts = parts;
	if (parts) {
		c.keys = z->keys[l] + (size_t)s * z->bytes[l].keys;
		c.all_keys = parts & ZR_PART_ATTEND ? z->keys[l] : NULL;
		c.held = z->held[s];
	}
	memset(r->work, NAN_BYTES, r->work_bytes);
	return c;
}

static void forward(struct slices *z, uint32_t l, int s, uint32_t parts)
{
	struct fixture_tensors t = { 0 };
	struct zr_layer_call c = call_of(z, l, s, parts, &t);
	must(z, z->r->v->forward(z->r->model, &c), "forward");
}

/* Whether a call of these parts writes the tensor's gradient; a weight with an adapter has none. */
static int is_written(const struct zr_tensor *t, uint32_t parts)
{
	const int adapted = t->flags & ZR_TENSOR_FROZEN && t->map != ZR_MAP_NONE;
	return !adapted && (!parts || (uint32_t)t->part & parts);
}

static void check_gradients(const struct slices *z, int s, uint32_t parts,
			    const struct fixture_tensors *t)
{
	const struct fixture *r = z->r;
	for (int k = 0; k < t->n; k++) {
		const struct zr_tensor *tensor = r->tensor[t->number[k]];
		const int64_t from = r->start[t->number[k]], n = r->numel[t->number[k]];
		const float *now = z->gradient[s] + from;
		int64_t missing = 0;
		for (int64_t i = 0; i < n; i++)
			missing += isnan(now[i]) != 0;
		const int same = !memcmp(now, z->before + from, (size_t)n * sizeof *now);
		if (is_written(tensor, parts) ? !missing : same)
			continue;
		fprintf(stderr, "slices_fixture: parts %u: the gradient of %s %s\n", parts,
			tensor->name, same ? "is missing" : "was touched, or has gaps");
		abort();
	}
}

static void backward(struct slices *z, uint32_t l, int s, uint32_t parts)
{
	struct fixture_tensors t = { 0 };
	struct zr_layer_call c = call_of(z, l, s, parts, &t);
	const struct zr_layer *layer = fixture_layer(z->r, l);
	int k = 0;
	for (uint32_t u = 0; u < layer->n_units; u++) {
		int32_t *writer = &z->writer[s][layer->units[u]];
		if (*writer < 0)
			*writer = (int32_t)l;
		for (uint32_t i = 0; i < fixture_unit(z->r, layer->units[u])->n_tensors; i++)
			t.accumulate[k++] = *writer != (int32_t)l;
	}
	for (k = 0; k < t.n; k++)
		t.dparam[k] = z->gradient[s] + z->r->start[t.number[k]];
	if (l + 1 == z->r->d.n_layers && z->bytes[l - 1].sums)
		c.slot_sums = (const double *)(const void *)z->sums;
	if (parts & ZR_PART_ATTEND)
		c.key_sums = z->given[s];
	else if (parts)
		c.key_sums = z->key_sums[l] + (uint64_t)s * z->bytes[l].key_sums / sizeof(float);
	memcpy(z->before, z->gradient[s], (size_t)z->r->total * sizeof(float));
	must(z, z->r->v->backward(z->r->model, &c), "backward");
	check_gradients(z, s, parts, &t);
}

/* ---- steps ---- */

/* Slices in an order, or one of them. */
struct turns {
	enum slices_order order;
	int from, n; /* slices from `from` on */
};

static int slice_of(const struct turns *t, int i)
{
	return t->order == SLICES_BACK ? t->from + t->n - 1 - i : t->from + i;
}

static void forward_all(struct slices *z, const struct turns *t, uint32_t l)
{
	static const uint32_t all = ZR_PART_BEFORE | ZR_PART_ATTEND | ZR_PART_AFTER;
	const int together = t->order == SLICES_TOGETHER;
	uint32_t parts = together ? all : ZR_PART_BEFORE;
	if (!has_parts(z, l))
		parts = 0;
	for (int i = 0; i < t->n; i++)
		forward(z, l, slice_of(t, i), parts);
	for (int i = 0; i < t->n && parts == ZR_PART_BEFORE; i++)
		forward(z, l, slice_of(t, i), ZR_PART_ATTEND | ZR_PART_AFTER);
}

/* What all queries give to keys; rows of later slices get nothing of earlier ones. */
static void add_given(struct slices *z, uint32_t l)
{
	const int64_t each = (int64_t)(z->bytes[l].key_sums / sizeof(float)) / z->rows;
	memset(z->key_sums[l], 0, (uint64_t)z->n * z->bytes[l].key_sums);
	for (int s = 0; s < z->n; s++)
		for (int64_t i = 0; i < rows_to(z, s) * each; i++)
			z->key_sums[l][i] += z->given[s][i];
}

static void backward_all(struct slices *z, const struct turns *t, uint32_t l)
{
	const uint32_t first = has_parts(z, l) ? ZR_PART_ATTEND | ZR_PART_AFTER : 0;
	for (int i = 0; i < t->n; i++)
		backward(z, l, slice_of(t, i), first);
	if (!first)
		return;
	if (t->n == z->n)
		add_given(z, l);
	for (int i = 0; i < t->n; i++)
		backward(z, l, slice_of(t, i), ZR_PART_SUMS | ZR_PART_BEFORE);
}

/* Whatever an earlier run left, this one must not see; but keys, if they are to stay. */
static void poison(struct slices *z)
{
	for (int s = 0; s < z->n; s++) {
		const uint64_t bytes = (uint64_t)z->r->total * sizeof(float);
		uint64_t grad = 0, held = 0, sums = 0;
		for (uint32_t l = 0; l < z->r->d.n_layers; l++) {
			const struct zr_layer_bytes *b = &z->bytes[l];
			const size_t at = l * (uint32_t)z->n + (uint32_t)s;
			memset(z->out[at], NAN_BYTES, b->out);
			memset(z->saved[at], NAN_BYTES, b->saved);
			grad = b->grad > grad ? b->grad : grad;
			held = b->held > held ? b->held : held;
			sums = b->key_sums > sums ? b->key_sums : sums;
		}
		memset(z->grad[s], NAN_BYTES, grad);
		memset(z->held[s], NAN_BYTES, held);
		memset(z->given[s], NAN_BYTES, (uint64_t)(s + 1) * sums);
		memset(z->gradient[s], NAN_BYTES, bytes);
		memset(z->writer[s], NAN_BYTES, z->r->d.n_units * sizeof(int32_t));
	}
}

/* The slice whose sums are the i-th of all: 0, n - 1, 1, n - 2, ... */
static int slice_of_sums(const struct slices *z, int i)
{
	return i % 2 ? z->n - 1 - i / 2 : i / 2;
}

/* Those of slices that ran; of others what the run before left. */
static void gather_sums(struct slices *z, const struct turns *t)
{
	const uint32_t before = z->r->d.n_layers - 2;
	const struct zr_layer_bytes *b = &z->bytes[before];
	for (int i = 0; i < z->n; i++) {
		const int s = slice_of_sums(z, i);
		const char *out = z->out[before * (uint32_t)z->n + (uint32_t)s];
		if (s >= t->from && s < t->from + t->n)
			memcpy(z->sums + (uint64_t)i * b->sums, out + b->sums_at, b->sums);
	}
}

static void run(struct slices *z, const struct turns *t)
{
	poison(z);
	for (uint32_t l = 0; l + 1 < z->r->d.n_layers; l++)
		forward_all(z, t, l);
	gather_sums(z, t);
	for (uint32_t l = z->r->d.n_layers; l-- > 0;)
		backward_all(z, t, l);
}

double slices_step(struct slices *z, enum slices_order order)
{
	const struct turns t = { order, 0, z->n };
	struct fixture *r = z->r;
	double loss = 0;
	for (uint32_t l = 0; l < r->d.n_layers; l++)
		memset(z->keys[l], NAN_BYTES, (uint64_t)z->n * z->bytes[l].keys);
	run(z, &t);
	memcpy(r->gradient, z->gradient[0], (size_t)r->total * sizeof(float));
	for (int s = 0; s < z->n; s++)
		loss += z->loss[s][0];
	if (r->d.aux_loss) /* all slices have that of the sequence */
		loss += z->loss[0][1] * (double)r->s.length;
	for (int s = 1; s < z->n; s++)
		for (int64_t i = 0; i < r->total; i++)
			r->gradient[i] += z->gradient[s][i];
	return loss / (double)r->s.length;
}

void slices_alone(struct slices *z, int s)
{
	const struct turns t = { SLICES_APART, s, 1 };
	run(z, &t);
}
