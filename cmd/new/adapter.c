/* @ID@ - an adapter for zeroth: it trains little of a model. See zeroth-plugin(7),
 * zeroth/adapter.h and zeroth/model.h.
 *
 * As it is written here: biases alone are trained (Zaken et al. 2021), all else is frozen. An
 * adapter stands in front of the model: what zeroth asks it passes on, with another declaration.
 * Tensors of its own would come behind the model's, with ZR_TENSOR_ADDED. */
#include <zeroth/adapter.h>
#include <zeroth/model.h>

#include <stdlib.h>
#include <string.h>

/* What a user may set in [adapter]. */
struct opts {
	uint8_t norms;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, norms, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Train the weights of norms, too."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	const struct zr_model_v1 *model; /* its functions, and its instance */
	struct zr_inst *base;
	struct zr_unit *units; /* as the model's, with tensors of our own */
	struct zr_tensor *tensors;
};

/* Arrays of a declaration may have longer elements than this file knows. */
static const void *element(const void *base, uint32_t stride, uint32_t i)
{
	return (const char *)base + (size_t)i * stride;
}

static int is_trained(const struct zr_inst *inst, const struct zr_tensor *t)
{
	const size_t n = strlen(t->name);
	if (n > 5 && !strcmp(t->name + n - 5, ".bias"))
		return 1;
	return inst->o->norms && t->ndim == 1;
}

/* The model's declaration, but for what is frozen. All that it points to lives until destroy. */
static int declare(struct zr_inst *inst, struct zr_model_decl *out)
{
	int rc = inst->model->declare(inst->base, out);
	uint32_t n = 0;

	for (uint32_t u = 0; u < out->n_units && !rc; u++)
		n += ((const struct zr_unit *)element(out->units, out->unit_stride, u))->n_tensors;
	if (rc)
		return rc;

	inst->h->release(inst->h, inst->units);
	inst->h->release(inst->h, inst->tensors);
	inst->units = inst->h->alloc(inst->h, out->n_units * sizeof *inst->units, "adapter");
	inst->tensors = inst->h->alloc(inst->h, n * sizeof *inst->tensors, "adapter");
	if (!inst->units || !inst->tensors)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for %u tensors", n);

	struct zr_tensor *t = inst->tensors;
	for (uint32_t u = 0; u < out->n_units; u++) {
		const struct zr_unit *of = element(out->units, out->unit_stride, u);
		inst->units[u] = (struct zr_unit){ of->name, t, of->n_tensors, 0 };
		for (uint32_t i = 0; i < of->n_tensors; i++, t++) {
			memcpy(t, element(of->tensors, out->tensor_stride, i), sizeof *t);
			if (!is_trained(inst, t))
				t->flags |= ZR_TENSOR_FROZEN;
		}
	}

	out->units = inst->units;
	out->unit_stride = sizeof *inst->units;
	out->tensor_stride = sizeof *inst->tensors;
	return ZR_OK;
}

static int bytes(struct zr_inst *inst, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		 const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	return inst->model->bytes(inst->base, layer, batch, length, dtype, ops, out);
}

static int forward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	return inst->model->forward(inst->base, c);
}

static int backward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	return inst->model->backward(inst->base, c);
}

static int logits(struct zr_inst *inst, const struct zr_layer_call *c, int64_t row, float *out)
{
	return inst->model->logits(inst->base, c, row, out);
}

static void destroy(struct zr_inst *inst)
{
	inst->h->release(inst->h, inst->units);
	inst->h->release(inst->h, inst->tensors);
	free(inst);
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = opts;
	inst->model = h->get(h, "zr.model/1", &inst->base);
	if (!inst->model || !inst->model->logits) {
		int rc = zr_fail(h, ZR_ESTATE, "there is no model to adapt that can be sampled");
		free(inst);
		return rc;
	}

	*out = inst;
	return ZR_OK;
}

static const struct zr_model_v1 vtbl = {
	.size = sizeof vtbl,
	.declare = declare,
	.bytes = bytes,
	.forward = forward,
	.backward = backward,
	.logits = logits,
};
static const struct zr_iface ifaces[] = { { "zr.model/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "adapter",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Trains biases alone.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
