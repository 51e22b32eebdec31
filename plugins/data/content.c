/* SPDX-License-Identifier: Apache-2.0
 *
 * content.c - see content.h. What is refused must be what it looks like: text in any encoding
 * without zero bytes passes, and so do programs and pages in which braces stand first.
 */
#include "content.h"

#include <string.h>

#include "files/content.h"

#define TOKENS "use [data] plugin = tokens"
#define RAW    TOKENS ", with format = uint16 or uint32 if it holds raw tokens"
#define UNPACK "decompress it; gzip alone is read as it is"

static const struct format {
	const char *bytes;
	int n;
	const char *is, *use;
} formats[] = {
	{ "\x88\xd8\x34\x01\x01\0\0\0", 8, "a file of tokens with llm.c's header", TOKENS },
	{ "\xa1\xd9\x34\x01\x07\0\0\0", 8, "a file of tokens with llm.c's header", TOKENS },
	{ "\x93NUMPY", 6, "an array of NumPy", "write its tokens by tofile() and " RAW },
	{ "\x28\xb5\x2f\xfd", 4, "compressed by zstd", UNPACK },
	{ "\xfd"
	  "7zXZ",
	  5, "compressed by xz", UNPACK },
	{ "BZh", 3, "compressed by bzip2", UNPACK },
	{ "PK\3\4", 4, "a zip archive", "unpack it" },
	{ "PAR1", 4, "a Parquet file", "write the texts in it to a file of text" },
	{ "%PDF-", 5, "a PDF", "write its text to a file, as pdftotext does" },
	{ "\xff\xfe", 2, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8" },
	{ "\xfe\xff", 2, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8" },
};

static int refuse(const struct zr_host *h, const char *name, const char *is, const char *use)
{
	return zr_fail(h, ZR_EINVAL, "%s: is %s, not text: %s; content = any learns its bytes",
		       name, is, use);
}

int content_check(const struct zr_host *h, const char *name, const uint8_t *p, int64_t n)
{
	const uint8_t *zero = memchr(p, 0, (size_t)n);
	const size_t known = sizeof formats / sizeof *formats;
	char is[64];

	for (size_t i = 0; i < known; i++)
		if (n >= formats[i].n && !memcmp(p, formats[i].bytes, (size_t)formats[i].n))
			return refuse(h, name, formats[i].is, formats[i].use);
	if (zr_content_is_json((const char *)p, (size_t)n))
		return refuse(h, name, "JSON",
			      "if it is conversations, use [data] plugin = chat, or make tokens of "
			      "them by `zeroth tokenize --chat`");
	if (!zero)
		return ZR_OK;

	snprintf(is, sizeof is, "binary (byte %lld is zero)", (long long)(zero - p));
	return refuse(h, name, is, RAW);
}
