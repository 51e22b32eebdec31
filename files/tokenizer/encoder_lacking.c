/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder_lacking.c - bytes that have no token in a byte-level vocabulary. The library leaves them
 * out without a word where there is no token for what is unknown, so that the ids are of another
 * text; here they are an error that says where. A byte that UTF-8 never has is one at once, as it
 * would be read as U+FFFD.
 */
#include "files/tokenizer/encoder.h"

static int is_never_utf8(int byte)
{
	return byte == 0xc0 || byte == 0xc1 || byte > 0xf4;
}

static int say_lacking(struct zr_encoder *e, int byte)
{
	if (!e->lacking[byte])
		return zr_err(e->err, ZR_ENOTSUP,
			      "byte 0x%02x, which the normalizer puts into the text, has no token "
			      "in the tokenizer's vocabulary",
			      byte);

	const unsigned long long before = (unsigned long long)e->lacking[byte] - 1;
	return zr_err(e->err, ZR_ENOTSUP,
		      "byte 0x%02x, first behind %llu bytes of the text, has no token in the "
		      "tokenizer's vocabulary%s",
		      byte, before, is_never_utf8(byte) ? ", and UTF-8 never has it" : "");
}

int zr_encoder_look(struct zr_encoder *e, const unsigned char *p, size_t n)
{
	for (size_t i = 0; e->t->bpe.lacks && i < n; i++) {
		int byte = p[i];

		if (e->t->byte[byte] >= 0 || e->lacking[byte])
			continue;

		e->lacking[byte] = e->given + i + 1;
		if (is_never_utf8(byte))
			return say_lacking(e, byte);
	}

	e->given += n;
	return 0;
}

int zr_encoder_model_failed(struct zr_encoder *e, int rc)
{
	if (rc == ZR_ENOMEM)
		return no_memory(e);
	if (rc && zr_model_lacking(e->model) >= 0)
		return say_lacking(e, zr_model_lacking(e->model));

	return rc;
}
