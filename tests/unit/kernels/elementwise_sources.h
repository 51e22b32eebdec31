/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_sources.h - the sources for NVRTC that tests compile: texts on states of some types.
 */
#ifndef ZR_TESTS_ELEMENTWISE_SOURCES_H
#define ZR_TESTS_ELEMENTWISE_SOURCES_H

#include <stdlib.h>
#include <string.h>

#include "tests/lib/testhost.h"
#include "tests/unit/device/elementwise_texts.h"

#define SOURCE_STEP 3 /* the update that they compute */
#define SOURCE_LR   0x1p-6

struct source {
	const char *name;
	const struct text *text;
	const char *plugin; /* instead of a text: an example */
	int32_t types[ZR_ELEMENTWISE_STATES], lowp;
};

/* What a plugin gives the host for an update. */
struct captured {
	struct zr_elementwise e;
	float k[ZR_ELEMENTWISE_CONSTANTS];
};

static inline int capture(const struct zr_opt_step *s, const struct zr_elementwise *e)
{
	struct captured *c = s->work;
	c->e = *e;
	memcpy(c->k, e->k, e->n_const * sizeof *c->k);
	return ZR_OK;
}

static inline struct captured source_load(const struct source *s)
{
	struct captured c = { { 0 }, { 0 } };
	struct zr_host *h = test_host(1);
	if (s->text) {
		c.e = *s->text->e;
		c.e.roots = s->text->roots;
		s->text->constants(SOURCE_STEP, SOURCE_LR, c.k);
	} else {
		const struct zr_desc *desc = test_plugin(s->plugin);
		const struct zr_optimizer_v1 *v = test_iface(desc, "zr.optimizer/1");
		void *opts = test_options(desc);
		/* scalars of the run: any numbers that differ */
		const double before[] = { 0.25, 0.5, 0.75, 1 }, run[] = { 0.5, 0.625, 1, 2 };
		const struct zr_opt_step step = { .size = sizeof step,
						  .seg_stride = sizeof(struct zr_seg),
						  .step = SOURCE_STEP,
						  .lr = SOURCE_LR,
						  .opts = opts,
						  .work = &c,
						  .elementwise = capture,
						  .run = run,
						  .run_before = before };

		struct zr_inst *inst;
		if (v->n_run > sizeof run / sizeof *run)
			abort();
		if (test_create(h, desc, opts, &inst) || v->step(inst, &step))
			abort();
		desc->destroy(inst);
		free(opts);
	}
	c.e.name = s->name;
	test_host_free(h);
	return c;
}

/* SOURCE(name, text, lowp, types...), EXAMPLE(name, plugin, lowp, types...) */
#define SOURCES(SOURCE, EXAMPLE)                                                                   \
	SOURCE(adamw_fp32, text_adamw, ZR_BF16, ZR_F32, ZR_F32)                                    \
	SOURCE(adamw_bf16, text_adamw, ZR_F32, ZR_BF16, ZR_BF16)                                   \
	SOURCE(adamw_8bit, text_adamw, ZR_F16, 0, 0)                                               \
	SOURCE(lamb_fp32, text_lamb, ZR_BF16, ZR_F32, ZR_F32)                                      \
	SOURCE(lamb_8bit, text_lamb, 0, 0, 0)                                                      \
	SOURCE(words, text_random, 0, 0)                                                           \
	SOURCE(both, text_both, 0, 0)                                                              \
	SOURCE(many, text_many, ZR_F16, ZR_F32, ZR_BF16, 0, ZR_F16, 0, 0, ZR_F32, 0)               \
	EXAMPLE(ademamix_fp32, "ademamix", ZR_BF16, ZR_F32, ZR_F32, ZR_F32)                        \
	EXAMPLE(ademamix_8bit, "ademamix", ZR_F16, 0, 0, 0)                                        \
	EXAMPLE(lion_fp32, "lion", ZR_BF16, ZR_F32)                                                \
	EXAMPLE(lion_8bit, "lion", ZR_F16, 0)                                                      \
	EXAMPLE(signum_fp32, "signum", ZR_BF16, ZR_F32)                                            \
	EXAMPLE(signum_8bit, "signum", ZR_F16, 0)                                                  \
	EXAMPLE(prodigy_bf16, "prodigy", ZR_F16, ZR_BF16, ZR_BF16, ZR_F32, ZR_F32)                 \
	EXAMPLE(dadapt_adam_8bit, "dadapt_adam", ZR_F16, 0, 0, ZR_F32)                             \
	EXAMPLE(schedulefree_8bit, "schedulefree", ZR_F16, 0, ZR_F32, ZR_F32)

#define OF_TEXT(name, text, lowp, ...) { #name, &text, NULL, { __VA_ARGS__ }, lowp },
#define OF_EXAMPLE(name, id, lowp, ...)                                                            \
	{ #name, NULL, "../tests/unit/optimizer/.libs/" id, { __VA_ARGS__ }, lowp },
static const struct source sources[] = { SOURCES(OF_TEXT, OF_EXAMPLE) };
#define N_SOURCES ((int)(sizeof sources / sizeof *sources))

#endif
