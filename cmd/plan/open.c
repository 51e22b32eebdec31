/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c - see trial.h: the setup of a plan, also where its data is not there yet.
 */
#include <errno.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "cmd/plan/trial.h"

static int is_there(const char *pattern)
{
	glob_t g;

	if (!*pattern || !access(pattern, F_OK) || (errno != ENOENT && errno != ENOTDIR))
		return 1;

	int rc = glob(pattern, GLOB_NOSORT, NULL, &g);
	if (!rc)
		globfree(&g);
	return rc != GLOB_NOMATCH;
}

static const char *path_of(const struct zr_section *sec, const char *key)
{
	const struct zr_opt *o = zr_table_find(&sec->table, key);
	const char *const *at = o ? (void *)((char *)sec->opts + o->offset) : NULL;
	return o && o->type == ZR_T_PATH && *at ? *at : "";
}

const char *zr_data_absent(const struct zr_config *cfg)
{
	static const char *const key[] = { "path", "val_path" };

	for (int i = 0; i < 2 * zr_config_count(cfg); i++) {
		const struct zr_section *sec = zr_config_at(cfg, i / 2);
		const char *path = path_of(sec, key[i % 2]);
		if (sec->role && !strcmp(sec->role, "data") && !is_there(path))
			return path;
	}

	return NULL;
}

/* What comm would hold if the other ranks were here. */
static void count_comm(struct zr_setup *s)
{
	const struct zr_section *sec = zr_config_find(s->cfg, "comm");
	struct zr_error none = { 0 };
	const struct zr_comm_v1 *v = s->facts.process.world > 1 && sec ?
					     zr_plugin_iface(sec->plugin, "zr.comm/1", &none) :
					     NULL;

	uint64_t bytes =
		v && ZR_HAS(v, struct zr_comm_v1, held) && v->held ?
			v->held(sec->opts, s->facts.process.world, zr_setup_workers(&s->facts)) :
			0;
	if (bytes)
		zr_account_add(&s->account, ZR_TIER_HOST, "comm", (int64_t)bytes);
}

int zr_plan_open(struct zr_config *cfg, int ranks, struct zr_setup **out, struct zr_error *err)
{
	const char *absent = zr_data_absent(cfg);
	uint32_t flags = ZR_SETUP_ALONE | (absent ? ZR_SETUP_NO_DATA : 0);

	int rc = zr_setup_open(cfg, ZR_MODE_TRAIN, flags, ranks, out, err);
	if (rc && absent)
		zr_err_add(err, "; " ZR_DATA_ABSENT, absent);
	if (!rc)
		count_comm(*out);
	return rc;
}
