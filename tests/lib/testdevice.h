/* SPDX-License-Identifier: Apache-2.0
 *
 * testdevice.h - a device under test, its variants, and typed memory with guards around it.
 * ZR_TEST_DEVICE=ID names another than device/cpu: it has one variant, and memory that operations
 * and copies alone can touch.
 */
#ifndef ZR_TESTDEVICE_H
#define ZR_TESTDEVICE_H

#include "half.h"
#include "testhost.h"

#include <zeroth/device.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices ---- */

struct dev {
	struct zr_host *h;
	const struct zr_desc *desc;
	const struct zr_device_v1 *v;
	struct zr_inst *inst;
	const struct zr_ops *ops;
	void *opts;
};

static inline const char *dev_id(void)
{
	const char *id = getenv("ZR_TEST_DEVICE");
	return id && *id ? id : "cpu";
}

static inline int dev_is_cpu(void)
{
	return !strcmp(dev_id(), "cpu");
}

/* ZR_TEST_OPTION is one more option of the device, as attention=hopper. */
static inline void dev_set_option(struct dev *d)
{
	static char option[64];
	const char *given = getenv("ZR_TEST_OPTION");
	char *value;
	if (!given || !*given)
		return;

	snprintf(option, sizeof option, "%s", given);
	value = strchr(option, '=');
	if (!value)
		abort();
	*value++ = 0;
	if (test_set(d->desc, d->opts, option, value))
		abort();
}

/* Options of device/cpu; of another its memory, and no variant but the first. */
static inline int dev_set(struct dev *d, const char *isa, const char *memory)
{
	if (!dev_is_cpu() && strcmp(isa, "auto") && strcmp(isa, "scalar"))
		return ZR_ENOTSUP;
	if (dev_is_cpu() && test_set(d->desc, d->opts, "isa", isa))
		abort();
	if (test_set(d->desc, d->opts, "memory", memory))
		abort();
	dev_set_option(d);
	return 0;
}

/* The code of create or of what came before it; close it either way. memory: the option. apart:
 * not of device/cpu, but of the double of cards. */
static inline int dev_open_memory(struct dev *d, int workers, const char *isa, const char *memory,
				  int apart)
{
	char name[64];
	int rc;
	memset(d, 0, sizeof *d);
	d->h = test_host(workers);
	snprintf(name, sizeof name, "device/%s", dev_id());
	d->desc = apart && dev_is_cpu() ? test_plugin_cards() : test_plugin(name);
	d->v = test_iface(d->desc, "zr.device/1");
	d->opts = test_options(d->desc);
	rc = dev_set(d, isa, memory);
	if (rc)
		return rc;
	rc = test_create(d->h, d->desc, d->opts, &d->inst);
	if (!rc)
		d->ops = d->v->ops(d->inst);
	return rc;
}

static inline int dev_open(struct dev *d, int workers, const char *isa)
{
	return dev_open_memory(d, workers, isa, "auto", 0);
}

static inline void dev_close(struct dev *d)
{
	if (d->inst)
		d->desc->destroy(d->inst);
	free(d->opts);
	test_host_free(d->h);
}

static const char *const dev_isas[] = { "scalar", "avx2", "avx512", "avx512bf16", "amx" };
#define DEV_VARIANTS 5

/* Variant i, or a refusal (a processor without it). The first one is always there. */
static inline int dev_open_variant(struct dev *d, int workers, int i)
{
	return dev_open(d, workers, dev_isas[i]);
}

/* ---- values ---- */

static inline double rnd(uint64_t *seed) /* [-1, 1) */
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(int32_t)(*seed >> 32) * 0x1p-31;
}

static inline size_t width_of(int32_t dtype)
{
	return dtype == ZR_BF16 || dtype == ZR_F16 ? 2 : dtype == ZR_F64 ? 8 : 4;
}

static inline uint16_t to_bf16(double x) /* half away from zero; of a float */
{
	float f = (float)x;
	uint32_t u;
	memcpy(&u, &f, 4);
	return (uint16_t)(f != f ? 0x7fc0 : (u + 0x8000) >> 16);
}

static inline double get(const void *p, int32_t dtype, int64_t i)
{
	uint32_t u;
	float f;
	if (dtype == ZR_F32)
		return (double)((const float *)p)[i];
	if (dtype == ZR_F16)
		return half_value(((const uint16_t *)p)[i]);
	u = (uint32_t)((const uint16_t *)p)[i] << 16;
	memcpy(&f, &u, 4);
	return (double)f;
}

static inline void put(void *p, int32_t dtype, int64_t i, double x)
{
	if (dtype == ZR_F32)
		((float *)p)[i] = (float)x;
	else
		((uint16_t *)p)[i] = dtype == ZR_F16 ? half_of((float)x) : to_bf16(x);
}

/* ---- memory with guards
 * ---------------------------------------------------------------------------- n elements of NaN
 * between two guards; 64-byte aligned, or one element off it. */
#define GUARD 256

struct buf {
	char *room, *p;
	int64_t n;
	int32_t dtype;
};

static inline struct buf buf_new(int64_t n, int32_t dtype, int off)
{
	struct buf b = { NULL, NULL, n, dtype };
	size_t bytes = (size_t)n * width_of(dtype), i;
	b.room = aligned_alloc(64, (bytes + 2 * GUARD + 128) / 64 * 64);
	if (!b.room)
		abort();
	memset(b.room, 0xa5, (bytes + 2 * GUARD + 128) / 64 * 64);
	b.p = b.room + GUARD + (off ? width_of(dtype) : 0);
	for (i = 0; i < bytes; i++)
		b.p[i] = (char)0xff; /* a NaN in every float type */
	return b;
}

static inline struct buf buf_random(int64_t n, int32_t dtype, uint64_t seed, double scale)
{
	struct buf b = buf_new(n, dtype, 0);
	int64_t i;
	for (i = 0; i < n; i++)
		put(b.p, dtype, i, rnd(&seed) * scale);
	return b;
}

static inline struct buf buf_copy(const struct buf *from)
{
	struct buf b = buf_new(from->n, from->dtype, 0);
	memcpy(b.p, from->p, (size_t)from->n * width_of(from->dtype));
	return b;
}

static inline int buf_same(const struct buf *a, const struct buf *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, (size_t)a->n * width_of(a->dtype));
}

static inline int buf_guarded(const struct buf *b) /* true if nothing around it was written */
{
	const char *at;
	const char *end = b->p + (size_t)b->n * width_of(b->dtype);
	for (at = b->room; at < b->p; at++)
		if (*at != (char)0xa5)
			return 0;
	for (at = end; at < end + GUARD / 2; at++)
		if (*at != (char)0xa5)
			return 0;
	return 1;
}

static inline void buf_free(struct buf *b)
{
	free(b->room);
	memset(b, 0, sizeof *b);
}

#endif
