/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - texts that are made as printf(3) makes them.
 */
#ifndef ZR_CORE_BASE_TEXT_H
#define ZR_CORE_BASE_TEXT_H

/* An owned text; NULL where there is no memory for it. asprintf(3) leaves its pointer undefined
 * then, and a caller that frees the pointer on its way out crashes. [any] */
char *zr_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
