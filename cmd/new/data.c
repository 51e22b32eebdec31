/* @ID@ - data for zeroth: the tokens of each micro-batch. See zeroth-plugin(7) and zeroth/data.h.
 *
 * As it is written here: sequences that count in steps of 1 to `stride`, from a random start; a
 * small model learns them in a minute. */
#include <zeroth/data.h>

#include <stdlib.h>

/* What a user may set in [data]. */
struct opts {
	uint64_t vocabulary, stride;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, vocabulary, ZR_T_COUNT, ZR_O_NUMERIC, "256", 2, 65536, "tokens",
	       "Tokens are 0 to this minus 1."),
	ZR_OPT(struct opts, stride, ZR_T_COUNT, ZR_O_NUMERIC, "3", 1, 1000, "",
	       "The largest difference between two tokens."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
};

/* Also for people: `zeroth data show` prints `describe`. */
static int info(struct zr_inst *inst, struct zr_data_info *out)
{
	out->flags = 0;
	out->vocabulary = (int64_t)inst->o->vocabulary;
	out->train_tokens = 1 << 30; /* as many as one likes */
	out->val_tokens = 1 << 20;
	snprintf(out->describe, sizeof out->describe, "sequences that count, up to %llu",
		 (unsigned long long)inst->o->vocabulary - 1);
	return ZR_OK;
}

/* Once before training: whether sequences of this length can be had. */
static int prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	(void)length;
	if ((uint64_t)vocabulary < inst->o->vocabulary)
		return zr_fail(inst->h, ZR_EINVAL, "vocabulary = %llu is above the model's, %lld",
			       (unsigned long long)inst->o->vocabulary, (long long)vocabulary);
	return ZR_OK;
}

/* A number that looks random, of the numbers before. */
static uint64_t mixed(uint64_t a, uint64_t b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15u;
	a = (a ^ a >> 32) * 0xd6e8feb86659fd93u;
	return a ^ a >> 32;
}

/* The same request always gives the same tokens: (seed, step, slot) is all that it may depend on,
 * so that neither the number of ranks nor a restart changes what is learned. */
static int batch(struct zr_inst *inst, const struct zr_batch *b)
{
	const uint64_t n = inst->o->vocabulary;

	/* the seed is mixed first: seed ^ step is the same for a neighbouring seed and step */
	uint64_t r = mixed(mixed(mixed(mixed(0, b->seed), (uint64_t)b->step), (uint64_t)b->slot),
			   (uint64_t)b->split);
	for (int64_t i = 0; i < b->sequences; i++) {
		r = mixed(r, (uint64_t)i);
		uint64_t token = r % n, stride = 1 + (r >> 32) % inst->o->stride;
		for (int64_t k = 0; k < b->length; k++) {
			b->inputs[i * b->length + k] = (int32_t)token;
			token = (token + stride) % n;
			b->targets[i * b->length + k] = (int32_t)token;
		}
	}

	return ZR_OK;
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = info,
	.prepare = prepare,
	.batch = batch,
};
static const struct zr_iface ifaces[] = { { "zr.data/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "data",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Sequences that count.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
