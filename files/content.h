/* SPDX-License-Identifier: Apache-2.0
 *
 * content.h - what a file is, told by its first bytes. [any]
 */
#ifndef ZR_FILES_CONTENT_H
#define ZR_FILES_CONTENT_H

#include <stddef.h>

/* Whether a file that begins with these n bytes, decompressed, is JSON: an object, or a list of
 * objects. A program or a page in which braces stand first is none. */
int zr_content_is_json(const char *p, size_t n);

#endif
