/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - rows of a table of keys, see struct zr_import_key.
 */
#ifndef ZR_CMD_IMPORT_ROWS_H
#define ZR_CMD_IMPORT_ROWS_H

#include "cmd/import/import.h"

#define PATHS(...)                                                                                 \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
/* The value as it is; AUTO: and auto is auto here, too. */
#define COPY(path, to)                                                                             \
	{                                                                                          \
		PATHS(path), to, NULL, NULL, NULL, 0                                               \
	}
#define AUTO(path, to)                                                                             \
	{                                                                                          \
		PATHS(path), to, NULL, NULL, NULL, 1                                               \
	}
/* What a function makes of it. */
#define MADE(path, to, map)                                                                        \
	{                                                                                          \
		PATHS(path), to, map, NULL, NULL, 0                                                \
	}
#define MADE_AUTO(path, to, map)                                                                   \
	{                                                                                          \
		PATHS(path), to, map, NULL, NULL, 1                                                \
	}
/* The same, of a function that takes a text. */
#define WITH(path, to, map, text)                                                                  \
	{                                                                                          \
		PATHS(path), to, map, text, NULL, 0                                                \
	}
/* Why the paths have no effect. */
#define NONE(text, ...)                                                                            \
	{                                                                                          \
		PATHS(__VA_ARGS__), NULL, zr_import_none, text, NULL, 0                            \
	}
/* What to use instead of the paths, which are refused unless they are false or one of the words
 * `off`. */
#define STOP(off, text, ...)                                                                       \
	{                                                                                          \
		PATHS(__VA_ARGS__), NULL, zr_import_refuse, text, off, 0                           \
	}

#endif
