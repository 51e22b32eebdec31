/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.h - memory in large pages where the system has them: a processor finds addresses faster in
 * what is read all over, and a disk is given fewer parts. It starts on such a page, and goes back
 * to the system when it is closed. [any]
 */
#ifndef ZR_CORE_BASE_PAGES_H
#define ZR_CORE_BASE_PAGES_H

#include <stddef.h>

void *zr_pages_open(size_t bytes);          /* zeros; NULL: there is no memory */
void zr_pages_close(void *p, size_t bytes); /* as it was opened; NULL is fine */

#endif
