/* SPDX-License-Identifier: Apache-2.0
 *
 * t_others.c - the order in which optimizers of PyTorch number the parameters of a model of
 * transformers, by golden/checkpoints/orders.txt, which make_checkpoints.py wrote.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/setup.h"
#include "cmd/others/order.h"

#include <cmocka.h> /* last: it defines fail() */

static const char *golden(const char *name)
{
	static char path[2][PATH_MAX];
	static int next;
	const char *dir = getenv("ZR_SRCDIR");

	next = !next;
	snprintf(path[next], PATH_MAX, "%s/tests/golden/%s", dir ? dir : ".", name);
	return path[next];
}

static struct zr_setup *open_model(const char *name, struct zr_config **cfg)
{
	char model[PATH_MAX + 64], data[PATH_MAX + 64];
	struct zr_setup *setup = NULL;
	struct zr_error err = { 0 };

	snprintf(model, sizeof model, "model.path=%s/%s", golden("pretrained"), name);
	snprintf(data, sizeof data, "data.path=%s", golden("pretrained/tokens.bin"));
	const char *options[] = {
		model,
		data,
		"data.plugin=tokens",
		"data.format=uint16",
		"train.sequence_length=13",
		"train.eval_every=0",
		"train.micro_batch_size=1",
		"train.gradient_accumulation_steps=1",
		"device.threads=1",
	};
	int rc = zr_config_load(NULL, options, sizeof options / sizeof *options, cfg, &err);
	if (!rc)
		rc = zr_setup_open(*cfg, ZR_MODE_TRAIN, 0, 1, &setup, &err);
	if (rc)
		fail_msg("%s: %s", name, err.text);
	return setup;
}

/* Whether a name of theirs is ours, which may lack what stands before it. */
static int same_name(const char *theirs, const char *ours)
{
	const size_t n = strlen(theirs), m = strlen(ours);
	if (!strcmp(theirs, "embed_out.weight") || !strcmp(ours, "embed_out.weight"))
		return !strncmp(theirs, "embed_out", 9) || !strncmp(theirs, "lm_head", 7);

	return n >= m && !strcmp(theirs + n - m, ours) && (n == m || theirs[n - m - 1] == '.');
}

/* The lines of a model, from the one that `line` has; `line` has the first of the next one then. */
static void compare_model(FILE *f, char *line, size_t size)
{
	char model[64], name[256], is[64];
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	int32_t at = 0;

	assert_int_equal(sscanf(line, "%63s %255s", model, name), 2);
	struct zr_setup *setup = open_model(model, &cfg);
	int32_t *order = calloc((size_t)setup->facts.layout.n_tensors, sizeof *order);
	assert_non_null(order);
	const int32_t n = zr_their_order(&setup->facts.layout, order, &err);

	do {
		if (sscanf(line, "%63s %255s", is, name) != 2 || strcmp(is, model))
			break;
		if (n < 0)
			continue;
		assert_true(at < n);
		const char *ours = setup->facts.layout.tensor[order[at++]].decl->name;
		if (!same_name(name, ours))
			fail_msg("%s: parameter %d is %s, here %s", model, at - 1, name, ours);
	} while (fgets(line, (int)size, f) || (*line = 0));

	if (n < 0 ? !strstr(err.text, "experts") : at != n)
		fail_msg("%s: %d parameters, here %d: %s", model, at, n, err.text);
	free(order);
	zr_setup_close(setup);
	zr_config_free(cfg);
}

static void test_orders(void **state)
{
	char line[400] = "";
	int models = 0;
	FILE *f = fopen(golden("checkpoints/orders.txt"), "r");
	(void)state;

	assert_non_null(f);
	assert_non_null(fgets(line, sizeof line, f));
	for (; *line; models++)
		compare_model(f, line, sizeof line);
	fclose(f);
	assert_true(models >= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
