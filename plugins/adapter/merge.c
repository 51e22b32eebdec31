/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - W + s B A, for a model without adapters. Sums of r products are fp64 in ascending order
 * and are rounded once, with W.
 */
#include "lora.h"

#define TILE 256 /* elements of a row that are summed at a time */

static const struct lora_map *map_of(const struct zr_inst *inst, int32_t tensor)
{
	for (int32_t i = 0; i < inst->maps; i++)
		if (inst->map[i].tensor == tensor)
			return &inst->map[i];
	return NULL;
}

int32_t lora_merge_with(struct zr_inst *inst, int32_t tensor, int32_t with[ZR_MERGE_WITH])
{
	const struct lora_map *m = map_of(inst, tensor);
	with[0] = m ? m->a : -1;
	with[1] = m ? m->a + 1 : -1;
	return m ? 2 : 0;
}

/* Elements [from, from + n) of output `row` of B A. */
static void sum_output(const struct lora_map *m, const float *a, const float *b, int64_t row,
		       int64_t from, int64_t n, double sum[TILE])
{
	for (int64_t j = 0; j < n; j++)
		sum[j] = 0;
	for (int64_t k = 0; k < m->r; k++)
		for (int64_t j = 0; j < n; j++)
			sum[j] += (double)b[row * m->r + k] * (double)a[k * m->in + from + j];
}

/* The same of input `row`, for a weight whose rows are inputs. */
static void sum_input(const struct lora_map *m, const float *a, const float *b, int64_t row,
		      int64_t from, int64_t n, double sum[TILE])
{
	for (int64_t j = 0; j < n; j++) {
		sum[j] = 0;
		for (int64_t k = 0; k < m->r; k++)
			sum[j] += (double)b[(from + j) * m->r + k] * (double)a[k * m->in + row];
	}
}

int lora_merge(struct zr_inst *inst, const struct zr_merge *g)
{
	const struct lora_map *m = map_of(inst, g->tensor);
	if (!m)
		return zr_fail(inst->h, ZR_EINTERNAL, "tensor %d has no adapter", g->tensor);

	if (m->tied)
		return zr_fail(inst->h, ZR_ENOTSUP,
			       "%s is the head, too, which has no adapter: a merged model would "
			       "need an embedding and a head that differ; keep the adapter",
			       m->weight->name);

	const int out_in = m->weight->map == ZR_MAP_OUT_IN || m->heads;
	const int64_t columns = out_in ? m->in : m->out;
	double sum[TILE];
	for (int64_t i = 0; i < g->n; i++)
		for (int64_t from = 0, n; from < columns; from += n) {
			float *w = g->rows + i * columns + from;
			n = columns - from;
			if (n > TILE)
				n = TILE;
			(out_in ? sum_output : sum_input)(m, g->with[0], g->with[1], g->first + i,
							  from, n, sum);
			for (int64_t j = 0; j < n; j++)
				w[j] = (float)((double)w[j] + (double)m->scale * sum[j]);
		}
	return ZR_OK;
}
