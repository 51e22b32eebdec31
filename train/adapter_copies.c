/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter_copies.c - see adapter.h: what PEFT writes twice. Beside the adapter of an embedding or a
 * head it writes the base's weight, NAME.base_layer.weight; and where a head is tied to an adapted
 * or trained embedding, the same values once more under the head's name. PEFT would compute with
 * the copies, and here the originals count: where they differ the file is refused.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "files/pretrained/tensors.h"
#include "files/safetensors.h"
#include "train/adapter.h"

#define NAME 512
#define BASE ".base_layer.weight"

/* A head that the model does not declare, as it is the embedding. */
struct tied {
	char head[NAME];      /* its module, "lm_head"; "": there is none */
	char embedding[NAME]; /* the module that it is, "model.embed_tokens" */
};

static int32_t tensor_called(const struct zr_layout *l, const char *name)
{
	for (int32_t i = 0; i < l->n_tensors; i++)
		if (!strcmp(l->tensor[i].decl->name, name))
			return i;

	return -1;
}

/* A module of the name of its weight, of n letters. */
static void put_module(char out[NAME], const char *weight, size_t n)
{
	const size_t end = strlen(".weight");

	snprintf(out, NAME, "%.*s", (int)(n > end ? n - end : 0), weight);
}

/* A word "HEAD=TENSOR" of n letters, of a model that has no HEAD. */
static int ties(const struct zr_layout *l, const char *word, size_t n, struct tied *t)
{
	const char *is = memchr(word, '=', n);
	char head[NAME], tensor[NAME];
	if (!is)
		return 0;

	const size_t letters = (size_t)(is - word), rest = n - letters - 1;
	snprintf(head, sizeof head, "%.*s", (int)letters, word);
	snprintf(tensor, sizeof tensor, "%.*s", (int)rest, is + 1);
	if (tensor_called(l, head) >= 0 || tensor_called(l, tensor) < 0)
		return 0;

	put_module(t->head, head, letters);
	put_module(t->embedding, tensor, rest);
	return 1;
}

static struct tied find_tied(const struct zr_setup *s)
{
	struct zr_error unused = { 0 };
	const struct zr_pretrained_v1 *v =
		zr_plugin_iface(s->roles.model.section->plugin, "zr.pretrained/1", &unused);
	const char *words = v && v->ignored ? v->ignored : "", *word;
	struct tied t = { 0 };
	size_t n;

	while ((word = zr_next_word(&words, &n)))
		if (ties(&s->facts.layout, word, n, &t))
			break;

	return t;
}

int32_t zr_adapter_head(const struct zr_setup *s, char *name, size_t room)
{
	const struct zr_layout *l = &s->facts.layout;
	const struct tied t = find_tied(s);
	char tensor[NAME + 8];
	if (!*t.head)
		return -1;

	snprintf(tensor, sizeof tensor, "%s.weight", t.embedding);
	const int32_t i = tensor_called(l, tensor);
	if (l->tensor[i].flags & ZR_TENSOR_FROZEN)
		return -1;

	snprintf(name, room, "base_model.model.%s.weight", t.head);
	return i;
}

void zr_adapter_copies(const struct zr_setup *s, char *patterns, size_t room)
{
	const struct tied t = find_tied(s);

	snprintf(patterns, room, "*" BASE);
	if (*t.head)
		snprintf(patterns, room,
			 "*" BASE " *%.100s.weight *%.100s.lora_A.weight *%.100s.lora_B.weight",
			 t.head, t.head, t.head);
}

/* ---- which is a copy of which ---- */

static int32_t tensor_of(const struct zr_layout *l, const char *module, int letters,
			 const char *end)
{
	char name[2 * NAME];

	snprintf(name, sizeof name, "%.*s%s", letters, module, end);
	return tensor_called(l, name);
}

/* Of what is called as the head is: *transposed, whether the copy has its rows as columns. */
static int32_t original_of_head(const struct zr_layout *l, const struct tied *t, const char *end,
				int *transposed)
{
	static const char *const forms[][2] = {
		{ BASE, ".weight" },
		{ ".weight", ".weight" },
		{ ".lora_A.weight", ".lora_embedding_B" },
		{ ".lora_B.weight", ".lora_embedding_A" },
	};

	for (int i = 0; i < 4; i++)
		if (!strcmp(end, forms[i][0])) {
			*transposed = i >= 2;
			return tensor_of(l, t->embedding, NAME, forms[i][1]);
		}

	return -1;
}

/* The original of a tensor that the model does not have; -1: there is none. */
static int32_t original_of(const struct zr_layout *l, const struct tied *t, const char *name,
			   int *transposed)
{
	const size_t head = strlen(t->head), n = strlen(name), end = strlen(BASE);

	*transposed = 0;
	if (head && !strncmp(name, t->head, head) && name[head] == '.')
		return original_of_head(l, t, name + head, transposed);
	if (n <= end || strcmp(name + n - end, BASE))
		return -1;

	return tensor_of(l, name, (int)(n - end), ".weight");
}

/* ---- comparison ---- */

struct copy {
	const struct zr_st *file;
	const struct zr_st_tensor *tensor;
	struct zr_tensor_files *from; /* with the original */
	int32_t original;
	int transposed;
};

static int has_shape(const struct copy *c, const struct zr_tensor *original)
{
	const struct zr_st_tensor *t = c->tensor;

	return t->ndim == 2 && original->ndim == 2 && zr_dtype_find(t->dtype, NULL)->trains &&
	       t->dims[0] == original->dims[c->transposed] &&
	       t->dims[1] == original->dims[!c->transposed];
}

static int are_same(const struct copy *c, const float *x, const float *y)
{
	const int64_t rows = c->tensor->dims[0], columns = c->tensor->dims[1];

	if (!c->transposed)
		return !memcmp(x, y, (size_t)(rows * columns) * sizeof *x);

	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			if (memcmp(&y[i * columns + j], &x[j * rows + i], sizeof *x))
				return 0;

	return 1;
}

/* x: room for the values of both. */
static int read_both(const struct copy *c, int64_t n, float *x, int *same, struct zr_error *err)
{
	int rc = zr_tensor_files_read(c->from, c->original, 0, n, x, err);
	if (!rc)
		rc = zr_tensor_values(c->file, c->tensor, 0, n, x + n, err);
	if (!rc)
		*same = are_same(c, x, x + n);

	return rc;
}

static int is_same(const struct copy *c, const struct zr_place *original, int *same,
		   struct zr_error *err)
{
	*same = 0;
	if (!has_shape(c, original->decl))
		return 0;

	float *x = malloc(2 * (size_t)original->elements * sizeof *x);
	int rc = x ? read_both(c, original->elements, x, same, err) : zr_no_memory(err);
	free(x);
	return rc;
}

static int compare(const struct zr_place *original, const struct copy *c, struct zr_error *err)
{
	int same, rc = is_same(c, original, &same, err);
	if (rc || same)
		return rc;

	return zr_err(err, ZR_EINVAL,
		      "%s: tensor %s is no copy of %s%s, with which PEFT would compute instead: "
		      "give [model] path the model that the adapter was trained on",
		      c->file->path, c->tensor->name, original->decl->name,
		      original->flags & ZR_TENSOR_FROZEN ? " of the model" : "");
}

/* A name of PEFT as the model has it. */
static const char *own_name(const char *name, const char *prefix)
{
	static const char peft[] = "base_model.model.";

	if (!strncmp(name, prefix, strlen(prefix)))
		return name + strlen(prefix);
	if (!strncmp(name, peft, sizeof peft - 1))
		return name + sizeof peft - 1;

	return name;
}

static int compare_all(const struct zr_setup *s, const char *prefix, struct zr_tensor_files *model,
		       struct zr_tensor_files *adapter, const struct zr_st *st,
		       struct zr_error *err)
{
	const struct zr_layout *l = &s->facts.layout;
	const struct tied t = find_tied(s);
	int rc = 0;

	for (int64_t i = 0; !rc && i < st->n; i++) {
		struct copy c = { .file = st, .tensor = &st->tensor[i] };
		const char *name = own_name(c.tensor->name, prefix);
		if (tensor_called(l, name) >= 0)
			continue;

		c.original = original_of(l, &t, name, &c.transposed);
		if (c.original < 0)
			return zr_err(err, ZR_EINVAL,
				      "%s: tensor %s is a copy of nothing in the model", st->path,
				      c.tensor->name);

		c.from = zr_tensor_files_have(adapter, c.original) ? adapter : model;
		rc = compare(&l->tensor[c.original], &c, err);
	}

	return rc;
}

int zr_adapter_compare_copies(const struct zr_setup *s, const char *prefix,
			      struct zr_tensor_files *model, struct zr_tensor_files *adapter,
			      struct zr_error *err)
{
	struct zr_st st;

	int rc = zr_st_open(zr_tensor_files_path(adapter, 0), &st, err);
	if (rc)
		return rc;

	rc = compare_all(s, prefix, model, adapter, &st, err);
	zr_st_close(&st);
	return rc;
}
