/* SPDX-License-Identifier: Apache-2.0
 *
 * t_config.c - layers, sections, sources, `auto`, and what is shown. Configurations name the
 * plugins of the build tree.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config.h"
#include "core/config/options.h"

#include <cmocka.h> /* last: it defines fail() */

static char path[64]; /* of the configuration in test */

#define BASE "[model]\nplugin = gpt2\n[data]\nplugin = text\npath = x\n"

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static struct zr_config *load(const char *text, const char *const *o, int n)
{
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	write_file(text);
	if (zr_config_load(path, o, n, &cfg, &err))
		fail_msg("%s", err.text);
	return cfg;
}

static const void *value(const struct zr_config *cfg, const char *section, const char *key)
{
	const struct zr_section *s = zr_config_find(cfg, section);
	struct zr_table t;
	const struct zr_opt *o;
	assert_non_null(s);
	t = zr_table_of(s->plugin->desc);
	o = zr_table_find(&t, key);
	assert_non_null(o);
	return (const char *)s->opts + o->offset;
}

static double number(const struct zr_config *cfg, const char *section, const char *key)
{
	return *(const double *)value(cfg, section, key);
}

static const char *text(const struct zr_config *cfg, const char *section, const char *key)
{
	return *(const char *const *)value(cfg, section, key);
}

/* The source of a value, with the file's own path replaced by F. */
static const char *source(const struct zr_config *cfg, const char *section, const char *key)
{
	static char out[128];
	const char *s = zr_config_source(cfg, section, key);
	if (s && !strncmp(s, path, strlen(path)))
		snprintf(out, sizeof out, "F%s", s + strlen(path));
	else
		snprintf(out, sizeof out, "%s", s ? s : "none");
	return out;
}

/* ---- layers ---- */

static void the_highest_layer_wins_and_is_the_source(void **unused)
{
	const char *o[] = { "optimizer.lr=0.5", "optimizer.lr = 0.25" };
	struct zr_config *cfg = load(BASE "[optimizer]\nlr = 0.125\nweight_decay = 0.5\n", o, 2);
	(void)unused;
	assert_true(number(cfg, "optimizer", "lr") == 0.25);
	assert_true(number(cfg, "optimizer", "weight_decay") == 0.5);
	assert_true(number(cfg, "optimizer", "eps") == 1e-8);
	assert_string_equal(source(cfg, "optimizer", "lr"), "-o");
	assert_string_equal(source(cfg, "optimizer", "weight_decay"), "F:8");
	assert_string_equal(source(cfg, "optimizer", "eps"), "default");
	assert_string_equal(source(cfg, "model", "plugin"), "F:2");
	assert_memory_equal(source(cfg, "optimizer", "plugin"), "defaults.ini:", 13);
	assert_string_equal(source(cfg, "optimizer", "nothing"), "none");
	assert_string_equal(source(cfg, "nothing", "lr"), "none");
	zr_config_free(cfg);
}

static void a_config_needs_no_file(void **unused)
{
	const char *o[] = { "model.plugin=gpt2", "data.plugin=text", "data.path=a=b.c" };
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_config_load(NULL, o, 3, &cfg, &err), 0);
	assert_null(zr_config_path(cfg));
	assert_string_equal(text(cfg, "data", "path"), "a=b.c");
	zr_config_free(cfg);
}

static void sections_come_in_the_order_of_roles(void **unused)
{
	static const char *const want[] = { "train",         "memory",    "run",       "checkpoint",
					    "log",           "boot",      "comm",      "device",
					    "device.host",   "model",     "data",      "zero",
					    "optimizer",     "scheduler", "precision", "activation",
					    "monitor.jsonl", "monitor.z", "monitor.a" };
	struct zr_config *cfg =
		load("[monitor.z]\nplugin=csv\n[monitor.a]\nplugin=csv\n" BASE, NULL, 0);
	(void)unused;
	assert_int_equal(zr_config_count(cfg), sizeof want / sizeof *want);
	for (int i = 0; i < zr_config_count(cfg); i++)
		assert_string_equal(zr_config_at(cfg, i)->name, want[i]);
	assert_null(zr_config_at(cfg, 0)->role);
	assert_string_equal(zr_config_find(cfg, "monitor.a")->role, "monitor");
	zr_config_free(cfg);
}

static void a_dotted_section_is_split_at_the_last_dot(void **unused)
{
	const char *o[] = { "monitor.mine.plugin=csv", "monitor.mine.path=a.b.csv" };
	struct zr_config *cfg = load(BASE, o, 2);
	(void)unused;
	assert_string_equal(text(cfg, "monitor.mine", "path"), "a.b.csv");
	zr_config_free(cfg);
}

static void core_sections_hold_their_structs(void **unused)
{
	struct zr_config *cfg = load(
		BASE "[train]\nsteps = "
		     "5e3\nmicro_batch_size=4\ngradient_clipping=0\nseed=0\n[log]\nlevel = debug\n",
		NULL, 0);
	const struct zr_train_opts *t = zr_config_find(cfg, "train")->opts;
	(void)unused;
	assert_int_equal(t->steps, 5000);
	assert_int_equal(t->micro_batch_size, 4);
	assert_int_equal(t->train_batch_size, ZR_AUTO_COUNT);
	assert_int_equal(t->eval_every, 100);
	assert_true(t->gradient_clipping == 0);
	assert_int_equal(t->seed, 0);
	assert_int_equal(((const struct zr_log_opts *)zr_config_find(cfg, "log")->opts)->level,
			 ZR_LOG_DEBUG);
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir,
			    "auto");
	zr_config_free(cfg);
}

/* With defaults.ini of our own: the keys it gives a plugin go when the plugin does. */
static void another_plugin_hides_the_keys_of_the_defaults(void **unused)
{
	char dir[64] = "/tmp/zeroth-test.XXXXXX", file[96],
	     *old = strdup(getenv("ZEROTH_DATA_PATH"));
	const char *o[] = { "optimizer.plugin=sgd" };
	struct zr_config *cfg;
	FILE *f;
	(void)unused;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof file, "%s/defaults.ini", dir);
	f = fopen(file, "w");
	fputs("[boot]\nplugin=local\n[device]\nplugin=cpu\n[zero]\nplugin=stage0\n[scheduler]"
	      "\nplugin=constant\n"
	      "[precision]\nplugin=fp32\n[activation]\nplugin=keep\n[optimizer]\nplugin="
	      "adamw\nbetas=0.5,0.5\nlr=0.75\n",
	      f);
	fclose(f);
	setenv("ZEROTH_DATA_PATH", dir, 1);
	cfg = load(BASE, NULL, 0);
	assert_true(number(cfg, "optimizer", "betas") == 0.5);
	assert_string_equal(source(cfg, "optimizer", "betas"), "defaults.ini:15");
	zr_config_free(cfg);
	cfg = load(BASE, o, 1);
	assert_string_equal(zr_config_find(cfg, "optimizer")->plugin->desc->id, "sgd");
	assert_true(number(cfg, "optimizer", "lr") == 1e-3);
	zr_config_free(cfg);
	cfg = load(BASE "[optimizer]\nplugin = adamw\n", NULL, 0); /* the same one: its keys stay */
	assert_true(number(cfg, "optimizer", "lr") == 0.75);
	zr_config_free(cfg);
	setenv("ZEROTH_DATA_PATH", old, 1);
	unlink(file);
	rmdir(dir);
	free(old);
}

/* ---- resolving ---- */

static void auto_is_resolved_by_the_plugin_and_shown_so(void **unused)
{
	struct zr_config *cfg = load(BASE "[scheduler]\nplugin = warmup_lr\n", NULL, 0);
	struct zr_facts facts = {
		.size = sizeof facts, .world = 1, .workers = 1, .lr = 0.25, .steps = 10
	};
	struct zr_error err = { 0 };
	(void)unused;
	assert_true(isnan(number(cfg, "scheduler", "warmup_max_lr")));
	assert_int_equal(zr_config_resolve(cfg, "scheduler", &facts, &err), 0);
	assert_true(number(cfg, "scheduler", "warmup_max_lr") == 0.25);
	assert_string_equal(source(cfg, "scheduler", "warmup_max_lr"), "auto");
	assert_string_equal(source(cfg, "scheduler", "warmup_min_lr"), "default");
	zr_config_free(cfg);
}

static void auto_that_stays_is_an_error(void **unused)
{
	struct zr_config *cfg = load(
		BASE "[scheduler]\nplugin = warmup_cosine_lr\ntotal_num_steps = auto\n", NULL, 0);
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .lr = NAN };
	struct zr_error err = { 0 };
	char want[256];
	(void)unused;
	assert_int_equal(zr_config_resolve(cfg, "scheduler", &facts, &err), ZR_EINVAL);
	snprintf(want, sizeof want,
		 "%s:8: [scheduler] total_num_steps: `auto` could not be resolved; give a value",
		 path);
	assert_string_equal(err.text, want);
	zr_config_free(cfg);
}

/* The learning rates of parameter groups differ: the option then means each group's own. */
static void auto_stays_where_the_option_says_so(void **unused)
{
	struct zr_config *cfg = load(BASE "[scheduler]\nplugin = warmup_lr\n", NULL, 0);
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .lr = NAN };
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_config_resolve(cfg, "scheduler", &facts, &err), 0);
	assert_true(isnan(number(cfg, "scheduler", "warmup_max_lr")));
	assert_string_equal(source(cfg, "scheduler", "warmup_max_lr"), "default");
	zr_config_free(cfg);
}

static void a_rule_between_options_names_the_line(void **unused)
{
	struct zr_config *cfg = load("[data]\nplugin = text\npath = x\n[model]\nplugin = "
				     "gpt2\nlayers = 1\nwidth = 10\nheads = 3\n"
				     "context = 8\nvocabulary = 97\n",
				     NULL, 0);
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1 };
	struct zr_error err = { 0 };
	char want[80];
	(void)unused;
	assert_int_equal(zr_config_resolve(cfg, "model", &facts, &err), ZR_EINVAL);
	snprintf(want, sizeof want, "%s:", path);
	assert_memory_equal(err.text, want, strlen(want));
	assert_true(atoi(err.text + strlen(want)) == 7 || atoi(err.text + strlen(want)) == 8);
	assert_non_null(strstr(err.text, ": [model] "));
	zr_config_free(cfg);
}

static void core_sets_what_it_derives(void **unused)
{
	struct zr_config *cfg = load(BASE, NULL, 0);
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_config_set_auto(cfg, "train", "train_batch_size", "32", &err), 0);
	assert_int_equal(((const struct zr_train_opts *)zr_config_find(cfg, "train")->opts)
				 ->train_batch_size,
			 32);
	assert_string_equal(source(cfg, "train", "train_batch_size"), "auto");
	assert_int_equal(zr_config_set_auto(cfg, "run", "dir", "runs/a", &err), 0);
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir,
			    "runs/a");
	assert_int_equal(zr_config_set_auto(cfg, "train", "steps", "0", &err), ZR_EINVAL);
	assert_string_equal(err.text, "[train] steps = 0, derived: 0 is out of range >= 1");
	zr_config_free(cfg);
}

/* ---- showing ---- */

static char *shown(const struct zr_config *cfg, int sources)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);
	assert_int_equal(zr_config_write_ini(cfg, f, sources), 0);
	fclose(f);
	return out;
}

static void what_is_shown_loads_to_the_same_values(void **unused)
{
	const char *o[] = { "data.path=  a ; b # \"c\" \\d/*.txt ",
			    "data.val_path=#",
			    "optimizer.lr=0.1",
			    "optimizer.eps=1.2345678901234567e-9",
			    "optimizer.betas=0.30000000000000004, 0.1",
			    "train.steps=5e8",
			    "run.dir=\"x\"" };
	struct zr_config *cfg = load(BASE "[monitor.c]\nplugin = csv\n", o, 7);
	char *first = shown(cfg, 1), *plain = shown(cfg, 0), *second;
	(void)unused;
	assert_string_equal(text(cfg, "data", "path"), "a ; b # \"c\" \\d/*.txt");
	zr_config_free(cfg);
	cfg = load(first, NULL, 0);
	assert_string_equal(text(cfg, "data", "path"), "a ; b # \"c\" \\d/*.txt");
	assert_string_equal(text(cfg, "data", "val_path"), "#");
	assert_true(number(cfg, "optimizer", "eps") == 1.2345678901234567e-9);
	assert_true(number(cfg, "optimizer", "betas") == 0.30000000000000004);
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir,
			    "\"x\"");
	second = shown(cfg, 0);
	assert_string_equal(second, plain);
	free(first);
	free(second);
	free(plain);
	zr_config_free(cfg);
}

static void what_is_shown_names_the_layer(void **unused)
{
	const char *o[] = { "optimizer.eps=0.5" };
	struct zr_config *cfg = load(BASE "[optimizer]\nlr = 0.25\n", o, 1);
	char *t = shown(cfg, 1), want[128];
	(void)unused;
	snprintf(want, sizeof want, "\nlr = 0.25 ; %s:7\n", path);
	assert_non_null(strstr(t, want));
	assert_non_null(strstr(t, "\neps = 0.5 ; -o\n"));
	assert_non_null(strstr(t, "\nweight_decay = 0 ; default\n"));
	assert_non_null(strstr(t, "\nplugin = adamw ; defaults.ini:"));
	free(t);
	zr_config_free(cfg);
}

/* ---- parameter groups ---- */

static void a_group_starts_from_the_section_with_its_plugin(void **unused)
{
	const char *o[] = { "optimizer.late.match=c", "optimizer.a.eps=0.5" };
	struct zr_config *cfg = load(BASE "[optimizer.a]\nmatch = *.bias  *ln_*\nweight_decay = "
					  "0\n[optimizer]\nlr = 0.25\nweight_decay = 1\n"
					  "[optimizer.b]\nplugin = sgd\nmatch = b\nmomentum = "
					  "0.5\nlr = 2\n[optimizer.c]\nmatch = d\n"
					  "plugin = sgd\nlr = 3\n",
				     o, 2);
	const struct zr_section *base = zr_config_find(cfg, "optimizer"),
				*b = zr_config_find(cfg, "optimizer.b");
	(void)unused;
	assert_string_equal(zr_config_find(cfg, "optimizer.a")->match, "*.bias  *ln_*");
	assert_ptr_equal(zr_config_find(cfg, "optimizer.a")->like, base);
	assert_ptr_equal(zr_config_find(cfg, "optimizer.late")->like, base);
	assert_ptr_equal(zr_config_find(cfg, "optimizer.c")->like, b);
	assert_null(b->like);
	assert_null(base->match);
	assert_true(number(cfg, "optimizer.a", "lr") == 0.25 &&
		    number(cfg, "optimizer.a", "weight_decay") == 0);
	assert_true(number(cfg, "optimizer.a", "eps") == 0.5 &&
		    number(cfg, "optimizer", "eps") == 1e-8);
	assert_true(number(cfg, "optimizer.c", "momentum") == 0.5 &&
		    number(cfg, "optimizer.c", "lr") == 3);
	assert_true(number(cfg, "optimizer.b", "weight_decay") == 0);
	assert_string_equal(source(cfg, "optimizer.a", "lr"), "F:10");
	assert_string_equal(source(cfg, "optimizer.a", "match"), "F:7");
	assert_string_equal(source(cfg, "optimizer.late", "match"), "-o");
	zr_config_free(cfg);
}

static void groups_that_are_shown_load_to_the_same_values(void **unused)
{
	struct zr_config *cfg = load(
		BASE
		"[optimizer]\nlr = 0.25\n[optimizer.b]\nplugin = sgd\nmatch = b ?\nmomentum = 0.5\n"
		"[optimizer.c]\nmatch = d\nplugin = sgd\nlr = 3\n",
		NULL, 0);
	char *t = shown(cfg, 0), *again;
	(void)unused;
	assert_non_null(strstr(t, "[optimizer.b]\nplugin = sgd\nmatch = b ?\n"));
	zr_config_free(cfg);
	cfg = load(t, NULL, 0);
	again = shown(cfg, 0);
	assert_string_equal(t, again);
	assert_true(number(cfg, "optimizer.c", "momentum") == 0.5);
	free(t);
	free(again);
	zr_config_free(cfg);
}

static int setup(void **unused)
{
	int fd;
	(void)unused;
	strcpy(path, "/tmp/zeroth-test.XXXXXX");
	fd = mkstemp(path);
	return fd < 0 || close(fd);
}

static int teardown(void **unused)
{
	(void)unused;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_highest_layer_wins_and_is_the_source),
		cmocka_unit_test(a_config_needs_no_file),
		cmocka_unit_test(sections_come_in_the_order_of_roles),
		cmocka_unit_test(a_dotted_section_is_split_at_the_last_dot),
		cmocka_unit_test(core_sections_hold_their_structs),
		cmocka_unit_test(another_plugin_hides_the_keys_of_the_defaults),
		cmocka_unit_test(auto_is_resolved_by_the_plugin_and_shown_so),
		cmocka_unit_test(auto_that_stays_is_an_error),
		cmocka_unit_test(auto_stays_where_the_option_says_so),
		cmocka_unit_test(a_rule_between_options_names_the_line),
		cmocka_unit_test(core_sets_what_it_derives),
		cmocka_unit_test(what_is_shown_loads_to_the_same_values),
		cmocka_unit_test(what_is_shown_names_the_layer),
		cmocka_unit_test(a_group_starts_from_the_section_with_its_plugin),
		cmocka_unit_test(groups_that_are_shown_load_to_the_same_values),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
