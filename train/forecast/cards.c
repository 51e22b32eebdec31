/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.c - see source.h: what the makers' data sheets say, and what training reaches of it. A rate
 * is peak * share: large products 0.50, attention 0.33 forward and 0.25 backward, loss 0.40, memory
 * 0.60, links between cards of a machine 0.75, networks 0.80, copies to the host 0.80. Small
 * products fall off as their size does (`fill`). With these shares the 5,762 tokens/s of a card
 * that torchtitan publishes for Llama 3 8B on 8 H100, part of it computed again, lie between the
 * forecasts with and without recomputation.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "train/forecast/source.h"

#define GB  1e9
#define GIB 1073741824.0
#define T   1e12

/* Dense products per second with sums in fp32: 16-bit types, and fp32 without tensor cores. The
 * first name that a device's contains counts. */
static const struct card {
	const char *name;
	double half, single; /* operations per second */
	double memory;       /* bytes */
	double stream;       /* bytes per second of its memory */
	double link;         /* bytes per second to the cards beside it, one way */
	double host;         /* bytes per second to host memory, one way */
} cards[] = {
	{ "B200", 2250 * T, 80 * T, 180 * GIB, 8000 * GB, 900 * GB, 63 * GB },
	{ "GH200", 989 * T, 67 * T, 96 * GIB, 4000 * GB, 450 * GB, 450 * GB },
	{ "H200", 989 * T, 67 * T, 141 * GIB, 4800 * GB, 450 * GB, 63 * GB },
	{ "H100 PCIe", 756 * T, 51 * T, 80 * GIB, 2000 * GB, 63 * GB, 63 * GB },
	{ "H100 NVL", 835 * T, 60 * T, 94 * GIB, 3900 * GB, 300 * GB, 63 * GB },
	{ "H100", 989 * T, 67 * T, 80 * GIB, 3350 * GB, 450 * GB, 63 * GB },
	{ "A100", 312 * T, 19.5 * T, 80 * GIB, 2039 * GB, 300 * GB, 31.5 * GB },
	{ "L40S", 362 * T, 91.6 * T, 48 * GIB, 864 * GB, 31.5 * GB, 31.5 * GB },
	{ "L40", 181 * T, 90.5 * T, 48 * GIB, 864 * GB, 31.5 * GB, 31.5 * GB },
	{ "L4", 121 * T, 30.3 * T, 24 * GIB, 300 * GB, 31.5 * GB, 31.5 * GB },
	{ "A40", 149.7 * T, 37.4 * T, 48 * GIB, 696 * GB, 56 * GB, 31.5 * GB },
	{ "A10G", 70 * T, 31.5 * T, 24 * GIB, 600 * GB, 31.5 * GB, 31.5 * GB },
	{ "A10", 125 * T, 31.2 * T, 24 * GIB, 600 * GB, 31.5 * GB, 31.5 * GB },
	{ "A30", 165 * T, 10.3 * T, 24 * GIB, 933 * GB, 100 * GB, 31.5 * GB },
	{ "RTX 6000 Ada", 364 * T, 91.1 * T, 48 * GIB, 960 * GB, 31.5 * GB, 31.5 * GB },
	{ "RTX A6000", 154.8 * T, 38.7 * T, 48 * GIB, 768 * GB, 56 * GB, 31.5 * GB },
	{ "RTX 5090", 209.5 * T, 104.8 * T, 32 * GIB, 1792 * GB, 63 * GB, 63 * GB },
	{ "RTX 4090", 165.2 * T, 82.6 * T, 24 * GIB, 1008 * GB, 31.5 * GB, 31.5 * GB },
	{ "RTX 3090", 71 * T, 35.6 * T, 24 * GIB, 936 * GB, 56 * GB, 31.5 * GB },
	{ "V100", 125 * T, 15.7 * T, 32 * GIB, 900 * GB, 150 * GB, 15.75 * GB },
	{ "T4", 65 * T, 8.1 * T, 16 * GIB, 320 * GB, 15.75 * GB, 15.75 * GB },
};

#define NETWORK       400e9 /* bit per second of a network card; there is one for each card */
#define NETWORK_SHARE 0.80  /* that collectives reach of it */
/* Seconds that a collective takes for each further rank of a machine, and each machine. */
#define HOP_LINK    5e-6
#define HOP_NETWORK 15e-6
#define LAUNCH      5e-6      /* seconds of a kernel that has next to nothing to do */
#define HOST_STREAM (80 * GB) /* bytes per second of host memory, of each card */
#define DISK_READ   (6 * GB)
#define DISK_WRITE  (4 * GB)

static const struct card *find(const char *name)
{
	for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
		const char *at = strcasestr(name, cards[i].name);
		if (at && !isalnum((unsigned char)at[strlen(cards[i].name)]))
			return &cards[i];
	}

	return NULL;
}

double zr_card_peak(const char *device, int32_t dtype)
{
	const struct card *c = find(device);
	if (!c)
		return 0;
	return dtype == ZR_F32 ? c->single : c->half;
}

double zr_network_rate(double bits)
{
	return NETWORK_SHARE * bits / 8;
}

uint64_t zr_card_memory(const char *card)
{
	const struct card *c = find(card);
	return c ? (uint64_t)c->memory : 0;
}

struct table {
	struct zr_rates *r;
	int rc;
	struct zr_error *err;
};

static void put(struct table *t, const char *name, int dims, double a, double b, double c,
		double rate)
{
	const double at[ZR_RATE_DIMS] = { a, b, c };
	if (!t->rc)
		t->rc = zr_rates_set(t->r, name, 1, 1, at, dims, rate, t->err);
}

/* The share of a card that a product of so large a side keeps busy. */
static double fill(double side)
{
	return side * side / (side * side + 1024.0 * 1024.0);
}

/* A size at which nothing but the launch of a kernel counts. */
static void launched(struct table *t, const char *name, const char *type, int dims, double a,
		     double b, double c, double work)
{
	char full[ZR_RATE_NAME];
	snprintf(full, sizeof full, "%s.%s", name, type);
	put(t, full, dims, a, b, c, work / LAUNCH);
}

static void products(struct table *t, const char *type, double peak)
{
	static const char *const kind[] = { "nn", "nt", "tn" };
	static const double side[] = { 128, 512, 2048, 8192 };
	char name[ZR_RATE_NAME];

	for (size_t k = 0; k < 3; k++) {
		snprintf(name, sizeof name, "matmul.%s.%s", type, kind[k]);
		put(t, name, 3, 16, 16, 16, 2.0 * 16 * 16 * 16 / LAUNCH);
		for (size_t m = 0; m < 4; m++)
			for (size_t n = 0; n < 4; n++)
				put(t, name, 3, side[m], side[n], 2048,
				    0.50 * peak *
					    (fill(side[m]) < fill(side[n]) ? fill(side[m]) :
									     fill(side[n])));
	}

	launched(t, "attention", type, 2, 16, 16, 1, 2.0 * 16 * 16 * 16);
	launched(t, "attention_bwd", type, 2, 16, 16, 1, 5.0 * 16 * 16 * 16);
	launched(t, "head_loss", type, 3, 16, 16, 16, 6.0 * 16 * 16 * 16);
	snprintf(name, sizeof name, "attention.%s", type);
	put(t, name, 2, 4096, 64, 1, 0.33 * peak);
	snprintf(name, sizeof name, "attention_bwd.%s", type);
	put(t, name, 2, 4096, 64, 1, 0.25 * peak);
	snprintf(name, sizeof name, "head_loss.%s", type);
	put(t, name, 3, 4096, 4096, 32768, 0.40 * peak);
}

/* So many bytes per second once they are many; a launch before. */
static void stream(struct table *t, const char *name, double rate)
{
	put(t, name, 1, 1, 1, 1, 1 / LAUNCH);
	put(t, name, 1, 10 * LAUNCH * rate, 1, 1, rate);
}

int zr_card_rates(const char *card, struct zr_rates *out, struct zr_error *err)
{
	const struct card *c = find(card);
	struct table t = { out, 0, err };
	char known[512] = "";
	size_t used = 0;

	for (size_t i = 0; !c && i < sizeof cards / sizeof *cards; i++)
		used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
					 cards[i].name);
	if (!c)
		return zr_err(err, ZR_EINVAL, "--card %s: not known; known are %s", card, known);

	*out = (struct zr_rates){ .processors = 1, .memory = (uint64_t)c->memory };
	snprintf(out->cpu, sizeof out->cpu, "%s", c->name);
	products(&t, "bf16", c->half);
	products(&t, "fp32", c->single);
	stream(&t, "copy", 0.60 * c->stream / 2);
	stream(&t, "adamw.fp32", 0.60 * c->stream / 28);
	stream(&t, "adamw.8bit", 0.60 * c->stream / 16);
	stream(&t, "to_device", 0.80 * c->host);
	stream(&t, "from_device", 0.80 * c->host);
	stream(&t, "host.copy", HOST_STREAM / 2);
	stream(&t, "host.adamw.fp32", HOST_STREAM / 28);
	stream(&t, "host.adamw.8bit", HOST_STREAM / 16);
	put(&t, "disk_read", 1, 1e6, 1, 1, DISK_READ);
	put(&t, "disk_write", 1, 1e6, 1, 1, DISK_WRITE);
	put(&t, "disk_mixed", 1, 1e6, 1, 1, DISK_WRITE);
	put(&t, "link.node", 1, 1, 1, 1, 0.75 * c->link);
	put(&t, "link.world", 1, 1, 1, 1, zr_network_rate(NETWORK));
	put(&t, "hop.node", 1, 1, 1, 1, 1 / HOP_LINK);
	put(&t, "hop.world", 1, 1, 1, 1, 1 / HOP_NETWORK);
	return t.rc;
}
