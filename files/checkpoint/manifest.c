/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c - see manifest.h: writing, and what must be equal to go on.
 */
#include "files/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/json.h"
#include "core/base/log.h"

/* ---- writing ---- */

static json_t *states(const struct zr_ckpt_optimizer *o)
{
	json_t *list = json_array();

	for (int32_t i = 0; i < o->n_states; i++) {
		const struct zr_ckpt_state *st = &o->state[i];
		const char *dtype = zr_dtype_find(st->dtype, NULL)->name;
		json_t *j = json_pack("{s:s, s:s}", "name", st->name, "dtype", dtype);
		if (st->block_bytes)
			zr_json_put(&j, "bytes_per_block", json_integer(st->block_bytes));
		zr_json_add(&list, j);
	}

	return list;
}

/* Doubles as texts that read back to the bit. */
static json_t *scalars(const struct zr_ckpt_optimizer *o)
{
	json_t *list = json_array();

	for (int32_t i = 0; i < o->n_run; i++)
		zr_json_add(&list, json_pack("{s:s, s:o}", "name", o->run_name[i], "value",
					     json_sprintf("%a", o->run[i])));

	return list;
}

static json_t *optimizer(const struct zr_ckpt_optimizer *o)
{
	json_t *j = json_pack("{s:s, s:I, s:o}", "id", o->id, "state_version",
			      (json_int_t)o->state_version, "states", states(o));
	if (o->n_run)
		zr_json_put(&j, "scalars", scalars(o));
	if (o->evaluates)
		zr_json_put(&j, "evaluates", json_string(o->state[o->evaluates - 1].name));
	return j;
}

static json_t *optimizers(const struct zr_manifest *m)
{
	json_t *list = json_array();

	for (int32_t k = 0; k < m->n_optimizers; k++)
		zr_json_add(&list, optimizer(&m->optimizer[k]));

	return list;
}

static const char *const frozen_text[] = {
	[ZR_FROZEN_SAVED] = "saved", [ZR_FROZEN_LEFT_OUT] = "left out"
};

/* A number for each state by shape. */
static json_t *by_shape(const struct zr_manifest *m, int32_t tensor)
{
	const struct zr_ckpt_optimizer *o = &m->optimizer[m->optimizer_of[tensor]];
	json_t *list = json_array();

	for (int32_t i = 0; i < o->n_states; i++)
		if (zr_ckpt_is_by_shape(&o->state[i]))
			zr_json_add(&list, json_integer(*zr_ckpt_by_shape(m, tensor, i)));

	return list;
}

static int has_by_shape(const struct zr_ckpt_optimizer *o)
{
	for (int32_t i = 0; i < o->n_states; i++)
		if (zr_ckpt_is_by_shape(&o->state[i]))
			return 1;

	return 0;
}

static json_t *tensors(const struct zr_manifest *m, const struct zr_unit_place *u)
{
	json_t *list = json_array();
	char hex[17];

	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_tensor *t = m->layout.tensor[i].decl;
		json_t *shape = json_array();
		for (int32_t d = 0; d < t->ndim; d++)
			zr_json_add(&shape, json_integer(t->dims[d]));
		json_t *j = json_pack("{s:s, s:o, s:i}", "name", t->name, "shape", shape,
				      "optimizer", m->optimizer_of[i]);
		if (m->ranks[i])
			zr_json_put(&j, "ranks", json_integer(m->ranks[i]));
		if (m->layout.tensor[i].persistent)
			zr_json_put(&j, "persistent", json_integer(m->layout.tensor[i].persistent));
		if (has_by_shape(&m->optimizer[m->optimizer_of[i]]))
			zr_json_put(&j, "bytes_per_block", by_shape(m, i));
		if (zr_manifest_frozen(m, i))
			zr_json_put(&j, "frozen",
				    json_string(frozen_text[zr_manifest_frozen(m, i)]));
		if (zr_manifest_frozen(m, i) == ZR_FROZEN_LEFT_OUT)
			zr_json_put(&j, "source_xxh3", json_string(zr_hex(m->source[i], hex)));
		zr_json_add(&list, j);
	}

	return list;
}

static json_t *units(const struct zr_manifest *m)
{
	json_t *list = json_array();
	for (int32_t u = 0; u < m->layout.n_units; u++)
		zr_json_add(&list, json_pack("{s:s, s:o}", "name", m->layout.unit[u].name,
					     "tensors", tensors(m, &m->layout.unit[u])));

	return list;
}

static json_t *files(const struct zr_manifest *m)
{
	json_t *list = json_array();

	for (int32_t r = 0; r < m->world; r++) {
		char name[ZR_CKPT_NAME], hex[17];
		zr_json_add(&list, json_pack("{s:s, s:I, s:s}", "name",
					     zr_ckpt_file_name(r, m->world, name), "bytes",
					     (json_int_t)m->file[r].bytes, "header_xxh3",
					     zr_hex(m->file[r].header, hex)));
	}

	return list;
}

/* Doubles as texts that read back to the bit. */
static json_t *scale(const struct zr_scale *s)
{
	char text[40];
	snprintf(text, sizeof text, "%a", s->scale);
	return json_pack("{s:s, s:I, s:I, s:I}", "scale", text, "step", (json_int_t)s->step,
			 "last_overflow", (json_int_t)s->last_overflow, "hysteresis",
			 (json_int_t)s->hysteresis);
}

static json_t *text_of(const char *text)
{
	return zr_json_string(text ? text : "", "(not UTF-8)");
}

/* The oldest version that can say what the manifest says. */
static int version_of(const struct zr_manifest *m)
{
	int version = 1;

	for (int32_t k = 0; k < m->n_optimizers; k++)
		if (m->optimizer[k].n_run || m->optimizer[k].evaluates ||
		    has_by_shape(&m->optimizer[k]))
			return 5;
	if (m->layout.persistent)
		return 4;

	for (int32_t i = 0; i < m->layout.n_tensors; i++) {
		if (m->ranks[i])
			return 3;
		if (zr_manifest_frozen(m, i))
			version = 2;
	}

	return version;
}

static json_t *best_of(const struct zr_best *b)
{
	return json_sprintf("%a %" PRId64 " %" PRId64 " %a", b->loss, b->step, b->since, b->lowest);
}

static json_t *batch_of(const struct zr_manifest *m)
{
	return json_pack("{s:I, s:I, s:I}", "micro_batch_size", (json_int_t)m->micro, "slots",
			 (json_int_t)m->slots, "sequence_length", (json_int_t)m->length);
}

/* The text of an object, with the hash of what follows as its first value; NULL: no memory. */
static char *with_hash(const char *object)
{
	size_t size = strlen(object) + 64;
	char *out = malloc(size), hex[17];
	if (!out)
		return NULL;

	/* the object starts with "{\n" */
	snprintf(out, size, "{\"xxh3\": \"%s\",\n%s\n", zr_hex(0, hex), object + 2);
	const char *rest = strchr(out, '\n') + 1;
	memcpy(out + 10, zr_hex(XXH3_64bits(rest, strlen(rest)), hex), 16);
	return out;
}

char *zr_manifest_text(const struct zr_manifest *m)
{
	json_t *root = json_pack("{s:s, s:i, s:I, s:I, s:I, s:i, s:i, s:I}", "format",
				 "zeroth checkpoint", "version", version_of(m), "step",
				 (json_int_t)m->step, "applied", (json_int_t)m->applied, "seed",
				 (json_int_t)m->seed, "world", m->world, "block_elements", ZR_BLOCK,
				 "entry_blocks", (json_int_t)m->entry_blocks);

	zr_json_put(&root, "loss_scale", scale(&m->scale));
	if (m->best.step >= 0 || m->best.since > 0)
		zr_json_put(&root, "best", best_of(&m->best));
	zr_json_put(&root, "batch", batch_of(m));
	zr_json_put(&root, "model", text_of(m->model));
	zr_json_put(&root, "data", text_of(m->data));
	zr_json_put(&root, "dtype", text_of(m->dtype));
	zr_json_put(&root, "master_bits", json_integer(m->master_bits));
	zr_json_put(&root, "plugins", json_incref(m->plugins));
	zr_json_put(&root, "settings", json_incref(m->settings));
	zr_json_put(&root, "meta", json_incref(m->meta));
	zr_json_put(&root, "files", files(m));
	zr_json_put(&root, "optimizers", optimizers(m));
	zr_json_put(&root, "units", units(m));
	zr_json_put(&root, "config", text_of(m->config));

	char *body = zr_json_dump(root, JSON_INDENT(1)), *out = NULL;
	json_decref(root);
	if (body)
		out = with_hash(body);
	free(body);
	return out;
}

int zr_manifest_same(const struct zr_manifest *m, const char *text, const struct zr_manifest *back,
		     struct zr_error *err)
{
	char *again = zr_manifest_text(back);
	int same = again && !strcmp(again, text) && json_equal(m->settings, back->settings) &&
		   json_equal(m->plugins, back->plugins) && json_equal(m->meta, back->meta);
	int rc;

	if (!again)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for a manifest");
	else if (!same)
		rc = zr_err(err, ZR_EIO, "the manifest does not read back as it was written");
	else
		rc = 0;
	free(again);
	if (rc)
		return rc;

	return zr_manifest_accepts(m, back, 0, err);
}

/* ---- what must be equal ---- */

static int same_number(const char *what, int64_t here, int64_t saved, struct zr_error *err)
{
	if (here == saved)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s was %lld, is %lld", what, (long long)saved,
		      (long long)here);
}

static int same_text(const char *what, const char *here, const char *saved, struct zr_error *err)
{
	if (!strcmp(here, saved))
		return 0;
	return zr_err(err, ZR_EINVAL, "%s was %s, is %s", what, saved, here);
}

#define ANOTHER_MODEL                                                                              \
	": give [model] and [adapter] as they were, which config.ini of its run has, or train "    \
	"without --resume in another [run] dir"

/* cut: one was written when units had frozen tensors and others. */
static int same_tensor(const struct zr_place *here, const struct zr_place *saved, int cut,
		       struct zr_error *err)
{
	const struct zr_tensor *a = here->decl, *b = saved->decl;
	int same = a->ndim == b->ndim && (cut || here->unit == saved->unit);

	if (strcmp(a->name, b->name))
		return zr_err(
			err, ZR_EINVAL,
			"the model is another one, with tensor %s where it had %s" ANOTHER_MODEL,
			a->name, b->name);

	for (int32_t d = 0; same && d < a->ndim; d++)
		same = a->dims[d] == b->dims[d];
	if (same)
		return 0;

	return zr_err(err, ZR_EINVAL,
		      "the model is another one: tensor %s had another shape: %lld "
		      "elements, now %lld" ANOTHER_MODEL,
		      a->name, (long long)saved->elements, (long long)here->elements);
}

/* Whether `longer` is the id of `plain` with the digit of its 8 bits behind it, or the same. */
static int is_variant(const char *longer, const char *plain)
{
	size_t n = strlen(plain);
	return !strncmp(longer, plain, n) && (!longer[n] || !strcmp(longer + n, "8"));
}

/* adamw with states of 8 bits was a plugin of its own, `adamw8`; lion likewise. */
static int same_id(const char *a, const char *b)
{
	return is_variant(a, b) || is_variant(b, a);
}

/* The same scalars of the run. */
static int same_scalars(const struct zr_ckpt_optimizer *here, const struct zr_ckpt_optimizer *saved,
			struct zr_error *err)
{
	if (here->n_run != saved->n_run)
		return zr_err(err, ZR_EINVAL, "optimizer %s had %d scalars of the run, has %d",
			      here->id, saved->n_run, here->n_run);

	for (int32_t i = 0; i < here->n_run; i++)
		if (strcmp(here->run_name[i], saved->run_name[i]))
			return zr_err(err, ZR_EINVAL,
				      "scalar %d of the run of optimizer %s was %s, is %s", i,
				      here->id, saved->run_name[i], here->run_name[i]);

	return 0;
}

/* The same plugin with the same states, of versions and types that it reads. */
static int same_optimizer(const struct zr_ckpt_optimizer *here,
			  const struct zr_ckpt_optimizer *saved, const char *tensor,
			  struct zr_error *err)
{
	if (!same_id(here->id, saved->id))
		return zr_err(err, ZR_EINVAL, "the optimizer of tensor %s was %s, is %s", tensor,
			      saved->id, here->id);
	if (here->state_version != saved->state_version && !here->converts)
		return zr_err(err, ZR_EINVAL,
			      "the state of optimizer %s was of version %u, is of version %u",
			      here->id, saved->state_version, here->state_version);
	if (here->n_states != saved->n_states)
		return zr_err(err, ZR_EINVAL, "optimizer %s had %d state tensors, has %d", here->id,
			      saved->n_states, here->n_states);

	for (int32_t i = 0; i < here->n_states; i++) {
		const struct zr_ckpt_state *a = &here->state[i], *b = &saved->state[i];
		int other = a->dtype != b->dtype || a->block_bytes != b->block_bytes;
		if (strcmp(a->name, b->name) || (other && !here->converts))
			return zr_err(err, ZR_EINVAL,
				      "state %d of optimizer %s was %s in %s, is %s in %s", i,
				      here->id, b->name, zr_dtype_find(b->dtype, NULL)->name,
				      a->name, zr_dtype_find(a->dtype, NULL)->name);
	}

	return same_scalars(here, saved, err);
}

/* Their bytes follow from options, too: which sides of a matrix an optimizer knows. */
static int same_by_shape(const struct zr_manifest *here, const struct zr_manifest *saved, int32_t i,
			 struct zr_error *err)
{
	const struct zr_ckpt_optimizer *o = &here->optimizer[here->optimizer_of[i]];

	for (int32_t k = 0; k < o->n_states; k++) {
		if (!zr_ckpt_is_by_shape(&o->state[k]) || zr_manifest_frozen(here, i))
			continue;

		uint32_t now = *zr_ckpt_by_shape(here, i, k), was = *zr_ckpt_by_shape(saved, i, k);
		if (now != was)
			return zr_err(err, ZR_EINVAL,
				      "state %s of tensor %s had %u bytes per block, has %u: give "
				      "optimizer %s the options that it had",
				      o->state[k].name, here->layout.tensor[i].decl->name, was, now,
				      o->id);
	}

	return 0;
}

/* What is left out here is where the model began, and must be what it was then. */
static int same_frozen(const struct zr_manifest *here, const struct zr_manifest *saved, int32_t i,
		       int cut, struct zr_error *err)
{
	const char *name = here->layout.tensor[i].decl->name;
	int now = zr_manifest_frozen(here, i), was = zr_manifest_frozen(saved, i);
	if (!now != !was)
		return zr_err(err, ZR_EINVAL,
			      "tensor %s was %s, is %s: give [train] freeze as it "
			      "was, or begin with what `zeroth checkpoint export` makes",
			      name, was ? "frozen" : "trained", now ? "frozen" : "trained");
	if (was == ZR_FROZEN_SAVED && now == ZR_FROZEN_LEFT_OUT)
		return zr_err(err, ZR_EINVAL,
			      "tensor %s is frozen and was saved: go on with "
			      "[checkpoint] save = all",
			      name);
	if (was == ZR_FROZEN_LEFT_OUT && now != ZR_FROZEN_LEFT_OUT)
		return zr_err(err, ZR_EINVAL,
			      "tensor %s is frozen and was left out: it needs "
			      "[checkpoint] save = trainable and the [model] path that it is in",
			      name);
	if (was == ZR_FROZEN_LEFT_OUT && here->source[i] != saved->source[i])
		return zr_err(err, ZR_EINVAL,
			      "tensor %s is frozen and was left out: in [model] path it is not "
			      "what it was, or [model] store is another%s",
			      name,
			      cut ? ", or an older zeroth saved this, with 32 bits of it: begin "
				    "with what `zeroth checkpoint export` makes" :
				    "");

	return 0;
}

static int same_persistent(const struct zr_place *here, const struct zr_place *saved,
			   struct zr_error *err)
{
	if (here->persistent == saved->persistent)
		return 0;

	return zr_err(err, ZR_EINVAL,
		      "the model is another one: tensor %s had %lld persistent numbers, has "
		      "%lld" ANOTHER_MODEL,
		      here->decl->name, (long long)saved->persistent, (long long)here->persistent);
}

static int same_layout(const struct zr_manifest *here, const struct zr_manifest *saved,
		       struct zr_error *err)
{
	const int32_t n = here->layout.n_tensors;
	const int cut = here->layout.n_units != saved->layout.n_units;
	int rc = 0;

	if (n != saved->layout.n_tensors)
		return zr_err(err, ZR_EINVAL,
			      "the model is another one, of %d tensors "
			      "where it had %d" ANOTHER_MODEL,
			      n, saved->layout.n_tensors);

	for (int32_t i = 0; !rc && i < n; i++)
		rc = same_tensor(&here->layout.tensor[i], &saved->layout.tensor[i], cut, err);
	for (int32_t i = 0; !rc && i < n; i++)
		rc = same_persistent(&here->layout.tensor[i], &saved->layout.tensor[i], err);
	for (int32_t i = 0; !rc && i < n; i++)
		rc = same_frozen(here, saved, i, cut, err);
	for (int32_t i = 0; !rc && i < n; i++)
		rc = same_optimizer(&here->optimizer[here->optimizer_of[i]],
				    &saved->optimizer[saved->optimizer_of[i]],
				    here->layout.tensor[i].decl->name, err);
	for (int32_t i = 0; !rc && i < n; i++)
		rc = same_by_shape(here, saved, i, err);

	return rc;
}

static const char *setting(const struct zr_manifest *m, const char *key)
{
	const char *text = json_string_value(json_object_get(m->settings, key));
	if (text)
		return text;
	return "not there";
}

/* Of data, "BYTES, HASH in NAME", the name may be another. */
static int same_setting(const char *here, const char *saved, int is_data)
{
	const char *name = NULL;
	if (is_data)
		name = strstr(here, " in ");
	return !strncmp(here, saved, name ? (size_t)(name - here) : strlen(here) + 1);
}

static int has_data(const struct zr_manifest *m)
{
	return json_object_get(m->settings, ZR_DATA_FILE "1") != NULL;
}

/* Other data is refused, other settings are said. Options of another plugin differ with its name,
 * those of a device by its variant alone (an older zeroth saved them as well). */
static int same_settings(const struct zr_manifest *here, const struct zr_manifest *saved,
			 const char *key, int log, struct zr_error *err)
{
	const char *dot = strrchr(key, '.'), *is = setting(here, key), *was = setting(saved, key);
	int is_data = !strncmp(key, ZR_DATA_FILE, strlen(ZR_DATA_FILE));
	char plugin[300];

	snprintf(plugin, sizeof plugin, "%.*s.plugin", dot ? (int)(dot - key) : 0, key);
	if (same_setting(is, was, is_data) || (is_data && !(has_data(here) && has_data(saved))) ||
	    (!strncmp(key, "device.", 7) && strcmp(key, "device.variant")) ||
	    (strcmp(key, plugin) && strcmp(setting(here, plugin), setting(saved, plugin))))
		return 0;
	if (is_data && !here->other_data)
		return zr_err(err, ZR_EINVAL,
			      "the data is another: %s was %s, is %s: give what it "
			      "was, or go on with --other-data",
			      strchr(key, '.') + 1, was, is);
	if (log)
		zr_logf(ZR_LOG_WARN, "resume",
			"%s was %s, is %s: from here on results are not "
			"those of an uninterrupted run",
			key, was, is);

	return 0;
}

static int all_settings(const struct zr_manifest *here, const struct zr_manifest *saved, int log,
			struct zr_error *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	if (log && has_data(here) && !has_data(saved))
		zr_logf(ZR_LOG_INFO, "resume",
			"the checkpoint has no hash of its data: not compared");
	json_object_foreach(here->settings, key, value)
	{
		if (!rc)
			rc = same_settings(here, saved, key, log, err);
	}

	json_object_foreach(saved->settings, key, value)
	{
		if (!rc && !json_object_get(here->settings, key))
			rc = same_settings(here, saved, key, log, err);
	}

	return rc;
}

/* Whether they are trained from batches of one shape, in one order. */
static int same_batches(const struct zr_manifest *here, const struct zr_manifest *saved,
			struct zr_error *err)
{
	int rc = same_number("[train] seed", here->seed, saved->seed, err);
	if (!rc)
		rc = same_number("[train] micro_batch_size", here->micro, saved->micro, err);
	if (!rc)
		rc = same_number("the number of micro-batches in a step of all ranks", here->slots,
				 saved->slots, err);
	if (!rc)
		rc = same_number("[train] sequence_length", here->length, saved->length, err);

	return rc;
}

/* Whether masters of one precision continue those of the other. */
static int same_masters(const struct zr_manifest *here, const struct zr_manifest *saved, int log,
			struct zr_error *err)
{
	if (here->master_bits == 16 || saved->master_bits == 16)
		return same_number("the number of bits that [precision] keeps of a parameter",
				   here->master_bits, saved->master_bits, err);

	if (log && here->master_bits != saved->master_bits)
		zr_logf(ZR_LOG_WARN, "resume",
			"masters had %d bits, have %d: from here on results "
			"are not those of an uninterrupted run",
			saved->master_bits, here->master_bits);
	return 0;
}

/* Each added token has a row of the embedding: with other tokens, rows would be of others. */
static int same_tokens(const struct zr_manifest *here, const struct zr_manifest *saved,
		       struct zr_error *err)
{
	const char *is = setting(here, "model.add_tokens"),
		   *was = setting(saved, "model.add_tokens"),
		   *ids = setting(here, "model.added_ids"),
		   *were = setting(saved, "model.added_ids");

	if (!strcmp(is, was) && !strcmp(ids, were))
		return 0;
	if (!strcmp(is, was))
		return zr_err(err, ZR_EINVAL,
			      "[model] add_tokens had the ids %s, and tokenizer.json of [model] "
			      "path now gives %s: take the file that it was",
			      were, ids);
	return zr_err(
		err, ZR_EINVAL,
		"[model] add_tokens was %s, is %s: give what it was, or begin with the "
		"weights alone: `zeroth checkpoint export` makes a directory for [model] path",
		was, is);
}

int zr_manifest_accepts(const struct zr_manifest *here, const struct zr_manifest *saved, int log,
			struct zr_error *err)
{
	int rc = same_text("[model] plugin", here->model, saved->model, err);
	if (!rc)
		rc = same_tokens(here, saved, err);
	if (!rc)
		rc = same_layout(here, saved, err);
	if (!rc)
		rc = same_batches(here, saved, err);
	if (!rc)
		rc = same_text("[data] plugin", here->data, saved->data, err);
	if (!rc)
		rc = same_text("the type of [precision]", here->dtype, saved->dtype, err);
	if (!rc)
		rc = same_masters(here, saved, log, err);
	if (!rc)
		rc = all_settings(here, saved, log, err);

	return rc;
}
