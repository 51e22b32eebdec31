/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c - refuses a plan that exceeds the machine, before anything is allocated.
 */
#include "train/fit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t zr_plan_tier(const struct zr_plan *p, int tier)
{
	uint64_t sum = tier == ZR_TIER_HOST ? p->kept : 0;
	for (int i = 0; i < ZR_R_COUNT; i++)
		sum += p->region[i].tier == tier ? p->region[i].added : 0;
	return sum;
}

uint64_t zr_plan_shared(const struct zr_plan *p, int tier)
{
	uint64_t sum = 0;
	for (int i = 0; i < ZR_R_COUNT; i++)
		sum += p->region[i].tier == tier ? p->region[i].bytes - p->region[i].added : 0;
	return sum;
}

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

const char *zr_tier_name(int32_t tier)
{
	if (tier == ZR_TIER_DEVICE)
		return "device";
	return tier == ZR_TIER_HOST ? "host" : "disk";
}

/* What the machine saves in buffers where an update does not run within the next forward. */
static uint64_t saved_by_waiting(const struct zr_setup *s)
{
	const struct zr_staging *g = &s->plan.staging;

	if (!g->early)
		return 0;
	return g->set_bytes * (uint64_t)(g->sets - g->least) *
	       (uint64_t)zr_machine_ranks(&s->facts);
}

/* The advice that helps most, chosen by the largest region of the tier. lack: bytes. */
static void advise(const struct zr_setup *s, int tier, int largest, uint64_t lack, char *buf,
		   size_t n)
{
	const struct zr_region *r = s->plan.region;
	const char *stage = s->roles.zero.section ? s->roles.zero.section->plugin->desc->id : "";
	int on_device = tier == zr_store_tier(&s->facts, ZR_STORE_DEVICE),
	    state = largest == ZR_R_MASTER || largest == ZR_R_STATE || largest == ZR_R_GRAD;

	if (tier == ZR_TIER_HOST && lack <= saved_by_waiting(s))
		snprintf(buf, n, "set [train] update_in_forward = no, which takes fewer buffers");
	else if (r[ZR_R_ACT].tier == tier &&
		 2 * (r[ZR_R_ACT].bytes + r[ZR_R_WORK].bytes) > zr_plan_tier(&s->plan, tier) &&
		 (s->facts.batch.micro > 1 || s->facts.batch.length > 1))
		snprintf(buf, n,
			 "lower [train] micro_batch_size (%lld) or sequence_length (%lld), or "
			 "choose [activation] plugin = recompute",
			 (long long)s->facts.batch.micro, (long long)s->facts.batch.length);
	else if (on_device && s->facts.process.world > 1 &&
		 s->facts.groups[0].state == ZR_GROUP_SELF)
		snprintf(buf, n,
			 "split the state over the %d ranks: [zero] plugin = stage3 instead of %s",
			 s->facts.process.world, stage);
	else if (on_device && state && !zr_offloaded(&s->facts, ZR_STORE_OPTIMIZER))
		snprintf(buf, n, "add [offload.optimizer] with plugin = %snvme",
			 s->facts.device_info.unified ? "" : "cpu or ");
	else if (on_device && s->facts.groups[0].param == ZR_GROUP_SELF)
		snprintf(buf, n,
			 "use [zero] plugin = stage3 with [offload.param], so that only what "
			 "computes is on the device");
	else if (on_device && largest == ZR_R_PARAM && !zr_offloaded(&s->facts, ZR_STORE_PARAM))
		snprintf(buf, n, "add [offload.param] with plugin = %snvme",
			 s->facts.device_info.unified ? "" : "cpu or ");
	else if (largest == ZR_R_GATHER || largest == ZR_R_BOUNCE)
		snprintf(buf, n,
			 "gather less ahead: lower [zero] prefetch_bucket_size and "
			 "max_live_parameters");
	else if (r[largest].store > ZR_STORE_HOST && tier == ZR_TIER_HOST)
		snprintf(buf, n, "use plugin = nvme instead of cpu in the sections [offload.*]");
	else if (tier == ZR_TIER_HOST && zr_machine_ranks(&s->facts) > 1)
		snprintf(buf, n, "run fewer ranks here, or choose a machine with more memory");
	else
		snprintf(buf, n, "choose a smaller [model] or a machine with more %s",
			 tier == ZR_TIER_DISK ? "disk" : "memory");
}

/* played: memory of a device that the processor simulates counts as well. */
static int refuse(const struct zr_setup *s, int tier, int played, uint64_t need, uint64_t have,
		  struct zr_error *err)
{
	char needed[32], part[32], free_[32], what[160];
	const struct zr_region *r = s->plan.region;
	int largest = -1;

	for (int i = 0; i < ZR_R_COUNT; i++)
		if ((r[i].tier == tier || (played && r[i].tier == ZR_TIER_DEVICE)) &&
		    (largest < 0 || r[i].bytes > r[largest].bytes))
			largest = i;
	advise(s, tier, largest, need - have, what, sizeof what);
	const struct zr_memory_opts *limit = zr_config_find(s->cfg, "memory")->opts;
	const char *given = "", *of = "memory";
	if (tier == ZR_TIER_HOST && have == limit->host)
		given = " by [memory] host";
	else if (tier == ZR_TIER_DISK && have == limit->disk)
		given = " by [memory] disk";

	if (tier == ZR_TIER_DEVICE)
		of = "device memory";
	else if (tier == ZR_TIER_DISK)
		of = "disk space";
	return zr_err(err, ZR_EFIT,
		      "does not fit: needs %s of %s%s (largest: %s %s), %s available%s; %s%s",
		      zr_bytes_text(need, needed), of,
		      s->facts.process.world > 1 && tier == ZR_TIER_HOST ? " for all ranks here" :
									   "",
		      r[largest].what, zr_bytes_text(r[largest].bytes, part),
		      zr_bytes_text(have, free_), given, *given ? "raise that, or " : "", what);
}

uint64_t zr_memory_at_start(void)
{
	static uint64_t have;
	if (!have)
		have = zr_memory_available();
	return have;
}

/* Device memory of the cpu plugin is memory of the machine. */
uint64_t zr_plan_need(const struct zr_setup *s)
{
	uint64_t rank = zr_plan_tier(&s->plan, ZR_TIER_HOST);

	if (s->facts.device_info.host_ops)
		rank += zr_plan_tier(&s->plan, ZR_TIER_DEVICE);
	for (int i = 0; i < s->account.n; i++)
		rank += s->account.line[i].tier == ZR_TIER_HOST ? s->account.line[i].held : 0;
	return rank * (uint64_t)zr_machine_ranks(&s->facts);
}

/* Compares each rank with its limits, and all ranks of this machine with its memory. */
int zr_plan_check(const struct zr_setup *s, uint64_t machine, struct zr_error *err)
{
	const struct zr_memory_opts *limit = zr_config_find(s->cfg, "memory")->opts;
	uint64_t host = zr_plan_tier(&s->plan, ZR_TIER_HOST),
		 device = zr_plan_tier(&s->plan, ZR_TIER_DEVICE);
	uint64_t disk = zr_plan_tier(&s->plan, ZR_TIER_DISK),
		 have = machine ? machine : zr_memory_at_start();
	uint64_t all = zr_plan_need(s);

	if (!s->facts.device_info.unified && device > s->facts.device_info.memory)
		return refuse(s, ZR_TIER_DEVICE, 0, device, s->facts.device_info.memory, err);
	if (host > limit->host)
		return refuse(s, ZR_TIER_HOST, 0, host, limit->host, err);
	if (disk > limit->disk)
		return refuse(s, ZR_TIER_DISK, 0, disk, limit->disk, err);

	/* Device memory of the cpu plugin lies there too. */
	return all > have ? refuse(s, ZR_TIER_HOST, s->facts.device_info.host_ops, all, have, err) :
			    0;
}

uint64_t zr_process_memory(void)
{
	char buf[128];

	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;

	ssize_t n = read(fd, buf, sizeof buf - 1);
	close(fd);
	if (n <= 0)
		return 0;

	buf[n] = 0;
	char *second = strchr(buf, ' ');
	if (second)
		return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
