/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding.simd.c - embedding.c with vectors over columns; same additions in the same order, same
 * bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void forward_columns(void *out, const void *token, const void *pos, int64_t c,
			       int32_t dtype, int n)
{
	vf x = vload_n(token, c, dtype, n);

	if (pos)
		x = x + vload_n(pos, c, dtype, n);
	vstore_n(out, c, dtype, x, n);
}

ZR_INLINE void forward(const struct zr_op_embedding *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t width = op->width, c;

	for (int64_t r = lo; r < hi; r++) {
		const void *token = zr_at(op->wte, op->tokens[r] * width, dtype);
		int64_t at = zr_position(op->position, r, op->length) * width;
		const void *pos = op->wpe ? zr_at(op->wpe, at, dtype) : NULL;
		void *out = zr_at(op->out, r * width, dtype);
		for (c = 0; c + ZR_W <= width; c += ZR_W)
			forward_columns(out, token, pos, c, dtype, ZR_W);
		if (c < width)
			forward_columns(out, token, pos, c, dtype, (int)(width - c));
	}
}

void ZR_SIMD(embedding)(const struct zr_op_embedding *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

ZR_INLINE void backward_columns(float *token, float *pos, const void *dout, int64_t c,
				int32_t dtype, int n)
{
	vf g = vload_n(dout, c, dtype, n);

	if (token)
		vstore_n(token, c, ZR_F32, vload_n(token, c, ZR_F32, n) + g, n);
	if (pos)
		vstore_n(pos, c, ZR_F32, vload_n(pos, c, ZR_F32, n) + g, n);
}

ZR_INLINE void backward(const struct zr_op_embedding_bwd *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t width = op->width, first = zr_wte_first(op), n = zr_wte_rows(op), c;

	for (int64_t r = 0; r < op->batch * op->length; r++) {
		const void *dout = zr_at(op->dout, r * width, dtype);
		int64_t row = op->tokens[r] - first;
		float *token = op->dwte && row >= 0 && row < n ? op->dwte + row * width : NULL;
		int64_t at = zr_position(op->position, r, op->length) * width;
		float *pos = op->dwpe ? op->dwpe + at : NULL;
		for (c = lo; c + ZR_W <= hi; c += ZR_W)
			backward_columns(token, pos, dout, c, dtype, ZR_W);
		if (c < hi)
			backward_columns(token, pos, dout, c, dtype, (int)(hi - c));
	}
}

static void zero(float *rows, int64_t n, int64_t width, int64_t lo, int64_t hi)
{
	for (int64_t r = 0; r < n; r++)
		memset(rows + r * width + lo, 0, (size_t)(hi - lo) * sizeof *rows);
}

void ZR_SIMD(embedding_bwd)(const struct zr_op_embedding_bwd *op, int64_t lo, int64_t hi)
{
	if (op->dwte && !(op->flags & ZR_OP_ACCUMULATE_WTE))
		zero(op->dwte, zr_wte_rows(op), op->width, lo, hi);
	if (op->dwpe && !(op->flags & ZR_OP_ACCUMULATE_WPE))
		zero(op->dwpe, op->positions, op->width, lo, hi);
	ZR_BY_DTYPE(op->dtype, backward, op, lo, hi);
}
