/* SPDX-License-Identifier: Apache-2.0
 *
 * conversations.c - see look.h: what [data], or the sets that it mixes, show of their documents.
 */
#include <stdlib.h>

#include "cmd/look/look.h"
#include "core/setup.h"
#include "train/rundir.h"

#define COUNTS 64

struct looking {
	const struct zr_look_request *r;
	struct zr_look_out out;
	struct zr_lengths lengths;
	struct zr_look_count count[COUNTS];
	int counts;
};

static int shows(const struct zr_instance *it)
{
	const struct zr_data_v1 *v = it->vtbl;

	return it->inst && ZR_HAS(v, struct zr_data_v1, look) && v->look;
}

/* The i-th data plugin of the run: that of [data], then those of the sets that it mixes. */
static struct zr_instance *instance(struct zr_setup *s, int i)
{
	if (!i)
		return &s->roles.source->it;

	return &s->facts.process.source[i - 1];
}

int zr_look_can(const struct zr_setup *setup)
{
	struct zr_setup *s = (struct zr_setup *)setup;

	for (int i = 0; i <= s->facts.process.sources; i++)
		if (shows(instance(s, i)))
			return 1;

	return 0;
}

static int see(void *arg, const struct zr_seen *seen)
{
	struct looking *l = arg;

	if (l->r->html)
		return zr_look_page_add(&l->out, seen);

	return zr_look_print(&l->out, seen);
}

static int measure(void *arg, int64_t tokens, int64_t targets)
{
	struct looking *l = arg;

	return zr_lengths_add(&l->lengths, tokens, targets);
}

/* What the plugin counts, for the page. */
static int count_all(struct looking *l, struct zr_instance *it, struct zr_error *err)
{
	const struct zr_data_v1 *v = it->vtbl;
	int rc = 0;

	for (uint32_t i = 0; !rc && l->counts < COUNTS && ZR_HAS(v, struct zr_data_v1, count);
	     i++) {
		struct zr_data_count c = { .size = sizeof c };
		struct zr_look_count *to = &l->count[l->counts];
		if (!v->count)
			break;
		rc = ZR_ASK(it, data, count, err, l->r->split, i, &c);
		if (rc || !c.name)
			break;
		snprintf(to->name, sizeof to->name, "%s", c.name);
		to->value = c.value;
		l->counts++;
	}

	return rc;
}

/* Of each data plugin of the run that shows its documents. */
static int look_at_each(struct zr_setup *s, const struct zr_look *look, struct zr_error *err)
{
	int rc = 0;

	for (int i = 0; !rc && i <= s->facts.process.sources; i++)
		if (shows(instance(s, i)))
			rc = ZR_ASK(instance(s, i), data, look, err, look);

	return rc;
}

static int measure_nothing(void *arg, int64_t tokens, int64_t targets)
{
	(void)arg, (void)tokens, (void)targets;
	return 0;
}

int zr_look_through(struct zr_setup *setup, int32_t split, int64_t n,
		    int (*seen)(void *arg, const struct zr_seen *seen), void *arg,
		    struct zr_error *err)
{
	const struct zr_look look = { .size = sizeof look,
				      .split = split,
				      .n = n,
				      .seen = seen,
				      .length = measure_nothing,
				      .arg = arg };

	return look_at_each(setup, &look, err);
}

static int look_at_all(struct looking *l, struct zr_error *err)
{
	const struct zr_look look = { .size = sizeof look,
				      .split = l->r->split,
				      .from = l->r->from,
				      .n = l->r->n,
				      .seen = see,
				      .length = measure,
				      .arg = l };
	struct zr_setup *s = l->r->setup;

	int rc = look_at_each(s, &look, err);
	for (int i = 0; !rc && i <= s->facts.process.sources; i++)
		if (shows(instance(s, i)))
			rc = count_all(l, instance(s, i), err);
	if (!rc && !l->lengths.n)
		rc = zr_err(err, ZR_EINVAL, "[data] holds nothing out");

	return rc;
}

static int print_all(struct looking *l, struct zr_error *err)
{
	l->out.f = stdout;
	if (l->r->n)
		zr_look_legend(&l->out);
	int rc = look_at_all(l, err);
	if (rc)
		return rc;

	putchar('\n');
	zr_look_print_lengths(&l->out, &l->lengths);
	return 0;
}

static int write_page(struct looking *l, struct zr_error *err)
{
	char *page = NULL;
	size_t bytes;

	l->out.f = open_memstream(&page, &bytes);
	if (!l->out.f)
		return zr_no_memory(err);

	zr_look_page_begin(&l->out, l->r->conf, l->r->setup->roles.source->info.describe);
	int rc = look_at_all(l, err);
	if (!rc)
		zr_look_page_lengths(&l->out, &l->lengths, l->count, l->counts);
	zr_look_page_end(&l->out);
	if (fclose(l->out.f) && !rc)
		rc = zr_no_memory(err);
	if (!rc)
		rc = zr_put_text(l->r->html, page, err);
	if (!rc)
		printf("%s\n", l->r->html);
	free(page);
	return rc;
}

int zr_look_show(const struct zr_look_request *r, struct zr_error *err)
{
	struct looking *l = calloc(1, sizeof *l);
	int rc;

	if (!l)
		return zr_no_memory(err);

	l->r = r;
	l->out.text = r->text;
	l->out.colours = r->colours;
	if (r->html)
		rc = write_page(l, err);
	else
		rc = print_all(l, err);
	zr_lengths_free(&l->lengths);
	free(l->out.bytes.p);
	free(l);
	return rc;
}
