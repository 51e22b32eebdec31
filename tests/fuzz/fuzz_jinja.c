/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_jinja.c - templates of Jinja, and behind a 0 byte their variables as JSON; without them
 * those below. A rendering is UTF-8, the same again, and its spans are in order; it ends within its
 * steps.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/jinja.h"
#include "files/tokenizer/utf8.h"
#include "fuzz.h"

static json_t *usual;
static struct zr_jinja_work work;

static void cleanup(void)
{
	json_decref(usual);
	zr_jinja_work_free(&work);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char variables[] =
		"{\"messages\": [{\"role\": \"user\", \"content\": \" hi \\u00e9\"},"
		"{\"role\": \"assistant\", \"content\": \"<think>a</think>b\", \"tool_calls\":"
		"[{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, null]}}}]}],"
		"\"tools\": [{\"type\": \"function\", \"items\": {}}], \"s\": \"text\", \"n\": 3,"
		"\"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

	(void)argc, (void)argv;
	fuzz_quiet();
	usual = json_loads(variables, JSON_ALLOW_NUL, NULL);
	fuzz_check(usual);
	work.most_steps = 1 << 18;
	atexit(cleanup);
	return 0;
}

static void check_spans(void)
{
	size_t at = 0;

	for (size_t i = 0; i < work.spans.n; i += sizeof(struct zr_jinja_span)) {
		struct zr_jinja_span s;
		memcpy(&s, work.spans.p + i, sizeof s);
		fuzz_check(s.from < s.to && s.to <= work.text.n && s.to >= at);
		at = s.to;
	}
}

static void render(const struct zr_jinja *t, const json_t *variables)
{
	struct zr_error err = { 0 }, again = { 0 };

	const int rc = zr_jinja_render(t, variables, 20000, &work, &err);
	fuzz_check(!rc == !err.code);
	if (rc) {
		fuzz_check(!strncmp(err.text, "t:", 2) || rc == ZR_ENOMEM);
		fuzz_refused(&err);
		return;
	}

	check_spans();
	fuzz_check(zr_utf8_well_formed(work.text.p, work.text.n) == work.text.n);
	const size_t n = work.text.n;
	char *before = malloc(n + 1);
	fuzz_check(before);
	if (n)
		memcpy(before, work.text.p, n);
	fuzz_check(!zr_jinja_render(t, variables, 20000, &work, &again));
	fuzz_check(work.text.n == n && (!n || !memcmp(before, work.text.p, n)));
	free(before);
	fuzz_usable++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	const size_t n = end ? (size_t)(end - data) : size;
	json_t *own = NULL;
	struct zr_error err = { 0 };
	struct zr_jinja *t = NULL;

	if (size > 1 << 16)
		return 0;
	if (end)
		own = json_loadb((const char *)end + 1, size - n - 1, JSON_ALLOW_NUL, NULL);
	const int rc = zr_jinja_open("t", (const char *)data, n, &t, &err);
	fuzz_check(!rc == !err.code);
	if (rc)
		fuzz_refused(&err);
	else
		render(t, own ? own : usual);
	zr_jinja_close(t);
	json_decref(own);
	return 0;
}
