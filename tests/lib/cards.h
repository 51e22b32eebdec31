/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.h - where tests find the double of cards, tests/doubles/cards.c.
 */
#ifndef ZR_TESTS_LIB_CARDS_H
#define ZR_TESTS_LIB_CARDS_H

#include <stdio.h>
#include <stdlib.h>

/* The override "device.plugin=FILE" */
static inline const char *cards_option(void)
{
	static char option[4096];
	const char *dir = getenv("ZR_TEST_PLUGINS");
	snprintf(option, sizeof option, "device.plugin=%s/../tests/doubles/.libs/cards.so",
		 dir && *dir ? dir : "./plugins");
	return option;
}

#endif
