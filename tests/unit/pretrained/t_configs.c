/* SPDX-License-Identifier: Apache-2.0
 *
 * t_configs.c - config.json in all the words that transformers has for it (golden/make_configs.py):
 * with the same weights each gives the loss that transformers computes, or is refused where
 * transformers refuses it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/pretrained/pretrained.h"
#include "train/weights.h"

#include <cmocka.h> /* last: it defines fail() */

#define LIMIT 1e-6 /* of a loss, relative */

static char dir[] = "/tmp/zeroth-configs.XXXXXX";

static const char *golden_path(const char *name)
{
	static char path[2][PATH_MAX];
	static int next;
	const char *source = getenv("ZR_SRCDIR");
	next = !next;
	snprintf(path[next], PATH_MAX, "%s/tests/golden/pretrained/%s", source ? source : ".",
		 name);
	return path[next];
}

static void empty_dir(void)
{
	struct dirent *e;
	DIR *d = opendir(dir);
	assert_non_null(d);
	while ((e = readdir(d)))
		if (*e->d_name != '.')
			assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
	closedir(d);
}

/* The model's weights, by links. */
static void link_weights(const char *model)
{
	struct dirent *e;
	char from[PATH_MAX], to[PATH_MAX];
	DIR *d = opendir(golden_path(model));
	assert_non_null(d);
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "model", 5))
			continue;
		assert_true(snprintf(from, sizeof from, "%s/%s", golden_path(model), e->d_name) <
			    PATH_MAX);
		assert_true(snprintf(to, sizeof to, "%s/%s", dir, e->d_name) < PATH_MAX);
		assert_int_equal(symlink(from, to), 0);
	}
	closedir(d);
}

static json_t *json_at(const char *path)
{
	json_error_t why;
	json_t *j = json_load_file(path, 0, &why);
	if (!j)
		fail_msg("%s: %s", path, why.text);
	return j;
}

static void write_config(json_t *entry)
{
	char path[PATH_MAX];
	const char *model = json_string_value(json_object_get(entry, "model")), *key;
	json_t *config = json_incref(json_object_get(entry, "config")), *value;
	if (!config) {
		snprintf(path, sizeof path, "%s/config.json", golden_path(model));
		config = json_at(path);
		json_object_foreach(json_object_get(entry, "set"), key, value)
		{
			if (json_is_null(value))
				json_object_del(config, key);
			else
				json_object_set(config, key, value);
		}
	}
	snprintf(path, sizeof path, "%s/config.json", dir);
	assert_int_equal(json_dump_file(config, path, 0), 0);
	json_decref(config);
}

/* The loss of the golden tokens with what is in the directory; NaN: it is refused, and err says
 * why. */
static double loss(struct zr_error *err)
{
	char model[PATH_MAX], tokens[PATH_MAX];
	const char *const options[] = { model,
					tokens,
					"train.sequence_length=13",
					"data.plugin=tokens",
					"data.format=uint16",
					"data.order=sequential",
					"train.micro_batch_size=2",
					"train.gradient_accumulation_steps=1",
					"train.eval_every=0",
					"precision.plugin=fp32",
					"optimizer.plugin=sgd",
					"optimizer.lr=0",
					"optimizer.weight_decay=0",
					"optimizer.momentum=0",
					"device.threads=1" };
	struct zr_config *cfg = NULL;
	struct zr_setup *setup = NULL;
	struct zr_session *session = NULL;
	struct zr_step_result result = { .loss = NAN };
	snprintf(model, sizeof model, "model.path=%s", dir);
	snprintf(tokens, sizeof tokens, "data.path=%s", golden_path("tokens.bin"));
	*err = (struct zr_error){ 0 };
	int rc = zr_config_load(NULL, options, sizeof options / sizeof *options, &cfg, err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, 0, 1, &setup, err);
	if (!rc)
		rc = zr_session_open(setup, &session, err);
	if (!rc)
		rc = zr_weights_begin(session, err);
	if (!rc)
		rc = zr_session_step(session, 0, &result, err);
	zr_session_close(session);
	zr_setup_close(setup);
	zr_config_free(cfg);
	return rc ? NAN : (double)result.loss;
}

/* Whether a refusal names what the entry says, or that rotary positions are the reason. */
static int is_refusal(const json_t *entry, const struct zr_error *err)
{
	const char *names = json_string_value(json_object_get(entry, "names"));
	return strstr(err->text, names ? names : "rope_") != NULL;
}

/* transformers 5's, or that of 4.57 where 5 does not read it; NaN: none reads it, or it is not
 * computed here. */
static double wanted(const json_t *entry)
{
	const json_t *by = json_object_get(entry, "loss"), *new = json_object_get(by, "5.24");
	if (!by || json_object_get(entry, "names"))
		return NAN;
	return json_number_value(new ? new : json_object_get(by, "4.57"));
}

static void every_config_gives_the_loss_of_transformers(void **unused)
{
	json_t *entries = json_at(golden_path("configs.json")), *entry;
	size_t i, wrong = 0;
	(void)unused;
	assert_true(json_array_size(entries) > 350);
	json_array_foreach(entries, i, entry)
	{
		const char *model = json_string_value(json_object_get(entry, "model"));
		const char *what = json_string_value(json_object_get(entry, "what"));
		struct zr_error err;
		empty_dir();
		link_weights(model);
		write_config(entry);
		double want = wanted(entry), is = loss(&err);
		if (isnan(want) ? isnan(is) && is_refusal(entry, &err) :
				  fabs(is / want - 1) <= LIMIT)
			continue;
		wrong++;
		print_error("%s, %s: the loss is %.9g, not %.9g%s%s\n", model, what, is, want,
			    isnan(is) ? ": " : "", err.text);
	}
	json_decref(entries);
	assert_int_equal(wrong, 0);
}

static int make_dir(void **unused)
{
	(void)unused;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **unused)
{
	(void)unused;
	empty_dir();
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_config_gives_the_loss_of_transformers),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
