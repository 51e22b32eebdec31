/* SPDX-License-Identifier: Apache-2.0
 *
 * regex.c - regular expressions of names, for PCRE2, whose syntax has what Python's has and PEFT's
 * users write, in Unicode as there. One fits if it matches a whole name, as re.fullmatch does.
 */
#include "lora.h"

#ifdef HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

int lora_regex_new(const struct zr_host *h, const char *text, struct lora_regex **out)
{
	const uint32_t whole = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_UCP;
	int code;
	size_t at;
	char why[128] = "";
	const char *differs = lora_python_differs(text);
	if (differs)
		return zr_fail(h, ZR_EINVAL,
			       "re:%.200s: letter %zu, %.8s: Python has no such expression, or one "
			       "that means something else than here: write it otherwise",
			       text, (size_t)(differs - text) + 1, differs);

	pcre2_code *c =
		pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, whole, &code, &at, NULL);

	if (c) {
		*out = (struct lora_regex *)c;
		return ZR_OK;
	}

	pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
	return zr_fail(h, code == PCRE2_ERROR_NOMEMORY ? ZR_ENOMEM : ZR_EINVAL,
		       "re:%.200s: %s at letter %zu", text, why, at + 1);
}

int lora_regex_fits(const struct zr_host *h, const struct lora_regex *re, const char *name,
		    int *fits)
{
	const pcre2_code *c = (const pcre2_code *)re;
	pcre2_match_data *m = pcre2_match_data_create(1, NULL);
	if (!m)
		return zr_fail(h, ZR_ENOMEM, "no memory to match a name");

	const int rc = pcre2_match(c, (PCRE2_SPTR)name, strlen(name), 0, 0, m, NULL);
	pcre2_match_data_free(m);
	*fits = rc >= 0;
	if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
		return zr_fail(h, ZR_EINVAL, "re: matching %s takes too many steps", name);

	return ZR_OK;
}

void lora_regex_free(struct lora_regex *re)
{
	pcre2_code_free((pcre2_code *)re);
}

#else

int lora_regex_new(const struct zr_host *h, const char *text, struct lora_regex **out)
{
	(void)out;
	return zr_fail(h, ZR_ENOTSUP,
		       "re:%.200s: needs PCRE2, which this zeroth is built "
		       "without: install libpcre2-dev, configure and build again",
		       text);
}

int lora_regex_fits(const struct zr_host *h, const struct lora_regex *re, const char *name,
		    int *fits)
{
	(void)h, (void)re, (void)name;
	*fits = 0;
	return ZR_OK;
}

void lora_regex_free(struct lora_regex *re)
{
	(void)re;
}

#endif
