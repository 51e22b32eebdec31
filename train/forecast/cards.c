/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.c - see source.h: what the makers' data sheets say, and what training reaches of it: a rate
 * is peak * share, where the shares are what our kernels were measured to reach on a card of the
 * same family, or else of another one. Small products fall off as their size does (`fill`).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "train/forecast/source.h"

#define GB  1e9
#define GIB 1073741824.0
#define T   1e12

/* Dense products per second with sums in fp32: E4M3, 16-bit types, and fp32 without tensor cores.
 * The first name that a device's contains counts. */
static const struct card {
	const char *name, *family;
	double eighth; /* operations per second of numbers of 8 bits, 0: it multiplies none */
	double half, single;
	double memory; /* bytes */
	double stream; /* bytes per second of its memory */
	double link;   /* bytes per second to the cards beside it, one way */
	double host;   /* bytes per second to host memory, one way */
} cards[] = {
	{ "B200", "Blackwell", 4500 * T, 2250 * T, 80 * T, 180 * GIB, 8000 * GB, 900 * GB,
	  63 * GB },
	{ "GH200", "Hopper", 1979 * T, 989 * T, 67 * T, 96 * GIB, 4000 * GB, 450 * GB, 450 * GB },
	{ "H200", "Hopper", 1979 * T, 989 * T, 67 * T, 141 * GIB, 4800 * GB, 450 * GB, 63 * GB },
	{ "H100 PCIe", "Hopper", 1513 * T, 756 * T, 51 * T, 80 * GIB, 2000 * GB, 63 * GB, 63 * GB },
	/* what torchtitan measures on: 500 W, and a peak between those of NVL and SXM */
	{ "H100 HBM2e", "Hopper", 1671 * T, 835 * T, 60 * T, 96 * GIB, 2400 * GB, 450 * GB,
	  63 * GB },
	{ "H100 NVL", "Hopper", 1671 * T, 835 * T, 60 * T, 94 * GIB, 3900 * GB, 300 * GB, 63 * GB },
	{ "H100", "Hopper", 1979 * T, 989 * T, 67 * T, 80 * GIB, 3350 * GB, 450 * GB, 63 * GB },
	{ "A100", "Ampere", 0, 312 * T, 19.5 * T, 80 * GIB, 2039 * GB, 300 * GB, 31.5 * GB },
	{ "L40S", "Ada", 733 * T, 362 * T, 91.6 * T, 48 * GIB, 864 * GB, 31.5 * GB, 31.5 * GB },
	{ "L40", "Ada", 362 * T, 181 * T, 90.5 * T, 48 * GIB, 864 * GB, 31.5 * GB, 31.5 * GB },
	{ "L4", "Ada", 242 * T, 121 * T, 30.3 * T, 24 * GIB, 300 * GB, 31.5 * GB, 31.5 * GB },
	{ "A40", "Ampere", 0, 149.7 * T, 37.4 * T, 48 * GIB, 696 * GB, 56 * GB, 31.5 * GB },
	{ "A10G", "Ampere", 0, 70 * T, 31.5 * T, 24 * GIB, 600 * GB, 31.5 * GB, 31.5 * GB },
	{ "A10", "Ampere", 0, 125 * T, 31.2 * T, 24 * GIB, 600 * GB, 31.5 * GB, 31.5 * GB },
	{ "A30", "Ampere", 0, 165 * T, 10.3 * T, 24 * GIB, 933 * GB, 100 * GB, 31.5 * GB },
	{ "RTX 6000 Ada", "Ada", 728 * T, 364 * T, 91.1 * T, 48 * GIB, 960 * GB, 31.5 * GB,
	  31.5 * GB },
	{ "RTX A6000", "Ampere", 0, 154.8 * T, 38.7 * T, 48 * GIB, 768 * GB, 56 * GB, 31.5 * GB },
	{ "RTX 5090", "Blackwell", 419 * T, 209.5 * T, 104.8 * T, 32 * GIB, 1792 * GB, 63 * GB,
	  63 * GB },
	{ "RTX 4090", "Ada", 330 * T, 165.2 * T, 82.6 * T, 24 * GIB, 1008 * GB, 31.5 * GB,
	  31.5 * GB },
	{ "RTX 3090", "Ampere", 0, 71 * T, 35.6 * T, 24 * GIB, 936 * GB, 56 * GB, 31.5 * GB },
	{ "V100", "Volta", 0, 125 * T, 15.7 * T, 32 * GIB, 900 * GB, 150 * GB, 15.75 * GB },
	{ "T4", "Turing", 0, 65 * T, 8.1 * T, 16 * GIB, 320 * GB, 15.75 * GB, 15.75 * GB },
};

/* Shares that were measured. Operations that are bound by memory: of its bytes per second, for the
 * arrays that they read and write. */
struct measured {
	const char *card, *family;
	double products, attention, attention_bwd, head_loss; /* of operations per second */
	double stream;                                        /* of bytes per second: a copy */
	double host;                                          /* of the link to host memory */
	double adamw;
	struct {
		const char *name;
		double arrays, share;
	} operation[10];
};

/* H200: bench/results/gpu.txt of November 2026, attention with heads of 64. */
static const struct measured measured[] = {
	{ "H200", "Hopper", .products = 0.69, .attention = 0.24, .attention_bwd = 0.18,
	  .head_loss = 0.55, .stream = 0.87, .host = 0.88, .adamw = 0.82,
	  .operation = { { "layernorm", 2, 0.57 },
			 { "layernorm_bwd", 4, 0.52 },
			 { "rmsnorm", 2, 0.45 },
			 { "rmsnorm_bwd", 4, 0.74 },
			 { "residual", 3, 0.87 },
			 { "bias_bwd", 1, 0.55 },
			 { "gelu_bwd", 4, 0.77 },
			 { "rotary", 2, 0.62 },
			 { "swiglu", 3, 0.65 },
			 { "swiglu_bwd", 6, 0.70 } } },
};

/* Of the peak of 8 bits. None was measured yet: of H200 others reach as much. */
#define EIGHTH_SHARE 0.58

#define NETWORK       400e9 /* bit per second of a network card; there is one for each card */
#define NETWORK_SHARE 0.80  /* that collectives reach of it */
/* Seconds that a collective takes for each further rank of a machine, and each machine. */
#define HOP_LINK    5e-6
#define HOP_NETWORK 15e-6
#define LAUNCH      5e-6      /* seconds of a kernel that has next to nothing to do */
#define HOST_STREAM (80 * GB) /* bytes per second of host memory, of each card */
/* Products per second of the host, of each card: an eighth of two Xeon 8480C at 2 GHz, of whose
 * peaks with AMX and AVX-512, 57 and 1.8 T, a quarter and two thirds are taken to be reached. */
#define HOST_HALF   (14 * T)
#define HOST_SINGLE (1.2 * T)
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

/* Those of the card's family; where none of it was measured, the first ones. */
static const struct measured *measured_for(const struct card *c)
{
	for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
		if (!strcmp(measured[i].family, c->family))
			return &measured[i];

	return &measured[0];
}

struct table {
	struct zr_rates *r;
	const struct card *card;
	const struct measured *share;
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

/* The share of a card that a product with so many results keeps busy. */
static double fill(double rows, double columns)
{
	return rows * columns / (rows * columns + 1024.0 * 1024.0);
}

/* A size at which nothing but the launch of a kernel counts. */
static void launched(struct table *t, const char *name, const char *type, int dims, double a,
		     double b, double c, double work)
{
	char full[ZR_RATE_NAME];
	snprintf(full, sizeof full, "%s.%s", name, type);
	put(t, full, dims, a, b, c, work / LAUNCH);
}

/* Of one way to store its operands. rate: of a large one; beside: bytes of memory that are read and
 * written for each element of both operands, and for each of the result, before and after */
static void product(struct table *t, const char *name, double rate, const double beside[2])
{
	static const double side[] = { 128, 512, 2048, 8192, 32768 };
	const double depth = 2048, stream = t->share->stream * t->card->stream;

	put(t, name, 3, 16, 16, 16, 2.0 * 16 * 16 * 16 / LAUNCH);
	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < 5; j++) {
			const double m = side[i], n = side[j], work = 2 * m * n * depth;
			const double bytes = beside[0] * (m + n) * depth + beside[1] * m * n;
			put(t, name, 3, m, n, depth,
			    work / (work / (rate * fill(m, n)) + bytes / stream));
		}
}

static void products(struct table *t, const char *type, double peak)
{
	static const char *const kind[] = { "nn", "nt", "tn" };
	static const double nothing[2];
	char name[ZR_RATE_NAME];

	for (size_t k = 0; k < 3; k++) {
		snprintf(name, sizeof name, "matmul.%s.%s", type, kind[k]);
		product(t, name, t->share->products * peak, nothing);
	}

	launched(t, "attention", type, 2, 16, 16, 1, 2.0 * 16 * 16 * 16);
	launched(t, "attention_bwd", type, 2, 16, 16, 1, 5.0 * 16 * 16 * 16);
	launched(t, "head_loss", type, 3, 16, 16, 16, 6.0 * 16 * 16 * 16);
	snprintf(name, sizeof name, "attention.%s", type);
	put(t, name, 2, 4096, 64, 1, t->share->attention * peak);
	snprintf(name, sizeof name, "attention_bwd.%s", type);
	put(t, name, 2, 4096, 64, 1, t->share->attention_bwd * peak);
	snprintf(name, sizeof name, "head_loss.%s", type);
	put(t, name, 3, 4096, 4096, 32768, t->share->head_loss * peak);
}

/* Of whatever size: reading the weights is counted beside it. */
static void host_products(struct table *t, const char *type, double rate)
{
	static const char *const kind[] = { "nn", "nt", "tn" };
	char name[ZR_RATE_NAME];

	for (size_t k = 0; k < 3; k++) {
		snprintf(name, sizeof name, "host.matmul.%s.%s", type, kind[k]);
		put(t, name, 3, 1, 1, 1, rate);
		put(t, name, 3, 4096, 4096, 4096, rate);
	}
}

/* So many bytes per second once they are many; a launch before. */
static void stream(struct table *t, const char *name, double rate)
{
	put(t, name, 1, 1, 1, 1, 1 / LAUNCH);
	put(t, name, 1, 10 * LAUNCH * rate, 1, 1, rate);
}

/* In 8 bits: each operand is read twice and its codes are written; except on Hopper a kernel of its
 * own scales the sums. */
static void narrow_products(struct table *t)
{
	const double beside[] = { 5, strcmp(t->card->family, "Hopper") ? 10 : 0 };
	if (t->card->eighth > 0)
		product(t, "matmul.fp8.nn", EIGHTH_SHARE * t->card->eighth, beside);
}

/* Operations that memory bounds, of elements of so many bytes. */
static void operations(struct table *t, const char *type, double bytes)
{
	const size_t n = sizeof t->share->operation / sizeof *t->share->operation;
	char name[ZR_RATE_NAME];

	for (size_t i = 0; i < n && t->share->operation[i].name; i++) {
		snprintf(name, sizeof name, "%s.%s", t->share->operation[i].name, type);
		stream(t, name,
		       t->share->operation[i].share * t->card->stream /
			       (t->share->operation[i].arrays * bytes));
	}
}

void zr_card_by(const char *card, char *out, size_t room)
{
	const struct card *c = find(card);
	const struct measured *m = measured_for(c);

	if (!strcmp(m->card, c->name))
		snprintf(out, room, "the data sheet of %s and what our kernels reached of it",
			 c->name);
	else
		snprintf(out, room,
			 "the data sheet of %s and what our kernels reached of that of %s%s",
			 c->name, m->card,
			 strcmp(m->family, c->family) ? ", of another family" : "");
}

int zr_card_rates(const char *card, struct zr_rates *out, struct zr_error *err)
{
	const struct card *c = find(card);
	struct table t = { .r = out, .card = c, .err = err };
	char known[512] = "";
	size_t used = 0;

	for (size_t i = 0; !c && i < sizeof cards / sizeof *cards; i++)
		used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
					 cards[i].name);
	if (!c)
		return zr_err(err, ZR_EINVAL, "--card %s: not known; known are %s", card, known);

	t.share = measured_for(c);
	*out = (struct zr_rates){ .processors = 1, .memory = (uint64_t)c->memory };
	snprintf(out->cpu, sizeof out->cpu, "%s", c->name);
	products(&t, "bf16", c->half);
	products(&t, "fp32", c->single);
	narrow_products(&t);
	operations(&t, "bf16", 2);
	operations(&t, "fp32", 4);
	stream(&t, "copy", t.share->stream * c->stream / 2);
	stream(&t, "adamw.fp32", t.share->adamw * c->stream / 28);
	stream(&t, "adamw.8bit", t.share->adamw * c->stream / 16);
	stream(&t, "to_device", t.share->host * c->host);
	stream(&t, "from_device", t.share->host * c->host);
	stream(&t, "host.copy", HOST_STREAM / 2);
	stream(&t, "host.adamw.fp32", HOST_STREAM / 28);
	stream(&t, "host.adamw.8bit", HOST_STREAM / 16);
	host_products(&t, "bf16", HOST_HALF);
	host_products(&t, "fp32", HOST_SINGLE);
	put(&t, "disk_read", 1, 1e6, 1, 1, DISK_READ);
	put(&t, "disk_write", 1, 1e6, 1, 1, DISK_WRITE);
	put(&t, "disk_mixed", 1, 1e6, 1, 1, DISK_WRITE);
	put(&t, "link.node", 1, 1, 1, 1, 0.75 * c->link);
	put(&t, "link.world", 1, 1, 1, 1, zr_network_rate(NETWORK));
	put(&t, "hop.node", 1, 1, 1, 1, 1 / HOP_LINK);
	put(&t, "hop.world", 1, 1, 1, 1, 1 / HOP_NETWORK);
	return t.rc;
}
