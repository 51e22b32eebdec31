/* SPDX-License-Identifier: Apache-2.0
 *
 * others.c - see others.h: the list of tensors, and their values.
 */
#include "cmd/others/others.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zeroth/model.h>

#include "core/base/dtype.h"
#include "core/base/file.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"

#define READ 4096 /* elements of 16 bits at a time */

static void free_tensor(struct zr_other_tensor *t)
{
	for (int32_t d = 0; d < t->n; d++)
		free(t->datum[d].piece);
	free(t->name);
}

static void close_file(struct zr_others *o)
{
	if (o->opened)
		close(o->fd);
	o->opened = 0;
}

void zr_others_close(struct zr_others *o)
{
	for (int64_t i = 0; i < o->n; i++)
		free_tensor(&o->tensor[i]);
	for (int32_t k = 0; k < o->n_files; k++)
		free(o->file[k]);
	close_file(o);
	zr_tensor_files_close(o->weights);
	free(o->tensor);
	free(o->file);
	*o = (struct zr_others){ 0 };
}

int zr_others_missing(const struct zr_others *o, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: not as %s writes it: %s is missing", o->path, o->format,
		      what);
}

/* ---- what formats add ---- */

const char *zr_other_path(const struct zr_others *o, const char *name, char path[PATH_MAX])
{
	const int n = snprintf(path, PATH_MAX, "%s/%s", o->path, name);
	if (n >= PATH_MAX)
		*path = 0;
	return path;
}

int zr_other_has(const struct zr_others *o, const char *name)
{
	char path[PATH_MAX];
	return !access(zr_other_path(o, name, path), F_OK);
}

static int32_t find_file(const struct zr_others *o, const char *path)
{
	int32_t k = 0;
	while (k < o->n_files && strcmp(o->file[k], path))
		k++;
	return k;
}

int32_t zr_other_file(struct zr_others *o, const char *path, struct zr_error *err)
{
	const int32_t k = find_file(o, path);
	if (k < o->n_files)
		return k;

	char **more = realloc(o->file, ((size_t)k + 1) * sizeof *more);
	if (more) {
		o->file = more;
		more[k] = strdup(path);
	}
	if (more && more[k])
		return o->n_files++;

	zr_no_memory(err);
	return -1;
}

int zr_other_resize(const struct zr_others *o, struct zr_other_tensor *t, int32_t ndim,
		    const int64_t *dims, struct zr_error *err)
{
	int64_t all = 1;
	int bad = ndim > ZR_OTHER_DIMS || (t->ndim && t->ndim != ndim);

	for (int32_t d = 0; !bad && d < ndim; d++) {
		t->dims[d] = dims[d];
		bad = dims[d] < 0 || __builtin_mul_overflow(all, dims[d], &all);
	}

	if (bad)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s: an impossible shape", o->path,
			      t->name);

	t->ndim = ndim;
	t->elements = all;
	return 0;
}

struct zr_other_tensor *zr_other_add(struct zr_others *o, const char *name, int32_t ndim,
				     const int64_t *dims, struct zr_error *err)
{
	struct zr_other_tensor t = { .name = strdup(name) };

	struct zr_other_tensor *more =
		o->n & (o->n - 1) ?
			o->tensor :
			realloc(o->tensor, (o->n ? 2 * (size_t)o->n : 1) * sizeof *more);
	if (more)
		o->tensor = more;
	if (!more || !t.name) {
		free(t.name);
		zr_no_memory(err);
		return NULL;
	}

	if (zr_other_resize(o, &t, ndim, dims, err)) {
		free(t.name);
		return NULL;
	}

	o->tensor[o->n] = t;
	return &o->tensor[o->n++];
}

static struct zr_other_datum *datum_of(struct zr_other_tensor *t, const char *name)
{
	for (int32_t d = 0; d < t->n; d++)
		if (!strcmp(t->datum[d].name, name))
			return &t->datum[d];
	if (t->n == ZR_OTHER_DATA)
		return NULL;

	t->datum[t->n].name = name;
	return &t->datum[t->n++];
}

static int add_piece(struct zr_other_datum *d, struct zr_other_piece p, struct zr_error *err)
{
	const int64_t room = 2 * d->room + 1;

	if (d->n == d->room) {
		struct zr_other_piece *more = realloc(d->piece, (size_t)room * sizeof *more);
		if (!more)
			return zr_no_memory(err);
		d->piece = more;
		d->room = room;
	}

	d->piece[d->n++] = p;
	return 0;
}

static int is_read(int32_t dtype)
{
	return dtype == ZR_F32 || dtype == ZR_BF16 || dtype == ZR_F16;
}

int zr_other_put(struct zr_others *o, struct zr_other_tensor *t, const char *name,
		 struct zr_other_piece p, struct zr_error *err)
{
	struct zr_other_datum *d = datum_of(t, name);

	if (!d)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s: too many states", o->path, t->name);
	if (!is_read(p.dtype))
		return zr_err(
			err, ZR_EINVAL,
			"%s: tensor %s: %s is not in fp32, bf16 or fp16: bitsandbytes' 8 bits "
			"and the like are not read; --weights takes the weights alone",
			o->path, t->name, name);
	return add_piece(d, p, err);
}

static int by_first(const void *a, const void *b)
{
	const struct zr_other_piece *x = a, *y = b;
	return (x->first > y->first) - (x->first < y->first);
}

/* Whether pieces in order have each of n elements once. */
static int has_all(const struct zr_other_datum *d, int64_t n)
{
	int64_t next = 0;

	for (int64_t i = 0; i < d->n; i++) {
		if (d->piece[i].first != next)
			return 0;
		next += d->piece[i].n;
	}

	return next == n;
}

static int check_datum(const struct zr_others *o, const struct zr_other_tensor *t,
		       const struct zr_other_datum *d, struct zr_error *err)
{
	qsort(d->piece, (size_t)d->n, sizeof *d->piece, by_first);
	if (has_all(d, t->elements))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s: its %s is not there whole and once: files are missing, or of "
		      "another step",
		      o->path, t->name, d->name);
}

int zr_others_whole(struct zr_others *o, struct zr_error *err)
{
	int rc = 0;

	for (int64_t i = 0; !rc && i < o->n; i++)
		for (int32_t d = 0; !rc && d < o->tensor[i].n; d++)
			rc = check_datum(o, &o->tensor[i], &o->tensor[i].datum[d], err);

	return rc;
}

const char *const zr_other_states[] = { "exp_avg", "exp_avg_sq", "momentum_buffer", NULL };

const char *zr_other_state(const char *name)
{
	for (int i = 0; zr_other_states[i]; i++)
		if (!strcmp(zr_other_states[i], name))
			return zr_other_states[i];
	return NULL;
}

const char *zr_other_datum_name(const char *name)
{
	if (!strcmp(name, ZR_OTHER_MASTER))
		return ZR_OTHER_MASTER;
	return zr_other_state(name);
}

int zr_other_sizes(const struct zr_py *size, int32_t *ndim, int64_t dims[ZR_OTHER_DIMS])
{
	const size_t n = zr_py_count(size);
	int64_t all = 1;
	int good = n <= ZR_OTHER_DIMS;

	for (size_t d = 0; good && d < n; d++)
		good = zr_py_whole(zr_py_member(size, d), &dims[d]) && dims[d] >= 0 &&
		       !__builtin_mul_overflow(all, dims[d], &all);
	*ndim = (int32_t)n;
	return good;
}

struct zr_other_group zr_other_no_group(void)
{
	return (struct zr_other_group){ .lr = NAN,
					.betas = { NAN, NAN },
					.eps = NAN,
					.weight_decay = NAN,
					.momentum = NAN,
					.decoupled = -1 };
}

static int take_betas(const struct zr_torch *t, const struct zr_py *two, double betas[2],
		      struct zr_error *err)
{
	if (zr_py_number(zr_py_member(two, 0), &betas[0]) &&
	    zr_py_number(zr_py_member(two, 1), &betas[1]))
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: betas are not two numbers", t->path);
}

/* Where a number of that name goes; NULL: nothing here depends on it. */
static double *number_of(struct zr_other_group *g, const char *key)
{
	if (!strcmp(key, "lr"))
		return &g->lr;
	if (!strcmp(key, "eps"))
		return &g->eps;
	if (!strcmp(key, "weight_decay"))
		return &g->weight_decay;

	return strcmp(key, "momentum") ? NULL : &g->momentum;
}

int zr_other_take(struct zr_other_group *g, const struct zr_torch *t, const char *key,
		  const struct zr_py *x, struct zr_error *err)
{
	int64_t decoupled;
	double *number = number_of(g, key);

	if (!x || x->kind == ZR_PY_NONE)
		return 0;
	if (!strcmp(key, "betas"))
		return take_betas(t, x, g->betas, err);
	if (!strcmp(key, "decoupled_weight_decay") && zr_py_whole(x, &decoupled))
		g->decoupled = decoupled != 0;
	if (!number || x->kind == ZR_PY_LIST) /* Adafactor has two eps */
		return 0;
	return zr_torch_number(t, x, key, number, err);
}

int zr_other_group(struct zr_others *o, const struct zr_torch *t, const struct zr_py *group,
		   struct zr_error *err)
{
	struct zr_other_group *g = &o->group[o->groups];
	int rc = 0;

	if (o->groups == ZR_OTHER_GROUPS)
		return zr_err(err, ZR_EINVAL, "%s: more than %d parameter groups", t->path,
			      ZR_OTHER_GROUPS);

	*g = zr_other_no_group();
	for (size_t i = 0; !rc && i < zr_py_count(group); i++) {
		const char *key = zr_py_text(group->at[2 * i]);
		if (key)
			rc = zr_other_take(g, t, key, group->at[2 * i + 1], err);
	}

	o->groups++;
	return rc;
}

struct zr_other_tensor *zr_other_named(const struct zr_others *o, const char *name)
{
	for (int64_t i = 0; i < o->n; i++)
		if (!strcmp(o->tensor[i].name, name))
			return &o->tensor[i];

	return NULL;
}

int zr_other_put_flat(struct zr_others *o, struct zr_other_tensor *t, const char *what,
		      const struct zr_torch *file, const struct zr_py *flat, int64_t from,
		      int64_t first, int64_t n, struct zr_error *err)
{
	const char *name = zr_other_datum_name(what);
	struct zr_other_piece p = { .first = first, .n = n };

	int rc = zr_torch_place(file, flat, t->name, &p.at, err);
	if (rc)
		return rc;
	if (!name)
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s: a state \"%.100s\", which no optimizer here has; "
			      "--weights takes the weights alone",
			      file->path, t->name, what);
	if (from < 0 || n < 0 || from > flat->elements || n > flat->elements - from)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s is larger than what has it",
			      file->path, t->name);

	p.dtype = flat->dtype;
	p.at += (uint64_t)from * (uint64_t)zr_dtype_bytes(p.dtype);
	p.file = zr_other_file(o, file->path, err);
	if (p.file < 0)
		return err->code;
	return zr_other_put(o, t, name, p, err);
}

/* ---- what is asked for ---- */

struct zr_other_tensor *zr_other_find(const struct zr_others *o, const struct zr_setup *setup,
				      const char *name)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(setup->roles.model.section->plugin);
	const char *prefix = v && v->prefix ? v->prefix : "";
	const size_t n = strlen(prefix);

	for (int64_t i = 0; i < o->n; i++) {
		const char *is = o->tensor[i].name;
		if (!strcmp(is, name) || (!strncmp(is, prefix, n) && !strcmp(is + n, name)))
			return &o->tensor[i];
	}

	return NULL;
}

const struct zr_other_datum *zr_other_datum(const struct zr_other_tensor *t, const char *name)
{
	for (int32_t d = 0; t && d < t->n; d++)
		if (!strcmp(t->datum[d].name, name))
			return &t->datum[d];

	return NULL;
}

static int open_file(struct zr_others *o, int32_t k, struct zr_error *err)
{
	if (o->opened == k + 1)
		return 0;

	close_file(o);
	o->fd = zr_file_open(AT_FDCWD, o->file[k], 1);
	if (o->fd < 0)
		return zr_file_failed(err, o->file[k], "opened", errno);

	o->opened = k + 1;
	return 0;
}

/* Elements [from, from + n) of a piece. */
static int read_piece(struct zr_others *o, const struct zr_other_piece *p, int64_t from, int64_t n,
		      float *x, struct zr_error *err)
{
	const int64_t size = zr_dtype_bytes(p->dtype);
	uint16_t some[READ];

	int rc = open_file(o, p->file, err);
	if (rc)
		return rc;

	for (int64_t at = 0, now; at < n; at += now) {
		now = size == 4 || n - at < READ ? n - at : READ;
		void *to = size == 4 ? (void *)x : some;
		if (zr_read_all_at(o->fd, to, (size_t)(now * size),
				   p->at + (uint64_t)((from + at) * size)))
			return zr_file_failed(err, o->file[p->file], "read", errno);
		if (size != 4)
			zr_widen16(some, p->dtype, now, x + at);
	}

	return 0;
}

static int check_finite(const struct zr_others *o, const struct zr_other_tensor *t,
			const char *name, int64_t first, int64_t n, const float *x,
			struct zr_error *err)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return zr_err(err, ZR_EINVAL,
				      "%s: tensor %s: element %lld of its %s is %g: no training "
				      "goes on from that; take an earlier checkpoint",
				      o->path, t->name, (long long)(first + i), name, (double)x[i]);

	return 0;
}

int zr_other_read(struct zr_others *o, const struct zr_other_tensor *t,
		  const struct zr_other_datum *d, int64_t first, int64_t n, float *x,
		  struct zr_error *err)
{
	int rc = 0;

	for (int64_t i = 0; !rc && i < d->n; i++) {
		const struct zr_other_piece *p = &d->piece[i];
		const int64_t lo = first > p->first ? first : p->first;
		const int64_t end = first + n < p->first + p->n ? first + n : p->first + p->n;
		if (lo < end)
			rc = read_piece(o, p, lo - p->first, end - lo, x + (lo - first), err);
	}

	if (rc)
		return rc;
	return check_finite(o, t, d->name, first, n, x, err);
}
