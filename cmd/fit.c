/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - the refusal of a plan that exceeds the machine, before anything is allocated.
 */
#include "cmd/fit.h"

#include <stdio.h>

const char *zr_bytes_text(uint64_t bytes, char buf[32])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	int u = 0;
	while (v >= 1024 && u < 6) {
		v /= 1024;
		u++;
	}
	snprintf(buf, 32, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return buf;
}

/* What would help most, by what is largest. */
static void advise(const struct zr_setup *s, char *buf, size_t n)
{
	const struct zr_region *r = s->plan.region;
	uint64_t act = r[ZR_R_ACT].bytes + r[ZR_R_WORK].bytes;
	if (2 * act > s->plan.total && (s->batch.micro > 1 || s->batch.length > 1))
		snprintf(buf, n, "lower [train] micro_batch_size (%lld) or sequence_length (%lld)", (long long)s->batch.micro,
			 (long long)s->batch.length);
	else
		snprintf(buf, n, "choose a smaller [model] or a machine with more memory");
}

int zr_plan_check(const struct zr_setup *s, struct zr_error *err)
{
	uint64_t have = zr_memory_available();
	uint64_t device = s->device_info.memory * (uint64_t)(s->device_info.unified ? s->process.local_world : 1);
	if (device && device < have)
		have = device;
	uint64_t need = s->plan.total * (uint64_t)(s->device_info.unified ? s->process.local_world : 1);
	if (need <= have)
		return 0;
	int largest = 0;
	for (int i = 1; i < ZR_R_COUNT; i++)
		if (s->plan.region[i].bytes > s->plan.region[largest].bytes)
			largest = i;
	char needed[32], part[32], free_[32], what[160];
	advise(s, what, sizeof what);
	return zr_err(err, ZR_EFIT, "does not fit: needs %s of memory (largest: %s %s), %s available; %s",
		      zr_bytes_text(need, needed), s->plan.region[largest].what,
		      zr_bytes_text(s->plan.region[largest].bytes, part), zr_bytes_text(have, free_), what);
}
