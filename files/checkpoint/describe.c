/* SPDX-License-Identifier: Apache-2.0
 *
 * describe.c - a session as a manifest: what a checkpoint of it will say, and what one that it goes
 * on from must say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/options.h"
#include "core/memory/subgroup.h"
#include "core/pretrained/pretrained.h"
#include "files/checkpoint/checkpoint.h"

static void set_key(json_t **to, const char *section, const char *key, const char *text)
{
	char name[300];
	snprintf(name, sizeof name, "%s.%s", section, key);
	zr_json_put(to, name, zr_json_string(text, "(not UTF-8)"));
}

/* Number of ranks and length of the training may change; the batch, what is kept of a parameter and
 * how gradients are summed are compared by their meaning. */
static int is_free(const char *section, const char *key)
{
	static const char all[] = " train.steps train.epochs train.train_batch_size "
				  "train.micro_batch_size train.gradient_accumulation_steps "
				  "train.reduction train.communication_data_type precision.master ";
	char name[300];

	snprintf(name, sizeof name, " %s.%s ", section, key);
	return strstr(all, name) != NULL;
}

static void add_settings(json_t **to, const struct zr_section *s)
{
	const struct zr_opt *o;
	char text[640];

	if (s->plugin)
		set_key(to, s->name, "plugin", s->plugin->desc->id);
	if (s->match)
		set_key(to, s->name, "match", s->match);
	for (uint32_t i = 0; (o = zr_table_next(&s->table, ZR_O_NUMERIC, &i));) {
		if (is_free(s->name, o->name))
			continue;

		zr_value_format(o, s->opts, text, sizeof text);
		set_key(to, s->name, o->name, text);
	}
}

/* What does not change results says nothing here, plugins of these roles included; devices say it
 * by their variants. */
static int matters(const struct zr_section *s)
{
	static const char *const roles[] = { "boot",    "comm",       "device",  "zero",
					     "offload", "activation", "monitor", NULL };

	for (int i = 0; s->role && roles[i]; i++)
		if (!strcmp(s->role, roles[i]))
			return 0;

	return strncmp(s->name, "eval.", 5) != 0;
}

/* The tokens of [model] add_tokens with one blank between them. */
static char *added_text(const struct zr_section *model)
{
	const char *words = model->add_tokens, *word;
	const size_t room = strlen(words) + 1;
	char *text = calloc(1, room);
	size_t n;

	for (size_t at = 0; text && (word = zr_next_word(&words, &n));)
		at += (size_t)snprintf(text + at, room - at, "%s%.*s", at ? " " : "", (int)n, word);

	return text;
}

/* The ids of these tokens with one blank between them. */
static char *added_ids(const struct zr_section *model, const struct zr_model_json *from)
{
	enum { DIGITS = 12 }; /* of a number, and a blank */
	const char *words = model->add_tokens;
	const int32_t *id = from->added.id;
	const size_t room = strlen(words) * DIGITS + 1;
	char *text = calloc(1, room);
	size_t n;

	for (size_t at = 0; text && zr_next_word(&words, &n); id++)
		at += (size_t)snprintf(text + at, room - at, "%s%d", at ? " " : "", *id);

	return text;
}

static void describe_added(const struct zr_setup *p, const struct zr_model_json *from,
			   json_t **meta)
{
	char rows[32], *text;

	if (!p->roles.model.section->add_tokens)
		return;

	text = added_text(p->roles.model.section);
	zr_json_put(meta, ZR_META_ADDED, text ? zr_json_string(text, "(not UTF-8)") : NULL);
	free(text);
	text = added_ids(p->roles.model.section, from);
	zr_json_put(meta, ZR_META_IDS, text ? json_string(text) : NULL);
	free(text);
	snprintf(rows, sizeof rows, "%lld", (long long)from->rows.from);
	if (from->rows.from)
		zr_json_put(meta, ZR_META_ROWS, json_string(rows));
}

/* What the model's config.json was, for those who write weights. */
static void describe_pretrained(const struct zr_setup *p, const struct zr_model_json *from,
				json_t **meta)
{
	const struct zr_pretrained_v1 *v;
	struct zr_error unused = { 0 };
	if (zr_pretrained_tables(from, p->roles.model.section->plugin, &v, &unused))
		return;

	char *text = zr_json_dump(from->root, JSON_COMPACT),
	     *dir = realpath(p->roles.model.section->path, NULL);
	/* one that is not UTF-8 has no JSON */
	json_t *path = NULL;
	if (dir)
		path = zr_json_string(dir, NULL);
	zr_json_put(meta, ZR_META_CONFIG, json_string(text));
	zr_json_put(meta, ZR_META_PREFIX, json_string(v->prefix));
	zr_json_put(meta, ZR_META_IGNORED, json_string(v->ignored));
	if (path || errno == ENOMEM)
		zr_json_put(meta, ZR_META_PATH, path);
	describe_added(p, from, meta);
	free(text);
	free(dir);
}

void zr_describe_model(const struct zr_setup *p, json_t **meta)
{
	const struct zr_model_json *from = zr_config_model_json(p->cfg);

	for (const char *const *k = p->facts.decl.meta; k && k[0] && k[1]; k += 2)
		zr_json_put(meta, k[0], zr_json_string(k[1], "(not UTF-8)"));
	if (from)
		describe_pretrained(p, from, meta);
}

/* What bits depend on beside the options: who computes, and how gradients are summed. */
static void describe_sums(const struct zr_setup *p, json_t **to)
{
	struct zr_device_info host = { .size = sizeof host };
	const struct zr_device_info *d = &p->facts.device_info;
	char text[320];
	int n = snprintf(text, sizeof text, "%s (%s)", d->name, d->variant);

	if (p->roles.host_device.inst &&
	    !((const struct zr_device_v1 *)p->roles.host_device.vtbl)
		     ->info(p->roles.host_device.inst, &host) &&
	    (strcmp(host.name, d->name) || strcmp(host.variant, d->variant)))
		snprintf(text + n, sizeof text - (size_t)n, ", host %s (%s)", host.name,
			 host.variant);
	set_key(to, "device", "variant", text);
	if (p->plan.sums)
		set_key(to, "comm", "sums", p->plan.sums);
	if (zr_codes_gradients(&p->facts))
		set_key(to, "train", "communication_data_type", "MXINT8");
	else
		set_key(to, "train", "communication_data_type",
			zr_dtype_find(p->facts.types.comm_dtype, NULL)->name);
	snprintf(text, sizeof text, "local over %d ranks", p->facts.process.world);
	set_key(to, "train", "reduction", zr_sums_locally(&p->facts) ? text : "slots");
}

static void describe_plugin(const struct zr_section *s, json_t **plugins)
{
	char text[160];

	if (!s->plugin || !s->plugin->desc)
		return;

	snprintf(text, sizeof text, "%s %s", s->plugin->desc->id, s->plugin->desc->version);
	zr_json_put(plugins, s->name, zr_json_string(text, "(not UTF-8)"));
}

static void describe_config(const struct zr_setup *p, struct zr_manifest *m)
{
	char tokens[32];

	for (int i = 0; i < zr_config_count(p->cfg); i++) {
		const struct zr_section *s = zr_config_at(p->cfg, i);
		describe_plugin(s, &m->plugins);
		if (matters(s))
			add_settings(&m->settings, s);
	}

	describe_sums(p, &m->settings);
	if (p->roles.model.section->add_tokens) {
		char *text = added_text(p->roles.model.section);
		if (text)
			set_key(&m->settings, "model", "add_tokens", text);
		free(text);
		text = added_ids(p->roles.model.section, zr_config_model_json(p->cfg));
		if (text)
			set_key(&m->settings, "model", "added_ids", text);
		free(text);
	}

	snprintf(tokens, sizeof tokens, "%lld", (long long)p->roles.source->info.train_tokens);
	set_key(&m->settings, "data", "tokens", tokens);
	zr_describe_model(p, &m->meta);
}

/* "data.file 1" is "1653489 bytes, xxh3 0123456789abcdef in NAME". */
static void describe_file(uint32_t i, const struct zr_data_file *f, json_t **to)
{
	char key[32], hex[17], hash[80], text[1024];

	snprintf(key, sizeof key, ZR_DATA_FILE "%u", i + 1);
	snprintf(hash, sizeof hash, "%lld bytes, %sxxh3 %s", (long long)f->bytes,
		 f->sampled ? "sampled " : "", zr_hex(f->hash, hex));
	snprintf(text, sizeof text, "%s in %s", hash, f->name);
	zr_json_put(to, key, zr_json_string(text, hash));
}

static int describe_data(struct zr_instance *data, json_t **to, struct zr_error *err)
{
	const struct zr_data_v1 *v = data->vtbl;
	struct zr_data_file f = { .size = sizeof f };

	if (!ZR_HAS(v, struct zr_data_v1, file) || !v->file)
		return 0;

	for (uint32_t i = 0;; i++) {
		f.name = NULL;
		int rc = zr_instance_failed(data, v->file(data->inst, i, &f), "file", err);
		if (rc || !f.name)
			return rc;

		describe_file(i, &f, to);
	}
}

static char *config_text(const struct zr_config *cfg)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	int bad = !f || zr_config_write_ini(cfg, f, 0);

	bad |= f && fclose(f);
	if (bad)
		free(text);

	return bad ? NULL : text;
}

/* run: the values, NULL: zeros. */
static void describe_scalars(const struct zr_optimizer *o, const double *run,
			     struct zr_ckpt_optimizer *out)
{
	const struct zr_optimizer_v1 *v = o->it.vtbl;

	out->n_run = (int32_t)zr_run_scalars(o);
	for (int32_t i = 0; i < out->n_run; i++) {
		out->run_name[i] = v->run_names[i];
		out->run[i] = run ? run[i] : 0;
	}
}

static int describe_optimizer(const struct zr_optimizer *o, struct zr_ckpt_optimizer *out,
			      struct zr_error *err)
{
	const struct zr_optimizer_v1 *v = o->it.vtbl;

	out->id = o->it.section->plugin->desc->id;
	out->converts = ZR_HAS(v, struct zr_optimizer_v1, upgrade) && v->upgrade;
	out->state_version = v->state_version;
	out->n_states = (int32_t)o->n_states;
	out->state = calloc(o->n_states + 1, sizeof *out->state);
	if (!out->state)
		return zr_err(err, ZR_ENOMEM, "out of memory for a manifest");

	for (uint32_t i = 0; i < o->n_states; i++) {
		const struct zr_state *st = (const struct zr_state *)((const char *)o->states +
								      (size_t)i * v->state_stride);
		out->state[i] = (struct zr_ckpt_state){ .name = st->name,
							.dtype = st->dtype ? st->dtype : ZR_U8,
							.block_bytes = st->bytes_per_block };
	}

	return 0;
}

/* Ranks that share the states of a tensor; 0: all. */
static int32_t ranks_of(const struct zr_setup *p, int32_t tensor)
{
	int32_t ranks =
		p->facts.mesh.group[p->facts.groups[p->facts.layout.tensor[tensor].unit].state].n;
	if (ranks > 1 && ranks < p->facts.process.world)
		return ranks;

	return 0;
}

/* What a frozen tensor needs in a checkpoint: nothing where [model] path has it. */
static int frozen_of(const struct zr_setup *p, const struct zr_manifest *m, int32_t tensor)
{
	const int added = p->facts.layout.tensor[tensor].flags & ZR_TENSOR_ADDED;

	if (!p->facts.frozen[tensor])
		return 0;
	if (m->source && !added)
		return ZR_FROZEN_LEFT_OUT;

	return ZR_FROZEN_SAVED;
}

static void describe_by_shape(const struct zr_setup *p, struct zr_manifest *m, int32_t tensor)
{
	const struct zr_optimizer *o = &p->roles.optimizer[m->optimizer_of[tensor]];
	const struct zr_subgroup all = { .tensor = tensor };

	for (uint32_t i = 0; i < o->n_states; i++)
		if (zr_is_by_shape(zr_optimizer_state(o, i)))
			*zr_ckpt_by_shape(m, tensor, (int32_t)i) = (uint32_t)zr_block_bytes(
				p, &all, ZR_D_STATE + (int)(o->first_state + i));
}

static int describe_optimizers(const struct zr_session *s, struct zr_manifest *m,
			       struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	const size_t tensors = (size_t)p->facts.layout.n_tensors + 1;
	int rc = 0;

	m->optimizer = calloc((size_t)p->roles.n_optimizers + 1, sizeof *m->optimizer);
	m->optimizer_of = calloc(tensors, sizeof *m->optimizer_of);
	m->frozen = calloc(tensors, sizeof *m->frozen);
	m->ranks = calloc(tensors, sizeof *m->ranks);
	m->by_shape = calloc(tensors * ZR_CKPT_STATES, sizeof *m->by_shape);
	if (!m->optimizer || !m->optimizer_of || !m->frozen || !m->ranks || !m->by_shape)
		return zr_err(err, ZR_ENOMEM, "out of memory for a manifest");

	m->n_optimizers = p->roles.n_optimizers;
	for (int32_t k = 0; !rc && k < p->roles.n_optimizers; k++) {
		rc = describe_optimizer(&p->roles.optimizer[k], &m->optimizer[k], err);
		describe_scalars(&p->roles.optimizer[k], zr_run_of(s, k), &m->optimizer[k]);
		if (zr_has_eval_weights(p))
			m->optimizer[k].evaluates = zr_eval_state(&p->roles.optimizer[k]) + 1;
	}

	for (int32_t i = 0; i < p->facts.layout.n_tensors; i++) {
		m->optimizer_of[i] = zr_optimizer_of(&p->roles, i);
		m->ranks[i] = ranks_of(p, i);
		m->frozen[i] = frozen_of(p, m, i);
		describe_by_shape(p, m, i);
	}

	return rc;
}

/* Bits that are kept of each parameter that is trained. */
static int32_t master_bits_of(const struct zr_setup *p)
{
	switch (p->facts.types.master) {
	case ZR_MASTER_NONE:
		return 16;
	case ZR_MASTER_SPLIT24:
		return 24;
	default:
		return 32;
	}
}

int zr_describe_session(const struct zr_session *s, struct zr_manifest *out, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	struct zr_manifest m = {
		.step = s->step,
		.applied = s->applied,
		.best = ZR_BEST_NONE,
		.seed = p->facts.train->seed,
		.world = p->facts.process.world,
		.entry_blocks = ZR_CKPT_ENTRY_BLOCKS,
		.scale = s->scale,
		.micro = p->facts.batch.micro,
		.slots = p->facts.batch.slots,
		.length = p->facts.batch.length,
		.model = p->roles.model.section->plugin->desc->id,
		.data = p->roles.source->it.section->plugin->desc->id,
		.dtype = zr_dtype_find(p->facts.types.dtype, NULL)->name,
		.master_bits = master_bits_of(p),
		.layout = p->facts.layout,
		.source = s->frozen_hash,
		.other_data = s->other_data,
		.settings = json_object(),
		.plugins = json_object(),
		.meta = json_object(),
		.config = config_text(p->cfg),
	};

	int rc = describe_optimizers(s, &m, err);
	if (!rc)
		rc = describe_data(&s->setup->roles.source->it, &m.settings, err);
	if (!rc)
		describe_config(p, &m);
	if (!rc && !(m.settings && m.plugins && m.meta && m.config))
		rc = zr_err(err, ZR_ENOMEM, "out of memory for a manifest");
	if (rc)
		zr_manifest_free(&m);
	else
		*out = m;

	return rc;
}
