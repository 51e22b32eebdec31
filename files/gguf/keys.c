/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.c - see gguf.h: keys and their values.
 */
#include <stdlib.h>
#include <string.h>

#include "files/gguf/gguf.h"

/* Types of values, by their numbers in the file. */
enum {
	VALUE_U32 = 4,
	VALUE_I32 = 5,
	VALUE_F32 = 6,
	VALUE_BOOL = 7,
	VALUE_TEXT = 8,
	VALUE_LIST = 9
};

void zr_gguf_keys_free(struct zr_gguf_keys *k)
{
	free(k->bytes);
	*k = (struct zr_gguf_keys){ 0 };
}

static void put(struct zr_gguf_keys *k, const void *data, size_t bytes)
{
	if (k->failed)
		return;

	if (bytes > k->room - k->used) {
		const size_t room = 2 * k->room + bytes + 4096;
		char *more = realloc(k->bytes, room);
		if (!more) {
			k->failed = 1;
			return;
		}

		k->bytes = more;
		k->room = room;
	}

	if (bytes)
		memcpy(k->bytes + k->used, data, bytes);
	k->used += bytes;
}

static void put_u32(struct zr_gguf_keys *k, uint32_t value)
{
	put(k, &value, sizeof value);
}

static void put_u64(struct zr_gguf_keys *k, uint64_t value)
{
	put(k, &value, sizeof value);
}

static void begin(struct zr_gguf_keys *k, const char *key, uint32_t type)
{
	zr_gguf_add(k, key, strlen(key));
	put_u32(k, type);
	k->count++;
}

static void begin_list(struct zr_gguf_keys *k, const char *key, uint32_t type, uint64_t n)
{
	begin(k, key, VALUE_LIST);
	put_u32(k, type);
	put_u64(k, n);
}

void zr_gguf_u32(struct zr_gguf_keys *k, const char *key, uint32_t value)
{
	begin(k, key, VALUE_U32);
	put_u32(k, value);
}

void zr_gguf_f32(struct zr_gguf_keys *k, const char *key, float value)
{
	begin(k, key, VALUE_F32);
	put(k, &value, sizeof value);
}

void zr_gguf_bool(struct zr_gguf_keys *k, const char *key, int value)
{
	const char byte = value != 0;

	begin(k, key, VALUE_BOOL);
	put(k, &byte, 1);
}

void zr_gguf_text(struct zr_gguf_keys *k, const char *key, const char *value)
{
	begin(k, key, VALUE_TEXT);
	zr_gguf_add(k, value, strlen(value));
}

void zr_gguf_i32s(struct zr_gguf_keys *k, const char *key, const int32_t *value, uint64_t n)
{
	begin_list(k, key, VALUE_I32, n);
	put(k, value, (size_t)n * sizeof *value);
}

void zr_gguf_f32s(struct zr_gguf_keys *k, const char *key, const float *value, uint64_t n)
{
	begin_list(k, key, VALUE_F32, n);
	put(k, value, (size_t)n * sizeof *value);
}

void zr_gguf_texts(struct zr_gguf_keys *k, const char *key, uint64_t n)
{
	begin_list(k, key, VALUE_TEXT, n);
}

void zr_gguf_add(struct zr_gguf_keys *k, const char *text, size_t bytes)
{
	put_u64(k, bytes);
	put(k, text, bytes);
}
