/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - PEFT's rules for names of modules.
 */
#include "names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lora_next_word(const char **text, char word[LORA_NAME])
{
	const char *start = *text + strspn(*text, " ,\t");
	const size_t n = strcspn(start, " ,\t");

	snprintf(word, LORA_NAME, "%.*s", (int)n, start);
	*text = start + n;
	return n > 0;
}

int lora_next_parent(const char *module, size_t *at, char parent[LORA_NAME])
{
	if (!module[*at])
		return 0;

	const size_t from = *at ? *at + 1 : 0;
	*at = from + strcspn(module + from, ".");
	snprintf(parent, LORA_NAME, "%.*s", (int)*at, module);
	return 1;
}

/* Whether `module` ends with `name`, as a whole or behind a dot. */
static int ends_with(const char *name, const char *module)
{
	const size_t n = strlen(name), all = strlen(module);

	if (n > all || strcmp(module + all - n, name))
		return 0;

	return n == all || module[all - n - 1] == '.';
}

int lora_is_called(const char *name, const char *module)
{
	char behind_dot[LORA_NAME + 2];

	if (!strpbrk(name, "*?[\\"))
		return ends_with(name, module);
	if (!fnmatch(name, module, 0))
		return 1;

	snprintf(behind_dot, sizeof behind_dot, "*.%s", name);
	return !fnmatch(behind_dot, module, 0);
}

int lora_is_listed(const char *list, const char *module)
{
	char name[LORA_NAME];

	while (lora_next_word(&list, name))
		if (lora_is_called(name, module))
			return 1;

	return 0;
}

int lora_is_spelled_out(const char *list, const char *module)
{
	char name[LORA_NAME];

	while (lora_next_word(&list, name))
		if (!strcmp(name, module))
			return 1;

	return 0;
}

int lora_is_kept(const char *name, const char *module)
{
	char parent[LORA_NAME], end[LORA_NAME + 1];
	size_t at = 0;

	snprintf(end, sizeof end, "*%s", name);
	while (lora_next_parent(module, &at, parent))
		if (!fnmatch(end, parent, 0))
			return 1;

	return 0;
}

/* A copy of `name` in which ? is in the place of dots. */
static const char *with_any_dots(const char *name, char copy[LORA_NAME])
{
	snprintf(copy, LORA_NAME, "%s", name);
	for (char *dot = strchr(copy, '.'); dot; dot = strchr(dot, '.'))
		*dot = '?';

	return copy;
}

int lora_is_withheld(const char *name, const char *module)
{
	char parent[LORA_NAME], any[LORA_NAME];
	size_t at = 0;

	with_any_dots(name, any);
	while (lora_next_parent(module, &at, parent))
		if (lora_is_called(any, parent))
			return 1;

	return 0;
}

int lora_key_fits(const char *key, const char *module)
{
	char any[LORA_NAME];

	return lora_is_called(with_any_dots(key, any), module);
}

/* The number at `text` if a dot ends it, else -1. */
static long number_before_dot(const char *text)
{
	const size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 9 || text[digits] != '.')
		return -1;

	return strtol(text, NULL, 10);
}

/* The number behind the first part of `module` that is called `pattern` and has one, or -1. */
static long number_behind(const char *pattern, const char *module)
{
	const size_t n = strlen(pattern);

	for (const char *part = module; part; part = strchr(part, '.')) {
		part += *part == '.';
		if (strncmp(part, pattern, n) || part[n] != '.')
			continue;

		const long number = number_before_dot(part + n + 1);
		if (number >= 0)
			return number;
	}

	return -1;
}

/* The first number between dots behind two names, or -1. */
static long first_number(const char *module)
{
	const char *dot = strchr(module, '.');

	while (dot) {
		dot = strchr(dot + 1, '.');
		if (!dot)
			return -1;

		const long number = number_before_dot(dot + 1);
		if (number >= 0)
			return number;
	}

	return -1;
}

long lora_layer_number(const char *patterns, const char *module)
{
	char pattern[LORA_NAME];
	int any = 0;

	while (lora_next_word(&patterns, pattern)) {
		const long number = number_behind(pattern, module);
		if (number >= 0)
			return number;

		any = 1;
	}

	if (any)
		return -1;

	return first_number(module);
}
