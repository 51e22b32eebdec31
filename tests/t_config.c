/* SPDX-License-Identifier: Apache-2.0
 *
 * t_config.c - layers, values, their texts and sources. Configurations name the plugins of the build tree.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "core/ini.h"
#include "core/options.h"

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
	static const char *const want[] = { "train",	 "run",	      "log",	   "boot",	 "device",	"model",      "data", "zero",
					    "optimizer", "scheduler", "precision", "activation", "monitor.jsonl", "monitor.z", "monitor.a" };
	struct zr_config *cfg = load("[monitor.z]\nplugin=csv\n[monitor.a]\nplugin=csv\n" BASE, NULL, 0);
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
	struct zr_config *cfg = load(BASE "[train]\nsteps = 5e3\nmicro_batch_size=4\ngradient_clipping=0\nseed=0\n[log]\nlevel = debug\n",
				     NULL, 0);
	const struct zr_train_opts *t = zr_config_find(cfg, "train")->opts;
	(void)unused;
	assert_int_equal(t->steps, 5000);
	assert_int_equal(t->micro_batch_size, 4);
	assert_int_equal(t->train_batch_size, ZR_AUTO_COUNT);
	assert_int_equal(t->eval_every, 100);
	assert_true(t->gradient_clipping == 0);
	assert_int_equal(t->seed, 0);
	assert_int_equal(((const struct zr_log_opts *)zr_config_find(cfg, "log")->opts)->level, ZR_LOG_DEBUG);
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir, "auto");
	zr_config_free(cfg);
}

/* With defaults.ini of our own: the keys it gives a plugin go when the plugin does. */
static void another_plugin_hides_the_keys_of_the_defaults(void **unused)
{
	char dir[64] = "/tmp/zeroth-test.XXXXXX", file[96], *old = strdup(getenv("ZEROTH_DATA_PATH"));
	const char *o[] = { "optimizer.plugin=sgd" };
	struct zr_config *cfg;
	FILE *f;
	(void)unused;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof file, "%s/defaults.ini", dir);
	f = fopen(file, "w");
	fputs("[boot]\nplugin=local\n[device]\nplugin=cpu\n[zero]\nplugin=stage0\n[scheduler]\nplugin=constant\n"
	      "[precision]\nplugin=fp32\n[activation]\nplugin=keep\n[optimizer]\nplugin=adamw\nbetas=0.5,0.5\nlr=0.75\n",
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

/* ---- lines ---- */

struct line {
	char all[2048];
};

static int note(void *arg, const char *section, const char *key, const char *v, int number_)
{
	struct line *l = arg;
	size_t len = strlen(l->all);
	snprintf(l->all + len, sizeof l->all - len, "%d:%s.%s=%s|", number_, section, key ? key : "", v ? v : "");
	return 0;
}

static const char *lines(const char *t)
{
	static struct line l;
	struct zr_error err = { 0 };
	memset(&l, 0, sizeof l);
	write_file(t);
	if (zr_ini_read(path, "F", note, &l, &err))
		snprintf(l.all, sizeof l.all, "%s", err.text);
	return l.all;
}

static void lines_are_numbered_and_trimmed(void **unused)
{
	(void)unused;
	assert_string_equal(lines("; c\n\n[a]\r\nk=v\r\n  deep  =  x y  \n# c\n[b.c] ; c\nlast = 1"),
			    "3:a.=|4:a.k=v|5:a.deep=x y|7:b.c.=|8:b.c.last=1|");
	assert_string_equal(lines("\xef\xbb\xbf[a]\nk = v\n"), "1:a.=|2:a.k=v|");
	assert_string_equal(lines(""), "");
}

static void comments_begin_after_a_blank(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = 1 ; c\nl = a;b#c # d\nm = ; c\nn=\to\t#\n"), "1:a.=|2:a.k=1|3:a.l=a;b#c|4:a.m=|5:a.n=o|");
}

static void quotes_keep_what_is_in_them(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = \"  a ; b # c \" ; d\nl = \"say \\\"x\\\" \\\\ ;\"\nm = a\"b\"\nn = \"\"\n"),
			    "1:a.=|2:a.k=  a ; b # c |3:a.l=say \"x\" \\ ;|4:a.m=a\"b\"|5:a.n=|");
	assert_string_equal(lines("[a]\nk = \"open ; b\n"), "F:2: a value whose quotes are not closed");
	assert_string_equal(lines("[a]\nk = \"a\" b\n"), "F:2: text after the closing quote");
}

static void lines_that_are_nothing_are_refused(void **unused)
{
	char longest[6000] = "[a]\nk = ";
	(void)unused;
	assert_string_equal(lines("[a]\nword\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("[a]\nk: v\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("[a]\n= v\n"), "F:2: expected `key = value` or `[section]`");
	assert_string_equal(lines("\n[a\n"), "F:2: a section without its ]");
	assert_string_equal(lines("k = v\n"), "F:1: a key before the first [section]");
	assert_string_equal(lines("[a]\nk = \x01\n"), "F:2: a control character; this is not a text file");
	assert_string_equal(lines("[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n"),
			    "F:1: the section's name is too long");
	memset(longest + strlen(longest), 'x', 5000);
	assert_string_equal(lines(longest), "F:2: the line is too long");
}

/* libinih takes an indented line for more of the value before it; here it is a key. */
static void indented_keys_are_keys(void **unused)
{
	(void)unused;
	assert_string_equal(lines("[a]\nk = 1\n    l = 2\n\tm = 3\n"), "1:a.=|2:a.k=1|3:a.l=2|4:a.m=3|");
}

/* ---- values ---- */

struct all {
	uint8_t b;
	int64_t i;
	double f;
	uint64_t bytes, count;
	double list[3];
	int32_t e;
	const char *s;
};

static const char *const choices[] = { "red", "green", "blue", NULL };
static const struct zr_opt all[] = {
	ZR_OPT(struct all, b, ZR_T_BOOL, 0, "no", 0, 0, "", "d"),
	ZR_OPT(struct all, i, ZR_T_I64, ZR_O_AUTO, "auto", -10, 1000, "", "d"),
	ZR_OPT(struct all, f, ZR_T_F64, ZR_O_AUTO | ZR_O_MAX_OPEN, "0.5", 0, 1, "", "d"),
	ZR_OPT(struct all, bytes, ZR_T_BYTES, ZR_O_AUTO, "1K", 0, ZR_HI, "bytes", "d"),
	ZR_OPT(struct all, count, ZR_T_COUNT, ZR_O_AUTO, "1", 1, ZR_HI, "", "d"),
	ZR_OPT(struct all, list, ZR_T_F64S, ZR_O_MIN_OPEN, "1,2,3", 0, ZR_HI, "", "d"),
	ZR_OPT_ENUM(struct all, e, 0, "red", choices, "d"),
	ZR_OPT(struct all, s, ZR_T_STR, 0, "", 0, 0, "", "d"),
};
static const struct zr_table table = { all, sizeof all / sizeof *all, sizeof *all, sizeof(struct all) };

/* What name = text becomes when written again, or the error. */
static const char *again(const char *name, const char *t)
{
	static char out[1024];
	struct all v = { 0 };
	struct zr_error err = { 0 };
	const struct zr_opt *o = zr_table_find(&table, name);
	if (zr_value_parse(o, t, &v, &err))
		snprintf(out, sizeof out, "%s", err.text);
	else
		zr_value_format(o, &v, out, sizeof out);
	return out;
}

static void numbers_are_whole_texts_in_range(void **unused)
{
	(void)unused;
	assert_string_equal(again("f", "0.1"), "0.1");
	assert_string_equal(again("f", "1e-3"), "0.001");
	assert_string_equal(again("f", ".5"), "0.5");
	assert_string_equal(again("f", "auto"), "auto");
	assert_string_equal(again("f", "0.1x"), "expected a number, found '0.1x'");
	assert_string_equal(again("f", "abc"), "expected a number, found 'abc'");
	assert_string_equal(again("f", ""), "expected a number, found ''");
	assert_string_equal(again("f", "0,5"), "expected a number, found '0,5'");
	assert_string_equal(again("f", "nan"), "expected a number, found 'nan'");
	assert_string_equal(again("f", "inf"), "expected a number, found 'inf'");
	assert_string_equal(again("f", "0x1p-1"), "expected a number, found '0x1p-1'");
	assert_string_equal(again("f", "1e999"), "expected a number, found '1e999'");
	assert_string_equal(again("f", "1"), "1 is out of range [0, 1)");
	assert_string_equal(again("f", "-0.5"), "-0.5 is out of range [0, 1)");
	assert_string_equal(again("i", "-10"), "-10");
	assert_string_equal(again("i", "+7"), "7");
	assert_string_equal(again("i", "1e2"), "expected a whole number, found '1e2'");
	assert_string_equal(again("i", "1.0"), "expected a whole number, found '1.0'");
	assert_string_equal(again("i", "1001"), "1001 is out of range [-10, 1000]");
	assert_string_equal(again("i", "99999999999999999999"), "99999999999999999999 does not fit 64 bits");
}

static void counts_and_bytes_may_be_written_short(void **unused)
{
	(void)unused;
	assert_string_equal(again("count", "5e8"), "500000000");
	assert_string_equal(again("count", "1.5e1"), "15");
	assert_string_equal(again("count", "18446744073709551614"), "18446744073709551614");
	assert_string_equal(again("count", "18446744073709551615"), "18446744073709551615 is too large");
	assert_string_equal(again("count", "1.5"), "expected a whole number, found '1.5'");
	assert_string_equal(again("count", "1e17"), "1e17 is too large");
	assert_string_equal(again("count", "0"), "0 is out of range >= 1");
	assert_string_equal(again("count", "-3"), "-3 is out of range >= 1");
	assert_string_equal(again("bytes", "2G"), "2G");
	assert_string_equal(again("bytes", "2048"), "2K");
	assert_string_equal(again("bytes", "1.5M"), "1536K");
	assert_string_equal(again("bytes", "1000"), "1000");
	assert_string_equal(again("bytes", "0"), "0");
	assert_string_equal(again("bytes", "3T"), "3T");
	assert_string_equal(again("bytes", "2GB"), "expected bytes like 512M or 2G, found '2GB'");
	assert_string_equal(again("bytes", "2KiB"), "expected bytes like 512M or 2G, found '2KiB'");
	assert_string_equal(again("bytes", "G"), "expected bytes like 512M or 2G, found 'G'");
	assert_string_equal(again("bytes", "0.3K"), "expected bytes like 512M or 2G, found '0.3K'");
	assert_string_equal(again("bytes", "99999999999T"), "99999999999T is too large");
}

static void lists_have_their_length(void **unused)
{
	(void)unused;
	assert_string_equal(again("list", "1,2,3"), "1,2,3");
	assert_string_equal(again("list", " 0.1 2e5 , 3"), "0.1,200000,3");
	assert_string_equal(again("list", "1,2"), "expected 3 numbers, found 2 in '1,2'");
	assert_string_equal(again("list", "1,2,3,4"), "expected 3 numbers, found 4 in '1,2,3,4'");
	assert_string_equal(again("list", ""), "expected 3 numbers, found 0 in ''");
	assert_string_equal(again("list", "1,,3"), "expected a number, found ''");
	assert_string_equal(again("list", "1,2,"), "expected a number after the last comma, found '1,2,'");
	assert_string_equal(again("list", "1,2,0"), "0 is out of range > 0");
	assert_string_equal(again("list", "1,nan,2"), "expected a number, found 'nan'");
	assert_string_equal(again("list", "auto"), "expected a number, found 'auto'");
}

static void words_are_from_their_list(void **unused)
{
	static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no", "false", "off", "0" };
	(void)unused;
	for (int i = 0; i < 4; i++) {
		assert_string_equal(again("b", yes[i]), "yes");
		assert_string_equal(again("b", no[i]), "no");
	}
	assert_string_equal(again("b", "maybe"), "expected yes or no, found 'maybe'");
	assert_string_equal(again("e", "blue"), "blue");
	assert_string_equal(again("e", "grene"), "'grene' is none of red, green, blue; did you mean green?");
	assert_string_equal(again("e", "auto"), "'auto' is none of red, green, blue");
}

static void a_refused_value_changes_nothing(void **unused)
{
	struct all v = { .list = { 7, 8, 9 }, .f = 0.25 };
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_value_parse(zr_table_find(&table, "list"), "1,2,-3", &v, &err), ZR_EINVAL);
	assert_true(v.list[0] == 7 && v.list[1] == 8 && v.list[2] == 9);
	assert_int_equal(zr_value_parse(zr_table_find(&table, "f"), "2", &v, &err), ZR_EINVAL);
	assert_true(v.f == 0.25);
}

static void numbers_read_back_to_the_same_bits(void **unused)
{
	uint64_t x = 88172645463325252u;
	(void)unused;
	for (int i = 0; i < 20000; i++) {
		double v, w;
		char t[40];
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&v, &x, sizeof v);
		if (!isfinite(v))
			continue;
		zr_format_double(v, t, sizeof t);
		assert_int_equal(zr_parse_double(t, &w), 0);
		assert_memory_equal(&v, &w, sizeof v);
	}
}

static void no_locale_changes_a_number(void **unused)
{
	static const char *const commas[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8" };
	char t[40];
	int found = 0;
	(void)unused;
	for (int i = 0; i < 4 && !found; i++)
		found = setlocale(LC_ALL, commas[i]) != NULL;
	zr_format_double(1.5, t, sizeof t);
	assert_string_equal(t, "1.5");
	assert_string_equal(again("f", "0.5"), "0.5");
	assert_string_equal(again("f", "0,5"), "expected a number, found '0,5'");
	setlocale(LC_ALL, "C");
	if (!found)
		print_message("# no locale with decimal commas is installed: the C locale was tested\n");
}

/* ---- resolving ---- */

static void auto_is_resolved_by_the_plugin_and_shown_so(void **unused)
{
	struct zr_config *cfg = load(BASE "[scheduler]\nplugin = warmup_lr\n", NULL, 0);
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .lr = 0.25, .steps = 10 };
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
	struct zr_config *cfg = load(BASE "[scheduler]\nplugin = warmup_lr\nwarmup_max_lr = auto\n", NULL, 0);
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1 };
	struct zr_error err = { 0 };
	char want[256];
	(void)unused;
	assert_int_equal(zr_config_resolve(cfg, "scheduler", &facts, &err), ZR_EINVAL);
	snprintf(want, sizeof want, "%s:8: [scheduler] warmup_max_lr: `auto` could not be resolved; give a value", path);
	assert_string_equal(err.text, want);
	zr_config_free(cfg);
}

static void a_rule_between_options_names_the_line(void **unused)
{
	struct zr_config *cfg = load("[data]\nplugin = text\npath = x\n[model]\nplugin = gpt2\nlayers = 1\nwidth = 10\nheads = 3\n"
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
	assert_int_equal(((const struct zr_train_opts *)zr_config_find(cfg, "train")->opts)->train_batch_size, 32);
	assert_string_equal(source(cfg, "train", "train_batch_size"), "auto");
	assert_int_equal(zr_config_set_auto(cfg, "run", "dir", "runs/a", &err), 0);
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir, "runs/a");
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
	const char *o[] = { "data.path=  a ; b # \"c\" \\d/*.txt ", "data.val_path=#", "optimizer.lr=0.1", "optimizer.eps=1.2345678901234567e-9",
			    "optimizer.betas=0.30000000000000004, 0.1", "train.steps=5e8", "run.dir=\"x\"" };
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
	assert_string_equal(((const struct zr_run_opts *)zr_config_find(cfg, "run")->opts)->dir, "\"x\"");
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

static void nearest_is_near(void **unused)
{
	static const char *const keys[] = { "gradient_clipping", "train_batch_size", "lr", "steps", "seed" };
	(void)unused;
	assert_string_equal(zr_nearest("gradient_clipp1ng", keys, 5), "gradient_clipping");
	assert_string_equal(zr_nearest("lrr", keys, 5), "lr");
	assert_string_equal(zr_nearest("rl", keys, 5), "lr");
	assert_string_equal(zr_nearest("batch_size", keys, 5), "train_batch_size");
	assert_string_equal(zr_nearest("sede", keys, 5), "seed");
	assert_null(zr_nearest("elephant", keys, 5));
	assert_null(zr_nearest("momentum", keys, 5));
	assert_null(zr_nearest("", keys, 5));
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
		cmocka_unit_test(lines_are_numbered_and_trimmed),
		cmocka_unit_test(comments_begin_after_a_blank),
		cmocka_unit_test(quotes_keep_what_is_in_them),
		cmocka_unit_test(lines_that_are_nothing_are_refused),
		cmocka_unit_test(indented_keys_are_keys),
		cmocka_unit_test(numbers_are_whole_texts_in_range),
		cmocka_unit_test(counts_and_bytes_may_be_written_short),
		cmocka_unit_test(lists_have_their_length),
		cmocka_unit_test(words_are_from_their_list),
		cmocka_unit_test(a_refused_value_changes_nothing),
		cmocka_unit_test(numbers_read_back_to_the_same_bits),
		cmocka_unit_test(no_locale_changes_a_number),
		cmocka_unit_test(auto_is_resolved_by_the_plugin_and_shown_so),
		cmocka_unit_test(auto_that_stays_is_an_error),
		cmocka_unit_test(a_rule_between_options_names_the_line),
		cmocka_unit_test(core_sets_what_it_derives),
		cmocka_unit_test(what_is_shown_loads_to_the_same_values),
		cmocka_unit_test(what_is_shown_names_the_layer),
		cmocka_unit_test(nearest_is_near),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
