/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding.c - token plus position embedding and its gradient, scalar.
 *
 * out[r,:] = wte[tokens[r],:] + wpe[position of r,:], r in [0, B*T), rows of C. The gradients are
 * dwte[tokens[r],:] += dout[r,:] and dwpe[position of r,:] += dout[r,:], r ascending. Workers split
 * them by columns, since two tokens may be equal but two columns never are. Without wpe and dwpe,
 * their terms are absent. Of some rows of dwte, dwte is the first.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(embedding)(const struct zr_op_embedding *op, int64_t lo, int64_t hi)
{
	int64_t width = op->width;

	for (int64_t r = lo; r < hi; r++) {
		int64_t token = op->tokens[r] * width;
		int64_t pos = zr_position(op->position, r, op->length) * width;
		for (int64_t c = 0; c < width; c++)
			zr_put(op->out, r * width + c, op->dtype,
			       op->wpe ? zr_get(op->wte, token + c, op->dtype) +
						 zr_get(op->wpe, pos + c, op->dtype) :
					 zr_get(op->wte, token + c, op->dtype));
	}
}

void ZR_SCALAR(embedding_bwd)(const struct zr_op_embedding_bwd *op, int64_t lo, int64_t hi)
{
	int64_t width = op->width, bytes = (hi - lo) * (int64_t)sizeof(zr_real);
	int64_t first = zr_wte_first(op), n = zr_wte_rows(op);
	zr_real *dwte = zr_reals(op->dwte), *dwpe = zr_reals(op->dwpe);

	for (int64_t v = 0; dwte && v < n && !(op->flags & ZR_OP_ACCUMULATE_WTE); v++)
		memset(dwte + v * width + lo, 0, (size_t)bytes);
	for (int64_t t = 0; dwpe && t < op->positions && !(op->flags & ZR_OP_ACCUMULATE_WPE); t++)
		memset(dwpe + t * width + lo, 0, (size_t)bytes);
	for (int64_t r = 0; r < op->batch * op->length; r++) {
		int64_t token = op->tokens[r] - first;
		int64_t pos = zr_position(op->position, r, op->length) * width;
		int here = dwte && token >= 0 && token < n;
		for (int64_t c = lo; c < hi; c++) {
			zr_real g = zr_get(op->dout, r * width + c, op->dtype);
			if (here)
				dwte[token * width + c] += g;
			if (dwpe)
				dwpe[pos + c] += g;
		}
	}
}
