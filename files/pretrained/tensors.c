/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.c - see tensors.h.
 */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/options.h"
#include "core/model/layout.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "files/safetensors.h"

#define MOST_FILES 1024
#define NAME       512 /* of a tensor or a pattern */

struct found {
	int32_t file; /* -1: none */
	const struct zr_st_tensor *tensor;
	float *mean; /* of its rows, where the model has more; NULL: not known yet */
};

struct zr_tensor_files {
	char *path; /* of the one file, or of the index: for messages */
	const struct zr_layout *layout;
	int which; /* ZR_FILES_* */
	const char *prefix, *ignored;
	struct zr_grown_rows rows;
	struct zr_st *file; /* [n] */
	int32_t n;
	struct found *found; /* [n_tensors] */
};

/* ---- files ---- */

static int add_file(struct zr_tensor_files *f, const char *path, struct zr_error *err)
{
	struct zr_st *more =
		f->n < MOST_FILES ? realloc(f->file, ((size_t)f->n + 1) * sizeof *more) : NULL;
	if (!more)
		return zr_err(err, ZR_EINVAL, "%s: more than %d files, or no memory for them",
			      f->path, MOST_FILES);
	f->file = more;
	int rc = zr_st_open(path, &f->file[f->n], err);
	f->n += !rc;
	return rc;
}

static int32_t file_of(const struct zr_tensor_files *f, const char *path)
{
	int32_t i = 0;
	while (i < f->n && strcmp(f->file[i].path, path))
		i++;
	return i;
}

/* Opens the file that the index gives a tensor, if it is not open, and looks for the tensor. */
static int open_shard(struct zr_tensor_files *f, const char *dir, const char *tensor,
		      const char *base, struct zr_error *err)
{
	if (!base || !*base || strchr(base, '/') || *base == '.')
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %.200s: expected the name of a file beside it", f->path,
			      tensor);

	char *path = zr_text("%s/%s", dir, base);
	if (!path)
		return zr_no_memory(err);

	int32_t i = file_of(f, path);
	int rc = 0;
	if (i == f->n)
		rc = add_file(f, path, err);
	if (!rc && !zr_st_find(&f->file[i], tensor))
		rc = zr_err(err, ZR_EINVAL, "%s: tensor %.200s is not in %s", f->path, tensor,
			    base);
	free(path);
	return rc;
}

/* The index says which file has which tensor; a file must be beside it. */
static int open_shards(struct zr_tensor_files *f, const char *dir, struct zr_error *err)
{
	json_t *root = NULL, *map, *file;
	const char *name;
	int rc = zr_json_file(f->path, ZR_MODEL_JSON_MAX, &root, err);

	map = json_object_get(root, "weight_map");
	if (!rc && !json_object_size(map))
		rc = zr_err(err, ZR_EINVAL, "%s: no weight_map with tensors", f->path);
	json_object_foreach(map, name, file)
	{
		if (!rc)
			rc = open_shard(f, dir, name, json_string_value(file), err);
	}

	json_decref(root);
	return rc;
}

/* Which of a directory's files are there, in the order of this table. */
enum { ONE, MANY, PICKLED, PICKLED_MANY, KNOWN };
static const char *const known[KNOWN] = { "model.safetensors", "model.safetensors.index.json",
					  "pytorch_model.bin", "pytorch_model.bin.index.json" };

/* A file that cannot be looked at is there, too: opening the file says why. */
static int find_known(const char *dir, int there[KNOWN], struct zr_error *err)
{
	for (int i = 0; i < KNOWN; i++) {
		char *path = zr_text("%s/%s", dir, known[i]);
		if (!path)
			return zr_no_memory(err);

		there[i] = !access(path, F_OK) || errno != ENOENT;
		free(path);
	}

	return 0;
}

static int open_dir(struct zr_tensor_files *f, const char *dir, struct zr_error *err)
{
	int there[KNOWN], rc = find_known(dir, there, err);
	if (rc)
		return rc;
	if (!there[ONE] && !there[MANY] && (there[PICKLED] || there[PICKLED_MANY]))
		return zr_err(err, ZR_EINVAL,
			      "%s: pytorch_model.bin can hold programs and is not "
			      "read; this converts it: python3 -c \"from transformers import "
			      "AutoModelForCausalLM as M; "
			      "M.from_pretrained('%s').save_pretrained('%s')\"",
			      dir, dir, dir);
	if (!there[ONE] && !there[MANY])
		return zr_err(err, ZR_EINVAL,
			      "%s: no model.safetensors there, nor model.safetensors.index.json",
			      dir);

	f->path = zr_text("%s/%s", dir, known[there[ONE] ? ONE : MANY]);
	if (!f->path)
		return zr_no_memory(err);
	if (there[ONE])
		return add_file(f, f->path, err);

	return open_shards(f, dir, err);
}

/* ---- tensors ---- */

static const char *dims_text(int32_t ndim, const int64_t *dims, char out[NAME])
{
	size_t at = (size_t)snprintf(out, NAME, "[");

	for (int32_t d = 0; d < ndim && at < NAME; d++)
		at += (size_t)snprintf(out + at, NAME - at, "%s%lld", d ? ", " : "",
				       (long long)dims[d]);
	if (at < NAME)
		snprintf(out + at, NAME - at, "]");

	return out;
}

/* Whether the model has got the rows that the tensor in the files lacks. */
static int has_grown(const struct zr_tensor_files *f, const struct zr_st_tensor *t,
		     const struct zr_tensor *want)
{
	return f->rows.from && t->ndim && want->ndim && t->dims[0] == f->rows.from &&
	       want->dims[0] == f->rows.to;
}

static int check_tensor(const struct zr_tensor_files *f, const struct zr_st *st,
			const struct zr_st_tensor *t, const struct zr_tensor *want,
			struct zr_error *err)
{
	char has[NAME], wants[NAME];

	if (!zr_dtype_find(t->dtype, NULL)->trains)
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s has type %s, expected F32, BF16 or F16", st->path,
			      t->name, zr_st_type(st, t));

	int same = t->ndim == want->ndim;
	for (int32_t d = has_grown(f, t, want); same && d < t->ndim; d++)
		same = t->dims[d] == want->dims[d];
	if (same)
		return 0;

	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s has shape %s, but the model's config makes it %s", st->path,
		      t->name, dims_text(t->ndim, t->dims, has),
		      dims_text(want->ndim, want->dims, wants));
}

/* A tensor in any file, under its name or with the prefix. */
static int find_named(const struct zr_tensor_files *f, const char *name, struct found *at,
		      struct zr_error *err)
{
	char longer[NAME];

	snprintf(longer, sizeof longer, "%s%s", f->prefix, name);
	at->file = -1;
	for (int32_t k = 0; k < f->n; k++)
		for (int with = 0; with <= (*f->prefix != 0); with++) {
			const struct zr_st_tensor *t =
				zr_st_find(&f->file[k], with ? longer : name);
			if (t && at->file >= 0)
				return zr_err(err, ZR_EINVAL,
					      "%s: tensor %s is there again: %s in "
					      "%s is the same one",
					      f->file[k].path, t->name, at->tensor->name,
					      f->file[at->file].path);
			if (t)
				*at = (struct found){ k, t, NULL };
		}
	return 0;
}

static int is_declared(const struct zr_layout *l, const char *name)
{
	for (int32_t i = 0; i < l->n_tensors; i++)
		if (!strcmp(l->tensor[i].decl->name, name))
			return 1;
	return 0;
}

/* The head that is the embedding, where the files have only that one: "HEAD=TENSOR" of `ignored`
 * where the model has no HEAD. */
static int find_other_name(const struct zr_tensor_files *f, const char *name, struct found *at,
			   struct zr_error *err)
{
	const char *words = f->ignored, *word;
	char head[NAME];
	size_t n;
	while ((word = zr_next_word(&words, &n))) {
		const char *is = memchr(word, '=', n);
		size_t rest = 0;
		if (is)
			rest = n - (size_t)(is + 1 - word);
		if (!is || strlen(name) != rest || memcmp(is + 1, name, rest))
			continue;

		snprintf(head, sizeof head, "%.*s", (int)(is - word), word);
		if (!is_declared(f->layout, head))
			return find_named(f, head, at, err);
	}

	return 0;
}

static int find_tensor(struct zr_tensor_files *f, int32_t i, struct zr_error *err)
{
	const struct zr_tensor *want = f->layout->tensor[i].decl;
	struct found *at = &f->found[i];
	int rc = find_named(f, want->name, at, err);
	if (!rc && at->file < 0)
		rc = find_other_name(f, want->name, at, err);
	if (rc)
		return rc;

	/* an adapter has what it added, and what it trains of the model */
	const uint32_t flags = f->layout->tensor[i].flags;
	const int adapted = flags & ZR_TENSOR_ADDED || !(flags & ZR_TENSOR_FROZEN);
	if (at->file < 0 && (f->which == ZR_FILES_MODEL ? flags & ZR_TENSOR_ADDED :
							  f->which == ZR_FILES_ADAPTER && !adapted))
		return 0;
	if (at->file < 0)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s is missing", f->path, want->name);

	return check_tensor(f, &f->file[at->file], at->tensor, want, err);
}

static int fits(const char *patterns, const char *name)
{
	const char *word;
	char pattern[NAME];
	size_t n;
	while ((word = zr_next_word(&patterns, &n))) {
		snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(word, "= \t"), word);
		if (!fnmatch(pattern, name, 0))
			return 1;
	}

	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct zr_st_tensor *x = *(const struct zr_st_tensor *const *)a,
				  *y = *(const struct zr_st_tensor *const *)b;
	return x < y ? -1 : x > y;
}

/* What a file has and the model does not, which has the n tensors `used`, must be known to be of no
 * use. */
static int check_file(const struct zr_tensor_files *f, const struct zr_st *file,
		      const struct zr_st_tensor *const *used, size_t n, struct zr_error *err)
{
	size_t prefix = strlen(f->prefix);

	for (int64_t j = 0; j < file->n; j++) {
		const struct zr_st_tensor *t = &file->tensor[j];
		const char *name = t->name;
		if (!strncmp(name, f->prefix, prefix))
			name += prefix;
		if (!bsearch(&t, used, n, sizeof *used, by_address) && !fits(f->ignored, name))
			return zr_err(err, ZR_EINVAL,
				      "%s: tensor %s is none of the model's: "
				      "its config.json is of another model, or of a variant "
				      "that is not read",
				      file->path, t->name);
	}

	return 0;
}

static int check_others(const struct zr_tensor_files *f, struct zr_error *err)
{
	size_t n = (size_t)f->layout->n_tensors;
	const struct zr_st_tensor **used = malloc((n + 1) * sizeof *used);
	int rc = 0;

	if (!used)
		return zr_no_memory(err);

	for (size_t i = 0; i < n; i++)
		used[i] = f->found[i].tensor;
	qsort(used, n, sizeof *used, by_address);
	for (int32_t k = 0; !rc && k < f->n; k++)
		rc = check_file(f, &f->file[k], used, n, err);
	free(used);
	return rc;
}

static int open_all(struct zr_tensor_files *f, const char *path, struct zr_error *err)
{
	struct stat st;
	int rc;

	f->found = calloc((size_t)f->layout->n_tensors + 1, sizeof *f->found);
	if (!f->found)
		return zr_no_memory(err);

	int no = stat(path, &st) ? errno : 0;
	if (no == EIO)
		rc = zr_err(err, ZR_EIO, "%s: %s", path, strerror(no));
	else if (!no && S_ISDIR(st.st_mode))
		rc = open_dir(f, path, err);
	else if (!(f->path = strdup(path)))
		rc = zr_no_memory(err);
	else
		rc = add_file(f, path, err);
	for (int32_t i = 0; !rc && i < f->layout->n_tensors; i++)
		rc = find_tensor(f, i, err);
	if (rc)
		return rc;

	return check_others(f, err);
}

int zr_tensor_files_open_grown(const char *path, const struct zr_layout *layout, int which,
			       const char *prefix, const char *ignored, struct zr_grown_rows rows,
			       struct zr_tensor_files **out, struct zr_error *err)
{
	struct zr_tensor_files *f = calloc(1, sizeof *f);
	if (!f)
		return zr_no_memory(err);

	*f = (struct zr_tensor_files){
		.layout = layout, .which = which, .prefix = prefix, .ignored = ignored, .rows = rows
	};
	int rc = open_all(f, path, err);
	if (rc)
		zr_tensor_files_close(f);
	else
		*out = f;

	return rc;
}

int zr_tensor_files_open(const char *path, const struct zr_layout *layout, int which,
			 const char *prefix, const char *ignored, struct zr_tensor_files **out,
			 struct zr_error *err)
{
	return zr_tensor_files_open_grown(path, layout, which, prefix, ignored,
					  (struct zr_grown_rows){ 0 }, out, err);
}

void zr_tensor_files_close(struct zr_tensor_files *f)
{
	if (!f)
		return;

	for (int32_t k = 0; k < f->n; k++)
		zr_st_close(&f->file[k]);
	for (int32_t i = 0; f->found && i < f->layout->n_tensors; i++)
		free(f->found[i].mean);
	free(f->file);
	free(f->found);
	free(f->path);
	free(f);
}

/* ---- values ---- */

static float from_bits(uint32_t b)
{
	float x;
	memcpy(&x, &b, sizeof x);
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return b;
}

/* Every fp16 is an fp32. A subnormal m is m 2^-24. */
static float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, m = h & 0x3ff;
	if (exponent == 31)
		return from_bits(sign | 0x7f800000 | m << 13);
	if (exponent)
		return from_bits(sign | (exponent + 112) << 23 | m << 13);

	float subnormal = (float)m * 0x1p-24f;
	return sign ? -subnormal : subnormal;
}

static float from_16(uint16_t h, int32_t dtype)
{
	return dtype == ZR_BF16 ? from_bits((uint32_t)h << 16) : from_f16(h);
}

void zr_widen16(const uint16_t *from, int32_t dtype, int64_t n, float *to)
{
	for (int64_t i = 0; i < n; i++)
		to[i] = from_16(from[i], dtype);
}

void zr_widen_f16(const uint16_t *from, int64_t n, float *to)
{
	zr_widen16(from, ZR_F16, n, to);
}

/* To nearest even. Below 2^-14 the unit in the last place is 2^-24: adding 1/2 makes the hardware
 * round there. */
uint16_t zr_narrow_f16(float x)
{
	uint32_t b = bits_of(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;

	if (a > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (a >= 0x477ff000) /* 65520: halfway between the largest finite value and the next one */
		return (uint16_t)(sign | 0x7c00);
	if (a < 0x38800000)
		return (uint16_t)(sign | (bits_of(from_bits(a) + 0.5f) - bits_of(0.5f)));

	return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
}

/* n values of 16 bits at the end of x, to all of x: the one that is written last lies where the
 * last one is read. */
static void widen(float *x, int64_t n, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++) {
		uint16_t h;
		memcpy(&h, (const char *)x + 2 * (n + i), sizeof h);
		x[i] = from_16(h, dtype);
	}
}

const char *zr_tensor_files_path(const struct zr_tensor_files *f, int32_t k)
{
	if (k < f->n)
		return f->file[k].path;

	return NULL;
}

int zr_tensor_files_have(const struct zr_tensor_files *f, int32_t i)
{
	return f->found[i].file >= 0;
}

int zr_tensor_values(const struct zr_st *file, const struct zr_st_tensor *tensor, int64_t first,
		     int64_t n, float *x, struct zr_error *err)
{
	const int64_t size = zr_dtype_bytes(tensor->dtype);
	char *to = (char *)x + (4 - size) * n;
	int rc = zr_st_read(file, tensor, (uint64_t)(first * size), (uint64_t)(n * size), to, err);

	if (!rc && size == 2)
		widen(x, n, tensor->dtype);
	return rc;
}

/* Elements that the file has. */
static int read_finite(const struct zr_tensor_files *f, const struct found *at, int64_t first,
		       int64_t n, float *x, struct zr_error *err)
{
	int rc = zr_tensor_values(&f->file[at->file], at->tensor, first, n, x, err);

	for (int64_t k = 0; !rc && k < n; k++)
		if (!isfinite(x[k]))
			rc = zr_err(err, ZR_EINVAL,
				    "%s: tensor %s: element %lld is %g: nothing "
				    "can be learned from such weights; begin with others",
				    f->file[at->file].path, at->tensor->name,
				    (long long)(first + k), (double)x[k]);

	return rc;
}

/* ---- rows that the files do not have ---- */

#define SUMMED 65536 /* elements at a time */

/* Adds elements to the sums of their columns, one row behind the other. */
static int sum_rows(const struct zr_tensor_files *f, const struct found *at, int64_t columns,
		    double *sum, float *x, struct zr_error *err)
{
	int64_t column = 0;

	for (int64_t first = 0, n; first < at->tensor->elements; first += n) {
		n = at->tensor->elements - first;
		if (n > SUMMED)
			n = SUMMED;

		int rc = read_finite(f, at, first, n, x, err);
		if (rc)
			return rc;

		for (int64_t k = 0; k < n; k++) {
			sum[column] += (double)x[k];
			column = column + 1 < columns ? column + 1 : 0;
		}
	}

	return 0;
}

/* The mean of the rows of a tensor, which is kept. */
static int find_mean(struct zr_tensor_files *f, struct found *at, int64_t columns,
		     struct zr_error *err)
{
	double *sum = calloc((size_t)columns, sizeof *sum);
	float *x = malloc(SUMMED * sizeof *x), *mean = malloc((size_t)columns * sizeof *mean);
	int rc;

	if (sum && x && mean)
		rc = sum_rows(f, at, columns, sum, x, err);
	else
		rc = zr_no_memory(err);
	for (int64_t c = 0; !rc && c < columns; c++)
		mean[c] = (float)(sum[c] / (double)f->rows.from);

	free(sum);
	free(x);
	if (rc)
		free(mean);
	else
		at->mean = mean;
	return rc;
}

/* Elements of rows that the files do not have. */
static int read_grown(struct zr_tensor_files *f, struct found *at, int64_t first, int64_t n,
		      float *x, struct zr_error *err)
{
	const int64_t columns = at->tensor->elements / f->rows.from;
	int rc = 0;

	if (!at->mean)
		rc = find_mean(f, at, columns, err);
	for (int64_t k = 0; !rc && k < n; k++)
		x[k] = at->mean[(first + k) % columns];

	return rc;
}

int zr_tensor_files_read(void *files, int32_t i, int64_t first, int64_t n, float *x,
			 struct zr_error *err)
{
	struct zr_tensor_files *f = files;
	struct found *at = &f->found[i];
	const int64_t there = at->tensor->elements;
	int64_t old = 0;

	if (first < there)
		old = first + n < there ? n : there - first;

	int rc = old ? read_finite(f, at, first, old, x, err) : 0;
	if (rc || old == n)
		return rc;
	return read_grown(f, at, first + old, n - old, x + old, err);
}

/* ---- head and embedding ---- */

#define COMPARED 65536 /* elements at a time */

/* Whether two tensors have the same values, of a type that trains. */
static int compare(struct zr_tensor_files *f, const struct found two[2], int *differ,
		   struct zr_error *err)
{
	const struct zr_st_tensor *a = two[0].tensor, *b = two[1].tensor;
	const int64_t all = a->elements;
	int rc = 0;

	*differ = all != b->elements || !zr_dtype_find(a->dtype, NULL)->trains ||
		  !zr_dtype_find(b->dtype, NULL)->trains;
	if (*differ)
		return 0;

	float *x = malloc(2 * COMPARED * sizeof *x);
	if (!x)
		return zr_no_memory(err);

	f->found = (struct found *)two;
	for (int64_t at = 0, n; !rc && !*differ && at < all; at += n) {
		n = all - at;
		if (n > COMPARED)
			n = COMPARED;
		rc = zr_tensor_files_read(f, 0, at, n, x, err);
		if (!rc)
			rc = zr_tensor_files_read(f, 1, at, n, x + COMPARED, err);
		*differ = !rc && memcmp(x, x + COMPARED, (size_t)n * sizeof *x) != 0;
	}

	f->found = NULL;
	free(x);
	return rc;
}

static int head_differs(const char *dir, const char *prefix, const char *head,
			const char *embedding, int *differs, struct zr_error *err)
{
	struct zr_tensor_files *f = calloc(1, sizeof *f);
	struct found two[2] = { { .file = -1 }, { .file = -1 } };
	struct zr_error why = { 0 };

	*differs = 0;
	if (!f)
		return zr_no_memory(err);

	f->prefix = prefix;
	int rc = open_dir(f, dir, &why);
	if (!rc)
		rc = find_named(f, head, &two[0], &why);
	if (!rc)
		rc = find_named(f, embedding, &two[1], &why);
	if (rc == ZR_EINVAL) /* files that are wrong are refused where they are needed */
		rc = 0;
	else if (rc)
		zr_err(err, rc, "%s", why.text);
	if (!rc && two[0].file >= 0 && two[1].file >= 0)
		rc = compare(f, two, differs, err);

	zr_tensor_files_close(f);
	return rc;
}

/* core asks, which reads no tensors; whoever reads them has this file. */
__attribute__((constructor)) static void lend(void)
{
	zr_head_differs = head_differs;
}
