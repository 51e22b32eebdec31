/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c - see histogram.h.
 */
#include "cmd/report/histogram.h"

#include <string.h>

#include "cmd/report/html.h"

/* The least of 1, 2, 5 times a power of ten that is not below n. */
static int64_t round_up(int64_t n)
{
	int64_t power = 1;

	while (power * 10 <= n)
		power *= 10;
	if (n <= power)
		return power;
	if (n <= 2 * power)
		return 2 * power;
	return n <= 5 * power ? 5 * power : 10 * power;
}

void zr_histogram_make(struct zr_histogram *h, const int64_t *value, int64_t n, int bars)
{
	int64_t low = n ? value[0] : 0, high = low;

	for (int64_t i = 0; i < n; i++) {
		low = value[i] < low ? value[i] : low;
		high = value[i] > high ? value[i] : high;
	}

	memset(h, 0, sizeof *h);
	if (bars > ZR_HISTOGRAM_BARS)
		bars = ZR_HISTOGRAM_BARS;
	h->width = round_up((high - low) / bars + 1);
	h->low = low / h->width * h->width;
	if ((high - h->low) / h->width >= bars) { /* the round start took one away */
		h->width = round_up(h->width + 1);
		h->low = low / h->width * h->width;
	}

	h->bars = (int)((high - h->low) / h->width) + 1;
	for (int64_t i = 0; i < n; i++) {
		int64_t *count = &h->count[(value[i] - h->low) / h->width];
		if (++*count > h->most)
			h->most = *count;
	}
}

/* The last number of a bar. */
static int64_t last_of(const struct zr_histogram *h, int bar)
{
	return h->low + (bar + 1) * h->width - 1;
}

void zr_histogram_draw(FILE *f, const struct zr_histogram *h, const char *title, const char *unit)
{
	char low[ZR_NUMBER_ROOM], high[ZR_NUMBER_ROOM], most[ZR_NUMBER_ROOM];

	zr_number((double)h->low, low);
	zr_number((double)last_of(h, h->bars - 1), high);
	zr_number((double)h->most, most);
	fprintf(f,
		"<figure class=\"histogram\"><figcaption>%s <small>at most %s in a bar</small>"
		"</figcaption>\n<svg viewBox=\"0 0 %d 100\" preserveAspectRatio=\"none\" "
		"role=\"img\" aria-label=\"%s\">",
		title, most, h->bars * 10, title);
	for (int i = 0; i < h->bars; i++) {
		const double high_as = h->most ? 100.0 * (double)h->count[i] / (double)h->most : 0;
		if (!h->count[i])
			continue;
		fprintf(f,
			"<rect x=\"%d\" y=\"%.2f\" width=\"9\" height=\"%.2f\"><title>%lld to %lld "
			"%s: %lld</title></rect>",
			i * 10, 100 - high_as, high_as, (long long)(h->low + i * h->width),
			(long long)last_of(h, i), unit, (long long)h->count[i]);
	}

	fprintf(f,
		"</svg>\n<p class=\"ends\"><span>%s</span><span>%s</span><span>%s</span></p>"
		"</figure>\n",
		low, unit, high);
}

void zr_histogram_print(FILE *f, const struct zr_histogram *h, int columns)
{
	const int room = columns > 40 ? columns - 36 : 4;

	for (int i = 0; i < h->bars; i++) {
		const int64_t signs = h->most ? h->count[i] * room / h->most : 0;
		fprintf(f, "  %9lld - %-9lld %8lld ", (long long)(h->low + i * h->width),
			(long long)last_of(h, i), (long long)h->count[i]);
		for (int64_t k = 0; k < signs || (!k && h->count[i]); k++)
			putc('#', f);
		putc('\n', f);
	}
}
