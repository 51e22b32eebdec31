/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - one line of text per failure, see error.h.
 */
#include "core/error.h"

int zr_err(struct zr_error *e, int code, const char *fmt, ...)
{
	va_list ap;
	if (!e || e->code)
		return code;
	e->code = code;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	for (char *c = e->text; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	return code;
}

int zr_exit_code(int code)
{
	switch (code) {
	case ZR_OK:
		return 0;
	case ZR_EINVAL:
	case ZR_ENOTSUP:
		return 2;
	case ZR_EFIT:
		return 3;
	case ZR_ENUMERIC:
		return 5;
	default:
		return 4;
	}
}
