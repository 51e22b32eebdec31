/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.h - SHA-256 (FIPS 180-4), for what others name by it. [any]
 */
#ifndef ZR_FILES_SHA256_H
#define ZR_FILES_SHA256_H

#include <stddef.h>

/* The digest of n bytes as 64 hexadecimal digits and a 0. */
void zr_sha256(const void *data, size_t n, char hex[65]);

#endif
