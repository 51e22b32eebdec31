/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - one line of text per failure, see error.h.
 */
#include "core/base/error.h"

#include <string.h>

void zr_one_line(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0))
			*c = ' ';
}

static void write_at(struct zr_error *e, size_t at, const char *fmt, va_list ap)
{
	vsnprintf(e->text + at, sizeof e->text - at, fmt, ap);
	zr_one_line(e->text + at);
}

int zr_err(struct zr_error *e, int code, const char *fmt, ...)
{
	va_list ap;
	if (!e || e->code)
		return code;
	e->code = code;
	va_start(ap, fmt);
	write_at(e, 0, fmt, ap);
	va_end(ap);
	return code;
}

int zr_no_memory(struct zr_error *e)
{
	return zr_err(e, ZR_ENOMEM, "out of memory");
}

void zr_err_add(struct zr_error *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (e)
		write_at(e, strlen(e->text), fmt, ap);
	va_end(ap);
}
