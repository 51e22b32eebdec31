/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - how a directory of Hugging Face's GPT-2 becomes this model. Defaults are those of its
 * GPT2Config.
 */
#include "gpt2.h"

#include <stdlib.h>
#include <string.h>

static const struct zr_config_key keys[] = {
	{ .name = "n_layer", .option = "layers", .def = "12" },
	{ .name = "n_head", .option = "heads", .def = "12" },
	{ .name = "n_embd", .option = "width", .def = "768" },
	{ .name = "n_positions", .option = "context", .def = "1024" },
	{ .name = "vocab_size", .option = "vocabulary", .def = "50257" },
	/* what there is one way of */
	{ .name = "architectures", .values = "GPT2LMHeadModel GPT2Model" },
	{ .name = "activation_function", .values = "gelu_new gelu_pytorch_tanh" },
	{ .name = "layer_norm_epsilon", .values = "1e-5" },
	{ .name = "n_inner", .flags = ZR_KEY_ASK },
	{ .name = "scale_attn_weights", .values = "true" },
	{ .name = "scale_attn_by_inverse_layer_idx", .values = "false" },
	{ .name = "reorder_and_upcast_attn", .values = "false" },
	{ .name = "tie_word_embeddings", .values = "true" },
	/* of training, where the INI decides, and of what is not the language model */
	{ .name = "n_ctx" },
	{ .name = "initializer_range" },
	{ .name = "resid_pdrop", .option = "dropout", .def = "0.1", .flags = ZR_KEY_NAMED },
	{ .name = "embd_pdrop", .option = "dropout", .def = "0.1", .flags = ZR_KEY_NAMED },
	{ .name = "attn_pdrop", .option = "dropout", .def = "0.1", .flags = ZR_KEY_NAMED },
	{ .name = "summary_type" },
	{ .name = "summary_use_proj" },
	{ .name = "summary_activation" },
	{ .name = "summary_proj_to_labels" },
	{ .name = "summary_first_dropout" },
};

static int accepts(const struct zr_host *h, const void *opts, const char *key, const char *value)
{
	const struct gpt2_opts *o = opts;
	(void)key; /* n_inner is the only one */
	return strtoll(value, NULL, 10) == 4 * o->width ?
		       ZR_OK :
		       zr_fail(h, ZR_EINVAL,
			       "the feed-forward part is as wide as four times n_embd = %lld",
			       (long long)o->width);
}

static const char *const types[] = { "gpt2", NULL };

const struct zr_pretrained_v1 gpt2_pretrained = {
	.size = sizeof gpt2_pretrained,
	.n_keys = sizeof keys / sizeof *keys,
	.key_stride = sizeof *keys,
	.keys = keys,
	.types = types,
	.presets = "size",
	.prefix = "transformer.",
	/* masks, and the tied embedding again */
	.ignored = "h.*.attn.bias h.*.attn.masked_bias lm_head.weight",
	.accepts = accepts,
};
