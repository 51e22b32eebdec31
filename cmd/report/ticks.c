/* SPDX-License-Identifier: Apache-2.0
 *
 * ticks.c - see chart.h: where the ticks of an axis are, and their texts.
 */
#include <math.h>

#include "cmd/report/chart.h"
#include "cmd/report/html.h"

/* The least of 1, 2, 5, 10 times a power of ten that is not below v. */
static double round_up(double v)
{
	const double power = pow(10, floor(log10(v)));
	const double m = v / power;
	if (m <= 1.0001)
		return power;
	if (m <= 2.0001)
		return power * 2;
	return power * (m <= 5.0001 ? 5 : 10);
}

int zr_ticks(double low, double high, enum zr_chart_unit unit, int powers, double tick[8])
{
	int n = 0;

	if (powers) {
		const int from = (int)ceil(log10(low) - 1e-9), to = (int)floor(log10(high) + 1e-9);
		const int every = (to - from) / 6 + 1;
		for (int e = from; e <= to && n < 8; e += every)
			tick[n++] = pow(10, e);
		if (n > 1)
			return n;
	}

	const double each = round_up((high - low) / 5);
	n = 0;
	if (unit == ZR_CHART_BYTES && high >= 2048) {
		const double power = pow(1024, floor(log(high) / log(1024)));
		n = zr_ticks(low / power, high / power, ZR_CHART_NUMBER, 0, tick);
		for (int i = 0; i < n; i++)
			tick[i] *= power;
		return n;
	}

	if (!(high > low) || !isfinite(each) || each <= 0) {
		tick[0] = low;
		return 1;
	}

	for (double k = ceil(low / each - 1e-9); k * each <= high + each * 1e-9 && n < 8; k++)
		tick[n++] = k * each + 0.0; /* no -0 */
	return n;
}

char *zr_tick_text(double v, enum zr_chart_unit unit, char text[48])
{
	static const char *const suffix[] = { "", "k", "M", "G", "T" };
	int s = 0;

	if (unit == ZR_CHART_BYTES)
		return zr_number_bytes(v, text);
	if (unit == ZR_CHART_SECONDS)
		return zr_number_seconds(v, text);
	if (unit == ZR_CHART_PERCENT) {
		snprintf(text, 48, "%.3g%%", v * 100);
		return text;
	}

	if (fabs(v) >= 1e4)
		for (; fabs(v) >= 1000 && s < 4; s++)
			v /= 1000;
	snprintf(text, 48, "%.4g%s", v, suffix[s]);
	return text;
}
