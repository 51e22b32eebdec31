/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter.c - see adapter.h. PEFT's names are "base_model.model." and those of the model's files.
 */
#include "cmd/adapter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/weights.h"
#include "core/files/file.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"

#define PEFT "base_model.model."

/* NULL: there is no adapter, or it has no files. */
static const struct zr_adapter_v1 *files_of(const struct zr_setup *s)
{
	struct zr_error unused = { 0 };
	const struct zr_section *sec = s->adapter.section;
	return sec ? zr_plugin_iface(sec->plugin, "zr.adapter/1", sizeof(struct zr_adapter_v1),
				     &unused) :
		     NULL;
}

int zr_adapter_is_all(const struct zr_setup *s)
{
	const struct zr_adapter_v1 *v = files_of(s);
	return v && v->config && v->path && zr_config_model_json(s->cfg);
}

static void prefix_of(const struct zr_setup *s, char *out, size_t room)
{
	struct zr_error unused = { 0 };
	const struct zr_pretrained_v1 *v =
		zr_plugin_iface(s->model.section->plugin, "zr.pretrained/1",
				sizeof(struct zr_pretrained_v1), &unused);
	snprintf(out, room, PEFT "%s", v && v->prefix ? v->prefix : "");
}

int zr_adapter_open(struct zr_setup *s, struct zr_tensor_files **out, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = files_of(s);
	const char *dir = v && v->path ? v->path(s->adapter.inst) : NULL;
	char path[PATH_MAX], prefix[256];
	*out = NULL;
	if (!dir || !*dir)
		return 0;
	prefix_of(s, prefix, sizeof prefix);
	snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
	return zr_tensor_files_open(path, &s->layout, ZR_FILES_ADAPTER, prefix, "", out, err);
}

static int write_config(struct zr_setup *s, const struct zr_adapter_v1 *v, const char *dir,
			struct zr_error *err)
{
	const char *base = s->model.section->path;
	char path[PATH_MAX], tmp[PATH_MAX + 8], whole[PATH_MAX];
	if (base && *base && realpath(base, whole))
		base = whole;
	const char *text = v->config(s->adapter.inst, base ? base : "");
	snprintf(path, sizeof path, "%s/adapter_config.json", dir);
	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	if (!text)
		return zr_err(err, ZR_ENOMEM, "out of memory for %s", path);
	int no = zr_file_put(AT_FDCWD, tmp, text, strlen(text));
	no = no ? no : zr_take_name(AT_FDCWD, tmp, path);
	return no ? zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no)) : 0;
}

int zr_adapter_save(struct zr_session *s, const char *dir, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = files_of(s->setup);
	char path[PATH_MAX], prefix[256];
	if (!v || !v->config)
		return 0;
	prefix_of(s->setup, prefix, sizeof prefix);
	snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
	int rc = zr_weights_save_trained(s, path, prefix, err);
	return rc || s->setup->process.rank ? rc : write_config(s->setup, v, dir, err);
}
