/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c - why a request failed.
 */
#include "nvme.h"

#include <stdarg.h>

void nv_refuse(struct nv_request *r, const char *format, ...)
{
	va_list ap;

	if (r->code)
		return;

	r->code = ZR_EIO;
	va_start(ap, format);
	vsnprintf(r->text, sizeof r->text, format, ap);
	va_end(ap);
}
