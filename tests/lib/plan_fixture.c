/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_fixture.c - see plan_fixture.h.
 */
#define _GNU_SOURCE
#include "plan_fixture.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h> /* last: it defines fail() */

const char *plan_ini = "matrix.ini";

static char text_path[] = "/tmp/zeroth-plan-XXXXXX";

int plan_data(void **unused)
{
	(void)unused;
	int fd = mkstemp(text_path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	for (int i = 0; f && i < 2000; i++)
		fprintf(f, "line %d of a text that is long enough to learn a little from\n", i);
	return f && !fclose(f) ? 0 : -1;
}

int plan_data_remove(void **unused)
{
	(void)unused;
	return unlink(text_path);
}

struct zr_setup *plan_try(uint32_t flags, int world, const char *const *options,
			  struct zr_error *err)
{
	char ini[PATH_MAX], data[64];
	const char *o[32] = { data };
	int n = 1;
	struct zr_config *cfg;
	struct zr_setup *s = NULL;
	const char *src = getenv("ZR_SRCDIR");
	snprintf(ini, sizeof ini, "%s/tests/lib/%s", src ? src : ".", plan_ini);
	snprintf(data, sizeof data, "data.path=%s", text_path);
	while (options && *options && n < 32)
		o[n++] = *options++;
	*err = (struct zr_error){ 0 };
	if (zr_config_load(ini, o, n, &cfg, err))
		return NULL;
	if (zr_setup_open(cfg, ZR_MODE_TRAIN, flags, world, &s, err))
		zr_config_free(cfg);
	return s;
}

struct zr_setup *plan_open(int world, const char *const *options)
{
	struct zr_error err;
	struct zr_setup *s = plan_try(ZR_SETUP_ALONE, world, options, &err);
	if (!s)
		fail_msg("%s", err.text);
	return s;
}

void plan_close(struct zr_setup *s)
{
	struct zr_config *cfg = s->cfg;
	zr_setup_close(s);
	zr_config_free(cfg);
}

int32_t first_after(const struct zr_program *p, int32_t from, int32_t kind, int32_t unit)
{
	for (int32_t i = from; i < p->n; i++)
		for (int32_t k = 0; p->op[i].kind == kind && k < p->op[i].n; k++)
			if (p->unit[p->op[i].first + k] == unit)
				return i;
	return p->n;
}

uint64_t program_bytes(const struct zr_program *p)
{
	uint64_t sum = 0;
	for (int32_t i = 0; i < p->n; i++)
		if (p->op[i].kind != ZR_P_SPILL && p->op[i].kind != ZR_P_FETCH)
			sum += p->op[i].bytes;
	return sum;
}
