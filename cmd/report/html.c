/* SPDX-License-Identifier: Apache-2.0
 *
 * html.c - see html.h.
 */
#include "cmd/report/html.h"

#include <math.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* Bytes of a character by its first byte; 0: no character begins so (RFC 3629). */
static int character_bytes(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2) /* goes on with a character, or an overlong form */
		return 0;
	if (first < 0xe0)
		return 2;
	if (first < 0xf0)
		return 3;
	return first < 0xf5 ? 4 : 0;
}

/* Bytes of the character that p begins with, 0 if it is none (RFC 3629). */
static int character(const unsigned char *p)
{
	int n = character_bytes(*p);

	for (int i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static int control(unsigned char c)
{
	return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

void zr_html_text(FILE *f, const char *text)
{
	static const char special[] = "&<>\"'";
	static const char *const name[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };

	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		const int n = character(p);
		const char *s = strchr(special, *p);
		if (s)
			fputs(name[s - special], f);
		else if (!n || control(*p))
			fputs(REPLACEMENT, f);
		else
			fwrite(p, 1, (size_t)n, f);
		p += n ? n : 1;
	}
}

void zr_html_json(FILE *f, const char *text)
{
	putc('"', f);
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		const int n = character(p);
		if (!n)
			fputs(REPLACEMENT, f);
		else if (n == 1 && (*p < 0x20 || strchr("\"\\<>&'", *p)))
			fprintf(f, "\\u%04x", *p);
		else
			fwrite(p, 1, (size_t)n, f);
		p += n ? n : 1;
	}

	putc('"', f);
}

void zr_html_number(FILE *f, double v)
{
	if (isfinite(v))
		fprintf(f, "%.6g", v);
	else
		fputs("null", f);
}

char *zr_number(double v, char text[ZR_NUMBER_ROOM])
{
	char plain[40];
	const double a = fabs(v);

	if (isnan(v))
		return strcpy(text, "-");
	if (isinf(v))
		return strcpy(text, "not finite");
	if (a >= 1e15 || (a && a < 1e-4)) {
		snprintf(text, ZR_NUMBER_ROOM, "%.3g", v);
		return text;
	}

	if (a < 1000) {
		snprintf(text, ZR_NUMBER_ROOM, "%.4g", v);
		return text;
	}

	snprintf(plain, sizeof plain, "%.0f", a);
	char *to = text;
	if (v < 0)
		*to++ = '-';
	for (size_t i = 0, n = strlen(plain); i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = plain[i];
	}

	*to = 0;
	return text;
}

char *zr_number_bytes(double v, char text[ZR_NUMBER_ROOM])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	int u = 0;

	if (!isfinite(v))
		return strcpy(text, "-");

	for (; fabs(v) >= 1024 && u < 5; u++)
		v /= 1024;
	int decimals = 0;
	if (u && v < 100)
		decimals = v < 10 ? 2 : 1;
	snprintf(text, ZR_NUMBER_ROOM, "%.*f %s", decimals, v, unit[u]);
	return text;
}

char *zr_number_seconds(double v, char text[ZR_NUMBER_ROOM])
{
	if (!isfinite(v))
		return strcpy(text, "-");
	if (v < 0)
		v = 0;
	if (v < 1e-3)
		snprintf(text, ZR_NUMBER_ROOM, "%.3g us", v * 1e6);
	else if (v < 1)
		snprintf(text, ZR_NUMBER_ROOM, "%.3g ms", v * 1e3);
	else if (v < 120)
		snprintf(text, ZR_NUMBER_ROOM, "%.3g s", v);
	else if (v < 7200)
		snprintf(text, ZR_NUMBER_ROOM, "%d min %02d s", (int)(v / 60), (int)fmod(v, 60));
	else if (v < 86400 * 3.0)
		snprintf(text, ZR_NUMBER_ROOM, "%d h %02d min", (int)(v / 3600),
			 (int)fmod(v / 60, 60));
	else
		snprintf(text, ZR_NUMBER_ROOM, "%.0f d %02d h", floor(v / 86400),
			 (int)fmod(v / 3600, 24));
	return text;
}
