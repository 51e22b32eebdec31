/* SPDX-License-Identifier: Apache-2.0
 *
 * t_lora_rules.c - adapter/lora reads adapter_config.json as PEFT does: the same modules get
 * adapters, of the same rank and alpha, the same tensors are trained as they are, and what PEFT
 * refuses is refused. tests/golden/make_adapter_rules.py wrote what PEFT makes of each file.
 */
#include <zeroth/adapter.h>
#include <zeroth/model.h>

#include "tests/lib/testhost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#define LINE 4096

/* A model, and an adapter in front of it with the adapter_config.json of a directory. */
struct adapted {
	struct zr_host *host;
	const struct zr_desc *model_desc, *lora_desc;
	void *model_opts, *lora_opts;
	struct zr_inst *model, *lora;
	struct zr_model_decl d;
	json_t *config; /* what the adapter would write */
};

static const struct adapted *lender;

static const void *lend_model(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	(void)h;
	*inst = lender->model;
	return test_iface(lender->model_desc, iface);
}

static void set_sizes(const struct zr_desc *desc, void *opts)
{
	static const char *const sizes[] = { "layers",  "2",  "heads",      "3",  "width", "24",
					     "context", "16", "vocabulary", "97", NULL };

	for (const char *const *o = sizes; *o; o += 2)
		assert_int_equal(test_set(desc, opts, o[0], o[1]), 0);
}

/* Whether the adapter takes the file in `dir` for this model. */
static int adapt(struct adapted *a, const char *kind, const char *dir)
{
	char name[80];

	snprintf(name, sizeof name, "model/%.40s", kind);
	*a = (struct adapted){ .host = test_host(1),
			       .model_desc = test_plugin(name),
			       .lora_desc = test_plugin("adapter/lora") };
	a->model_opts = test_options(a->model_desc);
	a->lora_opts = test_options(a->lora_desc);
	set_sizes(a->model_desc, a->model_opts);
	assert_int_equal(test_create(a->host, a->model_desc, a->model_opts, &a->model), 0);

	lender = a;
	a->host->get = lend_model;
	assert_int_equal(test_set(a->lora_desc, a->lora_opts, "path", dir), 0);
	if (test_create(a->host, a->lora_desc, a->lora_opts, &a->lora))
		return 0;

	const struct zr_model_v1 *v = test_iface(a->lora_desc, "zr.model/1");
	if (v->declare(a->lora, &a->d))
		return 0;

	const struct zr_adapter_v1 *files = test_iface(a->lora_desc, "zr.adapter/1");
	a->config = json_loads(files->config(a->lora, "base"), 0, NULL);
	assert_non_null(a->config);
	return 1;
}

static void give_back(struct adapted *a)
{
	json_decref(a->config);
	if (a->lora)
		a->lora_desc->destroy(a->lora);
	a->model_desc->destroy(a->model);
	free(a->lora_opts);
	free(a->model_opts);
	test_host_free(a->host);
}

static const struct zr_tensor *next_tensor(const struct adapted *a, uint32_t *unit, uint32_t *i)
{
	for (; *unit < a->d.n_units; ++*unit, *i = 0) {
		const struct zr_unit *u =
			(const void *)((const char *)a->d.units + *unit * (size_t)a->d.unit_stride);
		if (*i < u->n_tensors)
			return (const void *)((const char *)u->tensors +
					      (*i)++ * (size_t)a->d.tensor_stride);
	}

	return NULL;
}

/* alpha of an adapter, as the file that it would write has it. */
static double alpha_of(const struct adapted *a, const char *module)
{
	const json_t *own = json_object_get(json_object_get(a->config, "alpha_pattern"), module);

	return json_number_value(own ? own : json_object_get(a->config, "lora_alpha"));
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* What is adapted and what is trained, as the golden file writes it. */
static void describe(const struct adapted *a, const char *kind, char *text)
{
	static char lines[128][200];
	const char *prefix = strcmp(kind, "gpt2") ? "" : "transformer.";
	size_t n = 0;
	uint32_t unit = 0, i = 0;
	const struct zr_tensor *t;

	while ((t = next_tensor(a, &unit, &i))) {
		char module[200];
		const char *added = strstr(t->name, ".lora_A.weight");
		if (!added)
			added = strstr(t->name, ".lora_embedding_A");

		assert_true(n < sizeof lines / sizeof *lines);
		if (added) {
			snprintf(module, sizeof module, "%.*s", (int)(added - t->name), t->name);
			snprintf(lines[n++], sizeof *lines, "map %s%.100s %d %g\n", prefix, module,
				 (int)t->dims[0], alpha_of(a, module));
		} else if (!(t->flags & (ZR_TENSOR_ADDED | ZR_TENSOR_FROZEN))) {
			snprintf(lines[n++], sizeof *lines, "keep %s%.150s\n", prefix, t->name);
		}
	}

	qsort(lines, n, sizeof *lines, compare_lines);
	*text = 0;
	for (size_t k = 0; k < n; k++)
		strcat(text, lines[k]);
}

static void compare(const char *kind, const char *json, const char *want, const char *dir)
{
	static char got[128 * 200];
	struct adapted a;
	char path[300];

	snprintf(path, sizeof path, "%s/adapter_config.json", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(json, f);
	fclose(f);

	if (adapt(&a, kind, dir))
		describe(&a, kind, got);
	else
		strcpy(got, "error\n");
	if (strcmp(got, want))
		fail_msg("%s %s\nPEFT:\n%sours:\n%s%s", kind, json, want, got, test_error(a.host));

	give_back(&a);
	remove(path);
}

/* Whether this build has regular expressions, which the case needs if it has any of these. */
static int can_read(const char *json)
{
#ifdef HAVE_PCRE2
	(void)json;
	return 1;
#else
	const char *text = strstr(json, "_modules\": \"");
	return !(text && strncasecmp(text + 12, "all-linear", 10)) && !strpbrk(json, "\\*^|");
#endif
}

static void files_are_read_as_peft_reads_them(void **state)
{
	static char line[LINE], first[LINE], want[128 * 200];
	char dir[] = "/tmp/zeroth-rules-XXXXXX", path[LINE];
	int cases = 0, more = 1;

	(void)state;
	assert_non_null(mkdtemp(dir));
	const char *source = getenv("ZR_SRCDIR");
	snprintf(path, sizeof path, "%s/tests/golden/adapters/rules.txt", source ? source : ".");
	FILE *f = fopen(path, "r");
	assert_non_null(f);

	*first = 0;
	while (more) {
		more = fgets(line, sizeof line, f) != NULL;
		if (more && strncmp(line, "case ", 5)) {
			strcat(want, line);
			continue;
		}
		if (*first) {
			char *kind = first + 5, *json = strchr(kind, ' ');
			*json++ = 0;
			if (can_read(json)) {
				compare(kind, json, want, dir);
				cases++;
			}
		}
		strcpy(first, line);
		*want = 0;
	}

	fclose(f);
	rmdir(dir);
	assert_true(cases > 30);
}

static int until_failure; /* calls of malloc by jansson; 0: none fails */

static void *failing(size_t bytes)
{
	return until_failure && !--until_failure ? NULL : malloc(bytes);
}

/* Half a file would be another adapter. */
static void a_file_is_written_whole_or_not_at_all(void **state)
{
	static const char json[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, "
				   "\"target_modules\": [\"q_proj\", \"v_proj\"], "
				   "\"rank_pattern\": {\"v_proj\": 3}, \"alpha_pattern\": "
				   "{\"v_proj\": 5}, \"modules_to_save\": [\"norm\"]}";
	char dir[] = "/tmp/zeroth-rules-XXXXXX", path[300], whole[4096];
	struct adapted a;
	int refused = 0;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/adapter_config.json", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(json, f);
	fclose(f);
	assert_true(adapt(&a, "llama", dir));

	const struct zr_adapter_v1 *files = test_iface(a.lora_desc, "zr.adapter/1");
	snprintf(whole, sizeof whole, "%s", files->config(a.lora, "base"));
	json_set_alloc_funcs(failing, free);
	for (int n = 1; n < 400; n++) {
		until_failure = n;
		const char *text = files->config(a.lora, "base");
		until_failure = 0;
		if (text)
			assert_string_equal(text, whole);
		refused += !text;
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(refused > 50);

	give_back(&a);
	remove(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_as_peft_reads_them),
		cmocka_unit_test(a_file_is_written_whole_or_not_at_all),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lora_rules", tests, NULL, NULL);
}
