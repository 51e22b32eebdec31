/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - rows of a table of keys, see struct zr_import_key.
 */
#ifndef ZR_CMD_IMPORT_ROWS_H
#define ZR_CMD_IMPORT_ROWS_H

#include "cmd/import/import.h"

/* The value as it is; AUTO: and auto is auto here, too. */
#define COPY(path, to)                                                                             \
	{                                                                                          \
		path, to, NULL, NULL, NULL, 0                                                      \
	}
#define AUTO(path, to)                                                                             \
	{                                                                                          \
		path, to, NULL, NULL, NULL, 1                                                      \
	}
/* What a function makes of it. */
#define MADE(path, to, map)                                                                        \
	{                                                                                          \
		path, to, map, NULL, NULL, 0                                                       \
	}
#define MADE_AUTO(path, to, map)                                                                   \
	{                                                                                          \
		path, to, map, NULL, NULL, 1                                                       \
	}
/* The same, of a function that takes a text. */
#define WITH(path, to, map, text)                                                                  \
	{                                                                                          \
		path, to, map, text, NULL, 0                                                       \
	}
/* No effect, and why. */
#define NONE(path, text)                                                                           \
	{                                                                                          \
		path, NULL, zr_import_none, text, NULL, 0                                          \
	}
/* Refused unless it is false or one of the words `off`, and what to use. */
#define STOP(path, off, text)                                                                      \
	{                                                                                          \
		path, NULL, zr_import_refuse, text, off, 0                                         \
	}

#endif
