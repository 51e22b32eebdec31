/* SPDX-License-Identifier: Apache-2.0
 *
 * python.c - what regular expressions of Python 3.11 to 3.14 mean otherwise than PCRE2 does, or
 * refuse: such an expression is refused before PCRE2 sees it.
 */
#include "lora.h"

#include <ctype.h>
#include <string.h>

/* Letters behind a backslash that mean the same in both; \u, \U and \N{...} PCRE2 refuses. */
static const char escapes[] = "AbBdDsSwWZafnrtxuUN";

/* What may stand behind "(?": a flag ends with ) or :, or takes others back behind -. */
static const char *const groups[] = { ":", "#", "=", "!", "<=", "<!", "P<", "P=", "(", ">" };
static const char flags[] = "aiLmsux-";

static int is_hexadecimal(const char *at)
{
	return isxdigit((unsigned char)at[0]) && isxdigit((unsigned char)at[1]);
}

/* *at: a backslash; goes to the character behind it. */
static int is_escape(const char **at)
{
	const char letter = *++*at;

	if (letter == 'x')
		return is_hexadecimal(*at + 1);
	if (!isalpha((unsigned char)letter))
		return 1;

	return strchr(escapes, letter) != NULL;
}

/* at: a parenthesis. */
static int is_group(const char *at)
{
	if (at[1] == '*')
		return 0;
	if (at[1] != '?')
		return 1;

	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (!strncmp(at + 2, groups[i], strlen(groups[i])))
			return 1;

	const size_t n = strspn(at + 2, flags);
	return n && (at[2 + n] == ')' || at[2 + n] == ':');
}

/* at: a brace. What PCRE2 takes for a number of repeats, or does not, changed with 10.43. */
static int is_brace(const char *at)
{
	return !at[1] || !strchr(", \t", at[1]);
}

const char *lora_python_differs(const char *text)
{
	int in_class = 0;

	for (const char *at = text; *at; at++) {
		const char *from = at;
		int same = 1;

		if (*at == '\\')
			same = at[1] && is_escape(&at);
		else if (in_class && *at == '[')
			same = !at[1] || !strchr(":.=", at[1]);
		else if (in_class)
			in_class = *at != ']';
		else if (*at == '(')
			same = is_group(at);
		else if (*at == '{')
			same = is_brace(at);
		else if (*at == '[') {
			in_class = 1;
			at += at[1] == '^';
			at += at[1] == ']'; /* the first one is a member */
		}

		if (!same)
			return from;
	}

	return NULL;
}
