/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.h - bytes that grow at the end and go at the front; room for ids. [any]
 */
#ifndef ZR_TOKENIZER_BUF_H
#define ZR_TOKENIZER_BUF_H

#include <stddef.h>
#include <stdint.h>

struct zr_buf {
	char *p;
	size_t n, room;
};
int zr_buf_add(struct zr_buf *b, const void *p, size_t n); /* 0 or ZR_ENOMEM */
int zr_buf_reserve(struct zr_buf *b, size_t n);            /* room for n more; 0 or ZR_ENOMEM */
void zr_buf_drop(struct zr_buf *b, size_t n);              /* the first n bytes */
void zr_buf_free(struct zr_buf *b);

struct zr_ids {
	int32_t *id;
	size_t room;
};
/* Room for n ids, of which none is kept; 0 or ZR_ENOMEM. */
int zr_ids_room(struct zr_ids *ids, size_t n);

#endif
