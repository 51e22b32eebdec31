/* SPDX-License-Identifier: Apache-2.0
 *
 * sanitize.h - whether the tests run under sanitizers, where a run takes several times as long and
 * a sample of many like cases shows as much. All of them run without sanitizers.
 */
#ifndef ZR_TESTS_SANITIZE_H
#define ZR_TESTS_SANITIZE_H

#include <stdlib.h>

static inline int sanitized(void)
{
	const char *with = getenv("ZR_SANITIZE"); /* "": with none */
	return with && *with;
}

#endif
