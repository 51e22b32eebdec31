/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.c - see inputs.h.
 */
#include "train/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/list.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "files/tokenizer/tokenizer.h"
#include "train/adapter.h"
#include "train/beat.h"
#include "train/file_hash.h"

/* ---- the list ---- */

static int append_file(struct zr_inputs *in, const struct zr_input_file *file, struct zr_error *err)
{
	char *name = strdup(file->name);
	if (!name || zr_list_room(&in->file, in->n + 1, &in->room, sizeof *in->file)) {
		free(name);
		return zr_err(err, ZR_ENOMEM, "out of memory for the names of files");
	}

	in->file[in->n] = *file;
	in->file[in->n++].name = name;
	return 0;
}

/* One that is not there is none. */
static int add_file(struct zr_inputs *in, int kind, const char *path, struct zr_error *err)
{
	struct zr_file_hash of = { .name = path };

	int fd = zr_file_open(AT_FDCWD, path, 1);
	if (fd < 0)
		return errno == ENOENT ? 0 : zr_file_failed(err, path, "cannot read", errno);

	int no = zr_file_hash(fd, &of, in->whole);
	close(fd);
	if (no)
		return zr_file_failed(err, path, "cannot read", no);

	const struct zr_input_file file = { kind, (char *)path, of.bytes, of.hash };
	return append_file(in, &file, err);
}

/* ---- who reads what ---- */

static int add_plugins(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	for (int i = 0; i < zr_config_count(s->cfg); i++) {
		const struct zr_plugin *p = zr_config_at(s->cfg, i)->plugin;
		/* one inside the program has no file */
		int rc = p && *p->path == '/' ? add_file(in, ZR_IN_PLUGIN, p->path, err) : 0;
		if (rc)
			return rc;
	}

	return 0;
}

static int add_config(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	const struct zr_model_json *config = zr_config_model_json(s->cfg);
	if (config)
		return add_file(in, ZR_IN_CONFIG, config->path, err);
	return 0;
}

/* rc: of opening them, which says `why` not. A training that goes on from a checkpoint may need
 * none of them. */
static int add_opened(struct zr_inputs *in, struct zr_tensor_files *f, int rc,
		      const struct zr_error *why, struct zr_error *err)
{
	if (rc)
		return rc == ZR_EINVAL ? 0 : zr_err(err, rc, "%s", why->text);

	const char *path;
	for (int32_t i = 0; !rc && f && (path = zr_tensor_files_path(f, i)); i++)
		rc = add_file(in, ZR_IN_WEIGHTS, path, err);
	zr_tensor_files_close(f);
	return rc;
}

static int add_weights(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	const struct zr_model_json *config = zr_config_model_json(s->cfg);
	const struct zr_section *model = s->roles.model.section;
	const struct zr_pretrained_v1 *v;
	struct zr_tensor_files *f = NULL;
	struct zr_error why = { 0 };

	if (!config)
		return 0;

	int rc = zr_pretrained_tables(config, model->plugin, &v, &why);
	if (!rc)
		rc = zr_tensor_files_open_grown(model->path, &s->facts.layout, ZR_FILES_MODEL,
						v->prefix, v->ignored, config->rows, &f, &why);
	return add_opened(in, f, rc, &why, err);
}

static int add_adapter(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	struct zr_tensor_files *f = NULL;
	struct zr_error why = { 0 };
	int rc = zr_adapter_open(s, &f, &why);
	return add_opened(in, f, rc, &why, err);
}

/* Those that sections of data name, and that of the model, which knows the bytes of a token. */
static int add_tokenizers(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	const char *model = s->roles.model.section->path;
	char file[ZR_TOKENIZER_PATH];
	struct zr_error unused = { 0 };

	for (int i = 0; i < zr_config_count(s->cfg); i++) {
		const struct zr_section *sec = zr_config_at(s->cfg, i);
		const int data = sec->role && !strcmp(sec->role, "data");
		const struct zr_opt *o = data ? zr_table_find(&sec->table, "tokenizer") : NULL;
		const char *path = o ? zr_value_text(o, sec->opts) : NULL;
		if (!path || !*path || zr_tokenizer_find(path, file, &unused))
			continue;

		int rc = add_file(in, ZR_IN_TOKENIZER, file, err);
		if (rc)
			return rc;
	}

	if (!model || snprintf(file, sizeof file, "%s/tokenizer.json", model) >= (int)sizeof file)
		return 0;
	return add_file(in, ZR_IN_TOKENIZER, file, err);
}

/* Asks again, for a hash of all bytes, where the first one is of samples. */
static int hash_all_data(struct zr_instance *data, uint32_t i, struct zr_data_file *f,
			 struct zr_error *err)
{
	if (!f->sampled)
		return 0;

	zr_file_hash_announce(f->name, f->bytes);
	f->whole = 1;
	int rc = ZR_ASK(data, data, file, err, i, f);
	zr_beat();
	if (rc || !f->sampled)
		return rc;
	return zr_err(err, ZR_EINVAL,
		      "[%s] plugin = %s: it hashes no more than samples of %s: "
		      "--verify cannot compare all bytes of it",
		      data->section->name, data->section->plugin->desc->id, f->name);
}

static int add_source(struct zr_instance *data, struct zr_inputs *in, struct zr_error *err)
{
	const struct zr_data_v1 *v = data->vtbl;

	if (!ZR_HAS(v, struct zr_data_v1, file) || !v->file)
		return 0;

	for (uint32_t i = 0;; i++) {
		struct zr_data_file f = { .size = sizeof f };
		int rc = ZR_ASK(data, data, file, err, i, &f);
		if (!rc && f.name && in->whole)
			rc = hash_all_data(data, i, &f, err);
		if (rc || !f.name)
			return rc;

		const struct zr_input_file file = { ZR_IN_DATA, (char *)f.name, f.bytes, f.hash };
		rc = append_file(in, &file, err);
		if (rc)
			return rc;
	}
}

static int add_data(struct zr_setup *s, struct zr_inputs *in, struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < s->roles.n_sources; i++)
		rc = add_source(&s->roles.source[i].it, in, err);

	return rc;
}

int zr_inputs_find(struct zr_setup *s, struct zr_inputs *out, struct zr_error *err)
{
	static int (*const readers[])(struct zr_setup *, struct zr_inputs *, struct zr_error *) = {
		add_plugins, add_config, add_weights, add_adapter, add_tokenizers, add_data,
	};

	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		int rc = readers[i](s, out, err);
		if (rc)
			return rc;
	}

	return 0;
}

void zr_inputs_free(struct zr_inputs *in)
{
	for (int32_t i = 0; i < in->n; i++)
		free(in->file[i].name);
	free(in->file);
	*in = (struct zr_inputs){ 0 };
}
