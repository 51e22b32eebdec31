/* SPDX-License-Identifier: Apache-2.0
 *
 * documents.c - a data plugin whose sequences hold documents of 1 to 12 tokens, drawn from the seed
 * and the place of each token, built and run by tests/system/documents.sh. The first third of a
 * document is no target, every fourth document counts half. DEFECT in the environment breaks one of
 * the arrays; with MASKED every other sequence, and all of each third step, has no target; if that
 * is `all`, none has. With EDGES=n documents of one token lie on both sides of each nth token, and
 * the second and third quarter of a sequence have no target.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/data.h>

#define TOKENS 61

struct zr_inst {
	const struct zr_host *h;
	int64_t length;
};

static int info(struct zr_inst *inst, struct zr_data_info *i)
{
	const char *defect = getenv("DEFECT");
	(void)inst;
	i->flags = ZR_DATA_DOCUMENTS | (defect && !strcmp(defect, "flags") ? 0x80 : 0);
	i->vocabulary = TOKENS;
	i->train_tokens = i->val_tokens = 1 << 20;
	snprintf(i->describe, sizeof i->describe, "documents");
	return ZR_OK;
}

static int prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	inst->length = length;
	return vocabulary < TOKENS ? zr_fail(inst->h, ZR_EINVAL, "vocabulary too small") : ZR_OK;
}

static uint64_t draw(uint64_t seed, uint64_t at)
{
	uint64_t x = seed * 0x9E3779B97F4A7C15u + at + 1;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

static int64_t sequence(const struct zr_batch *b, int64_t slot, int64_t s)
{
	int val = b->split == ZR_SPLIT_VAL;
	return ((val ? 0 : b->step * b->slots) + slot) * b->sequences + s + (val ? 1 << 30 : 0);
}

static int is_masked(const struct zr_batch *b, int64_t slot, int64_t s)
{
	const char *masked = getenv("MASKED");
	int all = masked && !strcmp(masked, "all");
	int64_t n = b->split == ZR_SPLIT_VAL ? sequence(b, slot, s) : s;
	return masked && (all || n % 2 || b->step % 3 == 2);
}

/* How many tokens the n-th document has, which starts at token `start`. */
static int64_t tokens_of(uint64_t key, int64_t n, int64_t start)
{
	const char *edges = getenv("EDGES");
	const int64_t apart = edges ? atol(edges) : 0;

	if (!apart)
		return 1 + (int64_t)(draw(key, (uint64_t)n) % 12);
	return start % apart == 1 ? apart - 2 : 1;
}

static int is_learned(const struct zr_batch *b, int64_t slot, int64_t s, int64_t t, int64_t start,
		      int64_t tokens)
{
	if (is_masked(b, slot, s))
		return 0;
	if (getenv("EDGES"))
		return t < b->length / 4 || t >= b->length - b->length / 4;
	return (t - start) * 3 >= tokens;
}

/* Writes one sequence where b has arrays; returns the sum of its weights. */
static double write(const struct zr_batch *b, int64_t slot, int64_t s)
{
	uint64_t key = draw(b->seed, (uint64_t)sequence(b, slot, s));
	double sum = 0;
	for (int64_t t = 0, start = 0, n = 0; t < b->length; t++) {
		int64_t tokens = tokens_of(key, n, start);
		if (t == start + tokens) {
			start = t;
			tokens = tokens_of(key, ++n, start);
		}
		int learned = is_learned(b, slot, s, t, start, tokens);
		double weight = !learned ? 0 : n % 4 ? 1 : 0.5;
		sum += weight;
		if (!b->inputs)
			continue;
		int64_t r = s * b->length + t;
		b->inputs[r] = (int32_t)(draw(key + 7, (uint64_t)t) % TOKENS);
		b->targets[r] = learned ? (int32_t)(draw(key + 7, (uint64_t)t + 1) % TOKENS) :
					  ZR_NO_TARGET;
		b->starts[r] = (int32_t)start;
		b->positions[r] = (int32_t)(t - start);
		b->weights[r] = (float)weight;
	}
	return sum;
}

static void plant(const struct zr_batch *b)
{
	const char *defect = getenv("DEFECT");
	int64_t last = b->sequences * b->length - 1;
	if (!defect)
		return;
	if (!strcmp(defect, "start"))
		b->starts[last] = (int32_t)b->length;
	else if (!strcmp(defect, "falls"))
		b->starts[last] = b->starts[last - 1] - 1;
	else if (!strcmp(defect, "position"))
		b->positions[last] = 1 << 20;
	else if (!strcmp(defect, "target"))
		b->targets[last] = TOKENS + 1000;
	else if (!strcmp(defect, "weight"))
		b->weights[last] = -1;
}

static int batch(struct zr_inst *inst, const struct zr_batch *b)
{
	(void)inst;
	for (int64_t s = 0; s < b->sequences; s++)
		write(b, b->slot, s);
	plant(b);
	return ZR_OK;
}

static int targets(struct zr_inst *inst, const struct zr_batch *b, double *sum)
{
	struct zr_batch none = *b;
	int64_t first = b->split == ZR_SPLIT_VAL ? b->slot : 0;
	int64_t end = b->split == ZR_SPLIT_VAL ? b->slot + 1 : b->slots;
	(void)inst;
	none.inputs = NULL;
	*sum = 0;
	for (int64_t slot = first; slot < end; slot++)
		for (int64_t s = 0; s < b->sequences; s++)
			*sum += write(&none, slot, s);
	if (getenv("DEFECT") && !strcmp(getenv("DEFECT"), "sum"))
		*sum /= 0;
	return ZR_OK;
}

static struct zr_data_v1 vtbl;

__attribute__((constructor)) static void begin(void)
{
	const char *defect = getenv("DEFECT");
	if (defect && !strcmp(defect, "targets"))
		vtbl.targets = NULL;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	(void)opts;
	if (inst)
		inst->h = h;
	*out = inst;
	return inst ? ZR_OK : zr_fail(h, ZR_ENOMEM, "no memory");
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = info,
	.prepare = prepare,
	.batch = batch,
	.targets = targets,
};
static const struct zr_iface ifaces[] = { { "zr.data/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "data",
	.id = "documents",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Sequences that hold documents.",
	.ifaces = ifaces,
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
