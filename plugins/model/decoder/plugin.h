/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - what a family's file ends with: the plugin model/ID of `struct family family`.
 */
#ifndef ZR_DECODER_PLUGIN_H
#define ZR_DECODER_PLUGIN_H

#include "decoder.h"

int decoder_create(const struct zr_host *, const struct family *, const void *opts,
		   struct zr_inst **out);
void decoder_destroy(struct zr_inst *);
extern const struct zr_model_v1 decoder_model;

/* The model directories that it reads; `ignore` and further members of struct zr_pretrained_v1. */
#define DECODER_FILES(ignore, ...) \
	static const struct family family; \
	static int accepts(const struct zr_host *h, const void *options, const char *key, \
			   const char *value) \
	{ \
		return decoder_accepts(h, &family, options, key, value); \
	} \
	static const struct zr_pretrained_v1 pretrained = { \
		.size = sizeof pretrained, \
		.n_keys = sizeof keys / sizeof *keys, \
		.key_stride = sizeof *keys, \
		.keys = &keys->key, \
		.types = types, \
		.ignored = ignore, \
		.accepts = accepts, \
		__VA_ARGS__ \
	}

/* The members of `family` that are its tables. */
#define DECODER_TABLES \
	.opts = opts, .n_opts = sizeof opts / sizeof *opts, .presets = presets, \
	.tensors = tensors, .n_tensors = sizeof tensors / sizeof *tensors, \
	.pretrained = &pretrained

#define DECODER_PLUGIN(plugin_id, text) \
	static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts) \
	{ \
		return decoder_resolve(h, facts, &family, opts); \
	} \
	static int check(const struct zr_host *h, const void *opts) \
	{ \
		return decoder_check(h, &family, opts); \
	} \
	static int create(const struct zr_host *h, const void *opts, struct zr_inst **out) \
	{ \
		return decoder_create(h, &family, opts, out); \
	} \
	static const struct zr_iface ifaces[] = { { "zr.model/1", &decoder_model }, \
						  { "zr.pretrained/1", &pretrained }, \
						  { NULL, NULL } }; \
	static const struct zr_desc desc = { \
		.size = sizeof desc, \
		.role = "model", \
		.id = plugin_id, \
		.version = "1.0", \
		.license = "Apache-2.0", \
		.summary = text, \
		.ifaces = ifaces, \
		.opts = opts, \
		.n_opts = sizeof opts / sizeof *opts, \
		.opt_stride = sizeof *opts, \
		.opts_size = sizeof(struct decoder_opts), \
		.resolve = resolve, \
		.check = check, \
		.create = create, \
		.destroy = decoder_destroy, \
	}; \
	ZR_PLUGIN(&desc)

#endif
