/* @ID@ - a model for zeroth: its parameters, and forward and backward of each layer. See
 * zeroth-plugin(7), zeroth/model.h and zeroth/device.h, which are DRAFTS: a plugin of this role
 * loads in the release whose headers it was built with.
 *
 * As it is written here: a token and its position give a vector; `layers` times a network with one
 * hidden layer is added to it; then it says what the next token may be. There is no attention: a
 * token is all that the next one is guessed from. Everything is computed by operations of the
 * device (call->ops): pointers may be into the memory of a GPU, which the processor cannot read. */
#include <zeroth/model.h>

#include <stdlib.h>

/* What a user may set in [model]. */
struct opts {
	int64_t layers, width, context, vocabulary;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
#define COUNT(name, def, most, doc)                                                                \
	ZR_OPT(struct opts, name, ZR_T_I64, ZR_O_NUMERIC, def, 1, most, "", doc)
static const struct zr_opt options[] = {
	COUNT(layers, "2", 64, "Networks that are added."),
	COUNT(width, "32", 65536, "Numbers that stand for a token."),
	COUNT(context, "32", 1000000, "Longest sequence."),
	COUNT(vocabulary, "256", 1000000, "Different tokens."),
};

#define MOST    64 /* layers, as the table says */
#define TENSORS 3  /* of a unit, at most */
#define WIDER   4  /* the hidden layer, in widths */

/* Names that the host reads for as long as the instance is there. */
struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	struct zr_unit unit[MOST + 2];
	struct zr_layer layer[MOST + 2];
	struct zr_tensor tensor[MOST + 2][TENSORS];
	int32_t number[MOST + 2];
	char name[MOST + 2][TENSORS + 1][32];
};

/* ---- parameters ------------------------------------------------------------------ */

/* Tensor k of unit u: [rows, columns], or with columns 0 [rows]. */
static void declare_tensor(struct zr_inst *m, int64_t u, int k, const char *name, int64_t rows,
			   int64_t columns, int32_t map)
{
	struct zr_tensor *t = &m->tensor[u][k];

	snprintf(m->name[u][k], sizeof m->name[u][k], name, (int)u - 1);
	*t = (struct zr_tensor){ .name = m->name[u][k],
				 .ndim = columns ? 2 : 1,
				 .map = map,
				 .dims = { rows, columns ? columns : 1, 1, 1 } };
	t->init = columns ? ZR_INIT_NORMAL : ZR_INIT_CONST; /* biases begin with 0 */
	t->std = columns ? 0.02 : 0;
	m->unit[u].n_tensors = (uint32_t)k + 1;
}

/* A unit is what moves together, and each layer here has one. The canonical order of parameters is
 * that of the units. */
static int declare(struct zr_inst *m, struct zr_model_decl *out)
{
	const struct opts *o = m->o;
	int64_t n = o->layers + 2, width = o->width;

	for (int64_t u = 0; u < n; u++) {
		if (u == 0 || u == n - 1)
			snprintf(m->name[u][TENSORS], sizeof m->name[u][TENSORS], "%s",
				 u ? "head" : "embed");
		else
			snprintf(m->name[u][TENSORS], sizeof m->name[u][TENSORS], "h.%d",
				 (int)u - 1);
		m->number[u] = (int32_t)u;
		m->unit[u] =
			(struct zr_unit){ .name = m->name[u][TENSORS], .tensors = m->tensor[u] };
		m->layer[u] = (struct zr_layer){ .name = m->name[u][TENSORS],
						 .units = &m->number[u],
						 .n_units = 1 };
	}

	declare_tensor(m, 0, 0, "token.weight", o->vocabulary, width, ZR_MAP_NONE);
	declare_tensor(m, 0, 1, "position.weight", o->context, width, ZR_MAP_NONE);
	for (int64_t u = 1; u < n - 1; u++) {
		declare_tensor(m, u, 0, "h.%d.up.weight", WIDER * width, width, ZR_MAP_OUT_IN);
		declare_tensor(m, u, 1, "h.%d.up.bias", WIDER * width, 0, ZR_MAP_NONE);
		declare_tensor(m, u, 2, "h.%d.down.weight", width, WIDER * width, ZR_MAP_OUT_IN);
	}

	declare_tensor(m, n - 1, 0, "head.weight", o->vocabulary, width, ZR_MAP_NONE);
	m->layer[0].flags = ZR_LAYER_INPUT;
	m->layer[n - 1].flags = ZR_LAYER_LOSS;
	out->n_units = out->n_layers = (uint32_t)n;
	out->units = m->unit;
	out->layers = m->layer;
	out->unit_stride = sizeof *m->unit;
	out->layer_stride = sizeof *m->layer;
	out->tensor_stride = sizeof(struct zr_tensor);
	out->vocabulary = o->vocabulary;
	out->context = o->context;
	out->flops_per_token = 6.0 * (double)width *
			       (2 * WIDER * (double)(o->layers * width) + (double)o->vocabulary);
	return ZR_OK;
}

/* ---- layers ---------------------------------------------------------------------- */

static uint64_t bytes_of(const struct zr_layer_call *c, int64_t n)
{
	return zr_bytes_of(c->dtype, n);
}

/* Memory is given out from the front of what the host lends, in multiples of 64 bytes. */
static void *take(char **from, uint64_t bytes)
{
	char *at = *from;
	*from += (bytes + 63) / 64 * 64;
	return at;
}

static struct zr_op_head_loss loss_op(const struct zr_inst *m, const struct zr_layer_call *c)
{
	return (struct zr_op_head_loss){ .size = sizeof(struct zr_op_head_loss),
					 .dtype = c->dtype,
					 .scale = c->grad_scale,
					 .rows = c->batch * c->length,
					 .width = m->o->width,
					 .vocabulary = m->o->vocabulary,
					 .targets = c->targets,
					 .loss = c->loss_rows,
					 .loss_sum = c->loss_sum,
					 .weights = c->weights };
}

/* How much memory each layer needs: what the functions below take. */
static int bytes(struct zr_inst *m, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		 const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	const struct zr_layer_call c = { .dtype = dtype, .batch = batch, .length = length };
	int64_t rows = batch * length;
	uint64_t narrow = (bytes_of(&c, rows * m->o->width) + 63) / 64 * 64;
	uint64_t wide = (bytes_of(&c, rows * WIDER * m->o->width) + 63) / 64 * 64;

	if (layer == m->o->layers + 1) {
		struct zr_op_head_loss op = loss_op(m, &c);
		out->work_fwd = ops->head_loss_work(ops, &op);
		op.dx = m; /* not used: it only says that there is one */
		out->work_bwd = ops->head_loss_work(ops, &op);
		out->work_bwd = out->work_bwd > out->work_fwd ? out->work_bwd : out->work_fwd;
	} else {
		out->out = narrow;
		if (layer > 0) {
			out->saved = wide;
			out->work_fwd = wide + narrow;
			out->work_bwd = 2 * wide + narrow;
		}
	}

	out->grad = narrow;
	return ZR_OK;
}

/* d[M, N] = a b. A matrix without gaps is stored as [M, K], or transposed as `flags` say. */
static int multiply(const struct zr_layer_call *c, uint32_t flags, int64_t M, int64_t N, int64_t K,
		    const void *a, const void *b, void *d, int32_t d_dtype, const void *bias,
		    void *pre)
{
	const struct zr_op_matmul op = { .size = sizeof op,
					 .flags = flags,
					 .m = M,
					 .n = N,
					 .k = K,
					 .lda = flags & ZR_MM_TRANS_A ? M : K,
					 .ldb = flags & ZR_MM_TRANS_B ? K : N,
					 .ldd = N,
					 .a = zr_array_at(c->dtype, a),
					 .b = zr_array_at(c->dtype, b),
					 .d = zr_array_at(d_dtype, d),
					 .bias = bias,
					 .pre = pre };

	return c->ops->matmul(c->ops, c->stream, &op);
}

static int add_vectors(const struct zr_layer_call *c, int64_t n, const void *a, const void *b,
		       void *out)
{
	const struct zr_op_residual op = {
		.size = sizeof op, .dtype = c->dtype, .n = n, .a = a, .b = b, .out = out
	};
	return c->ops->residual(c->ops, c->stream, &op);
}

static int embed(const struct zr_inst *m, const struct zr_layer_call *c)
{
	const struct zr_op_embedding op = { .size = sizeof op,
					    .dtype = c->dtype,
					    .batch = c->batch,
					    .length = c->length,
					    .width = m->o->width,
					    .vocabulary = m->o->vocabulary,
					    .positions = m->o->context,
					    .tokens = c->tokens,
					    .wte = c->param[0],
					    .wpe = c->param[1],
					    .out = c->out,
					    .position = c->positions };

	return c->ops->embedding(c->ops, c->stream, &op);
}

static int embed_backward(const struct zr_inst *m, const struct zr_layer_call *c)
{
	const struct zr_op_embedding_bwd op = {
		.size = sizeof op,
		.dtype = c->dtype,
		.batch = c->batch,
		.length = c->length,
		.width = m->o->width,
		.vocabulary = m->o->vocabulary,
		.positions = m->o->context,
		.flags = (c->accumulate[0] ? ZR_OP_ACCUMULATE_WTE : 0) |
			 (c->accumulate[1] ? ZR_OP_ACCUMULATE_WPE : 0),
		.tokens = c->tokens,
		.dout = c->grad,
		.dwte = c->dparam[0],
		.dwpe = c->dparam[1],
		.position = c->positions
	};

	if (op.dwte || op.dwpe)
		return c->ops->embedding_bwd(c->ops, c->stream, &op);
	return ZR_OK;
}

/* out = x + down gelu(up x + bias); up x + bias is saved for the backward */
static int network(const struct zr_inst *m, const struct zr_layer_call *c)
{
	int64_t rows = c->batch * c->length, C = m->o->width, H = WIDER * C;
	char *work = c->work;
	void *hidden = take(&work, bytes_of(c, rows * H)), *y = take(&work, bytes_of(c, rows * C));

	int rc = multiply(c, ZR_MM_TRANS_B | ZR_MM_GELU, rows, H, C, c->in, c->param[0], hidden,
			  c->dtype, c->param[1], c->saved);
	if (!rc)
		rc = multiply(c, ZR_MM_TRANS_B, rows, C, H, hidden, c->param[2], y, c->dtype, NULL,
			      NULL);
	if (rc)
		return rc;
	return add_vectors(c, rows * C, c->in, y, c->out);
}

/* The gradient of a weight: dy^T x, stored or added as the host says; not at all where it wants
 * none, since the weight is frozen. */
static int weight_backward(const struct zr_layer_call *c, int k, int64_t outputs, int64_t inputs,
			   const void *dy, const void *x)
{
	uint32_t add_to = c->accumulate[k] ? ZR_MM_ACCUMULATE : 0;
	if (!c->dparam[k])
		return ZR_OK;
	return multiply(c, ZR_MM_TRANS_A | add_to, outputs, inputs, c->batch * c->length, dy, x,
			c->dparam[k], ZR_F32, NULL, NULL);
}

/* c->grad is the gradient w.r.t. the output, and becomes that w.r.t. the input. */
static int network_backward(const struct zr_inst *m, const struct zr_layer_call *c)
{
	int64_t rows = c->batch * c->length, C = m->o->width, H = WIDER * C;
	char *work = c->work;
	void *hidden = take(&work, bytes_of(c, rows * H)), *d = take(&work, bytes_of(c, rows * H));
	void *dx = take(&work, bytes_of(c, rows * C));
	const struct zr_op_gelu_bwd gelu = { .size = sizeof gelu,
					     .dtype = c->dtype,
					     .n = rows * H,
					     .dy = d,
					     .pre = c->saved,
					     .dx = d,
					     .act = hidden };
	const struct zr_op_bias_bwd bias = { .size = sizeof bias,
					     .dtype = c->dtype,
					     .rows = rows,
					     .flags = c->accumulate[1] ? ZR_OP_ACCUMULATE : 0,
					     .width = H,
					     .dy = d,
					     .db = c->dparam[1] };

	int rc = multiply(c, 0, rows, H, C, c->grad, c->param[2], d, c->dtype, NULL, NULL);
	if (!rc)
		rc = c->ops->gelu_bwd(c->ops, c->stream, &gelu);
	if (!rc)
		rc = weight_backward(c, 2, C, H, c->grad, hidden);
	if (!rc)
		rc = weight_backward(c, 0, H, C, d, c->in);
	if (!rc && bias.db)
		rc = c->ops->bias_bwd(c->ops, c->stream, &bias);
	if (!rc)
		rc = multiply(c, 0, rows, C, H, d, c->param[0], dx, c->dtype, NULL, NULL);
	if (rc)
		return rc;
	return add_vectors(c, rows * C, c->grad, dx, c->grad);
}

/* The loss, and in the backward gradients, too. */
static int loss(const struct zr_inst *m, const struct zr_layer_call *c, int backward)
{
	struct zr_op_head_loss op = loss_op(m, c);

	op.x = c->in;
	op.w = c->param[0];
	op.work = c->work;
	if (backward) {
		op.flags = c->accumulate[0] ? ZR_OP_ACCUMULATE : 0;
		op.dx = c->grad;
		op.dw = c->dparam[0];
	} else {
		op.right = c->right_rows;
	}
	return c->ops->head_loss(c->ops, c->stream, &op);
}

static int forward(struct zr_inst *m, const struct zr_layer_call *c)
{
	if (c->layer == 0)
		return embed(m, c);
	if (c->layer <= m->o->layers)
		return network(m, c);
	return loss(m, c, 0);
}

static int backward(struct zr_inst *m, const struct zr_layer_call *c)
{
	if (c->layer == 0)
		return embed_backward(m, c);
	if (c->layer <= m->o->layers)
		return network_backward(m, c);
	return loss(m, c, 1);
}

/* ---- the plugin ------------------------------------------------------------------ */

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *m = calloc(1, sizeof *m);
	if (!m)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	m->h = h;
	m->o = opts;
	*out = m;
	return ZR_OK;
}

static void destroy(struct zr_inst *m)
{
	free(m);
}

static const struct zr_model_v1 vtbl = { .size = sizeof vtbl,
					 .declare = declare,
					 .bytes = bytes,
					 .forward = forward,
					 .backward = backward };
static const struct zr_iface ifaces[] = { { "zr.model/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "model",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Guesses a token from the one before it.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
