/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - what a family's file ends with: the plugin model/ID of `struct family family`.
 */
#ifndef ZR_DECODER_PLUGIN_H
#define ZR_DECODER_PLUGIN_H

#include "decoder.h"
#include "plugins/descriptor.h"

int decoder_create(const struct zr_host *, const struct family *, const void *opts,
		   struct zr_inst **out);
void decoder_destroy(struct zr_inst *);
extern const struct zr_model_v1 decoder_model;

/* The model directories that it reads; `ignore` and further members of struct zr_pretrained_v1. */
#define DECODER_FILES(ignore, ...)                                                                 \
	static const struct family family;                                                         \
	static int accepts(const struct zr_host *h, const void *options, const char *key,          \
			   const char *value)                                                      \
	{                                                                                          \
		return decoder_accepts(h, &family, options, key, value);                           \
	}                                                                                          \
	static const struct zr_pretrained_v1 pretrained = { .size = sizeof pretrained,             \
							    .n_keys = sizeof keys / sizeof *keys,  \
							    .key_stride = sizeof *keys,            \
							    .keys = &keys->key,                    \
							    .types = types,                        \
							    .ignored = ignore,                     \
							    .accepts = accepts,                    \
							    __VA_ARGS__ }

/* The members of `family` that are its tables. */
#define DECODER_TABLES                                                                             \
	.opts = opts, .n_opts = sizeof opts / sizeof *opts, .presets = presets,                    \
	.tensors = tensors, .n_tensors = sizeof tensors / sizeof *tensors,                         \
	.pretrained = &pretrained

#define DECODER_PLUGIN(plugin_id, text)                                                            \
	static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)      \
	{                                                                                          \
		return decoder_resolve(h, facts, &family, opts);                                   \
	}                                                                                          \
	static int check(const struct zr_host *h, const void *opts)                                \
	{                                                                                          \
		return decoder_check(h, &family, opts);                                            \
	}                                                                                          \
	static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)         \
	{                                                                                          \
		return decoder_create(h, &family, opts, out);                                      \
	}                                                                                          \
	static const struct zr_iface ifaces[] = { PLUGIN_IFACE(model, &decoder_model),             \
						  PLUGIN_IFACE(pretrained, &pretrained),           \
						  { NULL, NULL } };                                \
	PLUGIN_DESC(model, plugin_id, ifaces, .version = "1.0", .summary = text,                   \
		    PLUGIN_OPTIONS(struct decoder_opts, opts), .resolve = resolve, .check = check, \
		    .create = create, .destroy = decoder_destroy);                                 \
	ZR_PLUGIN(&desc)

#endif
