/* SPDX-License-Identifier: Apache-2.0
 *
 * alike.c - see alike.h. Ranks first tell each other one hash per kind of file. Where these differ,
 * they tell the hashes of all files of that kind, and then the name of the first that differs, so
 * that each rank ends with the same message.
 */
#include "train/alike.h"

#include <stdlib.h>
#include <xxhash.h>

#include "core/base/log.h"
#include "files/checkpoint/manifest.h"
#include "train/inputs.h"
#include "train/share.h"

static const struct {
	const char *what, *remedy;
} kinds[ZR_IN_KINDS] = {
	[ZR_IN_PLUGIN] = { "plugin file", "install the same build on all machines" },
	[ZR_IN_CONFIG] = { "config.json", "give all ranks the same [model] path" },
	[ZR_IN_WEIGHTS] = { "file of weights", "give all ranks the same model and adapters" },
	[ZR_IN_TOKENIZER] = { "tokenizer", "give all ranks the same one" },
	[ZR_IN_DATA] = { "data file", "give all ranks the same data" },
};

/* What a rank has of each kind. */
struct files_of {
	int64_t n[ZR_IN_KINDS];
	uint64_t hash[ZR_IN_KINDS];
};

/* A difference: the lowest rank that has one, the first kind and the first file of that kind. */
struct other {
	int32_t rank; /* 0: there is none */
	int kind;
	int64_t files, at; /* of the kind, on the rank that has more; number of the file */
};

struct word {
	char host[64], file[448];
};

static uint64_t hash_of(const struct zr_input_file *f)
{
	return XXH3_64bits_withSeed(&f->bytes, sizeof f->bytes, f->hash);
}

/* The file of a kind with this number; NULL: there are fewer. */
static const struct zr_input_file *file_at(const struct zr_inputs *in, int kind, int64_t at)
{
	for (int32_t i = 0; i < in->n; i++)
		if (in->file[i].kind == kind && !at--)
			return &in->file[i];

	return NULL;
}

static struct files_of sum_up(const struct zr_inputs *in)
{
	struct files_of mine = { 0 };

	for (int32_t i = 0; i < in->n; i++) {
		const uint64_t hash = hash_of(&in->file[i]);
		const int k = in->file[i].kind;
		mine.n[k]++;
		mine.hash[k] = XXH3_64bits_withSeed(&hash, sizeof hash, mine.hash[k]);
	}

	return mine;
}

/* A rank that has no file of a kind does not need any: who does has failed before, or will. */
static int differ(const struct files_of *a, const struct files_of *b, int kind)
{
	if (!a->n[kind] || !b->n[kind])
		return 0;

	return a->n[kind] != b->n[kind] || a->hash[kind] != b->hash[kind];
}

static struct other find_other(const struct files_of *all, int32_t world)
{
	for (int32_t r = 1; r < world; r++)
		for (int k = 0; k < ZR_IN_KINDS; k++)
			if (differ(&all[0], &all[r], k)) {
				const int64_t a = all[0].n[k], b = all[r].n[k];
				return (struct other){ r, k, a > b ? a : b, 0 };
			}

	return (struct other){ 0 };
}

static int compare_kinds(struct zr_session *s, const struct zr_inputs *in, struct other *o,
			 struct zr_error *err)
{
	const int32_t world = s->setup->facts.process.world;
	const struct files_of mine = sum_up(in);

	struct files_of *all = calloc((size_t)world, sizeof *all);
	if (!all)
		return zr_no_memory(err);

	int rc = zr_gather_bytes(s, &mine, all, sizeof mine, err);
	if (!rc)
		*o = find_other(all, world);
	free(all);
	return rc;
}

static int compare_files(struct zr_session *s, const struct zr_inputs *in, struct other *o,
			 struct zr_error *err)
{
	const size_t n = (size_t)o->files;
	uint64_t *mine = calloc(n, sizeof *mine);
	uint64_t *all = calloc((size_t)s->setup->facts.process.world * n, sizeof *all);
	int rc = mine && all ? 0 : zr_no_memory(err);

	for (int64_t i = 0; !rc && i < o->files; i++) {
		const struct zr_input_file *f = file_at(in, o->kind, i);
		mine[i] = f ? hash_of(f) : 0;
	}

	if (!rc)
		rc = zr_gather_bytes(s, mine, all, n * sizeof *mine, err);
	if (!rc) {
		const uint64_t *other = all + (size_t)o->rank * n;
		while (o->at + 1 < o->files && all[o->at] == other[o->at])
			o->at++;
	}

	free(mine);
	free(all);
	return rc;
}

static int refuse(struct zr_session *s, const struct zr_inputs *in, const struct other *o,
		  struct zr_error *err)
{
	const struct zr_input_file *f = file_at(in, o->kind, o->at);
	struct word mine = { .file = "nothing" },
		    *all = calloc((size_t)s->setup->facts.process.world, sizeof *all);
	char hex[17];

	if (!all)
		return zr_no_memory(err);

	snprintf(mine.host, sizeof mine.host, "%s", s->setup->facts.ranks.host);
	if (f)
		snprintf(mine.file, sizeof mine.file, "%.380s (%lld bytes, xxh3 %s)", f->name,
			 (long long)f->bytes, zr_hex(f->hash, hex));

	int rc = zr_gather_bytes(s, &mine, all, sizeof mine, err);
	if (!rc)
		rc = zr_err(err, ZR_EINVAL,
			    "rank %d on %.63s reads another %s than rank 0 on %.63s: %.300s, there "
			    "%.300s; %s",
			    o->rank, all[o->rank].host, kinds[o->kind].what, all[0].host,
			    all[o->rank].file, all[0].file, kinds[o->kind].remedy);
	free(all);
	return rc;
}

static int compare(struct zr_session *s, const struct zr_inputs *in, struct zr_error *err)
{
	struct other o = { 0 };

	int rc = compare_kinds(s, in, &o, err);
	if (rc || !o.rank)
		return rc;

	rc = compare_files(s, in, &o, err);
	if (rc)
		return rc;
	return refuse(s, in, &o, err);
}

/* Ranks that other launchers start may have been given other options: one asks for all. */
static int any_asks(struct zr_session *s, int verify, int *any, struct zr_error *err)
{
	const int32_t world = s->setup->facts.process.world;
	const int64_t mine = verify;

	int64_t *all = calloc((size_t)world, sizeof *all);
	if (!all)
		return zr_no_memory(err);

	int rc = zr_gather_bytes(s, &mine, all, sizeof mine, err);
	*any = 0;
	for (int32_t r = 0; !rc && r < world; r++)
		*any |= all[r] != 0;
	free(all);
	return rc;
}

int zr_alike_check(struct zr_setup *s, int verify, struct zr_error *err)
{
	struct zr_session bare = zr_session_bare(s);
	struct zr_inputs in = { 0 };

	if (s->facts.process.world == 1 && verify)
		zr_logf(ZR_LOG_WARN, "verify",
			"one rank trains: there is no other to compare its files with");
	if (s->facts.process.world == 1)
		return 0;

	int rc = any_asks(&bare, verify, &in.whole, err);
	if (!rc)
		rc = zr_inputs_find(s, &in, err);
	if (!rc)
		rc = compare(&bare, &in, err);
	zr_inputs_free(&in);
	return rc;
}
