/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - characters among bytes.
 */
#ifndef ZR_TOKENIZER_UTF8_H
#define ZR_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at p; 0: the n bytes are only the start of one; -k: the first k are none. */
int zr_utf8_at(const char *p, size_t n);
int32_t zr_utf8_value(const char *p); /* of a well-formed character */
size_t zr_utf8_previous(const char *p, size_t at); /* where the character before `at` starts */

/* White_Space of Unicode: a character; where it starts that ends at `at`, not before `from`; where
 * it ends that starts at `at`. */
int zr_utf8_is_space(int32_t c);
size_t zr_utf8_spaces_before(const char *p, size_t from, size_t at);
size_t zr_utf8_spaces_after(const char *p, size_t at, size_t n);
#endif
