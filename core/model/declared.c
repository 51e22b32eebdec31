/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.c - see declared.h.
 */
#include "core/model/declared.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/model/layout.h"

enum {
	MOST_NAME = 255,      /* bytes of a name */
	MOST_STRIDE = 4096,   /* bytes from one struct of a table to the next */
	MOST_OF_ALL = 1 << 24 /* units, layers, tensors */
};

static const void *at(const void *table, uint32_t stride, uint32_t i)
{
	return (const char *)table + (size_t)i * stride;
}

static const struct zr_unit *unit_at(const struct zr_model_decl *m, uint32_t i)
{
	return at(m->units, m->unit_stride, i);
}

static const struct zr_layer *layer_at(const struct zr_model_decl *m, uint32_t i)
{
	return at(m->layers, m->layer_stride, i);
}

static const struct zr_tensor *tensor_at(const struct zr_model_decl *m, const struct zr_unit *u,
					 uint32_t i)
{
	return at(u->tensors, m->tensor_stride, i);
}

/* ---- names ----------------------------------------------------------------------- */

/* What is wrong with a name, NULL: nothing. Names are keys of JSON and parts of messages. */
static const char *wrong_name(const char *name)
{
	char line[MOST_NAME + 1];

	if (!name)
		return "is NULL";
	if (!*name)
		return "is empty";
	if (strlen(name) > MOST_NAME)
		return "is longer than 255 bytes";

	memcpy(line, name, strlen(name) + 1);
	zr_one_line(line);
	if (strcmp(line, name) != 0)
		return "has a control character, as a newline";

	json_t *text = zr_json_string(name, "");
	const int is_utf8 = !text || *json_string_value(text); /* no memory: judged when written */
	json_decref(text);
	return is_utf8 ? NULL : "is not UTF-8";
}

static int check_name(const char *what, uint32_t i, const char *name, struct zr_error *err)
{
	const char *wrong = wrong_name(name);

	if (!wrong)
		return 0;
	return zr_err(err, ZR_EINVAL, "name of %s %u (%.40s) %s", what, i, name ? name : "", wrong);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether no two of n names are equal; sorts them. */
static int check_distinct(const char *what, const char **name, size_t n, struct zr_error *err)
{
	if (n)
		qsort(name, n, sizeof *name, by_text);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(name[i - 1], name[i]))
			return zr_err(err, ZR_EINVAL,
				      "two %ss have the name %s; each needs one of "
				      "its own",
				      what, name[i]);
	return 0;
}

/* ---- tensors --------------------------------------------------------------------- */

static int check_values(const struct zr_tensor *t, struct zr_error *err)
{
	if (t->init < ZR_INIT_NORMAL || t->init > ZR_INIT_UNIFORM)
		return zr_err(err, ZR_EINVAL,
			      "tensor %s: init is %d; expected one of "
			      "NORMAL (%d), CONST (%d), UNIFORM (%d)",
			      t->name, t->init, ZR_INIT_NORMAL, ZR_INIT_CONST, ZR_INIT_UNIFORM);
	if (!(fabs(t->mean) <= (double)FLT_MAX))
		return zr_err(err, ZR_EINVAL, "tensor %s: mean is %g; expected a number of fp32",
			      t->name, t->mean);
	if (!(t->std >= 0 && t->std <= (double)FLT_MAX))
		return zr_err(err, ZR_EINVAL,
			      "tensor %s: std is %g; expected a number of fp32, 0 "
			      "or more",
			      t->name, t->std);
	return 0;
}

static int check_tensor(const struct zr_tensor *t, struct zr_error *err)
{
	if (t->ndim < 1 || t->ndim > 4)
		return zr_err(err, ZR_EINVAL, "tensor %s: ndim is %d; expected 1 to 4", t->name,
			      t->ndim);
	for (int d = 0; d < 4; d++)
		if (t->dims[d] < 1 || (d >= t->ndim && t->dims[d] != 1))
			return zr_err(err, ZR_EINVAL, "tensor %s: dims[%d] is %lld; expected %s",
				      t->name, d, (long long)t->dims[d],
				      d < t->ndim ? "1 or more" : "1 behind the last dimension");
	return check_values(t, err);
}

/* left: how many persistent numbers this tensor and those after it may have; the call takes the
 * tensor's own from it. */
static int check_persistent(const struct zr_tensor *t, int32_t *left, struct zr_error *err)
{
	if (t->persistent < 0 || t->persistent > *left)
		return zr_err(err, ZR_EINVAL,
			      "tensor %s: persistent is %d; expected 0 or more, and at most %d in "
			      "all tensors",
			      t->name, t->persistent, ZR_PERSISTENT_MOST);

	*left -= t->persistent;
	return 0;
}

/* Whether n heads, the first of which begins at `begin`, are among so many outputs; of -1 none has
 * to be. */
static int has_room(const struct zr_heads *h, int64_t begin, int64_t apart, int32_t n,
		    int64_t outputs)
{
	if (begin == -1)
		return 1;
	if (begin < 0 || begin > outputs || apart < h->head_dim || apart > outputs || n > outputs)
		return 0;
	return begin + (n - 1) * apart + h->head_dim <= outputs;
}

static int are_heads(const struct zr_heads *h, int64_t outputs)
{
	if (h->heads < 1 || h->kv_heads < 1 || h->heads % h->kv_heads)
		return 0;
	return h->head_dim >= 1 && h->head_dim <= outputs;
}

static int check_heads(const struct zr_model_decl *m, const struct zr_tensor *t,
		       struct zr_error *err)
{
	const struct zr_heads *h = t->heads;
	const int64_t outputs = t->map == ZR_MAP_IN_OUT ? t->dims[1] : t->dims[0];

	if (!h)
		return 0;
	if (t->attention < 0 || (uint32_t)t->attention >= m->n_layers)
		return zr_err(err, ZR_EINVAL, "tensor %s: attention is %d; there are %u layers",
			      t->name, t->attention, m->n_layers);
	if (t->ndim <= 2 && are_heads(h, outputs) &&
	    has_room(h, h->query, h->query_apart, h->heads, outputs) &&
	    has_room(h, h->key, h->key_apart, h->kv_heads, outputs))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "tensor %s: heads: its %lld outputs do not have %d heads of queries "
		      "from %lld on and %d of keys from %lld on, %lld elements each",
		      t->name, (long long)outputs, h->heads, (long long)h->query, h->kv_heads,
		      (long long)h->key, (long long)h->head_dim);
}

/* ---- units and layers ------------------------------------------------------------ */

static int check_unit(const struct zr_model_decl *m, uint32_t i, const char **name, size_t *n,
		      struct zr_error *err)
{
	const struct zr_unit *u = unit_at(m, i);

	for (uint32_t k = 0; k < u->n_tensors; k++) {
		const struct zr_tensor *t = tensor_at(m, u, k);
		int rc = check_name("tensor", k, t->name, err);
		if (!rc)
			rc = check_tensor(t, err);
		if (!rc && ZR_TENSOR_HAS(m, attention))
			rc = check_heads(m, t, err);
		if (rc) {
			zr_err_add(err, ", in unit %s", u->name);
			return rc;
		}
		name[(*n)++] = t->name;
	}
	return 0;
}

static int check_cut(const struct zr_model_decl *m, uint32_t i, struct zr_error *err)
{
	const struct zr_layer *l = layer_at(m, i);
	const int32_t cut = zr_declared_cut(m, l);

	if (cut >= ZR_CUT_WHOLE && cut <= ZR_CUT_KEYS)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "layer %s: cut is %d; expected one of ZR_CUT_WHOLE (%d), ZR_CUT_ROWS (%d), "
		      "ZR_CUT_KEYS (%d)",
		      l->name, cut, ZR_CUT_WHOLE, ZR_CUT_ROWS, ZR_CUT_KEYS);
}

/* user: the layer that used each unit last, and -1; marks those of layer i. */
static int check_layer(const struct zr_model_decl *m, uint32_t i, int32_t *user,
		       struct zr_error *err)
{
	const struct zr_layer *l = layer_at(m, i);

	if (l->n_units && !l->units)
		return zr_err(err, ZR_EINVAL, "layer %s: units is NULL, n_units is %u", l->name,
			      l->n_units);

	for (uint32_t k = 0; k < l->n_units; k++) {
		const int32_t unit = l->units[k];
		if (unit < 0 || (uint32_t)unit >= m->n_units)
			return zr_err(err, ZR_EINVAL,
				      "layer %s: units[%u] is %d; there are %u "
				      "units",
				      l->name, k, unit, m->n_units);
		if (user[unit] == (int32_t)i)
			return zr_err(err, ZR_EINVAL,
				      "layer %s: units[%u] is %d, which it has "
				      "already",
				      l->name, k, unit);

		user[unit] = (int32_t)i;
	}
	return check_cut(m, i, err);
}

/* Messages name tensors, therefore the names have been checked before. */
static int check_all_persistent(const struct zr_model_decl *m, struct zr_error *err)
{
	int32_t left = ZR_PERSISTENT_MOST;

	if (!ZR_TENSOR_HAS(m, persistent))
		return 0;

	for (uint32_t i = 0; i < m->n_units; i++) {
		const struct zr_unit *u = unit_at(m, i);
		for (uint32_t k = 0; k < u->n_tensors; k++) {
			int rc = check_persistent(tensor_at(m, u, k), &left, err);
			if (rc)
				return rc;
		}
	}

	return 0;
}

static int check_units(const struct zr_model_decl *m, const char **name, struct zr_error *err)
{
	size_t n = 0;

	for (uint32_t i = 0; i < m->n_units; i++) {
		int rc = check_unit(m, i, name, &n, err);
		if (rc)
			return rc;
	}
	int rc = check_distinct("tensor", name, n, err);
	if (!rc)
		rc = check_all_persistent(m, err);
	if (rc)
		return rc;

	for (uint32_t i = 0; i < m->n_units; i++)
		name[i] = unit_at(m, i)->name;
	return check_distinct("unit", name, m->n_units, err);
}

static int check_layers(const struct zr_model_decl *m, const char **name, int32_t *user,
			struct zr_error *err)
{
	for (uint32_t i = 0; i < m->n_units; i++)
		user[i] = -1;
	for (uint32_t i = 0; i < m->n_layers; i++) {
		name[i] = layer_at(m, i)->name;
		int rc = check_name("layer", i, name[i], err);
		if (!rc)
			rc = check_layer(m, i, user, err);
		if (rc)
			return rc;
	}

	for (uint32_t i = 0; i < m->n_units; i++)
		if (user[i] < 0)
			return zr_err(err, ZR_EINVAL,
				      "unit %s: no layer has it in its units; use "
				      "it, or take it out",
				      unit_at(m, i)->name);
	return check_distinct("layer", name, m->n_layers, err);
}

/* ---- the tables ------------------------------------------------------------------ */

static int check_stride(const char *field, uint32_t stride, size_t least, struct zr_error *err)
{
	if (stride >= least && stride <= MOST_STRIDE && stride % sizeof(void *) == 0)
		return 0;
	return zr_err(err, ZR_EINVAL, "%s is %u bytes; expected the size of its struct, %zu to %d",
		      field, stride, least, MOST_STRIDE);
}

/* Structs of the oldest interface end with what their last argument names. */
static int check_tables(const struct zr_model_decl *m, struct zr_error *err)
{
	const size_t tensor = offsetof(struct zr_tensor, std) + sizeof(double);
	const size_t layer = offsetof(struct zr_layer, flags) + sizeof(uint32_t);
	int rc = check_stride("unit_stride", m->unit_stride, sizeof(struct zr_unit), err);
	if (!rc)
		rc = check_stride("layer_stride", m->layer_stride, layer, err);
	if (!rc)
		rc = check_stride("tensor_stride", m->tensor_stride, tensor, err);
	if (rc)
		return rc;

	if (!m->units || !m->n_units || m->n_units > MOST_OF_ALL)
		return zr_err(err, ZR_EINVAL, "units: n_units is %u%s; expected 1 to %d",
			      m->n_units, m->units ? "" : ", and the table NULL", MOST_OF_ALL);
	if (!m->layers || m->n_layers < 2 || m->n_layers > MOST_OF_ALL)
		return zr_err(err, ZR_EINVAL, "layers: n_layers is %u%s; expected 2 to %d",
			      m->n_layers, m->layers ? "" : ", and the table NULL", MOST_OF_ALL);
	return 0;
}

/* How many tensors all units have, once each unit has a name and a table. */
static int count_tensors(const struct zr_model_decl *m, size_t *tensors, struct zr_error *err)
{
	for (uint32_t i = 0; i < m->n_units; i++) {
		const struct zr_unit *u = unit_at(m, i);
		int rc = check_name("unit", i, u->name, err);
		if (rc)
			return rc;

		*tensors += u->n_tensors;
		if (!u->n_tensors || *tensors > MOST_OF_ALL)
			return zr_err(err, ZR_EINVAL,
				      "unit %s: n_tensors is %u; expected 1 or "
				      "more, and %d in all units",
				      u->name, u->n_tensors, MOST_OF_ALL);
		if (!u->tensors)
			return zr_err(err, ZR_EINVAL, "unit %s: tensors is NULL", u->name);
	}
	return 0;
}

int zr_declared_check(const struct zr_model_decl *m, struct zr_error *err)
{
	size_t tensors = 0;
	int rc = check_tables(m, err);
	if (!rc)
		rc = count_tensors(m, &tensors, err);
	if (rc)
		return rc;

	const size_t names = tensors > m->n_layers ? tensors : m->n_layers;
	const char **name = calloc(names, sizeof *name);
	int32_t *user = calloc(m->n_units, sizeof *user);
	if (name && user) {
		rc = check_units(m, name, err);
		if (!rc)
			rc = check_layers(m, name, user, err);
	} else {
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the names of %zu tensors", tensors);
	}
	free(name);
	free(user);
	return rc;
}
