/* SPDX-License-Identifier: Apache-2.0
 *
 * declares.c - an update whose text declares names in as many ways as there are, and so stands
 * alone: `zeroth plugin check` finds no other name in it.
 */
#include <zeroth/elementwise.h>

struct opts {
	double lr;
};

static const struct zr_opt options[] = { ZR_OPT_LR(struct opts, "1e-3") };

ZR_ELEMENTWISE_WITH_SUMS_AND_RANDOM(
	enum { M, STATES }; enum { LR, UNUSED = 1, CONSTANTS }; enum sums{ P, SUMS };
	typedef float real; struct pair { float a, b; }; typedef struct {
		real low;
		real *high;
	} range;

	static inline struct pair both(real x, const float *of) {
		struct pair q = { x, *of };
		return q;
	}

	static int count(int n) {
		int k = 0, all[2] = { 1, 2 }, *at = all;
		for (int i = 0, j = n; i < j; i++)
			k += i > 1 ? at[1] : at[0];
		while (k > 8)
			k -= sizeof(all) > 4 ? 3 : 1;
		return k;
	}

	static void measure(const float *k, float g, float p, const float *s, double *sum) {
		(void)k, (void)g, (void)s;
		sum[P] = p;
	}

	static void use(float *k, const double *total) { k[UNUSED] = (float)total[P] * 0x1p-3f; }

	static float update(const float *k, float g, float p, float *s, uint32_t random) {
		struct pair q = both(g, &p), *to = &q;
		range r = { .5f, &q.b };
		unsigned long long wide = random;
		enum sums which = P;
		switch (count(3)) {
		case 1:
			to->a = (float)wide;
			break;
		default:
			q.a = which ? 1.e-3f : zr_abs(q.a) + 0 * r.low;
		}
		s[M] = zr_max(q.a, *r.high * zr_uniform(random));
		return p - k[LR] * s[M];
	})

static const struct zr_elementwise_state states[] = { ZR_STATE("m"), ZR_NO_STATE };

static void constants(const struct opts *o, const struct zr_opt_step *s, float *k)
{
	(void)o;
	k[LR] = (float)s->lr;
	k[UNUSED] = 0;
}

ZR_ELEMENTWISE_OPTIMIZER(struct opts, .id = "declares", .version = "1", .license = "Apache-2.0",
			 .summary = "Declares names.");
