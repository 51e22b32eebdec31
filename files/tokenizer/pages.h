/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.h - memory that is read all over, in large pages where the system has them: the processor
 * finds these faster.
 */
#ifndef ZR_TOKENIZER_PAGES_H
#define ZR_TOKENIZER_PAGES_H

#include <stddef.h>

void *zr_pages_open(size_t bytes); /* zeros; NULL: there is no memory */
void zr_pages_close(void *p, size_t bytes); /* as it was opened; NULL is fine */

#endif
