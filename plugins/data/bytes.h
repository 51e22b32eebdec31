/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.h - the bytes of a file, decompressed if it is gzip (told by its content, not its name).
 */
#ifndef ZR_DATA_BYTES_H
#define ZR_DATA_BYTES_H

#include <zeroth/plugin.h>

/* Takes n bytes; 0 or a negative code that ends the reading. */
typedef int bytes_sink(void *arg, const uint8_t *p, int64_t n);

/* Passes all bytes of the file to sink, in order. A read error, a damaged or truncated .gz fails.
 * [main] */
int bytes_read(const struct zr_host *h, const char *name, bytes_sink *sink, void *arg);

/* Room for so many bytes, for free(): pages come as they are written, large ones if there are,
 * which takes a third of the time. NULL: no memory. */
void *bytes_room(size_t bytes);

#endif
