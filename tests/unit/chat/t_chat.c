/* SPDX-License-Identifier: Apache-2.0
 *
 * t_chat.c - conversations as the chat templates of models write them: ids and masks equal those of
 * apply_chat_template of Hugging Face's transformers (tests/golden/make_chat.py), with any number
 * of threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/pool.h"
#include "files/chat/chat.h"
#include "files/chat/template.h"

#include <cmocka.h> /* last: it defines fail() */

#define LINE (1 << 16)

struct golden {
	const char *template;
	FILE *f;
	char line[LINE];
	char ids[LINE], mask[LINE];
	int documents;
	const struct zr_chat *c;
};

static uint32_t fnv(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * UINT64_C(0x100000001b3);
	return (uint32_t)(*h >> 32);
}

/* "ids 1 2 3" and "mask 011" where golden has them in full, which it does behind a line. */
static void compare(struct golden *g, const char *key, const char *got)
{
	if (!fgets(g->line, LINE, g->f))
		g->line[0] = 0;
	g->line[strcspn(g->line, "\n")] = 0;
	if (strncmp(g->line, key, strlen(key))) {
		fseek(g->f, -(long)strlen(g->line) - 1, SEEK_CUR);
		return;
	}
	assert_string_equal(g->line + strlen(key), got);
}

static int take(void *arg, const int32_t *ids, const uint8_t *learned, size_t n)
{
	struct golden *g = arg;
	assert_true(zr_chat_counts_of(g->c)->documents > g->documents); /* has this one */
	uint64_t a = UINT64_C(0xcbf29ce484222325), b = a;
	uint32_t ids_hash = 0, mask_hash = 0;
	size_t targets = 0, at = 0;
	char wanted[128], got[128];
	for (size_t i = 0; i < n; i++) {
		ids_hash = fnv(&a, (uint64_t)ids[i]);
		mask_hash = fnv(&b, learned[i]);
		targets += i && learned[i];
		if (n < 1000) {
			at += (size_t)sprintf(g->ids + at, "%s%d", i ? " " : "", (int)ids[i]);
			g->mask[i] = (char)('0' + learned[i]);
			g->mask[i + 1] = 0;
		}
	}
	if (!fgets(g->line, LINE, g->f))
		fail_msg("%s: golden ends", g->template);
	const char *rest = strchr(g->line, ' ');
	snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(rest + 1, "\n"), rest + 1);
	snprintf(got, sizeof got, "%zu %zu %08x %08x", n, targets, ids_hash, mask_hash);
	if (strcmp(got, wanted))
		print_message("%s: conversation %.*s\n", g->template, (int)(rest - g->line),
			      g->line);
	long here = ftell(g->f);
	if (n < 1000 && fgets(g->line, 5, g->f) && !strcmp(g->line, "ids ")) {
		fseek(g->f, here, SEEK_SET);
		compare(g, "ids ", g->ids);
		compare(g, "mask ", g->mask);
	} else {
		fseek(g->f, here, SEEK_SET);
	}
	assert_string_equal(got, wanted);
	g->documents++;
	return 0;
}

static void parallel(void *of, int64_t n, void (*fn)(void *arg, int64_t item, int32_t thread),
		     void *arg)
{
	zr_pool_run(of, n, fn, arg);
}

static void check(const char *template, const char *mask, int threads)
{
	static struct golden g;
	const char *top = getenv("ZR_SRCDIR");
	char path[4096], tokenizer[4096], name[64];
	struct zr_error err = { 0 };
	struct zr_chat *c;
	struct zr_pool *pool;
	const char *folder = strcmp(mask, "trl") ? "" : "trl/";
	snprintf(path, sizeof path, "%s/tests/golden/chat/%s%s.txt", top, folder, template);
	g = (struct golden){ .template = template, .f = fopen(path, "r") };
	assert_non_null(g.f);
	assert_int_equal(fscanf(g.f, "%63s\n", name), 1);
	snprintf(tokenizer, sizeof tokenizer, "%s/tests/golden/chat/%s.json", top, name);
	struct zr_chat_options o = { .tokenizer = tokenizer,
				     .template = template,
				     .bos = "<s>",
				     .eos = "</s>",
				     .mask = mask,
				     .on_bad = "skip",
				     .threads = threads,
				     .sink = take,
				     .arg = &g,
				     .parallel = parallel };
	assert_int_equal(zr_pool_new(threads, &pool), 0);
	o.of = pool;
	if (zr_chat_open(&o, &c, &err)) {
		if (err.code == ZR_ENOTSUP)
			skip(); /* a build without PCRE2 or utf8proc */
		fail_msg("%s", err.text);
	}
	g.c = c;
	snprintf(path, sizeof path, "%s/tests/golden/chat/conversations.jsonl", top);
	if (zr_chat_file(c, path, &err))
		fail_msg("%s", err.text);
	if (fgets(g.line, LINE, g.f))
		fail_msg("%s: %d documents, golden goes on with %s", template, g.documents, g.line);
	assert_true(g.documents > 50);
	zr_chat_close(c);
	zr_pool_free(pool);
	fclose(g.f);
}

static void test_templates(void **unused)
{
	const char *name;
	(void)unused;
	for (size_t i = 0; (name = zr_chat_template_name(i)); i++)
		check(name, "turn", 1);
}

/* Those of which TRL has a training template. */
static void test_masks_of_trl(void **unused)
{
	static const char *const names[] = { "gemma",  "gemma3", "llama3", "phi3",
					     "phi3.5", "qwen2",  "qwen2.5" };
	(void)unused;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		check(names[i], "trl", 1);
}

static void test_threads(void **unused)
{
	(void)unused;
	check("qwen2.5", "turn", 3);
	check("qwen2.5", "trl", 3);
	check("llama2", "turn", 4);
}

struct counted {
	int32_t ids[2][512];
	size_t n[2];
	int documents;
};

static int keep(void *arg, const int32_t *ids, const uint8_t *learned, size_t n)
{
	struct counted *c = arg;
	(void)learned;
	assert_true(c->documents < 2 && n <= 512);
	memcpy(c->ids[c->documents], ids, n * sizeof *ids);
	c->n[c->documents++] = n;
	return 0;
}

/* Two rows that differ in where the input stands: alone it makes the heading tell of it. */
static void test_alpaca_input(void **unused)
{
	static const char rows[] =
		"{\"instruction\": \"Add\", \"input\": \"1 and 2\", \"output\": \"3\"}\n"
		"{\"instruction\": \"Add\\n\\n### Input:\\n1 and 2\", \"output\": \"3\"}\n";
	const char *top = getenv("ZR_SRCDIR");
	char tokenizer[4096], path[] = "/tmp/zeroth-rows-XXXXXX";
	struct counted c = { .documents = 0 };
	struct zr_error err = { 0 };
	struct zr_chat *chat;
	struct zr_pool *pool;
	(void)unused;
	const int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, rows, sizeof rows - 1) == sizeof rows - 1);
	close(fd);
	snprintf(tokenizer, sizeof tokenizer, "%s/tests/golden/chat/spaces.json", top);
	assert_int_equal(zr_pool_new(1, &pool), 0);
	struct zr_chat_options o = { .tokenizer = tokenizer,
				     .template = "alpaca-input",
				     .eos = "</s>",
				     .threads = 1,
				     .sink = keep,
				     .arg = &c,
				     .parallel = parallel,
				     .of = pool };
	if (zr_chat_open(&o, &chat, &err)) {
		unlink(path);
		zr_pool_free(pool);
		if (err.code == ZR_ENOTSUP)
			skip();
		fail_msg("%s", err.text);
	}
	const int rc = zr_chat_file(chat, path, &err);
	unlink(path);
	if (rc)
		fail_msg("%s", err.text);
	assert_int_equal(c.documents, 2);
	assert_true(c.n[0] > c.n[1] + 10); /* "paired with an input ..." */
	assert_memory_equal(c.ids[0] + c.n[0] - 20, c.ids[1] + c.n[1] - 20, 20 * sizeof(int32_t));
	zr_chat_close(chat);
	zr_pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_templates),
		cmocka_unit_test(test_masks_of_trl),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_alpaca_input),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
