/* SPDX-License-Identifier: Apache-2.0
 *
 * spirals.c - on which of two spirals is a point? A network of three layers, y = tanh(W [x 1]),
 * learns it in ZeRO stage 2 on 2 ranks, which are threads of this program.
 */
#include <math.h>
#include <stdio.h>
#include <zeroth/zeroth.h>

#define WIDE 32
#define TENSOR(name, out, in)                                                                      \
	{                                                                                          \
		name, { out, in + 1 }, 2, ZEROTH_INIT_NORMAL, 0, 0.4, 0, 0                         \
	}
const int32_t width[] = { 2, WIDE, WIDE, 1 }, unit[] = { 0, 1, 2 };
const struct zeroth_tensor w[] = { TENSOR("w1", WIDE, 2), TENSOR("w2", WIDE, WIDE),
				   TENSOR("w3", 1, WIDE) };
const struct zeroth_unit u[] = { { "1", w, 1, 0 }, { "2", w + 1, 1, 0 }, { "3", w + 2, 1, 0 } };

static float point(int64_t i, float x[2]) /* returns 1 or -1, its side */
{
	float t = 0.5f + (float)(i * 619 % 4096) / 800, side = i % 2 ? 1 : -1;
	x[0] = side * t * cosf(t) / 5, x[1] = side * t * sinf(t) / 5;
	return side;
}

static int run(const struct zeroth_call *c) /* forward and backward */
{
	const int in = width[c->layer], out = width[c->layer + 1], back = c->dparam != NULL;
	const float *x = c->in, *W = *c->param, *dout = c->dout;
	float *y = c->out, *dx = c->din, *g = back ? *c->dparam : NULL, xy[2], dy;
	for (int64_t s = 0; s < c->samples; s++, x = x ? x + in : x, dx = dx ? dx + in : dx) {
		const float side = point(*(const int *)c->batch + s, xy), *v = x ? x : xy;
		for (int o = 0; o < out; o++) {
			float sum = W[o * (in + 1) + in];
			for (int i = 0; i < in; i++)
				sum += W[o * (in + 1) + i] * v[i];
			if (out == 1)
				c->loss[s] = log1pf(expf(-side * sum));
			else if (!back)
				y[s * out + o] = tanhf(sum);
			dy = out == 1 ? c->scale * -side / (1 + expf(side * sum)) :
			     back     ? dout[s * out + o] * (1 - tanhf(sum) * tanhf(sum)) :
					0;
			for (int i = 0, k = o * (in + 1); back && i <= in; i++, k++)
				g[k] = dy * (i < in ? v[i] : 1) + (s || *c->accumulate ? g[k] : 0);
			for (int i = 0; dx && i < in; i++)
				dx[i] = (o ? dx[i] : 0) + dy * W[o * (in + 1) + i];
		}
	}
	return 0;
}

const struct zeroth_layer layers[] = { { "1", unit, 1, 0, WIDE, 0, 0, run, run },
				       { "2", unit + 1, 1, 0, WIDE, 0, 0, run, run },
				       { "3", unit + 2, 1, 0, 0, 0, 0, run, run } };
const struct zeroth_model model = {
	sizeof model, 3, 3, sizeof *w, sizeof *u, sizeof *layers, u, layers, NULL, NULL, 0, 0, 0
};

int main(void)
{
	struct zeroth *e = zeroth_new();
	double loss = 0;
	int rc = !e || zeroth_set_ranks(e, 2) || zeroth_set_model(e, &model) ||
		 zeroth_set_text(e, "[train]\nmicro_batch_size = 64\n[optimizer]\nlr = 0.01\n") ||
		 zeroth_set(e, "zero.plugin=stage2") || zeroth_open(e);
	for (int step = 0; !rc && step < 300; step++) {
		int first[2] = { step * 128, step * 128 + 64 }; /* points of each rank */
		rc = zeroth_forward(e, (const void *[]){ first, first + 1 }, &loss) ||
		     zeroth_backward(e) || zeroth_step(e, NULL);
	}
	printf("loss %.4f after 300 steps%s%s\n", loss, rc ? ": " : "", rc ? zeroth_error(e) : "");
	zeroth_close(e);
	return rc != 0;
}
