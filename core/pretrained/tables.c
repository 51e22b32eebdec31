/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.c - see pretrained.h: what a model plugin says of the directories that it reads.
 */
#include <string.h>
#include <zeroth/model.h>

#include "core/base/text.h"
#include "core/pretrained/pretrained.h"

#define IFACE "zr.pretrained/1"

const struct zr_pretrained_v1 *zr_pretrained_of(const struct zr_plugin *p)
{
	struct zr_error unused = { 0 };
	return zr_plugin_iface(p, IFACE, &unused);
}

int zr_pretrained_reads(const struct zr_pretrained_v1 *v, const char *type)
{
	for (int i = 0; v->types[i]; i++)
		if (!strcmp(v->types[i], type))
			return 1;
	return 0;
}

static void types_text(const struct zr_pretrained_v1 *v, char *out, size_t size)
{
	*out = 0;
	for (int i = 0; v->types[i]; i++)
		zr_text_add(out, size, ", ", v->types[i]);
}

int zr_pretrained_tables(const struct zr_model_json *f, const struct zr_plugin *p,
			 const struct zr_pretrained_v1 **out, struct zr_error *err)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(p);
	char types[256];
	if (!v || !v->types || !v->presets || !v->prefix || !v->ignored ||
	    (v->n_keys && v->key_stride < sizeof(struct zr_config_key)))
		return zr_err(err, ZR_EINVAL,
			      "%s: plugin %s does not say how to read a model directory (" IFACE
			      ")",
			      f->path, p->desc->id);

	types_text(v, types, sizeof types);
	if (!zr_pretrained_reads(v, f->type))
		return zr_err(err, ZR_EINVAL,
			      "%s: model_type = %.80s: [model] plugin = %s reads %s", f->path,
			      f->type, p->desc->id, types);

	*out = v;
	return 0;
}
